#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# About: what meted with 256 silent tenants does, and how much memory it has
"""meted with 256 tenants, each a `mete run` of its own whose program has a context, on the simulated driver:
what it does in 5 s while they are silent, and how much memory it has: without the simulated machine's
pages, which its management library maps. And what an ask costs there, counted by callgrind on the stub.

Counted twice: system calls by strace, where it may be used; and context switches, since a thread that
sleeps in a system call cannot make another one without waking up.
"""
import os
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
import time

GUESTS, SECONDS = 256, 5
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, "build/plain")
sys.path.insert(0, os.path.join(ROOT, "bench"))
from resident import memory_mib  # noqa: E402

busy = runpy.run_path(os.path.join(ROOT, "bench/busy-daemon.py"))
Crowd, Daemon, tenants = busy["Crowd"], busy["Daemon"], busy["tenants"]


def fail(reason):
    print("daemon-size: " + reason, file=sys.stderr)
    sys.exit(1)


def status(pid):
    return open(f"/proc/{pid}/status").read()


def switches(pid):
    counts = {}
    for thread in os.listdir(f"/proc/{pid}/task"):
        counts[thread] = re.findall(r"ctxt_switches:\t(\d+)", status(f"{pid}/task/{thread}"))
    return counts


def strace(pid):
    """System calls begun within the time; None: strace cannot be used here."""
    with tempfile.NamedTemporaryFile("r") as trace:
        ran = subprocess.run(["timeout", str(SECONDS), "strace", "-f", "-o", trace.name, "-p", str(pid)],
                             capture_output=True, text=True)
        if "attached" not in ran.stderr:
            return None
        lines = [line for line in trace.read().splitlines() if re.match(r"\d+ +\w+\(", line)]
        # The call in which each thread slept when strace came is shown again: it is not a new one.
        threads = {line.split()[0] for line in lines}
        return len(lines) - len(threads)


def daemon_with_contexts():
    place = tempfile.mkdtemp(prefix="mete-size-")
    environment = dict(os.environ, XDG_RUNTIME_DIR=place, LD_LIBRARY_PATH=BUILD + "/sim/lib",
                       METE_SIM_DIR=place + "/sim", METE_SIM_CONTEXT_COST="0", METE_SIM_MEMORY="64GiB")
    os.mkdir(place + "/sim", 0o700)
    hold_read, hold_write = os.pipe()
    runs = []
    try:
        for _ in range(GUESTS):
            runs.append(subprocess.Popen([BUILD + "/cli/mete", "run", "--", BUILD + "/bench/idle_guest"], stdin=hold_read,
                                         stdout=subprocess.PIPE, env=environment))
            if len(runs) % 8 == 0 and any(run.stdout.readline() != b"ready\n" for run in runs[-8:]):
                fail("a guest has no context")
        log = open(place + "/mete/meted.log").read()
        pid = int(re.findall(r"daemon\.ready .*pid=(\d+)", log)[-1])
        # meted looks at tenants that have changed for some seconds (decision 56), and gives memory back.
        for _ in range(60):
            before = switches(pid)
            time.sleep(2)
            if switches(pid) == before:
                break
        time.sleep(SECONDS)
        woken = sum(int(n) for n in sum(switches(pid).values(), [])) - sum(int(n) for n in sum(before.values(), []))
        traced = strace(pid) if shutil.which("strace") else None
        print(f"context switches in {SECONDS} s: {woken}; system calls by strace: {'not counted' if traced is None else traced}")
        ours, simulated = memory_mib(pid, place + "/sim")
        print(f"beside it, the simulated machine's pages: {simulated:.2f} MiB")
        print(f"figure: daemon_idle_syscalls_5s {max(woken, traced or 0)} calls")
        print(f"figure: daemon_rss_mib_256_guests {ours:.2f} MiB")
    finally:
        os.close(hold_read)
        os.close(hold_write)
        for run in runs:
            run.wait(timeout=60)
        shutil.rmtree(place, ignore_errors=True)


def instructions(count, asks):
    """All that meted executes, from its start to its end, with `count` tenants of which one asks."""
    with tempfile.NamedTemporaryFile("r") as out:
        with Daemon(place=tempfile.mkdtemp(prefix="mete-", dir="/dev/shm"),
                    wrap=("valgrind", "--tool=callgrind", "-q", "--callgrind-out-file=" + out.name)) as meted:
            made, _ = tenants(meted.place, count)
            holders = Crowd([tenant.socket for tenant in made[1:]], "hold")
            asker = Crowd([made[0].socket], "ask", asks, 0)
            asker.go()
            asker.process.wait()
            holders.end()
            meted.process.terminate()
            meted.wait()
        return int(re.search(r"^(?:totals|summary): (\d+)", out.read(), re.M).group(1))


def main():
    daemon_with_contexts()
    each = {}
    for count in (1, 256):
        each[count] = (instructions(count, 3000) - instructions(count, 1000)) / 2000
    print(f"figure: ask_instructions_1_tenant {each[1]:.0f} instructions")
    print(f"figure: ask_instructions_256_tenants {each[256]:.0f} instructions")


main()
