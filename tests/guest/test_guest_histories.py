#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random histories of real programs under a real meted, on the simulated device: set, suspend, resume, join, leave, kill, cordon, parking
of class batch, and meted killed, of tenants whose memory moves, does not, or only since their share was set, and of programs whose work waits for
their own threads. After any history, each program that is left computes again, and its memory is what it made of it.

As test_swap.py, whose node this is; argv[3]: the build's folder. METE_HISTORIES (3) histories, METE_TEST_SCALE times as many. Each has a
seed of its own, counted from METE_SEED, and a history that fails says the line that repeats it. Nothing is timed: each wait is for an
answer of a program or of meted, and ends after PATIENCE where none comes.
"""
import os
import sys
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
from test_swap import *  # noqa: E402

HISTORIES = int(os.environ.get("METE_HISTORIES", "3"))
EVENTS = 10
PROGRAMS_MOST = 5
TRAPS = ("host_function", "wait_value", "flag", "lock", "callback", "event", "mailbox")
CHANGES = ("weight=50", "weight=200", "weight=400", "cap=30%", "cap=100%", "class=interactive", "class=batch", "class=standard",
           "guarantee=10%", "guarantee=0%", "mode=equal", "mode=best-effort", "swap=auto", "swap=off", "swap=auto", "memory=120M", "memory=100%",
           "park=1s", "park=0s")


def line(program, what):
    """The next line that it prints."""
    assert select.select([program.process.stdout], [], [], PATIENCE)[0], f"{program.name} {what}"
    return program.process.stdout.readline().strip()


def leave(program, words):
    """It says that all was right, and ends. (`mete run` would go on for seconds: it waits for a meted that is not its own.)"""
    program.process.stdin.close()
    said = line(program, "does not end")
    if not said.startswith(words):
        program.process.kill()
        raise AssertionError((program.name, said, program.process.stderr.read()))
    program.process.kill()
    program.process.wait()


class Load(Program):
    """history_load: it checks itself whenever it is asked to."""
    talks = True

    def __init__(self, node, name, bytes, us, *options):
        super().__init__(node, name, (HISTORY_LOAD, f"bytes={bytes}M", f"kernel_us={us}"), *options)
        self.away = False

    def starts(self):
        """Whether it has got its memory: the device may be full of what cannot move."""
        said = line(self, "does not start")
        if said == "there":
            return True
        _, error = self.process.communicate(timeout=PATIENCE)
        assert "OUT_OF_MEMORY" in error, (self.name, said, error)
        return False

    def tell(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def checks(self):
        self.tell("check")

    def is_right(self):
        said = line(self, "stands still")
        assert said == "right", (self.name, said, self.process.communicate(timeout=PATIENCE))

    def ends(self):
        leave(self, "history_load ok")


class Coupled(Program):
    """turns_traps: its work waits for its own threads."""
    talks = True

    def __init__(self, node, name, trap, *options):
        super().__init__(node, name, (TURNS_TRAPS, trap, "0"), *options)
        self.away = False

    def starts(self):
        """As a load; its memory is a context's."""
        said = line(self, "does not start")
        if said == "started":
            return True
        _, error = self.process.communicate(timeout=PATIENCE)
        assert "mete: no room for a context: " in error, (self.name, said, error)
        return False

    def checks(self):
        pass

    def is_right(self):
        pass

    def ends(self):
        leave(self, "rounds=")


class History:
    def __init__(self, node, seed):
        self.node, self.random = node, random.Random(seed)
        self.programs, self.made, self.cordoned = [], 0, False

    def note(self, *words):
        print(*words, flush=True)

    def share(self):
        options = ["--weight", self.random.choice(("50", "100", "300"))] if self.random.random() < 0.6 else []
        return options + (["--cap", self.random.choice(("20%", "60%"))] if self.random.random() < 0.2 else [])

    def make(self):
        kind = self.random.choice(("movable", "movable", "limited", "fixed", "coupled"))
        name, share, us = f"{kind}{self.made}", self.share(), self.random.choice((500, 2000, 5000))
        self.made += 1
        if kind == "coupled":
            return Coupled(self.node, name, self.random.choice(TRAPS), *share)
        if kind == "movable":
            return Load(self.node, name, self.random.randrange(20, 110), us, *share)
        bytes = self.random.randrange(8, 40)
        memory = ("--memory", f"{bytes + 20}M") if kind == "limited" else ("--swap", "off")
        return Load(self.node, name, bytes, us, *memory, *share)

    def join(self, one=None):
        if len(self.programs) >= PROGRAMS_MOST or self.cordoned:
            return
        program = self.make()
        self.note("join", program.name, *program.arguments[1:])
        if program.starts():
            self.programs.append(program)
        else:
            self.note("no room for", program.name)

    def leave(self, one):
        if len(self.programs) < 3:
            return
        self.resume(one)
        self.comes_back(one)
        one.ends()
        self.programs.remove(one)

    def kill(self, one):
        if len(self.programs) < 3:
            return
        os.kill(one.pid(), signal.SIGKILL)
        one.process.kill()
        one.process.wait()
        self.programs.remove(one)

    def set(self, one, change=None):
        change = change or self.random.choice(CHANGES)
        self.note("set", one.name, change, self.node.mete("set", one.name, change, check=False))

    def suspend(self, one):
        ran = subprocess.run([BUILD + "/cli/mete", "suspend", "--wait", "0s", one.name], env=self.node.environment, capture_output=True, text=True)
        self.note("suspend", one.name, ran.returncode, ran.stderr.strip())
        one.away = one.away or ran.returncode == 0

    def resume(self, one):
        if one.away:
            self.note("resume", one.name)
            self.node.mete("resume", one.name)
        one.away = False

    def comes_back(self, one):
        """A higher class that computes without a pause may keep class batch away for as long as it does."""
        if self.node.row(one.name)["fields"]["class"] == "batch":
            self.set(one, "class=standard")

    def restart(self, _):
        self.node.restart()

    def cordon(self, _):
        self.cordoned = not self.cordoned
        self.node.mete("cordon" if self.cordoned else "uncordon", "0")

    def check(self, one):
        if not one.away:
            self.comes_back(one)
            one.checks()
            one.is_right()

    def gates(self):
        """A gate is open if and only if there is no reason that it is not."""
        for tenant in self.node.tenants():
            assert (tenant["gate"] == "open") == (not tenant["gate_reasons"]), tenant

    def event(self):
        one = self.random.choice(self.programs)
        what = self.random.choice((self.set, self.set, self.set, self.suspend, self.suspend, self.resume, self.resume, self.join, self.leave,
                                   self.kill, self.restart, self.check, self.check, self.cordon))
        self.note(what.__name__, one.name)
        what(one)
        self.gates()

    def run(self):
        while len(self.programs) < 3:
            self.join()
        for _ in range(EVENTS):
            self.event()
        for one in self.programs:
            self.resume(one)
            self.comes_back(one)
        # All at the same time, and twice: each gets on beside the others.
        for _ in range(2):
            for one in self.programs:
                one.checks()
            for one in self.programs:
                one.is_right()
        self.gates()
        for one in self.programs:
            one.ends()
        self.node.is_clean()


def test_every_program_that_is_left_computes_again_and_is_right():
    first = int(os.environ.get("METE_SEED", time.time_ns() % 1000000000))
    print(f"METE_SEED={first}")
    for seed in range(first, first + HISTORIES * SCALE):
        print(f"history {seed}", flush=True)
        try:
            with Node("--grace", "2s", "--park-after", "200ms", "--park-delay", "20ms") as node:
                History(node, seed).run()
        except Exception:
            traceback.print_exc()
            raise AssertionError(f"METE_SEED={seed} METE_HISTORIES=1 meson test -C build/plain guest_histories") from None


if __name__ == "__main__":
    HISTORY_LOAD, TURNS_TRAPS = os.path.abspath(sys.argv.pop(3)), os.path.abspath(sys.argv.pop(3))
    run({name: test for name, test in globals().items() if getattr(test, "__module__", None) == "__main__"})
