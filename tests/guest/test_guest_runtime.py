#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A program that calls the driver as NVIDIA's runtime and PyTorch's allocator do, with the real daemon.

    test_guest_runtime.py METED SIMULATOR GUEST_LINKS RUNTIME_LOAD [TEST...]

The runtime asks for the driver's private tables before anything else; from then on what is current may change unseen.
Whatever holds without them holds with them: limits, what moves, what is in memory.
"""
from sim_node import *
from sim_node import Node as SimNode

MIB = 1 << 20
OUT_OF_MEMORY = "2"
BOTH = False, True


class Runtime(Load):
    def __init__(self, node, tenant, tables=True):
        super().__init__(node, tenant, "tables" if tables else "plain")
        assert self.greeting == f"{int(tables)} tables"


class Node(SimNode):
    def __init__(self, **settings):
        super().__init__(METE_SIM_PRIVATE_TABLES="on", **settings)

    def row_of(self, tenant):
        return self.admin.tenant_row(tenant.tenant)

    def leaves(self, tenant, least=1):
        """All that can. Returns how much it is."""
        self.admin.ask("tenant_suspend", tenant=tenant.tenant, name="", suspends=1)
        return until(lambda: (row := self.row_of(tenant)).out >= least and not row.movable and row.out, lambda: self.row_of(tenant))

    def used(self):
        """By the simulated machine's own book, of all processes."""
        out = subprocess.run([sys.argv[2] + "/../nvidia-smi", "--query-compute-apps=used_memory", "--format=csv,noheader,nounits"],
                             env=self.environment | {"LD_LIBRARY_PATH": sys.argv[2]}, check=True, capture_output=True, text=True).stdout
        return sum(map(int, out.split())) * MIB


# Its memory, and how much of that moves: segments, also those of further threads, and memory that is mapped in pieces; not pools.
TAKES = [("segment", 2 * MIB, True), ("segment", 6 * MIB, True), ("segment", 20 * MIB, True), ("segment", 6 * MIB, True), ("thread", 2 * MIB, True),
         ("thread", 6 * MIB, True), ("expand", 40 * MIB, True), ("pooled", 2 * MIB, False), ("segment", 2 * MIB, True)]


def take(runtime):
    for i, (how, bytes, _) in enumerate(TAKES):
        assert runtime.ask(how, i, bytes) == "0", (how, bytes)
        runtime.ask("fill", i, i + 1)


def checks(runtime, added=0):
    for i in range(len(TAKES)):
        assert runtime.ask("check", i, i + 1, added) == "same", TAKES[i]


def test_memory_that_moves_without_the_drivers_tables_moves_with_them():
    moves = {}
    for tables in BOTH:
        with Node() as node:
            tenant = node.admin.tenant("1GiB", swap="auto")
            runtime = Runtime(node, tenant, tables)
            # Freed memory is credit, which a quick way to the driver could take.
            assert runtime.ask("pairs", 0, 20 * MIB) == "0"
            take(runtime)
            for i, (how, *_) in enumerate(TAKES):
                if how != "pooled":
                    assert runtime.ask("free", i) == "0"
                    assert runtime.ask(how, i, TAKES[i][1]) == "0"
            runtime.ask("pairs", 0, 2 * MIB)
            moves[tables] = node.leaves(tenant, sum(bytes for _, bytes, moved in TAKES if moved))
            runtime.end()
    assert moves[False] == moves[True] == sum(bytes for _, bytes, moved in TAKES if moved), moves


def computes(tables, *, green=False):
    with Node(METE_SIM_SMS="64") as node:
        tenant = node.admin.tenant("1GiB", swap="auto")
        runtime = Runtime(node, tenant, tables)
        if green:
            assert runtime.ask("green") == "green"
        take(runtime)
        for round in range(1, 4):
            node.leaves(tenant)
            node.admin.ask("tenant_suspend", tenant=tenant.tenant, name="", suspends=0)
            for i in range(len(TAKES)):
                runtime.ask("add", i, 1)
                runtime.ask("graph", i, 2)
            checks(runtime, 5 * round)
        # Work under way ends before its memory leaves.
        for i in range(len(TAKES)):
            runtime.ask("queue", i, 20)
        node.leaves(tenant)
        node.admin.ask("tenant_suspend", tenant=tenant.tenant, name="", suspends=0)
        runtime.ask("settle")
        checks(runtime, 5 * 3 + 20)
        for i in range(len(TAKES)):
            assert runtime.ask("free", i) == "0"
        until(lambda: (row := node.row_of(tenant)).out == 0 and row.allocated <= 2 * MIB, lambda: node.row_of(tenant))
        runtime.end()
        until(lambda: (row := node.row_of(tenant)).allocated == row.credit == row.residual == row.stored == 0, lambda: node.row_of(tenant))


def test_its_results_are_right_while_its_memory_comes_and_goes():
    for tables in BOTH:
        computes(tables)


def test_its_results_in_a_green_context_are_right_too():
    for tables in BOTH:
        computes(tables, green=True)


def test_its_limit_holds_to_the_byte_whichever_way_it_allocates():
    for swap in "auto", "off":
        for how, size in ("segment", 2 * MIB), ("segment", 20 * MIB), ("expand", 20 * MIB), ("thread", 20 * MIB), ("pooled", 20 * MIB):
            with Node() as node:
                tenant = node.admin.tenant("256MiB", swap=swap)
                runtime = Runtime(node, tenant)
                # The memory of contexts and modules is measured by now.
                assert runtime.ask("segment", 0, size) == "0"
                runtime.ask("fill", 0, 1)
                runtime.ask("add", 0, 1)
                count = 1
                while (r := runtime.ask(how, count, size)) == "0":
                    count += 1
                assert r == OUT_OF_MEMORY, (swap, how, r)
                row = node.row_of(tenant)
                assert row.allocated + row.residual <= 256 * MIB, (swap, how, row)
                assert row.allocated + row.residual + size + 34 * MIB > 256 * MIB, (swap, how, count, row)
                assert node.used() <= 256 * MIB, (swap, how, node.used())
                # As PyTorch does where it is refused: it frees what it has cached, and tries again.
                assert runtime.ask("free", count - 1) == "0"
                assert runtime.ask("segment", count - 1, size) == "0", (swap, how)
                runtime.end()


def test_a_context_that_became_current_unseen_is_charged_with_its_memory():
    with Node(METE_SIM_DEVICES="2xSIM") as node:
        tenant = node.admin.tenant("256MiB", device="0,1")
        runtime = Runtime(node, tenant)
        assert runtime.ask("segment", 0, 20 * MIB) == "0"
        runtime.ask("switch")
        assert runtime.ask("unguarded", 1, 64 * MIB) == "0"
        first, second = sorted((row for row in node.admin.list(tenant.tenant) if row.kind == "tenant_row"), key=lambda row: row.device)
        assert (first.allocated, second.allocated) == (20 * MIB, 64 * MIB), (first, second)
        runtime.end()


run(globals())
