#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""As protocol.py: attackers that use what the kernel offers between processes, against whoever is at the other end."""
import ctypes
import mmap
import os
import resource
import signal
import socket
import struct
import sys
import tempfile
import threading

import protocol
from protocol import KEPT, SECONDS, SOCKET, bare, joined, quietly, rounds
from meted import MIB, PAGE, encode
import filelock
import linger
from stuck_files import READ, StuckFiles, UnwrittenFiles, hold_memory

PLACE = os.path.dirname(os.path.dirname(os.path.dirname(SOCKET)))
ASK = encode("credit_ask", 7, device=0, wait=0, bytes=MIB, want=MIB)


def connected(path):
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    peer.connect(path)
    return peer


def marks():
    """The names at which meteds find that they share a device."""
    return {line.split()[-1] for line in open("/proc/net/unix") if line.split()[-1].startswith("@mete/")}


# ---- descriptors that somebody else has to close --------------------------------------------------


def descriptors_lingering():
    """TCP connections that take an hour to close lie in its messages, after HELLO and before, and on the admin socket"""
    def work(make):
        for _ in rounds():
            peer = quietly(make)
            if peer:
                KEPT.append(quietly(lambda: linger.post(peer, ASK)))
                peer.close()

    makers = [lambda: joined().socket, bare, lambda: connected(PLACE + "/admin.sock")] * 2
    threads = [threading.Thread(target=work, args=(make,)) for make in makers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def descriptors_behind():
    """likewise, behind empty messages, many in one queue, and at the mark by which meteds find each other"""
    names = marks()
    for turn, _ in enumerate(rounds()):
        name = names and sorted(names)[turn % len(names)]
        peer = quietly(lambda: connected("\0" + name[1:]) if name and turn % 4 == 3 else bare())
        if not peer:
            continue
        quietly(lambda: [peer.send(b"", socket.MSG_DONTWAIT) for _ in range(turn % 5)])
        for _ in range(4):
            KEPT.append(quietly(lambda: linger.post(peer, b"")))
        peer.close()


def descriptors_large():
    """files of memory, 256 MiB each, whose pages the last one to close them has to free"""
    for _ in rounds():
        peer = quietly(bare)
        if not peer:
            continue
        file = linger.memory(256 * MIB)
        quietly(lambda: socket.send_fds(peer, [ASK], [file]))
        os.close(file)
        peer.close()


def descriptors_in_circles():
    """as many descriptors as it may have lie in sockets that lie in each other, collected again and again"""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    guest = joined()
    for _ in rounds():
        for _ in range(200):
            a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            quietly(lambda: [socket.send_fds(a, [b"x"], [b.fileno()] * 100, socket.MSG_DONTWAIT) for _ in range(10)])
            quietly(lambda: socket.send_fds(b, [b"x"], [a.fileno()] * 100, socket.MSG_DONTWAIT))
            a.close()
            b.close()
        quietly(lambda: guest.credit(MIB))
        quietly(lambda: guest.give_back(MIB))
        quietly(lambda: joined())


def descriptors_unwritten():
    """files with a page that is never written back (FUSE) lie in its messages, and whoever closes them last waits for ever"""
    files = UnwrittenFiles(tempfile.mkdtemp(prefix="unwritten-", dir=PLACE))
    KEPT.append(files)
    for make in [bare, lambda: joined().socket, lambda: connected(PLACE + "/admin.sock")] * 3:
        peer = quietly(make)
        if peer:
            quietly(lambda: files.unwritten(lambda fd: socket.send_fds(peer, [ASK], [fd])))
            peer.close()


# ---- connections ----------------------------------------------------------------------------------


def half_closed():
    """connections of which one half is closed, of those that ask and of those that have not said who they are"""
    for turn, _ in enumerate(rounds()):
        guest = quietly(lambda: joined() if turn % 2 else None)
        peer = guest.socket if guest else quietly(bare)
        if not peer:
            continue
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        quietly(lambda: peer.send(ASK))
        quietly(lambda: peer.shutdown((socket.SHUT_RD, socket.SHUT_WR)[turn // 2 % 2]))
        quietly(lambda: [peer.send(encode("processes_ask", n + 8, device=0), socket.MSG_DONTWAIT) for n in range(50)])
        KEPT.append(peer)


def read_where_nothing_comes():
    """its threads read answers into pages that never come, and send from such pages, on 16 connections"""
    if not filelock.can_hold():
        return
    guests = [quietly(joined) for _ in range(16)]
    uffd = filelock.libc.syscall(filelock.SYS_USERFAULTFD, os.O_CLOEXEC)
    pages = mmap.mmap(-1, 64 * PAGE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    filelock.fcntl.ioctl(uffd, filelock.UFFDIO_API, bytearray(struct.pack("<QQQ", filelock.UFFD_API, 0, 0)))
    filelock.fcntl.ioctl(uffd, filelock.UFFDIO_REGISTER, bytearray(struct.pack("<QQQQ", address, 64 * PAGE, filelock.MISSING, 0)))
    KEPT.append((uffd, pages))
    for n, guest in enumerate(filter(None, guests)):
        for call, page in (filelock.libc.recv, 2 * n), (filelock.libc.send, 2 * n + 1):
            threading.Thread(target=call, args=(guest.socket.fileno(), ctypes.c_void_p(address + page * PAGE), PAGE, 0), daemon=True).start()
        quietly(lambda: guest.socket.send(encode("processes_ask", 9, device=0), socket.MSG_DONTWAIT))
    for _ in rounds():
        for guest in filter(None, guests):
            quietly(lambda: guest.socket.send(ASK, socket.MSG_DONTWAIT))


# ---- its memory -----------------------------------------------------------------------------------


def serve_files(folder, tell):
    """A process whose files are below /proc/PID/root; it says when they are there, and when somebody waits for one."""
    child = os.fork()
    if child == 0:
        try:
            files = StuckFiles(folder)
            os.write(tell, b"1")
            files.wait_for(READ, 60)
            os.write(tell, b"1")
            signal.pause()
        finally:
            os._exit(1)
    return child


def memory_held_for_ever():
    """holds the lock of its memory for ever, in which lies what it was called with (mete ps)"""
    quietly(joined)
    heard, tell = os.pipe()
    folder = tempfile.mkdtemp(prefix="held-", dir=PLACE)
    server = serve_files(folder, tell)
    os.close(tell)
    if os.read(heard, 1):
        print("holds", flush=True)
        hold_memory(f"/proc/{server}/root{folder}/file", heard)


# ---- what a user has so many of -------------------------------------------------------------------


def notices_all():
    """takes every inotify instance that its user may have, and watches meted's folder by each"""
    init, watch = filelock.libc.inotify_init1, filelock.libc.inotify_add_watch
    for _ in range(1 << 16):
        fd = init(0o2004000)
        if fd < 0:
            break
        watch(fd, PLACE.encode(), 0xFFF)
    quietly(lambda: joined().credit(100 * MIB))


def signals_all():
    """has all signals that its user may have wait, and meted's answers announce themselves by more of them"""
    guest = joined()
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
    child = os.fork()
    if child == 0:
        signal.pause()
    for number in range(1 << 17):
        if filelock.libc.sigqueue(child, 40 + number % 20, ctypes.c_void_p(0)) != 0:
            break
    fd = guest.socket.fileno()
    filelock.fcntl.fcntl(fd, filelock.fcntl.F_SETOWN, child)
    filelock.fcntl.fcntl(fd, 10, 50)  # F_SETSIG
    filelock.fcntl.fcntl(fd, filelock.fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    protocol.flood(guest, encode("processes_ask", 1, device=0))


HELPERS = {"connected", "marks", "serve_files"}

if __name__ == "__main__":
    protocol.main(protocol.catalogue(sys.modules["__main__"], HELPERS))
