# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's own compilers, for tests of texts of ours: fetched from PyPI into ~/.cache/mete/compilers, never installed
into the system, changed or passed on.

    compilers.ptxas("12")      the path of ptxas; raises Skipped, with the reason and what to do, where it cannot be had
    compilers.nvcc()           what turns CUDA C++ into PTX: (cicc's driver, nvcc; the folder of its headers)
"""
import fcntl
import os
import platform
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
from runner import Skipped  # noqa: E402

# One version of each: their verdicts on a text are a part of docs/ptx.md.
PTXAS = {"12": ["nvidia-cuda-nvcc-cu12==12.9.86"], "13": ["nvidia-cuda-nvcc==13.0.88"]}
NVCC = ["nvidia-cuda-nvcc==13.0.88", "nvidia-nvvm==13.0.88", "nvidia-cuda-crt==13.0.88", "nvidia-cuda-runtime==13.0.96"]
FETCH_S = 600  # only a registry that does not answer takes so long
KEPT = os.path.expanduser("~/.cache/mete/compilers")
REMEDY = "give this machine access to PyPI, or copy ~/.cache/mete/compilers from one that has it"


def call(words):
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, text=True, capture_output=True, timeout=FETCH_S)
    except subprocess.TimeoutExpired:
        raise Skipped(f"NVIDIA's compiler cannot be fetched: no answer in {FETCH_S} s; {REMEDY}") from None
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or ["pip failed"]
        raise Skipped(f"NVIDIA's compiler cannot be fetched: {said[0]}; {REMEDY}")


def fill(folder, packages):
    """With a pip of its own, as Debian's belongs to its packages."""
    with tempfile.TemporaryDirectory(prefix="mete-venv-") as venv:
        call([sys.executable, "-m", "venv", venv])
        call([venv + "/bin/python", "-m", "pip", "install", "--quiet", "--retries", "1", "--no-deps", "--only-binary=:all:",
              "--target", folder, *packages])


def kept(packages):
    return os.path.join(KEPT, "+".join(package.replace("==", "-") for package in packages))


def get(packages):
    """The folder of these packages: whole when it is there."""
    if platform.machine() != "x86_64":
        raise Skipped(f"NVIDIA's compilers are fetched for x86_64 only, and this is {platform.machine()}; run it on one")
    folder = kept(packages)
    os.makedirs(KEPT, exist_ok=True)
    with open(folder + ".lock", "w") as lock:  # tests run side by side
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.isdir(folder):
            with tempfile.TemporaryDirectory(prefix=".new-", dir=KEPT) as new:
                fill(new + "/it", packages)
                os.rename(new + "/it", folder)
    return folder


def program(folder, name):
    for at, _, files in os.walk(folder):
        if name in files and os.path.basename(at) == "bin":
            path = os.path.join(at, name)
            if not os.access(path, os.X_OK):
                os.chmod(path, 0o755)
            return path
    raise AssertionError(f"{folder} has no {name}")


def ptxas(version):
    """The whole compiler has the newer one, too."""
    return program(get(NVCC if version == "13" and os.path.isdir(kept(NVCC)) else PTXAS[version]), "ptxas")


def nvcc():
    """Its programs find each other by where they are; those that the wheel leaves without leave to run get it."""
    folder = get(NVCC)
    for name in "ptxas", "fatbinary", "cudafe++", "cicc":
        program(folder, name)
    if not shutil.which("g++"):
        raise Skipped("NVIDIA's compiler needs a host compiler for C++; `apt-get install g++`")
    return program(folder, "nvcc"), os.path.join(folder, "nvidia", "cu13")
