#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The store, beside a tenant that does its worst to its own file: the others do not notice, and meted ends."""
from filelock import Child, allocate_and_punch, can_hold, require_hold, write_what_never_comes
from mover import *

ATTACKS = [allocate_and_punch] + [write_what_never_comes] * can_hold()


def segment(mover, bytes=2 * MIB):
    answer = mover.ask("segment_ask", device=0, bytes=bytes)
    assert answer.kind == "segment", answer
    return answer


def terminate(meted):
    meted.process.send_signal(signal.SIGTERM)
    assert meted.process.wait(PATIENCE) == 0, meted.log()


def test_a_neighbours_segment_comes_whatever_a_tenant_does_to_its_own_file_and_meted_ends():
    for attack in ATTACKS:
        with Node() as meted:
            a, b = meted.mover("a", 4 * CHUNK), meted.mover("b", 4 * CHUNK)
            segment(a)
            with Child(attack, a.store_fd) as child:
                assert child.does, "the attack does not begin"
                a.send("segment_ask", device=0, bytes=CHUNK)
                for _ in range(2):
                    segment(b, CHUNK)
                # Its end waits for nobody.
                terminate(meted)


def test_a_tenant_that_holds_its_own_files_lock_is_refused_with_a_sentence_and_comes_back():
    require_hold()
    with Node() as meted:
        a, b = meted.mover("a", 4 * CHUNK), meted.mover("b", 4 * CHUNK)
        with Child(write_what_never_comes, a.store_fd):
            refusals = []
            for _ in range(2):  # once it is waited for, then it is known
                try:
                    segment(a)
                except Refused as refusal:
                    refusals.append(str(refusal))
            assert len(refusals) == 2 and all("holds the lock of its file" in text for text in refusals), refusals
            assert f"store.held tenant={a.made.tenant}" in meted.log()
            segment(b)
        until(lambda: "store.released" in meted.log())
        segment(a)
        meted.ends()


def test_a_tenant_that_has_left_while_its_files_lock_is_held_counts_until_it_is_released_and_is_in_nobodys_way():
    require_hold()
    with Node(store=8 * CHUNK) as meted:
        a, b = meted.mover("a", 9 * CHUNK), meted.mover("b")
        segment(a, CHUNK)
        with Child(write_what_never_comes, a.store_fd):  # a process of nobody's
            meted.movers.remove(a)
            a.close()
            meted.admin.close()
            meted.admin = Admin(meted.place)
            until(lambda: "store.held" in meted.log())
            # A tenant that comes and goes meanwhile finds the rest of the store: it moves there and back.
            b.allocate(SET)
            meted.play(lambda: not b.asked)
            c = meted.mover("c")
            c.allocate(SET)
            meted.play(lambda: not c.asked)
            assert not b.refusal and not c.refusal and b.out(), (b.refusal, c.refusal)
            meted.movers.remove(b)
            b.close()
            d = meted.mover("d")
            d.allocate(SET)
            meted.play(lambda: not d.asked)
            assert not d.refusal and c.out(), d.refusal
        until(lambda: "store.released" in meted.log())
        meted.ends()


def test_a_meted_that_is_killed_while_a_worker_hangs_is_followed_by_another():
    require_hold()
    with Node("--grace", "60s") as meted:
        a, b = meted.mover("a", 4 * CHUNK), meted.mover("b", 4 * CHUNK)
        with Child(write_what_never_comes, a.store_fd):
            a.send("segment_ask", device=0, bytes=CHUNK)
            segment(b)
            meted.kill()
            meted.start()
            meted.admin = Admin(meted.place)
            for mover in meted.movers:
                mover.again(mover.made.socket)
            # In the new meted's file nobody holds anything.
            segment(a)
            segment(b)
        meted.ends()


def test_memory_in_a_former_meteds_file_takes_no_more_than_its_devices_part():
    with Node("--grace", "60s", store=16 * CHUNK, environment={"METE_STUB_DEVICES": "2"}) as meted:
        a = meted.mover("a", 15 * CHUNK, device="0")
        b = meted.mover("b", 8 * CHUNK, device="1")
        meted.kill()
        meted.start()
        meted.admin = Admin(meted.place)
        for block in a.blocks:  # as it claims
            block.here = False
        a.again(a.made.socket)
        b.again(b.made.socket)
        assert meted.row(a).out == 15 * CHUNK, meted.row(a)
        for _ in range(8):
            segment(b, CHUNK)
        meted.ends()


if __name__ == "__main__":
    run(globals())
