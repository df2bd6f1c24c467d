# SPDX-License-Identifier: Apache-2.0
"""Pods whose share is a claim (`counted: claims`).

burst  200 claims on a real node, allocated by us as kube-scheduler does it. The preparation of all is asked for at the same moment, by a caller in the
       kubelet's place; meted reads the claims from the API server. The same again, four times, and whose the time of processors was. Then: how often the node's slices are written while nothing changes.
claim_rate  1,000 pods with a claim each, of a tenth of a GPU, on 100 node objects of one GPU, with the real kube-scheduler, against pods without GPUs;
       the claims exist beforehand. Once with kube-scheduler as it is by default, whose client asks at most 50 times a second, and once without that bound.
       The floor is the same with ten plain devices a node, one for each claim: what any DRA driver's claims cost, NVIDIA's for example. `marked` are
       our claims that have the finalizer which kube-scheduler writes otherwise. KINDS and SCHEDULERS: only these; `unnamed` is one that does not write
       a pod's node before it binds it. PROFILES: a folder for what kube-scheduler does with its processor time (`go tool pprof`).
"""
import contextlib
import os
import re
import statistics
import subprocess
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


KINDS = os.environ.get("KINDS", "plain claims floor").split()
PROFILES = os.environ.get("PROFILES")
EXACTLY = {kind: {"deviceClassName": f"bench-{kind}", "capacity": {"requests": {"memory": "8Gi", "compute": "10"}}} for kind in ("claims", "marked")}
EXACTLY["floor"] = {"deviceClassName": "bench-floor"}
MARKS = {"marked": {"finalizers": ["resource.kubernetes.io/delete-protection"]}}


def described(number):
    return {"uuid": {"string": f"GPU-{number}"}, "type": {"string": "gpu"}, "productName": {"string": "NVIDIA H100 80GB HBM3"},
            "architecture": {"string": "Hopper"}, "cudaComputeCapability": {"version": "9.0.0"}, "driverVersion": {"version": "580.95.5"},
            "resource.kubernetes.io/pciBusID": {"string": "0000:1b:00.0"}, "resource.kubernetes.io/pcieRoot": {"string": "pci0000:16"}}


def shared(n):
    """The slices that meted publishes of a node with one GPU of 80 GiB."""
    def amount(value, policy):
        return {"value": value, "requestPolicy": policy}
    return [{"name": "gpu-0", "allowMultipleAllocations": True, "attributes": described(n), "capacity": {
        "memory": amount("80Gi", {"default": "80Gi", "validRange": {"min": "256Mi", "max": "80Gi", "step": "1Mi"}}),
        "compute": amount("100", {"default": "100", "validRange": {"min": "1", "max": "100", "step": "1"}}),
        "slots": amount("10", {"default": "1", "validValues": ["1"]})}}]


def plain(n):
    """The slices that NVIDIA's driver publishes of a node with ten GPUs."""
    return [{"name": f"gpu-{i}", "attributes": described(f"{n}-{i}"), "capacity": {"memory": {"value": "80Gi"}}} for i in range(10)]


DEVICES = {"claims": shared, "marked": shared, "floor": plain}


def slice_object(kind, n):
    return {"metadata": {"name": f"bench-{kind}-{n}"}, "spec": {"driver": f"gpu.{kind}.dev", "nodeName": f"object-{n}", "devices": DEVICES[kind](n),
                                                                "pool": {"name": f"object-{n}-{kind}", "generation": 1, "resourceSliceCount": 1}}}


@contextlib.contextmanager
def published(cluster, api, kind, nodes):
    select = f"device.driver == 'gpu.{kind}.dev'"
    cluster.ask("POST", f"{api}/deviceclasses", {"metadata": {"name": f"bench-{kind}"}, "spec": {"selectors": [{"cel": {"expression": select}}]}})
    for n in range(nodes):
        cluster.ask("POST", f"{api}/resourceslices", slice_object(kind, n))
    try:
        yield
    finally:
        for n in range(nodes):
            cluster.ask("DELETE", f"{api}/resourceslices/bench-{kind}-{n}")
        cluster.ask("DELETE", f"{api}/deviceclasses/bench-{kind}")


PORT, READ = 10299, """
import ssl, sys, urllib.request
sys.stdout.buffer.write(urllib.request.urlopen(sys.argv[1], context=ssl._create_unverified_context()).read())
"""


UNBOUNDED, UNNAMED = ", qps: 10000, burst: 10000", ["--feature-gates=NominatedNodeNameForExpectation=false"]
# By name: its client's settings, and options. The first two are what the figures are of.
VARIANTS = {"bounded": ("", []), "unbounded": (UNBOUNDED, []), "bounded-unnamed": ("", UNNAMED), "unbounded-unnamed": (UNBOUNDED, UNNAMED)}
SCHEDULERS = os.environ.get("SCHEDULERS", "bounded unbounded").split()


class Scheduler:
    """A second kube-scheduler, for pods that name it: one of VARIANTS."""

    def __init__(self, cluster, name, until):
        self.cluster, self.name = cluster, name
        run = os.path.join(cluster.folder, "run")
        path = os.path.join(run, f"{name}.yaml")
        with open(path, "w") as config:
            config.write(f"""apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {{leaderElect: false}}
clientConnection: {{kubeconfig: "{run}/scheduler.kubeconfig"{VARIANTS[name][0]}}}
profiles: [{{schedulerName: {name}}}]
""")
        self.port = PORT + list(VARIANTS).index(name)
        with open(os.path.join(cluster.folder, "log", name), "w") as log:
            self.process = cluster.start("sh", "-c", 'echo $$; exec "$@"', "sh", "kube-scheduler", f"--config={path}", f"--secure-port={self.port}",
                                         f"--authentication-kubeconfig={run}/scheduler.kubeconfig", f"--authorization-kubeconfig={run}/scheduler.kubeconfig",
                                         f"--cert-dir={run}/{name}", "--authorization-always-allow-paths=/metrics,/debug/pprof/*", *VARIANTS[name][1],
                                         stdout=subprocess.PIPE, stderr=log, text=True)
        self.pid = int(self.process.stdout.readline())
        until(lambda: self.metrics(check=False).returncode == 0, f"{name} never served its metrics")

    def metrics(self, **more):
        return self.cluster.run("python3", "-c", READ, f"https://127.0.0.1:{self.port}/metrics", **more)

    def profile(self, kind):
        """Begins one of ten seconds."""
        with open(os.path.join(PROFILES, f"{self.name}-{kind}"), "w") as file:
            return self.cluster.start("python3", "-c", READ, f"https://127.0.0.1:{self.port}/debug/pprof/profile?seconds=10", stdout=file)

    def requests(self):
        """That it has sent, by method."""
        text = self.metrics()
        found = {}
        for method, count in re.findall(r'^rest_client_requests_total\{.*method="(\w+)".*\} (\S+)$', text, re.M):
            found[method] = found.get(method, 0) + float(count)
        return found

    def seconds(self):
        """On a processor, of it, the API server and etcd."""
        found = {}
        for name, pid in (("scheduler", self.pid), ("API server", self.cluster.part("apiserver")), ("etcd", self.cluster.part("etcd"))):
            words = self.cluster.run("cat", f"/proc/{pid}/stat").rpartition(")")[2].split()
            found[name] = (int(words[11]) + int(words[12])) / 100
        return found

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def measured(here, sums, api, scheduler, kind):
    """Pods of a kind a second; prints what a pod cost."""
    all_claims = f"{api}/namespaces/{here.namespace}/resourceclaims"

    def claim(name):
        request = {"name": "gpu", "exactly": EXACTLY[kind]}
        here.cluster.ask("POST", all_claims, {"metadata": {"name": name, **MARKS.get(kind, {})}, "spec": {"devices": {"requests": [request]}}})

    def on_begin():
        began.update(requests=scheduler.requests(), seconds=scheduler.seconds())
        if PROFILES:
            profiles.append(scheduler.profile(kind))
    with contextlib.ExitStack() as stack:
        began, profiles, more = {}, [], {}
        if kind != "plain":
            stack.enter_context(published(here.cluster, api, kind, sums.NODES))
            more = {"most": 10, "claim": claim}

        def on_end():
            ended = {"requests": scheduler.requests(), "seconds": scheduler.seconds()}
            requests, seconds = ({key: (now - began[what].get(key, 0)) / sums.PODS for key, now in ended[what].items()} for what in ended)
            print(f"{scheduler.name}, {kind}: requests of a pod: " + ", ".join(f"{count:.2f} {method}" for method, count in requests.items() if count > 0.005) +
                  "; processor ms of a pod: " + ", ".join(f"{1000 * spent:.2f} {name}" for name, spent in seconds.items()), flush=True)
        rate = sums.placed(here, sums.PLAIN, scheduler=scheduler.name, on_begin=on_begin, on_end=on_end, **more)
        for profile in profiles:
            profile.wait()
        if kind != "plain":
            here.cluster.ask("DELETE", all_claims)
            here.cluster.until(all_claims, lambda claims: not claims, "claims were never gone")
    return rate


def claim_rate():
    import counted_sums as sums
    found, _ = sums.harness()
    from claims import API
    rates = {}
    with found.node() as here, sums.node_objects(here.cluster):
        schedulers = [Scheduler(here.cluster, name, found.until) for name in SCHEDULERS]
        try:
            for _ in range(sums.ROUNDS):
                for scheduler in schedulers:
                    for kind in KINDS:
                        rates.setdefault((scheduler.name, kind), []).append(measured(here, sums, API, scheduler, kind))
        finally:
            for scheduler in schedulers:
                scheduler.close()
    print(f"pods a second that kube-scheduler places on {sums.NODES} nodes: {rates}; load {os.getloadavg()[0]:.1f}")
    for scheduler in SCHEDULERS:
        name = {"bounded": "_by_default", "unbounded": ""}.get(scheduler, "_" + scheduler.replace("-", "_"))
        middle = {kind: statistics.median(rates[scheduler, kind]) for kind in KINDS}
        for kind in KINDS:
            print(f"figure: {kind}_pods_per_s{name} {middle[kind]:.0f} pods/s")
            if kind != "plain" and "plain" in middle:
                print(f"figure: {kind}_rate_ratio{name} {middle[kind] / middle['plain']:.2f}")
