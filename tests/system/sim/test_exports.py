#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each libcuda.so.1 exports exactly the functions of its CUDA version: test_exports.py CUDA SIM VERSIONS."""

import subprocess
import sys


def main(folder, sim, versions):
    sys.path.insert(0, folder)
    import api
    bad = []
    for version in versions.split(","):
        major, minor = version.split(".")
        number = int(major) * 1000 + int(minor) * 10
        wanted = {row.symbol for row in api.exported(api.load(), number)}
        library = f"{sim}/{version}/libcuda.so.1"
        lines = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True,
                               text=True).stdout.splitlines()
        found = {line.split()[-1].split("@")[0] for line in lines if line.split()[-2] != "A"}
        if found != wanted:
            bad.append(f"{library}: lacks {sorted(wanted - found)[:5]}, adds {sorted(found - wanted)[:5]}")
        if len(found) < 400:
            bad.append(f"{library}: exports {len(found)} functions only")
    if bad:
        sys.exit("\n".join(bad))
    print(f"{versions}: as in cuda/api.def")


main(*sys.argv[1:])
