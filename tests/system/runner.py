# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of a module: functions whose names are sentences."""
import os
import sys
import traceback

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"))
import needed  # noqa: E402


class Skipped(Exception):
    """The machine cannot do what a test needs; with `REASON; REMEDY`. It counts as skipped, by its name."""


def require(*names):
    """Skips the test where the machine lacks one of these (tools/needed.py)."""
    why = needed.lacking(*names)
    if why:
        raise Skipped(why)


def skip(why):
    """Skips the whole program."""
    print(f"skipped: {why}", flush=True)
    sys.exit(77)


def require_all(*names):
    """Skips the whole program where the machine lacks one of these."""
    why = needed.lacking(*names)
    if why:
        skip(why)


def soak(test):
    """A test that `make soak` runs, and `make test` does not: another one holds what a merge needs of it. It runs by its name, too."""
    test.soak = True
    return test


def chosen(namespace, only):
    """The tests that are to run: those of these names, or all that are not for another day."""
    tests = {name: test for name, test in namespace.items() if name.startswith("test_")}
    if only:
        return {name: test for name, test in tests.items() if name in only}
    return {name: test for name, test in tests.items() if os.environ.get("METE_SOAK") or not getattr(test, "soak", False)}


def run(namespace, only=None, failed=None):
    """Every test_ function, said as cmocka does. `only`: names, the command line's after two words; `failed`: gets those
    that did. Status 77 where all were skipped."""
    only = sys.argv[3:] if only is None else only
    tests = chosen(namespace, only)
    failed = [] if failed is None else failed
    skipped, passed = [], 0
    for name, test in tests.items():
        print(f"[ RUN      ] {name}", flush=True)
        try:
            test()
            print(f"[       OK ] {name}", flush=True)
            passed += 1
        except Skipped as why:
            print(f"skipped: {name}: {why}\n[  SKIPPED ] {name}", flush=True)
            skipped.append(name)
        except Exception:
            traceback.print_exc()
            print(f"[  FAILED  ] {name}", flush=True)
            failed.append(name)
    print(f"[==========] {len(tests)} test(s) run.")
    for name in skipped:
        print(f"[  SKIPPED ] {name}")
    for name in failed:
        print(f"[  FAILED  ] {name}")
    sys.exit(1 if failed else 77 if skipped and not passed else 0)
