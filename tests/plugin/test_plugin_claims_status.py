#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A claim's status and its devices. tests/plugin/node.py describes the parties."""
from node import *
from meted import run
from test_nvidia_mig import apply
from test_plugin_claims import DRIVER, claims, uid
from test_plugin_claims_changes import prepare, using


def await_told(made, name, holds, what):
    """The last status that a claim was told, when that holds."""
    def last():
        with made.lock:
            found = [body["status"]["devices"] for told, body in made.told if told == name]
        return found[-1] if found else None
    until(lambda: last() and holds(last()[0]), lambda: f"{what}: {last()}")
    return last()


def condition(device):
    (one,) = device["conditions"]
    assert one["type"] == "Ready" and re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", one["lastTransitionTime"]), one
    return one["status"], one["reason"]


def test_a_prepared_claim_tells_its_containers_share():
    with claims() as (node, made, caller):
        prepare(made, caller, "c0")
        (device,) = await_told(made, "c0", lambda device: True, "nothing was told")
        assert {key: device[key] for key in ("driver", "pool", "device", "shareID")} == {
            "driver": DRIVER, "pool": NODE + "-mete", "device": node.uuid[0].lower(), "shareID": "s"}, device
        assert condition(device) == ("True", "Prepared"), device
        assert device["data"] == {"memory": str(64 * MIB), "guarantee": "1%", "cap": "100%", "weight": 100, "class": "standard", "swap": "off"}, device
        assert made.told[0][1]["metadata"] == {"name": "c0", "uid": uid("c0")}, made.told


def test_a_change_is_told_once_and_nothing_else():
    with claims() as (node, made, caller):
        made.memory = "128Mi"
        pod = using(node, "pod", "c0")
        prepare(made, caller, "c0")
        (before,) = await_told(made, "c0", lambda device: True, "nothing was told")
        pod.annotate(weight="40", memory="96MiB", **{"class": "batch"})
        (after,) = await_told(made, "c0", lambda device: device["data"]["weight"] == 40, "a change was never told")
        assert after["data"] == {**before["data"], "memory": str(96 * MIB), "weight": 40, "class": "batch"}, after
        assert after["conditions"] == before["conditions"]
        pod.annotate(unknown="1")
        until(lambda: any("unknown" in event["message"] for event in node.api.events_of("pod")), "the mistake is no event")
        prepare(made, caller, "c1")
        await_told(made, "c1", lambda device: True, "nothing was told")
        assert [name for name, _ in made.told] == ["c0", "c0", "c1"], made.told


def test_a_device_that_is_not_well_is_not_ready():
    with claims() as (node, made, caller):
        prepare(made, caller, "c0")
        await_told(made, "c0", lambda device: condition(device) == ("True", "Prepared"), "it is not ready")
        launch(node, "xid=79@1", 0)
        await_told(made, "c0", lambda device: condition(device) == ("False", "DeviceUnhealthy"), "a failed device is ready")


def test_each_version_of_the_kubelets_stream_tells_the_devices_health():
    """Kubernetes 1.36 asks for v1alpha1 and 1.37 for v1; what both do not know is refused, and nobody else's stream ends."""
    with claims() as (node, made, caller):
        def health(version, *words):
            wanted = " ".join(f"{NODE}-mete/{uuid.lower()}={word}" for uuid, word in zip(node.uuid, words))
            until(lambda: caller.answers.get(version) == wanted, lambda: f"{version}: {caller.answers.get(version)}, not {wanted}\n{node.log()[-2000:]}")
        for version in "v1", "v1alpha1", "v2":
            caller.tell(f"{version} health {version}")
        for version in "v1", "v1alpha1":
            health(version, "healthy:", "healthy:")
        assert caller.answer("v2") == "ended", caller.answers
        launch(node, "xid=79@1", 0)
        for version in "v1", "v1alpha1":
            health(version, "unhealthy:Xid 79", "healthy:")
        node.end()
        for version in "v1", "v1alpha1":
            until(lambda: caller.answers[version] == "ended", lambda: f"a stream of a meted that has ended: {caller.answers}")


def test_a_part_that_a_division_takes_is_not_ready_and_no_note_of_doctors():
    with claims(devices="1xH100", environment={"METE_SIM_PARTS": "0:2x3g.40gb"}) as (node, made, caller):
        prepare(made, caller, "c0")
        await_told(made, "c0", lambda device: condition(device) == ("True", "Prepared"), "it is not ready")
        apply(node, **{"1g.10gb": 7})
        await_told(made, "c0", lambda device: condition(device) == ("False", "DeviceUnhealthy"), "a part that is gone is ready")

        def report():
            with open(node.place + "/dra") as file:
                return file.read()
        until(lambda: "published 7\n" in report(), report)
        assert "withheld" not in report(), report()


def test_a_restart_tells_the_same_again():
    with claims() as (node, made, caller):
        prepare(made, caller, "c0")
        (before,) = await_told(made, "c0", lambda device: True, "nothing was told")
        node.end()
        made.told.clear()
        node.start()
        (after,) = await_told(made, "c0", lambda device: True, "nothing was told after a restart")
        assert after == before, (after, before)


def test_a_claim_with_admin_access_has_memory_for_one_context_and_no_share():
    with claims() as (node, made, caller):
        made.memory, made.admins = "4Gi", {"c0"}
        using(node, "pod", "c0", annotations={"weight": "50"})
        using(node, "other", "c1", annotations={"weight": "40"})
        prepare(made, caller, "c0")
        made.memory = "128Mi"
        prepare(made, caller, "c1")
        node.await_share("ns/c1", weight="40")  # and so the pod's annotation was seen
        for _ in range(2):
            node.await_share("ns/c0", weight="1", cap="1%", **{"class": "batch"})
            (row,) = [row for row in node.tenants() if row.name == "ns/c0"]
            assert row.limit == 64 * MIB, row  # which a context takes here
            (device,) = await_told(made, "c0", lambda device: True, "nothing was told")
            assert device["data"] == {"adminAccess": True}, device
            node.end()
            made.told.clear()
            node.start()


def test_without_the_right_everything_else_works_and_it_is_logged_once():
    with claims() as (node, made, caller):
        made.deaf = 403
        prepare(made, caller, "c0")
        node.await_log(r"claims\.untold.*the test refuses")
        prepare(made, caller, "c1", "c2")
        assert len(made.told) == 1, made.told


def test_a_claim_that_is_gone_is_not_told_of_again():
    with claims() as (node, made, caller):
        made.deaf = 404
        prepare(made, caller, "c0")
        until(lambda: made.told, "nothing was told")
        made.deaf = None
        prepare(made, caller, "c1")
        await_told(made, "c1", lambda device: True, "nothing was told")
        assert [name for name, _ in made.told] == ["c0", "c1"] and "claims.untold" not in node.log(), made.told


def test_a_write_that_others_overtook_is_made_again_unless_it_is_another_claim():
    with claims() as (node, made, caller):
        made.deaf, made.reason = 409, 'Operation cannot be fulfilled on resourceclaims "c0": Precondition failed: UID in precondition: a, UID in object meta: b'
        prepare(made, caller, "c0")
        node.await_log("claim.untold claim=ns/c0")
        # Of a name with the same letters.
        made.reason = 'Operation cannot be fulfilled on resourceclaims "fluid": the object has been modified; please apply your changes to the latest version and try again'
        prepare(made, caller, "fluid")
        until(lambda: len(made.told) > 1, "nothing was told")
        made.deaf = None
        until(lambda: [name for name, _ in made.told] == ["c0", "fluid", "fluid"], lambda: f"{made.told}\n{node.log()[-1000:]}")


if __name__ == "__main__":
    run(globals())
