#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random histories of claims for parts that are made on demand, while the configuration changes, GPUs are cordoned, the API server is slow, and meted
is killed. After each: who is prepared is who was told so, and in the end nothing is left. METE_SEED repeats one. tests/plugin/node.py describes the parties."""
import random

from node import *
from meted import Refused, run
from runner import soak
from test_plugin_claims import uid
from test_plugin_claims_parts import Parts, PLACES

SEEDS = [int(os.environ["METE_SEED"])] if "METE_SEED" in os.environ else range(1, 21)
CLAIMS, STEPS, ROUNDS = 6, 12, 4
# A claim's device is one that is not published now, or another claim's part is in its place. All else ends: meted begins again, and ends connections.
REFUSED = "^error (device .* (is not on this node, or is not given out by claims|is a part that was made for a claim that has ended)|the part of the claim is not made: GPU 0 has no room for)"


class History:
    def __init__(self, node, draw):
        self.node, self.draw, self.calls = node, draw, 0
        self.last = {}  # by name: the tag of the call that was made last, and whether it prepares
        self.open = []
        self.held = False  # the API server does not answer for claims
        for name, (profile, start) in zip((f"c{n}" for n in range(CLAIMS)), (("1g.10gb", 0), ("1g.10gb", 1), ("2g.20gb", 0), ("3g.40gb", 4), ("1g.10gb", 6), ("1g.10gb", 0))):
            node.made.places[name], node.made.memories[name] = node.at(profile, start), "1Gi"

    def call(self, verb, name):
        self.calls += 1
        tag = f"t{self.calls}"
        self.node.caller.tell(f"{tag} {verb} ns {name} {uid(name)}")
        self.last[name] = tag, verb == "prepare"
        self.open.append(tag)

    def hold(self, on):
        made, self.held = self.node.made, on
        with made.lock:
            made.all = not on
            made.lock.notify_all()

    def step(self):
        name = f"c{self.draw.randrange(CLAIMS)}"
        what = self.draw.choices(("prepare", "unprepare", "hold", "cordon", "mig"), (8, 5, 1, 2, 1))[0]
        on = self.draw.random() < 0.5
        if what in ("prepare", "unprepare"):
            self.call(what, name)
        elif what == "hold":
            self.hold(on)
        elif what == "mig":
            self.node.configure(mig="dynamic" if on else "found")
        else:
            try:
                cordon(self.node, 0, int(on))
            except (Refused, OSError):
                pass  # it has no device while its GPU is undivided, or begins again

    def failed(self):
        """Names of claims whose last call has to be made again, as the kubelet does it: all that failed, but those that meted refuses."""
        said = {name: (prepares, self.node.caller.answer(tag)) for name, (tag, prepares) in self.last.items()}
        return sorted(name for name, (prepares, answer) in said.items() if not answer.startswith("ok") and not (prepares and re.search(REFUSED, answer)))

    def settle(self):
        """All calls have their answers."""
        self.hold(False)
        for tag in self.open:
            self.node.caller.answer(tag)
        self.open = []
        # What was refused may have had no room for a claim that has ended meanwhile.
        for name, (tag, prepares) in sorted(self.last.items()):
            if not self.node.caller.answer(tag).startswith("ok"):
                self.call("prepare" if prepares else "unprepare", name)

        def settled():
            for name in self.failed():
                self.call("prepare" if self.last[name][1] else "unprepare", name)
            return not self.failed()
        until(settled, lambda: f"{[self.node.caller.answer(self.last[name][0]) for name in self.failed()]}")
        self.open = []

    def told(self):
        return {f"ns/{name}" for name, (tag, prepares) in self.last.items() if prepares and self.node.caller.answer(tag).startswith("ok ")}

    def tenants(self):
        """None: meted begins again just now, as GPUs are divided in another way and somebody waits for that."""
        try:
            return {row.name for row in self.node.tenants()}
        except OSError:
            return None

    def agrees(self):
        until(lambda: self.tenants() == self.told(), lambda: f"{self.tenants()} instead of {self.told()}\n{self.node.log()[-4000:]}")
        files = {name for name in os.listdir(self.node.cdi) if name.endswith(".json")} if os.path.isdir(self.node.cdi) else set()
        assert {name.split("claim_uid-")[1].removesuffix(".json") for name in files} == {name.removeprefix("ns/") for name in self.told()}, (files, self.told(), self.tenants())

    def killed(self):
        """The kubelet makes again each call that was not answered; it is the last one of its claim."""
        self.node.meted.kill()
        self.hold(False)
        self.node.caller.close()
        self.node.start()
        self.node.connect()
        again, self.open = set(self.open), []
        for name, (tag, prepares) in sorted(self.last.items()):
            # What was prepared is prepared still, and asked for again by a kubelet that starts.
            if prepares or tag in again:
                self.call("prepare" if prepares else "unprepare", name)
            else:
                del self.last[name]

    def end(self):
        self.node.configure(mig="dynamic")
        for name in list(self.last):
            self.call("unprepare", name)
        self.settle()
        self.agrees()
        self.node.await_nothing()


def history(seed):
    print(f"seed={seed}", flush=True)
    draw = random.Random(seed)
    with Parts() as node:
        node.begin()
        node.devices(PLACES)
        its = History(node, draw)
        try:
            for _ in range(ROUNDS):
                for _ in range(STEPS):
                    its.step()
                if draw.random() < 0.4:
                    its.killed()
                its.settle()
                its.agrees()
            its.end()
        except Exception:
            print(node.log(), flush=True)
            raise


@soak
def test_books_agree_after_random_histories():
    for seed in SEEDS:
        history(seed)


if __name__ == "__main__":
    run(globals())
