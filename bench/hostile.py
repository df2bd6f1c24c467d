#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# About: our own attackers, one by one, beside a neighbour
"""Our own attackers beside a neighbour, one row each: tests/hostile/. `bench/hostile.py NAME...`: these only. `--list`: their names.

HOSTILE_USERS=1: attackers and neighbour are different users of the system's meted (root, in a /run of its own). HOSTILE_UNTIMED=1: nothing is
judged by how long it takes, nor a cap: for a machine that is busy with other things."""
import os
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT + "/tests/hostile")
BUILD = os.environ.get("METE_BUILD", ROOT + "/build/plain")
from apart import apart  # noqa: E402
from rows import rows  # noqa: E402
import users  # noqa: E402
from world import ADMITTED, ESCAPED, HARMED, HELD, LIMIT, UNTRIED, World  # noqa: E402


def main():
    attacks = rows(BUILD)
    if os.environ.get("HOSTILE_USERS"):
        users.begin(LIMIT)
        attacks = users.of_two_users(attacks)
    else:
        attacks = users.of_one_user(attacks)
    if sys.argv[1:] == ["--list"]:
        print("\n".join(f"{attack.name:<45} {attack.tries}" for attack in attacks))
        return
    attacks = [attack for attack in attacks if not sys.argv[1:] or attack.name in sys.argv[1:]]
    outcomes, began = [], time.monotonic()
    for devices, daemon in sorted({(attack.devices, attack.daemon or "") for attack in attacks}):
        world = None
        for attack in attacks:
            if (attack.devices, attack.daemon or "") != (devices, daemon):
                continue
            # Damage by one attack must not be counted against the next.
            world = world or World(BUILD, devices, daemon).__enter__()
            outcome, why = attack.run(world, judge_time=not os.environ.get("HOSTILE_UNTIMED"))
            outcomes.append(outcome)
            print(f"{attack.name:<45} {outcome:<16} {attack.tries}" + (f" [{why}]" if why else ""), flush=True)
            if outcome not in (HELD, UNTRIED):
                world.__exit__()
                world = None
        if world:
            world.__exit__()
    print(f"{outcomes.count(HELD)} held, {outcomes.count(ADMITTED)} admitted, {outcomes.count(UNTRIED)} not tried (a cap that nothing used, or an act that found no tenant), in {time.monotonic() - began:.0f} s")
    print(f"figure: escapes_not_admitted {outcomes.count(ESCAPED)} count")
    print(f"figure: neighbours_harmed {outcomes.count(HARMED)} count")
    print(f"figure: attacks {len(outcomes)} count")


apart()
main()
