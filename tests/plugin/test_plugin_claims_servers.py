#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""API servers that change what meted writes, or have bad days: meted's slices and claims there. tests/plugin/node.py describes the parties."""
import contextlib

from node import *
from meted import run
from test_plugin_claims import DRIVER, Caller, claims
from test_plugin_claims_slices import await_slices, await_taints, divided, looks_of_others, slices


@contextlib.contextmanager
def registered(**more):
    """Once the kubelet knows the driver, and the claim c0 is prepared."""
    with claims(version="v1.36.3", **more) as (node, made, caller):
        made.answer_all()
        with contextlib.closing(Caller(f"{node.kubelet.folder}/plugins_registry/{DRIVER}-reg.sock")) as register:
            register.tell("known registered")
            assert register.answer("known").endswith("ok")
        caller.prepare("c0")
        assert caller.answer("c0").startswith("ok "), caller.answers
        await_slices(node, 1)
        yield node, made, caller


def await_generation(node, number):
    until(lambda: [slice["spec"]["pool"]["generation"] for slice in slices(node)] == [number], lambda: f"{slices(node)}\n{node.log()[-2000:]}")


def test_a_server_that_drops_taints_is_not_written_to_again_and_again():
    with registered(drops=("taints",)) as (node, made, caller):
        before = node.api.slice_writes
        cordon(node, 0, 1)
        node.await_log('slices.unkept field="taints" reason=.*DRADeviceTaints')
        cordon(node, 1, 1)
        await_generation(node, 3)
        looks_of_others(node)
        assert node.api.slice_writes - before == 2, node.api.slice_writes - before
        assert node.log().count("slices.unkept") == 1, node.log()[-3000:]
        # What somebody else writes there is repaired as ever.
        (slice,) = slices(node)
        node.api.put("resourceslices", {**slice, "spec": {**slice["spec"], "nodeName": "edited"}})
        until(lambda: slices(node)[0]["spec"]["nodeName"] == NODE, lambda: node.log()[-2000:])
        assert node.api.slice_writes - before == 3, node.api.slice_writes - before


def test_a_server_that_adds_a_field_of_its_own_is_not_written_to_again_and_again():
    with registered() as (node, made, caller):
        before = node.api.slice_writes
        node.api.defaults = {"newField": "x"}
        cordon(node, 0, 1)
        node.await_log('slices.unkept field="newField"')
        cordon(node, 0, 0)
        await_taints(node)
        await_generation(node, 3)
        assert node.api.slice_writes - before == 2, node.api.slice_writes - before


def times(node):
    """Of the taints: when they were added."""
    return {taint["key"].removeprefix(DRIVER + "/"): taint["timeAdded"] for slice in slices(node) for device in slice["spec"]["devices"] for taint in device.get("taints", ())}


def test_a_taint_keeps_the_time_from_which_on_it_is_tolerated():
    """Whatever else is written: who tolerates it for some seconds has them from then on."""
    with divided(version="v1.36.3") as node:
        await_slices(node, 1)
        launch(node, "xid=48@1", 0)
        await_taints(node, ("xid", "48", "NoSchedule"))
        added = times(node)
        cordon(node, 1, 1)
        await_taints(node, ("xid", "48", "NoSchedule"), ("cordoned", None, "NoSchedule"))
        both = times(node)
        assert both["xid"] == added["xid"] != both["cordoned"], (added, both)
        (slice,) = slices(node)
        # As the kubelet does when it starts.
        node.api.add("resourceslices", "DELETED", {"metadata": {"name": slice["metadata"]["name"], "uid": slice["metadata"]["uid"]}})
        await_slices(node, 1)
        assert times(node) == both, (both, times(node))
        for late in (), (slice["metadata"]["name"],):
            # One that comes again is a new one, also if it comes before meted has heard that it was gone.
            node.api.late = late
            cordon(node, 1, 0)
            await_taints(node, ("xid", "48", "NoSchedule"))
            cordon(node, 1, 1)
            with node.api.lock:
                node.api.late = ()
                node.api.lock.notify_all()
            await_taints(node, ("xid", "48", "NoSchedule"), ("cordoned", None, "NoSchedule"))
            again = times(node)
            assert again["xid"] == added["xid"] and again["cordoned"] != both["cordoned"], (late, both, again)
            both = again


def test_a_server_that_refuses_everything_is_asked_seldom_and_what_it_did_is_repaired_once():
    """A claim of that time is answered, and one of the time after it is prepared."""
    with registered() as (node, made, caller):
        (slice,) = slices(node)
        node.api.refused, before = 429, node.api.requests
        # Deleted, and the node with it, as far as anybody knows: its UID is read again.
        node.api.add("resourceslices", "DELETED", {"metadata": {"name": slice["metadata"]["name"], "uid": slice["metadata"]["uid"]}})
        caller.prepare("c1")
        assert caller.answer("c1") == "error the claim cannot be read: the test refuses", caller.answer("c1")
        node.await_log("slices.waiting")
        node.api.refused = 503
        looks_of_others(node)
        assert node.log().count("slices.waiting") == 1, node.log()[-3000:]
        assert node.api.requests - before <= 30, node.api.requests - before
        node.api.refused, writes = None, node.api.slice_writes
        await_slices(node, 1)
        caller.prepare("c1/again")
        assert caller.answer("c1/again").startswith("ok "), caller.answers
        looks_of_others(node)
        assert node.api.slice_writes - writes == 1, node.api.slice_writes - writes


if __name__ == "__main__":
    run(globals(), at_once=4)
