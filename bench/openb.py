#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# About: placement: the published comparison on openb, and foresight beside it
"""openb's protocol: the published comparison reproduced, and foresight beside it.

make -s bench BENCH=openb     twelve pod lists, ten seeds, seven policies; one core, some minutes

The published means are those of bench/data/openb/published_*.csv.gz (its NOTICE says whose).
Plots and every number go into build/openb (or METE_BENCH_OUTPUT).
"""
import csv
import gzip
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DATA = os.path.join(ROOT, "bench", "data", "openb")
METE = os.environ.get("METE", os.path.join(ROOT, "build", "plain", "cli", "mete"))
OUTPUT = os.environ.get("METE_BENCH_OUTPUT", os.path.join(ROOT, "build", "openb"))
PUBLISHED = {"random": "01-Random", "dot-product": "02-DotProd", "clustering": "03-GpuClustering",
             "packing": "04-GpuPacking", "best-fit": "05-BestFit", "fgd": "06-FGD"}


def unpack(folder):
    for name in os.listdir(DATA):
        if name.endswith(".csv.gz"):
            with gzip.open(os.path.join(DATA, name)) as packed:
                with open(os.path.join(folder, name[:-3]), "wb") as plain:
                    shutil.copyfileobj(packed, plain)


def published(folder, kind):
    """{(list, policy): {percent: mean of the seeds}}"""
    values = {}
    with open(os.path.join(folder, f"published_{kind}.csv")) as table:
        for row in csv.DictReader(table):
            key = row["workload"].replace("openb_pod_list_", ""), row["sc_policy"]
            for percent in (100, 130):
                values.setdefault(key, {}).setdefault(percent, []).append(float(row[str(percent)]))
    return {key: {p: statistics.mean(v) for p, v in of.items()} for key, of in values.items()}


def replay(folder, output, *options):
    """{(list, policy): [run of each seed]}"""
    subprocess.run([METE, "replay", "--placement", "--output", output, *options, folder], check=True)
    runs = {}
    with open(os.path.join(output, "replay.json")) as result:
        for run in json.load(result)["runs"]:
            runs.setdefault((run["list"], run["policy"]), []).append(run)
    return runs


def mean(runs, what, percent):
    return statistics.mean(run[what][percent] for run in runs)


def gains(runs, name, percent):
    """foresight less fgd, seed by seed, on the same arrivals"""
    return [mine["allocated"][percent] - theirs["allocated"][percent]
            for mine, theirs in zip(runs[name, "foresight"], runs[name, "fgd"])]


def print_comparison(runs, allocated, stranded):
    print("\ndefault, mean of 10 seeds: ours (published, difference)")
    worst = 0
    for policy, name in PUBLISHED.items():
        cells = []
        for what, expected in (("allocated", allocated), ("stranded", stranded)):
            for percent in (100, 130):
                ours, theirs = mean(runs["default", policy], what, percent), expected["default", name][percent]
                cells.append(f"{what} {percent} %: {ours:6.2f} ({theirs:5.2f}, {ours - theirs:+.2f})")
                if what == "allocated":
                    worst = max(worst, abs(ours - theirs))
        print(f"{policy:12}", "  ".join(cells))
    return worst


def print_lists(runs, allocated):
    print("\nall lists: allocated at 100 % and 130 %, foresight less our fgd, seeds in which it is better at 130 %, "
          "stranded at 130 %, published fgd")
    least, seeds, worst = 100, 10, 100
    for name in sorted({name for name, _ in runs}):
        at = {p: statistics.mean(gains(runs, name, p)) for p in (100, 130)}
        better = sum(gain > 0 for gain in gains(runs, name, 130))
        mine = [mean(runs[name, "foresight"], "allocated", p) for p in (100, 130)]
        lost = [mean(runs[name, p], "stranded", 130) for p in ("fgd", "foresight")]
        theirs = allocated.get((name, "06-FGD"))
        print(f"{name:12} {mine[0]:6.2f} {mine[1]:6.2f}   {at[100]:+.2f} {at[130]:+.2f}   {better}/10   "
              f"{lost[0]:5.2f} -> {lost[1]:5.2f}   "
              + (f"{theirs[100]:.2f} {theirs[130]:.2f}" if theirs else "none"))
        worst = min(worst, *(statistics.mean(gains(runs, name, p)) for p in (90, 95)))
        if name != "default":
            least, seeds = min(least, at[130]), min(seeds, better)
    return least, seeds, worst


def main():
    quick = "--quick" in sys.argv[1:]  # the default list only
    with tempfile.TemporaryDirectory() as folder:
        unpack(folder)
        allocated, stranded = published(folder, "allo"), published(folder, "frag")
        runs = replay(folder, OUTPUT)
        over = replay(folder, OUTPUT + "-overcommit", "--policies", "foresight", "--overcommit", "125%")
        worst = print_comparison(runs, allocated, stranded)
        if not quick:
            others = ",".join(sorted(name[15:-4] for name in os.listdir(folder)
                                     if name.startswith("openb_pod_list_") and "default" not in name))
            more = replay(folder, OUTPUT + "-lists", "--lists", others)
            least, seeds, worst_90 = print_lists({**runs, **more}, allocated)
    mine = runs["default", "foresight"]
    gain = gains(runs, "default", 130)
    print()
    print(f"figure: openb_reproduced_within {worst:.2f} points")
    print(f"figure: openb_allocated_100 {mean(mine, 'allocated', 100):.2f} percent")
    print(f"figure: openb_allocated_130 {mean(mine, 'allocated', 130):.2f} percent")
    print(f"figure: openb_gain_over_fgd {statistics.mean(gain):.2f} points")
    print(f"figure: openb_seeds_better_than_fgd {sum(g > 0 for g in gain)} of_10")
    print(f"figure: openb_stranded_130 {mean(mine, 'stranded', 130):.2f} percent")
    print(f"figure: openb_stranded_130_fgd {mean(runs['default', 'fgd'], 'stranded', 130):.2f} percent")
    print(f"figure: openb_allocated_overcommit {mean(over['default', 'foresight'], 'allocated', 130):.2f} percent")
    if not quick:
        print(f"figure: openb_worst_against_fgd_90 {worst_90:.2f} points")
        print(f"figure: openb_least_gain_of_other_lists {least:.2f} points")
        print(f"figure: openb_least_seeds_better_of_other_lists {seeds} of_10")


if __name__ == "__main__":
    main()
