#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""GPUs given out by claims: kube-scheduler counts amounts, and the limits hold inside the containers."""
import os
import re

import images
from claims import API, DEPLOY, Claims, claims, install
from cluster import Answer
from harness import GIB, MIB, ROOT, node, pod, run, seen, seen_by, soak, until


def test_a_claim_has_its_amount_and_no_more():
    with claims() as here:
        made = here.pod("quarter", command=["seen", f"take={2 * GIB}"], memory="1Gi", compute="25")
        assert made.await_end() == 0
        found = seen_by(made)
        assert found["devices"] == 1 and found["total"] == GIB and found["take"] == "refused", found


def test_two_claims_share_a_device_and_a_third_waits_for_room():
    with claims() as here:
        hold = ["sh", "-c", "seen take=1073741824 hold=1 & wait"]
        first = here.pod("first", hold, memory="1536Mi", compute="40")
        second = here.pod("second", hold, memory="1536Mi", compute="40")
        for made in (first, second):
            made.await_line("take=granted")
            assert seen(made.exec("seen"))["total"] == 1536 * MIB
            row = here.tenants()[here.claim_of(made)]
            assert row["limit_bytes"] == 1536 * MIB, row
        third = here.pod("third", memory="1536Mi", compute="10")
        third.await_event("cannot allocate all claims|insufficient|Insufficient")
        assert third.get()["status"]["phase"] == "Pending"
        first.delete()
        assert third.await_end() == 0
        assert seen_by(third)["total"] == 1536 * MIB


def test_a_claim_without_an_amount_has_the_whole_device():
    with claims() as here:
        whole = here.pod("whole", ["seen", "hold=1"])
        whole.await_line(f"total={4 * GIB}")
        other = here.pod("other", memory="256Mi", compute="1")
        other.await_event("cannot allocate all claims|insufficient|Insufficient")
        whole.delete()
        assert other.await_end() == 0


def test_a_pod_that_asks_for_nvidias_resource_needs_no_edit():
    with claims() as here:
        made = here.here.pod("legacy", pod(command=["seen"], slots=1, resource="nvidia.com/gpu"))
        assert made.await_end() == 0
        assert seen_by(made)["total"] == 4 * GIB


def test_pods_that_share_a_claim_share_its_limit():
    with claims() as here:
        here.claim("shared", memory="1Gi", compute="50")
        hold = ["sh", "-c", f"seen take={600 * MIB} hold=1 & wait"]
        first = here.pod("first", hold, claim="shared")
        first.await_line("take=granted")
        second = here.pod("second", ["seen", f"take={600 * MIB}"], claim="shared")
        assert second.await_end() == 0
        found = seen_by(second)
        assert found["total"] == GIB and found["take"] == "refused", found
        assert list(here.tenants()) == [f"{here.namespace}/shared"]
        second.delete()
        assert list(here.tenants()) == [f"{here.namespace}/shared"], "a pod's end ended its neighbour's claim"
        assert seen(first.exec("seen"))["total"] == GIB


@soak
def test_containers_of_a_pod_share_its_claim():
    with claims() as here:
        here.claim("both", memory="1Gi", compute="50")
        manifest = pod(command=["seen"])
        manifest["spec"]["containers"][0]["resources"] = {"claims": [{"name": "g"}]}
        manifest["spec"]["containers"].append(dict(manifest["spec"]["containers"][0], name="second"))
        manifest["spec"]["resourceClaims"] = [{"name": "g", "resourceClaimName": "both"}]
        made = here.here.pod("both", manifest)
        made.await_end()
        assert {seen(made.log(container=name))["total"] for name in ("c", "second")} == {GIB}


def with_two(here, name, first, second):
    """A pod whose container uses two claims."""
    manifest = pod(command=["seen", "hold=1"])
    manifest["spec"]["resourceClaims"] = [{"name": claim, "resourceClaimName": claim} for claim in (first, second)]
    manifest["spec"]["containers"][0]["resources"] = {"claims": [{"name": first}, {"name": second}]}
    return here.here.pod(name, manifest)


@soak
def test_two_claims_of_a_container_that_are_of_one_device_are_refused_with_the_reason():
    with claims() as here:
        here.claim("one", memory="1Gi", compute="25")
        here.claim("two", memory="1Gi", compute="25")
        made = with_two(here, "both", "one", "two")
        made.await_event("which are two shares of device .*; accepted: one claim, for the sum of both or for several devices")


@soak
def test_a_mistake_in_the_parameters_is_one_sentence_in_the_pods_events():
    with claims() as here:
        made = here.pod("typo", memory="1Gi", compute="25", parameters={"wieght": 300})
        assert "the nearest is 'weight'" in made.await_event("wieght: there is no such parameter")
        more = here.pod("more", memory="1Gi", compute="25", parameters={"weight": 300})
        more.await_event("parameters/weight: '300' is more than this node allows")


@soak
def test_a_quota_counts_the_devices_of_claims():
    with claims() as here:
        here.quota("one", {"mete-share.deviceclass.resource.k8s.io/devices": "1"}, here.all, {"spec": here.spec(memory="1Gi", compute="25", count=2)})
        here.claim("first", memory="1Gi", compute="25")
        try:
            here.claim("second", memory="1Gi", compute="25")
            raise AssertionError("a second claim is within a quota of one device")
        except Answer as refusal:
            assert "exceeded quota: one" in str(refusal), refusal
        made = here.pod("made", claim="first")
        assert made.await_end() == 0


@soak
def test_a_pod_with_admin_access_sees_the_device_and_has_no_share_of_it():
    with claims() as here:
        here.cluster.kubectl("label", "namespace", here.namespace, "resource.kubernetes.io/admin-access=true")
        worker = here.pod("worker", ["sh", "-c", f"seen take={2 * GIB} hold=1 & wait"], memory="3Gi", compute="90")
        worker.await_line("take=granted")
        spec = here.spec(memory="256Mi", compute="1")  # Kubernetes wants room for it, and counts nothing afterwards
        spec["devices"]["requests"][0]["exactly"]["adminAccess"] = True
        here.cluster.ask("POST", here.all, {"metadata": {"name": "look"}, "spec": spec})
        look = here.pod("look", ["sh", "-c", f"seen take={GIB} hold=1 & wait"], claim="look")
        look.await_line("take=refused")
        found = seen(look.log())
        assert found["nvml_total"] == 4 * GIB and found["total"] < GIB, found
        rest = here.pod("rest", memory="1Gi", compute="10")
        assert rest.await_end() == 0, "what only looks was counted"


def test_the_server_accepts_the_manifests():
    with claims() as here:
        for overlay in ("claims", "simulated-claims"):
            said = here.cluster.kubectl("apply", "--dry-run=server", "-k", os.path.join(DEPLOY, "overlays", overlay))
            for name in ("mete-share", "mete-exclusive", "mete-claims", "mete-own-slices", "mete-own-claims", "daemonset.apps/mete"):
                assert name in said, said


@soak
def test_a_claim_for_two_devices_has_them_both():
    with claims(DEVICES="2xSIM") as here:
        path = f"{API}/namespaces/{here.namespace}/resourceclaims"
        spec = here.spec(memory="1Gi", compute="50", count=2)
        spec["devices"]["constraints"] = [{"requests": ["gpu"], "distinctAttribute": "gpu.mete.dev/uuid"}]
        here.cluster.ask("POST", path, {"metadata": {"name": "two"}, "spec": spec})
        made = here.pod("two", claim="two")
        assert made.await_end() == 0
        found = seen_by(made)
        assert found["devices"] == 2 and found["total"] == GIB, found


def test_a_container_with_two_claims_has_the_devices_of_both():
    with claims(DEVICES="2xSIM") as here:
        here.claim("one")  # the whole device, so that they are different ones
        here.claim("two")
        made = with_two(here, "both", "one", "two")
        made.await_line("devices=2")
        assert seen(made.log())["total"] == 4 * GIB
        (name,) = here.tenants()
        assert name in (f"{here.namespace}/one+two", f"{here.namespace}/two+one"), name
        made.delete()
        here.await_nothing()
        again = with_two(here, "again", "one", "two")
        again.await_line("devices=2")


@soak
def test_shares_of_different_devices_are_asked_for_by_an_attribute():
    with claims(DEVICES="2xSIM") as here:
        spec = here.spec(memory="1Gi", compute="50", count=2)
        spec["devices"]["constraints"] = [{"requests": ["gpu"], "distinctAttribute": "gpu.mete.dev/uuid"}]
        here.cluster.ask("POST", here.all, {"metadata": {"name": "three"}, "spec": {**spec, "devices": {**spec["devices"], "requests": [
            {"name": "gpu", "exactly": {**spec["devices"]["requests"][0]["exactly"], "count": 3}}]}}})
        here.pod("three", claim="three").await_event("cannot allocate all claims|insufficient|Insufficient")


def test_devices_that_have_an_attribute_in_common_are_asked_for_by_it():
    """Two different ones of a kind: the first that comes is the only one of its own."""
    with claims(DEVICES="1xH100,2xT4") as here:
        def ask(name, count):
            spec = here.spec(memory="1Gi", compute="10", count=count)
            spec["devices"]["constraints"] = [{"requests": ["gpu"], "matchAttribute": "gpu.mete.dev/productName"},
                                              {"requests": ["gpu"], "distinctAttribute": "gpu.mete.dev/uuid"}]
            here.cluster.ask("POST", here.all, {"metadata": {"name": name}, "spec": spec})
            return here.pod(name, command=["seen", "hold=1"], claim=name)
        ask("two", 2).await_line("devices=2")
        names = {device["name"]: device["attributes"]["productName"]["string"] for device in here.devices()}
        results = here.cluster.get(f"{here.all}/two")["status"]["allocation"]["devices"]["results"]
        assert len({result["device"] for result in results}) == 2 and {names[result["device"]] for result in results} == {"Tesla T4"}, (results, names)
        ask("three", 3).await_event("cannot allocate all claims")


def expressions():
    """Of the table in docs/claims.md."""
    with open(os.path.join(ROOT, "docs", "claims.md")) as page:
        rows = re.findall(r"^\| .* `([!(]*(?:\"\w+\" in )?device\..*)` \|$", page.read(), re.MULTILINE)
    return [row.replace("\\|", "|") for row in rows]


@soak
def test_selectors_know_attributes_by_their_types():
    with claims(DEVICES="1xH100") as here:
        spec, found = here.spec(memory="1Gi", compute="25"), expressions()
        assert len(found) > 8, found
        spec["devices"]["requests"][0]["exactly"]["selectors"] = [{"cel": {"expression": expression}} for expression in found]
        here.cluster.ask("POST", here.all, {"metadata": {"name": "all"}, "spec": spec})
        made = here.pod("made", claim="all")
        assert made.await_end() == 0
        other = here.spec(memory="1Gi", compute="25")
        other["devices"]["requests"][0]["exactly"]["selectors"] = [
            {"cel": {"expression": 'device.attributes["gpu.mete.dev"].cudaComputeCapability.isGreaterThan(semver("99.0.0"))'}}]
        here.cluster.ask("POST", here.all, {"metadata": {"name": "none"}, "spec": other})
        here.pod("waits", claim="none").await_event("cannot allocate all claims")


@soak
def test_alternatives_are_taken_in_their_order():
    with claims("most: {weight: 1000}") as here:
        def one(name, memory):
            return {"name": name, "deviceClassName": "mete-share", "capacity": {"requests": {"memory": memory, "compute": "25"}}}

        def said(request, weight):
            return {"requests": [request], "opaque": {"driver": "gpu.mete.dev", "parameters": {"weight": weight}}}
        spec = {"devices": {"requests": [{"name": "gpu", "firstAvailable": [one("large", "64Gi"), one("small", "1Gi")]}],
                            "config": [said("gpu/large", 100), said("gpu/small", 30)]}}
        here.cluster.ask("POST", here.all, {"metadata": {"name": "either"}, "spec": spec})
        made = here.pod("made", ["seen", "hold=1"], claim="either", request="gpu")
        made.await_line(f"total={GIB}")
        assert here.tenants()[f"{here.namespace}/either"]["fields"]["weight"] == "30"
        results = here.cluster.get(here.all + "/either")["status"]["allocation"]["devices"]["results"]
        assert [result["request"] for result in results] == ["gpu/small"], results


def test_a_claims_status_tells_its_pods_share():
    with claims("most: {weight: 1000}") as here:
        made = here.pod("made", ["seen", "hold=1"], memory="1Gi", compute="25", parameters={"weight": 300})
        made.await_line("devices=1")
        name = here.claim_of(made).partition("/")[2]

        def await_told(holds):
            def told(claims):
                found = claims[name]["status"].get("devices")
                return found and holds(found[0]["data"]) and found
            return here.cluster.until(here.all, told, "the claim's status never told it")
        (device,) = await_told(lambda data: data["weight"] == 300)
        assert device["data"] == {"memory": str(GIB), "guarantee": "25%", "cap": "100%", "weight": 300, "class": "standard", "swap": "off"}, device
        assert [(c["type"], c["status"]) for c in device["conditions"]] == [("Ready", "True")], device
        made.annotate(weight="500")
        (after,) = await_told(lambda data: data["weight"] == 500)
        assert after["shareID"] == device["shareID"] and after["conditions"] == device["conditions"], after


@soak
def test_parameters_say_the_rest_of_a_share():
    with claims("most: {weight: 1000}") as here:
        made = here.pod("heavy", ["seen", "hold=1"], memory="1Gi", compute="25", parameters={"weight": 300, "class": "batch"})
        made.await_line("devices=1")
        fields = here.tenants()[here.claim_of(made)]["fields"]
        assert fields["weight"] == "300" and fields["class"] == "batch" and fields["guarantee"] == "25%", fields


def test_a_share_changes_while_it_is_used_by_its_pods_annotations():
    with claims("most: {weight: 1000, memory: 100%, swap: auto}") as here:
        made = here.pod("made", ["sh", "-c", f"seen take={512 * MIB} hold=1 & wait"], memory="1Gi", compute="25", parameters={"swap": "auto"})
        made.await_line("take=granted")

        def await_row(holds):
            until(lambda: holds(here.tenants()[here.claim_of(made)]), lambda: f"never changed: {here.tenants()[here.claim_of(made)]}")
        made.annotate(weight="500", **{"class": "batch"})
        await_row(lambda row: row["fields"]["weight"] == "500" and row["fields"]["class"] == "batch")
        made.annotate(memory="768MiB")
        await_row(lambda row: row["limit_bytes"] == 768 * MIB)
        assert seen(made.exec("seen"))["total"] == 768 * MIB
        made.annotate(memory="3GiB")  # a burst: its memory moves
        await_row(lambda row: row["limit_bytes"] == 3 * GIB)
        made.annotate(guarantee="5%")
        made.await_event("the guarantee is what the claim consumes of the capacity 'compute', 25%")
        made.annotate(guarantee=None, memory=None, weight=None)
        await_row(lambda row: row["limit_bytes"] == GIB and row["fields"].get("weight", "") in ("", "100") and row["fields"]["guarantee"] == "25%")
        other = here.pod("other", memory="3Gi", compute="75")
        assert other.await_end() == 0, "what annotations said was counted"


@soak
def test_more_than_the_device_may_be_promised_to_claims_whose_memory_moves():
    with claims("overcommit: 200%\nmost: {swap: auto}") as here:
        memory = here.devices()[0]["capacity"]["memory"]
        assert memory["value"] == "8Gi" and memory["requestPolicy"]["validRange"]["max"] == "4Gi", memory
        stuck = here.pod("stuck", memory="3Gi", compute="30")
        stuck.await_event("accepted: 'swap: auto'")
        stuck.delete()
        hold = ["sh", "-c", f"seen take={2 * GIB + GIB // 2} hold=1 & wait"]
        for name in ("first", "second"):
            here.pod(name, hold, memory="3Gi", compute="30", parameters={"swap": "auto"}).await_line("take=granted")


@soak
def test_a_process_that_bypasses_the_guest_is_killed_where_that_is_wanted():
    with claims("unannounced: kill") as here:
        amount = {"memory": "1Gi", "compute": "25"}
        itself = here.pod("itself", ["seen", f"cuda={images.OWN_DRIVER}", "nvml=/none", f"take={2 * GIB}", "hold=1"], **amount)
        innocent = here.pod("innocent", ["seen", "hold=1"], **amount)
        assert itself.await_end() == 137
        assert "running" in innocent.await_running().get()["status"]["containerStatuses"][0]["state"]


@soak
def test_with_slots_nothing_is_published():
    with node(slots=2) as there:
        install(there.cluster)
        here = Claims(there)
        here.await_slices(lambda items: not items, "slices of an earlier meted were never gone")
        assert not here.records()


if __name__ == "__main__":
    run(globals())
