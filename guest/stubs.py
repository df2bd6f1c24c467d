#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the libraries that the guest is linked against, from guest/glibc.def.

    stubs.py GLIBC_DEF OUT_DIRECTORY COMPILER...

They hold each symbol in the file and under the version of glibc 2.28, and nothing else: so
a guest that is built on a newer system still loads on an old one, and a call that is not in the list
does not link. No byte of them is ever run.
"""

import os
import subprocess
import sys
import tempfile


def read(path):
    files = {}
    with open(path, encoding="ascii") as rows:
        for row in rows:
            words = row.split()
            if words and not row.startswith("#"):
                files.setdefault(words[0], {}).setdefault(words[1], []).extend(words[2:])
    return files


def order(version):
    return [int(part) for part in version.split("_")[1].split(".")]


def make(name, versions, out, compiler):
    script, code, before = [], [".text"], ""
    for version in sorted(versions, key=order):
        symbols = versions[version]
        script.append(f"{version} {{ global: {' '.join(s + ';' for s in symbols)} }} {before};")
        before = version
        for symbol in symbols:
            code.append(f".globl {symbol}\n.type {symbol}, @function\n{symbol}: ret\n.size {symbol}, 1")
    code.append('.section .note.GNU-stack, "", @progbits')
    with tempfile.TemporaryDirectory() as scratch:
        assembly, map_ = os.path.join(scratch, "stub.s"), os.path.join(scratch, "stub.map")
        with open(assembly, "w") as file:
            file.write("\n".join(code) + "\n")
        with open(map_, "w") as file:
            file.write("\n".join(script) + "\n")
        subprocess.run(compiler + ["-shared", "-nostdlib", f"-Wl,-soname,{name}",
                                   f"-Wl,--version-script,{map_}", "-o", os.path.join(out, name),
                                   assembly], check=True)


def main(arguments):
    for name, versions in read(arguments[0]).items():
        make(name, versions, arguments[1], arguments[2:])


if __name__ == "__main__":
    main(sys.argv[1:])
