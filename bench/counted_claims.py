# SPDX-License-Identifier: Apache-2.0
"""Pods whose share is a claim (`counted: claims`).

burst  200 claims on a real node, allocated by us as kube-scheduler does it. The preparation of all is asked for at the same moment, by a caller in the
       kubelet's place; meted reads the claims from the API server. The same again, four times, and whose the time of processors was. Then: how often the node's slices are written while nothing changes.
claim_rate  1,000 pods with a claim each, of a tenth of a GPU, on 100 node objects of one GPU, with the real kube-scheduler, against pods without GPUs;
       the claims exist beforehand. Once with kube-scheduler as it is by default, whose client asks at most 50 times a second, and once without that bound.
"""
import contextlib
import os
import statistics
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, "build/plain")
CLAIMS, AGAIN, REST_S = int(os.environ.get("CLAIMS", 200)), 4, int(os.environ.get("REST_S", 60))


def allocate(here, driver, number, device):
    name = f"c-{number}"
    here.claim(name, memory="256Mi", compute="1")
    made = here.cluster.get(f"{here.all}/{name}")
    made["status"] = {"allocation": {"devices": {"results": [{
        "request": "gpu", "driver": driver, "pool": "node-mete", "device": device, "shareID": f"00000000-0000-0000-0000-{number:012}",
        "consumedCapacity": {"memory": "256Mi", "compute": "1", "slots": "1"}}]}}}
    return f"{here.namespace} {name} {here.cluster.ask('PUT', f'{here.all}/{name}/status', made)['metadata']['uid']}"


def call(here, socket, verb, claims):
    """How long each call took, in milliseconds."""
    lines = "".join(f"{n} {verb} {claim}\n" for n, claim in enumerate(claims))
    answers = [line.split(" ", 3)[1:] for line in here.cluster.run(f"{BUILD}/tests/plugin/claims_caller", socket, input=lines).splitlines()]
    refused = [words for words in answers if words[1] != "ok"]
    assert len(answers) == len(claims) and not refused, (len(answers), refused[:3])
    return sorted(float(words[0]) for words in answers)


def spent(here):
    """Of meted, the API server and etcd: milliseconds on a processor, and waiting for one, of all their threads."""
    pids = {"meted": here.meted.pid, **{name: here.cluster.part(name) for name in ("apiserver", "etcd")}}
    found = {}
    for name, pid in pids.items():
        rows = [line.split() for line in here.cluster.run("sh", "-c", f"cat /proc/{pid}/task/*/schedstat").splitlines()]
        found[name] = tuple(sum(int(row[n]) for row in rows) / 1e6 for n in (0, 1))
    return found


def shares(before, after):
    return ", ".join(f"{name} {after[name][0] - before[name][0]:.0f} ms and {after[name][1] - before[name][1]:.0f} waiting" for name in before)


def versions(here):
    return {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in here.slices()}


def burst():
    sys.argv = ["counted", BUILD]
    sys.path.insert(0, os.path.join(ROOT, "tests/kubernetes"))
    from claims import DRIVER, KUBELET, claims
    socket = f"{KUBELET}/plugins/{DRIVER}/dra.sock"
    with claims(slots=1000) as here:
        device = here.devices()[0]["name"]
        made = [allocate(here, DRIVER, n, device) for n in range(CLAIMS)]
        bursts = []
        for n in range(AGAIN + 1):
            was = spent(here)
            times = call(here, socket, "prepare", made)
            bursts.append((times, os.getloadavg()[0], shares(was, spent(here))))
            if n < AGAIN:
                call(here, socket, "unprepare", made)
        before = versions(here)
        time.sleep(REST_S)
        writes = sum(before.get(name) != version for name, version in versions(here).items())
        call(here, socket, "unprepare", made)
        here.cluster.ask("DELETE", here.all)
    for times, load, processors in bursts:
        print(f"{CLAIMS} claims at once: first {times[0]:.1f} ms, median {statistics.median(times):.1f} ms, longest {times[-1]:.1f} ms, load {load:.0f}; "
              f"on processors: {processors}")
    p99 = [times[len(times) - 1 - len(times) // 100] for times, *_ in bursts]
    print(f"figure: prepare_p99_ms {p99[0]:.1f} ms")
    print(f"figure: prepare_p99_again_ms {statistics.median(p99[1:]):.1f} ms")
    print(f"figure: slice_writes_at_rest {writes} writes")


CLASS = "bench-share"


def slice_object(n):
    """What meted publishes of a node with one GPU of 80 GiB."""
    def amount(value, policy):
        return {"value": value, "requestPolicy": policy}
    device = {"name": "gpu-0", "allowMultipleAllocations": True, "attributes": {"uuid": {"string": f"GPU-{n}"}}, "capacity": {
        "memory": amount("80Gi", {"default": "80Gi", "validRange": {"min": "256Mi", "max": "80Gi", "step": "1Mi"}}),
        "compute": amount("100", {"default": "100", "validRange": {"min": "1", "max": "100", "step": "1"}}),
        "slots": amount("10", {"default": "1", "validValues": ["1"]})}}
    return {"metadata": {"name": f"bench-{n}"}, "spec": {"driver": "gpu.bench.dev", "nodeName": f"object-{n}", "devices": [device],
                                                         "pool": {"name": f"object-{n}-bench", "generation": 1, "resourceSliceCount": 1}}}


@contextlib.contextmanager
def published(cluster, api, nodes):
    select = "device.driver == 'gpu.bench.dev'"
    cluster.ask("POST", f"{api}/deviceclasses", {"metadata": {"name": CLASS}, "spec": {"selectors": [{"cel": {"expression": select}}]}})
    for n in range(nodes):
        cluster.ask("POST", f"{api}/resourceslices", slice_object(n))
    try:
        yield
    finally:
        for n in range(nodes):
            cluster.ask("DELETE", f"{api}/resourceslices/bench-{n}")
        cluster.ask("DELETE", f"{api}/deviceclasses/{CLASS}")


@contextlib.contextmanager
def unbounded_scheduler(cluster):
    """A second kube-scheduler, for pods that name it."""
    run = os.path.join(cluster.folder, "run")
    path = os.path.join(run, "unbounded.yaml")
    with open(path, "w") as config:
        config.write(f"""apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {{leaderElect: false}}
clientConnection: {{kubeconfig: "{run}/scheduler.kubeconfig", qps: 10000, burst: 10000}}
profiles: [{{schedulerName: unbounded}}]
""")
    with open(os.path.join(cluster.folder, "log", "unbounded"), "w") as log:
        process = cluster.start("kube-scheduler", f"--config={path}", "--secure-port=0", stdout=log, stderr=log)
    try:
        yield "unbounded"
    finally:
        process.kill()
        process.wait()


def claim_rate():
    import counted_sums as sums
    found, _ = sums.harness()
    from claims import API
    rates = {}
    with found.node() as here, sums.node_objects(here.cluster), published(here.cluster, API, sums.NODES), unbounded_scheduler(here.cluster) as unbounded:
        all_claims = f"{API}/namespaces/{here.namespace}/resourceclaims"
        exactly = {"deviceClassName": CLASS, "capacity": {"requests": {"memory": "8Gi", "compute": "10"}}}

        def claim(name):
            here.cluster.ask("POST", all_claims, {"metadata": {"name": name}, "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}})
        for _ in range(sums.ROUNDS):
            for scheduler in ("default-scheduler", unbounded):
                rates.setdefault((scheduler, "plain"), []).append(sums.placed(here, sums.PLAIN, scheduler=scheduler))
                rates.setdefault((scheduler, "claims"), []).append(sums.placed(here, sums.PLAIN, most=10, scheduler=scheduler, claim=claim))
                here.cluster.ask("DELETE", all_claims)
                here.cluster.until(all_claims, lambda claims: not claims, "claims were never gone")
    print(f"pods a second that kube-scheduler places on {sums.NODES} nodes: {rates}; load {os.getloadavg()[0]:.1f}")
    for scheduler, name in (("default-scheduler", "_by_default"), (unbounded, "")):
        with_claims, plain = (statistics.median(rates[scheduler, what]) for what in ("claims", "plain"))
        print(f"figure: claims_pods_per_s{name} {with_claims:.0f} pods/s")
        print(f"figure: claims_rate_ratio{name} {with_claims / plain:.2f}")
