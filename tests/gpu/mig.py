#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The claims of docs/UNVERIFIED.md about GPUs in MIG mode: mig.py QUESTION. Answers as claims.c does.

Each makes parts of the first GPU and takes them away again, so it runs only where MIG is on and nothing is divided yet.
"""
import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path

from here import end

XID, BYTES = 8, 256


def smi(*words):
    done = subprocess.run(["nvidia-smi", *words], text=True, capture_output=True, timeout=120)
    if done.returncode != 0:
        end(2, f"nvidia-smi {' '.join(words)}: {(done.stdout + done.stderr).strip()[-200:]}")
    return done.stdout


def parts():
    """UUIDs of the parts, as nvidia-smi lists them."""
    return re.findall(r"UUID: (MIG-[0-9a-f-]+)", smi("-L"))


def divide():
    """The smallest part that the GPU offers."""
    profile = re.search(r"^\|\s+0\s+MIG 1g\S+\s+(\d+)", smi("mig", "-i", "0", "-lgip"), re.M)
    if not profile:
        end(2, "nvidia-smi lists no profile of one slice")
    smi("mig", "-i", "0", "-cgi", profile.group(1), "-C")
    return parts()


def undivide():
    for words in ("-dci",), ("-dgi",):
        subprocess.run(["nvidia-smi", "mig", "-i", "0", *words], capture_output=True, timeout=120)


def ready():
    try:
        mode = subprocess.run(["nvidia-smi", "--query-gpu=mig.mode.current", "--format=csv,noheader", "-i", "0"], text=True,
                              capture_output=True, timeout=60).stdout.strip()
    except FileNotFoundError:
        mode = "no nvidia-smi"
    if mode != "Enabled":
        end(77, f"a GPU in MIG mode: nvidia-smi -i 0 -mig 1 (now: {mode or 'unknown'})")
    if parts():
        end(77, "a GPU that is not divided yet: what others made stays as it is")


def nvml():
    library = ctypes.CDLL("libnvidia-ml.so.1")
    device = ctypes.c_void_p()
    library.nvmlInit_v2()
    if library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) != 0:
        end(2, "NVML has no device 0")
    return library, device


def part_handle(library, device):
    part = ctypes.c_void_p()
    if library.nvmlDeviceGetMigDeviceHandleByIndex(device, 0, ctypes.byref(part)) != 0:
        end(1, "nvmlDeviceGetMigDeviceHandleByIndex lists no part")
    return part


def uuid_of(library, handle):
    text = ctypes.create_string_buffer(BYTES)
    return library.nvmlDeviceGetUUID(handle, text, BYTES), text.value.decode()


def a_part_that_is_made_again_has_its_uuid_and_the_old_handle_an_error():
    library, device = nvml()
    first = divide()
    stale = part_handle(library, device)
    undivide()
    second = divide()
    r, uuid = uuid_of(library, stale)
    if first != second:
        end(1, f"{first} became {second}")
    if r == 0 and uuid not in second:
        end(1, f"the old handle tells of {uuid}")
    return f"{first[0]}; the old handle answers {r}"


def nvml_lists_parts_with_the_uuids_that_programs_see():
    library, device = nvml()
    [uuid] = divide()
    if uuid_of(library, part_handle(library, device)) != (0, uuid):
        end(1, f"NVML says {uuid_of(library, part_handle(library, device))}, nvidia-smi {uuid}")
    claims = str(Path(sys.argv[2]) / "tests/gpu/claims")
    environment = dict(os.environ, CUDA_VISIBLE_DEVICES=uuid, EXPECTED=uuid)
    if subprocess.run([claims, "first_device_is_expected"], env=environment, capture_output=True, timeout=60).returncode != 0:
        end(1, "the program's device has another UUID")
    return uuid


def an_event_of_a_part_has_the_gpus_handle_and_its_instance():
    class Event(ctypes.Structure):
        _fields_ = [("device", ctypes.c_void_p), ("type", ctypes.c_ulonglong), ("data", ctypes.c_ulonglong),
                    ("gpu_instance", ctypes.c_uint), ("compute_instance", ctypes.c_uint)]

    library, device = nvml()
    [uuid] = divide()
    events, event = ctypes.c_void_p(), Event()
    library.nvmlEventSetCreate(ctypes.byref(events))
    if library.nvmlDeviceRegisterEvents(device, ctypes.c_ulonglong(XID), events) != 0:
        end(77, "a driver that reports Xids of this device")
    claims = str(Path(sys.argv[2]) / "tests/gpu/claims")
    subprocess.run([claims, "go_astray"], env=dict(os.environ, CUDA_VISIBLE_DEVICES=uuid), capture_output=True, timeout=60)
    if library.nvmlEventSetWait_v2(events, ctypes.byref(event), 5000) != 0:
        end(1, "no event within 5 s")
    if event.device != device.value or event.gpu_instance == 0xffffffff:
        end(1, f"its device is {event.device}, the GPU's {device.value}; its instance {event.gpu_instance}")
    return f"Xid {event.data} of instance {event.gpu_instance}"


QUESTIONS = {function.__name__: function for function in (
    a_part_that_is_made_again_has_its_uuid_and_the_old_handle_an_error, nvml_lists_parts_with_the_uuids_that_programs_see,
    an_event_of_a_part_has_the_gpus_handle_and_its_instance)}


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in QUESTIONS:
        end(2, "usage: mig.py QUESTION BUILD; questions: " + " ".join(QUESTIONS))
    ready()
    try:
        said = QUESTIONS[sys.argv[1]]()
    finally:
        undivide()
    end(0, said)


if __name__ == "__main__":
    main()
