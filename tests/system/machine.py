# SPDX-License-Identifier: Apache-2.0
"""A machine with the system's meted at /run/mete, and three users of it with real uids. A test's argv[3]: the build's folder.

Everything happens in a mount namespace with a /run and /etc/mete of its own; only root can make that, and play other users.
"""
import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import zlib

from meted import *
from own_machine import own_machine

BUILD = sys.argv.pop(3)
ALICE, BOB, CAROL = 61001, 61002, 61003
EXIT_THREAD = 93 if os.uname().machine == "aarch64" else 60  # the number of exit(2), which ends one thread
PIPE = os.pipe()  # from children that are to be heard of
PLACE, POLICY = "/run/mete", "/etc/mete/meted.yaml"


class Machine:
    """A simulated node with its system meted; `policy` is its file's text."""

    def __init__(self, policy=None, **settings):
        self.home = tempfile.mkdtemp(prefix="mete-book-")
        os.chmod(self.home, 0o755)
        for name in ("sim", "tmp"):
            os.mkdir(f"{self.home}/{name}")
            os.chmod(f"{self.home}/{name}", 0o777)
        self.write(policy)
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith(("METE_", "XDG_", "CUDA_", "LD_"))}
        self.environment.update(METE_SIM_DIR=self.home + "/sim", METE_SIM_CONTEXT_COST="0", LD_LIBRARY_PATH=BUILD + "/sim/lib",
                                TMPDIR=self.home + "/tmp", **settings)
        self.started = []
        self.meted = None

    @staticmethod
    def write(policy):
        """Anew, in the file's place, as editors do."""
        if policy is None:
            if os.path.exists(POLICY):
                os.unlink(POLICY)
            return
        with open(POLICY + ".new", "w") as file:
            file.write(policy)
        os.chmod(POLICY + ".new", 0o644)
        os.rename(POLICY + ".new", POLICY)

    def __enter__(self):
        self.meted = self.start_daemon()
        return self

    def start_daemon(self):
        os.makedirs(PLACE, mode=0o711, exist_ok=True)
        os.chmod(PLACE, 0o711)
        driver, sys.argv[2] = sys.argv[2], BUILD + "/sim/lib"
        try:
            return Daemon(role="--system", place=PLACE, environment=self.environment)
        finally:
            sys.argv[2] = driver

    def __exit__(self, *what):
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe:
                    pipe.close()
        if self.meted:
            self.meted.__exit__(*what)
        shutil.rmtree(self.home, ignore_errors=True)

    def start(self, uid, *arguments, **more):
        process = subprocess.Popen([BUILD + "/cli/mete", *arguments], env=dict(self.environment, **more), text=True, cwd="/",
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   preexec_fn=lambda: become(uid))
        self.started.append(process)
        return process

    def mete(self, uid, *arguments, **more):
        return subprocess.run([BUILD + "/cli/mete", *arguments], env=dict(self.environment, **more), text=True, cwd="/",
                              stdin=subprocess.DEVNULL, capture_output=True, preexec_fn=lambda: become(uid), timeout=PATIENCE)

    def held(self, uid, *options):
        """A tenant that stays until its stdin is closed."""
        process = self.start(uid, "run", *options, "--", "sh", "-c", "echo here; read word")
        assert process.stdout.readline() == "here\n", process.stderr.read()
        return process

    def ps(self, uid=0):
        done = self.mete(uid, "ps", "--json")
        assert done.returncode == 0, done
        return json.loads(done.stdout)

    def tenant(self, name, uid=0):
        return next((row for row in self.ps(uid)["tenants"] if row["name"] == name), None)


def program(name):
    return BUILD + "/examples/" + name


def says(done, *words, status=None):
    assert done.returncode != 0 if status is None else done.returncode == status, done
    for word in words:
        assert word in done.stderr, (word, done.stderr)


def guest_of_new(memory="1GiB"):
    """A guest of a tenant of its own, with the connection that keeps that one."""
    admin = Admin(PLACE)
    path = admin.tenant(memory).socket
    guest = Guest(path)
    guest.admin, guest.path = admin, path
    return guest


def child(uid, action):
    """It does so as that user, and waits to be killed."""
    pid = os.fork()
    if pid == 0:
        try:
            become(uid)
            kept = action()
            os.write(PIPE[1], b"x")
            while kept is not Ellipsis:
                signal.pause()
        except BaseException as error:
            sys.stderr.write(f"{error!r}\n")
            os.write(PIPE[1], b"n")
        os._exit(1)
    assert os.read(PIPE[0], 1) == b"x"
    return pid


def end(*pids):
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def stat_of(path):
    there = os.stat(path)
    return there.st_uid, there.st_mode & 0o777


def main(namespace):
    """Runs the module's tests, where there can be such a machine."""
    require_all("open-build", "namespaces")
    own_machine()
    run(namespace)
