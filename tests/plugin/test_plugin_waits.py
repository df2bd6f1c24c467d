#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Events of pods whose tenants wait for memory for long: the answer of `mete why` to a user who sees them alone, and the end of the wait."""
import uuid as uuids

from node import *
from meted import Refused, run
from test_meted_turns import CLOSING, Player, play


def reasons(node, name):
    return [event["reason"] for event in node.api.events_of(name)]


def told(node, name, reason):
    return until(lambda: [event for event in node.api.events_of(name) if event["reason"] == reason],
                 lambda: f"{node.api.events_of(name)}\n{node.log()[-2000:]}")[0]


def hash_of(uid):
    """ids_hash()."""
    h = 0xcbf29ce484222325
    for byte in uid.encode():
        h = (h ^ byte) * 0x100000001b3 % 2**64
    for shift, factor in (30, 0xbf58476d1ce4e5b9), (27, 0x94d049bb133111eb):
        h = (h ^ h >> shift) * factor % 2**64
    return h ^ h >> 31


def uids():
    """Of two pods that would share a place in a table by the hash."""
    first = str(uuids.uuid4())
    return first, next(uid for uid in iter(lambda: str(uuids.uuid4()), None) if (hash_of(uid) ^ hash_of(first)) % 512 == 0)


def joined(node, name, number, uid=None, wait="10m", memory="3GiB"):
    """A pod, and a guest of it."""
    pod = node.run(name, node.id(number), uid=uid, annotations={"memory": memory, "wait": wait})
    return pod, Guest(node.folder_of(pod.title()) + "/guest.sock")


def test_a_pod_that_waits_for_memory_is_told_so_once_and_when_it_is_over():
    with Node(devices="1xSIM", slots=4, overcommit="150%", most={"memory": "100%", "wait": "1h"}) as node:
        first, second = uids()
        (holder, has), (pod, asks) = joined(node, "secret", 0, first), joined(node, "a", 1, second)
        has.allocated(has.credit(5 * GIB // 2))
        until(lambda: node.tenant(holder.title()).resident)  # `mete why` names it to a user who sees all
        number = asks.send("credit_ask", device=0, wait=1, bytes=5 * GIB // 2, want=5 * GIB // 2)
        event = told(node, "a", "GPUMemoryAwaited")
        row = node.tenant(pod.title())
        assert event["type"] == "Warning" and event["involvedObject"]["uid"] == pod.uid, event
        assert event["message"].startswith(f"{pod.title()} (tenant {row.tenant}) on GPU 0: waits for "), event
        assert " It asks for 2.5" in event["message"] and "GPU 0 has " in event["message"], event
        assert "secret" not in event["message"] and len(event["message"]) <= 1024, "another namespace's tenant has no name here"
        has.close()
        over = told(node, "a", "GPUMemoryArrived")
        assert over["type"] == "Normal" and re.fullmatch(rf"{pod.title()} waited for \d+ (s|min)\.", over["message"]), over
        # Another wait within ten minutes is no news.
        again = Guest(node.folder_of(holder.title()) + "/guest.sock")
        again.send("credit_ask", device=0, wait=1, bytes=5 * GIB // 2, want=5 * GIB // 2)
        told(node, "secret", "GPUMemoryAwaited")
        asks.close()
        told(node, "secret", "GPUMemoryArrived")
        second = Guest(node.folder_of(pod.title()) + "/guest.sock")
        second.send("credit_ask", device=0, wait=1, bytes=5 * GIB // 2, want=5 * GIB // 2)
        until(lambda: node.tenant(pod.title()).lasting >= 2 * 10**9)
        assert sorted(reasons(node, "a")) == ["GPUMemoryArrived", "GPUMemoryAwaited"], node.api.events_of("a")


def test_a_pod_whose_request_is_refused_at_last_is_not_told_that_its_memory_arrived():
    with Node(devices="1xSIM", slots=4, overcommit="150%", most={"memory": "100%", "wait": "1h"}) as node:
        (_, has), (pod, asks) = joined(node, "b", 0), joined(node, "a", 1, wait="10s")
        has.credit(5 * GIB // 2)
        asks.send("credit_ask", device=0, wait=1, bytes=5 * GIB // 2, want=5 * GIB // 2)
        over = told(node, "a", "GPUMemoryRefused")
        assert over["type"] == "Warning" and re.fullmatch(rf"{pod.title()} waited for \d+ s, and 1 of its requests for memory was refused\.", over["message"]), over
        assert reasons(node, "a") == ["GPUMemoryAwaited", "GPUMemoryRefused"], node.api.events_of("a")


def waiting(node, name="a", **more):
    """Another pod's guest that has all of the GPU's room, and a pod with its guest, of which an event says that it waits."""
    _, has = joined(node, "secret", 0)
    has.allocated(has.credit(5 * GIB // 2))
    pod, asks = joined(node, name, 1, **more)
    asks.send("credit_ask", device=0, wait=1, bytes=5 * GIB // 2, want=5 * GIB // 2)
    told(node, name, "GPUMemoryAwaited")
    return pod, has, asks


def test_a_restarted_meted_says_the_end_of_a_wait_when_it_is_over():
    # A look is what a guest has to ask again in: more than a busy machine takes from it.
    with Node(devices="1xSIM", slots=4, overcommit="150%", look="1s", most={"memory": "100%", "wait": "1h"}, options=["--grace", "1h"]) as node:
        pod, has, asks = waiting(node)
        node.meted.kill()
        for guest in has, asks:
            guest.hang_up()
        node.restart()
        # Nobody knows whether it is over until its guests are back, and have asked again.
        until(lambda: node.tenant(pod.title()).expected == 1, node.log)
        has = Guest(node.folder_of("ns/secret/main") + "/guest.sock", seat=has.seat)
        has.state(5 * GIB // 2)
        has.allocated(5 * GIB // 2)
        assert node.tenant(pod.title()).expected == 1 and "GPUMemoryArrived" not in reasons(node, "a")
        asks = Guest(node.folder_of(pod.title()) + "/guest.sock", seat=asks.seat)
        asks.state(0)
        asks.send("credit_ask", device=0, wait=1, bytes=5 * GIB // 2, want=5 * GIB // 2)
        until(lambda: node.tenant(pod.title()).lasting >= 3 * 10**9)  # it has been judged since
        assert reasons(node, "a") == ["GPUMemoryAwaited"], node.api.events_of("a")
        has.close()
        assert re.fullmatch(rf"{pod.title()} waited for \d+ (s|min)\.", told(node, "a", "GPUMemoryArrived")["message"])
        # Once: the next meted has nothing to say.
        node.meted.kill()
        asks.close()
        node.restart()
        node.await_log("daemon.restored")
        node.run("b", node.id(2))
        assert sorted(reasons(node, "a")) == ["GPUMemoryArrived", "GPUMemoryAwaited"], node.api.events_of("a")


def test_a_pod_that_is_suspended_while_it_waits_is_not_told_that_its_memory_arrived():
    with Node(devices="1xSIM", slots=4, overcommit="150%", share={"memory": "25%", "swap": "auto"}, most={"memory": "100%", "wait": "1h"},
              options=["--store", "1GiB"]) as node:
        pod, has, asks = waiting(node)
        admin = Admin(node.place)
        admin.ask("tenant_suspend", tenant=node.tenant(pod.title()).tenant, name="", suspends=1)
        over = told(node, "a", "GPUSuspended")
        assert over["type"] == "Normal" and re.fullmatch(rf"{pod.title()} waited for \d+ s, and is suspended now\.", over["message"]), over
        assert sorted(reasons(node, "a")) == ["GPUMemoryAwaited", "GPUSuspended"]
        for connection in admin, asks, has:
            connection.close()


def test_a_pod_whose_program_ends_while_it_waits_is_not_told_that_its_memory_arrived():
    with Node(devices="1xSIM", slots=4, overcommit="150%", most={"memory": "100%", "wait": "1h"}) as node:
        pod, has, asks = waiting(node)
        asks.close()
        over = told(node, "a", "GPUProgramEnded")
        assert re.fullmatch(rf"{pod.title()} waited for \d+ s, and its processes have ended\.", over["message"]), over
        assert sorted(reasons(node, "a")) == ["GPUMemoryAwaited", "GPUProgramEnded"]
        has.close()


def fill(guest):
    """It has all of the GPU but for less than 64 MiB."""
    has = 0
    for bytes in (2 * GIB >> shift for shift in range(6)):
        try:
            has += guest.credit(bytes)
        except Refused:
            pass
    guest.allocated(has)


def test_all_pods_whose_waits_end_at_once_are_told_so():
    """More than meted asks the API server for at a time."""
    with Node(devices="1xSIM", slots=32, overcommit="300%", most={"memory": "100%", "wait": "1h"}) as node:
        _, has = joined(node, "secret", 0, memory="100%")
        fill(has)
        pods = [f"a{number}" for number in range(20)]
        guests = [joined(node, name, 1 + number, memory="192MiB")[1] for number, name in enumerate(pods)]
        for guest in guests:
            guest.send("credit_ask", device=0, wait=1, bytes=128 * MIB, want=128 * MIB)
        for name in pods:
            told(node, name, "GPUMemoryAwaited")
        has.close()
        for name in pods:
            assert told(node, name, "GPUMemoryArrived")["type"] == "Normal"
        for guest in guests:
            guest.close()


def test_a_pod_that_waits_for_a_moment_has_no_event():
    with Node(devices="1xSIM", slots=4, overcommit="150%", look="60s", most={"memory": "100%", "wait": "1h"}) as node:
        (_, has), (pod, asks) = joined(node, "b", 0), joined(node, "a", 1)
        has.credit(5 * GIB // 2)
        asks.send("credit_ask", device=0, wait=1, bytes=5 * GIB // 2, want=5 * GIB // 2)
        until(lambda: node.tenant(pod.title()).waiting == 1)
        has.close()
        until(lambda: node.tenant(pod.title()).credit >= 5 * GIB // 2)
        assert reasons(node, "a") == [] == reasons(node, "b")


def test_a_pod_whose_process_is_stopped_with_work_on_the_gpu_is_told_so():
    with Node(devices="1xSIM", slots=4, most={"weight": 1000}) as node:
        pods = [node.run(name, node.id(number), annotations={"weight": weight}) for number, (name, weight) in enumerate((("a", "300"), ("b", "100")))]
        hangs, other = (Player(node.folder_of(pod.title()) + "/guest.sock", stubborn=pod is pods[0]) for pod in pods)
        play([hangs, other], lambda: hangs.shown()["gate"] == CLOSING)
        os.kill(hangs.seat.pid, signal.SIGSTOP)
        play([other], lambda: "GPUWorkHangs" in reasons(node, "a"))
        assert ": its process is stopped, with work on the device" in told(node, "a", "GPUWorkHangs")["message"]
        os.kill(hangs.seat.pid, signal.SIGCONT)
        hangs.drain()
        play([hangs, other], lambda: "GPUWorkEnded" in reasons(node, "a"))
        assert reasons(node, "b") == []


if __name__ == "__main__":
    run(globals())
