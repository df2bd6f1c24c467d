# SPDX-License-Identifier: Apache-2.0
"""Children of a test that are guests until they are killed, and what meted notices of that by itself."""
import os
import signal

from meted import *  # noqa: F401,F403
from meted import until


def forked(work):
    """A child process that runs work() and then waits to be killed; returns its pid once work() is done."""
    ready, done = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            keep = work()  # what it returns must stay open
            os.write(done, b"1")
            signal.pause()
            del keep
        finally:
            os._exit(1)
    os.close(done)
    assert os.read(ready, 1) == b"1"
    os.close(ready)
    return pid


def kill(pid):
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def eventually(admin, what):
    """meted learns of a death by itself: asks until what(admin) is true."""
    until(lambda: admin.list() and what())
