# SPDX-License-Identifier: Apache-2.0
"""tests/seeds: the seeds that `make test` begins random histories with. tests/unit/meson.build reads the rows of single tests."""
import os

LIST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "seeds")


def listed():
    """(test, seed) of each row; the test is `*` where the seed is everybody's."""
    with open(LIST) as file:
        rows = [line.split("#")[0].split() for line in file]
    return [tuple(row) for row in rows if row]


def usual():
    """The seed of all tests that draw."""
    return next(seed for test, seed in listed() if test == "*")
