#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that want more than their limit by ways on which nothing is allocated by name."""
import ast

from mete import *

HOSTILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hostile.py")
LIMIT = 512 * MIB
SUCCESS, OUT_OF_MEMORY = 0, 2


def attack(name, **environment):
    """What the driver answered; the device never held more than the limit for it."""
    with Node(**environment) as node:
        running = node.start("run", "--memory", "512MiB", "--", sys.executable, HOSTILE, name)
        line = running.stdout.readline()
        assert line, (running.wait(timeout=60), running.stderr.read())
        [tenant] = node.ps()["tenants"]
        assert tenant["allocated_bytes"] + tenant["residual_bytes"] <= LIMIT, tenant
        assert tenant["peak_bytes"] <= LIMIT, tenant
        running.stdin.close()
        assert running.wait(timeout=60) == 0
        return ast.literal_eval(line)


def test_more_graphs_than_can_be_followed_are_refused():
    [instantiated, launched] = attack("graphs")
    assert instantiated == [SUCCESS, OUT_OF_MEMORY] and launched == OUT_OF_MEMORY


def test_the_pool_of_a_device_that_is_not_the_tenants_is_refused():
    assert attack("pools", METE_SIM_DEVICES="2xSIM") == [OUT_OF_MEMORY, OUT_OF_MEMORY, SUCCESS]


def test_a_kernels_heap_is_within_the_limit():
    assert attack("heap") == [OUT_OF_MEMORY, OUT_OF_MEMORY, SUCCESS, SUCCESS]


def test_a_module_beyond_the_limit_is_refused():
    """The driver takes what a module's data needs before anybody can say no: that is in the peak, and over at once."""
    with Node() as node:
        running = node.start("run", "--memory", "512MiB", "--", sys.executable, HOSTILE, "modules")
        [large, small] = ast.literal_eval(running.stdout.readline())
        assert large == [OUT_OF_MEMORY, False] * 4, large
        assert small == [SUCCESS, True] + [OUT_OF_MEMORY, False] * 2 + [OUT_OF_MEMORY, False], small
        [tenant] = node.ps()["tenants"]
        assert 300 * MIB <= tenant["residual_bytes"] <= LIMIT, tenant
        running.stdin.close()
        assert running.wait(timeout=60) == 0


def test_what_was_unloaded_is_there_at_once():
    assert attack("unloading") == [SUCCESS]


def test_a_module_is_refused_though_the_program_never_stands_still():
    with Node() as node:
        running = node.start("run", "--memory", "512MiB", "--", sys.executable, HOSTILE, "churn")
        assert running.stdout.readline() == f"{OUT_OF_MEMORY}\n"
        running.stdin.close()
        assert running.wait(timeout=60) == 0


if __name__ == "__main__":
    run(globals())
