#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two programs with kernels of 10 ms share a device through libcuda: test_sim_turns.py LIBRARIES
METE_SIM NVIDIA_SMI. Judged by the ledger of mete-sim, which is in modelled time. Shares that are off by
no more than the programs came late are the host's: again, slower, and at last skipped (77)."""

import os
import shutil
import subprocess
import sys
import tempfile

KERNELS = 100  # of one program: 2 s for both
PERIOD_NS = 167e6  # of a sample of the utilisation

# Kernels of 10 ms, always some ahead of the device, until its input ends. Prints "ready" after the first ones, and after so many more as a text line
# of its input asks for; and how often nothing was ahead.
PROGRAM = r'''
import ctypes, select, sys
BATCH, AHEAD = 4, 4
cuda = ctypes.CDLL("libcuda.so.1")
def call(name, *arguments):
    r = getattr(cuda, name)(*arguments)
    if r:
        sys.exit(f"{name}: {r}")
device, context = ctypes.c_int(), ctypes.c_void_p()
module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
call("cuInit", 0)
call("cuDeviceGet", ctypes.byref(device), 0)
call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
call("cuModuleLoadData", ctypes.byref(module), b""".version 6.5
.target sm_70
.address_size 64
.visible .entry k() { .pragma "mete-cost-ns 10000000"; ret; }
""")
call("cuModuleGetFunction", ctypes.byref(kernel), module, b"k")
events = [ctypes.c_void_p() for _ in range(AHEAD)]
for event in events:
    call("cuEventCreate", ctypes.byref(event), 0)
def launch(event):
    for _ in range(BATCH):
        call("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None)
    call("cuEventRecord", event, None)
for event in events:
    launch(event)
count, mark, dry, last = 0, BATCH, 0, False
while not last:
    event = events[count // BATCH % AHEAD]
    call("cuEventSynchronize", event)
    dry += cuda.cuStreamQuery(None) == 0
    launch(event)
    count += BATCH
    if count == mark:
        print("ready", dry, flush=True)
    if select.select([sys.stdin], [], [], 0)[0]:
        line = sys.stdin.readline()
        last = not line
        mark = count + BATCH * (int(line or 0) // BATCH)
call("cuCtxSynchronize")
'''


def of_process(ledger, pid, key):
    for line in ledger.splitlines():
        words = line.split()
        if words[0] == "process" and int(words[1]) == pid:
            return int(words[words.index(key) + 1])
    sys.exit(f"no line of process {pid} in the ledger:\n{ledger}")


def start(*command, settings):
    process = subprocess.Popen(command, env=settings, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    if not process.stdout.readline().startswith("ready"):
        sys.exit(f"{command[0]} did not start")
    return process


def more(tenants, kernels):
    """Until each of them has done so many more; how often one of them was dry up to then."""
    for tenant in tenants:
        tenant.stdin.write(f"{kernels}\n")
        tenant.stdin.flush()
    dry = 0
    for tenant in tenants:
        words = tenant.stdout.readline().split()
        if words[:1] != ["ready"]:
            sys.exit("a program ended early")
        dry += int(words[1])
    return dry


def end(process):
    text, _ = process.communicate(timeout=240)
    if process.returncode:
        sys.exit(f"{process.args[0]} ended with {process.returncode}")
    return text


def share(libraries, describe, smi, dilate):
    node = tempfile.mkdtemp(prefix="mete-turns-")
    settings = dict(os.environ, METE_SIM_DIR=node, LD_LIBRARY_PATH=libraries,
                    METE_SIM_DILATE=str(dilate))
    try:
        holder = start(describe, "--ledger", settings=settings)
        tenants = [start(sys.executable, "-c", PROGRAM, settings=settings) for _ in range(2)]

        def look():
            return end(start(describe, "--ledger", settings=settings))

        def run(*command):
            return subprocess.run(command, env=settings, check=True, text=True, timeout=240,
                                  stdout=subprocess.PIPE).stdout

        dry = more(tenants, 4)
        before = look()
        more(tenants[:1], KERNELS)
        busy = int(run(smi, "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"))
        # How late they are now is known when they are late no more.
        dry = more(tenants, 8) - dry
        after = look()
        for tenant in tenants:
            end(tenant)
        end(holder)
    finally:
        shutil.rmtree(node)

    def passed(key):
        return [of_process(after, t.pid, key) - of_process(before, t.pid, key) for t in tenants]

    return passed("compute_ns"), busy, sum(passed("missed_ns")), dry


def equal(times, busy, missed_ns):
    return (abs(times[0] - times[1]) / 2 <= 0.02 * sum(times) + missed_ns and busy <= 100 and
            busy / 100 * PERIOD_NS + missed_ns >= 0.95 * PERIOD_NS)


def main(libraries, describe, smi):
    for dilate in (1, 4, 16):
        times, busy, missed_ns, dry = share(libraries, describe, smi, dilate)
        print(f"{times[0] / 1e9:.3f} s and {times[1] / 1e9:.3f} s, {times[0] / sum(times):.1%} for the first; "
              f"utilisation {busy} %; {missed_ns / 1e9:.3f} s missed, {dry} times nothing ahead", flush=True)
        if equal(times, busy, 0):
            return
        if dry == 0 and not equal(times, busy, missed_ns):
            sys.exit("the shares are not equal")
    print("skipped: the host was late each time; run it on a machine with less to do")
    sys.exit(77)


main(*sys.argv[1:])
