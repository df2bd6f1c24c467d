#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# About: time: programs that wait for their own threads, and those that take more than their share by it
"""Each program of tests/guest/turns_traps.c beside two greedy neighbours, under turns, judged by the simulator's ledger.
`bench/coupled.py [PART...]`: progress, attacks.

progress: its rate under mete / (its rate alone without mete x its part of the weights); and the longest time in which a
neighbour ran no kernel, less the program's longest graph. attacks: with weight 10 beside 100 and 100, and with a cap of
10 %, what it had of the device in 10 s beyond that. Modelled time; as in turns-e2e.py, a run in which kernels came late is
not counted but repeated on a slower clock.
"""
import os
import re
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PARTS = sys.argv[1:] or ["progress", "attacks"]
sys.argv[1:] = [os.environ.get("METE_BUILD", ROOT + "/build/plain")]
sys.path.insert(0, ROOT + "/tests/cli")
from mete import BUILD, Node, workload  # noqa: E402

DILATIONS = (2, 4, 8, 16, 32)
LATE_MOST = 0.8e6  # ns: a tenth of a turn
TRAPS = BUILD + "/tests/guest/turns_traps"
COUPLED = ("host_function", "wait_value", "flag", "signal", "lock", "graph")
GREEDY = ("open_capture", "never", "spinner", "graph", "flag", "wait_value")
LONGEST = {"graph": 1.0}  # s: what a neighbour may have to wait for anyway
PART, SECONDS = 1 / 3, 10
GAP_MS = 50


class Late(Exception):
    pass


class Machine(Node):
    def __init__(self, slow):
        super().__init__(METE_SIM_DILATE=str(slow), METE_SIM_CONTEXT_COST="0")
        self.slow = slow
        self.holder = subprocess.Popen([BUILD + "/sim/mete-sim", "--ledger"], env=self.environment, text=True,
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.holder.stdout.readline()
        self.neighbours = []

    def __exit__(self, kind, *more):
        self.holder.stdin.close()
        self.holder.wait()
        super().__exit__(None if kind is Late else kind, *more)

    def rivals(self, weight):
        load = [workload("steady"), "kernel_us=1000", "ahead=4", "seconds=36000", "stdin=1", "report_ms=3600000", f"gap_ms={GAP_MS * self.slow}"]
        self.neighbours = [self.start("run", "--quiet", "--name", f"n{i}", "--weight", weight, "--", *load) for i in range(2)]
        for run in self.neighbours:
            run.stdout.readline()

    def trap(self, name, *options):
        run = self.start("run", "--quiet", "--name", "trap", *options, "--", TRAPS, name, "0")
        assert run.stdout.readline() == "started\n", run.stderr.read()
        return run

    def bare(self, name):
        run = subprocess.Popen([TRAPS, name, "0"], env=self.environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.started.append(run)
        run.stderr = run.stdout
        assert run.stdout.readline() == "started\n"
        return run

    def pids(self):
        """Of the trap; none without mete."""
        tenants = self.ps()["tenants"] if self.neighbours else []
        return {process["pid"] for row in tenants if row["name"] == "trap" for process in row["processes"]}

    def ledger(self):
        """Of each process; Late if the neighbours' kernels came too late."""
        text = subprocess.run([BUILD + "/sim/mete-sim", "--ledger"], env=self.environment, text=True, check=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE).stdout
        rows = (line.split() for line in text.splitlines() if line.startswith("process"))
        seen = {int(row[1]): dict(zip(row[3::2], row[4::2])) for row in rows}
        mine = self.pids()
        late = max((int(row.get("late_p99_ns", 0)) for pid, row in seen.items() if pid not in mine), default=0)
        if late > LATE_MOST:
            raise Late(late)
        return seen

    def had(self):
        """Of the trap, in ns."""
        return sum(int(row["compute_ns"]) for pid, row in self.ledger().items() if pid in self.pids())

    def gap(self, since):
        """The neighbours' longest since then, in modelled seconds; they end."""
        longest = 0.0
        for run in self.neighbours:
            out, _ = run.communicate(timeout=240)
            for first, last in re.findall(r"gap from_us=(\d+) to_us=(\d+)", out):
                if int(first) >= since * 1e6:
                    longest = max(longest, (int(last) - int(first)) / 1e6 / self.slow)
        return longest


def counted(run):
    """Of run(machine): on the fastest clock on which the programs were in time."""
    for slow in DILATIONS:
        try:
            with Machine(slow) as machine:
                return run(machine)
        except Late as late:
            print(f"  late by {int(str(late)) / 1e6:.1f} ms at 1/{slow} speed: repeated", flush=True)
    sys.exit("coupled: this machine is too busy: the programs came late on the slowest clock")


def rate(machine, run, seconds):
    """Rounds per modelled second."""
    begun = time.monotonic()
    time.sleep(seconds * machine.slow)
    machine.ledger()
    run.stdin.close()
    out = run.stdout.readline()
    return int(out.split("=")[1]) / ((time.monotonic() - begun) / machine.slow)


def progress():
    least, most = 100.0, 0.0
    for name in COUPLED:
        def alone(machine):
            return rate(machine, machine.bare(name), SECONDS)

        def beside(machine):
            machine.rivals("100")
            run = machine.trap(name, "--weight", "100")
            since = time.monotonic()
            rounds = rate(machine, run, SECONDS)
            return rounds, machine.gap(since) - LONGEST.get(name, 0)

        single, (both, gap) = counted(alone), counted(beside)
        part = both / (single * PART)
        least, most = min(least, part), max(most, gap)
        print(f"{name:<16} {single:7.1f} rounds/s alone, {both:6.1f} beside two: {part:5.2f} of its part; a neighbour waited {gap * 1e3:.0f} ms", flush=True)
    print(f"figure: coupled_progress_least {least:.2f} ratio")
    print(f"figure: neighbour_gap_most_s {most:.2f} s")


def attacks():
    worst = {"cap": 0.0, "weight": 0.0}
    ways = {"weight": (["--weight", "10"], 1000 / 210), "cap": (["--weight", "100", "--cap", "10%"], 10)}
    for name in GREEDY:
        for way, (options, due) in ways.items():
            def share(machine):
                machine.rivals("100")
                machine.trap(name, *options)
                time.sleep(2 * machine.slow)  # what it owes from its start is paid
                before, begun = machine.had(), time.monotonic()
                time.sleep(SECONDS * machine.slow)
                return (machine.had() - before) / ((time.monotonic() - begun) / machine.slow * 1e9) * 100

            part = counted(share)
            worst[way] = max(worst[way], part - due)
            print(f"{name:<16} {way:<7} {part:5.1f} % of the device, {due:.1f} are its own", flush=True)
    print(f"figure: cap_exceeded_points {worst['cap']:.1f} points")
    print(f"figure: weight_exceeded_points {worst['weight']:.1f} points")


for part in PARTS:
    dict(progress=progress, attacks=attacks)[part]()
