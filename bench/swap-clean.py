#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# About: what is copied of memory that did not change, and what finding that out costs
"""A server (examples/inference) is suspended and resumed ten times, on the simulated GPU: between two evictions it answers
requests. Its weights do not change; its activations, in a block of their own, change with each request.

Of the hashes: their time by the simulated device, which knows a kernel's instructions, or by its memory's bandwidth if
that is longer; as part of the time that the copies would have taken which they saved.
"""
import os
import re
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.argv[1:] = [os.environ.get("METE_BUILD", ROOT + "/build/plain")]
sys.path.insert(0, ROOT + "/tests/cli")
from mete import BUILD, MIB, Node, workload  # noqa: E402

TIMES = 10
LAYERS, LAYER = 8, 8 * MIB
WEIGHTS = LAYERS * LAYER
ACTIVATIONS = 2 * MIB
SERVER = ["--", workload("inference"), "requests=1000000", "rate=50", f"weights={WEIGHTS}", f"layer={LAYER}"]


def rates(model):
    """Of the device's memory and of its link, bytes a second."""
    row = re.search(rf"^MODEL\({model},(.*)\)$", open(ROOT + "/sim/machine/models.def").read(), re.M).group(1).split(",")
    return int(row[7]), int(row[8])


def ledger(node):
    """The device's time for kernels, and the number of kernels."""
    said = subprocess.run([BUILD + "/sim/mete-sim", "--ledger"], env=node.environment, stdin=subprocess.DEVNULL, text=True, check=True,
                          stdout=subprocess.PIPE).stdout
    return (int(re.search(r"lane compute busy_ns (\d+)", said).group(1)), sum(int(n) for n in re.findall(r" kernels (\d+)", said)))


def row(node):
    tenants = node.ps()["tenants"]
    return tenants[0] if tenants else {"allocated_bytes": 0}


def until(node, what):
    while not what(row(node)):
        time.sleep(0.01)


def answers(node, kernels):
    """Waits until it has run so many."""
    before = ledger(node)
    while ledger(node)[1] < before[1] + kernels:
        time.sleep(0.01)
    return before, ledger(node)


def evict(node):
    """Bytes that were copied, and that were not."""
    was = row(node)
    assert node.mete("suspend", "server").returncode == 0
    until(node, lambda r: r["movable_bytes"] == 0)
    now = row(node)
    assert now["out_bytes"] == WEIGHTS + ACTIVATIONS, now
    saved = now["saved_bytes"] - was["saved_bytes"]
    return now["moved_out_bytes"] - was["moved_out_bytes"] - saved, saved


def restore(node):
    assert node.mete("resume", "server").returncode == 0
    until(node, lambda r: r["out_bytes"] == 0)
    answers(node, 4)


def evictions(node):
    """Bytes copied in the first one; in each of the others copied, and saved; the device's time for these others' hashes."""
    until(node, lambda r: r["allocated_bytes"] == WEIGHTS + ACTIVATIONS)
    answers(node, 4)
    (from_ns, from_kernels), (to_ns, to_kernels) = answers(node, 40)
    usual_ns = (to_ns - from_ns) / (to_kernels - from_kernels)
    first, _ = evict(node)
    restore(node)
    from_ns, from_kernels = ledger(node)
    moved = []
    for _ in range(TIMES - 1):
        moved.append(evict(node))
        restore(node)
    to_ns, to_kernels = ledger(node)
    hashes = (LAYERS + 1) * len(moved)
    return first, moved, to_ns - from_ns - usual_ns * (to_kernels - from_kernels - hashes)


def measure(model):
    """Of all evictions but the first: bytes copied, and saved; their hashes as part of the copies that were saved, in percent."""
    with Node(METE_SIM_DEVICES="1x" + model, METE_SIM_MEMORY="1G", METE_SIM_PATTERN="off") as node:
        server = node.start("run", "--swap", "auto", "--name", "server", *SERVER)
        try:
            first, moved, hash_ns = evictions(node)
            assert server.poll() is None, server.communicate()
        finally:
            server.terminate()
            server.communicate()
    memory_rate, link_rate = rates(model)
    least_ns = (WEIGHTS + ACTIVATIONS) * len(moved) / memory_rate * 1e9
    copied, saved = (sum(part) for part in zip(*moved))
    print(f"{model}: copied {first} bytes the first time, {copied} the other {len(moved)} times, of {copied + saved}; hashes took "
          f"{hash_ns / 1e3:.0f} us by their instructions, {least_ns / 1e3:.0f} us by the memory's bandwidth, of {saved / link_rate * 1e6:.0f} us of copying",
          flush=True)
    return copied, saved, max(hash_ns, least_ns) / (saved / link_rate * 1e9) * 100 if saved else 0


def main():
    copied, saved, percent = measure("H100")
    print(f"figure: clean_hash_percent_l4 {measure('L4')[2]:.1f} percent")
    print(f"figure: dirty_bytes_copied_out {min(copied, ACTIVATIONS * (TIMES - 1))} bytes")
    print(f"figure: clean_bytes_saved {saved} bytes")
    print(f"figure: clean_hash_percent {percent:.1f} percent")
    print(f"figure: clean_bytes_copied_out {max(0, copied - ACTIVATIONS * (TIMES - 1))} bytes")


main()
