#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A second meted that stands by, and the kubelet's sockets, with which it goes on. tests/plugin/node.py describes the parties."""
import contextlib

from node import *
from meted import run
from test_plugin_claims import DRIVER, Caller, claims, uid

OF_SIZE = 128  # of what is said of sockets that are handed over: HANDOVER_OF


def folders(node):
    return f"{node.kubelet.folder}/plugins_registry", f"{node.kubelet.folder}/plugins/{DRIVER}"


def sockets(node):
    return tuple(sorted(os.listdir(folder)) for folder in folders(node))


def stand_by(node, options=None, **environment):
    return Daemon(*(options or node.options), "--stand-by", environment={**node.environment, **environment}, place=node.place, role="--system")


def caller_of(node, name):
    return Caller(f"{node.kubelet.folder}/plugins/{DRIVER}/{name}")


def registry_of(node):
    """A kubelet that has started anew: it asks which plugins are there, and confirms that it knows them."""
    return Caller(f"{node.kubelet.folder}/plugins_registry/{sockets(node)[0][0]}")


def is_told_to_end(old):
    """When this returns, the stand-by has the sockets. All write one log."""
    before = old.log().count("standby.inherited")
    old.process.terminate()
    until(lambda: old.log().count("standby.inherited") > before, lambda: old.log()[-4000:])


def has_ended(node, old, later):
    assert old.wait() == 0, old.log()[-2000:]
    node.meted = later


def is_prepared(caller, tag):
    assert caller.answer(tag).startswith("ok "), caller.answer(tag)


@contextlib.contextmanager
def left_by_nobody(node, later):
    """Of a test that has failed, too."""
    try:
        yield later
    finally:
        if node.meted is not later and later.process.poll() is None:
            later.kill()


@contextlib.contextmanager
def an_update():
    """Whose claim c0 is prepared, with a stand-by. The caller's connection stays open."""
    with claims(environment={"POD_UID": "old"}) as (node, made, unused):
        made.answer("c0")
        with contextlib.closing(caller_of(node, "dra-old.sock")) as caller:
            caller.prepare("c0")
            is_prepared(caller, "c0")
            with left_by_nobody(node, stand_by(node, POD_UID="one")) as later:
                yield node, made, caller, later


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


def test_an_open_connection_is_answered_by_the_meted_that_serves():
    with an_update() as (node, made, caller, later):
        made.answer_all()
        first, there = caller.answer("c0"), sockets(node)
        assert there == ([f"{DRIVER}-old-reg.sock"], ["dra-old.sock"])
        for name, uid_of in ("c1", "two"), ("c2", None):
            old = node.meted
            is_told_to_end(old)
            has_ended(node, old, later)
            caller.prepare(name, "c0/again")
            is_prepared(caller, name)
            assert caller.answers.pop("c0/again") == first
            assert sockets(node) == there, "the kubelet knows another driver now"
            if uid_of:
                later = stand_by(node, POD_UID=uid_of)  # it ends with the node, or takes its place
        assert {row.name for row in node.tenants()} == {"ns/c0", "ns/c1", "ns/c2"}


def test_a_request_made_when_nobody_serves_is_answered_by_the_next_meted():
    with an_update() as (node, made, caller, later), contextlib.closing(caller_of(node, "dra-old.sock")) as another:
        old = node.meted
        caller.prepare("c1")  # is not answered: so the old one does not end yet
        made.await_reads(2)
        is_told_to_end(old)
        with contextlib.closing(registry_of(node)) as registry:
            registry.tell("r registered")
            assert registry.answer("r") == "ok"
        later.process.send_signal(signal.SIGSTOP)
        another.tell(f"c2 prepare ns c2 {uid('c2')}")  # by a new connection
        made.answer("c1")
        is_prepared(caller, "c1")
        has_ended(node, old, later)
        caller.tell(f"c3 prepare ns c3 {uid('c3')}")  # by one that was open
        later.process.send_signal(signal.SIGCONT)
        made.answer_all()
        for who, name in (another, "c2"), (caller, "c3"):
            is_prepared(who, name)


def test_a_call_that_cannot_be_answered_in_time_is_answered_by_the_next_meted():
    with an_update() as (node, made, caller, later):
        old = node.meted
        caller.prepare("c1")
        assert made.await_reads(2)[1:] == ["c1"]
        is_told_to_end(old)
        has_ended(node, old, later)
        assert made.await_reads(3)[1:] == ["c1", "c1"]
        made.answer_all()
        is_prepared(caller, "c1")
        assert {row.name for row in node.tenants()} == {"ns/c0", "ns/c1"}


def test_without_pods_the_sockets_are_handed_over_too():
    with claims() as (node, made, caller):
        made.answer_all()
        caller.prepare("c0")
        with left_by_nobody(node, stand_by(node)) as later:
            old = node.meted
            is_told_to_end(old)
            has_ended(node, old, later)
        caller.prepare("c1")
        is_prepared(caller, "c1")
        assert sockets(node) == ([f"{DRIVER}-reg.sock"], ["dra.sock"])


def of_another_domain(node):
    """A stand-by whose configuration says another domain."""
    with open(node.file) as ours, open(node.folder + "/other.yaml", "w") as other:
        json.dump({"version": "v1", "mete": {**json.load(ours)["mete"], "domain": "other.dev"}}, other)
    return stand_by(node, [option.replace(node.file, other.name) for option in node.options], POD_UID="one")


def test_a_driver_with_another_domain_goes_on_with_the_sockets_of_the_former_one():
    """While claims need it, a stand-by of that one too; then it has sockets of its own."""
    with an_update() as (node, made, caller, later):
        made.answer_all()
        later.process.terminate()
        assert later.wait() == 0
        there, domain = sockets(node), os.path.dirname(folders(node)[1]) + "/gpu.other.dev"
        for name in "c1", "c2":
            with left_by_nobody(node, of_another_domain(node)) as later:
                old = node.meted
                is_told_to_end(old)
                has_ended(node, old, later)
            caller.prepare(name)
            is_prepared(caller, name)
            assert sockets(node) == there, "the kubelet knows another driver now"
        for name in "c0", "c1", "c2":
            caller.unprepare(name)
        until(lambda: "dra.renamed" in later.log(), lambda: later.log()[-2000:])
        until(lambda: sockets(node) == (["gpu.other.dev-one-reg.sock"], []), lambda: f"{sockets(node)}\n{later.log()[-2000:]}")
        assert os.listdir(domain) == ["dra-one.sock"], os.listdir(domain)


@contextlib.contextmanager
def a_leaver(node, of=f"{DRIVER} known"):
    """Another meted, which hands over sockets and does not end: both connections."""
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(2)]
        for listener, folder, name in zip(listeners, reversed(folders(node)), ("dra-left.sock", f"{DRIVER}-left-reg.sock")):
            listener.bind(f"{folder}/{name}")
            listener.listen()
        leaver = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        leaver.connect(node.place + "/stand-by.sock")
        socket.send_fds(leaver, [of.encode().ljust(OF_SIZE, b"\0")], [listener.fileno() for listener in listeners])
        yield leaver


def test_a_stand_by_that_is_told_to_end_leaves_no_socket():
    with claims() as (node, made, caller):
        later, before = stand_by(node), sockets(node)
        with a_leaver(node) as leaver:
            assert leaver.recv(2) == b"\0" and leaver.recv(2) == b""
            assert sockets(node) != before
            later.process.terminate()
            assert later.wait() == 0
        assert sockets(node) == before


def test_two_meteds_of_a_node_do_not_take_each_others_sockets():
    """Both would answer the kubelet in turns, and neither would know the other's claims."""
    with claims() as (node, made, caller):
        made.answer_all()
        caller.await_known()
        before = sockets(node)
        other = Daemon(*node.options, environment=node.environment, role="--system")
        try:
            until(lambda: re.search("dra.unserved reason=.*another meted is serving there", other.log()), lambda: other.log()[-2000:])
            assert sockets(node) == before
            with contextlib.closing(Caller(f"{node.kubelet.folder}/plugins/{DRIVER}/dra.sock")) as later:
                later.prepare("c0")
                assert later.answer("c0").startswith("ok ") and node.tenants(), later.answers
                later.unprepare("c0")
            node.meted.process.terminate()
            assert node.meted.wait() == 0
            until(lambda: os.path.exists(f"{node.kubelet.folder}/plugins/{DRIVER}/dra.sock"), lambda: other.log()[-2000:])
            with contextlib.closing(Caller(f"{node.kubelet.folder}/plugins/{DRIVER}/dra.sock")) as later:
                later.prepare("c1")
                assert later.answer("c1").startswith("ok "), later.answers
                later.unprepare("c1")
        finally:
            other.__exit__(None)


def test_a_meted_that_is_stopped_keeps_its_sockets_for_three_looks():
    """The kernel still takes connections for it, and nobody is answered. When it goes on, it does not take them back."""
    with claims() as (node, made, caller):
        made.answer_all()
        caller.prepare("c0")
        is_prepared(caller, "c0")
        other = Daemon(*node.options, environment=node.environment, role="--system")
        try:
            until(lambda: "another meted is serving there" in other.log(), lambda: other.log()[-2000:])
            node.meted.process.send_signal(signal.SIGSTOP)
            until(lambda: "dra.taken_over" in other.log(), lambda: other.log()[-2000:])
            with contextlib.closing(caller_of(node, "dra.sock")) as later:
                later.prepare("c1")
                is_prepared(later, "c1")
                before = sockets(node)
                node.meted.process.send_signal(signal.SIGCONT)
                node.await_log("dra.unserved reason=.*another meted is serving there")
                later.prepare("c2")
                is_prepared(later, "c2")
                assert sockets(node) == before
                for name in "c1", "c2":
                    later.unprepare(name)
        finally:
            node.meted.process.send_signal(signal.SIGCONT)
            other.__exit__(None)


def test_sockets_that_make_no_sense_are_not_taken_over():
    for of in "gpu.other.dev known", DRIVER, "", "x" * OF_SIZE:
        with claims() as (node, made, caller):
            later = stand_by(node)
            with a_leaver(node, of) as leaver:
                assert leaver.recv(2) == b"", of
            later.process.terminate()
            assert later.wait() == 0 and "standby.inherited" not in later.log()
            with contextlib.closing(caller_of(node, "dra.sock")) as again:
                again.await_known()


if __name__ == "__main__":
    run(globals())
