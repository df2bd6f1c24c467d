#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Devices that are lost and found, ids, the driver's files, and CDI."""
import http.client
import os
import shutil
import stat

import contextlib

from node import *
from meted import run
import meted


def test_a_device_that_is_not_well_has_no_healthy_slot():
    for fault, cause in ("xid=79@1", "Xid 79"), ("ecc@1", "ECC|Xid 48"), ("lost@1", "gone from the bus|Xid 79"):
        with Node() as node:
            pod = node.run("a", node.id(0, 1))
            launch(node, fault, 1)
            devices = node.kubelet.await_devices(lambda now: len(healthy(now)) == 4)
            assert all(node.uuid[0] in name for name in healthy(devices)), devices
            event = until(lambda: node.api.events_of("node-1"))[0]
            assert event["reason"] == "GPUUnhealthy" and re.search(cause, event["message"]), event
            assert node.uuid[1] in event["message"]
            assert node.tenant(pod.title()), "a running pod goes on"


def test_a_cordoned_device_has_no_healthy_slot_and_a_container_with_one_starts():
    with Node() as node:
        late, runs = node.pod("late").admit(node.id(2, 1)), node.run("runs", node.id(0, 1))
        cordon(node, 1)
        assert healthy(node.kubelet.await_devices(lambda now: len(healthy(now)) == 4)) == [node.id(n) for n in range(4)]
        event = until(lambda: [event for event in node.api.events_of("node-1") if event["reason"] == "GPUCordoned"])[0]
        assert event["type"] == "Normal" and f"{node.uuid[1]} is cordoned" in event["message"], event
        late.start()
        node.meted.kill()
        node.restart()
        node.kubelet.await_devices(lambda now: len(healthy(now)) == 4)
        admin = Admin(node.place)
        try:
            admin.ask("tenant_end", tenant=node.tenant(runs.title()).tenant)
            raise AssertionError("a pod's tenant was ended")
        except meted.Refused as refusal:
            assert refusal.code == meted.VALUE and "delete its pod" in str(refusal), refusal
        admin.close()
        cordon(node, node.uuid[1], 0)
        node.kubelet.await_devices(lambda now: len(healthy(now)) == 8)
        until(lambda: any(event["reason"] == "GPUUncordoned" for event in node.api.events_of("node-1")))


def test_a_container_whose_device_was_lost_before_it_started_waits_with_a_reason():
    with Node() as node:
        runs = node.run("runs", node.id(0, 1))
        late, both = node.pod("late").admit(node.id(1, 1)), node.pod("both").admit(node.id(2, 1), node.id(2))
        launch(node, "lost@1", 1)
        node.await_log(f"device.unhealthy .*{node.uuid[1]}")
        for pod in late, both, runs:  # the last one is started again in place
            assert f"device {node.uuid[1]} is gone from the bus: the container starts when" in pod.refusal(), node.log()
        assert not node.record("ns/late/main")[0] and not node.record("ns/both/main")[0] and node.tenant(runs.title())
        node.run("other", node.id(0))


def test_a_container_whose_device_has_had_an_xid_starts():
    """It has its slot; others get none. (And meted checks by itself, as often as usual.)"""
    with Node(look=None) as node:
        late = node.pod("late").admit(node.id(0, 1))
        launch(node, "xid=48@1", 1)
        node.kubelet.await_devices(lambda now: len(healthy(now)) == 4)
        late.start()


def test_a_device_that_was_not_well_before_it_was_lost_is_told_of_again():
    with Node() as node:
        late = node.pod("late").admit(node.id(0, 1))
        for fault in "xid=48@1", "xid=79@1", "xid=48@1":
            launch(node, fault, 1)
            node.await_log(f"device.unhealthy .*{node.uuid[1]}.*Xid {fault[4:6]}")
        until(lambda: [event["message"].split(": ")[1] for event in node.api.events_of("node-1") if event["reason"] == "GPUUnhealthy"] == ["Xid 48", "Xid 79"])
        assert f"device {node.uuid[1]} is gone from the bus: the container starts when" in late.refusal(), node.log()


def test_a_device_that_is_not_well_stays_so_when_meted_is_restarted():
    with Node() as node:
        launch(node, "xid=79@1", 1)
        node.kubelet.await_devices(lambda now: len(healthy(now)) == 4)
        for end in node.end, lambda: (node.meted.process.kill(), node.meted.process.wait()):
            end()
            node.restart()
            node.await_log(f"device.unhealthy .*{node.uuid[1]}.*Xid 79")
            node.kubelet.await_devices(lambda now: len(healthy(now)) == 4)
        node.end()
        lines = open(node.place + "/health").read().splitlines()
        for text in "", "nonsense", "\n".join(["another boot", *lines[1:]]), "\n".join([lines[0], "GPU-x 1 2 3", node.uuid[1] + " 9 9 9 9 9"]):
            with open(node.place + "/health", "w") as file:
                file.write(text)
            node.restart()
            node.kubelet.await_devices(lambda now: len(healthy(now)) == 8)
            node.end()


def test_allocate_answers_the_same_for_the_same_ids_in_any_order():
    with Node() as node:
        one = node.kubelet.ask("allocate", node.id(0), node.id(1), node.id(0, 1))
        assert re.fullmatch("ok cdi=mete.dev/slot=[0-9a-f]{16}", one), one
        assert node.kubelet.ask("allocate", node.id(0, 1), node.id(1), node.id(0)) == one
        assert node.kubelet.ask("allocate", node.id(0), node.id(1)) != one
        node.end()
        node.restart()
        assert node.kubelet.ask("allocate", node.id(1), node.id(0, 1), node.id(0)) == one


def test_ids_that_nobody_was_told_of_are_refused():
    with Node() as node:
        for id in ("GPU-00000000-0000-0000-0000-000000000000::0", "slot-000", node.uuid[0], node.id(1000), node.id(-1), "x" * 500):
            sentence = node.kubelet.refusal(node.kubelet.begin("allocate", id))
            assert f"is not an id of {RESOURCE}" in sentence, sentence
        assert "at least one" in node.kubelet.refusal(node.kubelet.begin("allocate"))
        assert "one container" in node.kubelet.refusal(node.kubelet.begin("start"))


def test_ids_of_the_emptier_device_are_preferred_and_two_are_of_two():
    with Node(slots=1000) as node:
        many = [node.id(n, device) for device in range(2) for n in range(1 if device == 0 else 0, 1000)]
        assert node.kubelet.ask("prefer", 1, "-", *many).split()[1:] == [node.id(0, 1)]
        two = node.kubelet.ask("prefer", 2, "-", *many).split()[1:]
        assert sorted(id.split("::")[0] for id in two) == sorted(node.uuid), two
        assert node.kubelet.ask("prefer", 2, node.id(7), *many).split()[1:] == [node.id(7), node.id(0, 1)]


def test_without_cdi_allocate_gives_the_edits_themselves():
    with Node(cdi="off") as node:
        answer = node.kubelet.ask("allocate", node.id(0))
        mounts = dict(reversed(word.removeprefix("mount=").split(":")) for word in answer.split() if word.startswith("mount="))
        assert "env=NVIDIA_VISIBLE_DEVICES=void" in answer and "cdi=" not in answer
        assert mounts["/etc/ld.so.preload"] and mounts["/usr/lib/mete/libmete.so"], mounts
        node.run("a", node.id(0))
        assert os.path.realpath(mounts["/run/mete"]) == node.folder_of("ns/a/main")
        assert not os.path.exists(node.cdi)


def driver_root(node):
    """A root of the node's own, with the simulated driver in it, and with device files."""
    require("devices")
    root = node.folder + "/root"
    libraries = root + "/usr/lib/x86_64-linux-gnu" if os.uname().machine == "x86_64" else root + "/usr/lib/aarch64-linux-gnu"
    shutil.copytree(sys.argv[2], libraries)
    os.mkdir(root + "/dev")
    node.configure(driver_root=root, host_driver_root="/")
    make_device(root + "/dev/null")


def make_device(path):
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))


def device_nodes(node):
    return {name: [at["path"] for at in file["devices"][0]["containerEdits"].get("deviceNodes", [])]
            for name, file in read_all(node.cdi).items() if name.endswith(".json")}


def test_device_files_that_come_later_are_given_from_then_on():
    with Node(start=False) as node:
        driver_root(node)
        dev = node.folder + "/root/dev/"
        make_device(dev + "nvidiactl")
        node.start()
        node.kubelet.hear("registered")
        node.run("a", node.id(0))
        assert list(device_nodes(node).values()) == [["/dev/nvidiactl"]], device_nodes(node)
        make_device(dev + "nvidia-uvm")
        node.await_log("devices.changed files=.*nvidia-uvm")
        until(lambda: list(device_nodes(node).values()) == [["/dev/nvidiactl", "/dev/nvidia-uvm"]], lambda: device_nodes(node))
        node.run("b", node.id(1))
        assert set(map(tuple, device_nodes(node).values())) == {("/dev/nvidiactl", "/dev/nvidia-uvm")}
        os.unlink(dev + "nvidia-uvm")
        until(lambda: set(map(tuple, device_nodes(node).values())) == {("/dev/nvidiactl",)}, lambda: device_nodes(node))
        make_device(dev + "zero")  # none of the driver's
        make_device(dev + "nvidia-uvm-tools")
        until(lambda: set(map(tuple, device_nodes(node).values())) == {("/dev/nvidiactl", "/dev/nvidia-uvm-tools")}, lambda: device_nodes(node))
        node.await_log("devices.changed", times=3)  # each after its files
        assert len(re.findall("devices.changed", node.log())) == 3, node.log()


def test_a_driver_root_with_device_files_of_its_own_is_where_they_come_from():
    """A driver that runs in a container: NVIDIA's plugin calls that nvidiaDevRoot, which is nvidiaDriverRoot unless it is said."""
    with Node(start=False) as node:
        driver_root(node)
        root = node.folder + "/root"
        for name in "nvidiactl", "nvidia0", "nvidia1":
            make_device(f"{root}/dev/{name}")
        node.configure(host_driver_root="/run/nvidia/driver")
        node.start()
        node.kubelet.hear("registered")
        node.run("a", node.id(0, 1))
        file, = (file for name, file in read_all(node.cdi).items() if name.endswith(".json"))
        nodes = {at["path"]: at["hostPath"] for at in file["devices"][0]["containerEdits"]["deviceNodes"]}
        assert nodes == {path: "/run/nvidia/driver" + path for path in ("/dev/nvidiactl", "/dev/nvidia1")}, nodes
        node.end()
        node.configure(host_driver_root=None, cdi="off")
        node.meted.start()
        node.kubelet.hear("registered")
        answer = node.kubelet.ask("allocate", node.id(1))
        assert {word for word in answer.split() if word.startswith("node=")} == {
            f"node={root}{path}:{path}" for path in ("/dev/nvidiactl", "/dev/nvidia0")}, answer


def test_a_driver_root_without_device_files_leaves_them_to_the_machine():
    with Node(start=False) as node:
        driver_root(node)
        node.has_files("nvidiactl", "nvidia0")
        shutil.rmtree(node.folder + "/root/dev")
        node.configure(host_driver_root="/run/nvidia/driver")
        node.start()
        node.kubelet.hear("registered")
        node.run("a", node.id(0))
        file, = (file for name, file in read_all(node.cdi).items() if name.endswith(".json"))
        nodes = {at["path"]: at["hostPath"] for at in file["devices"][0]["containerEdits"]["deviceNodes"]}
        assert nodes == {path: path for path in ("/dev/nvidiactl", "/dev/nvidia0")}, nodes


def test_a_driver_that_is_not_there_is_waited_for_where_the_file_says_so():
    with Node(start=False) as node:
        driver = node.folder + "/driver"
        shutil.copytree(sys.argv[2], driver)
        node.options += ["--driver", driver]
        node.start()
        node.kubelet.hear("registered")
        pod = node.run("a", node.id(0))
        share = node.share(pod.title())
        node.end()
        os.rename(driver, driver + ".away")
        refused = subprocess.run(node.command(), env=dict(os.environ, **node.environment), stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
        assert refused.returncode == 1 and re.search("daemon.failed .*libnvidia-ml.so.1", refused.stderr), refused
        port = free_port()
        node.write({"version": "v1", "flags": {"failOnInitError": False}, "mete": dict(node.config, metrics=f"127.0.0.1:{port}")})
        node.kubelet.happened.clear()
        node.meted.start()
        node.await_log("plugin.waits .*libnvidia-ml.so.1")
        for path in "healthz", "metrics":
            assert urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=PATIENCE).status == 200
        node.configure(metrics=f"127.0.0.1:{port}")  # what is written meanwhile is read
        node.await_log("config.loaded")
        assert not [line for line in node.kubelet.happened if line.startswith("registered")]
        os.rename(driver + ".away", driver)
        node.kubelet.hear("registered")
        node.await_log("daemon.again")
        assert node.share(pod.title()) == share, "a pod keeps its share"
        node.folder_of(pod.title())
        node.end()
        os.rename(driver, driver + ".away")
        node.write({"version": "v1", "flags": {"failOnInitError": False}, "mete": node.config})
        node.meted.start()
        node.end()  # while it waits


@contextlib.contextmanager
def begins_again(number, at):
    """A meted that waits for the driver gets the signal while it begins again with it. As the node is then."""
    with Node(start=False) as node:
        driver, mark = node.folder + "/driver", node.folder + "/mark"
        shutil.copytree(sys.argv[2], driver + ".away")
        node.options += ["--driver", driver]
        node.write({"version": "v1", "flags": {"failOnInitError": False}, "mete": node.config})
        node.environment.update(LD_PRELOAD=BUILD + "/tests/system/again_signals.so", AGAIN_SIGNAL=str(int(number)), AGAIN_AT=at, AGAIN_MARK=mark)
        node.start()
        node.await_log("plugin.waits")
        os.rename(driver + ".away", driver)
        until(lambda: os.path.exists(mark), "it never began again")
        yield node


def test_a_signal_that_comes_while_meted_begins_again_is_followed():
    for at in "end", "begin":
        for number in signal.SIGTERM, signal.SIGINT:
            with begins_again(number, at) as node:
                assert node.meted.wait() == 0, (number, at, node.log())
                assert f"daemon.signal signal={number.name.removeprefix('SIG')}" in node.log(), (number, at)
        with begins_again(signal.SIGHUP, at) as node:
            node.kubelet.hear("registered")
            node.await_log("daemon.ready .*devices=2")


def test_a_hang_up_that_comes_when_meted_has_closed_its_parts_does_not_end_it():
    with begins_again(signal.SIGHUP, "stop") as node:
        node.await_log("again_signals: sent when all was closed")
        node.kubelet.hear("registered")
        node.await_log("daemon.ready .*devices=2")


def test_other_missing_things_at_the_start_are_waited_for_where_the_file_says_so():
    with Node(start=False) as node:
        driver_root(node)
        cuda = subprocess.check_output(["find", node.folder + "/root", "-name", "libcuda.so.1"], text=True).split()[0]
        os.rename(cuda, cuda + ".away")
        refused = subprocess.run(node.command(), env=dict(os.environ, **node.environment), stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
        assert refused.returncode == 1 and re.search("daemon.failed .*libcuda.so.1", refused.stderr), refused
        port = free_port()
        node.write({"version": "v1", "flags": {"failOnInitError": False}, "mete": dict(node.config, metrics=f"127.0.0.1:{port}")})
        node.start()
        node.await_log("plugin.unsettled .*libcuda.so.1")
        asker = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        for n in range(3):  # on one connection, while meted tries again
            asker.request("GET", "/healthz")
            answer = asker.getresponse()
            assert (answer.read(), answer.status)[1] == 200
            node.write({"version": "v1", "flags": {"failOnInitError": False}, "mete": dict(node.config, slots=5 + n, metrics=f"127.0.0.1:{port}")})
            node.await_log("plugin.unsettled .*libcuda.so.1", times=n + 2)
        os.rename(cuda + ".away", cuda)
        node.write({"version": "v1", "flags": {"failOnInitError": False}, "mete": dict(node.config, slots=3, metrics=f"127.0.0.1:{port}")})
        node.kubelet.hear("listed 6")  # a file that has changed is tried at once


def test_parts_of_a_gpu_have_their_files_of_mig():
    """A machine as tests/drivers/divided/nvml.c shows it: two parts of a GPU, and a whole one."""
    with Node(start=False, devices="3xSIM") as node:
        driver_root(node)
        root = node.folder + "/root"
        libraries = os.path.dirname(subprocess.check_output(["find", root, "-name", "libcuda.so.1"], text=True).split()[0])
        os.unlink(libraries + "/libnvidia-ml.so.1")
        shutil.copy(BUILD + "/tests/drivers/divided/libnvidia-ml.so.1", libraries)
        os.mkdir(root + "/dev/nvidia-caps")
        for name in "nvidiactl", "nvidia5", "nvidia6", "nvidia-caps/nvidia-cap30", "nvidia-caps/nvidia-cap31", "nvidia-caps/nvidia-cap39":
            make_device(f"{root}/dev/{name}")
        for path, minor in ("gi1", 30), ("gi1/ci0", 31), ("gi2", 39), ("gi2/ci0", 40):
            folder = f"{root}/proc/driver/nvidia/capabilities/gpu5/mig/{path}"
            os.makedirs(folder)
            with open(folder + "/access", "w") as file:
                file.write(f"DeviceFileMinor: {minor}\nDeviceFileMode: 292\n")
        node.options += ["--driver", libraries]
        node.environment["METE_TEST_DIVIDED"] = node.folder + "/parts"
        node.start()
        node.kubelet.hear("registered")
        first, second = (node.pod(f"p{device}").admit(node.id(0, device)) for device in range(2))
        first.start()
        assert list(device_nodes(node).values()) == [["/dev/nvidiactl", "/dev/nvidia5", "/dev/nvidia-caps/nvidia-cap30", "/dev/nvidia-caps/nvidia-cap31"]]
        first.delete()
        until(lambda: not device_nodes(node))
        second.start()
        assert list(device_nodes(node).values()) == [["/dev/nvidiactl", "/dev/nvidia5", "/dev/nvidia-caps/nvidia-cap39"]]
        make_device(root + "/dev/nvidia-caps/nvidia-cap40")  # nvidia-modprobe makes it when somebody asks
        until(lambda: "/dev/nvidia-caps/nvidia-cap40" in list(device_nodes(node).values())[0], lambda: device_nodes(node))
        both = node.pod("both").admit(node.id(1, 0), node.id(1, 1), node.id(1, 2)).start()
        key, _ = node.record(both.title())
        nodes = device_nodes(node)[f"mete.dev-slot_{key}.json"]
        assert nodes == ["/dev/nvidiactl", "/dev/nvidia5", *(f"/dev/nvidia-caps/nvidia-cap{n}" for n in (30, 31, 39, 40)), "/dev/nvidia6"], nodes
        node.end()
        node.configure(cdi="off")
        node.meted.start()
        node.kubelet.hear("registered")
        answer = node.kubelet.ask("allocate", node.id(2, 0))
        with open(node.folder + "/parts.new", "w") as file:
            file.write("02")  # the first part is destroyed
        os.rename(node.folder + "/parts.new", node.folder + "/parts")
        node.kubelet.await_devices(lambda now: {id for id, health in now.items() if health == "Unhealthy"} == {node.id(n) for n in range(4)})
        node.await_log("device.unhealthy .*is no longer a part of its GPU")
        assert {f"node={path}:{path}" for path in ("/dev/nvidia-caps/nvidia-cap30", "/dev/nvidia-caps/nvidia-cap31", "/dev/nvidia5")} <= set(
            re.sub("=" + root, "=", answer).split()), answer


def test_the_kubelet_is_told_which_memory_a_device_is_near_to():
    with Node(start=False, slots=2) as node:
        driver_root(node)
        for place, near in ("0000:17:00.0", 1), ("0000:1f:00.0", -1):  # of the simulated GPUs
            folder = f"{node.folder}/root/sys/bus/pci/devices/{place}"
            os.makedirs(folder)
            with open(folder + "/numa_node", "w") as file:
                file.write(f"{near}\n")
        node.start()
        node.kubelet.hear("listed 4")
        assert node.kubelet.ask("near").split() == [f"{node.id(n)}=1" for n in range(2)]


def test_cdi_is_used_where_the_node_has_it_and_the_reason_is_logged():
    with Node(start=False) as node:
        driver_root(node)
        os.makedirs(node.folder + "/root/etc/containerd")
        for text, chosen in ("#enable_cdi = true\n enable_cdi = false\n", "off reason=.*enable_cdi = false"), ("enable_cdi = true\n", "on reason=.*enable_cdi = true"):
            with open(node.folder + "/root/etc/containerd/config.toml", "w") as file:
                file.write("version = 2\n[plugins]\n" + text)
            node.meted.start() if node.meted else node.start()
            node.kubelet.hear("registered")
            node.await_log("cdi.chosen cdi=" + chosen)
            assert ("cdi=" in node.kubelet.ask("allocate", node.id(0))) == chosen.startswith("on")
            node.end()


def test_the_api_servers_answer_about_the_node_decides_once_it_is_known():
    with Node() as node:
        node.await_log("cdi.chosen cdi=on")
        pod = node.run("a", node.id(0))
        for runtime, kubelet, cdi in ("containerd://1.6.2", "v1.36.0", False), ("containerd://2.1.0", "v1.36.0", True), ("cri-o://1.30.1", "v1.28.3", False):
            known = node.api.node()
            known["status"]["nodeInfo"] = {"containerRuntimeVersion": runtime, "kubeletVersion": kubelet}
            node.api.put("nodes", known)
            until(lambda: ("cdi=" in node.kubelet.ask("allocate", node.id(1))) == cdi, runtime)
        node.folder_of(pod.title())


def test_the_api_servers_answer_about_the_node_is_remembered():
    with Node() as node:
        known = node.api.node()
        known["status"]["nodeInfo"] = {"containerRuntimeVersion": "containerd://1.6.2", "kubeletVersion": "v1.36.0"}
        node.api.put("nodes", known)
        until(lambda: "cdi=" not in node.kubelet.ask("allocate", node.id(1)))
        node.meted.process.kill()
        node.meted.wait()
        node.api.away()
        node.restart()
        assert "cdi=" not in node.kubelet.ask("allocate", node.id(1))
        node.end()
        for wrong in "", "containerd://1.6.2", "a\nb\nc\n", "\0\n\n", 60 * "containerd://1.6.2" + "\n\n", 9999 * "x":
            with open(node.place + "/runtime", "w") as file:
                file.write(wrong)
            node.meted.start()
            node.kubelet.hear("registered")
            assert node.kubelet.ask("allocate", node.id(1)).startswith("ok ")
            node.end()


if __name__ == "__main__":
    run(globals())
