#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mete mig: GPUs are divided by a file of mig-parted, on the simulated driver; nobody loses a part that he uses."""
import json
import os
import subprocess
import sys

from mete import *
from meted import until

CONFIG = """version: v1
mig-configs:
  all-disabled:
  - devices: all
    mig-enabled: false
  all-enabled:
  - devices: all
    mig-enabled: true
    mig-devices: {}
  all-1g.10gb:
  - devices: all
    mig-enabled: true
    mig-devices:
      "1g.10gb": 7
  half:
  - devices: [0]
    mig-enabled: true
    mig-devices: {"3g.40gb": 1, "1g.10gb": 4}
  - devices: [1]
    mig-enabled: false
  balanced:
  - device-filter: ["0x233010DE", "0x233110DE"]
    devices: all
    mig-enabled: true
    mig-devices: {"3g.40gb": 1, 2g.20gb: 1, 1g.10gb: 2}
  - device-filter: "0x20B210DE"
    devices: all
    mig-enabled: false
  unknown:
  - {devices: [1], mig-enabled: true, mig-devices: {1g.5gb: 2}}
  full:
  - {devices: [0], mig-enabled: true, mig-devices: {3g.40gb: 2, 1g.10gb: 1}}
  processors:
  - {devices: [0], mig-enabled: true, mig-devices: {1c.3g.40gb: 3}}
"""
HOLDER = "import ctypes, sys; assert ctypes.CDLL('libnvidia-ml.so.1').nvmlInit_v2() == 0; print('here', flush=True); sys.stdin.read()"
WAITING = ("sh", "-c", "echo here; cat >/dev/null")


class Machine(Node):
    """Two H100, and a file. Somebody stays, so that the machine stays as it is divided."""

    def __init__(self, devices="2xH100", **environment):
        super().__init__(METE_SIM_DEVICES=devices, **environment)
        self.file = os.path.join(self.place, "config.yaml")
        self.write(CONFIG)

    def __enter__(self):
        holder = subprocess.Popen([sys.executable, "-c", HOLDER], env=self.environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.started.append(holder)
        assert holder.stdout.readline() == "here\n", holder.stderr.read()
        return super().__enter__()

    def write(self, text):
        """As a ConfigMap's volume has it: a link."""
        with open(self.file + ".data", "w") as out:
            out.write(text)
        if not os.path.islink(self.file):
            os.symlink(self.file + ".data", self.file)

    def mig(self, act, name=None, *more, **environment):
        return self.mete("mig", act, "-f", self.file, *(["-c", name] if name else []), *more, **environment)

    def export(self, *more):
        done = self.mete("mig", "export", *more)
        assert done.returncode == 0, done
        return done.stdout


def applied(done):
    assert done.returncode == 0 and not done.stderr, done


def test_apply_makes_the_division_and_assert_confirms_it():
    with Machine() as here:
        applied(here.mig("assert", "all-disabled"))
        for name in ("all-1g.10gb", "half", "balanced", "all-enabled", "all-disabled"):
            refused(here.mig("assert", name), "GPU 0", status=1)
            applied(here.mig("apply", name))
            applied(here.mig("assert", name))
            applied(here.mig("assert", name, "--mode-only"))
            applied(here.mig("apply", name))


def test_hooks_are_not_passed_over_in_silence():
    with Machine() as here:
        applied(here.mig("apply", "all-disabled", MIG_PARTED_HOOKS_FILE=""))
        done = here.mig("apply", "all-disabled", MIG_PARTED_HOOKS_FILE="/hooks.yaml")
        assert done.returncode == 0 and done.stderr == "mete mig: note: MIG_PARTED_HOOKS_FILE is ignored: mete runs no hooks\n", done
        refused(here.mig("apply", "all-disabled", "--hooks-file", "/hooks.yaml"), "hooks-file")


def test_an_exported_division_can_be_applied():
    with Machine() as here:
        applied(here.mig("apply", "half"))
        text = here.export("--config-label", "mine")
        assert text == ("version: v1\nmig-configs:\n  mine:\n  - devices: [0]\n    mig-enabled: true\n    mig-devices:\n      1g.10gb: 4\n      3g.40gb: 1\n"
                        "  - devices: [1]\n    mig-enabled: false\n    mig-devices: {}\n"), text
        applied(here.mig("apply", "all-1g.10gb"))
        assert here.export() == ("version: v1\nmig-configs:\n  current:\n  - devices: all\n    mig-enabled: true\n    mig-devices:\n      1g.10gb: 7\n")
        here.write(text)
        refused(here.mig("assert"), "GPU 0", "other parts")
        applied(here.mig("apply"))
        applied(here.mig("assert", "mine"))
        tree = json.loads(here.export("-o", "json"))
        assert tree == {"version": "v1", "mig-configs": {"current": [
            {"devices": [0], "mig-enabled": True, "mig-devices": {"1g.10gb": 4, "3g.40gb": 1}},
            {"devices": [1], "mig-enabled": False, "mig-devices": {}}]}}, tree


def test_models_are_told_apart():
    with Machine("1xH100,1xA100,1xT4") as here:
        applied(here.mig("apply", "balanced"))
        # No row of it speaks of the T4: it is applied, but nobody can say that the node is so.
        refused(here.mig("assert", "balanced"), "GPU 2", "no row")
        text = here.export()
        assert text.count("device-filter: ") == 2 and 'device-filter: "0x233010DE"\n    devices: all\n    mig-enabled: true' in text, text
        assert 'device-filter: ["0x1EB810DE", "0x20B210DE"]\n    devices: all\n    mig-enabled: false' in text, text
        # `all` passes over what has no MIG; a GPU that is named does not.
        applied(here.mig("apply", "all-disabled"))
        applied(here.mig("assert", "all-disabled"))
        here.write("version: v1\nmig-configs:\n  one:\n  - {devices: [2], mig-enabled: true, mig-devices: {1g.10gb: 1}}\n")
        refused(here.mig("apply"), "GPU 2", "Tesla T4", "has no MIG", status=1)


def test_only_modes():
    with Machine() as here:
        applied(here.mig("apply", "half"))
        applied(here.mig("apply", "all-1g.10gb", "--mode-only"))
        applied(here.mig("assert", "all-1g.10gb", "--mode-only"))
        applied(here.mig("assert", "all-1g.10gb", MIG_PARTED_MODE_CHANGE_ONLY="true"))
        refused(here.mig("assert", "all-1g.10gb"), "other parts")
        assert "1g.10gb: 4" in here.export(), "what was there stays"
        # Names do not count then.
        applied(here.mig("apply", "unknown", "--mode-only"))


def test_an_impossible_division_is_refused_in_one_sentence_and_changes_nothing():
    with Machine() as here:
        applied(here.mig("apply", "half"))
        before = here.export()
        refused(here.mig("apply", "unknown"), "GPU 1 (NVIDIA H100 80GB HBM3) has no profile 1g.5gb", "accepted there: 1g.10gb,", "7g.80gb", status=1)
        refused(here.mig("apply", "full"), "GPU 0", "no room", "2 3g.40gb, 1 1g.10gb", status=1)
        refused(here.mig("apply", "processors"), "1c.3g.40gb", "which mete does not make", status=1)
        refused(here.mig("apply", "nobody"), "no configuration 'nobody'", status=1)
        refused(here.mig("apply"), "several configurations", status=1)
        refused(here.mete("mig", "apply", "-c", "half"), "--config-file", status=2)
        refused(here.mete("mig", "divide"), "apply, assert and export", status=2)
        refused(here.mete("mig", "export", "-c", "half"), "--selected-config is not an option of `mete mig export`", status=2)
        assert here.export() == before
        # As mig-manager asks first.
        applied(here.mig("assert", "unknown", "--valid-config"))
        refused(here.mig("assert", "nobody", "--valid-config"), "nobody", status=1)
        applied(here.mete("mig", "assert", MIG_PARTED_CONFIG_FILE=here.file, MIG_PARTED_SELECTED_CONFIG="half"))


def program_on(here, part):
    """A program with a context there, and no tenant of meted."""
    process = subprocess.Popen([workload("train"), "stdin=1"], env=dict(here.environment, CUDA_VISIBLE_DEVICES=part), text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    here.started.append(process)
    assert "half way" in process.stdout.readline()
    return process


def parts_of(here):
    """UUIDs by what nvidia-smi calls the part."""
    said = subprocess.run([os.path.join(BUILD, "sim", "nvidia-smi"), "-L"], env=here.environment, text=True, capture_output=True).stdout
    return [(line.split()[1], line.split("UUID: ")[1].rstrip(")")) for line in said.splitlines() if line.strip().startswith("MIG")]


def test_nobody_loses_a_part_that_he_uses():
    with Machine() as here:
        applied(here.mig("apply", "half"))
        uuid = next(uuid for name, uuid in parts_of(here) if name == "3g.40gb")
        process = program_on(here, uuid)
        before = here.export()
        refused(here.mig("apply", "all-1g.10gb"), "GPU 0", "its part 3g.40gb is in use by process", str(process.pid), "train", status=1)
        refused(here.mig("apply", "all-disabled"), "3g.40gb is in use by process", status=1)
        assert here.export() == before, "the other GPU is as it was, too"
        # A wanted part stays, with its program on it; an idle one makes room.
        applied(here.mig("apply", "balanced"))
        assert uuid in [uuid for _, uuid in parts_of(here)]
        said, errors = process.communicate("\n\n", timeout=240)
        assert process.returncode == 0 and "train ok" in said, (said, errors)
        applied(here.mig("apply", "all-1g.10gb"))


def test_nobody_loses_a_gpu_that_he_uses():
    with Machine() as here:
        process = program_on(here, "1")
        refused(here.mig("apply", "all-enabled"), "GPU 1", "it is in use by process", str(process.pid), status=1)
        assert "mig-enabled: true" not in here.export(), "nor is the other one divided"
        process.communicate("\n\n", timeout=240)
        applied(here.mig("apply", "all-enabled"))


ENABLE = """
import ctypes
nvml, device, activation = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p(), ctypes.c_int()
assert nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetHandleByIndex_v2(1, ctypes.byref(device)) == 0
assert nvml.nvmlDeviceSetMigMode(device, 1, ctypes.byref(activation)) == 0
print(activation.value)
"""


def test_a_mode_that_waits_for_a_reset_is_called_off():
    with Machine() as here:
        process = program_on(here, "1")
        done = subprocess.run([sys.executable, "-c", ENABLE], env=here.environment, text=True, capture_output=True)
        assert done.stdout == "19\n", done  # NVML_ERROR_IN_USE: it is noted
        process.communicate("\n\n", timeout=240)
        refused(here.mig("assert", "all-disabled"), "GPU 1", "MIG is enabled by the next reset, and shall not be", status=1)
        applied(here.mig("apply", "all-disabled"))
        applied(here.mig("assert", "all-disabled"))


def test_a_tenant_without_a_process_on_it_counts():
    with Machine() as here:
        applied(here.mig("apply", "half"))
        uuid = next(uuid for name, uuid in parts_of(here) if name == "3g.40gb")
        tenant = here.start("run", "--device", uuid, "--name", "early", "--", *WAITING)
        assert tenant.stdout.readline() == "here\n"
        refused(here.mig("apply", "all-1g.10gb"), "3g.40gb is in use by tenant", "early", status=1)
        tenant.stdin.close()
        tenant.wait()
        until(lambda: not here.ps()["tenants"])
        applied(here.mig("apply", "all-1g.10gb"))


run(globals())
