# SPDX-License-Identifier: Apache-2.0
"""Plants bugs in core/ROOM/PART*.c, or core/PART*.c, one at a time, and says which of them the tests of its laws do not find.

    TEST.py ROOT CC

A row: the file (core/ROOM/PART_FILE.c; None: core/ROOM/PART.c), what stands there once, what is put in its place, and what
breaks by that.
"""
import os
import subprocess
import sys
import tempfile
import unittest

ROOT, CC = sys.argv[1], sys.argv[2].split()


def room_of(part):
    """The folder of core/ that has the part's files, or core/ itself."""
    rooms = ["core"] + ["core/" + room for room in sorted(os.listdir(os.path.join(ROOT, "core")))]
    return next(room for room in rooms if os.path.isfile(os.path.join(ROOT, room, part + ".c")))


def parts_of(part):
    room = room_of(part)
    return sorted(room + "/" + name for name in os.listdir(os.path.join(ROOT, room))
                  if name.startswith(part) and name.endswith(".c"))


class Planted(unittest.TestCase):
    part, rows, tests, seeds, world = None, (), (), (), ()

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="mete-planted-")
        cls.addClassCleanup(cls.folder.cleanup)
        for path in parts_of(cls.part) + cls.world + ["tests/unit/%s.c" % name for name in cls.tests]:
            cls.compile(os.path.join(ROOT, path))

    @classmethod
    def object(cls, path):
        return os.path.join(cls.folder.name, os.path.basename(path)[:-2] + ".o")

    @classmethod
    def compile(cls, path):
        subprocess.run(CC + ["-std=gnu11", "-O1", "-w", "-D_GNU_SOURCE", "-DSANITIZED=0", "-I", ROOT, "-c", path, "-o", cls.object(path)],
                       check=True)

    def passes(self, sources):
        program = os.path.join(self.folder.name, "program")
        for test in self.tests:
            objects = [self.object(path) for path in [*sources, *self.world, test + ".c"]]
            subprocess.run(CC + objects + ["-lcmocka", "-luv", "-lm", "-o", program], check=True)
            for seed in self.seeds:
                try:
                    done = subprocess.run([program], env={"METE_SEED": seed}, timeout=60,
                                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                except subprocess.TimeoutExpired:
                    return False
                if done.returncode != 0:
                    return False
        return True

    def test_nothing_is_found_where_nothing_was_planted(self):
        self.assertTrue(self.passes(parts_of(self.part)))

    def test_each_planted_bug_is_found(self):
        for file, old, new, breaks in self.rows:
            name = "%s/%s.c" % (room_of(self.part), "%s_%s" % (self.part, file) if file else self.part)
            with self.subTest(breaks):
                with open(os.path.join(ROOT, name), encoding="ascii") as source:
                    text = source.read()
                self.assertEqual(text.count(old), 1, "%s has this once: %s" % (name, old))
                path = os.path.join(self.folder.name, "planted.c")
                with open(path, "w", encoding="ascii") as source:
                    source.write(text.replace(old, new))
                self.compile(path)
                self.assertFalse(self.passes([other for other in parts_of(self.part) if other != name] + ["planted.c"]), breaks)


def check(part, rows, tests, seeds, world):
    """`world`: what the tests need beside the part; share.c, fault.c, text.c and the tests' main are there."""
    Planted.part, Planted.rows, Planted.tests, Planted.seeds = part, rows, tests, seeds
    Planted.world = [*parts_of("share"), "base/fault.c", "base/text.c", "tests/test_main.c", *world]
    unittest.main(argv=sys.argv[:1], defaultTest="planted.Planted")
