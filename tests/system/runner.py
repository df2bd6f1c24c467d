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


def run(namespace, only=None, failed=None):
    """Every test_ function, said as cmocka does. `only`: names, the command line's after two words; `failed`: gets those
    that did. Status 77 where all were skipped."""
    tests = [(name, test) for name, test in namespace.items() if name.startswith("test_")]
    only = sys.argv[3:] if only is None else only
    failed = [] if failed is None else failed
    skipped, passed = [], 0
    for name, test in tests:
        if only and name not in only:
            continue
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
