#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The node's power fails: its disk stays, /run and all processes go."""
from claims import API, Claims, install
from harness import MIB, Meted, Node, pod, run, seen, soak, the_cluster


def test_after_a_reboot_containers_are_new_tenants_with_their_pods_shares():
    cluster = the_cluster()
    here = Node(cluster)
    meted = here.share("share: {memory: 25%}\nmost: {memory: 100%}", slots=4)
    template = pod(command=["sh", "-c", "seen; exec sleep 100000"], slots=1, restart="Always", annotations={"memory": "640MiB"})
    template["metadata"]["labels"] = {"app": "survivor"}
    path = f"/apis/apps/v1/namespaces/{here.namespace}/deployments"
    cluster.ask("POST", path, {"metadata": {"name": "survivor"}, "spec": {
        "replicas": 3, "selector": {"matchLabels": {"app": "survivor"}}, "template": template}})

    def available(deployments):
        status = deployments["survivor"]["status"]
        return status.get("availableReplicas") == 3 and status.get("observedGeneration")

    cluster.until(path, available, "the deployment was never available")
    meted.process.stdout.close()
    cluster.reboot()

    def failed(pods):
        """What the kubelet admitted again before meted was there; their controller makes others."""
        return [one["status"] for one in pods.values() if one["status"]["phase"] == "Failed" and one["status"].get("reason")]

    for status in cluster.until(f"/api/v1/namespaces/{here.namespace}/pods", failed, "no pod failed for lack of its device"):
        assert status["reason"] == "UnexpectedAdmissionError" and "mete.dev/gpu" in status["message"], status
    again = Meted(cluster, "share: {memory: 25%}\nmost: {memory: 100%}", slots=4)

    def back(pods):
        """Three pods whose containers started after the reboot."""
        running = [one for one in pods.values() for s in one["status"].get("containerStatuses", [])
                   if "running" in s["state"] and s["ready"] and f"pod={here.namespace}/{one['metadata']['name']} " in again.log()]
        return running if len(running) == 3 else None

    pods = cluster.until(f"/api/v1/namespaces/{here.namespace}/pods", back, "the deployment never came back")
    for one in pods:
        name = one["metadata"]["name"]
        said = cluster.kubectl("exec", "-n", here.namespace, name, "--", "seen")
        assert seen(said)["total"] == 640 * MIB, said
        assert again.ps()[f"{here.namespace}/{name}/c"]["limit_bytes"] == 640 * MIB
    cluster.ask("DELETE", f"{path}/survivor")
    here.meted = again
    here.close()


@soak
def test_after_a_reboot_claims_are_prepared_anew():
    """What the kubelet remembers as prepared is on the node's disk, and what was prepared is not."""
    cluster = the_cluster()
    install(cluster)
    cluster.ask("DELETE", f"{API}/resourceslices")
    node = Node(cluster)
    meted = node.share("dra: on", slots=4, total=0)
    here = Claims(node)
    here.await_published()
    made = here.pod("survivor", ["sh", "-c", "seen; exec sleep 100000"], restart="Always", memory="640Mi", compute="25")
    made.await_line(f"total={640 * MIB}")
    before, (record,) = made.get()["status"]["containerStatuses"][0]["containerID"], here.records()
    meted.process.stdout.close()
    cluster.reboot()
    assert not here.records(), "what was in /run outlived the reboot"
    node.meted = Meted(cluster, "dra: on", slots=4, total=0)
    made.until(lambda found: any("running" in s["state"] and s["containerID"] != before for s in found["status"].get("containerStatuses", [])),
               "never came back")
    assert list(here.records()) == [record]
    assert seen(made.exec("seen"))["total"] == 640 * MIB
    node.end_pods()
    here.await_nothing()
    node.close()


if __name__ == "__main__":
    run(globals())
