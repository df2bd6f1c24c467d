#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Limits that the driver enforces by itself on containers' control groups of version 2: the real meted, and the simulated driver's own."""
import contextlib
import os
import re
import subprocess
import sys

from node import *
from meted import Seat
from runner import run, skip

NONE = 2**64 - 1
TOTAL = 16 * GIB  # of the simulated GPU
CAPACITY = 15 * GIB  # without the reserve


ASK = """
import ctypes, sys
class Limits(ctypes.Structure):
    _fields_ = [("group", ctypes.c_char_p), ("soft", ctypes.c_uint64), ("hard", ctypes.c_uint64), ("used", ctypes.c_uint64)]
nvml = ctypes.CDLL(sys.argv[1] + "/libnvidia-ml.so.1")
device, limits = ctypes.c_void_p(), Limits(sys.argv[3].encode(), *map(int, sys.argv[4:]))
assert nvml.nvmlInit_v2() == 0
assert nvml.nvmlDeviceGetHandleByIndex_v2(int(sys.argv[2]), ctypes.byref(device)) == 0
if sys.argv[4:]:
    assert nvml.nvmlDeviceSetMemoryLimits_v1(device, ctypes.byref(limits)) == 0
print(nvml.nvmlDeviceGetMemoryLimits_v1(device, ctypes.byref(limits)), limits.soft, limits.hard, limits.used)
"""


def asked(node, group, device=0, limits=()):
    """What the driver answers: its result, the soft and the hard limit, and what is used. `limits`: are set before."""
    command = [sys.executable, "-c", ASK, sys.argv[2], str(device), group, *map(str, limits)]
    return tuple(map(int, subprocess.run(command, env=dict(os.environ, **node.environment), stdout=subprocess.PIPE, text=True, check=True, timeout=PATIENCE).stdout.split()))


@contextlib.contextmanager
def group_of(uid):
    """A container's group of version 2, called as the kubelet calls them."""
    with open("/proc/self/mounts") as file:
        mounts = [line.split()[1] for line in file if line.split()[2] == "cgroup2"]
    if not mounts or not os.access(mounts[0], os.W_OK):
        skip("no control groups of version 2 can be made here; `tools/test-v2` runs it where they can")
    top = f"{mounts[0]}/mete-test-{os.getpid()}-{uid[:8]}"
    folders = [top, f"{top}/pod{uid}", f"{top}/pod{uid}/4f2a"]
    os.makedirs(folders[-1])
    try:
        yield folders[-1]
    finally:
        for folder in reversed(folders):
            if os.path.isdir(folder):
                until(lambda: not open(folder + "/cgroup.procs").read())
                os.rmdir(folder)


@contextlib.contextmanager
def guest_in(node, pod, group):
    """A guest of the pod whose process is in the group when it joins."""
    seat = Seat()
    with open(group + "/cgroup.procs", "w") as file:
        file.write(str(seat.pid))
    guest = Guest(node.folder_of(pod.title()) + "/guest.sock", seat=seat)
    guest.state(0)
    try:
        yield guest
    finally:
        guest.close()


def await_limits(node, group, hard, guaranteed=True):
    """The hard limit is exactly that. The soft one is that without its part of the device's reserve, in whole MiB; or 0."""
    def is_so():
        result, soft, is_hard, _ = asked(node, group)
        wanted = hard // MIB * (CAPACITY // MIB) // (TOTAL // MIB) * MIB if guaranteed and hard != NONE else 0
        return (result, soft, is_hard) == (0, wanted, hard)
    until(is_so, lambda: f"{asked(node, group)} instead of {hard}, guaranteed: {guaranteed}\n{node.log()[-2000:]}")


def with_limits(**more):
    return Node(devices="1xSIM", environment={"METE_SIM_NATIVE_LIMITS": "on", "METE_SIM_MEMORY": str(TOTAL)}, options=("--reserve", str(TOTAL - CAPACITY)), **more)


def test_the_driver_limits_a_containers_group_as_long_as_it_has_guests():
    with with_limits() as node:
        pod = node.run("a", node.id(0), annotations={"memory": "1GiB"})
        with group_of(pod.uid) as group:
            assert asked(node, group) == (0, 0, NONE, 0)
            with guest_in(node, pod, group):
                await_limits(node, group, GIB)
                # A restarted meted knows nothing, and sets what is wanted by now.
                node.meted.kill()
                pod.annotate(memory="512MiB")
                node.restart()
                await_limits(node, group, GIB // 2)
                # No limit any more.
                pod.annotate(memory="100%")
                await_limits(node, group, NONE)
                pod.annotate(memory="2GiB")
                await_limits(node, group, 2 * GIB)
            await_limits(node, group, NONE)
        assert "limits.unsupported" not in node.log() and "limits.refused" not in node.log()


def test_a_group_that_others_share_has_no_limit():
    with with_limits() as node:
        pods = [node.run(name, node.id(number), annotations={"memory": "1GiB"}) for number, name in enumerate(("a", "b"))]
        with group_of(pods[0].uid) as group:
            with guest_in(node, pods[0], group):
                await_limits(node, group, GIB)
                with guest_in(node, pods[1], group):
                    await_limits(node, group, NONE)
                await_limits(node, group, GIB)
                # The pod's own group, and one above, are not a container's.
                with guest_in(node, pods[1], os.path.dirname(group)):
                    until(lambda: len([row for row in node.tenants() if row.guests]) == 2)
                    assert asked(node, os.path.dirname(group)) == (0, 0, NONE, 0)


def test_memory_is_guaranteed_while_all_limits_fit_in_the_device_together():
    with with_limits(overcommit="200%") as node:
        pod = node.run("a", node.id(0), annotations={"memory": "1GiB"})
        with group_of(pod.uid) as group:
            with guest_in(node, pod, group):
                await_limits(node, group, GIB)
                other = node.run("b", node.id(1), annotations={"memory": "15360MiB"})
                await_limits(node, group, GIB)
                other.annotate(memory="15361MiB")
                await_limits(node, group, GIB, guaranteed=False)
                other.annotate(memory="15360MiB")
                await_limits(node, group, GIB)
                third = node.run("c", node.id(2), annotations={"memory": "1GiB"})
                await_limits(node, group, GIB, guaranteed=False)
                third.delete()
                await_limits(node, group, GIB)


def test_a_driver_that_guarantees_nothing_limits_all_the_same():
    with with_limits() as node:
        pod, other = (node.run(name, node.id(number), annotations={"memory": "1GiB"}) for number, name in enumerate(("a", "b")))
        with group_of(pod.uid) as group, group_of(other.uid) as second:
            # Somebody else has all that the driver can guarantee.
            asked(node, os.path.dirname(group), limits=(TOTAL, TOTAL))
            with guest_in(node, pod, group), guest_in(node, other, second):
                await_limits(node, group, GIB, guaranteed=False)
                await_limits(node, second, GIB, guaranteed=False)
        said = re.findall("limits.refused .*", node.log())
        assert len(said) == 1 and said[0].endswith("the driver limits memory there, and guarantees none"), said


def test_the_key_switches_the_limits_while_pods_run():
    with with_limits(native_limits="off") as node:
        pod = node.run("a", node.id(0), annotations={"memory": "1GiB"})
        with group_of(pod.uid) as group:
            with guest_in(node, pod, group):
                node.await_log("guest.joined")
                node.configure(native_limits="on")
                await_limits(node, group, GIB)
                node.configure(native_limits="off")
                await_limits(node, group, NONE)
                # An event that concerns the group sets none.
                pod.annotate(memory="2GiB")
                node.await_log("tenant.set tenant=[0-9]+ key=memory value=.?2GiB")
                node.configure(native_limits="on")
                await_limits(node, group, 2 * GIB)
        assert "limits.refused" not in node.log()


def beside(node, group, memory):
    """A program in the group with a driver of its own: what it says after it has tried to hold so much."""
    def join():
        with open(group + "/cgroup.procs", "w") as file:
            file.write(str(os.getpid()))
    environment = dict(os.environ, LD_LIBRARY_PATH=sys.argv[2], **node.environment)
    done = subprocess.run([BUILD + "/examples/steady", "seconds=1", "kernel_us=1000", f"memory={memory}"], env=environment, preexec_fn=join,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE)
    return done.returncode, done.stdout


def test_a_program_with_a_driver_of_its_own_has_no_more_than_the_limit():
    with with_limits() as node:
        pod = node.run("a", node.id(0), annotations={"memory": "1GiB"})
        with group_of(pod.uid) as group:
            status, said = beside(node, group, "1500M")
            assert status == 0, said  # nobody has limited it yet
            with guest_in(node, pod, group):
                await_limits(node, group, GIB)
                status, said = beside(node, group, "1500M")
                assert status != 0 and "CUDA_ERROR_OUT_OF_MEMORY" in said, (status, said)
                status, said = beside(node, group, "500M")
                assert status == 0, said


def test_a_driver_without_limits_says_so_once():
    with Node(devices="1xSIM") as node:
        pod = node.run("a", node.id(0), annotations={"memory": "1GiB"})
        with group_of(pod.uid) as group:
            with guest_in(node, pod, group):
                node.await_log("guest.joined")
        assert node.log().count(" limits.unsupported ") == 1 and "limits.refused" not in node.log(), node.log()


def test_with_the_option_the_driver_is_not_even_asked():
    with Node(devices="1xSIM", options=("--no-native-limits",)) as node:
        node.run("a", node.id(0), annotations={"memory": "1GiB"})
        assert " limits." not in node.log(), node.log()


def test_gpus_that_mig_divides_have_no_limits():
    with Node(devices="1xH100", environment={"METE_SIM_NATIVE_LIMITS": "on", "METE_SIM_MIG": "on", "METE_SIM_PARTS": "0:7x1g.10gb"}) as node:
        pod = node.run("a", node.id(0), annotations={"memory": "1GiB"})
        with group_of(pod.uid) as group:
            with guest_in(node, pod, group):
                node.await_log("guest.joined")
            assert asked(node, group)[0] == 3  # NVML_ERROR_NOT_SUPPORTED
        assert node.log().count(" limits.unsupported ") == 1 and "limits.refused" not in node.log(), node.log()


if __name__ == "__main__":
    run(globals(), sys.argv[3:])
