#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""deploy/chart: what it renders is what the kustomizations are, each of its values has an effect, and no misspelt one is taken.

    TEST.py BUILD SOURCE"""
import difflib
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from helm import KUBERNETES, ROOT, documents, run_helm
from chart_values import REFUSED, VALUES
from kubectl import kubectl
from runner import run

CHART = os.path.join(ROOT, "deploy", "chart", "mete")
BASE = ["namespace.create=true", "image.tag=latest"]  # in which the kustomization differs by its nature


def render(*settings, release="mete", namespace="mete-system", version=KUBERNETES):
    words = [word for setting in settings for word in ("--set-json" if re.search(r"=[\[{]", setting) else "--set", setting)]
    return run_helm("template", release, CHART, "--namespace", namespace, "--kube-version", version, *words)


def parsed(*texts):
    """The objects of each text, by kind and name; the files of a ConfigMap are parsed, too."""
    lists = documents(*texts)
    files = [(object, name) for objects in lists for object in objects if object["kind"] == "ConfigMap" for name in object["data"]]
    for (object, name), (content, *_) in zip(files, documents(*(object["data"][name] for object, name in files)) if files else []):
        object["data"][name] = content
    return [{f"{object['kind']}/{object['metadata']['name']}": object for object in objects} for objects in lists]


def rendered(*settings, **more):
    done = render(*settings, **more)
    assert done.returncode == 0, (settings, done.stderr)
    return done.stdout


def kustomized(folder):
    return subprocess.run([kubectl(), "kustomize", os.path.join(ROOT, "deploy", folder)], text=True, check=True, capture_output=True).stdout


def alike(object):
    """Without what a chart adds to every object, and with the order of lists that have none."""
    for name in ("app.kubernetes.io/instance", "app.kubernetes.io/version", "app.kubernetes.io/managed-by", "helm.sh/chart", "app.kubernetes.io/name"):
        object["metadata"].get("labels", {}).pop(name, None)
    if not object["metadata"].get("labels"):
        object["metadata"].pop("labels", None)
    if object["kind"].startswith("ValidatingAdmissionPolicy") or object["kind"] == "DeviceClass":
        object["metadata"].pop("namespace", None)  # kubectl kustomize takes these for objects of a namespace
    if object["kind"] == "ConfigMap":
        object["data"] = json.loads(json.dumps(object["data"]).replace('"on"', "true"))  # helm writes "on", a person on
    if object["kind"] == "DaemonSet":
        spec = object["spec"]["template"]["spec"]
        spec["volumes"].sort(key=lambda one: one["name"])
        for container in spec["containers"] + spec["initContainers"]:
            for key in "volumeMounts", "env":
                container[key] = sorted(container.get(key, []), key=lambda one: one["name"])
    return object


def same(folder, *settings):
    ours, theirs = parsed(rendered(*BASE, *settings), kustomized(folder))
    assert set(ours) == set(theirs), set(ours) ^ set(theirs)
    for name in ours:
        one, other = alike(ours[name]), alike(theirs[name])
        assert one == other, "\n".join(difflib.unified_diff(*(json.dumps(each, indent=1, sort_keys=True).splitlines() for each in (one, other)), name, folder))


CLAIMS = ["claims.enabled=true", "mete.share=null", "mete.slots=10"]


def test_the_chart_renders_the_kustomization():
    same("base")


def test_with_claims_it_renders_that_overlay():
    same("overlays/claims", *CLAIMS)


def test_with_the_page_it_renders_that_overlay():
    same("overlays/page", "page.enabled=true")
    same("overlays/page-tls", "page.enabled=true", "page.tlsSecret=mete-page-tls")


def test_on_simulated_gpus_it_renders_that_overlay():
    same("overlays/simulated", "simulated.enabled=true", "image.pullPolicy=Never")
    same("overlays/simulated-claims", "simulated.enabled=true", "image.pullPolicy=Never", *CLAIMS)


def test_prometheus_and_grafana_get_the_files_of_deploy_monitoring():
    ours, theirs = parsed(rendered("serviceMonitor.enabled=true", "prometheusRule.enabled=true", "dashboards.enabled=true"), kustomized("monitoring"))
    assert len(theirs) == 4 and set(theirs) <= set(ours), set(theirs) - set(ours)
    for name in theirs:
        assert alike(ours[name]) == alike(theirs[name]), name
    monitor, = documents(open(os.path.join(ROOT, "deploy", "monitoring", "podmonitor.yaml")).read())[0]
    ours, = parsed(rendered("podMonitor.enabled=true"))
    assert ours["PodMonitor/mete"]["spec"] == monitor["spec"]


def test_a_configuration_of_nvidias_is_deployed_as_its_overlay_has_it():
    ours, theirs = parsed(rendered("config.map.config=version: v1"), kustomized("overlays/as-nvidia"))
    one, other = (each["DaemonSet/mete"]["spec"]["template"] for each in (ours, theirs))
    assert one["metadata"]["annotations"] == other["metadata"]["annotations"]
    mine, theirs = one["spec"]["containers"][0], other["spec"]["containers"][0]
    assert not {"startupProbe", "livenessProbe"} & (set(mine) | set(theirs))
    variable, = (row for row in theirs["env"] if row["name"] == "CONTAINER_DRIVER_ROOT")
    assert variable in mine["env"]
    assert ours["ConfigMap/mete"]["data"] == {"config": {"version": "v1"}}
    assert mine["command"][-1] == "/etc/mete", "its configurations have names: meted reads the folder"


def at(objects, path):
    """The value at `Kind/name.key.key[index].[name]...`; None where there is none. [word] takes the entry of a list that has it as its name."""
    name, *keys = re.findall(r"^\w+/[\w-]+|\[[^]]*\]|\"[^\"]*\"|[\w-]+", path)
    found = objects.get(name)
    for key in keys:
        key = key.strip('"')
        if key.startswith("["):
            found = next((one for one in found or [] if (one.get("name") if isinstance(one, dict) else one) == key[1:-1]), None)
        else:
            found = (found or {}).get(key)
    return found


def leaves(values, above=""):
    for key, value in values.items():
        path = f"{above}{key}"
        if isinstance(value, dict) and value and path not in ("nodeSelector", "resources", "installResources", "updateStrategy", "securityContext", "dashboards.labels"):
            yield from leaves(value, path + ".")
        else:
            yield path


def test_each_value_has_an_effect():
    (values,), = documents(open(CHART + "/values.yaml").read())
    tried = {path for settings, _ in VALUES for path in re.findall(r"^([\w.]+)=", "\n".join(settings), re.M)}
    for leaf in leaves(values):
        assert any(path == leaf or path.startswith(leaf + ".") for path in tried), f"{leaf} is not tried in chart_values.py"
    everything = parsed(rendered(), *(rendered(*settings) for settings, _ in VALUES))
    usual = everything[0]
    for (settings, effects), objects in zip(VALUES, everything[1:]):
        for path, wanted in effects.items():
            assert at(objects, path) == wanted, (settings, path, at(objects, path), wanted)
        assert any(at(usual, path) != wanted for path, wanted in effects.items()), f"{settings}: so it is without them, too"


def test_a_mistyped_value_is_refused_and_named():
    for setting, words in REFUSED:
        done = render(setting)
        assert done.returncode != 0 and all(word in done.stderr for word in words), (setting, done.stderr)


def test_another_release_in_another_namespace_is_named_so_everywhere():
    objects, = parsed(rendered("nameOverride=gpus", "claims.enabled=true", "openshift.enabled=true", "podMonitor.enabled=true", namespace="shared"))
    for name, object in objects.items():
        assert name.split("/")[1].startswith("gpus"), name
        assert object["metadata"].get("namespace", "shared") == "shared", name
        assert "mete-system" not in json.dumps(object), name
    for policy in "own-node", "own-slices", "own-claims":
        condition = objects[f"ValidatingAdmissionPolicy/gpus-{policy}"]["spec"]["matchConditions"][0]["expression"]
        assert "system:serviceaccount:shared:gpus" in condition, condition


def test_classes_and_rights_name_the_driver_of_the_domain():
    """meted is the driver gpu.DOMAIN: classes of another one would choose no device, and rights of another one would let it write no claim."""
    objects, = parsed(rendered("claims.enabled=true", "mete.domain=example.com"))
    share, exclusive = (objects["DeviceClass/mete-" + name]["spec"]["selectors"][0]["cel"]["expression"] for name in ("share", "exclusive"))
    assert share == 'device.driver == "gpu.example.com"', share
    assert exclusive == share + ' && device.attributes["gpu.example.com"].type == "gpu"', exclusive
    rules = objects["ClusterRole/mete-claims"]["rules"]
    assert [rule["resourceNames"] for rule in rules if "resourceNames" in rule] == [["gpu.example.com"]], rules


def test_meted_does_not_decide_which_pod_has_a_claim():
    policy = parsed(rendered("claims.enabled=true"))[0]["ValidatingAdmissionPolicy/mete-own-claims"]["spec"]
    rule, = policy["matchConstraints"]["resourceRules"]
    assert (rule["resources"], rule["operations"]) == (["resourceclaims/status"], ["UPDATE"]), rule
    check, = policy["validations"]
    for field in "allocation", "reservedFor":
        assert f"object.?status.?{field} == oldObject.?status.?{field}" in check["expression"], check
    assert check["message"] == "mete writes of a claim what its devices are, not who has it.", check


def notes(*settings):
    """The notes of `helm install` in the end. It asks a cluster; `helm template` leaves notes out, and so another template has them here."""
    with tempfile.TemporaryDirectory(prefix="mete-") as place:
        chart = shutil.copytree(CHART, place + "/mete")
        os.rename(chart + "/templates/NOTES.txt", chart + "/templates/_notes.tpl")
        with open(chart + "/templates/said.yaml", "w") as file:
            file.write('said: {{ include (print $.Template.BasePath "/_notes.tpl") . | toJson }}\n')
        done = run_helm("template", "mete", chart, "--namespace", "mete-system", "--kube-version", KUBERNETES, "--show-only", "templates/said.yaml",
                        *(word for setting in settings for word in ("--set", setting)))
    assert done.returncode == 0, done.stderr
    return documents(done.stdout)[0][0]["said"]


def doctors(text):
    return re.findall(r"exec .*mete doctor", text)


def test_mete_doctor_is_run_beside_the_nodes_driver():
    """In meted's container that takes on-node; simulated GPUs have their driver in the container's library path."""
    for simulated, wanted in ("false", "on-node mete doctor"), ("true", "mete doctor"):
        said = notes("simulated.enabled=" + simulated)
        assert doctors(said) == ["exec ds/mete -c meted -- " + wanted], said
    found = [line for path in glob.glob(os.path.join(ROOT, "docs", "*.md")) for line in doctors(open(path).read())]
    assert found and all(line.endswith(" -- on-node mete doctor") for line in found), found


def mounts(container, volume):
    return sorted(one["mountPath"] for one in container["volumeMounts"] if one["name"] == volume)


def test_each_form_of_a_configuration_finds_the_nodes_folders():
    """A configuration of mete's names the folders; one of NVIDIA's cannot, and meted searches the usual places."""
    own, theirs = "config.map.own=mete: {slots: 3}", "config.map.theirs=version: v1"
    kubelet, cdi, registry = "/srv/kubelet", "/etc/cdi", "/plugins_registry"
    usual_cdi, usual_registry, socket = "/var/run/cdi", "/var/lib/kubelet" + registry, kubelet + "/device-plugins/kubelet.sock"
    for settings, places, registries, said in (
            ([], [cdi], [kubelet + registry], []),
            ([own], [cdi], [kubelet + registry], []),
            ([theirs], [usual_cdi], [usual_registry], [socket]),
            ([own, theirs], [cdi, usual_cdi], [kubelet + registry, usual_registry], [socket]),
            (["config.name=somebodys"], [cdi, usual_cdi], [kubelet + registry, usual_registry], [socket])):
        pod = parsed(rendered(f"kubeletRootDir={kubelet}", f"cdiRoot={cdi}", *settings))[0]["DaemonSet/mete"]["spec"]["template"]["spec"]
        meted, = pod["containers"]
        assert [one["value"] for one in meted["env"] if one["name"] == "KUBELET_SOCKET"] == said, (settings, meted["env"])
        assert mounts(meted, "cdi") == sorted(places) and mounts(meted, "plugins-registry") == sorted(registries), (settings, meted["volumeMounts"])
        assert mounts(meted, "device-plugins") == [kubelet + "/device-plugins"] and mounts(meted, "pod-resources") == [kubelet + "/pod-resources"], settings
        volumes = {one["name"]: one.get("hostPath", {}).get("path") for one in pod["volumes"]}
        assert volumes["cdi"] == cdi and volumes["plugins-registry"] == kubelet + registry, (settings, volumes)
    for settings in [], [theirs], [own, theirs]:
        meted, = parsed(rendered(*settings))[0]["DaemonSet/mete"]["spec"]["template"]["spec"]["containers"]
        assert mounts(meted, "cdi") == [usual_cdi] and mounts(meted, "plugins-registry") == [usual_registry], (settings, meted["volumeMounts"])
        assert not [one for one in meted["env"] if one["name"] == "KUBELET_SOCKET"], (settings, meted["env"])


def test_with_claims_each_configuration_of_metes_publishes_devices():
    own, off, theirs = "config.map.own=mete: {slots: 3}", "config.map.off=mete: {dra: off}", "config.map.theirs=version: v1"
    files = parsed(rendered("claims.enabled=true", own, off, theirs))[0]["ConfigMap/mete"]["data"]
    assert [files[name]["mete"]["dra"] for name in ("own", "off")] == ["on", "on"] and files["own"]["mete"]["slots"] == 3, files
    assert files["theirs"] == {"version": "v1"}, files
    files = parsed(rendered(own))[0]["ConfigMap/mete"]["data"]
    assert "dra" not in files["own"]["mete"], files


def test_each_value_that_the_readme_names_is_one():
    """But for what others call so: in rows whose last column does not say that it is the same here."""
    (values,), = documents(open(CHART + "/values.yaml").read())
    known = {".".join(leaf.split(".")[:depth]) for leaf in leaves(values) for depth in (1, 2, 3)}
    ours = []
    for line in open(CHART + "/README.md").read().splitlines():
        cells = line.split(" | ")
        ours.append(line if len(cells) < 3 or cells[2].startswith("the same") else cells[2])
    named = {name for name in re.findall(r"`([a-zA-Z]+(?:\.[a-zA-Z]+)*)(?:=[^` ]*)?`", "\n".join(ours))} - {"mete", "values.yaml"}
    assert len(named) > 25 and named <= known, named - known


def test_the_notes_name_the_label_that_selects_nodes():
    """Helm prints notes when it installs: here a copy of the chart has them as an object."""
    selects = "nodeSelector={\"mete.dev/shared\":null,\"pool\":\"gpus\"}"
    with tempfile.TemporaryDirectory(prefix="mete-") as place:
        shutil.copytree(CHART, place + "/mete")
        os.rename(place + "/mete/templates/NOTES.txt", place + "/mete/files/NOTES.txt")
        with open(place + "/mete/templates/notes.yaml", "w") as file:
            file.write('notes: {{ tpl (.Files.Get "files/NOTES.txt") . | quote }}\n')
        for settings, wanted in ((), ["mete.dev/shared=true"]), (["--set-json", "nodeSelector=null"], []), (["--set-json", selects], ["pool=gpus"]):
            done = run_helm("template", "mete", place + "/mete", "--namespace", "mete-system", "--kube-version", KUBERNETES, "--show-only", "templates/notes.yaml", *settings)
            assert done.returncode == 0, done.stderr
            notes = json.loads(re.search("^notes: (.*)$", done.stdout, re.M)[1])
            assert re.findall("^  kubectl label node NODE (.*)$", notes, re.M) == wanted and "\n\n\n" not in notes and "exec ds/mete -c meted -- on-node mete doctor\n" in notes, notes


def test_nothing_is_looked_up_in_a_cluster():
    for folder, _, files in os.walk(CHART):
        for name in files:
            with open(os.path.join(folder, name)) as file:
                text = file.read()
            assert not re.search(r"\blookup\b|\.Capabilities\b|\brand[A-Z]\w+|\bnow\b *[|}]", text), name
    assert rendered() == rendered()
    done = render(version="1.23.0")
    assert done.returncode != 0 and "kubeVersion" in done.stderr, done


def test_the_chart_is_clean_and_its_numbers_are_ours():
    done = run_helm("lint", "--strict", CHART)
    assert done.returncode == 0, done.stdout
    (chart,), = documents(open(CHART + "/Chart.yaml").read())
    version = re.search(r"^\tversion: '(.*)'", open(ROOT + "/meson.build").read(), re.M)[1]
    assert chart["version"] == chart["appVersion"] == version, chart
    images, = documents(chart["annotations"]["artifacthub.io/images"].replace("- name", "of:\n- name", 1))
    assert images[0]["of"] == [{"name": "mete", "image": "mete:" + version}], images


def test_the_packed_chart_renders_the_same():
    """Rules and dashboards are links to deploy/monitoring: in the package they are files."""
    settings = [word for name in ("prometheusRule", "dashboards", "claims") for word in ("--set", name + ".enabled=true")]
    with tempfile.TemporaryDirectory(prefix="mete-") as place:
        packed = run_helm("package", CHART, "--destination", place)
        assert packed.returncode == 0, packed.stderr
        archive, = os.listdir(place)
        both = [run_helm("template", "mete", chart, "--kube-version", KUBERNETES, *settings) for chart in (CHART, os.path.join(place, archive))]
    assert all(done.returncode == 0 for done in both), both[1].stderr
    assert both[0].stdout == both[1].stdout and "mete:device_memory_used:ratio" in both[1].stdout


def test_the_schema_has_the_keys_of_the_configuration_that_are_not_the_charts():
    schema = json.load(open(CHART + "/values.schema.json"))
    keys = {name.replace("_", "-") for name in re.findall(r"^METE\((\w+),", open(ROOT + "/plugin/config/config_keys.def").read(), re.M)}
    places = {"driver-root", "host-driver-root", "libraries", "metrics", "health", "kubelet-folder", "cdi-folder", "dra"}
    assert places <= keys and set(schema["properties"]["mete"]["properties"]) == keys - places
    fields = {name.replace("_", "-") for name in re.findall(r"^SHARE\((\w+),", open(ROOT + "/core/share/share.def").read(), re.M)}
    assert set(schema["$defs"]["share"]["properties"]) == fields


if __name__ == "__main__":
    run(globals())
