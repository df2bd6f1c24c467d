#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory that a program frees while the daemon has ordered something for it: the daemon hears that nobody can carry it out any more.

    test_guest_movable_freed.py SIMULATOR_BUILD GUEST_LINKS MOVABLE_LOAD [TEST...]
"""
from movable_machine import *


def test_credit_for_memory_that_was_freed_is_returned():
    with Machine() as machine, Load(machine) as load:
        fake, guest = machine.fake, load.guest
        load.take(4 * MIB, 4 * MIB, 4 * MIB)
        fake.close()
        assert fake.away(guest) == 12 * MIB
        assert load.ask("free", 0) == "0"
        fake.order(guest, enter=12 * MIB)
        fake.wait(lambda: guest.moved["returned"] == 4 * MIB and guest.moved["entered"] == 8 * MIB, lambda: f"{guest.moved} {guest.movable()}")
        fake.gate(True)
        load.check(1, 2)


def test_copies_that_the_program_frees_count_for_what_is_to_be_dropped():
    with Machine() as machine, Load(machine) as load:
        fake, guest = machine.fake, load.guest
        load.take(4 * MIB, 4 * MIB, 4 * MIB)
        assert fake.round(guest) == 12 * MIB and len(guest.segments) == 3
        fake.holds_returns = True
        fake.order(guest, drop=8 * MIB)
        fake.wait(lambda: fake.held)
        for i in range(3):
            assert load.ask("free", i) == "0"
        with fake.changed:
            fake.answer_returns()
        fake.wait(lambda: not guest.segments and guest.moved["dropped"] == 8 * MIB, lambda: f"{guest.moved} {guest.segments}")


def test_a_daemon_hears_that_parts_of_a_former_ones_store_are_gone():
    with Machine() as machine, Load(machine) as load:
        fake = machine.fake
        load.take(4 * MIB, 4 * MIB)
        fake.close()
        assert fake.away(load.guest) == 8 * MIB
        fake.kill()
        fake.start()
        fake.wait(lambda: any(g.stores for g in fake.guests), "it does not come back")
        guest = load.guest = fake.guests[0]
        assert guest.stated_out == 8 * MIB and load.ask("free", 0) == "0"
        fake.back(guest)
        fake.gate(True)
        load.check(1)
        assert load.ask("free", 1) == "0"  # it is back, and has a copy there
        fake.order(guest, drop=16 * MIB)
        fake.wait(lambda: guest.moved["dropped"] == 8 * MIB, lambda: f"{guest.moved} {guest.movable()}")


if __name__ == "__main__":
    run(globals())
