#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that want more than their limit by ways on which nothing is allocated by name."""
import ast

from mete import *

HOSTILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hostile.py")
LIMIT = 512 * MIB
SUCCESS, OUT_OF_MEMORY = 0, 2


def attack(name, *program, **environment):
    """The driver's answers; the device never held more than the limit for it."""
    with Node(**environment) as node:
        running = node.start("run", "--memory", "512MiB", "--", *(program or (sys.executable, HOSTILE)), name)
        line = running.stdout.readline()
        assert line, (running.wait(timeout=240), running.stderr.read())
        [tenant] = node.ps()["tenants"]
        assert tenant["allocated_bytes"] + tenant["residual_bytes"] <= LIMIT, tenant
        assert tenant["peak_bytes"] <= LIMIT, tenant
        running.stdin.close()
        assert running.wait(timeout=240) == 0
        return ast.literal_eval(line)


def test_more_graphs_than_can_be_followed_are_refused():
    [instantiated, launched] = attack("graphs")
    assert instantiated == [SUCCESS, OUT_OF_MEMORY] and launched == OUT_OF_MEMORY


def test_the_pool_of_a_device_that_is_not_the_tenants_is_refused():
    assert attack("pools", METE_SIM_DEVICES="2xSIM") == [OUT_OF_MEMORY, OUT_OF_MEMORY, SUCCESS]


def test_a_kernels_heap_is_within_the_limit():
    assert attack("heap") == [OUT_OF_MEMORY, OUT_OF_MEMORY, SUCCESS, SUCCESS]


def test_a_module_beyond_the_limit_is_refused():
    """The driver takes the memory of a module's data before anybody can refuse it: that is in the peak, and over at once."""
    with Node() as node:
        running = node.start("run", "--memory", "512MiB", "--", sys.executable, HOSTILE, "modules")
        [large, small] = ast.literal_eval(running.stdout.readline())
        assert large == [OUT_OF_MEMORY, False] * 4, large
        assert small == [SUCCESS, True] + [OUT_OF_MEMORY, False] * 2 + [OUT_OF_MEMORY, False], small
        [tenant] = node.ps()["tenants"]
        assert 300 * MIB <= tenant["residual_bytes"] <= LIMIT, tenant
        running.stdin.close()
        assert running.wait(timeout=240) == 0


def test_memory_of_an_unloaded_module_is_there_at_once():
    assert attack("unloading") == [SUCCESS]


def test_a_module_is_refused_though_the_program_never_stands_still():
    with Node() as node:
        running = node.start("run", "--memory", "512MiB", "--", sys.executable, HOSTILE, "churn")
        assert running.stdout.readline() == f"{OUT_OF_MEMORY}\n"
        running.stdin.close()
        assert running.wait(timeout=240) == 0


def test_a_handler_that_jumps_out_of_the_driver_gets_no_more_than_others():
    jump = os.path.join(BUILD, "tests", "cli", "hostile_jump")
    for way in "jumps", "allocates", "jumps-alone", "allocates-alone":
        [last, held] = attack(way, jump)
        assert last == OUT_OF_MEMORY and LIMIT - 64 * MIB < held <= LIMIT, (way, last, held)


def test_threads_that_retain_a_primary_context_together_make_one():
    assert attack("together") == [SUCCESS] * 8


def test_a_pool_that_is_destroyed_is_charged_until_its_last_free_is_over():
    [last, taken, most, afterwards] = attack("destroyed_pools")
    assert last == OUT_OF_MEMORY and taken == 7 and most <= LIMIT and afterwards == SUCCESS, (last, taken, most, afterwards)


def test_more_pools_than_can_be_followed_are_refused():
    [answers, held] = attack("many_pools")
    assert answers == [SUCCESS, OUT_OF_MEMORY] and held <= LIMIT, (answers, held)


def test_arrays_are_within_the_limit_though_others_free_meanwhile():
    [last, held] = attack("arrays")
    assert last == OUT_OF_MEMORY and held <= LIMIT, (last, held)


def test_a_heap_that_was_set_is_not_there_for_others():
    [answer, taken] = attack("heaps")
    assert answer == SUCCESS and 64 <= taken <= 512 - 64 - 248, (answer, taken)


def test_memory_that_a_process_leaves_to_another_one_stays_charged():
    """Whether it had let go of it, held it when it was killed, or was a tenant of its own within the one that has it now."""
    for way in "adopted", "adopted_of_the_killed", "adopted_from_within":
        [rounds, last, taken, most, released, again] = attack(way, METE_CLI=BUILD + "/cli/mete")
        assert rounds >= 4 and last == OUT_OF_MEMORY and most <= LIMIT, (way, rounds, last, taken, most)
        assert released < most and again > 0, (way, released, most, again)  # and it is given back when its last holder lets go


def test_memory_that_could_outlive_a_process_and_does_not_is_there_at_once():
    amounts = attack("leavers")
    assert amounts == amounts[:1] * 8 and amounts[0] >= 20, amounts


def use_in_each_context(name):
    with Node(METE_SIM_ANSWER_COST="100ms") as node:  # by which time the program could have taken all there is
        running = node.start("run", "--memory", "768MiB", "--", sys.executable, HOSTILE, name)
        [last, taken, held] = ast.literal_eval(running.stdout.readline())
        [tenant] = node.ps()["tenants"]
        running.stdin.close()
        assert running.wait(timeout=240) == 0
    assert last == OUT_OF_MEMORY and held <= 768 * MIB, (last, held)
    assert taken * MIB + tenant["residual_bytes"] == held, (taken, tenant, held)  # to the byte


def test_a_library_counts_in_each_context_it_is_used_in():
    use_in_each_context("library_contexts")


def test_a_library_takes_the_place_of_unused_credit():
    use_in_each_context("library_and_credit")


if __name__ == "__main__":
    run(globals())
