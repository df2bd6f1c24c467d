#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The bad days of claims in docs/FAILURE.md, made to happen: afterwards nothing is left over."""
import os

from claims import API, DRIVER, KUBELET, Claims, claims, install
from cluster import Answer
from harness import BUILD, GIB, MIB, PATIENCE, QUIET, node, pod, run, seen, seen_by, until
from test_health import faults

HOLD = ["sh", "-c", f"seen take={300 * MIB} hold=1 & wait"]
QUARTER = {"memory": "1Gi", "compute": "25"}


def holds(here, name="holds", **asked):
    made = here.pod(name, HOLD, **(asked or QUARTER))
    made.await_line("take=granted")
    return made


def works(here, name="after"):
    made = here.pod(name, **QUARTER)
    assert made.await_end() == 0, made.log()
    assert seen_by(made)["total"] == GIB, made.log()
    made.delete()


def versions(here):
    return {item["metadata"]["uid"]: item["metadata"]["resourceVersion"] for item in here.slices()}


def identity(made):
    return made.get()["status"]["containerStatuses"][0]["containerID"]


def health(found):
    """Of the devices of a pod, as its status has it."""
    rows = [row for status in found["status"].get("containerStatuses", []) for row in status.get("allocatedResourcesStatus", [])]
    return {(one["health"], one.get("message", "")) for row in rows for one in row["resources"]}


def test_the_kubelet_is_restarted():
    with claims() as here:
        made = holds(here)
        container, before = identity(made), set(versions(here))
        here.cluster.kill_part("kubelet")
        # It deletes all slices of the node when it starts.
        here.await_slices(lambda items: items and items[0]["metadata"]["uid"] not in before and items[0]["spec"].get("devices"),
                          "the slices never came back")
        works(here)
        assert identity(made) == container
        assert seen(made.exec("seen"))["total"] == GIB
        made.delete()


def test_slices_that_somebody_deletes_or_edits_are_repaired_and_then_left_alone():
    with claims() as here:
        (item,) = here.slices()
        path, devices = f"{API}/resourceslices/{item['metadata']['name']}", item["spec"]["devices"]
        generation = item["spec"]["pool"]["generation"]
        here.cluster.ask("DELETE", path)
        here.await_slices(lambda items: items and items[0]["spec"].get("devices") == devices, "a deleted slice never came back")
        here.cluster.patch(path, [{"op": "replace", "path": "/spec/devices/0/capacity/slots/value", "value": "99"}], "application/json-patch+json")
        (mended,) = here.await_slices(lambda items: items and items[0]["spec"]["devices"] == devices and items, "an edited slice was never repaired")
        assert mended["spec"]["pool"]["generation"] > generation
        other = dict(item, metadata={"name": "another"}, spec=dict(item["spec"], pool=dict(item["spec"]["pool"], name="another")))
        here.cluster.ask("POST", f"{API}/resourceslices", other)
        here.await_slices(lambda items: [one["metadata"]["name"] for one in items] == [item["metadata"]["name"]], "another's slice of ours was never removed")
        at_rest = here.await_slices(lambda items: len(items) == 1 and items[0]["spec"]["devices"] == devices and items, "never at rest")
        works(here)
        works(here, "again")
        assert versions(here) == {one["metadata"]["uid"]: one["metadata"]["resourceVersion"] for one in at_rest}, "slices were written at rest"


def test_meted_is_killed_while_claims_are_held():
    with claims() as here:
        made = holds(here)
        tenant, container = here.tenants()[here.claim_of(made)]["tenant"], identity(made)
        for _ in range(3):
            here.meted.kill()
            here.meted.start()
        until(lambda: here.tenants()[here.claim_of(made)]["allocated_bytes"] >= 300 * MIB, "it did not come back")
        assert here.tenants()[here.claim_of(made)]["tenant"] == tenant and identity(made) == container
        assert seen(made.exec("seen"))["total"] == GIB
        works(here)
        here.meted.kill()
        waits = here.pod("waits", **QUARTER)
        made.delete(wait=False)  # its claim is unprepared when meted is back
        here.meted.start()
        assert waits.await_end() == 0
        made.await_gone()


def test_the_api_server_is_away():
    """A running container goes on; one that ends is started again, with its claim's devices."""
    with claims() as here:
        made = here.pod("goes-on", ["sh", "-c", "seen; trap 'exit 0' TERM; sleep 100000 & wait"], restart="Always", **QUARTER)
        made.await_line("seen .*")

        def process():
            return here.cluster.run("sh", "-c", "ps ax -o pid,args | grep 'sleep 10000[0]$' | head -n 1").split()[:1]

        before = process()
        hold = here.cluster.hold_part("apiserver")
        try:
            here.cluster.kill_part("apiserver")
            until(lambda: "api.troubled" in here.meted.log(), "meted did not notice")
            here.cluster.run("kill", "-KILL", *before)  # its shell ends, too
            until(lambda: process() not in ([], before), "the container was not started again")
            assert len(here.records()) == len(here.tenants()) == 1
        finally:
            hold.close()
        until(lambda: here.meted.log().rfind("api.well") > here.meted.log().rfind("api.troubled"), "meted did not find it again")
        assert seen(made.exec("seen"))["total"] == GIB
        made.delete()
        works(here)


def test_a_gpu_is_missing_when_meted_starts():
    with claims(DEVICES="2xSIM") as here:
        both = [holds(here, f"holds-{i}", memory="1Gi") for i in range(2)]  # all of the time: each has a GPU of its own
        here.meted.stop()
        whole, one = here.meted.sim, here.meted.sim + "-one"  # another simulated node, whose only GPU is the first of the two
        here.cluster.run("mkdir", "-m", "1777", one)
        here.meted.settings.update(METE_SIM_DIR=one, METE_SIM_DEVICES="1xSIM")
        here.meted.start()
        assert here.meted.log().count("claim.absent") == 1, here.meted.log()
        assert len(here.records()) == 2
        here.meted.stop()
        here.meted.settings.update(METE_SIM_DIR=whole, METE_SIM_DEVICES="2xSIM")
        here.meted.start()
        assert [seen(made.exec("seen"))["total"] for made in both] == [GIB, GIB]
        assert len(here.tenants()) == 2


def test_a_pod_that_is_deleted_by_force_leaves_nothing():
    with claims() as here:
        made = holds(here)
        here.cluster.ask("DELETE", made.path, {"gracePeriodSeconds": 0})
        here.await_nothing()
        works(here)


def test_a_claim_that_the_kubelet_has_forgotten_is_undone():
    with claims() as here:
        made = holds(here)
        assert len(here.records()) == 1
        with here.cluster.hold_part("kubelet"):
            here.cluster.kill_part("kubelet")
            here.cluster.run("rm", f"{KUBELET}/dra_manager_state")
            here.cluster.ask("DELETE", made.path, {"gracePeriodSeconds": 0})
            here.await_claims_gone()
            until(lambda: not here.records() and not here.files(), f"nobody noticed: {here.records()}")
        here.await_published()
        works(here)


# Each step is a change of a file. Preparing: the CDI file, before which a tenant is made, and the record; undoing: the record, the
# CDI file, the record, before which the tenant is ended.
STEPS = "before:1 after:1 before:2 after:2 after:3 after:4 before:5 after:5".split()


def test_meted_dies_at_any_step_of_a_claim():
    with claims() as here:
        for step in STEPS:
            undoes = int(step[-1]) > 2
            here.meted.stop()
            here.meted.settings.update(LD_PRELOAD=os.path.join(BUILD, "tests", "kubernetes", "libdies.so"), DIES_AT=step)
            here.meted.start()
            for key in ("LD_PRELOAD", "DIES_AT"):
                del here.meted.settings[key]
            made = here.pod(step.replace(":", "-"), ["sh", "-c", "seen; exec sleep 1000"], **QUARTER)
            if undoes:
                made.await_line(f"total={GIB}")
                made.delete(wait=False)
            assert here.meted.process.wait(), f"{step}: meted did not die"
            here.meted.process.stdout.close()
            here.meted.start()
            if not undoes:
                made.await_line(f"total={GIB}")
                assert len(here.records()) == len(here.files()) == 1, here.records()
                until(lambda: len(here.tenants()) == 1, "the tenant of the first attempt never ended")
                made.delete(wait=False)
            made.await_gone()
            here.await_nothing()


def begin_update(here, uid):
    """A second pod of the DaemonSet, which stands by; and then the first one, which this returns, is told to end."""
    old, pid = here.meted.process, here.meted.pid
    here.meted.settings["POD_UID"] = uid
    here.meted.launch("--stand-by")
    here.cluster.run("kill", "-TERM", str(pid))
    return old


def await_update(here, old, before):
    """The log's messages about both."""
    assert old.wait(timeout=PATIENCE) == 0, here.meted.log()[-3000:]
    old.stdout.close()
    until(lambda: "dra.inherited" in here.meted.log()[before:], lambda: here.meted.log()[-3000:])
    return here.meted.log()[before:]


def registry(here):
    return [name for name in here.cluster.run("ls", f"{KUBELET}/plugins_registry").split() if name.startswith(DRIVER)]


def update(here, uid):
    """Claims are prepared and unprepared before, during and after it. The kubelet's events about claims that failed: the name of a pod, and the
    sentence."""
    small, before, known = {"memory": "256Mi", "compute": "1"}, len(here.meted.log()), registry(here)
    made = [here.pod(f"{uid}-{n}", **small) for n in range(5)]
    old = begin_update(here, uid)
    made += [here.pod(f"{uid}-{n}", **small) for n in range(5, 12)]
    said = await_update(here, old, before)
    for one in made:
        assert one.await_end() == 0, one.log()
        one.delete(wait=False)
    order = ["standby.waits", "daemon.precedes", "standby.over", "dra.inherited"]
    places = [said.find(word) for word in order]
    assert -1 not in places and places == sorted(places), said
    assert "dra.registered" not in said and registry(here) == known, f"the kubelet knows another driver: {known}, {registry(here)}"
    events = here.cluster.get(f"/api/v1/namespaces/{here.namespace}/events")["items"]
    # The API server may not know yet that this kubelet may read a claim: then no driver is asked.
    return [(event["involvedObject"]["name"], event["message"]) for event in events
            if event["reason"] == "FailedPrepareDynamicResources" and event["involvedObject"]["name"].startswith(uid + "-")
            and "no relationship found between node" not in event["message"]]


def test_no_claim_fails_in_an_update_with_a_stand_by():
    """The second time from a pod to a pod."""
    with claims(slots=50) as here:
        stays = here.pod("stays", ["seen", "hold=1"], memory="256Mi", compute="1")
        stays.await_line("devices=1")
        for number in range(2):
            failed = update(here, f"uid-{number}")
            assert not failed, failed
        assert seen(stays.exec("seen"))["total"] == 256 * MIB
        here.meted.await_registered()


def test_a_device_has_one_owner_while_it_changes_hands():
    with node() as there:
        install(there.cluster)
        here = Claims(there)
        there.share("share: {memory: 1GiB}", slots=4)
        slot = there.pod("slot", pod(command=["seen", "hold=1"], slots=1))
        slot.await_line("devices=1")
        here.meted.stop()
        here.meted.total = 1  # what is bound stays
        here.meted.write("slots: 4\ndra: on")
        here.meted.start()
        here.await_slices(lambda items: items and not items[0]["spec"].get("devices"), "nothing says that there is no device")
        until(lambda: "device.withheld" in here.meted.log(), "nothing says why")
        claim = here.pod("claim", HOLD, **QUARTER)
        slot.delete()
        claim.await_line("take=granted")
        # And back.
        here.meted.stop()
        here.meted.total = 0
        here.meted.write("slots: 4\nshare: {memory: 1GiB}")
        here.meted.start()
        waits = there.pod("waits", pod(command=["seen"], slots=1))
        waits.until(lambda found: any("mete.dev/gpu" in c.get("message", "") for c in found["status"].get("conditions", [])), "was given a slot beside a claim")
        assert seen(claim.exec("seen"))["total"] == GIB
        here.meted.total = 4
        claim.delete()
        assert waits.await_end() == 0
        here.await_nothing()


def test_the_domain_changes_while_a_pod_has_a_claim():
    """The kubelet asks nobody but gpu.mete.dev to unprepare what that one has prepared, and the pod would be deleted for ever."""
    def changed(domain):
        here.meted.stop()
        here.meted.write("slots: 10\ndra: on\n" + domain)
        here.meted.start()

    def published(items):
        return any(item["spec"]["driver"] == "gpu.other.dev" and item["spec"].get("devices") for item in items.values())
    with claims() as here:
        made = holds(here)
        changed("domain: other.dev")
        assert seen(made.exec("seen"))["total"] == GIB
        made.delete()
        here.await_nothing()
        here.cluster.until(f"{API}/resourceslices", published, "the driver never had its new name")
        assert not here.slices(), "slices of the former name were left"
        changed("")
        here.await_published()
        works(here)


def test_a_failed_device_is_tainted_until_it_was_quiet():
    with claims() as here:
        worker = here.pod("worker", ["steady", "kernel_us=1000", "seconds=36000", "report_ms=1000"], **QUARTER)
        worker.await_line("kernels=")
        faults(here, "xid=48")
        (item,) = here.await_slices(lambda items: items and items[0]["spec"]["devices"][0].get("taints") and items, "the device was never tainted")
        taint = item["spec"]["devices"][0]["taints"][0]
        assert (taint["key"], taint["value"], taint["effect"]) == ("gpu.mete.dev/xid", "48", "NoSchedule"), taint
        # The kubelet has it from a stream of its own.
        worker.until(lambda found: health(found) == {("Unhealthy", "Xid 48")}, "does not say that its device is not well")
        waits = here.pod("waits", **QUARTER)
        waits.until(lambda found: any(c["type"] == "PodScheduled" and c["status"] == "False" for c in found["status"].get("conditions", [])),
                    "was given a share of a device that is not well")
        assert "running" in worker.get()["status"]["containerStatuses"][0]["state"]
        faults(here, "")
        assert waits.await_end(QUIET) == 0


def test_a_claim_has_all_devices_of_a_node():
    with claims(slots=2, DEVICES="16xSIM") as here:
        here.await_slices(lambda items: items and len(items[0]["spec"].get("devices") or []) == 16, "16 devices were never published")
        made = here.pod("most", memory="512Mi", compute="50", count=16)
        assert made.await_end() == 0
        found = seen_by(made)
        assert found["devices"] == 16 and found["total"] == 512 * MIB, found


def test_the_server_accepts_a_slice_of_as_many_devices_as_meted_writes():
    with claims() as here:
        (item,) = here.slices()

        def accepts(count, taints):
            devices = [dict(item["spec"]["devices"][0], name=f"gpu-{n}") for n in range(count)]
            if taints:
                devices[0]["taints"] = [{"key": "gpu.mete.dev/xid", "value": "48", "effect": "NoSchedule"}]
            spec = dict(item["spec"], devices=devices, pool={"name": "edge", "generation": 1, "resourceSliceCount": 1})
            try:
                here.cluster.ask("POST", f"{API}/resourceslices", {"metadata": {"name": "edge"}, "spec": spec}, dryRun="All")
            except Answer as refusal:
                assert refusal.status == 422 and "must have at most" in str(refusal), refusal
                return False
            return True
        # plugin/dra/slices.h has the same: what a node has beyond is another slice (dra_slices).
        assert accepts(128, False) and not accepts(129, False)
        assert accepts(64, True) and not accepts(65, True)


def test_a_cordoned_device_is_tainted_and_gets_no_new_claim():
    with claims() as here:
        worker = here.pod("worker", ["steady", "kernel_us=1000", "seconds=36000", "report_ms=1000"], **QUARTER)
        worker.await_line("kernels=")
        assert "1 is there and runs on" in here.meted.mete("cordon", "0")
        (item,) = here.await_slices(lambda items: items and items[0]["spec"]["devices"][0].get("taints") and items, "the device was never tainted")
        taint = item["spec"]["devices"][0]["taints"][0]
        assert (taint["key"], taint.get("value", ""), taint["effect"]) == ("gpu.mete.dev/cordoned", "", "NoSchedule"), taint
        waits = here.pod("waits", **QUARTER)
        waits.until(lambda found: any(c["type"] == "PodScheduled" and c["status"] == "False" for c in found["status"].get("conditions", [])),
                    "was given a share of a device that is cordoned")
        assert "running" in worker.get()["status"]["containerStatuses"][0]["state"]
        here.meted.mete("uncordon", "0")
        assert waits.await_end() == 0


def test_a_lost_device_evicts_its_pods():
    with claims() as here:
        worker = here.pod("worker", ["steady", "kernel_us=1000", "seconds=36000", "report_ms=1000"], **QUARTER)
        worker.await_line("kernels=")
        faults(here, "xid=79")
        # Beside the Xid's.
        here.await_slices(lambda items: items and any((taint["key"], taint["effect"]) == ("gpu.mete.dev/gpu-lost", "NoExecute")
                                                      for taint in items[0]["spec"]["devices"][0].get("taints", [])), "the device was never tainted")
        worker.await_gone()
        faults(here, "")
        here.await_slices(lambda items: items and not items[0]["spec"]["devices"][0].get("taints"), "the taint never went", QUIET)
        works(here)


if __name__ == "__main__":
    run(globals())
