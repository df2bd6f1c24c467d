#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A file in NVIDIA's format without the key mete: meted answers as NVIDIA's device plugin would."""
import contextlib

from node import *
from meted import run


@contextlib.contextmanager
def as_nvidia(flags=None, sharing=None, start=True, **more):
    content = {"version": "v1", "flags": flags or {}, **({"sharing": sharing} if sharing else {}), **more}
    with Node(start=False, api=False) as node:
        node.write(content)
        node.environment["KUBELET_SOCKET"] = node.kubelet.plugins + "/kubelet.sock"
        if start:
            node.start()
            node.registered = node.kubelet.hear("registered")
        yield node


def slicing(replicas, **more):
    return {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": replicas}], **more}}


def test_devices_are_given_whole_by_the_environment():
    with as_nvidia() as node:
        assert node.registered == "registered nvidia.com/gpu 0 1", "no PreStartContainer is asked for"
        assert node.kubelet.await_devices(lambda now: now) == {uuid: "Healthy" for uuid in node.uuid}
        assert node.kubelet.ask("allocate", node.uuid[1]) == f"ok env=NVIDIA_VISIBLE_DEVICES={node.uuid[1]}"
        both = node.kubelet.ask("allocate", node.uuid[1], node.uuid[0])
        assert both == f"ok env=NVIDIA_VISIBLE_DEVICES={node.uuid[1]},{node.uuid[0]}"
        for id in node.id(0), "GPU-0":
            sentence = node.kubelet.refusal(node.kubelet.begin("allocate", id))
            assert sentence.startswith('invalid allocation request for "nvidia.com/gpu": unknown device: ') and id in sentence, sentence
        assert node.kubelet.refusal(node.kubelet.begin("start", node.uuid[0])) == "containers are not prepared here", "nor is it served"
        assert not node.tenants() and not os.path.exists(node.cdi)


def test_replicas_are_ids_of_a_device_that_is_named_once():
    with as_nvidia(sharing=slicing(3)) as node:
        devices = node.kubelet.await_devices(lambda now: now)
        assert set(devices) == {node.id(n, device) for n in range(3) for device in range(2)}
        answer = node.kubelet.ask("allocate", node.id(2, 1), node.id(0, 1), node.id(0, 0))
        assert answer == f"ok env=NVIDIA_VISIBLE_DEVICES={node.uuid[1]},{node.uuid[0]}"


def test_shared_devices_are_renamed_and_limited_to_one_where_the_file_says_so():
    with as_nvidia(sharing=slicing(2, renameByDefault=True, failRequestsGreaterThanOne=True)) as node:
        assert node.registered.startswith("registered nvidia.com/gpu.shared ")
        refusal = node.kubelet.refusal(node.kubelet.begin("allocate", node.id(0), node.id(1)))
        assert refusal == ('invalid allocation request for "nvidia.com/gpu.shared": invalid request: maximum request size for '
                           "shared resources is 1; found 2")
        assert node.kubelet.ask("allocate", node.id(1)).startswith("ok env=")


def test_replicas_are_preferred_as_the_policy_says():
    def preferred(policy):
        with as_nvidia({"plugin": {"sharedDevicesAllocationPolicy": policy}}, slicing(4)) as node:
            a, b = ([node.id(n, device) for n in range(4)] for device in range(2))
            free = [*a[1:], *b]  # one of the first device is taken
            first = node.kubelet.ask("prefer", 2, "-", *free).split()[1:]
            return [id in b for id in first]
    assert preferred("distributed") == [True, False], "the emptier device, then either: the one that was not picked"
    assert preferred("packed") == [False, False]


def test_strategies_of_the_answer():
    volumes = "/var/run/nvidia-container-devices"
    with as_nvidia({"gdrcopyEnabled": True, "gdsEnabled": True, "mofedEnabled": True,
                    "plugin": {"deviceListStrategy": ["volume-mounts", "envvar"], "deviceIDStrategy": "index"}}) as node:
        assert node.kubelet.ask("allocate", node.uuid[1]) == (
            f"ok env=NVIDIA_VISIBLE_DEVICES={volumes} env=NVIDIA_GDRCOPY=enabled env=NVIDIA_GDS=enabled env=NVIDIA_MOFED=enabled "
            f"mount=/dev/null:{volumes}/1")


def test_device_files_are_named_where_the_file_wants_them():
    """Those that all need where they are there, as NVIDIA's plugin has it, and a GPU's in any case; on the host below its dev root."""
    for flags, root in (({}, ""), ({"nvidiaDriverRoot": "/run/driver"}, "/run/driver"),
                        ({"nvidiaDriverRoot": "/run/driver", "nvidiaDevRoot": "/run/dev"}, "/run/dev"),
                        ({"nvidiaDriverRoot": "/run/driver", "nvidiaDevRoot": "/"}, "")):
        with as_nvidia({**flags, "plugin": {"passDeviceSpecs": True}}, slicing(2), start=False) as node:
            node.has_files("nvidiactl", "nvidia-uvm", "nvidia0")
            node.start()
            node.kubelet.hear("registered")
            for gpu in 0, 1:
                named = "".join(f" node={root}{path}:{path}" for path in ("/dev/nvidiactl", "/dev/nvidia-uvm", f"/dev/nvidia{gpu}"))
                assert node.kubelet.ask("allocate", node.id(1, gpu)) == f"ok env=NVIDIA_VISIBLE_DEVICES={node.uuid[gpu]}{named}"
            both = node.kubelet.ask("allocate", node.id(0, 1), node.id(0, 0), node.id(1, 0))
            assert re.findall("node=[^:]*:/dev/(nvidia[0-9])", both) == ["nvidia1", "nvidia0"], both


def test_indices_are_those_of_nvidias_tools():
    """The first GPU is divided into two parts, which are not offered, and which do not count."""
    with as_nvidia({"plugin": {"deviceIDStrategy": "index"}}, start=False) as node:
        node.options += ["--driver", BUILD + "/tests/drivers/divided"]
        node.start()
        node.kubelet.hear("registered")
        whole, = node.kubelet.await_devices(lambda now: now)
        assert whole == "GPU-00000000-0000-0000-0000-000000000002"
        assert node.kubelet.ask("allocate", whole) == "ok env=NVIDIA_VISIBLE_DEVICES=1"


def test_what_mete_cannot_do_is_refused_with_a_sentence():
    with as_nvidia(start=False) as node:
        for content, sentence in (
            ({"sharing": {"mps": {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}}}, "sharing.mps: mete starts no MPS; accepted: "),
            ({"flags": {"plugin": {"deviceListStrategy": "cdi-cri"}}}, "flags.plugin.deviceListStrategy: 'cdi-cri' is not supported by mete"),
            ({"metee": {"slots": 4}, "version": "v1"}, "there is no key 'metee'; the nearest is 'mete'"),
            ({}, "there is no key 'mete', nor any of NVIDIA's device plugin"),
        ):
            node.write(content)
            refused = subprocess.run(node.command(), env=dict(os.environ, **node.environment), stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
            assert refused.returncode and sentence in refused.stderr, refused


def test_a_file_that_changes_changes_the_replicas_and_not_the_way():
    with as_nvidia(sharing=slicing(3)) as node:
        node.kubelet.hear("listed 6")
        node.write({"version": "v1", "sharing": slicing(4)})
        node.kubelet.hear("listed 8")
        node.configure(resource="nvidia.com/gpu")
        node.await_log("config.refused .*has changed: restart meted for it to take effect")
        assert len(node.kubelet.devices()) == 8


def test_who_has_a_share_from_before_keeps_the_device_until_it_ends():
    with Node(api=False, environment={"METE_SIM_DEVICES": "2xSIM"}, share={"memory": "25%", "weight": 50}) as node:
        pod = Pod(node, "a").admit(node.id(0)).start()
        share = node.share(pod.title())
        assert share["memory"] == "25%", share
        node.end()
        node.write({"version": "v1"})
        node.environment["KUBELET_SOCKET"] = node.kubelet.plugins + "/kubelet.sock"
        node.meted.environment["KUBELET_SOCKET"] = node.kubelet.plugins + "/kubelet.sock"
        node.kubelet.happened.clear()
        node.meted.start()
        node.kubelet.hear("registered nvidia.com/gpu")
        node.kubelet.await_devices(lambda now: now.get(node.uuid[0]) == "Unhealthy" and now[node.uuid[1]] == "Healthy")
        assert node.records() and node.share(pod.title()) == share
        assert node.log().index("device.held") < node.log().rindex("kubelet.registered"), "it was offered first"
        pod.vanish()
        node.kubelet.await_devices(lambda now: set(now.values()) == {"Healthy"})
        until(lambda: not node.records() and not node.tenants())


def test_an_xid_makes_all_replicas_unhealthy():
    with as_nvidia(sharing=slicing(3)) as node:
        launch(node, "xid=79@1", 0)
        devices = node.kubelet.await_devices(lambda now: "Unhealthy" in now.values())
        assert {id for id, health in devices.items() if health == "Unhealthy"} == {node.id(n) for n in range(3)}


def test_what_the_environment_says_to_nvidias_plugin_is_not_ignored_without_a_word():
    with as_nvidia(start=False) as node:
        node.environment.update(MIG_STRATEGY="single", DEVICE_ID_STRATEGY="uuid", PASS_DEVICE_SPECS="True", DP_DISABLE_HEALTHCHECKS="all")
        node.start()
        for name, key in ("MIG_STRATEGY", "; accepted: the key flags.migStrategy"), ("PASS_DEVICE_SPECS", "; accepted: the key flags.plugin.passDeviceSpecs"), (
                "DP_DISABLE_HEALTHCHECKS", ""):
            node.await_log(re.escape(f'config.warning text="{node.file}: ${name} has no meaning for mete and is ignored{key}"'))
        assert len(re.findall("config.warning", node.log())) == 3, node.log()


if __name__ == "__main__":
    run(globals())
