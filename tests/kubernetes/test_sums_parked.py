#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pods that are counted by amounts where no single GPU has room, and a batch pod is in the way: it is parked, and nobody is killed."""
from harness import MIB, alone, node, run, until
from test_sums import COUNTED, asking, await_sums


def doing(here, made):
    return here.tenant(made)["doing"]


def test_a_batch_pod_is_parked_where_only_the_sum_has_room_and_then_goes_on():
    training = ["train", "steps=40", "ballast=200M", "stdin=1"]
    beside = f"mkfifo /tmp/in; exec 3<>/tmp/in; {' '.join(training)} <&3 & steady memory=100M seconds=36000 report_ms=100; wait"
    urgently = ["steady", "memory=180M", "seconds=36000", "report_ms=100"]
    with node(COUNTED + "\nmost: {swap: auto}", slots=10, total=20, DEVICES="2xSIM", MEMORY="640M") as here:
        await_sums(here, str(1280 * MIB), "2k")
        here.pod("holds", asking(480)).await_line("devices=1")
        batch = here.pod("batch", asking(480, command=["sh", "-c", beside], annotations={"class": "batch", "swap": "auto"}))
        batch.await_line("kernels=[1-9]")
        batch.await_line("train: half")
        urgent = here.pod("urgent", asking(256, command=urgently))
        urgent.await_line("kernels=[1-9]")
        until(lambda: doing(here, batch) == "yields", "the batch pod was never parked")
        assert here.tenant(urgent)["device"] == here.tenant(batch)["device"]
        urgent.delete()
        until(lambda: doing(here, batch) in ("computes", "running"), "the batch pod never went on")
        for where in "half", "done":
            batch.await_line(f"train: {where}")
            batch.exec("sh", "-c", "echo > /tmp/in")
        assert batch.await_line(" ok checksum=([0-9a-f]+)")[1] == alone(*training)
        status = batch.get()["status"]["containerStatuses"][0]
        assert status["restartCount"] == 0 and "running" in status["state"], status


if __name__ == "__main__":
    run(globals())
