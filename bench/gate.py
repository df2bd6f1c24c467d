#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# About: what `make test` takes from a fresh clone, in minutes and processor minutes
"""GATE_RUNS=1: so many fresh clones of HEAD, one after the other; each is built and tested as CI does it (`.ci/run`), beside nothing else.

What the machine has already (Debian's packages, ~/.cache/mete with the programs of the test cluster) is used. Processor time is the whole
machine's (/proc/stat): daemons and containers leave their parents, and no account of one process has them all. So nothing else may run, which
the machine's load at the start tells; or it runs in a control group (GATE_ASIDE=/sys/fs/cgroup/cpuacct/NAME) whose time is subtracted.
A clone stays in build/gate-run where its run failed. Logs of unsteady tests are kept in build/gate-unsteady.
"""
import os
import re
import shutil
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PLACE = os.path.join(ROOT, "build", "gate-run")
RUNS = int(os.environ.get("GATE_RUNS", "1"))
ASIDE = os.environ.get("GATE_ASIDE")


def aside():
    """Seconds of processor time of what runs beside it."""
    if not ASIDE:
        return 0.0
    try:
        with open(os.path.join(ASIDE, "cpuacct.usage")) as file:
            return int(file.read()) / 1e9
    except OSError as why:
        sys.exit(f"gate: GATE_ASIDE={ASIDE} is no folder of a cpuacct control group: {why.strerror}")


def used():
    """Seconds of processor time since the machine started, without idle and stolen time and what runs aside."""
    with open("/proc/stat") as file:
        user, nice, system, _idle, _wait, irq, softirq = map(int, file.readline().split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK") - aside()


def clone():
    shutil.rmtree(PLACE, ignore_errors=True)
    os.makedirs(PLACE)
    tree = os.path.join(PLACE, "main")
    subprocess.run(["git", "clone", "--quiet", ROOT, tree], check=True)
    shared = os.path.join(os.path.dirname(ROOT), "shared")
    if os.path.isdir(shared):
        os.symlink(shared, os.path.join(PLACE, "shared"))
    return tree


def run(number):
    """One run: seconds, processor seconds, (passed, failed, skipped), names that were unsteady."""
    tree = clone()
    before, began = used(), time.monotonic()
    # What `make bench` told its make is not for the one that is measured.
    env = {name: value for name, value in os.environ.items() if name not in ("BENCH", "MAKEFLAGS", "MAKELEVEL", "MFLAGS", "MAKEOVERRIDES")}
    process = subprocess.Popen(["bash", ".ci/run"], cwd=tree, env=dict(env, CI="true"), stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = []
    for line in process.stdout:
        print(line, end="", flush=True)
        lines.append(line.strip())
    status, seconds, processor = process.wait(), time.monotonic() - began, used() - before
    counted = re.fullmatch(r"(\d+) passed, (\d+) failed, (\d+) skipped", lines[-1] if lines else "")
    failed = int(counted[2]) if counted else 1
    unsteady = [line for line in lines if line.startswith("unsteady: ")]
    print(f"run {number}: status {status}, {seconds / 60:.1f} minutes, {processor / 60:.1f} processor minutes, {len(unsteady)} unsteady", flush=True)
    if unsteady:
        shutil.copytree(os.path.join(tree, "build", "unsteady"), os.path.join(ROOT, "build", "gate-unsteady", str(number)), dirs_exist_ok=True)
    if status == 0:
        shutil.rmtree(PLACE, ignore_errors=True)
    return seconds, processor, failed + (status != 0 and not failed), unsteady


def main():
    print(f"gate: load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors at the start", flush=True)
    dirty = subprocess.run(["git", "-C", ROOT, "status", "--porcelain"], text=True, capture_output=True, check=True).stdout
    if dirty:
        print(f"gate: only what is committed is tested; not that: {dirty.split()[1]} ...", file=sys.stderr)
    results = [run(number + 1) for number in range(RUNS)]
    unsteady = [line for result in results for line in result[3]]
    print("\n".join(unsteady))
    print(f"figure: test_minutes {max(result[0] for result in results) / 60:.1f} minutes")
    print(f"figure: test_cpu_minutes {max(result[1] for result in results) / 60:.1f} minutes")
    print(f"figure: test_runs {RUNS} count")
    print(f"figure: test_failures {sum(result[2] for result in results)} count")
    print(f"figure: test_unsteady {len(unsteady)} count")
    return 1 if any(result[2] for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
