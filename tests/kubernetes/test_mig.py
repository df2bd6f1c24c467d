#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""GPUs that MIG divides, on a real kubelet: parts by names of their own and as GPUs, shares of one part, and a label that divides."""
import re

from harness import MIB, node, pod, run, soak
from test_nvidia import GPU, as_nvidia
from test_time import judged

LABEL, STATE = "nvidia.com/mig.config", "nvidia.com/mig.config.state"
HOLDS = ["busybox", "sh", "-c", "echo visible=$NVIDIA_VISIBLE_DEVICES; exec busybox sleep 36000"]
CONFIG = """version: v1
mig-configs:
  all-3g.40gb:
  - {devices: all, mig-enabled: true, mig-devices: {3g.40gb: 2}}
  all-disabled:
  - {devices: all, mig-enabled: false}
"""


def holder(here, name, resource):
    return here.pod(name, pod(command=HOLDS, slots=1, resource=resource))


def strategy(name):
    return {"default": f"version: v1\nflags: {{migStrategy: {name}}}\n"}


def test_with_mixed_each_kind_of_parts_has_a_name():
    with as_nvidia(strategy("mixed"), 1, METE_SIM_DEVICES="2xH100", METE_SIM_PARTS="0:3g.40gb,2x1g.10gb") as here:
        here.cluster.await_resource("nvidia.com/mig-3g.40gb", 1)
        here.cluster.await_resource("nvidia.com/mig-1g.10gb", 2)
        found = {}
        for name, resource, begins in (("large", "nvidia.com/mig-3g.40gb", "MIG-"), ("small", "nvidia.com/mig-1g.10gb", "MIG-"),
                                       ("other", "nvidia.com/mig-1g.10gb", "MIG-"), ("whole", GPU, "GPU-")):
            found[name] = holder(here, name, resource).await_line(rf"visible=({begins}\S+)")[1]
        assert len(set(found.values())) == 4, found


@soak
def test_with_single_parts_are_gpus():
    with as_nvidia(strategy("single"), 2, METE_SIM_DEVICES="1xH100", METE_SIM_PARTS="0:2x3g.40gb") as here:
        found = {holder(here, name, GPU).await_line(r"visible=(MIG-\S+)")[1] for name in ("one", "two")}
        assert len(found) == 2, found


def test_limits_of_pods_with_shares_of_one_part_hold():
    limit = 100 * MIB
    with node("share: {memory: 100MiB}", slots=2, DEVICES="1xH100", PARTS="0:3g.40gb", MEMORY="1G", CONTEXT_MEMORY="16M") as here:
        both = [here.pod(name, pod(command=["hoarder", f"limit={limit}"], slots=1)) for name in ("one", "two")]
        for made in both:
            peak = int(re.search(r"peak_bytes=(\d+)", made.await_line("hoarder ok.*")[0]).group(1))
            assert 0 < peak <= limit, peak
            assert made.await_end() == 0


@soak
def test_pods_have_time_of_one_part_by_weight():
    judged("share: {memory: 20%}\nmost: {weight: 1000}", {"small": {"weight": "100"}, "large": {"weight": "300"}}, {"small": 0.25, "large": 0.75},
           DEVICES="1xH100", PARTS="0:3g.40gb")


def labels(here):
    return here.cluster.node()["metadata"]["labels"]


def choose(here, name, state):
    here.cluster.kubectl("label", "node", "node", "--overwrite", f"{LABEL}={name}")
    here.cluster.until("/api/v1/nodes", lambda nodes: nodes["node"]["metadata"]["labels"].get(STATE) == state, f"{STATE} never was {state}")


def test_a_label_divides_the_nodes_gpus():
    with as_nvidia(strategy("mixed"), 1, METE_SIM_DEVICES="1xH100", mig_config=CONFIG) as here:
        try:
            used = holder(here, "uses", GPU)
            used.await_line("visible=GPU-")
            choose(here, "all-3g.40gb", "failed")  # a pod has the GPU, though nothing runs there
            used.delete()
            choose(here, "all-disabled", "success")
            choose(here, "all-3g.40gb", "success")
            here.cluster.await_resource("nvidia.com/mig-3g.40gb", 2)
            one, two = (holder(here, name, "nvidia.com/mig-3g.40gb") for name in ("one", "two"))
            one.await_line("visible=MIG-")
            two.await_line("visible=MIG-")
            choose(here, "all-disabled", "failed")
            one.delete()
            two.delete()
        finally:
            here.cluster.kubectl("label", "node", "node", LABEL + "-", STATE + "-")


if __name__ == "__main__":
    run(globals())
