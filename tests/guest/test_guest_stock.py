#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory that was freed and is still mapped (guest/movable/movable_stock.h), with the real daemon: any tenant that wants it gets it.

    test_guest_stock.py METED SIMULATOR GUEST_LINKS MOVABLE_LOAD [TEST...]

Judged by the simulated machine's own book of what each process has.
"""
import random

from sim_node import *
from sim_node import Load as SimLoad, Node as SimNode

MIB = 1 << 20
CONTEXT = 4 * MIB
MOVER = 2 * MIB  # its streams and its module
ITSELF = CONTEXT + MOVER
DEVICE = 256 * MIB
# Beside a tenant that is registered, no more is kept than is worth keeping.
OUT_OF_MEMORY = "2"


class Load(SimLoad):
    def take(self, i, size):
        return self.ask("alloc", i, size)

    def free(self, i):
        assert self.ask("free", i) == "0"

    def stocks(self, *sizes):
        """Takes them and frees them: the driver still has them."""
        for i, size in enumerate(sizes):
            assert self.take(i, size) == "0"
        for i in range(len(sizes)):
            self.free(i)
        assert self.used() == ITSELF + sum(sizes), self.used()
        return self

    def used(self):
        return self.node.used().get(self.process.pid, 0)


class Node(SimNode):
    def __init__(self, **settings):
        super().__init__(METE_SIM_MEMORY=f"{DEVICE >> 20}M", METE_SIM_CONTEXT_MEMORY="4M", **settings)

    def load(self, memory="100%", swap="auto"):
        return Load(self, self.admin.tenant(memory, swap=swap))

    def used(self):
        """Of each process."""
        out = subprocess.run([sys.argv[2] + "/../nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"],
                             env=self.environment | {"LD_LIBRARY_PATH": sys.argv[2]}, check=True, capture_output=True, text=True).stdout
        return {int(pid): int(mib) * MIB for pid, mib in (line.split(",") for line in out.splitlines())}

    def row_of(self, load):
        return self.admin.tenant_row(load.tenant.tenant)


def test_stock_is_shown_as_credit():
    with Node() as node:
        load = node.load().stocks(64 * MIB, 20 * MIB, 2 * MIB)
        row = until(lambda: (row := node.row_of(load)).allocated == 0 and row, lambda: node.row_of(load))
        assert row.credit >= 86 * MIB, row
        # The process's measured memory is not taken for contexts and modules.
        until(lambda: node.row_of(load).residual == ITSELF, lambda: node.row_of(load))
        load.end()


def test_the_same_size_again_is_served_from_stock():
    with Node() as node:
        load = node.load().stocks(64 * MIB, 40 * MIB, 2 * MIB)
        for i, size in enumerate((40 * MIB, 2 * MIB, 64 * MIB)):
            assert load.take(i, size) == "0"
            load.ask("fill", i, i + 1)
        assert load.used() == ITSELF + 106 * MIB
        assert all(load.ask("check", i, i + 1) == "same" for i in range(3))
        assert node.row_of(load).allocated == 106 * MIB
        load.free(0)
        assert load.ask("free", 0) != "0" and load.ask("ipc", 0) != "0"  # it is not there, whatever is mapped
        load.end()


def test_another_size_has_it_within_the_limit():
    with Node() as node:
        load = node.load("128MiB").stocks(60 * MIB, 60 * MIB)
        for i, size in enumerate((50 * MIB, 40 * MIB, 30 * MIB)):
            assert load.take(i, size) == "0"
            assert load.used() <= 128 * MIB, load.used()
        load.end()


def test_a_small_allocation_does_not_look_for_room_where_the_last_one_was():
    """What both were parts of has gone to make room for a large one."""
    with Node() as node:
        load = node.load("100MiB")
        assert load.take(0, 1000) == "0"
        load.free(0)
        assert load.used() == ITSELF + 2 * MIB, load.used()
        assert load.take(1, 100 * MIB - ITSELF) == "0"
        load.free(1)
        assert load.take(2, 1000) == "0"
        load.ask("fill", 2, 3)
        assert load.ask("check", 2, 3) == "same"
        load.end()


def test_unmovable_memory_is_served_from_stock():
    """An allocation while a stream is captured is plain, and the thread that captures may unmap nothing then."""
    with Node() as node:
        load = node.load("128MiB").stocks(60 * MIB, 60 * MIB)
        load.ask("capture")
        assert load.take(1, 100 * MIB) == "0"
        assert load.used() <= 128 * MIB, load.used()
        load.ask("end-capture")
        load.end()


def test_others_have_it():
    for swap in "off", "auto":
        with Node() as node:
            load, rival = node.load().stocks(60 * MIB, 40 * MIB, 20 * MIB), node.load(swap=swap)
            assert rival.take(0, 200 * MIB) == "0", swap
            assert sum(node.used().values()) <= DEVICE
            assert load.used() <= ITSELF + 48 * MIB and node.row_of(load).out == 0, (load.used(), node.row_of(load))
            rival.end()
            load.end()


def test_another_process_of_the_tenant_has_it():
    with Node() as node:
        load = node.load("128MiB").stocks(80 * MIB, 20 * MIB)
        sibling = Load(node, load.tenant)
        assert sibling.take(0, 116 * MIB) == "0"
        assert sum(node.used().values()) <= 128 * MIB, node.used()
        sibling.end()
        load.end()


def test_a_lower_limit_takes_it():
    with Node() as node:
        load = node.load("140MiB").stocks(80 * MIB, 40 * MIB)
        node.admin.set(load.tenant.tenant, "memory", "64MiB")
        until(lambda: load.used() <= 64 * MIB, load.used)  # credit that is over the limit is recalled at once
        assert load.take(0, 80 * MIB) == OUT_OF_MEMORY
        assert load.take(0, 40 * MIB) == "0"
        assert load.used() <= 64 * MIB, load.used()
        load.end()


def test_a_suspended_tenant_has_nothing_in_stock():
    with Node() as node:
        load = node.load().stocks(64 * MIB, 20 * MIB)
        assert load.take(1, 2 * MIB) == "0"
        load.ask("fill", 1, 7)
        node.admin.ask("tenant_suspend", tenant=load.tenant.tenant, name="", suspends=1)
        until(lambda: node.row_of(load).out == 2 * MIB, lambda: node.row_of(load))
        until(lambda: load.used() <= ITSELF + 2 * MIB, load.used)
        node.admin.ask("tenant_suspend", tenant=load.tenant.tenant, name="", suspends=0)
        assert load.ask("check", 1, 7) == "same"
        load.end()


def test_memory_freed_while_it_was_to_leave_is_not_waited_for():
    """It is credit then, or stock, which no order moves: a tenant that is told to leave would be called stuck."""
    with Node(METE_SIM_LINK_RATE="16k") as node:  # 16 MiB/s
        load = node.load()
        sizes = [size * MIB for size in (48, 20, 16, 16, 16)]
        for i, size in enumerate(sizes):
            assert load.take(i, size) == "0"
        node.admin.ask("tenant_suspend", tenant=load.tenant.tenant, name="", suspends=1)
        until(lambda: node.row_of(load).out, lambda: node.row_of(load))  # the others follow; the first two have the lowest addresses, and are last
        for i in range(2):
            load.free(i)
        until(lambda: (row := node.row_of(load)).out == sum(sizes[2:]) and not row.movable and not row.credit, lambda: node.row_of(load))
        assert "tenant.stuck" not in node.meted.log(), node.meted.log()
        load.end()


def test_memory_freed_in_the_store_while_it_was_to_come_is_not_waited_for():
    """meted has made room for it, into which nothing comes. Another process of the tenant wants its memory back."""
    with Node(METE_SIM_LINK_RATE="16k") as node:  # 16 MiB/s
        load = node.load()
        other = Load(node, load.tenant)
        sizes = [size * MIB for size in (16, 16, 16, 16, 48)]
        for i, size in enumerate(sizes):
            assert load.take(i, size) == "0"
        assert other.take(0, 2 * MIB) == "0"
        node.admin.ask("tenant_suspend", tenant=load.tenant.tenant, name="", suspends=1)
        until(lambda: node.row_of(load).out == sum(sizes) + 2 * MIB, lambda: node.row_of(load))
        node.admin.ask("tenant_suspend", tenant=load.tenant.tenant, name="", suspends=0)
        other.tell("fill", 0, 1)
        until(lambda: node.row_of(load).out < sum(sizes), lambda: node.row_of(load))
        load.free(4)  # it has the highest address, and comes last
        other.hear()
        row = node.row_of(load)
        assert "tenant.stuck" not in node.meted.log() and not row.out and row.allocated == sum(sizes[:4]) + 2 * MIB, (row, node.meted.log())
        load.end()
        other.end()


def test_it_ends_with_any_context_and_is_not_a_childs():
    with Node() as node:
        load = node.load().stocks(64 * MIB, 20 * MIB)
        load.ask("fork")
        assert load.used() == ITSELF + 84 * MIB
        load.ask("context")  # a new one instead
        assert load.used() in (CONTEXT, ITSELF), load.used()  # the mover may be on its way to the new one
        assert load.take(0, 64 * MIB) == "0"
        load.end()


def test_unwanted_stock_goes_by_itself():
    """For a process that is no tenant."""
    with Node() as node:
        load = node.load().stocks(64 * MIB, 20 * MIB)
        until(lambda: load.used() == ITSELF, load.used)
        assert load.take(0, 64 * MIB) == "0"
        load.end()


def test_a_new_daemon_finds_it_as_credit():
    with Node() as node:
        load = node.load().stocks(80 * MIB, 40 * MIB)
        node.meted.kill()
        node.meted.start()
        node.admin = Admin(node.meted.place)
        until(lambda: node.row_of(load).guests == 1)
        rival = node.load(swap="off")
        assert rival.take(0, 200 * MIB) == "0"
        assert sum(node.used().values()) <= DEVICE
        assert load.take(0, 20 * MIB) == "0"
        rival.end()
        load.end()


def test_random_histories_of_three_that_share_a_device_stay_within_it():
    """Two tenants that move, one of them with two processes, and one that does not: nobody is refused what fits, and nobody exceeds."""
    seed = int(os.environ.get("METE_SEED", random.randrange(1 << 30)))
    print(f"METE_SEED={seed}")
    chance = random.Random(seed)
    with Node() as node:
        loads = [node.load("96MiB"), node.load("64MiB"), node.load("64MiB", swap="off")]
        loads.append(Load(node, loads[0].tenant))
        held = [{} for _ in loads]
        for _ in range(100 * SCALE):
            which = chance.randrange(len(loads))
            load, mine = loads[which], held[which]
            if mine and chance.random() < 0.55:
                i = chance.choice(list(mine))
                assert load.ask("check", i, mine[i][1]) == "same", (seed, which, i)
                load.free(i)
                del mine[i]
            else:
                i = next(i for i in range(64) if i not in mine)
                size = chance.choice((2, 2, 3, 10, 20, 20, 40)) * MIB
                of_tenant = sum(size for n, others in enumerate(held) if loads[n].tenant is load.tenant for size, _ in others.values())
                themselves = (CONTEXT if which == 2 else ITSELF) * sum(1 for other in loads if other.tenant is load.tenant)
                result = load.take(i, size)
                limit = 96 * MIB if which in (0, 3) else 64 * MIB
                whole = (size + 2 * MIB - 1) // (2 * MIB) * 2 * MIB
                assert result == "0" or of_tenant + whole + themselves > limit, (seed, which, size, of_tenant)
                if result == "0":
                    mine[i] = whole, chance.randrange(1, 1000)
                    load.ask("fill", i, mine[i][1])
            used = node.used()
            for tenant, limit in (0, 96), (1, 64), (2, 64):
                processes = [load.process.pid for load in loads if load.tenant is loads[tenant].tenant]
                sum_ = sum(used.get(pid, 0) for pid in processes)
                assert sum_ <= limit * MIB, (seed, tenant, sum_, [node.row_of(load) for load in loads], [guest for load in loads for guest in node.admin.guests(load.tenant.tenant)])
        for load in loads:
            load.end()
        for load in loads:
            row = until(lambda: (row := node.row_of(load)).guests == 0 and row)
            assert (row.allocated, row.credit, row.residual, row.stored) == (0, 0, 0, 0), row


run(globals())
