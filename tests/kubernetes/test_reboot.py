#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The node's power fails: its disk stays, /run and all processes go."""
import contextlib

from claims import claims
from harness import MIB, Meted, node, pod, run, seen, soak

SHARE = "share: {memory: 25%}\nmost: {memory: 100%}"


@contextlib.contextmanager
def deployed(here, replicas):
    """A deployment, which ends with the test however that ends: it would make its pods again and again."""
    template = pod(command=["sh", "-c", "seen; exec sleep 100000"], slots=1, restart="Always", annotations={"memory": "640MiB"})
    template["metadata"]["labels"] = {"app": "survivor"}
    path = f"/apis/apps/v1/namespaces/{here.namespace}/deployments"
    here.cluster.ask("POST", path, {"metadata": {"name": "survivor"}, "spec": {
        "replicas": replicas, "selector": {"matchLabels": {"app": "survivor"}}, "template": template}})
    try:
        yield path
    finally:
        here.cluster.ask("DELETE", f"{path}/survivor", propagationPolicy="Foreground")
        here.cluster.until(path, lambda deployments: not deployments, "the deployment never went")


def test_after_a_reboot_containers_are_new_tenants_with_their_pods_shares():
    with node(SHARE, slots=4) as here, deployed(here, 3) as path:
        def available(deployments):
            status = deployments["survivor"]["status"]
            return status.get("availableReplicas") == 3 and status.get("observedGeneration")

        here.cluster.until(path, available, "the deployment was never available")
        here.lose_power()

        def failed(pods):
            """The pods that the kubelet admitted again before meted was there; their controller makes others."""
            return [one["status"] for one in pods.values() if one["status"]["phase"] == "Failed" and one["status"].get("reason")]

        all_pods = f"/api/v1/namespaces/{here.namespace}/pods"
        for status in here.cluster.until(all_pods, failed, "no pod failed for lack of its device"):
            assert status["reason"] == "UnexpectedAdmissionError" and "mete.dev/gpu" in status["message"], status
        here.meted = again = Meted(here.cluster, SHARE, slots=4)

        def back(pods):
            """Three pods whose containers started after the reboot."""
            running = [one for one in pods.values() for s in one["status"].get("containerStatuses", [])
                       if "running" in s["state"] and s["ready"] and f"pod={here.namespace}/{one['metadata']['name']} " in again.log()]
            return running if len(running) == 3 else None

        for one in here.cluster.until(all_pods, back, "the deployment never came back"):
            name = one["metadata"]["name"]
            said = here.cluster.kubectl("exec", "-n", here.namespace, name, "--", "seen")
            assert seen(said)["total"] == 640 * MIB, said
            assert again.ps()[f"{here.namespace}/{name}/c"]["limit_bytes"] == 640 * MIB


@soak
def test_after_a_reboot_claims_are_prepared_anew():
    """The kubelet's record of prepared claims is on the node's disk, and the prepared files are not."""
    with claims(slots=4) as here:
        made = here.pod("survivor", ["sh", "-c", "seen; exec sleep 100000"], restart="Always", memory="640Mi", compute="25")
        made.await_line(f"total={640 * MIB}")
        before, (record,) = made.get()["status"]["containerStatuses"][0]["containerID"], here.records()
        here.lose_power()
        assert not here.records(), "what was in /run outlived the reboot"
        here.here.meted = Meted(here.cluster, "dra: on", slots=4, total=0)
        made.until(lambda found: any("running" in s["state"] and s["containerID"] != before for s in found["status"].get("containerStatuses", [])),
                   "never came back")
        assert list(here.records()) == [record]
        assert seen(made.exec("seen"))["total"] == 640 * MIB


if __name__ == "__main__":
    run(globals())
