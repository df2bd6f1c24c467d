#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Processes in pods that use a device and are not guests: reported, killed, or left alone."""
import contextlib
import http.client
import os
import subprocess

from node import *
from meted import run


def make_group(uid, hierarchy=None):
    """A cgroup that is called as a pod's, in a hierarchy where one can be made."""
    require("cgroup")
    group = f"{hierarchy or needed.finding('cgroup')['found']}/mete-test-{os.getpid()}-{uid[:8]}/pod{uid}"
    os.makedirs(group)
    return group


def hierarchies():
    """One of each version of control groups that is mounted."""
    with open("/proc/self/mounts") as file:
        mounts = [line.split() for line in file]
    return {version: next(mount[1] for mount in mounts if mount[2] == version and "cpuset" not in mount[1])
            for version in ("cgroup", "cgroup2") if any(mount[2] == version and "cpuset" not in mount[1] for mount in mounts)}


def stranger_in(node, uid, command=None, hierarchy=None):
    """A program on device 0 that no guest announced, in a cgroup that is called as a pod's."""
    group = make_group(uid, hierarchy)
    environment = dict(os.environ, LD_LIBRARY_PATH=sys.argv[2], **node.environment)
    program = subprocess.Popen(command or [BUILD + "/examples/steady", "seconds=600", "kernel_us=50000"], env=environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(group + "/cgroup.procs", "w") as file:
        file.write(str(program.pid))
    return program, group


def leave(program, group):
    program.kill()
    program.wait()
    for folder in group, os.path.dirname(group):
        until(lambda: not open(folder + "/cgroup.procs").read())
        os.rmdir(folder)


def test_a_process_that_uses_a_device_unannounced_is_reported_or_killed():
    of_the_share = {"share": {"unannounced": "report"}, "unannounced": "kill"}
    # As long as may be: figures that list them are cut before the verdict.
    long = {"memory": "0" * 58 + "10%", "weight": "0" * 58 + "50", "guarantee": "0" * 60 + "%", "cap": "0" * 58 + "50%"}
    started = []
    with contextlib.ExitStack() as nodes:  # all at once: each is looked at every ten seconds
        for mode, config, marks in (("report", {"unannounced": "report"}, {}), ("kill", {"unannounced": "kill"}, {}), ("report", of_the_share, {}),
                                    ("kill", {"share": {"unannounced": "kill"}}, {}), ("kill", {}, {"unannounced": "kill"}), ("kill", {"unannounced": "kill"}, long)):
            node = nodes.enter_context(Node(**config))
            pod = node.run("a", node.id(0), annotations=marks)
            program, group = stranger_in(node, pod.uid)
            nodes.callback(leave, program, group)
            started.append((mode, node, pod, program))
        for mode, node, pod, program in started:
            node.await_log(f"process.unannounced pid={program.pid} pod=ns/a uid={pod.uid} ")
            event, = until(lambda: node.api.events_of("a"))
            assert event["reason"] == ("GPUProcessKilled" if mode == "kill" else "GPUProcessUnannounced"), event
            assert event["involvedObject"]["uid"] == pod.uid and f"process {program.pid} uses device {node.uuid[0]} without mete" in event["message"], event
            if mode == "kill":
                assert program.wait(timeout=PATIENCE) == -signal.SIGKILL
            else:
                for device in 1, 0:  # another look or two
                    launch(node, "xid=79@1", device)
                    node.await_log(f"device.unhealthy .*{node.uuid[device]}")
                assert program.poll() is None


def test_a_uid_of_a_static_pod_is_one():
    """The kubelet makes it of 32 digits, without dashes: a process in such a pod is no less of a stranger."""
    with Node(devices="1xSIM", unannounced="kill") as node:
        program, group = stranger_in(node, uuids.uuid4().hex)
        try:
            assert program.wait(timeout=PATIENCE) == -signal.SIGKILL
            node.await_log(f"process.unannounced pid={program.pid} ")
        finally:
            leave(program, group)


def test_strangers_are_seen_in_either_version_of_control_groups():
    """In each that this machine has: most have both, or version 2."""
    with Node(devices="1xSIM", unannounced="kill") as node, contextlib.ExitStack() as programs:
        started = []
        for hierarchy in hierarchies().values():
            program, group = stranger_in(node, str(uuids.uuid4()), hierarchy=hierarchy)
            programs.callback(leave, program, group)
            started.append(program)
        for program in started:
            assert program.wait(timeout=PATIENCE) == -signal.SIGKILL


# It announces itself, for NVML, and uses the driver that it brought. Then it does what it is told: bytes to allocate.
BRINGS_A_DRIVER = """
import ctypes, sys
nvml, cuda = ctypes.CDLL(sys.argv[1]), ctypes.CDLL(sys.argv[2])
handle, memory = ctypes.c_void_p(), (ctypes.c_ulonglong * 3)()
assert nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle)) == 0
assert nvml.nvmlDeviceGetMemoryInfo(handle, memory) == 0
device, context, address = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_ulonglong()
assert cuda.cuInit(0) == 0 and cuda.cuDeviceGet(ctypes.byref(device), 0) == 0 and cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device) == 0
for line in sys.stdin:
    print(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(int(line))), flush=True)
"""


def with_a_driver_of_its_own(node, pod):
    group = make_group(pod.uid)
    environment = dict(os.environ, METE_SOCKET=node.folder_of(pod.title()) + "/guest.sock", METE_DRIVER=sys.argv[2], **node.environment)
    program = subprocess.Popen([sys.executable, "-c", BRINGS_A_DRIVER, BUILD + "/guest/12.9/lib/libnvidia-ml.so.1", sys.argv[2] + "/libcuda.so.1"],
                               env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    with open(group + "/cgroup.procs", "w") as file:
        file.write(str(program.pid))
    return program, group


def allocate(program, size):
    program.stdin.write(f"{size}\n")
    return program.stdout.readline()


def test_a_process_that_announces_itself_and_brings_a_driver_is_held_to_its_limit():
    """mete's NVML makes it a guest, so that it is no stranger: what it has is measured."""
    port = free_port()
    with contextlib.ExitStack() as nodes:
        for mode, metrics in ("report", port), ("kill", None):
            node = nodes.enter_context(Node(devices="1xSIM", unannounced=mode, metrics=metrics and f"127.0.0.1:{metrics}"))
            pod = node.run("a", node.id(0), annotations={"memory": "1GiB"})
            program, group = with_a_driver_of_its_own(node, pod)
            nodes.callback(leave, program, group)
            assert allocate(program, 2 * GIB) == "0\n"
            node.await_log(f"container.over pod=ns/a .*uuid={node.uuid[0]} bytes=2[0-9]* limit={GIB}")
            event = until(lambda: [event for event in node.api.events_of("a") if event["reason"] == "GPUMemoryOverLimit"])[0]
            assert re.search(r"container main has 2\S+[MG]iB of device \S+ by measurement, and its limit is 1GiB", event["message"]), event
            if mode == "kill":
                assert program.wait(timeout=PATIENCE) == -signal.SIGKILL
                killed = until(lambda: [event for event in node.api.events_of("a") if event["reason"] == "GPUProcessKilled"])[0]
                assert f"process {program.pid} has more of device" in killed["message"], killed
                continue
            assert program.poll() is None
            row = node.tenant(pod.title())
            assert row.over >= GIB, row
            client = http.client.HTTPConnection("127.0.0.1", port)
            client.request("GET", "/metrics")
            assert re.search(r'^mete_tenant_over_limit\{.*pod="a".*\} 1$', client.getresponse().read().decode(), re.M)


def test_a_process_with_memory_granted_under_a_higher_limit_is_not_killed():
    """It is over its limit, which was lowered, and has nothing that it was not given."""
    with Node(devices="1xSIM", unannounced="kill", most={"memory": "100%"}) as node:
        pod = node.run("a", node.id(0), annotations={"memory": "3GiB"})
        group = make_group(pod.uid)
        environment = dict(os.environ, METE_SOCKET=node.folder_of(pod.title()) + "/guest.sock", METE_DRIVER=sys.argv[2], **node.environment)
        guest = BUILD + "/guest/12.9/lib/"
        program = subprocess.Popen([sys.executable, "-c", BRINGS_A_DRIVER, guest + "libnvidia-ml.so.1", guest + "libcuda.so.1"], env=environment,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        with open(group + "/cgroup.procs", "w") as file:
            file.write(str(program.pid))
        try:
            assert allocate(program, 2 * GIB) == "0\n"
            pod.annotate(memory="1GiB")
            node.await_log("container.over pod=ns/a ")
            launch(node, "xid=79@1", 0)  # another look
            node.await_log("device.unhealthy")
            assert program.poll() is None and "process.killed" not in node.log()
        finally:
            leave(program, group)


def test_a_pod_with_very_many_unannounced_processes_fills_nobodys_list_of_events():
    with Node(devices="1xSIM") as node:
        pod = node.run("a", node.id(0))
        group, crowd = make_group(pod.uid), []
        environment = dict(os.environ, LD_LIBRARY_PATH=sys.argv[2], **node.environment)
        try:
            for _ in range(24):
                crowd.append(subprocess.Popen([BUILD + "/bench/idle_guest"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment))
                assert crowd[-1].stdout.readline() == b"ready\n"
            for program in crowd:  # they become the pod's together
                with open(group + "/cgroup.procs", "w") as file:
                    file.write(str(program.pid))
            for program in crowd:
                node.await_log(f"process.unannounced pid={program.pid} ")
            until(lambda: node.api.events_of("a"))
            assert len(node.api.events_of("a")) < len(crowd), "one for each"
        finally:
            for program in crowd:
                program.kill()
                program.wait()
            for folder in group, os.path.dirname(group):
                until(lambda: not open(folder + "/cgroup.procs").read())
                os.rmdir(folder)


def test_a_crowd_of_other_processes_hides_nobody():
    """Guests count among the processes that the driver lists, and so do programs outside of pods."""
    with Node(devices="1xSIM", unannounced="kill", environment={"METE_SIM_MEMORY": "64GiB"}) as node:
        pod = node.run("a", node.id(0))
        ours, theirs = os.pipe()
        environment = dict(os.environ, LD_LIBRARY_PATH=sys.argv[2], **node.environment)
        crowd = [subprocess.Popen([BUILD + "/bench/idle_guest"], stdin=ours, stdout=subprocess.PIPE, env=environment) for _ in range(270)]
        try:
            assert all(program.stdout.readline() == b"ready\n" for program in crowd)
            program, group = stranger_in(node, pod.uid)
            try:
                assert program.wait(timeout=PATIENCE) == -signal.SIGKILL
            finally:
                leave(program, group)
        finally:
            for program in crowd:
                program.kill()
                program.wait()
            os.close(ours)
            os.close(theirs)


def test_a_process_on_two_devices_is_judged_on_each():
    """A pod's two containers may have different shares: the stricter one counts, whichever device it is on."""
    with Node() as node:
        pod = node.pod("a", marks={"strict.mete.dev/unannounced": "kill"}).admit(node.id(0), container="lax").admit(node.id(0, 1), container="strict")
        pod.start("lax").start("strict")
        program, group = stranger_in(node, pod.uid, [BUILD + "/bench/idle_guest", "2"])
        try:
            assert program.wait(timeout=PATIENCE) == -signal.SIGKILL
        finally:
            leave(program, group)


def test_a_node_sets_which_processes_are_killed_and_a_pod_may_be_stricter():
    with Node(unannounced="kill") as node:
        pod = node.pod("a", annotations={"unannounced": "report"}).admit(node.id(0))
        assert "mete.dev/unannounced: 'report' is laxer than this node allows" in pod.refusal()
        node.configure(most={"unannounced": "report"})
        until(lambda: not pod.refusal().startswith("mete.dev"))
        node.await_share(pod.title(), unannounced="report")


def test_a_process_on_a_device_that_is_not_shared_is_left_alone():
    with Node(devices="3xSIM", unannounced="kill") as node:
        node.configure(devices=[{"match": node.uuid[0], "share": "none"}])
        node.kubelet.hear("listed 8")
        pod = node.run("a", node.id(0, 1))
        program, group = stranger_in(node, pod.uid)
        try:
            for device in 1, 2, 0:  # each is news of another look at the driver
                launch(node, "xid=79@1", device)
                node.await_log(f"device.unhealthy .*{node.uuid[device]}")
            assert program.poll() is None and "process.unannounced" not in node.log()
        finally:
            leave(program, group)


# A plain Python cannot load a library that is instrumented by a sanitizer.
INSTRUMENTED = any(mark in open(BUILD + "/guest/12.9/libmete.so", "rb").read() for mark in (b"__asan_init", b"__tsan_init"))


if INSTRUMENTED:
    for name, test in list(globals().items()):
        if name.startswith("test_") and {"with_a_driver_of_its_own", "BRINGS_A_DRIVER"} & set(test.__code__.co_names):
            print(f"{name}: left out, as the guest is instrumented")
            del globals()[name]


if __name__ == "__main__":
    run(globals())
