#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`mete run` while the daemon that it starts is killed at every step of its start. argv[2]: die_at.so"""
import threading

from mete import *

DIE_AT = os.path.abspath(sys.argv.pop(2))
SCALE = int(os.environ.get("METE_TEST_SCALE", "1"))


def killed_at(step, *run):
    """`mete run` with a meted that dies at that step; whether it came so far.

    On a node of its own: a daemon that had not left would serve the next `mete run`, and none would be started.
    """
    with Node() as node:
        mark = os.path.join(node.place, "died")
        done = node.mete("run", *run, LD_PRELOAD=DIE_AT, DIE_AT=str(step), DIE_MARK=mark)
        return done, os.path.exists(mark)


def test_wherever_its_daemon_is_killed_the_program_runs():
    step = died = 0
    while died == step:
        step += 1
        done, reached = killed_at(step, "--memory", "256MiB", "--", "sh", "-c", "echo ran; exit 3")
        assert (done.returncode, done.stdout) == (3, "ran\n"), (step, done)
        died += reached
    # From the first lock to the program's end.
    assert died > 30, died
    print(f"killed at {died} steps")


def test_wherever_its_daemon_is_killed_the_program_is_limited():
    step = died = 0
    while died == step // 5:
        step += 5
        done, reached = killed_at(step, "--memory", "96MiB", "--", workload("vector-add"), "size=16M")
        assert done.returncode not in (0, 125) and "the limit of 96MiB is reached" in done.stderr, (step, done)
        died += reached
    assert died > 6, died


def test_many_start_at_once_while_daemons_are_killed():
    """Killed are those that have logged that they are ready: by then their clients are in the middle of something.

    Fewer than a `mete run` tries to start. A daemon that others use meanwhile does not leave before its starter came.
    """
    with Node() as node:
        over, killed = threading.Event(), []

        def kill_the_ready():
            while not over.is_set():
                pids = [int(line.split("pid=")[1].split()[0]) for line in node.daemon_log().splitlines() if "daemon.ready" in line]
                if len(pids) > len(killed) and len(killed) < 12:
                    killed.append(pids[-1])
                    try:
                        os.kill(pids[-1], signal.SIGKILL)
                    except ProcessLookupError:
                        pass  # it had left by itself

        killer = threading.Thread(target=kill_the_ready)
        killer.start()
        try:
            for _ in range(3 * SCALE):
                runs = [node.start("run", "--", "sh", "-c", "echo ran; exit 4") for _ in range(6)]
                ends = [(run.wait(timeout=200), run.stdout.read()) for run in runs]
                assert ends == [(4, "ran\n")] * 6, (ends, [run.stderr.read() for run in runs])
        finally:
            over.set()
            killer.join()
        assert killed
        until(lambda: not node.daemon_pid(), "the last one does not leave with its last tenant")


if __name__ == "__main__":
    run(globals())
