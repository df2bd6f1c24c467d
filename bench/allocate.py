#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# About: the device plugin: how long Allocate takes, and what meted does while nothing happens
"""meted as a node's device plugin, between a kubelet of our own and a small API server (tests/plugin/node.py).

Allocate: 100,000 calls over the plugin's socket, one after the other as the kubelet makes them, while the API server is away:
it must be a look-up in memory. Again on a node whose GPUs MIG divides into 14 parts.

With 64 pods bound and seen by the watch: what meted has in memory, without the simulated machine's pages (bench/daemon-size.py
shows how), and the system calls that it begins in 5 s in which nothing happens. These are readings of the devices, every 5 s (node/devices/health.c:
Xids and ECC errors, whether each device answers, its processes): a timer, the worker that is woken and wakes the loop again, and what the driver's
library does, here reading the simulated machine's files. Nothing else of Kubernetes is polled: the kubelet's folder is inotify's, pods and the node
are watched, profiles have a timer where there are any.
"""
import os
import re
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, "build/plain")
CALLS, PODS, SECONDS = 100_000, 64, 5
sys.argv = [sys.argv[0], f"{BUILD}/node/meted", f"{BUILD}/sim/lib", BUILD]
sys.path.insert(0, os.path.join(ROOT, "tests/plugin"))
from node import Node  # noqa: E402
sys.path.insert(0, os.path.join(ROOT, "bench"))
from resident import memory_mib  # noqa: E402


def allocate():
    with Node(devices="1xSIM", slots=100, overcommit="10000%") as node:
        node.api.away()
        print(called(node, node.id(0)), end="")


def called(node, slot):
    done = subprocess.run([f"{BUILD}/bench/allocate_calls", node.kubelet.plugins + "/mete-gpu.sock", str(CALLS), slot],
                          check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def allocate_part():
    """Two GPUs in seven parts each: the last part is asked for."""
    with Node(devices="2xH100", slots=100, overcommit="10000%", environment={"METE_SIM_PARTS": "0:7x1g.10gb;1:7x1g.10gb"}) as node:
        node.api.away()
        parts = re.findall(r"device\.found index=\d+ uuid=(MIG-\S+)", node.log())
        assert len(parts) == 14, parts
        print("parts of GPUs: " + called(node, parts[-1] + "::0").replace("allocate_p99_ms", "allocate_mig_p99_ms"), end="")


def switches(pid):
    counts = [re.findall(r"ctxt_switches:\t(\d+)", open(f"/proc/{pid}/task/{thread}/status").read())
              for thread in os.listdir(f"/proc/{pid}/task")]
    return sum(int(n) for n in sum(counts, []))


def system_calls(pid):
    """Begun within the time, by name; None: strace cannot be used here."""
    with tempfile.NamedTemporaryFile("r") as trace:
        try:
            ran = subprocess.run(["timeout", str(SECONDS), "strace", "-f", "-o", trace.name, "-p", str(pid)], capture_output=True, text=True)
        except FileNotFoundError:
            return None
        if "attached" not in ran.stderr:
            return None
        lines = re.findall(r"^(\d+) +(\w+)\(", trace.read(), re.M)
    # The call in which each thread slept when strace came is shown again: it is not a new one.
    seen, names = set(), {}
    for thread, name in lines:
        if thread in seen:
            names[name] = names.get(name, 0) + 1
        seen.add(thread)
    return names


def idle():
    with Node(devices="1xSIM", slots=PODS, look=None) as node:  # it looks at GPUs as often as usual
        for n in range(PODS):
            node.run(f"pod-{n}", node.id(n))
        assert len(node.records()) == PODS
        pid = node.meted.process.pid
        time.sleep(SECONDS)  # what was begun for the pods ends
        before = switches(pid)
        time.sleep(SECONDS)
        woken = switches(pid) - before
        names = system_calls(pid)
        ours, simulated = memory_mib(pid, node.sim)
        print(f"in {SECONDS} s: {woken} context switches; system calls: "
              + ("not counted" if names is None else ", ".join(f"{count} {name}" for name, count in sorted(names.items()))))
        print(f"beside it, the simulated machine's pages: {simulated:.2f} MiB")
        print(f"figure: meted_rss_mib_kubernetes {ours:.2f} MiB")
        print(f"figure: idle_syscalls_5s {woken if names is None else sum(names.values())} calls")


allocate()
allocate_part()
idle()
