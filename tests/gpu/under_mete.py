#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The claims of docs/UNVERIFIED.md about programs under mete on a machine's own driver: under_mete.py BUILD QUESTION

As claims.c answers: exit status 0 is yes, 1 no, 77 that it cannot be asked here, 2 that asking failed; the last text line gives the reason.
"""
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

from here import Here, MIB, PATIENCE, end, failed, needs, no, nvml_processes, until

ROOT = Path(__file__).resolve().parent.parent.parent
QUESTIONS = {}


def question(function):
    QUESTIONS[function.__name__] = function
    return function


# ---- what mete costs


def seconds_of(here, way, what, size, live, few, many):
    """Of one call: the difference of two run lengths, the median of five."""
    def once(count):
        began = time.monotonic()
        here.run(way + here.program("bench", "pairs", what, str(size), str(live), str(count)))
        return time.monotonic() - began
    return statistics.median(once(many) - once(few) for _ in range(3)) / (many - few)


@question
def a_launch_costs_nothing_measurable(here):
    count = 1000 if here.simulated else 300000
    ways = {"alone": [], "under mete": here.mete("run", "--quiet", "--swap", "off", "--"),
            "with memory that moves": here.mete("run", "--quiet", "--swap", "auto", "--")}
    took = {way: [] for way in ways}
    for _ in range(5):  # what the machine does meanwhile, it does to all
        for way, words in ways.items():
            took[way].append(float(here.run(words + here.program("bench", "pairs", "timed-launch", "1", "0", str(count)))))
    print({way: sorted(values) for way, values in took.items()})
    ns = {way: statistics.median(values) for way, values in took.items()}
    said = ", ".join(f"{ns[way]:.0f} ns {way}" for way in ways)
    if here.simulated:
        needs(f"a real driver's launch: the simulated one's takes as long as the host likes ({said})")
    if max(ns.values()) > ns["alone"] * 1.03 + 20:
        no(said)
    return said


@question
def movable_allocation_costs_at_most_twice_as_much(here):
    few, many = (20, 120) if here.simulated else (200, 2200)
    plain = seconds_of(here, here.mete("run", "--quiet", "--swap", "off", "--"), "alloc", 4 * MIB, 0, few, many)
    movable = seconds_of(here, here.mete("run", "--quiet", "--swap", "auto", "--"), "alloc", 4 * MIB, 0, few, many)
    said = f"a pair of 4 MiB {plain * 1e6:.0f} us, movable {movable * 1e6:.0f} us"
    if here.simulated:
        needs(f"a real driver's calls: the simulated one's are modelled ({said})")
    if movable > 2 * plain:
        no(said)
    return said


# ---- what moves


def checksum(text):
    found = re.search(r" ok checksum=([0-9a-f]+)", text)
    return found.group(1) if found else None


@question
def memory_leaves_and_comes_back_under_real_programs(here):
    times = 0
    for name, words in ("train", ["steps=300" if here.simulated else "steps=3000", "ballast=64M"]), ("graph-loop", ["launches=300"]):
        command = here.program("examples", name, *words)
        alone = checksum(here.run(command))
        program = here.start(here.mete("run", "--quiet", "--swap", "auto", "-n", name, "--", *command))
        while program.poll() is None:
            if subprocess.run(here.mete("suspend", name), capture_output=True, timeout=60).returncode != 0:
                continue  # it is not there yet, or has ended
            until(lambda: not (row := here.tenant(name)) or row["movable_bytes"] == 0, f"{name}'s memory has not left")
            times += 1
            subprocess.run(here.mete("resume", name), capture_output=True, timeout=60)
            until(lambda: not (row := here.tenant(name)) or not row["out_bytes"] or program.poll() is not None,
                  f"{name}'s memory has not come back")
        out, err = program.communicate(timeout=60)
        if program.returncode != 0 or checksum(out) != alone:
            no(f"{name} ended with {program.returncode} and {checksum(out)}, alone with {alone}: {err.strip()[-200:]}")
    if not times:
        failed("the programs had ended before their memory could leave")
    return f"it left {times} times; the same checksums as alone"


@question
def managed_memory_takes_what_the_device_has_no_room_for(here):
    if not here.simulated and not os.environ.get("METE_CHECK_OVERSUBSCRIBE"):
        needs("leave: more managed memory than the card has can hang a GPU (METE_CHECK_OVERSUBSCRIBE=1)")
    environment, total = dict(os.environ), None
    with tempfile.TemporaryDirectory(prefix="mete-over-", dir="/tmp") as folder:
        if here.simulated:  # a device as small as the host's memory likes
            os.mkdir(folder + "/run", 0o700)
            environment.update(METE_SIM_DIR=folder, METE_SIM_MEMORY="512M", METE_SIM_CONTEXT_MEMORY="8M", XDG_RUNTIME_DIR=folder + "/run")
            total = 512 * MIB
        else:
            said = here.run(["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits", "-i", "0"])
            total = int(said.split()[0]) * MIB
        said = here.run(here.mete("run", "--quiet", "--oversize", "managed", "--",
                                  *here.program("bench", "circle", "plain", str(total * 3 // 2 // (16 * MIB) * (16 * MIB)), "3")), env=environment)
    round_us = float(re.search(r"^[0-9.]+$", said, re.M).group(0))
    return f"a round of 1.5 times the device takes {round_us / 1e3:.0f} ms"


# ---- what mete counts


@question
def mete_counts_the_same_as_nvml(here):
    program = here.start(here.mete("run", "--quiet", "--swap", "off", "-n", "counted", "--memory", "2GiB", "--",
                                   *here.program("bench", "pairs", "until", str(64 * MIB), "3", "0")))
    until(lambda: (row := here.tenant("counted")) and row["allocated_bytes"] >= 192 * MIB, "the program has not allocated")

    def equal():
        tenant = here.tenant("counted")
        used = sum(used for pid, used in nvml_processes(here).items() if pid in [process["pid"] for process in tenant["processes"]])
        counted = tenant["allocated_bytes"] + tenant["residual_bytes"]
        return (used, counted) if abs(used - counted) <= 2 * MIB else None

    used, counted = until(equal, "mete ps and NVML differ by more than 2 MiB")
    program.communicate("")
    return f"NVML {used / MIB:.0f} MiB, mete {counted / MIB:.0f} MiB"


@question
def memory_outside_is_the_same_as_nvml_lists(here):
    keeper = here.start(here.mete("run", "--quiet", "--swap", "off", "-n", "keeper", "--memory", "1GiB", "--",
                                  *here.program("bench", "pairs", "until", str(MIB), "0", "0")))
    stranger = here.start(here.program("bench", "pairs", "until", str(64 * MIB), "3", "0"))

    def outside():
        row = next((row for row in here.ps()["outside"] if row["pid"] == stranger.pid), None)
        used = nvml_processes(here).get(stranger.pid)
        return row and used and abs(row["used_bytes"] - used) <= 2 * MIB

    until(outside, "`mete ps` does not show the program outside with NVML's figure")
    stranger.communicate("")
    if stranger.pid in nvml_processes(here):
        no("NVML lists it after its end")
    until(lambda: all(row["pid"] != stranger.pid for row in here.ps()["outside"]), "it stays outside after its end")
    keeper.communicate("")
    return "listed while it lives, with NVML's figure"


@question
def programs_end_well_while_gates_close_and_open(here):
    rounds = 4 if here.simulated else 20
    steady = [here.start(here.mete("run", "--quiet", "-n", f"steady{i}", "--memory", "2GiB", "--",
                                   *here.program("examples", "steady", "seconds=600", "kernel_us=1000", "stdin=1"))) for i in range(2)]
    until(lambda: len(here.ps()["tenants"]) >= 2, "the tenants have not joined")
    for _ in range(rounds):
        here.run(here.mete("run", "--quiet", "--memory", "2GiB", "--", *here.program("examples", "vector-add", "rounds=2")))
    for process in steady:
        out, err = process.communicate("", timeout=PATIENCE)
        if process.returncode != 0:
            no(f"a steady program ended with {process.returncode}: {err.strip()[-200:]}")
    return f"{rounds} programs ended beside two that took turns"


# ---- PyTorch


def torch_job(here, gib, steps):
    """The command of a job that keeps that much; it cannot be asked where there is no PyTorch or no such GPU."""
    if here.simulated:
        needs("NVIDIA's runtime, which PyTorch contains: it does not start on the simulated driver")
    if subprocess.run(["python3", "-c", "import torch; torch.cuda.init()"], capture_output=True).returncode != 0:
        needs("PyTorch that finds a GPU")
    return ["python3", str(ROOT / "examples/torch_job.py"), str(gib), str(steps)]


def ended_with(process, alone):
    out, err = process.communicate(timeout=PATIENCE * 4)
    if process.returncode != 0 or checksum(out) != checksum(alone):
        no(f"it ended with {process.returncode} and {checksum(out)}, alone with {checksum(alone)}: {err.strip()[-300:]}")
    return out + err


def job_seconds(text):
    return float(re.search(r" seconds=([0-9.]+)", text).group(1))


@question
def pytorch_alone_takes_no_longer_under_mete(here):
    command = torch_job(here, 20, 150)
    alone = here.run(command)
    took = {"off": 0, "auto": 0}
    for swap in took:
        took[swap] = job_seconds(ended_with(here.start(here.mete("run", "--quiet", "--swap", swap, "--", *command)), alone))
    said = f"150 steps {job_seconds(alone):.2f} s alone, {took['off']:.2f} s under mete, {took['auto']:.2f} s where its memory can move"
    if max(took.values()) > 1.03 * job_seconds(alone):
        no(said)
    return said


MOVED = 180  # seconds: patience for 40 GiB, which are there in 43 s at 1 GB/s


@question
def a_large_pytorch_job_is_suspended_and_goes_on(here):
    command = torch_job(here, 40, 60)
    alone, rates = here.run(command), []

    def shown():
        return here.shown("large")

    job = here.start(here.mete("run", "--quiet", "--swap", "auto", "-n", "large", "--", *command))
    while not job.stdout.readline().startswith("step"):
        if job.poll() is not None:
            no(f"it ended with {job.returncode}: {job.stderr.read()[-300:]}")
    for _ in range(2):
        row, began = here.tenant("large"), time.monotonic()
        if not row:
            failed("it had ended before its memory could leave" if job.poll() is not None else "it is no tenant")
        held = row["movable_bytes"]
        here.run(here.mete("suspend", "large"))
        until(lambda: not (row := here.tenant("large")) or row["movable_bytes"] == 0, "its memory has not left", MOVED, shown)
        left = time.monotonic()
        here.run(here.mete("resume", "large"))
        until(lambda: not (row := here.tenant("large")) or row["out_bytes"] == 0, "its memory has not come back", MOVED, shown)
        rates.append(f"{held / (left - began) / 1e9:.1f} GB/s out, {held / (time.monotonic() - left) / 1e9:.1f} in")
    ended_with(job, alone)
    return "; ".join(rates)


@question
def two_pytorch_jobs_that_need_more_than_the_device_both_end(here):
    command = torch_job(here, 48, 150)
    alone = here.run(command)
    began = time.monotonic()
    jobs = [here.start(here.mete("run", "--quiet", "--swap", "auto", "-n", f"job{i}", "--", *command)) for i in range(2)]
    for job in jobs:
        ended_with(job, alone)
    return f"2 of 48 GiB: {time.monotonic() - began:.1f} s at once, {2 * job_seconds(alone):.1f} s of steps one after the other"


class Steps:
    """Counts the lines of a job as they come."""

    def __init__(self, process):
        self.process, self.times = process, []
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            if line.startswith("step"):
                self.times.append(time.monotonic())

    def within(self, begin, end):
        return sum(begin <= at < end for at in self.times)


WARM, LOOK = 2, 6  # seconds


def steps_beside(here, commands):
    """How many steps each of them makes in LOOK seconds beside the others, once all of them are running."""
    jobs = [Steps(here.start(command)) for command in commands]
    for job in jobs:
        until(lambda: job.times or job.process.poll() is not None, "a job makes no steps")
    time.sleep(WARM + LOOK)
    end = time.monotonic()
    ended = [job.process.poll() for job in jobs]
    for job in jobs:
        here.kill(job.process)
        job.reader.join()  # nobody of its group writes any more
    for job, status in zip(jobs, ended):
        if status is not None:
            no(f"a job ended with {status}: {job.process.stderr.read().strip()[-300:]}")
    return [job.within(end - LOOK, end) for job in jobs]


@question
def weights_are_parts_of_the_time_that_pytorch_jobs_get(here):
    command = torch_job(here, 2, 1000000)
    alone, = steps_beside(here, [command])
    without = steps_beside(here, [command, command])
    weighed = steps_beside(here, [here.mete("run", "--quiet", "-n", f"w{weight}", "--weight", str(weight), "--", *command) for weight in (300, 100)])
    capped = steps_beside(here, [here.mete("run", "--quiet", "-n", "capped", "--cap", "30%", "--", *command)])
    said = (f"steps in {LOOK} s: {alone} alone, {without[0]} and {without[1]} without mete, {weighed[0]} and {weighed[1]} with weights 3:1, "
            f"{capped[0]} capped at 30 %")
    part = weighed[0] / sum(weighed)
    if abs(part - 0.75) > 0.05 or sum(weighed) < 0.9 * alone or capped[0] > 0.33 * alone:
        no(said)
    return said


# ---- what others do with it


@question
def pytorch_joins_and_expands_its_segments(here):
    if here.simulated:
        needs("NVIDIA's runtime, which PyTorch contains: it does not start on the simulated driver")
    if subprocess.run(["python3", "-c", "import torch"], capture_output=True).returncode != 0:
        needs("PyTorch")
    script = ("import time; began = time.time(); import torch; a = torch.ones(4096, 4096, device='cuda'); b = (a @ a).sum().item(); "
              "x = [torch.ones(1 << 20, device='cuda') for _ in range(64)]; del x; torch.cuda.empty_cache(); print('sum', b, time.time() - began)")
    took = {}
    for way, words in ("alone", []), ("under", here.mete("run", "--report", "--memory", "8GiB", "--")):
        for segments in "False", "True":
            said = here.run(words + ["python3", "-c", script], env=dict(os.environ, PYTORCH_CUDA_ALLOC_CONF="expandable_segments:" + segments))
            took[way] = float(re.search(r"^sum \S+ (\S+)$", said, re.M).group(1))
            if words and not re.search(r"held at most [1-9]", said):
                no("it did not join: " + said.strip()[-200:])
    if took["under"] > took["alone"] * 1.2 + 0.5:
        no(f"start-up {took['alone']:.1f} s alone, {took['under']:.1f} s under mete")
    return f"start-up {took['alone']:.1f} s alone, {took['under']:.1f} s under mete"


@question
def a_debugger_sees_through_the_trampolines(here):
    debugger = shutil.which("cuda-gdb") or shutil.which("gdb")
    if not debugger:
        needs("cuda-gdb")
    said = here.run(here.mete("run", "--quiet", "--memory", "2GiB", "--", debugger, "--batch", "-nx", "-ex", "set breakpoint pending on",
                              "-ex", "break cuLaunchKernel", "-ex", "run", "-ex", "finish", "-ex", "bt", "--args",
                              *here.program("examples", "vector-add", "rounds=1")))
    if not re.search(r"#\d+ .*\bmain \(", said):
        no("no main in the backtrace: " + said.strip()[-300:])
    return f"{Path(debugger).name} sees main behind cuLaunchKernel"


@question
def cuda_gdb_breaks_in_a_kernel(here):
    if not shutil.which("cuda-gdb"):
        needs("cuda-gdb")
    said = here.run(here.mete("run", "--quiet", "--memory", "2GiB", "--", "cuda-gdb", "--batch", "-nx", "-ex", "set cuda break_on_launch application",
                              "-ex", "run", "-ex", "info cuda kernels", "-ex", "kill", "--args", *here.program("examples", "vector-add", "rounds=1")))
    if "vector_add" not in said or "CUDA kernel" not in said and "Kernel" not in said:
        no(said.strip()[-300:])
    return "it stops in vector_add"


@question
def nvidia_smi_shows_the_shares_memory(here):
    smi = str(here.build / "sim/nvidia-smi") if here.simulated else shutil.which("nvidia-smi")
    if not smi:
        needs("nvidia-smi")
    stranger = here.start(here.program("bench", "pairs", "until", str(64 * MIB), "3", "0"))
    until(lambda: stranger.pid in nvml_processes(here), "the program outside is not listed")
    query = ["--query-gpu=memory.total,memory.used", "--format=csv,noheader,nounits", "-i", "0"]
    total, used = (int(word) for word in here.run(here.mete("run", "--quiet", "--swap", "off", "--memory", "2GiB", "--", smi, *query)).split(","))
    stranger.communicate("")
    if total != 2048 or used >= 192:
        no(f"{total} MiB in all, {used} used; its share is 2048")
    return f"{total} MiB in all, {used} used"


@question
def a_sanitizer_works_under_mete(here):
    if not shutil.which("compute-sanitizer"):
        needs("compute-sanitizer")
    said = here.run(here.mete("run", "--quiet", "--memory", "2GiB", "--", "compute-sanitizer", *here.program("examples", "vector-add", "rounds=1")))
    if "ERROR SUMMARY: 0 errors" not in said:
        no(said.strip()[-300:])
    return "0 errors"


@question
def the_driver_finds_its_files_by_bare_names(here):
    said = subprocess.run(here.program("tests/gpu", "claims", "frees_need_no_context"), env=dict(os.environ, LD_DEBUG="files"),
                          text=True, capture_output=True, timeout=60).stderr
    asked = re.findall(r"file=(\S+) \[\d+\];\s+dynamically loaded by (\S+)", said)
    of_driver = sorted({name for name, by in asked if re.search(r"lib(cuda|nvidia)[^/]*$", by)})
    if not of_driver:
        needs("a driver that loads further files: the simulated one has none")
    odd = [name for name in of_driver if "/" in name]
    if odd:
        no("by path: " + " ".join(odd))
    return " ".join(of_driver)


def main():
    if len(sys.argv) != 3 or sys.argv[2] not in QUESTIONS:
        failed("usage: under_mete.py BUILD QUESTION; questions: " + " ".join(QUESTIONS))
    here = Here(sys.argv[1])
    # A question that takes too long is told so (tools/check_gpu.py), and takes its processes along.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))
    try:
        end(0, QUESTIONS[sys.argv[2]](here))
    except Exception as error:  # it is no answer: status 1 would be "no"
        traceback.print_exc()
        failed(f"{type(error).__name__}: {error}")
    finally:
        here.close()


if __name__ == "__main__":
    main()
