# SPDX-License-Identifier: Apache-2.0
"""meted's resident memory, for benchmarks."""
import re


def memory_mib(pid, folder):
    """Of meted; and of it, what it shares with the simulated machine."""
    ours = simulated = 0
    of_the_machine = False
    for line in open(f"/proc/{pid}/smaps"):
        if re.match("[0-9a-f]+-[0-9a-f]+ ", line):
            of_the_machine = folder in line
        elif line.startswith("Rss:"):
            kib = int(line.split()[1])
            simulated, ours = simulated + kib * of_the_machine, ours + kib * (not of_the_machine)
    return ours / 1024, simulated / 1024
