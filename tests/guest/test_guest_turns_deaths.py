#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real programs take turns on the simulated driver while a neighbour of theirs is killed again and again, and meted is
as well: nobody fails, nobody's turn is lost for good, and in the end shares are what they were.

    test_guest_turns_deaths.py METED SIMULATOR GUEST_LINKS STEADY

METE_TEST_SCALE=10 kills 1,000 times; METE_SEED repeats the choices (not the instants).
"""
import random

from sim_node import *

SEED = int(os.environ.get("METE_SEED", time.time_ns() % 1000000))
KILLS, RESTARTS = 100 * SCALE, 10 * SCALE
WEIGHTS = {"light": 100, "heavy": 300}


class Program:
    """examples/steady, until its input ends; `kernels`: those that it says are done."""

    def __init__(self, node, tenant, *settings):
        self.process = subprocess.Popen([LOAD, "kernel_us=500", "ahead=4", "seconds=36000", "stdin=1", "report_ms=5", *settings],
                                        env=node.guest_environment(tenant), text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.kernels = 0
        os.set_blocking(self.process.stdout.fileno(), False)

    def look(self):
        """How many it has done; what it says is read, or it would wait for us."""
        assert self.process.poll() is None, self.process.stderr.read()
        for line in iter(self.process.stdout.readline, ""):
            if line.startswith("at_ms=") and line.endswith("\n"):
                self.kernels = int(line.split("kernels=")[1])
        return self.kernels

    def kill(self):
        self.process.kill()
        self.process.communicate()

    def end(self):
        os.set_blocking(self.process.stdout.fileno(), True)
        out, err = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == 0, (out[-300:], err)


def all_go_on(programs):
    """Each of them does something more."""
    before = [program.look() for program in programs]
    until(lambda: all(program.look() > count for program, count in zip(programs, before)), "a program stands still")


def part_of_the_heavy(node, programs, tenants):
    """Its part of what both are charged, within a time in which both have several turns."""
    def rows():
        for program in programs:
            program.look()
        return [node.admin.tenant_row(tenant.tenant) for tenant in tenants]

    before = after = rows()
    while any(late.turns - early.turns < 25 for early, late in zip(before, after)):
        after = rows()
    light, heavy = (late.charged - early.charged for early, late in zip(before, after))
    return heavy / (light + heavy)


def test_nobody_loses_its_turns_to_deaths_of_others_or_of_meted():
    print(f"METE_SEED={SEED}")
    generator = random.Random(SEED)
    with Node("1GiB", METE_SIM_MEMORY="8GiB") as node:
        tenants = [node.admin.tenant(name=name, weight=str(weight)) for name, weight in WEIGHTS.items()]
        stays = [Program(node, tenant) for tenant in tenants]
        victim = Program(node, node.tenant)
        restart_at = set(generator.sample(range(KILLS), RESTARTS))
        all_go_on(stays)
        for kill in range(KILLS):
            # While it joins, or in one of its turns.
            target = generator.choice((0, victim.look() + generator.randrange(30)))
            until(lambda: victim.look() >= target)
            victim.kill()
            if kill in restart_at:
                node.meted.kill()
                node.meted.start()
                node.admin = Admin(node.meted.place)
                for tenant in (node.tenant, *tenants):
                    node.admin.ask("tenant_keep", tenant=tenant.tenant)
            victim = Program(node, node.tenant)
            if kill % 10 == 0:
                all_go_on(stays)
        victim.kill()
        all_go_on(stays)
        # The machine decides how busy the programs are: what is told apart here is 3:1 from 1:1, and from standing still.
        part = part_of_the_heavy(node, stays, tenants)
        assert 0.65 < part < 0.85, part
        # A machine that stands still for a second may look like a program that does; a lost turn hangs again and again.
        hangs = [line for line in node.meted.log().splitlines() if "tenant.hangs" in line]
        assert len(hangs) <= RESTARTS // 20, hangs
        for program in stays:
            program.end()


if __name__ == "__main__":
    run(globals())
