#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two programs with kernels of 10 ms share a device through libcuda: test_sim_turns.py LIBRARIES
METE_SIM NVIDIA_SMI. Judged by the ledger of mete-sim, which is in modelled time."""

import os
import shutil
import subprocess
import sys
import tempfile

KERNELS = 100  # of one program: 2 s for both

# Kernels of 10 ms, some ahead of the device, until its input ends. Says "ready" after the first
# ones, and after so many more as a line of its input asks for.
PROGRAM = r'''
import ctypes, select, sys
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
count, mark = 0, 4
while True:
    for _ in range(4):
        call("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None)
    call("cuCtxSynchronize")
    count += 4
    if count == mark:
        print("ready", flush=True)
    if select.select([sys.stdin], [], [], 0)[0]:
        line = sys.stdin.readline()
        if not line:
            break
        mark = count + 4 * (int(line) // 4)
'''


def compute_ns(ledger, pid):
    for line in ledger.splitlines():
        words = line.split()
        if words[0] == "process" and int(words[1]) == pid:
            return int(words[words.index("compute_ns") + 1])
    sys.exit(f"no line of process {pid} in the ledger:\n{ledger}")


def start(*command, settings):
    process = subprocess.Popen(command, env=settings, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    if process.stdout.readline() != "ready\n":
        sys.exit(f"{command[0]} did not start")
    return process


def end(process):
    text, _ = process.communicate(timeout=60)
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
            return subprocess.run(command, env=settings, check=True, text=True, timeout=60,
                                  stdout=subprocess.PIPE).stdout

        before = look()
        tenants[0].stdin.write(f"{KERNELS}\n")
        tenants[0].stdin.flush()
        if tenants[0].stdout.readline() != "ready\n":
            sys.exit("a program ended early")
        busy = int(run(smi, "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"))
        after = look()
        for tenant in tenants:
            end(tenant)
        end(holder)
    finally:
        shutil.rmtree(node)
    times = [compute_ns(after, t.pid) - compute_ns(before, t.pid) for t in tenants]
    late = [line for line in after.splitlines() if line.startswith("process")]
    return times, busy, late


def main(libraries, describe, smi):
    for dilate in (1, 4):
        times, busy, late = share(libraries, describe, smi, dilate)
        part = times[0] / sum(times)
        print(f"{times[0] / 1e9:.3f} s and {times[1] / 1e9:.3f} s, {part:.1%} for the first; "
              f"utilisation {busy} %")
        if 0.48 <= part <= 0.52 and busy >= 95:
            return
        print("\n".join(late))
    sys.exit("the shares are not equal")


main(*sys.argv[1:])
