#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A process may hold what protects its memory for as long as it likes; meted, which looks at it, does not wait for that."""
import contextlib
import os
import signal
import socket
import tempfile

import filelock
from meted import *
from stuck_files import FLUSH, LOW, READ, WRITE, StuckFiles, UnwrittenFiles, hold_memory

MMAP = 9


@contextlib.contextmanager
def stuck_files(kind=StuckFiles):
    with tempfile.TemporaryDirectory() as folder:
        files = kind(folder)
        try:
            yield files
        finally:
            files.close()


def as_guest(socket_path, then):
    """A child that is a guest, with a child of its own that ends the connection when it is told to. (pid, the end by which it is told)"""
    orders, give = os.pipe()
    joined, said = os.pipe()
    pid = os.fork()
    if pid == 0:
        guest = Guest(socket_path, seat=Here(), copy=1)
        if os.fork() == 0:
            os.read(orders, 1)
            guest.socket.shutdown(socket.SHUT_RDWR)
            os._exit(0)
        os.write(said, b"1")
        then()
        os._exit(1)
    os.read(joined, 1)
    return pid, give


def end(pid, files):
    os.kill(pid, signal.SIGKILL)
    files.close()
    os.waitpid(pid, 0)


def test_a_process_that_holds_the_lock_of_its_memory_holds_up_nobody():
    with stuck_files() as files, Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")
        go, tell = os.pipe()
        pid, hang_up = as_guest(made.socket, lambda: hold_memory(files.folder + "/file", go))
        files.wait_for(READ, PATIENCE)
        os.write(tell, b"1")
        until(lambda: open(f"/proc/{pid}/syscall").read().startswith(f"{MMAP} {LOW + PAGE:#x} "), "it does not wait in mmap()")
        os.write(hang_up, b"1")
        until(lambda: "guest.away" in meted.log(), "meted waits for its memory")
        assert admin.tenant_row(made.tenant).guests == 1
        end(pid, files)


def execute(path, go):
    """It stays in the middle of execve(), where a descriptor is to be closed."""
    os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    os.read(go, 1)
    os.execv("/bin/sleep", ["sleep", str(4 * PATIENCE)])


def test_a_process_in_the_middle_of_execve_holds_up_nobody():
    with stuck_files() as files, Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")
        go, tell = os.pipe()
        pid, hang_up = as_guest(made.socket, lambda: execute(files.folder + "/file", go))
        os.write(tell, b"1")
        files.wait_for(FLUSH, PATIENCE)
        os.write(hang_up, b"1")
        until(lambda: "guest.away" in meted.log(), "meted waits for the end of its execve()")
        assert admin.tenant_row(made.tenant).guests == 1
        # What it was is known when that is over.
        files.close()
        until(lambda: admin.tenant_row(made.tenant).guests == 0, "it is not found to be another program")
        end(pid, files)


def test_a_process_in_the_middle_of_execve_holds_up_no_meted_that_starts():
    with stuck_files() as files, Daemon("--grace", f"{PATIENCE}s") as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")
        go, tell = os.pipe()
        pid, _ = as_guest(made.socket, lambda: execute(files.folder + "/file", go))
        meted.kill()
        os.write(tell, b"1")
        files.wait_for(FLUSH, PATIENCE)
        meted.start()
        assert Admin(meted.place).tenant_row(made.tenant).guests == 1
        end(pid, files)


def test_a_file_that_is_never_written_back_keeps_meted_from_nothing():
    """It lies in messages, and whoever closes it last waits for ever, and cannot be killed."""
    filelock.require_hold()
    with stuck_files(UnwrittenFiles) as files, Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")
        for turn in range(3):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as peer:
                peer.connect(made.socket if turn else meted.place + "/admin.sock")
                files.unwritten(lambda fd: socket.send_fds(peer, [b"m"], [fd]))
        files.wait_for(WRITE, PATIENCE)
        assert admin.tenant_row(made.tenant)
        meted.process.send_signal(signal.SIGTERM)
        assert meted.wait() == 0, meted.log()
        meted.start()
        assert Admin(meted.place).tenant("1GiB")


run(globals())
