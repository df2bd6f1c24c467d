#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Containers that begin, change and end, on a node of tests/plugin/node.py: whose they are, what they have, what is left."""
import contextlib
import http.client
import os
import random
import stat
import subprocess
import time

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
        assert two.refusal() == (f"2 slots are slots of 2 devices, and the kubelet has given this container 2 of {node.uuid[0]}: accepted: 1 slot and what "
                                 "its annotations say, or a node with free slots of so many devices (delete the pod, so that it is given others)")
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


def test_a_static_pod_keeps_its_share_when_what_shows_it_is_deleted():
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
            # As its watch says it: another pod's end comes after it.
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
    """It would be the init container's at one start, and nobody's at the next: the kubelet says only whose slots it has."""
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


def test_a_mode_that_changes_takes_what_is_said_beside_it_along():
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


def test_what_is_above_the_allowed_is_refused_and_said_once():
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


def test_a_profile_that_begins_changes_the_share_of_who_runs():
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
        node.api.forget()  # it was gone while nobody looked
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


def test_who_runs_keeps_its_share_when_the_resource_is_renamed():
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


def test_without_any_api_server_the_kubelet_says_who_is_gone():
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


def test_what_cannot_be_written_refuses_the_container_and_leaves_nothing():
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


def test_the_scheduler_chooses_the_device_of_opaque_ids():
    with Node(ids="slot", slots=2, overcommit="150%") as node:
        assert sorted(node.kubelet.await_devices(lambda now: len(now) == 4)) == [f"slot-00{n}" for n in range(4)]
        capacity = until(lambda: (there := node.api.node()["status"]["capacity"]).get("mete.dev/gpu-milli") and there)
        assert capacity["mete.dev/gpu-milli"] == "2k" and int(capacity["mete.dev/gpu-memory"]) == 12 * GIB, capacity
        pod = node.pod("a", marks={"mete.dev/assigned": json.dumps({"containers": {"main": {"devices": [node.uuid[1]]}}})})
        pod.admit("slot-002").start()
        assert [row.device for row in node.tenants() if row.name == pod.title()] == [1]
        assert "has no annotation mete.dev/assigned" in node.pod("b").admit("slot-000").refusal()
        for wrong in "x", "{}", '{"containers": {"main": {"devices": ["GPU-x"]}}}', '{"containers": 1}':
            lost = node.pod("c", marks={"mete.dev/assigned": wrong}).admit("slot-001")
            sentence = lost.refusal()
            assert "mete.dev/assigned: " in sentence and '"' not in sentence, "quoted once"
            assert "GPU-x" not in wrong or sentence == "mete.dev/assigned: this node has no device 'GPU-x'", sentence
            lost.delete()
        node.api.set_node({})  # the kubelet has taken them away
        until(lambda: "mete.dev/gpu-milli" in node.api.node()["status"]["capacity"])
        assert len(node.api.patches) == 2, node.api.patches


def test_the_sums_go_with_the_ids_that_need_them():
    with Node(ids="slot", slots=2) as node:
        until(lambda: "mete.dev/gpu-milli" in node.api.node()["status"]["capacity"])
        node.end()
        node.configure(ids="uuid")
        node.restart()
        until(lambda: node.api.node()["status"]["capacity"] == {"cpu": "2"}, lambda: node.api.node())


def test_whether_it_is_alive_is_said_while_it_waits_for_labels():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    node = Node(start=False, nodes=[{"labels": {"a": "b"}, "slots": 2}], metrics=f"127.0.0.1:{port}")

    def answer(path):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        connection.request("GET", path)
        return connection.getresponse()

    try:
        node.api.silent = True
        node.start()
        node.await_log("plugin.waits")
        assert answer("/healthz").status == 200
        assert b"mete_" in answer("/metrics").read()
        node.api.silent = False
        node.kubelet.hear("registered")
        assert answer("/healthz").status == 200
        node.end()
    finally:
        node.close()


def test_who_takes_the_sums_away_for_ever_is_not_fought_in_a_loop():
    with Node(ids="slot", start=False) as node:
        node.api.patch_node = lambda patch: node.api.set_node({}) or node.api.node()
        began = time.monotonic()
        node.start()
        until(lambda: node.api.patches)
        for n in range(40):
            node.api.set_node({"n": str(n)})
            node.await_log("config.loaded", times=n + 2)  # it is seen
        # Some at once, for a kubelet that starts; then one in 10 s.
        assert len(node.api.patches) <= 10 + 1 + (time.monotonic() - began) / 10, node.api.patches


def test_metrics_name_the_pods():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with Node(metrics=f"127.0.0.1:{port}") as node:
        pods = [node.run(f"p{n}", node.id(n)) for n in range(3)]
        client = http.client.HTTPConnection("127.0.0.1", port)
        client.request("GET", "/metrics")
        text = client.getresponse().read().decode()
        told = set()
        for line in text.splitlines():
            if line.startswith("#"):
                assert re.fullmatch(r"# (HELP mete_\w+ .+|TYPE mete_\w+ (gauge|counter))", line), line
                continue
            name, labels, value = re.fullmatch(r"(mete_\w+)(\{.*\})? ([-+0-9.e]+)", line).groups()
            float(value)
            if labels:
                assert re.fullmatch(r'\{(\w+="([^"\\\n]|\\.)*",?)+\}', labels), line
            told.add(name)
            if name == "mete_tenant_memory_limit_bytes":
                told.add(re.search(r'pod="(.*?)"', labels)[1])
        assert {"p0", "p1", "p2", "mete_plugin_bound_total", "mete_device_healthy", "mete_tenant_time_seconds_total",
                "mete_tenant_time_entitled_seconds_total"} <= told, told
        # What each does is a label: none has a process yet.
        assert re.findall(r'^mete_tenant_state\{.*pod="(p\d)".*,state="(.*)"\} 1$', text, re.M) == [(f"p{n}", "absent") for n in range(3)], text
        assert re.search(r"^mete_plugin_containers 3$", text, re.M) and re.search(r"^mete_plugin_registered 1$", text, re.M)
        client.request("GET", "/healthz")
        assert client.getresponse().status == 200
        assert pods


def test_whoever_asks_for_metrics_often_costs_no_more():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with Node(metrics=f"127.0.0.1:{port}") as node:
        clients = [http.client.HTTPConnection("127.0.0.1", port) for _ in range(10)]

        def made(client=clients[0]):
            """How often the figures had been gathered; None: it is asked too often."""
            client.request("GET", "/metrics")
            answer = client.getresponse()
            text = answer.read().decode()
            assert answer.status in (200, 503), answer.status
            return int(re.search(r"^mete_plugin_metrics_made_total (\d+)$", text, re.M)[1]) if answer.status == 200 else None

        began, first = time.monotonic(), made()
        answers = [made(client) for _ in range(100) for client in clients]
        seconds, told = time.monotonic() - began, [answer for answer in answers if answer is not None]
        assert told and told[-1] - first <= seconds + 1, (first, told[-1], seconds)
        assert all(told.count(round) <= 100 for round in set(told)), told
        # Whether it lives is said meanwhile, and the figures are not the same for ever.
        clients[1].request("GET", "/healthz")
        assert clients[1].getresponse().status == 200
        node.run("a", node.id(0))
        until(lambda: (made() or 0) > told[-1])


def test_whether_it_is_alive_is_said_at_an_address_of_its_own():
    """Whoever keeps the metrics busy does not make the kubelet restart meted."""
    with Node(start=False) as node:
        ports = [free_port(), free_port()]
        node.configure(metrics=f"127.0.0.1:{ports[0]}", health=f"127.0.0.1:{ports[1]}")
        node.start()
        node.kubelet.hear("registered")
        busy = [socket.create_connection(("127.0.0.1", ports[0])) for _ in range(32)]
        for one in busy:
            one.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n")  # and no more
        told = {}
        for path in "/healthz", "/metrics":
            client = http.client.HTTPConnection("127.0.0.1", ports[1], timeout=PATIENCE)
            client.request("GET", path)
            told[path] = client.getresponse().status
        assert told == {"/healthz": 200, "/metrics": 404}, told
        for one in busy:
            one.close()


def test_it_ends_at_once_whatever_it_is_about():
    def plain(node):
        node.run("a", node.id(0))

    def waits_for_the_watch(node):
        node.api.hold()
        pod = node.pod("a").admit(node.id(0))
        pod.begin()
        node.kubelet.ask("list")

    def waits_for_the_kubelet(node):
        pod = node.pod("a").admit(node.id(0))
        node.kubelet.ask("hang", "on")
        pod.begin()
        node.kubelet.hear("held")

    def waits_for_registering(node):
        node.kubelet.ask("hang", "on")
        node.kubelet.ask("restart")
        node.kubelet.hear("held")

    def api_is_silent(node):
        node.api.silent = True
        with node.api.lock:
            node.api.connections_cut = [c.shutdown(socket.SHUT_RDWR) for c in list(node.api.connections)]
        node.run_known.annotate(memory="100GiB")

    def api_is_away(node):
        node.api.away()
        node.await_log("api.troubled")

    def kubelet_is_away(node):
        node.kubelet.ask("away")

    for state in plain, waits_for_the_watch, waits_for_the_kubelet, waits_for_registering, api_is_silent, api_is_away, kubelet_is_away:
        with Node() as node:
            node.run_known = node.run("known", node.id(3))
            state(node)
            node.end()
            assert not os.path.exists(node.kubelet.plugins + "/mete-gpu.sock"), state
            assert node.record("ns/known/main")[0], "its successor knows it"
    with Node(start=False, nodes=[{"labels": {"a": "b"}, "slots": 2}]) as node:
        node.api.silent = True
        node.start()
        node.await_log("plugin.waits")
        node.end()


def make_group(uid, hierarchy=None):
    """A cgroup that is called as a pod's, in a hierarchy where one can be made."""
    require("cgroup")
    group = f"{hierarchy or needed.finding('cgroup')['found']}/mete-test-{os.getpid()}-{uid[:8]}/pod{uid}"
    os.makedirs(group)
    return group


def hierarchies():
    """One of each version of control groups that is mounted."""
    with open("/proc/self/mounts") as file:
        mounts = [line.split() for line in file]
    return {version: next(mount[1] for mount in mounts if mount[2] == version and "cpuset" not in mount[1])
            for version in ("cgroup", "cgroup2") if any(mount[2] == version and "cpuset" not in mount[1] for mount in mounts)}


def stranger_in(node, uid, command=None, hierarchy=None):
    """A program on device 0 that no guest announced, in a cgroup that is called as a pod's."""
    group = make_group(uid, hierarchy)
    environment = dict(os.environ, LD_LIBRARY_PATH=sys.argv[2], **node.environment)
    program = subprocess.Popen(command or [BUILD + "/examples/steady", "seconds=600"], env=environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(group + "/cgroup.procs", "w") as file:
        file.write(str(program.pid))
    return program, group


def leave(program, group):
    program.kill()
    program.wait()
    for folder in group, os.path.dirname(group):
        until(lambda: not open(folder + "/cgroup.procs").read())
        os.rmdir(folder)


def test_who_uses_a_device_unannounced_is_reported_or_killed():
    of_the_share = {"share": {"unannounced": "report"}, "unannounced": "kill"}
    # As long as may be: figures that list them are cut before the verdict.
    long = {"memory": "0" * 58 + "10%", "weight": "0" * 58 + "50", "guarantee": "0" * 60 + "%", "cap": "0" * 58 + "50%"}
    started = []
    with contextlib.ExitStack() as nodes:  # all at once: each is looked at every ten seconds
        for mode, config, marks in (("report", {"unannounced": "report"}, {}), ("kill", {"unannounced": "kill"}, {}), ("report", of_the_share, {}),
                                    ("kill", {"share": {"unannounced": "kill"}}, {}), ("kill", {}, {"unannounced": "kill"}), ("kill", {"unannounced": "kill"}, long)):
            node = nodes.enter_context(Node(**config))
            pod = node.run("a", node.id(0), annotations=marks)
            program, group = stranger_in(node, pod.uid)
            nodes.callback(leave, program, group)
            started.append((mode, node, pod, program))
        for mode, node, pod, program in started:
            node.await_log(f"process.unannounced pid={program.pid} pod=ns/a uid={pod.uid} ")
            event, = until(lambda: node.api.events_of("a"))
            assert event["reason"] == ("GPUProcessKilled" if mode == "kill" else "GPUProcessUnannounced"), event
            assert event["involvedObject"]["uid"] == pod.uid and f"process {program.pid} uses device {node.uuid[0]} without mete" in event["message"], event
            if mode == "kill":
                assert program.wait(timeout=PATIENCE) == -signal.SIGKILL
            else:
                for device in 1, 0:  # another look or two
                    launch(node, "xid=79@1", device)
                    node.await_log(f"device.unhealthy .*{node.uuid[device]}")
                assert program.poll() is None


def test_a_uid_of_a_static_pod_is_one():
    """The kubelet makes it of 32 digits, without dashes: who is in such a pod is no less of a stranger."""
    with Node(devices="1xSIM", unannounced="kill") as node:
        program, group = stranger_in(node, uuids.uuid4().hex)
        try:
            assert program.wait(timeout=PATIENCE) == -signal.SIGKILL
            node.await_log(f"process.unannounced pid={program.pid} ")
        finally:
            leave(program, group)


def test_strangers_are_seen_in_either_version_of_control_groups():
    """In each that this machine has: most have both, or version 2."""
    with Node(devices="1xSIM", unannounced="kill") as node, contextlib.ExitStack() as programs:
        started = []
        for hierarchy in hierarchies().values():
            program, group = stranger_in(node, str(uuids.uuid4()), hierarchy=hierarchy)
            programs.callback(leave, program, group)
            started.append(program)
        for program in started:
            assert program.wait(timeout=PATIENCE) == -signal.SIGKILL


# It announces itself, for NVML, and uses the driver that it brought. Then it does what it is told: bytes to allocate.
BRINGS_A_DRIVER = """
import ctypes, sys
nvml, cuda = ctypes.CDLL(sys.argv[1]), ctypes.CDLL(sys.argv[2])
handle, memory = ctypes.c_void_p(), (ctypes.c_ulonglong * 3)()
assert nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle)) == 0
assert nvml.nvmlDeviceGetMemoryInfo(handle, memory) == 0
device, context, address = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_ulonglong()
assert cuda.cuInit(0) == 0 and cuda.cuDeviceGet(ctypes.byref(device), 0) == 0 and cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device) == 0
for line in sys.stdin:
    print(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(int(line))), flush=True)
"""


def with_a_driver_of_its_own(node, pod):
    group = make_group(pod.uid)
    environment = dict(os.environ, METE_SOCKET=node.folder_of(pod.title()) + "/guest.sock", METE_DRIVER=sys.argv[2], **node.environment)
    program = subprocess.Popen([sys.executable, "-c", BRINGS_A_DRIVER, BUILD + "/guest/12.9/lib/libnvidia-ml.so.1", sys.argv[2] + "/libcuda.so.1"],
                               env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    with open(group + "/cgroup.procs", "w") as file:
        file.write(str(program.pid))
    return program, group


def allocate(program, size):
    program.stdin.write(f"{size}\n")
    return program.stdout.readline()


def test_who_announces_itself_and_brings_a_driver_is_held_to_its_limit():
    """mete's NVML makes it a guest, so that it is no stranger: what it has is measured."""
    port = free_port()
    with contextlib.ExitStack() as nodes:
        for mode, metrics in ("report", port), ("kill", None):
            node = nodes.enter_context(Node(devices="1xSIM", unannounced=mode, metrics=metrics and f"127.0.0.1:{metrics}"))
            pod = node.run("a", node.id(0), annotations={"memory": "1GiB"})
            program, group = with_a_driver_of_its_own(node, pod)
            nodes.callback(leave, program, group)
            assert allocate(program, 2 * GIB) == "0\n"
            node.await_log(f"container.over pod=ns/a .*uuid={node.uuid[0]} bytes=2[0-9]* limit={GIB}")
            event = until(lambda: [event for event in node.api.events_of("a") if event["reason"] == "GPUMemoryOverLimit"])[0]
            assert re.search(r"container main has 2\S+MiB of device \S+ by measurement, and its limit is 1024MiB", event["message"]), event
            if mode == "kill":
                assert program.wait(timeout=PATIENCE) == -signal.SIGKILL
                killed = until(lambda: [event for event in node.api.events_of("a") if event["reason"] == "GPUProcessKilled"])[0]
                assert f"process {program.pid} has more of device" in killed["message"], killed
                continue
            assert program.poll() is None
            row = node.tenant(pod.title())
            assert row.over >= GIB, row
            client = http.client.HTTPConnection("127.0.0.1", port)
            client.request("GET", "/metrics")
            assert re.search(r'^mete_tenant_over_limit\{.*pod="a".*\} 1$', client.getresponse().read().decode(), re.M)


def test_who_has_what_a_higher_limit_granted_is_not_killed():
    """It is over its limit, which was lowered, and has nothing that it was not given."""
    with Node(devices="1xSIM", unannounced="kill", most={"memory": "100%"}) as node:
        pod = node.run("a", node.id(0), annotations={"memory": "3GiB"})
        group = make_group(pod.uid)
        environment = dict(os.environ, METE_SOCKET=node.folder_of(pod.title()) + "/guest.sock", METE_DRIVER=sys.argv[2], **node.environment)
        guest = BUILD + "/guest/12.9/lib/"
        program = subprocess.Popen([sys.executable, "-c", BRINGS_A_DRIVER, guest + "libnvidia-ml.so.1", guest + "libcuda.so.1"], env=environment,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        with open(group + "/cgroup.procs", "w") as file:
            file.write(str(program.pid))
        try:
            assert allocate(program, 2 * GIB) == "0\n"
            pod.annotate(memory="1GiB")
            node.await_log("container.over pod=ns/a ")
            launch(node, "xid=79@1", 0)  # another look
            node.await_log("device.unhealthy")
            assert program.poll() is None and "process.killed" not in node.log()
        finally:
            leave(program, group)


def test_a_pod_with_very_many_unannounced_processes_fills_nobodys_list_of_events():
    with Node(devices="1xSIM") as node:
        pod = node.run("a", node.id(0))
        group, crowd = make_group(pod.uid), []
        environment = dict(os.environ, LD_LIBRARY_PATH=sys.argv[2], **node.environment)
        try:
            for _ in range(24):
                crowd.append(subprocess.Popen([BUILD + "/bench/idle_guest"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment))
                assert crowd[-1].stdout.readline() == b"ready\n"
            for program in crowd:  # they become the pod's together
                with open(group + "/cgroup.procs", "w") as file:
                    file.write(str(program.pid))
            for program in crowd:
                node.await_log(f"process.unannounced pid={program.pid} ")
            until(lambda: node.api.events_of("a"))
            assert len(node.api.events_of("a")) < len(crowd), "one for each"
        finally:
            for program in crowd:
                program.kill()
                program.wait()
            for folder in group, os.path.dirname(group):
                until(lambda: not open(folder + "/cgroup.procs").read())
                os.rmdir(folder)


def test_a_crowd_of_other_processes_hides_nobody():
    """Guests count among the processes that the driver lists, and so do programs outside of pods."""
    with Node(devices="1xSIM", unannounced="kill", environment={"METE_SIM_MEMORY": "64GiB"}) as node:
        pod = node.run("a", node.id(0))
        ours, theirs = os.pipe()
        environment = dict(os.environ, LD_LIBRARY_PATH=sys.argv[2], **node.environment)
        crowd = [subprocess.Popen([BUILD + "/bench/idle_guest"], stdin=ours, stdout=subprocess.PIPE, env=environment) for _ in range(270)]
        try:
            assert all(program.stdout.readline() == b"ready\n" for program in crowd)
            program, group = stranger_in(node, pod.uid)
            try:
                assert program.wait(timeout=PATIENCE) == -signal.SIGKILL
            finally:
                leave(program, group)
        finally:
            for program in crowd:
                program.kill()
                program.wait()
            os.close(ours)
            os.close(theirs)


def test_who_is_on_two_devices_is_judged_on_each():
    """A pod's two containers may have different shares: the stricter one counts, whichever device it is on."""
    with Node() as node:
        pod = node.pod("a", marks={"strict.mete.dev/unannounced": "kill"}).admit(node.id(0), container="lax").admit(node.id(0, 1), container="strict")
        pod.start("lax").start("strict")
        program, group = stranger_in(node, pod.uid, [BUILD + "/bench/idle_guest", "2"])
        try:
            assert program.wait(timeout=PATIENCE) == -signal.SIGKILL
        finally:
            leave(program, group)


def test_who_is_killed_is_the_nodes_to_say_and_a_pods_to_be_stricter_about():
    with Node(unannounced="kill") as node:
        pod = node.pod("a", annotations={"unannounced": "report"}).admit(node.id(0))
        assert "mete.dev/unannounced: 'report' is laxer than this node allows" in pod.refusal()
        node.configure(most={"unannounced": "report"})
        until(lambda: not pod.refusal().startswith("mete.dev"))
        node.await_share(pod.title(), unannounced="report")


def test_who_uses_a_device_that_is_not_shared_out_is_left_alone():
    with Node(devices="3xSIM", unannounced="kill") as node:
        node.configure(devices=[{"match": node.uuid[0], "share": "none"}])
        node.kubelet.hear("listed 8")
        pod = node.run("a", node.id(0, 1))
        program, group = stranger_in(node, pod.uid)
        try:
            for device in 1, 2, 0:  # each is news of another look at the driver
                launch(node, "xid=79@1", device)
                node.await_log(f"device.unhealthy .*{node.uuid[device]}")
            assert program.poll() is None and "process.unannounced" not in node.log()
        finally:
            leave(program, group)


# A plain Python cannot load a library that is instrumented by a sanitizer.
INSTRUMENTED = any(mark in open(BUILD + "/guest/12.9/libmete.so", "rb").read() for mark in (b"__asan_init", b"__tsan_init"))
if INSTRUMENTED:
    for name, test in list(globals().items()):
        if name.startswith("test_") and {"with_a_driver_of_its_own", "BRINGS_A_DRIVER"} & set(test.__code__.co_names):
            print(f"{name}: left out, as the guest is instrumented")
            del globals()[name]

if __name__ == "__main__":
    run(globals())
