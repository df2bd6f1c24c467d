# SPDX-License-Identifier: Apache-2.0
"""Writes a text file as a C string. Usage: embed.py NAME INPUT OUTPUT"""
import sys

name, source, target = sys.argv[1:]
with open(target, "w") as out:
    out.write(f"static const char {name}_ptx[] =\n")
    for line in open(source):
        text = line.rstrip("\n").replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t")
        out.write(f'\t"{text}\\n"\n')
    out.write("\t;\n")
