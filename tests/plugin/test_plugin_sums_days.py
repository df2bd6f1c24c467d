#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pods that are counted by amounts, on days on which others interfere: an administrator, a division of the GPUs, the kubelet."""
import contextlib

from counted import *
from meted import run
from test_mig_label import KEYS, Labelled

KEYS["amounts"] = {"counted": "amounts", "slots": 10, "share": {"memory": "25%"}}
MOVES = dict(share={"memory": "25%", "swap": "auto"}, most={"swap": "auto"}, options=["--store", "1GiB"])


@contextlib.contextmanager
def administrator(node):
    admin = Admin(node.place)
    try:
        yield admin
    finally:
        admin.close()


def set_share(node, pod, **texts):
    """As `mete set` does it."""
    with administrator(node) as admin:
        for key, value in texts.items():
            admin.set(node.tenant(pod.title()).tenant, key, value)


def suspend(node, pod, suspends=1):
    with administrator(node) as admin:
        admin.ask("tenant_suspend", tenant=node.tenant(pod.title()).tenant, name="", suspends=suspends)


def test_an_amount_that_mete_set_lowers_stays_counted_for_its_pod():
    with amounts(devices="1xSIM") as node:
        pod = asks(node, "pod", container(memory="3Gi", milli=500)).start()
        await_sums(node, 4 * GIB, 1000)
        set_share(node, pod, memory="1GiB", weight="50")
        node.await_share(pod.title(), memory="1GiB", weight="50")
        other = asks(node, "other", container(memory="2Gi"))
        assert "1GiB of 4GiB are left on this node's GPU" in other.refusal()
        other.delete()
        asks(node, "fits", container(memory="1Gi")).start()
        await_sums(node, 4 * GIB, 1000)
        pod.annotate(memory="2Gi")
        node.await_share(pod.title(), memory="2Gi", weight="50")


def test_an_amount_that_mete_set_adds_is_counted_for_nobody():
    with amounts(devices="1xSIM") as node:
        pod = asks(node, "pod", container(memory="1Gi")).start()
        set_share(node, pod, memory="3GiB")
        node.await_share(pod.title(), memory="3GiB")
        other = asks(node, "other", container(memory="3Gi")).start()
        await_sums(node, 4 * GIB, 1000)
        # It has what nobody uses: the other one waits for its own meanwhile.
        burst, guest = Guest(node.folder_of(pod.title()) + "/guest.sock"), Guest(node.folder_of(other.title()) + "/guest.sock")
        burst.credit(2 * GIB)
        assert guest.credit(2 * GIB) == 2 * GIB
        assert guest.refused(GIB)
        burst.close()
        assert guest.credit(GIB) == GIB
        guest.close()
        pod.annotate(memory="512Mi")
        node.await_share(pod.title(), memory="512Mi")


def test_the_sums_follow_a_division_of_the_gpu():
    with Labelled(mode="amounts") as node:
        node.start()
        node.kubelet.hear("registered")
        whole = until(lambda: sums(node)[1] == 2000 and sums(node)[0])
        pod = asks(node, "pod", container(memory="60Gi"))
        node.relabel("all-3g.40gb")
        node.await_states("pending", "success")
        memory = until(lambda: sums(node)[1] == 4000 and sums(node)[0])
        assert 4 * 38 * GIB < memory < whole, memory
        assert "no GPU of this node has more than" in pod.refusal(), pod.refusal()
        fits = asks(node, "fits", container(memory="30Gi", milli=1000)).start()
        assert len(devices_of(node, fits)) == 1
        fits.delete()
        node.relabel("all-disabled")
        node.await_states("pending", "success", "pending", "success")
        await_sums(node, whole, 2000)
        pod.start()
        assert len(devices_of(node, pod)) == 1


def test_a_kubelet_that_restarts_between_a_pods_calls_has_it_counted_once():
    with amounts(devices="1xSIM") as node:
        first = asks(node, "first", container(memory="3Gi")).start()
        pod = asks(node, "pod", container(memory="2Gi"))
        assert "1GiB of 4GiB are left" in pod.refusal()
        pod.begin()  # and is kept waiting
        node.kubelet.ask("restart")
        node.kubelet.hear("registered")
        first.delete()
        late = asks(node, "late", container(memory="3Gi"))
        assert "2GiB of 4GiB are left" in late.refusal(), "the room is for who waited"
        late.delete()
        node.kubelet.ask("allocate", *pod.held["main"])  # it was in the midst of that
        node.kubelet.ask("restart")
        node.kubelet.hear("registered")
        pod.start()
        assert devices_of(node, pod) == [0]
        asks(node, "more", container(memory="2Gi")).start()
        await_sums(node, 4 * GIB, 1000)


def test_two_containers_in_one_call_are_refused_and_nothing_is_counted():
    with amounts(devices="1xSIM") as node:
        one, two = (asks(node, name, container(memory="2Gi")) for name in ("one", "two"))
        refusal = node.kubelet.refusal(node.kubelet.begin("allocate", *one.held["main"], "+", *two.held["main"]))
        assert refusal == "accepted: the ids of one container, at least one", refusal
        for pod in one, two:
            node.kubelet.ask("allocate", *pod.held["main"])
            pod.start()
        await_sums(node, 4 * GIB, 1000)


def test_a_suspended_pod_stays_counted_and_goes_on_with_its_share():
    with amounts(devices="1xSIM", **MOVES) as node:
        pod = asks(node, "pod", container(memory="3Gi", milli=500)).start()
        was = node.share(pod.title())
        suspend(node, pod)
        other = asks(node, "other", container(memory="2Gi"))
        assert "1GiB of 4GiB are left on this node's GPU" in other.refusal()
        node.meted.kill()
        node.restart()
        assert "1GiB of 4GiB are left on this node's GPU" in other.refusal()
        suspend(node, pod, 0)
        assert node.share(pod.title()) == was
        pod.delete()
        other.start()
        await_sums(node, 4 * GIB, 1000)


if __name__ == "__main__":
    run(globals(), at_once=4)
