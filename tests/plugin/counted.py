# SPDX-License-Identifier: Apache-2.0
"""Pods that are counted by amounts, and the sums of a node: for the tests of both."""
import itertools

from node import *  # noqa: F403

numbers = itertools.count()


def sums(node, part="capacity"):
    """The node's sums, in bytes and thousandths, as the API server has them."""
    there = node.api.node()["status"].get(part, {})
    units = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}

    def plain(text):
        return text and (int(text[:-1]) * units[text[-1]] if text[-1] in units else int(text))
    return plain(there.get("mete.dev/gpu-memory")), plain(there.get("mete.dev/gpu-milli"))


def await_sums(node, memory, milli):
    until(lambda: sums(node) == sums(node, "allocatable") == (memory, milli), lambda: f"{sums(node)} {sums(node, 'allocatable')}\n{node.log()[-2000:]}")


def container(name="main", gpus=1, memory=None, milli=None):
    requests = {"mete.dev/gpu": gpus and str(gpus), "mete.dev/gpu-memory": memory, "mete.dev/gpu-milli": milli and str(milli)}
    return {"name": name, "resources": {"requests": {key: value for key, value in requests.items() if value}}}


def asks(node, name, *containers, priority=0, init=(), **more):
    """A pod whose containers the kubelet has given ids of their own."""
    spec = {"containers": list(containers), "initContainers": list(init), "priority": priority}
    pod = node.pod(name, spec=spec, **more)
    for one in containers:
        gpus = int(one["resources"]["requests"].get("mete.dev/gpu", 0))
        if gpus:
            pod.admit(*(f"slot-{next(numbers) % 1000:03d}" for _ in range(gpus)), container=one["name"])
    return pod


def devices_of(node, pod, name="main"):
    return sorted(row.device for row in node.tenants() if row.name == pod.title(name))


def amounts(**more):
    return Node(**{"counted": "amounts", "slots": 10, "share": {"memory": "25%"}, **more})
