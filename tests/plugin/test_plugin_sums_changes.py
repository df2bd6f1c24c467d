#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pods that are counted by amounts, and what changes while they wait or run."""
import os
import random

from counted import *
from meted import run
from runner import soak

# A sanitizer has seen each line by a part of a crowd (tests/plugin/meson.build).
PART = 1 if os.environ.get("METE_SOAK") else int(os.environ.get("METE_CROWD_PART", "1"))


def test_annotations_that_change_while_a_pod_waits_hold_at_once():
    with amounts() as node:
        first = asks(node, "first", container(memory="1Gi")).start()
        whole = asks(node, "whole", container(memory="1Gi", milli=1000), annotations={"exclusive": "true"}).start()
        assert devices_of(node, first) == [0] and devices_of(node, whole) == [1]
        pod = asks(node, "pod", container(memory="1Gi", milli=1000), annotations={"exclusive": "true"})
        assert "1 GPU that no other container uses, and this node has 0 of 2" in pod.refusal()
        again = pod.begin()
        pod.annotate(exclusive="false")
        node.kubelet.answer(again)
        assert devices_of(node, pod) == [0]


def test_a_container_that_is_to_have_its_gpu_alone_from_now_on_keeps_others_off():
    with amounts() as node:
        first = asks(node, "first", container(memory="1Gi", milli=1000)).start()
        first.annotate(exclusive="true")
        until(lambda: node.record(first.title())[1].get("exclusive"), node.log)
        other = asks(node, "other", container(memory="1Gi")).start()
        assert devices_of(node, first) == [0] and devices_of(node, other) == [1]
        wide = asks(node, "wide", container(gpus=2, memory="2Gi"))
        assert "2 GPUs that no other container has alone, and this node has 1 of 2" in wide.refusal()
        again = wide.begin()
        first.annotate(exclusive="false")
        node.kubelet.answer(again)
        assert devices_of(node, wide) == [0, 1]


def test_a_pod_that_is_being_deleted_is_told_so():
    with amounts() as node:
        pod = asks(node, "pod", container(memory="1Gi"))
        pod.ending = {"deletionTimestamp": "2026-11-26T12:00:00Z"}
        pod.show()
        other = asks(node, "other", container(memory="4Gi")).start()  # by then that has been seen
        assert "the pod is being deleted" in pod.refusal()
        assert devices_of(node, other) == [0] and not devices_of(node, pod)


def test_a_container_that_has_not_started_has_room_elsewhere_when_its_gpu_is_lost():
    with amounts(devices="3xSIM") as node:
        pair = asks(node, "pair", container("a", memory="3Gi"), container("b", memory="2Gi"))
        pair.start("a")
        assert devices_of(node, pair, "a") == [0]
        launch(node, "xid=79@1", 1)
        node.await_log("device.unhealthy")
        pair.start("b")
        assert devices_of(node, pair, "b") == [2]
        assert "3 GPUs with 1GiB or more of memory, and 2 such GPUs" in asks(node, "wide", container(gpus=3, memory="3Gi")).refusal()


def test_a_container_that_the_kubelet_gives_other_ids_is_counted_once():
    with amounts(devices="1xSIM") as node:
        pod = asks(node, "pod", container(memory="3Gi")).start()
        pod.vanish()  # a kubelet that has lost its record
        pod.admit("slot-009").start()
        assert devices_of(node, pod) == [0]
        other = asks(node, "other", container(memory="1Gi")).start()
        assert devices_of(node, other) == [0]
        until(lambda: len(node.tenants()) == 2, node.tenants)


class Crowd:
    """Pods of mixed sizes on a node of some GPUs, and their law after each event."""

    def __init__(self, node, gpus, choose):
        self.node, self.choose, self.pods, self.began = node, choose, {}, {}
        self.closed, self.size = set(), [4 * GIB] * gpus

    def arrive(self, n):
        mib, milli, gpus = self.choose.choice((100, 300, 700, 1500, 3000, 4096)), self.choose.choice((0, 50, 200, 600)), 1
        if len(self.size) > 1 and not self.choose.randrange(8):
            gpus = 2
        pod = asks(self.node, f"p{n}", container(gpus=gpus, memory=f"{mib * gpus}Mi", milli=milli * gpus), priority=self.choose.randrange(3))
        self.pods[pod] = (mib * MIB, milli, gpus)

    def leave(self):
        pod = self.choose.choice(list(self.pods))
        self.pods.pop(pod)
        self.began.pop(pod, None)
        pod.delete()

    def turn(self):
        """One GPU is cordoned, or takes pods again."""
        gpu = self.choose.randrange(len(self.size))
        self.closed ^= {gpu}
        cordon(self.node, gpu, int(gpu in self.closed))

    def held(self):
        """The running pods: bytes and thousandths by GPU."""
        rows = {row.name: [] for row in self.node.tenants()}
        for row in self.node.tenants():
            rows.setdefault(row.name, []).append(row.device)
        taken = [[0, 0] for _ in self.size]
        for pod, (memory, milli, gpus) in self.pods.items():
            on = rows.get(pod.title(), [])
            assert len(set(on)) == len(on) and len(on) in (0, gpus), (pod.name, on)
            for gpu in on:
                taken[gpu][0] += memory
                taken[gpu][1] += milli
        return {pod for pod in self.pods if rows.get(pod.title())}, taken

    def waiting_pods_have_no_room(self):
        """Every pod asks, as the kubelet would; one that has not started fits nowhere."""
        for pod in self.pods:
            if pod in self.began and self.node.kubelet.answered(self.began[pod]):
                try:
                    self.node.kubelet.answer(self.began.pop(pod))
                except Refused as refused:
                    assert "there is room" in refused.sentence or "in service" in refused.sentence, refused.sentence
        runs, taken = self.held()
        asking = [pod for pod in self.pods if pod not in runs and pod not in self.began]
        self.began.update((pod, pod.begin()) for pod in asking)
        if asking:
            return False  # one of them may have had its seat
        assert all(memory <= size and milli <= 1000 for (memory, milli), size in zip(taken, self.size)), taken
        for pod, (memory, milli, gpus) in self.pods.items():
            if pod in runs:
                continue
            fits = sum(gpu not in self.closed and taken[gpu][0] + memory <= self.size[gpu] and taken[gpu][1] + milli <= 1000
                       for gpu in range(len(self.size)))
            if fits >= gpus:
                return False
        return True


def crowd_on(gpus, pods):
    pods //= PART
    choose = random.Random(int(os.environ.get("METE_SEED", "1")) * 10 + gpus)
    with amounts(devices=f"{gpus}xSIM", slots=40) as node:
        crowd, arrived = Crowd(node, gpus, choose), 0
        while arrived < pods:
            what = choose.randrange(20)
            if what < 5 and crowd.pods:
                crowd.leave()
            elif what == 5:
                crowd.turn()
            elif what == 6:
                node.meted.process.kill()
                node.meted.wait()
                node.restart()
                crowd.began.clear()
            elif len(crowd.pods) < 8 * gpus:
                for _ in range(choose.randrange(1, 5)):
                    crowd.arrive(arrived)
                    arrived += 1
            until(crowd.waiting_pods_have_no_room, lambda: f"{crowd.held()} {crowd.closed}\n{node.log()[-3000:]}")
        for gpu in list(crowd.closed):
            crowd.closed.remove(gpu)
            cordon(node, gpu, 0)
        while crowd.pods:
            until(crowd.waiting_pods_have_no_room, lambda: f"{crowd.held()} {crowd.closed}\n{node.log()[-3000:]}")
            crowd.leave()
        node.await_empty()


@soak
def test_many_pods_on_one_gpu_are_never_too_many_and_never_wait_beside_room():
    crowd_on(1, 60)


def test_many_pods_on_two_gpus_are_never_too_many_and_never_wait_beside_room():
    crowd_on(2, 60)


def test_200_pods_on_eight_gpus_are_never_too_many_and_never_wait_beside_room():
    crowd_on(8, 200)


if __name__ == "__main__":
    run(globals())
