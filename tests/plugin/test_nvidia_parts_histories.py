#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random histories of parts that are made when a container needs them (migStrategy: dynamic): pods come, go and are force-deleted, with their programs
still there; somebody else divides the GPU, too; the driver fails; meted is killed at any moment. METE_SEED is the first seed, and METE_HISTORIES how many. The laws, after each step:
  1. a part of somebody else is there as long as he has it;
  2. a part that a pod was given is there as long as the pod has it, and one on which a program runs as long as that;
and after each round, when meted has had its time: 3. there is no other part, and meted has written down its own alone."""
import contextlib
import random

from node import *
from kubelet import Refused
from meted import run
from runner import soak
from test_nvidia_parts import LIBRARY, PREFIX, SMALL, Parts

IN_THE_GATE = 1, 3
FIRST, HISTORIES = int(os.environ.get("METE_SEED", 4)), int(os.environ.get("METE_HISTORIES", 20))
ROUNDS, STEPS, PODS = 4, 10, 6
PLACES = [(profile, start) for profile, starts in (("1g.10gb", range(7)), ("2g.20gb", (0, 2, 4)), ("3g.40gb", (0, 4)), ("4g.40gb", (0,)), ("7g.80gb", (0,))) for start in starts]
THEIRS = {"1g.10gb": 19, "2g.20gb": 14, "3g.40gb": 9}  # as nvidia-smi numbers profiles
FAULTS = "make-gi=no-room@1", "make-ci=unknown@1", "destroy-gi=in-use", "destroy-ci=in-use", "destroy-ci=unknown@1"
CHANGES = 6  # before and after a few of them meted may die
REFUSED = ("has no room for .* there: its part .* is in use, or is somebody else's$|though nobody was given it|the driver has no room there|an error of no known kind|is gone$"
           "|is not (given|offered)|Socket closed|[Cc]onnection|the other side")


class History:
    def __init__(self, node, draw):
        self.node, self.draw = node, draw
        self.gpu = node.places(7)["1g.10gb:0"].split(":")[0]
        self.had = {}  # by pod: the UUID of its part
        self.programs = {}  # by the part's UUID
        self.others = []  # UUIDs of somebody else's parts
        self.asked = self.got = 0

    # ---- what happens ----

    def id(self, profile, start):
        return f"{self.gpu}:{profile}:{start}"

    def given_ids(self):
        return {id for _, ids in self.node.given.values() for id in ids}

    def begin(self, pod):
        """The kubelet gives an id to one pod at a time; what it knows of places may be old."""
        free = [place for place in PLACES if self.id(*place) not in self.given_ids()]
        profile, start = self.draw.choice(free)
        resource, id = PREFIX + profile, self.id(profile, start)
        self.asked += 1
        return pod, resource, id, self.node.kubelet.begin("beside", resource, "allocate", id)

    def end(self, pod, resource, id, tag):
        try:
            answer = self.node.kubelet.answer(tag)
        except Refused as refused:
            assert not self.alive() or re.search(REFUSED, refused.sentence), refused.sentence
            return
        self.had[pod] = re.search(r"NVIDIA_VISIBLE_DEVICES=(\S+)", answer)[1]
        self.node.given[pod] = resource, [id]
        self.node.write_given()
        self.got += 1

    def absent(self):
        return [pod for pod in (f"pod{n}" for n in range(PODS)) if pod not in self.node.given]

    def come(self):
        """One, or two at once: for different places, as the kubelet would."""
        calls = []
        for pod in self.absent()[:self.draw.choice((1, 1, 2))]:
            call = self.begin(pod)
            if call[2] in [other[2] for other in calls]:
                self.end(*call)
            else:
                calls.append(call)
        for call in calls:
            self.end(*call)

    def go(self):
        """It is force-deleted if its program is still there."""
        if self.node.given:
            pod = self.draw.choice(sorted(self.node.given))
            self.node.take(pod)
            del self.had[pod]

    def compute(self):
        idle = sorted(uuid for uuid in self.had.values() if uuid not in self.programs)
        if not idle:
            return
        uuid = self.draw.choice(idle)
        program = subprocess.Popen([CALLER, "context"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                   env=dict(os.environ, LD_LIBRARY_PATH=sys.argv[2], CUDA_VISIBLE_DEVICES=uuid, **self.node.environment))
        self.programs[uuid] = program
        assert program.stdout.readline() == "0\n", f"no context on {uuid}, which a pod has"

    def stop(self):
        if self.programs:
            end_program(self.programs.pop(self.draw.choice(sorted(self.programs))))

    def divide(self, *words):
        """Its changes do not fail: half a part of somebody else would be nobody's here."""
        self.node.faults("")
        done = subprocess.run([os.path.join(BUILD, "tests", "plugin", "divide"), LIBRARY, *words], env=dict(os.environ, METE_SIM_DIR=self.node.sim), capture_output=True, text=True)
        assert done.returncode == 0 or "divide: nvmlDeviceCreateGpuInstance: " in done.stderr, done  # there is no room
        return done.stdout.strip()

    def other_makes(self):
        uuid = self.divide("0", str(THEIRS[self.draw.choice(sorted(THEIRS))]))
        if uuid:
            self.others.append(uuid)

    def other_removes(self):
        if self.others:
            uuid = self.others.pop(self.draw.randrange(len(self.others)))
            self.divide("undo", uuid)
            assert uuid not in self.parts(), "the driver keeps it"

    def fail(self):
        self.node.faults(self.draw.choice(FAULTS))

    def die(self):
        """Before or after one of its next changes; or now, while it answers."""
        if self.draw.random() < 0.5:
            self.node.faults(f"die@{self.draw.randint(1, 2 * CHANGES)}")
            return
        calls = [self.begin(pod) for pod in self.absent()[:1]]
        self.node.meted.kill()
        for call in calls:
            self.end(*call)

    # ---- what holds ----

    def alive(self):
        return self.node.meted.process.poll() is None

    def parts(self):
        """The driver's: UUIDs. A part may be there by half."""
        said = subprocess.run([BUILD + "/sim/nvidia-smi", "-L"], env=dict(os.environ, LD_LIBRARY_PATH=sys.argv[2], METE_SIM_DIR=self.node.sim), stdout=subprocess.PIPE, text=True,
                              check=True).stdout
        return set(re.findall(r"UUID: (MIG-[^)]+)", said))

    def laws(self):
        there = self.parts()
        assert there >= set(self.others), f"{set(self.others) - there} of somebody else have gone"
        assert there >= set(self.had.values()), f"{set(self.had.values()) - there} that pods have have gone"
        assert there >= set(self.programs), f"{set(self.programs) - there} have gone from under programs"

    def settle(self):
        self.node.faults("")
        if not self.alive():
            self.node.restart()
        wanted = set(self.others) | set(self.had.values()) | set(self.programs)
        until(lambda: self.parts() == wanted, lambda: f"{self.parts() - wanted} too many, {wanted - self.parts()} too few")
        ours = len(wanted - set(self.others))
        until(lambda: len(self.node.ours()) == ours, lambda: f"{self.node.ours()} are written down; {ours} are there")
        assert self.given_ids() <= set(self.node.ours())

    def step(self):
        if not self.alive():
            self.node.faults("")
            self.node.restart()
        what = self.draw.choices((self.come, self.go, self.compute, self.stop, self.other_makes, self.other_removes, self.fail, self.die), (12, 7, 5, 4, 2, 2, 1, 2))[0]
        print(f"    {what.__name__}", flush=True)
        what()
        self.laws()

    def close(self):
        """In the end nothing of it is there, and every place is to be had."""
        for pod in list(self.node.given):
            self.node.take(pod)
        self.had.clear()
        while self.programs:
            end_program(self.programs.popitem()[1])
        while self.others:
            self.other_removes()
        self.settle()
        for profile, start in PLACES:
            resource, id, pod = PREFIX + profile, self.id(profile, start), "last"

            def has_it():  # what meted has not yet seen in the record counts as given for ten seconds
                self.end(pod, resource, id, self.node.kubelet.begin("beside", resource, "allocate", id))
                return pod in self.had
            until(has_it, f"{profile} at {start} is not to be had though nothing is there")
            self.laws()
            self.node.take(pod)
            del self.had[pod]
        self.settle()


def end_program(program):
    program.kill()
    program.wait()
    program.stdin.close()
    program.stdout.close()


def history(seed):
    print(f"seed={seed}", flush=True)
    draw = random.Random(seed)
    with Parts() as node, contextlib.ExitStack() as stack:
        node.begin()
        its = History(node, draw)
        stack.callback(lambda: [end_program(program) for program in its.programs.values()])
        try:
            for _ in range(ROUNDS):
                for _ in range(STEPS):
                    its.step()
                its.settle()
            its.close()
        except BaseException:
            print(node.log()[-6000:], flush=True)
            raise
        assert its.got > 1, "it was refused all"


def test_laws_hold_after_each_step_of_some_histories():
    for seed in IN_THE_GATE:
        history(seed)


@soak
def test_laws_hold_after_each_step_of_random_histories():
    for seed in range(FIRST, FIRST + HISTORIES):
        history(seed)


if __name__ == "__main__":
    run(globals())
