#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clusters and pod lists that openb has none of, in openb's format: what a policy that fits one trace would get wrong.
`bench/data/made_lists.py FOLDER` writes two folders. The same bytes each time."""
import os
import random
import sys

PODS = 3000


def nodes(*kinds):
    """kinds: (how many, CPU in cores, memory in GiB, GPUs, model)"""
    for count, cpu, memory, gpus, model in kinds:
        for _ in range(count):
            yield cpu * 1000, memory * 1024, gpus, model


ONE_KIND = list(nodes((150, 96, 768, 8, "A")))
SEVERAL = list(nodes((60, 96, 768, 8, "A"), (60, 128, 1024, 8, "B"), (80, 64, 256, 4, "C"), (150, 64, 256, 2, "D"),
                     (40, 16, 128, 1, "D")))


def pick(draw, *choices):
    """choices: (weight, value)"""
    return draw.choices([value for _, value in choices], [weight for weight, _ in choices])[0]


def whole(draw, gpus, cores_per_gpu=(4, 6, 8, 10)):
    return draw.choice(cores_per_gpu) * 1000 * gpus, gpus, 1000, ""


def part(draw, milli, cores=(1, 2, 4)):
    return draw.choice(cores) * 1000, 1, milli, ""


def quarters(draw):
    return part(draw, 250 * pick(draw, (6, 1), (3, 2), (1, 3)), (2, 3)) if draw.random() < 0.9 else whole(draw, 1)


def tiny_beside_whole(draw):
    if draw.random() < 0.8:
        return part(draw, draw.choice((20, 50, 100)), (1, 2))
    return whole(draw, pick(draw, (5, 1), (3, 2), (2, 4), (2, 8)))


def cpu_hungry(draw):
    """As scarce as the GPUs: CPU."""
    if draw.random() < 0.2:
        return draw.choice((1, 2, 4)) * 1000, 0, 0, ""
    if draw.random() < 0.6:
        return part(draw, draw.choice((250, 330, 500)), (2, 4, 6))
    return whole(draw, pick(draw, (6, 1), (2, 2), (1, 4)), (8, 10, 12))


def gangs(draw):
    return whole(draw, pick(draw, (8, 1), (4, 2), (2, 4), (1, 8)))


def half_eights(draw):
    """Half of the GPUs asked for are asked for by eight at a time."""
    return whole(draw, 8, (6, 8)) if draw.random() < 1 / 9 else whole(draw, 1)


def mixed(draw):
    if draw.random() < 0.5:
        return part(draw, draw.choice((100, 250, 330, 500, 700)))
    return whole(draw, pick(draw, (10, 1), (4, 2), (2, 4), (2, 8)))


def pinned(draw):
    """Three in ten name a model, or two."""
    cpu, gpus, milli, _ = mixed(draw)
    models = "A" if gpus == 8 else pick(draw, (1, "A"), (2, "B"), (1, "C"), (2, "D"), (1, "A|B"))
    if gpus > 4:
        models = draw.choice(("A", "B", "A|B"))
    elif gpus > 2:
        models = draw.choice(("A", "B", "C"))
    return cpu, gpus, milli, models if draw.random() < 0.3 else ""


LISTS = {"one-kind": (ONE_KIND, (quarters, tiny_beside_whole, cpu_hungry, gangs, half_eights, mixed)),
         "several-kinds": (SEVERAL, (pinned, mixed, gangs, cpu_hungry))}


def write(path, head, rows):
    with open(path, "w") as out:
        print(head, file=out)
        for i, row in enumerate(rows):
            print(f"made-{i:04}", *row, sep=",", file=out)


def make(folder):
    """All of them; returns the folders."""
    for name, (cluster, lists) in LISTS.items():
        at = os.path.join(folder, name)
        os.makedirs(at, exist_ok=True)
        write(f"{at}/openb_node_list_gpu_node.csv", "sn,cpu_milli,memory_mib,gpu,model", cluster)
        for one in lists:
            draw = random.Random(one.__name__)
            pods = [one(draw) for _ in range(PODS)]
            # 2 GiB of memory a core: it does not bind.
            write(f"{at}/openb_pod_list_{one.__name__}.csv", "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec",
                  [(cpu, cpu // 1000 * 2048, gpus, milli or "", models) for cpu, gpus, milli, models in pods])
    return [os.path.join(folder, name) for name in LISTS]


if __name__ == "__main__":
    make(sys.argv[1])
