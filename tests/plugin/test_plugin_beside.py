#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which containers can be together on a device: alone, or with guarantees that others leave. tests/plugin/node.py describes the parties."""
from node import *
from meted import run


def healthy(devices):
    return {id for id, health in devices.items() if health == "Healthy"}


def test_a_container_with_a_slot_that_has_not_started_goes_before_an_exclusive_one():
    with Node(most={"memory": "100%"}) as node:
        between = node.pod("between").admit(node.id(0))
        node.pod("elsewhere").admit(node.id(0, 1))
        alone = node.pod("alone", annotations={"exclusive": "true"}).admit(node.id(1))
        assert alone.refusal() == (f"mete.dev/exclusive: pod ns/between was given a slot of {node.uuid[0]}, which can be exclusive to another pod "
                                   "only when that pod has ended")
        assert healthy(node.kubelet.devices()) == set(node.kubelet.devices())
        between.start()
        assert "pod ns/between has a slot" in alone.refusal()
        between.delete()
        until(lambda: alone.refusal().startswith("not refused"))


def test_of_two_exclusive_containers_one_goes_first():
    with Node(most={"memory": "100%"}) as node:
        pods = [node.pod(name, uid=uid, annotations={"exclusive": "true"}).admit(node.id(n)) for n, (name, uid) in enumerate((
            ("second", "b"), ("first", "a")))]
        until(lambda: "pod ns/first was given a slot" in pods[0].refusal())  # when meted was told of it
        pods[1].start()
        assert "pod ns/first has a slot" in pods[0].refusal() or "belongs to pod ns/first alone" in pods[0].refusal()
        pods[1].delete()
        until(lambda: pods[0].refusal().startswith("not refused"))


def test_ids_of_a_pod_that_is_no_more_keep_nobody_from_being_alone():
    """The kubelet leaves them in its record until it gives ids the next time."""
    with Node(most={"memory": "100%"}) as node:
        gone = Pod(node, "gone").admit(node.id(0))  # the API server does not know it
        alone = node.pod("alone", annotations={"exclusive": "true"}).admit(node.id(1))
        assert f"pod ?/{gone.uid} was given a slot" in alone.refusal(), "it may be one that we shall be told of"
        os.utime(node.kubelet.plugins + "/kubelet_internal_checkpoint", (1, 1))
        alone.start()


def test_an_exclusive_container_keeps_others_off_its_device_until_it_ends():
    with Node(most={"memory": "100%"}) as node:
        pod = node.run("alone", node.id(1), annotations={"exclusive": "true"})
        devices = node.kubelet.await_devices(lambda now: now[node.id(0)] == "Unhealthy")
        assert healthy(devices) == {node.id(1), *(node.id(n, 1) for n in range(4))}
        late = node.pod("late").admit(node.id(0))  # it was admitted before the kubelet knew
        assert late.refusal() == f"{node.uuid[0]} belongs to pod ns/alone alone (mete.dev/exclusive) until that pod ends"
        pod.start()  # again, in its place
        node.run("other", node.id(0, 1))
        # A slot that was given stays healthy: a kubelet that is restarted would refuse the pod for good.
        node.kubelet.await_devices(lambda now: healthy(now) == {node.id(0), node.id(1), *(node.id(n, 1) for n in range(4))})
        node.end()
        node.restart()
        node.kubelet.await_devices(lambda now: now.get(node.id(2)) == "Unhealthy" and now[node.id(0)] == "Healthy")
        assert "alone" in late.refusal()
        pod.delete()
        node.kubelet.await_devices(lambda now: set(now.values()) == {"Healthy"})
        late.start()


def test_an_exclusive_container_waits_until_the_device_is_empty():
    with Node(most={"memory": "100%"}) as node:
        first = node.run("first", node.id(0))
        pod = node.pod("alone", annotations={"exclusive": "true"}).admit(node.id(1))
        assert pod.refusal() == (f"mete.dev/exclusive: pod ns/first has a slot of {node.uuid[0]}, which can be exclusive to another pod only when that pod has ended")
        until(lambda: [row.name for row in node.tenants()] == [first.title()])
        first.delete()
        until(lambda: pod.refusal().startswith("not refused"))
        until(lambda: node.kubelet.devices()[node.id(0)] == "Unhealthy")


def test_containers_of_a_pod_are_alone_together():
    with Node(most={"memory": "100%"}) as node:
        pod = node.pod("alone", annotations={"exclusive": "true"}).admit(node.id(0)).admit(node.id(1), container="side")
        pod.start().start("side")
        assert node.kubelet.await_devices(lambda now: now[node.id(2)] == "Unhealthy")[node.id(1)] == "Healthy"


def test_a_running_container_may_become_exclusive_and_be_so_no_more():
    with Node(most={"memory": "100%"}) as node:
        pod, other = node.run("a", node.id(0)), node.run("b", node.id(1))
        pod.annotate(exclusive="true")
        event = until(lambda: node.api.events_of("a"))[0]
        assert event["reason"] == "ShareUnchanged" and "pod ns/b has a slot" in event["message"], event
        assert set(node.kubelet.devices().values()) == {"Healthy"}
        other.delete()
        node.kubelet.await_devices(lambda now: now[node.id(1)] == "Unhealthy")
        del pod.marks["mete.dev/exclusive"]
        pod.show()
        node.kubelet.await_devices(lambda now: set(now.values()) == {"Healthy"})
    with Node(share={"memory": "25%"}) as node:
        pod = node.pod("a", annotations={"exclusive": "true"}).admit(node.id(0))
        assert "mete.dev/exclusive: an exclusive container has all of the GPU" in pod.refusal()


def test_guarantees_together_are_never_more_than_a_device():
    """Each slot's own is always there, be it given to nobody yet."""
    with Node(share={"guarantee": "10%"}, most={"guarantee": "100%"}) as node:
        greedy = node.pod("greedy", annotations={"guarantee": "71%"}).admit(node.id(0))
        assert greedy.refusal() == ("mete.dev/guarantee: '71%' is more than others on the GPU leave to be guaranteed; accepted: "
                                    "a guarantee up to 70.0%")
        greedy.annotate(guarantee="50%")
        until(lambda: not greedy.refusal().startswith("mete.dev"))
        node.await_share(greedy.title(), guarantee="50%")
        second = node.run("second", node.id(1), annotations={"guarantee": "30%"})
        third = node.run("third", node.id(2))
        node.run("elsewhere", node.id(0, 1), annotations={"guarantee": "70%"})
        third.annotate(guarantee="20%")
        event = until(lambda: node.api.events_of("third"))[0]
        assert event["reason"] == "ShareUnchanged" and "accepted: a guarantee up to 10.0%" in event["message"], event
        node.await_share(second.title(), guarantee="30%")
        assert node.share(third.title())["guarantee"] == "10%" or node.share(third.title())["guarantee"] == "100/1000"
        second.delete()
        node.await_share(third.title(), guarantee="20%")
        node.run("fourth", node.id(3))
        node.run("again", node.id(1))


def test_memory_together_is_never_more_than_a_device():
    """`most` allows one pod another one's slot: the first has it, and the later one is told, and does not find the GPU full."""
    with Node(share={"memory": "25%"}, most={"memory": "100%"}) as node:
        first = node.run("first", node.id(0), annotations={"memory": "2Gi"})
        second = node.run("second", node.id(1), annotations={"memory": "512Mi"})  # it counts with its slot, which it may have back
        greedy = node.pod("greedy", annotations={"memory": "2Gi"}).admit(node.id(2))
        assert greedy.refusal() == ("mete.dev/memory: '2Gi' is more than the limits of others on the GPU leave; accepted: memory up to 1GiB")
        greedy.annotate(memory="1Gi")
        until(lambda: not greedy.refusal().startswith("mete.dev"))
        node.run("elsewhere", node.id(0, 1), annotations={"memory": "4Gi"})
        late = node.pod("late").admit(node.id(3))
        assert late.refusal() == (f"the limits of the other containers on {node.uuid[0]} leave 0MiB of its memory, and this one is to have 1GiB: "
                                  "it has that when another one has ended, or asks for less")
        first.start()  # again, in its place
        second.annotate(memory="2Gi")
        event = until(lambda: node.api.events_of("second"))[0]
        assert event["reason"] == "ShareUnchanged" and "accepted: memory up to 1GiB" in event["message"], event
        second.annotate(memory="512Mi")
        first.annotate(memory="1Gi")
        until(lambda: late.refusal().startswith("not refused"))
        first.annotate(memory="2Gi")
        until(lambda: "accepted: memory up to 1GiB" in [*node.api.events_of("first"), {"message": ""}][0]["message"])
        late.delete()
        node.await_share(first.title(), memory="2Gi")
        node.configure(overcommit="200%")
        node.await_log("config.loaded", times=2)
        second.annotate(memory="2Gi")
        node.await_share(second.title(), memory="2Gi")
        node.run("last", node.id(3))


def test_a_container_keeps_its_memory_whatever_was_promised_since():
    with Node(devices="1xSIM", share={"memory": "25%"}, most={"memory": "100%"}, overcommit="200%") as node:
        pods = [node.run(f"p{n}", node.id(n), annotations={"memory": "2Gi"}) for n in range(4)]
        node.configure(overcommit="100%")
        node.await_log("config.loaded", times=2)
        for pod in pods:
            pod.start()  # again, in its place
            node.await_share(pod.title(), memory="2Gi")
        assert not node.api.events


def test_an_exclusive_container_gets_no_more_memory_for_that():
    with Node(share={"memory": "25%"}, most={"memory": "100%"}) as node:
        pod = node.run("a", node.id(0))
        others = [node.run(f"b{n}", node.id(n)) for n in (1, 2, 3)]
        pod.marks["mete.dev/memory"] = "4Gi"
        pod.annotate(exclusive="true")
        until(lambda: node.api.events_of("a"))
        assert node.tenant(pod.title()).limit == GIB
        for other in others:
            other.delete()
        until(lambda: node.tenant(pod.title()).limit == 4 * GIB)


def test_slots_that_become_fewer_and_larger_are_never_more_than_a_device():
    with Node(devices="1xSIM", share={"guarantee": "25%", "memory": "25%"}) as node:
        first = node.run("first", node.id(3))
        node.configure(slots=2, share={"guarantee": "50%", "memory": "50%"})
        node.await_share(first.title(), guarantee="50%", memory="50%")
        node.kubelet.await_devices(lambda now: healthy(now) == {node.id(0), node.id(3)})
        second = node.run("second", node.id(0))
        node.await_share(second.title(), guarantee="50%", memory="50%")
        late = node.pod("late").admit(node.id(1))  # before the kubelet knew
        assert late.refusal() == (f"{node.uuid[0]} has fewer slots than when this pod was admitted, and all of them are in use: the "
                                  "container starts when another one has ended")
        first.start()  # again, in its place
        first.delete()
        until(lambda: late.refusal().startswith("not refused"))
        node.kubelet.await_devices(lambda now: healthy(now) == {node.id(0), node.id(1)})


def test_a_container_keeps_a_smaller_slot_until_a_larger_one_fits():
    with Node(devices="1xSIM", share={"guarantee": "25%", "memory": "25%"}) as node:
        pods = [node.run(f"p{n}", node.id(n)) for n in range(4)]
        node.configure(slots=2, share={"guarantee": "50%", "memory": "50%", "weight": 30})
        for pod in pods:
            node.await_share(pod.title(), weight="30")
            assert node.share(pod.title())["memory"] == "25%" and node.share(pod.title())["guarantee"] in ("25%", "250/1000")
        pods[0].start()
        assert node.share(pods[0].title())["memory"] == "25%"
        for pod in pods[2:]:
            pod.delete()
        for pod in pods[:2]:
            node.await_share(pod.title(), guarantee="50%", memory="50%")


def test_a_device_that_is_shared_no_more_keeps_its_containers_and_takes_no_others():
    with Node(share={"memory": "25%"}) as node:
        pod = node.run("a", node.id(3), annotations={"memory": "512MiB"})
        node.configure(devices=[{"match": node.uuid[0], "share": "none"}])
        node.kubelet.await_devices(lambda now: healthy(now) == {node.id(3), *(node.id(n, 1) for n in range(4))})
        assert node.pod("b").admit(node.id(0)).refusal() == f"device {node.uuid[0]} is no longer shared out"
        pod.start()  # again, in its place
        node.await_share(pod.title(), memory="512MiB")


if __name__ == "__main__":
    run(globals())
