#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# About: two jobs that each fill the GPU, together by one after the other (a slow clock)
"""Two jobs whose memory does not fit together, under `mete run` and a real meted with their defaults, by one after the other without mete.
`bench/makespan.py [MIX...]`: 50, 90, 50_3s. They are bench/memory.c's, end to end: sets of 15.3 GB on a GPU of 16 GB, a link of 12 GB/s one way
and 72 % of that each way at once, bursts of 20 s (or 3) of kernels of 5 ms, and pauses so that the GPU computes 50 or 90 % of the time. Each
block is written to in each burst, so that all of it is copied, and checked at the end. One job runs alone, and counts twice: both are the same.

All is made smaller by SCALE, so that the real bytes are few: memory, blocks, rates; the times are the same. Mapping a block takes as long as on an H100
beside copies, by its size. The one clock of simulator, guests, jobs and daemon is SLOW (2) times slower than the machine's, and all of it comes before
the machine's other work where that is allowed: so that the noise of a busy machine is little of it. The figures are by that clock. A wait is that of one
kernel beyond its own time. The mixes run at once, each on a machine of its own, for 22 minutes.

VERBOSE=1 prints each job's bursts, the simulator's ledger and meted's log; BURSTS=N makes the jobs shorter.

Not in it: more than two jobs, kernels that run slower beside copies, hashes (the simulated device computes too slowly for them to pay), the store's
first pages (prepared in the machine's own time), and whatever of a real driver the simulator does not model.
"""
import collections
import concurrent.futures
import os
import re
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("METE_BUILD", ROOT + "/build/plain")
NAMES = sys.argv[1:]
sys.argv[1:] = [BUILD + "/node/meted", BUILD + "/sim/lib", BUILD]
sys.path.insert(0, ROOT + "/tests/system")
from test_swap import MIB, Node  # noqa: E402

SLOW = int(os.environ.get("SLOW", "2"))
DEVICE = 256 * MIB
SCALE = DEVICE / 16e9
BLOCK = 4 * MIB
SET = round(15.3e9 * SCALE) // BLOCK * BLOCK
KERNEL_MS = 5
H100_MAP_US = 967  # 64 MiB, with access, while both directions copy
H100_UNMAP_US = 44

Mix = collections.namedtuple("Mix", "name percent burst_s bursts")
BURSTS = os.environ.get("BURSTS")
MIXES = [Mix("50", 50, 20, int(BURSTS or 15)), Mix("90", 90, 20, int(BURSTS or 15)), Mix("50_3s", 50, 3, int(BURSTS or 50))]


def machine():
    times = BLOCK / (64 * MIB) / SCALE
    return dict(METE_SIM_DILATE=str(SLOW), METE_SIM_RATE=f"{SCALE:.6f}", METE_SIM_LINK_RATE="12G", METE_SIM_PIN_RATE="6G",
                METE_SIM_INSTRUCTIONS="3200M", METE_SIM_CONTEXT_MEMORY="256K",
                METE_SIM_MAP_COST=f"{H100_MAP_US / 2 * times:.0f}us", METE_SIM_UNMAP_COST=f"{H100_UNMAP_US * times:.0f}us")


def pause_s(mix):
    return mix.burst_s * (100 - mix.percent) / mix.percent


def command(mix):
    return [BUILD + "/bench/bursts", f"memory={SET}", f"block={BLOCK}", f"kernel_us={KERNEL_MS * 1000}", f"kernels={mix.burst_s * 1000 // KERNEL_MS}",
            f"bursts={mix.bursts}", f"pause_us={round(pause_s(mix) * 1e6)}", f"slow={SLOW}"]


def start(words, node):
    return subprocess.Popen(words, env=node.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def end(process):
    out, err = process.communicate()
    if process.returncode:
        raise RuntimeError(f"a job ended with {process.returncode}: {err}")
    *bursts, last = out.splitlines()
    return dict(word.split("=") for word in last.split() if "=" in word) | dict(bursts=[re.findall(r"\d+", line) for line in bursts])


def end_all(processes):
    """The first that fails ends all of them."""
    left = list(processes)
    while left:
        time.sleep(0.05)
        left = [process for process in left if process.poll() is None]
        if any(process.poll() for process in processes):
            for process in left:
                process.kill()
            break
    return [end(process) for process in processes]


def now():
    return time.monotonic() / SLOW


def ledger(node):
    return subprocess.Popen([BUILD + "/sim/mete-sim", "--ledger"], env=node.environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def together(mix):
    """Seconds, and what the jobs said."""
    with Node("--block", str(BLOCK), "--context", "256K", memory=DEVICE // MIB, store="1GiB", **machine()) as node:
        holder, begun = ledger(node), now()
        said = end_all([start([BUILD + "/cli/mete", "run", "--quiet", "-n", f"job{i}", "--", *command(mix)], node) for i in range(2)])
        took = now() - begun
        out, _ = holder.communicate()
        if os.environ.get("VERBOSE"):
            for job in said:
                print(" ".join(f"{int(a) / SLOW / 1e6 - begun:.2f}-{int(b) / SLOW / 1e6 - begun:.2f}" for a, b in job["bursts"]), flush=True)
            print(out, node.log(), sep="\n", flush=True)
    return took, said


def alone(mix):
    """One of the two: the other is the same."""
    with Node(memory=DEVICE // MIB, **machine()) as node:
        holder, begun = ledger(node), now()
        said = end_all([start(command(mix), node)])
        took = now() - begun
        holder.communicate()
    return took, said


def makespan(mix):
    with concurrent.futures.ThreadPoolExecutor() as pool:
        (both, said), (one, right) = (run.result() for run in [pool.submit(together, mix), pool.submit(alone, mix)])
    if len({job["checksum"] for job in said + right}) != 1:
        raise RuntimeError(f"the jobs are not right: {said} {right}")
    wait = max(float(job["longest_ms"]) for job in said) / SLOW / 1000
    print(f"{mix}: together {both:.1f} s, one after the other {2 * one:.1f} s; load {os.getloadavg()[0]:.0f}", flush=True)
    print(f"figure: makespan_e2e_{mix.name} {both / 2 / one:.3f} times")
    print(f"figure: makespan_e2e_{mix.name}_wait_s {wait:.1f} s", flush=True)


def come_first():
    """Before the machine's other work, where that is allowed: the jobs compute little, and are to be waited for by nobody."""
    try:
        os.setsid()
        with open("/proc/self/autogroup", "w") as nice:
            nice.write("-15")
        os.setpriority(os.PRIO_PROCESS, 0, -15)
    except OSError as error:
        print(f"beside the machine's other work: {error}", flush=True)


def main():
    come_first()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(makespan, [mix for mix in MIXES if not NAMES or mix.name in NAMES]))


main()
