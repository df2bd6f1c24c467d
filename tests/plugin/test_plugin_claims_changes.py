#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A claim's share changes by the annotations of the pods that use it. tests/plugin/node.py says with whom."""
from node import *
from meted import run
from test_plugin_claims import claims, uid


def using(node, name, *names, containers=None, **more):
    """A pod whose container uses these claims, or the containers some each."""
    containers = containers or {"main": names}
    return node.pod(name, spec={
        "containers": [{"name": container, "resources": {"claims": [{"name": n} for n in own]}} for container, own in containers.items()],
        "resourceClaims": [{"name": n, "resourceClaimName": n} for own in containers.values() for n in own]}, **more)


def prepare(made, caller, *names):
    made.answer(*names)
    for name in names:
        caller.prepare(name)
        assert caller.answer(name).startswith("ok "), caller.answer(name)


def await_event(node, pod, words):
    until(lambda: any(words in event["message"] for event in node.api.events_of(pod)),
          lambda: f"no event of {pod} says '{words}': {[event['message'] for event in node.api.events_of(pod)]}")


def test_a_share_changes_and_is_as_it_was_when_the_annotation_is_gone():
    with claims() as (node, made, caller):
        made.memory = "128Mi"
        early = using(node, "early", "c0", annotations={"weight": "50"})
        prepare(made, caller, "c0", "c1")
        node.await_share("ns/c0", weight="50", guarantee="1%")
        early.annotate(weight="20", memory="96MiB")
        node.await_share("ns/c0", weight="20", memory="96MiB", guarantee="1%")
        early.marks.clear()
        early.show()
        node.await_share("ns/c0", weight="", memory=f"{128 * MIB}B", guarantee="1%")
        node.await_share("ns/c1", weight=None)


def test_pods_that_share_a_claim_have_to_agree():
    with claims() as (node, made, caller):
        prepare(made, caller, "c0")
        one = using(node, "one", "c0", annotations={"weight": "50"})
        node.await_share("ns/c0", weight="50")
        two = using(node, "two", "c0", annotations={"weight": "60"})
        for pod in ("one", "two"):
            await_event(node, pod, "the pods one and two use claim c0 and say '50' and '60'")
        node.await_share("ns/c0", weight="50")
        one.annotate(weight="60")
        node.await_share("ns/c0", weight="60")
        two.marks.clear()
        two.show()
        one.annotate(weight="70")
        node.await_share("ns/c0", weight="70")
        one.delete()
        node.await_share("ns/c0", weight="")


def test_a_mistake_changes_nothing_and_is_an_event():
    with claims() as (node, made, caller):
        prepare(made, caller, "c0")
        pod = using(node, "pod", "c0", annotations={"weight": "50"})
        node.await_share("ns/c0", weight="50")
        pod.annotate(wieght="10")
        await_event(node, "pod", "the nearest is 'weight'")
        del pod.marks["mete.dev/wieght"]
        pod.annotate(memory="1GiB")
        await_event(node, "pod", "mete.dev/memory")
        del pod.marks["mete.dev/memory"]
        pod.marks["main.mete.dev/weight"] = "10"
        pod.show()
        await_event(node, "pod", "main.mete.dev/weight: the containers that use a claim share it; accepted: mete.dev/weight")
        node.await_share("ns/c0", weight="50", memory=f"{64 * MIB}B")


def test_what_its_tenant_refuses_is_not_tried_at_each_event():
    def record():
        about = os.stat(f"{node.place}/claims/{uid('c0')}")
        return about.st_ino, about.st_mtime_ns  # it is replaced as a whole

    with claims() as (node, made, caller):
        prepare(made, caller, "c0", "c1")
        pod, other = using(node, "pod", "c0", annotations={"weight": "50"}), using(node, "other", "c0")
        node.await_share("ns/c0", weight="50")
        pod.annotate(memory="1MiB")
        await_event(node, "pod", "cannot hold one context")
        was = record()
        other.delete()
        using(node, "last", "c1", annotations={"weight": "40"})
        node.await_share("ns/c1", weight="40")  # and so all before it has been seen
        assert record() == was
        del pod.marks["mete.dev/memory"]
        pod.annotate(weight="45")
        node.await_share("ns/c0", weight="45", memory=f"{64 * MIB}B")


def test_what_changed_while_meted_was_away_holds():
    with claims() as (node, made, caller):
        pod = using(node, "pod", "c0", annotations={"weight": "50", "cap": "30%"})
        prepare(made, caller, "c0")
        node.await_share("ns/c0", weight="50", cap="30%")
        node.end()
        del pod.marks["mete.dev/cap"]
        pod.annotate(weight="40")
        node.start()
        node.await_share("ns/c0", weight="40", cap="", guarantee="1%")


def test_a_container_has_one_claim():
    with claims() as (node, made, caller):
        using(node, "pod", "c0", "c1")
        using(node, "apart", containers={"one": ["c2"], "two": ["c3"]})
        using(node, "last", annotations={"weight": "50"}, containers={"one": ["c4"]})
        prepare(made, caller, "c4")
        node.await_share("ns/c4", weight="50")  # and so the pods before it are known
        prepare(made, caller, "c0", "c2", "c3")
        made.answer("c1")
        caller.prepare("c1")
        assert "container main of pod pod uses the claims c0 and c1" in caller.answer("c1"), caller.answer("c1")
        assert {row.name for row in node.tenants()} == {"ns/c0", "ns/c2", "ns/c3", "ns/c4"}


def test_a_claim_that_a_pod_uses_is_not_looked_up():
    with claims() as (node, made, caller):
        using(node, "pod", "c0", annotations={"weight": "50"})
        prepare(made, caller, "c0", "c1")
        node.await_share("ns/c0", weight="50")
        # Each round has them in this order; it takes half a minute.
        until(lambda: made.read.count("c1") > 1, lambda: f"c1 was never looked up: {made.read}")
        assert made.read.count("c0") == 1, made.read


if __name__ == "__main__":
    run(globals())
