# SPDX-License-Identifier: Apache-2.0
"""Pods that request memory and time of GPUs (`counted: amounts`).

allocate  Allocate by meted between a kubelet of our own and a small API server, with 40 pods that have GPUs and 4 that wait for room.
job40     40 equal pods on a real node with one simulated GPU, from the first one's creation until the last one's program runs, by the
          machine's clock; beside it the same pods without a GPU. Of both the processor seconds of each part of the node, which a busy machine
          changes little: `ended` are the processes that came and went (runc, its hooks, shims, programs) until the pods were gone.
rate      1,000 pods on 100 node objects that no kubelet serves, with the real kube-scheduler: from the first creation until the last pod has a
          node; pods of a tenth of a GPU against pods without GPUs, in turns.
"""
import contextlib
import itertools
import os
import statistics
import subprocess
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, "build/plain")
JOB, ROUNDS, NODES, PODS, CREATORS = 40, int(os.environ.get("ROUNDS", 3)), 100, int(os.environ.get("PODS", 1000)), 8

PLAIN = {"cpu": "100m"}


def allocate():
    sys.argv = ["counted", f"{BUILD}/node/meted", f"{BUILD}/sim/lib", BUILD]
    sys.path.insert(0, os.path.join(ROOT, "tests/plugin"))
    from test_plugin_sums import amounts, asks, container
    with amounts(slots=100) as node:
        for n in range(JOB):
            asks(node, f"p{n}", container(memory="190Mi", milli=40)).start()
        for n in range(4):
            assert "are left" in asks(node, f"waits{n}", container(memory="1Gi")).refusal()
        node.api.away()
        subprocess.run([f"{BUILD}/bench/allocate_calls", node.kubelet.plugins + "/mete-gpu.sock", "100000", "slot-199"], check=True)


def harness():
    sys.argv = ["counted", BUILD]
    sys.path.insert(0, os.path.join(ROOT, "tests/kubernetes"))
    import harness as found
    import test_sums
    return found, test_sums


def create_all(create, count):
    """Or deletes them: by several at once, as a controller does."""
    numbers = itertools.count()

    def some():
        while (n := next(numbers)) < count:
            create(n)
    threads = [threading.Thread(target=some) for _ in range(CREATORS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def uptime():
    return float(open("/proc/uptime").read().split()[0])


def job(here, test_sums, name, gpu):
    command = ("sh", "-c", "seen nvml=/none; cat /proc/uptime; exec sleep 1000")
    made = [None] * JOB

    def create(n):
        manifest = test_sums.asking(100, 25, command=command)
        if not gpu:
            del manifest["spec"]["containers"][0]["resources"]
        made[n] = here.pod(f"{name}-{n}", manifest)
    began = uptime()
    create_all(create, JOB)
    last = max(float(pod.await_line(r"^([0-9.]+) [0-9.]+$")[1]) for pod in made)
    here.end_pods()
    return last - began


def spent(here):
    """Processor seconds of the node's parts up to now."""
    pids = {name: here.cluster.part(name) for name in ("kubelet", "containerd", "apiserver", "etcd", "scheduler", "manager")}
    pids["meted"] = here.meted.pid
    rows = here.cluster.run("sh", "-c", "cat " + " ".join(f"/proc/{pid}/stat" for pid in (1, *pids.values()))).splitlines()
    ticks = [[int(word) for word in row.rpartition(")")[2].split()[11:15]] for row in rows]
    first, *others = ticks
    return {"ended": sum(first[2:]) / 100, **{name: sum(row[:2]) / 100 for name, row in zip(pids, others)}}


def job40():
    found, test_sums = harness()
    with found.node(test_sums.COUNTED, slots=50) as here:
        test_sums.await_sums(here, str(4 << 30), "1k")
        times = {gpu: [] for gpu in (True, False)}
        for n in range(ROUNDS):
            for gpu in times:
                before = spent(here)
                times[gpu].append(job(here, test_sums, f"{'gpu' if gpu else 'plain'}-{n}", gpu))
                took = {name: round(seconds - before[name], 2) for name, seconds in spent(here).items()}
                print(f"{'with' if gpu else 'without'} a GPU {times[gpu][-1]:.1f} s; processor seconds: {took}", flush=True)
    print(f"{JOB} pods on one node, seconds until the last one's program runs: {times[True]}; without a GPU: {times[False]}; load {os.getloadavg()[0]:.1f}")
    print(f"figure: job40_seconds {statistics.median(times[True]):.1f} s")
    print(f"figure: job40_plain_seconds {statistics.median(times[False]):.1f} s")


def node_object(n):
    has = {"cpu": "64", "memory": "256Gi", "pods": "200", "mete.dev/gpu": "20", "mete.dev/gpu-memory": str(80 << 30), "mete.dev/gpu-milli": "1000"}
    return {"metadata": {"name": f"object-{n}", "labels": {"bench": "counted"}},
            "status": {"capacity": has, "allocatable": has, "conditions": [{"type": "Ready", "status": "True"}]}}


def placed(here, limits, most=PODS, scheduler="default-scheduler", claim=None, on_begin=None, on_end=None):
    """Pods a second that are given a node, which has room for `most` of them. `claim`: makes one beforehand, whose name is that of the pod."""
    cluster, path = here.cluster, f"/api/v1/namespaces/{here.namespace}/pods"
    name = f"r{next(names)}"

    def create(n):
        resources = {"limits": limits, "requests": limits, **({"claims": [{"name": "g"}]} if claim else {})}
        cluster.ask("POST", path, {"metadata": {"name": f"{name}-{n}"}, "spec": {
            "nodeSelector": {"bench": "counted"}, "tolerations": [{"operator": "Exists"}], "automountServiceAccountToken": False, "schedulerName": scheduler,
            "containers": [{"name": "c", "image": "none", "resources": resources}],
            **({"resourceClaims": [{"name": "g", "resourceClaimName": f"{name}-{n}"}]} if claim else {})}})
    if claim:
        create_all(lambda n: claim(f"{name}-{n}"), PODS)
    if on_begin:
        on_begin()
    began = time.monotonic()
    create_all(create, PODS)
    while len(cluster.get(path, fieldSelector="spec.nodeName=", limit=1)["items"]):
        time.sleep(0.05)
    took = time.monotonic() - began
    if on_end:
        on_end()
    nodes = {}
    for pod in cluster.get(path)["items"]:
        nodes[pod["spec"]["nodeName"]] = nodes.get(pod["spec"]["nodeName"], 0) + 1
    assert sum(nodes.values()) == PODS and max(nodes.values()) <= most, nodes
    create_all(lambda n: cluster.ask("DELETE", f"{path}/{name}-{n}", {"gracePeriodSeconds": 0}), PODS)
    return PODS / took


names = itertools.count()


@contextlib.contextmanager
def node_objects(cluster):
    for n in range(NODES):
        cluster.ask("POST", "/api/v1/nodes", node_object(n))
    try:
        yield
    finally:
        for n in range(NODES):
            cluster.ask("DELETE", f"/api/v1/nodes/object-{n}")


def rate():
    found, _ = harness()
    with found.node() as here, node_objects(here.cluster):
        rates = {"sums": [], "plain": []}
        for _ in range(ROUNDS):
            rates["plain"].append(placed(here, PLAIN))
            rates["sums"].append(placed(here, {**PLAIN, "mete.dev/gpu": "1", "mete.dev/gpu-memory": str(8 << 30), "mete.dev/gpu-milli": "100"}, most=10))
    print(f"pods a second that kube-scheduler places on {NODES} nodes: {rates}; load {os.getloadavg()[0]:.1f}")
    print(f"figure: sums_pods_per_s {statistics.median(rates['sums']):.0f} pods/s")
    print(f"figure: sums_rate_ratio {statistics.median(rates['sums']) / statistics.median(rates['plain']):.2f}")
