#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/howto-from-hami.md: pods that say what its table says have what HAMi gave them. tests/plugin/node.py describes the parties."""
from counted import *
from meted import run

PAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "docs", "howto-from-hami.md")


def spans(cell):
    return re.findall(r"`([^`]+)`", cell)


def rows():
    """The cells of each row of the page's tables."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in open(PAGE).read().splitlines() if line.startswith("| `")]


def row_of(hamis):
    return next(row for row in rows() if spans(row[0])[0] == hamis)


def said(cell):
    """Of what a cell shows: resources, annotations and keys of the configuration."""
    resources, annotations, keys = {}, {}, {}
    for span in spans(cell):
        name, colon, value = span.partition(": ")
        if not colon:
            continue
        if name.startswith("mete.dev/gpu"):
            resources[name] = value
        elif name.startswith("mete.dev/"):
            annotations[name] = value
        else:
            keys[name] = value
    return resources, annotations, keys


def started(node, name, resources, annotations):
    pod = node.pod(name, spec={"containers": [{"name": "main", "resources": {"requests": resources}}]}, marks=annotations)
    pod.admit(*(f"slot-{next(numbers):03d}" for _ in range(int(resources["mete.dev/gpu"]))), container="main")
    return pod.start()


def test_a_pod_that_is_translated_has_what_hami_gave_it():
    resources, annotations = {}, {}
    for hamis in "nvidia.com/gpu: 1", "nvidia.com/gpumem: 3000", "nvidia.com/gpucores: 30", "nvidia.com/priority: 0", "deviceMemoryScaling":
        row = row_of(hamis)
        more, marks, _ = said(row[1])
        resources.update(more)
        annotations.update(marks)
    annotations.update(said(row_of("nvidia.com/gpucores: 30")[2])[1])  # which forbids more, as HAMi does
    assert set(resources) == {"mete.dev/gpu", "mete.dev/gpu-memory", "mete.dev/gpu-milli"} and len(annotations) == 3, (resources, annotations)
    keys = {**said(row_of("nvidia.com/gpumem-percentage: 25")[1])[2], **said(row_of("deviceMemoryScaling")[1])[2]}
    assert keys == {"share": "{memory: 25%}", "overcommit": "150%"}, keys
    with amounts(share={"memory": "25%"}, overcommit=keys["overcommit"], most={"swap": "auto", "class": "interactive"}) as node:
        # By sums: one and a half times both GPUs' 4 GiB.
        await_sums(node, 12 * GIB, 2000)
        pod = started(node, "translated", resources, annotations)
        node.await_share(pod.title(), memory=f"{3000 * MIB}B", guarantee="300/1000", cap="30%", swap="auto", **{"class": "interactive"})
        # A percentage: what the configuration gives who names no amount.
        plain = started(node, "plain", said(row_of("nvidia.com/gpu: 1")[1])[0], {})
        node.await_share(plain.title(), memory=f"{GIB}B")


def test_amounts_of_several_gpus_are_what_the_page_reckons():
    hamis, metes, each = next(row for row in rows() if "gpu: 2" in row[0])
    count, memory, cores = (int(span.split(": ")[1]) for span in spans(hamis))
    assert each == f"{memory} MiB, and {cores} % of the time", each
    with amounts() as node:
        pod = started(node, "wide", said(metes)[0], {})
        assert devices_of(node, pod) == list(range(count))
        node.await_share(pod.title(), memory=f"{memory * MIB}B", guarantee=f"{10 * cores}/1000")


if __name__ == "__main__":
    run(globals())
