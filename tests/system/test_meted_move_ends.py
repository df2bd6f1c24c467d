#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Movement that is cut short: guests that end, connections that break, a meted that is killed."""
from mover import *


def test_a_guest_that_ends_in_the_middle_of_leaving_makes_room():
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


def test_a_guest_that_ends_in_the_middle_of_coming_leaves_nothing():
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


def test_unmovable_memory_finds_room_where_movable_memory_is_in_the_way():
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


def test_unmovable_memory_is_refused_where_a_tenant_could_never_come_back_whole():
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


def test_memory_that_was_freed_in_the_store_is_given_back():
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


def test_evicted_memory_comes_back_though_its_share_says_swap_off_after_a_restart():
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


def test_a_guest_that_joins_behind_a_closed_gate_drains_before_it_moves_memory():
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


def test_no_gate_opens_before_a_guest_has_reported_its_evicted_memory():
    with Node("--grace", "60s") as meted:
        a = meted.mover("a", SET)
        others = [meted.mover(name) for name in "bc"]
        a.idle()  # it stays out
        for other in others:
            other.allocate(SET)
        meted.play(lambda: not any(other.asked for other in others))
        assert a.out()
        meted.kill()
        meted.start()
        meted.admin = Admin(meted.place)
        # It waits for the copy under way before it answers anything, also that it has drained.
        a.drains = False
        a.again(a.made.socket, state=False).waits(1)
        for other in others:
            other.again(other.made.socket)
        meted.play(lambda: a.shown()["gate"] != OPEN)
        meted.play(lambda: meted.row(a).turns > 0)
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


def test_an_ask_is_not_refused_before_guests_have_reported():
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


def test_an_ask_for_room_that_only_seems_to_be_there_waits_until_guests_have_reported():
    """While one is expected the machine makes no steps; others have reported memory that cannot move."""
    with Node("--grace", "60s") as meted:
        a, b, c = meted.mover("a", SET), meted.mover("b"), meted.mover("c", CHUNK)
        meted.kill()
        meted.start()
        meted.admin = Admin(meted.place)
        a.plain = sum(block.bytes for block in a.blocks[4:])
        del a.blocks[4:]
        for mover in a, b:
            mover.again(mover.made.socket)
        assert a.plain == 5 * CHUNK
        b.allocate(8 * CHUNK)
        until(lambda: meted.row(b).wanting or select.select([b.socket], [], [], 0)[0])
        c.again(c.made.socket)
        meted.play(lambda: not b.asked)
        assert b.refusal is None and b.here() == 8 * CHUNK and a.out(), b.refusal
        meted.ends()


def test_an_ask_for_unmovable_memory_waits_for_what_guests_that_have_not_reported_can_move():
    """It does not fit beside both of them, and whether their memory can move is not known yet."""
    with Node("--grace", "60s") as meted:
        a, b, c = meted.mover("a", 6 * CHUNK), meted.mover("b"), meted.mover("c", 6 * CHUNK)
        meted.kill()
        meted.start()
        meted.admin = Admin(meted.place)
        b.again(b.made.socket)
        b.allocate(6 * CHUNK, movable=0)
        until(lambda: meted.row(b).wanting or select.select([b.socket], [], [], 0)[0])
        for mover in a, c:
            mover.again(mover.made.socket)
        meted.play(lambda: not b.asked)
        assert b.refusal is None and a.out() + c.out(), b.refusal
        meted.ends()


def test_an_ask_for_unmovable_memory_that_may_wait_for_long_does_not_wait_for_what_can_move():
    """Its share lets it wait for an hour for room. It waits until all guests have reported, and what they hold moves for it then."""
    with Node("--grace", "60s") as meted:
        a, c, b = meted.mover("a", 6 * CHUNK), meted.mover("c", 6 * CHUNK), meted.mover("b", made=meted.tenant("b", wait="1h"))
        meted.kill()
        meted.start()
        meted.admin = Admin(meted.place)
        b.again(b.made.socket)
        b.allocate(6 * CHUNK, movable=0)
        until(lambda: meted.row(b).wanting or select.select([b.socket], [], [], 0)[0])
        for mover in a, c:
            mover.again(mover.made.socket)
        meted.play(lambda: not b.asked)
        assert b.refusal is None and a.out() + c.out(), b.refusal
        meted.ends()


def test_credit_that_nobody_uses_refuses_nobody():
    """To an ask that its own tenant's credit is in the way of, and to one that a rival's is, on the device and in the store."""
    for asker in "a", "b":
        with Node(store=8 * CHUNK) as meted:
            a, b = meted.mover("a", 15 * CHUNK), meted.mover("b")
            for _ in range(6 if asker == "b" else 1):
                a.unused += a.blocks.pop().bytes
                a.show()
            mover, bytes = (a, CHUNK + CHUNK // 2) if asker == "a" else (b, SET)
            held = mover.here()
            mover.allocate(bytes)
            meted.play(lambda: not mover.asked)
            assert mover.refusal is None and mover.here() == held + bytes, mover.refusal
            meted.ends()


def test_credit_that_is_freed_while_an_ask_waits_is_recalled_for_it():
    """It waits for a guest that is changing what it holds. That goes on; but then the asker's own program, or another one, frees something."""
    for movable in 1, 0:
        with Node() as meted:
            a, other = meted.mover("a", 10 * CHUNK), Guest(meted.admin.tenant("100%").socket)
            assert other.credit(5 * CHUNK) == 5 * CHUNK
            other.allocated(5 * CHUNK)
            other.changing()
            asker = a if movable else meted.mover("b")
            asker.allocate(2 * CHUNK, movable=movable)
            meted.play(lambda: meted.row(asker).waiting or not asker.asked)
            assert asker.asked, asker.refusal
            if movable:
                for _ in range(2):
                    a.unused += a.blocks.pop().bytes
                a.show()
            else:
                other.allocated(3 * CHUNK, 2 * CHUNK)
                recall = other.hear("credit_recall")
                other.give_back(2 * CHUNK, recall=recall.id)
            meted.play(lambda: not asker.asked)
            assert asker.refusal is None and len(asker.blocks) == (10 if movable else 2), (movable, asker.refusal)
            other.close()


def test_an_ask_that_a_guess_kept_from_its_limit_makes_others_move():
    """More was reserved for a context than it takes, which is measured while the ask waits. Then the device has no room for it."""
    for movable in 1, 0:
        with Node() as meted:
            others = [meted.mover(name, 5 * CHUNK) for name in ("a", "c")]
            for other in others:
                other.idle()
            b = meted.mover("b")
            meted.admin.set(b.made.tenant, "memory", mib(11 * CHUNK))
            b.ask("residual_ask", device=0, bytes=4 * CHUNK)
            b.send("residual_settle", device=0, contexts=1, bytes=4 * CHUNK)
            b.allocate(8 * CHUNK, movable=movable)
            meted.play(lambda: not b.asked)
            assert b.refusal is None and b.here() == 8 * CHUNK and any(other.out() for other in others), (movable, b.refusal)
            meted.ends()


def test_a_context_that_fits_once_others_are_measured_waits_for_that():
    """Three are made at once, and more is reserved for each than it takes."""
    with Node() as meted:
        *first, last = [meted.mover(name) for name in "abc"]
        for guest in first:
            guest.ask("residual_ask", device=0, bytes=6 * CHUNK)
        id = last.send("residual_ask", device=0, bytes=6 * CHUNK)
        until(lambda: meted.row(last).wanting or select.select([last.socket], [], [], 0)[0])
        for guest in first:
            guest.send("residual_settle", device=0, contexts=1, bytes=6 * CHUNK)
        answer = last.answer(id)
        assert answer.kind != "refused", answer
        meted.ends()


if __name__ == "__main__":
    run(globals(), at_once=4)
