#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""meted and its guests: joining, credit, limits, waiting, leaving."""
import os

from children import *


def test_a_guest_joins_and_is_granted_credit():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")
        guest = Guest(made.socket)
        assert guest.welcome.tenant == made.tenant and guest.welcome.devices == 1
        shown = guest.shown()
        assert shown["limit"] == GIB and shown["total"] == 4 * GIB and shown["gate"] == OPEN, shown
        assert guest.credit(MIB) == MIB
        guest.allocated(MIB)
        assert guest.refused(GIB) == LIMIT
        row = admin.tenant_row(made.tenant)
        assert (row.allocated, row.credit, row.guests, row.refusals) == (MIB, 0, 1, 1), row
        assert admin.guests(made.tenant)[0].pid == guest.seat.pid
        assert meted.log().count("memory.refused") == 1
        guest.refused(GIB)
        assert meted.log().count("memory.refused") == 1, "the reason is logged once"


def test_the_limit_holds_to_the_byte_and_the_rest_is_granted():
    with Daemon("--context", "1K") as meted:
        admin = Admin(meted.place)
        guest = Guest(admin.tenant("1MiB").socket)
        assert guest.credit(MIB - 1) == MIB - 1
        guest.allocated(MIB - 1)
        assert guest.refused(2) == LIMIT
        assert guest.credit(1) == 1


def test_a_killed_guest_leaves_nothing():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")

        def work():
            guest = Guest(made.socket, seat=Here())
            guest.credit(GIB)
            guest.allocated(GIB)
            return guest

        pid = forked(work)
        other = Guest(made.socket)
        assert other.refused(1) == LIMIT
        kill(pid)
        eventually(admin, lambda: admin.tenant_row(made.tenant).allocated == 0)
        assert other.credit(GIB) == GIB


def test_a_guest_dies_although_its_child_keeps_the_connection_open():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")
        ours, its = socket.socketpair()
        ours.settimeout(PATIENCE)

        def work():
            guest = Guest(made.socket, seat=Here())
            guest.credit(GIB)
            if os.fork() == 0:
                ours.close()
                outlives_its_parent(its)
            return guest

        pid = forked(work)
        its.close()

        def child_lives():
            return ours.send(b"?") == 1 and ours.recv(1) == b"y"

        assert child_lives() and admin.tenant_row(made.tenant).credit == GIB
        kill(pid)
        eventually(admin, lambda: admin.tenant_row(made.tenant).credit == 0)
        assert child_lives(), "what was given back was its parent's, and it has the connection still"
        ours.close()


def test_a_guests_memory_is_returned_when_its_process_ends_not_its_connection():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")
        guest, other = Guest(made.socket), Guest(made.socket)
        guest.credit(600 * MIB)
        guest.allocated(200 * MIB)
        guest.hang_up()
        until(lambda: "guest.away" in meted.log(), "the end of a connection is an event of meted's")
        row = admin.tenant_row(made.tenant)
        assert (row.guests, row.allocated, row.credit) == (2, 200 * MIB, 400 * MIB), row
        assert other.refused(500 * MIB) == LIMIT
        guest = Guest(made.socket, seat=guest.seat)
        guest.state(200 * MIB, 100 * MIB)  # what it returned meanwhile, or never heard of
        guest.allocated(200 * MIB, 100 * MIB)
        row = admin.tenant_row(made.tenant)
        assert (row.guests, row.allocated, row.credit) == (2, 200 * MIB, 100 * MIB), row
        guest.close()
        eventually(admin, lambda: admin.tenant_row(made.tenant).guests == 1)
        assert other.credit(GIB) == GIB


def test_a_process_is_one_guest_however_often_it_connects():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")
        guest = Guest(made.socket)
        guest.credit(100 * MIB)
        guest.allocated(50 * MIB)
        for _ in range(20):
            again = Guest(made.socket, seat=guest.seat)
            try:
                while True:
                    guest.receive()
            except Gone:
                pass  # the earlier connection has ended
            guest = again
            row = admin.tenant_row(made.tenant)
            assert (row.guests, row.allocated + row.credit, row.joins) == (1, 100 * MIB, 1), row
            guest.state(50 * MIB, 50 * MIB)
            guest.allocated(50 * MIB, 50 * MIB)
        # It cannot come into more than it was granted by saying so.
        again = Guest(made.socket, seat=guest.seat)
        again.state(900 * MIB, 100 * MIB)
        again.allocated(900 * MIB, 100 * MIB)
        row = admin.tenant_row(made.tenant)
        assert (row.guests, row.allocated, row.credit) == (1, 100 * MIB, 0), row


def refused_as_another_copy(socket_path, seat, copy):
    try:
        Guest(socket_path, seat=seat, copy=copy)
    except Refused as refusal:
        assert refusal.code == IDENTITY and "another copy" in str(refusal), refusal
        return True
    return False


def test_a_second_copy_of_the_library_in_a_process_does_not_take_the_place_of_the_first():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")
        guest = Guest(made.socket, copy=0x7f0000001000)
        guest.credit(600 * MIB)
        guest.allocated(200 * MIB)
        # It would state that it holds nothing, and the credit of the first one would be granted twice.
        assert refused_as_another_copy(made.socket, guest.seat, 0x7f0000002000)
        row = admin.tenant_row(made.tenant)
        assert (row.guests, row.allocated, row.credit, row.joins) == (1, 200 * MIB, 400 * MIB, 1), row
        guest.give_back(100 * MIB)
        assert guest.credit(MIB) == MIB  # on the connection that it has
        # Nor while the first one is away, which may come back. In another process it is the first one.
        guest.hang_up()
        until(lambda: "guest.away" in meted.log(), "the end of a connection is an event of meted's")
        assert refused_as_another_copy(made.socket, guest.seat, 0x7f0000002000)
        again = Guest(made.socket, seat=guest.seat, copy=0x7f0000001000)
        again.state(200 * MIB, 100 * MIB)
        other = Guest(made.socket, copy=0x7f0000002000)
        assert admin.tenant_row(made.tenant).guests == 2
        again.close()
        other.close()


def test_a_process_that_becomes_another_program_is_another_guest():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")
        watch, end = os.pipe()
        ready, done = os.pipe()
        pid = os.fork()
        if pid == 0:
            guest = Guest(made.socket, seat=Here())
            guest.credit(GIB)
            os.write(done, b"1")
            os.close(done)
            os.dup2(watch, 0)
            os.execvp("sh", ["sh", "-c", "read line"])
        assert os.read(ready, 1) == b"1"
        eventually(admin, lambda: admin.tenant_row(made.tenant).guests == 0)
        assert os.waitpid(pid, os.WNOHANG) == (0, 0), "it lives"
        assert Guest(made.socket).credit(GIB) == GIB
        os.write(end, b"\n")
        os.waitpid(pid, 0)


# Says HELLO as the program that has taken the place of another one.
SUCCESSOR = '''
import sys
sys.path.insert(0, sys.argv.pop(1))
from meted import *
one = Connection(sys.argv.pop(1), seat=Here())
id = one.send("hello", major=1, pid=os.getpid(), program="successor", copy=2)
print("called", flush=True)
print(one.answer(id), flush=True)
sys.stdin.read()
'''


def test_a_hello_whose_program_is_gone_does_not_keep_its_successor_out():
    """The memory that meted would find at the process is the successor's, which would be taken for another copy."""
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")
        watch, end = os.pipe()
        results, said = os.pipe()
        meted.process.send_signal(signal.SIGSTOP)
        until(lambda: "\nState:\tT" in open(f"/proc/{meted.process.pid}/status").read(), "it is never stopped")
        pid = os.fork()
        if pid == 0:
            former = Connection(made.socket, seat=Here())
            former.send("hello", major=1, pid=os.getpid(), program="former", copy=1)
            os.dup2(watch, 0)
            os.dup2(said, 1)
            os.execv(sys.executable, [sys.executable, "-c", SUCCESSOR, os.path.dirname(os.path.abspath(__file__)), made.socket])
        os.close(said)
        lines = open(results)
        assert lines.readline() == "called\n"
        meted.process.send_signal(signal.SIGCONT)
        assert (answer := lines.readline()).startswith("welcome"), answer
        row = admin.tenant_row(made.tenant)
        assert (row.guests, row.joins) == (1, 1), row
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_a_process_belongs_to_one_tenant():
    """The driver says what a process holds: it would count for both."""
    with Daemon() as meted:
        admin = Admin(meted.place)
        made, other = admin.tenant("1GiB"), admin.tenant("1GiB", name="other")
        guest = Guest(made.socket)
        try:
            Guest(other.socket, seat=guest.seat)
            raise AssertionError("it belongs to two")
        except Refused as refused:
            assert "belongs to another tenant" in str(refused), refused
        # Nor while it is away.
        guest.hang_up()
        try:
            Guest(other.socket, seat=guest.seat)
            raise AssertionError("it belongs to two")
        except Refused as refused:
            assert "belongs to another tenant" in str(refused), refused
        assert Guest(made.socket, seat=guest.seat).credit(MIB) == MIB


def test_a_siblings_unused_credit_is_recalled_before_a_refusal():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("100MiB")
        first, second = Guest(made.socket), Guest(made.socket)
        assert first.credit(100 * MIB) == 100 * MIB
        first.allocated(60 * MIB)
        id = second.send("credit_ask", device=0, wait=0, bytes=40 * MIB, want=40 * MIB)
        recall = first.hear("credit_recall")
        assert recall.bytes == 40 * MIB and recall.id & 0x80000000
        first.give_back(40 * MIB, recall=recall.id)
        assert second.answer(id).kind == "credit_grant"
        second.allocated(40 * MIB)
        assert second.refused(1) == LIMIT


def test_a_sibling_that_is_stopped_delays_a_refusal_and_does_not_prevent_it():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("100MiB")
        first, second = Guest(made.socket), Guest(made.socket)
        first.credit(100 * MIB)
        assert second.refused(MIB) == LIMIT  # first never answers
        assert first.hear("credit_recall").bytes == MIB


def full_device(meted, wait):
    """Three tenants that may each have the whole device, of which the first has everything."""
    admin = Admin(meted.place)
    makes = [admin.tenant("100%", name=f"t{i}", wait=wait) for i in range(3)]
    holder = Guest(makes[0].socket)
    holder.credit(4 * GIB)
    holder.allocated(4 * GIB)
    return admin, makes, holder


def test_room_is_waited_for_in_the_order_of_asking():
    with Daemon() as meted:
        admin, makes, holder = full_device(meted, "60s")
        first, second = Guest(makes[1].socket), Guest(makes[2].socket)
        one = first.send("credit_ask", device=0, wait=1, bytes=2 * GIB, want=2 * GIB)
        eventually(admin, lambda: admin.tenant_row(makes[1].tenant).waiting == 1)
        two = second.send("credit_ask", device=0, wait=1, bytes=GIB, want=GIB)
        eventually(admin, lambda: admin.tenant_row(makes[2].tenant).waiting == 1)
        holder.allocated(3 * GIB)
        holder.give_back(GIB)  # the second would fit: it is not its turn
        eventually(admin, lambda: admin.tenant_row(makes[0].tenant).allocated == 3 * GIB)
        assert admin.tenant_row(makes[2].tenant).waiting == 1
        holder.allocated(2 * GIB)
        holder.give_back(GIB)
        assert first.answer(one).bytes == 2 * GIB
        first.allocated(2 * GIB)
        assert admin.tenant_row(makes[2].tenant).waiting == 1
        holder.allocated(GIB)
        holder.give_back(GIB)
        assert second.answer(two).bytes == GIB


def test_memory_freed_into_credit_reaches_a_guest_that_waits():
    with Daemon() as meted:
        admin, makes, holder = full_device(meted, "60s")
        waiter = Guest(makes[1].socket)
        id = waiter.send("credit_ask", device=0, wait=1, bytes=GIB, want=GIB)
        eventually(admin, lambda: admin.tenant_row(makes[1].tenant).waiting == 1)
        holder.allocated(3 * GIB, credit=GIB)  # freed, and not returned
        recall = holder.hear("credit_recall")
        holder.give_back(recall.bytes, recall=recall.id)
        assert waiter.answer(id).bytes == GIB


def test_waiting_is_bounded_and_never_under_capture():
    with Daemon() as meted:
        admin, makes, holder = full_device(meted, "200ms")
        waiter = Guest(makes[1].socket)
        assert waiter.refused(GIB, wait=1) == DEADLINE
        assert waiter.refused(GIB, wait=0) == FULL
        assert admin.tenant_row(makes[1].tenant).waiting == 0


def test_a_killed_waiter_leaves_nothing():
    with Daemon() as meted:
        admin, makes, holder = full_device(meted, "1h")

        def work():
            guest = Guest(makes[1].socket, seat=Here())
            guest.send("credit_ask", device=0, wait=1, bytes=3 * GIB, want=3 * GIB)
            return guest

        pid = forked(work)
        eventually(admin, lambda: admin.tenant_row(makes[1].tenant).waiting == 1)
        kill(pid)
        eventually(admin, lambda: admin.tenant_row(makes[1].tenant).waiting == 0)
        holder.allocated(3 * GIB)
        holder.give_back(GIB)
        assert Guest(makes[2].socket).credit(GIB) == GIB


def test_over_its_own_limit_nobody_waits():
    with Daemon("--context", "1K") as meted:
        admin = Admin(meted.place)
        guest = Guest(admin.tenant("1MiB", wait="1h").socket)
        guest.credit(MIB)
        guest.allocated(MIB)
        assert guest.refused(1, wait=1) == LIMIT


def test_limits_change_live_and_break_nothing():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB", name="live")
        guest = Guest(made.socket)
        guest.credit(GIB)
        guest.allocated(GIB)
        admin.set(made.tenant, "memory", "512MiB")
        assert guest.shown()["limit"] == 512 * MIB
        assert admin.tenant_row(made.tenant).allocated == GIB
        assert guest.refused(1) == LIMIT
        guest.allocated(256 * MIB)
        guest.give_back(768 * MIB)
        assert guest.credit(256 * MIB) == 256 * MIB
        admin.ask("tenant_set", tenant=0, name="live", key="memory", value="2GiB")
        guest.allocated(512 * MIB)
        assert guest.credit(GIB) == GIB
        assert guest.shown()["strict"] == 0
        admin.set(made.tenant, "strict", "yes")
        assert guest.shown()["strict"] == 1


if __name__ == "__main__":
    run(globals())
