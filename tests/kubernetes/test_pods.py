#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pods with slots of one simulated GPU: they compute what they compute alone, and each has what it is entitled to."""
import os
import shutil
import subprocess
import tempfile

import images
from harness import BUILD, GIB, MIB, Skipped, alone, checksum, needed, node, pod, run, seen_by, soak, until

SHARE = "share: {memory: 1GiB}"
# As tools/showcase.py shows them: small enough for an interpreter.
WORKLOADS = {
    "vector-add": ["rounds=6"],
    "matmul": ["size=64", "rounds=3"],
    "train": ["steps=40", "ballast=128M"],
    "inference": ["requests=40", "rate=100"],
    "notebook": ["cells=5", "think=60"],
    "torture": ["threads=3", "operations=120", "largest=64M"],
    "graph-loop": ["launches=30"],
}


def test_pods_that_share_a_gpu_compute_the_same_as_alone():
    with node("share: {memory: 12%}", slots=8) as here:
        pods = {name: here.pod(name, pod(command=[name, *arguments], slots=1)) for name, arguments in WORKLOADS.items()}
        for name, made in pods.items():
            assert made.await_end() == 0, made.log()
            assert checksum(made.log()) == alone(name, *WORKLOADS[name]), name


def test_a_program_that_takes_all_it_can_gets_its_limit_and_no_more():
    with node(SHARE, slots=4) as here:
        made = here.pod("hoarder", pod(command=["hoarder", f"limit={GIB}"], slots=1))
        assert made.await_end() == 0, made.log()
        assert checksum(made.log())


@soak
def test_tinygrad_trains_in_a_container():
    with node("share: {memory: 50%}", slots=2) as here:
        here.cluster.add_image("python", images.python)
        train = ["sh", "-c", "[ -e /opt/tinygrad_train.py ] || { echo PyPI was not reached; exit 77; }; exec python3 /opt/tinygrad_train.py"]
        pods = [here.pod(f"tinygrad-{i}", pod(image=images.PYTHON, command=train, slots=1, env={"DEV": "CUDA:PTX"})) for i in (1, 2)]
        ends = [made.await_end() for made in pods]
        if ends == [77, 77]:
            raise Skipped(needed.lacking("pypi") or "there is no tinygrad in the image, as PyPI was not reached then; run it again")
        assert ends == [0, 0], [made.log() for made in pods]
        assert len({checksum(made.log()) for made in pods}) == 1, [made.log() for made in pods]


def test_a_container_sees_its_slot_as_the_whole_gpu():
    with node(SHARE, slots=4) as here:
        made = here.pod("seen", pod(command=["seen", f"take={512 * MIB}"], slots=1, cheap=False))
        assert made.await_end() == 0
        saw = seen_by(made)
        assert saw["devices"] == saw.get("nvml_devices") == 1, made.log()
        assert saw["total"] == saw["whole"] == saw["nvml_total"] == GIB, saw
        assert saw["take"] == "granted", saw


def test_more_than_the_slot_is_refused_and_the_neighbour_has_its_own():
    with node(SHARE, slots=4) as here:
        first = here.pod("first", pod(command=["seen", f"take={800 * MIB}", "hold=1"], slots=1))
        first.await_line("take=granted")
        greedy = here.pod("greedy", pod(command=["seen", f"take={1100 * MIB}"], slots=1))
        assert greedy.await_end() == 0
        assert seen_by(greedy)["take"] == "refused", greedy.log()
        rows = here.meted.ps()
        assert rows[f"{here.namespace}/first/c"]["limit_bytes"] == GIB, rows


def test_init_containers_have_the_share_of_the_containers_after_them():
    with node(SHARE, slots=4) as here:
        made = here.pod("init", pod(command=["seen"], init=["sh", "-c", "seen | grep -q total=1073741824"], slots=1))
        assert made.await_end() == 0, made.get()["status"]
        assert seen_by(made)["total"] == GIB


def test_users_other_than_root_and_roots_that_cannot_be_written():
    with node(SHARE, slots=4) as here:
        security = {"runAsUser": 65534, "runAsGroup": 65534, "readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]}}
        made = here.pod("nobody", pod(command=["sh", "-c", "id -u; seen; vector-add rounds=6"], slots=1, security=security))
        assert made.await_end() == 0, made.log()
        assert seen_by(made)["total"] == GIB
        assert checksum(made.log()) == alone("vector-add", "rounds=6")


@soak
def test_two_slots_of_two_devices_are_two_gpus():
    with node("share: {memory: 1GiB}", slots=1, total=2, DEVICES="2xSIM") as here:
        made = here.pod("two", pod(command=["seen"], slots=2))
        assert made.await_end() == 0, made.log()
        assert seen_by(made)["devices"] == 2


def test_a_pod_that_asks_for_nothing_sees_nothing_beside_pods_that_have_a_gpu():
    with node(SHARE, slots=4) as here:
        here.pod("has", pod(command=["seen", "hold=1"], slots=1)).await_line("devices=1")
        for name, more in (("blind", {}), ("strict", {"runtime": "toolkit-privileged", "env": {"NVIDIA_VISIBLE_DEVICES": "all"}})):
            made = here.pod(name, pod(command=["sh", "-c", "seen; ls /usr/lib/mete /run/mete /dev/shm; env | grep METE; true"], **more))
            assert made.await_end() == 0
            assert "devices=0 why=no driver" in made.log(), made.log()
            assert "METE" not in made.log() and "libmete" not in made.log(), made.log()


def test_a_slot_holds_under_a_runtime_that_hands_out_the_driver():
    """NVIDIA's images ask its toolkit for all devices: with a slot they have the slot."""
    with node(SHARE, slots=4) as here:
        made = here.pod("image", pod(command=["seen"], slots=1, env={"NVIDIA_VISIBLE_DEVICES": "all"}, runtime="toolkit-anyone"))
        assert made.await_end() == 0
        assert seen_by(made)["total"] == GIB, made.log()


@soak
def test_all_slots_come_back():
    with node("share: {memory: 25%}", slots=4) as here:
        for round in range(3):
            pods = [here.pod(f"round-{round}-{i}", pod(command=["seen"], slots=1)) for i in range(4)]
            assert [made.await_end() for made in pods] == [0] * 4
            here.end_pods()
        until(lambda: not here.meted.ps(), "tenants were left behind")


if __name__ == "__main__":
    run(globals())
