#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sharing.mps: meted runs the control daemons (here sim/mps/), and answers as NVIDIA's plugin does. What changes: test_nvidia_mps_changes.py."""
import nvidia_golden
from mps import *
from meted import run


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


def test_without_cdi_the_answer_has_all_that_makes_a_tenant():
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


def test_a_daemon_has_all_of_meteds_search_path():
    with mps(devices="1xSIM", start=False) as node:
        others = ":".join(f"/nowhere/{i}" for i in range(100))
        node.environment["PATH"] += ":" + others
        node.start()
        await_ready(node)
        with open(f"/proc/{daemon(node)}/environ") as file:
            path = next(word for word in file.read().split("\0") if word.startswith("PATH="))
        assert path.startswith(f"PATH={BUILD}/sim:") and path.endswith(others), path


def test_a_daemon_speaks_the_protocol_of_meteds_commands():
    """Whatever is meant for others of the machine, or is usual with a newer driver."""
    with mps(devices="1xSIM", start=False) as node:
        node.environment["CUDA_MPS_PROTOCOL_VERSION"] = "3"
        node.start()
        await_ready(node)
        assert control(node, "get_default_active_thread_percentage").strip() == "50.0"


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


def test_a_process_that_is_no_client_does_not_get_past_mps():
    with mps(api=True, devices="1xSIM") as node:
        pod = node.run("a", node.id(0))
        with program_in(node, pod) as allocate:
            assert allocate(1) == 0
            environment = dict(os.environ, METE_SIM_DIR=node.sim, LD_LIBRARY_PATH=sys.argv[2])
            past = subprocess.run([CALLER, "context"], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
            assert past.stdout == "46\n", "CUDA_ERROR_DEVICE_UNAVAILABLE"


def test_settings_that_do_not_go_with_mps_are_refused_with_a_sentence():
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
