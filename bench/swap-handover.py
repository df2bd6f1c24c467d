#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# About: how close a handover of the device's memory is to the link
"""Two programs that never pause, whose memory fills 90 % of a simulated device each, take turns on it; the real meted and guests
move it. The one clock of simulator, guest and daemon is slowed, so that a link of 24 GB/s copies 300 MB/s of the machine's time, and the
noise of a busy machine does not decide; the figures are by that clock. The link is as fast in both directions at once as in
one: otherwise each copy that the simulator learns of a little late would let the other direction's be faster than it is.

A handover is measured by the programs themselves: from the end of one's last kernel to the end of the other's first. In it the
bytes move that `mete ps` counts. All of them are copied: the simulated device is made so slow at computing that hashes do not pay.
"""
import os
import re
import statistics
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("METE_BUILD", ROOT + "/build/plain")
sys.argv[1:] = [BUILD + "/node/meted", BUILD + "/sim/lib", BUILD]
sys.path.insert(0, ROOT + "/tests/system")
from test_swap import Node, Program  # noqa: E402

MIB = 1 << 20
DEVICE = 6144  # MiB
LINK = 24 * 10**9  # bytes a second, each way
DILATE = 80
HANDOVERS = 3
GAP_MS = 1000  # longer than any other pause
KERNEL_MS = 1


class Sampler(threading.Thread):
    """All bytes that have moved until now."""

    def __init__(self, node):
        super().__init__(daemon=True)
        self.node, self.samples, self.ended = node, [], False

    def run(self):
        while not self.ended:
            tenants = self.node.tenants()
            out, back, saved = (sum(t[key] for t in tenants) for key in ("moved_out_bytes", "moved_in_bytes", "saved_bytes"))
            self.samples.append((time.monotonic(), out - saved, back))
            time.sleep(0.1)

    def at(self, instant):
        """As of the first reading after it."""
        return next(sample[1:] for sample in self.samples if sample[0] >= instant)


def gaps(program):
    """The times in which it ran nothing, in seconds: as far as it has printed them."""
    out, _ = program.process.communicate()
    return [(int(a) / 1e6, int(b) / 1e6) for a, b in re.findall(r"gap from_us=(\d+) to_us=(\d+)", out)]


def handovers(first, second):
    """Each is from the end of one's last kernel to the end of the other's first."""
    ends = sorted([(b, "starts") for _, b in first + second] + [(a, "stops") for a, _ in first + second])
    # Before that, one had run nothing yet.
    since = max(gaps[0][0] for gaps in (first, second))
    return [(a, b) for (a, what), (b, then) in zip(ends, ends[1:]) if a >= since and what == "stops" and then == "starts"]


def run(seconds):
    arguments = ("steady", f"kernel_us={KERNEL_MS * 1000}", "ahead=2", f"memory={DEVICE * 9 // 10}M", f"gap_ms={GAP_MS}", f"seconds={seconds}")
    with Node("--movement", "50%", memory=DEVICE, store="16GiB", METE_SIM_LINK_RATE=str(LINK), METE_SIM_DUPLEX="1", METE_SIM_INSTRUCTIONS="800M", METE_SIM_DILATE=str(DILATE)) as node:
        sampler = Sampler(node)
        sampler.start()
        programs = [Program(node, name, arguments) for name in ("first", "second")]
        said = [gaps(program) for program in programs]
        sampler.ended = True
        sampler.join()
    return handovers(*said), sampler


def main():
    each = DEVICE * MIB * 8 / 10 / LINK * DILATE
    found, sampler = run(round(2 * each * (HANDOVERS + 3)))
    moved = took = 0
    beyond = []
    for begun, ended in found:
        before, after = sampler.at(begun), sampler.at(ended)
        out, back = (b - a for a, b in zip(before, after))
        lasted = (ended - begun) / DILATE
        print(f"at {(begun - found[0][0]) / DILATE:6.3f} s: {lasted:.4f} s, {out / MIB:.0f} MiB out, {back / MIB:.0f} MiB in", flush=True)
        moved, took = moved + out + back, took + lasted
        beyond.append((lasted - max(out, back) / LINK) * 1000 - KERNEL_MS)
    print(f"figure: handovers {len(found)} handovers")
    print(f"figure: first_kernel_beyond_link_median_ms {statistics.median(beyond):.1f} ms")
    print(f"figure: first_kernel_beyond_link_ms {max(beyond):.1f} ms")
    print(f"figure: handover_e2e_efficiency {100 * moved / (2 * LINK * took):.1f} percent")


main()
