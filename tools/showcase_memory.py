#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The third act of the demo: programs that together hold twice the memory of the GPU.

Usage: tools/showcase_memory.py BUILD

Runs each training alone on a simulated GPU of 512 MiB, then all of them at once under `mete run`. Each stops half way
and at its end with all of its memory held, so that what they hold together and what moved is read then and not by chance. Exit
status 0 only if they held twice the GPU, memory moved, all checksums are those alone, nothing was refused, and nothing is left in
the host's memory.
"""
import argparse
import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import showcase  # noqa: E402
from showcase import MIB, Run  # noqa: E402

PATIENCE_S = 300  # for what must come, on a machine however busy: only a failure takes so long
DEVICE_MIB = 512
# A context of usual size would leave little of so small a device.
MACHINE = {"METE_SIM_DEVICES": "1xSIM", "METE_SIM_MEMORY": f"{DEVICE_MIB}M", "METE_SIM_CONTEXT_MEMORY": "16M"}
# Their sum is twice the device; contexts come on top.
TRAININGS = [("training", 20, 320), ("finetune", 25, 256), ("nightly", 30, 256), ("sweep", 35, 192)]
COLUMNS = [("MOVABLE", "movable_bytes"), ("OUT", "out_bytes"), ("MOVED OUT", "moved_out_bytes"), ("MOVED IN", "moved_in_bytes"),
           ("SAVED", "saved_bytes")]


class Failed(Exception):
    def __init__(self, run, where):
        super().__init__(f"{run.name} is not {where}")
        self.run = run


def command(build, steps, ballast, *more):
    return [str(build / "examples" / "train"), f"steps={steps}", f"ballast={ballast}M", *more]


class Stage:
    def __init__(self, build, environment):
        self.mete, self.environment = str(build / "cli" / "mete"), environment
        self.keeper = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.runs = [Run(name, [self.mete, "run", "--report", "--name", name, "--",
                                *command(build, steps, ballast, "stdin=1")], environment, stdin=subprocess.PIPE)
                     for name, steps, ballast in TRAININGS]

    def ps(self):
        done = subprocess.run([self.mete, "ps", "--json"], env=self.environment, text=True, capture_output=True, check=True)
        return json.loads(done.stdout)

    def seen(self):
        """`mete ps` without the table of time, which was the act before."""
        text = subprocess.run([self.mete, "ps"], env=self.environment, text=True, capture_output=True, check=True).stdout
        return text.split("\n\ntime of")[0] + "\n"

    def rows(self):
        """Of all programs, by name, and the device."""
        said = self.ps()
        return {row["name"]: row for row in said["tenants"]}, said["devices"][0]

    def wait(self, where):
        """Until each reports that it is there."""
        for run in self.runs:
            there = select.select([run.process.stdout], [], [], PATIENCE_S)[0]
            if not there or run.process.stdout.readline() != f"train: {where}\n":
                raise Failed(run, where)

    def go_on(self):
        for run in self.runs:
            with contextlib.suppress(BrokenPipeError):  # it has ended, and its status tells how
                os.write(run.process.stdin.fileno(), b"\n")

    def keep(self):
        """meted stays while somebody is connected; ours would end with its last tenant."""
        self.keeper.connect(os.path.join(self.environment["XDG_RUNTIME_DIR"], "mete", "admin.sock"))
        return self.ps()["meted"]["pid"]

    def end(self):
        """Where all went well, all have ended."""
        self.keeper.close()
        for run in self.runs:
            run.process.terminate()


def store_bytes(meted):
    """What is in meted's memory files."""
    folder, found = f"/proc/{meted}/fd", 0
    for fd in os.listdir(folder):
        try:
            if "mete-store" in os.readlink(f"{folder}/{fd}"):
                found += os.stat(f"{folder}/{fd}").st_blocks * 512
        except FileNotFoundError:
            pass  # closed meanwhile
    return found


def emptied(stage, meted):
    """Nobody tells us when the pages are cleared. What is left after all patience."""
    end = time.monotonic() + PATIENCE_S
    while (left := store_bytes(meted) + len(stage.ps()["tenants"])) and time.monotonic() < end:
        time.sleep(0.01)
    return left


def check(held, rows, device):
    """What must hold of all of them together: sentences about what does not."""
    left, back = (sum(row[key] for row in rows.values()) for key in ("moved_out_bytes", "moved_in_bytes"))
    if held < 2 * device["capacity_bytes"]:
        yield "they did not hold twice the device"
    if left < held - device["capacity_bytes"]:
        yield "less has left the device than has no room on it"
    if not back:
        yield "nothing came back"


def table(stage, alone, rows):
    """How many have failed."""
    print(f"{'PROGRAM':<12}{'HOLDS':>9}" + "".join(f"{title:>11}" for title, _ in COLUMNS) + f"  {'CHECKSUM':<18}VERDICT")
    bad = 0
    for run in stage.runs:
        said = showcase.ended_well(alone[run.name], run) or ("FAILED: memory was refused" if run.refusals else "ok")
        bad += said != "ok"
        row = rows[run.name]
        print(f"{run.name:<12}{row['allocated_bytes'] / MIB:>6.0f}MiB" + "".join(f"{row[key] / MIB:>8.0f}MiB" for _, key in COLUMNS) +
              f"  {run.checksum or '-':<18}{said}")
        if said != "ok":
            print("    " + "\n    ".join(run.output.splitlines()[-8:]))
    return bad


def play(stage, alone):
    """What went wrong."""
    stage.wait("half way")
    meted = stage.keep()
    rows, device = stage.rows()
    held = sum(row["allocated_bytes"] for row in rows.values())
    print(f"half way they hold {held / MIB:.0f} MiB; the GPU has {device['capacity_bytes'] / MIB:.0f} MiB")
    print(stage.seen(), flush=True)
    stage.go_on()
    stage.wait("done")
    rows, device = stage.rows()
    stage.go_on()
    for run in stage.runs:
        run.finish()
    print("what moved, and where it was before they ended; SAVED: left without a copy, as it had not changed")
    bad = table(stage, alone, rows)
    wrong = list(check(held, rows, device)) + ([f"{bad} programs failed"] if bad else [])
    if emptied(stage, meted):
        wrong.append("something is left in the host's memory")
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=Path)
    build = parser.parse_args().build.resolve()
    with showcase.stage(build) as environment:
        environment.update(MACHINE)
        print("-- each training alone", flush=True)
        alone = {name: showcase.run_alone(name, command(build, steps, ballast), environment) for name, steps, ballast in TRAININGS}
        print(f"\n-- all {len(TRAININGS)} at once, under mete run", flush=True)
        stage = Stage(build, environment)
        try:
            wrong = play(stage, alone)
        except Failed as failed:
            stage.end()
            wrong = [f"{failed}: {failed.run.finish().output}"]
        finally:
            stage.end()
    print(f"\nmemory: FAILED: {'; '.join(wrong)}" if wrong else
          f"\nmemory: {len(TRAININGS)} programs that hold twice the GPU: equal checksums, nothing refused, nothing left behind")
    return 1 if wrong else 0


if __name__ == "__main__":
    showcase.end_with(main)
