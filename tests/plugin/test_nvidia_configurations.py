#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Configurations of NVIDIA's device plugin that a label of the node chooses, and the labels that the node gets."""
import contextlib

from node import *
from meted import run

LABEL = "nvidia.com/device-plugin.config"


@contextlib.contextmanager
def named(configurations, labels=None, **environment):
    """A folder of configurations, as a ConfigMap is mounted: links to what a folder has that is replaced as a whole."""
    with Node(start=False, labels=labels) as node:
        node.file = node.folder + "/configurations"
        os.mkdir(node.file)
        node.options[1] = node.file

        def fill(configurations):
            version = f"..{next(node.kubelet.tags)}"
            os.mkdir(f"{node.file}/{version}")
            for name, content in configurations.items():
                with open(f"{node.file}/{version}/{name}", "w") as file:
                    file.write(content)
                if not os.path.islink(f"{node.file}/{name}"):
                    os.symlink(f"..data/{name}", f"{node.file}/{name}")
            for name in set(os.listdir(node.file)) - set(configurations):
                if not name.startswith(".."):
                    os.unlink(f"{node.file}/{name}")
            os.symlink(version, node.file + "/..new")
            os.rename(node.file + "/..new", node.file + "/..data")
        node.fill = fill
        fill(configurations)
        node.tell_by_environment(**environment)
        yield node


def replicas(count, more=""):
    """As the GPU Operator's documentation writes it."""
    return f"""version: v1
flags:
  migStrategy: none
sharing:
  timeSlicing:
    {more}
    resources:
    - name: nvidia.com/gpu
      replicas: {count}
"""


def test_a_label_of_the_node_switches_its_configuration_while_containers_run():
    with named({"any": replicas(2), "many": replicas(5), "shared": replicas(3, "renameByDefault: true")}, {"a": "b"}) as node:
        node.start()
        assert node.kubelet.hear("registered") == "registered nvidia.com/gpu 0 1"
        node.kubelet.hear("listed 4")
        assert node.kubelet.ask("allocate", node.id(1)).startswith("ok ")
        node.api.set_node({LABEL: "many"})
        node.kubelet.hear("listed 10")
        assert node.kubelet.ask("allocate", node.id(4, 1)).startswith("ok ")
        node.api.set_node({LABEL: "nowhere"})
        node.await_log("config.refused .*there is no configuration 'nowhere', which the node's label names; there is any, many, shared")
        assert len(node.kubelet.devices()) == 10, "what is in force stays"
        node.api.set_node({LABEL: "shared"})
        assert node.kubelet.hear("registered") == "registered nvidia.com/gpu.shared 0 1"
        node.kubelet.hear("listed 6")
        assert os.listdir(node.kubelet.plugins).count("mete-gpu.sock") == 0, "the former name is not served"
        assert node.kubelet.ask("allocate", node.id(2)).startswith("ok ")
        node.fill({"any": replicas(2), "shared": replicas(7, "renameByDefault: true")})
        node.kubelet.hear("listed 14")
        node.api.set_node({})
        assert node.kubelet.hear("registered") == "registered nvidia.com/gpu 0 1"
        node.kubelet.hear("listed 4")


def test_labels_that_others_change_are_no_news_of_the_configuration():
    with named({"any": replicas(2) + "resources: {gpus: [{pattern: '*', name: gpu}]}\n"}, {"a": "b"}) as node:
        node.start()
        node.kubelet.hear("listed 4")
        before = node.log().count("config.loaded")
        for n in range(5):
            node.api.set_node({"somebody": f"{n}"})
            node.await_log("config.loaded", before + n + 1)
        assert node.log().count("config.warning") == 1, node.log()
        node.fill({"any": replicas(3) + "resources: {gpus: [{pattern: '*', name: gpu}]}\n"})
        node.kubelet.hear("listed 6")
        assert node.log().count("config.warning") == 2, node.log()


def test_a_label_that_flips_many_times_ends_in_the_last_one_even_over_a_kill():
    ends = {f"end{round}": replicas(6 + round) for round in range(4)}
    with named({"two": replicas(2), "five": replicas(5), "shared": replicas(3, "renameByDefault: true"), **ends}, {LABEL: "two"}) as node:
        node.start()
        node.kubelet.hear("registered")
        for round in range(4):
            for name in ["five", "shared", "two"] * 5 + ["shared", f"end{round}"]:
                node.api.set_node({LABEL: name})
            if round % 2:
                node.meted.kill()
                node.kubelet.happened.clear()
                node.meted.start()
                assert node.kubelet.hear("registered") == "registered nvidia.com/gpu 0 1", "its label is known before it registers"
            node.kubelet.await_devices(lambda now: set(now) == {node.id(n, device) for n in range(6 + round) for device in range(2)})
            assert node.kubelet.ask("allocate", node.id(5 + round)).startswith("ok ")
            assert [name for name in os.listdir(node.kubelet.plugins) if name.startswith("mete-")] == ["mete-gpu.sock"]


def test_nothing_is_offered_before_the_configuration_is_known():
    with named({"a": replicas(2), "b": replicas(3)}, {"other": "b"}, NODE_LABEL="pool") as node:
        node.api.held["nodes"] = 0
        node.start()
        node.await_log("plugin.waits .*labels of node node-1")
        node.api.release("nodes")
        node.await_log("config.refused .*neither a label of the node nor \\$DEFAULT_CONFIG names a configuration; there is a, b")
        verdict, words = node.doctor("refused")
        assert verdict == "wrong" and "neither a label of the node nor $DEFAULT_CONFIG" in words and "$FALLBACK_STRATEGIES" in words, words
        assert not [name for name in os.listdir(node.kubelet.plugins) if name.startswith("mete-")]
        node.api.set_node({"pool": "b"})
        node.kubelet.hear("registered")
        node.kubelet.hear("listed 6")
        assert node.doctor("refused")[0] == "ok"


def test_a_node_without_an_api_server_has_the_fallback():
    for environment, devices in ({"DEFAULT_CONFIG": "b"}, 6), ({"FALLBACK_STRATEGIES": "empty"}, 2), ({}, None):
        with named({"a": replicas(2), "b": replicas(3)}, **environment) as node:
            node.environment["KUBECONFIG"] = ""
            if devices is None:
                refused = subprocess.run(node.command(), env=dict(os.environ, **node.environment), stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
                assert refused.returncode and "names a configuration; there is a, b" in refused.stderr, refused
                continue
            node.start()
            node.kubelet.hear("registered")
            node.kubelet.hear(f"listed {devices}")


def features(node):
    return {key: value for key, value in node.api.node()["metadata"]["labels"].items() if key.startswith("nvidia.com/")}


SIMULATED = {  # what follows from the simulator's settings
    "cuda.driver.major": "575", "cuda.driver.minor": "57", "cuda.driver.rev": "08",
    "cuda.driver-version.major": "575", "cuda.driver-version.minor": "57", "cuda.driver-version.revision": "08", "cuda.driver-version.full": "575.57.08",
    "cuda.runtime.major": "12", "cuda.runtime.minor": "9", "cuda.runtime-version.major": "12", "cuda.runtime-version.minor": "9",
    "cuda.runtime-version.full": "12.9", "mig.capable": "false", "mps.capable": "false", "gpu.mode": "unknown", "gpu.machine": "The-Machine",
    "gpu.product": "Simulated-GPU-SHARED", "gpu.count": "2", "gpu.replicas": "4", "gpu.sharing-strategy": "time-slicing", "gpu.memory": "4096",
    "gpu.family": "volta", "gpu.compute.major": "7", "gpu.compute.minor": "0", "vgpu.present": "false"}


def test_the_node_has_the_labels_of_gpu_feature_discovery_where_the_file_asks_for_them():
    wanted = {"nvidia.com/" + key: value for key, value in SIMULATED.items()}
    with named({}, {"zone": "a"}) as node:
        with open(node.folder + "/dated", "w") as file:
            file.write("The Machine\n")
        os.symlink("dated", node.folder + "/machine")  # as a ConfigMap has it
        gfd = f"flags: {{gfd: {{noTimestamp: true, machineTypeFile: {node.folder}/machine}}}}\n"
        sliced = "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n"
        node.fill({"default": "version: v1\n" + gfd + sliced, "whole": "version: v1\n" + gfd, "none": "version: v1\n"})
        node.start()
        node.kubelet.hear("registered")
        until(lambda: features(node), "no labels")
        assert features(node) == wanted, {key: value for key, value in features(node).items() if value != wanted.get(key)}
        assert node.api.node()["metadata"]["labels"]["zone"] == "a"
        node.api.set_node({LABEL: "whole"})  # and somebody has removed the others
        until(lambda: len(features(node)) > 1 and features(node) == {**wanted, LABEL: "whole", "nvidia.com/gpu.product": "Simulated-GPU",
                                                                     "nvidia.com/gpu.replicas": "1", "nvidia.com/gpu.sharing-strategy": "none"},
              lambda: f"the labels are {features(node)}")
        node.api.set_node({LABEL: "none"})
        node.await_log("config.loaded path=.*/none")
        node.fill({"none": "version: v1\n" + sliced})  # whatever it still had to write is written before
        node.kubelet.hear("listed 8")
        assert features(node) == {LABEL: "none"}, "it does not ask for them"


def test_a_folder_may_have_many_configurations():
    with named({**{f"c{n}": "version: v1\n" for n in range(300)}, "z": replicas(3)}, {LABEL: "z"}) as node:
        node.start()
        node.kubelet.hear("listed 6")


def test_a_fabric_that_comes_up_late_is_named_by_a_label():
    """Its manager may need longer than meted, and each GPU its own time."""
    cluster = "01234567-89ab-cdef-0123-456789abcdef"
    with named({"default": "version: v1\nflags: {gfd: {noTimestamp: true}}\n"}, {}) as node:
        def has(*lines):
            with open(node.sim + "/fabric.new", "w") as file:
                file.writelines(line + "\n" for line in lines)
            os.rename(node.sim + "/fabric.new", node.sim + "/fabric")
        has(f"0 2 {cluster} 7", f"1 3 {'0' * 32} 7")  # one is not complete, the other has no fabric
        node.start()
        until(lambda: features(node), "no labels")
        assert "nvidia.com/gpu.clique" not in features(node)
        has(f"0 3 {cluster} 7", f"1 3 {cluster} 7")
        until(lambda: features(node).get("nvidia.com/gpu.clique") == f"{cluster}.7", lambda: f"the labels are {features(node)}")


def test_a_node_that_mete_shares_has_the_labels_too_where_it_is_asked_for():
    with Node(feature_labels="on", labels={}) as node:
        until(lambda: features(node), "no labels")
        found = features(node)
        assert found["nvidia.com/gpu.product"] == "Simulated-GPU" and found["nvidia.com/gpu.replicas"] == "4", "another resource"
        assert found.pop("nvidia.com/gfd.timestamp").isdigit()


if __name__ == "__main__":
    run(globals())
