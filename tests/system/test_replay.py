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
        # On the same arrivals, seed by seed.
        assert all(runs[i + 2]["allocated"][130] > runs[i]["allocated"][130] for i in range(2))
        for name in ("default-allocated.svg", "default-stranded.svg"):
            plot = xml.dom.minidom.parse(os.path.join(out, name))
            assert len(plot.getElementsByTagName("polyline")) == 2

        again = replay("--placement", "-q", "-j", "-s", "42-43", "-p", "fgd,foresight", folder)
        assert again.stderr == "" and again.stdout == written, again.stderr

        every = replay("--placement", "-q", "-l", "all", "-s", "1", "-p", "binpack", folder)
        assert every.stdout.count("mean of 1 seeds") == 2 and "gpuspec33" in every.stdout, every

        # As bench/data keeps it; a table that is there as it is comes first.
        packed = replay("--placement", "-q", "-j", "-s", "42-43", "-p", "fgd,foresight", DATA)
        assert packed.stdout == written, packed.stderr
        broken = os.path.join(folder, "broken")
        os.mkdir(broken)
        with open(os.path.join(broken, "openb_node_list_gpu_node.csv.gz"), "wb") as half:
            half.write(open(os.path.join(DATA, "openb_node_list_gpu_node.csv.gz"), "rb").read()[:2000])
        done = replay("--placement", "-q", broken)
        assert done.returncode == 1 and "csv.gz: gzip cannot unpack it" in done.stderr, done

        over = replay("--placement", "-q", "-j", "-s", "42", "-p", "foresight", "--overcommit", "1250", folder)
        assert json.loads(over.stdout)["runs"][0]["allocated"][130] > 98.5

        lives = os.path.join(folder, "lives")
        done = replay("--placement", folder, "--departures", "--load", "1", "--lifetimes", "1.5", "--warm-up", "0.5",
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
        # What cannot be written is said before the work, not after.
        done = replay("--placement", "-q", "-o", os.path.join(folder, "openb_pod_list_default.csv"), folder)
        assert done.returncode == 1 and "openb_pod_list_default.csv: Not a directory" in done.stderr, done

        for arguments, text in (((folder,), "say what to replay: --placement"),
                                (("--placement",), "one folder is needed"),
                                (("--placement", "-s", "9-1", folder), "seeds '9-1'"),
                                (("--placement", "-p", "best", folder), "'best' is no policy"),
                                (("--placement", "--overcommit", "900", folder), "1000 to 4000"),
                                (("--placement", "--load", "1", folder), "need --departures"),
                                (("--placement", "--departures", "--load", "x", folder), "--load 'x': a number from"),
                                (("--placement", "--departures", "--warm-up", "20", folder), "nothing would be measured"),
                                (("--placement", "-q", "-l", "none", folder), "openb_pod_list_none.csv: No such file")):
            done = replay(*arguments)
            assert done.returncode != 0 and text in done.stderr and not done.stdout, (arguments, done)


if __name__ == "__main__":
    main()
    print("[==========] 1 test(s) run.")
