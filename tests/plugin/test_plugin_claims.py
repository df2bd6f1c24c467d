#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Many claims at once: what meted asks an API server of ours for, when a kubelet of ours asks for them. tests/plugin/node.py says with whom."""
import contextlib

from node import *
from meted import run

DRIVER = "gpu.mete.dev"
READS = 8  # at a time


class Claims:
    """The claims c0, c1, ...: read one by one, when the test lets them."""

    def __init__(self, uuid):
        self.lock = threading.Condition()
        self.device = uuid.lower()
        self.read, self.under_way, self.most = [], set(), 0
        self.connections, self.let, self.all = set(), set(), False

    def __call__(self, name, connection):
        with self.lock:
            self.read.append(name)
            self.connections.add(connection)
            self.under_way.add(name)
            self.most = max(self.most, len(self.under_way))
            self.lock.notify_all()
            self.lock.wait_for(lambda: self.all or name in self.let, PATIENCE)
            self.under_way.discard(name)
        result = {"request": "gpu", "driver": DRIVER, "pool": NODE + "-mete", "device": self.device, "shareID": "s",
                  "consumedCapacity": {"memory": "64Mi", "compute": "1", "slots": "1"}}
        return {"metadata": {"namespace": "ns", "name": name, "uid": uid(name)}, "status": {"allocation": {"devices": {"results": [result]}}}}

    def answer(self, name):
        with self.lock:
            self.let.add(name)
            self.lock.notify_all()

    def answer_all(self):
        with self.lock:
            self.all = True
            self.lock.notify_all()

    def await_reads(self, count):
        with self.lock:
            assert self.lock.wait_for(lambda: len(self.read) >= count, PATIENCE), f"only {self.read} were read"
            return list(self.read)


def uid(name):
    return "uid-" + name


class Caller:
    """claims_caller, and its answers: TAG: (MS, WORDS)."""

    def __init__(self, socket):
        self.process = subprocess.Popen([BUILD + "/tests/plugin/claims_caller", socket], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.lock, self.answers = threading.Condition(), {}
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            tag, _, rest = line.rstrip("\n").split(" ", 2)
            with self.lock:
                self.answers[tag] = rest
                self.lock.notify_all()

    def tell(self, *lines):
        self.process.stdin.write("".join(line + "\n" for line in lines))
        self.process.stdin.flush()

    def prepare(self, *tags):
        """A claim's name is a tag, and "/again" may follow."""
        self.tell(*(f"{tag} prepare ns {name} {uid(name)}" for tag in tags for name in [tag.removesuffix("/again")]))

    def answer(self, tag):
        with self.lock:
            assert self.lock.wait_for(lambda: tag in self.answers, PATIENCE), f"{tag} was never answered"
            return self.answers[tag]

    def forget(self, *tags):
        """When this returns, meted knows."""
        self.tell(*(f"{tag} forget" for tag in tags), f"after-{tags[0]} unprepare ns none none")
        assert self.answer("after-" + tags[0]) == "ok"

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(timeout=PATIENCE) == 0


@contextlib.contextmanager
def claims():
    with Node(start=False, dra="on", slots=50) as node:
        os.mkdir(node.kubelet.folder + "/plugins_registry")
        node.start()
        node.api.claim = made = Claims(node.uuid[0])
        caller = Caller(f"{node.kubelet.folder}/plugins/{DRIVER}/dra.sock")
        try:
            yield node, made, caller
        finally:
            made.answer_all()
            caller.close()


def names(begin, end):
    return [f"c{n}" for n in range(begin, end)]


def test_a_burst_of_claims_is_read_a_few_at_a_time_over_connections_that_are_kept():
    with claims() as (node, made, caller):
        caller.prepare(*names(0, 40))
        assert set(made.await_reads(READS)) == set(names(0, READS))
        made.answer("c5")
        for n in range(READS, 40):  # the others of the first are slow
            assert made.await_reads(n + 1)[n] == f"c{n}", f"not in the order of asking: {made.read}"
            made.answer(f"c{n}")
        made.answer_all()
        for name in names(0, 40):
            assert caller.answer(name) == f"ok mete.dev/claim={uid(name)}-0"
        # Another request of meted's may have one of them for a moment.
        assert made.most == READS and len(made.connections) <= READS + 2, (made.most, len(made.connections))


def test_a_call_that_the_kubelet_has_given_up_makes_room_for_the_next():
    with claims() as (node, made, caller):
        caller.prepare(*names(0, READS + 4))
        made.await_reads(READS)
        caller.forget(f"c{READS}", f"c{READS + 2}")  # they wait
        made.answer("c0")
        assert made.await_reads(READS + 1)[-1] == f"c{READS + 1}"
        caller.forget("c1")  # it is being read
        assert made.await_reads(READS + 2)[-1] == f"c{READS + 3}"
        made.answer_all()
        answered = {"c0", f"c{READS + 1}", f"c{READS + 3}", *names(2, READS)}
        for name in answered:
            assert caller.answer(name).startswith("ok "), caller.answer(name)
        assert {row.name for row in node.tenants()} == {"ns/" + name for name in answered}


def test_a_claim_that_was_prepared_meanwhile_is_not_read_again():
    with claims() as (node, made, caller):
        caller.prepare(*names(0, READS))
        made.await_reads(READS)
        caller.prepare("c0/again", "c8")
        made.answer("c0")
        assert caller.answer("c0/again") == caller.answer("c0")
        assert made.await_reads(READS + 1)[READS:] == ["c8"]


def test_claims_that_wait_are_refused_when_the_server_goes_and_prepared_when_it_is_back():
    with claims() as (node, made, caller):
        caller.prepare(*names(0, 3 * READS))
        made.await_reads(READS)
        node.api.away()
        for name in names(0, 3 * READS):
            assert caller.answer(name).startswith("error the claim cannot be read: "), caller.answer(name)
        node.api.back()
        made.answer_all()
        caller.prepare(*(name + "/again" for name in names(0, 3 * READS)))
        for name in names(0, 3 * READS):
            assert caller.answer(name + "/again").startswith("ok "), caller.answer(name + "/again")


def test_meted_ends_while_claims_wait():
    with claims() as (node, made, caller):
        caller.prepare(*names(0, 3 * READS))
        made.await_reads(READS)
        node.end()
        node.start()
        made.answer_all()
        caller.prepare(*(name + "/again" for name in names(0, 3 * READS)))
        for name in names(0, 3 * READS):
            assert caller.answer(name).startswith("error "), name
            assert caller.answer(name + "/again").startswith("ok "), caller.answer(name)


if __name__ == "__main__":
    run(globals())
