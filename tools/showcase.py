#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The main job, shown: unmodified CUDA programs share one GPU, each within its own memory limit.

Usage: tools/showcase.py [--gpu] [--only NAME,NAME...] BUILD

Runs every workload alone on the bare driver, then all of them at once under `mete run --memory`,
and compares: the checksums must be equal, the peaks below the limits. Without --gpu the driver is
the simulated one of the build; with it, the machine's own. Exit status 0 only if all of it held.
"""
import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import needed
import registries

ROOT = Path(__file__).resolve().parent.parent
MIB = 1 << 20

# name, limit in MiB, arguments. Contexts count too, so that no limit is as small as the data.
# LIMIT stands for the limit in bytes: a workload that is given it checks that it got no more.
WORKLOADS = [
    ("vector-add", 256, ["rounds=6"]),
    ("matmul", 256, ["size=64", "rounds=3"]),
    ("train", 512, ["steps=40", "ballast=128M"]),
    ("inference", 384, ["requests=40", "rate=100"]),
    ("notebook", 384, ["cells=5", "think=60"]),
    ("hoarder", 768, ["limit=LIMIT"]),
    ("torture", 640, ["threads=3", "operations=120", "largest=64M"]),
    ("graph-loop", 256, ["launches=30"]),
]
# Programs whose amounts depend on what they are refused: their checksum is of work, not of sizes.
TINYGRAD = "tinygrad==0.14.0"
TINYGRAD_LIMIT = 512
CONTEXT = 1024  # MiB more for each program on a GPU, where the driver takes hundreds for a context; the simulated one takes 64


class Run:
    """One program: its command, where its output went, what became of it."""

    def __init__(self, name, command, environment, limit=None, stdin=subprocess.DEVNULL):
        self.name, self.limit = name, limit
        self.process = subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, stdin=stdin)

    def finish(self):
        out, err = self.process.communicate(timeout=900)
        self.output, self.status = (out + err).strip(), self.process.returncode
        checksum = re.search(r" ok checksum=([0-9a-f]+)", out)
        self.checksum = checksum.group(1) if checksum else None
        report = re.search(r"held at most (\d+)([KM])iB of (\d+)MiB(?:.*refused (\d+) time)?", err)
        self.limit_bytes = int(report[3]) * MIB if report else None
        self.peak = int(report[1]) * {"K": 1 << 10, "M": MIB}[report[2]] if report else None
        self.refusals = int(report[4] or 0) if report else None
        return self


def tinygrad_python():
    """The interpreter of a virtual environment with tinygrad in it; Unavailable has the reason why there can be none."""
    return registries.kept_environment("tinygrad", [TINYGRAD, "numpy"], lambda make: needed.fetch("pypi", TINYGRAD, make), "/usr/bin/python3")


def programs(build, only):
    """(name, limit in MiB, command, extra environment) of everything that is shown."""
    shown = [(name, limit, [str(build / "examples" / name), *arguments], {})
             for name, limit, arguments in WORKLOADS if not only or name in only]
    if only:
        return shown
    try:
        python = tinygrad_python()
    except registries.Unavailable as why:
        print(f"skipped: tinygrad: {why}")
        return shown
    script = [str(python), str(ROOT / "examples" / "tinygrad_train.py")]
    for i in (1, 2, 3):
        shown.append((f"tinygrad-{i}", TINYGRAD_LIMIT, script, {"DEV": "CUDA:PTX"}))
    return shown


def limited(command, limit_bytes):
    """0: alone, without a limit."""
    return [word.replace("LIMIT", str(limit_bytes)) for word in command]


def snapshot(mete, environment, stop, seen):
    """Keeps the fullest `mete ps` while the programs run; each reading follows the one before."""
    while not stop.wait(0.2):
        done = subprocess.run([mete, "ps", "--json"], env=environment, text=True, capture_output=True)
        try:
            tenants = json.loads(done.stdout)["tenants"]
        except (ValueError, KeyError):
            continue
        held = sum(t["allocated_bytes"] for t in tenants)
        if (len(tenants), held) > seen.get("rank", (0, 0)):
            table = subprocess.run([mete, "ps"], env=environment, text=True, capture_output=True)
            seen.update(rank=(len(tenants), held), table=table.stdout)


def environment_for(build, gpu, scratch):
    environment = dict(os.environ)
    for name in ("LD_PRELOAD", "METE_SOCKET", "METE_DRIVER"):
        environment.pop(name, None)
    environment["XDG_RUNTIME_DIR"] = scratch
    environment["CACHEDB"] = os.path.join(scratch, "tinygrad.db")
    if not gpu:
        environment.pop("CUDA_VISIBLE_DEVICES", None)
        environment["METE_SIM_DIR"] = os.path.join(scratch, "sim")
        environment["LD_LIBRARY_PATH"] = str(build / "sim" / "lib")
    if "METE_SIM_DIR" in environment:
        os.makedirs(environment["METE_SIM_DIR"], exist_ok=True)
    return environment


@contextlib.contextmanager
def stage(build, gpu=False):
    """The environment of a machine of its own, which is gone in the end."""
    # A socket's path has 107 bytes at most: short names, and not the test runner's long folder.
    scratch = tempfile.mkdtemp(prefix="mete-show-", dir="/tmp")
    try:
        yield environment_for(build, gpu, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def end_with(main):
    try:
        sys.exit(main())
    except KeyboardInterrupt:  # everything is cleaned up; make prints the one message
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)


def run_alone(name, command, environment):
    run = Run(name, command, environment).finish()
    print(run.output.splitlines()[-1] if run.output else f"{name}: no output", flush=True)
    return run


def ended_well(alone, shared):
    """Why not; otherwise None."""
    if shared.status != 0:
        return "FAILED: exit status %d" % shared.status
    if shared.checksum is None or shared.checksum != alone.checksum:
        return "FAILED: another checksum than alone"
    if shared.peak is None:
        return "FAILED: no report of its peak"
    return None


def verdict(alone, shared):
    if failed := ended_well(alone, shared):
        return failed
    if shared.limit_bytes != shared.limit * MIB:
        return "FAILED: its limit was not what was asked for"
    if shared.peak > shared.limit_bytes:
        return "FAILED: above its limit"
    return "ok"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--only", type=lambda text: text.split(","))
    parser.add_argument("build", type=Path)
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    mete = str(build / "cli" / "mete")
    with stage(build, arguments.gpu) as environment:
        return show(build, mete, environment, arguments.only)


def show(build, mete, environment, only):
    more = 0 if "METE_SIM_DIR" in environment else CONTEXT
    shown = [(name, limit + more, command, extra) for name, limit, command, extra in programs(build, only)]
    subprocess.run([mete, "sim"] if "METE_SIM_DIR" in environment else [mete, "doctor"], env=environment)

    print("\n-- each program alone, on the bare driver", flush=True)
    alone, ran = {}, {}
    for name, _, command, extra in shown:  # equal programs once
        key = tuple(command)
        if key not in ran:
            ran[key] = run_alone(name, limited(command, 0), {**environment, **extra})
        alone[name] = ran[key]

    print(f"\n-- all {len(shown)} at once, under mete run --memory", flush=True)
    seen, stop = {}, threading.Event()
    watcher = threading.Thread(target=snapshot, args=(mete, environment, stop, seen))
    runs = [Run(name, [mete, "run", "--report", "--wait", "60s", "--name", name, "--memory", f"{limit}MiB", "--",
                       *limited(command, limit * MIB)],
                {**environment, **extra}, limit) for name, limit, command, extra in shown]
    watcher.start()
    try:
        shared = [run.finish() for run in runs]
    finally:
        stop.set()
        watcher.join()
    print(seen.get("table", "no snapshot: they were faster than the eye"))

    print(f"{'PROGRAM':<14}{'LIMIT':>10}{'PEAK':>10}{'REFUSED':>9}  {'CHECKSUM':<18}VERDICT")
    bad = 0
    for run in shared:
        said = verdict(alone[run.name], run)
        bad += said != "ok"
        peak = f"{run.peak / MIB:.0f}MiB" if run.peak is not None else "-"
        refused = run.refusals if run.refusals is not None else "-"
        print(f"{run.name:<14}{run.limit:>7}MiB{peak:>10}{refused:>9}  {run.checksum or '-':<18}{said}")
        if said != "ok":
            print("    " + "\n    ".join(run.output.splitlines()[-8:]))
    checksums = {run.checksum for run in shared if run.name.startswith("tinygrad")}
    if len(checksums) > 1:
        bad += 1
        print("tinygrad: three equal trainings ended with different weights")
    print(f"\n{len(shared) - bad} of {len(shared)} programs: equal checksums, limits held" if not bad
          else f"\n{bad} of {len(shared)} programs FAILED")
    return 1 if bad else 0


if __name__ == "__main__":
    end_with(main)
