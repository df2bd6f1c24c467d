#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Alike tenants (core/turns/alike.h) while meted is killed, a tenant is suspended, or memory moves.

As test_swap.py, whose node and programs these are. Kernels of 0.5 ms beside kernels of 10 ms lead to turns; a program that
rests computes nothing until it is told to go on.
"""
from test_swap import *


class Load(Program):
    def __init__(self, node, name, us, memory, *options):
        super().__init__(node, name, ("steady", f"memory={memory}M", f"kernel_us={us}", f"ahead={max(2, 4000 // us)}", "seconds=36000", "report_ms=20", "stdin=1"), *options)
        self.computes()

    def kernels(self):
        """How many have ended: its next output."""
        assert select.select([self.process.stdout], [], [], PATIENCE)[0], f"{self.name} stands still"
        return int(self.process.stdout.readline().split("kernels=")[1])

    def computes(self):
        """It gets on."""
        before = self.kernels()
        while self.kernels() <= before:
            pass

    def tell(self):
        """It rests, or goes on."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self):
        out, error = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == 0, (self.name, out, error)


def alike_node(**more):
    os.environ["LEVEL"] = "debug"
    return Node("--grace", "2s", **more)


def pair(node, *options, memory=16):
    return Load(node, "short", 500, memory, *options), Load(node, "long", 10000, memory, *options)


def by_turns(node):
    return [tenant["time"]["by_turns"] for tenant in node.tenants()]


def take_turns(node):
    until(lambda: by_turns(node) == [True, True], lambda: node.log()[-3000:])


def unused(node):
    return node.log().count(" device.unused ")


def tell_all(loads):
    for load in loads:
        load.tell()


def all_end(node, loads):
    for load in loads:
        load.computes()
    for load in loads:
        load.end()
    node.is_clean()


def test_an_unused_device_is_sampled_again_when_somebody_computes():
    for swap in ("auto", "off"):  # whose guests always report when they are idle, and whose are asked to
        with alike_node() as node:
            loads = pair(node, "--swap", swap)
            take_turns(node)
            for slept in (1, 2):
                tell_all(loads)
                until(lambda: unused(node) == slept, lambda: node.log()[-3000:])
                assert by_turns(node) == [False, False]
                tell_all(loads)
                take_turns(node)
            all_end(node, loads)


def test_a_meted_that_is_killed_begins_anew():
    for swap in ("auto", "off"):
        with alike_node() as node:
            loads = pair(node, "--swap", swap)
            take_turns(node)
            node.restart()
            take_turns(node)
            tell_all(loads)
            until(lambda: unused(node) == 1)
            # While nobody computes it does not know that this was so before.
            node.restart()
            until(lambda: unused(node) == 2)
            tell_all(loads)
            take_turns(node)
            all_end(node, loads)


def test_a_suspended_tenant_comes_back_among_them():
    with alike_node() as node:
        loads = pair(node)
        take_turns(node)
        for name, other in (("short", loads[1]), ("long", loads[0])):
            node.mete("suspend", name)
            until(lambda: node.row(name)["out_bytes"] >= 16 << 20)
            other.computes()
            node.mete("resume", name)
            loads[name == "long"].computes()
            take_turns(node)
        tell_all(loads)
        until(lambda: unused(node) == 1)
        node.mete("suspend", "long")
        until(lambda: node.row("long")["out_bytes"] >= 16 << 20)
        tell_all(loads)
        loads[0].computes()
        node.mete("resume", "long")
        take_turns(node)
        all_end(node, loads)


def test_they_come_and_go_while_memory_does_not_fit():
    with alike_node() as node:
        loads = pair(node, memory=120)
        # Sets follow one another, whatever the samples show.
        moving(node, 240 << 20)
        tell_all(loads)
        third = Load(node, "third", 1000, 100)
        third.tell()
        tell_all(loads)
        for load in loads:
            load.computes()
        third.kill()
        loads[1].kill()
        # The tenant that is left has the device to itself.
        until(lambda: by_turns(node) == [False])
        all_end(node, loads[:1])


if __name__ == "__main__":
    run({name: test for name, test in globals().items() if getattr(test, "__module__", None) == "__main__"}, at_once=2)
