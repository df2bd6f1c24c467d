#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pods that request memory and time of GPUs as resources: Kubernetes counts them, and meted picks the GPU."""
import os
import random
import re
import threading

from harness import GIB, MIB, REPEATED, Answer, node, pod, run, seen_by, soak, until

COUNTED = "counted: amounts\nshare: {memory: 25%}"
PODS = int(os.environ.get("METE_SUMS_PODS", "40"))


def asking(memory=None, milli=None, gpus=1, command=("seen", "hold=1"), **more):
    """A pod's manifest; `memory` in MiB."""
    manifest = pod(command=list(command), slots=gpus, **more)
    limits = manifest["spec"]["containers"][0]["resources"]["limits"]
    if memory:
        limits["mete.dev/gpu-memory"] = f"{memory}Mi"
    if milli is not None:
        limits["mete.dev/gpu-milli"] = milli
    return manifest


def sums(here):
    status = here.cluster.node()["status"]
    return [{key: value for key, value in status[part].items() if key.startswith("mete.dev/gpu-")} for part in ("capacity", "allocatable")]


def await_sums(here, memory, milli):
    wanted = {"mete.dev/gpu-memory": memory, "mete.dev/gpu-milli": milli}
    here.cluster.until("/api/v1/nodes", lambda nodes: all(nodes["node"]["status"][part].get(key) == value for key, value in wanted.items()
                                                           for part in ("capacity", "allocatable")), f"the node never had {wanted}")


def zero(here):
    """As a kubelet does that takes its node for a new one."""
    zeroed = {"mete.dev/gpu-memory": "0", "mete.dev/gpu-milli": "0"}
    here.cluster.patch("/api/v1/nodes/node/status", {"status": {"capacity": zeroed, "allocatable": zeroed}})


def await_unschedulable(made, pattern):
    made.until(lambda now: any(re.search(pattern, condition.get("message", "")) for condition in now["status"].get("conditions", [])),
               f"was never told {pattern!r}")


def test_on_one_gpu_the_scheduler_counts_exactly():
    with node(COUNTED, slots=10) as here:
        await_sums(here, str(4 * GIB), "1k")
        first = here.pod("first", asking(3 << 10, 600))
        first.await_line("total=3221225472")
        large, slow = here.pod("large", asking(2 << 10)), here.pod("slow", asking(100, 500))
        await_unschedulable(large, "Insufficient mete.dev/gpu-memory")
        await_unschedulable(slow, "Insufficient mete.dev/gpu-milli")
        small = here.pod("small", asking(512, 400))
        small.await_line(f"total={512 * MIB}")
        first.delete()
        large.await_line(f"total={2 * GIB}")
        small.delete()
        slow.await_line(f"total={100 * MIB}")


def test_a_slot_without_an_amount_is_counted_by_the_scheduler_too():
    with node(COUNTED, slots=10) as here:
        await_sums(here, str(4 * GIB), "1k")
        here.pod("slot", asking()).await_line(f"total={GIB}")
        await_sums(here, str(3 * GIB), "1k")
        large = here.pod("large", asking(3 << 10 | 1))
        await_unschedulable(large, "Insufficient mete.dev/gpu-memory")


def test_an_init_container_before_a_sidecar_is_counted_without_it():
    """By the scheduler, and so by meted, too: 3 GiB and then 2 + 1 GiB, of 4."""
    with node(COUNTED, slots=10) as here:
        await_sums(here, str(4 * GIB), "1k")
        manifest = asking(1 << 10)
        (main,) = manifest["spec"]["containers"]

        def like(name, mib, command, **more):
            return {**main, "name": name, "command": command, "resources": {"limits": {"mete.dev/gpu": 1, "mete.dev/gpu-memory": f"{mib}Mi"}}, **more}
        manifest["spec"]["initContainers"] = [like("loads", 3 << 10, ["seen"]), like("side", 2 << 10, ["seen", "hold=1"], restartPolicy="Always")]
        made = here.pod("ordered", manifest)
        made.until(lambda now: now["status"].get("phase") == "Running", "does not run")
        rest = here.pod("rest", asking(1 << 10))  # what the larger of both leaves
        rest.await_line(f"total={GIB}")
        await_sums(here, str(4 * GIB), "1k")
        await_unschedulable(here.pod("late", asking(1)), "Insufficient mete.dev/gpu-memory")


def test_quota_and_priority_count_amounts():
    with node(COUNTED, slots=10) as here:
        await_sums(here, str(4 * GIB), "1k")
        here.quota("gpus", {"requests.mete.dev/gpu-memory": "7Gi", "requests.mete.dev/gpu-milli": "1500"},
                   f"/api/v1/namespaces/{here.namespace}/pods", {"spec": asking(8 << 10)["spec"]})
        usual = here.pod("usual", asking(3 << 10, 800))
        usual.await_line("devices=1")
        for name, memory, milli in (("memory", 5 << 10, 0), ("time", 100, 800)):
            try:
                here.pod(name, asking(memory, milli))
                raise SystemExit(f"{name} was not refused")
            except Answer as refused:
                assert refused.status == 403 and "exceeded quota: gpus" in refused.reason, refused
        with here.priority(1000) as name:
            urgent = here.pod("urgent", asking(2 << 10, 500, priorityClassName=name))
            urgent.await_line(f"total={2 * GIB}")
            usual.await_gone()  # the scheduler's own pre-emption, by the sums


def test_amounts_of_a_limit_range_are_counted_and_enforced():
    with node(COUNTED, slots=10) as here:
        await_sums(here, str(4 * GIB), "1k")
        here.limits(asking(3 << 10), default={"mete.dev/gpu-memory": "1536Mi", "mete.dev/gpu-milli": "300"}, max={"mete.dev/gpu-memory": "2Gi"})
        pods = [here.pod(f"usual-{n}", asking(command=("seen", f"take={2 * GIB}", "hold=1"))) for n in range(2)]
        for made in pods:
            made.await_line(f"total={1536 * MIB} .*take=refused")
            row = here.tenant(made)
            assert (row["limit_bytes"], row["fields"]["guarantee"]) == (1536 * MIB, "300/1000"), row
        third, said = here.pod("third", asking()), here.pod("said", asking(1024, 400))
        await_unschedulable(third, "Insufficient mete.dev/gpu-memory")
        said.await_line(f"total={GIB}")
        pods[0].delete()
        third.await_line(f"total={1536 * MIB}")


def test_where_the_sum_fits_and_no_gpu_does_the_status_says_so_and_room_starts_it():
    with node(COUNTED, slots=10, total=20, DEVICES="2xSIM") as here:
        await_sums(here, str(8 * GIB), "2k")
        holders = [here.pod(f"holds-{n}", asking(3 << 10)) for n in range(2)]
        for made in holders:
            made.await_line("devices=1")
        waits = here.pod("waits", asking(2 << 10))
        waits.await_reason(r"mete.dev/gpu-memory: 2GiB of one GPU, and at most 1GiB are left on any one of this node's 2 GPUs \(2GiB on all together\)")
        holders[1].delete(wait=False)
        waits.await_line(f"total={2 * GIB}")


def test_a_kubelet_that_starts_finds_the_sums_and_the_pods():
    with node(COUNTED, slots=10, total=20, DEVICES="2xSIM") as here:
        await_sums(here, str(8 * GIB), "2k")
        holds = [here.pod(f"holds-{n}", asking(3 << 10, 500)) for n in range(2)]
        for made in holds:
            made.await_line("devices=1")
        container = [made.get()["status"]["containerStatuses"][0]["containerID"] for made in holds]
        for forgets in False, True:
            before = here.meted.registrations()
            hold = here.cluster.hold_part("kubelet")
            here.cluster.kill_part("kubelet")
            if forgets:
                here.cluster.run("sh", "-c", "rm /var/lib/kubelet/device-plugins/*")
                zero(here)
            hold.close()
            until(lambda: here.meted.registrations() > before, "meted did not register again")
            here.meted.await_registered()
            await_sums(here, str(8 * GIB), "2k")
            here.pod(f"after-{int(forgets)}", asking(500, command=("seen",))).await_end()
        assert container[0] == holds[0].get()["status"]["containerStatuses"][0]["containerID"]
        assert "running" in holds[1].get()["status"]["containerStatuses"][0]["state"]


def test_meted_is_killed_while_pods_have_gpus_and_one_waits():
    with node(COUNTED, slots=10, total=20, DEVICES="2xSIM") as here:
        await_sums(here, str(8 * GIB), "2k")
        holds = [here.pod(f"holds-{n}", asking(3 << 10)) for n in range(2)]
        for made in holds:
            made.await_line("devices=1")
        waits = here.pod("waits", asking(2 << 10))
        waits.await_reason("at most 1GiB are left")
        for _ in range(3 if REPEATED else 1):
            here.meted.kill()
            here.meted.start()
        assert here.tenant(holds[0])["limit_bytes"] == 3 * GIB
        await_sums(here, str(8 * GIB), "2k")
        holds[0].delete(wait=False)
        waits.await_line(f"total={2 * GIB}")


def over_committed(log, total):
    """The first device that had tenants with more in sum than it has, by meted's own record."""
    has, held = {}, {}
    for line in log.splitlines():
        words = dict(re.findall(r'(\w+)=("[^"]*"|\S+)', line))
        if "tenant.made" in line:
            held[words["tenant"]] = words["device"], int(words["limit_bytes"])
            has[words["device"]] = has.get(words["device"], 0) + int(words["limit_bytes"])
            if has[words["device"]] > total(words["device"]):
                return f"{words['device']}: {has[words['device']]} at {line}"
        elif "tenant.ended" in line and words["tenant"] in held:
            device, limit = held.pop(words["tenant"])
            has[device] -= limit
    return None


def crowd(choose, devices, count, largest):
    """Pods of mixed sizes, some of which wait: each has what it asked for in the end, and no GPU more than it has."""
    gpus = sum(int(part.split("x")[0]) for part in devices.split(","))
    with node(COUNTED, slots=40, total=40 * gpus, DEVICES=devices) as here:
        until(lambda: sums(here)[1].get("mete.dev/gpu-memory", "0") != "0", "no sums were written")
        sizes = [choose.choice((200, 500, 1000, 1500, 2500, largest)) for _ in range(count)]
        made = [None] * count

        def create(some):
            for i in some:
                made[i] = here.pod(f"p{i}", asking(sizes[i], choose.choice((0, 50, 100, 300)), command=("seen", "nvml=/none")))

        threads = [threading.Thread(target=create, args=(range(first, count, 4),)) for first in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for one, size in zip(made, sizes):
            assert one.await_end() == 0, one.log()
            assert seen_by(one)["total"] == size * MIB, f"{one.name}: {size} MiB were asked for: {one.log()}"
        found = dict(re.findall(r"device\.found .*uuid=(\S+) .*capacity_bytes=(\d+)", here.meted.log()))
        assert not (over := over_committed(here.meted.log(), lambda uuid: int(found[uuid]))), over


@soak
def test_pods_of_mixed_sizes_on_one_gpu():
    crowd(random.Random(1), "1xSIM", PODS // 5, 4000)


def test_pods_of_mixed_sizes_on_two_gpus():
    crowd(random.Random(2), "2xSIM", PODS * 3 // 10, 4000)


@soak
def test_pods_of_mixed_sizes_on_eight_gpus_of_two_sizes():
    crowd(random.Random(3), "6xSIM,2xT4", PODS // 2, 15000)


if __name__ == "__main__":
    run(globals())
