# SPDX-License-Identifier: Apache-2.0
"""`mete` as a person uses it, on a simulated node of its own. argv[1] of a test is the build folder."""
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
from meted import require, run, until  # noqa: E402,F401  (the tests call it)

BUILD = os.path.abspath(sys.argv[1])
MIB, GIB = 1 << 20, 1 << 30


def workload(name):
    return os.path.join(BUILD, "examples", name)


class Node:
    """A simulated machine, the user's own folder on it, and everything that ran there."""

    def __init__(self, **environment):
        self.place = tempfile.mkdtemp(prefix="mete-", dir="/tmp")
        os.mkdir(os.path.join(self.place, "sim"))
        self.environment = {key: value for key, value in os.environ.items()
                            if not key.startswith("METE_SIM") and key not in ("CUDA_VISIBLE_DEVICES", "LD_PRELOAD", "METE_DRIVER", "METE_SOCKET")}
        self.environment.update(XDG_RUNTIME_DIR=self.place, METE_SIM_DIR=os.path.join(self.place, "sim"),
                                LD_LIBRARY_PATH=os.path.join(BUILD, "sim", "lib"), METE_SIM_PATTERN="on",
                                METE_SIM_CONTEXT_COST="1ms")
        self.environment.update(environment)
        self.started = []

    def mete(self, *arguments, **more):
        """Runs `mete ARGUMENTS` to its end."""
        environment = dict(self.environment, **more)
        return subprocess.run([os.path.join(BUILD, "cli", "mete"), *arguments], env=environment, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=240)

    def start(self, *arguments, **more):
        """Starts `mete ARGUMENTS`; stdin is a pipe, so that a test decides when it ends."""
        process = subprocess.Popen([os.path.join(BUILD, "cli", "mete"), *arguments],
                                   env=dict(self.environment, **more), text=True, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0)
        self.started.append(process)
        return process

    def ps(self):
        return json.loads(self.mete("ps", "--json").stdout)

    def daemon_log(self):
        try:
            return open(os.path.join(self.place, "mete", "meted.log")).read()
        except FileNotFoundError:
            return ""

    def daemon_pid(self):
        for check in json.loads(self.mete("doctor", "--json").stdout):
            # A system's meted is not ours to end.
            if check["check"] == "daemon" and check["found"].startswith("your own meted"):
                return int(check["found"].split("pid ")[1].split(",")[0])
        return None

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        for process in self.started:
            # With its programs: at a gate that stays closed they would not see the end of their standard input.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()  # which a test may have started in another group
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                pipe.close()
        pid = self.daemon_pid()
        if pid:
            with contextlib.suppress(ProcessLookupError):  # it ends by itself, too, when nobody needs it any more
                os.kill(pid, signal.SIGTERM)
        if kind is not None:
            sys.stderr.write(self.daemon_log())
        shutil.rmtree(self.place, ignore_errors=True)


def refused(done, *words, status=None):
    """It failed with one clear sentence that holds these words."""
    assert done.returncode == status if status is not None else done.returncode != 0, (done.returncode, done.stderr)
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("mete "), done.stderr
    for word in words:
        assert word in lines[0], (word, lines[0])
