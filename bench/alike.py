#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# About: time: tenants without any share set, whose kernels differ in length, by default
"""Real programs under `mete run` without an option about time, on the simulated GPU: what each had of it in each second from the
start on, by the simulator's own ledger. `bench/alike.py [PART...]`: unequal, equal.

unequal: kernels of 0.1 and 10 ms, and of 0.1, 1 and 10 ms. All windows of a second count that begin 3 s or more after the programs
(law 2 of core/turns/alike.h), the trial among them in which meted opens the device for a moment. equal: kernels of 1 ms; the device must
stay open. Modelled time, on a clock slowed METE_ALIKE_SLOW times (8). A busy host makes the figures worse: nothing is left out.
"""
import collections
import os
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PARTS = sys.argv[1:] or ["unequal", "equal"]
sys.argv[1:] = [os.environ.get("METE_BUILD", ROOT + "/build/plain")]
sys.path.insert(0, ROOT + "/tests/cli")
from mete import BUILD, Node, workload  # noqa: E402

SLOW = int(os.environ.get("METE_ALIKE_SLOW", "8"))
SECONDS = 16  # modelled: the first trial is 10 s after turns began
SETTLED = 3  # modelled: until then tenants may be short
STEPS = 4  # readings within a window
OFF_MOST = 5.0  # points
Look = collections.namedtuple("Look", "at had turns")


class Window:
    """The time between two readings."""

    def __init__(self, begun, before, after):
        parts = [b - a for a, b in zip(before.had, after.had)]
        self.begins, self.ends = before.at - begun, after.at - begun
        self.off = max(abs(part / sum(parts) - 1 / len(parts)) for part in parts) * 100


class Machine(Node):
    """A node whose ledger is kept until the end, and tenants on it."""

    def __init__(self):
        super().__init__(METE_SIM_DILATE=str(SLOW))
        self.tenants = []
        self.holder = subprocess.Popen([BUILD + "/sim/mete-sim", "--ledger"], env=self.environment, text=True,
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.holder.stdout.readline()

    def __exit__(self, *how):
        self.holder.stdin.close()
        self.holder.wait()
        super().__exit__(*how)

    def start_all(self, kernels):
        for i, us in enumerate(kernels):
            load = [workload("steady"), "seconds=36000", "stdin=1", "report_ms=3600000", f"kernel_us={us}", f"ahead={max(2, 4000 // us)}"]
            self.tenants.append(self.start("run", "--name", f"t{i}", "--", *load))
        for run in self.tenants:
            run.stdout.readline()  # it is at work

    def look(self):
        """When, in modelled seconds; what each tenant had until then, in ns; whether they take turns."""
        rows = self.ps()["tenants"]
        pids = {row["name"]: [process["pid"] for process in row["processes"]] for row in rows}
        text = subprocess.run([BUILD + "/sim/mete-sim", "--ledger"], env=self.environment, text=True, check=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE).stdout
        words = (line.split() for line in text.splitlines() if line.startswith("process"))
        seen = {int(row[1]): dict(zip(row[3::2], row[4::2])) for row in words}
        sums = [sum(int(seen.get(pid, {}).get("compute_ns", 0)) for pid in pids[name]) for name in sorted(pids)]
        return Look(time.monotonic() / SLOW, sums, any(row["time"]["by_turns"] for row in rows))

    def follow(self):
        looks, begun = [self.look()], time.monotonic()
        for i in range(SECONDS * STEPS):
            time.sleep(max(0, begun + (i + 1) * SLOW / STEPS - time.monotonic()))
            looks.append(self.look())
        for run in self.tenants:
            run.communicate(timeout=240)
        return [Window(looks[0].at, before, after) for before, after in zip(looks, looks[STEPS:])], looks


def followed(kernels):
    with Machine() as machine:
        machine.start_all(kernels)
        return machine.follow()


def names(kernels):
    return ", ".join(f"{us / 1000:g}" for us in kernels) + " ms"


def unequal():
    worst, latest, first = 0.0, 0.0, 0.0
    for kernels in ((100, 10000), (100, 1000, 10000)):
        windows, _ = followed(kernels)
        offs = [window.off for window in windows if window.begins >= SETTLED]
        holds = max((window.ends for window in windows if window.off > OFF_MOST), default=0.0)
        worst, latest, first = max(worst, *offs), max(latest, holds), max(first, windows[0].off)
        print(f"kernels of {names(kernels)}: off by {windows[0].off:.1f} points in the first second, by more than {OFF_MOST:g} in none that begins "
              f"later than {max(0, holds - 1):.1f} s; in those from {SETTLED} s on by {sum(offs) / len(offs):.2f} in the mean and {max(offs):.2f} at most, in {len(offs)} windows", flush=True)
    print(f"figure: alike_share_error_1s {worst:.2f} points")
    print(f"figure: alike_share_error_first_second {first:.1f} points")
    print(f"figure: alike_holds_after_s {latest:.1f} s")


def equal():
    windows, looks = followed((1000, 1000))
    off = max(window.off for window in windows)
    turns = sum(look.turns for look in looks)
    print(f"kernels of 1 and 1 ms: off by {off:.2f} points at most; with turns in {turns} of {len(looks)} looks", flush=True)
    print(f"figure: alike_equal_governed {turns} looks")


for part in PARTS:
    dict(unequal=unequal, equal=equal)[part]()
