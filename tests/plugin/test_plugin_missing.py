#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A GPU is missing when meted starts: its containers keep what they had until a meted starts that finds it."""
from node import *
from meted import run
from test_plugin_unannounced import leave, stranger_in


def restart_with(node, devices):
    """meted ends, and starts again with so many of the node's devices."""
    node.end()
    sim = node.folder + f"/sim-{devices}"
    os.makedirs(sim, exist_ok=True)
    for settings in node.environment, node.meted.environment:
        settings.update(METE_SIM_DIR=sim, METE_SIM_DEVICES=f"{devices}xSIM")
    node.restart()


def kept(node, pods):
    """All that a container finds, as bytes and names."""
    found = {}
    for pod in pods:
        key, record = node.record(pod.title())
        folder = node.links()[key]
        assert os.path.isdir(folder), folder
        found[pod.name] = (record, folder, node.files()[key])
    return found


def pods_of(node):
    return [node.run("first", node.id(0)), node.run("second", node.id(0, 1), annotations={"memory": "512MiB"}),
            node.run("both", node.id(1), node.id(1, 1))]


def joins(folder):
    """Whether a process of the container would be one of its tenant."""
    try:
        Guest(folder + "/guest.sock").close()
    except (ConnectionRefusedError, FileNotFoundError):
        return False
    return True


def test_containers_of_a_missing_device_are_there_again_with_it():
    with Node() as node:
        pods = pods_of(node)
        before, ids = kept(node, pods), {pod.title(): node.tenant(pod.title()).tenant for pod in pods}
        for round in 1, 2:  # a second meted in a row knows them as well
            restart_with(node, 1)
            assert kept(node, pods) == before
            assert [row.name for row in node.tenants()] == [pods[0].title()]
            assert [joins(before[pod.name][1]) for pod in pods] == [True, False, False]
            assert len(re.findall(r"container.absent pod=ns/(?:second|both) ", node.log())) == 2 * round
            node.kubelet.await_devices(lambda now: now.keys() == {node.id(n) for n in range(4)})
        assert "container.lost" not in node.log() and "tenant.lost" not in node.log(), node.log()
        restart_with(node, 2)
        assert kept(node, pods) == before
        assert {pod.title(): node.tenant(pod.title()).tenant for pod in pods} == ids
        assert node.share(pods[1].title())["memory"] == "512MiB"
        assert [joins(before[pod.name][1]) for pod in pods] == [True, True, True]
        pods[1].annotate(memory="256MiB")
        node.await_share(pods[1].title(), memory="256MiB")
        for pod in pods:
            pod.delete()
        node.await_empty()


def test_a_pod_that_goes_while_its_device_is_missing_leaves_nothing():
    with Node() as node:
        pods = pods_of(node)
        restart_with(node, 1)
        pods[2].delete()
        until(lambda: node.record(pods[2].title())[0] is None)
        pods[1].delete()
        until(lambda: len(node.records()) == len(os.listdir(node.place + "/tenants")) == 1, lambda: f"{node.left()}")
        restart_with(node, 2)
        assert [row.name for row in node.tenants()] == [pods[0].title()] and "tenant.absent" in node.log()
        pods[0].delete()
        node.await_empty()


def test_a_container_that_gets_an_id_of_a_missing_ones_has_it():
    """The kubelet gives an id to one container at a time: the former one has ended, though nobody has reported it."""
    with Node() as node:
        pods = pods_of(node)
        restart_with(node, 1)
        other = node.run("other", node.id(1))
        assert node.record(pods[2].title())[0] is None
        until(lambda: len(os.listdir(node.place + "/tenants")) == 3, lambda: f"{node.left()}")
        restart_with(node, 2)
        assert sorted(row.name for row in node.tenants()) == sorted(pod.title() for pod in (pods[0], pods[1], other))


def test_annotations_that_change_meanwhile_are_followed_when_the_device_is_there():
    with Node() as node:
        pods = pods_of(node)
        restart_with(node, 1)
        before = kept(node, pods)
        pods[1].annotate(memory="768MiB")
        pods[0].annotate(memory="300MiB")
        node.await_share(pods[0].title(), memory="300MiB")
        assert kept(node, pods)["second"] == before["second"]
        restart_with(node, 2)
        node.await_share(pods[1].title(), memory="768MiB")


def test_processes_that_cannot_join_meanwhile_are_no_strangers():
    """A guest of a container with two GPUs, of which one is missing, still uses the other one."""
    with Node(devices="3xSIM", unannounced="kill") as node:
        both, one = node.run("both", node.id(0), node.id(0, 2)), node.run("one", node.id(1))
        restart_with(node, 2)
        guest = stranger_in(node, both.uid)
        try:
            for _ in range(2):  # whoever comes later is noticed
                other = stranger_in(node, one.uid)
                try:
                    assert other[0].wait(timeout=PATIENCE) == -signal.SIGKILL
                finally:
                    leave(*other)
            assert guest[0].poll() is None and f"uid={both.uid}" not in node.log()
        finally:
            leave(*guest)


if __name__ == "__main__":
    run(globals())
