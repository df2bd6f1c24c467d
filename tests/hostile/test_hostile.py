#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A bounded part of `make bench BENCH=hostile`: attacks beside a neighbour. argv[1]: the build's folder."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rows import rows  # noqa: E402
from world import ADMITTED, ESCAPED, HELD, Attack, World, readme, run  # noqa: E402

BUILD = os.path.abspath(sys.argv[1])


def test_attacks_get_no_more_than_their_limit_and_harm_nobody():
    """How long the neighbour waits is a matter of the machine's load: only the benchmark judges that."""
    with World(BUILD) as world:
        for attack in rows(BUILD):
            if attack.quick:
                outcome, why = attack.run(world, judge_time=False)
                print(f"{attack.name}: {outcome} {why}", flush=True)
                assert outcome == (ADMITTED if attack.admitted else HELD), (attack.name, outcome, why)


def test_what_is_admitted_is_in_the_readme_and_really_so():
    admitted = [attack for attack in rows(BUILD) if attack.admitted]
    assert admitted and all(attack.admitted in readme() for attack in admitted)


def test_the_judge_sees_an_escape():
    """One that is admitted, were it not."""
    with World(BUILD) as world:
        program = [world.program("attack"), "absolute_path"]
        outcome, why = Attack("escape", "", program).run(world, judge_time=False)
        assert outcome == ESCAPED and "beyond the limit" in why, (outcome, why)


def test_enough_is_attacked_and_each_by_a_name_of_its_own():
    names = [attack.name for attack in rows(BUILD)]
    assert len(names) >= 60 and len(names) == len(set(names))


run(globals())
