# SPDX-License-Identifier: Apache-2.0
"""The kernel's freezer (`docker pause`, a suspended pod): processes stand still without a signal, and hold what they hold.

v2: `cgroup.freeze` of a group; v1: the freezer's own tree, where not even SIGKILL ends who is frozen.
"""
import os
import time

KINDS = {"v2": ("cgroup2", "", "cgroup.procs", "cgroup.freeze", "1", "0"), "v1": ("cgroup", "freezer", "cgroup.procs", "freezer.state", "FROZEN", "THAWED")}


def mounted_with(wanted, controller):
    """Where such a tree is, and can be written; None: nowhere."""
    for line in open("/proc/self/mounts"):
        _, place, what, options, *_ = line.split()
        if what == wanted and (not controller or controller in options.split(",")) and os.access(place, os.W_OK) and "ro" not in options.split(","):
            return place
    return None


def mounted(kind):
    return mounted_with(*KINDS[kind][:2])


def freezers():
    """The kinds that this machine has, the newer first."""
    return [kind for kind in KINDS if mounted(kind)]


class Freezer:
    """A group of its own. Who is in it when it is left goes on."""

    def __init__(self, kind):
        _, _, self.members, self.switch, self.frozen, self.thawed = KINDS[kind]
        self.place = f"{mounted(kind)}/mete-hostile-{os.getpid()}"

    def write(self, file, text):
        with open(f"{self.place}/{file}", "w") as to:
            to.write(text)

    def __enter__(self):
        os.makedirs(self.place, exist_ok=True)
        return self

    def __exit__(self, *_):
        self.release()
        up = os.path.dirname(self.place)
        for pid in open(f"{self.place}/{self.members}").read().split():
            try:
                with open(f"{up}/{self.members}", "w") as to:
                    to.write(pid)
            except ProcessLookupError:
                pass
        for _ in range(100):
            try:
                os.rmdir(self.place)
                return
            except OSError:
                time.sleep(0.02)

    def hold(self, pids):
        """These, and who is in it already."""
        for pid in pids:
            try:
                self.write(self.members, str(pid))
            except ProcessLookupError:
                pass
        self.write(self.switch, self.frozen)

    def release(self):
        self.write(self.switch, self.thawed)
