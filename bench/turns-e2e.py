#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# About: time: fairness, caps and latency of real programs on the simulated GPU
"""Time shared out among real programs under `mete run`, on the simulated GPU: each one's part of it, by the simulator's own ledger, with turns and
without; caps; what an idle tenant leaves and how soon; an interactive tenant beside a batch job. `bench/turns-e2e.py [PART...]`: fairness, caps,
latency.

Modelled time. A run in which the programs' kernels came late (99th percentile) by more than LATE_MOST is not counted:
it is repeated on a slower clock. How often is printed.
"""
import json
import os
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PARTS = sys.argv[1:] or ["fairness", "caps", "latency"]
sys.argv[1:] = [os.environ.get("METE_BUILD", ROOT + "/build/plain")]
sys.path.insert(0, ROOT + "/tests/cli")
from mete import BUILD, Node, workload  # noqa: E402

LATE_MOST = 0.8e6  # ns: a tenth of a turn
WINDOW = 2.5  # s, modelled
DILATIONS = (2, 4, 8, 16, 32)
repeats = 0


class Late(Exception):
    pass


def had(seen, pid):
    """A process that has run nothing is not in the ledger."""
    return int(seen.get(pid, {}).get("compute_ns", 0))


def steady(load):
    return [workload("steady"), "seconds=600", "stdin=1", "report_ms=3600000", *load]


class Machine(Node):
    """A node whose ledger is kept until the end, and tenants on it."""

    def __init__(self, dilate):
        super().__init__(METE_SIM_DILATE=str(dilate))
        self.dilate, self.tenants, self.without_mete = dilate, [], {}
        self.holder = subprocess.Popen([BUILD + "/sim/mete-sim", "--ledger"], env=self.environment, text=True,
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.holder.stdout.readline()

    def tenant(self, name, *options, load, processes=1):
        command = steady(load)
        line = " ".join(command)
        whole = command if processes == 1 else ["sh", "-c", "exec 3<&0; " + f"{line} <&3 & " * processes + "wait"]
        run = self.start("run", "--name", name, *options, "--", *whole)
        self.tenants.append((name, run))
        run.stdout.readline()  # it is at work

    def bare(self, name, load, processes=1):
        """The same without mete."""
        runs = [subprocess.Popen(steady(load), env=self.environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE) for _ in range(processes)]
        self.started += runs
        self.tenants += [(name, run) for run in runs]
        self.without_mete[name] = [run.pid for run in runs]
        for run in runs:
            run.stdout.readline()

    def look(self):
        """The time that each process of each tenant has had so far, and how late its kernels came."""
        text = subprocess.run([BUILD + "/sim/mete-sim", "--ledger"], env=self.environment, text=True, check=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE).stdout
        seen = {}
        for line in text.splitlines():
            words = line.split()
            if words[0] == "process":
                seen[int(words[1])] = dict(zip(words[3::2], words[4::2]))
        return seen

    def pids(self):
        return self.without_mete or {row["name"]: [process["pid"] for process in row["processes"]] for row in self.ps()["tenants"]}

    def measure(self, seconds=WINDOW):
        """Each tenant's part of the device's time within so many modelled seconds."""
        pids, before = self.pids(), self.look()
        begun = time.monotonic()
        time.sleep(seconds * self.dilate)
        after, passed = self.look(), (time.monotonic() - begun) / self.dilate * 1e9
        parts = {name: sum(had(after, pid) - had(before, pid) for pid in of_tenant) / passed
                 for name, of_tenant in pids.items()}
        late = max(int(after.get(pid, {}).get("late_p99_ns", 0)) for of_tenant in pids.values() for pid in of_tenant)
        if late > LATE_MOST:
            raise Late(late)
        return parts

    def end(self):
        """The last output of each tenant's program."""
        said = {}
        for name, run in self.tenants:
            out, err = run.communicate(timeout=240)
            if run.returncode:
                sys.exit(f"turns-e2e: {name} ended with {run.returncode}: {err}")
            words = dict(word.split("=") for word in out.splitlines()[-1].split() if "=" in word)
            said[name] = {key: float(value) for key, value in words.items() if key != "checksum"}
        return said

    def __exit__(self, *more):
        self.holder.stdin.close()
        self.holder.wait()
        super().__exit__(*more)


def counted(run):
    """Of run(machine): on the fastest clock on which the programs were in time."""
    global repeats
    for dilate in DILATIONS:
        try:
            with Machine(dilate) as machine:
                return run(machine)
        except Late as late:
            repeats += 1
            print(f"  late by {int(str(late)) / 1e6:.1f} ms at 1/{dilate} speed: repeated", flush=True)
    sys.exit("turns-e2e: this machine is too busy: the programs came late on the slowest clock")


CASES = [  # name: weights, kernels in us, processes
    ("10:90", (10, 90), (1000, 1000), (1, 1)),
    ("50:50, kernels of 100 us and 10 ms", (50, 50), (100, 10000), (1, 1)),
    ("50:50, 1 process and 3", (50, 50), (1000, 1000), (1, 3)),
    ("thirds", (33, 33, 34), (500, 1000, 2000), (1, 1, 1)),
]


def fairness():
    worst, slowest = dict(turns=0.0, without=0.0), 100.0
    for title, weights, kernels, processes in CASES:
        busy = {}
        for way in worst:
            def run(machine):
                for i, weight in enumerate(weights):
                    load = [f"kernel_us={kernels[i]}", f"ahead={max(2, 4000 // kernels[i])}"]
                    if way == "turns":
                        machine.tenant(f"t{i}", "--weight", str(weight), processes=processes[i], load=load)
                    else:
                        machine.bare(f"t{i}", load, processes[i])
                return machine.measure()

            parts = counted(run)
            total = busy[way] = sum(parts.values())
            errors = [abs(parts[f"t{i}"] / total - weight / sum(weights)) * 100 for i, weight in enumerate(weights)]
            worst[way] = max(worst[way], *errors)
            print(f"{title:<40} {way:<8} " + " ".join(f"{parts[f't{i}'] * 100:5.1f} %" for i in range(len(weights))) +
                  f"   off by {max(errors):.2f} points, busy {total * 100:.1f} %", flush=True)
        if len(weights) == 2:
            slowest = min(slowest, busy["turns"] / busy["without"] * 100)
    print(f"figure: rivals_throughput_e2e {slowest:.1f} %")
    print(f"figure: share_error_e2e {worst['turns']:.2f} points")
    print(f"figure: share_error_e2e_without_turns {worst['without']:.2f} points")


def caps():
    worst = 0.0
    for cap in (10, 25, 50, 90):
        def run(machine):
            machine.tenant("t0", "--cap", f"{cap}%", load=["kernel_us=1000", "ahead=4"])
            return machine.measure()

        had = counted(run)["t0"] * 100
        worst = max(worst, had - cap)
        print(f"cap {cap} % of a lone tenant: {had:.1f} %", flush=True)
    print(f"figure: cap_exceeded_e2e {worst:.2f} points")


REQUESTS = [  # an interactive tenant's: name of the figure, kernels of 0.5 ms, mean pause in us
    ("", 10, 50000),
    ("_short", 1, 10000),
]
BATCH_US = 2000  # a kernel of the batch job


def latency():
    """An interactive tenant with pauses, alone, beside a batch job with turns, and beside one without mete."""
    batch = [f"kernel_us={BATCH_US}", "ahead=4"]
    seconds = 6 * WINDOW

    def request(machine, kernels, pause_us):
        return ["kernel_us=500", f"burst={kernels}", f"pause_us={pause_us * machine.dilate}"]

    def p99(machine):
        return machine.end()["t0"]["burst_p99_us"] / machine.dilate

    def rate_alone(machine):
        machine.tenant("t1", load=batch)
        return machine.measure()["t1"]

    rate, rates = counted(rate_alone), []
    for name, *load in REQUESTS:
        def alone(machine):
            machine.tenant("t0", load=request(machine, *load))
            machine.measure(seconds)
            return p99(machine)

        def beside(machine):
            machine.tenant("t0", "--class", "interactive", load=request(machine, *load))
            machine.tenant("t1", "--class", "batch", load=batch)
            parts = machine.measure(seconds)
            return p99(machine), parts

        def slices(machine):
            machine.bare("t0", request(machine, *load))
            machine.bare("t1", batch)
            machine.measure(seconds)
            return p99(machine)

        single, (turns, parts), plain = counted(alone), counted(beside), counted(slices)
        rates.append(parts["t1"] / rate * 100)
        print(f"requests of {load[0] * 0.5} ms: p99 {single:.0f} us alone, beside batch kernels of 2 ms {turns:.0f} us with turns, "
              f"{plain:.0f} us without; batch has {rates[-1]:.1f} % of its rate alone, they {parts['t0'] * 100:.1f} % of the device", flush=True)
        # For a user: a request may have to wait for the batch kernel that is under way, whatever the scheduler is.
        print(f"figure: latency_p99_user_ratio{name} {turns / single:.3f} ratio")
        print(f"figure: latency_p99_user_ratio{name}_floor {(single + BATCH_US) / single:.3f} ratio")
        print(f"figure: latency_p99_user_ratio{name}_without_turns {plain / single:.3f} ratio")
        print(f"figure: latency_p99_ratio_e2e{name}_without_turns {(plain - BATCH_US) / single:.3f} ratio")
        print(f"figure: latency_p99_ratio_e2e{name} {(turns - BATCH_US) / single:.3f} ratio")
    print(f"figure: latency_batch_rate_e2e {min(rates):.1f} %")


for part in PARTS:
    dict(fairness=fairness, caps=caps, latency=latency)[part]()
print(f"repeated, as programs came late by more than {LATE_MOST / 1e6} ms: {repeats}")
