# SPDX-License-Identifier: Apache-2.0
"""A mount namespace in which the system's meted can be: only root can make it."""
import ctypes
import os

CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE = 0x20000, 0x1000, 0x4000, 1 << 18


def own_machine():
    """A /run and an /etc/mete that nobody else sees, and nothing new where others see it."""
    libc = ctypes.CDLL(None, use_errno=True)

    def mount(source, folder, kind=None, flags=0, data=None):
        if libc.mount(source.encode(), folder.encode(), kind and kind.encode(), flags, data and data.encode()) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), folder)

    if libc.unshare(CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "unshare")
    mount("none", "/", flags=MS_REC | MS_PRIVATE)
    mount("tmpfs", "/run", "tmpfs", data="mode=755")
    # A folder in /etc is there for everybody: so we have an /etc of our own, of links to what it was.
    os.mkdir("/run/etc", 0o755)
    mount("/etc", "/run/etc", flags=MS_BIND | MS_REC)
    mount("tmpfs", "/etc", "tmpfs", data="mode=755")
    for name in os.listdir("/run/etc"):
        if name != "mete":
            os.symlink("/run/etc/" + name, "/etc/" + name)
    os.mkdir("/etc/mete", 0o755)
