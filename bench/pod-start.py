#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# About: what mete adds to the start of a pod, in a real Kubernetes
"""What mete adds to the start of a pod, in a real Kubernetes on this machine: pods with a slot whose program asks the driver what
there is, and the same pods without, one after the other in turn. From the pod's creation to the end of its program, by the
machine's clock (hundredths of a second; the figure is of the difference of medians).

It holds PreStartContainer, the CDI edits, the hook, and the guest's and the simulated driver's own start.
"""
import os
import statistics
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAIRS = int(os.environ.get("PAIRS", 40))
sys.argv = ["pod-start", os.path.join(ROOT, "build/plain")]
sys.path.insert(0, os.path.join(ROOT, "tests/kubernetes"))
from harness import node, pod  # noqa: E402


def uptime():
    return float(open("/proc/uptime").read().split()[0])


def start(here, name, slots):
    began = uptime()
    made = here.pod(name, pod(command=["sh", "-c", "seen; cat /proc/uptime"], slots=slots, cheap=False))
    assert made.await_end() == 0, made.log()
    lines = made.log().splitlines()
    assert lines[0].startswith("seen devices=1 " if slots else "seen devices=0 "), lines
    made.delete()
    return 1000 * (float(lines[-1].split()[0]) - began)


def main():
    with node("share: {memory: 25%}", slots=4) as here:
        for i in range(3):  # files that are read for the first time
            start(here, f"warm-{i}", 1)
            start(here, f"cold-{i}", 0)
        plain, shared = [], []
        for i in range(PAIRS):
            plain.append(start(here, f"plain-{i}", 0))
            shared.append(start(here, f"shared-{i}", 1))
    for name, times in (("plain", plain), ("with a slot", shared)):
        low, _, high = statistics.quantiles(times, n=4)
        print(f"{name}: median {statistics.median(times):.0f} ms, quartiles {low:.0f} to {high:.0f}, of {len(times)}")
    print(f"figure: pod_start_added_ms {statistics.median(shared) - statistics.median(plain):.0f} ms")


if __name__ == "__main__":
    main()
