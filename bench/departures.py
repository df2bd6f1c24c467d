#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# About: placement: what each policy refuses while pods come and go
"""Clusters that live: what each policy refuses while pods come and go (`mete replay --placement --departures`), on
openb's twelve lists and on those of bench/data/made_lists.py, at loads of 0.9 and 1.0.

make -s bench BENCH=departures      five seeds: 15 minutes on two cores; DEPARTURES_SEEDS=1-2 for less

A list's ratio is what foresight refuses over what the best of Best Fit, FGD, packing and dot product refuses on it.
Where hardly anything is refused a ratio means nothing: 0.05 points are added to both.
"""
import concurrent.futures
import json
import os
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "bench", "data"))
sys.path.insert(0, os.path.join(ROOT, "bench"))
import made_lists  # noqa: E402
import openb  # noqa: E402

SEEDS = os.environ.get("DEPARTURES_SEEDS", "1-5")
RIVALS = ("best-fit", "fgd", "packing", "dot-product")
LOADS = ("0.9", "1")
SLACK = 0.05  # points


def folders(folder):
    at = os.path.join(folder, "openb")
    os.mkdir(at)
    openb.unpack(at)
    return [at, *made_lists.make(folder)]


def lists_of(folder):
    return sorted(name[15:-4] for name in os.listdir(folder) if name.startswith("openb_pod_list_"))


def refused(folder, name, load):
    """{policy: (percent of what was asked for, percent of the pods with more than four GPUs)}, means of the seeds"""
    done = subprocess.run([openb.METE, "replay", "--placement", "--departures", "--load", f"{float(load):.3f}", "-l", name, "-s", SEEDS, "-q",
                           "--json", "-p", ",".join(RIVALS + ("foresight",)), folder], check=True, text=True,
                          stdout=subprocess.PIPE)
    runs = {}
    for run in json.loads(done.stdout)["runs"]:
        eights = run["sizes"]["8"]
        runs.setdefault(run["policy"], []).append((run["refused"], 100 * eights["refused"] / max(1, eights["pods"])))
    return {policy: tuple(statistics.mean(values) for values in zip(*of)) for policy, of in runs.items()}


def main():
    ratios, eights = {}, {}
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        cases = [(at, name, load) for at in folders(folder) for name in lists_of(at) for load in LOADS]
        print(f"{'list':<34} {'load':>4} {'the best of the others':<22} {'refused':>8} {'foresight':>9} {'ratio':>6}   "
              "8-GPU pods refused: least of the others, foresight", flush=True)
        for (at, name, load), means in zip(cases, pool.map(lambda case: refused(*case), cases)):
            mine, best = means["foresight"], min(RIVALS, key=lambda policy: means[policy][0])
            least = min(means[policy][1] for policy in RIVALS)
            key = f"{os.path.basename(at)}/{name}"
            ratio = ratios[key, load] = (mine[0] + SLACK) / (means[best][0] + SLACK)
            eights[key, load] = (mine[1] + 1) / (least + 1)
            print(f"{key:<34} {load:>4} {best:<22} {means[best][0]:8.3f} {mine[0]:9.3f} {ratio:6.2f}   "
                  f"{least:6.2f} {mine[1]:6.2f}", flush=True)
    worst, large = max(ratios, key=ratios.get), max(eights, key=eights.get)
    print(f"the worst list is {' at '.join(worst)}; for 8-GPU pods {' at '.join(large)}")
    print(f"figure: refused_against_best {statistics.mean(ratios.values()):.3f} ratio")
    print(f"figure: refused_against_best_worst {ratios[worst]:.3f} ratio")
    print(f"figure: eights_refused_against_least_worst {eights[large]:.2f} ratio")


if __name__ == "__main__":
    main()
