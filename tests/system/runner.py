# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of a module: functions whose names are sentences."""
import os
import resource
import signal
import sys
import tempfile
import traceback

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"))
import needed  # noqa: E402


# A test's outcomes, as exit statuses.
PASSED, FAILED, SKIPPED = 0, 1, 77


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


def used():
    """Processor seconds of this process and of those of its children that have ended."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def judged(name, test):
    """Runs it; what became of it."""
    print(f"[ RUN      ] {name}", flush=True)
    began = used()
    try:
        test()
        print(f"[       OK ] {name}", flush=True)
        return PASSED
    except Skipped as why:
        print(f"skipped: {name}: {why}\n[  SKIPPED ] {name}", flush=True)
        return SKIPPED
    except Exception:
        traceback.print_exc()
        print(f"[  FAILED  ] {name}", flush=True)
        return FAILED
    finally:
        if os.environ.get("METE_SPENT"):
            print(f"[ {used() - began:6.2f} s ] {name}", flush=True)


def in_a_child(name, test):
    """Begins it in a process of its own; its pid, and the file that has its output."""
    said = tempfile.TemporaryFile()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid, said
    status = FAILED
    try:
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        status = judged(name, test)
    except BaseException:  # it wants to end the program
        traceback.print_exc()
        print(f"[  FAILED  ] {name}")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def pass_on(said):
    said.seek(0)
    sys.stdout.write(said.read().decode(errors="replace"))
    sys.stdout.flush()
    said.close()


def one_by_one(tests):
    for name, test in tests.items():
        yield name, judged(name, test)


def side_by_side(tests, most):
    """So many at a time. The output of each comes in one piece when it has ended, or when the program is told to end."""
    todo, running = list(tests), {}

    def on_term(*_):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it may be sent to the process and to its group
        for _name, said in running.values():
            pass_on(said)
        os._exit(143)

    def wait():
        """Only here may it be told to end: elsewhere a child may not be in the list yet, or its output half passed on."""
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        try:
            return os.wait()
        finally:
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    signal.signal(signal.SIGTERM, on_term)
    while todo or running:
        while todo and len(running) < most:
            name = todo.pop(0)
            pid, said = in_a_child(name, tests[name])
            running[pid] = name, said
        pid, status = wait()
        name, said = running.pop(pid)
        pass_on(said)
        verdict = os.waitstatus_to_exitcode(status)
        if verdict not in (PASSED, SKIPPED, FAILED):
            print(f"its process ended with {verdict}\n[  FAILED  ] {name}")
            verdict = FAILED
        yield name, verdict
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def run(namespace, only=None, failed=None, at_once=1):
    """Every test_ function, said as cmocka does. `only`: names, the command line's after two words; `failed`: gets those
    that did. Status 77 where all were skipped. `at_once`: for tests that wait and do not share anything, which then are processes of their own."""
    only = sys.argv[3:] if only is None else only
    tests = chosen(namespace, only)
    failed = [] if failed is None else failed
    verdicts = dict(one_by_one(tests) if min(at_once, len(tests)) < 2 else side_by_side(tests, at_once))
    skipped = [name for name in tests if verdicts[name] == SKIPPED]
    failed += [name for name in tests if verdicts[name] == FAILED]
    print(f"[==========] {len(tests)} test(s) run.")
    for name in skipped:
        print(f"[  SKIPPED ] {name}")
    for name in failed:
        print(f"[  FAILED  ] {name}")
    sys.exit(1 if failed else 77 if skipped and PASSED not in verdicts.values() else 0)
