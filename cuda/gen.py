#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generates C and linker input from cuda/api.def and cuda/nvml.def, at build time.

    gen.py resolve OUT               the hash table behind cuda/resolve.h
    gen.py map OUT WHAT [VERSION]    a linker version script that exports just the functions of
                                     WHAT (cuda, nvml or both); of cuda those that a driver of
                                     CUDA VERSION (12.9) exports
    gen.py recorder OUT              a driver whose functions record their arguments: cuda/record.h
    gen.py null OUT                  a driver whose functions return CUDA_SUCCESS and do nothing
    gen.py caller OUT                calls each function with made-up arguments: cuda/record.h

Reads nothing but the two tables; the same input gives the same output, byte for byte.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import api

SLOTS, BUCKETS = 1024, 256
PRIME = 0x9E3779B97F4A7C15


def hash_name(name):
    """The same as hash_name() in resolve.c."""
    text, value = name.encode(), len(name)
    words = [text[i:i + 8] for i in range(0, len(text) - 8, 8)] + [text[-8:]]
    for word in words if len(text) >= 8 else [text[i:i + 1] for i in range(len(text))]:
        product = (value ^ int.from_bytes(word, "little")) * PRIME
        value = (product ^ product >> 64) % 2**64
    return value % 2**32


def slot_of(value, shift):
    return ((value >> 8) + shift * ((value >> 18) | 1)) % SLOTS


def perfect(names):
    """Shift for each bucket, and slot -> position in names, such that no two names share a slot."""
    buckets = [[] for _ in range(BUCKETS)]
    for position, name in enumerate(names):
        buckets[hash_name(name) % BUCKETS].append(position)
    shifts, slots = [0] * BUCKETS, [None] * SLOTS
    for bucket in sorted(range(BUCKETS), key=lambda b: -len(buckets[b])):
        for shift in range(65536):
            wanted = [slot_of(hash_name(names[p]), shift) for p in buckets[bucket]]
            if len(set(wanted)) == len(wanted) and all(slots[s] is None for s in wanted):
                break
        else:
            raise SystemExit("gen.py: no perfect hash; enlarge SLOTS")
        shifts[bucket] = shift
        for position, slot in zip(buckets[bucket], wanted):
            slots[slot] = position
    return shifts, slots


def numbers(values):
    lines = [values[i:i + 16] for i in range(0, len(values), 16)]
    return "\n".join("\t" + ", ".join(str(v) for v in line) + "," for line in lines)


def resolve():
    rows = api.load()
    groups = {}
    for row in rows:
        first, count = groups.get(row.base, (row.index, 0))
        if first + count != row.index:
            raise SystemExit(f"gen.py: the rows of {row.base} are not side by side in api.def")
        groups[row.base] = (first, count + 1)
    names = list(groups)
    shifts, slots = perfect(names)
    pairs = [groups[names[p]] if p is not None else (0, 0) for p in slots]
    return f"""/* Made by cuda/gen.py from cuda/api.def. */
#define RESOLVE_SLOTS {SLOTS}
#define RESOLVE_BUCKETS {BUCKETS}
#define RESOLVE_PRIME {PRIME:#x}U
#define RESOLVE_LONGEST {max(map(len, names))}
static const uint16_t resolve_shifts[RESOLVE_BUCKETS] = {{
{numbers(shifts)}
}};
static const uint16_t resolve_first[RESOLVE_SLOTS] = {{
{numbers([first for first, _ in pairs])}
}};
/* 255: no name is here. */
static const uint8_t resolve_length[RESOLVE_SLOTS] = {{
{numbers([255 if p is None else len(names[p]) for p in slots])}
}};
static const uint8_t resolve_count[RESOLVE_SLOTS] = {{
{numbers([count for _, count in pairs])}
}};
"""


def version_number(text):
    try:
        major, minor = text.split(".")
        return int(major) * 1000 + int(minor) * 10
    except ValueError:
        raise SystemExit(f"gen.py: not a CUDA version: {text!r} (accepted: 12.9)") from None


def version_map(what, version):
    symbols = []
    if what in ("cuda", "both"):
        symbols += [row.symbol for row in api.exported(api.load(), version_number(version))]
    if what in ("nvml", "both"):
        symbols += [row.symbol for row in api.load_nvml()]
    if not symbols:
        raise SystemExit(f"gen.py: nothing to export: {what!r} (accepted: cuda, nvml, both)")
    names = "".join(f"\t{symbol};\n" for symbol in sorted(symbols))
    return "{\nglobal:\n" + names + "local:\n\t*;\n};\n"


MADE = "/* Made by cuda/gen.py from cuda/api.def. */\n"
WEAK = '__attribute__((weak, visibility("default")))'


def recorder():
    text = MADE + '#include "cuda/prototypes.h"\n#include "cuda/record.h"\n'
    for row in api.load():
        text += f"{WEAK} {row.returns} {row.symbol}{row.parameters}\n{{\n"
        if row.params:
            places = ", ".join(f"{{&{p.name}, sizeof({p.name})}}" for p in row.params)
            text += f"\tconst struct record_argument list[] = {{{places}}};\n\n"
        text += (f"\treturn record_call(API_{row.symbol}, {'list' if row.params else 'NULL'}, "
                 f"{len(row.params)});\n}}\n")
    return text


def null():
    text = MADE + '#include "cuda/prototypes.h"\n'
    text += '#pragma GCC diagnostic ignored "-Wunused-parameter"\n'
    for row in api.load():
        text += f"{WEAK} {row.returns} {row.symbol}{row.parameters}\n"
        text += "{\n\treturn CUDA_SUCCESS;\n}\n"
    return text


def caller():
    rows = api.load()
    text = MADE + '#include "cuda/prototypes.h"\n#include "cuda/record.h"\n'
    for row in rows:
        # record_...: names that no parameter has.
        text += (f"static CUresult call_{row.symbol}(void *record_address, "
                 "struct record_maker *record_maker)\n{\n"
                 f"\tapi_fn_{row.symbol} *record_function = "
                 f"(api_fn_{row.symbol} *)record_address;\n")
        text += "".join(f"\t{p.type} {p.name};\n" for p in row.params) + "\n"
        for p in row.params:
            text += (f"\trecord_make(record_maker, RECORD_{p.kind.upper()}, &{p.name}, "
                     f"sizeof({p.name}));\n")
        if not row.params:
            text += "\t(void)record_maker;\n"
        text += f"\treturn record_function{row.arguments};\n}}\n"
    table = "".join(f"\tcall_{row.symbol},\n" for row in rows)
    return text + "record_caller *const record_callers[API_ROWS] = {\n" + table + "};\n"


def main(arguments):
    makers = {"resolve": (resolve, 0), "map": (version_map, 2), "recorder": (recorder, 0),
              "null": (null, 0), "caller": (caller, 0)}
    if len(arguments) < 2 or arguments[0] not in makers:
        raise SystemExit(__doc__)
    make, takes = makers[arguments[0]]
    rest = arguments[2:]
    rest += [""] * (takes - len(rest))
    text = make(*rest)
    with open(arguments[1], "w") as out:
        out.write(text)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except api.ApiError as error:
        raise SystemExit(f"gen.py: {error}") from None
