#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""GPUs that MIG divides, on a node whose file has no key mete, and on one that mete shares: names, answers, labels, and a GPU that is divided anew."""
import contextlib

from node import *
from meted import run


SEVEN = "0:7x1g.10gb"
PREFIX = "nvidia.com/"
ROUNDS = 25 if os.environ.get("METE_SOAK") == "1" else 1  # of two divisions each


@contextlib.contextmanager
def divided(parts, devices="2xH100", flags=None, sharing=None, listen=PREFIX + "gpu", start=True, **environment):
    with Node(start=False, api=False, devices=devices, environment={"METE_SIM_PARTS": parts, **environment}) as node:
        node.write({"version": "v1", "flags": flags or {}, **({"sharing": sharing} if sharing else {})})
        node.environment["KUBELET_SOCKET"] = node.kubelet.plugins + "/kubelet.sock"
        node.kubelet.ask("turn", listen)
        if start:
            node.start()
            node.kubelet.hear(f"registered {listen} ")
        yield node


def found(node):
    """The devices of meted's last start: UUID to model."""
    log = node.log()
    return dict(re.findall(r"device\.found index=\d+ uuid=(\S+) model=\"?([^\"\n]*?)\"? capacity", log[log.rindex("device.found index=0 "):]))


def of(node, profile):
    return [uuid for uuid, model in found(node).items() if model.endswith("MIG " + profile)]


def whole(node):
    return [uuid for uuid in found(node) if uuid.startswith("GPU-")]


def await_list(node, ids):
    node.kubelet.await_devices(lambda now: sorted(now) == sorted(ids))


def await_labels(node, wanted):
    """Of the node, without their prefix: others may be there."""
    def labels():
        return {key.removeprefix(PREFIX): value for key, value in node.api.node()["metadata"].get("labels", {}).items() if key.startswith(PREFIX)}
    until(lambda: wanted.items() <= labels().items(), lambda: f"{set(wanted.items()) - set(labels().items())} of {labels()}")


def test_without_a_strategy_parts_are_not_offered():
    with divided(SEVEN) as node:
        await_list(node, whole(node))
        assert len(whole(node)) == 1


def test_mixed_gives_each_kind_of_parts_a_name():
    with divided("0:7x1g.10gb;1:3g.40gb,1g.10gb+me", devices="3xH100", flags={"migStrategy": "mixed"}) as node:
        await_list(node, whole(node))
        for profile in "1g.10gb", "3g.40gb", "1g.10gb+me":
            uuids = of(node, profile)
            node.kubelet.turn(PREFIX + "mig-" + profile.replace("+", "."))
            await_list(node, uuids)
            assert node.kubelet.ask("allocate", uuids[0]) == f"ok env=NVIDIA_VISIBLE_DEVICES={uuids[0]}"
        assert os.path.exists(node.kubelet.plugins + "/mete-mig-1g.10gb.me.sock")


def test_mixed_offers_the_others_where_a_gpu_in_mig_mode_has_no_parts():
    with divided("0:2x1g.10gb", flags={"migStrategy": "mixed"}, listen=PREFIX + "mig-1g.10gb", METE_SIM_MIG="on") as node:
        await_list(node, of(node, "1g.10gb"))
        assert re.search(r"mig\.unparted gpu=1 ", node.log()), node.log()


def test_single_offers_parts_as_gpus():
    with divided("0:2x3g.40gb;1:2x3g.40gb", flags={"migStrategy": "single", "plugin": {"deviceIDStrategy": "index"}}) as node:
        uuids = of(node, "3g.40gb")
        await_list(node, uuids)
        assert len(uuids) == 4
        assert node.kubelet.ask("allocate", uuids[3], uuids[0]) == "ok env=NVIDIA_VISIBLE_DEVICES=1:1,0:0"


def test_replicas_of_a_kind_of_parts():
    slicing = {"timeSlicing": {"renameByDefault": True, "failRequestsGreaterThanOne": True, "resources": [{"name": "nvidia.com/mig-1g.10gb", "replicas": 3}]}}
    name = PREFIX + "mig-1g.10gb.shared"
    with divided("0:2x1g.10gb,2g.20gb", devices="1xH100", flags={"migStrategy": "mixed"}, sharing=slicing, listen=name) as node:
        small, large = of(node, "1g.10gb"), of(node, "2g.20gb")
        await_list(node, [f"{uuid}::{n}" for uuid in small for n in range(3)])
        assert node.kubelet.ask("allocate", f"{small[1]}::2") == f"ok env=NVIDIA_VISIBLE_DEVICES={small[1]}"
        refusal = node.kubelet.refusal(node.kubelet.begin("allocate", f"{small[0]}::0", f"{small[1]}::0"))
        assert refusal == f'invalid allocation request for "{name}": invalid request: maximum request size for shared resources is 1; found 2', refusal
        node.kubelet.turn(PREFIX + "mig-2g.20gb")
        await_list(node, large)  # it has no replicas, and is given whole


def test_a_container_gets_the_files_of_its_parts():
    with divided("0:2x1g.10gb", devices="1xH100", flags={"migStrategy": "single", "plugin": {"passDeviceSpecs": True}}, start=False) as node:
        node.write({"version": "v1", "flags": {"migStrategy": "single", "nvidiaDriverRoot": node.sim, "plugin": {"passDeviceSpecs": True}}})
        node.start()
        node.kubelet.hear("registered")
        one, other = of(node, "1g.10gb")
        said = node.kubelet.ask("allocate", one, other)
        # gpu0/gi7 and gi8, as /proc/driver/nvidia-caps/mig-minors has them
        nodes = re.findall(r"node=\S+:(/dev/\S+)", said)
        assert [path for path in nodes if "caps" in path or path == "/dev/nvidia0"] == [
            "/dev/nvidia0", *(f"/dev/nvidia-caps/nvidia-cap{n}" for n in (66, 67, 75, 76))], said


def test_strategies_that_do_not_go_with_the_division_are_refused():
    for parts, strategy, mode, sentences in (
        ("", "single", "on", ("at least one device with migEnabled=true was not configured correctly: GPU 0 is in MIG mode and has no parts",)),
        ("0:1g.10gb", "single", "on", ("at least one device with migEnabled=true was not configured correctly: GPU 1 is in MIG mode and has no parts",)),
        (SEVEN, "single", "off", ("all devices on the node must be configured with the same migEnabled value", "GPU 0 is divided by MIG, and GPU 1 is not")),
        ("0:3g.40gb,2g.20gb;1:3g.40gb", "single", "off", ("more than one MIG device type present on node: 3g.40gb and 2g.20gb",)),
    ):
        with divided(parts, flags={"migStrategy": strategy}, start=False, METE_SIM_MIG=mode) as node:
            refused = subprocess.run(node.command(), env=dict(os.environ, **node.environment), stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
            assert refused.returncode and all(sentence in refused.stderr for sentence in sentences), refused


def test_the_node_has_the_labels_of_its_parts():
    with Node(start=False, devices="2xH100", labels={}, environment={"METE_SIM_PARTS": "0:2x1g.10gb"}) as node:
        node.write("version: v1\nflags: {migStrategy: mixed, gfd: {noTimestamp: true}}\n"
                   "sharing: {timeSlicing: {resources: [{name: mig-1g.10gb, replicas: 2}]}}\n")
        node.tell_by_environment()
        node.kubelet.ask("turn", PREFIX + "gpu")
        node.start()
        wanted = {"mig.strategy": "mixed", "mig.capable": "true", "gpu.count": "2", "gpu.memory": "81559", "gpu.product": "NVIDIA-H100-80GB-HBM3", "gpu.replicas": "1",
                  "mig-1g.10gb.count": "2", "mig-1g.10gb.replicas": "2", "mig-1g.10gb.memory": "9984", "mig-1g.10gb.multiprocessors": "16",
                  "mig-1g.10gb.slices.gi": "1", "mig-1g.10gb.slices.ci": "1", "mig-1g.10gb.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb-SHARED",
                  "mig-1g.10gb.sharing-strategy": "time-slicing", "mig-1g.10gb.engines.copy": "1"}
        await_labels(node, wanted)


def test_gpus_that_have_no_parts_yet_have_their_labels():
    with Node(start=False, devices="2xH100", labels={}, environment={"METE_SIM_MIG": "on"}) as node:
        node.write("version: v1\nflags: {migStrategy: dynamic, gfd: {noTimestamp: true}}\n")
        node.tell_by_environment()
        node.kubelet.ask("turn", PREFIX + "mig-1g.10gb")
        node.start()
        wanted = {"mig.strategy": "mixed", "mig.capable": "true", "gpu.count": "2", "gpu.memory": "81559", "gpu.product": "NVIDIA-H100-80GB-HBM3", "gpu.replicas": "0",
                  "gpu.sharing-strategy": "none", "gpu.family": "hopper"}
        await_labels(node, wanted)


def begins_without_parts(write, wanted, divide, resource, ids):
    """All GPUs are in MIG mode and have no parts: the node has its labels, no devices yet, and those that are made then."""
    with Node(start=False, devices="2xH100", labels={}, environment={"METE_SIM_MIG": "on"}) as node:
        write(node)
        node.kubelet.ask("turn", PREFIX + "gpu")
        node.start()
        node.await_log(f"plugin.ready resource={PREFIX}gpu ")
        node.kubelet.hear("listed 0")
        assert len(re.findall(r"mig\.unparted gpu=[01] ", node.log())) == 2, node.log()
        await_labels(node, wanted)
        divide(node)
        node.kubelet.ask("turn", PREFIX + resource)
        node.kubelet.await_devices(lambda now: len(now) == ids and set(now.values()) == {"Healthy"})


def without_mete(strategy):
    def write(node):
        node.write({"version": "v1", "flags": {"migStrategy": strategy, "gfd": {"noTimestamp": True}}})
        node.tell_by_environment()
    return write


def test_a_node_whose_gpus_have_no_parts_serves_and_notices_those_that_are_made():
    def halves(node):
        apply(node, **{"3g.40gb": 2})
    begins_without_parts(without_mete("mixed"), {"mig.strategy": "mixed", "gpu.count": "2", "gpu.replicas": "0"}, halves, "mig-3g.40gb", 2)
    begins_without_parts(without_mete("none"), {"gpu.count": "2", "gpu.replicas": "0"}, lambda node: apply(node, enabled=False), "gpu", 1)
    begins_without_parts(lambda node: node.configure(**{"resource": PREFIX + "gpu", "feature-labels": "on"}), {"gpu.count": "2"}, halves, "gpu", 8)


def test_an_xid_of_a_part_is_its_own():
    with divided("0:2x3g.40gb", devices="1xH100", flags={"migStrategy": "single"}) as node:
        one, other = of(node, "3g.40gb")
        launch = subprocess.run([BUILD + "/examples/vector-add"], stderr=subprocess.PIPE, timeout=PATIENCE,
                                env=dict(os.environ, LD_LIBRARY_PATH=sys.argv[2], METE_SIM_DIR=node.sim, METE_SIM_FAULTS="xid=79@1", CUDA_VISIBLE_DEVICES=other))
        assert node.kubelet.await_devices(lambda now: "Unhealthy" in now.values()) == {one: "Healthy", other: "Unhealthy"}, launch


def test_a_gpu_that_is_divided_anew_is_seen():
    with divided("0:3g.40gb", devices="1xH100", flags={"migStrategy": "mixed"}, listen=PREFIX + "mig-3g.40gb") as node:
        former, = of(node, "3g.40gb")
        await_list(node, [former])
        subprocess.run([os.path.join(BUILD, "tests", "plugin", "divide"), sys.argv[2] + "/libnvidia-ml.so.1", "0", "14"],  # 2g.20gb
                       check=True, env=dict(os.environ, METE_SIM_DIR=node.sim))
        node.kubelet.turn(PREFIX + "mig-2g.20gb")
        made, = of(node, "2g.20gb")
        await_list(node, [made])
        assert node.kubelet.ask("allocate", made) == f"ok env=NVIDIA_VISIBLE_DEVICES={made}"
        node.kubelet.ask("turn", PREFIX + "mig-3g.40gb")
        await_list(node, [former])
        never_restarted(node)


def apply(node, enabled=True, **kinds):
    """GPU 0 into these, or whole, as `mete mig apply` does it."""
    with open(node.folder + "/mig.yaml", "w") as file:
        json.dump({"version": "v1", "mig-configs": {"it": [{"devices": [0], "mig-enabled": enabled, "mig-devices": kinds}]}}, file)
    environment = dict(os.environ, LD_LIBRARY_PATH=sys.argv[2], METE_SIM_DIR=node.sim, XDG_RUNTIME_DIR=node.folder)
    subprocess.run([BUILD + "/cli/mete", "mig", "apply", "-f", node.folder + "/mig.yaml", "-c", "it"], check=True, timeout=PATIENCE, env=environment)


def never_restarted(node):
    assert "daemon.again" not in node.log() and node.log().count("daemon.ready") == 1, node.log()


def test_a_gpu_that_loses_its_parts_is_named_once_each_time():
    with divided("0:3g.40gb;1:3g.40gb", devices="2xH100", flags={"migStrategy": "mixed"}, listen=PREFIX + "mig-3g.40gb") as node:
        await_list(node, of(node, "3g.40gb"))
        assert "mig.unparted" not in node.log(), node.log()
        for times in 1, 2:
            apply(node)
            node.await_log(r"mig\.unparted gpu=0 ", times)
            apply(node, **{"3g.40gb": 1})
            node.kubelet.await_devices(lambda now: set(now.values()) == {"Healthy"} and len(now) == 2)
        assert node.log().count("mig.unparted") == 2, node.log()
        never_restarted(node)


def single(**timeSlicing):
    sharing = {"sharing": {"timeSlicing": {**timeSlicing, "resources": [{"name": PREFIX + "gpu", "replicas": 2}]}}} if timeSlicing else {}
    return {"version": "v1", "flags": {"migStrategy": "single"}, **sharing}


def test_a_changed_file_takes_nothing_from_other_gpus_while_one_has_no_parts():
    with divided("0:3g.40gb;1:3g.40gb", devices="2xH100", flags={"migStrategy": "single"}) as node:
        uuids = of(node, "3g.40gb")
        await_list(node, uuids)
        apply(node)  # GPU 0 has no parts
        node.await_log(r"mig\.unparted gpu=0 ")
        node.kubelet.await_devices(lambda now: len(now) == 1)
        left, = node.kubelet.devices()
        assert left in uuids
        node.write(single(failRequestsGreaterThanOne=True))
        node.kubelet.await_devices(lambda now: now == {f"{left}::{n}": "Healthy" for n in range(2)})
        # Another name, which is served anew.
        node.kubelet.ask("turn", PREFIX + "gpu.shared")
        node.write(single(renameByDefault=True))
        node.kubelet.hear(f"registered {PREFIX}gpu.shared ")
        node.kubelet.await_devices(lambda now: now == {f"{left}::{n}": "Healthy" for n in range(2)})
        assert node.kubelet.ask("allocate", f"{left}::1") == f"ok env=NVIDIA_VISIBLE_DEVICES={left}"
        apply(node, **{"3g.40gb": 1})
        node.kubelet.await_devices(lambda now: len(now) == 4)
        assert "plugin.unsettled" not in node.log() and "config.refused" not in node.log(), node.log()
        never_restarted(node)


def test_a_changed_strategy_that_the_division_does_not_allow_leaves_the_former_one_in_force():
    with divided("0:3g.40gb,2g.20gb", devices="1xH100", flags={"migStrategy": "mixed"}, listen=PREFIX + "mig-3g.40gb") as node:
        uuids = of(node, "3g.40gb")
        await_list(node, uuids)
        node.write(single())
        node.await_log("config.refused .*more than one MIG device type present on node: ")
        assert node.kubelet.ask("allocate", *uuids) == f"ok env=NVIDIA_VISIBLE_DEVICES={uuids[0]}"
        assert "plugin.unsettled" not in node.log(), node.log()
        verdict, words = node.doctor("refused")
        assert verdict == "wrong" and "more than one MIG device type" in words, words


def test_devices_that_a_division_takes_are_offered_no_more_and_come_back_the_same():
    with divided("0:2x3g.40gb", devices="1xH100", flags={"migStrategy": "single"}) as node:
        former = of(node, "3g.40gb")
        await_list(node, former)
        for _ in range(ROUNDS):
            apply(node, **{"1g.10gb": 7})
            node.kubelet.await_devices(lambda now: len(now) == 7 and set(now.values()) == {"Healthy"})
            assert not set(former) & set(node.kubelet.devices())
            refusal = node.kubelet.refusal(node.kubelet.begin("allocate", former[0]))
            assert refusal.endswith(f"device {former[0]} is gone: MIG has divided its GPU in another way"), refusal
            apply(node, **{"3g.40gb": 2})
            node.kubelet.await_devices(lambda now: now == dict.fromkeys(former, "Healthy"))
        assert len(found(node)) == 9
        never_restarted(node)


def test_a_division_that_the_strategy_does_not_allow_is_refused_as_at_a_start():
    with divided("0:2x3g.40gb", devices="1xH100", flags={"migStrategy": "single"}) as node:
        await_list(node, of(node, "3g.40gb"))
        apply(node, **{"3g.40gb": 1, "1g.10gb": 1})
        node.await_log("daemon.again .*because=.*more than one MIG device type present on node")
        assert node.meted.wait() != 0 and "more than one MIG device type present on node: " in node.log().split("daemon.failed")[1]


def test_a_gpu_that_fell_off_the_bus_comes_back_with_other_parts():
    with divided("0:3g.40gb;1:3g.40gb", flags={"migStrategy": "mixed"}, listen=PREFIX + "mig-3g.40gb") as node:
        kept, lost = of(node, "3g.40gb")
        await_list(node, [kept, lost])
        subprocess.run([BUILD + "/examples/vector-add"], stderr=subprocess.DEVNULL, timeout=PATIENCE,
                       env=dict(os.environ, LD_LIBRARY_PATH=sys.argv[2], METE_SIM_DIR=node.sim, METE_SIM_FAULTS="lost@1", CUDA_VISIBLE_DEVICES=lost))
        node.kubelet.await_devices(lambda now: now == {kept: "Healthy", lost: "Unhealthy"})
        # It takes a reset, which ends all that use the driver.
        node.meted.kill()
        node.meted.environment["METE_SIM_PARTS"] = "0:3g.40gb;1:7x1g.10gb"
        node.restart()
        await_list(node, [kept])
        node.kubelet.await_devices(lambda now: set(now.values()) == {"Healthy"})
        refusal = node.kubelet.refusal(node.kubelet.begin("allocate", lost))
        assert lost in refusal, refusal
        node.kubelet.turn(PREFIX + "mig-1g.10gb")
        node.kubelet.await_devices(lambda now: len(now) == 7 and set(now.values()) == {"Healthy"})
        assert lost not in node.kubelet.devices()


def test_a_slot_of_a_part_that_a_division_takes_is_not_healthy():
    with Node(start=False, devices="1xH100", slots=2, environment={"METE_SIM_PARTS": "0:2x3g.40gb"}) as node:
        node.start()
        node.kubelet.hear("listed 4")
        node.run("a", node.id(0, 0))
        apply(node, **{"1g.10gb": 7})
        now = node.kubelet.await_devices(lambda now: len(now) == 15)  # two of each part, and the container's
        assert [id for id, health in now.items() if health != "Healthy"] == [node.id(0, 0)], now
        never_restarted(node)


def test_a_container_with_a_share_stays_when_another_gpu_is_divided():
    with Node(start=False, devices="2xH100", slots=2, environment={"METE_SIM_PARTS": "0:3g.40gb"}) as node:
        node.start()
        node.kubelet.hear("listed 4")
        whole_gpu = next(n for n, uuid in enumerate(node.uuid) if uuid.startswith("GPU-"))
        pod = node.run("a", node.id(0, whole_gpu))
        share = node.share(pod.title())
        apply(node, **{"1g.10gb": 2})
        node.kubelet.await_devices(lambda now: len(now) == 6)
        assert node.share(pod.title()) == share
        new = next(id for id in node.kubelet.devices() if id.split("::")[0] not in node.uuid)
        other = node.run("b", new)
        assert node.tenant(other.title()) and node.folder_of(other.title())
        never_restarted(node)


if __name__ == "__main__":
    run(globals())
