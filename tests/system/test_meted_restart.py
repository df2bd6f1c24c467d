#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""meted is killed, its disk is full, its journal torn: nothing is lost that should not be."""
import os
import resource
import zlib

from meted import *


def come_back(place, socket_path, allocated, credit, contexts=0, void=False):
    """What a guest does when meted was restarted: joins again and states what it holds."""
    guest = Guest(socket_path)
    guest.allocated(allocated, credit=credit)
    try:
        guest.ask("inventory", device=0, contexts=contexts, allocated=allocated, credit=credit)
        assert not void, "the credit should be void"
    except Refused:
        assert void
    return guest


def test_a_killed_daemon_comes_back_with_its_tenants_and_limits():
    with Daemon() as meted:
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
        guest = come_back(meted.place, made.socket, 60 * MIB, 40 * MIB)
        row = admin.tenant_row(made.tenant)
        assert (row.name, row.limit, row.allocated, row.credit) == ("the first one", 512 * MIB, 60 * MIB, 40 * MIB), row
        assert guest.welcome.on_daemon_loss == 1
        assert guest.shown()["generation"] != generation
        assert admin.tenant_row(second.tenant).name == "änderung %20=x"
        assert guest.refused(512 * MIB) == LIMIT
        # A new tenant does not get an old one's number.
        assert admin.tenant("1GiB").tenant == 3


def test_the_book_equals_the_inventories_after_a_restart_and_what_was_promised_to_others_waits():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made, other = admin.tenant("4GiB"), admin.tenant("4GiB")
        ready, done = os.pipe()
        go_r, go_w = os.pipe()
        pid = os.fork()
        if pid == 0:  # a guest that holds 3 GiB and comes back late
            guest = Guest(made.socket)
            guest.credit(3 * GIB)
            guest.allocated(3 * GIB)
            os.write(done, b"1")
            os.read(go_r, 1)
            guest = come_back(meted.place, made.socket, 3 * GIB, 0)
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


def test_who_has_room_of_its_own_does_not_wait_for_those_who_are_expected():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made, other = admin.tenant("2GiB"), admin.tenant("2GiB")
        ready, done = os.pipe()
        pid = os.fork()
        if pid == 0:  # it never comes back
            guest = Guest(made.socket)
            guest.credit(GIB)
            os.write(done, b"1")
            signal.pause()
        os.read(ready, 1)
        Guest(other.socket).credit(MIB)
        meted.kill()
        meted.start()
        admin = Admin(meted.place)
        admin.ask("tenant_keep", tenant=other.tenant)
        guest = come_back(meted.place, other.socket, MIB, 0)
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


def test_a_guest_that_died_meanwhile_is_not_waited_for():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made, other = admin.tenant("4GiB"), admin.tenant("4GiB")
        ready, done = os.pipe()
        pid = os.fork()
        if pid == 0:
            guest = Guest(made.socket)
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
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")
        guest = Guest(made.socket)
        guest.credit(GIB)
        guest.allocated(800 * MIB)
        admin.set(made.tenant, "memory", "512MiB")
        meted.kill()
        meted.start()
        admin = Admin(meted.place)
        guest = come_back(meted.place, made.socket, 400 * MIB, 400 * MIB, void=True)
        row = admin.tenant_row(made.tenant)
        assert (row.allocated, row.credit) == (400 * MIB, 0), row


def test_its_guests_keep_a_tenant_alive_after_a_restart_and_the_daemon_ends_with_them():
    with Daemon("--grace", "5s") as meted:  # as long as we may take to come back
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")
        guest = Guest(made.socket)
        meted.kill()
        meted.start()
        guest = come_back(meted.place, made.socket, 0, 0)
        assert guest.credit(MIB) == MIB
        guest.close()
        assert meted.wait() == 0  # after the time in which others might have come back
        assert "daemon.unneeded" in meted.log()


def test_a_torn_journal_is_read_as_far_as_it_is_whole():
    with Daemon() as meted:
        admin = Admin(meted.place)
        first, second = admin.tenant("1GiB", name="first"), admin.tenant("2GiB", name="second")
        guests = [Guest(first.socket), Guest(second.socket)]
        meted.kill()
        path = meted.place + "/journal"
        whole = open(path, "rb").read()
        lines = whole.splitlines(keepends=True)
        for line in lines:
            assert zlib.crc32(line[9:-1]) == int(line[:8], 16), line
        last = next(i for i, line in enumerate(lines) if b"name=second" in line)
        torn = b"".join(lines[:last]) + lines[last][:-4]
        for content in (torn, b"".join(lines[:last]) + lines[last].replace(b"2GiB", b"3GiB"),
                        b"".join(lines[:last]) + os.urandom(500)):
            with open(path, "wb") as file:
                file.write(content)
            meted.start()
            admin = Admin(meted.place)
            assert [row.name for row in admin.list() if row.kind == "tenant_row"] == ["first"]
            assert "journal.cut" in meted.log()
            assert admin.tenant("1GiB", name="third").tenant == 2
            meted.kill()


def test_a_full_disk_is_one_line_and_everything_goes_on():
    # Pages need 4096 bytes: with this limit they can be made, and the journal cannot grow for long.
    with Daemon("--log-level", "warning", wrap=("prlimit", "--fsize=8192:unlimited")) as meted:
        admin = Admin(meted.place)
        makes = [admin.tenant("1GiB", name="x" * 200) for _ in range(40)]
        guests = [Guest(made.socket) for made in makes]
        assert all(guest.credit(MIB) == MIB for guest in guests[:4])
        assert meted.log().count("journal.lost") == 1
        for line in open(meted.place + "/journal", "rb").read().splitlines():
            assert zlib.crc32(line[9:]) == int(line[:8], 16), "no half line is left behind"
        for guest in guests:
            guest.close()


def test_there_is_room_again_and_nothing_was_lost():
    with Daemon("--log-level", "warning", wrap=("prlimit", "--fsize=8192:unlimited")) as meted:
        admin = Admin(meted.place)
        makes = [admin.tenant("1GiB", name="x" * 200) for _ in range(40)]
        assert "journal.lost" in meted.log()
        resource.prlimit(meted.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        admin.set(makes[0].tenant, "memory", "2GiB")
        for line in open(meted.place + "/journal", "rb").read().splitlines():
            assert zlib.crc32(line[9:]) == int(line[:8], 16)
        meted.kill()
        meted.start()
        assert len([row for row in Admin(meted.place).list() if row.kind == "tenant_row"]) == 40


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
            guest.close()
            guest = come_back(meted.place, made.socket, held, 0)
            admin = Admin(meted.place)
            assert admin.tenant_row(made.tenant).allocated == held
        assert held > 30 * MIB and guest.shown()["limit"] == GIB


def test_the_journal_stays_short():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB", name="y" * 200)
        for i in range(2000):
            admin.set(made.tenant, "memory", f"{i + 1}MiB")
        assert os.path.getsize(meted.place + "/journal") < 80000
        guest = Guest(made.socket)
        meted.kill()
        meted.start()
        assert Admin(meted.place).tenant_row(made.tenant).limit == 2000 * MIB


if __name__ == "__main__":
    run(globals())
