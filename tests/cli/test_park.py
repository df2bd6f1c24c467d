#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Class batch is parked while a higher class needs the room (decision 114), with real programs. argv[1]: the build folder."""
import re
import signal
import sys

from mete import *
from meted import until

BATCH = ("--class", "batch", "--memory", "175M", "--swap", "auto")
FAST = dict(METE_SIM_MEMORY="256M", METE_SIM_CONTEXT_MEMORY="4M")


def row(node, name):
    return next((row for row in node.ps()["tenants"] if row["name"] == name), None)


def train(node, name, *options, steps=20, ballast="150M"):
    return node.start("run", "--name", name, *options, "--", workload("train"), f"steps={steps}", f"ballast={ballast}")


def checksum(out):
    return re.search(r"checksum=(\w+)", out).group(1)


def steady(node, name, *options, memory="150M"):
    """It computes without a pause, until its standard input ends."""
    process = node.start("run", "--name", name, *options, "--", workload("steady"), f"memory={memory}", "stdin=1", "seconds=3600", "report_ms=50", "kernel_us=1000")
    assert process.stdout.readline(), process.stderr.read()
    return process


def finish(process):
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, (process.returncode, out, err)
    return out, err


def parked(node, name):
    return until(lambda: (there := row(node, name)) and there["doing"] == "yields" and there, lambda: f"{name} was never parked: {row(node, name)}\n{node.daemon_log()[-3000:]}")


def moves_for(*options):
    """A batch job that is in the way of an urgent one, which has these options."""
    with Node(**FAST) as node:
        alone, _ = finish(train(node, "alone", *BATCH))
        first = steady(node, "first", *BATCH)
        urgent = steady(node, "urgent", "--class", "interactive", *options)
        there = parked(node, "first")
        assert "yields" in there["gate_reasons"] and there["out_bytes"] > 0, there
        assert re.search("parked: a higher class needs the room.*: urgent", there["state"]), there["state"]
        # For as long as the urgent one computes. A batch tenant that comes meanwhile is parked as well.
        second = train(node, "second", *BATCH)
        until(lambda: row(node, "second"))
        before = row(node, "first")["moved_in_bytes"]
        # A wait that is shorter than 2 s is not mentioned: the urgent one stays until this is.
        said = next((line for line in first.stderr if "waits for its memory, " in line), "")
        assert "it is parked: tenant " in said and "(urgent), of a class above batch, needs the room" in said, said
        finish(urgent)
        until(lambda: row(node, "first")["doing"] != "yields", "it never came back")
        finish(first)
        out, _ = finish(second)
        assert before == 0 and checksum(out) == checksum(alone), (out, alone)


def test_batch_is_parked_for_a_higher_class_whose_memory_moves():
    moves_for("--memory", "175M", "--swap", "auto")


def test_batch_is_parked_for_a_higher_class_whose_memory_stays():
    moves_for("--memory", "175M")


def test_a_batch_job_that_fits_beside_a_higher_class_runs_on():
    with Node(**FAST) as node:
        batch = steady(node, "batch", *BATCH, memory="75M")
        urgent = steady(node, "urgent", "--class", "interactive", memory="75M")
        kernels = [int(re.search(r"kernels=(\d+)", batch.stdout.readline()).group(1)) for _ in range(20)]
        assert kernels[-1] > kernels[0] and row(node, "batch")["out_bytes"] == 0
        finish(urgent)
        finish(batch)


def test_standard_is_not_parked():
    with Node(**FAST) as node:
        usual = steady(node, "usual", "--memory", "175M", "--swap", "auto")
        urgent = steady(node, "urgent", "--class", "interactive", "--memory", "175M", "--swap", "auto")
        there = until(lambda: (there := row(node, "usual"))["out_bytes"] and there, "it never made room")
        assert there["doing"] == "waits-for-memory" and "yields" not in there["gate_reasons"], there
        finish(urgent)
        finish(usual)


def test_a_parked_tenant_stays_parked_when_meted_is_killed():
    with Node(**FAST) as node:
        batch = steady(node, "batch", *BATCH)
        urgent = steady(node, "urgent", "--class", "interactive", "--memory", "175M", "--swap", "auto")
        parked(node, "batch")
        was = node.daemon_pid()
        os.kill(was, signal.SIGKILL)
        until(lambda: node.daemon_pid() not in (None, was), "no meted came back")
        parked(node, "batch")
        finish(urgent)
        until(lambda: row(node, "batch")["doing"] not in ("yields", "waits-for-memory"), "it never came back")
        finish(batch)


def test_how_long_batch_runs_first_is_an_option():
    with Node(**FAST) as node:
        for option, value in ("--park-after", "soon"), ("--park-delay", "5"):
            done = subprocess.run([os.path.join(BUILD, "node", "meted"), option, value], env=node.environment, text=True, capture_output=True, timeout=240)
            assert done.returncode != 0 and f"{option}: '{value}'" in done.stderr and "a time with its unit" in done.stderr, done


if __name__ == "__main__":
    run(globals(), at_once=4)
