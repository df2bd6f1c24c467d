# SPDX-License-Identifier: Apache-2.0
"""A failed test is run again alone, twice at most. One that then passes is *unsteady*: it does not fail the run, but it is named, with
what it said first, and its log is kept. Three different ones in a run fail it. A run in which more tests failed is no matter of luck:
nothing is run again.
"""
import glob
import os
import shutil
import subprocess

import rows

TRIES = 2
MOST_UNSTEADY = 2   # different tests in one run
MOST_TRIED = 5      # failed tests; beyond these none is run again


class Suite:
    """Tests of one build, as one call of meson ran them."""

    def __init__(self, label, build, log, rerun):
        """`rerun`: the command that runs the tests named behind it alone, with the log base in LOGBASE."""
        self.label, self.build, self.log, self.rerun = label, build, log, rerun

    def failed(self):
        try:
            return [row for row in rows.read(self.log) if rows.is_bad(row)]
        except OSError:
            return []  # the tally reports that it is missing


def once(suite, name, env):
    """Runs one test alone; its row, or None where none ran."""
    logs = os.path.join("build", suite.build, "meson-logs")
    subprocess.run([*suite.rerun, name], env=dict(env, LOGBASE="again"), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        ran = rows.read(os.path.join(logs, "again.json"))
    except OSError:
        ran = []
    for path in glob.glob(os.path.join(logs, "again.*")):
        os.unlink(path)
    return ran[0] if ran else None


def settle(suites, folder, env, say):
    """Runs what failed again. Returns {suite: names that are unsteady} and the lines about them."""
    shutil.rmtree(folder, ignore_errors=True)
    failed = [(suite, row) for suite in suites for row in suite.failed()]
    unsteady, lines = {suite: set() for suite in suites}, []
    for suite, row in failed:
        rows.keep(row, folder, f"{suite.label}-first")
    if len(failed) > MOST_TRIED:
        return unsteady, [f"{len(failed)} tests failed: more than {MOST_TRIED}, so that none was run again"]
    for suite, row in failed:
        name = rows.name_of(row)
        for trial in range(1, TRIES + 1):
            say(f"again, alone: {name} ({suite.label})")
            second = once(suite, name, env)
            if second and not rows.is_bad(second):
                unsteady[suite].add(name)
                lines.append(f"unsteady: {name} ({suite.label}) seed={rows.seed_of(row, env.get('METE_SEED', 'none'))}: {rows.first_words(row)}")
                break
            if second:
                rows.keep(second, folder, f"{suite.label}-again-{trial}")
    return unsteady, lines


def too_many(unsteady):
    """Different tests, whichever builds they are unsteady in."""
    return len(set().union(*unsteady.values())) > MOST_UNSTEADY if unsteady else False
