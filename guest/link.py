#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Links libmete.so once for one driver version.

    link.py VERSION MAP OUT_DIRECTORY STUBS|- STAMP ARCHIVE... -- COMPILER...

Makes OUT_DIRECTORY/libmete.so and OUT_DIRECTORY/lib/, the folder that stands in LD_LIBRARY_PATH: four
names of the same inode. STUBS is the folder of stubs.py's libraries; with '-' (a build with
sanitizers, which need their own libraries) libc is linked as usual.
"""

import os
import subprocess
import sys

NAMES = ("libcuda.so", "libcuda.so.1", "libnvidia-ml.so", "libnvidia-ml.so.1")


def links(out):
    folder = os.path.join(out, "lib")
    os.makedirs(folder, exist_ok=True)
    for name in NAMES:
        path = os.path.join(folder, name)
        if os.path.lexists(path):
            os.unlink(path)
        os.symlink("../libmete.so", path)


def main(arguments):
    version, map_, out, stubs, stamp = arguments[:5]
    rest = arguments[5:]
    archives, compiler = rest[:rest.index("--")], rest[rest.index("--") + 1:]
    os.makedirs(out, exist_ok=True)
    command = compiler + ["-shared", "-o", os.path.join(out, "libmete.so.new"),
                          "-Wl,-soname,libcuda.so.1", f"-Wl,--version-script,{map_}",
                          "-Wl,-z,nodelete,-z,lazy,-z,relro,-z,noexecstack", "-Wl,--gc-sections",
                          "-Wl,--hash-style=gnu", "-Wl,--build-id", "-Wl,-Bsymbolic",
                          "-Wl,--whole-archive", archives[0], "-Wl,--no-whole-archive"]
    command += archives[1:]
    if stubs == "-":
        command += ["-ldl", "-lpthread"]
    else:
        command += ["-nostdlib", "-Wl,-z,defs", "-Wl,--no-as-needed"]
        command += [os.path.join(stubs, name) for name in ("libc.so.6", "libpthread.so.0", "libdl.so.2")]
    subprocess.run(command, check=True)
    os.replace(os.path.join(out, "libmete.so.new"), os.path.join(out, "libmete.so"))
    links(out)
    with open(stamp, "w") as file:
        file.write(version + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
