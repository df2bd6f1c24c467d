#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# About: time: programs that wait for their own threads, and those that take more than their share by it
"""Programs of tests/guest/turns_traps.def beside two greedy neighbours, under turns, judged by the simulator's ledger.
`bench/coupled.py [PART...] [PROGRAM...]`: progress, attacks; of all programs, or of those.

progress: its rate under mete / (its rate alone without mete x its part of the weights); and the longest time in which a
neighbour ran no kernel, less the program's longest graph. attacks: with weight 10 beside 100 and 100, and with a cap of
10 %, what it had of the device in 10 s beyond that. Modelled time; as in turns-e2e.py, a run in which kernels came late is
not counted but repeated on a slower clock, unless that does not make them less late. Of two tenants that wait for each other the
parts are added up.

On a busy machine, or for a short look: COUPLED_SECONDS=3, modelled seconds of each run instead of 5 (progress) and 10 (attacks);
COUPLED_LATE_MS=6, how late a neighbour's kernels may come instead of 0.8; COUPLED_SPEEDS="8 16 32", the clocks that are tried, in parts of
real time, instead of "2 4 8 16 32". Figures that were measured so name them.
"""
import os
import re
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WANTED = sys.argv[1:]
PARTS = [part for part in ("progress", "attacks") if part in WANTED] or ["progress", "attacks"]
sys.argv[1:] = [os.environ.get("METE_BUILD", ROOT + "/build/plain")]
sys.path.insert(0, ROOT + "/tests/cli")
from mete import BUILD, Node, workload  # noqa: E402

DILATIONS = [int(word) for word in os.environ.get("COUPLED_SPEEDS", "2 4 8 16 32").split()]
LATE_MOST = float(os.environ.get("COUPLED_LATE_MS", "0.8")) * 1e6  # ns; 0.8 ms: a tenth of a turn
TRAPS = BUILD + "/tests/guest/turns_traps"
COUPLED = ("host_function", "wait_value", "flag", "barrier", "host_barrier", "graph",
           "signal", "lock", "capture", "callback", "graph_host", "write_value", "event", "query", "copy", "mailbox", "process",
           "ring", "fed", "cooperative", "loop", "again", "priorities", "pool", "makes", "threads", "training", "timer", "forks", "starts",
           "stopped", "requests", "pipeline", "ipc_events", "batch", "grid", "events", "chain", "graph_memory", "callbacks", "copies", "host_heavy",
           "outside", "sleeper", "watcher", "two", "per_thread", "alarm", "pipes", "mates", "server", "children", "values", "values_ahead",
           "ipc_values", "far", "far_default", "told", "half",
           "behind", "graph_told", "busy", "hand_over", "proxies", "allocators", "recaptures", "relaunched", "loaders", "batching", "workers",
           "debugged", "discarded", "own_told", "graph_waits", "posted", "posted_big", "unasked", "freed", "new_streams",
           "polled", "condition", "reactor", "sleeps", "mapping", "plug_in", "graph_events", "chosen", "green", "managed", "produced", "relay",
           "halted", "ranks", "locks",
           "gang", "echoes", "group", "breakpoints", "seldom", "producers", "spins", "peeks", "background", "grids", "host_chain", "handler",
           "pollers", "graphs", "destroys", "lazy", "trims", "pinned", "tokens", "saves", "credit")
PAIRS = {"values": ("value_here", "value_there"), "values_ahead": ("ahead_here", "ahead_there"), "ipc_values": ("value_lends", "value_borrows"),
         "barrier": ("lends", "borrows"), "host_barrier": ("meets_here", "meets_there"), "requests": ("asks", "answers"),
         "proxies": ("ring_here", "ring_there"), "credit": ("credit_here", "credit_there"),
         "pipeline": ("first", "second", "third"), "ipc_events": ("records", "follows"),
         "ranks": ("rank_0", "rank_1", "rank_2"), "locks": ("locks_here", "locks_there")}  # several tenants
GREEDY = ("open_capture", "never", "spinner", "graph", "flag", "wait_value", "barrier", "stopped", "pulses", "last_moment", "flood", "excuse",
          "watcher", "contexts", "crowd", "two", "generations", "released", "shield")
LONGEST = {"graph": 1.0}  # s: what a neighbour may have to wait for anyway
SECONDS = {part: float(os.environ.get("COUPLED_SECONDS", usual)) for part, usual in (("progress", 5), ("attacks", 10))}  # modelled
GAP_MS = 50


def wanted(names):
    return [name for name in names if name in WANTED] or (names if set(WANTED) <= set(PARTS) else ())


class Late(Exception):
    pass


class Machine(Node):
    def __init__(self, slow, late_before):
        super().__init__(METE_SIM_DILATE=str(slow), METE_SIM_CONTEXT_COST="0", METE_TRAP_SLOW=str(slow))
        self.slow, self.late_before = slow, late_before
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

    def begin(self, name, start):
        """start(program, tenant's name) for each program of a trap; all have ended a round."""
        place = os.path.join(self.place, "meet")
        runs = [start(program, f"trap {i}", dict(METE_TRAP_MEET=place)) for i, program in enumerate(PAIRS.get(name, (name,)))]
        for run in runs:
            assert run.stdout.readline() == "started\n", run.stderr.read()
        return runs

    def trap(self, name, *options):
        return self.begin(name, lambda program, tenant, more: self.start(
            "run", "--quiet", "--name", tenant, *options, "--", TRAPS, program, "0", **more))

    def bare(self, name):
        def start(program, _, more):
            run = subprocess.Popen([TRAPS, program, "0"], env=dict(self.environment, **more), text=True, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.started.append(run)
            return run
        return self.begin(name, start)

    def pids(self):
        """Of the neighbours; none without mete."""
        tenants = self.ps()["tenants"] if self.neighbours else []
        return {process["pid"] for row in tenants if not row["name"].startswith("trap") for process in row["processes"]}

    def ledger(self):
        """Of each process, also of those that have ended; Late if the neighbours' kernels came too late."""
        text = subprocess.run([BUILD + "/sim/mete-sim", "--ledger"], env=self.environment, text=True, check=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE).stdout
        rows = (line.split() for line in text.splitlines() if line.startswith("process"))
        seen = {int(row[1]): dict(zip(row[3::2], row[4::2])) for row in rows}
        near = self.pids() or seen
        late = max((int(row.get("late_p99_ns", 0)) for pid, row in seen.items() if pid in near), default=0)
        # What a slower clock does not make less is the program's doing: its kernels have slices of its neighbours' turns.
        if late > LATE_MOST and not 0.7 * self.late_before <= late <= 1.2 * self.late_before:
            raise Late(late)
        return seen

    def had(self):
        """Of the trap, whose processes may be short, in ns."""
        near = self.pids()
        return sum(int(row["compute_ns"]) for pid, row in self.ledger().items() if pid not in near)

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
    before = 0
    for slow in DILATIONS:
        try:
            with Machine(slow, before) as machine:
                return run(machine)
        except Late as late:
            before = int(str(late))
            print(f"  late by {before / 1e6:.1f} ms at 1/{slow} speed: repeated", flush=True)
    sys.exit("coupled: this machine is too busy: the programs came late on the slowest clock")


def rate(machine, runs, seconds):
    """Rounds per modelled second."""
    begun = time.monotonic()
    time.sleep(seconds * machine.slow)
    machine.ledger()
    for run in runs:
        run.stdin.close()
    took = (time.monotonic() - begun) / machine.slow
    return int(runs[0].stdout.readline().split("=")[1]) / took


def progress():
    least, most = 100.0, 0.0
    for name in wanted(COUPLED):
        def alone(machine):
            return rate(machine, machine.bare(name), SECONDS["progress"])

        def beside(machine):
            machine.rivals("100")
            runs = machine.trap(name, "--weight", "100")
            since = time.monotonic()
            rounds = rate(machine, runs, SECONDS["progress"])
            return rounds, machine.gap(since) - LONGEST.get(name, 0)

        single, (both, gap) = counted(alone), counted(beside)
        part = both / single * (2 + len(PAIRS.get(name, (name,))))
        most = max(most, gap)
        least = min(least, part)
        print(f"{name:<16} {single:7.1f} rounds/s alone, {both:6.1f} beside two: {part:5.2f} of its part; a neighbour waited {gap * 1e3:.0f} ms", flush=True)
    print(f"figure: coupled_progress_least {least:.2f} ratio")
    print(f"figure: neighbour_gap_most_s {most:.2f} s")


def attacks():
    worst = {"cap": 0.0, "weight": 0.0}
    for name in wanted(GREEDY):
        tenants = len(PAIRS.get(name, (name,)))
        ways = {"weight": (["--weight", "10"], tenants * 1000 / (200 + tenants * 10)), "cap": (["--weight", "100", "--cap", "10%"], tenants * 10)}
        for way, (options, due) in ways.items():
            def share(machine):
                machine.rivals("100")
                machine.trap(name, *options)
                time.sleep(2 * machine.slow)  # what it owes from its start is paid
                before, begun = machine.had(), time.monotonic()
                time.sleep(SECONDS["attacks"] * machine.slow)
                return (machine.had() - before) / ((time.monotonic() - begun) / machine.slow * 1e9) * 100

            part = counted(share)
            worst[way] = max(worst[way], part - due)
            print(f"{name:<16} {way:<7} {part:5.1f} % of the device, {due:.1f} are its own", flush=True)
    print(f"figure: cap_exceeded_points {worst['cap']:.1f} points")
    print(f"figure: weight_exceeded_points {worst['weight']:.1f} points")


for part in PARTS:
    dict(progress=progress, attacks=attacks)[part]()
