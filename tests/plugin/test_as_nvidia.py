#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A file in NVIDIA's format without the key mete: meted answers as NVIDIA's device plugin would."""
import contextlib

import nvidia_golden
from node import *
from meted import run


VOLUMES = "/var/run/nvidia-container-devices"


@contextlib.contextmanager
def as_nvidia(flags=None, sharing=None, start=True, devices="2xSIM", **more):
    content = {"version": "v1", "flags": flags or {}, **({"sharing": sharing} if sharing else {}), **more}
    with Node(devices, start=False, api=False) as node:
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
            assert sentence.startswith('invalid allocation request for "nvidia.com/gpu": invalid request: unknown device: ') and id in sentence, sentence
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


def test_replicas_are_preferred_by_the_policy():
    def preferred(policy):
        with as_nvidia({"plugin": {"sharedDevicesAllocationPolicy": policy}}, slicing(4)) as node:
            a, b = ([node.id(n, device) for n in range(4)] for device in range(2))
            free = [*a[1:], *b]  # one of the first device is taken
            first = node.kubelet.ask("prefer", 2, "-", *free).split()[1:]
            return [id in b for id in first]
    assert preferred("distributed") == [True, False], "the emptier device, then either: the one that was not picked"
    assert preferred("packed") == [False, False]


def test_whole_gpus_are_preferred_by_their_links():
    """The best linked GPUs come first, unless the next container would be left with unlinked ones."""
    links = "0-1=NV4,2-3=NV4,0-2=NV1,0-3=SYS,1-2=SYS,1-3=SYS"
    with as_nvidia(devices="4xH200", start=False) as node:
        node.environment["METE_SIM_LINKS"] = links
        node.start()
        node.kubelet.hear("registered")

        def preferred(size, must, *free):
            answer = node.kubelet.ask("prefer", size, ",".join(node.uuid[i] for i in must) or "-", *(node.uuid[i] for i in free))
            return sorted(node.uuid.index(uuid) for uuid in answer.split()[1:])
        assert preferred(2, [], 0, 1, 2, 3) == [0, 1]
        assert preferred(2, [3], 0, 1, 2, 3) == [2, 3]
        assert preferred(2, [], 0, 2, 3) == [2, 3]
        assert preferred(2, [], 0, 1, 2) == [0, 1]
        assert preferred(3, [], 0, 1, 2, 3) == [0, 1, 2]
        stale = node.kubelet.ask("prefer", 1, "-", *(f"{node.uuid[0]}::{n}" for n in range(24))).split()[1:]
        assert len(stale) <= 1, "ids of before, when they were shared"
    with as_nvidia(devices="4xH200", sharing=slicing(2)) as node:
        answer = node.kubelet.ask("prefer", 2, "-", *(node.id(n, device) for n in range(2) for device in range(4)))
        assert len({id.split("::")[0] for id in answer.split()[1:]}) == 2, "what is shared is spread"


def test_strategies_of_the_answer():
    with as_nvidia({"gdrcopyEnabled": True, "gdsEnabled": True, "mofedEnabled": True,
                    "plugin": {"deviceListStrategy": ["volume-mounts", "envvar"], "deviceIDStrategy": "index"}}) as node:
        assert node.kubelet.ask("allocate", node.uuid[1]) == (
            f"ok env=NVIDIA_VISIBLE_DEVICES={VOLUMES} env=NVIDIA_GDRCOPY=enabled env=NVIDIA_GDS=enabled env=NVIDIA_MOFED=enabled "
            f"mount=/dev/null:{VOLUMES}/1")


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


def test_impossible_settings_are_refused_with_a_sentence():
    with as_nvidia(start=False) as node:
        for content, sentence in (
            ({"sharing": {"mps": {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}}}, "sharing.mps: flags.mpsRoot is missing; accepted: "),
            ({"flags": {"plugin": {"deviceListStrategy": "nri"}}}, "flags.plugin.deviceListStrategy: 'nri' is not supported by mete"),
            ({"imex": {"channelIDs": [0], "required": True}}, "imex.channelIDs: this node has no /dev/nvidia-caps-imex-channels/channel0"),
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


def test_a_tenant_with_a_share_from_before_keeps_the_device_until_it_ends():
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


def test_the_environment_goes_before_the_file_and_ignored_keys_are_named():
    with as_nvidia({"plugin": {"deviceIDStrategy": "uuid"}}, start=False) as node:
        node.environment.update(DEVICE_ID_STRATEGY="index", DEVICE_LIST_STRATEGY="volume-mounts,envvar", CDI_FEATURE_FLAGS="x",
                                MIG_STRATEGY="single", GDS_ENABLED="True")
        node.start()
        node.kubelet.hear("registered")
        assert node.kubelet.ask("allocate", node.uuid[1]) == (
            f"ok env=NVIDIA_VISIBLE_DEVICES={VOLUMES} env=NVIDIA_GDS=enabled mount=/dev/null:{VOLUMES}/1")
        node.await_log(re.escape('config.warning text="$CDI_FEATURE_FLAGS: this has no meaning for mete and is ignored"'))
        assert len(re.findall("config.warning", node.log())) == 1, node.log()


def test_the_environment_says_which_xids_count():
    with as_nvidia(start=False) as node:
        node.environment.update(DP_DISABLE_HEALTHCHECKS="79", DP_ENABLE_HEALTHCHECKS="31")
        node.start()
        node.kubelet.hear("registered")
        launch(node, "xid=79@1", 0)
        launch(node, "xid=31@1", 1)
        node.kubelet.await_devices(lambda now: now[node.uuid[1]] == "Unhealthy")
        assert node.kubelet.devices()[node.uuid[0]] == "Healthy"


def has_cdi(node, *files):
    """Its machine has these files in /dev, and a /var/run/cdi of its own."""
    node.has_files(*(name for name in files if "/" not in name))
    for name in files:
        if "/" in name:
            os.makedirs(os.path.dirname(f"{node.folder}/dev/{name}"), exist_ok=True)
            os.mknod(f"{node.folder}/dev/{name}", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    os.mkdir(node.cdi)
    node.wrap = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /dev && mount -t tmpfs none /run && mkdir /run/cdi && '
                 'mount --bind "$1" /run/cdi && shift && exec "$@"', node.folder + "/dev", node.cdi]


VENDOR = "k8s.device-plugin.nvidia.com"


def test_cdi_devices_are_named_in_the_field_or_in_an_annotation():
    flags = {"gdsEnabled": True, "mofedEnabled": True, "gdrcopyEnabled": True}
    more = ("nvidia0", "nvidia1", "nvidiactl", "nvidia-fs0", "gdrdrv", "infiniband/uverbs0", "infiniband/rdma_cm",
            "nvidia-caps-imex-channels/channel0")
    names = [f"{VENDOR}/{name}" for name in ("gpu=1", "gpu=0", "imex-channel=0", "gdrcopy=all", "gds=all", "mofed=all")]
    for strategies, prefix in (["cdi-cri"], None), (["cdi-annotations"], "cdi.k8s.io/"), (["cdi-annotations", "cdi-cri", "envvar"], "cdi.example.com/"):
        with as_nvidia({**flags, "nvidiaDevRoot": "/run/dev", "plugin": {
                "deviceListStrategy": strategies, "deviceIDStrategy": "index", "passDeviceSpecs": True,
                **({"cdiAnnotationPrefix": prefix} if prefix else {})}}, start=False, imex={"channelIDs": [0]}) as node:
            has_cdi(node, *more)
            node.start()
            node.kubelet.hear("registered")
            words = node.kubelet.ask("allocate", node.uuid[1], node.uuid[0]).split()[1:]
            assert [word[4:] for word in words if word.startswith("cdi=")] == (names if "cdi-cri" in strategies else []), words
            marks = [word[5:] for word in words if word.startswith("mark=")]
            assert len(marks) == (prefix is not None), words
            for mark in marks:
                key, value = mark.split("=", 1)
                assert re.fullmatch(re.escape(prefix) + "nvidia-device-plugin_[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", key), key
                assert value == ",".join(names)
            rest = [word for word in words if not word.startswith(("cdi=", "mark="))]
            if "envvar" in strategies:
                assert rest == ["env=NVIDIA_VISIBLE_DEVICES=1,0", "env=NVIDIA_IMEX_CHANNELS=0", "env=NVIDIA_GDRCOPY=enabled", "env=NVIDIA_GDS=enabled",
                                "env=NVIDIA_MOFED=enabled", *(f"node=/run/dev{path}:{path}" for path in (
                                    "/dev/nvidiactl", "/dev/nvidia1", "/dev/nvidia0", "/dev/nvidia-caps-imex-channels/channel0"))], rest
            else:
                assert rest == ["env=NVIDIA_GDRCOPY=enabled", "env=NVIDIA_GDS=enabled", "env=NVIDIA_MOFED=enabled"], "with CDI alone the files have the rest"


def test_cdi_files_have_the_driver_its_nodes_and_nvidias_hook():
    with as_nvidia({"mofedEnabled": True, "plugin": {"deviceListStrategy": "cdi-cri", "nvidiaCTKPath": "/opt/nvidia-cdi-hook"}}, start=False) as node:
        has_cdi(node, "nvidia0", "nvidiactl", "infiniband/rdma_cm")
        node.start()
        node.kubelet.hear("registered")
        gpu = json.load(open(f"{node.cdi}/{VENDOR}-gpu.json"))
        assert (gpu["cdiVersion"], gpu["kind"]) == ("0.5.0", VENDOR + "/gpu")
        assert [(device["name"], [file["path"] for file in device["containerEdits"].get("deviceNodes", [])]) for device in gpu["devices"]] == [
            (node.uuid[0], ["/dev/nvidia0"]), (node.uuid[1], [])], "the second has no file"
        edits = gpu["containerEdits"]
        assert [file["path"] for file in edits["deviceNodes"]] == ["/dev/nvidiactl"]
        assert "NVIDIA_VISIBLE_DEVICES=void" in edits["env"]
        libraries = {mount["containerPath"] for mount in edits["mounts"]}
        assert {"/usr/lib/mete/driver/libcuda.so.1", "/usr/lib/mete/driver/libnvidia-ml.so.1"} <= libraries, libraries
        assert not any("libmete" in path for path in libraries), "nobody is a tenant"
        assert edits["hooks"] == [{"hookName": "createContainer", "path": "/opt/nvidia-cdi-hook",
                                   "args": ["nvidia-cdi-hook", "update-ldcache", "--folder", "/usr/lib/mete/driver"]}]
        mofed = json.load(open(f"{node.cdi}/{VENDOR}-mofed.json"))
        assert mofed["devices"] == [{"name": "all", "containerEdits": {"deviceNodes": [
            {"path": "/dev/infiniband/rdma_cm", "hostPath": "/dev/infiniband/rdma_cm", "permissions": "rw"}]}}]
        assert sorted(os.listdir(node.cdi)) == [f"{VENDOR}-{name}.json" for name in ("gpu", "mofed")]


def test_a_cdi_device_that_is_not_there_is_left_out_and_an_imex_channel_that_is_required_is_refused():
    with as_nvidia({"gdsEnabled": True, "mofedEnabled": True, "plugin": {"deviceListStrategy": "cdi-cri"}}, start=False, imex={"channelIDs": [0]}) as node:
        has_cdi(node, "infiniband/rdma_cm")
        node.start()
        node.kubelet.hear("registered")
        said = node.kubelet.ask("allocate", node.uuid[0])
        assert said == f"ok cdi={VENDOR}/gpu={node.uuid[0]} cdi={VENDOR}/mofed=all env=NVIDIA_GDS=enabled env=NVIDIA_MOFED=enabled", said
        assert re.search(r"cdi\.missing reason=\"flags\.gdsEnabled: this node has no /dev/nvidia-fs\*", node.log()), node.log()
    with as_nvidia({"plugin": {"deviceListStrategy": "cdi-cri"}}, start=False, imex={"channelIDs": [0], "required": True}) as node:
        has_cdi(node)
        refused = subprocess.run([*node.wrap, *node.command()], env=dict(os.environ, **node.environment), stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
        assert refused.returncode and "imex.channelIDs: this node has no /dev/nvidia-caps-imex-channels/channel0" in refused.stderr, refused


def test_changed_strategies_hold_at_once_and_impossible_ones_stop_the_service():
    with as_nvidia() as node:
        node.write({"version": "v1", "flags": {"plugin": {"deviceListStrategy": "volume-mounts"}}})
        node.await_log("config.loaded")
        assert node.kubelet.ask("allocate", node.uuid[0]) == f"ok env=NVIDIA_VISIBLE_DEVICES={VOLUMES} mount=/dev/null:{VOLUMES}/{node.uuid[0]}"
        node.write({"version": "v1", "imex": {"channelIDs": [0], "required": True}})
        node.await_log("plugin.unsettled .*imex.channelIDs: this node has no")
        until(lambda: not os.path.exists(node.kubelet.plugins + "/mete-gpu.sock"))
        node.write({"version": "v1"})
        node.kubelet.hear("registered nvidia.com/gpu")


def test_the_kubelets_socket_is_an_absolute_path():
    with as_nvidia(start=False) as node:
        node.environment["KUBELET_SOCKET"] = "a/kubelet.sock"
        try:
            node.start()
        except AssertionError as failed:
            assert "KUBELET_SOCKET: 'a/kubelet.sock' is no absolute path" in str(failed), failed
        else:
            raise AssertionError("it started")


def test_the_command_line_of_nvidias_plugin_starts_meted():
    program = BUILD + "/plugin/nvidia-device-plugin"
    with as_nvidia(start=False) as node:
        node.write("version: v1\nflags: {plugin: {deviceIDStrategy: uuid, deviceListStrategy: cdi-cri}}\n")
        for options in ["--device-list-strategy", "volume-mounts", f"--config-file={node.file}"], ["--device-id-strategy=index"]:
            environment = dict(os.environ, **node.environment, DEVICE_LIST_STRATEGY="envvar", DEVICE_ID_STRATEGY="uuid")
            with open(node.place + "/log", "ab") as log:
                process = subprocess.Popen([program, *options, "--", "--dir", node.place, "--driver", sys.argv[2], "--grace", "100ms"], env=environment, stderr=log)
            try:
                node.kubelet.hear("registered nvidia.com/gpu")
                uuid = next(iter(node.kubelet.await_devices(lambda now: now)))
                said = node.kubelet.ask("allocate", uuid)
                assert said == (f"ok env=NVIDIA_VISIBLE_DEVICES={VOLUMES} mount=/dev/null:{VOLUMES}/{uuid}" if "--device-list-strategy" in options
                                else f"ok env=NVIDIA_VISIBLE_DEVICES={[id for id in node.kubelet.devices()].index(uuid)}"), said
            finally:
                process.terminate()
                assert process.wait(timeout=PATIENCE) == 0
        for word in "--help", "-h", "--version", "-v":
            said = subprocess.run([program, "--driver-root=/x", word], capture_output=True, text=True, timeout=PATIENCE)
            assert said.returncode == 0 and not said.stderr, said
            assert re.search(r"^  --mig-strategy VALUE +\$MIG_STRATEGY$" if "h" in word else r"^nvidia-device-plugin of mete \d", said.stdout, re.M), said
        refused = subprocess.run([program, "--mig-strategie=none"], stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
        assert refused.returncode == 1 and "there is no option --mig-strategie; the nearest is --mig-strategy" in refused.stderr, refused


def test_the_kubelet_is_answered_as_by_nvidias_plugin():
    """The rows of nvidia_golden.py, those of one file on one node."""
    rows = [*nvidia_golden.GOLDEN, *(row[:4] for row in nvidia_golden.DIFFERENT)]
    assert all(row[4] for row in nvidia_golden.DIFFERENT), "a reason"
    wrong = []
    for file in {json.dumps(row[1]): row[1] for row in rows}.values():
        with as_nvidia(start=False) as node:
            node.write(file)
            has_cdi(node, "nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "nvidia-caps-imex-channels/channel0")
            node.start()
            registered = node.kubelet.hear("registered")
            node.kubelet.await_devices(lambda now: now)

            def real(text):
                return re.sub(r"\b[AB]\b", lambda found: node.uuid["AB".index(found[0])], text)

            def short(text):
                text = re.sub("_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}=", "_UUID=", text)
                return text.replace(node.uuid[0], "A").replace(node.uuid[1], "B")
            for row, content, asked, answer in rows:
                if content != file:
                    continue
                verb, *words = real(asked).split()
                if verb == "registered":
                    said = registered
                elif answer.startswith("error "):
                    said = "error " + node.kubelet.refusal(node.kubelet.begin(verb, *words))
                else:
                    said = node.kubelet.ask(verb, *words)
                if short(said) != answer:
                    wrong.append(f"{row}: {asked} gives\n  {short(said)}\nwanted\n  {answer}")
    assert not wrong, "\n".join(wrong)


if __name__ == "__main__":
    run(globals(), at_once=4)
