# SPDX-License-Identifier: Apache-2.0
"""Containers of sharing.mps that start and end by themselves, with a daemon or a namespace for each, while meted is killed at each step of it."""
from node import *
from kubelet import Refused
from mps import await_ready


def slot(node, pod):
    return node.record(pod.title())[0]


def started(node, name, *ids):
    """As the kubelet does, again and again: on a busy machine a daemon may take longer than one question."""
    return again(node.pod(name).admit(*ids))


def again(pod):
    while True:
        try:
            return pod.start()
        except Refused as refused:
            assert "the MPS control daemon" in str(refused), refused


STEPPING = """#!/bin/sh
read n <{0}/n; n=$((n + 1)); echo $n >{0}/n
read at <{0}/at; read whom <{0}/pid; pid=$whom
[ $whom != daemon ] || {{ pid=0; read pid <"$CUDA_MPS_PIPE_DIRECTORY/nvidia-cuda-mps-control.pid"; }} 2>/dev/null
[ "$n before" != "$at" ] || [ $pid = 0 ] || kill -9 $pid
{1} "$@"; status=$?
[ $whom != daemon ] || {{ pid=0; read pid <"$CUDA_MPS_PIPE_DIRECTORY/nvidia-cuda-mps-control.pid"; }} 2>/dev/null
[ "$n after" != "$at" ] || [ $pid = 0 ] || kill -9 $pid
exit $status
"""


class Stepping:
    """A control program that kills meted before or after its n-th run from now on, or the daemon that it talks to."""

    def __init__(self, node):
        self.node, self.folder = node, node.folder + "/steps"
        os.mkdir(self.folder)
        with open(self.folder + "/nvidia-cuda-mps-control", "w") as file:
            file.write(STEPPING.format(self.folder, BUILD + "/sim/nvidia-cuda-mps-control"))
        os.chmod(self.folder + "/nvidia-cuda-mps-control", 0o755)
        node.environment["PATH"] = self.folder + ":" + os.environ["PATH"]
        self.set("n", 0)
        self.set("at", "never")
        self.set("pid", 0)

    def set(self, name, value):
        with open(f"{self.folder}/{name}", "w") as file:
            file.write(f"{value}\n")

    def at(self, n, when, whom=None):
        self.set("pid", whom or self.node.meted.process.pid)
        self.set("n", 0)
        self.set("at", f"{n} {when}")


def restart_after_death(node, steps):
    node.meted.wait()
    steps.set("at", "never")
    node.restart()
    await_ready(node)


def kill_at_each_start(node, steps, gone):
    """`gone` waits until nothing is left of a container."""
    for n in range(1, 5):
        for when in "before", "after":
            steps.at(n, when)
            pod = node.pod(f"start{n}{when}").admit(node.id(0))
            call = pod.begin()
            node.meted.wait()
            node.kubelet.refusal(call)
            pod.delete()
            restart_after_death(node, steps)
            gone(node)


def kill_at_each_end(node, steps, gone):
    for n in range(1, 3):
        for when in "before", "after":
            pod = started(node, f"end{n}{when}", node.id(0))
            steps.at(n, when)
            pod.delete()
            restart_after_death(node, steps)
            gone(node)


def start_again_at_each_start(node, steps, program, gone):
    for n in range(1, 5):
        steps.at(n, "after")
        pod = node.pod(f"p{n}").admit(node.id(0))
        call = pod.begin()
        node.meted.wait()
        node.kubelet.refusal(call)
        restart_after_death(node, steps)
        again(pod)
        with program(node, pod) as allocate:
            assert allocate(1) == 0
        pod.delete()
        gone(node)
