# SPDX-License-Identifier: Apache-2.0
"""Acts of a process on a file that it may write: hold its lock for ever, or contend for it."""
import ctypes
import fcntl
import mmap
import os
import signal
import struct
import threading

from meted import MIB, PAGE, Skipped, become

KEEP_SIZE, PUNCH_HOLE = 1, 2
SYS_USERFAULTFD = {"x86_64": 323, "aarch64": 282}[os.uname().machine]
UFFDIO_API, UFFDIO_REGISTER, UFFDIO_ZEROPAGE, UFFD_API, MISSING = 0xC018AA3F, 0xC020AA00, 0xC020AA04, 0xAA, 1
USER = 65534

libc = ctypes.CDLL(None, use_errno=True)
KEPT = []  # pages


class Child:
    """Does it to the file, until it is ended."""

    def __init__(self, work, fd):
        reads, writes = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                work(fd, lambda: os.write(writes, b"y"))
            finally:
                os._exit(1)
        os.close(writes)
        self.does = os.read(reads, 1) == b"y"
        os.close(reads)

    def end(self):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        self.pid = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


def page_that_never_comes():
    """(the descriptor by which is heard who waits for it, its address)"""
    uffd = libc.syscall(SYS_USERFAULTFD, os.O_CLOEXEC)
    page = ctypes.c_char.from_buffer(mmap.mmap(-1, PAGE))
    KEPT.append(page)
    address = ctypes.addressof(page)
    fcntl.ioctl(uffd, UFFDIO_API, bytearray(struct.pack("<QQQ", UFFD_API, 0, 0)))
    fcntl.ioctl(uffd, UFFDIO_REGISTER, bytearray(struct.pack("<QQQQ", address, PAGE, MISSING, 0)))
    return uffd, address


def let_come(uffd, address):
    """A page of zeros."""
    fcntl.ioctl(uffd, UFFDIO_ZEROPAGE, bytearray(struct.pack("<QQQq", address, PAGE, 0, 0)))


def write_what_never_comes(fd, ready):
    """The kernel takes the file's lock and waits for the page that it is to copy from."""
    uffd, address = page_that_never_comes()
    threading.Thread(target=lambda: libc.pwrite(fd, ctypes.c_void_p(address), PAGE, ctypes.c_long(0)), daemon=True).start()
    os.read(uffd, 32)  # it waits
    ready()
    signal.pause()


def allocate_and_punch(fd, ready, threads=24, bytes=256 * MIB):
    """As an ordinary user, without end."""
    become(USER)
    begun = threading.Semaphore(0)

    def work(n):
        while True:
            libc.fallocate(fd, 0, ctypes.c_long(0), ctypes.c_long(bytes))
            libc.fallocate(fd, PUNCH_HOLE | KEEP_SIZE, ctypes.c_long(0), ctypes.c_long(bytes))
            begun.release()

    for n in range(threads):
        threading.Thread(target=work, args=(n,), daemon=True).start()
    begun.acquire()
    ready()
    signal.pause()


def can_hold():
    """Whether faults can be left unanswered here."""
    uffd = libc.syscall(SYS_USERFAULTFD, os.O_CLOEXEC)
    if uffd >= 0:
        os.close(uffd)
    return uffd >= 0


def require_hold():
    if not can_hold():
        raise Skipped("nobody may handle page faults here (userfaultfd); run it as root, in a container with CAP_SYS_PTRACE")
