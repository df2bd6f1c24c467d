#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Containers that go on, and end: what they keep whatever else changes or fails, and that nothing is left of them."""
import http.client
import os
import time

from node import *
from meted import run


def test_a_profile_that_begins_changes_the_share_of_running_containers():
    """At midnight: by a time zone in which that is in a moment."""
    profiles = [{"name": "first-hours", "from": "00:00", "to": "12:00", "share": {"memory": "25%"}}]
    margin = 5
    while True:
        ahead = (86400 - margin - int(time.time()) % 86400) % 86400
        zone = f"UTC-{ahead // 3600:02}:{ahead // 60 % 60:02}:{ahead % 60:02}"
        with Node(slots=2, share={"memory": "50%"}, profiles=profiles, environment={"TZ": zone}) as node:
            pod = node.run("a", node.id(0))
            node.await_share(pod.title(), memory="25%")
            if "tenant.set" in node.log():
                break
            margin *= 2  # it was midnight before the pod ran


def test_everything_goes_with_the_pod():
    with Node() as node:
        pods = [node.run(f"p{n}", node.id(n)) for n in range(3)]
        node.folder_of(pods[0].title())
        pods[0].delete()
        until(lambda: len(node.records()) == 2)
        pods[1].phase = "Succeeded"
        pods[1].show()
        until(lambda: len(node.records()) == 1)
        node.api.forget()  # it was gone while no meted ran
        node.api.away()
        pods[2].delete()
        node.api.back()
        node.await_empty()


def test_pods_that_run_go_on_without_an_api_server():
    with Node() as node:
        first = node.run("a", node.id(0))
        known = node.pod("b")
        node.run("c", node.id(2)).delete()  # it came after the other: that one was seen, too
        until(lambda: len(node.records()) == 1)
        node.api.away()
        node.await_log("api.troubled")
        known.admit(node.id(1)).start()
        first.start()
        assert node.tenant(known.title()) and node.tenant(first.title())
        node.end()
        node.restart()
        node.folder_of(known.title())
        node.folder_of(first.title())
        assert sorted(row.name for row in node.tenants()) == [first.title(), known.title()]
        node.api.back()
        node.await_log("api.well|config.loaded")
        first.delete()
        until(lambda: [row.name for row in node.tenants()] == [known.title()])


def test_a_running_container_keeps_its_share_when_the_resource_is_renamed():
    with Node() as node:
        pod = node.run("a", node.id(0), annotations={"memory": "1GiB"})
        folder, was = node.folder_of(pod.title()), node.tenant(pod.title()).tenant
        node.end()
        node.configure(resource="mete.dev/other")
        node.restart()
        node.kubelet.await_devices(lambda now: {id for id, health in now.items() if health == "Healthy"} == {node.id(n, 1) for n in range(4)})
        assert node.folder_of(pod.title()) == folder and node.tenant(pod.title()).tenant == was
        Guest(folder + "/guest.sock").close()
        pod.annotate(memory="512MiB")
        node.await_share(pod.title(), memory="512MiB")
        pod.delete()
        node.kubelet.await_devices(lambda now: set(now.values()) == {"Healthy"} and len(now) == 8)
        node.await_empty()


def test_cdi_files_of_another_domain_and_folder_stay_with_their_containers():
    with Node(resource="mete.dev/gpu") as node:
        pods = [node.run(name, node.id(n)) for n, name in enumerate("ab")]
        before, old = sorted(os.listdir(node.cdi)), node.cdi
        node.end()
        node.cdi = node.folder + "/other"
        node.configure(domain="other.dev", cdi_folder=node.cdi)
        node.restart()
        pods[0].start()  # again, in its place: the kubelet names the device that Allocate named
        assert sorted(os.listdir(old)) == before and not node.files(), (os.listdir(old), os.listdir(node.cdi))
        assert read_all(old)["mete.dev-slot_" + node.record("ns/a/main")[0] + ".json"]["kind"] == "mete.dev/slot"
        pods[0].vanish()
        new = node.pod("c").admit(node.id(0)).start()
        node.folder_of(new.title())
        assert len(os.listdir(old)) == 1 and [name.startswith("other.dev-slot_") for name in os.listdir(node.cdi)] == [True]
        for pod in pods[1], new:
            pod.delete()
        node.await_empty()
        until(lambda: not os.listdir(old))


def test_without_any_api_server_the_kubelet_tells_which_pods_are_gone():
    with Node(api=False) as node:
        kept, gone, init = (Pod(node, name) for name in ("kept", "gone", "init"))
        node.kubelet.ask("allocate", node.id(0))
        for n, pod in enumerate((kept, gone)):
            pod.held["main"] = [node.id(n)]
            node.kubelet.give(pod, "main", [node.id(n)])
            pod.start()
        init.held["init"] = [node.id(2), node.id(2, 1)]
        node.kubelet.give(init, "init", init.held["init"], listed=False)
        init.start("init")
        gone.vanish()
        until(lambda: len(node.records()) == 2, lambda: node.records())
        node.folder_of(kept.title())
        assert node.record("//init")[1]["uid"] == init.uid


def test_a_kubelet_that_is_asked_too_often_is_asked_again():
    with Node(slots=50) as node:
        pods = [node.pod(f"p{n}", annotations={"weight": str(n + 1)}).admit(node.id(n)) for n in range(40)]
        node.kubelet.ask("answer", "list", 8, "too", "many", "requests")
        waiting = [pod.begin() for pod in pods]
        until(lambda: int(node.kubelet.ask("asked")) > 3)
        node.kubelet.ask("answer", "list", 0)
        for tag in waiting:
            node.kubelet.answer(tag)
        for n, pod in enumerate(pods):
            assert node.share(pod.title())["weight"] == str(n + 1)
            node.folder_of(pod.title())


def test_forty_starts_share_the_kubelets_lists():
    with Node(slots=50) as node:
        pods = [node.pod(f"p{n}").admit(node.id(n)) for n in range(40)]
        before = int(node.kubelet.ask("asked"))
        waiting = [pod.begin() for pod in pods]
        for tag in waiting:
            node.kubelet.answer(tag)
        assert int(node.kubelet.ask("asked")) - before <= 40


def test_nonsense_from_the_kubelet_binds_nobody_wrongly():
    with Node() as node:
        node.kubelet.ask("garbage", "on")
        pod = node.pod("a").admit(node.id(0)).start()  # by the checkpoint
        node.folder_of(pod.title())
        node.kubelet.checkpointed = False
        node.kubelet.write_checkpoint("nonsense")
        other = node.pod("b").admit(node.id(1))
        waiting = other.begin()
        node.kubelet.ask("list")
        assert not node.kubelet.answered(waiting)
        node.kubelet.ask("garbage", "off")
        node.kubelet.answer(waiting)
        node.folder_of(other.title())


def test_a_kubelet_that_hangs_is_waited_for():
    with Node() as node:
        pod = node.pod("a").admit(node.id(0))
        node.kubelet.ask("hang", "on")
        waiting = pod.begin()
        node.kubelet.hear("held")
        node.kubelet.ask("hang", "off")
        node.kubelet.answer(waiting)
        node.folder_of(pod.title())


def test_a_file_that_cannot_be_written_refuses_the_container_and_leaves_nothing():
    with Node() as node:
        pod = node.run("a", node.id(0))
        folder = node.folder_of(pod.title())
        open(node.folder + "/in-the-way", "w").close()
        for way in node.cdi, node.place + "/bindings":
            os.rename(way, way + ".away")
            os.symlink(node.folder + "/in-the-way", way)
            other = node.pod("b").admit(node.id(1))
            assert way in other.refusal()
            assert way in pod.refusal()  # it was running, and starts again
            os.unlink(way)
            os.rename(way + ".away", way)
            assert list(node.links().values()) == [folder] and list(node.files().values()) == [folder]
            until(lambda: [row.name for row in node.tenants()] == [pod.title()])
            other.delete()
        pod.start()
        assert node.folder_of(pod.title()) != folder


if __name__ == "__main__":
    run(globals(), at_once=4)
