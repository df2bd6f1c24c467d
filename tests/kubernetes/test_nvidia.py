#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""In the place of NVIDIA's device plugin: its configuration, chosen by a label of the node, on a real kubelet."""
import contextlib
import os

from harness import Meted, Node, end_idle, pod, run, seen

LABEL = "nvidia.com/device-plugin.config"
GPU = "nvidia.com/gpu"


class AsNvidia(Meted):
    """Its configuration is a folder of files without the key mete; the environment sets the rest, as NVIDIA's DaemonSet does."""

    resource = GPU

    def __init__(self, cluster, files, total, environment, mig_config=None, options=()):
        self.files, self.environment, self.mig_config = files, environment, mig_config
        super().__init__(cluster, slots=total, options=options)

    def write(self, config):
        self.settings.update(self.environment, KUBECONFIG=self.kubeconfig())
        os.mkdir(self.folder + "/config.yaml")
        for name, text in self.files.items():
            with open(f"{self.folder}/config.yaml/{name}", "w") as file:
                file.write(text)
        if self.mig_config:
            path = self.folder + "/mig.yaml"
            self.options = [*self.options, "--mig-config", path]
            with open(path, "w") as file:
                file.write(self.mig_config)


@contextlib.contextmanager
def as_nvidia(files, total, mig_config=None, options=(), **environment):
    end_idle()
    here = Node()
    try:
        here.meted = AsNvidia(here.cluster, files, total, environment, mig_config, options)
        yield here
    finally:
        here.close()
        here.cluster.kubectl("label", "node", "node", LABEL + "-")


def sliced(replicas, more="", flags=""):
    return f"version: v1\nflags: {{{flags}}}\nsharing: {{timeSlicing: {{{more}resources: [{{name: {GPU}, replicas: {replicas}}}]}}}}\n"


def holder(here, name, resource=GPU):
    made = here.pod(name, pod(command=["busybox", "sh", "-c", "echo visible=$NVIDIA_VISIBLE_DEVICES; exec busybox sleep 36000"], slots=1, resource=resource))
    made.await_line("visible=GPU-")
    return made


def choose(here, name):
    here.cluster.kubectl("label", "node", "node", "--overwrite", f"{LABEL}={name}")


def test_a_label_switches_the_configuration_while_pods_run():
    files = {"default": sliced(2), "many": sliced(5, flags="gfd: {noTimestamp: true}"), "shared": sliced(3, "renameByDefault: true, ")}
    with as_nvidia(files, 2) as here:
        held = [holder(here, "before")]
        choose(here, "many")
        here.cluster.await_resource(GPU, 5)
        held.append(holder(here, "meanwhile"))
        here.cluster.until("/api/v1/nodes", lambda nodes: nodes["node"]["metadata"]["labels"].get("nvidia.com/gpu.replicas") == "5", "no label says it")
        labels = here.cluster.node()["metadata"]["labels"]
        assert labels["nvidia.com/gpu.product"] == "Simulated-GPU-SHARED" and labels["nvidia.com/gpu.sharing-strategy"] == "time-slicing", labels
        choose(here, "shared")
        here.cluster.await_resource(GPU + ".shared", 3)
        here.cluster.await_resource(GPU, 0)
        held.append(holder(here, "renamed", GPU + ".shared"))
        choose(here, "many")
        here.cluster.await_resource(GPU, 5)
        held.append(holder(here, "after"))
        for made in held:
            state, = made.get()["status"]["containerStatuses"]
            assert "running" in state["state"] and state["restartCount"] == 0, (made.name, state)


def test_a_container_gets_the_driver_by_cdi():
    """The runtime reads the files that meted wrote, and mounts the driver. The test's node has no nvidia-ctk for the hook."""
    for strategy in "cdi-cri", "cdi-annotations":
        with as_nvidia({"default": "version: v1\n"}, 1, DEVICE_LIST_STRATEGY=strategy, CDI_DISABLE_HOOKS="all") as here:
            made = here.pod("by-cdi", pod(command=["seen"], env={"LD_LIBRARY_PATH": "/usr/lib/mete/driver"}, slots=1, resource=GPU))
            assert made.await_end() == 0
            assert seen(made.await_line("^seen .*")[0])["devices"] == 1


if __name__ == "__main__":
    run(globals())
