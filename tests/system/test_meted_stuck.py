#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory that should move and does not: full stores, guests that do not obey, and liars."""
import errno

from mover import *

HOST = 2048  # of `unmovable`
LONGER_THAN_PATIENCE_S = 12


def test_no_request_exceeds_the_budget_or_the_quota():
    with Node("--quota", mib(2 * CHUNK), store=4 * CHUNK) as meted:
        movers = [meted.mover(name, 4 * CHUNK) for name in "abc"]
        had = {mover.name: 0 for mover in movers}
        for bytes in (0, 1, CHUNK, CHUNK + MIB, 1 << 40, (1 << 64) - 1):
            for mover in movers:
                try:
                    had[mover.name] += mover.ask("segment_ask", device=0, bytes=bytes).bytes
                    assert bytes and bytes <= CHUNK
                except Refused:
                    pass
                assert had[mover.name] <= 2 * CHUNK and sum(had.values()) <= 4 * CHUNK
                assert meted.store_bytes() <= 4 * CHUNK
        for mover in movers[1:]:
            try:
                mover.ask("segment_return", device=0, offset=4 << 30, bytes=2 * MIB)
                raise AssertionError("it gave back segments that it has not")
            except Refused as refusal:
                assert refusal.code == UNKNOWN
        meted.ends()


def test_a_tenant_with_little_movable_memory_gets_little_of_the_store():
    with Node(store=4 * CHUNK) as meted:
        a = meted.mover("a", 3 * MIB)
        for bytes, comes in ((CHUNK, False), (2 * MIB, True), (2 * MIB, True), (1, False)):
            try:
                a.ask("segment_ask", device=0, bytes=bytes)
                assert comes, bytes
            except Refused as refusal:
                assert not comes and "3MiB that can move" in str(refusal), refusal
        # Memory that it allocates then, it may bring along.
        a.allocate(CHUNK)
        meted.play(lambda: not a.asked)
        a.ask("segment_ask", device=0, bytes=CHUNK)
        meted.ends()


def test_a_guest_that_was_refused_a_segment_goes_on_when_others_gave_some_back():
    with Node(store=4 * CHUNK) as meted:
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


def keeper_beside_idle(meted):
    """A guest that has segments for all its memory and gives none back, beside an idle one."""
    keeper, a = meted.mover("keeper", 6 * CHUNK), meted.mover("a", SET)
    for block in keeper.blocks:
        answer = keeper.ask("segment_ask", device=0, bytes=CHUNK)
        block.segment = answer.offset, answer.bytes, keeper.store_fd
    keeper.obeys = False
    a.idle()
    return keeper, a


def test_a_guest_that_does_not_give_back_segments_is_not_counted_on():
    with Node(store=8 * CHUNK) as meted:
        keeper, a = keeper_beside_idle(meted)
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


def test_a_tenant_that_finds_the_store_full_is_not_stuck_and_its_filler_is_named():
    with Node(store=10 * CHUNK) as meted:
        keeper, a = keeper_beside_idle(meted)
        # Of six chunks that are to leave, the store has room for four.
        b = meted.mover("b")
        b.allocate(7 * CHUNK)
        meted.play(lambda: not b.asked)
        assert f"tenant 1 (keeper) keeps {mib(6 * CHUNK)} of the store" in b.refusal.reason, b.refusal
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


def hoards(keeper):
    """Takes parts of the store for all that it has, as far as it gets any, and gives none back."""
    for block in keeper.blocks:
        try:
            answer = keeper.ask("segment_ask", device=0, bytes=CHUNK)
        except Refused as refusal:
            return str(refusal)
        block.segment = answer.offset, answer.bytes, keeper.store_fd
    keeper.obeys = False
    return ""


def test_a_tenant_that_keeps_the_store_full_is_in_nobodys_way_on_another_device():
    with Node(store=16 * CHUNK, environment={"METE_STUB_DEVICES": "2"}) as meted:
        keeper = meted.mover("keeper", 15 * CHUNK, device="0")
        a = meted.mover("a", SET, device="1")
        refused = hoards(keeper)
        # One that waits for what does not come is in nobody's way there, either.
        keeper.send("segment_ask", device=0, bytes=CHUNK)
        a.idle()
        b = meted.mover("b", device="1")
        b.allocate(SET)
        meted.play(lambda: not b.asked)
        assert not b.refusal and a.out(), (b.refusal, a.out())
        assert f"of {mib(8 * CHUNK)} for this device, {mib(8 * CHUNK)} are in use" in refused, refused
        a.wants()
        b.idle()
        meted.play(lambda: a.is_whole())
        assert "tenant.stuck" not in meted.log() and meted.row(a).stored <= 8 * CHUNK, meted.log()
        meted.ends()


def test_a_guest_that_claims_to_have_given_back_segments_it_keeps_is_a_liar():
    with Node(store=4 * CHUNK) as meted:
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


def test_segments_that_a_new_guest_claims_to_hold_are_nobodys():
    for said in (dict(allocated=GIB, movable=GIB), dict(out=1 << 40), dict(credit=GIB), dict(contexts=1000), dict(allocated=1 << 63, credit=1 << 63, out=1 << 63)):
        with Node(store=8 * CHUNK) as meted:
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


def test_memory_that_is_stated_again_and_again_counts_once():
    with Node("--grace", "60s", store=8 * CHUNK) as meted:
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


def test_a_tenant_that_does_not_move_is_called_stuck_and_comes_back():
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
    """It leaves page by page, as it is told: a page at each turn."""
    while mover.heard:
        mover.hears(mover.heard.pop(0))
    if mover.order["generation"] != mover.generation:
        mover.ends_generation()
    if mover.done["left"] < mover.order["leave"]:
        mover.done["left"] += PAGE
        mover.done["copied"] += PAGE
        mover.say()


def is_told_of_one_that_is_stuck(way):
    with Node() as meted:
        a = meted.mover("a", SET)
        a.idle()
        a.obeys = False
        way(a)
        b = meted.mover("b")
        b.allocate(SET)
        meted.play(lambda: (way(a), not b.asked)[1])
        assert "tenant 1 (a), which has" in b.refusal.reason and "stuck" in b.refusal.reason, b.refusal
        assert meted.row(b).refusals == 1
        # An ask that fits beside it is still granted.
        b.refusal = None
        b.allocate(4 * CHUNK)
        meted.play(lambda: not b.asked)
        assert not b.refusal, b.refusal


def test_a_tenant_that_waits_for_one_that_does_not_drain_is_told_so():
    is_told_of_one_that_is_stuck(lambda a: setattr(a, "drains", False))


def test_a_tenant_that_waits_for_a_stuck_one_is_told_so():
    is_told_of_one_that_is_stuck(lambda a: None)


def test_a_tenant_that_waits_for_one_that_is_all_but_stuck_is_told_so():
    """It moves a page now and then."""
    is_told_of_one_that_is_stuck(dribbles)


def test_a_tenant_that_waits_for_its_memory_is_told_which_one_makes_no_room():
    """By a message for its standard error, and in its row. A tenant that fits beside the memory that stays runs."""
    with Node() as meted:
        a, b, c = meted.mover("a", SET), meted.mover("b", SET), meted.mover("c")
        b.idle()
        assert a.out()
        b.obeys = False
        a.wants()
        meted.play(lambda: a.hindered)
        assert a.hindered == f"tenant 2 (b), which has {mib(SET)} of the device, is stuck: its memory does not leave as it was told", a.hindered
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


def test_the_hosts_want_of_memory_is_named_only_while_it_hinders():
    with tempfile.TemporaryDirectory(prefix="mete-no-room-") as folder:
        refuses = dict(LD_PRELOAD=os.path.dirname(sys.argv[2]) + "/no_room.so", HOSTILE_NO_ROOM=folder + "/error")
        with Node(environment=refuses) as meted:
            a, b = meted.mover("a", SET), meted.mover("b")
            a.idle()
            with open(folder + "/error", "w") as file:
                file.write(str(errno.ENOMEM))
            b.allocate(SET)
            meted.play(lambda: meted.row(a).unmovable & HOST)
            # Nobody needs its room any more.
            meted.movers.remove(b)
            b.close()
            a.wants()
            meted.play(a.runs)
            assert not meted.row(a).unmovable & HOST, meted.row(a)
            # The host has memory again, and it is the tenant that does not obey.
            os.remove(folder + "/error")
            a.idle()
            a.obeys = False
            meted.mover("c").allocate(SET)
            meted.play(lambda: meted.row(a).stuck)
            assert "tenant.stuck" in meted.log() and "tenant.unhoused" not in meted.log(), meted.log()
            assert not meted.row(a).unmovable & HOST, meted.row(a)


def test_a_guest_without_a_processor_is_not_stuck_when_a_stopped_one_is():
    """Neither moves what it was told to. Decision 151."""
    with others_spin(), Node() as meted:
        starved, stopped = meted.mover("starved", 7 * CHUNK, seat=Starved()), meted.mover("stopped", 7 * CHUNK)
        for mover in (starved, stopped):
            mover.obeys = False
            mover.idle()
        b = meted.mover("b")
        b.allocate(14 * CHUNK)
        meted.play(lambda: starved.order["leave"] and stopped.order["leave"])
        stopped.seat.signal(signal.SIGSTOP)
        meted.play(lambda: meted.row(stopped).stuck)
        assert not meted.row(starved).stuck, meted.log()
        stopped.seat.signal(signal.SIGCONT)
        starved.obeys = stopped.obeys = True
        meted.play(lambda: not b.asked)
        log = meted.log()
        assert f"tenant.stuck tenant={stopped.made.tenant}" in log and f"tenant.stuck tenant={starved.made.tenant}" not in log, log
        meted.ends()


def test_a_meted_that_did_not_run_blames_and_refuses_nobody():
    """For longer than its patience with memory that is to leave, and than an ask waits for that."""
    with Node() as meted:
        a = meted.mover("a", SET)
        a.idle()
        a.obeys = False
        b = meted.mover("b")
        b.allocate(SET)
        meted.play(lambda: a.order["leave"])
        meted.process.send_signal(signal.SIGSTOP)
        a.say()
        time.sleep(LONGER_THAN_PATIENCE_S)
        meted.process.send_signal(signal.SIGCONT)
        a.obeys = True
        meted.play(lambda: not b.asked)
        log = meted.log()
        assert not b.refusal and "meted.stood_still" in log and not re.search("tenant.(stuck|hangs)", log), (b.refusal, log)
        meted.ends()


def test_segments_are_not_called_kept_for_the_time_in_which_meted_did_not_run():
    with Node(store=8 * CHUNK) as meted:
        keeper, a = keeper_beside_idle(meted)
        meted.mover("b")
        for _ in range(3):
            a.send("segment_ask", device=0, bytes=CHUNK)
        meted.play(lambda: keeper.order["drop"])
        meted.process.send_signal(signal.SIGSTOP)
        time.sleep(LONGER_THAN_PATIENCE_S)
        meted.process.send_signal(signal.SIGCONT)
        meted.play(lambda: "meted.stood_still" in meted.log())
        keeper.obeys = True
        meted.play(lambda: keeper.done["dropped"] >= keeper.order["drop"])
        assert not re.search("store.kept|tenant.stuck", meted.log()), meted.log()
        meted.ends()


if __name__ == "__main__":
    run(globals(), at_once=8)
