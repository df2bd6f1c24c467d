#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Containers that begin and change, on a node of tests/plugin/node.py: whose they are, and what they have."""
import http.client
import os

from node import *
from meted import run


def test_a_container_is_a_tenant_that_its_folder_leads_to():
    with Node(share={"memory": "25%"}) as node:
        pod = node.run("a", node.id(0), annotations={"weight": "70"})
        folder = node.folder_of(pod.title())
        assert node.tenant(pod.title()).limit == GIB
        node.await_share(pod.title(), memory="25%", weight="70")
        guest = Guest(folder + "/guest.sock")
        assert node.tenant(pod.title()).guests == 1
        guest.close()


def test_several_slots_are_slots_of_as_many_devices():
    """On each node: two slots of one device would be another thing where there is one device than where there are two."""
    with Node(share={"memory": "25%", "weight": 50, "guarantee": "10%"}) as node:
        two = node.pod("a").admit(node.id(0), node.id(1))
        assert two.refusal() == (f"2 slots are slots of 2 devices, and the kubelet has given this container 2 of {node.uuid[0]}: accepted: 1 slot with the "
                                 "limits of its annotations, or a node with free slots of so many devices (delete the pod, so that it is given others)")
        both = node.run("b", node.id(2, 1), node.id(2, 0))
        assert sorted(row.device for row in node.tenants() if row.name == both.title()) == [0, 1]
        node.await_share(both.title(), memory="25%", weight="50", guarantee="10%")


def test_a_start_waits_until_the_pod_is_seen():
    with Node() as node:
        node.api.hold()
        pod = node.pod("a", annotations={"memory": "1GiB"}).admit(node.id(0))
        waiting = pod.begin()
        node.kubelet.ask("list")
        assert not node.kubelet.answered(waiting) and not node.records()
        node.api.release()
        node.kubelet.answer(waiting)
        node.await_share(pod.title(), memory="1GiB")


def test_a_start_is_refused_in_time_with_the_reason():
    """All of them at once: each takes as long."""
    with Node(slots=8) as node:
        node.api.hold()
        unseen = node.pod("unseen").admit(node.id(0))
        nobody = Pod(node, "nobody")
        nobody.held["main"] = [node.id(1)]
        two = Pod(node, "two", uid="uid-of-two").admit(node.id(2))
        node.kubelet.give(Pod(node, "other", uid="uid-of-other"), "main", [node.id(2)])
        waiting = [pod.begin() for pod in (unseen, nobody, two)]
        sentences = [node.kubelet.refusal(tag) for tag in waiting]
        assert f"the API server has not reported pod ns/unseen ({unseen.uid})" in sentences[0], sentences
        assert "does not say which container has these ids" in sentences[1], sentences
        assert "several pods have these ids" in sentences[2], sentences
        node.api.release()
        unseen.start()
        node.folder_of(unseen.title())


def test_a_pod_with_an_old_name_has_its_own_annotations():
    with Node() as node:
        old = node.run("web-0", node.id(0), annotations={"memory": "1GiB"})
        was = node.tenant(old.title()).tenant
        node.api.hold()
        old.delete()
        new = node.pod("web-0", annotations={"memory": "2GiB"}).admit(node.id(0))
        waiting = new.begin()
        node.kubelet.ask("list")
        assert not node.kubelet.answered(waiting)
        assert node.tenant(old.title()).tenant == was
        node.api.release()
        node.kubelet.answer(waiting)
        node.await_share(new.title(), memory="2GiB")
        assert node.record(new.title())[1]["uid"] == new.uid
        until(lambda: was not in [row.tenant for row in node.tenants()])
        node.folder_of(new.title())


def test_without_a_checkpoint_the_name_decides():
    with Node() as node:
        node.kubelet.checkpointed = False
        for text in "", "{", '{"Data": {"PodDeviceEntries": 7}}', '{"Data": {"PodDeviceEntries": [{"PodUID": 1}, 2]}}':
            node.kubelet.write_checkpoint(text)
            pod = node.run("a", node.id(0), annotations={"memory": "1GiB"})
            node.await_share(pod.title(), memory="1GiB")
            assert node.record(pod.title())[1]["uid"] == pod.uid
            pod.delete()
            until(lambda: not node.records())  # the watch has said so: a name that comes again is told by that alone


def test_an_init_container_has_the_ids_of_its_successor_and_its_share():
    """The kubelet lists no init containers: with other ids than its successor's only the checkpoint names it."""
    with Node() as node:
        pod = node.pod("a", annotations={"weight": "30"}).admit(node.id(0), node.id(0, 1), container="init", listed=False)
        pod.start("init")
        node.await_share(pod.title("init"), weight="30")
        pod.admit(node.id(0)).start()
        until(lambda: [row.name for row in node.tenants()] == [pod.title()], lambda: node.left())
        assert len(node.links()) == len(node.files()) == 1
        same = node.pod("b").admit(node.id(2), container="init", listed=False).admit(node.id(2))
        same.start("init")
        first = node.folder_of(same.title())
        same.start()
        assert node.folder_of(same.title()) != first
        for each in pod, same:
            each.delete()
        node.await_empty()


def test_a_static_pod_is_known_by_the_uid_that_the_kubelet_has():
    with Node() as node:
        shown = node.pod("static", annotations={"memory": "1GiB"}, marks={"kubernetes.io/config.mirror": "0123456789abcdef"})
        shown.held["main"] = [node.id(0)]
        node.kubelet.give(Pod(node, "static", uid="0123456789abcdef"), "main", [node.id(0)])
        shown.start()
        node.await_share(shown.title(), memory="1GiB")
        thief = node.pod("thief", annotations={"memory": "3GiB"}, marks={"kubernetes.io/config.mirror": shown.uid})
        thief.delete()
        shown.annotate(memory="2GiB")
        node.await_share(shown.title(), memory="2GiB")


def test_a_static_pod_keeps_its_share_when_its_mirror_is_deleted():
    own = "11111111-1111-1111-1111-111111111111"
    marks = {"kubernetes.io/config.mirror": own}
    with Node() as node:
        shown = node.pod("static", annotations={"memory": "1GiB"}, marks=marks)
        static = Pod(node, "static", uid=own)
        shown.held["main"] = [node.id(0)]
        node.kubelet.give(static, "main", [node.id(0)])
        shown.start()
        folder = node.folder_of(shown.title())

        def deleted(pod):
            # By its watch: another pod's end comes after it.
            before = int(node.kubelet.ask("asked"))
            node.api.add("pods", "DELETED", {"metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}})
            until(lambda: int(node.kubelet.ask("asked")) > before)

        deleted(shown)
        node.run("other", node.id(1)).delete()
        until(lambda: len(node.records()) == 1)
        Guest(folder + "/guest.sock").close()
        node.end()
        node.restart()  # nobody shows it, and it is still there
        node.await_log("api.well|kubelet.registered", times=2)
        again = node.pod("static", annotations={"memory": "2GiB"}, marks=marks)
        node.await_share(shown.title(), memory="2GiB")
        assert node.folder_of(shown.title()) == folder
        Guest(folder + "/guest.sock").close()
        node.kubelet.take_back(static, "main")
        deleted(again)
        node.await_empty()


def test_a_container_that_is_started_again_is_a_new_tenant_in_a_new_folder():
    with Node() as node:
        pod = node.run("a", node.id(0), annotations={"memory": "1GiB"})
        folders = [node.folder_of(pod.title())]
        guest = Guest(folders[0] + "/guest.sock")
        pod.annotate(memory="2GiB")
        for _ in range(3):
            pod.start()
            folders.append(node.folder_of(pod.title()))
        node.await_share(pod.title(), memory="2GiB")
        assert len(set(folders)) == 4
        assert not os.path.exists(folders[0] + "/guest.sock"), "nobody joins the one that is ending"
        until(lambda: not any(map(os.path.exists, folders[1:3])))
        assert len(node.tenants()) == 2, "what the guest of before holds is counted until it has left"
        guest.close()
        until(lambda: len(node.tenants()) == 1)
        assert not os.path.exists(folders[0])


def test_annotations_change_a_share_that_runs():
    with Node(most={"memory": "50%"}, share={"memory": "25%"}) as node:
        pod = node.run("a", node.id(0))
        folder = node.folder_of(pod.title())
        pod.annotate(memory="512MiB", weight="30", **{"class": "batch"})
        node.await_share(pod.title(), memory="512MiB", weight="30", **{"class": "batch"})
        assert node.tenant(pod.title()).limit == 512 * MIB
        pod.annotate(memory="2GiB")
        node.await_share(pod.title(), memory="2GiB", weight="30")
        pod.marks.clear()
        pod.show()
        node.await_share(pod.title(), memory="25%")
        assert not node.share(pod.title())["weight"], "the default"
        assert node.folder_of(pod.title()) == folder


def test_an_annotation_for_a_container_that_is_not_there_is_refused():
    names = {"containers": [{"name": "main"}], "initContainers": [{"name": "init"}]}
    with Node(most={"memory": "100%"}) as node:
        pod = node.pod("a", marks={"mian.mete.dev/memory": "512MiB"}, spec=names).admit(node.id(0))
        assert pod.refusal() == "mian.mete.dev/memory: the pod has no container 'mian'"
        pod.marks = {"main.mete.dev/memory": "512MiB"}
        pod.show()
        until(lambda: pod.refusal().startswith("not refused"))
        node.await_share(pod.title(), memory="512MiB")
        pod.annotate(weight="30")
        node.await_share(pod.title(), memory="512MiB", weight="30")


def test_an_init_containers_own_annotation_is_refused():
    """It would be the init container's at one start, and nobody's at the next: the kubelet tells only whose slots they are."""
    names = {"containers": [{"name": "main"}], "initContainers": [{"name": "init"}, {"name": "side", "restartPolicy": "Always"}]}
    with Node(most={"memory": "100%"}) as node:
        pod = node.pod("a", marks={"init.mete.dev/memory": "1GiB"}, spec=names).admit(node.id(0))
        assert pod.refusal() == ("init.mete.dev/memory: 'init' is an init container, which has the slots of the containers that follow it, and no share "
                                 "of its own; accepted: mete.dev/memory, for the whole pod")
        pod.marks = {"side.mete.dev/memory": "512MiB", "mete.dev/memory": "1GiB"}
        pod.show()
        until(lambda: pod.refusal().startswith("not refused"))
        node.await_share(pod.title(), memory="1GiB")
        pod.admit(node.id(1), container="side").start("side")
        node.await_share(pod.title("side"), memory="512MiB")


def test_a_mode_that_changes_takes_the_annotations_beside_it_along():
    with Node(most={"guarantee": "60%"}) as node:
        pod = node.run("a", node.id(0), annotations={"weight": "30"})
        pod.annotate(mode="equal")
        node.await_share(pod.title(), mode="equal", weight="30")
        until(lambda: node.record(pod.title())[1]["share"] == {"mode": "equal", "weight": "30"}, lambda: node.record(pod.title()))
        del pod.marks["mete.dev/mode"]
        pod.show()
        until(lambda: not node.share(pod.title())["mode"])
        node.await_share(pod.title(), weight="30")
        pod.annotate(guarantee="60%", cap="70%")
        node.await_share(pod.title(), guarantee="60%", cap="70%")
        pod.annotate(guarantee="10%", cap="20%")  # neither order suits both
        node.await_share(pod.title(), guarantee="10%", cap="20%")


def test_a_value_above_the_bound_is_refused_and_reported_once():
    with Node(share={"memory": "25%"}, most={"memory": "50%"}) as node:
        pod = node.run("a", node.id(0), annotations={"memory": "1GiB"})
        pod.annotate(memory="3GiB", weight="20")
        events = until(lambda: node.api.events_of("a"))
        assert events[0]["reason"] == "ShareUnchanged" and "accepted: memory up to 2" in events[0]["message"], events
        assert events[0]["involvedObject"]["uid"] == pod.uid and events[0]["metadata"]["namespace"] == "ns"
        node.await_share(pod.title(), memory="2147483648B", weight="20")
        for _ in range(5):
            pod.show()
        pod.annotate(memory="1GiB")
        node.await_share(pod.title(), memory="1GiB")
        assert len(node.api.events_of("a")) == 1, node.api.events
        pod.annotate(memory="4GiB")
        until(lambda: len(node.api.events_of("a")) == 2)
        new = node.pod("b", annotations={"memory": "3GiB"}).admit(node.id(1))
        assert "mete.dev/memory: '3GiB' is more than this node allows" in new.refusal()
        until(lambda: [row.name for row in node.tenants()] == [pod.title()])
        new.annotate(memory="2GiB")
        until(lambda: not new.refusal().startswith("mete.dev"))


def test_annotations_that_are_refused_by_the_hundred_are_a_few_events():
    """And the last of them is one, when the pod may have one again."""
    with Node(share={"memory": "25%"}) as node:
        pod, other = node.run("a", node.id(0)), node.run("b", node.id(1))
        for size in range(100, 300):
            pod.annotate(memory=f"{size}GiB")
        other.annotate(memory="9GiB")
        until(lambda: node.api.events_of("b"))
        assert len(node.api.events_of("a")) <= 8, len(node.api.events_of("a"))
        until(lambda: "'299GiB'" in node.api.events_of("a")[-1]["message"])
        assert len(node.api.events_of("a")) <= 10, len(node.api.events_of("a"))


if __name__ == "__main__":
    run(globals(), at_once=4)
