#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Unmodified clients of the management library, and a compiler of kernels, from PyPI, on the simulated ones:
test_sim_clients.py FOLDER LIBRARIES NVIDIA_SMI TENANT. FOLDER keeps their virtual environment.
Skipped (77) where PyPI cannot be reached."""

import json
import os
import shutil
import subprocess
import sys
import tempfile

from runner import needed, skip
import registries

PACKAGES = ["nvidia-ml-py==13.615.71", "gpustat==1.1.1", "GPUtil==1.4.0", "setuptools==65.5.0",
            "nvitop==1.7.2"]
COMPILER = "drjit==1.5.0"  # 5 MB; without it, where PyPI has none for this Python, the rest is tried
MIB = 1 << 20

NVML = """
import json, time
from pynvml import *
nvmlInit()
h = nvmlDeviceGetHandleByIndex(0)
processes = nvmlDeviceGetComputeRunningProcesses(h)
while True:  # until a whole sampling period has passed
    try:
        samples = nvmlDeviceGetProcessUtilization(h, 0)
        break
    except NVMLError_NotFound:
        time.sleep(0.05)
print(json.dumps({
    "count": nvmlDeviceGetCount(), "name": nvmlDeviceGetName(h),
    "total": nvmlDeviceGetMemoryInfo(h).total, "used": nvmlDeviceGetMemoryInfo(h).used,
    "used2": nvmlDeviceGetMemoryInfo(h, nvmlMemory_v2).used,
    "processes": [[p.pid, p.usedGpuMemory] for p in processes],
    "utilised": [s.pid for s in samples], "driver": nvmlSystemGetDriverVersion(),
    "bus": nvmlDeviceGetPciInfo(h).busId}))
"""

GPUTIL = """
import json, GPUtil
print(json.dumps([[g.name, g.memoryTotal, g.memoryUsed, g.uuid, g.driver] for g in GPUtil.getGPUs()]))
"""

NVITOP = """
import json
from nvitop import Device
d = Device(0)
print(json.dumps({"name": d.name(), "used": d.memory_used(), "pids": list(d.processes()),
                  "limit": d.power_limit(), "percent": d.gpu_utilization()}))
"""

# Dr.Jit writes PTX of its own: sums, scatters, loops, derivatives, random numbers.
DRJIT = """
import drjit, json
from drjit.cuda import Float, UInt
from drjit.cuda.ad import Float as Differentiable
counts = drjit.zeros(UInt, 10)
drjit.scatter_add(counts, UInt(1), drjit.arange(UInt, 1000) % 10)
limit, steps = drjit.while_loop((drjit.arange(UInt, 8), UInt(0)),
                                lambda limit, at: at < limit, lambda limit, at: (limit, at + 3))
x = Differentiable([1, 2, 3])
drjit.enable_grad(x)
drjit.backward(drjit.sum(x * x * x))
print(json.dumps({
    "sum": list(drjit.sum(drjit.arange(Float, 1000))), "counts": list(counts),
    "scan": list(drjit.prefix_sum(drjit.arange(UInt, 300)))[-1],
    "loop": list(steps), "gradient": list(drjit.grad(x))}))
"""


def environment(folder):
    """The folder's Python, with the packages; skipped where they cannot be had."""
    with registries.made_once(folder):
        return make_environment(folder)


def make_environment(folder):
    python = os.path.join(folder, "bin", "python")
    stamp = os.path.join(folder, "packages")
    wanted = "\n".join(PACKAGES + [COMPILER])
    if os.path.exists(python) and os.path.exists(stamp) and open(stamp).read() == wanted:
        return python
    try:
        needed.fetch("pypi", "clients of NVML", lambda: registries.pip(registries.virtual_environment(folder), "install", *PACKAGES))
    except registries.Unavailable as why:
        skip(why)
    try:
        registries.pip(python, "install", "--only-binary", ":all:", COMPILER)
    except registries.Unavailable as why:
        print(f"{COMPILER}: {why}")
    with open(stamp, "w") as file:
        file.write(wanted)
    return python


def expect(what, got, wanted):
    if got != wanted:
        sys.exit(f"{what} is {got!r}, wanted {wanted!r}")
    print(f"{what}: {got!r}")


def main(folder, libraries, smi, tenant):
    python = environment(folder)
    node = tempfile.mkdtemp(prefix="mete-clients-")
    settings = dict(os.environ, METE_SIM_DIR=node, METE_SIM_DEVICES="1xT4", HOME=node,
                    METE_SIM_PATTERN="on",
                    LD_LIBRARY_PATH=libraries,
                    PATH=os.path.dirname(smi) + os.pathsep + os.environ["PATH"])

    def ask(*command):
        return subprocess.run(command, env=settings, check=True, stdout=subprocess.PIPE,
                              text=True, timeout=240).stdout

    holder = subprocess.Popen([tenant, str(512 * MIB)], env=settings, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)
    try:
        expect("tenant", holder.stdout.readline(), "ready\n")
        answer = json.loads(ask(python, "-c", NVML))
        expect("nvidia-ml-py count", answer["count"], 1)
        expect("nvidia-ml-py name", answer["name"], "Tesla T4")
        expect("nvidia-ml-py total", answer["total"], 15360 * MIB)
        expect("nvidia-ml-py used", [answer["used"], answer["used2"]], [512 * MIB] * 2)
        expect("nvidia-ml-py processes", answer["processes"], [[holder.pid, 512 * MIB]])
        expect("nvidia-ml-py utilised", answer["utilised"], [holder.pid])
        status = json.loads(ask(python, "-m", "gpustat", "--json"))
        expect("gpustat name", status["gpus"][0]["name"], "Tesla T4")
        expect("gpustat used", status["gpus"][0]["memory.used"], 512)
        expect("gpustat pids", [p["pid"] for p in status["gpus"][0]["processes"]], [holder.pid])
        expect("gpustat driver", status["driver_version"], answer["driver"])
        cards = json.loads(ask(python, "-c", GPUTIL))
        expect("GPUtil", cards[0][:3], ["Tesla T4", 15360.0, 512.0])
        expect("GPUtil driver", cards[0][4], answer["driver"])
        top = json.loads(ask(python, "-c", NVITOP))
        expect("nvitop", [top["name"], top["used"], top["pids"], top["limit"]],
               ["Tesla T4", 512 * MIB, [holder.pid], 70000])
        expect("nvidia-smi", ask(smi, "--query-compute-apps=pid,used_memory",
                                 "--format=csv,noheader"), f"{holder.pid}, 512 MiB\n")
        if subprocess.run([python, "-c", "import drjit"], env=settings, capture_output=True).returncode:
            print("skipped: PyPI has no drjit for this Python; run it with another one")
        else:
            done = json.loads(ask(python, "-c", DRJIT))
            expect("drjit", done, {"sum": [499500.0], "counts": [100] * 10, "scan": 44551,
                                   "loop": [0, 3, 3, 3, 6, 6, 6, 9], "gradient": [3, 12, 27]})
    finally:
        holder.stdin.close()
        holder.wait(timeout=240)
        shutil.rmtree(node)
    expect("tenant's end", holder.returncode, 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
