# SPDX-License-Identifier: Apache-2.0
"""A simulated machine with a daemon, for tests of real guests: TEST.py METED SIMULATOR GUEST_LINKS PROGRAM."""
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
LINKS, LOAD = sys.argv[3:5]
del sys.argv[3:5]
from meted import *

DRIVER = sys.argv[2] + "/libcuda.so.1"
# A plain Python cannot load a library that is instrumented by a sanitizer.
INSTRUMENTED = any(mark in open(LINKS + "/libcuda.so.1", "rb").read() for mark in (b"__asan_init", b"__tsan_init"))
SCALE = int(os.environ.get("METE_TEST_SCALE", "1"))


class Load:
    """The program in a tenant: asked line by line."""

    def __init__(self, node, tenant, *arguments):
        self.node, self.tenant = node, tenant
        self.process = subprocess.Popen([LOAD, *arguments], env=node.guest_environment(tenant) | {"ASAN_OPTIONS": "protect_shadow_gap=0:detect_leaks=0"},
                                        text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=1)
        self.greeting = self.hear()

    def hear(self):
        line = self.process.stdout.readline().strip()
        assert line, self.process.wait()
        return line

    def tell(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")

    def ask(self, *words):
        self.tell(*words)
        return self.hear()

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(timeout=PATIENCE) == 0


class Node:
    """A simulated machine of its own, with a daemon and a tenant."""

    def __init__(self, memory="160MiB", **settings):
        self.folder = tempfile.mkdtemp(prefix="mete-sim-")
        self.environment = dict(os.environ, METE_SIM_DIR=self.folder, METE_SIM_RATE="1000",
                                METE_SIM_CONTEXT_COST="0", METE_SIM_CREATE_COST="0", METE_SIM_MAP_COST="0",
                                METE_SIM_UNMAP_COST="0", METE_SIM_PATTERN="0", **settings)
        self.memory = memory

    def __enter__(self):
        # A program that a busy machine keeps from coming back after a restart is waited for.
        self.meted = Daemon("--grace", f"{PATIENCE}s", environment=self.environment)
        self.meted.__enter__()
        self.admin = Admin(self.meted.place)
        self.tenant = self.admin.tenant(self.memory)
        return self

    def __exit__(self, *what):
        self.admin.close()
        self.meted.__exit__(*what)
        shutil.rmtree(self.folder, ignore_errors=True)

    def guest_environment(self, tenant=None):
        return dict(self.environment, METE_SOCKET=(tenant or self.tenant).socket, METE_DRIVER=os.path.dirname(DRIVER),
                    LD_LIBRARY_PATH=LINKS)

    def row(self):
        return self.admin.tenant_row(self.tenant.tenant)
