#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory that moves, as guests and people see it. The device has 1 GiB for tenants, of whom each holds real memory only
in the store."""
from mover import *


def test_two_tenants_of_sixty_per_cent_exchange_what_lacks_and_both_run():
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
        # What was copied once and is clean is not copied again.
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
        assert guest.credit(64 * MIB) == 64 * MIB


def test_without_a_store_nothing_moves():
    with Node(store="0") as meted:
        try:
            meted.mover("a")
            raise AssertionError("there is a store")
        except Refused as refusal:
            assert "--store 0" in str(refusal), refusal


def test_who_is_idle_longest_leaves_first():
    with Node() as meted:
        a, b, c = [meted.mover(name, 5 * CHUNK) for name in "abc"]
        b.idle()
        meted.play(lambda: b.turns()["say"])
        a.idle()
        meted.row(a)  # it was heard
        d = meted.mover("d")
        d.allocate(3 * CHUNK)
        meted.play(lambda: not d.asked)
        assert [who for who, *_ in meted.moves] == ["b"] * 2, meted.moves
        assert b.out() and not b.runs() and not a.out() + c.out() + d.out()
        meted.ends()


def test_who_asks_for_memory_that_moves_waits_and_is_not_idle():
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
        meted.admin.ask("tenant_suspend", tenant=a.made.tenant, name="", away=1)
        meted.play(lambda: not a.here())
        row = meted.row(a)
        assert row.away and row.out == SET and row.resident == 0 and row.stored >= SET and row.swapped and DOING[row.doing] == "suspended", row
        a.wants()
        b = meted.mover("b", 15 * CHUNK)
        meted.play(b.runs)
        assert not a.runs()
        b.close()
        meted.movers.remove(b)
        meted.admin.ask("tenant_suspend", tenant=a.made.tenant, name="", away=0)
        meted.play(lambda: a.is_whole())
        assert not meted.row(a).away
        meted.ends()


def test_who_swaps_not_is_not_suspended():
    with Node() as meted:
        made = meted.admin.tenant(name="a", memory="100%")
        try:
            meted.admin.ask("tenant_suspend", tenant=made.tenant, name="", away=1)
            raise AssertionError("it was suspended")
        except Refused as refusal:
            assert "swap=off" in str(refusal), refusal


def test_who_is_suspended_without_movable_memory_and_resumed_has_turns_again():
    """It swaps only since its share was set, so that all it has stays on the device. Its threads keep wanting to run, and do not say
    so again."""
    with Node() as meted:
        for waits in (False, True):
            made = meted.admin.tenant(name="a", memory="50%")
            other = Mover(meted.admin.tenant(name="other", memory="25%", weight="200").socket, "other")
            a = Mover(made.socket)
            assert a.credit(64 * MIB) == 64 * MIB
            a.plain = 64 * MIB
            a.show()
            movers = [a, other]
            play(movers, lambda: a.runs() != waits and other.runs() == waits)
            meted.admin.set(made.tenant, "swap", "auto")
            done = meted.admin.ask("tenant_suspend", tenant=made.tenant, name="", away=1)
            assert done.value == 64 * MIB, "what stays is said"
            play(movers, lambda: meted.admin.tenant_row(made.tenant).swapped and a.shown()["gate"] == CLOSED)
            play(movers, other.runs)
            meted.admin.ask("tenant_suspend", tenant=made.tenant, name="", away=0)
            play(movers, a.runs)
            row = meted.admin.tenant_row(made.tenant)
            assert not row.away and not row.swapped, row
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
    with Node(store="512MiB") as meted:
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
        assert not b.refusal and meted.store_bytes() <= 512 * MIB
        meted.ends()


def test_who_waits_for_more_than_the_device_has_by_now_is_answered():
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


def test_no_block_is_larger_than_the_operator_says():
    with Node("--block", "8MiB") as meted:
        a = meted.mover("a", SET)
        assert a.chunk == 8 * MIB and a.ask("segment_ask", device=0, bytes=8 * MIB).bytes == 8 * MIB
        try:
            a.ask("segment_ask", device=0, bytes=10 * MIB)
            raise AssertionError("it was given more than a block")
        except Refused:
            pass
        meted.ends()


def test_neither_budget_nor_quota_is_exceeded_whatever_is_asked_for():
    with Node("--quota", "128MiB", store="256MiB") as meted:
        movers = [meted.mover(name, 4 * CHUNK) for name in "abc"]
        had = {mover.name: 0 for mover in movers}
        for bytes in (0, 1, 64 * MIB, 65 * MIB, 1 << 40, (1 << 64) - 1):
            for mover in movers:
                try:
                    had[mover.name] += mover.ask("segment_ask", device=0, bytes=bytes).bytes
                    assert bytes and bytes <= CHUNK
                except Refused:
                    pass
                assert had[mover.name] <= 128 * MIB and sum(had.values()) <= 256 * MIB
                assert meted.store_bytes() <= 256 * MIB
        for mover in movers[1:]:
            try:
                mover.ask("segment_return", device=0, offset=4 << 30, bytes=2 * MIB)
                raise AssertionError("it gave back what it has not")
            except Refused as refusal:
                assert refusal.code == UNKNOWN
        meted.ends()


def test_who_has_little_that_can_move_gets_little_of_the_store():
    with Node(store="256MiB") as meted:
        a = meted.mover("a", 3 * MIB)
        for bytes, comes in ((CHUNK, False), (2 * MIB, True), (2 * MIB, True), (1, False)):
            try:
                a.ask("segment_ask", device=0, bytes=bytes)
                assert comes, bytes
            except Refused as refusal:
                assert not comes and "3MiB that can move" in str(refusal), refusal
        # What it allocates then, it may bring along.
        a.allocate(CHUNK)
        meted.play(lambda: not a.asked)
        a.ask("segment_ask", device=0, bytes=CHUNK)
        meted.ends()


def test_who_was_refused_a_segment_is_told_to_go_on_when_others_gave_some_back():
    with Node(store="256MiB") as meted:
        a, b = meted.mover("a", 4 * CHUNK), meted.mover("b", 4 * CHUNK)
        segments = [a.ask("segment_ask", device=0, bytes=CHUNK) for _ in range(4)]
        a.obeys = False
        try:
            b.ask("segment_ask", device=0, bytes=CHUNK)
            raise AssertionError("the store is larger than it is")
        except Refused as refusal:
            assert "the store is full" in str(refusal), refusal
        b.heard = []
        a.ask("segment_return", device=0, offset=segments[0].offset, bytes=CHUNK)
        b.hear("move")
        b.ask("segment_ask", device=0, bytes=CHUNK)
        meted.ends()


def test_who_keeps_what_it_was_to_give_back_is_not_counted_on():
    with Node(store="512MiB") as meted:
        keeper, a = meted.mover("keeper", 6 * CHUNK), meted.mover("a", SET)
        for block in keeper.blocks:
            answer = keeper.ask("segment_ask", device=0, bytes=CHUNK)
            block.segment = answer.offset, answer.bytes, keeper.store_fd
        keeper.obeys = False
        a.idle()
        # The neighbour's segments would not fit.
        b = meted.mover("b")
        for _ in range(3):
            a.send("segment_ask", device=0, bytes=CHUNK)
        meted.play(lambda: "store.kept tenant=1" in meted.log())
        b.allocate(4 * CHUNK)
        meted.play(lambda: not b.asked)
        assert "the store has room" in b.refusal.reason, b.refusal
        keeper.obeys, b.refusal = True, None
        meted.play(lambda: keeper.done["dropped"] >= keeper.order["drop"])
        b.allocate(3 * CHUNK)
        meted.play(lambda: not b.asked)
        assert not b.refusal, b.refusal
        meted.ends()


def test_who_finds_the_store_full_is_not_called_stuck_and_who_keeps_it_full_is_named():
    with Node(store="640MiB") as meted:
        keeper, a = meted.mover("keeper", 6 * CHUNK), meted.mover("a", SET)
        for block in keeper.blocks:
            answer = keeper.ask("segment_ask", device=0, bytes=CHUNK)
            block.segment = answer.offset, answer.bytes, keeper.store_fd
        keeper.obeys = False
        a.idle()
        # Of six chunks that are to leave, the store has room for four.
        b = meted.mover("b")
        b.allocate(7 * CHUNK)
        meted.play(lambda: not b.asked)
        assert "tenant 1 (keeper) keeps 384MiB of the store" in b.refusal.reason, b.refusal
        assert a.log_sum("left") == 4 * CHUNK and "tenant.stuck" not in meted.log() and not meted.row(a).stuck, (a.log, meted.log())
        assert "store.kept tenant=1" in meted.log() and meted.row(keeper).kept == 6 * CHUNK and not meted.row(a).kept
        # It comes back, and leaves again when there is room.
        a.wants()
        meted.play(lambda: a.is_whole())
        a.idle()
        keeper.obeys, b.refusal = True, None
        meted.play(lambda: keeper.done["dropped"] >= keeper.order["drop"])
        b.allocate(7 * CHUNK)
        meted.play(lambda: not b.asked)
        assert not b.refusal and "tenant.stuck" not in meted.log() and not meted.row(keeper).kept, b.refusal
        meted.ends()


def test_who_says_that_it_gave_back_what_it_keeps_is_a_liar():
    with Node(store="256MiB") as meted:
        a, b = meted.mover("a", 4 * CHUNK), meted.mover("b", 4 * CHUNK)
        for _ in range(4):
            a.ask("segment_ask", device=0, bytes=CHUNK)
        b.send("segment_ask", device=0, bytes=CHUNK)
        while a.hear("move").drop < CHUNK:
            pass
        a.send("moved", device=0, generation=0, stopped=0, **a.done | dict(dropped=CHUNK))
        try:
            assert "gave back less" in a.hear("refused").reason
            a.receive_any()
            raise AssertionError("it is believed")
        except Gone:
            pass
        meted.movers.remove(a)
        a.close()
        meted.ends()


def test_what_a_new_guest_claims_to_hold_is_nobodys():
    for said in (dict(allocated=GIB, movable=GIB), dict(out=1 << 40), dict(credit=GIB), dict(contexts=1000), dict(allocated=1 << 63, credit=1 << 63, out=1 << 63)):
        with Node(store="512MiB") as meted:
            made = meted.tenant("liar")
            liar = Mover(made.socket, "liar", state=False)
            try:
                liar.ask("inventory", device=0, **dict(contexts=0, allocated=0, credit=0, movable=0, out=0) | said)
                assert "credit" not in said
            except Refused as refusal:
                assert "nobody has granted" in str(refusal), refusal
            liar.ask("inventory_end", devices=1)
            row = meted.admin.tenant_row(made.tenant)
            assert (row.allocated, row.credit, row.residual, row.out) == (0, 0, 0, 0), row
            # The device and the store are there for others.
            a, b = meted.mover("a", SET), meted.mover("b", SET)
            assert not a.refusal and not b.refusal and a.out()
            liar.close()
            meted.ends()


def test_what_is_stated_again_and_again_counts_once():
    with Node("--grace", "60s", store="512MiB") as meted:
        a, b = meted.mover("a", SET), meted.mover("b", SET)
        assert a.out()
        meted.kill()
        meted.start()
        meted.admin = Admin(meted.place)
        for _ in range(20):
            a.again(a.made.socket, state=False)
            a.ask("inventory", device=0, contexts=0, allocated=a.here(), credit=0, movable=a.here(), out=a.out())
        for mover in meted.movers:
            mover.again(mover.made.socket)
        assert meted.row(a).out == a.out()
        b.idle()
        a.wants()
        meted.play(lambda: a.is_whole())
        meted.ends()


def test_a_liars_connection_ends_and_the_others_go_on():
    for lie in (dict(left=CHUNK), dict(entered=1), dict(returned=1), dict(dropped=1), dict(copied=1), dict(left=(1 << 64) - 1), dict(generation=7)):
        with Node() as meted:
            a = meted.mover("a", SET)
            b = meted.mover("b", 4 * CHUNK)
            what = dict(a.done, generation=0, stopped=0) | lie
            a.send("moved", device=0, **what)
            try:
                a.hear("refused")
                a.receive_any()
                raise AssertionError("it is believed")
            except Gone:
                pass
            meted.movers.remove(a)
            a.close()
            b.allocate(CHUNK)
            meted.play(lambda: not b.asked)
            assert not b.refusal


def test_who_does_not_move_is_said_to_be_stuck_and_comes_back():
    with Node() as meted:
        a = meted.mover("a", SET)
        a.idle()
        a.obeys = False
        b = meted.mover("b")
        b.allocate(SET)
        meted.play(lambda: meted.row(a).stuck)
        assert "tenant.stuck" in meted.log()
        a.obeys = True
        meted.play(lambda: not b.asked)
        if b.refusal:  # where this took longer than a stuck tenant is waited for
            assert 'tenant 1 (a)' in b.refusal.reason, b.refusal
            b.refusal = None
            b.allocate(SET)
            meted.play(lambda: not b.asked)
        assert not b.refusal and not meted.row(a).stuck
        meted.ends()


def dribbles(mover):
    """It leaves page by page, as it is told: a page at each look."""
    while mover.heard:
        mover.hears(mover.heard.pop(0))
    if mover.order["generation"] != mover.generation:
        mover.ends_generation()
    if mover.done["left"] < mover.order["leave"]:
        mover.done["left"] += PAGE
        mover.done["copied"] += PAGE
        mover.say()


def test_who_waits_for_one_that_is_stuck_or_all_but_stuck_is_told_so():
    """It does not drain; it does not move; it moves a page now and then."""
    for way in (lambda a: setattr(a, "drains", False), lambda a: None, dribbles):
        with Node() as meted:
            a = meted.mover("a", SET)
            a.idle()
            a.obeys = False
            way(a)
            b = meted.mover("b")
            b.allocate(SET)
            meted.play(lambda: (way(a), not b.asked)[1])
            assert "tenant 1 (a), which has" in b.refusal.reason and "stuck" in b.refusal.reason, b.refusal
            # What fits beside it is still granted.
            b.refusal = None
            b.allocate(4 * CHUNK)
            meted.play(lambda: not b.asked)
            assert not b.refusal, b.refusal


def test_who_only_waits_for_its_memory_is_told_who_does_not_make_room():
    """By a message for its standard error, and in its row. Who fits beside what stays runs."""
    with Node() as meted:
        a, b, c = meted.mover("a", SET), meted.mover("b", SET), meted.mover("c")
        b.idle()
        assert a.out()
        b.obeys = False
        a.wants()
        meted.play(lambda: a.hindered)
        assert a.hindered == "tenant 2 (b), which has 576MiB of the device, is stuck: its memory does not leave as it was told", a.hindered
        row = meted.row(a)
        assert row.behind == b.made.tenant and DOING[row.doing] == "waits-for-memory" and not meted.row(b).behind
        c.allocate(3 * CHUNK)
        meted.play(lambda: not c.asked)
        assert not c.refusal and c.runs() and not c.hindered and not meted.row(c).behind
        # A process that comes later is told as well.
        second = meted.mover("second", made=a.made)
        meted.play(lambda: second.hindered)
        c.idle()
        b.obeys = True
        meted.play(lambda: a.is_whole() and not a.hindered)
        assert not meted.row(a).behind
        meted.ends()


def test_who_ends_in_the_middle_of_leaving_makes_room():
    with Node() as meted:
        a = meted.mover("a", SET)
        b = meted.mover("b")
        b.allocate(SET)
        meted.play(lambda: a.out() and b.asked)
        meted.movers.remove(a)
        a.close()
        meted.play(lambda: not b.asked)
        assert not b.refusal
        meted.ends()


def test_who_ends_in_the_middle_of_coming_leaves_nothing():
    with Node() as meted:
        a = meted.mover("a", SET)
        b = meted.mover("b", SET)
        b.idle()
        a.wants()
        meted.play(lambda: a.done["entered"])
        meted.movers.remove(a)
        a.close()
        b.wants()
        meted.play(lambda: b.is_whole())
        c = meted.mover("c", 6 * CHUNK)
        assert not c.refusal
        meted.ends()


def test_one_of_two_guests_of_a_tenant_ends_and_the_other_leaves_for_both():
    with Node() as meted:
        made = meted.tenant("a")
        first, second = [meted.mover("a", 5 * CHUNK, made=made) for _ in range(2)]
        first.obeys = second.obeys = False
        b = meted.mover("b")
        b.allocate(12 * CHUNK)
        meted.play(lambda: any(mover.order["leave"] for mover in (first, second)))
        meted.movers.remove(first)
        first.close()
        second.obeys = True
        meted.play(lambda: not b.asked)
        assert not b.refusal and second.out()
        meted.ends()


def test_what_cannot_move_finds_room_where_what_can_is_in_the_way():
    with Node() as meted:
        a, b = meted.mover("a", 7 * CHUNK), meted.mover("b", 7 * CHUNK)
        plain = Mover(meted.admin.tenant(name="plain", memory="100%").socket, "plain")
        meted.movers.append(plain)
        plain.allocate(4 * CHUNK)
        meted.play(lambda: not plain.asked)
        assert not plain.refusal and a.out() + b.out() >= 2 * CHUNK, (plain.refusal, a.out(), b.out())
        assert a.here() + b.here() + 4 * CHUNK <= DEVICE
        for mover in (a, b):
            mover.wants()
            meted.play(lambda: mover.is_whole())
            mover.idle()
        meted.movers.remove(plain)
        plain.close()
        meted.ends()


def test_what_cannot_move_is_refused_where_a_tenant_could_never_come_back_whole():
    with Node() as meted:
        a, b = meted.mover("a", SET), meted.mover("b", SET)
        plain = Mover(meted.admin.tenant(name="plain", memory="100%").socket, "plain")
        meted.movers.append(plain)
        granted = 0
        while not plain.refusal:
            plain.allocate(CHUNK)
            meted.play(lambda: not plain.asked)
            granted += not plain.refusal
            assert granted * CHUNK + SET <= DEVICE
        assert granted >= 6, granted
        assert "could not come back" in plain.refusal.reason, plain.refusal
        for mover in (a, b, a):
            mover.wants()
            meted.play(lambda: mover.is_whole())
            mover.idle()
        meted.movers.remove(plain)
        plain.close()
        meted.ends()


def test_what_was_freed_in_the_store_is_given_back():
    with Node() as meted:
        a = meted.mover("a", SET)
        b = meted.mover("b", SET)
        for block in [block for block in a.blocks if not block.here]:
            a.free(block)
        until(lambda: meted.row(a).stored == 0)
        row = meted.row(a)
        assert row.out == 0 and row.allocated == a.here(), row
        a.wants()
        meted.play(lambda: a.is_whole() and b.runs())
        meted.ends()


def test_a_meted_that_is_killed_in_the_middle_of_a_handover_finds_all_as_it_was():
    with Node("--grace", "60s") as meted:
        a = meted.mover("a", SET)
        b = meted.mover("b", SET)
        b.idle()
        a.wants()
        meted.play(lambda: a.done["entered"])
        out = a.out() + b.out()
        meted.kill()
        meted.start()
        meted.admin = Admin(meted.place)
        for mover in meted.movers:
            mover.again(mover.made.socket)
        rows = [meted.row(mover) for mover in meted.movers]
        assert sum(row.out for row in rows) == out and all(row.allocated == SET for row in rows), rows
        b.idle()
        a.wants()
        meted.play(lambda: a.is_whole())
        a.idle()
        b.wants()
        meted.play(lambda: b.is_whole())
        assert meted.resident() <= DEVICE
        meted.ends()


def test_what_is_out_comes_back_though_its_share_says_swap_off_after_a_restart():
    with Node("--grace", "60s") as meted:
        a = meted.mover("a", SET)
        b = meted.mover("b", SET)
        assert a.out()
        meted.admin.set(a.made.tenant, "swap", "off")
        meted.kill()
        meted.start()
        meted.admin = Admin(meted.place)
        a.again(a.made.socket, state=False)
        assert a.state_all().counted == a.out(), (a.counted, a.out())
        b.again(b.made.socket)
        b.idle()
        a.wants()
        meted.play(lambda: a.is_whole())
        meted.ends()


def test_a_connection_that_breaks_in_the_middle_loses_nothing():
    with Node() as meted:
        a = meted.mover("a", SET)
        b = meted.mover("b", SET)
        b.idle()
        a.wants()
        meted.play(lambda: a.done["entered"])
        a.again(a.made.socket)
        a.wants()
        meted.play(lambda: a.is_whole())
        assert sum(meted.row(mover).out for mover in meted.movers) == b.out()
        meted.ends()


def test_who_joins_behind_a_closed_gate_is_told_to_move_nothing_before_it_has_drained():
    with Node() as meted:
        a = meted.mover("a", SET)
        b = meted.mover("b")
        a.obeys = False
        b.allocate(SET)
        meted.play(lambda: a.order["leave"])
        a.again(a.made.socket)
        a.ask("processes_ask", device=0)
        assert not [heard for heard in a.heard if heard.kind == "move" and heard.leave], a.heard
        assert a.shown()["gate"] != OPEN
        a.send("drained", device=0, epoch=a.shown()["epoch"])
        a.obeys = True
        meted.play(lambda: not b.asked)
        assert b.refusal is None and a.out()
        meted.ends()


def test_no_gate_opens_while_memory_is_out_though_it_cannot_be_closed():
    with Node("--grace", "60s") as meted:
        a = meted.mover("a", SET)
        b = meted.mover("b", SET)
        assert a.out()
        meted.kill()
        meted.start()
        meted.admin = Admin(meted.place)
        a.drains = a.obeys = False
        for mover in meted.movers:
            mover.again(mover.made.socket)
        a.waits(1)
        opened = []

        def look():
            opened.extend([] if a.shown()["gate"] != OPEN else [a.out()])
            return meted.row(a).coupled
        b.wants()
        a.wants()
        meted.play(look)
        # Its turn would come now.
        b.idle()
        b.ask("processes_ask", device=0)
        look()
        a.drains = a.obeys = True
        a.waits(0)
        a.send("drained", device=0, epoch=a.shown()["epoch"])
        meted.play(lambda: look() is not None and a.is_whole())
        assert not any(opened), opened
        meted.ends()


def test_no_gate_opens_before_a_guest_has_said_what_it_has_out():
    with Node("--grace", "60s") as meted:
        a = meted.mover("a", SET)
        others = [meted.mover(name, SET) for name in "bc"]
        assert a.out()
        meted.kill()
        meted.start()
        meted.admin = Admin(meted.place)
        # It waits for what is being copied before it says anything, that it has drained as well.
        a.drains = False
        a.again(a.made.socket, state=False).waits(1)
        for other in others:
            other.again(other.made.socket)
        meted.play(lambda: a.shown()["gate"] != OPEN)
        turns = meted.row(a).turns
        meted.play(lambda: meted.row(a).turns > turns)
        assert a.shown()["gate"] != OPEN
        a.drains = True
        a.state_all().swaps()
        a.waits(0)
        a.send("drained", device=0, epoch=a.shown()["epoch"])
        for other in others:
            other.idle()
        a.wants()
        meted.play(lambda: a.is_whole() and a.shown()["gate"] == OPEN)
        meted.ends()


def test_an_ask_is_not_refused_by_what_guests_have_not_said_yet():
    with Node("--grace", "60s") as meted:
        a = meted.mover("a", SET)
        b = meted.mover("b")
        meted.kill()
        meted.start()
        meted.admin = Admin(meted.place)
        # It was granted by the one before, and is made while it is stated.
        blocks, a.blocks, a.plain = a.blocks, [], SET
        for mover in meted.movers:
            mover.again(mover.made.socket)
        a.blocks, a.plain = blocks, 0
        a.show()
        b.allocate(SET)
        meted.play(lambda: not b.asked)
        assert b.refusal is None and b.here() == SET and a.out()
        meted.ends()


def test_credit_that_nobody_uses_refuses_nobody():
    """To an ask that its own tenant's credit is in the way of, and to one that a rival's is, on the device and in the store."""
    for asker in "a", "b":
        with Node(store="512MiB") as meted:
            a, b = meted.mover("a", 15 * CHUNK), meted.mover("b")
            for _ in range(6 if asker == "b" else 1):
                a.unused += a.blocks.pop().bytes
                a.show()
            mover, bytes = (a, CHUNK + 40 * MIB) if asker == "a" else (b, SET)
            held = mover.here()
            mover.allocate(bytes)
            meted.play(lambda: not mover.asked)
            assert mover.refusal is None and mover.here() == held + bytes, mover.refusal
            meted.ends()


if __name__ == "__main__":
    run(globals())
