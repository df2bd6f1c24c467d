#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""/metrics: devices, tenants and their processes."""
from metrics import Metrics
from node import *
from meted import run
from test_nvidia_mig import apply, found
from test_plugin_claims import claims


def test_devices_have_the_labels_that_dcgm_gives_them():
    with Metrics() as metrics:
        rows = metrics.rows("mete_device_memory_bytes")
        assert [row["gpu"] for row, _ in rows] == ["0", "1"], rows
        for labels, _ in rows:
            assert set(labels) == {"gpu", "UUID", "device", "modelName", "Hostname"}, labels
            assert labels["UUID"].startswith("GPU-") and labels["device"] == "nvidia" + labels["gpu"] and labels["Hostname"] == NODE, labels


def test_processes_are_listed_with_their_pod_by_the_name_that_other_tools_read():
    with Metrics() as metrics:
        pod = metrics.node.run("a", metrics.node.id(0))
        assert metrics.rows("gpu_process_memory_bytes") == []
        with metrics.steady(pod, "memory=100M") as program:
            row = until(lambda: (found := metrics.rows("gpu_process_memory_bytes")) and found[0][1] >= 100e6 and found[0][0], "no process was shown")
            assert (row["namespace"], row["pod"], row["container"]) == ("ns", "a", "main"), row
            assert (row["pid"], row["process_name"], row["uuid"]) == (str(program.pid), "steady", row["UUID"]), row
        until(lambda: metrics.rows("gpu_process_memory_bytes") == [], "the process has ended")


def test_a_claims_tenant_and_its_processes_are_in_the_claims_namespace():
    port = free_port()
    with claims(metrics=f"127.0.0.1:{port}") as (node, made, caller):
        made.memory = "256Mi"
        made.answer_all()
        caller.prepare("c0", namespace="other")
        assert caller.answer("c0").startswith("ok "), caller.answer("c0")
        metrics, wanted = Metrics(node, port), {"namespace": "other", "pod": "", "container": "other/c0"}
        assert metrics.of("mete_tenant_memory_limit_bytes", **wanted) == 256 * MIB, metrics.rows("mete_tenant_memory_limit_bytes")
        folder, = os.listdir(node.place + "/tenants")
        with metrics.steady_in(f"{node.place}/tenants/{folder}", "memory=100M"):
            until(lambda: (metrics.of("gpu_process_memory_bytes", **wanted) or 0) >= 100e6, lambda: f"its process was not shown: {metrics.rows('gpu_process_memory_bytes')}")


def test_how_long_a_tenant_has_launched_nothing_is_told():
    """Without turns, and without anything that makes guests report whether they are busy."""
    with Metrics() as metrics:
        pod, other = metrics.node.run("a", metrics.node.id(0)), metrics.node.run("b", metrics.node.id(0, device=1))

        def since(name):
            return metrics.of("mete_tenant_since_last_launch_seconds", pod=name)

        with metrics.steady(pod, "stdin=1", "kernel_us=1000") as program, metrics.steady(other, device=1):
            until(lambda: metrics.of("mete_tenant_processes", pod="a") == metrics.of("mete_tenant_processes", pod="b") == 1, "they never joined")
            program.stdin.write(b"\n")
            program.stdin.flush()  # it rests
            until(lambda: (since("a") or 0) > 11, lambda: f"resting since {since('a')}")
            until(lambda: (since("b") or 99) < since("a"), lambda: f"{since('b')} of the busy one, and {since('a')}")
            rested = since("a")
            program.stdin.write(b"\n")
            program.stdin.flush()
            until(lambda: (since("a") or rested) < rested, lambda: f"it has gone on, and {since('a')}")


def test_time_that_was_due_and_not_had_is_told():
    with Metrics(devices="1xSIM", most={"weight": 1000}) as metrics:
        slow, short = (metrics.node.run(name, metrics.node.id(n), annotations={"weight": weight}) for n, (name, weight) in enumerate((("slow", "100"), ("short", "200"))))
        # Whose kernels take two seconds cannot be stopped in between.
        with metrics.steady(slow, "kernel_us=2000000", "ahead=2"), metrics.steady(short, "kernel_us=1000"):
            until(lambda: 0 < (metrics.of("mete_tenant_time_lacking_ratio", pod="short") or 0) <= 1, "nothing was lacking beside kernels of two seconds")


def test_a_device_that_mig_has_taken_is_not_healthy_and_its_series_end_with_its_last_tenant():
    with Metrics(devices="1xH100", slots=2, environment={"METE_SIM_PARTS": "0:2x3g.40gb"}) as metrics:
        node, name = metrics.node, "mete_device_healthy"
        kept, free = sorted(found(node), key=lambda uuid: uuid != node.uuid[0])
        pod = node.run("a", node.id(0))
        assert [value for _, value in metrics.rows(name)] == [1, 1], metrics.rows(name)
        apply(node, **{"1g.10gb": 7})
        until(lambda: metrics.of(name, UUID=kept) == 0, lambda: f"what is gone has a tenant, and is healthy: {metrics.rows(name)}")
        until(lambda: sorted(value for _, value in metrics.rows(name)) == [0] + [1] * 7, lambda: f"instead: {metrics.rows(name)}")
        assert metrics.of(name, UUID=free) is None, "it is gone, and nobody has it"
        pod.delete()
        until(lambda: metrics.of(name, UUID=kept) is None, lambda: f"its last tenant has left: {metrics.rows(name)}")
        assert [value for _, value in metrics.rows(name)] == [1] * 7, metrics.rows(name)
        apply(node, **{"3g.40gb": 2})
        until(lambda: metrics.of(name, UUID=kept) == metrics.of(name, UUID=free) == 1, lambda: f"they are back: {metrics.rows(name)}")


if __name__ == "__main__":
    run(globals(), at_once=4)
