#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A device that is not well, and what Prometheus is told."""
import re

from harness import GIB, MIB, QUIET, node, pod, run, seen_by, soak, until

SHARE = "share: {memory: 1GiB}\nmetrics: 127.0.0.1:9400"


def metrics(here):
    """{name: {labels as they stand: value}}"""
    found = {}
    for line in here.cluster.run("busybox", "wget", "-q", "-O", "-", "http://127.0.0.1:9400/metrics").splitlines():
        if row := re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line):
            found.setdefault(row[1], {})[row[2] or ""] = float(row[3])
    return found


def faults(here, text):
    """Of the simulated driver, which reads this file again and again."""
    here.meted.changed = True
    here.cluster.run("sh", "-c", f"echo '{text}' >{here.meted.sim}/faults.new; mv {here.meted.sim}/faults.new {here.meted.sim}/faults")


def test_prometheus_is_told_of_pods_by_name():
    with node(SHARE, slots=4) as here:
        made = here.pod("shown", pod(command=["seen", f"take={100 * MIB}", "hold=1"], slots=1))
        made.await_line("take=granted")
        rows = metrics(here)
        labels, limit = next((labels, value) for labels, value in rows["mete_tenant_memory_limit_bytes"].items() if 'pod="shown"' in labels)
        assert f'namespace="{here.namespace}"' in labels and 'container="c"' in labels, labels
        assert limit == GIB
        assert rows["mete_tenant_memory_allocated_bytes"][labels] >= 100 * MIB
        assert list(rows["mete_device_slots"].values()) == [4.0]
        assert list(rows["mete_plugin_registered"].values()) == [1.0] and list(rows["mete_plugin_api_server"].values()) == [1.0]


def worker(here, name="works", **more):
    """Faults of the simulated driver come with kernels."""
    made = here.pod(name, pod(command=["steady", "kernel_us=1000", "seconds=36000", "report_ms=1000"], slots=1, **more))
    made.await_line("kernels=")
    return made


def events(here):
    """Reasons of mete's events about the node."""
    return [one["reason"] for one in here.cluster.get("/api/v1/namespaces/default/events")["items"]
            if one["involvedObject"]["kind"] == "Node" and one["source"].get("component") == "mete"]


def test_no_slot_is_given_of_a_device_that_fails():
    with node(SHARE, slots=4) as here:
        stays = worker(here)
        faults(here, "xid=48")
        here.cluster.await_resource("mete.dev/gpu", 0)
        until(lambda: list(metrics(here)["mete_device_healthy"].values()) == [0.0], "the metrics do not say so")
        until(lambda: "GPUUnhealthy" in events(here), "no event of the node says so")
        assert "running" in stays.get()["status"]["containerStatuses"][0]["state"]


@soak
def test_all_slots_are_given_again_when_a_device_was_quiet():
    """For a minute."""
    with node(SHARE, slots=4) as here:
        worker(here)
        faults(here, "xid=48")
        here.cluster.await_resource("mete.dev/gpu", 0)
        faults(here, "")
        here.cluster.await_resource("mete.dev/gpu", 4, QUIET)
        until(lambda: "GPURecovered" in events(here), "no event of the node says that it is over")
        works = here.pod("after", pod(command=["seen"], slots=1))
        assert works.await_end() == 0
        assert seen_by(works)["total"] == GIB


@soak
def test_an_error_of_a_program_takes_no_device_away():
    """Xid 13 is the program's own making."""
    with node(SHARE, slots=4) as here:
        worker(here)
        faults(here, "xid=13")
        until(lambda: sum(metrics(here).get("mete_device_xid_errors_total", {}).values()) >= 1, "the Xid was never counted")
        assert list(metrics(here)["mete_device_healthy"].values()) == [1.0]
        assert here.cluster.node()["status"]["allocatable"]["mete.dev/gpu"] == "4"


@soak
def test_of_two_devices_one_is_lost():
    with node(SHARE, slots=2, total=4, DEVICES="2xSIM") as here:
        both = [worker(here, f"works-{i}") for i in range(4)]
        faults(here, "lost:1")
        here.cluster.await_resource("mete.dev/gpu", 2)
        for made in both:
            made.delete(wait=False)
        for made in both:
            made.await_gone()
        pods = [here.pod(f"left-{i}", pod(command=["seen", "nvml=/none"], slots=1)) for i in range(2)]
        assert [made.await_end() for made in pods] == [0, 0], [made.log() for made in pods]
        assert len({seen_by(made)["uuid"] for made in pods}) == 1


if __name__ == "__main__":
    run(globals())
