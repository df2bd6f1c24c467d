# SPDX-License-Identifier: Apache-2.0
"""A simulated machine, and a program on it that is told line by line what to do, for tests of memory that moves. The test's
arguments: SIMULATOR_BUILD GUEST_LINKS LOAD [TEST...]."""
import os
import shutil
import sys
import tempfile

SIM, LINKS, LOAD = sys.argv[1:4]
sys.argv = [sys.argv[0], "", ""] + sys.argv[4:]
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
from meted import *
from movable_meted import *

SCALE = int(os.environ.get("METE_TEST_SCALE", "1"))


class Machine:
    """A simulated machine of its own, with the test's daemon."""

    def __init__(self, memory="512M", swap=True, chunk=4 * MIB, unmap_cost="0", **settings):
        self.folder = tempfile.mkdtemp(prefix="mete-movable-")
        self.environment = dict(os.environ, METE_SIM_DIR=self.folder, METE_SIM_MEMORY=memory, METE_SIM_CONTEXT_COST="0",
                                METE_SIM_CREATE_COST="0", METE_SIM_MAP_COST="0", METE_SIM_UNMAP_COST=unmap_cost,
                                METE_SIM_RATE="1000", ASAN_OPTIONS="protect_shadow_gap=0:detect_leaks=0",
                                TSAN_OPTIONS="die_after_fork=0", METE_SIM_PATTERN="on", **settings)
        self.fake = FakeMeted(self.folder, uuid_of(SIM, self.environment), swap=swap, chunk=chunk)

    def __enter__(self):
        return self

    def __exit__(self, *what):
        self.fake.__exit__(*what)
        shutil.rmtree(self.folder, ignore_errors=True)

    def alone(self, *program):
        out = subprocess.run(program, env=dict(self.environment, LD_LIBRARY_PATH=SIM + "/lib"), capture_output=True, text=True)
        assert out.returncode == 0, out
        return out.stdout

    def start(self, *program, **more):
        return subprocess.Popen(program, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=1,
                                env=dict(self.environment, METE_SOCKET=self.fake.path, METE_DRIVER=SIM + "/lib/libcuda.so.1",
                                         LD_LIBRARY_PATH=LINKS, **more))


class Load:
    """movable_load: asked line by line."""

    def __init__(self, machine):
        self.fake = machine.fake
        self.process = machine.start(LOAD)
        self.hear()
        self.fake.wait(lambda: any(g.stated for g in self.fake.guests))
        self.guest = self.fake.guests[-1]

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind:
            self.process.kill()
        _, error = self.process.communicate(timeout=PATIENCE)
        if kind is None:
            assert self.process.returncode == 0, error
            self.fake.wait(lambda: self.guest not in self.fake.guests)

    def hear(self):
        line = self.process.stdout.readline().strip()
        assert line, self.process.stderr.read()
        return line

    def ask(self, *words):
        self.tell(*words)
        return self.hear()

    def tell(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")

    def take(self, *sizes):
        for i, size in enumerate(sizes):
            assert self.ask("alloc", i, size) == "0"
            self.ask("fill", i, i + 1)

    def check(self, *which):
        for i in which:
            assert self.ask("check", i, i + 1) == "same", i

    def moves(self, key):
        return self.guest.movable()[key]
