#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real programs with kernels of half a second, under turns: what they have of the device is charged. By the simulator's ledger.

    test_guest_turns_long.py METED SIMULATOR GUEST_LINKS STEADY
"""
import sys

from sim_node import *

KERNEL_US = 500000
TURNS = 6  # that are compared


class Program:
    def __init__(self, node, name, *settings):
        self.node, self.tenant = node, node.admin.tenant(name=name, weight="100")
        self.process = subprocess.Popen([LOAD, *settings, "ahead=4", "seconds=36000", "stdin=1"], env=node.guest_environment(self.tenant), text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def row(self):
        return self.node.admin.tenant_row(self.tenant.tenant)

    def had_ns(self):
        text = subprocess.run([os.path.dirname(sys.argv[2]) + "/mete-sim", "--ledger"], env=self.node.environment, check=True, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE).stdout
        rows = [line.split() for line in text.splitlines() if line.startswith(f"process {self.process.pid} ")]
        return int(rows[0][rows[0].index("compute_ns") + 1]) if rows else 0

    def end(self):
        out, err = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == 0, (out, err)


def test_time_of_a_program_with_long_kernels_ahead_is_charged():
    """It has 2 s of work under way when it is first to drain: too much to see whether that ends by itself. It was taken for coupled for
    ever then, and had 78 % of the device."""
    with Node("1GiB", METE_SIM_DEVICES="1xT4") as node:
        others = [Program(node, f"neighbour {i}", "kernel_us=1000") for i in range(2)]
        until(lambda: all(other.row().turns for other in others))
        long = Program(node, "long", f"kernel_us={KERNEL_US}")
        seen = []

        def is_charged():
            turns, charged, had = long.row().turns, long.row().charged, long.had_ns()
            until(lambda: long.row().turns >= turns + TURNS)
            seen.append((long.had_ns() - had, long.row().charged - charged))
            return len(seen) > 1 and all(had <= charged + KERNEL_US * 1000 for had, charged in seen[-2:])

        until(is_charged, lambda: f"had and charged: {seen}")
        print(f"had and charged, in ms: {[(had // 1000000, charged // 1000000) for had, charged in seen]}")
        for program in (*others, long):
            program.end()


if __name__ == "__main__":
    run(globals())
