# SPDX-License-Identifier: Apache-2.0
"""Other users of the machine, with tenants of theirs: for tests of what each sees on the page. Only root can play them."""
from meted import *

NOBODY, OTHER = 65534, 4711


def as_others(uid, action):
    """Its result there: a text."""
    read, write = os.pipe()

    def act():
        os.write(write, action().encode())
        return 0

    assert as_user(uid, lambda: act()) == 0
    os.close(write)
    with open(read, "rb") as file:
        return file.read().decode()


def tenant_of(meted, uid, name, memory="1GiB", asks=0, refused=0):
    """A tenant that lives as long as this test: its owner's connection stays open in a process of his. `asks`: so much memory it waits for; so much was refused to it."""
    mine, its = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        try:
            mine.close()  # or it would outlive a test that fails
            become(uid)
            admin = Admin(meted.place)
            made = admin.ask("tenant_new", name=name, memory=memory, **({"wait": "3600s"} if asks else {}))
            if asks:
                guest = Guest(made.socket, program=name)
                guest.send("credit_ask", device=0, wait=3600 * 1000, bytes=asks, want=asks)
            if refused:
                Guest(made.socket, program=name).refused(refused)
            its.send(b"y")
            its.recv(1)
        finally:
            os._exit(0)
    its.close()
    assert mine.recv(1) == b"y"
    return mine, pid


def end_of(held):
    mine, pid = held
    mine.send(b"x")
    os.waitpid(pid, 0)
    mine.close()
