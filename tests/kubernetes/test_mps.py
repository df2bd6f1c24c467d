#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sharing.mps of NVIDIA's configuration, on a real kubelet: meted runs the control daemon (here the simulator's)."""
import contextlib
import os

from harness import BUILD, GIB, MIB, pod, run, until
from test_nvidia import GPU, as_nvidia

ROOT = "/run/mps"  # of the node
PID = "cat /run/mps/*/pipe/nvidia-cuda-mps-control.pid"
CONFIG = f"version: v1\nflags: {{mpsRoot: {ROOT}}}\nsharing: {{mps: {{resources: [{{name: {GPU}, replicas: 2}}]}}}}\n"


@contextlib.contextmanager
def mps():
    with as_nvidia({"default": CONFIG}, 2, PATH=f"{BUILD}/sim:{os.environ['PATH']}") as here:
        try:
            yield here
        finally:
            here.end_pods()
            here.meted.stop()
            here.cluster.run("sh", "-c", f"kill -9 $({PID}) || true; umount -l {ROOT}/*; rm -rf {ROOT}")


def daemon(here):
    return here.cluster.run("sh", "-c", PID).strip()


def two_processes(here, name):
    """Each wants more than half of a replica's 2 GiB, and neither ends."""
    return here.pod(name, pod(command=["sh", "-c", f"seen take={1200 * MIB} hold=1 & seen take={1200 * MIB} hold=1"], slots=1, resource=GPU))


def inside(here, made):
    """A new process of the container."""
    return here.cluster.kubectl("exec", "-n", here.namespace, made.name, "--", "seen", f"take={64 * MIB}")


def test_limits_hold_per_pod_and_pods_outlive_daemons_and_meteds():
    with mps() as here:
        pods = [two_processes(here, name) for name in ("a", "b")]
        for made in pods:
            made.await_line("take=refused")
            assert f"total={2 * GIB} " in made.await_line("seen .*take=granted")[0], "and sees a replica"
        assert "nosymfollow" in here.cluster.run("grep", f" {ROOT}/GPU-.* tmpfs", "/proc/self/mounts"), "what containers write there is bounded"
        first = daemon(here)
        asked = f"CUDA_MPS_PIPE_DIRECTORY=$(echo {ROOT}/*/pipe) {BUILD}/sim/nvidia-cuda-mps-control"
        server = here.cluster.run("sh", "-c", f"echo get_server_list | {asked}").strip()
        assert len(here.cluster.run("sh", "-c", f"echo get_client_list {server} | {asked}").split()) == 4, "all are clients"

        ready = here.meted.log().count("mps.ready")
        here.cluster.run("kill", "-9", first)
        until(lambda: here.meted.log().count("mps.ready") > ready, "the daemon is not started again")
        assert daemon(here) != first
        for made in pods:
            made.await_event("the MPS control daemon of its GPU has ended")
            assert "take=granted" in inside(here, made)

        second = daemon(here)
        here.meted.kill()
        ready = here.meted.log().count("mps.ready")
        here.meted.start()
        until(lambda: here.meted.log().count("mps.ready") > ready, "the next meted did not ask")
        assert daemon(here) == second, "it is taken over"
        for made in pods:
            assert "take=granted" in inside(here, made)
            state, = made.get()["status"]["containerStatuses"]
            assert "running" in state["state"] and state["restartCount"] == 0, (made.name, state)


if __name__ == "__main__":
    run(globals())
