# SPDX-License-Identifier: Apache-2.0
"""A node with sharing.mps, whose control daemons are sim/mps/, and programs in its pods."""
import collections
import contextlib

from node import *


def isolate(node):
    """It has a /var/run/cdi of its own."""
    require("namespaces")
    os.mkdir(node.cdi)
    node.wrap = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /run && mkdir /run/cdi && mount --bind "$0" /run/cdi && exec "$@"', node.cdi]


@contextlib.contextmanager
def mps(replicas=2, devices="2xSIM", start=True, api=False, **more):
    with Node(devices, start=False, api=api) as node:
        node.root = node.folder + "/mps"
        node.file_of = lambda **also: {"version": "v1", "flags": {"mpsRoot": node.root},
                                       "sharing": {"mps": {"resources": [{"name": "nvidia.com/gpu", "replicas": replicas}], **more, **also}}}
        node.write(node.file_of())
        node.environment["KUBELET_SOCKET"] = node.kubelet.plugins + "/kubelet.sock"
        isolate(node)
        if api:
            node.environment.update(KUBECONFIG=node.folder + "/kubeconfig", NODE_NAME=NODE)
        node.environment["PATH"] = BUILD + "/sim:" + os.environ["PATH"]
        try:
            if start:
                node.start()
                node.registered = node.kubelet.hear("registered")
                await_ready(node)
            yield node
        finally:
            if node.meted and node.meted.process.poll() is None:
                node.end()  # before the daemons: it would start them again
            end_daemons(node)


def end_daemons(node):
    """Those below its root, whatever they have left there. They are gone afterwards."""
    ended = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/environ", "rb") as file:
                if f"CUDA_MPS_PIPE_DIRECTORY={node.root}/".encode() in file.read():
                    os.kill(int(pid), signal.SIGKILL)
                    ended.append(pid)
    for pid in ended:
        until(lambda: not os.path.exists(f"/proc/{pid}/exe"), "it runs still")


Name = collections.namedtuple("Name", "slot device")


def await_ready(node):
    return node.kubelet.await_devices(lambda now: now and all(health == "Healthy" for health in now.values()))


def await_asked(node, times):
    """The kubelet may have an earlier meted's word; this one has asked its daemons."""
    for uuid in node.uuid:
        node.await_log(f"mps.ready uuid={uuid}", times=times)
    await_ready(node)


def pipe(node, device=0):
    """Of a GPU's daemon, or of a container's, by the name of its slot; or a namespace's of the GPU's."""
    if isinstance(device, Name):
        return f"{pipe(node, device.device)}/m/{device.slot}"
    return f"{node.root}/{device if isinstance(device, str) else node.uuid[device]}/pipe"


def daemon(node, device=0):
    """The pid of a daemon, by what it has left."""
    with contextlib.suppress(FileNotFoundError, ValueError), open(pipe(node, device) + "/nvidia-cuda-mps-control.pid") as file:
        return int(file.read())
    return None


def control(node, *commands, device=0):
    """Its answer, as a person would ask."""
    return subprocess.run([BUILD + "/sim/nvidia-cuda-mps-control"], input="".join(command + "\n" for command in commands), text=True,
                          stdout=subprocess.PIPE, env=dict(os.environ, CUDA_MPS_PIPE_DIRECTORY=pipe(node, device))).stdout


def command(node, *words, device=0):
    """Of protocol 3: its rows."""
    asked = [BUILD + "/sim/nvidia-cuda-mps-control", *words, "--format=csv,noheader"]
    return subprocess.run(asked, text=True, stdout=subprocess.PIPE, env=dict(os.environ, CUDA_MPS_PIPE_DIRECTORY=pipe(node, device))).stdout.split()


def modes(node):
    environment = dict(os.environ, METE_SIM_DIR=node.sim, LD_LIBRARY_PATH=sys.argv[2])
    asked = [BUILD + "/sim/nvidia-smi", "--query-gpu=compute_mode", "--format=csv,noheader"]
    return subprocess.run(asked, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout.split()


def device_mib(node):
    admin = Admin(node.place)
    try:
        return next(row.capacity for row in admin.list() if row.kind == "device_row") >> 20
    finally:
        admin.close()


@contextlib.contextmanager
def program_in(node, pod, device=0, made=0, slot=None):
    """A process in the pod's container: its guest, with the environment of Allocate. With a context, if `made` is 0: what the driver answers to that."""
    environment = dict(os.environ, METE_SOCKET=node.folder_of(pod.title()) + "/guest.sock", METE_DRIVER=sys.argv[2],
                       LD_LIBRARY_PATH=BUILD + "/guest/12.9/lib", CUDA_VISIBLE_DEVICES=node.uuid[device],
                       **{**node.environment, "CUDA_MPS_PIPE_DIRECTORY": pipe(node, slot or device)})
    process = subprocess.Popen([CALLER, "context"], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    try:
        assert process.stdout.readline() == f"{made}\n"
        yield lambda mib: process.stdin.write(f"{mib * MIB}\n") and int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


OUT_OF_MEMORY = 2


def used_mib(node):
    """The driver's own figures of the device, past mete."""
    environment = dict(os.environ, METE_SIM_DIR=node.sim, LD_LIBRARY_PATH=sys.argv[2])
    return int(subprocess.run([BUILD + "/sim/nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], env=environment, stdout=subprocess.PIPE, text=True,
                              check=True).stdout)


def fill(allocate, most_mib):
    """Takes until not a mebibyte is given any more; returns how many were."""
    taken, piece = 0, most_mib
    while piece:
        if allocate(piece) == 0:
            taken += piece
        else:
            piece //= 2
    return taken


@contextlib.contextmanager
def in_use(node, **more):
    """Somebody has the driver open: else the simulated node is made anew, with its modes."""
    environment = dict(os.environ, METE_SIM_DIR=node.sim, LD_LIBRARY_PATH=sys.argv[2], **more)
    process = subprocess.Popen([CALLER, "driver"], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "0\n"
        yield
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


SLICES = {"version": "v1", "sharing": {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 3}]}}}


def await_offered(node, *uuids):
    """Devices of these GPUs are healthy, and no others."""
    node.kubelet.await_devices(lambda now: {id.split("::")[0] for id, health in now.items() if health == "Healthy"} == set(uuids))


def given(node, *pods):
    """The kubelet's record, by which a pod has nvidia.com/gpu."""
    rows = [{"PodUID": pod.uid, "ContainerName": "main", "ResourceName": "nvidia.com/gpu", "DeviceIDs": {"-1": list(pod.held["main"])}, "AllocResp": ""} for pod in pods]
    node.kubelet.entries.clear()
    node.kubelet.write_checkpoint(json.dumps({"Data": {"PodDeviceEntries": rows, "RegisteredDevices": {}}, "Checksum": 1}))
