#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""deploy/ against a real API server, and the DaemonSet on a real node."""
import contextlib
import json
import os
import re
import sys

from claims import Claims
from harness import MIB, ROOT, Answer, Node, end_idle, idle, idle_is, pod, run, seen, seen_by, soak, the_cluster, until

sys.path.insert(0, os.path.join(ROOT, "tests", "packages"))
from helm import run_helm  # noqa: E402

DEPLOY = os.path.join(ROOT, "deploy")
SIMULATED = os.path.join(DEPLOY, "overlays", "simulated")


def agent(cluster):
    """The DaemonSet's pod."""
    def ready(pods):
        return [name for name, one in pods.items() if not one["metadata"].get("deletionTimestamp") and
                any(c["type"] == "Ready" and c["status"] == "True" for c in one["status"].get("conditions", []))]

    return cluster.until("/api/v1/namespaces/mete-system/pods", ready, "the DaemonSet's pod was never ready")[0]


def installed_driver(cluster, folder):
    """A node whose driver is installed where NixOS has it, and a person's kustomization of a folder of deploy/: the image's
    name, and where the simulated GPU is. Returns the kustomization."""
    cluster.run("sh", "-c", 'mkdir -p -m 711 /run/mete && mkdir -m 1777 /run/mete/sim && mkdir -p /run/opengl-driver && cp -a "$0"/. /run/opengl-driver/',
                cluster.folder + "/driver")
    place = os.path.join(cluster.folder, "run", "own-" + os.path.basename(folder))
    os.makedirs(place, exist_ok=True)
    steps = [("initContainers/0/imagePullPolicy", "Never"), ("containers/0/imagePullPolicy", "Never"),
             ("containers/0/env/-", {"name": "METE_SIM_DIR", "value": "/run/mete/sim"})]
    patch = json.dumps([{"op": "add", "path": "/spec/template/spec/" + path, "value": value} for path, value in steps])
    with open(place + "/kustomization.yaml", "w") as file:  # JSON is YAML
        json.dump({"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": [os.path.relpath(folder, place)],
                   "images": [{"name": "mete", "newTag": "latest"}],
                   "patches": [{"target": {"kind": "DaemonSet"}, "patch": patch}]}, file)
    return place


SLOTS = {"mete.dev/gpu": 20, "nvidia.com/gpu": 4}  # of a GPU, in deploy/'s configurations


def charted(cluster, *settings):
    """A kustomization of what deploy/chart renders."""
    words = [word for setting in settings for word in ("--set", setting)]
    made = run_helm("template", "mete", os.path.join(DEPLOY, "chart", "mete"), "--namespace", "mete-system", "--kube-version", "1.36.0", *words)
    assert made.returncode == 0, made.stderr
    place = os.path.join(cluster.folder, "run", "chart")
    os.makedirs(place, exist_ok=True)
    for name, text in ("chart.yaml", made.stdout), ("kustomization.yaml", "resources: [chart.yaml]\n"):
        with open(f"{place}/{name}", "w") as file:
            file.write(text)
    return place


class Deployment:
    """A folder of deploy/ on the node; tests that ask for the same have the same one, as with Meted."""

    def __init__(self, cluster, folder, resource, total):
        self.cluster, self.resource, self.asked = cluster, resource, ((folder, resource, total), {})
        cluster.run("sh", "-c", "rm -rf /run/mete /run/cdi /dev/shm/mete-sim")
        self.kustomization = folder(cluster) if callable(folder) else installed_driver(cluster, folder) if folder else SIMULATED
        cluster.kubectl("apply", "-k", self.kustomization)
        cluster.patch("/api/v1/nodes/node", {"metadata": {"labels": {"mete.dev/shared": "true"}}})
        try:
            agent(cluster)
            cluster.await_resource(resource, SLOTS[resource] if total is None else total)
        except BaseException:
            self.stop()
            raise

    def stop(self):
        self.cluster.patch("/api/v1/nodes/node", {"metadata": {"labels": {"mete.dev/shared": None}}})
        self.cluster.kubectl("delete", "-k", self.kustomization, "--wait=true", "--ignore-not-found")
        self.cluster.await_resource(self.resource, 0)
        self.cluster.run("rm", "-rf", "/run/opengl-driver")
        self.cluster.until("/api/v1/namespaces", lambda all: "mete-system" not in all, "the namespace was never gone")


@contextlib.contextmanager
def deployed(folder=None, resource="mete.dev/gpu", total=None):
    """A folder of deploy/ on the node (none: the simulated overlay; a function makes one)."""
    if idle_is(folder, resource, total):
        deployment = idle.pop()
    else:
        end_idle()
        deployment = Deployment(the_cluster(), folder, resource, total)
    here = Node()
    try:
        here.agent = agent(here.cluster)
        yield here
    except BaseException:
        here.close()
        deployment.stop()
        raise
    try:
        here.close()
    except BaseException:
        deployment.stop()
        raise
    idle.append(deployment)


def moving(cluster):
    """The simulated overlay, with a configuration that lets memory move."""
    place = os.path.join(cluster.folder, "run", "moving")
    os.makedirs(place, exist_ok=True)
    with open(os.path.join(SIMULATED, "config.yaml")) as file:
        text = file.read()
    assert "  most:" in text, text
    with open(place + "/config.yaml", "w") as file:
        file.write(text.replace("  most:", "  most:\n    swap: auto", 1))
    with open(place + "/kustomization.yaml", "w") as file:
        json.dump({"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "namespace": "mete-system",
                   "resources": [os.path.relpath(SIMULATED, place)], "generatorOptions": {"disableNameSuffixHash": True},
                   "configMapGenerator": [{"name": "mete", "behavior": "replace", "files": ["config.yaml"]}]}, file)
    return place


def token(here):
    """The token that a process in the DaemonSet's pod has."""
    one = here.cluster.get(f"/api/v1/namespaces/mete-system/pods/{here.agent}")
    asked = here.cluster.ask("POST", "/api/v1/namespaces/mete-system/serviceaccounts/mete/token", {"spec": {
        "boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": here.agent, "uid": one["metadata"]["uid"]}}})
    return asked["status"]["token"]


def as_meted(here, *arguments, check=False, **more):
    authority = here.cluster.folder + "/state/tls/apiserver.crt"
    return here.cluster.kubectl("--kubeconfig=/dev/null", "--server=https://10.99.0.1", f"--certificate-authority={authority}",
                                f"--token={token(here)}", *arguments, check=check, **more)


REQUEST = """
import json, ssl, sys, urllib.error, urllib.request
words = json.load(sys.stdin)
asked = urllib.request.Request("https://10.99.0.1" + words["path"], json.dumps(words["body"]).encode(), method=words["verb"],
    headers={"Authorization": "Bearer " + words["token"], "Content-Type": words["kind"]})
try:
    with urllib.request.urlopen(asked, context=ssl.create_default_context(cafile=words["authority"])) as answer:
        print(answer.status)
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
"""


def asked_as_meted(here, verb, path, body, kind="application/json"):
    """The API server's answer to the DaemonSet's pod, without kubectl's further questions."""
    words = {"authority": here.cluster.folder + "/state/tls/apiserver.crt", "token": token(here), "verb": verb, "path": path, "body": body, "kind": kind}
    return here.cluster.run("python3", "-c", REQUEST, input=json.dumps(words))


def test_the_api_server_accepts_kustomizes_manifests():
    cluster = the_cluster()
    cluster.kubectl("apply", "-f", os.path.join(DEPLOY, "base", "namespace.yaml"))
    for folder in ("base", "overlays/simulated", "overlays/as-nvidia"):
        made = cluster.kubectl("kustomize", os.path.join(DEPLOY, folder))
        said = cluster.kubectl("apply", "--dry-run=server", "-f", "-", input=made)
        assert len(said.splitlines()) == len(re.findall(r"^kind: ", made, re.M)), said
        assert "warning" not in said.lower(), said


@soak
def test_the_api_server_accepts_the_charts_manifests():
    cluster = the_cluster()
    cluster.kubectl("apply", "-f", os.path.join(DEPLOY, "base", "namespace.yaml"))
    for settings in (), ("claims.enabled=true",), ("simulated.enabled=true", "openshift.enabled=true", "selinux.enabled=true"):
        made = cluster.kubectl("kustomize", charted(cluster, *settings))
        said = cluster.kubectl("apply", "--dry-run=server", "-f", "-", input=made)
        assert len(said.splitlines()) == len(re.findall(r"^kind: ", made, re.M)), said
        assert "warning" not in said.lower(), said


def test_for_an_older_cluster_the_fence_is_left_out():
    cluster = the_cluster()
    place = os.path.join(cluster.folder, "run", "older")
    os.makedirs(place, exist_ok=True)
    with open(place + "/kustomization.yaml", "w") as file:
        json.dump({"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
                   "resources": [os.path.relpath(DEPLOY + "/base", place)],
                   "components": [os.path.relpath(DEPLOY + "/components/before-1.30", place)]}, file)
    kinds = [sorted(re.findall(r"^kind: (.*)$", cluster.kubectl("kustomize", folder), re.M)) for folder in (DEPLOY + "/base", place)]
    assert kinds[0] == sorted(kinds[1] + 3 * ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"]), kinds


@soak
def test_an_installed_chart_shares_the_nodes_gpu():
    settings = "namespace.create=true", "simulated.enabled=true", "selinux.enabled=true", "image.tag=latest", "image.pullPolicy=Never"
    with deployed(lambda cluster: charted(cluster, *settings)) as here:
        one = here.pod("share", pod(command=["seen", "hold=1"], slots=1, annotations={"memory": "300MiB"}))
        assert seen(one.await_line("seen .*")[0])["total"] == 300 * MIB


def test_the_base_finds_the_driver_of_the_node():
    """deploy/base as on a node with NVIDIA's driver: on-node finds it below /host."""
    with deployed(os.path.join(DEPLOY, "base")) as here:
        made = [here.pod(f"share-{i}", pod(command=["seen", "hold=1"], slots=1, annotations={"memory": f"{300 + i}MiB"})) for i in range(2)]
        for i, one in enumerate(made):
            assert seen(one.await_line("seen .*")[0])["total"] == (300 + i) * MIB
        inside = ("exec", "-n", "mete-system", "ds/mete", "-c", "meted", "--", "on-node")
        listed = here.cluster.kubectl(*inside, "mete", "ps")
        for one in made:
            assert f"{here.namespace}/{one.name}/c" in listed, listed
        assert "/host/run/opengl-driver/lib" in here.cluster.kubectl(*inside, "mete", "doctor")
        said = here.cluster.kubectl("exec", "-n", here.namespace, made[0].name, "--", "nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader")
        assert "300 MiB" in said, said


@soak
def test_in_the_place_of_nvidias_plugin_containers_are_told_of_whole_gpus():
    """deploy/overlays/as-nvidia, under a runtime that imitates NVIDIA's toolkit."""
    with deployed(os.path.join(DEPLOY, "overlays", "as-nvidia"), "nvidia.com/gpu") as here:
        made = here.pod("whole", pod(command=["sh", "-c", "echo asked=$NVIDIA_VISIBLE_DEVICES; seen"], slots=1, resource="nvidia.com/gpu", runtime="toolkit-anyone"))
        assert made.await_end() == 0
        assert re.search("^asked=GPU-[0-9a-f-]+$", made.log(), re.M) and "seen devices=1 " in made.log(), made.log()


@soak
def test_claims_are_prepared_while_the_daemonsets_pod_is_replaced():
    """The new pod stands by, and the kubelet knows it before the old one ends."""
    with deployed(lambda cluster: os.path.join(DEPLOY, "overlays", "simulated-claims"), total=0) as there:
        here, former = Claims(there), there.agent
        here.await_published()
        small = {"memory": "256Mi", "compute": "1"}
        here.cluster.kubectl("rollout", "restart", "-n", "mete-system", "ds/mete")
        n = 0
        while former in {one["metadata"]["name"] for one in here.cluster.get("/api/v1/namespaces/mete-system/pods")["items"]}:
            both = [here.pod(f"made-{n}-{i}", **small) for i in range(2)]
            assert [one.await_end() for one in both] == [0, 0], both[0].log()
            n += 1
        assert here.pod("last", **small).await_end() == 0
        events = here.cluster.get(f"/api/v1/namespaces/{here.namespace}/events")["items"]
        failed = [event["message"] for event in events if event["reason"] == "FailedPrepareDynamicResources"]
        assert not failed and n, (failed, n)
        assert "standby.over" in here.cluster.kubectl("logs", "-n", "mete-system", "ds/mete", "-c", "meted")


def test_the_daemonset_shares_the_nodes_gpu():
    with deployed() as here:
        made = [here.pod(f"share-{i}", pod(command=["seen", "hold=1"], slots=1, annotations={"memory": f"{300 + i}MiB"})) for i in range(4)]
        for i, one in enumerate(made):
            assert seen(one.await_line("seen .*")[0])["total"] == (300 + i) * MIB
        listed = here.cluster.kubectl("exec", "-n", "mete-system", "ds/mete", "-c", "meted", "--", "mete", "ps")
        for one in made:
            assert f"{here.namespace}/{one.name}/c" in listed, listed


def test_programs_go_on_while_the_daemonsets_pod_is_replaced():
    with deployed() as here:
        made = here.pod("stays", pod(command=["seen", f"take={100 * MIB}", "hold=1"], slots=1))
        made.await_line("take=granted")
        former = here.agent
        here.cluster.kubectl("rollout", "restart", "-n", "mete-system", "ds/mete")
        here.cluster.until("/api/v1/namespaces/mete-system/pods", lambda pods: former not in pods, "the former pod was never gone")
        agent(here.cluster)

        def back():
            listed = json.loads(here.cluster.kubectl("exec", "-n", "mete-system", "ds/mete", "-c", "meted", "--", "mete", "ps", "--json"))
            return [row for row in listed["tenants"] if row["name"] == f"{here.namespace}/stays/c" and row["allocated_bytes"] >= 100 * MIB]

        until(back, "it did not come back")
        here.cluster.await_resource("mete.dev/gpu", SLOTS["mete.dev/gpu"])
        after = here.pod("after", pod(command=["seen"], slots=1))
        assert after.await_end() == 0
        assert seen_by(after)["total"] == 1024 * MIB


def test_a_node_writes_about_itself_only():
    with deployed() as here:
        cluster = here.cluster
        try:
            cluster.ask("POST", "/api/v1/nodes", {"metadata": {"name": "other"}})
        except Answer as answer:
            assert answer.status == 409
        try:
            patch = {"status": {"capacity": {"mete.dev/gpu-memory": "1"}}}
            for name, accepted in (("node", True), ("other", False)):
                said = asked_as_meted(here, "PATCH", f"/api/v1/nodes/{name}/status", patch, "application/merge-patch+json")
                assert said.startswith("200") if accepted else "its own node only" in said, said
                event = {"metadata": {"generateName": "mete-", "namespace": here.namespace}, "reason": "Test", "type": "Warning",
                         "source": {"component": "mete", "host": name}, "message": "x",
                         "involvedObject": {"kind": "Pod", "namespace": here.namespace, "name": "p"}}
                said = asked_as_meted(here, "POST", f"/api/v1/namespaces/{here.namespace}/events", event)
                assert said.startswith("201") if accepted else "own node only" in said, said
        finally:
            cluster.ask("DELETE", "/api/v1/nodes/other")


def test_only_metes_scheduler_assigns_gpus_to_a_pod():
    with deployed() as here:
        scheduler, said = ["--as=system:serviceaccount:mete-system:mete-scheduler", "--as-group=system:masters"], "written by mete's scheduler"
        manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "thief", "annotations": {"mete.dev/assigned": "{}"}},
                    "spec": {"containers": [{"name": "c", "image": "none"}], "nodeName": "none"}}

        def kubectl(*words, **more):
            done = here.cluster.run("kubectl", "-n", here.namespace, *words, check=False, **more)
            return done.stdout + done.stderr

        create = ["create", "--dry-run=server", "-f", "-"]
        assert said in kubectl(*create, input=json.dumps(manifest))
        assert "created" in kubectl(*scheduler, *create, input=json.dumps(manifest))
        here.pod("stays", pod(command=["seen", "hold=1"], slots=1)).await_line("devices=1")
        annotate = ["annotate", "--overwrite", "pod", "stays"]
        assert said in kubectl(*annotate, "mete.dev/assigned=x")
        assert "annotated" in kubectl(*scheduler, *annotate, "mete.dev/assigned=y")
        assert "annotated" in kubectl(*annotate, "mete.dev/weight=50"), "what it has stays"
        assert said in kubectl(*annotate, "mete.dev/assigned-")
        assert said in kubectl("patch", "pod", "stays", "--subresource=status", "-p", '{"metadata": {"annotations": {"mete.dev/assigned": "z"}}}')


def test_an_amount_without_a_gpu_is_refused():
    with deployed() as here:
        for place, amount in ("containers", "gpu-memory"), ("initContainers", "gpu-milli"):
            manifest = pod(command=["seen"], slots=1)
            manifest["spec"][place] = [dict(manifest["spec"]["containers"][0], name="x", resources={"limits": {"mete.dev/" + amount: "1Gi"}})]
            try:
                here.pod("lacks", manifest)
                raise SystemExit("it was accepted")
            except Answer as refused:
                assert "accepted together with mete.dev/gpu: 1, or more" in refused.reason, refused
        manifest = pod(command=["seen"], slots=1)
        manifest["spec"]["containers"][0]["resources"]["limits"]["mete.dev/gpu-memory"] = "512Mi"
        made = here.pod("has", manifest)
        assert made.await_end() == 0 and seen_by(made)["total"] == 512 * MIB


def test_meted_may_do_no_more_than_it_needs():
    with deployed() as here:
        for words in (("get", "secrets", "-A"), ("delete", "pod", "-n", "mete-system", here.agent), ("create", "namespace", "x"),
                      ("annotate", "pod", "-n", "mete-system", here.agent, "a=b"), ("label", "node", "node", "a=b")):
            done = as_meted(here, *words)
            assert done.returncode != 0 and "forbidden" in done.stderr.lower(), (words, done.stdout, done.stderr)


if __name__ == "__main__":
    run(globals())
