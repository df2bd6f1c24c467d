#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/check-gpu and the table that it reads: docs/UNVERIFIED.md holds each question once, in the order that settles the most
claims a minute, and on the simulated driver none of them is answered with no. The usual run asks those that take no more than a few
seconds on a GPU, a long one (METE_TEST_SCALE) all."""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path += [str(ROOT / "tests/system"), str(ROOT / "tools"), str(ROOT / "tests/gpu")]
from check_gpu import BUILD as NAMED, rows  # noqa: E402
from here import Here, PATIENCE  # noqa: E402
from runner import run  # noqa: E402

BUILD = Path(sys.argv[1]).resolve()
LONG = int(os.environ.get("METE_TEST_SCALE", "1")) > 1
QUICK_S = 6  # on a GPU; what takes longer is for a long run


def check_gpu(*words):
    return subprocess.run([ROOT / "tools/check_gpu.py", "--simulated", "--build", os.path.relpath(BUILD, ROOT), *words],
                          text=True, capture_output=True, timeout=1000)


def questions_of(program, *words):
    """The questions of a program, by its own list."""
    environment = dict(os.environ, LD_LIBRARY_PATH=str(BUILD / "sim/lib"))
    done = subprocess.run([program, *words], env=environment, text=True, capture_output=True, timeout=60)
    return re.sub(r"^.*questions: ", "", done.stdout.strip().splitlines()[-1]).split() if words else done.stdout.split()


def test_every_question_stands_in_the_table_once():
    commands = [row.command for row in rows()]
    asked = [command.split()[-1] for command in commands if "tests/gpu/claims" in command]
    assert sorted(asked) == sorted(questions_of(BUILD / "tests/gpu/claims")), set(asked) ^ set(questions_of(BUILD / "tests/gpu/claims"))
    asked = {command.split()[-1] for command in commands if "under_mete.py" in command}
    assert asked == set(questions_of(ROOT / "tests/gpu/under_mete.py", "?")), asked
    asked = {command.split()[1] for command in commands if "mig.py" in command}
    assert asked == set(questions_of(ROOT / "tests/gpu/mig.py", "?")), asked


def test_every_command_is_a_program_that_is_there():
    for row in rows():
        program = next(word for word in row.command.split() if "=" not in word).replace(NAMED, str(BUILD))
        assert os.access(ROOT / program, os.X_OK), row.command


def test_the_question_that_settles_most_claims_a_minute_comes_first():
    table = rows()
    commands = [row.command for row in table]
    rates = []
    for row in table:
        first = commands.index(row.command)
        same = commands.count(row.command)
        assert commands[first:first + same] == [row.command] * same, f"apart from its like: {row.claim}"
        rates.append(60 * same / row.seconds)
    for before, after, row in zip(rates, rates[1:], table[1:]):
        assert after <= before, f"{after:.0f} claims a minute come after {before:.0f}: {row.claim}"
    assert len({row.claim for row in table}) == len(table)


def test_it_goes_on_after_a_failure_and_writes_the_output():
    with tempfile.TemporaryDirectory() as place:
        document, report = Path(place) / "claims.md", Path(place) / "report.md"
        document.write_text("# Claims\n\n## 1 Seen\n\n| a | b | c |\n| --- | --- | --- |\n\n## 2 Needs a GPU\n\n| claim | where | s | command |\n"
                            "| --- | --- | --- | --- |\n"
                            "| one | x | 1 | `echo no, 3; exit 1` |\n"
                            "| two | x | 1 | `kill -9 $$` |\n"
                            "| three | x | 1 | `echo a second GPU; exit 77` |\n"
                            "| four | x | 1 | `there-is-no-such-command` |\n"
                            "| five | x | 1 | `test -d $METE_SIM_DIR -a -d $XDG_RUNTIME_DIR && echo both folders` |\n\n## 3 Needs more\n")
        done = check_gpu("--document", document, "--report", report)
        assert done.returncode == 1, done
        answered = re.findall(r"^\| (\S+(?: \S+)?) \| (\w+) \| (.*) \| [\d.]+ \| `", report.read_text(), re.M)
        assert [(answer, claim) for answer, claim, _ in answered] == [
            ("no", "one"), ("failed", "two"), ("not here", "three"), ("failed", "four"), ("yes", "five")], answered
        assert [reason for _, _, reason in answered][::2] == ["no, 3", "a second GPU", "both folders"], answered
        assert "1 yes, 1 no, 1 not here, 2 failed" in done.stdout, done.stdout


def test_processes_that_a_question_has_started_end_with_their_children():
    here = Here(BUILD)
    program = here.start(["sh", "-c", "sleep 36000 & echo started; wait"])
    assert program.stdout.readline() == "started\n"
    here.close()
    program.communicate(timeout=PATIENCE)  # the end of the pipes, which `sleep` had, too


def test_a_check_that_is_carried_elsewhere_asks_the_same_there():
    with tempfile.TemporaryDirectory() as place:
        subprocess.run([ROOT / "tools/carry_gpu.py", place + "/carried", BUILD], check=True, capture_output=True, timeout=300)
        size = sum(path.stat().st_size for path in Path(place).rglob("*") if path.is_file() and not path.is_symlink())
        assert size < 64 << 20, size
        # One of each kind of program, where no path leads back here.
        environment = {key: value for key, value in os.environ.items() if not key.startswith("LD_")}
        done = subprocess.run([place + "/carried/tools/check_gpu.py", "--simulated", "small_allocations", "from_descriptor", "ptx_mma", "sim_streams",
                               "mete_counts"], env=environment, text=True, capture_output=True, timeout=300)
        assert done.returncode == 0 and "5 claims: 5 yes" in done.stdout, done.stdout + done.stderr
        said = subprocess.run(["ldd", place + "/carried/build/plain/node/meted"], text=True, capture_output=True,
                              env=environment | {"LD_LIBRARY_PATH": place + "/carried/build/plain/carried"}).stdout
        assert f"libuv.so.1 => {place}" in said, said
        shown = subprocess.run([place + "/carried/tools/showcase.py", "--help"], text=True, capture_output=True, env=environment)
        assert shown.returncode == 0 and "--gpu" in shown.stdout, shown.stderr


def test_the_simulated_driver_answers_all_and_contradicts_none():
    with tempfile.TemporaryDirectory() as place:
        report = Path(place) / "report.md"
        done = check_gpu("--report", report, *([] if LONG else ["--within", str(QUICK_S)]))
        wanted = [row for row in rows() if LONG or row.seconds <= QUICK_S]
        lines = [line for line in report.read_text().splitlines() if line.startswith("| ")][2:]
        assert done.returncode == 0, done.stdout + done.stderr
        assert len(lines) == len(wanted) >= 60, done.stdout
        for line in lines:
            answer, _, reason = line.strip("| ").split(" | ")[:3]
            assert answer == "yes" or reason, f"no reason: {line}"
        # The answers that only a device can give are the smaller part.
        assert sum(line.startswith("| yes") for line in lines) > len(lines) / 2, done.stdout


if __name__ == "__main__":
    run(globals())
