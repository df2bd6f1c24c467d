#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""meted is killed again and again under real programs on the simulated driver: none of them fails.

argv[3]: the build's folder. 8 deaths; METE_TEST_SCALE above 1: so many times 20 (METE_TEST_KILLS: just so many).
"""
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time

from meted import *

BUILD = sys.argv.pop(3)
SCALE = int(os.environ.get("METE_TEST_SCALE", "1"))
KILLS = int(os.environ.get("METE_TEST_KILLS", 20 * SCALE if SCALE > 1 else 8))
PROGRAMS = ("train", "matmul", "torture", "graph-loop")
# More than torture's threads hold when each of them is at its peak (526 MiB), with a context and 2 MiB pages.
LIMIT = "768MiB"


def checksum(ran):
    found = re.search(r"checksum=(\w+)", ran.stdout)
    return found.group(1) if found else None


class Load(threading.Thread):
    """One program after the other, each its own tenant, until it is told to stop."""

    def __init__(self, program, wanted, environment, stop):
        super().__init__()
        self.program, self.wanted, self.environment, self.stop = program, wanted, environment, stop
        self.runs, self.failures = 0, []

    def run(self):
        while not self.stop.is_set() and not self.failures:
            ran = subprocess.run([BUILD + "/cli/mete", "run", "-m", LIMIT, "--", f"{BUILD}/examples/{self.program}"],
                                 env=self.environment, capture_output=True, text=True)
            self.runs += 1
            if ran.returncode != 0 or checksum(ran) != self.wanted or "out of memory" in ran.stderr:
                self.failures.append((self.program, ran.returncode, ran.stdout, ran.stderr))


def test_programs_do_not_notice_that_meted_dies_under_them():
    seed = int(os.environ.get("METE_SEED", time.time_ns() % 1000000))
    print(f"METE_SEED={seed}")
    generator = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="mete-load-") as runtime:
        environment = dict(os.environ, XDG_RUNTIME_DIR=runtime, LD_LIBRARY_PATH=BUILD + "/sim/lib",
                           METE_SIM_DIR=runtime + "/sim")
        os.mkdir(runtime + "/sim", 0o700)
        place, stop = runtime + "/mete", threading.Event()
        loads = []
        for program in PROGRAMS:
            bare = subprocess.run([f"{BUILD}/examples/{program}"], env=environment, capture_output=True, text=True)
            assert bare.returncode == 0 and checksum(bare), bare
            loads.append(Load(program, checksum(bare), environment, stop))
        for load in loads:
            load.start()
        killed = set()
        while len(killed) < KILLS and not any(load.failures for load in loads):
            try:
                admin = Admin(place)
            except (OSError, Gone):
                os.sched_yield()
                continue
            pid = admin.welcome.pid
            # Not before somebody has come (back), and then somewhere in what it is doing for them.
            more = generator.randrange(200)
            try:
                while more or not any(row.kind == "guest_row" for row in admin.list()):
                    admin.list()
                    more = max(0, more - 1)
            except (OSError, Gone):
                continue
            try:
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
            except ProcessLookupError:
                pass
            admin.close()
        stop.set()
        for load in loads:
            load.join()
        print(f"{len(killed)} deaths, {sum(load.runs for load in loads)} programs")
        if any(load.failures for load in loads):
            sys.stderr.write(open(place + "/meted.log").read()[-6000:])
        for load in loads:
            assert not load.failures, load.failures
            assert load.runs, load.program
        # The last one ends by itself; the folder must not go before.
        try:
            Admin(place).ask("shutdown", force=1)
        except (OSError, Gone):
            pass


if __name__ == "__main__":
    run(globals())
