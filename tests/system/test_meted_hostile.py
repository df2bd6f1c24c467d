#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attempts of a guest, which hurt neither meted nor a neighbour."""
import ctypes
import fcntl
import os
import random
import select
import signal
import socket
import tempfile

import linger
from meted import *

F_ADD_SEALS, F_GET_SEALS = 1033, 1034
SEAL_SEAL, SEAL_SHRINK, SEAL_GROW, SEAL_WRITE, SEAL_FUTURE_WRITE = 1, 2, 4, 8, 16


class Neighbour:
    """Another tenant at work: it must not notice anything."""

    def __init__(self, meted):
        self.admin = Admin(meted.place)
        self.made = self.admin.tenant("1GiB", name="neighbour")
        self.guest = Guest(self.made.socket)
        self.guest.credit(100 * MIB)
        self.guest.allocated(100 * MIB)

    def check(self):
        assert self.guest.credit(MIB) == MIB
        self.guest.give_back(MIB)
        row = self.admin.tenant_row(self.made.tenant)
        assert (row.allocated, row.guests) == (100 * MIB, 1), row


def expect_gone(connection):
    try:
        while True:
            connection.receive()
    except Gone:
        pass


def test_garbage_closes_the_connection_with_a_message_in_the_log():
    generator = random.Random(int(os.environ.get("METE_SEED", "1")))
    with Daemon() as meted:
        neighbour = Neighbour(meted)
        made = neighbour.admin.tenant("1GiB", name="hostile")
        frames = [b"x", b"GET / HTTP/1.1\r\n\r\n", bytes(4096), bytes(5000), struct.pack("<IHHII", MAGIC, 8, 0, 1, 0)]
        frames += [bytes(generator.randrange(256) for _ in range(generator.randrange(1, 300))) for _ in range(100)]
        # Right in the beginning, with a length that lies.
        frames += [struct.pack("<IHHII", MAGIC, generator.choice([1, 4, 8, 10, 12]), 16 + n, 1, 0) + bytes(n) for n in range(6)]
        for frame in frames:
            guest = Guest(made.socket)
            guest.credit(MIB)
            guest.socket.send(frame)
            expect_gone(guest)
            guest.close()
        neighbour.check()
        assert neighbour.admin.tenant_row(made.tenant).credit == 0, "what it held was returned"
        assert "sent something that is not a message of this protocol" in meted.log()
        assert meted.log().count("guest.closed") < 80, "complaints do not fill the log"


def test_a_daemon_of_no_containers_hands_out_no_driver():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")
        for library in (0, 1, 2, 2**32 - 1):
            try:
                Guest(made.socket, hello=False).ask("driver_ask", library=library)
                raise AssertionError(library)
            except Refused as refused:
                assert "hands out no such library" in str(refused), refused
        assert Guest(made.socket).credit(MIB) == MIB


def test_no_message_is_taken_before_hello_or_twice_or_for_others():
    with Daemon() as meted:
        neighbour = Neighbour(meted)
        made = neighbour.admin.tenant("1GiB")
        guest = Guest(made.socket, hello=False)
        guest.send("credit_ask", device=0, bytes=1, want=1)
        assert guest.receive().kind == "refused"
        expect_gone(guest)
        guest = Guest(made.socket)
        guest.send("hello", major=1, pid=1, driver_version=1, program="again")
        assert guest.receive().kind == "refused"
        expect_gone(guest)
        # Words of the CLI and of the daemon, on a guest's socket.
        for word in ("admin_hello", "tenant_set", "gate_set", "shutdown", "list", "welcome", "credit_grant", "done"):
            guest = Guest(made.socket)
            guest.send(word)
            assert guest.receive().kind == "refused"
            expect_gone(guest)
        # A guest's words on the admin socket are refused.
        admin = Admin(meted.place)
        for word in ("hello", "credit_ask", "drained"):
            try:
                admin.ask(word)
                raise AssertionError(word)
            except Refused as refusal:
                assert refusal.code == BAD
        neighbour.check()


def test_forged_ids_and_numbers_hurt_nobody():
    with Daemon() as meted:
        neighbour = Neighbour(meted)
        made = neighbour.admin.tenant("1GiB")
        guest = Guest(made.socket)
        for device in (1, 15, 16, 0xFFFFFFFF):
            for word in ("credit_ask", "residual_ask", "inventory", "processes_ask"):
                try:
                    guest.ask(word, device=device)
                    raise AssertionError(word)
                except Refused as refusal:
                    assert refusal.code == UNKNOWN
            guest.send("drained", device=device, epoch=1)
            guest.give_back(1 << 63, device=0, recall=77)
        for bytes in (0, 1 << 63, (1 << 64) - 1):
            assert guest.refused(bytes) in (BAD, LIMIT)
        guest.allocated((1 << 64) - 1, credit=(1 << 64) - 1)  # scribbles over its own page
        guest.own[:] = b"\xff" * PAGE
        assert guest.credit(MIB) == MIB
        assert neighbour.admin.tenant_row(made.tenant).allocated <= MIB
        # An unknown code is refused, and the connection goes on.
        guest.last_id += 1
        guest.socket.send(struct.pack("<IHHII", MAGIC, 999, 16, guest.last_id, 0))
        assert guest.answer(guest.last_id).code == UNKNOWN
        neighbour.check()


def test_a_page_that_claims_more_than_was_granted_does_not_hide_a_context():
    with tempfile.NamedTemporaryFile("w") as processes:
        with Daemon(environment={"METE_STUB_PROCESSES": processes.name}) as meted:
            admin = Admin(meted.place)
            made = admin.tenant("1GiB")
            guest = Guest(made.socket)
            guest.ask("residual_ask", device=0, bytes=300 * MIB)
            guest.credit(100 * MIB)
            guest.allocated(1 << 62)
            processes.write(f"0 {guest.seat.pid} {250 * MIB}\n")
            processes.flush()
            guest.send("residual_settle", device=0, contexts=1, bytes=300 * MIB)
            # It is measured on a thread of its own.
            until(lambda: admin.tenant_row(made.tenant).residual != 300 * MIB, "it is not measured")
            assert admin.tenant_row(made.tenant).residual == 150 * MIB
            assert guest.refused(GIB - 249 * MIB) == LIMIT


def test_the_inventory_of_a_guest_that_was_granted_nothing_takes_nothing():
    with Daemon() as meted:
        neighbour = Neighbour(meted)
        made = neighbour.admin.tenant("1GiB")
        guest = Guest(made.socket)
        try:
            guest.ask("inventory", device=0, contexts=0xFFFFFFFF, allocated=(1 << 64) - 1, credit=(1 << 64) - 1)
        except Refused as refusal:
            assert refusal.code in (LIMIT, FULL)
        row = neighbour.admin.tenant_row(made.tenant)
        assert row.allocated + row.credit + row.residual == 0, row
        try:
            guest.ask("inventory", device=0, contexts=0, allocated=0, credit=0)
            raise AssertionError("stated twice")
        except Refused as refusal:
            assert refusal.code == BAD
        other = Guest(neighbour.admin.tenant("1GiB").socket)
        assert other.credit(GIB) == GIB
        neighbour.check()


def test_descriptors_that_are_sent_in_close_the_connection():
    with Daemon() as meted:
        neighbour = Neighbour(meted)
        made = neighbour.admin.tenant("1GiB")
        before = len(os.listdir(f"/proc/{meted.process.pid}/fd"))
        for _ in range(20):
            guest = Guest(made.socket)
            fds = array.array("i", [0] * 100)
            guest.socket.sendmsg([encode("credit_ask", 5, device=0, bytes=1, want=1)],
                                 [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
            expect_gone(guest)
            guest.close()
        # Connections and pidfds are closed in the daemon's own time: it is asked until it has. One remains to each process that closes.
        held = lambda: len(os.listdir(f"/proc/{meted.process.pid}/fd"))
        until(lambda: neighbour.check() or held() <= before + 8, lambda: (held(), before))
        assert "sent descriptors" in meted.log()


def test_descriptors_that_take_for_ever_to_close_hold_up_nobody():
    """Whoever reads the message, or closes the connection, is the last to close them, and waits."""
    def bare(path):
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        peer.connect(path)
        return peer

    ask = encode("credit_ask", 5, device=0, bytes=1, want=1)
    with Daemon() as meted:
        neighbour = Neighbour(meted)
        made = neighbour.admin.tenant("1GiB")
        kept = []
        guest = Guest(made.socket)
        kept.append(linger.post(guest.socket, ask))
        expect_gone(guest)
        neighbour.check()
        # Before HELLO, behind an empty message, and where nobody reads any more; the last two at the end of meted.
        for path in (made.socket, meted.place + "/admin.sock"):
            kept.append(linger.post(bare(path), b"x"))
            neighbour.check()
            peer = bare(path)
            peer.send(b"")
            kept.append(linger.post(peer, b"x"))
            neighbour.check()
        refused = Guest(made.socket)
        refused.socket.send(b"x")
        kept.append(linger.post(refused.socket, ask))
        neighbour.check()
        # It leaves what it was sent unread: the kernel tells meted so first, and its messages come behind that.
        rude = Guest(made.socket)
        rude.socket.send(ask)
        assert select.select([rude.socket], [], [], PATIENCE)[0]
        os.kill(meted.process.pid, signal.SIGSTOP)
        kept.append(linger.post(rude.socket, ask))
        rude.hang_up()
        os.kill(meted.process.pid, signal.SIGCONT)
        neighbour.check()
        # Nobody accepts them: meted stands still, and their tenant is gone when it goes on.
        other = Admin(meted.place)
        ending = other.tenant("1GiB")
        os.kill(meted.process.pid, signal.SIGSTOP)
        waiting = bare(ending.socket)
        kept.append(linger.post(waiting, b"x"))
        other.close()
        os.kill(meted.process.pid, signal.SIGCONT)
        neighbour.check()
        last = Guest(made.socket)
        os.kill(meted.process.pid, signal.SIGSTOP)
        kept.append(linger.post(last.socket, ask))
        os.kill(meted.process.pid, signal.SIGTERM)
        os.kill(meted.process.pid, signal.SIGCONT)
        assert meted.process.wait(PATIENCE) == 0


def test_a_flood_holds_up_nobody_else():
    with Daemon() as meted:
        neighbour = Neighbour(meted)
        made = neighbour.admin.tenant("1GiB")
        guest = Guest(made.socket)
        frame = encode("credit_return", 1, device=0, recall=0, bytes=0)
        guest.socket.setblocking(False)
        sent = 0
        for _ in range(30):  # as much as it takes, again and again
            try:
                while sent < 100000:
                    guest.socket.send(frame)
                    sent += 1
            except BlockingIOError:
                pass
            neighbour.check()
        assert sent > 100
        guest.close()
        neighbour.check()


def test_a_guest_that_does_not_read_is_closed_and_its_memory_returned_when_it_ends():
    with Daemon() as meted:
        neighbour = Neighbour(meted)
        made = neighbour.admin.tenant("1GiB")
        guest = Guest(made.socket)
        guest.credit(MIB)
        try:
            while True:
                guest.send("processes_ask", device=0)  # answers pile up
        except Gone:
            pass
        row = neighbour.admin.tenant_row(made.tenant)
        assert (row.guests, row.credit) == (1, MIB), "it may use it for as long as it lives"
        assert "does not read its messages" in meted.log()
        neighbour.check()
        guest.close()
        until(lambda: not neighbour.admin.tenant_row(made.tenant).guests, "the end of its process is not seen")
        assert neighbour.admin.tenant_row(made.tenant).credit == 0


def test_too_many_guests_are_turned_away_and_others_still_welcome():
    with Daemon() as meted:
        neighbour = Neighbour(meted)
        made = neighbour.admin.tenant("1GiB")
        crowd = []
        try:
            for _ in range(600):
                guest = Guest(made.socket, hello=False)
                guest.send("hello", major=1)
                answer = guest.receive()
                if answer.kind == "refused":
                    assert answer.code == FULL and "too many" in answer.reason
                    break
                for fd in guest.fds:
                    os.close(fd)
                guest.fds = []
                crowd.append(guest)
            assert len(crowd) == 512, len(crowd)
            neighbour.check()
            assert Guest(neighbour.made.socket).credit(MIB) == MIB
        finally:
            for guest in crowd:
                guest.close()


def test_one_guest_cannot_wait_a_thousand_times():
    with Daemon() as meted:
        admin = Admin(meted.place)
        full, made = admin.tenant("4GiB", wait="1h"), admin.tenant("4GiB", wait="1h")
        holder = Guest(full.socket)
        holder.credit(4 * GIB)
        holder.allocated(4 * GIB)
        guest = Guest(made.socket)
        ids = [guest.send("credit_ask", device=0, wait=1, bytes=MIB, want=MIB) for _ in range(100)]
        refused = [guest.receive() for _ in range(36)]
        assert all(message.kind == "refused" and "64 requests" in message.reason for message in refused)
        holder.allocated(3 * GIB)
        holder.give_back(GIB)
        assert all(guest.answer(id).kind == "credit_grant" for id in ids[:64])


def test_the_tenants_page_cannot_be_written_whatever_is_tried():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")
        guest = Guest(made.socket)
        page = guest.fds[1]
        assert fcntl.fcntl(page, F_GET_SEALS) & (SEAL_SHRINK | SEAL_GROW | SEAL_SEAL | SEAL_FUTURE_WRITE) == \
            SEAL_SHRINK | SEAL_GROW | SEAL_SEAL | SEAL_FUTURE_WRITE
        must_fail(lambda: mmap.mmap(page, PAGE))
        must_fail(lambda: os.write(page, b"x"))
        must_fail(lambda: os.ftruncate(page, 0))
        must_fail(lambda: fcntl.fcntl(page, F_ADD_SEALS, SEAL_WRITE))
        # Reopened for writing through /proc: as root the open succeeds, the writing does not.
        try:
            again = os.open(f"/proc/self/fd/{page}", os.O_RDWR)
        except PermissionError:
            again = None
        if again is not None:
            must_fail(lambda: os.write(again, b"x"))
            must_fail(lambda: os.pwrite(again, b"x", 100))
            must_fail(lambda: mmap.mmap(again, PAGE))
            must_fail(lambda: os.ftruncate(again, 0))
            must_fail(lambda: os.ftruncate(again, 2 * PAGE))
            must_fail(lambda: os.posix_fallocate(again, 0, 2 * PAGE))
            os.close(again)
        # A read-only mapping cannot be made writable.
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        address = libc.mmap(None, ctypes.c_size_t(PAGE), 1, 1, page, ctypes.c_long(0))
        assert address != ctypes.c_void_p(-1).value
        assert libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(PAGE), 3) != 0
        assert guest.shown()["limit"] == GIB
        # meted itself still writes to it.
        admin.set(made.tenant, "memory", "2GiB")
        assert guest.shown()["limit"] == 2 * GIB


def must_fail(action):
    try:
        action()
    except (OSError, ValueError):
        return
    raise AssertionError("it was possible")


def test_its_own_page_can_be_scribbled_on_but_not_cut():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")
        guest = Guest(made.socket)
        must_fail(lambda: os.ftruncate(guest.fds[0], 0))
        must_fail(lambda: os.ftruncate(guest.fds[0], 2 * PAGE))
        must_fail(lambda: fcntl.fcntl(guest.fds[0], F_ADD_SEALS, SEAL_WRITE))
        libc = ctypes.CDLL(None, use_errno=True)
        # A hole in it reads as zeros: meted, which reads it, lives.
        libc.fallocate(guest.fds[0], 3, ctypes.c_long(0), ctypes.c_long(PAGE))
        guest.own[:] = random.Random(1).randbytes(PAGE)
        assert admin.tenant_row(made.tenant).guests == 1


def test_an_admin_of_another_user_is_turned_away():
    require("users")
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")
        os.chmod(meted.place, 0o755)  # even if the folder were open ...
        os.chmod(meted.place + "/admin.sock", 0o666)
        os.chmod(meted.place + "/tenants", 0o755)
        os.chmod(os.path.dirname(made.socket), 0o755)
        os.chmod(made.socket, 0o666)
        pid = os.fork()
        if pid == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            status = 1
            try:
                Admin(meted.place)
            except (Gone, Refused, OSError):
                try:
                    Guest(made.socket)
                except Refused as refusal:
                    status = 0 if refusal.code == IDENTITY else 2
                except Gone:
                    status = 3
            os._exit(status)
        assert os.waitpid(pid, 0)[1] == 0
        admin.list()  # what it logs of a guest that it refused comes after the answer
        assert "admin.turned_away" in meted.log() and "another user" in meted.log()


def test_names_that_come_from_outside_are_plain_wherever_they_are_shown():
    """meted's answers are decoded strictly by this test's own reader."""
    odd, plain = b"\x1b[2J\xff\xe6\x97\xa5\n\xc2\x9bm\xe2\x80\xae.", "?[2J?\u65e5??m?."
    with Daemon("--log-level", "debug") as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB", name=odd)
        guest = Guest(made.socket, program=odd)
        assert admin.tenant_row(made.tenant).name == plain
        assert [row.program for row in admin.guests(made.tenant)] == [plain]
        # It is found by the name that it was given, and by the one that is shown.
        for name in (odd, plain):
            admin.ask("tenant_set", name=name, key="memory", value="2GiB")
        for fields in (dict(name=odd + b"x"), dict(tenant=made.tenant, key=odd), dict(tenant=made.tenant, key="memory", value=odd)):
            try:
                admin.ask("tenant_set", **{"key": "memory", "value": "1GiB", **fields})
                raise AssertionError("taken")
            except Refused as refusal:
                assert "?[2J" in str(refusal) and str(refusal).isprintable(), refusal
        try:
            admin.tenant("1GiB", device=odd)
            raise AssertionError("taken")
        except Refused as refusal:
            assert "?[2J" in str(refusal) and str(refusal).isprintable(), refusal
        meted.kill()
        meted.start()  # from the journal
        admin = Admin(meted.place)
        assert admin.tenant_row(made.tenant).name == plain
        guest.close()
        for line in open(meted.log_path, "rb").read().split(b"\n"):
            assert line.decode().isprintable(), line


def test_a_tenant_that_leaves_in_the_middle_of_a_list_does_not_end_it():
    with Daemon() as meted:
        neighbour = Neighbour(meted)
        made = neighbour.admin.tenant("1GiB")
        for _ in range(20):
            # The answer has a row of the one before, and cannot be sent: its asker is the next one in the list.
            first, last = Guest(made.socket), Guest(made.socket)
            first.credit(MIB)
            first.allocated(MIB)
            last.send("processes_ask", device=0)
            last.close()
            # A list of the tenants that end with the process that asked for it.
            admin = Admin(meted.place)
            others = [admin.tenant("64MiB") for _ in range(3)]
            admin.send("list", tenant=others[0].tenant)
            admin.close()
            first.close()
        neighbour.check()


if __name__ == "__main__":
    run(globals())
