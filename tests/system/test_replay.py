#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mete replay: tables, JSON, plots, progress; the same job gives the same bytes. argv: mete"""
import gzip
import json
import os
import subprocess
import sys
import tempfile
import xml.dom.minidom

METE = os.path.abspath(sys.argv[1])
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../bench/data/openb")


def replay(*arguments):
    return subprocess.run([METE, "replay", *arguments], capture_output=True, text=True, timeout=800)


def unpack(folder):
    for name in ("openb_node_list_gpu_node", "openb_pod_list_default", "openb_pod_list_gpuspec33"):
        with gzip.open(os.path.join(DATA, name + ".csv.gz")) as packed:
            with open(os.path.join(folder, name + ".csv"), "wb") as plain:
                plain.write(packed.read())


def main():
    with tempfile.TemporaryDirectory() as folder:
        unpack(folder)
        out = os.path.join(folder, "out")
        done = replay("--placement", "-s", "42-43", "-p", "fgd,foresight", "-o", out, folder)
        assert done.returncode == 0, done
        assert "1 of 4: default, fgd, seed 42\n" in done.stderr, done.stderr
        assert done.stdout.startswith("default: mean of 2 seeds"), done.stdout
        written = open(os.path.join(out, "replay.json")).read()
        runs = json.loads(written)["runs"]
        assert [(r["policy"], r["seed"]) for r in runs] == [("fgd", 42), ("fgd", 43), ("foresight", 42),
                                                            ("foresight", 43)], runs
        for run in runs:
            assert len(run["allocated"]) == len(run["stranded"]) == 131
            assert 94 < run["allocated"][130] < 97 and 3 < run["stranded"][130] < 6, run
            # Nobody does better than packing all parts offline.
            assert all(a <= b + 0.5 for a, b in zip(run["allocated"], run["bound"])) and 95.5 < run["bound"][130] < 96.5, run
        # On the same arrivals, seed by seed.
        assert all(runs[i + 2]["allocated"][130] > runs[i]["allocated"][130] for i in range(2))
        for name, lines in (("default-allocated.svg", 3), ("default-stranded.svg", 2)):
            plot = xml.dom.minidom.parse(os.path.join(out, name))
            assert len(plot.getElementsByTagName("polyline")) == lines

        again = replay("--placement", "-q", "-j", "-s", "42-43", "-p", "fgd,foresight", folder)
        assert again.stderr == "" and again.stdout == written, again.stderr

        every = replay("--placement", "-q", "-l", "all", "-s", "1", "-p", "binpack", folder)
        assert every.stdout.count("mean of 1 seeds") == 2 and "gpuspec33" in every.stdout, every

        # As bench/data keeps it; a table that is there as it is comes first.
        # There what was published is, too: of fgd.
        packed = replay("--placement", "-q", "-j", "-s", "42-43", "-p", "fgd,foresight", "-o", out, DATA)
        for name, lines in (("default-allocated.svg", 4), ("default-stranded.svg", 3)):
            plot = xml.dom.minidom.parse(os.path.join(out, name))
            assert len(plot.getElementsByTagName("polyline")) == lines
        assert packed.stdout == written, packed.stderr
        broken = os.path.join(folder, "broken")
        os.mkdir(broken)
        with open(os.path.join(broken, "openb_node_list_gpu_node.csv.gz"), "wb") as half:
            half.write(open(os.path.join(DATA, "openb_node_list_gpu_node.csv.gz"), "rb").read()[:2000])
        done = replay("--placement", "-q", broken)
        assert done.returncode == 1 and "csv.gz: gzip cannot unpack it" in done.stderr, done

        over = replay("--placement", "-q", "-j", "-s", "42", "-p", "foresight", "--overcommit", "125%", folder)
        assert json.loads(over.stdout)["runs"][0]["allocated"][130] > 98.5

        lives = os.path.join(folder, "lives")
        done = replay("--placement", folder, "--departures", "--load", "100%", "--lifetimes", "1.5", "--warm-up", "0.5",
                      "-s", "1-2", "-p", "best-fit,foresight", "-o", lives)
        assert done.returncode == 0 and "4 of 4: " not in done.stdout, done
        assert done.stdout.startswith("default, load 1, 1 lifetimes after 0.5 of warm-up, 2 seeds"), done.stdout
        written = json.load(open(os.path.join(lives, "replay.json")))
        assert (written["load_milli"], written["recorded"], len(written["runs"])) == (1000, False, 4), written
        for run in written["runs"]:
            assert 0 <= run["refused"] < 8 and 60 < run["allocated"] < 97 and len(run["windows"]) == 60, run
            assert sum(size["refused_milli"] for size in run["sizes"].values()) <= \
                sum(size["milli"] for size in run["sizes"].values()), run
        plot = xml.dom.minidom.parse(os.path.join(lives, "default-stranded.svg"))
        assert len(plot.getElementsByTagName("polyline")) == 2
        # A file that cannot be written is reported before the work, not after.
        done = replay("--placement", "-q", "-o", os.path.join(folder, "openb_pod_list_default.csv"), folder)
        assert done.returncode == 1 and "openb_pod_list_default.csv: Not a directory" in done.stderr, done

        # Memory that does not fit: the same job gives the same bytes, and the plot is one.
        moved = os.path.join(folder, "moved")
        words = ("--memory", "-j", "--turn", "2s", "-o", moved, "2x name=a set=14.4G load=job:10s:2s:1s clean=50%")
        done = replay(*words)
        assert done.returncode == 0 and done.stdout == replay(*words).stdout, done
        written = json.load(open(os.path.join(moved, "memory.json")))
        assert written == json.loads(done.stdout)
        assert written["handovers"] > 2 and written["copied_bytes"] < written["out_bytes"], written
        assert [t["kernels_s"] for t in written["tenants"]] == [10, 10], written
        plot = xml.dom.minidom.parse(os.path.join(moved, "memory.svg"))
        assert len(plot.getElementsByTagName("polyline")) == 2

        for arguments, text in (((folder,), "say what to replay: --placement"),
                                (("--memory",), "name the tenants that share the device"),
                                (("--memory", "--link", "12:13", "set=1G"), "--link '12:13': accepted: GB/s each way"),
                                (("--memory", "--turn", "5", "set=1G"), "--turn '5' has no unit"),
                                (("--memory", "--cost", "0%", "set=1G"), "--cost '0%' is too little"),
                                (("--memory", "--device", "big", "set=1G"), "--device 'big': accepted: an amount"),
                                (("--memory", "--device", "0", "set=1G"), "--device '0' is zero"),
                                (("--memory", "--time", "set=1G"), "and one of them"),
                                (("--memory", "--seeds", "4", "set=1G"), "--seeds means nothing with --memory"),
                                (("--time", "--device", "16G", "weight=1"), "--device means nothing with --time"),
                                (("--placement", "--length", "1s", folder), "--length means nothing with --placement"),
                                (("--memory", "set=1"), "'set=1': accepted are"),
                                (("--memory", "--pods", "/none.csv"), "/none.csv: No such file"),
                                (("--placement",), "one folder is needed"),
                                (("--placement", "-s", "9-1", folder), "seeds '9-1'"),
                                (("--placement", "-p", "best", folder), "'best' is not a policy"),
                                (("--placement", "--overcommit", "90%", folder), "at least 100%"),
                                (("--placement", "--load", "1", folder), "need --departures"),
                                (("--placement", "--departures", "--load", "x", folder), "--load 'x' is not understood; accepted: a part"),
                                (("--placement", "--departures", "--warm-up", "20", folder), "nothing would be measured"),
                                (("--placement", "-q", "-l", "none", folder), "openb_pod_list_none.csv: No such file")):
            done = replay(*arguments)
            assert done.returncode != 0 and text in done.stderr and not done.stdout, (arguments, done)


if __name__ == "__main__":
    main()
    print("[==========] 1 test(s) run.")
