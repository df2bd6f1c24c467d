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
    """examples/steady, until its input ends; `kernels`: those that it reports as done."""

    def __init__(self, node, tenant, *settings):
        self.process = subprocess.Popen([LOAD, "kernel_us=500", "ahead=4", "seconds=36000", "stdin=1", "report_ms=5", *settings],
                                        env=node.guest_environment(tenant), text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.kernels = 0
        os.set_blocking(self.process.stdout.fileno(), False)

    def look(self):
        """How many it has done; its output is read, or it would wait for us."""
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


def rows(node, programs, tenants):
    for program in programs:
        program.look()
    return [node.admin.tenant_row(tenant.tenant) for tenant in tenants]


def all_go_on(node, programs, tenants):
    """Each of them does something more, and has another turn."""
    before = [program.look() for program in programs]
    turns = [row.turns for row in rows(node, programs, tenants)]
    until(lambda: all(program.look() > count for program, count in zip(programs, before)), "a program stands still")
    until(lambda: all(row.turns > count for row, count in zip(rows(node, programs, tenants), turns)), "a tenant has no turns any more")


def parts_of_the_heavy(node, programs, tenants):
    """Of what both were charged, and of what both were entitled to, within a time in which both have several turns."""
    before = after = rows(node, programs, tenants)
    while any(late.turns - early.turns < 25 for early, late in zip(before, after)):
        after = rows(node, programs, tenants)

    def part(kind):
        light, heavy = (getattr(late, kind) - getattr(early, kind) for early, late in zip(before, after))
        return heavy / (light + heavy)

    return part("charged"), part("entitled")


def shares_are_right(node, programs, tenants):
    """By meted's book: the machine decides how often a program wants the device, and each is entitled to something only then.
    Shares that are lost are so in every such time, and one in which a busy machine kept meted itself from its work ends."""
    charged, entitled = parts_of_the_heavy(node, programs, tenants)
    print(f"the heavy one was charged {charged:.3f} of all, and entitled to {entitled:.3f}")
    return abs(charged - entitled) < 0.1


def test_nobody_loses_its_turns_to_deaths_of_others_or_of_meted():
    print(f"METE_SEED={SEED}")
    generator = random.Random(SEED)
    with Node("1GiB", METE_SIM_MEMORY="8GiB") as node, open(node.meted.log_path) as log:
        tenants = [node.admin.tenant(name=name, weight=str(weight)) for name, weight in WEIGHTS.items()]
        stays = [Program(node, tenant) for tenant in tenants]
        victim = Program(node, node.tenant)
        restart_at = set(generator.sample(range(KILLS), RESTARTS))
        hangs = 0
        all_go_on(node, stays, tenants)
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
            # A program that a busy machine keeps from draining for a second has turns again when it has drained; one whose
            # close or turn is lost never has, until meted is started again.
            hung, hangs = hangs, log.read().count("tenant.hangs") + hangs
            if kill % 10 == 0 or hangs > hung:
                all_go_on(node, stays, tenants)
        victim.kill()
        all_go_on(node, stays, tenants)
        print(f"{hangs} hangs")
        until(lambda: shares_are_right(node, stays, tenants), "shares are not what they were")
        assert ["weight=%d" % weight in row.share for weight, row in zip(WEIGHTS.values(), rows(node, stays, tenants))] == [True, True]
        for program in stays:
            program.end()


if __name__ == "__main__":
    run(globals())
