#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A process may hold what protects its memory for as long as it likes; meted, which looks at it, does not wait for that."""
import contextlib
import ctypes
import mmap
import os
import signal
import tempfile
import threading

from meted import *
from stuck_files import FLUSH, READ, StuckFiles

LOW = 0x10000  # below every program
MAP_FIXED, MMAP = 0x10, 9


@contextlib.contextmanager
def stuck_files():
    with tempfile.TemporaryDirectory() as folder:
        files = StuckFiles(folder)
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


def hold_memory(path, go):
    """Does not return, and the lock of this process's memory is held: what is to be mapped has a page that is just being read. What /proc shows first is
    part of the change."""
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    assert libc.mmap(LOW, 2 * PAGE, mmap.PROT_READ, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_FIXED, -1, 0) == LOW
    cached, direct = os.open(path, os.O_RDONLY), os.open(path, os.O_RDWR)
    threading.Thread(target=os.pread, args=(cached, 1, 0), daemon=True).start()
    os.read(go, 1)
    libc.mmap(LOW + PAGE, PAGE, mmap.PROT_READ, mmap.MAP_PRIVATE | MAP_FIXED, direct, 0)


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


run(globals())
