#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""meted is killed, and nothing is lost that should not be. Its journal: test_meted_journal.py."""
import ctypes
import errno
import os
import threading
import tempfile
import zlib

from meted import *

LONG = f"{PATIENCE}s"  # a grace that does not end while we are kept from the processor


def come_back(before, socket_path, allocated, credit, contexts=0, void=False):
    """As the process of guest `before` after a restart of meted: joins again and states its memory."""
    guest = Guest(socket_path, seat=before.seat)
    guest.allocated(allocated, credit=credit)
    try:
        guest.state(allocated, credit, contexts)
        assert not void, "the credit should be void"
    except Refused:
        assert void
    return guest


def test_a_killed_daemon_comes_back_with_its_tenants_and_limits():
    with Daemon("--grace", LONG) as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB", name="the first one", wait="3s", on_daemon_loss="block")
        second = admin.tenant("2GiB", name="änderung %20=x")
        admin.set(made.tenant, "memory", "512MiB")
        guest = Guest(made.socket)
        guest.credit(100 * MIB)
        guest.allocated(60 * MIB)
        generation = guest.shown()["generation"]
        meted.kill()
        meted.start()
        admin = Admin(meted.place)
        admin.ask("tenant_keep", tenant=made.tenant)
        admin.ask("tenant_keep", tenant=second.tenant)
        guest = come_back(guest, made.socket, 60 * MIB, 40 * MIB)
        row = admin.tenant_row(made.tenant)
        assert (row.name, row.limit, row.allocated, row.credit) == ("the first one", 512 * MIB, 60 * MIB, 40 * MIB), row
        assert guest.welcome.on_daemon_loss == 1
        assert guest.shown()["generation"] != generation
        assert admin.tenant_row(second.tenant).name == "änderung %20=x"
        assert guest.refused(512 * MIB) == LIMIT
        # A new tenant does not get an old one's number.
        assert admin.tenant("1GiB").tenant == 3


def test_the_book_equals_the_inventories_after_a_restart_and_keeps_promises_to_others():
    with Daemon("--grace", LONG) as meted:
        admin = Admin(meted.place)
        made, other = admin.tenant("4GiB"), admin.tenant("4GiB")
        ready, done = os.pipe()
        go_r, go_w = os.pipe()
        pid = os.fork()
        if pid == 0:  # a guest that holds 3 GiB and comes back late
            guest = Guest(made.socket, seat=Here())
            guest.credit(3 * GIB)
            guest.allocated(3 * GIB)
            os.write(done, b"1")
            os.read(go_r, 1)
            guest = come_back(guest, made.socket, 3 * GIB, 0)
            os.write(done, b"2")
            signal.pause()
        assert os.read(ready, 1) == b"1"
        meted.kill()
        meted.start()
        admin = Admin(meted.place)
        admin.ask("tenant_keep", tenant=other.tenant)
        guest = Guest(other.socket)
        # Nothing is promised before it has said what it holds: the device would be promised twice.
        id = guest.send("credit_ask", device=0, wait=0, bytes=2 * GIB, want=2 * GIB)
        assert admin.tenant_row(other.tenant).waiting == 1
        os.write(go_w, b"1")
        assert os.read(ready, 1) == b"2"
        answer = None
        small = guest.send("credit_ask", device=0, wait=0, bytes=GIB, want=GIB)
        answer = guest.answer(id)
        assert answer.kind == "refused" and answer.code == FULL, answer
        assert guest.answer(small).bytes == GIB
        assert admin.device_row().allocated == 3 * GIB
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_a_guest_with_room_of_its_own_does_not_wait_for_expected_ones():
    with Daemon("--grace", LONG) as meted:
        admin = Admin(meted.place)
        made, other = admin.tenant("2GiB"), admin.tenant("2GiB")
        ready, done = os.pipe()
        pid = os.fork()
        if pid == 0:  # it never comes back
            guest = Guest(made.socket, seat=Here())
            guest.credit(GIB)
            os.write(done, b"1")
            signal.pause()
        os.read(ready, 1)
        guest = Guest(other.socket)
        guest.credit(MIB)
        meted.kill()
        meted.start()
        admin = Admin(meted.place)
        admin.ask("tenant_keep", tenant=other.tenant)
        guest = come_back(guest, other.socket, MIB, 0)
        assert guest.credit(GIB) == GIB
        guest.allocated(GIB + MIB)
        assert guest.refused(2 * GIB) == LIMIT
        # Its own processes wait: their sibling may hold all that the limit allows.
        sibling = Guest(made.socket)
        sibling.send("credit_ask", device=0, wait=0, bytes=MIB, want=MIB)
        assert admin.tenant_row(made.tenant).waiting == 1
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        assert sibling.receive().kind == "credit_grant"


def test_a_second_copy_of_the_library_does_not_come_back_in_the_place_of_the_first():
    with Daemon("--grace", LONG) as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")
        guest = Guest(made.socket, copy=1)
        guest.credit(600 * MIB)
        meted.kill()
        meted.start()
        try:
            Guest(made.socket, seat=guest.seat, copy=2)
            raise AssertionError("another copy came back")
        except Refused as refusal:
            assert refusal.code == IDENTITY, refusal
        again = Guest(made.socket, seat=guest.seat, copy=1)
        again.state(0, 600 * MIB)
        admin = Admin(meted.place)
        row = admin.tenant_row(made.tenant)
        assert (row.guests, row.credit) == (1, 600 * MIB), row
        again.close()


# Becomes another program whose connection outlives it, and comes again.
SUCCESSOR = '''
import sys
sys.path.insert(0, sys.argv.pop(1))
from meted import *
guest = Guest(sys.argv.pop(1), seat=Here(), copy=2)
print("joined", flush=True)
sys.stdin.read()
'''


def test_a_guest_that_became_another_program_is_waited_for_after_a_restart():
    with Daemon("--grace", LONG) as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")
        orders, results = os.pipe(), os.pipe()
        pid = os.fork()
        if pid == 0:
            guest = Guest(made.socket, seat=Here(), copy=1)
            os.set_inheritable(guest.socket.fileno(), True)
            os.dup2(orders[0], 0)
            os.dup2(results[1], 1)
            os.execv(sys.executable, [sys.executable, "-c", SUCCESSOR, os.path.dirname(os.path.abspath(__file__)), made.socket])
        assert os.read(results[0], 6) == b"joined"
        meted.kill()
        meted.start()
        # In the journal as well the former program has left before its successor came.
        admin = Admin(meted.place)
        assert admin.tenant_row(made.tenant).guests == 1
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_a_process_that_an_older_meted_had_in_two_tenants_stays_with_one():
    """Neither tenant would take it back for the sake of the other."""
    with Daemon("--grace", LONG) as meted:
        admin = Admin(meted.place)
        made, other = admin.tenant("1GiB"), admin.tenant("1GiB", name="other")
        guest = Guest(made.socket)
        guest.credit(MIB)
        meted.kill()
        with open(meted.place + "/journal", "r+b") as journal:
            record = next(line.split(b" ", 1)[1] for line in journal.read().splitlines() if b" guest " in line)
            record = record.replace(b"tenant=%d" % made.tenant, b"tenant=%d" % other.tenant)
            journal.write(b"%08x %s\n" % (zlib.crc32(record), record))
        meted.start()
        admin = Admin(meted.place)
        admin.ask("tenant_keep", tenant=other.tenant)
        guest = come_back(guest, made.socket, MIB, 0)
        assert guest.credit(MIB) == MIB
        assert [admin.tenant_row(one.tenant).guests for one in (made, other)] == [1, 0]


def test_a_guest_that_died_meanwhile_is_not_waited_for():
    with Daemon("--grace", LONG) as meted:
        admin = Admin(meted.place)
        made, other = admin.tenant("4GiB"), admin.tenant("4GiB")
        ready, done = os.pipe()
        pid = os.fork()
        if pid == 0:
            guest = Guest(made.socket, seat=Here())
            guest.credit(4 * GIB)
            os.write(done, b"1")
            signal.pause()
        os.read(ready, 1)
        meted.kill()
        meted.start()
        admin = Admin(meted.place)
        admin.ask("tenant_keep", tenant=other.tenant)
        guest = Guest(other.socket)
        id = guest.send("credit_ask", device=0, wait=0, bytes=4 * GIB, want=4 * GIB)
        assert admin.tenant_row(other.tenant).waiting == 1
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        assert guest.answer(id).bytes == 4 * GIB


def test_credit_that_has_no_room_any_more_is_void():
    with Daemon("--grace", LONG) as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")
        guest = Guest(made.socket)
        guest.credit(GIB)
        guest.allocated(800 * MIB)
        admin.set(made.tenant, "memory", "512MiB")
        meted.kill()
        meted.start()
        admin = Admin(meted.place)
        guest = come_back(guest, made.socket, 400 * MIB, 400 * MIB, void=True)
        row = admin.tenant_row(made.tenant)
        assert (row.allocated, row.credit) == (400 * MIB, 0), row


def test_its_guests_keep_a_tenant_alive_after_a_restart_and_the_daemon_ends_with_them():
    with Daemon("--grace", "1s") as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")
        guest = Guest(made.socket)
        meted.kill()
        meted.start()
        # As long as its process lives it may be as late as it likes.
        until(lambda: "guest.missing" in meted.log(), "the grace is not over")
        guest = come_back(guest, made.socket, 0, 0)
        assert guest.credit(MIB) == MIB
        guest.close()
        assert meted.wait() == 0
        assert "daemon.unneeded" in meted.log()


def test_a_guest_that_comes_back_in_time_keeps_a_tenant_alive_likewise():
    with Daemon("--grace", "1s") as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")
        guest, other = Guest(made.socket), Guest(made.socket)
        meted.kill()
        meted.start()
        guest = come_back(guest, made.socket, 0, 0)
        other.close()
        assert guest.credit(MIB) == MIB
        guest.close()
        assert meted.wait() == 0  # after the time in which others might have come back
        assert "daemon.unneeded" in meted.log()


def test_a_socket_is_never_missing_while_meted_is_replaced():
    """A program that joins just then would be told that there is no meted."""
    with Daemon("--grace", LONG) as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")
        guest = Guest(made.socket)
        places, over = (made.socket, meted.place + "/admin.sock"), threading.Event()
        missing, looks = [], 0

        def look():
            nonlocal looks
            while not over.is_set():
                looks += 1
                missing.extend(place for place in places if not os.path.exists(place))

        looker = threading.Thread(target=look)
        looker.start()
        try:
            for _ in range(30):
                meted.kill()
                before = looks
                meted.start()
                until(lambda: looks > before)
        finally:
            over.set()
            looker.join()
        assert not missing, set(missing)
        assert not [name for name in os.listdir(meted.place) + os.listdir(os.path.dirname(made.socket)) if ".new" in name]
        guest = come_back(guest, made.socket, 0, 0)
        assert guest.credit(MIB) == MIB


def test_a_guest_that_came_back_and_is_idle_is_not_waited_for():
    with Daemon("--grace", "1h") as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")
        idle, sibling = Guest(made.socket), Guest(made.socket)
        idle.credit(MIB)
        meted.kill()
        meted.start()
        idle = come_back(idle, made.socket, MIB, 0)  # and sends nothing after that
        sibling = come_back(sibling, made.socket, 0, 0)
        assert sibling.credit(MIB) == MIB


def test_a_guest_that_does_not_come_back_is_in_the_book_as_measured():
    with tempfile.NamedTemporaryFile("w") as processes, \
            Daemon("--grace", "1s", environment={"METE_STUB_PROCESSES": processes.name}) as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")
        lost = Guest(made.socket)
        lost.credit(600 * MIB)
        processes.write(f"0 {lost.seat.pid} {600 * MIB}\n")
        processes.flush()
        meted.kill()
        meted.start()
        admin = Admin(meted.place)
        admin.ask("tenant_keep", tenant=made.tenant)
        until(lambda: admin.tenant_row(made.tenant).residual == 600 * MIB, "the grace is not over")
        sibling = Guest(made.socket)
        assert sibling.refused(500 * MIB) == LIMIT
        lost.close()
        until(lambda: not admin.tenant_row(made.tenant).residual, "meted does not see the end of a process")
        assert sibling.credit(GIB) == GIB


def test_where_no_file_can_be_made_a_restarted_meted_has_the_tenants_still():
    """A socket is a file of its own, and those of before stand there."""
    require("namespaces")
    libc = ctypes.CDLL(None, use_errno=True)
    with tempfile.TemporaryDirectory(prefix="mete-") as place:
        failed = libc.unshare(0x20000) or libc.mount(b"none", b"/", None, 1 << 18 | 0x4000, None) or libc.mount(b"tmpfs", place.encode(), b"tmpfs", 0, b"mode=700,nr_inodes=20")
        assert not failed, os.strerror(ctypes.get_errno())
        try:
            with Daemon(place=place) as meted:
                admin = Admin(meted.place)
                made = admin.tenant("1GiB")
                guest = Guest(made.socket)
                assert guest.credit(MIB) == MIB
                meted.kill()
                count = 0
                try:
                    while True:
                        open(f"{place}/{count}", "x").close()
                        count += 1
                except OSError as error:
                    assert error.errno == errno.ENOSPC, error
                meted.start()
                assert "tenant.lost" not in meted.log(), meted.log()
                come_back(guest, made.socket, 0, MIB)
                for each in range(count):
                    os.remove(f"{place}/{each}")
        finally:
            libc.umount2(place.encode(), 2)


def test_killed_in_the_middle_of_messages_a_hundred_times():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")
        held = 0
        guest = Guest(made.socket)
        for i in range(100):
            # A grant may have been promised and not heard of: it is void, since nobody states it.
            guest.send("credit_ask", device=0, wait=0, bytes=MIB, want=MIB)
            if i % 2:
                guest.send("credit_ask", device=0, wait=0, bytes=MIB, want=MIB)
            if i % 3 == 0:
                held += guest.receive().bytes
            meted.kill()
            meted.start()
            guest.hang_up()
            guest = come_back(guest, made.socket, held, 0)
            admin = Admin(meted.place)
            assert admin.tenant_row(made.tenant).allocated == held
        assert held > 30 * MIB and guest.shown()["limit"] == GIB


def start_with(meted, devices):
    """It is killed, and its successor finds so many devices."""
    meted.kill()
    meted.environment["METE_STUB_DEVICES"] = str(devices)
    meted.start()


def folders(meted):
    return sorted(int(name.split("-")[0]) for name in os.listdir(meted.place + "/tenants"))


def cannot_join(socket_path):
    try:
        Guest(socket_path)
        return False
    except OSError:
        return True


def test_a_tenant_whose_device_is_missing_is_there_again_with_it():
    with Daemon("--grace", LONG, environment={"METE_STUB_DEVICES": "2"}) as meted:
        admin = Admin(meted.place)
        stays, one, two = admin.tenant("1GiB", device="0"), admin.tenant("1GiB", device="1"), admin.tenant("2GiB", device="0,1")
        inner = admin.tenant("512MiB", device="0", outer=two.socket)  # it is within a share that nobody has without the other device
        assert inner.tenant != two.tenant, inner
        made = (stays, one, two, inner)
        guests = [Guest(tenant.socket) for tenant in made]
        for guest in guests:
            guest.credit(100 * MIB)
            guest.allocated(60 * MIB)
        for _ in range(2):
            start_with(meted, 1)
            assert [row.tenant for row in Admin(meted.place).list() if row.kind == "tenant_row"] == [stays.tenant]
            assert folders(meted) == sorted(tenant.tenant for tenant in made)
            assert all(cannot_join(tenant.socket) for tenant in made[1:])
            guests[0] = come_back(guests[0], stays.socket, 60 * MIB, 40 * MIB)
        # A number that is taken is not given again, and the journal is whole when it is written anew.
        admin = Admin(meted.place)
        assert admin.tenant("64MiB").tenant == inner.tenant + 1
        start_with(meted, 2)
        guests = [come_back(guest, tenant.socket, 60 * MIB, 40 * MIB) for guest, tenant in zip(guests, made)]
        admin = Admin(meted.place)
        assert [admin.tenant_row(tenant.tenant).allocated for tenant in (stays, one, inner)] == [60 * MIB] * 3
        assert admin.tenant_row(inner.tenant).outer == two.tenant
        assert "tenant.lost" not in meted.log()


def test_a_tenant_whose_device_is_missing_goes_with_its_last_process():
    with Daemon("--grace", "100ms", role="--system", environment={"METE_STUB_DEVICES": "2"}) as meted:
        admin = Admin(meted.place)
        empty, held = admin.tenant("1GiB", device="1"), admin.tenant("1GiB", device="1")
        guest = Guest(held.socket)
        guest.credit(MIB)
        start_with(meted, 1)
        until(lambda: f"tenant.ended tenant={empty.tenant}" in meted.log())
        assert folders(meted) == [held.tenant]
        guest.close()
        start_with(meted, 1)
        until(lambda: f"tenant.ended tenant={held.tenant}" in meted.log())
        assert folders(meted) == []
        start_with(meted, 2)
        assert not [row for row in Admin(meted.place).list() if row.kind == "tenant_row"]


if __name__ == "__main__":
    run(globals())
