#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Usage: tools/gate/tally.py LOG...: reads meson's testlog.json files and prints what was skipped and what failed, and, alone on the
last line, `N passed, N failed, N skipped`.

It counts cmocka's test functions, and one per program for the rest; it fails where nothing ran. A log that is not there is a failure.
"""
import re
import sys

import rows


def reason(output):
    """Why, as the test said it: its last line about that, else its last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    said = [line for line in lines if re.match("(skipped|left out): ", line)] or lines
    return re.sub(r"^(skipped|left out): *", "", said[-1]) if said else "it does not say why"


class Tally:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.lines = []

    def fail(self, words):
        self.failed += 1
        self.lines.append(words)

    def skip(self, name, why):
        self.skipped += 1
        self.lines.append(f"skipped: {name}: {why}")

    def add_log(self, path, settled=()):
        """`settled`: names whose failure was not the last word: they count as passed."""
        try:
            listed = rows.read(path)
        except OSError as error:
            return self.fail(f"{path}: {error.strerror}")
        for row in listed:
            self.add(row, rows.name_of(row) in settled)

    def add(self, row, settled=False):
        output = rows.output_of(row)
        ran = re.findall(r"^\[=+\] .*?(\d+) test\(s\) run\.", output, re.M)
        bad = len(re.findall(r"^\[  FAILED  \] \S+$", output, re.M))
        skip = len(re.findall(r"^\[  SKIPPED \] \S+$", output, re.M))
        if row["result"] == "SKIP":
            return self.skip(row["name"], reason(output))
        if rows.is_bad(row) and not settled:
            self.failed += max(1, bad // 2)
            self.lines.append(f"failed: {row['name']} ({row['result']})")
        elif ran:
            self.passed += sum(map(int, ran)) - skip // 2
            self.skipped += skip // 2
        else:
            self.passed += 1
        for why in dict.fromkeys(re.findall(r"^skipped: *(.*)$", output, re.M)):
            self.lines.append(f"skipped in {row['name']}: {why}")

    def total(self):
        if self.passed + self.failed == 0:
            self.fail("no test ran")
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def main(*paths):
    tally = Tally()
    for path in paths:
        tally.add_log(path)
    total = tally.total()
    print("\n".join([*tally.lines, total]))
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
