#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# About: what a turn costs meted, and what it would cost at least
"""What a turn costs meted: two tenants of equal weight that always have work, on the simulated GPU at its own speed.
CPU time of all of meted's threads by the kernel's clock, best of 5 times 4 s; then the same while both rest.

On a virtual machine, whose wake-ups are slow, a turn costs more. So `turn_floor` does the same number of turns with
nothing but the system calls that a turn cannot do without: how far meted is from that is a figure, too.
"""
import os
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.argv[1:] = [os.environ.get("METE_BUILD", ROOT + "/build/plain")]
sys.path.insert(0, ROOT + "/tests/cli")
from mete import BUILD, Node, workload  # noqa: E402

SECONDS, TIMES = 4, 5
REST = 6  # meted looks at a shared device three times more, a second apart


def cpu_us(pid):
    """Of all threads."""
    return sum(int(open(f"/proc/{pid}/task/{task}/schedstat").read().split()[0]) for task in os.listdir(f"/proc/{pid}/task")) / 1000


def main():
    load = ["--", workload("steady"), "kernel_us=200", "ahead=4", "seconds=600", "stdin=1", "report_ms=3600000"]
    with Node(METE_SIM_DILATE="1") as node:
        programs = [node.start("run", "--name", name, "--weight", "100", *load) for name in "ab"]
        for program in programs:
            program.stdout.readline()  # it is at work
        pid = node.daemon_pid()

        def turns():
            return sum(row["time"]["turns"] for row in node.ps()["tenants"])

        costs = []
        for _ in range(TIMES):
            before, used = turns(), cpu_us(pid)
            time.sleep(SECONDS)
            used = cpu_us(pid) - used
            count = turns() - before
            costs.append(used / count)
            print(f"{count / SECONDS:.0f} turns a second, {costs[-1]:.0f} us each", flush=True)
        for program in programs:
            program.stdin.write("\n")
            program.stdin.flush()
        time.sleep(REST)
        used = cpu_us(pid)
        time.sleep(SECONDS)
        print(f"figure: meted_silent_cpu_us {cpu_us(pid) - used:.0f} us")
        for program in programs:
            program.communicate("")
    turn_us = round(SECONDS * 1e6 / count)
    floor = min(float(subprocess.run([BUILD + "/bench/turn_floor", str(SECONDS), str(turn_us)], text=True, check=True,
                                     stdout=subprocess.PIPE).stdout) for _ in range(TIMES))
    print(f"figure: turn_floor_us {floor:.0f} us")
    print(f"figure: meted_turn_by_floor {min(costs) / floor:.2f} times")
    print(f"figure: meted_core_at_1000_turns {min(costs) / 10:.1f} %")
    print(f"figure: meted_us_per_turn {min(costs):.0f} us")


main()
