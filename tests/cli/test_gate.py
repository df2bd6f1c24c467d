#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How `make test` judges its tests (tools/gate): which are run again, which are unsteady, which a change needs. argv[1]: the build's folder."""
import contextlib
import hashlib
import importlib.machinery
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest.mock

from person import ROOT, until
from runner import run

BUILD = os.path.abspath(sys.argv[1])
sys.path.insert(0, os.path.join(ROOT, "tools", "gate"))
import again  # noqa: E402
import reaches  # noqa: E402
import rows  # noqa: E402
import seeds  # noqa: E402
import touched  # noqa: E402
from lanes import Lanes, Step  # noqa: E402
from tally import Tally  # noqa: E402


def row(name, result, output=""):
    return {"name": f"mete:unit / {name}", "result": result, "stdout": output, "stderr": "", "duration": 1.0, "command": ["true"], "env": {}}


@contextlib.contextmanager
def folder():
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        try:
            yield place
        finally:
            os.chdir(before)


# A test program as `meson test` would run it again: it passes from its Nth try on, and notes each try.
TRY = """
import json, os, sys
name = sys.argv[1]
open("tries", "a").write(name + "\\n")
tries = open("tries").read().split().count(name)
good = tries >= int(name.rpartition("_")[2])
os.makedirs("build/b/meson-logs", exist_ok=True)
row = {"name": name, "result": "OK" if good else "FAIL", "stdout": "", "stderr": "", "duration": 1.0, "command": []}
open("build/b/meson-logs/" + os.environ["LOGBASE"] + ".json", "w").write(json.dumps(row) + "\\n")
"""


def settled(*listed):
    """The outcome of a suite with these rows: the names that are unsteady, the text lines, each try, the tally's last one."""
    with folder():
        with open("log.json", "w") as log:
            log.writelines(json.dumps(one) + "\n" for one in listed)
        suite = again.Suite("gcc", "b", "log.json", [sys.executable, "-c", TRY])
        unsteady, lines = again.settle([suite], "kept", dict(os.environ, METE_SEED="5"), lambda words: None)
        tally = Tally()
        tally.add_log("log.json", unsteady[suite])
        tries = open("tries").read().split() if os.path.exists("tries") else []
        assert len(os.listdir("kept")) >= len({rows.name_of(one) for one in listed if rows.is_bad(one)})
        return unsteady, lines, tries, tally.total()


def test_a_failed_test_that_passes_alone_is_unsteady_and_named():
    unsteady, lines, tries, total = settled(row("good", "OK"), row("once_1", "FAIL", "[  ERROR   ] --- x is 1, wanted 2\n[   LINE   ] --- a.c:7: error: Failure!\n"),
                                            row("twice_2", "TIMEOUT", "METE_SEED=77\nTraceback (most recent call last):\n  File\n    x()\nAssertionError: no\n"))
    assert tries == ["once_1", "twice_2", "twice_2"], tries
    assert list(unsteady.values()) == [{"once_1", "twice_2"}] and not again.too_many(unsteady)
    assert lines == ["unsteady: once_1 (gcc) seed=5: x is 1, wanted 2 (a.c:7)", "unsteady: twice_2 (gcc) seed=77: AssertionError: no"], lines
    assert total == "3 passed, 0 failed, 0 skipped", total


def test_a_test_that_fails_three_times_has_failed():
    unsteady, lines, tries, total = settled(row("never_9", "FAIL"), row("good", "OK"))
    assert tries == ["never_9"] * 2 and list(unsteady.values()) == [set()] and not lines
    assert total == "1 passed, 1 failed, 0 skipped", total


def test_three_different_unsteady_tests_are_too_many():
    unsteady, lines, _, _ = settled(*(row(f"{name}_1", "FAIL") for name in ("a", "b", "c")))
    assert again.too_many(unsteady) and len(lines) == 3
    one, other = again.Suite("gcc", "b", "l", []), again.Suite("TSan", "t", "l", [])
    assert not again.too_many({one: {"a", "b"}, other: {"a", "b"}})


def test_where_many_fail_none_is_run_again():
    unsteady, lines, tries, total = settled(*(row(f"t{i}_1", "FAIL") for i in range(again.MOST_TRIED + 1)))
    assert not tries and list(unsteady.values()) == [set()] and "none was run again" in lines[0]
    assert total.startswith(f"0 passed, {again.MOST_TRIED + 1} failed"), total


def test_a_suite_that_left_no_log_has_failed():
    tally = Tally()
    tally.add_log("/nowhere/log.json")
    assert tally.total() == "0 passed, 1 failed, 0 skipped" and "/nowhere/log.json: No such file or directory" in tally.lines


def test_steps_begin_when_the_steps_before_them_have_ended():
    with folder():
        first = Step("first", ["sh", "-c", "echo 1 >one; exit 3"])
        second = Step("second", ["sh", "-c", "test -e one && echo 2 >two"], after=[first])
        left_out = Step("third", ["sh", "-c", "echo 3 >three"], needs=[first])
        lanes = Lanes([left_out, second, first], "logs")
        said = []
        lanes.say = said.append
        lanes.show_end = lambda step: None
        assert not lanes.run()
        assert (first.status, second.status, left_out.status) == (3, 0, None)
        assert os.path.exists("two") and not os.path.exists("three")
        assert "FAILED: first (status 3)" in said and "third: left out, since first failed" in said, said


def test_processes_that_a_step_started_end_with_the_run():
    with folder():
        # A step whose child would stay; both report that they are there.
        step = Step("long", ["sh", "-c", "mkfifo wait; sh -c 'echo $$ >child; cat wait' & echo 1 %; wait"])
        lanes = Lanes([step], "logs")
        lanes.say = lambda words: None

        def stop():
            until(lambda: os.path.exists("child") and open("child").read().strip(), "the step's child did not start")
            lanes.stop()

        stopper = threading.Thread(target=stop)
        stopper.start()
        assert not lanes.run()
        stopper.join()
        child = int(open("child").read())
        until(lambda: not os.path.exists(f"/proc/{child}") or open(f"/proc/{child}/stat").read().rpartition(")")[2].split()[0] == "Z", "the child still runs")


def test_each_folder_needs_tests_that_there_are():
    tests = touched.tests_there_are(BUILD)
    for prefix, patterns in touched.TABLE.items():
        for pattern in patterns.split():
            assert touched.matching(pattern, tests), f"{prefix}: no test is called {pattern}"
    files = subprocess.run(["git", "-C", ROOT, "ls-files"], text=True, capture_output=True, check=True).stdout.split()
    for file in files:
        if "/" in file or file in ("Makefile", "README.md"):
            assert touched.needed(file, tests), file
    assert touched.needed("tests/unit/test_turns.c", tests) == {"turns"}
    assert touched.needed("tests/system/test_meted_kill.py", tests) == {"meted_kill"}
    assert touched.needed("tests/system/sim/test_graphs.c", tests) == {"sim_graphs"}
    assert touched.needed("tests/fuzz/corpus/ptx/x", tests) == {"fuzz_ptx"}
    # A file that a test of another folder reads.
    assert touched.needed("tools/krew", tests) == {"packages_krew"} and "cli_gate" in touched.needed("tools/tidy", tests) & touched.needed("tools/gate/reaches.py", tests)
    assert "packages_debian" in touched.needed("deploy/Containerfile", tests) and "plugin" in touched.needed("tests/system/http_server.py", tests)
    assert {"turns", "turns_always", "meted_turns"} <= touched.needed("core/turns/turns_drain.c", tests)


def test_tests_that_a_change_needs_are_run_by_a_command_that_meson_takes():
    tool = importlib.machinery.SourceFileLoader("gate", os.path.join(ROOT, "tools", "test")).load_module()
    with unittest.mock.patch.object(tool.touched, "tests_of", lambda files: {"turns", "ledger"}), unittest.mock.patch.object(tool.subprocess, "run") as ran:
        tool.some(["core/x.c"])
    words = ran.call_args_list[-1].args[0]
    assert words[:2] == ["meson", "test"] and words[-2:] == ["ledger", "turns"], words
    assert int(words[words.index("--num-processes") + 1]) > 0, words


def with_headers(name):
    """The file, and what of tests/unit/ it includes."""
    text = open(os.path.join(ROOT, name)).read()
    return text + "".join(with_headers(header) for header in re.findall(r'^#include "(tests/unit/[^"]+)"', text, re.M))


HEADER = """
#define MOST 3
enum state { RESTING, GOING = MOST };
struct part { int size; };
struct whole { struct part part; enum state state; };
typedef int (*looker)(const struct whole *whole);
static inline int size_of(const struct whole *whole) { return whole->part.size; }
int other(struct whole *whole, looker look);
extern int counted;
"""
SOURCE = """
#include "header.h"
int twice(const struct whole *whole) { return whole->state == GOING ? 2 * size_of(whole) : 0; }
"""


def reached_text(header, source=SOURCE):
    with tempfile.TemporaryDirectory() as place:
        for name, text in (("header.h", header), ("source.c", source)):
            with open(os.path.join(place, name), "w") as file:
                file.write(text)
        return reaches.reached(subprocess.run(["gcc", "-E", "source.c"], cwd=place, text=True, capture_output=True, check=True).stdout, "source.c")


def test_a_header_that_changes_where_a_file_does_not_reach_is_the_same_to_it():
    as_it_was = reached_text(HEADER)
    for was, becomes in (("int other(", "int another(void);\nint other("), ("extern int counted", "/* how many */ extern long counted"), ("#define MOST 3", "#define LEAST 2\n#define MOST 3"),
                         ("typedef int (*looker)(", "typedef long (*looker)("), ("int size; };", "int size;\n};")):
        assert was in HEADER and reached_text(HEADER.replace(was, becomes)) == as_it_was, becomes


def test_a_header_that_changes_where_a_file_reaches_is_another():
    as_it_was = reached_text(HEADER)
    for was, becomes in (("MOST 3", "MOST 4"), ("RESTING,", "RESTING, STANDING,"), ("int size; };", "int size, rest; };"), ("enum state state;", "enum state state, before;"),
                         ("return whole->part.size;", "return whole->part.size + 1;"), ("static inline int size_of", "static inline long size_of")):
        assert was in HEADER and reached_text(HEADER.replace(was, becomes)) != as_it_was, becomes
    for more in ("int reads(void) { return counted; }", "int calls(struct whole *w) { return other(w, 0); }", "looker keeps;"):
        source = SOURCE + more
        changed = HEADER.replace("extern int counted", "extern long counted").replace("int other(", "long other(").replace("typedef int (*looker)", "typedef long (*looker)")
        assert reached_text(changed, source) != reached_text(HEADER, source), more


def test_rows_of_a_list_are_reached_where_a_file_includes_them():
    source = 'enum kind {\n#include "header.h"\n};\nconst int last = 2 * FINE;\n'
    assert reached_text("GOOD,\nFINE,\n", source) != reached_text("GOOD,\nBETTER,\nFINE,\n", source)


OUTER = """
/* What is below. */
#include "header.h"

/* Twice. */
int twice(int x) /* of an int */
{
	/* It is doubled. */

	return 2 * x; // twice
}
static const char text[] = "/* no comment {"; /* { */
int open_brace = '{'; /* NOLINT: as it was */
// \u00e9
int last;
"""


def test_comments_between_functions_are_nothing_to_clang_tidy():
    as_it_was = reaches.without_outer_comments(OUTER)
    for was, becomes in (("What is below.", "What\n * is\n * below."), ("/* Twice. */\n", ""), ("of an int", "of any int"), ("int last;\n", "int last; // the last\n\n"), ("/* { */", "/* } } */")):
        assert was in OUTER and reaches.without_outer_comments(OUTER.replace(was, becomes)) == as_it_was, becomes
    for was, becomes in (("It is doubled.", "It is\n doubled."), ("// twice", "// two times"), ("no comment", "comment"), ("NOLINT: as it was", "as it was"), ("\u00e9", "\u00e8"),
                         ("2 * x", "3 * x"), ("int last", "long last"), ("\n\n\treturn", "\n\treturn")):
        assert was in OUTER and reaches.without_outer_comments(OUTER.replace(was, becomes)) != as_it_was, becomes
    assert reaches.without_outer_comments("} /* a */") != reaches.without_outer_comments("} /* b */"), "of what is divided nothing is known"


class Keys:
    """The values that tools/tidy would compute of a build, of the files' texts alone: a file's own part, the part that it reaches and the part that
    it does not, with # between."""
    asked = []

    def __init__(self, _build):
        self.base = "rules "

    def text(self, source, parts, what):
        with open(source) as file:
            return hashlib.sha256(f"{what}{self.base}{'#'.join(file.read().split('#')[:parts])}".encode()).hexdigest()

    def of(self, source, _compiled):
        return self.text(source, 3, "exact")

    def of_own(self, source, _compiled):
        return self.text(source, 1, "own")

    def of_reached(self, source, _compiled):
        self.asked.append(os.path.basename(source))
        return self.text(source, 2, "reached")


@contextlib.contextmanager
def tidied(place, names):
    """tools/tidy over these files there, with a program that finds BAD. Its status, its output, the files that were checked, and those whose reach
    was asked for."""
    tidy = importlib.machinery.SourceFileLoader("tidy", os.path.join(ROOT, "tools", "tidy")).load_module()

    def ran():
        Keys.asked.clear()
        with contextlib.redirect_stdout(io.StringIO()) as said:
            status = tidy.main([])
        with open(place + "/looks", "a+") as looks:
            looks.seek(0)
            seen = [os.path.basename(name) for name in looks.read().split() if name.endswith(".c")]
            looks.truncate(0)
        return status, said.getvalue(), seen, sorted(Keys.asked)

    write(place, "program", f'#!/bin/sh\necho "$@" >>{place}/looks\nfor last; do case $last in *.c) grep -H BAD "$last" && bad=1;; esac; done\n[ -z "$bad" ]\n')
    os.chmod(place + "/program", 0o755)
    sources = [os.path.join(place, name) for name in names]
    with unittest.mock.patch.multiple(tidy, KEPT=place + "/kept", PROGRAM=place + "/program", Keys=Keys, sources=lambda: sources,
                                      commands=lambda build: dict.fromkeys(sources, [])):
        yield ran


def write(place, name, text):
    with open(os.path.join(place, name), "w") as file:
        file.write(text)


def test_clang_tidy_checks_all_files_the_first_time_and_then_changed_ones():
    names = [f"{number}.c" for number in range(20)]
    with tempfile.TemporaryDirectory() as place, tidied(place, names) as ran:
        for name in names:
            write(place, name, f"int of_{name[:-2]};")
        write(place, "7.c", "BAD")
        status, said, seen, asked = ran()
        assert status == 1 and f"{place}/7.c:BAD" in said and said.count("BAD") == 1 and not asked, (said, asked)
        assert set(seen) == set(names), seen
        status, said, seen, asked = ran()  # a file that was not clean is checked again
        assert status == 1 and seen == ["7.c"] and "BAD" in said, (said, seen)
        assert asked == sorted(set(names) - {"7.c"}), asked
        write(place, "7.c", "good")
        assert ran()[::2] == (0, ["7.c"])
        write(place, "3.c", "changed")
        assert ran()[::2] == (0, ["3.c"])
        assert ran()[::2] == (0, [])


def test_a_files_reach_is_asked_for_where_its_own_text_was_found_clean():
    with tempfile.TemporaryDirectory() as place, tidied(place, ["a.c", "b.c"]) as ran:
        write(place, "b.c", "b")
        for text, looked, asked in (("new#one#x", True, False), ("new#one#x", False, True), ("new#one#x", False, False), ("new#one#y", False, True),
                                    ("new#two#y", True, True), ("newer#two#y", True, False), ("newer#two#z", True, True), ("new#one#z", False, True)):
            write(place, "a.c", text)
            status, _said, seen, reached = ran()
            assert status == 0 and ("a.c" in seen, "a.c" in reached) == (looked, asked), (text, seen, reached)


def test_a_test_that_is_marked_for_soak_runs_there_and_by_its_name():
    program = (f"import sys; sys.path.insert(0, {os.path.join(ROOT, 'tests', 'system')!r})\nfrom runner import run, soak\n"
               "@soak\ndef test_long(): pass\ndef test_short(): pass\nrun(globals(), sys.argv[1:])")
    usual = {key: value for key, value in os.environ.items() if key != "METE_SOAK"}

    def ran(*names, **more):
        said = subprocess.run([sys.executable, "-c", program, *names], env={**usual, **more}, text=True, capture_output=True, check=True).stdout
        return re.findall(r"^\[ RUN      \] (\w+)$", said, re.M)

    assert ran() == ["test_short"]
    assert ran("test_long") == ["test_long"]
    assert ran(METE_SOAK="1") == ["test_long", "test_short"]


# Two that need each other at the same time, and each other end that there is.
SIDE_BY_SIDE = """
from runner import Skipped, run
here, there = os.pipe()
back, forth = os.pipe()
def test_a():
    os.write(there, b"x"); assert os.read(back, 1); print("a's word")
def test_b():
    os.write(forth, b"x"); assert os.read(here, 1)
def test_c(): assert False, "c's reason"
def test_d(): raise Skipped("for want of d")
def test_e(): os.kill(os.getpid(), 9)
def test_f(): sys.exit("f leaves")
run(globals(), sys.argv[1:], at_once=2)
"""


def test_tests_that_wait_run_side_by_side_and_each_has_its_own_output():
    program = f"import os, sys; sys.path.insert(0, {os.path.join(ROOT, 'tests', 'system')!r})\n" + SIDE_BY_SIDE

    def ran(*names):
        done = subprocess.run([sys.executable, "-c", program, *names], text=True, capture_output=True)
        return done.returncode, done.stdout + done.stderr

    status, said = ran()
    assert status == 1 and said.count("[==========] 6 test(s) run.") == 1, said
    assert "[ RUN      ] test_a\na's word\n[       OK ] test_a\n" in said and "[ RUN      ] test_b\n[       OK ] test_b\n" in said, said
    assert re.search(r"^\[ RUN      \] test_c\nTraceback (?:.*\n)+?AssertionError: c's reason\n\[  FAILED  \] test_c\n", said, re.M), said
    assert "[ RUN      ] test_d\nskipped: test_d: for want of d\n[  SKIPPED ] test_d\n" in said, said
    assert "[ RUN      ] test_e\nits process ended with -9\n[  FAILED  ] test_e\n" in said, said
    assert "\n[  SKIPPED ] test_d\n[  FAILED  ] test_c\n[  FAILED  ] test_e\n[  FAILED  ] test_f\n" in said, said
    assert sorted(rows.functions_that_failed(row("x", "FAIL", said))) == ["test_c", "test_e", "test_f"], said
    assert "f leaves" in said
    # One alone is in the process itself, for a debugger.
    assert ran("test_d")[0] == 77 and ran("test_e")[0] == -9


def test_a_tests_output_is_seen_where_its_program_is_ended():
    program = (f"import os, signal, sys, time; sys.path.insert(0, {os.path.join(ROOT, 'tests', 'system')!r})\nfrom runner import run\n"
               "def test_a():\n    print('as far as here'); os.kill(os.getppid(), signal.SIGTERM); time.sleep(600)\n"
               "def test_b(): test_a()\nrun(globals(), sys.argv[1:], at_once=2)")
    with subprocess.Popen([sys.executable, "-u", "-c", program], text=True, stdout=subprocess.PIPE, start_new_session=True) as ended:
        try:
            assert ended.wait(240) == 143
        finally:
            os.killpg(ended.pid, signal.SIGKILL)  # as meson does
        said = ended.stdout.read()
    assert re.search("RUN      . test_[ab]\nas far as here\n", said), said


def test_seeds_are_of_tests_that_draw():
    listed = seeds.listed()
    assert [seed for test, seed in listed if test == "*"] == [seeds.usual()]
    tests = touched.tests_there_are(BUILD)
    for test, seed in listed:
        if test != "*":
            assert f"{test}_{seed}" in tests, (test, seed)
            assert "test_random" in with_headers(f"tests/unit/test_{test}.c"), test


def test_a_part_of_the_soak_that_does_not_exist_is_refused():
    done = subprocess.run([os.path.join(ROOT, "tools", "soak"), "nothing"], text=True, capture_output=True)
    assert done.returncode == 1 and "no part is called 'nothing': repeat, " in done.stderr, done


def test_a_machine_that_can_run_no_virtual_one_is_told_so():
    with tempfile.TemporaryDirectory() as empty:
        os.mkdir(empty + "/bin")
        for name in "sh", "dirname", "cat", "sha256sum", "cut", "env", "python3", "apt-get", "grep":
            os.symlink(shutil.which(name), f"{empty}/bin/{name}")
        done = subprocess.run([sys.executable, os.path.join(ROOT, "tools", "test-v2"), "v2_unit"], text=True, capture_output=True,
                              env=dict(os.environ, PATH=f"{empty}/bin", PIP_QUIET="anew"))  # what was found before holds for other settings
    # Where there is no program, or this is not root: what is missing, and what to do about it; and nothing is made.
    assert done.returncode == 77 and re.fullmatch(r"(there is no qemu-system-x86_64; `tools/setup image` installs it|this is not root; .*)\n", done.stdout), done


if __name__ == "__main__":
    run(globals())
