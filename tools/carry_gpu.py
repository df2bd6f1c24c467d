#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Usage: tools/carry_gpu.py FOLDER [BUILD]: what tools/check-gpu needs, in a folder that can be copied to a machine with a GPU on which
nothing can be built. There: FOLDER/tools/check_gpu.py. The programs are stripped, and the libraries that they need beside the C library are
with them. The machine is of the same architecture, and its C library no older.
"""
import glob
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from check_gpu import BUILD, CARRIED, ROOT, rows

# Beside the programs that the table names. The simulated driver comes along for a rehearsal.
PROGRAMS = ["cli/mete", "node/meted", "sim/mete-sim", "sim/nvidia-smi", "bench/pairs", "bench/circle", "examples/[a-z]*[!a]", "guest/*/libmete.so",
            "guest/*/lib/*", "guest/ld.so.preload", "sim/lib/*", "sim/libcuda-12.9.so", "sim/libnvidia-ml-sim.so"]
SOURCES = ["docs/UNVERIFIED.md", "tools/check_gpu.py", "tools/showcase.py", "tools/needed.py", "tools/registries.py", "tests/cluster/go.mod", "tests/gpu/*.py", "examples/*.py"]
OWN = re.compile(r"lib(cuda|nvidia-ml|c|m|dl|pthread|rt)\.so|ld-linux|linux-vdso")  # the machine's own


def copy(path, to):
    """A link stays one; a program loses its lines; its symbols stay, which a backtrace names."""
    to.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink():
        to.unlink(missing_ok=True)
        to.symlink_to(os.readlink(path))
        return
    shutil.copy2(path, to)
    if open(path, "rb").read(4) == b"\x7fELF":
        subprocess.run(["strip", "--strip-debug", to], check=True)


def libraries(program):
    said = subprocess.run(["ldd", program], text=True, capture_output=True).stdout
    return [Path(path) for name, path in re.findall(r"(\S+) => (/\S+)", said) if not OWN.match(name)]


def main():
    folder, build = Path(sys.argv[1]).resolve(), Path(sys.argv[2] if len(sys.argv) > 2 else ROOT / BUILD).resolve()
    named = {word[len(BUILD) + 1:] for row in rows() for word in row.command.split() if word.startswith(BUILD + "/")}
    paths = {Path(path) for pattern in [*PROGRAMS, *named] for path in glob.glob(str(build / pattern)) if not os.path.isdir(path)}
    for path in sorted(paths):
        copy(path, folder / BUILD / path.relative_to(build))
        if not path.is_symlink():
            for library in libraries(path):
                copy(library.resolve(), folder / BUILD / CARRIED / library.name)
    for pattern in SOURCES:
        for path in glob.glob(str(ROOT / pattern)):
            copy(Path(path), folder / Path(path).relative_to(ROOT))
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    print(f"{folder}: {size >> 20} MiB; there: tools/check_gpu.py")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main()
