#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sharing.mps where the driver has MPS's protocol 3: each container has a namespace of its GPU's control daemon (here sim/mps/), with its limits."""
import contextlib

from node import *
from meted import run
from mps import OUT_OF_MEMORY, Name, await_asked, await_ready, command, control, daemon, device_mib, given, in_use, modes, mps, pipe, program_in
from mps_steps import Stepping, again, kill_at_each_end, kill_at_each_start, slot, start_again_at_each_start, started

NEWER = {"METE_SIM_DRIVER": "13.4"}


@contextlib.contextmanager
def named(replicas=2, devices="1xSIM", api=True, start=True, **more):
    with mps(replicas, devices, start=False, api=api, **more) as node:
        node.environment.update(NEWER)
        if start:
            begin(node)
        yield node


def begin(node):
    node.start()
    node.kubelet.hear("registered")
    await_ready(node)


def names(node, device=0):
    """A container's namespace to its limits."""
    rows = [row.split(",") for row in command(node, "namespace", "list", "--server=m", device=device)]
    return {name: (memory, percent) for name, _, _, memory, percent, *_ in rows if name != "default"}


def program(node, pod, **more):
    return program_in(node, pod, slot=Name(slot(node, pod), 0), **more)


def records(node):
    folder = node.place + "/mps-containers"
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


def await_no_names(node):
    until(lambda: (names(node), records(node)) == ({}, []), lambda: f"{names(node)} {records(node)}\n{node.log()[-3000:]}")


def test_the_answer_names_the_containers_own_namespace_and_no_limits():
    with named(replicas=4, api=False, failRequestsGreaterThanOne=False) as node:
        words = node.kubelet.ask("allocate", node.id(0), node.id(3)).split()
        tenant = next(word for word in words if word.startswith("cdi=")).split("=")[-1]
        assert f"mount={pipe(node, Name(tenant, 0))}:/mps/nvidia.com/gpu/pipe" in words, words
        assert not [word for word in words if "CUDA_MPS_ACTIVE" in word or "CUDA_MPS_PINNED" in word], "the namespace has them"


def test_each_container_has_a_namespace_with_the_limits_of_its_replicas():
    with named(replicas=7, failRequestsGreaterThanOne=False) as node:
        assert modes(node) == ["Exclusive_Process"] and names(node) == {}
        one, two = started(node, "a", node.id(0)), started(node, "b", node.id(1), node.id(2))
        total = device_mib(node)
        assert names(node) == {slot(node, one): (f"{total // 7}M", "14.00"), slot(node, two): (f"{total * 2 // 7}M", "28.00")}
        row = command(node, "namespace", "list", "default", "--server=m")[0].split(",")
        assert row[3:5] == [f"{total // 7}M", "14.00"], "nobody is sent there, and it is no way to more"
        with program(node, one) as first, program(node, two) as second:
            assert first(total // 8) == 0 and second(total // 4) == 0
            assert first(total // 8) == second(total // 8) == OUT_OF_MEMORY
            clients = [row.split(",")[3] for row in command(node, "client", "list")]
            assert sorted(clients) == sorted([slot(node, one), slot(node, two)]), clients


def test_a_program_past_the_guest_is_held_by_its_namespace_whatever_its_environment_says():
    with named(replicas=4, failRequestsGreaterThanOne=False) as node:
        pod = started(node, "a", node.id(0))
        environment = dict(os.environ, METE_SIM_DIR=node.sim, LD_LIBRARY_PATH=sys.argv[2], CUDA_MPS_PIPE_DIRECTORY=pipe(node, Name(slot(node, pod), 0)),
                           CUDA_MPS_ACTIVE_THREAD_PERCENTAGE="100", CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=f"0={device_mib(node)}M", **NEWER)
        asked = "".join(f"{mib * MIB}\n" for mib in (device_mib(node) // 5, device_mib(node) // 5))
        past = subprocess.run([CALLER, "context"], env=environment, input=asked, stdout=subprocess.PIPE, text=True)
        assert past.stdout.split() == ["0", "0", str(OUT_OF_MEMORY)], past.stdout


JOIN = """
import socket, sys
with socket.socket(socket.AF_UNIX) as control:
    control.connect("control")
    control.sendall(sys.argv[1].encode() + b"\\n")
    print(control.recv(1000).decode())
"""


def test_programs_of_any_user_are_clients_of_one_server_and_change_nothing():
    with named() as node:
        place = slot(node, started(node, "a", node.id(0)))

        def of_nobody(words):
            return subprocess.run(["/usr/bin/python3", "-c", JOIN, words], cwd=pipe(node, Name(place, 0)), user=65534, group=65534, extra_groups=[], text=True,
                                  capture_output=True).stdout
        assert of_nobody("join").startswith("ok ")
        assert "insufficient privileges" in of_nobody(f"namespace set {place} --server=m --active-thread-percentage=100")
        assert names(node)[place][1] == "50.00"


def test_a_namespace_ends_with_its_pod_and_the_daemon_stays():
    with named() as node:
        pid = daemon(node)
        first, second = started(node, "a", node.id(0)), started(node, "b", node.id(1))
        stays = slot(node, second)
        first.delete()
        until(lambda: list(names(node)) == [stays], lambda: names(node))
        until(lambda: records(node) == [stays], lambda: records(node))
        second.delete()
        await_no_names(node)
        assert daemon(node) == pid


def test_namespaces_are_made_again_after_their_daemon():
    with named() as node:
        pods = started(node, "a", node.id(0)), started(node, "b", node.id(1))
        had, pid = names(node), daemon(node)
        with program(node, pods[0]) as first:
            os.kill(pid, signal.SIGKILL)
            node.await_log(f"mps.ready uuid={node.uuid[0]} .*daemon={node.uuid[0]}", times=2)
            for pod in pods:
                node.await_log(f"mps.ready .*daemon={slot(node, pod)}", times=2)
            assert names(node) == had and first(1) == 0
            with program(node, pods[0]) as another:
                assert another(1) == 0
        until(lambda: {event["involvedObject"]["name"] for event in list(node.api.events) if event["reason"] == "MPSControlEnded"} >= {"a", "b"}, "its pods were not told")


def test_a_server_that_somebody_has_deleted_is_made_again_with_its_namespaces():
    with named() as node:
        pod = started(node, "a", node.id(0))
        had = names(node)
        command(node, "server", "delete", "m", "--force")
        node.await_log(f"mps.ready uuid={node.uuid[0]} .*daemon={slot(node, pod)}", times=2)
        assert names(node) == had


def test_the_next_meted_takes_over_namespaces_with_clients():
    with named() as node, in_use(node, **NEWER):
        pod = started(node, "a", node.id(0))
        had, pid = names(node), daemon(node)
        with program(node, pod) as allocate:
            node.meted.kill()
            node.restart()
            node.await_log(f"mps.ready .*daemon={slot(node, pod)}", times=2)  # limits that do not change now are the right ones
            assert (names(node), daemon(node)) == (had, pid) and allocate(1) == 0


@contextlib.contextmanager
def stepped():
    with named(start=False) as node, in_use(node, METE_SIM_DEVICES="1xSIM", **NEWER):
        steps = Stepping(node)
        begin(node)
        yield node, steps


def test_nothing_is_left_of_a_start_or_an_end_in_which_meted_was_killed():
    with stepped() as (node, steps):
        kill_at_each_start(node, steps, gone=await_no_names)
        kill_at_each_end(node, steps, gone=await_no_names)


def test_a_container_whose_start_was_cut_off_starts_when_it_is_asked_for_again():
    with stepped() as (node, steps):
        start_again_at_each_start(node, steps, program, gone=await_no_names)


def test_containers_by_protocol_2_keep_it_and_the_gpu_changes_when_they_have_ended():
    """The driver, or mete, is newer since meted's last start."""
    with named(protocol=2) as node, in_use(node, **NEWER):
        pid = daemon(node)
        pod = started(node, "a", node.id(0))
        given(node, pod)
        node.write(node.file_of(protocol="newest"))
        node.meted.kill()
        node.restart()
        node.await_log(f"mps.ready uuid={node.uuid[0]}", times=2)
        await_ready(node)
        assert daemon(node) == pid and control(node, "get_default_active_thread_percentage").strip() == "50.0"
        with program_in(node, pod) as allocate:
            assert allocate(1) == 0
        pod.delete()
        given(node)
        until(lambda: command(node, "server", "list") and daemon(node) != pid, lambda: node.log()[-3000:])
        await_ready(node)
        with program(node, started(node, "b", node.id(1))) as allocate:
            assert allocate(1) == 0


def test_what_a_container_leaves_in_its_namespaces_folder_is_gone_before_the_next_one_comes():
    with named() as node:
        first = started(node, "a", node.id(0))
        place = slot(node, first)
        folder = pipe(node, Name(place, 0))
        os.symlink(node.place, folder + "/link")
        os.makedirs(folder + "/deep/deeper")
        first.delete()
        node.await_log(f"mps.undone .*daemon={place}")
        assert not os.path.exists(folder)
        assert os.path.isdir(node.place + "/bindings"), "a link was followed"
        second = started(node, "b", node.id(0))
        assert slot(node, second) == place and os.listdir(folder) == ["control"]


def test_a_namespace_that_is_made_again_follows_no_link_of_its_container():
    with named() as node:
        place = slot(node, started(node, "a", node.id(0)))
        link = pipe(node, Name(place, 0)) + "/link"
        os.symlink(node.folder, link)
        os.kill(daemon(node), signal.SIGKILL)
        node.await_log(f"mps.ready .*daemon={place}", times=2)
        assert not os.path.lexists(link)


def test_a_server_with_a_client_in_its_default_namespace_is_taken_over():
    """A program of the host may be there: then the limits do not change, and are the right ones."""
    with named() as node, in_use(node, **NEWER):
        pod = started(node, "a", node.id(0))
        with program_in(node, pod, slot=Name("default", 0)):
            node.meted.kill()
            node.restart()
            node.await_log(f"mps.ready uuid={node.uuid[0]} .*daemon={node.uuid[0]}", times=2)


def test_a_gpu_keeps_its_protocol_while_a_container_that_was_answered_has_not_started():
    """The kubelet has not written it down yet; a GPU beside it says when meted has looked."""
    with named(devices="2xSIM", protocol=2) as node, in_use(node, METE_SIM_DEVICES="2xSIM", **NEWER):
        pids = [daemon(node, device) for device in range(2)]
        pods = [started(node, f"p{device}", node.id(0, device)) for device in range(2)]
        given(node, *pods)
        node.write(node.file_of(protocol="newest"))
        node.meted.kill()
        node.restart()
        await_asked(node, times=2)
        answered = node.pod("answered").admit(node.id(1))
        for pod in pods:
            pod.delete()
        given(node)
        until(lambda: command(node, "server", "list", device=1) and daemon(node, 1) != pids[1], lambda: node.log()[-3000:])
        assert daemon(node) == pids[0]
        with program_in(node, again(answered)) as allocate:
            assert allocate(1) == 0


def test_protocol_2_is_used_where_the_file_says_so_or_the_root_is_long():
    with named(start=False, protocol=2) as node:
        begin(node)
        assert control(node, "get_default_active_thread_percentage").strip() == "50.0" and "mps.older" not in node.log()
    with named(start=False) as node:
        short = node.root
        node.root = (node.folder + "/" + "m" * 40)[:40]
        node.write(node.file_of())
        begin(node)
        node.await_log("mps.older root=")
        assert control(node, "get_default_active_thread_percentage").strip() == "50.0"
        assert not os.path.exists(short)


def test_protocol_3_is_refused_where_it_cannot_be():
    with named(start=False, protocol=3) as node:
        def refusal():
            return subprocess.run(node.command(), env=dict(os.environ, **node.environment), stderr=subprocess.PIPE, text=True, timeout=PATIENCE).stderr
        node.root = (node.folder + "/" + "m" * 40)[:40]
        node.write(node.file_of())
        assert "flags.mpsRoot: below a path of more than 34 bytes sockets of MPS's namespaces would be too long; accepted: " in refusal()
        node.environment["METE_SIM_DRIVER"] = "13.3"
        assert "sharing.mps.protocol: this driver has no protocol 3; accepted: driver 615 and newer, or protocol: 2" in refusal()
        node.environment.update(NEWER)
        node.write(node.file_of(daemonPer="container"))
        assert "sharing.mps.protocol: a container's own control daemon speaks protocol 2; accepted: daemonPer: gpu, or protocol: 2" in refusal()


if __name__ == "__main__":
    run(globals())
