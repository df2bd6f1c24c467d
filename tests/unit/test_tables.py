#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tables of cuda/ and what is generated from them, seen from outside.

Arguments: ROOT CC SETS
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

ROOT, CC, SETS = sys.argv[1], sys.argv[2].split(), sys.argv[3].split(",")
sys.path.insert(0, os.path.join(ROOT, "cuda"))
sys.dont_write_bytecode = True
import api

GEN = os.path.join(ROOT, "cuda/gen.py")
GOOD = ("CUDA_FUNCTION(cuMemAlloc, 3020, PLAIN, cuMemAlloc_v2, ALLOC, NONE, CUresult, "
        "(CUdeviceptr_v2 *dptr, size_t n), (dptr, n))")


class Tables(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="mete-tables-")
        self.addCleanup(self.folder.cleanup)

    def table(self, *lines):
        path = os.path.join(self.folder.name, "api.def")
        with open(path, "w", encoding="ascii") as file:
            file.write("/* a comment\n * of two lines */\n" + "\n".join(lines) + "\n")
        return path

    def refused(self, reason, *lines):
        with self.assertRaises(api.ApiError) as caught:
            api.load(self.table(*lines))
        self.assertIn(reason, str(caught.exception))
        self.assertIn("api.def", str(caught.exception))

    def compiles(self, line):
        """Does cuda/api.c compile with this table?"""
        folder = os.path.join(self.folder.name, "cuda")
        os.makedirs(folder, exist_ok=True)
        os.replace(self.table(line), os.path.join(folder, "api.def"))
        done = subprocess.run([*CC, "-std=gnu11", "-fsyntax-only", "-I", self.folder.name, "-I",
                               ROOT, os.path.join(ROOT, "cuda/api.c")], capture_output=True)
        return done.returncode == 0

    def test_a_row_is_read_with_its_parameters(self):
        row, = api.load(self.table(GOOD))
        self.assertEqual((row.base, row.version, row.stream, row.symbol),
                         ("cuMemAlloc", 3020, "PLAIN", "cuMemAlloc_v2"))
        self.assertEqual([(p.type, p.name, p.kind) for p in row.params],
                         [("CUdeviceptr_v2 *", "dptr", "pointer"), ("size_t", "n", "integer")])

    def test_a_bad_row_is_refused_with_its_line_number(self):
        self.refused(":4:", GOOD, GOOD.replace("ALLOC, ", "").replace("_v2,", "_v9,"))
        self.refused("no such class", GOOD.replace("ALLOC", "SOMETHING"))
        self.refused("no such stream", GOOD.replace("PLAIN", "FANCY"))
        self.refused("a reason belongs", GOOD.replace("ALLOC", "REFUSE"))
        self.refused("a reason belongs", GOOD.replace("NONE", "OTHER_PROCESS"))
        self.refused("not the parameters' names", GOOD.replace("(dptr, n)", "(n, dptr)"))
        self.refused("declares", GOOD.replace("size_t", "CUnothing"))

    def test_no_symbol_has_two_rows(self):
        self.refused("the same symbol", GOOD, GOOD.replace("3020", "3030"))
        self.refused("the same base, version, stream", GOOD, GOOD.replace("_v2,", "_v3,"))

    def test_a_row_without_a_known_class_does_not_compile(self):
        self.assertTrue(self.compiles(GOOD))
        self.assertFalse(self.compiles(GOOD.replace("ALLOC, ", "")))
        self.assertFalse(self.compiles(GOOD.replace("ALLOC", "SOMETHING")))
        self.assertFalse(self.compiles(GOOD.replace("NONE", "SOMETHING")))
        self.assertFalse(self.compiles(GOOD.replace("PLAIN", "SOMETHING")))

    def test_there_is_a_set_for_each_version_that_brought_functions(self):
        versions = sorted({max(row.version, 11000) for row in api.load()})
        self.assertEqual(SETS, [f"{v // 1000}.{v % 1000 // 10}" for v in versions])

    def exports(self, *arguments):
        path = os.path.join(self.folder.name, "map")
        subprocess.run([sys.executable, GEN, "map", path, *arguments], check=True)
        with open(path, encoding="ascii") as file:
            text = file.read()
        self.assertRegex(text, r"local:\n\t\*;\n")
        return set(re.findall(r"\t(\w+);", text))

    def test_a_map_exports_the_functions_of_the_driver_of_that_version(self):
        old, new = self.exports("cuda", "12.9"), self.exports("cuda", "13.0")
        self.assertEqual((len(old), len(new)), (655, 672))
        self.assertIn("cuCtxGetDevice", old)
        self.assertEqual({"cuCtxGetDevice_v2", "cuMemcpyBatchAsync_v2_ptsz"} & old, set())
        self.assertEqual({"cuCtxGetDevice_v2", "cuMemcpyBatchAsync_v2_ptsz"} & new,
                         {"cuCtxGetDevice_v2", "cuMemcpyBatchAsync_v2_ptsz"})
        nvml = self.exports("nvml")
        self.assertEqual(len(nvml), 441)
        self.assertEqual(self.exports("both", "12.9"), old | nvml)

    def test_a_bad_version_is_refused_in_one_sentence(self):
        for wrong in (("cuda", "twelve"), ("cuda", ""), ("fish", "12.9")):
            done = subprocess.run([sys.executable, GEN, "map", "/dev/null", *wrong],
                                  capture_output=True, text=True)
            self.assertNotEqual(done.returncode, 0)
            self.assertEqual(len(done.stderr.splitlines()), 1)
            self.assertIn("accepted", done.stderr)

    def test_the_same_table_makes_the_same_bytes(self):
        made = []
        for seed in ("1", "2"):
            for what in ("resolve", "recorder", "null", "caller"):
                path = os.path.join(self.folder.name, what)
                subprocess.run([sys.executable, GEN, what, path], check=True,
                               env={**os.environ, "PYTHONHASHSEED": seed})
                with open(path, "rb") as file:
                    made.append(file.read())
        self.assertEqual(made[:4], made[4:])

    def test_nothing_that_starts_a_program_is_missing_from_nvml(self):
        rows = {row.symbol: row for row in api.load_nvml()}
        for name in ("nvmlInit", "nvmlInit_v2", "nvmlDeviceGetMemoryInfo",
                     "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetComputeRunningProcesses",
                     "nvmlDeviceGetComputeRunningProcesses_v3"):
            self.assertIsNotNone(rows[name].params)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
