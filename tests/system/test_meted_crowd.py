#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One tenant cannot slow, fill or confuse another, however much it does at once."""
import os
import re
import select
import sys
import tempfile

from meted import *


def test_two_thousand_waiting_requests_of_one_tenant_leave_its_neighbour_a_place():
    with Daemon() as meted:
        admin = Admin(meted.place)
        full, hostile, made = [admin.tenant("4GiB", wait="1h") for _ in range(3)]
        holder = Guest(full.socket)
        holder.credit(4 * GIB)
        holder.allocated(4 * GIB)
        crowd = [Guest(hostile.socket) for _ in range(33)]
        for guest in crowd:
            for _ in range(64):
                guest.send("credit_ask", device=0, wait=1, bytes=MIB, want=MIB)
        # 512 of them wait; the others are told.
        assert (told := crowd[-1].receive()).kind == "refused", told
        until(lambda: admin.tenant_row(hostile.tenant).waiting == 512)
        guest = Guest(made.socket)
        ids = [guest.send("credit_ask", device=0, wait=1, bytes=MIB, want=MIB) for _ in range(64)]
        # A guest that sends so much in a row is served late.
        until(lambda: admin.tenant_row(made.tenant).waiting == 64)
        for guest_of_crowd in crowd:
            guest_of_crowd.close()
        holder.allocated(3 * GIB)
        holder.give_back(GIB)
        assert all(guest.answer(id).kind == "credit_grant" for id in ids)


def test_a_devices_room_is_shown_to_all_of_its_tenants():
    with Daemon() as meted:
        admins = [Admin(meted.place) for _ in range(2)]
        guests = [Guest(admins[i // 50].tenant("4GiB").socket) for i in range(100)]
        guests[0].credit(GIB)
        for guest in guests:
            while (shown := guest.shown())["room"] != 3 * GIB or shown["rivals"] != 99:
                admins[0].list(1)  # those that were not told at once are told soon
            # Others may have the places that the first one does not use: but to itself they are its own.
            assert shown["lent_mib"] == (0 if guest is guests[0] else 1024)


def test_a_thousand_tenants_come_back_with_their_last_share_and_ended_ones_do_not():
    with Daemon("--log-level", "warning") as meted:
        admins = [Admin(meted.place) for _ in range(16)]
        made = [admins[i // 64].tenant(f"{i + 100}MiB", name=f"number {i}") for i in range(1024)]
        try:
            Admin(meted.place).tenant("1GiB")
            raise AssertionError("one more than there may be")
        except Refused as refusal:
            assert refusal.code == VALUE
        admins.pop().close()  # the last 64 tenants end with the processes that kept them
        for i in range(0, 960, 3):
            admins[0].set(made[i].tenant, "memory", "2GiB")
        while len([row for row in admins[0].list() if row.kind == "tenant_row"]) != 960:
            pass
        meted.kill()
        meted.start()
        rows = {row.name: row.limit for row in Admin(meted.place).list() if row.kind == "tenant_row"}
        assert rows == {f"number {i}": 2 * GIB if i % 3 == 0 else (i + 100) * MIB for i in range(960)}


def slots_for_files(process):
    return int(next(line for line in open(f"/proc/{process.pid}/status") if line.startswith("FDSize:")).split()[1])


def test_a_crowd_does_not_make_the_table_of_descriptors_grow():
    """Each time that it does, meted serves nobody until all processors have passed by."""
    with Daemon() as meted:
        was = slots_for_files(meted.process)
        admins = [Admin(meted.place) for _ in range(4)]
        for number in range(200):
            admins[number % 4].tenant("100MiB", name=f"number {number}")
        assert len(os.listdir(f"/proc/{meted.process.pid}/fd")) > 400
        assert slots_for_files(meted.process) == was


def says_hello(guest):
    """False: it was told that there is no room, perhaps before it had said anything."""
    try:
        return guest.ask("hello", major=1).kind == "welcome"
    except (Gone, Refused, OSError):
        return False


def is_welcome(path):
    return says_hello(Guest(path, hello=False))


def test_a_user_that_takes_all_descriptors_is_told_and_the_admin_socket_is_still_answered():
    with Daemon(wrap=("prlimit", "--nofile=80:80")) as meted:
        admin = Admin(meted.place)
        made = [admin.tenant("1GiB") for _ in range(4)]
        knocking = [Connection(made[i % 4].socket) for i in range(80)]
        # A guest that is let in hears nothing before it has sent something; one that is not is told at once.
        ready, _, _ = select.select([one.socket for one in knocking], [], [], PATIENCE)
        told = next(one for one in knocking if one.socket in ready).receive()
        assert (told.kind, told.code) == ("refused", FULL) and "descriptors" in told.reason, told
        let_in = []

        def is_refused():
            """False: a descriptor was free after all. meted itself has some for moments, to read a file."""
            one = Guest(made[0].socket, hello=False)
            try:
                assert one.ask("hello", major=1).kind == "welcome"
                let_in.append(one)
            except Refused as refusal:  # in a sentence, whatever it has sent by then
                assert refusal.code == FULL and "descriptors" in str(refusal), refusal
                return True
            return False

        for _ in range(3):  # nobody is kept waiting, and an admin is not in need
            until(is_refused)
        others = [Admin(meted.place) for _ in range(5)]
        assert others[-1].tenant_row(made[0].tenant).guests == len(let_in)
        # It does not spin: it sleeps while its listeners rest.
        until(lambda: "\nState:\tS" in open(f"/proc/{meted.process.pid}/status").read(), "it never sleeps")
        for one in knocking + let_in:
            one.close()
        until(lambda: is_welcome(made[0].socket), "nobody is let in although there is room again")


def test_guests_that_say_hello_at_once_leave_the_admin_socket_its_descriptors():
    """A connection has two descriptors of meted's, and a guest a third one."""
    with Daemon(wrap=("prlimit", "--nofile=200:200")) as meted:
        admin = Admin(meted.place)
        made = [admin.tenant("1GiB") for _ in range(2)]
        silent = [Guest(made[i % 2].socket, hello=False) for i in range(80)]
        joined = sum(map(says_hello, silent))
        others = [Admin(meted.place) for _ in range(5)]
        assert sum(others[-1].tenant_row(one.tenant).guests for one in made) == joined > 0


def test_silent_connections_of_a_tenant_are_a_few():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made, other = admin.tenant("1GiB"), admin.tenant("1GiB")
        silent = [Connection(made.socket) for _ in range(64)]
        one = Connection(made.socket)
        try:
            one.ask("hello", major=1)
            raise AssertionError("welcome")
        except Refused as refusal:
            assert refusal.code == FULL and "HELLO" in str(refusal)
        assert Guest(other.socket).credit(MIB) == MIB
        # A connection that says HELLO at last is heard.
        assert silent[0].ask("hello", major=1).kind == "welcome"
        assert Guest(made.socket).credit(MIB) == MIB


def memory_mib(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{pid}/status").read()).group(1)) / 1024


# A sanitizer keeps what is freed.
INSTRUMENTED = any(mark in open(sys.argv[1], "rb").read() for mark in (b"__asan_init", b"__tsan_init"))


def test_answers_that_nobody_reads_are_bounded_and_their_memory_comes_back():
    with Daemon() as meted:
        admin = Admin(meted.place)
        hostile, made = admin.tenant("1GiB"), admin.tenant("1GiB")
        neighbour = Guest(made.socket)
        crowd = [Guest(hostile.socket) for _ in range(64)]
        for guest in crowd:
            guest.credit(4096)
            guest.allocated(4096)
            guest.socket.setblocking(False)
        before, most = memory_mib(meted.process.pid), 0
        while "does not read its messages" not in meted.log():
            for guest in crowd:
                try:
                    for _ in range(30):
                        guest.send("processes_ask", device=0)  # 65 answers each
                except (BlockingIOError, Gone):
                    pass
            assert neighbour.credit(MIB) == MIB
            neighbour.give_back(MIB)
            most = max(most, memory_mib(meted.process.pid))
        assert INSTRUMENTED or most < before + 16, (before, most)
        for guest in crowd:
            guest.close()
        while not INSTRUMENTED and memory_mib(meted.process.pid) > before * 1.1:
            neighbour.credit(4096)  # it is given back within a second


def test_programs_that_come_and_go_do_not_fill_the_log():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")
        seat = Seat()
        for _ in range(400):
            Guest(made.socket, seat=seat).hang_up()
        while "log.left_out event=guest.joined" not in meted.log():
            admin.list()  # it is said within a second
        assert meted.log().count(" guest.joined ") < 300


def test_the_log_of_a_running_daemon_is_bounded():
    place = tempfile.mkdtemp(prefix="mete-")
    log = place + "/meted.log"
    with open(log, "w") as file:
        file.write("x" * 99 + "\n" * 1)
        file.write(("y" * 99 + "\n") * 10600)  # more than 1 MiB
    meted = Daemon.__new__(Daemon)
    meted.place, meted.options, meted.wrap, meted.role = place, (), (), "--user"
    meted.environment, meted.log_path = dict(os.environ), log
    meted.start()
    with meted:
        Admin(place).tenant("1GiB")
        assert os.path.getsize(log + ".1") > 1 << 20 and os.path.getsize(log) < 10000
        assert "tenant.made" in meted.log()


if __name__ == "__main__":
    run(globals())
