#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a guest says to a daemon that recalls its credit, refuses, ends, or comes back, of memory that moves.

    test_guest_movable_daemons.py SIMULATOR_BUILD GUEST_LINKS MOVABLE_LOAD [TEST...]
"""
import os
import random

from movable_machine import *


def test_memory_that_is_made_after_a_recall_was_answered_is_told_of():
    """The daemon has seen it granted and not movable, and checks again when it hears something."""
    with Machine() as machine, Load(machine) as load:
        load.take(8 * MIB)
        assert load.guest.words == 0
        machine.fake.recalls = True
        assert load.ask("alloc", 1, 8 * MIB) == "0"
        machine.fake.wait(lambda: load.guest.words > 0, "nothing is said")
        assert load.moves("resident") == 16 * MIB


def test_freed_memory_that_a_thread_unmaps_is_returned_to_a_daemon_that_recalls_it_meanwhile():
    """The daemon takes what it gets for all that there is, and refuses others the rest."""
    with Machine(unmap_cost="200ms") as machine, Load(machine) as load:
        assert load.ask("alloc", 0, 8 * MIB) == "0" and load.ask("free", 0) == "0"
        load.tell("alloc", 1, 4 * MIB)
        until(load.guest.changing)
        load.guest.say("credit_recall", device=0, bytes=2 * MIB)
        machine.fake.wait(lambda: load.guest.returned, "the recall is not answered")
        assert load.guest.returned == [2 * MIB], load.guest.returned
        assert load.hear() == "0"


def unmaps(load):
    """Its first thread waits in the driver, in the middle of a change: by futex() or clock_nanosleep()."""
    return load.guest.changing() and open(f"/proc/{load.process.pid}/syscall").read().split()[0] in ("202", "230")


def test_freed_memory_whose_unmapping_a_program_has_left_is_credit_at_its_next_call():
    """It jumps out of the driver from a signal handler. The daemon's recall waits for that memory no more."""
    with Machine(unmap_cost="1s") as machine, Load(machine) as load:
        assert load.ask("alloc", 0, 8 * MIB) == "0" and load.ask("free", 0) == "0"
        load.tell("interrupted", 0, 4 * MIB)
        until(lambda: unmaps(load))
        load.process.send_signal(signal.SIGALRM)
        assert load.hear() == "jumped"
        assert load.ask("alloc", 1, 4 * MIB) == "0"
        assert load.guest.credit() == 4 * MIB and load.guest.granted == 8 * MIB, (load.guest.credit(), load.guest.granted)
        load.guest.say("credit_recall", device=0, bytes=8 * MIB)
        machine.fake.wait(lambda: load.guest.returned, "the recall is not answered")
        assert load.guest.returned == [4 * MIB], load.guest.returned


def test_freed_memory_is_returned_to_a_daemon_that_recalls_it_before_it_has_answered_the_inventory():
    with Machine() as machine, Load(machine) as load:
        assert load.ask("alloc", 0, 8 * MIB) == "0" and load.ask("free", 0) == "0"
        machine.fake.kill()
        machine.fake.recalls_early, machine.fake.mute = 8 * MIB, True
        machine.fake.start()
        machine.fake.wait(lambda: any(guest.stated for guest in machine.fake.guests))
        load.guest = machine.fake.guests[-1]
        until(lambda: load.guest.credit() == 8 * MIB)
        load.guest.say("done", load.guest.end)
        machine.fake.wait(lambda: load.guest.returned, "the recall is not answered")
        assert load.guest.returned == [8 * MIB], load.guest.returned


def test_what_a_former_daemon_recalled_is_no_answer_to_the_next_ones_recall():
    """That takes what it gets for all that there is. The first recall's memory is being unmapped when the next one comes."""
    with Machine(unmap_cost="1s") as machine, Load(machine) as load:
        assert load.ask("alloc", 0, 8 * MIB) == load.ask("alloc", 1, 8 * MIB) == "0"
        assert load.ask("free", 0) == load.ask("free", 1) == "0"
        load.guest.say("credit_recall", device=0, bytes=2 * MIB)
        until(load.guest.changing)
        machine.fake.kill()
        machine.fake.recalls_early = 16 * MIB
        machine.fake.start()
        machine.fake.wait(lambda: any(guest.returned for guest in machine.fake.guests), "the recall is not answered")
        assert machine.fake.guests[-1].returned == [16 * MIB], machine.fake.guests[-1].returned


def test_a_daemon_that_dies_in_the_middle_hears_from_all_guests_where_memory_is():
    with Machine(METE_SIM_LINK_RATE="2M") as machine, Load(machine) as load:
        fake = machine.fake
        load.take(10 * MIB, 1000, 4 * MIB)
        everything = load.guest.movable()["resident"]
        choices = random.Random(int(os.environ.get("METE_SEED", "1")))
        for _ in range(5 * SCALE):
            fake.close()
            fake.order(load.guest, leave=choices.randrange(1, everything))
            time.sleep(choices.random() * 0.02)
            fake.kill()
            # Memory in the store waits, also for a daemon that knows nothing yet.
            load.tell("check", 0, 1)
            fake.start()
            fake.wait(lambda: any(g.stated for g in fake.guests), "it does not come back")
            guest = load.guest = fake.guests[0]
            fake.close()
            assert guest.stated_movable + guest.stated_out == everything, (guest.stated_movable, guest.stated_out)
            assert guest.movable()["out"] == guest.stated_out and guest.allocated() == guest.stated_movable
            fake.wait(lambda: guest.stores, "it asks for no store")
            fake.back(guest)
            fake.stop(guest)
            fake.gate(True)
            assert load.hear() == "same"
            load.check(0, 1, 2)
            fake.round(guest)
            load.check(0, 1, 2)


def test_a_part_of_the_store_whose_answer_was_not_read_goes_back_on_the_next_connection():
    with Machine() as machine, Load(machine) as load:
        fake = machine.fake
        load.take(8 * MIB)
        fake.close()
        fake.order(load.guest, leave=4 * MIB)
        fake.wait(lambda: load.guest.moved["left"] == 4 * MIB)
        kept = dict(load.guest.segments)
        fake.cuts, cut = True, load.guest
        fake.order(load.guest, leave=4 * MIB)
        fake.wait(lambda: cut not in fake.guests and fake.guests and fake.guests[0].stores, "it does not come back")
        load.guest = fake.guests[0]
        assert load.guest.stated_out == 4 * MIB, load.guest.stated_out
        fake.wait(lambda: load.guest.segments == kept, lambda: f"{load.guest.segments}, and it holds {kept}")
        fake.back(load.guest)
        fake.gate(True)
        load.check(0)
        fake.round(load.guest)
        load.check(0)


def test_a_part_of_the_store_that_comes_when_nobody_waits_for_it_goes_back():
    """Its asker has given up."""
    with Machine() as machine, Load(machine) as load:
        fake = machine.fake
        load.take(8 * MIB)
        fake.close()
        fake.twice = True
        assert fake.away(load.guest) == 8 * MIB
        fake.wait(lambda: len(load.guest.segments) == 2, lambda: f"{load.guest.segments}")
        fake.back(load.guest)
        fake.gate(True)
        load.check(0)


def test_a_daemon_that_refuses_its_store_is_asked_again_when_it_orders_something():
    """The share had swap=off when the guest came back, and has swap=auto since."""
    with Machine() as machine, Load(machine) as load:
        fake = machine.fake
        load.take(8 * MIB)
        fake.kill()
        fake.swap = False
        fake.start()
        fake.wait(lambda: any(g.store_asks for g in fake.guests), "it does not ask")
        fake.swap, load.guest = True, fake.guests[0]
        fake.close()
        assert fake.away(load.guest) == 8 * MIB
        fake.back(load.guest)
        fake.gate(True)
        load.check(0)


def test_what_a_daemon_orders_before_it_has_answered_the_inventory_is_done():
    with Machine() as machine, Load(machine) as load:
        fake = machine.fake
        load.take(8 * MIB)
        fake.close()
        assert fake.away(load.guest) == 8 * MIB
        fake.kill()
        fake.hasty = True
        fake.start()
        fake.wait(lambda: any(g.stated for g in fake.guests), "it does not come back")
        guest = load.guest = fake.guests[0]
        fake.wait(lambda: guest.moved["entered"] == 8 * MIB, lambda: f"it does not come: {guest.moved} {guest.movable()}")
        fake.gate(True)
        load.check(0)


def test_a_daemon_does_not_free_memory_before_guests_have_stated_it():
    """A context is in no figure of the program's own: its page, which is new, has that figure only later."""
    with Machine() as machine:
        fake, load = machine.fake, Load(machine)
        fake.show(300 * MIB)
        free = int(load.ask("info"))
        assert free < 1 << 30, "none of it is used"
        fake.kill()
        fake.mute = True
        fake.start()
        fake.show(0)
        fake.wait(lambda: any(g.stated for g in fake.guests), "it does not come back")
        assert int(load.ask("info")) == free
        load.process.kill()
        load.process.wait()


def forgotten(machine):
    """Memory of a program is in the host's memory, and the next daemon does not know of it."""
    fake, load = machine.fake, Load(machine)
    load.take(10 * MIB)
    fake.close()
    assert fake.away(load.guest)
    fake.kill()
    fake.forgets = True
    return fake, load


def test_a_daemon_that_does_not_know_of_evicted_memory_opens_no_gate():
    """It has lost its journal, which its counts show. Its page may be open from the beginning, or only later."""
    for early in True, False:
        with Machine() as machine:
            fake, load = forgotten(machine)
            fake.start()
            fake.wait(lambda: any(g.stated for g in fake.guests), "it does not come back")
            if not early:
                fake.close()
                fake.gate(True)
                fake.close()
                fake.gate(True)
            load.tell("check", 0, 1)
            _, error = load.process.communicate(timeout=PATIENCE)
            assert "802" in error and "meted does not know that memory of this program is in the host's memory" in error, error


def test_a_daemon_that_does_not_know_of_evicted_memory_still_hears_of_drains():
    """It has closed the gate before the guest was back, or does so before it has answered the inventory."""
    for when in "on_hello", "on_inventory_end":
        with Machine() as machine:
            fake, load = forgotten(machine)
            answer = getattr(fake, when)

            def closing(guest, message, answer=answer):
                fake.gate(False)
                answer(guest, message)

            setattr(fake, when, closing)
            fake.start()
            fake.wait(lambda: any(g.drained == fake.epoch for g in fake.guests), f"it does not drain: {when}")
            load.process.kill()
            load.process.wait()


run(globals())
