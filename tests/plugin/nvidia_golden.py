# SPDX-License-Identifier: Apache-2.0
"""The kubelet's questions and the answers of NVIDIA's device plugin (v0.20), by the rows of ../shared/facts/nvidia-device-plugin.md. The effects of
its configuration are in tests/unit/nvidia_golden.def.

A and B stand for the UUIDs of the two GPUs. The machine has /dev/nvidia0, nvidia1, nvidiactl, nvidia-uvm and the IMEX channel 0.
"""
V = "/var/run/nvidia-container-devices"
CDI = "k8s.device-plugin.nvidia.com"
KEY = "cdi.k8s.io/nvidia-device-plugin_UUID"


def plugin(**settings):
    return {"version": "v1", "flags": {"plugin": settings}}


def sliced(replicas, **more):
    return {"version": "v1", "sharing": {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": replicas}], **more}}}


def both(one, other):
    return {**one, **other}


PLAIN = {"version": "v1"}
IMEX = {"imex": {"channelIDs": [0]}}

GOLDEN = (  # (row, file, what is asked, the answer)
    ("1.2 device id", PLAIN, "list", "A=Healthy B=Healthy"),
    ("1.2 shared replica", sliced(2), "list", "A::0=Healthy A::1=Healthy B::0=Healthy B::1=Healthy"),
    ("1.2 index", plugin(deviceIDStrategy="index"), "list", "A=Healthy B=Healthy"),
    ("1.3 register", PLAIN, "registered", "registered nvidia.com/gpu 0 1"),
    ("1.2 shared suffix", sliced(2, renameByDefault=True), "registered", "registered nvidia.com/gpu.shared 0 1"),
    ("1.4 envvar", PLAIN, "allocate B A", "ok env=NVIDIA_VISIBLE_DEVICES=B,A"),
    ("1.4 envvar, duplicates", sliced(3), "allocate B::2 B::0 A::0", "ok env=NVIDIA_VISIBLE_DEVICES=B,A"),
    ("1.4 envvar, index", plugin(deviceIDStrategy="index"), "allocate B", "ok env=NVIDIA_VISIBLE_DEVICES=1"),
    ("1.4 envvar, IMEX", both(PLAIN, IMEX), "allocate A", "ok env=NVIDIA_VISIBLE_DEVICES=A env=NVIDIA_IMEX_CHANNELS=0"),
    ("1.4 volume-mounts", plugin(deviceListStrategy="volume-mounts"), "allocate B A",
     f"ok env=NVIDIA_VISIBLE_DEVICES={V} mount=/dev/null:{V}/B mount=/dev/null:{V}/A"),
    ("1.4 volume-mounts, IMEX", both(plugin(deviceListStrategy="volume-mounts"), IMEX), "allocate A",
     f"ok env=NVIDIA_VISIBLE_DEVICES={V} mount=/dev/null:{V}/A mount=/dev/null:{V}/imex/0"),
    ("1.4 envvar and volume-mounts", plugin(deviceListStrategy=["envvar", "volume-mounts"]), "allocate A",
     f"ok env=NVIDIA_VISIBLE_DEVICES={V} mount=/dev/null:{V}/A"),
    ("1.4 cdi-cri", plugin(deviceListStrategy="cdi-cri"), "allocate B A", f"ok cdi={CDI}/gpu=B cdi={CDI}/gpu=A"),
    ("1.4 cdi-cri, IMEX", both(plugin(deviceListStrategy="cdi-cri"), IMEX), "allocate A", f"ok cdi={CDI}/gpu=A cdi={CDI}/imex-channel=0"),
    ("1.4 cdi-annotations", plugin(deviceListStrategy="cdi-annotations"), "allocate B A", f"ok mark={KEY}={CDI}/gpu=B,{CDI}/gpu=A"),
    ("1.4 cdi-annotations, prefix", plugin(deviceListStrategy="cdi-annotations", cdiAnnotationPrefix="a.b/"), "allocate A",
     f"ok mark={KEY.replace('cdi.k8s.io', 'a.b')}={CDI}/gpu=A"),
    ("1.4 cdi-cri and envvar", plugin(deviceListStrategy=["cdi-cri", "envvar"]), "allocate A", f"ok cdi={CDI}/gpu=A env=NVIDIA_VISIBLE_DEVICES=A"),
    ("1.4 passDeviceSpecs", plugin(passDeviceSpecs=True), "allocate B",
     "ok env=NVIDIA_VISIBLE_DEVICES=B node=/dev/nvidiactl:/dev/nvidiactl node=/dev/nvidia-uvm:/dev/nvidia-uvm node=/dev/nvidia1:/dev/nvidia1"),
    ("1.4 passDeviceSpecs, CDI alone", plugin(passDeviceSpecs=True, deviceListStrategy="cdi-cri"), "allocate B", f"ok cdi={CDI}/gpu=B"),
    ("1.4 passDeviceSpecs, dev root", {"version": "v1", "flags": {"nvidiaDevRoot": "/r", "plugin": {"passDeviceSpecs": True}}}, "allocate A",
     "ok env=NVIDIA_VISIBLE_DEVICES=A node=/r/dev/nvidiactl:/dev/nvidiactl node=/r/dev/nvidia-uvm:/dev/nvidia-uvm node=/r/dev/nvidia0:/dev/nvidia0"),
    ("1.4 gdrcopy", {"version": "v1", "flags": {"gdrcopyEnabled": True}}, "allocate A", "ok env=NVIDIA_VISIBLE_DEVICES=A env=NVIDIA_GDRCOPY=enabled"),
    ("1.4 gds", {"version": "v1", "flags": {"gdsEnabled": True}}, "allocate A", "ok env=NVIDIA_VISIBLE_DEVICES=A env=NVIDIA_GDS=enabled"),
    ("1.4 mofed", {"version": "v1", "flags": {"mofedEnabled": True}}, "allocate A", "ok env=NVIDIA_VISIBLE_DEVICES=A env=NVIDIA_MOFED=enabled"),
    ("1.4 gdrcopy, CDI alone", {"version": "v1", "flags": {"gdrcopyEnabled": True, "plugin": {"deviceListStrategy": "cdi-cri"}}}, "allocate A",
     f"ok cdi={CDI}/gpu=A env=NVIDIA_GDRCOPY=enabled"),
    ("1.4 gds and mofed, CDI alone", {"version": "v1", "flags": {"gdsEnabled": True, "mofedEnabled": True, "plugin": {"deviceListStrategy": "cdi-cri"}}}, "allocate A",
     f"ok cdi={CDI}/gpu=A env=NVIDIA_GDS=enabled env=NVIDIA_MOFED=enabled"),
    ("1.4 cdi-cri and envvar, IMEX", both(plugin(deviceListStrategy=["cdi-cri", "envvar"]), IMEX), "allocate A",
     f"ok cdi={CDI}/gpu=A cdi={CDI}/imex-channel=0 env=NVIDIA_VISIBLE_DEVICES=A env=NVIDIA_IMEX_CHANNELS=0"),
    ("1.4 passDeviceSpecs, IMEX", both(plugin(passDeviceSpecs=True), IMEX), "allocate A",
     "ok env=NVIDIA_VISIBLE_DEVICES=A env=NVIDIA_IMEX_CHANNELS=0 node=/dev/nvidiactl:/dev/nvidiactl node=/dev/nvidia-uvm:/dev/nvidia-uvm "
     "node=/dev/nvidia0:/dev/nvidia0 node=/dev/nvidia-caps-imex-channels/channel0:/dev/nvidia-caps-imex-channels/channel0"),
    ("1.4 volume-mounts, index", plugin(deviceListStrategy="volume-mounts", deviceIDStrategy="index"), "allocate B",
     f"ok env=NVIDIA_VISIBLE_DEVICES={V} mount=/dev/null:{V}/1"),
    ("1.4 cdi-cri, index", plugin(deviceListStrategy="cdi-cri", deviceIDStrategy="index"), "allocate B", f"ok cdi={CDI}/gpu=1"),
    ("1.4 cdi-annotations and cdi-cri", plugin(deviceListStrategy=["cdi-annotations", "cdi-cri"]), "allocate A",
     f"ok cdi={CDI}/gpu=A mark={KEY}={CDI}/gpu=A"),
    ("1.4 failRequestsGreaterThanOne", sliced(3, failRequestsGreaterThanOne=True), "allocate A::0 B::0",
     'error invalid allocation request for "nvidia.com/gpu": invalid request: maximum request size for shared resources is 1; found 2'),
    ("1.4 failRequestsGreaterThanOne, renamed", sliced(3, failRequestsGreaterThanOne=True, renameByDefault=True), "allocate A::0 A::1 B::0",
     'error invalid allocation request for "nvidia.com/gpu.shared": invalid request: maximum request size for shared resources is 1; found 3'),
    ("1.4 failRequestsGreaterThanOne, one", sliced(3, failRequestsGreaterThanOne=True), "allocate A::2", "ok env=NVIDIA_VISIBLE_DEVICES=A"),
    ("1.4 unknown device", PLAIN, "allocate A::0", 'error invalid allocation request for "nvidia.com/gpu": invalid request: unknown device: A::0'),
    ("1.4 unknown device, of several", sliced(3, failRequestsGreaterThanOne=True), "allocate A::0 X",
     'error invalid allocation request for "nvidia.com/gpu": invalid request: unknown device: X'),
    ("1.5 distributed, what must be in it is not picked from its GPU", sliced(3), "prefer 5 A::0,A::1 B::0 B::1 B::2 A::0 A::1 A::2", "ok A::0 A::1 B::0 B::1 A::2"),
    ("1.5 distributed", sliced(3), "prefer 2 - A::1 A::2 B::0 B::1 B::2", "ok B::0 A::1"),  # A has one taken; then both have, and B was picked from
    ("1.5 distributed", sliced(3), "prefer 3 - A::0 A::1 A::2 B::0 B::1 B::2", "ok A::0 B::0 A::1"),
    ("1.5 packed", both(sliced(3), plugin(sharedDevicesAllocationPolicy="packed")), "prefer 2 - A::1 A::2 B::0 B::1 B::2", "ok A::1 A::2"),
    ("1.5 must_include", sliced(3), "prefer 2 B::1 A::0 A::1 A::2 B::0 B::1 B::2", "ok B::1 A::0"),
    ("1.5 whole", PLAIN, "prefer 1 B A B", "ok B"),
)

MPS = (  # likewise, of sharing.mps with 2 replicas; ROOT is flags.mpsRoot, and TENANT the name of a CDI device of mete's
    ("1.2 shared replica", "list", "A::0=Healthy A::1=Healthy B::0=Healthy B::1=Healthy", ""),
    ("1.3 register", "registered", "registered nvidia.com/gpu 1 1", "PreStartContainer is asked for: a container is a tenant, whose limits hold per pod"),
    ("1.4 MPS", "allocate B::1", "ok cdi=TENANT env=NVIDIA_VISIBLE_DEVICES=B env=CUDA_MPS_PIPE_DIRECTORY=/mps/nvidia.com/gpu/pipe "
     "mount=ROOT/B/pipe:/mps/nvidia.com/gpu/pipe",
     "a daemon of each GPU's own, so that a fault ends the programs of one; no /dev/shm that all pods share; a tenant"),
    ("1.4 failRequestsGreaterThanOne", "allocate A::0 A::1",
     'error invalid allocation request for "nvidia.com/gpu": invalid request: maximum request size for shared resources is 1; found 2', ""),
    ("1.5 distributed", "prefer 1 - A::1 B::0 B::1", "ok B::0", ""),
)

DIFFERENT = (  # (row, file, what is asked, the answer, the reason)
    ("1.4 unknown device, a replica", sliced(3), "allocate B::9", "ok env=NVIDIA_VISIBLE_DEVICES=B",
     "that plugin does not know the id: here the kubelet may have chosen it a moment before a new file took it away"),
    ("1.3 PreStartContainer", PLAIN, "start A", "error containers are not prepared here", "it is not asked for: an answer would hide a mistake"),
)
