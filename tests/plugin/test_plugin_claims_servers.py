#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""API servers that change what meted writes, or have bad days: meted's slices and claims there. tests/plugin/node.py describes the parties."""
from node import *
from meted import run
from test_plugin_claims import DRIVER
from test_plugin_claims_slices import await_slices, await_taints, divided, slices


def await_looks(node, count):
    """meted looks after everything each ten seconds, also after its sockets."""
    for _ in range(count):
        os.unlink(f"{node.kubelet.folder}/plugins_registry/{DRIVER}-reg.sock")
        until(lambda: os.path.exists(f"{node.kubelet.folder}/plugins_registry/{DRIVER}-reg.sock"), lambda: node.log()[-2000:])


def test_a_server_that_drops_taints_is_not_written_to_again_and_again():
    with divided(version="v1.36.3", drops=("taints",)) as node:
        await_slices(node, 1)
        before = node.api.slice_writes
        cordon(node, 0, 1)
        node.await_log('slices.unkept field="taints" reason=.*DRADeviceTaints')
        await_looks(node, 1)
        assert node.api.slice_writes - before <= 2, node.api.slice_writes - before
        assert node.log().count("slices.unkept") == 1, node.log()[-3000:]


def test_a_server_that_adds_a_field_of_its_own_is_not_written_to_again_and_again():
    with divided(version="v1.36.3") as node:
        (slice,) = await_slices(node, 1)
        before = node.api.slice_writes
        node.api.defaults = {"newField": "x"}
        cordon(node, 0, 1)
        await_taints(node, ("cordoned", None, "NoSchedule"))
        node.await_log('slices.unkept field="newField"')
        cordon(node, 0, 0)
        await_taints(node)
        assert node.api.slice_writes - before <= 4, node.api.slice_writes - before


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
        cordon(node, 1, 0)
        await_taints(node, ("xid", "48", "NoSchedule"))
        cordon(node, 1, 1)
        await_taints(node, ("xid", "48", "NoSchedule"), ("cordoned", None, "NoSchedule"))
        again = times(node)
        assert again["xid"] == added["xid"] and again["cordoned"] != both["cordoned"], (both, again)


if __name__ == "__main__":
    run(globals(), at_once=4)
