#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Messages about memory that cross: orders for what is freed meanwhile, for a connection that has ended, and of a meted that was killed."""
from mover import *

LONGER_THAN_PATIENCE_S = 12


def suspend(meted, mover, suspends=1):
    return meted.admin.ask("tenant_suspend", tenant=mover.made.tenant, name="", suspends=suspends)


def replace(meted, store=None):
    meted.kill()
    if store is not None:
        meted.options = [mib(store) if before == "--store" else option for before, option in zip(["", *meted.options], meted.options)]
    meted.start()
    meted.admin = Admin(meted.place)


def segment(mover, bytes):
    answer = mover.ask("segment_ask", device=0, bytes=bytes)
    return answer.offset, answer.bytes


def is_calm(meted, mover):
    log = meted.log()
    return f"tenant.stuck tenant={mover.made.tenant} " not in log and f"store.kept tenant={mover.made.tenant} " not in log


def test_memory_that_could_move_still_can_after_a_restart_though_its_share_says_swap_off():
    """All of it was on the device then, and others' memory waits for its room."""
    with Node("--grace", "60s") as meted:
        a, b = meted.mover("a"), meted.mover("b", SET)
        b.idle()
        a.allocate(SET)
        meted.play(lambda: not a.asked)
        assert b.out() and not a.out()
        meted.admin.set(a.made.tenant, "swap", "off")
        replace(meted)
        for mover in a, b:
            mover.again(mover.made.socket)
        a.idle()
        meted.play(lambda: b.is_whole())
        assert a.out()
        meted.ends()


def test_a_guest_that_is_back_is_told_nothing_before_it_has_stated_what_it_has():
    """It would take that for an order of this connection, which the daemon has not given."""
    with Node() as meted:
        a, b = meted.mover("a", SET), meted.mover("b")
        a.idle()
        b.allocate(SET)
        meted.play(lambda: not b.asked)
        assert a.out()
        a.again(a.made.socket, state=False)
        meted.movers.remove(a)
        b.idle()
        meted.play(lambda: b.out() >= 2 * CHUNK)  # room for it
        meted.row(a)
        a.socket.setblocking(False)
        try:
            while True:
                a.heard.append(a.receive_any())
        except BlockingIOError:
            a.socket.settimeout(PATIENCE)
        assert not [heard for heard in a.heard if heard.kind == "move"], a.heard
        meted.movers.append(a)
        a.state_all().swaps()
        meted.play(lambda: a.is_whole())
        meted.ends()


def test_segments_that_a_former_connection_waits_for_are_nobodys():
    with Node(store=8 * CHUNK) as meted:
        keeper, a = meted.mover("keeper", 8 * CHUNK), meted.mover("a", 4 * CHUNK)
        for block in keeper.blocks:
            answer = keeper.ask("segment_ask", device=0, bytes=CHUNK)
            block.segment = answer.offset, answer.bytes, keeper.store_fd
        a.send("segment_ask", device=0, bytes=CHUNK)
        while not keeper.hear("move").drop:
            pass
        a.again(a.made.socket)
        for block in keeper.blocks:
            keeper.returns(block)
        until(lambda: meted.row(keeper).stored == 0)
        a.ask("segment_ask", device=0, bytes=CHUNK)  # after all others
        assert meted.row(a).stored == CHUNK and not [heard for heard in a.heard if heard.kind == "segment"], (meted.row(a), a.heard)
        meted.ends()


def test_a_part_of_the_store_whose_answer_was_not_read_is_returned_by_one_who_knows_what_it_holds():
    with Node(store=8 * CHUNK) as meted:
        a = meted.mover("a", 4 * CHUNK)
        for block in (a.blocks[0], a.blocks[2]):
            block.segment = (*segment(a, CHUNK), a.store_fd)
            segment(a, CHUNK)  # as if it had not been read
        assert meted.row(a).stored == 4 * CHUNK
        a.again(a.made.socket)
        until(lambda: meted.row(a).stored == 2 * CHUNK)
        # Those that it holds are as they were, and it has room for the others.
        memory = [a.memory(block) for block in (a.blocks[0], a.blocks[2])]
        for some in memory:
            some[:4] = b"held"
        new = {segment(a, CHUNK)[0] for _ in range(2)}
        assert not new & {block.segment[0] for block in a.blocks if block.segment}, new
        for some in memory:
            assert some[:4] == b"held"
            some.close()
        assert meted.row(a).stored == 4 * CHUNK
        meted.ends()


def test_who_was_suspended_is_so_still_where_the_next_meteds_store_has_no_room():
    """What cannot leave stays on the device, and leaves once it can."""
    with Node("--grace", "60s") as meted:
        a = meted.mover("a", SET)
        a.obeys = False
        suspend(meted, a)
        for store in (2 * CHUNK, 0):
            replace(meted, store)
            a.again(a.made.socket, state=False).state_all()
            until(lambda: "tenant.suspended_here" in meted.log().split("daemon.ready")[-1], meted.log)
            assert meted.row(a).suspended and not a.runs() and a.here() == SET, (meted.row(a), a.shown())
        replace(meted, 16 * CHUNK)
        a.obeys = True
        a.again(a.made.socket)
        meted.play(lambda: not a.here())
        assert meted.row(a).suspended and not a.runs()
        suspend(meted, a, 0)
        meted.play(a.is_whole)
        meted.ends()


def test_memory_freed_in_the_store_while_it_was_to_come_is_not_waited_for():
    with Node() as meted:
        a = meted.mover("a", SET)
        suspend(meted, a)
        meted.play(lambda: not a.here())
        a.obeys = False
        suspend(meted, a, 0)
        meted.play(lambda: a.order["enter"] >= 8 * CHUNK)
        for block in a.blocks[:4]:
            a.free(block)
        a.obeys = True
        meted.play(lambda: a.is_whole())
        # Nothing is missing of the device.
        b = meted.mover("b", 11 * CHUNK)
        assert not b.refusal and not a.out() and is_calm(meted, a), (b.refusal, a.out(), meted.log())
        meted.ends()


def test_memory_that_has_come_counts_once():
    """By the page it is there before it is reported."""
    with Node(store=14 * CHUNK) as meted:
        a = meted.mover("a", SET)
        suspend(meted, a)
        meted.play(lambda: not a.here())
        a.obeys = False
        suspend(meted, a, 0)
        meted.play(lambda: a.order["enter"] >= CHUNK)
        say, a.say = a.say, lambda: None
        a.enters(a.blocks[0])
        a.give_back(0)  # meted looks at the page
        a.ask("processes_ask", device=0)
        a.say = say
        a.say()
        a.obeys = True
        meted.play(lambda: a.is_whole())
        assert meted.row(a).movable == SET, meted.row(a)
        # It is no larger than the store has room for.
        suspend(meted, a)
        meted.play(lambda: not a.here())
        meted.ends()


def test_memory_whose_credit_was_returned_does_not_count_any_more():
    with Node(store=9 * CHUNK) as meted:
        a = meted.mover("a", SET)
        for block in a.blocks[5:]:
            a.free(block)
        a.ask("processes_ask", device=0)
        assert meted.row(a).movable == 5 * CHUNK, meted.row(a)
        # All that there is has room in the store.
        suspend(meted, a)
        meted.play(lambda: not a.here())
        meted.ends()


def with_unused_credit(meted):
    a = meted.mover("a", SET)
    for _ in range(4):
        a.unused += a.blocks.pop().bytes
    a.show()
    return a


def test_unused_credit_needs_no_room_in_the_store():
    with Node(store=9 * CHUNK) as meted:
        a = with_unused_credit(meted)
        suspend(meted, a)
        meted.play(lambda: not a.here() and not a.unused)
        assert a.out() == 5 * CHUNK == meted.row(a).out, meted.row(a)
        meted.ends()


def unused_credit_of_others(meted, before, chunks=3):
    """Two of five chunks' room in the store are a's, which has four more unused. It has not heard of the recall when b is suspended."""
    a, b = with_unused_credit(meted), meted.mover("b", chunks * CHUNK)
    for _ in range(3):
        a.free(a.blocks[0])
    suspend(meted, a)
    before(a)
    suspend(meted, b)
    meted.play(lambda: not any(mover.here() or mover.unused for mover in (a, b)))
    assert (a.out(), b.out()) == (2 * CHUNK, chunks * CHUNK), (a.out(), b.out())
    meted.ends()


def test_unused_credit_of_others_that_are_suspended_needs_no_room_in_the_store():
    with Node(store=9 * CHUNK) as meted:
        unused_credit_of_others(meted, lambda a: None)


def leaves_unsaid(mover):
    """One block, by the page alone."""
    heard, recalls = mover.heard, []
    while mover.order["leave"] < CHUNK:
        message = heard.pop(0) if heard else mover.receive_any()
        recalls.append(message) if message.kind == "credit_recall" else mover.hears(message)
    mover.anew_generation()
    say, mover.say = mover.say, lambda: None
    mover.leaves(mover.blocks[0])
    mover.say, mover.heard = say, recalls + mover.heard


def test_what_has_left_unsaid_is_no_unused_credit():
    with Node(store=9 * CHUNK) as meted:
        unused_credit_of_others(meted, leaves_unsaid)
    with Node(store=9 * CHUNK) as meted:
        try:
            unused_credit_of_others(meted, leaves_unsaid, 4)
            assert False, "it is suspended"
        except Refused as refused:
            assert "the store has no room" in str(refused), refused


def test_credit_that_an_allocation_is_about_to_use_needs_room_in_the_store():
    """Otherwise a suspended tenant's memory could not leave, and others would wait for it."""
    with Node(store=9 * CHUNK) as meted:
        a = with_unused_credit(meted)
        a.changing()
        try:
            suspend(meted, a)
            assert False, "it is suspended"
        except Refused as refused:
            assert "the store has no room" in str(refused), refused
        meted.ends()


def copies_leave_that_were_to_be_dropped(meted):
    """They are the only place of a's memory then; it and a neighbour are returned."""
    a, b = meted.mover("a", SET), meted.mover("b", 7 * CHUNK)
    suspend(meted, a)
    meted.play(lambda: not a.here())
    suspend(meted, a, 0)
    meted.play(lambda: a.is_whole())
    a.obeys = b.obeys = False
    b.idle()
    c = meted.mover("c")
    c.allocate(6 * CHUNK)
    meted.play(lambda: a.order["drop"])
    meted.movers.remove(b)
    b.close()
    meted.play(lambda: not c.asked)
    suspend(meted, a)
    meted.play(lambda: a.order["leave"] - a.done["left"] == SET)
    a.obeys = True
    meted.play(lambda: not a.here())
    return a, c


def test_copies_that_leave_while_they_were_to_be_dropped_are_not_waited_for():
    with Node(store=13 * CHUNK) as meted:
        a, _ = copies_leave_that_were_to_be_dropped(meted)
        end = time.monotonic() + LONGER_THAN_PATIENCE_S
        meted.play(lambda: time.monotonic() > end)
        assert a.done["dropped"] < a.order["drop"] and is_calm(meted, a), meted.log()
        suspend(meted, a, 0)
        meted.play(lambda: a.is_whole())
        meted.ends()


def test_copies_that_have_become_the_only_place_of_their_memory_are_no_room_in_the_store():
    """Nobody waits for them. They were to be dropped before."""
    with Node(store=13 * CHUNK) as meted:
        a, c = copies_leave_that_were_to_be_dropped(meted)
        assert a.done["dropped"] < a.order["drop"] and a.out() == SET, (a.order, a.done)
        for _ in range(4):
            c.ask("segment_ask", device=0, bytes=CHUNK)
        refused = c.send("segment_ask", device=0, bytes=CHUNK)
        c.send("processes_ask", device=0)
        answers = []
        while "end" not in answers:
            message = c.receive_any()
            answers.append("refused" if message.id == refused else message.kind)
        assert answers[0] == "refused", answers
        meted.ends()


def test_parts_of_a_former_store_that_were_freed_make_room():
    with Node("--grace", "60s", store=13 * CHUNK) as meted:
        a, b = meted.mover("a", SET), meted.mover("b", 7 * CHUNK)
        suspend(meted, a)
        meted.play(lambda: not a.here())
        replace(meted)
        for mover in a, b:
            mover.again(mover.made.socket)
        for block in a.blocks[1:]:
            a.free(block)
        b.idle()
        c = meted.mover("c")
        c.allocate(14 * CHUNK)
        meted.play(lambda: not c.asked)
        assert not c.refusal and b.out() and is_calm(meted, a), (c.refusal, b.out(), meted.log())
        meted.ends()


if __name__ == "__main__":
    run(globals(), at_once=4)
