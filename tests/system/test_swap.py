#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real programs without a limit, whose memory does not fit together: each computes what it computes alone.

argv[3]: the build's folder. Whatever becomes of one program, the others are right, and in the end nothing is left in the store.
Where the device is full a context is small, so that it is the programs' own memory that fills it. METE_TEST_SCALE: so many
rounds with random deaths, stops, suspends and restarts.
"""
import json
import random
import re
import select
import tempfile

from meted import *

BUILD = sys.argv.pop(3)
SCALE = int(os.environ.get("METE_TEST_SCALE", "1"))
DEVICE = 192
# Most of what it holds is written once and checked at the end; the rest changes with each step.
TRAIN = ("train", "steps=30", "ballast=96M")
BESIDE_ONE = "ballast=64M"
NOTEBOOK = ("notebook", "cells=3", "kernels=1", "think=50", "size=6M")
LONG = ("train", "steps=300", "ballast=96M")
INFERENCE = ("inference",)
GRAPH = ("graph-loop",)


def checksum(output):
    return re.search(r"checksum=(\w+)", output).group(1)


class Program:
    talks = False  # whether the test writes to its input, whatever its arguments are

    def __init__(self, node, name, arguments, *options):
        self.node, self.name, self.arguments = node, name, arguments
        self.process = subprocess.Popen(
            [BUILD + "/cli/mete", "run", "--quiet", "-n", name, *options, "--", os.path.join(BUILD, "examples", arguments[0]), *arguments[1:]],
            env=node.environment, stdin=subprocess.PIPE if self.talks or "stdin=1" in arguments else None, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, bufsize=1)

    def hears(self, word):
        assert select.select([self.process.stdout], [], [], PATIENCE)[0], word
        line = self.process.stdout.readline()
        assert line == word + "\n", (word, line)

    def __del__(self):
        """Of a test that has failed nothing goes on: the program outlives `mete run`."""
        if self.process.poll() is None:
            subprocess.run(["pkill", "-KILL", "-P", str(self.process.pid)])
            self.process.kill()

    def pid(self):
        """Of the program, once it is there; 0: it has ended."""
        def look():
            row = self.node.row(self.name)
            return row["processes"][0]["pid"] if row and row["processes"] else -1 if self.process.poll() is not None else 0
        return max(0, until(look))

    def kill(self):
        pid = self.pid()
        if pid:
            os.kill(pid, signal.SIGKILL)
        self.process.communicate(timeout=PATIENCE)

    def is_right(self):
        out, error = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == 0, (self.name, self.process.returncode, out, error)
        alone = [word for word in self.arguments if word != "stdin=1"]
        assert checksum(out) == self.node.alone(*alone), (self.name, out)
        return out


class Node(Daemon):
    """A simulated machine with a user's meted, which is started again as often as it is killed."""

    def __init__(self, *options, memory=DEVICE, store="2GiB", **settings):
        self.home = tempfile.mkdtemp(prefix="mete-swap-")
        for name in ("sim", "mete"):
            os.mkdir(f"{self.home}/{name}", 0o700)
        environment = dict(XDG_RUNTIME_DIR=self.home, METE_SIM_DIR=self.home + "/sim", METE_SIM_MEMORY=f"{memory}M", METE_SIM_CONTEXT_MEMORY="4M",
                           LD_LIBRARY_PATH=BUILD + "/sim/lib") | settings
        super().__init__("--log-level", os.environ.get("LEVEL", "info"), "--context", "4M", "--store", store, *options, place=self.home + "/mete", environment=environment)

    def start(self):
        super().start()
        self.admin = Admin(self.place)  # it stays while somebody is connected

    def ask(self):
        """The output of `mete ps --json`; None: nobody answers."""
        ran = subprocess.run([BUILD + "/cli/mete", "ps", "--json"], env=self.environment, capture_output=True, text=True)
        said = json.loads(ran.stdout) if ran.returncode == 0 else {}
        return said if said.get("meted") else None

    def tenants(self):
        return until(self.ask)["tenants"]

    def row(self, name):
        return next((t for t in self.tenants() if t["name"] == name), None)

    def mete(self, *words, check=True):
        return subprocess.run([BUILD + "/cli/mete", *words], env=self.environment, check=check, capture_output=True, text=True).returncode

    def said(self, *words):
        return subprocess.run([BUILD + "/cli/mete", *words], env=self.environment, check=True, capture_output=True, text=True).stdout

    def restart(self):
        """It is killed. `mete run` starts another one, which is killed as well if it was quicker than ours."""
        self.kill()
        while True:
            try:
                self.start()
                return
            except AssertionError:
                assert self.process.wait() != 0 and "another meted is running" in self.log(), self.log()
            try:
                os.kill(Admin(self.place).welcome.pid, signal.SIGKILL)
            except (OSError, Gone):
                pass  # it is gone already, or not there yet

    def is_clean(self):
        """All have ended: meted has no tenant, and its memory files have no page."""
        until(lambda: not self.tenants() and self.store_bytes() == 0, lambda: f"{self.store_bytes()} bytes are left in the store")

    def store_bytes(self):
        return store_bytes(self.process.pid)

    known = {}  # of all nodes: what a program computes depends on nothing but its arguments

    def alone(self, *program):
        """Its checksum. Ballast is not in that: the program checks it by itself."""
        program = tuple(word for word in program if not word.startswith("ballast="))
        if program not in self.known:
            with tempfile.TemporaryDirectory(prefix="mete-alone-") as other:
                ran = subprocess.run([f"{BUILD}/examples/{program[0]}", *program[1:]], capture_output=True, text=True,
                                     env=self.environment | {"METE_SIM_DIR": other})
            assert ran.returncode == 0, ran
            self.known[program] = checksum(ran.stdout)
        return self.known[program]

    def __exit__(self, kind, *_):
        super().__exit__(kind)
        self.admin.close()
        shutil.rmtree(self.home, ignore_errors=True)


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass  # it has just ended


def start(node, *programs):
    return [Program(node, f"{program[0]}{i}", program) for i, program in enumerate(programs)]


def all_right(node, programs):
    for program in programs:
        program.is_right()
    node.is_clean()


def held(node):
    """Of all tenants, on the device and out."""
    return sum(t["allocated_bytes"] for t in node.tenants())


def moved(node):
    return sum(t["moved_out_bytes"] for t in node.tenants())


def moving(node, least=1):
    """Until so many bytes have left. The programs go on."""
    until(lambda: moved(node) >= least or not node.tenants())


def test_two_that_hold_half_as_much_again():
    with Node() as node:
        all_right(node, start(node, TRAIN[:2] + ("ballast=140M",), TRAIN[:2] + ("ballast=140M",)))


def test_four_that_hold_twice_the_device():
    with Node() as node:
        all_right(node, start(node, TRAIN, TRAIN, TRAIN, TRAIN[:2] + ("ballast=88M",)))


def test_others_beside_training_that_fills_the_device():
    with Node() as node:
        all_right(node, start(node, TRAIN[:2] + ("ballast=150M",), TRAIN[:2] + ("ballast=150M",), NOTEBOOK, INFERENCE, GRAPH))


def test_programs_that_map_their_memory_themselves_share_the_device_as_well():
    with Node() as node:
        programs = start(node, TRAIN + ("segments=1",), TRAIN[:2] + ("ballast=88M", "segments=1"), TRAIN)
        moving(node, 64 << 20)
        node.restart()
        all_right(node, programs)


def test_memory_that_cannot_move_strands_nobody():
    """All end: what they ask for is refused, or comes."""
    with Node() as node:
        train, torture = start(node, TRAIN, ("torture",))
        until(lambda: held(node) >= 96 << 20 or train.process.poll() is not None)
        hoarders = [Program(node, name, ("hoarder",), "--swap", "off") for name in ("first", "second")]
        for program in train, torture, *hoarders:
            out, error = program.process.communicate(timeout=PATIENCE)
            assert program.process.returncode == 0 or "memory" in error.lower(), (program.name, program.process.returncode, out, error)
            if program is train and program.process.returncode == 0:
                assert checksum(out) == node.alone(*TRAIN), out
        node.is_clean()


TOUCHER = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
context, at, size = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_size_t(120 << 20)
for r in (cuda.cuInit(0), cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0), cuda.cuMemAlloc_v2(ctypes.byref(at), size),
          cuda.cuMemsetD8_v2(at, 7, size), cuda.cuCtxSynchronize()):
    assert r == 0, r
print("there", flush=True)
for line in sys.stdin:
    cuda.cuMemAdvise(at, size, 1, 0)
    print("touched", flush=True)
"""


class Toucher(Program):
    """Once it is there it submits nothing, but it touches its memory where it is told to."""

    def __init__(self, node, name):
        self.said = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([BUILD + "/cli/mete", "run", "--quiet", "--swap", "auto", "-n", name, "--", sys.executable, "-c", TOUCHER],
                                        env=node.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.said, text=True, bufsize=1)
        self.hears("there")

    def errors(self):
        return os.pread(self.said.fileno(), 1 << 16, 0).decode()

    def touch(self):
        self.process.stdin.write("\n")
        self.hears("touched")


def test_a_program_that_only_touches_its_memory_gets_it_back():
    with Node() as node:
        first, second = Toucher(node, "first"), Toucher(node, "second")
        for _ in range(3):
            for toucher, name in (first, "first"), (second, "second"):
                until(lambda: node.row(name)["swapped_out"])
                toucher.touch()
        for toucher in first, second:
            toucher.process.communicate(timeout=PATIENCE)
        node.is_clean()


def test_ps_tells_a_wait_for_memory_from_memory_that_is_not_wanted():
    def state(name):
        return next(line for line in node.said("ps").splitlines() if name in line)

    with Node() as node:
        first, second = Toucher(node, "first"), Toucher(node, "second")
        until(lambda: re.search(r"idle, [\d.]+ [GM]iB in the host's memory", state("first")), lambda: state("first"))
        # No process that is stopped leaves.
        pid = node.row("second")["processes"][0]["pid"]
        os.kill(pid, signal.SIGSTOP)
        first.process.stdin.write("\n")
        until(lambda: "waits for its memory" in state("first"), lambda: state("first"))
        # Nor does it ask for anything: it is told nonetheless for which tenant it waits, and so is its user.
        stuck = rf"tenant {node.row('second')['tenant']} \(second\)"
        until(lambda: re.search(rf"waits for its memory for \S+ m?s: {stuck} does not make room", state("first")), lambda: state("first"))
        assert node.row("first")["behind"] == node.row("second")["tenant"] and not node.row("second")["behind"]
        until(lambda: re.search(rf"this program waits for its memory.*: {stuck}, which has \S+ of the device, is stuck", first.errors()), first.errors)
        os.kill(pid, signal.SIGCONT)
        first.hears("touched")
        until(lambda: not node.row("first")["behind"])
        for toucher in first, second:
            toucher.process.communicate(timeout=PATIENCE)
        node.is_clean()


def test_a_guest_that_is_killed_in_the_middle_leaves_nothing_and_disturbs_nobody():
    with Node() as node:
        programs = start(node, LONG, TRAIN, TRAIN)
        moving(node, DEVICE << 19)
        programs[0].kill()
        all_right(node, programs[1:])


def test_a_guest_that_is_stopped_in_the_middle_goes_on_where_it_was():
    with Node() as node:
        # From then on nothing of it can leave, nor what it has freed and keeps: even so there is room for one of the others, and for what
        # cannot move of all four. (With 76 MiB of ballast there was not always, and an ask was refused.)
        programs = start(node, *[TRAIN[:2] + (BESIDE_ONE,)] * 4)
        moving(node, 32 << 20)
        until(lambda: (row := node.row(programs[0].name)) is None or row["out_bytes"] == 0 and row["allocated_bytes"] >= 64 << 20)
        pid = programs[0].pid()
        if pid:
            os.kill(pid, signal.SIGSTOP)
        for program in programs[1:]:
            program.is_right()
        if pid:
            os.kill(pid, signal.SIGCONT)
        all_right(node, programs[:1])


def test_a_suspended_program_frees_the_device_and_is_right_after_it_was_resumed():
    with Node() as node:
        away, = start(node, LONG + ("stdin=1",))
        away.hears("train: half way")
        assert node.row(away.name)["movable_bytes"] >= 96 << 20
        other = Program(node, "other", TRAIN)
        away.process.stdin.write("\n")  # it goes on, but does not end before we tell it to
        node.mete("suspend", away.name)
        until(lambda: node.row(away.name)["movable_bytes"] == 0 and node.row(away.name)["out_bytes"] >= 96 << 20)
        assert node.row(away.name)["suspended"]
        shown = next(line for line in node.said("ps").splitlines() if away.name in line)
        assert "suspended by `mete suspend`" in shown and re.search(r"[\d.]+ [GM]iB in the host's memory", shown), shown
        other.is_right()
        assert node.row(away.name)["out_bytes"] >= 96 << 20
        node.mete("resume", away.name)
        all_right(node, [away])


def test_a_program_made_movable_by_its_share_computes_again_when_it_is_resumed():
    steady = ("steady", "memory=64M", "kernel_us=500", "ahead=4", "seconds=36000", "report_ms=3600000", "stdin=1")
    with Node() as node:
        programs = [Program(node, "other", steady, "--memory", "90M", "--weight", "200"), Program(node, "away", steady, "--memory", "90M")]
        for program in programs:
            assert program.process.stdout.readline().startswith("at_ms=")
        for _ in range(4):
            node.mete("set", "away", "swap=auto")
            said = subprocess.run([BUILD + "/cli/mete", "suspend", "away"], env=node.environment, check=True, capture_output=True, text=True)
            assert "64MiB of it cannot move" in said.stderr, said
            until(lambda: node.row("away")["swapped_out"])
            node.mete("resume", "away")
            turns = node.row("away")["time"]["turns"]
            until(lambda: node.row("away")["time"]["turns"] > turns + 3, "it stands still")
        for program in programs:
            out, error = program.process.communicate(timeout=PATIENCE)
            assert program.process.returncode == 0, (out, error)


def test_a_program_that_swaps_no_longer_gets_back_memory_evicted_before_a_restart():
    for options in (), ("--weight", "200"):
        with Node("--grace", "2s") as node:
            away = Program(node, "away", LONG + ("stdin=1",), *options)
            away.hears("train: half way")
            other = Program(node, "other", LONG)
            node.mete("suspend", "away")
            until(lambda: node.row("away")["out_bytes"] >= 96 << 20)
            node.mete("set", "away", "swap=off")
            away.process.stdin.write("\n")
            node.restart()
            until(lambda: node.row("away")["joins"])
            node.mete("resume", "away")
            all_right(node, [away, other])


def test_a_program_that_swaps_no_longer_makes_room_with_memory_movable_before():
    with Node() as node:
        first = Program(node, "first", LONG + ("stdin=1",))
        first.hears("train: half way")
        node.mete("set", "first", "swap=off")
        # It has not moved yet.
        assert node.row("first")["moved_out_bytes"] == 0
        first.process.stdin.write("\n")
        Program(node, "second", TRAIN).is_right()
        assert node.row("first")["moved_out_bytes"] and not node.row("first")["stuck"]
        all_right(node, [first])


def test_a_meted_that_is_killed_in_the_middle_is_replaced_and_nobody_notices():
    with Node("--grace", "2s") as node:
        programs = start(node, TRAIN, TRAIN, TRAIN)
        for least in (1, 64 << 20, 1):
            moving(node, least)
            node.restart()
        all_right(node, programs)


def test_random_histories():
    seed = int(os.environ.get("METE_SEED", time.time_ns() % 1000000))
    print(f"METE_SEED={seed}")
    generator = random.Random(seed)
    for _ in range(SCALE):
        with Node("--grace", "2s") as node:
            programs = start(node, *generator.sample([TRAIN, TRAIN, TRAIN, LONG, NOTEBOOK, GRAPH, INFERENCE], 4))
            stopped, away = set(), set()
            for _ in range(8):
                one = generator.choice(programs)
                what = generator.choice(("kill", "stop", "suspend", "restart", "wait"))
                pid = one.pid()
                print(what, one.name, pid, flush=True)
                if what == "restart":
                    node.restart()
                elif what == "wait" or not pid:
                    for _ in range(generator.randrange(30)):
                        node.tenants()
                elif what == "stop":
                    send(pid, signal.SIGSTOP)
                    stopped.add(pid)
                elif what == "suspend" and node.mete("suspend", "--wait", "0s", one.name, check=False) == 0:
                    away.add(one.name)
                elif what == "kill" and len(programs) > 2:
                    one.kill()
                    programs.remove(one)
                    stopped.discard(pid)
                if generator.random() < 0.6 and stopped:
                    send(stopped.pop(), signal.SIGCONT)
                if generator.random() < 0.6 and away:
                    node.mete("resume", away.pop(), check=False)
            for pid in stopped:
                send(pid, signal.SIGCONT)
            for name in away:
                node.mete("resume", name, check=False)
            all_right(node, programs)


def test_a_program_without_a_limit_moves_and_one_with_a_limit_only_on_request():
    with Node() as node:
        shares = {"free": (), "limited": ("--memory", "64M"), "both": ("--memory", "64M", "--swap", "auto"), "neither": ("--swap", "off")}
        for name, options in shares.items():
            program = Program(node, name, ("train", "steps=1000000"), *options)
            until(lambda: node.row(name))
            assert ("swap=auto" in node.row(name)["share"]) == (name in ("free", "both")), node.row(name)
            program.kill()
        node.is_clean()


def is_told_why(node, bit, words, *options):
    """Programs run as they would without mete, and `mete ps` gives the reason why none of their memory can move."""
    program = Program(node, "first", ("train", "steps=1000000", "ballast=40M"), *options)
    until(lambda: (row := node.row("first")) and row["unmovable_why"] & bit and row["allocated_bytes"] > 40 * MIB)
    assert node.row("first")["movable_bytes"] == 0
    assert words in node.said("ps"), node.said("ps")
    Program(node, "second", ("train", "steps=30", "ballast=40M"), *options).is_right()
    program.kill()


def test_without_a_store_programs_run_as_ever_and_ps_tells_why_nothing_moves():
    with Node(store="0") as node:
        is_told_why(node, 1024, "cannot move: this meted has no store")


def test_a_store_without_room_is_named_to_a_program_that_asks_for_movable_memory():
    for store, words in ("256MiB", "too small for anything to move: it has 256MiB for each device, and needs more than 256MiB"), ("0", "--store 0"), ("512MiB", ""):
        with Node(store=store) as node:
            command = [BUILD + "/cli/mete", "run", "--memory", "64M", "--swap", "auto", "--", "true"]
            told = subprocess.run(command, env=node.environment, check=True, capture_output=True, text=True).stderr
            assert words in told and ("swap=auto" in told) == bool(words), (store, told)


def test_on_several_devices_programs_run_as_ever_and_ps_tells_why_nothing_moves():
    with Node(METE_SIM_DEVICES="2xSIM") as node:
        is_told_why(node, 256, "cannot move: the tenant has several devices", "--device", "0,1")


if __name__ == "__main__":
    run(globals())
