#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pods that are counted by amounts: meted picks their GPUs, and writes the node's sums. tests/plugin/node.py describes the parties."""
import random

from counted import *
from meted import run

def test_a_pod_has_its_counted_amounts_on_the_gpu_that_meted_picks():
    with amounts() as node:
        assert len(node.kubelet.await_devices(lambda now: len(now) == 20)) == 20
        await_sums(node, 8 * GIB, 2000)
        first = asks(node, "first", container(memory="3Gi", milli=600)).start()
        node.await_share(first.title(), memory=f"{3 * GIB}B", guarantee="600/1000")
        second = asks(node, "second", container(memory="2Gi", milli=300)).start()
        third = asks(node, "third", container(memory="1Gi")).start()
        assert devices_of(node, first) == [0] and devices_of(node, second) == [1]
        assert devices_of(node, third) == [0], "the fullest that has room"
        await_sums(node, 8 * GIB, 2000)
        assert len(node.api.patches) == 1, "what is requested changes no sum"


def test_amounts_are_totals_over_the_gpus_of_a_container():
    with amounts() as node:
        pod = asks(node, "wide", container(gpus=2, memory="3Gi", milli=500)).start()
        assert devices_of(node, pod) == [0, 1]
        node.await_share(pod.title(), memory=f"{3 * GIB // 2}B", guarantee="250/1000")


def test_where_the_sum_fits_and_no_gpu_does_the_numbers_are_told_and_room_starts_it():
    with amounts() as node:
        first, second = (asks(node, name, container(memory="3Gi")).start() for name in ("first", "second"))
        third = asks(node, "third", container(memory="2Gi"))
        assert third.refusal() == ("mete.dev/gpu-memory: 2GiB of one GPU, and at most 1GiB are left on any one of this node's 2 GPUs "
                                   "(2GiB on all together): the container starts when there is room")
        # The kubelet tries again, and is kept waiting: when there is room, the container starts.
        again = third.begin()
        small = asks(node, "small", container(memory="1Gi")).start()
        assert not node.kubelet.answered(again)
        second.delete()
        node.kubelet.answer(again)
        assert devices_of(node, third) == [1] and devices_of(node, small) == [0]
        # Room is kept for the pod that it was given to, though the kubelet asks later.
        fourth = asks(node, "fourth", container(memory="3Gi"))
        assert "at most 2GiB" in fourth.refusal()
        third.delete()
        late = asks(node, "late", container(memory="2Gi"))
        assert "(1GiB on all together)" in late.refusal()
        fourth.start()
        assert devices_of(node, fourth) == [1]


def test_where_no_gpu_has_room_a_batch_pod_is_parked_for_one_of_a_higher_class():
    moves = {"class": "batch", "swap": "auto"}
    with amounts(most={"swap": "auto", "class": "interactive"}) as node:
        stays = asks(node, "stays", container(memory="3Gi"), annotations={"class": "batch"}).start()
        batch = asks(node, "batch", container(memory="3Gi"), annotations=moves).start()
        assert devices_of(node, stays) == [0] and devices_of(node, batch) == [1]
        late = asks(node, "late", container(memory="2Gi"), annotations=moves)
        assert "at most 1GiB" in late.refusal()
        urgent = asks(node, "urgent", container(memory="2Gi")).start()
        assert devices_of(node, urgent) == [1], "where the one is that can be parked"
        # A restarted meted knows it as well; nobody else is promised that room.
        node.meted.kill()
        node.restart()
        more = asks(node, "more", container(memory="3Gi"))
        assert "mete.dev/gpu-memory: 3GiB" in more.refusal()
        urgent.delete()
        more.start()
        assert devices_of(node, more) == [1] and devices_of(node, batch) == [1]


def test_a_cordoned_gpu_counts_for_nobody_new():
    with amounts() as node:
        first = asks(node, "first", container(memory="1Gi", milli=100)).start()
        assert devices_of(node, first) == [0]
        cordon(node, 0)
        await_sums(node, 5 * GIB, 1100)  # those of the other one, and of the pods that are there
        second = asks(node, "second", container(memory="3Gi", milli=300)).start()
        assert devices_of(node, second) == [1] and devices_of(node, first) == [0]
        third = asks(node, "third", container(memory="2Gi"))
        assert "2GiB of one GPU" in third.refusal()
        again = third.begin()
        cordon(node, 0, 0)
        await_sums(node, 8 * GIB, 2000)
        node.kubelet.answer(again)
        assert devices_of(node, third) == [0]


def test_a_gpu_that_is_out_of_service_is_no_reason_to_ask_for_less():
    with amounts(devices="1xSIM,1xT4") as node:
        cordon(node, 1)
        large = asks(node, "large", container(memory="8Gi"))
        assert "1 GPU with 8GiB or more of memory, and 0 such GPUs of this node are in service" in until(large.refusal)
        wide = asks(node, "wide", container(gpus=2, memory="2Gi"))
        assert "2 GPUs with 1GiB or more of memory, and 1 such GPU of this node is in service" in wide.refusal()
        again = large.begin()
        cordon(node, 1, 0)
        node.kubelet.answer(again)
        wide.start()
        assert devices_of(node, large) == [1] and devices_of(node, wide) == [0, 1]


def test_of_several_that_wait_the_more_important_comes_first():
    with amounts(devices="1xSIM") as node:
        first = asks(node, "first", container(memory="4Gi")).start()
        waiting = [asks(node, name, container(memory="3Gi"), priority=priority) for name, priority in (("low", -5), ("high", 10), ("usual", 0))]
        for pod in waiting:
            assert "0B of 4GiB are left on this node's GPU" in pod.refusal()
        first.delete()
        low, high, usual = waiting
        high.start()
        assert "1GiB of 4GiB" in usual.refusal()
        high.delete()
        usual.start()
        usual.delete()
        low.start()


def test_a_pod_is_seated_whole_or_not_at_all():
    with amounts() as node:
        asks(node, "other", container(memory="3Gi")).start()
        pair = asks(node, "pair", container("a", memory="3Gi"), container("b", memory="2Gi"))
        assert "mete.dev/gpu: 2 containers of this pod are to have GPUs at one time" in pair.refusal("a")
        assert not devices_of(node, pair, "a")
        fits = asks(node, "fits", container("a", memory="2Gi"), container("b", memory="1Gi"))
        fits.start("b")
        assert devices_of(node, fits, "b") == [0]
        thief = asks(node, "thief", container(memory="3Gi"))
        assert "at most 2GiB" in thief.refusal(), "the other container's room is kept"
        node.end()
        node.restart()
        fits.start("a")
        assert devices_of(node, fits, "a") == [1]


def test_amounts_that_make_no_sense_are_refused_with_a_sentence():
    with amounts() as node:
        pod = asks(node, "bytes", container(memory="20"))
        assert pod.refusal() == ("container main: mete.dev/gpu-memory: '20' is less than a mebibyte of each GPU; accepted: an amount with its unit, "
                                 "such as 20Gi")
        pod = asks(node, "beside", container(memory="1Gi"), container("extra", gpus=0, memory="1Gi"))
        assert "container extra: mete.dev/gpu-memory: '1Gi' without mete.dev/gpu" in pod.refusal()
        pod = asks(node, "large", container(memory="5Gi"))
        assert "no GPU of this node has more than 4GiB" in pod.refusal()
        pod = asks(node, "wide", container(gpus=3, memory="3Gi"))
        assert "3 GPUs for one container, and this node shares out 2" in pod.refusal()


def test_an_init_container_before_a_sidecar_has_the_gpu_without_it():
    """As kube-scheduler counts them: of the two, the larger."""
    with amounts(devices="1xSIM") as node:
        loads, side = container("loads", memory="3Gi"), {**container("side", memory="2Gi"), "restartPolicy": "Always"}
        pod = asks(node, "pod", container(memory="1Gi"), init=[loads, side])
        pod.admit("slot-901", container="loads").start("loads")
        assert devices_of(node, pod, "loads") == [0]
        pod.admit("slot-902", container="side").start("side")
        pod.start()
        assert devices_of(node, pod, "side") == devices_of(node, pod) == [0]
        await_sums(node, 4 * GIB, 1000)
        # The other way round they run beside each other.
        late = asks(node, "late", container(memory="1Gi"), init=[side, loads])
        assert "mete.dev/gpu-memory: " in late.admit("slot-903", container="side").refusal("side")
        await_sums(node, 8 * GIB, 1000)


def test_annotations_lower_counted_amounts_and_raise_nothing():
    with amounts(most={"memory": "100%", "guarantee": "100%"}) as node:
        pod = asks(node, "modest", container(memory="2Gi", milli=400), annotations={"memory": "1Gi", "guarantee": "10%", "weight": "50"}).start()
        node.await_share(pod.title(), memory="1Gi", guarantee="10%", weight="50")
        pod.annotate(memory="2Gi")
        node.await_share(pod.title(), memory="2Gi")
        greedy = asks(node, "greedy", container(memory="2Gi", milli=400), annotations={"memory": "3Gi"})
        assert greedy.refusal() == "mete.dev/memory: '3Gi' is more than the amount counted for each GPU (gpu-memory); accepted: memory up to 2GiB"
        greedy.annotate(memory="1Gi", guarantee="50%")
        until(lambda: "mete.dev/guarantee: '50%' is more than the amount counted for each GPU (gpu-milli); accepted: a guarantee up to 40.0%" in greedy.refusal())
        slot = asks(node, "slot", container(), annotations={"memory": "2Gi"})
        assert "is more than the amount counted for each GPU (gpu-memory); accepted: memory up to 1GiB" in slot.refusal()


def test_time_that_is_fixed_is_the_cap_too():
    with amounts(gpu_milli="fixed", share={"memory": "25%", "guarantee": "5%", "cap": "80%"}) as node:
        pod = asks(node, "fixed", container(milli=300)).start()
        node.await_share(pod.title(), guarantee="300/1000", cap="300/1000")
        slot = asks(node, "slot", container()).start()
        node.await_share(slot.title(), guarantee="50/1000", cap="80%")
    with amounts(share={"memory": "25%", "cap": "20%"}) as node:
        pod = asks(node, "more", container(milli=300)).start()
        node.await_share(pod.title(), guarantee="300/1000", cap="300/1000")  # a slot's cap does not take away what was counted
        pod = asks(node, "less", container(milli=100)).start()
        node.await_share(pod.title(), guarantee="100/1000", cap="20%")


def test_a_pod_without_an_amount_is_counted_with_a_slot_in_the_sums_too():
    with amounts(devices="1xSIM,1xT4", share={"memory": "25%", "guarantee": "10%"}) as node:
        large = until(lambda: sums(node)[0]) - 4 * GIB
        await_sums(node, 4 * GIB + large, 2000)
        pods = [asks(node, f"slot{n}", container()).start() for n in range(5)]
        assert [devices_of(node, pod) for pod in pods] == [[0]] * 4 + [[1]], "the smaller GPU's slots first"
        await_sums(node, large - large // 4, 1500)
        said = asks(node, "said", container(memory="4Gi")).start()
        assert devices_of(node, said) == [1]
        await_sums(node, large - large // 4, 1400)
        pods[0].delete()
        await_sums(node, large - large // 4 + GIB, 1500)


def test_a_status_that_the_watch_is_slow_to_show_is_not_written_twice():
    with amounts(start=False, nodes=[{"labels": {"pool": "large"}, "slots": 20}]) as node:
        node.api.hold("nodes")
        node.api.set_node({})  # of before the sums, and shown after them
        node.start()
        node.kubelet.hear("registered")
        await_sums(node, 8 * GIB, 2000)
        for n in range(3):
            asks(node, f"p{n}", container(memory="1Gi", milli=100)).start()
        node.api.release("nodes")
        now = node.api.node()
        now["metadata"]["labels"]["pool"] = "large"
        node.api.put("nodes", now)
        node.kubelet.await_devices(lambda ids: "slot-039" in ids)  # by then it has seen it all
        node.api.set_node({})
        await_sums(node, 8 * GIB, 2000)
        assert len(node.api.patches) == 2, node.api.patches


def test_sums_that_the_kubelet_has_taken_away_are_written_again_at_once():
    with amounts() as node:
        await_sums(node, 8 * GIB, 2000)
        for _ in range(3):
            node.api.set_node({})
            until(lambda: sums(node) == (8 * GIB, 2000))
        zeroed = node.api.node()
        zeroed["status"] = {"capacity": {"cpu": "2", "mete.dev/gpu-memory": "0", "mete.dev/gpu-milli": "0"}}
        node.api.put("nodes", zeroed)
        await_sums(node, 8 * GIB, 2000)
        assert len(node.api.patches) == 5, node.api.patches


def test_the_sums_never_fall_below_the_amounts_of_pods_here():
    with amounts() as node:
        for n in range(2):
            asks(node, f"p{n}", container(memory="3Gi", milli=700)).start()
        await_sums(node, 8 * GIB, 2000)
        launch(node, "xid=79@1", 0)
        await_sums(node, 7 * GIB, 1700)  # the rest is the room that the other GPU has left
        assert "1GiB of 4GiB are left on this node's GPU" in asks(node, "more", container(memory="2Gi")).refusal()
        launch(node, "xid=79@1", 1)
        await_sums(node, 8 * GIB, 1400)  # a restarted kubelet would refuse pods that request more
        assert "no GPU of this node is in service" in asks(node, "late", container(memory="1Gi")).refusal()


def test_a_running_pod_keeps_its_gpu_when_it_or_meted_starts_again():
    with amounts() as node:
        pods = [asks(node, f"p{n}", container(memory=f"{memory}Gi", milli=100)).start() for n, memory in enumerate((3, 2, 1, 1))]
        where = [devices_of(node, pod) for pod in pods]
        for pod in pods:
            pod.start()
        assert [devices_of(node, pod)[-1:] for pod in pods] == where
        node.meted.process.kill()
        node.meted.wait()
        node.restart()
        until(lambda: [devices_of(node, pod)[-1:] for pod in pods] == where)
        waits = asks(node, "waits", container(memory="2Gi"))
        assert "at most 1GiB" in waits.refusal()
        again = waits.begin()
        pods[1].delete()
        node.kubelet.answer(again)


def test_a_gpu_alone_must_have_been_counted():
    with amounts() as node:
        pod = asks(node, "alone", container(memory="1Gi", milli=500), annotations={"exclusive": "true"})
        assert "mete.dev/exclusive: a whole GPU is more than the counted amount; accepted: together with mete.dev/gpu-milli: 1000" in pod.refusal()
        other = asks(node, "other", container(memory="1Gi")).start()
        alone = asks(node, "whole", container(memory="1Gi", milli=1000), annotations={"exclusive": "true"}).start()
        assert devices_of(node, other) == [0] and devices_of(node, alone) == [1]
        second = asks(node, "second", container(memory="1Gi", milli=1000), annotations={"exclusive": "true"})
        assert "1 GPU that no other container uses, and this node has 0 of 2" in second.refusal()
        other.delete()
        second.start()


def test_a_pod_refused_for_its_annotations_has_room_elsewhere_when_its_gpu_is_lost():
    with amounts() as node:
        pod = asks(node, "pod", container(memory="1Gi", milli=100), annotations={"weight": "heavy"})
        assert "mete.dev/weight: 'heavy'" in pod.refusal()
        launch(node, "xid=79@1", 0)
        node.await_log("device.unhealthy")
        pod.annotate(weight="50")
        other = asks(node, "other", container(memory="1Gi", milli=100)).start()  # by then the annotation has been seen
        assert devices_of(node, other) == devices_of(node, pod.start()) == [1]


def test_containers_from_when_slots_were_counted_keep_their_share():
    with Node(devices="2xSIM", slots=4, share={"memory": "25%", "guarantee": "10%"}) as node:
        old = [node.run(f"old{n}", node.id(n, n // 2), spec={"containers": [container()]}) for n in range(3)]
        node.end()
        node.configure(counted="amounts")
        node.restart()
        await_sums(node, 5 * GIB, 1700)
        large = asks(node, "large", container(memory="4Gi"))
        assert "at most 3GiB" in large.refusal()
        large.delete()
        pod = asks(node, "fits", container(memory="3Gi", milli=900)).start()
        assert devices_of(node, pod) == [1]
        old[2].start()  # again, as the kubelet does it with the ids that it has
        assert devices_of(node, old[2])[-1:] == [1] and node.share(old[2].title())["memory"] == "25%"
        old[0].delete()
        await_sums(node, 6 * GIB, 1800)


def test_many_pods_that_come_go_and_wait_beside_deaths_of_meted_are_never_too_many():
    choose = random.Random(int(os.environ.get("METE_SEED", "1")))
    with amounts(devices="2xSIM,1xT4", slots=20) as node:
        total = [4 * GIB, 4 * GIB, 15 * GIB]
        pods, size, began = [], {}, {}
        for n in range(120):
            what = choose.randrange(10)
            if what < 3 and pods:
                gone = pods.pop(choose.randrange(len(pods)))
                began.pop(gone, None)
                gone.delete()
            elif what == 3 and n % 3 == 0:
                node.meted.process.kill()
                node.meted.wait()
                node.restart()
                began.clear()
            elif len(pods) < 25:
                mib = choose.choice((300, 700, 1500, 3000, 6000))
                pod = asks(node, f"p{n}", container(memory=f"{mib}Mi", milli=choose.choice((0, 100, 400))), priority=choose.randrange(3))
                size[pod] = mib * MIB
                pods.append(pod)
            for pod in pods:
                if pod not in began and not devices_of(node, pod):
                    began[pod] = pod.begin()
            ended = {pod.title() for pod in pods}
            held = [0] * 3
            for row in node.tenants():
                if row.name in ended:
                    held[row.device] += row.limit
            assert all(has <= most for has, most in zip(held, total)), (held, node.tenants())
        # In the end every pod has had room: a waiting one is let in as others go.
        while pods:
            runs = until(lambda: [pod for pod in pods if devices_of(node, pod)], lambda: node.log()[-3000:])
            for pod in pods:
                if pod not in runs and (pod not in began or node.kubelet.answered(began[pod])):
                    began[pod] = pod.begin()
            assert all(node.tenant(pod.title()).limit == size[pod] for pod in runs)
            runs[0].delete()
            pods.remove(runs[0])
        node.await_empty()


def test_a_pod_that_is_deleted_while_it_waits_is_kept_by_nobody():
    with amounts(devices="1xSIM") as node:
        first = asks(node, "first", container(memory="3Gi")).start()
        leaving, second = asks(node, "leaving", container(memory="2Gi")), asks(node, "second", container(memory="2Gi"))
        for pod in (leaving, second):
            assert "1GiB of 4GiB are left" in pod.refusal()
        kept, waits = leaving.begin(), second.begin()
        leaving.ending = {"deletionTimestamp": "2026-11-26T12:00:00Z"}
        leaving.show()
        assert "1GiB of 4GiB are left" in node.kubelet.refusal(kept)
        assert not node.kubelet.answered(waits)
        first.delete()
        node.kubelet.answer(waits)  # the room is not kept for a pod that leaves


def test_a_node_without_an_api_server_cannot_count():
    with Node(start=False, counted="amounts", kubeconfig="none") as node:
        try:
            node.start()
            raise SystemExit("it started")
        except AssertionError as error:
            assert "mete.counted: 'amounts' are read from pods, and there is no API server to ask" in str(error), error


if __name__ == "__main__":
    run(globals(), at_once=4)
