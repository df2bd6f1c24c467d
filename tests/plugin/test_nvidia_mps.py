#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sharing.mps: meted runs the control daemons (here sim/mps/), and answers as NVIDIA's plugin does."""
import contextlib

import nvidia_golden
from node import *
from meted import run
from test_nvidia_configurations import LABEL, named, replicas


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
    """Those below its root, whatever they have left there."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/environ", "rb") as file:
                if f"CUDA_MPS_PIPE_DIRECTORY={node.root}/".encode() in file.read():
                    os.kill(int(pid), signal.SIGKILL)


def await_ready(node):
    return node.kubelet.await_devices(lambda now: now and all(health == "Healthy" for health in now.values()))


def await_asked(node, times):
    """The kubelet may have an earlier meted's word; this one has asked its daemons."""
    for uuid in node.uuid:
        node.await_log(f"mps.ready uuid={uuid}", times=times)
    await_ready(node)


def pipe(node, device=0):
    """Of a GPU's daemon, or of a container's, by the name of its slot."""
    return f"{node.root}/{device if isinstance(device, str) else node.uuid[device]}/pipe"


def daemon(node, device=0):
    """The pid of a daemon, by what it has left."""
    with contextlib.suppress(FileNotFoundError, ValueError), open(pipe(node, device) + "/nvidia-cuda-mps-control.pid") as file:
        return int(file.read())
    return None


def control(node, *commands, device=0):
    """What its answer is, as a person would ask."""
    return subprocess.run([BUILD + "/sim/nvidia-cuda-mps-control"], input="".join(command + "\n" for command in commands), text=True,
                          stdout=subprocess.PIPE, env=dict(os.environ, CUDA_MPS_PIPE_DIRECTORY=pipe(node, device))).stdout


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


def test_the_kubelet_is_answered_as_by_nvidias_plugin():
    """1.2 to 1.5, by the rows of nvidia_golden.py; what differs has a reason."""
    with mps() as node:
        def real(text):
            return re.sub(r"\b[AB]\b", lambda found: node.uuid["AB".index(found[0])], text)

        def short(text):
            text = re.sub("mete.dev/slot=[0-9a-f]+", "TENANT", text).replace(node.root, "ROOT")
            return text.replace(node.uuid[0], "A").replace(node.uuid[1], "B")
        for row, asked, answer, _ in nvidia_golden.MPS:
            verb, *words = real(asked).split()
            if verb == "registered":
                said = node.registered
            elif answer.startswith("error "):
                said = "error " + node.kubelet.refusal(node.kubelet.begin(verb, *words))
            else:
                said = node.kubelet.ask(verb, *words)
            assert short(said) == answer, f"{row}: {asked} gives\n  {short(said)}\nwanted\n  {answer}"


def test_without_cdi_the_answer_has_what_makes_a_tenant():
    with mps(devices="1xSIM", api=True, start=False) as node:
        node.api.put("nodes", {"metadata": {"name": NODE, "uid": "node-uid", "labels": {}}, "status": {
            "nodeInfo": {"containerRuntimeVersion": "containerd://1.6.8", "kubeletVersion": "v1.27.3"}}})
        node.start()
        node.kubelet.hear("registered")
        node.await_log("cdi.chosen cdi=off")
        words = node.kubelet.ask("allocate", node.id(0)).split()
        assert f"mount={pipe(node)}:/mps/nvidia.com/gpu/pipe" in words, words
        assert [word for word in words if word.endswith(":/run/mete")] and [word for word in words if word.endswith(":/etc/ld.so.preload")], words


def test_each_gpu_has_a_daemon_with_the_limits_of_a_replica():
    with mps(3, "2xSIM") as node:
        assert modes(node) == ["Exclusive_Process"] * 2
        assert daemon(node, 0) != daemon(node, 1)
        for device in 0, 1:
            percent, limit = control(node, "get_default_active_thread_percentage", "get_default_device_pinned_mem_limit 0", device=device).split()
            assert percent == "33.3" and limit.endswith("M"), (percent, limit)
            assert int(limit[:-1]) == device_mib(node) // 3


JOIN = """
import socket
with socket.socket(socket.AF_UNIX) as control:
    control.connect("control")
    control.sendall(b"join\\n")
    print(control.recv(1000).decode())
"""


def test_programs_of_any_user_get_to_the_daemon():
    with mps(devices="1xSIM") as node:
        # In a container the folder is mounted: whether the ones above it are open does not matter there.
        other = subprocess.run(["/usr/bin/python3", "-c", JOIN], cwd=pipe(node), user=65534, group=65534, extra_groups=[], text=True, capture_output=True)
        assert other.stdout.startswith("ok "), other
        with open(f"/proc/{daemon(node)}/status") as file:
            assert "\nUmask:\t0022\n" in file.read(), "and to what it makes later"


def test_a_pid_that_a_container_has_replaced_holds_up_nobody():
    with mps(devices="1xSIM") as node:
        path = pipe(node) + "/nvidia-cuda-mps-control.pid"
        pid = daemon(node)
        os.remove(path)
        os.mkfifo(path)
        node.write(node.file_of(resources=[{"name": "nvidia.com/gpu", "replicas": 4}]))
        node.await_log(f"mps.ready uuid={node.uuid[0]}", times=2)
        node.kubelet.await_devices(lambda now: len(now) == 4 and set(now.values()) == {"Healthy"})
        os.remove(path)
        with open(path, "w") as file:
            file.write(str(pid))


def test_several_replicas_are_that_many_times_a_part():
    with mps(4, api=True, failRequestsGreaterThanOne=False, renameByDefault=True) as node:
        assert node.registered.startswith("registered nvidia.com/gpu.shared ")
        words = node.kubelet.ask("allocate", node.id(0), node.id(3)).split()
        assert "env=CUDA_MPS_PIPE_DIRECTORY=/mps/nvidia.com/gpu.shared/pipe" in words, words
        assert "env=CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50" in words, words
        assert [word for word in words if re.fullmatch("env=CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=[0-9]+M", word)], words
        assert control(node, "get_default_active_thread_percentage").strip() == "100.0"
        pod = node.run("a", node.id(0), node.id(3))
        with program_in(node, pod) as allocate:
            assert allocate(device_mib(node) * 2 // 5) == 0, "of two replicas"
            assert allocate(device_mib(node) // 5) == OUT_OF_MEMORY
        refusal = node.kubelet.refusal(node.kubelet.begin("allocate", node.id(0), node.id(0, 1)))
        assert refusal.endswith("the ids are replicas of 2 GPUs; with sharing.mps a container has those of one"), refusal


def test_a_daemon_that_is_killed_is_started_again_and_the_other_goes_on():
    with mps() as node:
        first, other = daemon(node, 0), daemon(node, 1)
        os.kill(first, signal.SIGKILL)
        node.await_log(f"mps.ended uuid={node.uuid[0]}")
        until(lambda: daemon(node, 0) not in (None, first), "it is not started again")
        node.await_log(f"mps.ready uuid={node.uuid[0]}", times=2)
        await_ready(node)
        assert control(node, "get_default_active_thread_percentage").strip() == "50.0", "and has its limits"
        assert daemon(node, 1) == other


def test_a_gpu_without_its_daemon_is_not_offered():
    with mps(devices="1xSIM", start=False) as node:
        broken = node.folder + "/bin"
        os.mkdir(broken)
        with open(broken + "/nvidia-cuda-mps-control", "w") as file:
            file.write("#!/bin/sh\necho it is broken\nexit 1\n")
        os.chmod(broken + "/nvidia-cuda-mps-control", 0o755)
        node.environment["PATH"] = broken + ":" + os.environ["PATH"]
        node.start()
        node.await_log('mps.failed .*command=start .*reason="it is broken"')
        assert set(node.kubelet.await_devices(lambda now: now).values()) == {"Unhealthy"}
        os.remove(broken + "/nvidia-cuda-mps-control")
        os.symlink(BUILD + "/sim/nvidia-cuda-mps-control", broken + "/nvidia-cuda-mps-control")
        await_ready(node)


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


def test_limits_hold_for_a_pods_processes_together():
    """MPS's own are of each process: two of a pod would have twice the memory."""
    with mps(api=True, devices="1xSIM") as node:
        part = device_mib(node) // 2
        pods = node.run("a", node.id(0)), node.run("b", node.id(1))
        with contextlib.ExitStack() as stack:
            programs = [[stack.enter_context(program_in(node, pod)) for _ in range(2)] for pod in pods]
            clients = control(node, f"get_client_list {control(node, 'get_server_list').strip()}").split()
            assert len(clients) == 4, "all of them are MPS's: " + repr(clients)
            for first, second in programs:
                assert first(part * 5 // 10) == 0
                assert second(part * 5 // 10) == OUT_OF_MEMORY, "together they have one replica"
                assert second(part * 3 // 10) == 0
                assert first(part * 3 // 10) == OUT_OF_MEMORY


def test_pods_go_on_when_their_daemon_is_killed():
    with mps(api=True, devices="1xSIM") as node:
        pod = node.run("a", node.id(0))
        with program_in(node, pod) as allocate:
            os.kill(daemon(node), signal.SIGKILL)
            node.await_log(f"mps.ready uuid={node.uuid[0]}", times=2)
            assert allocate(1) == 0
            with program_in(node, pod) as another:
                assert another(1) == 0
        until(lambda: any(event["reason"] == "MPSControlEnded" and event["involvedObject"]["name"] == "a" for event in list(node.api.events)), "its pod was not told")


def used_mib(node):
    """What the driver says of the device, past mete and by nobody's figure but its own."""
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


def test_a_pod_at_its_limit_gets_no_more_when_its_daemon_is_killed():
    """Neither before anybody has noticed, nor while it is started again, nor by a process that comes after that."""
    with mps(api=True, devices="1xSIM") as node:
        part = device_mib(node) // 2
        pods = node.run("a", node.id(0)), node.run("b", node.id(1))
        with contextlib.ExitStack() as stack:
            first, second = [stack.enter_context(program_in(node, pods[0])) for _ in range(2)]
            neighbour = stack.enter_context(program_in(node, pods[1]))
            assert first(part // 2) == 0 and fill(second, part // 4)
            assert first(1) == second(1) == OUT_OF_MEMORY
            full = used_mib(node)
            for times in 2, 3, 4:
                os.kill(daemon(node), signal.SIGKILL)
                assert first(1) == second(1) == OUT_OF_MEMORY, "nobody has seen it yet"
                assert neighbour(2) == 0, "a whole block of the driver's"
                node.await_log(f"mps.ready uuid={node.uuid[0]}", times=times)
                assert first(1) == second(1) == OUT_OF_MEMORY
                assert used_mib(node) == full + 2 * (times - 1), ("the neighbour's, and nothing else", used_mib(node), full)
            with program_in(node, pods[0], made=OUT_OF_MEMORY):
                pass  # a client of the new daemon, for whose context its pod has no room


def test_who_is_no_client_does_not_get_past_mps():
    with mps(api=True, devices="1xSIM") as node:
        pod = node.run("a", node.id(0))
        with program_in(node, pod) as allocate:
            assert allocate(1) == 0
            environment = dict(os.environ, METE_SIM_DIR=node.sim, LD_LIBRARY_PATH=sys.argv[2])
            past = subprocess.run([CALLER, "context"], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
            assert past.stdout == "46\n", "CUDA_ERROR_DEVICE_UNAVAILABLE"


def test_the_next_meted_takes_the_daemons_over():
    with mps() as node:
        before = daemon(node, 0), daemon(node, 1)
        node.meted.process.kill()
        node.meted.wait()
        node.restart()
        await_asked(node, 2)
        assert (daemon(node, 0), daemon(node, 1)) == before
        node.end()
        node.restart()
        await_asked(node, 3)
        assert (daemon(node, 0), daemon(node, 1)) == before


@contextlib.contextmanager
def in_use(node):
    """Somebody has the driver open: else the simulated node is made anew, with its modes."""
    environment = dict(os.environ, METE_SIM_DIR=node.sim, LD_LIBRARY_PATH=sys.argv[2])
    process = subprocess.Popen([CALLER, "driver"], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "0\n"
        yield
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def test_what_is_wanted_no_more_is_undone_by_the_next_meted():
    with mps() as node, in_use(node):
        pids = daemon(node, 0), daemon(node, 1)
        node.meted.process.kill()
        node.meted.wait()
        assert modes(node) == ["Exclusive_Process"] * 2
        node.write({"version": "v1"})
        node.restart()
        for uuid in node.uuid:
            node.await_log(f"mps.undone uuid={uuid}")
        assert modes(node) == ["Default"] * 2
        for pid in pids:
            until(lambda: not os.path.exists(f"/proc/{pid}/exe"), "it runs still")
        assert not os.listdir(node.place + "/mps")


def test_a_record_that_was_cut_off_does_not_keep_the_gpu_from_mps():
    with mps(api=True, devices="1xSIM") as node, in_use(node):
        pod, before = node.run("a", node.id(0)), daemon(node)
        node.meted.kill()
        record = f"{node.place}/mps/{node.uuid[0]}"
        with open(record, "w"):
            pass
        node.meted.start()
        await_asked(node, 2)
        assert daemon(node) == before and "mps.keeps" not in node.log()
        with open(record) as file:
            assert file.read() == node.root + "\n"
        with program_in(node, pod) as allocate:
            assert allocate(1) == 0


def test_another_root_is_that_of_another_daemon():
    with mps(devices="1xSIM") as node, in_use(node):
        first = daemon(node)
        node.meted.process.kill()
        node.meted.wait()
        node.write({**node.file_of(), "flags": {"mpsRoot": node.root + "/b/c"}})
        node.restart()
        node.await_log(f"mps.undone uuid={node.uuid[0]}")
        until(lambda: not os.path.exists(f"/proc/{first}/exe"), "it runs still")
        node.await_log(f"mps.ready uuid={node.uuid[0]} root={node.root}/b/c")
        await_ready(node)
        assert modes(node) == ["Exclusive_Process"]
        with open(f"{node.place}/mps/{node.uuid[0]}") as file:
            assert file.read() == node.root + "/b/c\n"
        assert os.stat(node.root + "/b").st_mode & 0o777 == 0o755, "its programs are of any user"


def test_limits_that_change_are_no_end_of_a_daemon():
    """Its pod hears of the end that comes after that, alone."""
    with mps(api=True, devices="1xSIM") as node:
        def told():
            return [event["involvedObject"]["kind"] for event in list(node.api.events) if event["reason"] == "MPSControlEnded"]
        node.run("a", node.id(0))
        node.write(node.file_of(resources=[{"name": "nvidia.com/gpu", "replicas": 4}]))
        node.await_log("mps.unready")
        node.await_log(f"mps.ready uuid={node.uuid[0]}", times=2)
        # What is said comes in the order in which it happened.
        until(lambda: [event for event in list(node.api.events) if event["reason"] == "MPSControlReady"][1:], "the node was not told")
        assert not told(), told()
        os.kill(daemon(node), signal.SIGKILL)
        until(lambda: set(told()) == {"Node", "Pod"}, "the node or its pod was not told")


def test_other_replicas_are_other_limits_at_once():
    with mps() as node:
        content = node.file_of()
        content["sharing"]["mps"]["resources"][0]["replicas"] = 4
        node.write(content)
        node.kubelet.hear("listed 8")
        until(lambda: control(node, "get_default_active_thread_percentage").strip() == "25.0", "the daemon has the former limits")
        await_ready(node)


SLICES = {"version": "v1", "sharing": {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 3}]}}}


def await_offered(node, *uuids):
    """Devices of these GPUs are healthy, and no others."""
    node.kubelet.await_devices(lambda now: {id.split("::")[0] for id, health in now.items() if health == "Healthy"} == set(uuids))


def given(node, *pods):
    """The kubelet's record, by which a pod has nvidia.com/gpu."""
    rows = [{"PodUID": pod.uid, "ContainerName": "main", "ResourceName": "nvidia.com/gpu", "DeviceIDs": {"-1": list(pod.held["main"])}, "AllocResp": ""} for pod in pods]
    node.kubelet.entries.clear()
    node.kubelet.write_checkpoint(json.dumps({"Data": {"PodDeviceEntries": rows, "RegisteredDevices": {}}, "Checksum": 1}))


def test_a_gpu_leaves_mps_when_its_containers_have_ended():
    with mps(api=True) as node, in_use(node):
        first, other = daemon(node, 0), daemon(node, 1)
        pod = node.run("a", node.id(0))
        with program_in(node, pod) as allocate:
            node.write(SLICES)
            node.await_log(f"mps.undone uuid={node.uuid[1]}")
            until(lambda: not os.path.exists(f"/proc/{other}/exe"), "nobody has that GPU, and its daemon runs still")
            await_offered(node, node.uuid[1])
            assert modes(node) == ["Exclusive_Process", "Default"]
            refusal = node.kubelet.refusal(node.kubelet.begin("allocate", node.id(0)))
            assert refusal.endswith(f"device {node.uuid[0]} is still used by MPS: it is given to others when those containers have ended"), refusal
            assert allocate(1) == 0
            with program_in(node, pod) as another:
                assert another(1) == 0, "it has what it had"
            os.kill(first, signal.SIGKILL)
            until(lambda: daemon(node, 0) not in (None, first), "it is not started again")
            until(lambda: control(node, "get_default_active_thread_percentage").strip() == "50.0", "its limits are the former ones")
            node.meted.kill()
            node.meted.start()
            node.await_log("mps.keeps uuid=" + node.uuid[0], times=2)
            with program_in(node, pod) as another:
                assert another(1) == 0, "and after a restart of meted"
            kept = daemon(node, 0)
        pod.delete()
        node.await_log(f"mps.undone uuid={node.uuid[0]}")
        until(lambda: not os.path.exists(f"/proc/{kept}/exe"), "nobody has it, and its daemon runs still")
        await_offered(node, *node.uuid)
        assert modes(node) == ["Default"] * 2
        assert node.kubelet.ask("allocate", node.id(2)) == f"ok env=NVIDIA_VISIBLE_DEVICES={node.uuid[0]}"


def test_a_pod_that_has_not_started_holds_the_gpu_that_it_was_given_by_mps():
    with mps(api=True) as node, in_use(node):
        pids = daemon(node, 0), daemon(node, 1)
        pod = node.pod("a").admit(node.id(0))
        given(node, pod)
        node.write(SLICES)
        node.await_log(f"mps.undone uuid={node.uuid[1]}")
        node.await_log(f"mps.keeps uuid={node.uuid[0]}")
        await_offered(node, node.uuid[1])
        refusal = node.kubelet.refusal(node.kubelet.begin("allocate", node.id(0)))
        assert f"device {node.uuid[0]} is still used by MPS" in refusal, refusal
        node.meted.kill()
        node.meted.start()
        node.await_log("mps.keeps uuid=" + node.uuid[0], times=2)
        await_offered(node, node.uuid[1])
        assert modes(node) == ["Exclusive_Process", "Default"] and daemon(node, 0) == pids[0]
        node.write(node.file_of())  # and back, before it has started
        await_ready(node)
        pod.start()
        with program_in(node, pod) as allocate:
            assert allocate(1) == 0
        node.write(SLICES)
        node.await_log("mps.keeps uuid=" + node.uuid[0], times=3)
        pod.delete()
        node.await_log(f"mps.undone uuid={node.uuid[0]}")
        await_offered(node, *node.uuid)
        assert modes(node) == ["Default"] * 2


def test_a_gpu_becomes_mpss_when_those_have_ended_who_have_it_without():
    with mps(api=True, start=False) as node:
        node.write(SLICES)
        node.start()
        node.kubelet.hear("registered")
        await_offered(node, *node.uuid)
        pod = node.pod("a").admit(node.id(0))
        given(node, pod)
        node.write(node.file_of())
        node.await_log("mps.waits uuid=" + node.uuid[0])
        await_offered(node, node.uuid[1])
        assert modes(node) == ["Default", "Exclusive_Process"]
        refusal = node.kubelet.refusal(node.kubelet.begin("allocate", node.id(0)))
        assert refusal.endswith(f"device {node.uuid[0]} is still used without MPS: it is given to others when those containers have ended"), refusal
        pod.start()  # its container starts again, and is no tenant
        assert not node.tenants()
        pod.delete()
        node.await_log("mps.ready uuid=" + node.uuid[0])
        await_offered(node, *node.uuid)
        assert modes(node) == ["Exclusive_Process"] * 2
        assert node.run("b", node.id(1)) and node.tenant("ns/b/main")


def test_a_label_of_the_node_switches_between_time_slicing_and_mps():
    with named({"default": replicas(3)}) as node:
        node.root = node.folder + "/mps"
        node.fill({"default": replicas(3), "mps": json.dumps({"version": "v1", "flags": {"mpsRoot": node.root}, "sharing": {"mps": {"resources": [{"name": "gpu", "replicas": 2}]}}})})
        isolate(node)
        node.environment["PATH"] = BUILD + "/sim:" + os.environ["PATH"]
        node.start()
        try:
            with in_use(node):
                switch(node)
        finally:
            node.end()
            end_daemons(node)


def switch(node):
    node.kubelet.hear("listed 6")
    for round in range(2):
        node.api.set_node({LABEL: "mps"})
        until(lambda: modes(node) == ["Exclusive_Process"] * 2, "MPS does not begin")
        node.kubelet.await_devices(lambda now: len(now) == 4 and set(now.values()) == {"Healthy"})
        pod = node.run(f"a{round}", node.id(0))
        with program_in(node, pod) as allocate:
            for label in ("default", "mps") * 4 + ("default",):
                node.api.set_node({LABEL: label})
            if round:
                node.meted.kill()
                node.meted.start()
            await_offered(node, node.uuid[1])
            node.kubelet.await_devices(lambda now: len(now) == 6)
            assert allocate(1) == 0, "it has what it had"
        pod.delete()
        await_offered(node, *node.uuid)
        until(lambda: modes(node) == ["Default"] * 2, "the mode of MPS was left")
    assert not node.tenants()


def test_a_configuration_that_mps_does_not_go_with_leaves_the_former_one_in_force():
    with mps(api=False, start=False) as node:
        node.write(SLICES)
        node.start()
        node.kubelet.hear("registered")
        await_offered(node, *node.uuid)
        node.write(node.file_of(resources=[{"name": "nvidia.com/gpu", "replicas": 49}]))
        node.await_log("config.refused .*49 replicas are more than the clients that MPS has")
        assert len(node.kubelet.devices()) == 6
        assert node.kubelet.ask("allocate", node.id(0)).startswith("ok ")
        # And from MPS to more of it.
        node.write(node.file_of())
        node.kubelet.await_devices(lambda now: len(now) == 4 and set(now.values()) == {"Healthy"})
        node.write(node.file_of(resources=[{"name": "nvidia.com/gpu", "replicas": 50}]))
        node.await_log("config.refused .*50 replicas are more than the clients that MPS has")
        assert len(await_ready(node)) == 4
        assert node.kubelet.ask("allocate", node.id(0)).startswith("ok ")


def test_parts_that_mps_would_get_by_a_new_file_are_refused_while_the_former_one_is_in_force():
    with mps(start=False, devices="1xH100") as node:
        node.environment["METE_SIM_PARTS"] = "0:7x1g.10gb"
        node.write({"version": "v1", "flags": {"migStrategy": "none"}})
        node.start()
        node.kubelet.hear("registered")
        node.write({**node.file_of(), "flags": {"mpsRoot": node.root, "migStrategy": "single"}})
        node.await_log("config.refused .*GPU 0 is divided by MIG")
        assert "plugin.unsettled" not in node.log()
        node.write({"version": "v1", "flags": {"migStrategy": "single"}})
        node.kubelet.await_devices(lambda now: len(now) == 7)


def test_what_does_not_go_with_mps_is_refused_with_a_sentence():
    with mps(start=False) as node:
        for replicas, environment, sentence in (
            (49, {}, "sharing.mps.resources: 49 replicas are more than the clients that MPS has on a GPU with this driver; accepted: at most 48"),
            (2, {"PATH": "/nonexistent"}, "sharing.mps: there is no program nvidia-cuda-mps-control below flags.plugin.containerDriverRoot"),
            (2, {"METE_SIM_CAPABILITY": "6.1"}, "has compute capability 6.1; accepted: 7.0 and newer"),
        ):
            content = node.file_of()
            content["sharing"]["mps"]["resources"][0]["replicas"] = replicas
            node.write(content)
            refused = subprocess.run(node.command(), env=dict(os.environ, **{**node.environment, **environment}), stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
            assert refused.returncode and sentence in refused.stderr, refused


if __name__ == "__main__":
    run(globals())
