#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real programs on the simulated driver whose memory leaves and comes back under them, as a daemon of the test's orders.

    test_guest_movable.py SIMULATOR_BUILD GUEST_LINKS MOVABLE_LOAD EXAMPLES [TEST...]

The law: what a program computes, and what it is told, is what it is alone.
"""
import random
import os
import sys

EXAMPLES = sys.argv.pop(4)
from movable_machine import *

MOST_ROUNDS = int(os.environ.get("METE_MOVEMENTS", "12")) * SCALE  # in which all of a program's memory leaves and comes back
SHARED, PROCESS, FAILED = 1, 32, 64


def checksum(line):
    return line.split("checksum=")[1].split()[0]


def same_while_moved(*program, least=1):
    if EXAMPLES == "-":
        return  # a build of the guest alone
    with Machine() as machine:
        alone, fake = machine.alone(*program), machine.fake
        process, rounds, most = machine.start(*program), 0, 0
        fake.wait(lambda: any(g.stated for g in fake.guests))
        while fake.guests:
            if rounds == MOST_ROUNDS:
                fake.wait(lambda: not fake.guests)
                break
            guest = fake.guests[0]
            if not guest.movable()["resident"]:
                time.sleep(0.001)
                continue
            most = max(most, fake.round(guest))
            rounds += most > 0
        out, error = process.communicate()
        assert process.returncode == 0, (out, error)
        assert checksum(out) == checksum(alone), (out, alone)
        assert rounds >= least, "nothing moved"
        # It may be told that it waits: how soon depends on the machine.
        error = re.sub(r"^mete: this program waits for .*\n", "", error, flags=re.M)
        assert not error, error


def test_training_computes_the_same_as_alone():
    same_while_moved(EXAMPLES + "/train", "steps=60")


def test_inference_computes_the_same_as_alone():
    same_while_moved(EXAMPLES + "/inference", "requests=10")


def test_graphs_compute_the_same_as_alone():
    same_while_moved(EXAMPLES + "/graph-loop", "launches=40")


def test_a_notebook_computes_the_same_as_alone():
    same_while_moved(EXAMPLES + "/notebook", "cells=3")


def test_torture_computes_the_same_as_alone():
    same_while_moved(EXAMPLES + "/torture", "operations=15", "largest=4M", "threads=3")


def test_written_memory_is_the_same_after_it_came_back():
    with Machine() as machine, Load(machine) as load:
        sizes = [1, 511, 4096, 100000, MIB, MIB + 1, 3 * MIB, 8 * MIB + 5]
        load.take(*sizes)
        assert load.ask("pitch", 20, 1000, 77) == "0"
        load.ask("fill", 20, 21)
        assert load.guest.allocated() == load.moves("resident") > sum(sizes)
        for _ in range(3):
            out = machine.fake.round(load.guest)
            assert out == load.guest.allocated() == load.moves("resident") and load.moves("out") == 0
            load.check(*range(len(sizes)), 20)
        load.ask("fill", 6, 99)
        machine.fake.round(load.guest)
        assert load.ask("check", 6, 99) == "same"
        for i in [*range(len(sizes)), 20]:
            assert load.ask("free", i) == "0"
        assert load.guest.allocated() == 0 and load.moves("resident") == 0
        machine.fake.wait(lambda: not load.guest.segments, "segments are kept")
        assert load.ask("free", 3) != "0"


def test_questions_about_an_address_are_answered_alike_while_it_is_evicted():
    with Machine() as machine, Load(machine) as load:
        load.take(1000, 5 * MIB + 3, 300)
        before = [load.ask("look", i, offset) for i, offset in ((0, 0), (0, 999), (1, 0), (1, 4 * MIB), (2, 7))]
        assert before[0].startswith("base=1 bytes=1000 context=1 type=2 start=1 size=1000"), before
        assert "mapped=1 managed=0 ipc=1 access=3 ordinal=0 seen=1000 host=0" in before[0], before
        assert len({line.split("id=")[1].split()[0] for line in before}) == 3, before
        machine.fake.close()
        assert machine.fake.away(load.guest) == load.moves("out") > 0
        assert [load.ask("look", i, offset) for i, offset in ((0, 0), (0, 999), (1, 0), (1, 4 * MIB), (2, 7))] == before
        machine.fake.back(load.guest)
        machine.fake.gate(True)
        load.check(0, 1, 2)


def test_memory_freed_while_it_is_evicted_leaves_nothing_behind():
    for verb in "free", "free-async":
        with Machine() as machine, Load(machine) as load:
            load.take(1000, 10 * MIB, 4 * MIB)
            machine.fake.close()
            machine.fake.away(load.guest)
            assert load.ask(verb, 1) == "0"
            assert load.moves("out") == 6 * MIB, load.guest.movable()
            machine.fake.wait(lambda: sum(load.guest.segments.values()) == 6 * MIB, "its segments are kept")
            machine.fake.back(load.guest)
            machine.fake.gate(True)
            load.check(0, 2)


def test_a_context_that_ends_takes_its_memory_along_wherever_it_is():
    for out in False, True:
        with Machine() as machine, Load(machine) as load:
            load.take(1000, 10 * MIB, 4 * MIB)
            machine.fake.round(load.guest)
            if out:
                machine.fake.close()
                machine.fake.away(load.guest)
            load.tell("context")
            load.hear()
            assert load.guest.allocated() == 0 and load.guest.movable()["out"] == 0, load.guest.movable()
            machine.fake.wait(lambda: not load.guest.segments, "segments are kept")
            machine.fake.gate(True)
            load.take(5000, 7 * MIB)
            machine.fake.round(load.guest)
            load.check(0, 1)


def test_a_thread_that_touches_memory_without_a_turn_waits_until_it_is_back():
    with Machine() as machine, Load(machine) as load:
        load.take(1000, 3 * MIB)
        machine.fake.close()
        load.ask("touch", 1)
        machine.fake.away(load.guest)
        load.tell("touch", 1)
        os.set_blocking(load.process.stdout.fileno(), False)
        time.sleep(0.05)
        assert not load.process.stdout.read(1), "it did not wait"
        os.set_blocking(load.process.stdout.fileno(), True)
        machine.fake.back(load.guest)
        load.hear()
        machine.fake.gate(True)
        load.check(0, 1)


def test_a_copy_that_was_not_written_to_is_not_made_again():
    # So slow a link that hashing is worth while, whatever else the machine does.
    with Machine(METE_SIM_LINK_RATE="20k") as machine, Load(machine) as load:
        load.take(6 * MIB, 1000)
        machine.fake.round(load.guest)

        def saved():
            machine.fake.round(load.guest)
            return load.moves("saved")

        until(saved, "nothing is saved")
        machine.fake.round(load.guest)
        before, copied = load.moves("saved"), load.guest.total["copied"]
        machine.fake.round(load.guest)
        assert load.guest.total["copied"] == copied and load.moves("saved") == before + 8 * MIB
        load.ask("fill", 1, 77)
        machine.fake.round(load.guest)
        assert load.guest.total["copied"] == copied + 2 * MIB
        assert load.ask("check", 1, 77) == "same"
        load.check(0)


def test_memory_that_left_before_hashes_were_worth_it_is_not_copied_again_either():
    with Machine(METE_SIM_LINK_RATE="20k") as machine, Load(machine) as load:
        load.take(6 * MIB, 1000)
        machine.fake.round(load.guest)
        copied = load.guest.total["copied"]
        assert copied == 8 * MIB, copied
        machine.fake.round(load.guest)
        assert load.guest.total["copied"] == copied and load.moves("saved") == 8 * MIB, (load.guest.total, load.moves("saved"))
        load.check(0, 1)


def test_memory_that_the_driver_pages_is_not_refused_for_room_that_is_promised_to_others():
    """The daemon's page shows room, and the daemon refuses all that is asked."""
    with Machine() as machine:
        machine.fake.pages_what_does_not_fit()
        with Load(machine) as load:
            machine.fake.limit = 0
            assert load.ask("alloc", 0, 8 * MIB) == "0"
            load.ask("fill", 0, 1)
            load.check(0, 1)
            assert load.guest.allocated() == 0, load.guest.allocated()


def test_segments_are_had_before_there_is_pressure_and_given_back_when_they_are_wanted():
    with Machine() as machine, Load(machine) as load:
        load.take(8 * MIB, 1000)
        machine.fake.order(load.guest, prepare=5 * MIB)
        machine.fake.wait(lambda: sum(load.guest.segments.values()) >= 5 * MIB, "none are asked for")
        machine.fake.order(load.guest, drop=4 * MIB)
        load.guest.order["prepare"] = 0
        machine.fake.order(load.guest)
        machine.fake.wait(lambda: load.guest.moved["dropped"] >= 4 * MIB, "none are given back")
        machine.fake.round(load.guest)
        load.check(0, 1)


def test_a_store_that_is_full_keeps_memory_where_it_is():
    with Machine() as machine, Load(machine) as load:
        load.take(8 * MIB)
        machine.fake.refuse_segments = True
        machine.fake.close()
        machine.fake.order(load.guest, leave=8 * MIB)
        stopped = machine.fake.stop(load.guest)
        assert stopped["left"] == 0, stopped
        machine.fake.gate(True)
        load.check(0)
        machine.fake.refuse_segments = False
        machine.fake.round(load.guest)
        load.check(0)


def test_an_order_that_is_ended_in_the_middle_leaves_every_block_somewhere():
    choices = random.Random(int(os.environ.get("METE_SEED", "1")))
    with Machine(METE_SIM_LINK_RATE="2M") as machine, Load(machine) as load:
        fake, guest = machine.fake, load.guest
        load.take(8 * MIB, 1000, 5 * MIB, 4 * MIB)
        everything = guest.movable()["resident"]
        for _ in range(10 * SCALE):
            fake.close()
            for _ in range(choices.randrange(4)):
                if choices.randrange(2):
                    fake.order(guest, leave=choices.randrange(1, everything))
                else:
                    fake.order(guest, enter=choices.randrange(1, everything))
                if choices.randrange(2):
                    time.sleep(choices.random() * 0.02)
                fake.stop(guest)
                at = guest.movable()
                assert at["resident"] + at["out"] == everything and guest.allocated() == at["resident"], at
            fake.back(guest)
            fake.stop(guest)
            fake.gate(True)
            load.check(0, 1, 2, 3)


def test_a_device_without_room_is_reported_and_tried_again_when_told():
    with Machine(memory="128M", METE_SIM_CONTEXT_MEMORY="1MiB") as machine, Load(machine) as load:
        load.take(16 * MIB)
        machine.fake.close()
        machine.fake.away(load.guest)
        machine.fake.stop(load.guest)
        # Somebody whom nobody knows.
        other = subprocess.Popen([LOAD], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=1,
                                 env=dict(machine.environment, LD_LIBRARY_PATH=SIM + "/lib"))
        other.stdout.readline()
        taken = 0
        for i in range(60):
            other.stdin.write(f"alloc {i} {4 * MIB}\n")
            taken += other.stdout.readline() == "0\n"
        assert taken
        machine.fake.order(load.guest, enter=16 * MIB)
        machine.fake.wait(lambda: load.guest.moved["returned"] > 0, "it does not say so")
        machine.fake.wait(lambda: sum(load.guest.moved[key] for key in ("entered", "returned")) == 16 * MIB, "it does not end")
        assert load.guest.allocated() == load.moves("resident") == load.guest.moved["entered"]
        other.communicate("")
        machine.fake.back(load.guest)
        machine.fake.gate(True)
        load.check(0)


def test_a_guest_that_dies_in_the_middle_is_only_gone():
    choices = random.Random(int(os.environ.get("METE_SEED", "1")))
    with Machine(METE_SIM_LINK_RATE="2M") as machine:
        for _ in range(5 * SCALE):
            load = Load(machine)
            load.take(10 * MIB)
            machine.fake.close()
            machine.fake.order(load.guest, leave=10 * MIB)
            time.sleep(choices.random() * 0.03)
            load.process.kill()
            load.process.communicate()
            machine.fake.wait(lambda: load.guest not in machine.fake.guests)
            machine.fake.gate(True)


def test_a_child_and_a_jump_leave_everything_as_it_is():
    with Machine() as machine, Load(machine) as load:
        load.take(3 * MIB, 1000)
        machine.fake.round(load.guest)
        assert load.ask("fork") == "forked"
        machine.fake.wait(lambda: len(machine.fake.guests) == 1)
        machine.fake.close()
        machine.fake.away(load.guest)
        assert load.ask("jump") == "jumped"
        assert load.ask("fork") == "forked"
        machine.fake.back(load.guest)
        machine.fake.gate(True)
        load.check(0, 1)
        machine.fake.round(load.guest)
        load.check(0, 1)


def test_nothing_leaves_under_a_capture():
    with Machine() as machine, Load(machine) as load:
        load.take(3 * MIB)
        load.ask("capture")
        # Plainly, as the driver has it; and freed when it can be.
        assert load.ask("alloc", 1, 3 * MIB) == "0" and load.moves("resident") == 4 * MIB
        assert load.ask("free", 1) == "0"
        assert load.ask("alloc", 2, 1000) == "0" and load.ask("free", 0) == "0"
        load.ask("end-capture")
        assert load.ask("alloc", 0, 2 * MIB) == "0"
        assert load.moves("resident") == 2 * MIB, load.guest.movable()


def test_memory_moves_after_a_context_has_ended_with_a_capture_in_it():
    with Machine() as machine, Load(machine) as load:
        load.take(3 * MIB)
        load.ask("capture")
        load.tell("context")
        load.hear()
        load.take(3 * MIB, 1000)
        assert load.moves("resident") == 6 * MIB, load.guest.movable()
        machine.fake.round(load.guest)
        load.check(0, 1)
        assert load.ask("free", 0) == "0" and load.moves("resident") == 2 * MIB


def test_memory_comes_and_goes_under_the_mover():
    with Machine() as machine, Load(machine) as load:
        load.take(3 * MIB, 1000)
        load.tell("storm", 300 * SCALE)
        os.set_blocking(load.process.stdout.fileno(), False)
        while not load.process.stdout.read(8):
            machine.fake.round(load.guest)
        os.set_blocking(load.process.stdout.fileno(), True)
        load.check(0, 1)
        assert load.guest.allocated() == load.moves("resident") == 6 * MIB


def test_memory_that_another_process_reaches_stays_where_it_is():
    with Machine() as machine, Load(machine) as lender, Load(machine) as borrower:
        lender.take(10 * MIB, 3 * MIB, 500, 1000)
        handles = [lender.ask("lend", i) for i in (0, 3)]
        assert lender.moves("why") & SHARED and lender.moves("resident") == 4 * MIB
        for i, size in ((0, 10 * MIB), (1, 1000)):
            assert borrower.ask("borrow", i, handles[i], size) == "0"
            assert borrower.ask("range", i) == f"0 {size}"
        assert borrower.ask("check", 0, 1) == "same" and borrower.ask("check", 1, 4) == "same"
        for _ in range(3):
            assert machine.fake.round(lender.guest) == 4 * MIB
            borrower.ask("fill", 0, 7)
            assert lender.ask("check", 0, 7) == "same"
            lender.ask("fill", 0, 1)
            assert borrower.ask("check", 0, 1) == "same"
        lender.check(1, 2, 3)
        assert lender.guest.allocated() == 16 * MIB and borrower.guest.allocated() == 0


def test_a_handle_is_opened_once_and_closed_as_often_as_it_was_opened():
    with Machine() as machine, Load(machine) as lender, Load(machine) as borrower:
        lender.take(3 * MIB)
        handle = lender.ask("lend", 0)
        assert lender.ask("lend", 0) == handle
        assert [borrower.ask("borrow", i, handle, 3 * MIB) for i in (0, 1)] == ["0", "0"]
        assert borrower.ask("return", 0) == "0"
        assert borrower.ask("check", 1, 1) == "same"
        assert borrower.ask("return", 1) == "0"
        assert borrower.ask("return", 1) == "1"
        assert borrower.ask("borrow", 0, handle, 3 * MIB) == "0"
        borrower.ask("context")
        assert borrower.ask("return", 0) == "1"
        assert borrower.ask("borrow", 0, handle, 3 * MIB) == "0"
        borrower.check(0)


def test_a_handle_that_is_no_longer_good_fails_as_the_drivers_does():
    with Machine() as machine, Load(machine) as borrower:
        with Load(machine) as lender:
            lender.take(3 * MIB, 3 * MIB)
            handles = [lender.ask("lend", i) for i in (0, 1)]
            assert lender.ask("borrow", 2, handles[0], 3 * MIB) == "201"
            assert lender.ask("free", 0) == "0"
            assert borrower.ask("borrow", 0, handles[0], 3 * MIB) == "205"
            assert borrower.ask("borrow", 1, handles[1], 3 * MIB) == "0"
            forged = handles[1][:48] + "07" + handles[1][50:]
            assert borrower.ask("borrow", 2, forged, 3 * MIB) == "205"
        assert borrower.ask("borrow", 3, handles[1], 3 * MIB) == "0"  # it is open already
        borrower.ask("check", 1, 2)
        assert borrower.ask("return", 1) == borrower.ask("return", 3) == "0"
        assert borrower.ask("borrow", 1, handles[1], 3 * MIB) == "205"


def test_a_handle_that_somebody_made_up_opens_nothing_that_was_not_lent():
    """It would move away under whoever opened it."""
    with Machine() as machine, Load(machine) as lender, Load(machine) as borrower:
        lender.take(3 * MIB, 3 * MIB)
        handle = lender.ask("lend", 0)
        forged = handle[:48] + "%02x" % (int(handle[48:50], 16) + 1) + handle[50:]
        assert borrower.ask("borrow", 0, forged, 3 * MIB) == "205"
        assert lender.ask("lend", 1) == forged
        assert borrower.ask("borrow", 0, forged, 3 * MIB) == "0" and borrower.ask("check", 0, 2) == "same"


def test_a_handle_that_says_what_cannot_be_is_refused():
    with Machine() as machine, Load(machine) as lender, Load(machine) as borrower:
        lender.take(3 * MIB)
        handle = lender.ask("lend", 0)

        def opened(area=4 * MIB, offset=0, bytes=3 * MIB):
            words = struct.pack("<QQQ", area, offset, bytes).hex()
            return borrower.ask("borrow", 0, handle[:64] + words + handle[112:], 3 * MIB)

        for wrong in (dict(area=0), dict(area=4 * MIB - 1), dict(offset=4 * MIB), dict(offset=1 << 63), dict(bytes=4 * MIB + 1),
                      dict(offset=2 * MIB), dict(bytes=(1 << 64) - 1, offset=1)):
            assert opened(**wrong) == "1", wrong
        assert opened() == "0" and borrower.ask("check", 0, 1) == "same"


def test_nothing_moves_of_a_program_with_a_library_that_reaches_memory_by_itself():
    with Machine() as machine:
        library = machine.folder + "/libnvcuvid.so.1"
        open(library, "w").write("x" * 4096)
        with Load(machine) as load:
            load.ask("map", library)
            load.take(3 * MIB, 1000)
            assert load.moves("resident") == 0 and load.moves("why") & PROCESS
        # It comes later: what could move stays, and the rest is plain.
        with Load(machine) as load:
            load.take(3 * MIB, 1000)
            assert machine.fake.round(load.guest) == 6 * MIB
            load.ask("map", library)
            assert machine.fake.round(load.guest) == 0
            load.check(0, 1)
            assert load.moves("resident") == 0 and load.moves("why") & PROCESS and load.guest.moved["failed"] == 0
            assert load.guest.total["failed"] == 1, load.guest.total
            load.take(3 * MIB)
            assert load.moves("resident") == 0


def test_without_a_store_everything_is_plain():
    with Machine(swap=False) as machine, Load(machine) as load:
        load.take(3 * MIB, 1000)
        assert load.moves("resident") == 0 and load.guest.allocated() == 6 * MIB
        load.check(0, 1)
        assert "ipc=1" in load.ask("look", 0, 0)


run(globals())
