#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A claim's share changes by the annotations of the pods that use it. tests/plugin/node.py describes the parties."""
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


def test_more_than_a_claim_consumes_is_for_memory_that_moves_and_less_for_any():
    with claims(most={"swap": "auto", "memory": "100%"}, options=["--store", "1GiB"]) as (node, made, caller):
        made.memory = "128Mi"
        prepare(made, caller, "c0")
        pod = using(node, "pod", "c0", annotations={"memory": "96MiB"})
        node.await_share("ns/c0", memory="96MiB")
        pod.annotate(memory="256MiB", weight="50")
        await_event(node, "pod", "mete.dev/memory")
        node.await_share("ns/c0", memory="96MiB", weight=None)
        pod.annotate(swap="auto")
        node.await_share("ns/c0", memory="256MiB", swap="auto", weight="50")
        # Others have what they were counted for, and a meted that starts again has both.
        prepare(made, caller, "c1")
        node.meted.kill()
        node.start()
        node.await_share("ns/c0", memory="256MiB", swap="auto", weight="50")
        node.await_share("ns/c1", memory=f"{128 * MIB}B")
        pod.annotate(memory="64MiB")
        node.await_share("ns/c0", memory="64MiB", swap="auto")


def test_a_share_that_its_tenant_refuses_is_not_tried_at_each_event():
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


def test_changes_made_while_meted_was_away_hold():
    with claims() as (node, made, caller):
        pod = using(node, "pod", "c0", annotations={"weight": "50", "cap": "30%"})
        prepare(made, caller, "c0")
        node.await_share("ns/c0", weight="50", cap="30%")
        node.end()
        del pod.marks["mete.dev/cap"]
        pod.annotate(weight="40")
        node.start()
        node.await_share("ns/c0", weight="40", cap="", guarantee="1%")


def known(node, made, caller):
    """The pods that were shown are known."""
    using(node, "last", "last", annotations={"weight": "50"})
    prepare(made, caller, "last")
    node.await_share("ns/last", weight="50")


def folders(node):
    """Which tenant's folder each claim's containers get."""
    found = {}
    for name in os.listdir(node.cdi):
        with open(f"{node.cdi}/{name}") as file:
            edits = json.load(file)
        mounts = edits["containerEdits"]["mounts"]
        found[name.rpartition("_uid-")[2].removesuffix(".json")] = [mount["hostPath"] for mount in mounts if "/tenants/" in mount["hostPath"]]
    return found


def test_claims_that_a_container_uses_together_are_one_tenant_with_the_devices_of_both():
    with claims() as (node, made, caller):
        made.memory, made.places = "128Mi", {"c1": node.uuid[1].lower(), "c3": node.uuid[1].lower()}
        pod = using(node, "pod", "c0", "c1", annotations={"weight": "30"})
        using(node, "apart", containers={"one": ["c2"], "two": ["c3"]})
        known(node, made, caller)
        prepare(made, caller, "c0", "c1", "c2", "c3")
        both = [row for row in node.tenants() if row.name == "ns/c0+c1"]
        assert {row.device for row in both} == {0, 1} and {row.limit for row in both} == {128 * MIB}, both
        assert {row.name for row in node.tenants()} == {"ns/c0+c1", "ns/c2", "ns/c3", "ns/last"}
        where = folders(node)
        assert len(where["c0"]) == 1 and where["c0"] == where["c1"] != where["c2"] != where["c3"], where
        node.await_share("ns/c0+c1", weight="30")
        pod.annotate(weight="20", memory="96MiB")
        node.await_share("ns/c0+c1", weight="20", memory="96MiB")
        node.end()
        node.start()
        node.await_share("ns/c0+c1", weight="20", memory="96MiB")
        assert folders(node)["c0"] == folders(node)["c1"] == where["c0"]
        caller.unprepare("c0")
        assert "ns/c0+c1" in {row.name for row in node.tenants()} and "c0" not in folders(node)
        caller.unprepare("c1")
        assert {row.name for row in node.tenants()} == {"ns/c2", "ns/c3", "ns/last"}
        assert set(folders(node)) == {"c2", "c3", "last"}


def pod_lists(node):
    return [query for kind, query in node.api.listings if kind == "pods"]


def test_claims_of_a_pod_that_is_not_shown_yet_are_one_tenant_when_it_is_shown():
    with claims() as (node, made, caller):
        made.places = {"c1": node.uuid[1].lower()}
        known(node, made, caller)
        node.api.hold()
        node.api.silent_lists = True
        pod = using(node, "pod", "c0", "c1")
        made.reserved = {name: [pod.uid] for name in ("c0", "c1")}
        made.answer("c0", "c1")
        caller.prepare("c0", "c1")
        until(lambda: len(pod_lists(node)) > 1, "nobody asked for the node's pods")
        node.api.release()
        for name in ("c0", "c1"):
            assert caller.answer(name).startswith("ok "), caller.answer(name)
        assert {row.device for row in node.tenants() if row.name in ("ns/c0+c1", "ns/c1+c0")} == {0, 1}, [row.name for row in node.tenants()]


def test_claims_of_a_pod_that_the_watch_does_not_show_are_one_tenant_by_a_list():
    with claims() as (node, made, caller):
        made.places = {"c1": node.uuid[1].lower()}
        known(node, made, caller)
        node.api.hold(lists=False)
        pod = using(node, "pod", "c0", "c1")
        made.reserved = {"c0": [pod.uid], "c1": [pod.uid], "elsewhere": ["of-another-node"]}
        prepare(made, caller, "c0", "c1", "elsewhere")
        names = {row.name for row in node.tenants()}
        assert "ns/c0+c1" in names and "ns/elsewhere" in names, names
        lists = pod_lists(node)
        assert {query["fieldSelector"] for query in lists} == {"spec.nodeName=" + NODE}, lists
        # The first list is the watch's; c1's pod was known by the list for c0.
        assert len(lists) == 3, lists
        node.api.release()
        pod.annotate(weight="30")
        node.await_share("ns/c0+c1", weight="30")


def test_a_claim_whose_pods_cannot_be_read_is_refused_with_the_reason_and_then_prepared():
    with claims() as (node, made, caller):
        known(node, made, caller)
        node.api.hold(lists=False)
        pod = using(node, "pod", "c0")
        made.reserved = {"c0": [pod.uid]}
        made.answer("c0")
        node.api.refused_lists = 403
        caller.prepare("c0")
        assert caller.answer("c0") == "error the claim's pods cannot be read: the test refuses", caller.answer("c0")
        assert "ns/c0" not in {row.name for row in node.tenants()}
        node.api.refused_lists = None
        caller.prepare("c0/again")
        assert caller.answer("c0/again").startswith("ok "), caller.answer("c0/again")


def test_a_call_that_is_given_up_while_its_pod_is_waited_for_is_forgotten():
    with claims() as (node, made, caller):
        known(node, made, caller)
        node.api.hold()
        pod = using(node, "pod", "c0")
        made.reserved = {"c0": [pod.uid], "c1": [pod.uid]}
        made.answer("c0", "c1")
        node.api.silent_lists = True
        caller.prepare("c0", "c1")
        until(lambda: len(pod_lists(node)) > 1, "nobody asked for the node's pods")
        caller.forget("c0")
        node.api.release()
        assert caller.answer("c1").startswith("ok "), caller.answer("c1")
        assert {row.name for row in node.tenants()} == {"ns/last", "ns/c1"}


def test_three_claims_of_a_container_are_one_tenant():
    with claims(devices="3xSIM") as (node, made, caller):
        made.places = {f"c{n}": node.uuid[n].lower() for n in range(3)}
        using(node, "pod", containers={"one": ["c0", "c1"], "two": ["c1", "c2"]})
        known(node, made, caller)
        prepare(made, caller, "c0", "c1", "c2")
        assert {(row.name, row.device) for row in node.tenants() if row.name != "ns/last"} == {("ns/c0+c1+c2", n) for n in range(3)}
        where = folders(node)
        assert where["c0"] == where["c1"] == where["c2"], where


def test_a_claim_does_not_join_two_that_have_one_device():
    """Each of the two goes with it, and not with the other."""
    with claims() as (node, made, caller):
        made.places = {"joins": node.uuid[1].lower()}
        using(node, "pod", containers={"one": ["c0", "joins"], "two": ["c1", "joins"]})
        known(node, made, caller)
        prepare(made, caller, "c0", "c1")
        assert "which are two shares of device " + node.uuid[0] in refusal(made, caller, "joins")
        assert {row.name for row in node.tenants()} == {"ns/c0", "ns/c1", "ns/last"}


def refusal(made, caller, name):
    made.answer(name)
    caller.prepare(name)
    return caller.answer(name)


def test_claims_of_a_container_that_cannot_be_one_tenant_are_refused_with_the_reason():
    with claims() as (node, made, caller):
        made.places = {name: node.uuid[1].lower() for name in ("differs", "stray")}
        made.memories = {"differs": "128Mi"}
        using(node, "pod", "c0", "same")
        using(node, "other", "c1", "differs")
        using(node, "third", "c2", "stray")
        using(node, "runs", "c2")
        known(node, made, caller)
        prepare(made, caller, "c0", "c1", "c2")
        said = refusal(made, caller, "same")
        assert "container main of pod pod uses the claims c0 and same, which are two shares of device " + node.uuid[0] in said, said
        said = refusal(made, caller, "differs")
        assert "whose memory differs ('64MiB' and '128MiB'); accepted: the same of each device" in said, said
        said = refusal(made, caller, "stray")
        assert "pod runs uses c2 alone" in said, said
        assert {row.name for row in node.tenants()} == {"ns/c0", "ns/c1", "ns/c2", "ns/last"}


def test_a_claim_that_a_pod_uses_is_not_looked_up():
    with claims() as (node, made, caller):
        using(node, "pod", "c0", annotations={"weight": "50"})
        prepare(made, caller, "c0", "c1")
        node.await_share("ns/c0", weight="50")
        # Each round has them in this order; it takes half a minute.
        until(lambda: made.read.count("c1") > 1, lambda: f"c1 was never looked up: {made.read}")
        assert made.read.count("c0") == 1, made.read


if __name__ == "__main__":
    run(globals(), at_once=4)
