# SPDX-License-Identifier: Apache-2.0
"""How much of a device's time attackers had, by the simulator's ledger: of what was computed there, all that was not the neighbour's.
(Processes that have ended leave the ledger when their places are needed; a device's sum keeps them.)"""
import subprocess
import time

LONGER = "9"  # HOSTILE_LONGER: rows that are judged so last for more than LEAST_S
LEAST_S, POINTS = 10.0, 5.0  # a cap holds over 10 s, to within 5 points


class Spent:
    def __init__(self, build, environment, neighbour):
        self.command, self.environment, self.neighbour = [build + "/sim/mete-sim", "--ledger"], environment, neighbour
        self.began, self.before = time.monotonic(), self.ns()

    def ns(self):
        text = subprocess.run(self.command, env=self.environment, text=True, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE).stdout
        return others(text, self.neighbour)

    def judge(self, cap):
        """(more than that cap?, what was had, in words); None: it is not known. An attack that is over sooner had that within LEAST_S."""
        time.sleep(max(0, self.began + LEAST_S - time.monotonic()))
        had, seconds = self.ns() - self.before, time.monotonic() - self.began
        return judged(cap, had, seconds)


def others(ledger, neighbour):
    sums = 0
    for words in map(str.split, ledger.splitlines()):
        if words[:1] == ["device"] and words[3] == "compute":
            sums += int(words[5])
        elif words[:1] == ["process"] and int(words[1]) == neighbour:
            sums -= int(words[words.index("compute_ns") + 1])
    return sums


def judged(cap, had_ns, seconds):
    part = had_ns / seconds / 1e7
    said = f"{part:.1f} % of the device for {seconds:.1f} s"
    if had_ns == 0:
        return None, said + ": its cap was not tried"
    return part > cap + POINTS, said + f", {cap} were its own"
