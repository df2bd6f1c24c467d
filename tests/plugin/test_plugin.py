#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""meted as a device plugin: its registration with the kubelet, beside NVIDIA's plugin and others."""
import errno
import http.client
import os
import shutil
import socket

from node import *
from meted import run


def test_it_registers_and_the_devices_have_as_many_slots_as_configured():
    with Node(start=False, slots=3) as node:
        node.start()
        assert node.kubelet.hear("registered") == f"registered {RESOURCE} 1 1"
        devices = node.kubelet.await_devices(lambda now: now)
        assert healthy(devices) == sorted(node.id(n, device) for n in range(3) for device in range(2)), devices


def left_socket(path):
    """Of a process that was killed: nobody listens there."""
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(path)


def test_sockets_of_killed_meteds_are_cleared_and_nobody_elses():
    with Node(start=False) as node, socket.socket(socket.AF_UNIX) as lives:
        place = node.kubelet.plugins
        lives.bind(place + "/mete-lives.sock")
        lives.listen()
        for name in "mete-old.sock", "mete-gpu.sock", "other.sock", "mete-old.sock.of-somebody":
            left_socket(f"{place}/{name}")
        open(place + "/mete-file.sock", "w").close()
        node.start()
        node.kubelet.hear("registered")
        found = sorted(name for name in os.listdir(place) if "sock" in name and name != "kubelet.sock")
        assert found == ["mete-file.sock", "mete-gpu.sock", "mete-lives.sock", "mete-old.sock.of-somebody", "other.sock"], found
        node.await_log("kubelet.cleared folder=.* sockets=2")


def test_it_registers_again_when_the_kubelet_was_restarted():
    with Node() as node:
        for _ in range(3):
            node.kubelet.ask("restart")
            node.kubelet.hear("registered")
            node.kubelet.hear("listed 8")


def test_it_registers_again_when_only_the_kubelets_socket_is_another():
    with Node() as node:
        node.kubelet.hear("listed")
        node.kubelet.ask("replace")
        node.kubelet.hear("lost")  # it replaces what it had of us
        node.kubelet.hear("listed")
        node.configure(slots=5)
        node.kubelet.hear("listed 10")
        assert node.log().count("kubelet.registered") == 2


def test_it_registers_again_when_the_kubelet_was_killed():
    with Node() as node:
        node.kubelet.kill()
        node.kubelet.start()
        node.kubelet.hear("registered")


def test_it_registers_again_when_the_kubelet_listens_no_more():
    with Node() as node:
        node.kubelet.hear("listed")
        node.kubelet.ask("cut")
        node.kubelet.hear("lost")
        node.kubelet.hear("registered")
        node.kubelet.hear("listed")


def test_it_registers_again_when_the_kubelet_never_asks_for_the_devices():
    with Node(start=False) as node:
        node.kubelet.ask("deaf", "on")
        node.start()
        node.kubelet.hear("registered")
        node.kubelet.ask("deaf", "off")
        node.kubelet.hear("registered")
        node.kubelet.hear("listed")


def remove(folder):
    """With what meted puts there meanwhile: its socket, as soon as it is gone."""
    while os.path.exists(folder):
        try:
            shutil.rmtree(folder)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.ENOENT):
                raise


def test_it_registers_again_when_the_kubelets_folder_was_made_anew():
    with Node() as node:
        node.kubelet.ask("away")
        remove(node.kubelet.plugins)
        node.await_log("kubelet.unregistered .*No such file")
        os.mkdir(node.kubelet.plugins)
        node.kubelet.ask("back")
        node.kubelet.hear("registered")


def test_it_registers_when_a_kubelet_comes_after_it():
    with Node(start=False) as node:
        node.kubelet.ask("away")
        shutil.rmtree(node.kubelet.plugins)
        node.start()
        os.mkdir(node.kubelet.plugins)
        node.kubelet.ask("back")
        node.kubelet.hear("registered")


def test_a_kubelet_that_refuses_is_asked_again():
    with Node(start=False) as node:
        node.kubelet.ask("answer", "register", 3, "not", "yet")
        node.start()
        node.kubelet.hear("refused")
        node.await_log("kubelet.unregistered .*not yet")
        node.kubelet.ask("answer", "register", 0)
        node.kubelet.hear("registered")


def test_two_metes_do_not_take_each_others_place():
    with Node() as node:
        first = node.meted
        other = Daemon(*node.options, environment=node.environment, role="--system")
        try:
            until(lambda: "another meted is serving there" in other.log())
            assert node.kubelet.devices()
            node.kubelet.happened.clear()
            node.meted.process.terminate()
            assert node.meted.wait() == 0
            node.kubelet.hear("registered")
            assert node.kubelet.devices()
        finally:
            other.__exit__(None)
        assert first.log().count("kubelet.registered") == 1


def test_nvidias_plugin_is_not_joined():
    with Node(start=False) as node:
        theirs = socket.socket(socket.AF_UNIX)
        theirs.bind(node.kubelet.plugins + "/nvidia-gpu.sock")
        theirs.listen()
        node.start()
        node.await_log("kubelet.unregistered .*NVIDIA's device plugin is running on this node")
        theirs.close()  # the socket stays, and nobody listens
        node.kubelet.hear("registered")


def test_nvidias_plugin_that_comes_later_is_noticed():
    with Node() as node:
        pod = node.run("a", node.id(0))
        for name in "nvidia-gpu.sock", "nvidia-mig-1g.18gb.sock":
            theirs = socket.socket(socket.AF_UNIX)
            theirs.bind(f"{node.kubelet.plugins}/{name}")
            theirs.listen()
            node.kubelet.await_devices(lambda now: set(now.values()) == {"Unhealthy"})
            node.await_log(f"owner.contested .*NVIDIA's device plugin is running on this node alongside mete .*{name}")
            event = until(lambda: [event for event in node.api.events_of("node-1") if name in event["message"]])[0]
            assert event["reason"] == "GPUOwnerContested" and "a device has one owner" in event["message"], event
            assert node.tenant(pod.title()), "a running pod goes on"
            theirs.close()
            os.unlink(f"{node.kubelet.plugins}/{name}")
            node.kubelet.await_devices(lambda now: set(now.values()) == {"Healthy"})
            node.await_log("owner.alone")


def test_nvidias_dra_driver_is_an_owner_too():
    def driver(node, uid=""):
        os.makedirs(node.kubelet.folder + "/plugins_registry", exist_ok=True)
        theirs = socket.socket(socket.AF_UNIX)
        theirs.bind(f"{node.kubelet.folder}/plugins_registry/gpu.nvidia.com{uid}-reg.sock")
        theirs.listen()
        return theirs
    with Node(start=False) as node:
        theirs = driver(node)
        node.start()
        node.await_log(r"kubelet.unregistered .*NVIDIA's DRA driver \(gpu.nvidia.com\) is running on this node: a device has one owner")
        theirs.close()  # the socket stays, and nobody listens
        node.kubelet.hear("registered")
        theirs = driver(node, "-4f1c")  # one that comes later
        node.await_log("owner.contested .*NVIDIA's DRA driver .*gpu.nvidia.com-4f1c-reg.sock")
        node.kubelet.await_devices(lambda now: set(now.values()) == {"Unhealthy"})
        theirs.close()
        node.kubelet.await_devices(lambda now: set(now.values()) == {"Healthy"})
    with Node(start=False, dra="on") as node:
        theirs = driver(node)
        node.start()
        node.await_log(f"device.withheld uuid={node.uuid[0]} .*NVIDIA's DRA driver's")
        theirs.close()
        node.await_log("device.published")


def nvidias(node, name="nvidia-gpu.sock"):
    """It listens already when its socket is seen there."""
    theirs = socket.socket(socket.AF_UNIX)
    theirs.bind(f"{node.folder}/{name}")
    theirs.listen()
    os.rename(f"{node.folder}/{name}", f"{node.kubelet.plugins}/{name}")
    return theirs


def test_nvidias_plugin_has_time_to_come_back_when_the_kubelet_was_restarted():
    """The kubelet removes its socket, too: for a moment nobody is there."""
    with Node(start=False) as node:
        theirs = nvidias(node)
        node.start()
        node.await_log("kubelet.unregistered .*NVIDIA's device plugin is running on this node")
        for _ in range(2):
            before = node.log().count("waiting for it to come back")
            node.kubelet.ask("restart")
            node.await_log("waiting for it to come back", times=before + 1)
            theirs.close()
            theirs = nvidias(node)
            node.await_log("kubelet.unregistered .*is running on this node", times=before + 2)
        assert not [line for line in node.kubelet.happened if line.startswith("registered")], node.kubelet.happened
        theirs.close()
        os.unlink(node.kubelet.plugins + "/nvidia-gpu.sock")  # it goes by itself
        node.kubelet.hear("registered")
        node.kubelet.hear("listed 8")


def test_nvidias_plugin_that_comes_back_is_seen_as_soon_as_it_listens():
    """Its socket is there before. Until then it is waited for, for 40 s after the kubelet's start."""
    with Node(start=False) as node:
        theirs = nvidias(node)
        node.start()
        node.await_log("kubelet.unregistered .*NVIDIA's device plugin is running on this node")
        node.kubelet.ask("restart")
        node.await_log("waiting for it to come back")
        theirs.close()
        with socket.socket(socket.AF_UNIX) as theirs:
            theirs.bind(node.kubelet.plugins + "/nvidia-gpu.sock")
            node.configure(slots=5)
            node.await_log("config.loaded")  # by then it has seen the socket
            theirs.settimeout(PATIENCE)
            theirs.listen()
            theirs.accept()[0].close()
            node.await_log("kubelet.unregistered .*is running on this node", times=2)
            for slots in 6, 7:
                before = node.log().count("config.loaded")
                node.configure(slots=slots)
                node.await_log("config.loaded", times=before + 1)
            assert node.log().count("is running on this node") == 2, node.log()


def test_nvidias_plugin_of_before_the_kubelets_restart_is_known_by_the_kubelets_record():
    with Node(start=False) as node:
        node.kubelet.write_checkpoint(json.dumps({"Data": {"PodDeviceEntries": None, "RegisteredDevices": {"nvidia.com/gpu": ["GPU-1"]}}}))
        node.kubelet.ask("restart")
        node.start()
        node.await_log("waiting for it to come back")
        theirs = nvidias(node)
        node.await_log("kubelet.unregistered .*is running on this node")
        assert not [line for line in node.kubelet.happened if line.startswith("registered")], node.kubelet.happened
        theirs.close()


def test_nvidias_plugin_that_comes_while_mete_registers_is_noticed():
    with Node(start=False) as node:
        node.kubelet.process.send_signal(signal.SIGSTOP)  # it answers nothing for a while
        node.start()
        theirs = nvidias(node)
        node.configure(slots=3)
        node.await_log("config.loaded")  # by then it has seen what came before
        node.kubelet.process.send_signal(signal.SIGCONT)
        node.kubelet.hear("registered")
        node.await_log("owner.contested")
        node.kubelet.await_devices(lambda now: set(now.values()) == {"Unhealthy"})
        theirs.close()


def test_the_node_tells_which_plugin_has_its_gpus():
    with Node() as node:
        until(lambda: node.api.node()["metadata"].get("annotations") == {"mete.dev/owner": RESOURCE})
        nothing = {"mete.dev/gpu-memory": None, "mete.dev/gpu-milli": None}
        assert node.api.patches == [("/api/v1/nodes/node-1/status", {"metadata": {"annotations": {"mete.dev/owner": RESOURCE}},
                                                                     "status": {"capacity": nothing, "allocatable": nothing}})], node.api.patches


def test_a_node_with_two_owners_has_nothing_to_add_up():
    def capacity(node):
        there = node.api.node()["status"]["capacity"]
        return there.get("mete.dev/gpu-milli"), there.get("mete.dev/gpu-memory")
    with Node(ids="slot") as node:
        until(lambda: capacity(node)[0] == "2k")
        theirs = nvidias(node)
        until(lambda: capacity(node) == ("0", "0"), lambda: capacity(node))
        theirs.close()
        os.unlink(node.kubelet.plugins + "/nvidia-gpu.sock")
        until(lambda: capacity(node)[0] == "2k", lambda: capacity(node))


def owner(node):
    return node.api.node()["metadata"].get("annotations", {}).get("mete.dev/owner")


def test_the_node_says_so_no_more_when_mete_has_ended():
    # A driver that is being asked when the end comes, or not.
    with Node(environment={"METE_SIM_ANSWER_COST": "1s"}) as node:
        until(lambda: owner(node))
        node.end()
        assert owner(node) is None
    with Node() as node:
        until(lambda: owner(node))
        node.end()
        assert owner(node) is None
        node.restart()
        until(lambda: owner(node) == RESOURCE)
        node.meted.process.kill()
        node.meted.wait()
        assert owner(node) == RESOURCE
        def goes():  # when it has seen the node
            node.restart()
            node.end()
            return owner(node) is None
        until(goes)  # what the one before wrote is mete's, too
        for what in "refused", "another's", "away", "silent":  # who is silent does later what it was asked
            other = node.api.node()
            other["metadata"].get("annotations", {}).pop("mete.dev/owner", None)
            node.api.put("nodes", other)
            node.restart()
            until(lambda: owner(node) == RESOURCE)  # this one has written it, and will not again
            other = node.api.node()
            if what == "silent":
                node.api.silent = True
            elif what == "refused":
                node.api.refused = 403
            elif what == "another's":
                node.api.hold("nodes")  # meted does not see it
                other["metadata"]["annotations"]["mete.dev/owner"] = "other.dev/gpu"
                node.api.put("nodes", other)
            else:
                node.api.away()
            node.end()  # in any case, soon
            assert owner(node) == ("other.dev/gpu" if what == "another's" else RESOURCE)
            node.api.refused = None
            if what == "another's":
                node.api.release("nodes")
            if what == "away":
                node.api.back()


def test_a_socket_of_nvidias_that_nobody_listens_at_yet_is_checked_again():
    with Node() as node:
        theirs = socket.socket(socket.AF_UNIX)
        theirs.bind(node.kubelet.plugins + "/nvidia-gpu.sock")
        node.configure(slots=5)
        node.kubelet.hear("listed 10")
        assert "owner.contested" not in node.log()
        theirs.listen()
        node.await_log("owner.contested")
        theirs.close()  # killed: its socket stays
        node.kubelet.await_devices(lambda now: set(now.values()) == {"Healthy"})


if __name__ == "__main__":
    run(globals(), at_once=4)
