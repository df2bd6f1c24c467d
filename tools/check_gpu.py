#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Asks a machine's driver what docs/UNVERIFIED.md claims of it: the commands of its second part, in their order.

Usage: tools/check_gpu.py [--simulated] [--report FILE] [--within SECONDS] [--budget SECONDS] [--outputs FOLDER] [WORD...]

A command's exit status is its answer: 0 yes, 1 no, 77 not here, anything else failed; the last line it prints is the reason. Each
one has a process group of its own, which ends with it, and a failure ends nothing else. With --simulated the driver is the
simulated one of the build. WORDs choose the rows whose commands contain one of them, --within those that take no longer; after --budget
no further row is begun. --outputs keeps all that each command printed. Exit status 0: no command answered no or failed.
"""
import argparse
import contextlib
import ctypes
import datetime
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "UNVERIFIED.md"
BUILD = "build/plain"
CARRIED = "carried"  # libraries that tools/carry_gpu.py took along
ANSWERS = {0: "yes", 1: "no", 77: "not here"}
FAILED = "failed"


class Row:
    """A line of the table."""

    def __init__(self, line):
        # What was seen (the last but one, where there is one) is for people.
        self.claim, self.matters, self.seconds, *_, self.command = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        self.seconds = int(self.seconds)
        self.command = re.fullmatch(r"`([^`]+)`", self.command).group(1)


def rows(document=DOCUMENT):
    text = document.read_text()
    part = text[text.index("\n## 2 "):text.index("\n## 3 ")]
    lines = [line for line in part.splitlines() if line.startswith("| ")]
    return [Row(line) for line in lines[2:]]


def said(output):
    """Its last line, without what would break a table."""
    lines = [line for line in output.splitlines() if line.strip()]
    return lines[-1].strip().replace("|", "/")[-240:] if lines else ""


def ask_to_end(process):
    """What a command has started in sessions of its own, only the command can end."""
    os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(ProcessLookupError):
        for _ in range(100):
            process.poll()  # or it would stay in its group
            os.killpg(process.pid, 0)
            time.sleep(0.1)


def ask(row, environment, build, outputs):
    """(answer, reason, seconds)"""
    began, patience = time.monotonic(), 30 + 8 * row.seconds
    command = row.command.replace(BUILD, build)
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        process = subprocess.Popen(["sh", "-c", command], cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        try:
            status = process.wait(timeout=patience)
        except subprocess.TimeoutExpired:
            status = None
            ask_to_end(process)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        output.seek(0)
        text = output.read()
    took = time.monotonic() - began
    if outputs:
        outputs.mkdir(parents=True, exist_ok=True)
        (outputs / (re.sub(r"[^a-z0-9_*]+", "-", command.replace(build, "").lower())[-100:] + ".txt")).write_text(text)
    if status is None:
        return FAILED, f"no answer within {patience} s; {said(text)}", took
    if status in ANSWERS:
        return ANSWERS[status], said(text), took
    return FAILED, f"it ended with {status}: {said(text)}", took


def describe():
    """The device and the driver, as NVML names them."""
    name, version = ctypes.create_string_buffer(128), ctypes.create_string_buffer(128)
    device = ctypes.c_void_p()
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        nvml.nvmlInit_v2()
        nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device))
        nvml.nvmlDeviceGetName(device, name, 128)
        nvml.nvmlSystemGetDriverVersion(version, 128)
    except (OSError, AttributeError):
        return "no NVML"
    return f"{name.value.decode()}, driver {version.value.decode()}"


@contextlib.contextmanager
def place(build, simulated):
    """The environment of all commands: a runtime folder of its own, and the driver that is asked."""
    environment = {name: value for name, value in os.environ.items()
                   if name not in ("LD_PRELOAD", "METE_SOCKET", "METE_DRIVER") and not (simulated and name.startswith("METE_SIM_"))}
    # A socket's path has 107 bytes at most, and other users read this node, too.
    scratch = tempfile.mkdtemp(prefix="mete-check-", dir="/tmp")
    os.chmod(scratch, 0o755)
    os.mkdir(scratch + "/run", 0o700)
    environment["XDG_RUNTIME_DIR"] = scratch + "/run"
    libraries = [str(ROOT / build / CARRIED)] if (ROOT / build / CARRIED).exists() else []
    if simulated:
        os.mkdir(scratch + "/sim")
        os.chmod(scratch + "/sim", 0o1777)
        environment.pop("CUDA_VISIBLE_DEVICES", None)
        environment.update(METE_SIM_DIR=scratch + "/sim", METE_SIM_DEVICES="2xSIM", METE_SIM_CAPABILITY="9.0", METE_SIM_LOG="off",
                           LD_LIBRARY_PATH=":".join([str(ROOT / build / "sim" / "lib"), *libraries]))
    else:
        environment.pop("METE_SIM_DIR", None)
        if libraries:
            environment["LD_LIBRARY_PATH"] = ":".join([*libraries, environment.get("LD_LIBRARY_PATH", "")]).rstrip(":")
    try:
        yield environment
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def table(heading, answered):
    lines = [f"# What a GPU said to docs/UNVERIFIED.md\n\n{heading}\n", "| answer | claim | what it said | s | command |", "| --- | --- | --- | --- | --- |"]
    for row, (answer, reason, took) in answered:
        lines.append(f"| {answer} | {row.claim} | {reason} | {took:.1f} | `{row.command}` |")
    return "\n".join(lines) + "\n"


def count(answered):
    kinds = [answer for _, (answer, _, _) in answered]
    return ", ".join(f"{kinds.count(kind)} {kind}" for kind in (*ANSWERS.values(), FAILED))


def chosen(arguments):
    return [row for row in rows(arguments.document) if row.seconds <= arguments.within and
            (not arguments.words or any(word in row.command for word in arguments.words))]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--simulated", action="store_true")
    parser.add_argument("--report", type=Path, default=ROOT / "build" / "check-gpu.md")
    parser.add_argument("--document", type=Path, default=DOCUMENT)
    parser.add_argument("--within", type=int, default=sys.maxsize, metavar="SECONDS")
    parser.add_argument("--budget", type=int, default=sys.maxsize, metavar="SECONDS")
    parser.add_argument("--outputs", type=Path)
    parser.add_argument("--build", default=BUILD, help="in the place of " + BUILD)
    parser.add_argument("words", nargs="*", metavar="WORD")
    arguments = parser.parse_args()
    wanted, answered, answers = chosen(arguments), [], {}
    began = time.monotonic()
    with place(arguments.build, arguments.simulated) as environment:
        device = subprocess.run([sys.executable, __file__, "--describe"], env=environment, text=True, capture_output=True).stdout.strip()
        heading = f"{datetime.date.today()}, {device}."
        print(heading, flush=True)
        for row in wanted:
            if row.command not in answers and time.monotonic() - began > arguments.budget:
                continue
            if row.command not in answers:
                answers[row.command] = ask(row, environment, arguments.build, arguments.outputs)
            answer, reason, took = answers[row.command]
            answered.append((row, answers[row.command]))
            print(f"{answer:<9}{row.claim}\n         {reason}" if reason else f"{answer:<9}{row.claim}", flush=True)
            arguments.report.parent.mkdir(parents=True, exist_ok=True)
            arguments.report.write_text(table(heading, answered))
    if len(answered) < len(wanted):
        print(f"\n{len(wanted) - len(answered)} claims were not asked about: the budget of {arguments.budget} s was spent")
    print(f"\n{len(answered)} claims: {count(answered)}; {time.monotonic() - began:.0f} s; {arguments.report}")
    return 1 if any(answer in ("no", FAILED) for answer, _, _ in answers.values()) else 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--describe"]:
        print(describe())
        sys.exit(0)
    sys.exit(main())
