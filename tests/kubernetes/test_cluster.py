#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cluster that the other tests stand on, without mete: what it shows, and that it leaves nothing behind."""
import glob
import os
import select
import subprocess
import sys

from harness import BUILD, Never, node, pod, run, until
from images import WORK


def test_a_pod_runs_a_program_and_its_checks():
    with node() as here:
        made = here.pod("plain", pod(command=["sh", "-c", "echo it is $(id -u); exec sleep 1000"], cheap=False))
        assert made.await_line("it is (.*)")[1] == "0"
        assert made.exec("cat", "/etc/hostname").strip() == "plain"


def test_a_pod_that_asks_for_nothing_sees_no_gpu():
    with node() as here:
        assert here.pod("blind", pod(command=["seen"])).await_line("seen (.*)")[1] == "devices=0 why=no driver"


def test_the_imitated_toolkit_gives_the_driver_to_containers_that_name_devices():
    """The worth of the tests under that runtime: it does hand the bare driver out."""
    asks = {"NVIDIA_VISIBLE_DEVICES": "all"}
    with node() as here:
        said = here.pod("toolkit", pod(command=["seen"], env=asks, runtime="toolkit-anyone")).await_line("seen (.*)")[1]
        assert said.startswith("devices=1 "), said
        said = here.pod("void", pod(command=["seen"], env={"NVIDIA_VISIBLE_DEVICES": "void"}, runtime="toolkit-anyone")).await_line("seen (.*)")[1]
        assert said == "devices=0 why=no driver", said
        said = here.pod("strict", pod(command=["seen"], env=asks, runtime="toolkit-privileged")).await_line("seen (.*)")[1]
        assert said == "devices=0 why=no driver", said


class Failure(Exception):
    """Of a test, in its middle."""


def test_objects_of_a_test_that_fails_are_gone_when_the_next_one_begins():
    """Also where its pods cannot be ended: the next meted would find another one there, and the kubelet two."""
    def refuse():
        raise Never("they never go")

    for refuses in False, True:
        try:
            with node("share: {memory: 1GiB}", slots=2) as here:
                here.pod("left", pod(command=["seen", "hold=1"], slots=1)).await_line("^seen ")
                if refuses:
                    here.end_pods = refuse
                raise Failure
        except (Failure, Never):
            pass
        assert here.meted.process.poll() == 0, "meted was left"
        until(lambda: here.namespace not in [one["metadata"]["name"] for one in here.cluster.get("/api/v1/namespaces")["items"]],
              "the namespace was left")


def test_a_cluster_ends_with_the_process_that_had_it_however_that_ends():
    """A process that is killed in the middle, beside this cluster."""
    child = subprocess.Popen([sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "harness.py"), BUILD, "--hold"],
                             stdout=subprocess.PIPE, text=True, env={**os.environ, "METE_CLUSTER": ""})
    folder, keeper, unshare = child.stdout.readline().split()
    # cgroup v1: one in each hierarchy; v2: one
    groups = glob.glob(f"/sys/fs/cgroup/*/mete-cluster-{unshare}") + glob.glob(f"/sys/fs/cgroup/mete-cluster-{unshare}")
    assert groups and os.path.exists(f"{folder}/state")
    end = os.pidfd_open(int(keeper))
    child.kill()
    child.wait()
    select.select([end], [], [], 300)
    os.close(end)
    assert not os.path.exists(f"/proc/{unshare}") and not os.path.exists(f"{folder}/state") and not os.path.exists(f"{folder}/run")
    assert not any(map(os.path.exists, groups)), groups
    subprocess.run(["rm", "-rf", folder], check=True)


if __name__ == "__main__":
    run(globals())
