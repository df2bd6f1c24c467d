#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""meted is killed while pods start, change and end, at moments that a seed chooses (METE_SEED): its successor mixes nothing
up, and when the pods are gone nothing is left of them."""
import os
import random
import subprocess
import threading
import time

from node import *
from meted import run

SLOTS, PODS = 12, 10
SCALE = int(os.environ.get("METE_TEST_SCALE") or 1)
SEED = int(os.environ.get("METE_SEED") or random.randrange(1 << 32))


def start_until_it_does(pod):
    """As the kubelet: what was refused is tried again."""
    until(lambda: pod.refusal().startswith("not refused"))


def check(node, pods):
    """Each has its own: share, folder, CDI file, record; and nobody else has anything."""
    for pod in pods:
        node.await_share(pod.title(), weight=pod.marks["mete.dev/weight"])
        node.folder_of(pod.title())
        record = node.record(pod.title())[1]
        assert record["uid"] == pod.uid and record["ids"] == list(pod.held["main"]), record
    assert len(set(map(node.folder_of, map(Pod.title, pods)))) == len(pods)
    names = sorted(pod.title() for pod in pods)
    until(lambda: sorted(row.name for row in node.tenants()) == names, lambda: f"{node.left()} instead of {names}")
    assert len(node.links()) == len(node.files()) == len(node.records()) == len(pods), node.left()
    until(lambda: len(os.listdir(node.place + "/tenants")) == len(pods), lambda: node.left())
    assert len(os.listdir(node.cdi)) == len(os.listdir(node.place + "/bindings")) == len(pods), node.left()


def kills(node, draw, over):
    """In a thread of its own: kills meted and starts it again, until it is over. Now and then before it is ready."""
    while not over.is_set():
        over.wait(draw.uniform(0.0, 0.12))
        node.meted.kill()
        if draw.random() < 0.3:
            early = subprocess.Popen(node.command(), env=node.meted.environment, stderr=open(node.meted.log_path, "ab"))
            over.wait(draw.uniform(0.0, 0.06))
            early.kill()
            early.wait()
        node.meted.start()


def storm(node, draw, what):
    """Does it while meted is killed; afterwards meted is there."""
    over = threading.Event()
    killer = threading.Thread(target=kills, args=(node, random.Random(draw.random()), over))
    killer.start()
    try:
        what()
    finally:
        over.set()
        killer.join()


def test_nothing_is_mixed_up_and_nothing_is_left_behind():
    print(f"METE_SEED={SEED}", flush=True)
    draw = random.Random(SEED)
    with Node(slots=SLOTS, devices="1xSIM", most={"weight": 10000}, options=("--grace", "200ms")) as node:
        for round in range(3 * SCALE):
            ids = draw.sample(range(SLOTS), PODS)
            pods = [Pod(node, f"web-{n}", annotations={"weight": str(100 * round + n + 1)}) for n in range(PODS)]
            started = []

            def start(pod, id):
                pod.show()
                until(lambda: node.kubelet.refusal(node.kubelet.begin("allocate", node.id(id))).startswith("not refused"))
                pod.held["main"] = [node.id(id)]
                node.kubelet.give(pod, "main", [node.id(id)])
                started.append(pod)
                for _ in range(draw.randrange(1, 4)):
                    start_until_it_does(pod)

            def start_all():
                for pod, id in zip(pods, ids):
                    start(pod, id)

            def change_some():
                for pod in draw.sample(pods, 4):
                    pod.annotate(weight=str(5000 + draw.randrange(1000)))
                for pod in draw.sample(pods, 3):
                    start_until_it_does(pod)

            def end_some():
                for pod in draw.sample(pods, 6):
                    pods.remove(pod)
                    pod.delete()
                    time.sleep(draw.uniform(0, 0.02))

            def begin_some():
                """They are gone before they have started."""
                for n, id in enumerate(sorted(set(range(SLOTS)) - set(ids))):
                    for again in range(4):
                        pod = Pod(node, f"brief-{n}-{again}", annotations={"weight": "9999"}).show()
                        pod.held["main"] = [node.id(id)]
                        node.kubelet.give(pod, "main", [node.id(id)])
                        pod.begin()
                        time.sleep(draw.uniform(0, 0.02))
                        pod.delete()

            for what in start_all, change_some, begin_some, end_some:
                storm(node, draw, what)
                check(node, pods)
            assert len(started) == PODS
            print(f"meted was started {node.log().count('device.found')} times", flush=True)
            for pod in pods:
                pod.delete()
            node.await_empty()


if __name__ == "__main__":
    run(globals())
