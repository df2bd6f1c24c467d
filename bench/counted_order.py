# SPDX-License-Identifier: Apache-2.0
"""The useless parts that claims leave of GPUs, by the order of devices in the slices.

stranded  openb's default list of pods arrives on its 1,213 nodes with GPUs, in random orders, until 130 % of the GPUs are asked for. kube-scheduler picks the node
       as it does by default (of the first two fifths that have room, the one that is least allocated and balanced in processors and memory) or as it can be told
       to (most allocated), and the first device that has room in the order of the node's slices: always the same one (first fit), or the fullest device first,
       for which the slices would be written again with each claim. Beside it mete's own placement (foresight) and, to check the simulation, random nodes and
       devices, both by `mete replay` too. Stranded is FGD's measure: the part of all GPUs that is free and that the list's pods cannot use, averaged over them.
"""
import collections
import csv
import gzip
import json
import os
import random
import statistics
import subprocess
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DATA = os.path.join(ROOT, "bench/data/openb")
WHOLE, ASKED, USUAL, SEEDS = 1000, 1.3, 0.95, int(os.environ.get("SEEDS", 10))
Pod = collections.namedtuple("Pod", "cpu memory gpus milli")


def read(name):
    with gzip.open(os.path.join(DATA, f"openb_{name}.csv.gz"), "rt") as table:
        return list(csv.DictReader(table))


def pods():
    return [Pod(int(row["cpu_milli"]), int(row["memory_mib"]), int(row["num_gpu"]), int(row["gpu_milli"] or 0)) for row in read("pod_list_default")]


class Node:
    def __init__(self, row):
        self.cpu = self.all_cpu = int(row["cpu_milli"])
        self.memory = self.all_memory = int(row["memory_mib"])
        self.free = [WHOLE] * int(row["gpu"])

    def devices(self, pod):
        """Those that have room, by number; None: too few."""
        if pod.cpu > self.cpu or pod.memory > self.memory:
            return None
        fit = [n for n, free in enumerate(self.free) if free >= pod.milli] if pod.gpus else []
        return fit if len(fit) >= pod.gpus else None

    def take(self, pod, devices):
        self.cpu, self.memory = self.cpu - pod.cpu, self.memory - pod.memory
        for n in devices[:pod.gpus]:
            self.free[n] -= pod.milli

    def used(self, pod):
        return 1 - (self.cpu - pod.cpu) / self.all_cpu, 1 - (self.memory - pod.memory) / self.all_memory

    def stranded(self, pod):
        """Of its free parts, those that such a pod cannot use."""
        fit = self.devices(pod)
        return sum(self.free) if fit is None else sum(free for n, free in enumerate(self.free) if pod.gpus and n not in fit)


def score(node, pod, packs):
    cpu, memory = node.used(pod)
    mean = (cpu + memory) / 2
    return (mean if packs else 1 - mean) + 1 - abs(cpu - memory) / 2


class Scheduler:
    """`how`: "least", "most" (allocated) or "random"."""

    def __init__(self, nodes, how, fullest, rng):
        self.nodes, self.how, self.fullest, self.rng, self.next = nodes, how, fullest, rng, 0
        self.enough = max(100, len(nodes) * (50 - len(nodes) // 125) // 100) if how != "random" else len(nodes)

    def fitting(self, pod):
        found = []
        for looked in range(len(self.nodes)):
            node = self.nodes[(self.next + looked) % len(self.nodes)]
            if (devices := node.devices(pod)) is not None:
                found.append((node, devices))
            if len(found) == self.enough:
                break
        self.next = (self.next + looked + 1) % len(self.nodes)
        return found

    def place(self, pod):
        found = self.fitting(pod)
        if not found:
            return
        if self.how == "random":
            node, devices = self.rng.choice(found)
            self.rng.shuffle(devices)
        else:
            node, devices = max(found, key=lambda each: (score(each[0], pod, self.how == "most"), self.rng.random()))
        node.take(pod, sorted(devices, key=lambda n: node.free[n]) if self.fullest else devices)


def run(all_pods, usual, seed, how, fullest):
    """Percent of the GPUs that is stranded in the end, and that is allocated."""
    rng = random.Random(seed)
    nodes = [Node(row) for row in read("node_list_gpu_node")]
    everything, asked = sum(sum(node.free) for node in nodes), 0
    rng.shuffle(nodes)
    scheduler = Scheduler(nodes, how, fullest, rng)
    arrivals = rng.sample(all_pods, len(all_pods))
    while asked < ASKED * everything:
        pod = arrivals.pop() if arrivals else rng.choice(all_pods)
        asked += pod.gpus * pod.milli
        scheduler.place(pod)
    weight = sum(count for _, count in usual)
    stranded = sum(count * sum(node.stranded(pod) for node in nodes) for pod, count in usual) / weight
    return 100 * stranded / everything, 100 - 100 * sum(sum(node.free) for node in nodes) / everything


def find_usual(all_pods):
    """The most frequent pods with GPUs, up to 95 % of the list."""
    counts, found, covered = collections.Counter(all_pods), [], 0
    for pod, count in counts.most_common():
        if covered >= USUAL * len(all_pods):
            break
        covered += count
        found.append((pod, count))
    return found


def replayed():
    """By `mete replay` on the same nodes and pods: {policy: [(stranded, allocated) of each seed]}"""
    with tempfile.TemporaryDirectory() as folder:
        output = os.path.join(folder, "out")
        subprocess.run([os.path.join(ROOT, "build/plain/cli/mete"), "replay", "--placement", "--policies", "foresight,random", "--output", output, DATA],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        found = {}
        with open(os.path.join(output, "replay.json")) as result:
            for each in json.load(result)["runs"]:
                found.setdefault(each["policy"], []).append((each["stranded"][130], each["allocated"][130]))
        return found


def mean(runs):
    return tuple(statistics.mean(values) for values in zip(*runs))


def stranded():
    all_pods = pods()
    usual = find_usual(all_pods)
    ways = {("least", False): "first fit", ("least", True): "fullest device first", ("most", False): "first fit, nodes most allocated", ("random", False): "random"}
    found = {way: mean([run(all_pods, usual, seed, *way) for seed in range(SEEDS)]) for way in ways}
    theirs = {policy: mean(runs) for policy, runs in replayed().items()}
    for who, (lost, used) in [(f"simulated, {ways[way]}", row) for way, row in found.items()] + [(f"mete replay, {policy}", row) for policy, row in theirs.items()]:
        print(f"{who}: stranded {lost:.2f} %, allocated {used:.2f} %")
    print(f"figure: first_fit_stranded_percent {found['least', False][0]:.2f} percent")
    print(f"figure: fullest_first_stranded_percent {found['least', True][0]:.2f} percent")
    print(f"figure: foresight_stranded_percent {theirs['foresight'][0]:.2f} percent")
