#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generates the guest's rows from cuda/api.def, cuda/nvml.def and cuda/names.def.

    generate.py SOURCE_ROOT trampolines OUT   rows of macros for guest/entry/trampolines.S
    generate.py SOURCE_ROOT tables OUT        C: stream positions, NVML's part of the tables
    generate.py SOURCE_ROOT map OUT VERSION   linker version script of one export set
    generate.py SOURCE_ROOT names OUT VERSION the same names, one per line
    generate.py SOURCE_ROOT unwritten OUT     hooks that may still be missing

Which trampoline a symbol gets:

    hook     ALLOC FREE QUERY CONTEXT RESOLVE, begin and end of captures, guest/hooks.txt
    launch   LAUNCH
    touch    TOUCH and the rest of CAPTURE: presence without a turn
    refuse   REFUSE
    pass     PASS, and the names of cuda/names.def
"""

import os
import sys


def kind_of(row, hooked):
    if row.symbol in hooked:
        return "HOOK"
    if row.klass in ("ALLOC", "FREE", "QUERY", "CONTEXT", "RESOLVE"):
        return "HOOK"
    if row.klass == "CAPTURE" and row.symbol.startswith(("cuStreamBeginCapture", "cuStreamEndCapture")):
        return "HOOK"
    return {"LAUNCH": "LAUNCH", "TOUCH": "TOUCH", "CAPTURE": "TOUCH", "REFUSE": "REFUSE",
            "PASS": "PASS"}[row.klass]


def nvml_kind(row, hooked):
    if row.symbol in hooked:
        return "HOOK"
    return {"QUERY": "HOOK", "REFUSE": "REFUSE", "PASS": "PASS"}.get(row.klass, "HOOK")


def gnu_hash(name):
    value = 5381
    for byte in name.encode():
        value = (value * 33 + byte) & 0xffffffff
    return value


SLOTS = 2048  # a power of two, three times the rows of CUDA


def slots_of(symbols):
    """Rows, each + 1, in the slot of their names' hashes or the next free one. The lowest bit says nothing in DT_GNU_HASH."""
    slots = [0] * SLOTS
    for index, symbol in enumerate(symbols):
        slot = (gnu_hash(symbol) >> 1) % SLOTS
        while slots[slot]:
            slot = (slot + 1) % SLOTS
        slots[slot] = index + 1
    return slots


def listed(root, name):
    with open(os.path.join(root, "guest", name)) as file:
        return [line.strip() for line in file if line.strip() and not line.startswith("#")]


def numbers(values):
    lines = [values[i:i + 16] for i in range(0, len(values), 16)]
    return "\n".join("\t" + ", ".join(map(str, line)) + "," for line in lines)


class Tables:
    def __init__(self, root):
        sys.path.insert(0, os.path.join(root, "cuda"))
        import api
        self.api = api
        self.hooked = set(listed(root, "hooks.txt"))
        self.unwritten = set(listed(root, "unwritten.txt"))
        self.cuda = api.load()
        self.nvml = api.load_nvml()
        self.extra = api.load_names()
        self.kinds = [kind_of(row, self.hooked) for row in self.cuda]
        self.kinds += [nvml_kind(row, self.hooked) for row in self.nvml]
        self.kinds += ["PASS" for _ in self.extra]
        self.rows = self.cuda + self.nvml
        self.symbols = [row.symbol for row in self.rows] + self.extra
        known = {row.symbol for row in self.rows}
        hooks = {row.symbol for row, kind in zip(self.rows, self.kinds) if kind == "HOOK"}
        for name, names, of in (("hooks.txt", self.hooked, known), ("unwritten.txt", self.unwritten, hooks)):
            for symbol in sorted(names - of):
                raise SystemExit(f"guest/{name}: {symbol} is not " +
                                 ("in cuda/*.def" if of is known else "a function with a hook"))

    def trampolines(self):
        lines = []
        for index, (symbol, kind) in enumerate(zip(self.symbols, self.kinds)):
            if kind == "HOOK" and symbol in self.unwritten:
                kind = "WEAK"
            lines.append(f"\t{kind} {symbol} {index}")
        lines.append("\t.set ROWS, %d" % len(self.symbols))
        return "\n".join(lines) + "\n"

    def tables(self):
        positions = []
        for row in self.cuda:
            place = [i for i, p in enumerate(row.params) if p.type == "CUstream"]
            positions.append(place[0] if place else 255)
        kinds = "\n".join(f"\tTRAMPOLINE_{kind}, /* {symbol} */" for symbol, kind in zip(self.symbols, self.kinds))
        hashes = "\n".join(f"\t{gnu_hash(symbol)}u," for symbol in self.symbols)
        slots = numbers(slots_of([row.symbol for row in self.cuda]))
        return (f"/* Made by guest/generate.py. */\n#pragma once\n\n#include <stdint.h>\n\n"
                f"enum {{\n\tTABLE_CUDA = {len(self.cuda)},\n\tTABLE_NVML = {len(self.nvml)},\n"
                f"\tTABLE_NAMES = TABLE_CUDA + TABLE_NVML, /* the first of cuda/names.def */\n"
                f"\tTABLE_ROWS = {len(self.symbols)},\n\tTABLE_SLOTS = {SLOTS},\n}};\n\n"
                "enum trampoline {\n\tTRAMPOLINE_PASS,\n\tTRAMPOLINE_LAUNCH,\n\tTRAMPOLINE_TOUCH,\n"
                "\tTRAMPOLINE_REFUSE,\n\tTRAMPOLINE_HOOK,\n};\n\n"
                "#ifdef TABLE_STREAMS\n/* Which argument is the stream; 255: none. */\n"
                f"static const uint8_t table_stream[TABLE_CUDA] = {{\n{numbers(positions)}\n}};\n#endif\n\n"
                f"#ifdef TABLE_KINDS\nstatic const uint8_t table_kind[TABLE_ROWS] = {{\n{kinds}\n}};\n#endif\n\n"
                "#ifdef TABLE_HASHES\n/* Of the names, as in DT_GNU_HASH. */\n"
                f"static const uint32_t table_hash[TABLE_ROWS] = {{\n{hashes}\n}};\n\n"
                "/* The rows of CUDA by the same hashes, each + 1; guest/driver/symbols.c. */\n"
                f"static const uint16_t table_slot[TABLE_SLOTS] = {{\n{slots}\n}};\n#endif\n")

    def exported(self, version):
        major, minor = version.split(".")
        rows = self.api.exported(self.cuda, int(major) * 1000 + int(minor) * 10)
        return sorted([row.symbol for row in rows + self.nvml] + self.extra)

    def map(self, version):
        names = "".join(f"\t{name};\n" for name in self.exported(version))
        return "{\nglobal:\n" + names + "local:\n\t*;\n};\n"

    def names(self, version):
        return "".join(f"{name}\n" for name in self.exported(version))

    def unwritten_names(self):
        return "".join(f"{name}\n" for name in sorted(self.unwritten))


def main(arguments):
    if len(arguments) < 3:
        raise SystemExit(__doc__)
    tables = Tables(arguments[0])
    makers = {"trampolines": tables.trampolines, "tables": tables.tables, "map": tables.map,
              "names": tables.names, "unwritten": tables.unwritten_names}
    if arguments[1] not in makers:
        raise SystemExit(__doc__)
    text = makers[arguments[1]](*arguments[3:])
    with open(arguments[2], "w") as out:
        out.write(text)


if __name__ == "__main__":
    main(sys.argv[1:])
