#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Strangers in groups that systemd makes, as it does for the kubelet's and the runtimes' driver `systemd`.

    TEST.py METED SIMULATOR BUILD

The kubelet of tests/cluster uses the other driver: its node has process ids of its own, which the machine's systemd does not know."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "plugin"))
from node import *  # noqa: E402,F403
from runner import run, skip  # noqa: E402

SCOPE = {"containerd": "cri-containerd-{}", "CRI-O": "crio-{}"}
SLICES = {"besteffort": "kubepods-besteffort-pod{}.slice", "burstable": "kubepods-burstable-pod{}.slice", "guaranteed": "kubepods-pod{}.slice"}


def keep(name, text):
    folder = os.environ.get("METE_SEEN")
    if folder:
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, name), "w") as file:
            file.write(text)


def stranger_in(node, uid, unit, slice):
    """A program on device 0 that no guest announced, in a scope that systemd has made; systemd-run becomes it."""
    environment = dict(os.environ, LD_LIBRARY_PATH=sys.argv[2], **node.environment)
    return subprocess.Popen(["systemd-run", "--quiet", "--scope", "--collect", f"--unit={unit}", f"--slice={slice}", BUILD + "/examples/steady", "seconds=36000"],
                            env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def test_a_stranger_in_a_scope_of_systemds_is_found_and_killed():
    with Node(devices="1xSIM", unannounced="kill", slots=8) as node:
        started = []
        for number, (runtime, kind) in enumerate((runtime, kind) for runtime in SCOPE for kind in SLICES):
            pod = node.run(f"p{number}", node.id(number))
            unit, slice = SCOPE[runtime].format("%064x" % (number + 77)), SLICES[kind].format(pod.uid.replace("-", "_"))
            program = stranger_in(node, pod.uid, unit, slice)
            started.append((runtime, kind, pod, program))
            until(lambda: slice in open(f"/proc/{program.pid}/cgroup").read())
            keep(f"{runtime}-{kind}", open(f"/proc/{program.pid}/cgroup").read())
        for runtime, kind, pod, program in started:
            node.await_log(f"process.unannounced pid={program.pid} pod=ns/{pod.name} uid={pod.uid} ")
            assert program.wait(timeout=PATIENCE) == -signal.SIGKILL, (runtime, kind)


def test_a_pods_uid_is_also_in_the_path_that_a_group_beside_it_sees():
    """A runtime gives containers control group namespaces of their own, in version 2: meted's pod sees paths from its own group on."""
    uids = [str(uuids.UUID(int=number << 64 | 77)) for number in (1, 2)]
    slices = [SLICES["besteffort"].format(uid.replace("-", "_")) for uid in uids]
    other = subprocess.Popen(["systemd-run", "--quiet", "--scope", "--collect", "--unit=cri-containerd-1", f"--slice={slices[0]}", "sleep", "infinity"])
    try:
        until(lambda: slices[0] in open(f"/proc/{other.pid}/cgroup").read())
        seen = subprocess.run(["systemd-run", "--quiet", "--scope", "--collect", "--unit=cri-containerd-2", f"--slice={slices[1]}", "unshare", "--cgroup",
                               "cat", f"/proc/{other.pid}/cgroup", "/proc/self/cgroup"], text=True, stdout=subprocess.PIPE, check=True).stdout
    finally:
        other.kill()
        other.wait()
    keep("in-a-namespace", seen)
    assert seen == f"0::/../../{slices[0]}/cri-containerd-1.scope\n0::/\n", seen


def test_a_process_in_a_group_of_systemds_that_is_no_pods_is_left_alone():
    with Node(devices="1xSIM", unannounced="kill") as node:
        pod = node.run("a", node.id(0))
        beside = stranger_in(node, pod.uid, "mete-test-beside", "system.slice")
        inside = stranger_in(node, pod.uid, "cri-containerd-77", SLICES["burstable"].format(pod.uid.replace("-", "_")))
        try:
            assert inside.wait(timeout=PATIENCE) == -signal.SIGKILL
            assert beside.poll() is None and f"pid={beside.pid} " not in node.log()
        finally:
            beside.kill()
            beside.wait()


if __name__ == "__main__":
    if not os.path.isdir("/run/systemd/system"):
        skip("systemd does not run this machine; `tools/test-v2` runs it in one where it does")
    run(globals(), sys.argv[3:])
