#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""GPUs that MIG divides, on a real kubelet: parts by names of their own and as GPUs, shares of one part, and a label that divides."""
import os
import re

from harness import BUILD, MIB, REPEATED, node, pod, run, soak, until
from test_nvidia import GPU, as_nvidia
from test_time import judged

LABEL, STATE = "nvidia.com/mig.config", "nvidia.com/mig.config.state"
SMALL = "nvidia.com/mig-1g.10gb"
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


def made_parts(here):
    """How many parts the driver has."""
    environment = dict(os.environ, LD_LIBRARY_PATH=os.path.join(here.cluster.folder, "driver", "lib"), METE_SIM_DIR=here.meted.sim)
    said = here.cluster.run(os.path.join(BUILD, "cli", "mete"), "mig", "export", env=environment)
    return sum(int(count) for count in re.findall(r"\dg\.[^\s\":]+\"?: (\d+)", said))


@soak
def test_a_part_is_made_for_a_pod_and_goes_when_that_has_ended():
    """In `make soak` again and again, beside a pod that computes without a pause."""
    with as_nvidia(strategy("dynamic"), 0, options=("--look-every", "500ms"), METE_SIM_DEVICES="1xH100", METE_SIM_MIG="on") as here:
        here.cluster.await_resource(SMALL, 7)
        if REPEATED:
            here.pod("busy", pod(command=["busybox", "sh", "-c", "while :; do :; done"]))
        for n in range(50 if REPEATED else 2):
            made = here.pod(f"part-{n}", pod(command=["busybox", "sh", "-c", "echo visible=$NVIDIA_VISIBLE_DEVICES"], slots=1, resource=SMALL))
            assert made.await_line(r"visible=(\S+)")[1].startswith("MIG-")
            assert made.await_end() == 0
            until(lambda: made_parts(here) == 0, "its part was never removed")
            here.cluster.await_resource(SMALL, 7)
        # While one is there, what it excludes is offered no more.
        held = holder(here, "holds", SMALL)
        held.await_line("visible=MIG-")
        assert made_parts(here) == 1
        here.cluster.await_resource("nvidia.com/mig-7g.80gb", 0)
        held.delete()
        here.cluster.await_resource("nvidia.com/mig-7g.80gb", 1)
        until(lambda: made_parts(here) == 0, "the last part is left")


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
