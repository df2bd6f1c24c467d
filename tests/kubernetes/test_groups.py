#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pods by their control groups, in the version that this machine has; tools/test-v2 runs this where that is version 2.
METE_SEEN names a folder that gets what /proc/PID/cgroup said."""
import os
import re

import images
from harness import GIB, MIB, node, pod, run, seen

# It brings a driver along, and so no guest announces it.
OWN = ["seen", f"cuda={images.OWN_DRIVER}", "nvml=/none", f"take={1200 * MIB}", "hold=1"]
CLASSES = {"besteffort": {}, "burstable": {"requests": {"cpu": "1m"}}, "guaranteed": {"limits": {"cpu": "100m", "memory": "256Mi"}}}


def of_class(name, command, **more):
    """A pod with a slot, which the kubelet puts where it puts pods of that class."""
    made = pod(command=command, slots=1, **more)
    for kind, amounts in CLASSES[name].items():
        made["spec"]["containers"][0]["resources"].setdefault(kind, {}).update(amounts)
    return made


def keep(name, text):
    folder = os.environ.get("METE_SEEN")
    if folder:
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, name), "w") as file:
            file.write(text)


# Of each process that there is; one that has ended meanwhile has none.
ALL_GROUPS = "cat /proc/[0-9]*/cgroup 2>/dev/null | sort -u"


def test_a_share_holds_in_pods_of_each_class_and_in_programs_executed_in_them():
    with node("share: {memory: 1GiB}", slots=4) as here:
        made = {name: here.pod(name, of_class(name, ["seen", f"take={1200 * MIB}", "hold=1"])) for name in CLASSES}
        for name, one in made.items():
            said = seen(one.await_line(r"^seen .*")[0])
            assert said["total"] == GIB and said["take"] == "refused", (name, said)
            said = seen(one.exec("seen", f"take={600 * MIB}"))
            assert said["total"] == GIB and said["take"] == "granted", (name, said)
        names = {f"{here.namespace}/{name}/c" for name in CLASSES}
        rows = here.meted.ps()
        assert names <= set(rows) and all(rows[name]["limit_bytes"] == GIB for name in names), rows
        # In the first hierarchy that has it, the group of each: as the machine sees it, and as a pod beside them does, which has a control group
        # namespace of its own in version 2.
        beside = here.pod("beside", pod(command=["sh", "-c", ALL_GROUPS + "; echo all"], hostPID=True))
        beside.await_line("^all$")
        outside, inside = here.cluster.run("sh", "-c", ALL_GROUPS), beside.log()
        keep("kubernetes-beside-the-node", outside)
        keep("kubernetes-in-a-pod", inside)
        for text in outside, inside:
            for name, one in made.items():
                uid = one.get()["metadata"]["uid"]
                assert re.search(rf"^\d+:\S*:/\S*[/-]pod({uid}|{uid.replace('-', '_')})[./]", text, re.M), (name, uid, text)


def test_a_stranger_is_found_by_its_group_in_pods_of_each_class_and_killed():
    with node("share: {memory: 1GiB}\nunannounced: kill", slots=4) as here:
        innocent = here.pod("innocent", of_class("burstable", ["seen", "hold=1"]))
        innocent.await_line("^seen ")
        made = {name: here.pod(name, of_class(name, OWN)) for name in CLASSES}
        for name, one in made.items():
            assert one.await_end() == 137, name
            assert re.search(rf"process.unannounced pid=\d+ pod={here.namespace}/{name} uid={one.get()['metadata']['uid']} ", here.meted.log()), here.meted.log()
            one.await_event(r"process \d+ uses device \S+ without mete.*it was killed")
        assert "running" in innocent.get()["status"]["containerStatuses"][0]["state"]


if __name__ == "__main__":
    run(globals())
