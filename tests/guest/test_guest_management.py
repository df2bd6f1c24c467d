#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""NVML as a tenant sees it, with the real daemon on the simulated driver: its limit, its processes, its devices and their parts.

    test_guest_management.py METED SIMULATOR GUEST_LINKS MEMORY_LOAD PARTED_NVML
"""
import os
import sys
import tempfile
import uuid

PARTED = os.path.abspath(sys.argv.pop(5))

from memory_node import *


def test_management_shows_a_tenant_its_limit_and_its_own_processes():
    with Node("300MiB") as node:
        other = node.admin.tenant("1GiB")
        # The driver wants more room for its samples than the guest has at first.
        first = Client(node, node.tenant.socket, 20 * MIB, METE_SIM_SAMPLES_KEPT="2000")
        second = Client(node, node.tenant.socket, 30 * MIB)
        neighbour = Client(node, other.socket, 500 * MIB)
        seen = first.sees(neighbour.process.pid)
        assert seen["samples"] == [7, 2000] and seen["states"] == 0, seen
        total, free, used = seen["memory"]
        assert total == 300 * MIB and free + used == total, seen
        # Two contexts of 64 MiB, and what both allocated; no byte of the neighbour's.
        assert used >= (20 + 30 + 128) * MIB and used < 300 * MIB, seen
        assert seen["cuda"] == [total, free], seen
        assert seen["memory2"][0] == total and sum(seen["memory2"][1:]) == total, seen
        assert sorted(seen["pids"]) == sorted([first.process.pid, second.process.pid]), seen
        assert seen["short"] == 7 and seen["graphics"] == 0, seen
        assert seen["names"] == [0, 6], seen
        far = neighbour.sees(first.process.pid)
        assert far["pids"] == [neighbour.process.pid] and far["memory"][0] == GIB, far
        # The limit changes while they run.
        node.admin.set(node.tenant.tenant, "memory", "200MiB")
        assert first.sees()["memory"][0] == 200 * MIB
        for client in (first, second, neighbour):
            client.end()
        node.nothing_left()


# NVML's answers about all devices that it has, about those with the UUIDs that are given, and about those that lie beside others.
LISTER = r'''
import ctypes as c, json, os, sys
nvml = c.CDLL("libnvidia-ml.so.1")
assert nvml.nvmlInit_v2() == 0
driver = c.CDLL(os.environ["METE_DRIVER"] + "/libnvidia-ml.so.1")
def handle(index):
    """One that came past mete."""
    device = c.c_void_p()
    assert driver.nvmlDeviceGetHandleByIndex_v2(index, c.byref(device)) == 0
    return device
def around(index):
    device, memory, rates, count, states = handle(index), (c.c_uint64 * 3)(), (c.c_uint * 2)(), c.c_uint(9), (c.c_uint * 33)()
    said = [nvml.nvmlDeviceGetMemoryInfo(device, memory), nvml.nvmlDeviceGetUtilizationRates(device, rates),
            nvml.nvmlDeviceGetDynamicPstatesInfo(device, states),
            nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, c.byref(count), (c.c_uint64 * 30)())]
    return said + [sum(memory), sum(rates), sum(states[:33]), count.value]
def text(function, device):
    text = c.create_string_buffer(80)
    assert function(device, text, 80) == 0
    return text.value
class Name(c.Structure):
    _fields_ = [("version", c.c_uint), ("type", c.c_uint), ("value", c.c_char * 41)]
def names(index):
    """The answer to each way to name a device."""
    device, pci, none = handle(index), c.create_string_buffer(256), c.byref(c.c_void_p())
    uuid, serial = text(driver.nvmlDeviceGetUUID, device), text(driver.nvmlDeviceGetSerial, device)
    assert driver.nvmlDeviceGetPciInfo_v3(device, pci) == 0
    whole = Name(c.sizeof(Name) | 1 << 24, 1, uuid)
    return [nvml.nvmlDeviceGetHandleByUUID(uuid, none), nvml.nvmlDeviceGetHandleByUUIDV(c.byref(whole), none),
            nvml.nvmlDeviceGetHandleBySerial(serial, none), nvml.nvmlDeviceGetHandleByPciBusId(pci.value, none),
            nvml.nvmlDeviceGetHandleByPciBusId_v2(pci.value, none)]
def beside(function, *first):
    """The UUIDs of the devices that a function finds: as many as it counts, and as there is room for."""
    count, devices = c.c_uint(0), (c.c_void_p * 8)()
    assert function(*first, c.byref(count), None) == 0
    room = c.c_uint(count.value)
    if count.value:
        assert function(*first, c.byref(room), devices) == 0 and room.value == count.value
        assert function(*first, c.byref(c.c_uint(1)), (c.c_void_p * 1)()) == 0
    return [text(nvml.nvmlDeviceGetUUID, c.c_void_p(device)).decode() for device in devices[:count.value]]
print("ready", flush=True)
for line in sys.stdin:
    count, old, rows = c.c_uint(99), c.c_uint(99), []
    assert nvml.nvmlDeviceGetCount_v2(c.byref(count)) == 0 and nvml.nvmlDeviceGetCount(c.byref(old)) == 0
    for index in range(count.value):
        device, again, number, minor, memory = c.c_void_p(), c.c_void_p(), c.c_uint(99), c.c_uint(99), (c.c_uint64 * 3)()
        assert nvml.nvmlDeviceGetHandleByIndex_v2(index, c.byref(device)) == 0
        assert nvml.nvmlDeviceGetHandleByIndex(index, c.byref(again)) == 0 and again.value == device.value
        assert nvml.nvmlDeviceGetIndex(device, c.byref(number)) == 0 and nvml.nvmlDeviceGetMinorNumber(device, c.byref(minor)) == 0
        assert nvml.nvmlDeviceGetMemoryInfo(device, memory) == 0
        rows.append([text(nvml.nvmlDeviceGetUUID, device).decode(), number.value, minor.value, memory[0]])
    after = nvml.nvmlDeviceGetHandleByIndex_v2(count.value, c.byref(c.c_void_p()))
    node, first = 40, c.c_void_p()
    assert nvml.nvmlDeviceGetHandleByIndex_v2(0, c.byref(first)) == 0
    print(json.dumps(dict(counts=[count.value, old.value], rows=rows, after=after, named=[names(index) for index in range(3)],
                          around=around(0), near=beside(nvml.nvmlDeviceGetTopologyNearestGpus, first, node),
                          at_cpu=beside(nvml.nvmlSystemGetTopologyGpuSet, 0))), flush=True)
'''


def test_management_shows_a_tenant_no_other_device():
    with Node(METE_SIM_DEVICES="3xSIM", CUDA_VISIBLE_DEVICES="") as node:
        uuids = [f"GPU-{uuid.UUID(bytes=node.admin.device_row(index).uuid)}" for index in range(3)]
        one, two = node.admin.tenant("300MiB", device="1"), node.admin.tenant("400MiB", device="2,0")
        first, second = Client(node, one.socket, program=LISTER), Client(node, two.socket, program=LISTER)
        lists = [client.sees() for client in (first, second)]
        # NVML's order, and its numbers from 0; a device's file keeps its own.
        assert lists[0]["counts"] == [1, 1] and lists[1]["counts"] == [2, 2], lists
        assert lists[0]["rows"] == [[uuids[1], 0, 1, 300 * MIB]], lists
        assert lists[1]["rows"] == [[uuids[0], 0, 0, 400 * MIB], [uuids[2], 1, 2, 400 * MIB]], lists
        assert [seen["after"] for seen in lists] == [2, 2], lists  # INVALID_ARGUMENT
        hidden, there = [6] * 5, [0] * 5  # NOT_FOUND
        assert [seen["named"] for seen in lists] == [[hidden, there, hidden], [there, hidden, there]], lists
        assert [seen["near"] for seen in lists] == [[], [uuids[2]]], lists
        assert [seen["at_cpu"] for seen in lists] == [[uuids[1]], [uuids[0], uuids[2]]], lists
        assert lists[0]["around"] == [4, 4, 4, 0, 0, 0, 0, 0], lists  # NO_PERMISSION, and nobody
        assert lists[1]["around"][:4] == [0, 0, 0, 0] and lists[1]["around"][4] > 0, lists
        first.end()
        second.end()
        # The output that people read: all of its text lines are the tenant's, by its own numbers.
        smi = subprocess.run([os.path.dirname(os.path.dirname(DRIVER)) + "/nvidia-smi", "-L"], env=node.guest_environment(two),
                             text=True, capture_output=True)
        assert [line.split("UUID: ")[1].rstrip(")") for line in smi.stdout.splitlines()] == [uuids[0], uuids[2]], smi


# The devices of another management library (tests/guest/parted_nvml.c).
PARTS = r'''
import ctypes as c, json, sys
nvml = c.CDLL("libnvidia-ml.so.1")
assert nvml.nvmlInit_v2() == 0
def about(device):
    text, index, memory = c.create_string_buffer(96), c.c_uint(99), (c.c_uint64 * 3)()
    assert nvml.nvmlDeviceGetUUID(device, text, 96) == 0 and nvml.nvmlDeviceGetIndex(device, c.byref(index)) == 0
    return [text.value.decode(), index.value, nvml.nvmlDeviceGetMemoryInfo(device, memory), memory[0]]
print("ready", flush=True)
for line in sys.stdin:
    count, rows = c.c_uint(99), []
    assert nvml.nvmlDeviceGetCount_v2(c.byref(count)) == 0
    for index in range(count.value):
        device, part = c.c_void_p(), c.c_void_p()
        r = nvml.nvmlDeviceGetHandleByIndex_v2(index, c.byref(device))
        rows.append([about(device)] if r == 0 else r)
        for i in range(7 if r == 0 else 0):
            if nvml.nvmlDeviceGetMigDeviceHandleByIndex(device, i, c.byref(part)) == 0:
                rows[-1].append(about(part))
    named = [nvml.nvmlDeviceGetHandleByUUID(name.encode(), c.byref(c.c_void_p())) for name in line.split()]
    print(json.dumps(dict(rows=rows, named=named)), flush=True)
'''


def parts_seen(node, tenant, place, devices, *names):
    client = Client(node, tenant.socket, program=PARTS, METE_DRIVER=place, METE_PARTED=devices)
    seen = client.sees(" ".join(names))
    client.end()
    return seen


def test_management_shows_a_part_with_its_gpu_and_a_lost_gpu_to_its_tenant():
    with Node(METE_SIM_DEVICES="2xSIM") as node, tempfile.TemporaryDirectory() as place:
        own, second = (uuid.UUID(bytes=node.admin.device_row(index).uuid) for index in range(2))
        os.symlink(DRIVER, place + "/libcuda.so.1")
        os.symlink(PARTED, place + "/libnvidia-ml.so.1")
        one, both = node.admin.tenant("300MiB", device="0"), node.admin.tenant("300MiB", device="0,1")
        foreign, other, gpu = (f"{kind}-{uuid.uuid4()}" for kind in ("GPU", "MIG", "GPU"))

        # The GPU is there for the sake of its part; what is used of it, and its other parts, are of others.
        part = f"MIG-{own}"
        seen = parts_seen(node, one, place, f"{foreign} {gpu}/{other}+{part}", foreign, gpu, other, part)
        assert seen["rows"] == [[[gpu, 0, 4, 0], [part, 1, 0, 300 * MIB]]], seen  # NO_PERMISSION
        assert seen["named"] == [6, 0, 6, 0], seen  # NOT_FOUND
        # The devices after a neighbour's GPU keep their numbers when it is lost.
        whole = dict(rows=[[[f"GPU-{own}", 0, 0, 300 * MIB]]], named=[])
        assert parts_seen(node, one, place, f"{foreign} GPU-{own}") == parts_seen(node, one, place, f"lost GPU-{own}") == whole
        # An own one that is lost is not silently away.
        assert parts_seen(node, one, place, f"{foreign} lost")["rows"] == [15]  # GPU_IS_LOST
        assert parts_seen(node, both, place, f"lost GPU-{second} {foreign}")["rows"] == [15, [[f"GPU-{second}", 1, 0, 300 * MIB]]]


# PyTorch counts devices by NVML so that its children may still begin with CUDA; the guest joins for that.
COUNTER = r'''
import ctypes as c, os, sys
nvml, count = c.CDLL("libnvidia-ml.so.1"), c.c_uint(99)
assert nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetCount_v2(c.byref(count)) == 0 and count.value == 1
def begins():
    lib, context, address = c.CDLL("libcuda.so.1"), c.c_void_p(), c.c_uint64()
    return [lib.cuInit(0), lib.cuCtxCreate_v2(c.byref(context), 0, 0), lib.cuMemAlloc_v2(c.byref(address), c.c_size_t(16 << 20)),
            lib.cuMemAlloc_v2(c.byref(address), c.c_size_t(512 << 20))]
child = os.fork()
if child == 0:
    os._exit(0 if begins() == [0, 0, 0, 2] else 1)
assert os.waitpid(child, 0)[1] == 0
assert begins() == [0, 0, 0, 2]
print("ready", flush=True)
sys.stdin.read()
'''


def test_counting_devices_leaves_children_their_driver_and_their_limit():
    with Node("300MiB", METE_SIM_DEVICES="2xSIM", CUDA_VISIBLE_DEVICES="0") as node:
        client = Client(node, node.tenant.socket, program=COUNTER)
        client.end()
        node.nothing_left()


run(globals())
