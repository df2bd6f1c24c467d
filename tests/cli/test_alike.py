#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs for which nobody has said anything about time: when they take turns nevertheless (core/turns/alike.h)."""
from person import *


def load(node, name, us, *options):
    """A program that always has kernels of that length ahead of the device."""
    run = node.start("run", "--quiet", "--name", name, *options, "--", workload("steady"), "stdin=1", "seconds=36000",
                     "report_ms=3600000", f"kernel_us={us}", f"ahead={max(2, 4000 // us)}")
    assert run.stdout.readline().startswith("at_ms"), run.stderr.read()
    return run


def by_turns(node):
    return [row["time"]["by_turns"] for row in node.ps()["tenants"]]


def test_kernels_of_100_us_beside_kernels_of_10_ms_lead_to_turns():
    for swap in ("auto", "off"):  # whose guests always report when they are idle, and whose only do so while they are compared
        with Node() as node:
            load(node, "short", 100, "--swap", swap)
            long = load(node, "long", 10000, "--swap", swap)
            until(lambda: by_turns(node) == [True, True])
            assert node.daemon_log().count(" device.unfair ") == 1, node.daemon_log()
            # The tenant that is left has the device to itself.
            long.stdin.close()
            long.wait()
            until(lambda: by_turns(node) == [False])
            assert node.daemon_log().count(" device.fair ") == 1, node.daemon_log()


def test_a_device_that_is_unfair_no_more_is_opened_again():
    with Node() as node:
        load(node, "short", 100)
        long = load(node, "long", 10000)
        until(lambda: by_turns(node) == [True, True])
        long.stdin.write("rest\n")
        long.stdin.flush()
        # It is tried some seconds later, and stays so.
        until(lambda: " device.fair " in node.daemon_log())
        assert by_turns(node) == [False, False]
        long.stdin.write("go on\n")
        long.stdin.flush()
        until(lambda: by_turns(node) == [True, True])


if __name__ == "__main__":
    run(globals())
