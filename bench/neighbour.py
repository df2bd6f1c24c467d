#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# About: what a neighbour waits for beside tenants that do their worst to the store, and when meted ends
"""A neighbour beside tenants that hold their own files' locks, claim what they have not got, or do not make room.

`bench/neighbour.py NAME...`: these attacks only. On the stub of the management library, with guests of tests/system: meted alone is
measured. A *segment* is the time from a neighbour's SEGMENT_ASK to its answer. An *answer* is what a third tenant waits for when it asks
for room that an attacker has: it is granted or refused with a sentence. Each attack is a row of ATTACKS; PARTS are what is measured.
"""
import contextlib
import os
import random
import select
import signal
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("METE_BUILD", ROOT + "/build/plain")
only, sys.argv[1:] = sys.argv[1:], [BUILD + "/node/meted", BUILD + "/tests/system/stub_driver"]
sys.path.insert(0, os.path.join(ROOT, "tests/system"))
from filelock import Child, allocate_and_punch, can_hold, write_what_never_comes  # noqa: E402
from mover import *  # noqa: E402

SEGMENTS = 100  # of 2 MiB, each tenth of 64 MiB
SMALL = 4 * MIB


class Attack:
    """`begin(meted, stack)` starts it; returns the function for each turn of the loop, or None."""

    def __init__(self, name, tries, begin, store="2GiB"):
        self.name, self.tries, self.begin, self.store = name, tries, begin, store


def nothing(meted, stack):
    """The neighbour's waits without an attack."""
    large(meted)


def large(meted, **more):
    """The tenant that has the room that is asked for."""
    a = meted.mover("large", SET, **more)
    a.idle()
    return a


def files(count, work):
    def begin(meted, stack):
        large(meted)
        for i in range(count):
            mover = meted.mover(f"holder {i}", SMALL)
            child = stack.enter_context(Child(work, mover.store_fd))
            assert child.does, "the attack does not begin"
            mover.send("segment_ask", device=0, bytes=2 * MIB)
    return begin


def hear(mover):
    """All that has come, so that it is not closed for not reading."""
    while select.select([mover.socket], [], [], 0)[0]:
        mover.hears(mover.receive_any())


def greedy(meted, stack):
    """Asks for segments without end, returns none, and ignores DROP."""
    large(meted)
    a = meted.mover("greedy", SMALL)
    a.obeys = False

    def look():
        for _ in range(4):
            a.send("segment_ask", device=0, bytes=CHUNK)
        hear(a)
    return look


def liar(meted, stack):
    """Random figures of MOVED, SEGMENT_RETURN and INVENTORY, and a new connection whenever it ends."""
    large(meted)
    made = meted.tenant("liar")
    generator = random.Random(1)
    state = {}

    def figure():
        return generator.choice([0, 1, CHUNK, 1 << 40, (1 << 64) - 1, generator.getrandbits(64)])

    def connect():
        a = state["a"] = Mover(made.socket, "liar", state=False, seat=state.get("seat"))
        state["seat"] = a.seat
        a.send("inventory", device=0, allocated=figure(), credit=figure(), contexts=generator.randrange(9), movable=figure(), out=figure())
        a.send("inventory_end", devices=1)
        a.send("store_ask", device=0)

    def look():
        try:
            if "a" not in state:
                connect()
            a = state["a"]
            a.send("segment_ask", device=0, bytes=generator.choice([2 * MIB, CHUNK, figure()]))
            a.send("segment_return", device=0, offset=figure(), bytes=figure())
            a.send("moved", device=0, generation=generator.randrange(2), stopped=generator.randrange(2),
                   **{field: generator.choice([0, figure()]) for field in ("left", "copied", "entered", "returned", "dropped", "failed")})
            hear(a)
        except (OSError, Gone):
            if "a" in state:
                state.pop("a").socket.close()
    return look


def undrained(meted, stack):
    large(meted, drains=False, obeys=False)


def unmoved(meted, stack):
    large(meted, obeys=False)


def dribble(meted, stack):
    """A page at each turn of the loop, and every stop answered."""
    a = large(meted, obeys=False)

    def look():
        if a.order["generation"] != a.generation:
            a.ends_generation()
        if a.done["left"] < a.order["leave"]:
            a.done["left"] += PAGE
            a.done["copied"] += PAGE
            a.say()
    return look


def keep(meted, stack):
    """Has segments for all of its memory, and ignores DROP."""
    a = meted.mover("keeper", 5 * CHUNK)
    for _ in a.blocks:
        a.ask("segment_ask", device=0, bytes=CHUNK)
    a.obeys = False
    large(meted)


ATTACKS = [
    Attack("none", "no attack", nothing),
    Attack("punch", "24 threads of an ordinary user allocate and punch in their tenant's file", files(1, allocate_and_punch)),
    Attack("punch-9", "likewise 9 tenants: more than there are workers", files(9, lambda fd, ready: allocate_and_punch(fd, ready, 4, 64 * MIB))),
    Attack("hold", "a write from a page that never comes", files(1, write_what_never_comes)),
    Attack("hold-24", "likewise 24 tenants", files(24, write_what_never_comes)),
    Attack("greedy", "a tenant with 4 MiB asks for segments without end and ignores DROP", greedy),
    Attack("liar", "random figures of MOVED, SEGMENT_RETURN and INVENTORY", liar),
    Attack("undrained", "the tenant with the room does not drain", undrained),
    Attack("unmoved", "the tenant with the room does not move", unmoved),
    Attack("dribble", "the tenant with the room moves a page now and then", dribble),
    Attack("keep", "a tenant keeps 320 MiB of the store, and ignores DROP: it is full for the tenant that is to leave", keep, store="832MiB"),
]


def segment_ms(meted, look):
    """A neighbour's segments: the 99th percentile."""
    b = meted.mover("neighbour", 2 * CHUNK)
    took = []
    for i in range(SEGMENTS):
        bytes = CHUNK if i % 10 == 9 else 2 * MIB
        if look:
            look()
        began = time.monotonic()
        answer = b.ask("segment_ask", device=0, bytes=bytes)
        took.append((time.monotonic() - began) * 1000)
        assert answer.kind == "segment", answer
        b.ask("segment_return", device=0, offset=answer.offset, bytes=answer.bytes)
    b.wants()
    return sorted(took)[int(len(took) * 0.99) - 1]


def answer_s(meted, look):
    """An ask for as much as nobody has: until it is answered."""
    c = meted.mover("asker")
    began = time.monotonic()
    c.allocate(SET)

    def answered():
        if look:
            look()
        return not c.asked
    meted.play(answered)
    return time.monotonic() - began, "refused: " + c.refusal.reason if c.refusal else "granted"


def sigterm_s(meted):
    began = time.monotonic()
    meted.process.send_signal(signal.SIGTERM)
    meted.process.wait(60)
    return time.monotonic() - began


def main():
    # The figures that are measured of each; other parts add figures of their own here.
    most = {"neighbour_segment_p99_ms": 0, "neighbour_answer_s": 0, "sigterm_most_s": 0}
    for attack in ATTACKS:
        if only and attack.name not in only:
            continue
        if "hold" in attack.name and not can_hold():
            print(f"{attack.name}: skipped, the kernel lets nobody handle page faults; run it as root")
            continue
        with contextlib.ExitStack() as stack:
            meted = stack.enter_context(Node(store=attack.store))
            look = attack.begin(meted, stack)
            segment = segment_ms(meted, look)
            answer, how = answer_s(meted, look)
            end = sigterm_s(meted)
        print(f"{attack.name:<10} segment p99 {segment:7.1f} ms   answer {answer:5.1f} s   SIGTERM {end:4.2f} s   {attack.tries} [{how}]", flush=True)
        for key, value in zip(most, (segment, answer, end)):
            most[key] = max(most[key], value)
    for key, value in most.items() if most["neighbour_segment_p99_ms"] else ():
        print(f"figure: {key} {value:.3g} {key.rsplit('_', 1)[1]}", flush=True)
    # The doors, beside those that drip: a node of its own.
    if not only or "metrics" in only:
        subprocess.run([sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "neighbour_metrics.py")], check=True)


main()
