# SPDX-License-Identifier: Apache-2.0
"""A control group's bounds, in which processes go on, but hardly: a hundredth of a processor (a pod's limit of 10m), or no page more.

A v1 group with `memory.oom_control` has who needs a page wait for one, as v2's `memory.high` nearly does: nobody is killed.
"""
import os

from freezer import mounted_with

FREE, TIGHT = 1 << 62, 8 << 20
KINDS = {  # (version, controller): the file of members, what bounds, what frees again
    "slow_v1": ("cgroup", "cpu", "cgroup.procs", {"cpu.cfs_period_us": 100000, "cpu.cfs_quota_us": 1000}, {"cpu.cfs_quota_us": -1}),
    "slow_v2": ("cgroup2", "cpu", "cgroup.procs", {"cpu.max": "1000 100000"}, {"cpu.max": "max 100000"}),
    "tight_v1": ("cgroup", "memory", "cgroup.procs", {"memory.limit_in_bytes": TIGHT, "memory.oom_control": 1}, {"memory.oom_control": 0, "memory.limit_in_bytes": -1}),
    "tight_v2": ("cgroup2", "memory", "cgroup.procs", {"memory.high": TIGHT}, {"memory.high": "max"}),
}


def place_of(kind):
    """None: this machine has no such groups, or they have no such controller."""
    wanted, controller = KINDS[kind][:2]
    place = mounted_with(wanted, controller if wanted == "cgroup" else "")
    if place and wanted == "cgroup2" and controller not in open(place + "/cgroup.subtree_control").read().split():
        return None
    return place


def bounds():
    return [kind for kind in KINDS if place_of(kind)]


class Bound:
    """A group of its own. Who is in it when it is left is free again."""

    def __init__(self, kind):
        _, _, self.members, self.tight, self.free = KINDS[kind]
        self.up = place_of(kind)
        self.place = f"{self.up}/mete-hostile-{os.getpid()}"

    def write(self, place, file, text):
        try:
            with open(f"{place}/{file}", "w") as to:
                to.write(str(text))
        except OSError:
            pass  # it has ended, or has more than that already

    def __enter__(self):
        os.makedirs(self.place, exist_ok=True)
        return self

    def hold(self, pids):
        for pid in pids:
            self.write(self.place, self.members, pid)
        for file, text in self.tight.items():
            self.write(self.place, file, text)

    def release(self):
        for file, text in self.free.items():
            self.write(self.place, file, text)

    def __exit__(self, *_):
        self.release()
        for pid in open(f"{self.place}/{self.members}").read().split():
            self.write(self.up, self.members, pid)
        try:
            os.rmdir(self.place)
        except OSError:
            pass
