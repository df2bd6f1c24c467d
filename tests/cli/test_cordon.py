#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`mete cordon`, `mete uncordon` and `mete drain`. argv[1]: the build folder."""
import os
import signal
import sys

from mete import *
from meted import until

TWO = dict(METE_SIM_DEVICES="2xSIM")
IDLES = [sys.executable, "-c", "import sys; sys.stdin.read()"]  # until its standard input ends
DEAF = [sys.executable, "-c", "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); sys.stdin.read()"]


def begin(node, name, *options, program=IDLES, quiet=True):
    """A tenant that is there until its standard input ends."""
    process = node.start("run", "--name", name, "--quiet", *options, "--", *program)
    until(lambda: any(row["name"] == name for row in node.ps()["tenants"]), f"{name} never came")
    return process


def finish(process):
    process.stdin.close()
    process.stdin = open(os.devnull)
    return process.wait(timeout=240)


def cordoned(node):
    return [row["cordoned"] for row in node.ps()["devices"]]


def device_of(node, name):
    return next(row["device"] for row in node.ps()["tenants"] if row["name"] == name)


def test_no_new_tenant_comes_to_a_cordoned_device_and_those_there_run_on():
    with Node(**TWO) as node:
        first = begin(node, "first", "--device", "0")
        assert "1 is there and runs on" in node.mete("cordon", "0").stdout
        assert node.mete("cordon", "0").returncode == 0 and cordoned(node) == [True, False]
        refused(node.mete("run", "--device", "0", "--", "true"), "device 0 (GPU-", "takes no new tenants", "mete uncordon 0", status=125)
        refused(node.mete("run", "--device", "0,1", "--", "true"), "device 0 (GPU-", status=125)
        # Without a wish it is the other one, though more is promised there.
        others = [begin(node, f"other-{n}") for n in range(3)]
        assert [device_of(node, f"other-{n}") for n in range(3)] == [1, 1, 1]
        text = node.mete("ps").stdout
        assert "NEW TENANTS" in text and "none: cordoned" in text, text
        picked = node.mete("pick", "--limit", "all", "--index", "--max-memory", "100%", "--hold", "1ms")
        assert picked.stdout.strip() == "1", picked
        # A tenant that is there may change, and may have others within itself.
        assert node.mete("set", "first", "weight=50").returncode == 0
        assert first.poll() is None
        uuid = node.ps()["devices"][0]["uuid"]
        assert "device 0 takes new tenants" in node.mete("uncordon", uuid[:-1]).stdout
        assert cordoned(node) == [False, False] and "NEW TENANTS" not in node.mete("ps").stdout
        late = begin(node, "late", "--device", "0")
        for process in [first, late, *others]:
            assert finish(process) == 0


def test_a_tenant_within_one_that_is_there_is_not_new():
    with Node(**TWO) as node:
        outer = node.start("run", "--device", "0", "--memory", "512M", "--name", "outer", "--quiet", "--", "sh", "-c",
                           f"read line; exec {os.path.join(BUILD, 'cli', 'mete')} run --quiet --memory 128M -- true")
        until(lambda: node.ps()["tenants"], "it never came")
        assert node.mete("cordon", "0").returncode == 0
        outer.stdin.write("go\n")
        outer.stdin.flush()
        assert finish(outer) == 0, outer.stderr.read()


def test_a_cordon_outlasts_meted():
    with Node(**TWO) as node:
        keeper = begin(node, "keeper", "--device", "1")
        assert node.mete("cordon", "1").returncode == 0
        for how in (signal.SIGKILL, signal.SIGTERM):
            was = node.daemon_pid()
            os.kill(was, how)
            until(lambda: node.daemon_pid() not in (None, was), "no meted came back")
            assert cordoned(node) == [False, True]
            refused(node.mete("run", "--device", "1", "--", "true"), "takes no new tenants", status=125)
        # A user's meted that remembers it stays, without tenants, too.
        assert finish(keeper) == 0
        was = node.daemon_pid()
        keeper = begin(node, "keeper")
        assert device_of(node, "keeper") == 0 and cordoned(node) == [False, True] and node.daemon_pid() == was
        assert node.mete("uncordon", "1").returncode == 0
        os.kill(was, signal.SIGKILL)
        until(lambda: node.daemon_pid() not in (None, was), "no meted came back")
        assert cordoned(node) == [False, False]
        assert node.mete("cordon", "1").returncode == 0 and finish(keeper) == 0
        assert cordoned(node) == [False, True] and node.mete("uncordon", "1").returncode == 0
        until(lambda: not node.daemon_pid(), "meted never ended")


def test_every_mistake_is_one_sentence():
    with Node(**TWO) as node:
        refused(node.mete("cordon", "0"), "no meted is running that could keep anybody from device '0'", "`systemctl enable --now meted`", status=1)
        keeper = begin(node, "keeper")
        for verb in "cordon", "uncordon", "drain":
            refused(node.mete(verb), "expected one device, as in: mete", status=2)
            refused(node.mete(verb, "0", "1"), "expected one device, as in: mete", status=2)
            refused(node.mete(verb, "7"), "there is no device '7'", "an index below 2", status=1)
            refused(node.mete(verb, ""), "expected one device", status=2)
        for option, value in ("park", "all"), ("end", "BATCH"), ("park", ""), ("end", "best"):
            refused(node.mete("drain", f"--{option}", value, "0"), f"--{option}: ", "accepted: interactive, standard or batch", status=2)
        refused(node.mete("drain", "--grace", "3", "--end", "batch", "0"), "--grace '3'", "with its unit", status=2)
        refused(node.mete("drain", "--timeout", "soon", "0"), "--timeout 'soon'", status=2)
        refused(node.mete("drain", "--grace", "3s", "0"), "it needs --end", status=2)
        assert cordoned(node) == [False, False]
        assert finish(keeper) == 0


def test_a_dry_run_means_the_same_devices_as_the_drain():
    """Also where the beginning of a UUID is too short to say which, and where it is typed in capitals."""
    with Node(**TWO) as node:
        keeper = begin(node, "keeper", "--device", "0")
        uuid = node.ps()["devices"][0]["uuid"]
        for name in ("G", "GPU-", uuid[4:6]):
            for how in ([], ["--dry-run"]):
                done = node.mete("drain", *how, name)
                assert done.returncode == 1 and f"'{name}'" in done.stderr and cordoned(node) == [False, False], (how, done)
        for name in (uuid[4:12], uuid[:12].upper(), uuid, "0"):
            done = node.mete("drain", "--dry-run", name)
            assert done.returncode == 0 and "(keeper): would be waited for" in done.stdout, (name, done)
        assert finish(keeper) == 0


def test_drain_waits_for_the_last_tenant():
    with Node(**TWO) as node:
        first, second = begin(node, "first", "--device", "0"), begin(node, "second", "--device", "0")
        other = begin(node, "other", "--device", "1")
        planned = node.mete("drain", "--dry-run", "--end", "batch", "0")
        assert planned.returncode == 0 and planned.stdout.count("would be waited for") == 2, planned
        assert cordoned(node) == [False, False]
        refused(node.mete("drain", "--timeout", "10ms", "0"), "device 0 takes no new tenants, and still has tenants ", "(first)", "(second)", status=1)
        assert cordoned(node) == [True, False]
        draining = node.start("drain", "0")
        assert "is waited for" in draining.stdout.readline()
        assert finish(first) == 0
        assert draining.poll() is None
        assert finish(second) == 0
        assert draining.wait(timeout=240) == 0, draining.stderr.read()
        assert "device 0 is drained: nobody is there" in draining.stdout.read()
        assert other.poll() is None and finish(other) == 0


def test_drain_ends_tenants_of_a_class_and_of_lower_ones():
    with Node(**TWO) as node:
        urgent = begin(node, "urgent", "--device", "0", "--class", "interactive")
        usual = begin(node, "usual", "--device", "0")
        deaf = begin(node, "deaf", "--device", "0", "--class", "batch", program=DEAF)
        assert deaf.stdout.readline() == "deaf\n"
        planned = node.mete("drain", "--dry-run", "--end", "standard", "0").stdout
        assert planned.count("would be ended") == 2 and planned.count("would be waited for") == 1, planned
        draining = node.start("drain", "--end", "standard", "--grace", "1s", "0")
        assert usual.wait(timeout=240) == -signal.SIGTERM
        assert deaf.wait(timeout=240) == -signal.SIGKILL
        until(lambda: [row["name"] for row in node.ps()["tenants"]] == ["urgent"], "somebody else is left")
        assert draining.poll() is None and urgent.poll() is None
        assert finish(urgent) == 0
        assert draining.wait(timeout=240) == 0
        said = draining.stdout.read()
        assert "(deaf): has not ended in time, and is killed" in said and "(usual): has not ended" not in said, said


def test_drain_parks_tenants_whose_memory_moves_and_uncordon_names_them():
    with Node(**TWO) as node:
        batch = node.start("run", "--name", "batch", "--device", "0", "--class", "batch", "--memory", "512M", "--swap", "auto", "--",
                           workload("train"), "steps=20", "ballast=64M", "stdin=1")
        until(lambda: any(row["movable_bytes"] for row in node.ps()["tenants"]), "it never had memory")
        stays = begin(node, "stays", "--device", "0", "--class", "batch", "--swap", "off")
        draining = node.start("drain", "--park", "batch", "0")
        row = until(lambda: next((row for row in node.ps()["tenants"] if row["name"] == "batch" and row["doing"] == "suspended" and not row["movable_bytes"]), None),
                    "its memory never left")
        assert row["out_bytes"] > 0
        assert finish(stays) == 0
        assert draining.wait(timeout=240) == 0, draining.stderr.read()
        said = draining.stdout.read()
        assert "(batch): is parked" in said and "(stays): cannot be parked: " in said and "(stays): is waited for" in said, said
        assert "device 0 is drained: 1 tenant is parked" in said, said
        said = node.mete("uncordon", "0").stdout
        assert "(batch) is still suspended: `mete resume " in said, said
        assert node.mete("resume", "batch").returncode == 0
        out, err = batch.communicate("go\ngo\n", timeout=240)
        assert batch.returncode == 0 and " ok " in out, (out, err)


if __name__ == "__main__":
    run(globals())
