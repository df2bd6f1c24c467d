#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The node's configuration: a file that changes, and what selects among its parts."""
import http.client
import os
import shutil

from node import *
from meted import run


def test_a_file_that_changes_changes_the_slots():
    with Node() as node:
        node.configure(slots=6)
        node.kubelet.hear("listed 12")
        node.configure(devices=[{"match": node.uuid[0], "share": "none"}])
        node.kubelet.hear("listed 6")


def test_without_inotify_files_and_the_kubelet_are_looked_at_each_second():
    """Containers' root may use up the instances of the node's. In a namespace of its own, nobody misses them."""
    with Node(start=False) as node:
        node.wrap = ("unshare", "--user", "--map-root-user", "sh", "-c", 'echo 0 > /proc/sys/user/max_inotify_instances && exec "$@"', "sh")
        node.start()
        node.kubelet.hear("registered")
        node.configure(slots=6)
        node.kubelet.hear("listed 12")
        node.kubelet.kill()
        node.kubelet.start()
        node.kubelet.hear("registered")
        assert "files.polled" in node.log()


def test_a_link_that_is_turned_is_a_file_that_changes():
    """As ConfigMaps are mounted."""
    with Node(start=False) as node:
        folder = node.folder + "/map"
        os.makedirs(folder + "/1")
        os.makedirs(folder + "/2")
        shutil.copy(node.file, folder + "/1/config.yaml")
        node.configure(slots=7)
        shutil.copy(node.file, folder + "/2/config.yaml")
        os.symlink("1", folder + "/..data")
        os.symlink("..data/config.yaml", folder + "/config.yaml")
        node.options[1] = folder + "/config.yaml"
        node.start()
        node.kubelet.hear("listed 8")
        os.symlink("2", folder + "/..new")
        os.rename(folder + "/..new", folder + "/..data")
        node.kubelet.hear("listed 14")


def test_a_mistake_in_the_file_changes_nothing():
    with Node() as node:
        node.write("mete: {slots: many}\n")
        node.await_log("config.refused .*many")
        node.meted.process.send_signal(signal.SIGHUP)
        node.await_log("config.refused .*many", times=2)
        kept = {key: value for key, value in node.config.items() if key != "resource"}
        whole = "version: v1\nmete:\n" + "".join(f"  {key}: {json.dumps(value)}\n" for key, value in kept.items())
        for text, place in ((whole + "  resource: mete.dev/other\n", f"{len(kept) + 3}: mete.resource"), (whole + "  ids: slot\n", f"{len(kept) + 3}: mete.ids"),
                            (whole + "  ids: slot\n  cdi: off\n", f"{len(kept) + 4}: mete.cdi: 'off' does not go with 'ids: slot'"),
                            (whole.replace("  kubeconfig", "  #"), "3: mete.kubeconfig: this has changed: restart meted"),
                            ("version: v1\nmeter: {}\nflags: {}\n", "2: there is no key 'meter'"), ("{}\n", "1: there is no key 'mete'"),
                            ("version: v1\nflags: {}\n", " mete: this has changed")):
            node.write(text)
            node.await_log("config.refused .*" + re.escape(f"{node.file}:{place}"))
        node.kubelet.await_devices(lambda now: len(now) == 8)
        node.configure(resource=None, slots=5)
        node.kubelet.hear("listed 10")


def test_a_mode_is_for_running_pods_what_it_stands_for():
    with Node(share={"weight": 50, "guarantee": "10%"}) as node:
        pod = node.run("a", node.id(0))
        node.await_share(pod.title(), weight="50", guarantee="10%")
        node.configure(share={"mode": "fixed:1/4"})
        node.await_share(pod.title(), mode="fixed:1/4", weight=None, guarantee=None, cap=None)
        node.configure(share={"weight": 70})
        node.await_share(pod.title(), mode="", weight="70", guarantee=None, cap=None)


def test_the_kubelet_is_told_only_changes():
    with Node() as node:
        node.kubelet.hear("listed 8")
        node.configure(share={"weight": 50})
        node.configure(share={"weight": 60})
        node.configure(slots=5)
        node.kubelet.wait(lambda: [line for line in node.kubelet.happened if line.startswith("listed")])
        assert node.kubelet.happened == ["listed 10"]


def test_ids_that_are_bound_are_never_withdrawn():
    with Node() as node:
        pod = node.run("a", node.id(3))
        node.configure(slots=2)
        node.kubelet.await_devices(lambda now: len(now) == 6)
        assert node.id(3) in node.kubelet.devices() and node.id(3, 1) not in node.kubelet.devices()
        # Of two slots one is in use: no more than one other is given out.
        assert [id for id, health in node.kubelet.devices().items() if health == "Unhealthy"] == [node.id(1), node.id(2)]
        pod.delete()
        node.kubelet.await_devices(lambda now: len(now) == 4)


def test_labels_of_the_node_choose_among_the_files_parts():
    nodes = [{"labels": {"pool": "large"}, "slots": 9, "resource": "mete.dev/large", "cdi-folder": None}]
    with Node(start=False, labels={"pool": "large"}) as node:
        nodes[0]["cdi-folder"] = node.cdi
        node.api.hold("nodes")
        node.api.held["nodes"] = 0
        node.configure(nodes=nodes)
        node.start()
        node.await_log("plugin.waits .*labels of node node-1")
        assert not os.path.exists(node.kubelet.plugins + "/mete-gpu.sock")
        node.api.release("nodes")
        assert node.kubelet.hear("registered") == "registered mete.dev/large 1 1"
        node.kubelet.hear("listed 18")
        node.api.set_node({"pool": "small"})  # names sockets: not without a new start
        node.await_log("config.refused .*:1: mete.resource: this has changed")
        nodes[0].pop("resource")
        node.end()
        node.configure(nodes=nodes)
        node.meted.start()
        assert node.kubelet.hear("registered") == f"registered {RESOURCE} 1 1"
        node.kubelet.hear("listed 8")
        node.api.set_node({"pool": "large"})
        node.kubelet.hear("listed 18")


def test_a_node_that_is_not_there_is_reported():
    with Node(start=False, nodes=[{"labels": {"pool": "large"}, "slots": 9}]) as node:
        node.api.log.clear()
        node.start()
        node.await_log("node.unknown node=node-1")


def test_a_configuration_that_is_gone_or_unreadable_is_reported_once_and_changes_nothing():
    with Node() as node:
        pod = node.run("a", node.id(0))
        good = open(node.file).read()
        os.rename(node.file, node.file + ".old")
        node.await_log(f'config.refused reason="{node.file}: No such file or directory"')
        os.mkdir(node.file)
        # A folder has configurations by names, and nobody has named one.
        node.await_log(f'config.refused reason="{node.file}: neither a label of the node nor .DEFAULT_CONFIG names a configuration')
        os.rmdir(node.file)
        node.await_log(f'config.refused reason="{node.file}: No such file or directory"', times=2)
        node.write(good + "#" * (64 << 10))
        node.await_log(f'config.refused reason="{node.file}: the file has more than 65536 bytes; accepted: at most that many"')
        node.write(good + "#" * (65 << 10))  # no news
        node.configure(share={"memory": "25%"})
        node.await_share(pod.title(), memory="25%")
        assert len(re.findall("config.refused", node.log())) == 4, node.log()


if __name__ == "__main__":
    run(globals())
