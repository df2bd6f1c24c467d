#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`mete migrate --from nvidia`: what it prints for what NVIDIA's plugin is deployed by, word for word, and that kustomize makes of it what it should.

    TEST.py BUILD

METE_GOLDEN=write writes the answers of tests/cli/migrate anew."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

from mete import *
from kubectl import kubectl

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HERE = os.path.join(ROOT, "tests", "cli", "migrate")
PLUGIN = os.path.join(HERE, "static.yaml")


def mete(*words, **more):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("METE_")}
    environment.update(more.pop("environment", {}))
    return subprocess.run([os.path.join(BUILD, "cli", "mete"), *words], env=environment, cwd=HERE, text=True, capture_output=True, timeout=240, **more)


def migrate(*files, status=0, **more):
    done = mete("migrate", "--from", "nvidia", *files, stdin=subprocess.DEVNULL, **more)
    assert done.returncode == status, done
    return done.stdout


def golden(name, said):
    path = os.path.join(HERE, name)
    if os.environ.get("METE_GOLDEN") == "write":
        with open(path, "w") as file:
            file.write(said)
    assert said == open(path).read(), f"{path}: it says\n{said}"


def test_each_way_to_deploy_it_has_its_golden_answer():
    for name in ("static.yaml", "chart.yaml", "operator.json", "operator-slicing.yaml", "labels.yaml", "helm-mps.yaml", "aws.yaml", "gke.yaml"):
        golden(name.split(".")[0] + ".golden", migrate(name))


def test_a_configuration_that_meted_would_refuse_is_refused_and_printed():
    text = open(os.path.join(HERE, "chart.yaml")).read()
    for before, after, words in (
            ("replicas: 4", "replicas: 4\n      mps: {resources: [{name: nvidia.com/gpu, replicas: 1}]}", "refused: shared:10: sharing.mps.resources[0]: '1' is not such"),
            ("replicas: 4", "replicas: 1", "refused: shared:9: "),
            ("version: v1\n    flags", "version: v9\n    flags", "refused: shared:1: version: 'v9'")):
        assert before in text
        said = mete("migrate", "--from", "nvidia", "-", input=text.replace(before, after, 1))
        assert said.returncode == 1 and f"#  * {words}" in said.stdout and "refused" in said.stderr, said
        assert "kind: Kustomization" in said.stdout


def test_feature_discovery_is_named_because_pods_select_nodes_by_its_labels():
    text = open(os.path.join(HERE, "chart.yaml")).read()
    assert "feature discovery" not in migrate("chart.yaml")
    other = """---
kind: DaemonSet
metadata: {name: nvdp-gpu-feature-discovery}
spec: {template: {spec: {containers: [{name: gpu-feature-discovery-ctr, image: "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"}]}}}
"""
    for both in text + other, other + "---\n" + text:
        said = mete("migrate", "--from", "nvidia", "-", input=both)
        assert said.returncode == 0, said
        assert "#  * the DaemonSet nvdp-gpu-feature-discovery runs GPU feature discovery, and may go on" in said.stdout, said.stdout


def changed(text, *pairs):
    for before, after in pairs:
        assert before in text, before
        text = text.replace(before, after, 1)
    return mete("migrate", "--from", "nvidia", "-", input=text)


def test_the_configuration_is_that_of_the_file_which_the_plugin_reads():
    """Without the container that chooses by labels."""
    text = open(os.path.join(HERE, "aws.yaml")).read()
    volume = "configMap: {name: nvidia-device-plugin}"
    bundle = "volumes:\n      - {name: ca, configMap: {name: certificates}}\n"
    for pairs, file in (
            ([], "eks-a10g"),
            ([("/etc/cfg/eks-a10g", "/etc/cfg/eks-whole")], "eks-whole"),
            # The first one mounted is something else, which nobody has to give.
            ([("volumes:\n", bundle)], "eks-a10g"),
            # The same path is something else in a container beside it.
            ([("      - image", "      - {name: beside, image: x, volumeMounts: [{name: other, mountPath: /etc/cfg}]}\n      - image"),
              ("volumes:\n", "volumes:\n      - {name: other, configMap: {name: others}}\n")], "eks-a10g"),
            ([(volume, "configMap: {name: nvidia-device-plugin, items: [{key: eks-whole, path: eks-a10g}]}")], "eks-whole"),
            ([("mountPath: /etc/cfg}", "mountPath: /etc/cfg/eks-a10g, subPath: eks-whole}")], "eks-whole"),
            ([(volume, "projected: {sources: [{secret: {name: x}}, {" + volume + "}]}")], "eks-a10g"),
            # An option goes before a variable.
            ([("securityContext", "env: [{name: CONFIG_FILE, value: /etc/cfg/eks-whole}]\n        securityContext")], "eks-a10g"),
            ([('"--config-file=/etc/cfg/eks-a10g", ', ""), ("securityContext", "env: [{name: CONFIG_FILE, value: /etc/cfg/eks-whole}]\n        securityContext")], "eks-whole")):
        said = changed(text, *pairs)
        other = {"eks-a10g": "eks-whole", "eks-whole": "eks-a10g"}[file]
        assert said.returncode == 0 and f'"/etc/mete/{file}"]' in said.stdout and f"    {file}=version: v1\n" in said.stdout, (pairs, said)
        assert f"    {other}=" not in said.stdout and "CONFIG_FILE" not in said.stdout, (pairs, said.stdout)
    for pairs, words in (
            ([("/etc/cfg/eks-a10g", "/etc/cfg/nowhere")], ["/etc/cfg/nowhere", "the ConfigMap nvidia-device-plugin does not have"]),
            ([(volume, "hostPath: {path: /etc/nvidia}")], ["/etc/cfg/eks-a10g, which is in no ConfigMap"])):
        refused(changed(text, *pairs), *words, status=1)
    # It reads none: what it mounts is something else.
    said = changed(text, ('"--config-file=/etc/cfg/eks-a10g", ', ""))
    assert said.returncode == 0 and "config.yaml=version: v1" in said.stdout and "eks" not in said.stdout.split("configMapGenerator")[1].split("patches")[0], said


def test_gpus_that_the_plugin_does_not_see_are_named():
    text = open(os.path.join(HERE, "operator-slicing.yaml")).read()
    assert "NVIDIA_VISIBLE_DEVICES" not in changed(text).stdout
    said = changed(text, ("{name: NVIDIA_VISIBLE_DEVICES, value: all}", '{name: NVIDIA_VISIBLE_DEVICES, value: "0,1"}'))
    assert said.returncode == 0 and "which that plugin sees only the GPUs '0,1'" in said.stdout, said
    # Nobody knows which.
    said = changed(text, ("{name: NVIDIA_VISIBLE_DEVICES, value: all}", "{name: NVIDIA_VISIBLE_DEVICES, valueFrom: {configMapKeyRef: {name: gpus, key: seen}}}"))
    assert said.returncode == 0 and "NVIDIA_VISIBLE_DEVICES, whose value is not in the DaemonSet (valueFrom)" in said.stdout and "sees only" not in said.stdout, said


def test_plugins_of_others_and_values_of_a_chart_are_named():
    for name, image in ("aws-virtual-gpu-device-plugin-daemonset", "amazon/aws-virtual-gpu-device-plugin:v0.1.0"), ("nvidia-gpu-device-plugin-small-cos", "gke.gcr.io/nvidia-gpu-device-plugin@sha256:01"):
        said = changed(f"kind: DaemonSet\nmetadata: {{name: {name}}}\nspec: {{template: {{spec: {{containers: [{{name: p, image: '{image}'}}]}}}}}}\n")
        refused(said, f"the DaemonSet {name} is AWS's or GKE's own plugin", "docs/nvidia.md", status=1)
    refused(changed("config: {default: shared}\nmigStrategy: none\n"), "what `helm template` prints", status=1)


DISCOVERY = """---
kind: DaemonSet
metadata: {name: nvdp-gfd}
spec:
  template:
    spec:
      containers:
      - {name: gpu-feature-discovery-sidecar, image: "nvcr.io/nvidia/k8s-device-plugin:v0.20.0", command: [config-manager], env: [{name: DEFAULT_CONFIG, value: x}]}
      - name: gpu-feature-discovery-ctr
        image: "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"
        command: [gpu-feature-discovery]
        args: ARGS
        env: ENV
"""


def discovery(args, env):
    """What is said of that DaemonSet."""
    text = open(os.path.join(HERE, "chart.yaml")).read() + DISCOVERY
    text = text.replace("ARGS", json.dumps(args)).replace("ENV", json.dumps([{"name": name, "value": value} for name, value in env.items()]))
    said = mete("migrate", "--from", "nvidia", "-", input=text)
    assert said.returncode == 0, said
    return [line.removeprefix("#  * ") for line in said.stdout.splitlines() if "nvdp-gfd" in line]


def test_each_setting_of_feature_discovery_is_carried_over_or_named():
    begin = "the DaemonSet nvdp-gfd runs GPU feature discovery, and may go on: its labels go with it. Before it goes, write 'gfd: {%s}' below the flags of each "
    # The chart's own, which change nothing.
    usual = {"NODE_NAME": "n", "NAMESPACE": "nvidia", "POD_NAME": "p", "NVIDIA_MIG_MONITOR_DEVICES": "all", "GFD_USE_NODE_FEATURE_API": "true",
             "GFD_SLEEP_INTERVAL": "60s", "GFD_FAIL_ON_INIT_ERROR": "TRUE", "GFD_NO_TIMESTAMP": "false"}
    said = discovery([], usual)
    assert len(said) == 1 and said[0].startswith(begin % ""), said
    for args, env in ((["--no-timestamp", "--machine-type-file", "/etc/machine"], {}),
                      (["-no-timestamp=true", "--machine-type-file=/etc/machine"], {"GFD_NO_TIMESTAMP": "false", "GFD_MACHINE_TYPE_FILE": "/not/this"}),
                      ([], {"GFD_NO_TIMESTAMP": "true", "GFD_MACHINE_TYPE_FILE": "/etc/machine"})):
        said = discovery(args, env)
        assert len(said) == 1 and said[0].startswith(begin % 'noTimestamp: true, machineTypeFile: "/etc/machine"'), said
    assert begin % "" in discovery(["--no-timestamp=false"], {"GFD_NO_TIMESTAMP": "true"})[0]
    for name, value in ("GFD_ONESHOT", "true"), ("GFD_SLEEP_INTERVAL", "infinite"), ("GFD_OUTPUT_FILE", "/x"), ("USE_NODE_FEATURE_API", "false"), ("DEVICE_DISCOVERY_STRATEGY", "vfio"):
        said = discovery([], {name: value})
        assert len(said) == 2 and said[0].startswith(f"not carried over from the DaemonSet nvdp-gfd: {name}, which has no meaning for mete"), said
    said = discovery(["--oneshot", "--sleep-interval", "5s"], {"GFD_X": "1"})
    assert [line.split(": ")[1].split(",")[0] for line in said[:3]] == ["--oneshot", "--sleep-interval", "GFD_X"] and "does not know" in said[2], said
    for args, env, named in ((["--mig-strategy=mixed"], {}, "--mig-strategy"), ([], {"GFD_MIG_STRATEGY": "mixed"}, "GFD_MIG_STRATEGY"), ([], {"MIG_STRATEGY": "mixed"}, "MIG_STRATEGY")):
        said = discovery(args, env)
        assert said[0] == f"the DaemonSet nvdp-gfd has {named} 'mixed': meted's labels follow the plugin's, which is that of the configuration", said


def test_what_the_chooser_of_a_configuration_is_told_is_carried_over_or_named():
    text = open(os.path.join(HERE, "chart.yaml")).read()
    before = """        command: [config-manager]
        env:
"""
    assert before in text
    args = '        command: [config-manager, "--node-label=example.com/gpu", --default-config, whole, --oneshot=false, "--signal", "1"]\n        envFrom: [{configMapRef: {name: more}}]\n        env:\n'
    text = text.replace(before, args, 1).replace("{nvidia.com/device-plugin.config: sharde}", "{example.com/gpu: sharde}", 1)
    said = mete("migrate", "--from", "nvidia", "-", input=text)
    assert said.returncode == 0, said
    # The command line goes before the environment.
    for words in ('- {name: NODE_LABEL, value: "example.com/gpu"}', '- {name: DEFAULT_CONFIG, value: "whole"}',
                  "#  * not carried over: the option --oneshot of config-manager, which mete does not know",
                  "#  * not carried over: the option --signal of config-manager, which mete does not know",
                  "#  * not carried over: the variables of envFrom, which are in the ConfigMap more",
                  "#  * node two: its label example.com/gpu names 'sharde'"):
        assert words in said.stdout, (words, said.stdout)


def test_mps_is_carried_over_and_its_changes_are_named():
    text = open(os.path.join(HERE, "chart.yaml")).read()
    said = mete("migrate", "--from", "nvidia", "-", input=text.replace("replicas: 4", "replicas: 4\n      mps: {resources: [{name: nvidia.com/gpu, replicas: 2}]}", 1))
    assert said.returncode == 0, said
    assert "#  * shared: meted runs MPS's control daemons itself, and limits hold per pod: remove the DaemonSet" in said.stdout, said.stdout
    assert '- {name: mps, mountPath: "/run/nvidia/mps", mountPropagation: Bidirectional}' in said.stdout, said.stdout


def test_a_drivers_folder_of_any_name_is_quoted():
    text = open(os.path.join(HERE, "chart.yaml")).read()
    before = "{name: NVIDIA_DRIVER_ROOT, value: /run/nvidia/driver}"
    assert before in text
    said = mete("migrate", "--from", "nvidia", "-", input=text.replace(before, "{name: NVIDIA_DRIVER_ROOT, value: '/run/a \"driver\"'}", 1))
    assert said.returncode == 0 and '{name: CONTAINER_DRIVER_ROOT, value: "/host/run/a \\"driver\\""}\n' in said.stdout, said


def test_an_option_that_plugin_does_not_have_is_refused_with_the_nearest():
    text = open(os.path.join(HERE, "chart.yaml")).read().replace("--device-id-strategy", "--device-id-stratgy", 1)
    said = mete("migrate", "--from", "nvidia", "-", input=text)
    assert said.returncode == 1 and "--device-id-strategy" in said.stderr and len(said.stderr.splitlines()) == 1, said


def test_a_mistake_in_the_command_or_a_file_is_one_sentence():
    cases = (
        (["--from", "hami", PLUGIN], 2, ["'hami': accepted: nvidia (from HAMi, by hand: docs/howto-from-hami.md)"]),
        (["--from", "x", PLUGIN], 2, ["'x': accepted: nvidia"]),
        ([PLUGIN], 2, ["--from is missing; accepted: nvidia, as in: mete migrate --from nvidia"]),
        (["--from", "nvidia", "/nowhere.yaml"], 1, ["/nowhere.yaml"]),
        (["--from", "nvidia", os.path.join(ROOT, "deploy/base/rbac.yaml")], 1, ["no DaemonSet", "k8s-device-plugin"]),
        (["--from", "nvidia", PLUGIN, os.path.join(HERE, "chart.yaml")], 1, ["two DaemonSets", "nvidia-device-plugin-daemonset", "nvdp-nvidia-device-plugin"]),
    )
    for words, status, wanted in cases:
        refused(mete("migrate", *words), *wanted, status=status)
    text = open(os.path.join(HERE, "chart.yaml")).read()
    refused(mete("migrate", "--from", "nvidia", "-", input=text[:text.index("---")]), "ConfigMap nvdp-configs", "give it, too", status=1)
    # The line is the file's, not the document's.
    broken = text + "---\nkind: Node\nmetadata: {name: [\n"
    done = mete("migrate", "--from", "nvidia", "-", input=broken)
    refused(done, "standard input:", status=1)
    line = int(done.stderr.split("standard input:")[1].split(":")[0])
    assert line >= broken.count("\n") - 1, done.stderr


def test_objects_of_any_shape_end_in_a_sentence_or_an_answer():
    """Each value of the objects in turn is another thing."""
    text = open(os.path.join(HERE, "operator.json")).read()
    whole = json.loads(text)

    def places(node):
        for key in (list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()):
            yield node, key
            yield from places(node[key])

    tried = 0
    for node, key in list(places(whole)):
        before = node[key]
        other = [[], {}, "x", None, ["x"], {"a": {"b": "c"}}, 7][tried % 7]
        node[key] = other
        done = mete("migrate", "--from", "nvidia", "-", input=json.dumps(whole))
        assert done.returncode in (0, 1) and (done.returncode == 0 or len(done.stderr.splitlines()) == 1), (key, other, done)
        node[key] = before
        tried += 1
    assert tried > 50 and json.loads(text) == whole


KUBECTL = r'''#!/bin/sh
# The API server's answers: objects are in $OBJECTS.
echo "$1 $2" >>"$OBJECTS/asked"
case "$1 $2 $3" in
"get daemonsets -A") cat "$OBJECTS/daemonsets" ;;
"get configmap nvdp-configs") [ "$5" = nvidia ] && cat "$OBJECTS/map" ;;
"get nodes -l") cat "$OBJECTS/nodes" ;;
*) exit 1 ;;
esac
'''


def a_cluster(place, parts, kubectl):
    """The environment of `mete migrate`, in which a program in kubectl's place answers with these parts."""
    for name, part in {**parts, "kubectl": kubectl}.items():
        with open(f"{place}/{name}", "w") as file:
            file.write(part)
    os.chmod(place + "/kubectl", 0o755)
    return {"OBJECTS": place, "PATH": place + ":" + os.environ["PATH"]}


def test_from_a_cluster_it_reads_the_same_through_kubectl():
    text = open(os.path.join(HERE, "chart.yaml")).read()
    parts = dict(zip(("daemonsets", "map", "nodes"), text.split("---\n")))
    with tempfile.TemporaryDirectory(prefix="mete-") as place:
        environment = a_cluster(place, parts, KUBECTL)
        golden("chart.golden", migrate(environment=environment))
        asked = open(place + "/asked").read()
        assert asked.splitlines() == ["get daemonsets", "get configmap", "get nodes"], asked
        os.unlink(place + "/map")
        done = mete("migrate", "--from", "nvidia", stdin=subprocess.DEVNULL, environment=environment)
        assert done.returncode == 1 and "kubectl get configmap failed" in done.stderr, done
    done = mete("migrate", "--from", "nvidia", stdin=subprocess.DEVNULL, environment={"PATH": "/nowhere"})
    refused(done, "there is no kubectl", status=1)


# Answers with what the template makes of the nodes in $OBJECTS/nodes.json; all that it knows of templates is what ours uses.
TEMPLATES = r'''#!/usr/bin/env python3
import json, os, re, sys
folder = os.environ["OBJECTS"]
if sys.argv[2] != "nodes":
    sys.stdout.write(open(folder + {"daemonsets": "/daemonsets", "configmap": "/map"}[sys.argv[2]]).read())
    sys.exit()
before, each, after = re.fullmatch(r"(.*)\{\{range \.items\}\}(.*)\{\{end\}\}(.*)", sys.argv[sys.argv.index("--template") + 1], re.S).groups()
def made(node):
    text = re.sub(r"\{\{index \.metadata\.labels \"(.*?)\"\}\}", lambda found: node["metadata"]["labels"][found[1]], each)
    return text.replace("{{.metadata.name}}", node["metadata"]["name"])
sys.stdout.write(before + "".join(map(made, json.load(open(folder + "/nodes.json")))) + after)
'''


def test_a_cluster_has_many_labelled_nodes_or_none():
    text = open(os.path.join(HERE, "chart.yaml")).read()
    parts = dict(zip(("daemonsets", "map"), text.split("---\n")))
    label = "nvidia.com/device-plugin.config"
    with tempfile.TemporaryDirectory(prefix="mete-") as place:
        environment = a_cluster(place, parts, TEMPLATES)

        def said(nodes):
            with open(place + "/nodes.json", "w") as file:
                json.dump([{"metadata": {"name": name, "labels": {label: value}}} for name, value in nodes], file)
            return migrate(environment=environment)

        golden("chart.golden", said([("one", "whole"), ("two", "sharde")]))
        # There are more of them than there may be documents. The last one is read, too.
        many = said([(f"n{n}", "whole") for n in range(1000)] + [("last", "sharde")])
        assert "last" in many and "sharde" in many, many
        assert "sharde" not in said([])
        # Nodes may have their configuration by another label.
        label = "example.com/gpu"
        chosen = "        command: [config-manager]\n        env:\n"
        assert chosen in parts["daemonsets"]

        def chosen_by(label):
            with open(place + "/daemonsets", "w") as file:
                file.write(parts["daemonsets"].replace(chosen, chosen + f"        - {{name: NODE_LABEL, value: '{label}'}}\n", 1))
        chosen_by(label)
        other = said([("one", "whole"), ("two", "sharde")])
        assert "node two: its label example.com/gpu names 'sharde'" in other, other
        chosen_by("a}}b")
        refused(mete("migrate", "--from", "nvidia", stdin=subprocess.DEVNULL, environment=environment), "NODE_LABEL: 'a}}b' is no label's name", status=1)


def test_kustomize_makes_of_it_the_daemonset_with_these_settings():
    program = kubectl()
    for name, wanted in (("static.yaml", ["mete.dev/shared: \"true\"", "FAIL_ON_INIT_ERROR", "- /etc/mete/config.yaml"]),
                         ("chart.yaml", ["pool: gpu", "DEFAULT_CONFIG", "nvidia.com/gpu.present", "- /etc/mete\n", "renameByDefault: true", "  whole: |"]),
                         ("operator.json", ["nvidia.com/gpu.deploy.device-plugin: \"true\"", "cdi-annotations,cdi-cri", "migStrategy: mixed"]),
                         ("helm-mps.yaml", ["mountPropagation: Bidirectional\n          name: mps", "path: /run/nvidia/mps", "replicas: 10", "feature.node.kubernetes.io/pci-10de.present"]),
                         ("labels.yaml", ["  a100-40gb: |", "  tesla-t4: |", "named,single,empty", "mete.dev/shared: \"true\""]),
                         ("aws.yaml", ["- /etc/mete/eks-a10g\n", "replicas: 10", "k8s.amazonaws.com/accelerator: nvidia-a10g", "PASS_DEVICE_SPECS"]),
                         ("gke.yaml", ["- /etc/mete/gke.yaml\n", "replicas: 3", "/host/home/kubernetes/bin/nvidia", "cloud.google.com/gke-accelerator"])):
        with tempfile.TemporaryDirectory(prefix="mete-") as place:
            # kustomize takes no absolute path, and follows none out of its sight by links.
            shutil.copytree(os.path.join(ROOT, "deploy", "base"), place + "/base")
            os.mkdir(place + "/own")
            with open(place + "/own/kustomization.yaml", "w") as file:
                file.write(migrate("--base", "../base", name))
            made = subprocess.run([program, "kustomize", place + "/own"], text=True, capture_output=True)
        assert made.returncode == 0, made.stderr
        for words in wanted:
            assert words in made.stdout, (name, words, made.stdout)
        assert "Probe" not in made.stdout and 'prometheus.io/scrape: "false"' in made.stdout
        assert ("mete.dev/shared" in made.stdout) == (name in ("static.yaml", "labels.yaml")), name


if __name__ == "__main__":
    run(globals(), sys.argv[2:])
