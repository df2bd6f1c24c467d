# SPDX-License-Identifier: Apache-2.0
"""A file system whose files (of whatever names) answer when they like: neither reads nor the closing of a descriptor end before it is closed, or
(`UnwrittenFiles`) nothing that the kernel keeps is ever written back.

It speaks the kernel's protocol itself (linux/fuse.h, 7.31). Who opens the file for reading gets the kernel's cache, who opens it for writing does not.
"""
import ctypes
import errno
import mmap
import os
import socket
import struct
import threading

import filelock
from meted import PAGE, Skipped, require

LOOKUP, GETATTR, SETATTR, OPEN, READ, WRITE, RELEASE, FLUSH, INIT, NEVER = 1, 3, 4, 14, 15, 16, 18, 25, 26, (2, 36, 42)
FOPEN_DIRECT_IO = 1
WRITEBACK_CACHE = 1 << 16
LOW, MAP_FIXED = 0x10000, 0x10  # below every program
CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 0x40000
ROOT, FILE, BYTES = 1, 2, 4096


def check(result):
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def attributes(node):
    mode, size = (0o40755, 0) if node == ROOT else (0o100666, BYTES)
    return struct.pack("<6Q10I", node, size, 8, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, BYTES, 0)


class StuckFiles:
    """In a mount namespace of this process's, which ends with it."""
    features, unanswered = 0, (READ, FLUSH)

    def __init__(self, folder):
        require("namespaces")
        try:
            self.fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise Skipped(f"/dev/fuse: {error.strerror}; `modprobe fuse`, and in a container hand it in") from None
        self.folder, self.files, self.asked, self.come = folder, {}, set(), threading.Condition()
        libc = ctypes.CDLL(None, use_errno=True)
        check(libc.unshare(CLONE_NEWNS))
        check(libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None))
        check(libc.mount(b"stuck", folder.encode(), b"fuse", 0, f"fd={self.fd},rootmode=40000,user_id=0,group_id=0".encode()))
        threading.Thread(target=self.serve, daemon=True).start()

    def reply(self, unique, body=b"", error=0):
        os.write(self.fd, struct.pack("<IiQ", 16 + len(body), -error, unique) + body)

    def answer(self, opcode, unique, node, body):
        if opcode == INIT:
            self.reply(unique, struct.pack("<4I2H2I2H8I", 7, 31, 0, self.features, 12, 9, BYTES, 1, 0, 0, *[0] * 8))
        elif opcode == LOOKUP:
            file = self.files.setdefault(body.rstrip(b"\0"), FILE + len(self.files))
            self.reply(unique, struct.pack("<4Q2I", file, 0, 1000, 1000, 0, 0) + attributes(file))
        elif opcode in (GETATTR, SETATTR):
            self.reply(unique, struct.pack("<Q2I", 1000, 0, 0) + attributes(node))
        elif opcode == OPEN:
            writes = struct.unpack_from("<I", body)[0] & os.O_ACCMODE
            self.reply(unique, struct.pack("<QIi", 1, FOPEN_DIRECT_IO if writes and not self.features else 0, 0))
        elif opcode == RELEASE:
            self.reply(unique)
        elif opcode not in NEVER:
            self.reply(unique, error=errno.ENOSYS)

    def serve(self):
        while True:
            try:
                message = os.read(self.fd, 1 << 16)
            except OSError:
                return
            _, opcode, unique, node = struct.unpack_from("<IIQQ", message)
            if opcode not in self.unanswered:
                self.answer(opcode, unique, node, message[40:])
            with self.come:
                self.asked.add(opcode)
                self.come.notify_all()

    def wait_for(self, opcode, seconds):
        """Until somebody waits there."""
        with self.come:
            assert self.come.wait_for(lambda: opcode in self.asked, seconds), "nobody asks"

    def close(self):
        """All who wait are refused."""
        ctypes.CDLL(None).umount2(self.folder.encode(), 1 | 2)  # MNT_FORCE, which ends what was asked, and MNT_DETACH


class UnwrittenFiles(StuckFiles):
    """What is written stays in the kernel, and who waits for its way to the file waits for ever."""
    features, unanswered = WRITEBACK_CACHE, (WRITE,)

    def unwritten(self, post):
        """Calls post(descriptor) of a socket in which such a file lies. Nobody here has the file afterwards: closing it waits in whoever closes it last.

        A descriptor that is closed here has its page written. So it is closed in the middle of a write, whose page comes after that."""
        uffd, address = filelock.page_that_never_comes()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        fd = os.open(f"{self.folder}/{len(self.files)}", os.O_RDWR)
        writer = threading.Thread(target=filelock.libc.pwrite, args=(fd, ctypes.c_void_p(address), BYTES, ctypes.c_long(0)))
        writer.start()
        os.read(uffd, 32)  # it waits
        socket.send_fds(ours, [b"m"], [fd])
        os.close(fd)
        filelock.let_come(uffd, address)
        writer.join()
        ours.close()
        post(theirs.fileno())
        theirs.close()


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
