#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shares of a part of a GPU that MIG has divided: limits, and memory that moves, on one machine."""
import re

from mete import *

MIB = 1 << 20
WAITING = ("sh", "-c", "echo here; cat >/dev/null")


def divided(parts):
    return Node(METE_SIM_DEVICES="2xH100", METE_SIM_PARTS=parts, METE_SIM_MEMORY="1G", METE_SIM_CONTEXT_MEMORY="16M")


def parts_of(node):
    """Their UUIDs; somebody stays, so that the machine stays divided."""
    holder = node.start("run", "--device", "0", "--name", "holder", "--", *WAITING)
    assert holder.stdout.readline() == "here\n"
    return [device["uuid"] for device in node.ps()["devices"] if device["uuid"].startswith("MIG-")]


def peak_of(said):
    assert "hoarder ok" in said, said
    return int(re.search(r"peak_bytes=(\d+)", said).group(1))


def test_a_part_is_a_device_of_mete_run():
    with divided("0:2x3g.40gb") as node:
        parts = parts_of(node)
        assert len(parts) == 2 and len(node.ps()["devices"]) == 3, "and the whole GPU"
        said = node.mete("run", "--device", parts[1], "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES; exec " + workload("vector-add"))
        assert said.returncode == 0 and said.stdout.startswith(parts[1] + "\n") and "vector-add ok" in said.stdout, said


def test_limits_hold_in_a_part():
    with divided("0:2x3g.40gb") as node:
        part = parts_of(node)[1]
        limit = 128 * MIB
        both = [node.start("run", "--device", part, "--memory", "128M", "--name", name, "--", workload("hoarder"), f"limit={limit}") for name in ("a", "b")]
        for process in both:
            said, errors = process.communicate(timeout=240)
            assert process.returncode == 0 and 0 < peak_of(said) <= limit, (said, errors)


def test_memory_of_tenants_of_a_part_moves():
    """A program stands still with its memory, and another takes all that the part has."""
    with divided("0:2x3g.40gb") as node:
        part = parts_of(node)[1]
        total = next(device["capacity_bytes"] for device in node.ps()["devices"] if device["uuid"] == part)
        first = node.start("run", "--device", part, "--name", "first", "--", workload("train"), "stdin=1", f"ballast={300 * MIB}")
        assert "half way" in first.stdout.readline()
        second = node.mete("run", "--device", part, "--name", "second", "--", workload("hoarder"))
        assert second.returncode == 0, second
        said, errors = first.communicate("\n\n", timeout=240)
        assert first.returncode == 0 and "train ok" in said, (said, errors)
        # Both had theirs at a time when the part could not hold both.
        assert 300 * MIB + peak_of(second.stdout) > total, (total, second.stdout)


if __name__ == "__main__":
    run(globals())
