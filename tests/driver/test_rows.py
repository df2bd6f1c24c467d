#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cuda/api.def and cuda/nvml.def beside NVIDIA's own libraries: test_rows.py BUILD LOOK."""
import os
import re
import subprocess
import sys

import real
from runner import run

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "cuda"))
import api  # noqa: E402

LOOK = os.path.abspath(sys.argv[2])

# Exports that neither table has, as expressions, each with the reason.
BEYOND = {
    r"cudbg(Api(Init|Attach|Detach)|ReportDriver\w+)": "a debugger breaks in them or calls them, in the driver itself",
    r"cudbg(ApiClient|Attach|Debugger|Detach|Enable|Injection|Ipc|Reported|Resume|Rpc|Session|UseExternal)\w*":
        "variables that a debugger writes to, in the driver itself",
    r"nvmlRetry_NvRmControl": "of 470 and 525 alone; nobody looks for it",
}
# Rows that no release for PCs exports, each with the reason.
LACKING = {"cuEventCreateFromEGLSync": "cudaEGL.h declares it for all; looked for in the four releases"}


def exports(path):
    """Name -> (value, letter) of a library's defined dynamic symbols."""
    lines = subprocess.run(["nm", "-D", "--defined-only", path], check=True, text=True, capture_output=True).stdout.splitlines()
    return {name: (value, letter) for value, letter, name in map(str.split, lines)}


def known(names):
    return {name for name in names if any(re.fullmatch(pattern, name) for pattern in BEYOND)}


def look(library, *routes, **environment):
    before = real.apart() if "init" in routes else []
    done = subprocess.run([*before, LOOK, library, *routes], text=True, capture_output=True, env=dict(os.environ, **environment))
    assert done.returncode == 0, done
    return done.stdout.splitlines()


def rows_of(release):
    return {row.symbol for row in api.exported(api.load(), release.cuda)}


def test_a_release_exports_the_rows_up_to_its_version():
    for release in real.releases():
        there, wanted = set(exports(release.library("libcuda.so.1"))), rows_of(release)
        assert wanted - there == set(LACKING), (release.name, wanted - there)
        more = there - wanted - set(api.load_names())
        assert more == known(more), (release.name, more - known(more))


def test_a_release_exports_functions_that_no_header_declares():
    for release in real.releases():
        assert set(api.load_names()) <= set(exports(release.library("libcuda.so.1"))), release.name


def test_nvml_of_a_release_exports_rows_alone():
    for release in real.releases():
        there, table = set(exports(release.library("libnvidia-ml.so.1"))), {row.symbol for row in api.load_nvml()}
        assert len(there & table) > 250, len(there & table)
        assert there - table == known(there - table), (release.name, there - table - known(there - table))


def test_no_two_exports_share_an_address():
    for release in real.releases():
        functions = [value for value, letter in exports(release.library("libcuda.so.1")).values() if letter in "TW"]
        assert len(functions) > 500 and len(set(functions)) == len(functions), release.name


def test_exports_have_no_versions():
    for release in real.releases():
        for name in "libcuda.so.1", "libnvidia-ml.so.1":
            shown = subprocess.run(["readelf", "-W", "--dyn-syms", release.library(name)], check=True, text=True, capture_output=True).stdout
            defined = [line.split()[-1] for line in shown.splitlines() if re.match(r"\s*\d+:", line) and " UND " not in line]
            assert len(defined) > 250 and not [symbol for symbol in defined if "@" in symbol], (release.name, name)


def parted(line):
    """Of a line `ask`: the question, the older form's answer, the newer one's ("" where there is none), the rule's."""
    question, rest = line.removeprefix("ask ").split(" = ")
    answers, rule = rest.split(" | ")
    return (question, *(answers.split(", ") if ", " in answers else (answers.rstrip(", "), "")), rule)


def test_each_row_is_found_by_its_name_at_its_exports_address():
    for release in real.releases():
        found = dict(line.split()[1:] for line in look(release.library("libcuda.so.1"), "symbols"))
        for symbol in rows_of(release) - set(LACKING):
            assert found[symbol] == f"driver:{symbol}", (release.name, symbol, found[symbol])


def test_look_ups_answer_by_the_rule():
    for release in real.releases():
        asked = [parted(line) for line in look(release.library("libcuda.so.1"), "ask")]
        assert len(asked) > 9000, len(asked)
        for question, older, newer, rule in asked:
            if question.split()[0] in LACKING:
                rule = "1 none"
            status, symbol = rule.split()
            assert older == (f"0 driver:{symbol}" if status == "0" else "500 kept"), (release.name, question, older, rule)
            wanted = f"0 0 driver:{symbol}" if status == "0" else f"0 {status} none"
            assert newer == (wanted if release.cuda >= 12000 else ""), (release.name, question, newer, rule)


def test_each_row_is_resolved_by_some_look_up():
    for release in real.releases():
        found = {parted(line)[1].split(":")[-1] for line in look(release.library("libcuda.so.1"), "ask")}
        assert rows_of(release) - set(LACKING) <= found, rows_of(release) - found


def test_odd_questions_are_answered_alike():
    for release in real.releases():
        for line in look(release.library("libcuda.so.1"), "odd"):
            question, older, newer, rule = parted(line)
            name, version, flags = re.fullmatch(r"(.*) (-?\d+) (\d+)", question).groups()
            if int(flags) > 3:
                wanted = "1 kept", "1 77 kept"
            elif rule.startswith("0"):  # a negative version
                assert int(version) < 0, question
                wanted = "0 driver:" + rule.split()[1], "0 0 driver:" + rule.split()[1]
            else:
                wanted = "500 kept", f"0 {rule}"
            assert (older, newer) == (wanted[0], wanted[1] if newer else ""), (release.name, line)


def test_the_simulated_driver_answers_look_ups_as_the_release_does():
    for release in real.releases():
        theirs = look(release.library("libcuda.so.1"), "symbols", "ask", "odd")
        ours = look(f"{real.BUILD}/sim/{release.version}/libcuda.so.1", "symbols", "ask", "odd", METE_SIM_DRIVER=release.version)
        assert len(ours) == len(theirs) > 9000
        apart = [pair for pair in zip(theirs, ours) if pair[0] != pair[1] and pair[0].split()[1] not in LACKING]
        assert not apart, (release.name, apart[:5])


def test_private_tables_are_there_before_cuInit():
    """Tables that NVIDIA's runtime asks for, and that the simulator refuses on purpose; and a table that is not there."""
    for release in real.releases():
        found = dict(line.removeprefix("table ").split(" = ") for line in look(release.library("libcuda.so.1"), "tables"))
        for name in "6bd5", "a094", "42d8", "c693", "d408":
            assert found[name] == "0 driver:?", (release.name, name, found[name])
        assert found["0000"] == "1 none", found
        assert found["263e"] == ("0 driver:?" if release.cuda >= 12040 else "1 none"), found  # the runtime of CUDA 13's


def test_without_a_gpu_the_version_is_known_and_cuInit_says_so():
    for release in real.releases():
        assert look(release.library("libcuda.so.1"), "init") == [f"version 0 {release.cuda}", "init 100", "init of flags 1"]


if __name__ == "__main__":
    run(globals())
