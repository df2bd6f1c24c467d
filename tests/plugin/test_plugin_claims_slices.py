#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Slices that meted publishes of parts of GPUs that MIG has divided. tests/plugin/node.py describes the parties."""
import contextlib

from node import *
from meted import run
from test_plugin_claims import DRIVER, Caller, claims

PARTS = "0:3g.40gb,2x1g.10gb"
HALF = {"compute-slices": "3", **{f"memory-slice-{n}": "1" for n in range(4)}}  # the driver puts the largest part first
ALL = {"compute-slices": "7", **{f"memory-slice-{n}": "1" for n in range(8)}}


def amounts(counters):
    return {name: counter["value"] for name, counter in counters.items()}


@contextlib.contextmanager
def divided(**more):
    """Once the kubelet knows the driver."""
    with claims(devices="2xH100", environment={"METE_SIM_PARTS": PARTS}, **more) as (node, made, caller):
        register = Caller(f"{node.kubelet.folder}/plugins_registry/{DRIVER}-reg.sock")
        register.tell("known registered")
        assert register.answer("known").endswith("ok")
        register.close()
        yield node


def slices(node):
    return node.api.objects("resourceslices", len(node.api.log))


def await_slices(node, count):
    """Those of the newest generation, when there are so many, and they are all that there are."""
    def complete():
        found = slices(node)
        pools = [slice["spec"]["pool"] for slice in found]
        return len(found) == count and len({pool["generation"] for pool in pools}) == 1 and pools[0]["resourceSliceCount"] == count and found
    return until(complete, lambda: f"never {count} slices: {slices(node)}")


def test_parts_consume_counters_of_their_gpu_and_an_undivided_gpu_none():
    with divided(version="v1.37.0") as node:
        of_devices, of_counters = (slice["spec"] for slice in sorted(await_slices(node, 2), key=lambda slice: slice["metadata"]["name"]))
        assert "devices" not in of_counters and "sharedCounters" not in of_devices
        assert [(row["name"], amounts(row["counters"])) for row in of_counters["sharedCounters"]] == [("gpu-0", ALL)], of_counters
        consumed = {}
        for device in of_devices["devices"]:
            for row in device.get("consumesCounters", [{"counterSet": None, "counters": {}}]):
                consumed.setdefault((device["attributes"]["type"]["string"], row["counterSet"]), []).append(amounts(row["counters"]))
        # A claim for several parts of one GPU, or of different ones, says so by its UUID.
        parents = {(device["attributes"]["type"]["string"], device["attributes"].get("parentUUID", {}).get("string")) for device in of_devices["devices"]}
        (whole,) = (device["attributes"]["uuid"]["string"] for device in of_devices["devices"] if device["attributes"]["type"]["string"] == "gpu")
        (parent,) = (uuid for kind, uuid in parents if kind == "mig")
        assert parents == {("gpu", None), ("mig", parent)} and parent.startswith("GPU-") and parent != whole, parents
        assert consumed.pop(("gpu", None)) == [{}] and list(consumed) == [("mig", "gpu-0")], consumed
        half, *small = sorted(consumed[("mig", "gpu-0")], key=len, reverse=True)
        assert half == HALF, half
        assert [row["compute-slices"] for row in small] == ["1", "1"] and len({name for row in [half, *small] for name in row}) == 7, small


def test_where_kubernetes_counts_wrong_parts_have_no_counters():
    with divided(version="v1.36.3") as node:
        (one,) = await_slices(node, 1)
        assert len(one["spec"]["devices"]) == 4 and not any("consumesCounters" in device for device in one["spec"]["devices"])


def test_where_the_server_drops_counters_parts_are_published_without():
    with divided(version="v1.37.0", drops=("sharedCounters", "consumesCounters")) as node:
        (one,) = await_slices(node, 1)
        assert len(one["spec"]["devices"]) == 4, one
        node.await_log("slices.uncounted reason=.*DRAPartitionableDevices")
        # A write that is not as wanted would cause another one: there are no more of them.
        version = one["metadata"]["resourceVersion"]
        node.api.put("resourceslices", {**one, "spec": {**one["spec"], "nodeName": "edited"}})
        (repaired,) = until(lambda: (found := slices(node)) and found[0]["spec"]["nodeName"] == NODE and found, "an edited slice was never repaired")
        assert int(repaired["metadata"]["resourceVersion"]) - int(version) == 2, (version, repaired)


def test_slices_follow_however_often_the_devices_change():
    """A pause is for what somebody else does to them: ours would take minutes by now."""
    with divided(version="v1.36.3") as node:
        await_slices(node, 1)
        shown, left = [], 16

        def taints():
            found = slices(node)
            return found and {taint["key"] for device in found[0]["spec"]["devices"] for taint in device.get("taints", [])}

        def goes_on():
            """The next change, once the last one is shown."""
            nonlocal left
            if (taints() == {f"{DRIVER}/cordoned"}) == bool(left % 2):
                shown.append(left)
                left -= 1
                cordon(node, 0, left % 2)
            return left == 0
        until(goes_on, lambda: f"{len(shown)} of 16 changes were shown: {node.log()[-2000:]}")


def await_taints(node, *wanted):
    """Of its devices, in any order: what follows the driver's name, the value (None: none), and the effect."""
    until(lambda: (found := slices(node)) and {(taint["key"].removeprefix(DRIVER + "/"), taint.get("value"), taint["effect"]) for device in found[0]["spec"]["devices"]
                                               for taint in device.get("taints", [])} == set(wanted), lambda: f"{slices(node)}\n{node.log()[-2000:]}")


def test_the_taint_of_a_device_that_is_lost_after_an_error_ends_who_runs():
    """A claim may tolerate each Xid, and no lost GPU."""
    with divided(version="v1.36.3") as node:
        await_slices(node, 1)
        launch(node, "xid=48@1", 0)
        await_taints(node, ("xid", "48", "NoSchedule"))
        cordon(node, 0, True)
        await_taints(node, ("xid", "48", "NoSchedule"), ("cordoned", None, "NoSchedule"))
        launch(node, "xid=79@1", 0)
        await_taints(node, ("xid", "79", "NoSchedule"), ("gpu-lost", None, "NoExecute"), ("cordoned", None, "NoSchedule"))


def test_a_device_with_a_memory_error_is_tainted_by_a_key_of_its_own():
    with divided(version="v1.36.3") as node:
        await_slices(node, 1)
        launch(node, "ecc@1", 0)
        await_taints(node, ("ecc", None, "NoSchedule"))


def test_a_taint_and_an_event_of_the_node_name_the_xid_of_now():
    with divided(version="v1.36.3") as node:
        await_slices(node, 1)
        for xid in 48, 94, 63:
            launch(node, f"xid={xid}@1", 0)
            await_taints(node, ("xid", str(xid), "NoSchedule"))
            until(lambda: [event for event in list(node.api.events) if event["reason"] == "GPUUnhealthy" and f"Xid {xid}: " in event["message"]],
                  lambda: f"no event of Xid {xid}: {node.api.events}")


def test_slices_are_repaired_where_the_cluster_is_restored_from_a_backup():
    """Versions are smaller then than those that meted has seen."""
    with divided(version="v1.36.3") as node:
        await_slices(node, 1)
        cordon(node, 0, 1)
        (slice,) = until(lambda: (found := slices(node)) and "taints" in json.dumps(found) and found, "a cordoned device was never tainted")
        node.api.away()
        slice["spec"]["devices"] = slice["spec"]["devices"][:1]
        before = node.api.node()
        node.api.restored(("nodes", before), ("resourceslices", slice))
        node.api.back()
        until(lambda: [len(found["spec"]["devices"]) for found in slices(node)] == [4], lambda: f"{slices(node)}\n{node.log()[-2000:]}")


def test_generations_begin_anew_behind_the_highest_that_somebody_can_write():
    """One more than that would be none that Kubernetes reads, and each look would write again."""
    def generations():
        return {slice["spec"]["pool"]["generation"] for slice in slices(node)}
    with divided(version="v1.37.0") as node:
        for slice in await_slices(node, 2):
            slice["spec"]["pool"].update(generation=999999999999999, resourceSliceCount=1)
            node.api.put("resourceslices", slice)
        until(lambda: generations() == {1}, lambda: f"{slices(node)}\n{node.log()[-2000:]}")
        await_slices(node, 2)
        cordon(node, 0, 1)
        until(lambda: generations() == {2}, lambda: f"{slices(node)}\n{node.log()[-2000:]}")


def test_a_slice_that_is_gone_before_its_write_is_answered_is_made_anew():
    def gone():
        """And meted has heard it: it asks then whether its node is another one."""
        asked = node.api.asked_nodes
        node.api.add("resourceslices", "DELETED", {"metadata": {"name": name, "uid": name}})
        until(lambda: node.api.asked_nodes > asked, node.log)
    with divided(version="v1.36.3") as node:
        (slice,) = await_slices(node, 1)
        name = slice["metadata"]["name"]
        node.api.late = (name,)
        gone()
        await_slices(node, 1)
        gone()
        node.api.late = ()
        await_slices(node, 1)


def test_that_somebody_else_has_a_slices_name_is_said():
    with divided(version="v1.36.3") as node:
        (slice,) = await_slices(node, 1)
        name = slice["metadata"]["name"]
        node.api.taken = (name,)
        node.api.add("resourceslices", "DELETED", {"metadata": {"name": name, "uid": slice["metadata"]["uid"]}})
        node.await_log(f"slices.unwritten reason=.*{name}.* already exists")
        node.api.taken = ()
        await_slices(node, 1)


def test_slices_of_a_node_that_was_deleted_and_made_anew_have_the_new_one_as_their_owner():
    """The garbage collector removes what has an owner that is not there."""
    def owners(node):
        return {owner["uid"] for slice in slices(node) for owner in slice["metadata"]["ownerReferences"]}
    with divided(version="v1.36.3") as node:
        (slice,) = await_slices(node, 1)
        assert owners(node) == {"node-uid"}
        anew = node.api.node()
        node.api.add("nodes", "DELETED", {"metadata": {"name": NODE, "uid": "node-uid"}})
        node.api.put("nodes", {**anew, "metadata": {**anew["metadata"], "uid": "another-uid"}})
        node.api.add("resourceslices", "DELETED", {"metadata": {"name": slice["metadata"]["name"], "uid": slice["metadata"]["uid"]}})
        until(lambda: owners(node) == {"another-uid"}, lambda: f"{slices(node)}\n{node.log()[-2000:]}")


def driver_of(node, driver):
    return contextlib.closing(Caller(f"{node.kubelet.folder}/plugins/{driver}/dra.sock"))


def known(node, driver, former=False):
    """The kubelet knows it. Nobody is given another device by a former name."""
    with contextlib.closing(Caller(f"{node.kubelet.folder}/plugins_registry/{driver}-reg.sock")) as register:
        register.tell("known registered")
        assert register.answer("known").endswith("ok")
    until(lambda: [slice["spec"]["driver"] for slice in slices(node)] == ([] if former else [driver]), lambda: f"{slices(node)}\n{node.log()[-2000:]}")


def test_a_driver_whose_domain_has_changed_has_its_former_name_until_its_claims_have_ended():
    """The kubelet asks nobody but gpu.mete.dev to unprepare what that one has prepared."""
    with claims() as (node, made, caller):
        made.answer_all()
        caller.prepare("c0")
        prepared = caller.answer("c0")
        assert prepared.startswith("ok mete.dev/claim="), prepared
        node.end()
        node.configure(domain="other.dev")
        node.start()
        node.await_log("dra.name_kept driver=gpu.mete.dev .* is called gpu.other.dev when they have ended")
        known(node, DRIVER, former=True)
        with driver_of(node, DRIVER) as former:
            former.prepare("c0", "c1")
            assert former.answer("c0") == prepared and former.answer("c1").startswith("ok mete.dev/claim="), former.answers
            for name in "c0", "c1":
                former.unprepare(name)
            node.await_log("dra.renamed driver=gpu.other.dev former=gpu.mete.dev")
        until(lambda: os.listdir(node.kubelet.folder + "/plugins_registry") == ["gpu.other.dev-reg.sock"], lambda: node.log()[-2000:])
        known(node, "gpu.other.dev")
        with driver_of(node, "gpu.other.dev") as later:
            later.unprepare("c0")  # of which the kubelet may ask once more
        assert not os.listdir(node.cdi) and not node.tenants()


def test_a_domain_that_changes_twice_while_a_claim_is_held_takes_effect_as_it_is_last():
    with claims() as (node, made, caller):
        made.answer_all()
        caller.prepare("c0")
        assert caller.answer("c0").startswith("ok mete.dev/claim="), caller.answers
        for domain in "other.dev", "third.dev":
            node.end()
            node.configure(domain=domain)
            node.start()
            node.await_log(f"dra.name_kept driver=gpu.mete.dev .* is called gpu.{domain} when they have ended")
            known(node, DRIVER, former=True)
        with driver_of(node, DRIVER) as former:
            former.unprepare("c0")
            node.await_log("dra.renamed driver=gpu.third.dev former=gpu.mete.dev")
        known(node, "gpu.third.dev")
        assert not os.listdir(node.cdi) and not node.tenants()


def changed(node, domain):
    """A meted with that domain."""
    node.end()
    node.configure(domain=domain)
    node.start()
    node.await_log(f"dra.name_kept driver=gpu.mete.dev .* is called gpu.{domain} when they have ended")


def looks(made, count):
    """meted has asked so often whether a claim still has one of its devices."""
    before = len(made.pages)
    until(lambda: len(made.pages) >= before + count, lambda: f"nobody asked: {made.pages}\n{made.node.log()[-2000:]}")


def test_a_former_name_is_kept_for_claims_that_are_allocated_and_not_prepared():
    """Of a pod that is about to start, say. All the others are of other nodes, other drivers, or nobody's."""
    with claims() as (node, made, caller):
        made.answer_all()
        caller.prepare("c0")
        assert caller.answer("c0").startswith("ok "), caller.answers
        known(node, DRIVER)
        waits, others = made.claim("ns", "c1"), []
        for key, value in ("pool", "node-2-mete"), ("driver", "gpu.other.dev"), ("driver", "gpu.nvidia.com"):
            others.append(made.claim("other", f"c{key}{value}"))
            others[-1]["status"]["allocation"]["devices"]["results"][0][key] = value
        others.append({"metadata": {"name": "pending"}, "spec": {}})
        made.cluster = [*(others * 50), waits]  # it is on the last of three pages
        changed(node, "other.dev")
        known(node, DRIVER, former=True)
        with driver_of(node, DRIVER) as former:
            former.unprepare("c0")
            looks(made, 3)
            reads_of(made, "c1", 2)
            # Nobody gets another device by the name that is about to go, and all claims are read once.
            assert made.pages == [(0, ()), (100, ()), (200, ())], made.pages
            assert "dra.renamed" not in node.log()
            assert re.findall("dra.name_needed .*", node.log()) == ['dra.name_needed driver=gpu.mete.dev claim=ns/c1 reason="it has a device of this name"']
            former.prepare("c1")
            assert former.answer("c1").startswith("ok mete.dev/claim="), former.answers
            made.cluster, made.missing = [*others, made.claim("ns", "c2")], {"c1"}
            before = len(made.pages)
            looks_of_others(node)
            assert len(made.pages) == before and "dra.renamed" not in node.log(), "a prepared claim does not count"
            former.unprepare("c1")
            reads_of(made, "c2", 2)
            assert "dra.name_needed driver=gpu.mete.dev claim=ns/c2" in node.log() and "dra.renamed" not in node.log(), node.log()
            made.cluster = others
            made.pools["c2"] = "node-2-mete"  # it was allocated again
            node.await_log("dra.renamed driver=gpu.other.dev former=gpu.mete.dev")
        known(node, "gpu.other.dev")


def reads_of(made, name, count):
    before = made.read.count(name)
    until(lambda: made.read.count(name) >= before + count, lambda: f"nobody read it: {made.read}\n{made.node.log()[-2000:]}")


def looks_of_others(node):
    """meted looks after everything each ten seconds, also after files that somebody has removed."""
    name = next(name for name in os.listdir(node.cdi) if name.endswith(".json"))
    for _ in range(2):
        os.unlink(f"{node.cdi}/{name}")
        until(lambda: os.path.exists(f"{node.cdi}/{name}"), lambda: node.log()[-2000:])


def test_a_former_name_is_kept_over_a_restart_of_the_machine():
    """What is in memory is lost, and the kubelet prepares its pods' claims again."""
    with claims() as (node, made, caller):
        made.answer_all()
        caller.prepare("c0")
        assert caller.answer("c0").startswith("ok "), caller.answers
        made.cluster = [made.claim("ns", "c0")]
        node.meted.kill()
        for left in os.scandir(node.place):
            if left.is_dir():
                shutil.rmtree(left.path)
            elif left.name != "log":
                os.unlink(left.path)
        shutil.rmtree(node.cdi)
        node.configure(domain="other.dev")
        node.start()
        node.await_log("dra.name_kept driver=gpu.mete.dev .* is called gpu.other.dev when they have ended")
        looks(made, 1)
        reads_of(made, "c0", 2)
        assert "dra.renamed" not in node.log() and not slices(node), slices(node)
        with driver_of(node, DRIVER) as former:
            former.prepare("c0")
            assert former.answer("c0").startswith("ok mete.dev/claim="), former.answers
            made.cluster, made.missing = [], {"c0"}
            former.unprepare("c0")
            node.await_log("dra.renamed driver=gpu.other.dev former=gpu.mete.dev")
        known(node, "gpu.other.dev")
        node.end()
        node.start()
        known(node, "gpu.other.dev")
        assert node.log().count("dra.name_kept") == 1, node.log()


def test_a_former_name_is_kept_while_nobody_says_who_has_its_devices():
    with claims() as (node, made, caller):
        made.answer_all()
        caller.await_known()
        made.refused = 403
        changed(node, "other.dev")
        looks(made, 2)
        untold = "dra.name_kept .* cannot be read: the test refuses"
        assert len(re.findall(untold, node.log())) == 1, node.log()
        # The first page is answered, and each time not the second one.
        made.cluster, made.refused_from = [{"metadata": {"name": "pending"}, "spec": {}}] * 150, 100
        looks(made, 3)
        assert {begin for begin, _ in made.pages} == {0, 100} and len(re.findall(untold, node.log())) == 1, node.log()
        # All claims are many: of each node one page for each look, on average.
        made.cluster, made.refused_from = [{"metadata": {"name": "pending"}, "spec": {}}] * 550, 500
        before = len(made.pages)
        until(lambda: (500, ()) in made.pages[before:], lambda: made.pages)
        read, path = len(made.pages), f"{node.kubelet.folder}/plugins_registry/{DRIVER}-reg.sock"
        for _ in range(4):  # looks
            os.unlink(path)
            until(lambda: os.path.exists(path), lambda: node.log()[-2000:])
        assert len(made.pages) == read, made.pages
        made.refused = None
        node.await_log("dra.renamed driver=gpu.other.dev former=gpu.mete.dev")


def test_a_new_name_comes_when_it_can_be_written_down():
    """Otherwise a note of the former one would outlive it, and a restart of the machine bring it back."""
    with claims() as (node, made, caller):
        made.answer_all()
        caller.await_known()
        note = node.kubelet.folder + "/plugins/mete-driver"
        until(lambda: os.path.exists(note), lambda: node.log()[-2000:])
        changed(node, "other.dev")
        os.unlink(note)
        os.makedirs(note + "/in the way")
        known(node, DRIVER, former=True)
        node.await_log("dra.name_unnoted driver=gpu.other.dev path=.*/plugins/mete-driver")
        looks(made, 2)
        assert "dra.renamed" not in node.log() and node.log().count("dra.name_unnoted") == 1, node.log()
        shutil.rmtree(note)
        node.await_log("dra.renamed driver=gpu.other.dev former=gpu.mete.dev")
        assert open(note).read() == "gpu.other.dev\n"
        known(node, "gpu.other.dev")


if __name__ == "__main__":
    run(globals(), at_once=4)
