#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Figures that meted measures of its guests, and the gates that it closes."""
import tempfile

from children import *


def test_a_context_is_reserved_first_and_then_measured():
    with tempfile.NamedTemporaryFile("w") as processes:
        with Daemon(environment={"METE_STUB_PROCESSES": processes.name}) as meted:
            admin = Admin(meted.place)
            made = admin.tenant("1GiB")
            guest = Guest(made.socket)
            answer = guest.ask("residual_ask", device=0, bytes=300 * MIB)
            assert answer.kind == "done" and answer.value == 300 * MIB
            assert admin.tenant_row(made.tenant).residual == 300 * MIB
            assert guest.refused(800 * MIB) == LIMIT
            guest.credit(100 * MIB)
            guest.allocated(100 * MIB)

            def driver_says(used):  # in place: the daemon may be reading
                processes.seek(0)
                processes.write(f"0 {guest.seat.pid} {used:12d}\n0 1 {GIB}\n")
                processes.flush()

            driver_says(250 * MIB)
            guest.contexts(1)
            guest.send("residual_settle", device=0, contexts=1, bytes=300 * MIB)
            eventually(admin, lambda: admin.tenant_row(made.tenant).residual == 150 * MIB)
            assert guest.shown()["used"] == 250 * MIB
            assert guest.credit(GIB - 250 * MIB) == GIB - 250 * MIB
            driver_says(GIB)
            guest.allocated(GIB - 150 * MIB)
            # The next context is thought to take what the first one took.
            assert guest.refused(1) == LIMIT
            guest.allocated(100 * MIB)
            driver_says(250 * MIB)
            guest.give_back(GIB - 250 * MIB)
            assert guest.ask("residual_ask", device=0, bytes=0).value == 150 * MIB


def test_a_context_beyond_the_limit_is_refused_with_a_sentence():
    with Daemon() as meted:
        admin = Admin(meted.place)
        guest = Guest(admin.tenant("64MiB").socket)
        try:
            guest.ask("residual_ask", device=0, bytes=65 * MIB)
            raise AssertionError("granted")
        except Refused as refusal:
            assert refusal.code == LIMIT and "65MiB of a context" in str(refusal) and "64MiB is reached" in str(refusal)


def test_a_module_beyond_the_limit_is_told_after_it_was_measured():
    with tempfile.NamedTemporaryFile("w") as processes:
        with Daemon(environment={"METE_STUB_PROCESSES": processes.name}) as meted:
            admin = Admin(meted.place)
            made = admin.tenant("1GiB")
            guest, other = Guest(made.socket), Guest(made.socket)
            assert guest.ask("residual_check", device=0).kind == "done"
            processes.write(f"0 {guest.seat.pid} {GIB}\n")
            processes.flush()
            assert guest.ask("residual_check", device=0).kind == "done", "just within"
            processes.seek(0)
            processes.truncate()
            processes.flush()
            guest.send("residual_settle", device=0, contexts=0, bytes=0, keep=1)
            assert other.credit(100 * MIB) == 100 * MIB, "it waits for what is being measured"
            processes.write(f"0 {guest.seat.pid} {GIB + MIB:12d}\n")
            processes.flush()
            try:
                guest.ask("residual_check", device=0)
                raise AssertionError("granted")
            except Refused as refusal:
                assert refusal.code == LIMIT and "a module" in str(refusal)


def test_the_gate_closes_when_every_guest_has_drained():
    with Daemon() as meted:
        admin, other = Admin(meted.place), Admin(meted.place)
        made = admin.tenant("1GiB")
        first, second = Guest(made.socket), Guest(made.socket)
        id = admin.send("gate_set", tenant=made.tenant, device=0, state=CLOSED)
        told = first.hear("gate")
        assert told.state == CLOSING and first.shown()["gate"] == CLOSING and first.shown()["not_open"] == 1
        assert told.epoch == first.shown()["epoch"]
        first.send("drained", device=0, epoch=told.epoch - 1)  # of an earlier close: ignored
        first.send("drained", device=0, epoch=told.epoch)
        told = second.hear("gate")
        assert other.tenant_row(made.tenant).gate == CLOSING
        second.send("drained", device=0, epoch=told.epoch)
        assert admin.answer(id).kind == "done"
        assert first.shown()["gate"] == CLOSED
        late = Guest(made.socket)  # joins a closed gate: it is told
        assert late.hear("gate").state == CLOSED
        admin.ask("gate_set", tenant=made.tenant, device=0, state=OPEN)
        assert first.hear("gate").state == OPEN and first.shown()["not_open"] == 0


def test_a_close_that_a_capture_holds_up_is_given_up():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")
        first, second = Guest(made.socket), Guest(made.socket)
        first.captures(1)
        id = admin.send("gate_set", tenant=made.tenant, device=0, state=CLOSED)
        told = second.hear("gate")
        second.send("drained", device=0, epoch=told.epoch)
        assert first.hear("gate").state == CLOSING
        answer = admin.answer(id)
        assert answer.kind == "refused" and f"process {first.seat.pid} keeps a stream capture open" in answer.reason, answer
        assert first.hear("gate").state == OPEN and second.hear("gate").state == OPEN
        assert first.shown()["gate"] == OPEN and first.shown()["not_open"] == 0
        row = admin.tenant_row(made.tenant)
        assert row.coupled == 1 and row.gate == OPEN
        first.captures(0)  # and it is no longer coupled once it has drained
        id = admin.send("gate_set", tenant=made.tenant, device=0, state=CLOSED)
        for guest in first, second:
            guest.send("drained", device=0, epoch=guest.hear("gate").epoch)
        assert admin.answer(id).kind == "done" and admin.tenant_row(made.tenant).coupled == 0


def test_a_close_that_waits_for_work_is_not_given_up():
    with Daemon() as meted:
        admin, other = Admin(meted.place), Admin(meted.place)
        made, captures = admin.tenant("1GiB"), other.tenant("1GiB", name="captures")
        works, restless = Guest(made.socket), Guest(captures.socket)
        restless.captures(1)
        id = admin.send("gate_set", tenant=made.tenant, device=0, state=CLOSED)
        told = works.hear("gate")
        try:  # long enough for a neighbour that began later to be given up
            other.ask("gate_set", tenant=captures.tenant, device=0, state=CLOSED)
            raise AssertionError("it closed over a capture")
        except Refused:
            pass
        assert works.shown()["gate"] == CLOSING and other.tenant_row(made.tenant).coupled == 0
        works.send("drained", device=0, epoch=told.epoch)
        assert admin.answer(id).kind == "done"


def test_a_guest_may_report_that_it_is_idle_or_wants_its_device():
    with Daemon() as meted:
        admin = Admin(meted.place)
        guest = Guest(admin.tenant("1GiB").socket)
        assert guest.turns() == dict(say=0, contended=0, flight_ns=0, grace_ns=0)
        for word in ("idle", "wants", "idle", "idle"):
            guest.send(word, device=0)
        guest.send("wants", device=99)  # not one of its devices: nothing comes of it
        assert guest.credit(1 << 20) == 1 << 20


def test_a_dead_guest_counts_as_drained():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")
        pid = forked(lambda: Guest(made.socket))
        id = admin.send("gate_set", tenant=made.tenant, device=0, state=CLOSED)
        kill(pid)
        assert admin.answer(id).kind == "done"


def test_a_close_that_is_overtaken_is_refused():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")
        guest = Guest(made.socket)
        close = admin.send("gate_set", tenant=made.tenant, device=0, state=CLOSED)
        open_ = admin.send("gate_set", tenant=made.tenant, device=0, state=OPEN)
        assert admin.answer(close).kind == "refused"
        assert admin.answer(open_).kind == "done"
        assert guest.shown()["gate"] == OPEN and guest.shown()["not_open"] == 0


def test_several_devices_each_with_its_own_book():
    with Daemon(environment={"METE_STUB_DEVICES": "3"}) as meted:
        admin = Admin(meted.place)
        made = admin.tenant("25%", device="2,0")
        guest = Guest(made.socket)
        assert guest.welcome.devices == 2
        assert guest.credit(GIB, device=0) == GIB and guest.credit(GIB, device=1) == GIB
        guest.allocated(GIB, device=0)
        guest.allocated(GIB, device=1)
        assert guest.refused(1, device=1) == LIMIT
        assert admin.device_row(2).allocated == GIB and admin.device_row(0).allocated == GIB
        assert admin.device_row(1).allocated == 0
        try:
            guest.credit(1, device=2)
            raise AssertionError("granted")
        except Refused as refusal:
            assert refusal.code == UNKNOWN
        # Without a wish, a tenant comes to the device of which least is promised.
        assert admin.tenant("10%").uuid.endswith("01")


def test_a_peak_between_two_looks_is_seen():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")
        guest = Guest(made.socket)
        guest.credit(500 * MIB)
        guest.allocated(0)
        struct.pack_into("<Q", guest.own, 64 + 24, 400 * MIB)
        assert admin.tenant_row(made.tenant).peak == 400 * MIB
        assert admin.tenant_row(made.tenant).allocated == 0
        struct.pack_into("<Q", guest.own, 64 + 24, 1 << 60)  # more than it was ever granted: not believed
        assert admin.tenant_row(made.tenant).peak == 500 * MIB


def test_a_peak_goes_with_the_context_that_there_was_then():
    with tempfile.NamedTemporaryFile("w") as processes:
        with Daemon(environment={"METE_STUB_PROCESSES": processes.name}) as meted:
            admin = Admin(meted.place)
            made = admin.tenant("1GiB")
            guest = Guest(made.socket)
            guest.ask("residual_ask", device=0, bytes=100 * MIB)
            processes.write(f"0 {guest.seat.pid} {100 * MIB}\n")
            processes.flush()
            guest.contexts(1)
            guest.send("residual_settle", device=0, contexts=1, bytes=100 * MIB)
            guest.credit(20 * MIB)
            assert admin.tenant_row(made.tenant).peak == 100 * MIB
            # It allocates, frees, and its context is gone before anybody measures again.
            struct.pack_into("<Q", guest.own, 64 + 24, 20 * MIB)
            processes.seek(0)
            processes.truncate()
            guest.contexts(0)
            row = admin.tenant_row(made.tenant)
            assert (row.residual, row.allocated, row.peak) == (0, 0, 120 * MIB), row


def test_processes_are_those_of_the_tenant():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made, other = admin.tenant("1GiB"), admin.tenant("1GiB")
        guest, stranger = Guest(made.socket), Guest(other.socket)
        guest.credit(MIB)
        guest.allocated(MIB)
        stranger.credit(MIB)
        stranger.allocated(MIB)
        id = guest.send("processes_ask", device=0)
        row = guest.answer(id)
        assert row.kind == "process_row" and (row.pid, row.used) == (guest.seat.pid, MIB)
        assert guest.answer(id).rows == 1


def test_the_page_shows_rivals_and_room():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("4GiB")
        guest = Guest(made.socket)
        assert guest.shown()["rivals"] == 0 and guest.shown()["room"] == 4 * GIB
        other = Guest(admin.tenant("4GiB").socket)
        assert guest.shown()["rivals"] == 1
        other.credit(GIB)
        assert guest.shown()["room"] == 3 * GIB


if __name__ == "__main__":
    run(globals())
