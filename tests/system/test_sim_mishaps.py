#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Faults on demand as a program feels them through libcuda: test_sim_mishaps.py LIBRARIES."""

import os
import shutil
import subprocess
import sys
import tempfile

# Carries out each letter and prints the answers: a allocate, k launch and wait, n NVML's ECC count.
PROGRAM = r'''
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
device, context, address = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
cuda.cuInit(0)
cuda.cuDeviceGet(ctypes.byref(device), 0)
cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device)
cuda.cuModuleLoadData(ctypes.byref(module),
    b".version 6.5\n.target sm_70\n.address_size 64\n.visible .entry k() { ret; }\n")
cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"k")
def kernels():
    r = cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None)
    print("launched", file=sys.stderr, flush=True)
    return r or cuda.cuCtxSynchronize()
def ecc():
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    handle, count = ctypes.c_void_p(), ctypes.c_ulonglong()
    nvml.nvmlInit_v2()
    nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle))
    r = nvml.nvmlDeviceGetTotalEccErrors(handle, 1, 0, ctypes.byref(count))
    return count.value if r == 0 else -r
def do(what):
    if what == "a":
        return cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(1 << 20))
    return kernels() if what == "k" else ecc()
print(*[do(what) for what in sys.argv[1]], flush=True)
'''

# METE_SIM_FAULTS, what to do, what to be answered (CUresult numbers).
CASES = [
    ("", "akn", "0 0 0"),
    ("oom@2", "aaa", "0 2 0"),
    ("oom@2+", "aaa", "0 2 2"),
    ("oom:1", "aa", "0 0"),  # another device's
    ("launch@2", "kkk", "0 719 719"),  # stays
    ("illegal", "ka", "700 700"),
    ("ecc@2", "kkn", "0 214 1"),
    ("ecc-corrected", "kkn", "0 0 0"),
    ("slow=2ms", "kk", "0 0"),
]


def start(libraries, node, faults, what):
    settings = dict(os.environ, METE_SIM_DIR=node, LD_LIBRARY_PATH=libraries,
                    METE_SIM_FAULTS=faults)
    return subprocess.Popen([sys.executable, "-c", PROGRAM, what], env=settings, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def run(libraries, node, faults, what):
    process = start(libraries, node, faults, what)
    out, err = process.communicate(timeout=240)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def expect(what, got, wanted):
    if got != wanted:
        sys.exit(f"{what}: {got!r}, wanted {wanted!r}")
    print(f"{what}: {got!r}")


def main(libraries):
    node = tempfile.mkdtemp(prefix="mete-faults-")
    try:
        for faults, what, wanted in CASES:
            expect(f"{faults or 'none'}: {what}", run(libraries, node, faults, what).stdout.strip(),
                   wanted)
        # A device that is lost answers nothing but errors, to this process and to NVML.
        words = run(libraries, node, "lost@1", "kan").stdout.split()
        if "0" in words or len(words) != 3:
            sys.exit(f"lost: {words}")
        # By file, and a word that is not understood.
        with open(os.path.join(node, "faults"), "w") as file:
            file.write("# by file\noom@1\n")
        expect("file", run(libraries, node, "", "aa").stdout.strip(), "2 0")
        os.unlink(os.path.join(node, "faults"))
        done = run(libraries, node, "boom", "a")
        expect("nonsense", done.stdout.strip(), "0")
        if "mete-sim: METE_SIM_FAULTS: fault 'boom': unknown kind" not in done.stderr:
            sys.exit(f"nonsense: {done.stderr}")
        # A kernel that hangs: the process can be killed, and the next one has the device.
        hanging = start(libraries, node, "hang", "k")
        expect("hang", hanging.stderr.readline(), "launched\n")
        try:
            hanging.communicate(timeout=1)
            sys.exit("hang: it ended")
        except subprocess.TimeoutExpired:
            print("hang: hangs")
        hanging.kill()
        hanging.communicate()
        expect("after the hang", run(libraries, node, "", "ak").stdout.strip(), "0 0")
    finally:
        shutil.rmtree(node)


main(*sys.argv[1:])
