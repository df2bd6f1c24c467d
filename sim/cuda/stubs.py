#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the entry points that no one has written by hand: stubs.py API_FOLDER OUT.

For each row of cuda/api.def a weak definition, which a strong one elsewhere replaces:
  plain        says what is missing, and answers CUDA_ERROR_NOT_SUPPORTED
  per thread   calls the plain one, with stream 0 meaning the thread's own default stream
"""

import sys


def main(folder, out):
    sys.path.insert(0, folder)
    import api
    rows = api.load()
    plain = {row.symbol for row in rows if row.stream == "PLAIN"}
    text = ["/* Made by sim/cuda/stubs.py from cuda/api.def. */", '#include "cuda/prototypes.h"',
            '#include "sim/cuda/driver.h"', '#pragma GCC diagnostic ignored "-Wunused-parameter"', ""]
    for row in rows:
        head = f"__attribute__((weak)) {row.returns} {row.symbol}{row.parameters}"
        if row.stream == "PLAIN":
            text += [head, "{", f'\treturn driver_missing("{row.symbol}");', "}", ""]
            continue
        base = row.symbol.rsplit("_", 1)[0]
        if base not in plain:
            raise SystemExit(f"stubs.py: {row.symbol} has no plain symbol {base}")
        text += [head, "{", f"\t{row.returns} r;", "", "\tdriver_enter_per_thread();",
                 f"\tr = {base}{row.arguments};", "\tdriver_leave_per_thread();", "\treturn r;",
                 "}", ""]
    with open(out, "w") as file:
        file.write("\n".join(text))


main(*sys.argv[1:])
