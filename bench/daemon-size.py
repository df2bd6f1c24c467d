#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""meted with 256 guests, each a process of its own with libmete in it, on the simulated driver: what it
does in 5 s while they are silent, and how much memory it has.

Counted twice: system calls by strace, where it may be used; and context switches, since a thread that
sleeps in a system call cannot make another one without waking up.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

GUESTS, SECONDS = 256, 5
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, "build/plain")


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


def main():
    place = tempfile.mkdtemp(prefix="mete-size-")
    environment = dict(os.environ, XDG_RUNTIME_DIR=place, LD_LIBRARY_PATH=BUILD + "/sim/lib",
                       METE_SIM_DIR=place + "/sim")
    os.mkdir(place + "/sim", 0o700)
    hold_read, hold_write = os.pipe()
    many = f"exec 3<&0; for i in $(seq {GUESTS}); do {BUILD}/bench/idle_guest <&3 & done; wait"
    run = subprocess.Popen([BUILD + "/cli/mete", "run", "--", "sh", "-c", many], stdin=hold_read, env=environment)
    os.close(hold_read)
    try:
        for _ in range(600):
            listed = subprocess.run([BUILD + "/cli/mete", "ps", "--json"], env=environment, capture_output=True, text=True)
            found = listed.stdout.count('"pid"')
            if listed.returncode == 0 and found >= GUESTS:
                break
            if run.poll() is not None:
                fail("mete run ended")
            time.sleep(0.1)
        else:
            fail(f"only {found} of {GUESTS} guests joined")
        log = open(place + "/mete/meted.log").read()
        pid = int(re.findall(r"daemon\.ready .*pid=(\d+)", log)[-1])
        time.sleep(1)  # what the last `mete ps` caused
        before = switches(pid)
        time.sleep(SECONDS)
        woken = sum(int(n) for n in sum(switches(pid).values(), [])) - sum(int(n) for n in sum(before.values(), []))
        traced = strace(pid) if shutil.which("strace") else None
        print(f"context switches in {SECONDS} s: {woken}; system calls by strace: {'not counted' if traced is None else traced}")
        rss = int(re.search(r"VmRSS:\s+(\d+)", status(pid)).group(1)) / 1024
        print(f"figure: daemon_idle_syscalls_5s {max(woken, traced or 0)} calls")
        print(f"figure: daemon_rss_mib_256_guests {rss:.2f} MiB")
    finally:
        os.close(hold_write)
        run.wait(timeout=60)
        shutil.rmtree(place, ignore_errors=True)


main()
