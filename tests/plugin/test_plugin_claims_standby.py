#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A second meted that stands by, and the sockets by which the kubelet knows each. tests/plugin/node.py says with whom."""
import contextlib

from node import *
from meted import run
from test_plugin_claims import DRIVER, Caller, claims, uid


def sockets(node):
    k = node.kubelet.folder
    return sorted(os.listdir(k + "/plugins_registry")), sorted(os.listdir(f"{k}/plugins/{DRIVER}"))


def stand_by(node, **environment):
    return Daemon(*node.options, "--stand-by", environment={**node.environment, **environment}, place=node.place, role="--system")


def caller_of(node, name):
    return Caller(f"{node.kubelet.folder}/plugins/{DRIVER}/{name}")


def test_a_pods_sockets_have_its_uid_and_those_of_a_killed_one_are_removed():
    with claims() as (node, made, caller):
        assert sockets(node) == ([f"{DRIVER}-reg.sock"], ["dra.sock"])
        node.meted.kill()
        with socket.socket(socket.AF_UNIX) as another:  # a pod's that is there
            another.bind(f"{node.kubelet.folder}/plugins_registry/{DRIVER}-there-reg.sock")
            another.listen()
            node.environment["POD_UID"] = "one"
            node.start()
            until(lambda: sockets(node) == ([f"{DRIVER}-one-reg.sock", f"{DRIVER}-there-reg.sock"], ["dra-one.sock"]), lambda: sockets(node))
        node.end()
        node.environment["POD_UID"] = "u" * 63  # too long with it
        node.start()
        until(lambda: sockets(node) == ([f"{DRIVER}-reg.sock"], ["dra.sock"]), lambda: sockets(node))


def test_what_is_asked_of_who_stands_by_is_answered_when_it_serves():
    with claims() as (node, made, caller):
        made.answer_all()
        caller.prepare("c0")
        first = caller.answer("c0")
        old, later = node.meted, stand_by(node, POD_UID="one")
        assert sockets(node)[0] == [f"{DRIVER}-reg.sock"], "it is known before the other one ends"
        with old_ends(old):
            until(lambda: f"{DRIVER}-one-reg.sock" in sockets(node)[0], lambda: later.log())
            next_one = caller_of(node, "dra-one.sock")
            next_one.tell(f"c0 prepare ns c0 {uid('c0')}", f"c1 prepare ns c1 {uid('c1')}")
        node.meted = later
        assert next_one.answer("c0") == first
        assert next_one.answer("c1").startswith("ok "), next_one.answer("c1")
        assert {row.name for row in node.tenants()} == {"ns/c0", "ns/c1"}
        assert sockets(node) == ([f"{DRIVER}-one-reg.sock"], ["dra-one.sock"])
        next_one.close()


@contextlib.contextmanager
def old_ends(old):
    """It is told to, and waits for who stands by as long as this kubelet of ours does not answer: 5 s."""
    old.process.terminate()
    yield
    assert old.wait() == 0


def test_who_stands_by_and_is_told_to_end_leaves_no_socket():
    with claims() as (node, made, caller):
        later = stand_by(node, POD_UID="one")
        node.meted.process.send_signal(signal.SIGSTOP)  # it does not end yet
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as leaver:
            leaver.connect(node.place + "/stand-by.sock")
            until(lambda: f"{DRIVER}-one-reg.sock" in sockets(node)[0], lambda: later.log())
            later.process.terminate()
            assert later.wait() == 0
            assert leaver.recv(1) == b""
        assert sockets(node) == ([f"{DRIVER}-reg.sock"], ["dra.sock"])
        node.meted.process.send_signal(signal.SIGCONT)


def test_without_a_uid_the_second_ones_sockets_are_opened_when_it_serves():
    with claims() as (node, made, caller):
        later = stand_by(node)
        node.meted.process.terminate()
        assert node.meted.wait() == 0
        node.meted = later
        until(lambda: later.log().count("plugin.ready") == 2, later.log)
        assert "POD_UID does not say another name" in later.log()
        with contextlib.closing(caller_of(node, "dra.sock")) as again:
            made.answer_all()
            again.prepare("c0")
            assert again.answer("c0").startswith("ok "), again.answer("c0")


if __name__ == "__main__":
    run(globals())
