#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bugs that are planted in core/turns*.c, one at a time: the tests of its laws must find each.

Arguments: ROOT CC
A row: the file, what stands there once, what is put in its place, and what breaks by that.
"""

import os
import subprocess
import sys
import tempfile
import unittest

ROOT, CC = sys.argv[1], sys.argv[2].split()
SEEDS = ("1", "2")

PLANTED = [
    ("tenant", "while (d->governed && !d->holder && !d->strays)", "while (d->governed && !d->holder)",
     "a turn begins before what ran on the open device has drained"),
    ("account", "return s->gate != TURNS_OPENED || !s->tenant->paused;",
     "return s->gate == TURNS_OPENED && !s->tenant->paused;", "a drain is not charged"),
    ("account", "s->allowance > saved", "s->allowance > 40 * saved", "a cap saves up too much"),
    ("judge", "over = at <= now_ns;", "over = false;", "a cap that is used up ends no turn"),
    ("line", "least(s->wanted_ns + d->turns->tuning.starve_ns, turns_seat_due(s, now_ns))",
     "turns_seat_due(s, now_ns)", "who waits for long is never next"),
    ("drain", "\t\tcouple(s);\n\t\treopen(t, now_ns);", "\t\thang(s, now_ns);",
     "who is coupled is reported as hung"),
    ("drain", "\tt->escalated = true;\n", "", "who hangs is killed twice"),
    ("drain", "now_ns - began >= most(t->turns->tuning.hang_ns, t->deadline_ns)",
     "now_ns - began >= t->turns->tuning.drain_ns", "who takes long to drain is reported too soon"),
    (None, "SEAT_OF_TENANT(link)->device->order > s->device->order",
     "SEAT_OF_TENANT(link)->device->order == s->device->order",
     "claims are made in the order of joining"),
    ("tenant", "\tturns_tenant_enter(t, now_ns);\n\tlist_for_each(link, &t->seats) turns_device_serve",
     "\tturns_tenant_enter(t, now_ns);\n\tif (false)\n\tlist_for_each(link, &t->seats) turns_device_serve",
     "a device stands still after a turn"),
    ("tenant", "\tt->wants |= s->asks;\n", "", "who stood at a gate is forgotten"),
    ("judge", "now_ns >= t->retry_ns))\n", "true))\n", "who is coupled is closed at every turn's end"),
    ("judge", "\tt->idle = true;\n\tt->idle_ns = now_ns;\n", "\tt->idle_ns = now_ns;\n",
     "who is idle keeps its turn"),
    ("account", "return ns * WEIGHT_UNIT / s->tenant->share.weight;", "return ns * WEIGHT_UNIT / 100;",
     "weights mean nothing"),
    ("account", "if (!rate)\n\t\treturn UINT64_MAX;", "if (rate < 2000)\n\t\treturn UINT64_MAX;",
     "guarantees mean nothing"),
    ("account", "\tclock_move(s->device, -beyond * s->tenant->share.weight);\n", "",
     "the clock is no mean any more"),
    ("judge", "if (best == s && s->tenant->share.class < t->share.class)", "if (false)",
     "interactive tenants wait for the shortest turn"),
    ("device", "!d->uneven && ", "", "several processes have several slices"),
    ("device", "d->weights_squared * d->tenants == d->weights * d->weights", "d->weights > 0",
     "different weights make no difference"),
    ("tenant", "\t\tt->wants = t->idle = t->paused = t->forced = t->hung = t->attempt = false;\n"
     "\t\tturns_timer_set(&t->turns->timers, &t->timer, UINT64_MAX);\n", "",
     "an open device waits for a time"),
    ("heap", "\tset_first(heap, meld(heap->first, children));\n", "\t(void)children;\n",
     "the heap loses nodes"),
]


def sources():
    core = os.path.join(ROOT, "core")
    return sorted(f for f in os.listdir(core) if f.startswith("turns") and f.endswith(".c"))


class Planted(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="mete-planted-")
        cls.addClassCleanup(cls.folder.cleanup)
        world = ["core/share.c", "base/fault.c", "base/text.c", "tests/test_main.c"] + [
            "replay/time_%s.c" % name for name in ("engine", "load", "measure", "outcome", "world")]
        for path in ["core/" + name for name in sources()] + world + [
                "tests/unit/test_turns.c", "tests/unit/test_turns_always.c"]:
            cls.compile(os.path.join(ROOT, path))
        cls.world = [cls.object(path) for path in world]

    @classmethod
    def object(cls, path):
        return os.path.join(cls.folder.name, os.path.basename(path)[:-2] + ".o")

    @classmethod
    def compile(cls, path, output=None):
        subprocess.run(CC + ["-std=gnu11", "-O1", "-w", "-D_GNU_SOURCE", "-I", ROOT, "-c", path, "-o",
                             output or cls.object(path)], check=True)

    def passes(self, objects):
        for test in ("test_turns_always", "test_turns"):
            program = os.path.join(self.folder.name, "program")
            subprocess.run(CC + objects + self.world + [self.object(test + ".c"), "-lcmocka", "-lm",
                                                        "-o", program], check=True)
            for seed in SEEDS:
                try:
                    done = subprocess.run([program], env={"METE_SEED": seed}, timeout=60,
                                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                except subprocess.TimeoutExpired:
                    return False
                if done.returncode != 0:
                    return False
        return True

    def test_nothing_is_found_where_nothing_was_planted(self):
        self.assertTrue(self.passes([self.object(name) for name in sources()]))

    def test_each_planted_bug_is_found(self):
        for file, old, new, breaks in PLANTED:
            name = "turns_%s.c" % file if file else "turns.c"
            with self.subTest(breaks):
                with open(os.path.join(ROOT, "core", name), encoding="ascii") as source:
                    text = source.read()
                self.assertEqual(text.count(old), 1, "core/%s has this once: %s" % (name, old))
                path = os.path.join(self.folder.name, "planted.c")
                with open(path, "w", encoding="ascii") as source:
                    source.write(text.replace(old, new))
                self.compile(path)
                objects = [self.object(other) for other in sources() if other != name]
                self.assertFalse(self.passes(objects + [self.object(path)]), breaks)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
