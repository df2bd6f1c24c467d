#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The real Kueue beside mete: its quotas count memory and time of GPUs, of pods that request them and of claims.

Kueue's manager runs beside the node. It has no webhooks here: jobs say `suspend: true` themselves, as Kueue's webhook would for them."""
import contextlib
import glob
import json
import os
import re
import subprocess
import sys

import images
from harness import ROOT, Answer, Skipped, node, run
from claims import claims

API = "/apis/kueue.x-k8s.io/v1beta2"
QUOTA = ("mete.dev/gpu", "mete.dev/gpu-memory", "mete.dev/gpu-milli")


def built():
    done = subprocess.run([os.path.join(ROOT, "tests", "cluster", "kueue.sh")], text=True, stdout=subprocess.PIPE)
    if done.returncode == 77:
        raise Skipped(done.stdout.strip())
    assert done.returncode == 0, "Kueue could not be built"
    return done.stdout.strip()


class Kueue:
    def __init__(self, here, folder, **settings):
        self.here, self.cluster = here, here.cluster
        self.place = os.path.join(here.cluster.folder, "run", "kueue")
        os.makedirs(self.place, exist_ok=True)
        self.cluster.kubectl("apply", "--server-side", "--force-conflicts", *(word for path in glob.glob(folder + "/crd/*.yaml") for word in ("-f", path)))
        self.cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=5m")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=kueue", "-keyout", self.place + "/tls.key",
                        "-out", self.place + "/tls.crt"], check=True, capture_output=True)
        with open(self.place + "/config.yaml", "w") as file:
            json.dump({"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration", "namespace": "kueue-system",
                       "health": {"healthProbeBindAddress": "127.0.0.1:18081"}, "metrics": {"bindAddress": "127.0.0.1:18443"},
                       "webhook": {"port": 19443, "certDir": self.place}, "leaderElection": {"leaderElect": False}, "internalCertManagement": {"enable": False},
                       "integrations": {"frameworks": ["batch/job"]}, **settings}, file)
        gates = "VisibilityOnDemand=false" + (",DynamicResourceAllocation=true" if settings else "")
        self.log = open(self.place + "/log", "ab")
        # It expects the certificate of its metrics in /etc, which is the host's.
        own = 'mount -t tmpfs etc /etc && mkdir -p /etc/kueue/metrics && cp -r "$0" /etc/kueue/metrics/certs && exec "$@"'
        self.process = self.cluster.start("unshare", "-m", "sh", "-c", own, self.place, os.path.join(folder, "kueue"), "--config", self.place + "/config.yaml",
                                          "--feature-gates", gates, stdout=self.log, stderr=self.log)

    def close(self):
        name = self.here.namespace
        self.cluster.ask("DELETE", f"/apis/batch/v1/namespaces/{name}/jobs", propagationPolicy="Background")
        for path in f"namespaces/{name}/localqueues/queue", f"clusterqueues/{name}", f"workloadpriorityclasses/{name}", f"resourceflavors/{name}":
            with contextlib.suppress(Answer):
                self.cluster.ask("DELETE", f"{API}/{path}")
        # It takes its finalizers away.
        self.cluster.until(f"{API}/clusterqueues", lambda queues: name not in queues, f"the queue never went: {self.said()}")
        self.process.terminate()
        self.process.wait()
        self.log.close()

    def queue(self, **quota):
        """A queue of the namespace with that quota in all."""
        name = self.here.namespace
        resources = [{"name": key, "nominalQuota": value} for key, value in quota.items()]
        for kind, path, body in (
                ("ResourceFlavor", f"{API}/resourceflavors", {"metadata": {"name": name}, "spec": {}}),
                ("ClusterQueue", f"{API}/clusterqueues", {"metadata": {"name": name}, "spec": {
                    "namespaceSelector": {}, "preemption": {"withinClusterQueue": "LowerPriority"},
                    "resourceGroups": [{"coveredResources": list(quota), "flavors": [{"name": name, "resources": resources}]}]}}),
                ("LocalQueue", f"{API}/namespaces/{name}/localqueues", {"metadata": {"name": "queue"}, "spec": {"clusterQueue": name}}),
                ("WorkloadPriorityClass", f"{API}/workloadpriorityclasses", {"metadata": {"name": name}, "value": 1000})):
            self.cluster.ask("POST", path, {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, **body})

    def job(self, name, resources, command=("seen", "hold=1"), urgent=False, **spec):
        labels = {"kueue.x-k8s.io/queue-name": "queue", **({"kueue.x-k8s.io/priority-class": self.here.namespace} if urgent else {})}
        pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "hostNetwork": True, "automountServiceAccountToken": False,
               "containers": [{"name": "c", "image": images.WORK, "imagePullPolicy": "Never", "command": list(command), "resources": resources}],
               **spec}
        self.cluster.ask("POST", f"/apis/batch/v1/namespaces/{self.here.namespace}/jobs",
                         {"metadata": {"name": name, "labels": labels}, "spec": {"suspend": True, "backoffLimit": 0, "template": {"spec": pod}}})

    def end(self, name):
        self.cluster.ask("DELETE", f"/apis/batch/v1/namespaces/{self.here.namespace}/jobs/{name}", propagationPolicy="Background")

    def await_active(self, name):
        self.cluster.until(f"/apis/batch/v1/namespaces/{self.here.namespace}/jobs", lambda jobs: jobs[name]["status"].get("ready"), f"{name} never ran: {self.said()}")

    def await_waits(self, name, pattern):
        """Kueue reports on the job's workload why it has no quota; its job has no pod."""
        def told(workloads):
            return any(work["metadata"]["ownerReferences"][0]["name"] == name and re.search(pattern, condition.get("message", ""))
                       for work in workloads.values() for condition in work.get("status", {}).get("conditions", []))
        self.cluster.until(f"{API}/namespaces/{self.here.namespace}/workloads", told, f"Kueue never said {pattern!r} of {name}: {self.said()}")
        job = self.cluster.get(f"/apis/batch/v1/namespaces/{self.here.namespace}/jobs/{name}")
        assert job["spec"]["suspend"] and not job["status"].get("active"), job

    def said(self):
        return open(self.place + "/log").read()[-3000:]


@contextlib.contextmanager
def kueue(here, **settings):
    folder = built()
    beside = Kueue(here, folder, **settings)
    try:
        yield beside
    except BaseException:
        sys.stderr.write(beside.said())
        raise
    finally:
        beside.close()


def amounts(memory, milli):
    return {"limits": {"mete.dev/gpu": 1, "mete.dev/gpu-memory": memory, "mete.dev/gpu-milli": milli}}


def test_a_queue_has_so_much_memory_and_time_of_gpus():
    with node("counted: amounts", slots=10) as here, kueue(here) as queues:
        queues.queue(**dict(zip(QUOTA, (10, "3Gi", 800))))
        queues.job("first", amounts("2Gi", 300))
        queues.await_active("first")
        queues.job("large", amounts("2Gi", 300))
        queues.job("slow", amounts("512Mi", 600))
        queues.await_waits("large", "insufficient unused quota for mete.dev/gpu-memory")
        queues.await_waits("slow", "insufficient unused quota for mete.dev/gpu-milli")
        queues.job("small", amounts("512Mi", 100))
        queues.await_active("small")
        assert {row["limit_bytes"] for row in here.meted.ps().values()} == {2 << 30, 512 << 20}
        queues.end("slow")
        queues.end("first")
        queues.await_active("large")


def test_an_urgent_job_takes_the_quota_of_one_that_is_not():
    with node("counted: amounts", slots=10) as here, kueue(here) as queues:
        queues.queue(**dict(zip(QUOTA, (10, "3Gi", 1000))))
        queues.job("usual", amounts("2Gi", 100))
        queues.await_active("usual")
        queues.job("urgent", amounts("2Gi", 100), urgent=True)
        queues.await_active("urgent")
        queues.await_waits("usual", "(?i)preempted to accommodate|insufficient unused quota")
        queues.end("urgent")
        queues.await_active("usual")


def test_claims_are_counted_by_their_class():
    mapped = {"resources": {"deviceClassMappings": [{"name": "mete.dev/shares", "deviceClassNames": ["mete-share"]}]}}
    with claims() as here, kueue(here, **mapped) as queues:
        queues.queue(**{"mete.dev/shares": 1})
        template = f"/apis/resource.k8s.io/v1/namespaces/{here.namespace}/resourceclaimtemplates"
        here.cluster.ask("POST", template, {"metadata": {"name": "quarter"}, "spec": {"spec": here.spec(memory="1Gi", compute=25)}})
        claimed = {"resourceClaims": [{"name": "g", "resourceClaimTemplateName": "quarter"}]}
        for name in "first", "second":
            queues.job(name, {"claims": [{"name": "g"}]}, **claimed)
            if name == "first":
                queues.await_active(name)
        queues.await_waits("second", "insufficient unused quota for mete.dev/shares")
        queues.end("first")
        queues.await_active("second")


if __name__ == "__main__":
    run(globals())
