#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sharing.mps.daemonPer: container. Each container has a control daemon of its own (here sim/mps/), from its start until it has gone."""
import contextlib

from node import *
from kubelet import Refused
from meted import run
from mps import OUT_OF_MEMORY, SLICES, await_ready, control, daemon, device_mib, given, in_use, modes, mps, pipe, program_in
from mps_steps import Stepping, again, kill_at_each_end, kill_at_each_start, slot, start_again_at_each_start, started


def apart(replicas=2, devices="1xSIM", api=True, **more):
    return mps(replicas, devices, api=api, daemonPer="container", **more)


def program(node, pod, **more):
    return program_in(node, pod, slot=slot(node, pod), **more)


def processes(node):
    """Of daemons and their servers, below the node's root."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
            if f"CUDA_MPS_PIPE_DIRECTORY={node.root}/".encode() in file.read():
                found.append(int(pid))
    return found


def left(node):
    """The traces of daemons: folders, records, processes."""
    def names(folder):
        return sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return names(node.root), names(node.place + "/mps-containers"), processes(node)


def await_nothing(node):
    until(lambda: left(node) == ([], [], []), lambda: f"something is left: {left(node)}\n{node.log()[-3000:]}")


def test_the_answer_names_the_containers_own_pipe():
    with apart(replicas=4, api=False, failRequestsGreaterThanOne=False) as node:
        words = node.kubelet.ask("allocate", node.id(0), node.id(3)).split()
        tenant = next(word for word in words if word.startswith("cdi=")).split("=")[-1]
        assert f"mount={pipe(node, tenant)}:/mps/nvidia.com/gpu/pipe" in words, words
        assert not [word for word in words if "CUDA_MPS_ACTIVE" in word or "CUDA_MPS_PINNED" in word], "the daemon has its limits itself"


def test_each_container_has_a_daemon_and_no_gpu_is_exclusive():
    with apart() as node:
        assert processes(node) == [] and modes(node) == ["Default"]
        pods = started(node, "a", node.id(0)), started(node, "b", node.id(1))
        slots = [slot(node, pod) for pod in pods]
        assert sorted(os.listdir(node.root)) == sorted(slots)
        assert len({daemon(node, one) for one in slots}) == 2
        for pod, one in zip(pods, slots):
            percent, limit = control(node, "get_default_active_thread_percentage", "get_default_device_pinned_mem_limit 0", device=one).split()
            assert percent == "100.0", "its kernels have the GPU alone while they have it"
            assert int(limit[:-1]) == device_mib(node) // 2
        with program(node, pods[0]) as first, program(node, pods[1]) as second:
            assert first(1) == second(1) == 0
            for one in slots:
                assert len(control(node, f"get_client_list {control(node, 'get_server_list', device=one).strip()}", device=one).split()) == 1
            assert modes(node) == ["Default"]


def test_a_gpu_that_somebody_made_exclusive_is_so_no_more():
    """One server would have it, and the others' programs would find it taken."""
    with apart() as node, in_use(node):
        environment = dict(os.environ, METE_SIM_DIR=node.sim, LD_LIBRARY_PATH=sys.argv[2])
        subprocess.run([BUILD + "/sim/nvidia-smi", "-c", "EXCLUSIVE_PROCESS"], env=environment, check=True, stdout=subprocess.DEVNULL)
        assert modes(node) == ["Exclusive_Process"]
        started(node, "a", node.id(0))
        assert modes(node) == ["Default"]


def test_limits_hold_for_a_pods_processes_together():
    with apart() as node:
        part = device_mib(node) // 2
        pods = started(node, "a", node.id(0)), started(node, "b", node.id(1))
        with contextlib.ExitStack() as stack:
            programs = [[stack.enter_context(program(node, pod)) for _ in range(2)] for pod in pods]
            for first, second in programs:
                assert first(part * 5 // 10) == 0
                assert second(part * 5 // 10) == OUT_OF_MEMORY, "together they have one replica"
                assert second(part * 3 // 10) == 0


def test_several_replicas_are_that_many_times_a_part():
    with apart(replicas=4, failRequestsGreaterThanOne=False) as node:
        pod = started(node, "a", node.id(0), node.id(3))
        with program(node, pod) as allocate:
            assert allocate(device_mib(node) * 2 // 5) == 0, "of two replicas"
            assert allocate(device_mib(node) // 5) == OUT_OF_MEMORY
        assert int(control(node, "get_default_device_pinned_mem_limit 0", device=slot(node, pod)).strip()[:-1]) == device_mib(node) // 2


def test_a_daemon_that_is_killed_is_its_own_pods_alone():
    with apart() as node:
        pods = started(node, "a", node.id(0)), started(node, "b", node.id(1))
        slots = [slot(node, pod) for pod in pods]
        pids = [daemon(node, one) for one in slots]
        with program(node, pods[0]) as first, program(node, pods[1]) as second:
            node.kubelet.await_devices(lambda now: set(now.values()) == {"Healthy"})
            os.kill(pids[0], signal.SIGKILL)
            node.await_log(f"mps.ended .*daemon={slots[0]}")
            node.await_log(f"mps.ready .*daemon={slots[0]}", times=2)
            assert daemon(node, slots[0]) not in pids and daemon(node, slots[1]) == pids[1]
            assert first(1) == second(1) == 0
            with program(node, pods[0]) as another:
                assert another(1) == 0
        until(lambda: [event for event in list(node.api.events) if event["reason"] == "MPSControlEnded"], "its pod was not told")
        told = {event["involvedObject"]["name"] for event in list(node.api.events) if event["reason"] == "MPSControlEnded"}
        assert told == {"a"}, told
        assert f"daemon={slots[1]}" not in "".join(line for line in node.log().splitlines() if "mps.ended" in line)


def test_a_daemon_that_starts_again_follows_no_link_of_its_container():
    with apart() as node:
        place = slot(node, started(node, "a", node.id(0)))
        hosts = node.folder + "/file of the host"
        with open(hosts, "w") as file:
            file.write("untouched")
        os.unlink(pipe(node, place) + "/nvidia-cuda-mps-control.pid")
        os.symlink(hosts, pipe(node, place) + "/nvidia-cuda-mps-control.pid")
        control(node, "quit", device=place)
        node.await_log(f"mps.ready .*daemon={place}", times=2)
        with open(hosts) as file:
            assert file.read() == "untouched"


def test_a_pipe_in_place_of_its_pid_does_not_hold_up_a_daemon():
    with apart() as node:
        place = slot(node, started(node, "a", node.id(0)))
        os.unlink(pipe(node, place) + "/nvidia-cuda-mps-control.pid")
        os.mkfifo(pipe(node, place) + "/nvidia-cuda-mps-control.pid")
        control(node, "quit", device=place)
        node.await_log(f"mps.ready .*daemon={place}", times=2)


def test_a_daemon_ends_with_its_pod():
    with apart() as node:
        first, second = started(node, "a", node.id(0)), started(node, "b", node.id(1))
        with open(pipe(node, slot(node, first)) + "/left by the container", "w"):
            pass
        os.symlink(node.place, pipe(node, slot(node, first)) + "/link")
        os.makedirs(pipe(node, slot(node, first)) + "/deep/deeper")
        goes, stays = slot(node, first), daemon(node, slot(node, second))
        first.delete()
        node.await_log(f"mps.undone .*daemon={goes}")
        assert os.listdir(node.root) == os.listdir(node.place + "/mps-containers") == [slot(node, second)]
        assert os.path.isdir(node.place + "/bindings"), "a link was followed"
        assert daemon(node, slot(node, second)) == stays
        second.delete()
        await_nothing(node)


def test_another_pod_in_the_same_place_has_another_daemon():
    with apart() as node:
        first = started(node, "a", node.id(0))
        place, pid = slot(node, first), daemon(node, slot(node, first))
        first.vanish()
        second = started(node, "b", node.id(0))
        assert slot(node, second) == place and daemon(node, place) not in (None, pid)
        until(lambda: not os.path.exists(f"/proc/{pid}/exe"), "the former one runs still")
        with program(node, second) as allocate:
            assert allocate(1) == 0


def test_the_next_meted_takes_over_bound_containers():
    with apart() as node, in_use(node):
        pod = started(node, "a", node.id(0))
        place, pid = slot(node, pod), daemon(node, slot(node, pod))
        with program(node, pod) as allocate:
            node.meted.kill()
            node.restart()
            node.await_log(f"mps.ready .*daemon={place}", times=2)
            assert daemon(node, place) == pid and allocate(1) == 0
            started(node, "b", node.id(1))
        node.meted.kill()
        os.kill(pid, signal.SIGKILL)
        node.restart()
        node.await_log(f"mps.ready .*daemon={place}", times=3)
        assert int(control(node, "get_default_device_pinned_mem_limit 0", device=place).strip()[:-1]) == device_mib(node) // 2


@contextlib.contextmanager
def stepped():
    with mps(start=False, devices="1xSIM", api=True, daemonPer="container") as node, in_use(node, METE_SIM_DEVICES="1xSIM"):
        steps = Stepping(node)
        node.start()
        node.kubelet.hear("registered")
        await_ready(node)
        yield node, steps


def test_nothing_is_left_of_a_start_in_which_meted_was_killed():
    with stepped() as (node, steps):
        kill_at_each_start(node, steps, gone=await_nothing)


def test_nothing_is_left_of_an_end_in_which_meted_was_killed():
    with stepped() as (node, steps):
        kill_at_each_end(node, steps, gone=await_nothing)


def test_a_container_whose_start_was_cut_off_starts_when_it_is_asked_for_again():
    with stepped() as (node, steps):
        start_again_at_each_start(node, steps, program, gone=await_nothing)


def works(node, pod):
    try:
        with program(node, pod) as allocate:
            return allocate(1) == 0 and len(processes(node)) == 3  # it, and one daemon with its server
    except AssertionError:
        return False


def test_a_containers_daemon_that_is_killed_at_any_step_of_its_start_is_started_again():
    with stepped() as (node, steps):
        for n in range(1, 6):
            for when in "before", "after":
                steps.at(n, when, whom="daemon")
                pod = started(node, f"p{n}{when}", node.id(0))
                until(lambda: works(node, pod), lambda: f"{n} {when}: {processes(node)}\n{node.log()[-3000:]}")
                steps.set("at", "never")
                pod.delete()
                await_nothing(node)


def test_a_gpus_daemon_that_is_killed_at_any_step_of_its_start_is_started_again():
    for n in range(1, 6):
        with mps(start=False, devices="1xSIM") as node:
            steps = Stepping(node)
            steps.set("pid", "daemon")
            steps.set("at", f"{n} after")
            node.start()
            node.kubelet.hear("registered")
            await_ready(node)
            until(lambda: len(processes(node)) == 1 and daemon(node) == int(processes(node)[0]), lambda: f"{n}: {processes(node)}, {daemon(node)}")
            await_ready(node)
            assert control(node, "get_default_active_thread_percentage").strip() == "50.0", "and has its limits"


def test_a_pod_that_goes_while_meted_is_away_takes_its_daemon_along():
    with apart() as node, in_use(node):
        pod = started(node, "a", node.id(0))
        node.meted.kill()
        pod.delete()
        node.write({"version": "v1"})
        node.restart()
        await_nothing(node)
        until(lambda: not os.path.exists(f"{node.place}/mps/{node.uuid[0]}"), node.log)


def test_a_program_that_does_not_start_is_named_to_the_pod():
    with mps(start=False, devices="1xSIM", api=True, daemonPer="container") as node:
        broken = node.folder + "/bin"
        os.mkdir(broken)
        with open(broken + "/nvidia-cuda-mps-control", "w") as file:
            file.write("#!/bin/sh\necho it is broken\nexit 1\n")
        os.chmod(broken + "/nvidia-cuda-mps-control", 0o755)
        node.environment["PATH"] = broken + ":" + os.environ["PATH"]
        node.start()
        node.kubelet.hear("registered")
        await_ready(node)
        pod = node.pod("a").admit(node.id(0))
        call = pod.begin()
        node.await_log('mps.failed .*command=start .*reason="it is broken"')
        os.remove(broken + "/nvidia-cuda-mps-control")
        os.symlink(BUILD + "/sim/nvidia-cuda-mps-control", broken + "/nvidia-cuda-mps-control")
        with contextlib.suppress(Refused):
            node.kubelet.answer(call)
        again(pod)


def test_from_one_daemon_a_gpu_to_one_a_container_and_back():
    with mps(api=True, devices="1xSIM") as node, in_use(node):
        shared = daemon(node)
        first = started(node, "a", node.id(0))
        given(node, first)
        node.write(node.file_of(daemonPer="container"))
        node.await_log(f"mps.keeps uuid={node.uuid[0]}")
        node.kubelet.await_devices(lambda now: set(now.values()) == {"Unhealthy"})
        assert daemon(node) == shared and modes(node) == ["Exclusive_Process"]
        first.delete()
        given(node)
        until(lambda: not os.path.exists(f"/proc/{shared}/exe"), "it runs still")
        await_ready(node)
        assert modes(node) == ["Default"]
        second = started(node, "b", node.id(1))
        given(node, second)
        with program(node, second) as allocate:
            node.write(node.file_of())
            node.await_log(f"mps.keeps uuid={node.uuid[0]}", times=2)
            node.kubelet.await_devices(lambda now: set(now.values()) == {"Unhealthy"})
            node.meted.kill()
            node.restart()
            node.await_log(f"mps.ready .*daemon={slot(node, second)}", times=2)
            assert allocate(1) == 0 and modes(node) == ["Default"]
        second.delete()
        given(node)
        until(lambda: modes(node) == ["Exclusive_Process"], "the GPU does not go back")
        await_ready(node)
        assert os.listdir(node.root) == [node.uuid[0]]


def test_from_time_slices_to_one_a_container_and_back():
    with mps(start=False, devices="1xSIM", api=True) as node, in_use(node, METE_SIM_DEVICES="1xSIM"):
        node.write(SLICES)
        node.start()
        node.kubelet.hear("registered")
        await_ready(node)
        node.write(node.file_of(daemonPer="container"))
        node.kubelet.await_devices(lambda now: len(now) == 2 and set(now.values()) == {"Healthy"})
        pod = started(node, "a", node.id(0))
        with program(node, pod) as allocate:
            node.write(SLICES)
            node.await_log(f"mps.keeps uuid={node.uuid[0]}")
            os.kill(daemon(node, slot(node, pod)), signal.SIGKILL)
            node.await_log(f"mps.ready .*daemon={slot(node, pod)}", times=2)
            assert allocate(1) == 0
        pod.delete()
        node.kubelet.await_devices(lambda now: len(now) == 3 and set(now.values()) == {"Healthy"})
        await_nothing(node)


if __name__ == "__main__":
    run(globals())
