#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# About: what NVIDIA's own libraries of four releases say to our tables, and to programs under the guest
"""Of each row of cuda/api.def that a release has: does every look-up lead to that function, without the guest and with it?
And how many claims of docs/UNVERIFIED.md these libraries have settled."""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = ROOT + "/build/plain"
sys.path.insert(0, ROOT + "/tests/driver")
sys.argv[1:] = [BUILD, BUILD + "/tests/driver/look"]
import real  # noqa: E402
import test_guest as guest  # noqa: E402
import test_rows as rows  # noqa: E402

ROUTES = "symbols", "ask"


def rule(line):
    """The function of a text line: the one that it asks for by name, or the one to which it should lead by the table."""
    return line.split()[1] if line.startswith("symbol ") else line.split()[-1]


def is_right(line, symbol):
    """Of the driver alone: it leads to that function by each route."""
    if line.startswith("symbol "):
        return line.split()[2] == f"driver:{symbol}"
    _, older, newer, _ = rows.parted(line)
    return older == f"0 driver:{symbol}" and newer in ("", f"0 0 driver:{symbol}")


def alike(release, machine):
    """The release's rows, and those of which all look-ups are right, without the guest and with it."""
    passed, wanted = guest.forwarded(), rows.rows_of(release) - set(rows.LACKING)
    alone = machine.alone(release, guest.HERE + "look", "libcuda.so.1", *ROUTES)
    under = machine.run(release, guest.HERE + "look", "libcuda.so.1", *ROUTES, LD_LIBRARY_PATH=release.guest + "/lib")
    assert len(alone) == len(under)
    asked, wrong = {}, set()
    for line, theirs in zip(alone, under):
        symbol = rule(line)
        if symbol in wanted:
            asked[symbol] = asked.get(symbol, 0) + 1
            if not is_right(line, symbol) or theirs != guest.expected(line, passed):
                wrong.add(symbol)
    return wanted, {symbol for symbol in wanted - wrong if asked.get(symbol, 0) > 1}, len(alone)


def settled():
    """Rows of the table of claims that were seen on NVIDIA's library."""
    count, inside = 0, False
    for line in open(ROOT + "/docs/UNVERIFIED.md"):
        if not line.startswith("|"):
            inside = False
        elif re.search(r"seen on nvidia's library", line, re.I):
            inside = True
        elif inside and not re.fullmatch(r"[|\s:-]+", line):
            count += 1
    return count


def main():
    total = same = 0
    try:
        releases = [real.get(name) for name in real.RELEASES]
    except real.Skipped as why:
        sys.exit(f"real-driver: {why}")
    with guest.Machine() as machine:
        for release in releases:
            wanted, right, questions = alike(release, machine)
            print(f"{os.path.basename(release.library('libcuda.so.1'))}, CUDA {release.version}: {len(wanted)} rows, {len(right)} alike, {questions} questions "
                  f"each without the guest and with it")
            for symbol in sorted(wanted - right):
                print(f"  not alike: {symbol}")
            total, same = total + len(wanted), same + len(right)
    print(f"figure: real_versions {len(releases)} versions")
    print(f"figure: real_rows {total} rows")
    print(f"figure: real_rows_resolved_alike {same} rows")
    print(f"figure: real_claims_settled {settled()} claims")


main()
