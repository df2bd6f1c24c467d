# SPDX-License-Identifier: Apache-2.0
"""Pre-emption without killing: how much later an urgent program starts where a batch program has to be parked for it.

parked  A batch program fills 90 % of a simulated GPU and never pauses. An urgent one that needs 80 % starts beside it, and alone: `urgent_start_added_s` is
        the difference of the times from its start to its first kernels, the median of some starts each, and `urgent_link_s` what the link takes for the bytes
        that have to leave. The batch program computes on between two starts, for longer than it is protected. Nothing is killed: its check of its own
        memory at the end proves that, and so does the number of its processes.
"""
import os
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, "build/plain")
DEVICE, STARTS = 2048, int(os.environ.get("STARTS", 3))  # MiB
# The one clock of simulator, guests and meted is slowed, so that the link, and not the machine, decides how long copies take (as in bench/swap-handover.py).
LINK, DILATE, RUN_S = 3 * 10**9, 10, 0.2  # bytes a second; times; before it is parked


def started(node, name, *options):
    """Seconds, by the slowed clock, until it has reported its first kernels; the program."""
    begun = time.monotonic()
    program = subprocess.Popen([BUILD + "/cli/mete", "run", "-n", name, *options, "--", BUILD + "/examples/steady", f"memory={DEVICE * 8 // 10}M", "stdin=1",
                                "seconds=3600", "report_ms=20", "kernel_us=1000"], env=node.environment, text=True, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    while "kernels=0 " in (line := program.stdout.readline()):
        pass
    assert "kernels=" in line, line
    return (time.monotonic() - begun) / DILATE, program


def end(program):
    program.communicate()
    assert program.returncode == 0, program.returncode


def starts(node, until):
    took = []
    for n in range(STARTS):
        until()
        seconds, program = started(node, f"urgent-{n}", "--class", "interactive")
        took.append(seconds)
        end(program)
    return statistics.median(took)


def parked():
    sys.argv = ["counted", BUILD + "/node/meted", BUILD + "/sim/lib", BUILD]
    sys.path.insert(0, os.path.join(ROOT, "tests/system"))
    from test_swap import Node
    from meted import until
    with Node("--park-after", f"{RUN_S * 1000:.0f}ms", memory=DEVICE, store="16GiB", METE_SIM_LINK_RATE=str(LINK), METE_SIM_DILATE=str(DILATE)) as node:
        alone = starts(node, lambda: None)
        batch = subprocess.Popen([BUILD + "/cli/mete", "run", "-n", "batch", "--class", "batch", "--", BUILD + "/examples/steady", f"memory={DEVICE * 9 // 10}M",
                                  "stdin=1", "seconds=3600", "report_ms=100", "kernel_us=1000"], env=node.environment, text=True, stdin=subprocess.PIPE,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def runs():
            until(lambda: (row := node.row("batch")) and row["doing"] in ("computes", "running") and not row["out_bytes"])
            time.sleep(1.5 * RUN_S * DILATE)  # it is not parked earlier

        beside = starts(node, runs)
        moved = node.row("batch")["moved_out_bytes"] // STARTS
        assert batch.poll() is None and node.row("batch")["joins"] == 1
        end(batch)
    print(f"alone {alone:.2f} s, beside a batch program {beside:.2f} s, {moved >> 20} MiB left each time, load {os.getloadavg()[0]:.0f}")
    print(f"figure: urgent_start_added_s {beside - alone:.2f} s")
    print(f"figure: urgent_link_s {moved / LINK:.2f} s")
