# SPDX-License-Identifier: Apache-2.0
"""Attackers signal whoever their user may signal, and root may signal everybody: kill(-1) of an attack must not be the machine's end."""
import os
import shutil
import sys

HERE = "HOSTILE_APART"  # which PID namespace that is: it is inherited, and may be left behind


def numbers():
    return os.readlink("/proc/self/ns/pid")


def apart():
    """This program again, as the first process of a PID namespace: who is outside has no number there, and with us all of it ends. Where that is not
    root, its processes are not everybody's, and nothing is done."""
    if os.geteuid() != 0 or os.environ.get(HERE) == numbers():
        return
    if os.getpid() == 1 and os.environ.get(HERE):
        os.environ[HERE] = numbers()
        return
    unshare = shutil.which("unshare")
    if not unshare:
        sys.exit("hostile: as root attacks need a PID namespace of their own (unshare, of util-linux)")
    os.environ[HERE] = "begun"
    os.execv(unshare, [unshare, "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, *sys.argv])
