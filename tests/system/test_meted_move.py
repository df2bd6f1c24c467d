#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory that moves between tenants, as meted orders it: leaving, coming, suspend and park."""
from mover import *


def test_two_tenants_of_sixty_per_cent_exchange_the_missing_room_and_both_run():
    with Node() as meted:
        a = meted.mover("a", SET)
        b = meted.mover("b")
        assert not meted.moves, "nothing moves while all fits"
        b.allocate(SET)
        meted.play(lambda: not b.asked)
        lack = 2 * SET - DEVICE
        assert b.refusal is None and b.here() == SET and a.out() >= lack and a.out() < lack + CHUNK, (a.here(), a.out())
        assert {who for who, *_ in meted.moves} == {"a"}, meted.moves
        assert not a.runs() and b.runs()
        # a wants, and its time comes: b makes room, and a comes whole.
        a.wants()
        meted.play(lambda: a.is_whole() and b.out() >= lack)
        assert meted.resident() <= DEVICE
        row = meted.row(a)
        assert row.moved_out == a.log_sum("left") and row.moved_in == row.moved_out, row
        b.wants()
        meted.play(lambda: b.is_whole())
        # Memory that was copied once and is clean is not copied again.
        meted.play(lambda: a.is_whole())
        assert meted.row(a).saved or meted.row(b).saved
        meted.ends()


def test_nothing_moves_where_the_share_says_so():
    with Node() as meted:
        made = meted.admin.tenant(name="a", memory="100%")
        guest = Mover(made.socket)
        try:
            guest.swaps()
            raise AssertionError("there is a store")
        except Refused as refusal:
            assert refusal.code == BAD and "swap=off" in str(refusal), refusal
        assert guest.credit(CHUNK) == CHUNK


def test_without_a_store_nothing_moves():
    with Node(store=0) as meted:
        try:
            meted.mover("a")
            raise AssertionError("there is a store")
        except Refused as refusal:
            assert "--store 0" in str(refusal), refusal


def test_the_tenant_that_is_idle_longest_leaves_first():
    with Node() as meted:
        a, b, c = [meted.mover(name, 5 * CHUNK) for name in "abc"]
        b.idle()
        meted.play(lambda: b.turns()["say"])
        a.idle()
        meted.row(a)  # it was heard
        d = meted.mover("d")
        # A tenant that has paused for less than the shortest stay (20 ms, residency_usual) still counts as running.
        time.sleep(0.04)
        d.allocate(3 * CHUNK)
        meted.play(lambda: not d.asked)
        assert [who for who, *_ in meted.moves] == ["b"] * 2, meted.moves
        assert b.out() and not b.runs() and not a.out() + c.out() + d.out()
        meted.ends()


def test_a_tenant_that_asks_for_memory_that_moves_waits_and_is_not_idle():
    """It has nothing on the device to compute: its thread is in the call."""
    with Node() as meted:
        a = meted.mover("a", 15 * CHUNK)
        b = meted.mover("b")
        a.obeys = False
        b.idle()
        meted.play(lambda: DOING[meted.row(b).doing] in ("idle", "running"))
        b.allocate(3 * CHUNK)
        b.idle()
        meted.play(lambda: meted.row(b).waiting)
        row = meted.row(b)
        assert DOING[row.doing] == "waits-for-room" and row.wanted == 3 * CHUNK and row.waiting == 1 and row.wanting == row.lasting > 0, row
        a.obeys = True
        meted.play(lambda: not b.asked)
        assert not meted.row(b).waiting
        # Now a's memory is out. It wants the device, and waits for nothing but that.
        assert a.out() and DOING[meted.row(a).doing] in ("idle", "waits-for-memory")
        a.obeys = b.obeys = False
        a.wants()
        meted.play(lambda: DOING[(row := meted.row(a)).doing] == "waits-for-memory" and row.lasting)
        a.idle()
        meted.play(lambda: DOING[meted.row(a).doing] == "idle")
        a.obeys = b.obeys = True
        meted.ends()


def test_suspend_frees_the_device_and_resume_brings_all_back():
    with Node() as meted:
        a = meted.mover("a", SET)
        meted.admin.ask("tenant_suspend", tenant=a.made.tenant, name="", suspends=1)
        meted.play(lambda: not a.here())
        row = meted.row(a)
        assert row.suspended and row.out == SET and row.resident == 0 and row.stored >= SET and row.swapped and DOING[row.doing] == "suspended", row
        a.wants()
        b = meted.mover("b", 15 * CHUNK)
        meted.play(b.runs)
        assert not a.runs()
        b.close()
        meted.movers.remove(b)
        meted.admin.ask("tenant_suspend", tenant=a.made.tenant, name="", suspends=0)
        meted.play(lambda: a.is_whole())
        assert not meted.row(a).suspended
        meted.ends()


def test_a_tenant_that_was_coupled_is_not_called_so_where_its_gate_is_not_to_close():
    with Node() as meted:
        a = meted.mover("a", SET)
        a.drains = False
        a.waits(1)
        meted.admin.ask("tenant_suspend", tenant=a.made.tenant, name="", suspends=1)
        meted.play(lambda: meted.row(a).coupled)
        meted.admin.ask("tenant_suspend", tenant=a.made.tenant, name="", suspends=0)
        a.waits(0)
        meted.play(lambda: a.runs())
        assert not meted.row(a).coupled, meted.row(a)


def test_a_tenant_without_a_processor_is_not_called_coupled_as_its_memory_is_to_leave():
    """Of two that do not drain, and have a thread at the gate, the one that was told first has no processor."""
    with others_spin(), Node() as meted:
        starved, other = meted.mover("starved", CHUNK, seat=Starved()), meted.mover("other", CHUNK)
        for mover in (starved, other):
            mover.drains = False
            mover.waits(1)
            meted.admin.ask("tenant_suspend", tenant=mover.made.tenant, name="", suspends=1)
        meted.play(lambda: meted.row(other).coupled)
        log = meted.log()
        assert f"tenant.coupled tenant={other.made.tenant}" in log and f"tenant.coupled tenant={starved.made.tenant}" not in log, log


def suspends(meted, mover, admin=None, wait=3600 * 10 ** 9):
    """Asks, and hears the answer later."""
    admin = admin or meted.admin
    id = admin.send("tenant_suspend", tenant=mover.made.tenant, name="", suspends=1, wait=wait)
    return lambda: admin.answer(id)


def answered(admin):
    """Something is there to be read."""
    return bool(select.select([admin.socket], [], [], 0)[0])


def test_mete_suspend_is_answered_when_all_memory_has_left():
    with Node() as meted:
        a = meted.mover("a", SET)
        a.obeys = False
        done = meted.admin.ask("tenant_suspend", tenant=a.made.tenant, name="", suspends=1)
        assert (done.moves, done.leaving, done.value) == (SET, SET, 0), done
        done = meted.admin.ask("tenant_suspend", tenant=a.made.tenant, name="", suspends=1, wait=1)
        assert (done.moves, done.leaving) == (SET, SET), "it has waited for as long as it was told"
        answer = suspends(meted, a)
        a.obeys = True
        meted.play(lambda: answered(meted.admin))
        done = answer()
        assert not a.here() and (done.moves, done.leaving, done.value) == (SET, 0, 0), done
        done = suspends(meted, a)()
        assert (done.moves, done.leaving) == (SET, 0), "it is out already"
        meted.ends()


def test_a_suspend_that_waits_is_told_why_it_fails():
    with Node() as meted:
        a = meted.mover("a", SET)
        a.obeys = False
        other, third = Admin(meted.place), Admin(meted.place)
        first = suspends(meted, a, other)
        meted.play(lambda: meted.row(a).suspended)  # two connections are read in any order
        suspends(meted, a, third)
        assert first().leaving == SET, "the later one waits in its place"
        third.close()
        answer = suspends(meted, a, other)
        meted.play(lambda: a.order["leave"])
        done = meted.admin.ask("tenant_suspend", tenant=a.made.tenant, name="", suspends=0)
        assert done.moves == done.leaving == a.order["leave"] and not done.value, "what was to leave, and may have left, comes as well"
        refusal = answer()
        assert refusal.kind == "refused" and "it was resumed before all of its memory had left" in refusal.reason, refusal
        answer = suspends(meted, a, other)
        a.close()
        meted.movers.remove(a)
        done = answer()
        assert done.kind == "done" and (done.moves, done.leaving, done.value) == (0, 0, 0), "it has died, and nothing of it is there"


def test_a_tenant_that_does_not_swap_is_not_suspended():
    with Node() as meted:
        made = meted.admin.tenant(name="a", memory="100%")
        try:
            meted.admin.ask("tenant_suspend", tenant=made.tenant, name="", suspends=1)
            raise AssertionError("it was suspended")
        except Refused as refusal:
            assert "swap=off" in str(refusal), refusal


def test_a_tenant_suspended_without_movable_memory_and_resumed_has_turns_again():
    """It swaps only since its share was set, so that all it has stays on the device. Its threads keep wanting to run, and do not report it again."""
    with Node() as meted:
        for waits in (False, True):
            made = meted.admin.tenant(name="a", memory="50%")
            other = Mover(meted.admin.tenant(name="other", memory="25%", weight="200").socket, "other")
            a = Mover(made.socket)
            assert a.credit(CHUNK) == CHUNK
            a.plain = CHUNK
            a.show()
            movers = [a, other]
            play(movers, lambda: a.runs() != waits and other.runs() == waits)
            meted.admin.set(made.tenant, "swap", "auto")
            done = meted.admin.ask("tenant_suspend", tenant=made.tenant, name="", suspends=1)
            assert done.value == CHUNK, "what stays is said"
            play(movers, lambda: meted.admin.tenant_row(made.tenant).swapped and a.shown()["gate"] == CLOSED)
            play(movers, other.runs)
            meted.admin.ask("tenant_suspend", tenant=made.tenant, name="", suspends=0)
            play(movers, a.runs)
            row = meted.admin.tenant_row(made.tenant)
            assert not row.suspended and not row.swapped, row
            for mover in movers:
                mover.close()
            until(lambda: not [row for row in meted.admin.list() if row.kind == "guest_row"], "they are still there")


def test_idle_memory_is_parked_after_its_time():
    with Node() as meted:
        made = meted.tenant("a")
        meted.admin.set(made.tenant, "idle", "park:100ms")
        a = meted.mover("a", SET, made=made)
        meted.play(lambda: a.turns()["say"])
        assert a.here() == SET, "it is busy"
        a.idle()
        meted.play(lambda: not a.here())
        assert meted.row(a).parked
        a.wants()
        meted.play(lambda: a.is_whole())
        meted.ends()


def test_full_stores_and_too_large_tenants_are_refused_with_a_sentence():
    with Node(store=8 * CHUNK) as meted:
        a = meted.mover("a", SET)
        b = meted.mover("b")
        b.allocate(17 * CHUNK)
        meted.play(lambda: not b.asked)
        assert "larger than the device" in b.refusal.reason, b.refusal
        b.refusal = None
        b.allocate(15 * CHUNK)
        meted.play(lambda: not b.asked)
        assert "store" in b.refusal.reason, b.refusal
        assert meted.row(b).refusals == 2
        # At once, or not at all.
        b.refusal = None
        b.allocate(SET, wait=0)
        meted.play(lambda: not b.asked)
        assert b.refusal and not meted.moves
        b.refusal = None
        b.allocate(SET)
        meted.play(lambda: not b.asked)
        assert not b.refusal and meted.store_bytes() <= 8 * CHUNK
        meted.ends()


def test_an_ask_for_more_than_the_device_has_by_now_is_answered():
    with tempfile.NamedTemporaryFile("w") as processes:
        with Node(environment={"METE_STUB_PROCESSES": processes.name}) as meted:
            b = (meted.mover("a", SET), meted.mover("b"))[1]
            other = Guest(meted.admin.tenant("200MiB").socket)
            assert other.ask("residual_ask", device=0, bytes=10 * MIB).kind == "done"
            b.allocate(15 * CHUNK)
            until(lambda: meted.row(b).waiting)
            # Before anything has moved, somebody else's context turns out to be larger.
            other.contexts(1)
            processes.write(f"0 {other.seat.pid} {100 * MIB}\n")
            processes.flush()
            other.send("residual_settle", device=0, contexts=1, bytes=10 * MIB)
            meted.play(lambda: not b.asked)
            assert b.refusal
            other.close()
            meted.ends()


def test_unused_credit_is_recalled_for_an_evicted_tenant_that_lacks_the_room():
    with tempfile.NamedTemporaryFile("w") as processes:
        with Node(environment={"METE_STUB_PROCESSES": processes.name}) as meted:
            made = meted.admin.tenant("200MiB")
            other = Guest(made.socket)
            assert other.credit(30 * MIB) == 30 * MIB
            other.allocated(6 * MIB, 24 * MIB)
            assert other.ask("residual_ask", device=0, bytes=6 * MIB).kind == "done"
            a, b = meted.mover("a", 14 * CHUNK), meted.mover("b")
            b.allocate(4 * CHUNK)
            meted.play(lambda: not b.asked)
            assert b.refusal is None and a.out()
            # a's memory fits no more: another tenant's context turns out to be larger.
            other.contexts(1)
            for bytes in 56 * MIB, 57 * MIB:
                processes.seek(0)
                processes.write(f"0 {other.seat.pid} {bytes}\n")
                processes.flush()
                other.send("residual_settle", device=0, contexts=1, bytes=6 * MIB)
                until(lambda: meted.admin.tenant_row(made.tenant).residual == bytes - 6 * MIB)
            recall = other.hear("credit_recall")
            assert recall.bytes == 24 * MIB, recall
            # Before it answers it is told no second time, whatever changes.
            other.answer(other.send("store_ask", device=0))
            assert not any(message.kind == "credit_recall" for message in other.heard)
            other.allocated(6 * MIB)
            other.give_back(24 * MIB, recall=recall.id)
            a.wants()
            meted.play(a.is_whole)
            other.close()
            meted.ends()


def test_no_block_is_larger_than_the_operators_bound():
    with Node("--block", "8MiB") as meted:
        a = meted.mover("a", SET)
        assert a.chunk == 8 * MIB and a.ask("segment_ask", device=0, bytes=8 * MIB).bytes == 8 * MIB
        try:
            a.ask("segment_ask", device=0, bytes=10 * MIB)
            raise AssertionError("it was given more than a block")
        except Refused:
            pass
        meted.ends()


if __name__ == "__main__":
    run(globals())
