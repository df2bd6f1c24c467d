# SPDX-License-Identifier: Apache-2.0
"""A file system whose only file (of whatever name) answers when it likes: neither reads nor the closing of a descriptor end before it is closed.

It speaks the kernel's protocol itself (linux/fuse.h, 7.31). Who opens the file for reading gets the kernel's cache, who opens it for writing does not.
"""
import ctypes
import errno
import os
import struct
import threading

from meted import Skipped

LOOKUP, GETATTR, OPEN, READ, RELEASE, FLUSH, INIT, NEVER = 1, 3, 14, 15, 18, 25, 26, (2, 36, 42)
FOPEN_DIRECT_IO = 1
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

    def __init__(self, folder):
        if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
            raise Skipped("a file system of one's own needs root and /dev/fuse")
        self.folder, self.asked, self.come = folder, set(), threading.Condition()
        libc = ctypes.CDLL(None, use_errno=True)
        check(libc.unshare(CLONE_NEWNS))
        check(libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None))
        self.fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        check(libc.mount(b"stuck", folder.encode(), b"fuse", 0, f"fd={self.fd},rootmode=40000,user_id=0,group_id=0".encode()))
        threading.Thread(target=self.serve, daemon=True).start()

    def reply(self, unique, body=b"", error=0):
        os.write(self.fd, struct.pack("<IiQ", 16 + len(body), -error, unique) + body)

    def answer(self, opcode, unique, node, body):
        if opcode == INIT:
            self.reply(unique, struct.pack("<4I2H2I2H8I", 7, 31, 0, 0, 12, 9, BYTES, 1, 0, 0, *[0] * 8))
        elif opcode == LOOKUP:
            self.reply(unique, struct.pack("<4Q2I", FILE, 0, 1000, 1000, 0, 0) + attributes(FILE))
        elif opcode == GETATTR:
            self.reply(unique, struct.pack("<Q2I", 1000, 0, 0) + attributes(node))
        elif opcode == OPEN:
            writes = struct.unpack_from("<I", body)[0] & os.O_ACCMODE
            self.reply(unique, struct.pack("<QIi", 1, FOPEN_DIRECT_IO if writes else 0, 0))
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
            if opcode not in (READ, FLUSH):
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
