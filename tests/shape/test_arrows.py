#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/check arrows finds an include that the block of arrows does not allow: between folders, and between the rooms of one."""
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ARROWS = """
base
core         base core/ledger
core/ledger  base
core/turns   base core core/ledger
node         base core
"""
SOUND = {
    "base/list.h": "",
    "core/share.c": '#include "core/ledger/ledger.h"\n',
    "core/share.h": "",
    "core/ledger/ledger.h": '#include "base/list.h"\n',
    "core/turns/turns.c": '#include "turns.h"\n#include "core/share.h"\n#include "core/ledger/ledger.h"\n',
    "core/turns/turns.h": "",
    "node/main.c": '#include "core/turns/turns.h"\n#include "core/share.h"\n',
    "tests/check.h": "",
}


def said(planted, arrows=ARROWS):
    """The check's output for a sound tree with these files put into it, or their text replaced."""
    with tempfile.TemporaryDirectory() as root:
        for path, text in {**SOUND, "docs/ARCHITECTURE.md": f"```arrows{arrows}```\n", **planted}.items():
            os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(text)
        run = subprocess.run([os.path.join(ROOT, "tools/check"), "arrows", root], capture_output=True, text=True, check=False)
    assert (run.returncode != 0) == (run.stderr != ""), (run.returncode, run.stderr)
    return run.stderr.splitlines()


def expect(found, *wanted):
    assert found == list(wanted), f"{found} is not {list(wanted)}"


def test_a_sound_tree_is_let_pass():
    expect(said({}))


def test_an_include_between_folders_without_an_arrow_is_found():
    expect(said({"base/list.h": '#include "core/share.h"\n'}), "base/list.h:1: base/ may not include core/")


def test_an_include_between_rooms_without_an_arrow_is_found():
    expect(said({"core/ledger/ledger.h": '\n#include "core/turns/turns.h"\n'}),
           "core/ledger/ledger.h:2: core/ledger/ may not include core/turns/")


def test_an_include_that_is_relative_is_found():
    expect(said({"core/ledger/ledger.h": '#include "../turns/turns.h"\n'}),
           "core/ledger/ledger.h:1: core/ledger/ may not include core/turns/")


def test_a_folder_does_not_stand_for_its_rooms_among_these():
    expect(said({"core/turns/turns.h": '#include "core/residency/residency.h"\n', "core/residency/residency.h": ""},
                ARROWS + "core/residency base\n"),
           "core/turns/turns.h:1: core/turns/ may not include core/residency/")


def test_the_top_of_a_folder_needs_an_arrow_for_each_room():
    expect(said({"core/share.c": '#include "core/turns/turns.h"\n'}), "core/share.c:1: core/ may not include core/turns/")


def test_a_room_of_a_divided_folder_needs_a_row():
    expect(said({"core/attic/old.c": ""}), "docs/ARCHITECTURE.md: no arrow for core/attic/")


def test_a_folder_needs_a_row():
    expect(said({"attic/old.c": ""}), "docs/ARCHITECTURE.md: no arrow for attic/")


def test_an_arrow_to_nothing_is_found():
    expect(said({}, ARROWS + "cellar base\n"), "docs/ARCHITECTURE.md: an arrow names cellar/, which does not exist")


def test_the_product_includes_no_test():
    expect(said({"node/main.c": '#include "tests/check.h"\n'}), "node/main.c:1: product code includes tests/")


def main():
    for name, test in sorted(globals().items()):
        if name.startswith("test_"):
            test()
            print("ok:", name[len("test_"):].replace("_", " "))


if __name__ == "__main__":
    sys.exit(main())
