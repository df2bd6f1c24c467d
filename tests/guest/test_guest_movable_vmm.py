#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory that a program creates and maps itself leaves and comes back under it, as a daemon of the test's orders.

    test_guest_movable_vmm.py SIMULATOR_BUILD GUEST_LINKS VMM_LOAD [TEST...]

The law: what the program is answered, and what it finds in its memory, is what it would be on the driver alone.
"""
import os
import random
import select

from movable_machine import *

SCALE = int(os.environ.get("METE_TEST_SCALE", "1"))
MOST_ROUNDS = int(os.environ.get("METE_MOVEMENTS", "12")) * SCALE  # in which memory of a program that maps segments leaves and comes back
SHARED, PROCESS, OWN = 1, 32, 128
READ, WRITE = 1, 3
EXPORTABLE, RDMA, TILES = 1, 2, 4
INVALID = "1"


class Program(Load):
    def do(self, *lines):
        """Each succeeds."""
        for line in lines:
            assert self.ask(line) == "0", line

    def mapped(self, i, size, kind=0):
        """Piece, reservation and mapping of the same number, filled."""
        self.do(f"reserve {i} {size}", f"create {i} {size} {kind}", f"map {i} {i} 0 {i}", f"access {i} {WRITE}")
        self.ask("fill", i, i + 1)

    def out(self):
        self.fake.close()
        return self.fake.away(self.guest)

    def back(self):
        self.fake.stop(self.guest)
        self.fake.back(self.guest)
        self.fake.stop(self.guest)
        self.fake.gate(True)

    def waits(self, *line):
        """It does not answer before its memory has come back."""
        self.tell(*line)
        until(self.guest.waiting, "it does not wait")
        os.set_blocking(self.process.stdout.fileno(), False)
        assert not self.process.stdout.read(1), "it did not wait"
        os.set_blocking(self.process.stdout.fileno(), True)
        self.back()
        return self.hear()

    def is_empty(self):
        assert self.guest.allocated() == self.moves("resident") == self.moves("out") == 0, (self.guest.allocated(), self.guest.movable())
        self.fake.wait(lambda: not self.guest.segments, "segments are kept")


def test_memory_written_through_a_mapping_is_the_same_after_it_came_back():
    with Machine() as machine, Program(machine) as program:
        sizes = [2 * MIB, 4 * MIB, 20 * MIB]
        for i, size in enumerate(sizes):
            program.mapped(i, size)
        assert program.guest.allocated() == program.moves("resident") == sum(sizes) and not program.moves("why")
        for _ in range(3):
            assert machine.fake.round(program.guest) == sum(sizes)
            assert program.moves("out") == 0 and program.guest.allocated() == sum(sizes)
            program.check(0, 1, 2)
        for i in range(3):
            program.do(f"unmap {i}", f"release {i}", f"free-range {i}")
        program.is_empty()


def test_a_piece_has_the_same_content_wherever_and_however_much_of_it_is_mapped():
    with Machine() as machine, Program(machine) as program:
        # 10 MiB are three blocks of the driver's; the second mapping ends in the middle of the second one.
        program.do(f"reserve 0 {40 * MIB}", f"create 0 {10 * MIB}", "map 0 0 0 0", f"map 1 0 {12 * MIB} 0 {6 * MIB}", f"map 2 0 {24 * MIB} 0",
                   f"access 0 {WRITE}", f"access 1 {READ}")
        program.ask("fill", 0, 1)
        for _ in range(2):
            machine.fake.round(program.guest)
            program.check(0)
            assert program.ask("access-of 0") == "0 3" and program.ask("access-of 1") == "0 1" and program.ask("access-of 2") == "0 0"
            assert program.ask("check", 1, 1) == "same"
        program.do("unmap 0", f"access 2 {WRITE}")
        machine.fake.round(program.guest)
        assert program.ask("check", 2, 1) == "same"
        program.do("release 0", f"unmap-range 0 {12 * MIB} {6 * MIB}", "unmap 2", "free-range 0")
        program.is_empty()


def test_a_piece_that_is_mapped_nowhere_keeps_its_content():
    with Machine() as machine, Program(machine) as program:
        program.mapped(0, 6 * MIB)
        program.do("unmap 0")
        assert machine.fake.round(program.guest) == 6 * MIB
        program.do("map 0 0 0 0", f"access 0 {WRITE}")
        program.check(0)
        # Nor does one that nobody has ever mapped move the others' content.
        program.do(f"create 1 {4 * MIB}")
        assert machine.fake.round(program.guest) == 10 * MIB
        program.check(0)


def test_a_handle_that_was_released_lives_as_long_as_its_mapping_wherever_it_is():
    with Machine() as machine, Program(machine) as program:
        program.mapped(0, 4 * MIB)
        program.do("release 0")
        machine.fake.round(program.guest)
        program.check(0)
        program.out()
        assert program.ask("retain 0 0") == "0 same"
        program.do("unmap 0")
        assert program.moves("out") == 4 * MIB
        program.do("release 0")
        assert program.ask("release 0") == INVALID
        program.is_empty()
        machine.fake.gate(True)


def test_unmapping_and_releasing_do_not_wait_for_memory_that_is_out():
    with Machine() as machine, Program(machine) as program:
        for i in range(3):
            program.mapped(i, 4 * MIB)
        program.out()
        program.do("unmap 0", "release 1")
        assert program.moves("out") == 12 * MIB
        program.do("release 0", "unmap 1")
        assert program.moves("out") == 4 * MIB
        program.back()
        program.check(2)
        # Nothing was mapped there again behind its back.
        program.do("free-range 0", "free-range 1")


def test_mapping_and_access_wait_for_memory_that_is_out():
    with Machine() as machine, Program(machine) as program:
        program.mapped(0, 4 * MIB)
        program.do(f"reserve 1 {4 * MIB}")
        program.out()
        assert program.waits("map 1 1 0 0") == "0"
        program.out()
        assert program.waits(f"access 1 {READ}") == "0"
        assert program.ask("check", 1, 1) == "same"
        # Mapped memory is not freed, as the driver says when it can.
        program.out()
        assert program.waits("free-range 0") == INVALID
        program.check(0)


def test_a_range_is_opened_and_unmapped_at_once_while_parts_of_it_are_elsewhere():
    with Machine() as machine, Program(machine) as program:
        program.do(f"reserve 0 {16 * MIB}")
        for i in range(4):
            program.do(f"create {i} {4 * MIB}", f"map {i} 0 {i * 4 * MIB} {i}")
        program.do(f"access-range 0 0 {16 * MIB} {WRITE}")
        for i in range(4):
            program.ask("fill", i, i + 1)
        machine.fake.close()
        machine.fake.order(program.guest, leave=7 * MIB)
        machine.fake.wait(lambda: program.guest.moved["left"] >= 7 * MIB)
        assert program.moves("out") == 8 * MIB
        # Half of the last one, and one byte beyond it.
        assert program.ask(f"unmap-range 0 {4 * MIB} {10 * MIB}") == INVALID and program.ask(f"unmap-range 0 0 {18 * MIB}") == INVALID
        program.do(f"unmap-range 0 {4 * MIB} {8 * MIB}")
        machine.fake.wait(lambda: program.moves("resident") + program.moves("out") == 16 * MIB)
        program.back()
        program.check(0, 3)
        program.do(f"map 1 0 {4 * MIB} 1", f"map 2 0 {8 * MIB} 2", f"access-range 0 {4 * MIB} {8 * MIB} {READ}")
        program.check(0, 1, 2, 3)


def test_questions_about_a_mapping_are_answered_alike_while_it_is_evicted():
    with Machine() as machine, Program(machine) as program:
        program.do(f"reserve 0 {16 * MIB}", f"create 0 {10 * MIB}", f"map 0 0 {2 * MIB} 0", f"access 0 {READ}", f"create 1 {2 * MIB} {EXPORTABLE}",
                   f"map 1 0 {12 * MIB} 1")
        questions = ["look 0 0", f"look 0 {5 * MIB}", "look 1 7", "access-of 0", "access-of 1", "properties 0", "properties 1", "ipc 0"]
        before = [program.ask(q) for q in questions]
        assert before[1].startswith(f"base=0 bytes={10 * MIB} context=0 type=2 ordinal=0 start={-2 * MIB} size={10 * MIB} map=0 map_size={10 * MIB} "
                                    "mapped=1 managed=0 access=1 id="), before
        assert before[0] == before[1] != before[2] and before[3:6] == ["0 1", "0 0", "0 type=1 handles=0 location=1:0"], before
        assert before[6] == "0 type=1 handles=1 location=1:0" and before[7] != "0", before
        assert program.out() == 12 * MIB
        assert [program.ask(q) for q in questions] == before
        program.back()
        assert [program.ask(q) for q in questions] == before and not program.moves("why")


SCRIPT = f"""reserve 0 {16 * MIB}|create 0 {4 * MIB}|create 1 {12 * MIB}|map 0 0 0 0|map 1 0 {2 * MIB} 1|map 1 0 {4 * MIB} 1|access 0 2|access 0 3|
access-range 0 0 {16 * MIB} 1|access-range 0 0 {18 * MIB} 1|access-of 0|access 0 3|access 1 3|access-of 0|access-of 1|unmap-range 0 0 {6 * MIB}|unmap-range 0 {2 * MIB} {2 * MIB}|
free-range 0|release 0|release 0|map 2 0 0 0|fill 0 5|check 0 5|unmap 0|map 0 0 0 0|map 3 0 0 1 {14 * MIB}|map 3 0 0 1 {1 * MIB}|
map 3 0 0 1 {4 * MIB}|unmap 0|map 3 0 0 1 {4 * MIB}|access 3 1|check 1 7|fill 1 7|check 3 9|access-of 3|properties 1|retain 2 1|release 2|release 1|properties 1|release 1|unmap 3|unmap 1|unmap 1|
free-range 0|create 4 {3 * MIB + 1}|create 4 0|create 4 {2 * MIB} {TILES}|create 5 {2 * MIB}|export 5|release 5|create 6 {2 * MIB} {EXPORTABLE}|export 6|
import 7|reserve 1 {4 * MIB}|map 6 1 0 6|map 7 1 {2 * MIB} 7|access 6 3|access 7 3|fill 6 3|check 7 3|release 6|release 7|unmap 6|unmap 7|
free-range 1|sync-memops 0""".replace("\n", "").split("|")


def test_every_answer_right_or_wrong_is_the_drivers():
    with Machine() as machine:
        alone = subprocess.run([LOAD], input="\n".join(SCRIPT) + "\n", capture_output=True, text=True,
                               env=dict(machine.environment, LD_LIBRARY_PATH=SIM + "/lib"))
        assert alone.returncode == 0, alone
        expected = alone.stdout.splitlines()[1:]
        assert len(expected) == len(SCRIPT)
        for moved in False, True:
            with Program(machine) as program:
                for line, answer in zip(SCRIPT, expected):
                    said = program.ask(line)
                    assert said == answer, (line, said, answer)
                    if moved and program.guest.stores:
                        machine.fake.round(program.guest)
                assert program.moves("out") == program.moves("resident") == 0, program.guest.movable()


def test_memory_that_is_exported_stays_where_it_is_from_then_on():
    with Machine() as machine, Program(machine) as program:
        program.mapped(0, 4 * MIB, EXPORTABLE)
        program.mapped(1, 4 * MIB, EXPORTABLE)
        assert machine.fake.round(program.guest) == 8 * MIB and not program.moves("why")
        program.out()
        assert program.waits("export 0") == "0"
        assert program.moves("why") == SHARED and program.moves("resident") == 4 * MIB and program.guest.allocated() == 8 * MIB
        assert machine.fake.round(program.guest) == 4 * MIB
        program.check(0, 1)
        # A descriptor keeps it, whatever is released.
        program.do("unmap 0", "release 0", "unmap 1", "release 1")
        assert program.guest.allocated() == 4 * MIB and program.moves("resident") == 0


def test_memory_that_devices_reach_by_themselves_stays_where_it_is_from_then_on():
    with Machine() as machine, Program(machine) as program:
        program.mapped(0, 4 * MIB)
        program.mapped(1, 4 * MIB)
        program.out()
        assert program.waits("sync-memops 0") == "0"
        assert program.moves("why") == SHARED and machine.fake.round(program.guest) == 4 * MIB
        program.check(0, 1)


def test_memory_that_cannot_be_followed_is_created_plainly_and_reported():
    with Machine() as machine, Program(machine) as program:
        program.do(f"create 0 {2 * MIB} {TILES}")
        assert program.moves("why") == OWN and program.moves("resident") == 0 and program.guest.allocated() == 2 * MIB
        # It can be exported as one, or not at all.
        program.mapped(1, 6 * MIB, EXPORTABLE)
        assert program.moves("resident") == 0 and program.guest.allocated() == 8 * MIB
        program.mapped(2, 4 * MIB, EXPORTABLE)
        assert machine.fake.round(program.guest) == 4 * MIB
        program.check(1, 2)
        program.do("export 1", "release 0")


def test_a_piece_that_is_mapped_at_many_addresses_stays():
    with Machine() as machine, Program(machine) as program:
        program.do(f"reserve 0 {40 * MIB}", f"create 0 {2 * MIB}")
        program.do(*(f"map {i} 0 {i * 2 * MIB} 0" for i in range(8)), f"access-range 0 0 {16 * MIB} {WRITE}")
        program.ask("fill", 3, 7)
        assert machine.fake.round(program.guest) == 2 * MIB
        program.do(f"map 8 0 {16 * MIB} 0", f"access 8 {WRITE}")
        assert program.moves("why") == OWN and program.moves("resident") == 0
        assert machine.fake.round(program.guest) == 0
        for i in range(9):
            assert program.ask("check", i, 7) == "same"
        program.do(f"unmap-range 0 0 {18 * MIB}", "release 0", "free-range 0")
        assert program.guest.allocated() == 0


def test_a_process_with_a_network_adapter_keeps_its_memory_on_the_device():
    with Machine() as machine, Program(machine) as program:
        program.mapped(0, 4 * MIB, EXPORTABLE | RDMA)
        assert program.ask("alloc 1", 3 * MIB) == "0"
        program.ask("fill 1 2")
        assert machine.fake.round(program.guest) == 8 * MIB
        os.makedirs(machine.folder + "/dev/infiniband")
        adapter = machine.folder + "/dev/infiniband/uverbs0"
        open(adapter, "w").close()
        assert program.ask("open", adapter) == "1"
        machine.fake.close()
        machine.fake.order(program.guest, leave=8 * MIB)
        machine.fake.wait(lambda: program.guest.words and program.moves("why") == PROCESS, "it is not said")
        assert program.moves("resident") == program.moves("out") == 0 and program.guest.allocated() == 8 * MIB
        machine.fake.stop(program.guest)
        machine.fake.gate(True)
        program.do(f"create 5 {2 * MIB}", f"alloc 6 {3 * MIB}")
        assert program.moves("resident") == 0
        program.check(0, 1)


def test_memory_outlives_the_context_in_which_it_was_used():
    with Machine() as machine, Program(machine) as program:
        program.mapped(0, 4 * MIB)
        machine.fake.round(program.guest)
        program.ask("context")
        assert machine.fake.round(program.guest) == 4 * MIB
        program.ask("end-context")  # the second one, in which nothing has happened
        program.ask("context")
        machine.fake.round(program.guest)
        program.check(0)
        program.out()
        program.ask("end-context")
        assert program.moves("out") == 4 * MIB
        program.ask("context")
        program.back()
        program.check(0)


def test_a_child_leaves_everything_as_it_is():
    with Machine() as machine, Program(machine) as program:
        program.mapped(0, 4 * MIB)
        machine.fake.round(program.guest)
        assert program.ask("fork") == "forked"
        machine.fake.wait(lambda: len(machine.fake.guests) == 1)
        program.out()
        assert program.ask("fork") == "forked"
        machine.fake.wait(lambda: len(machine.fake.guests) == 1)
        program.back()
        program.check(0)


def test_under_a_capture_memory_is_created_plainly_and_nothing_leaves():
    with Machine() as machine, Program(machine) as program:
        program.mapped(0, 4 * MIB)
        program.ask("capture")
        program.mapped(1, 4 * MIB)
        assert program.moves("resident") == 4 * MIB and program.moves("why") == OWN
        program.do("unmap 0", "map 0 0 0 0", f"access 0 {WRITE}", "unmap 1", "release 1")
        program.ask("end-capture")
        machine.fake.round(program.guest)
        program.check(0)


def segments_while(machine, program, steps, threads, seed, meanwhile):
    program.tell("segments", steps, threads, seed)
    most = rounds = 0
    while rounds < MOST_ROUNDS and not select.select([program.process.stdout], [], [], 0)[0]:
        out = meanwhile()
        most, rounds = max(most, out), rounds + (out > 0)
    assert program.hear() == "same"
    return most


def test_segments_grow_shrink_and_are_mapped_elsewhere_while_they_are_moved():
    with Machine() as machine:
        for threads in 1, 2:
            with Program(machine) as program:
                assert segments_while(machine, program, 4 * SCALE, threads, threads, lambda: machine.fake.round(program.guest)), "nothing moved"
                machine.fake.wait(lambda: program.moves("resident") == program.moves("out") == 0)
                program.is_empty()


def test_segments_are_right_whatever_order_is_ended_in_the_middle():
    choices = random.Random(int(os.environ.get("METE_SEED", "1")))
    with Machine(METE_SIM_LINK_RATE="2M") as machine, Program(machine) as program:
        fake, guest = machine.fake, program.guest

        def some():
            fake.close()
            for _ in range(choices.randrange(4)):
                fake.order(guest, **{choices.choice(("leave", "enter")): choices.randrange(1, 16 * MIB)})
                if choices.randrange(2):
                    time.sleep(choices.random() * 0.01)
                fake.stop(guest)
            out = guest.movable()["out"]
            fake.back(guest)
            fake.stop(guest)
            fake.gate(True)
            return out

        assert segments_while(machine, program, 8 * SCALE, 2, 5, some), "nothing moved"
        program.is_empty()


def test_segments_are_right_while_daemons_die_in_the_middle():
    with Machine(METE_SIM_LINK_RATE="2M") as machine, Program(machine) as program:
        fake = machine.fake
        choices = random.Random(int(os.environ.get("METE_SEED", "1")))
        deaths = iter(range(2 * SCALE))

        def dies():
            if next(deaths, None) is None:
                return fake.round(program.guest)
            fake.close()
            fake.order(program.guest, leave=choices.randrange(1, 16 * MIB))
            time.sleep(choices.random() * 0.02)
            fake.kill()
            fake.start()
            fake.wait(lambda: any(g.stated for g in fake.guests), "it does not come back")
            guest = program.guest = fake.guests[0]
            fake.close()
            assert guest.movable()["out"] <= guest.stated_out, (guest.movable(), guest.stated_out)  # it may be released at any time
            fake.wait(lambda: guest.stores, "it asks for no store")
            out = guest.stated_out
            fake.back(guest)
            fake.stop(guest)
            fake.gate(True)
            return out

        assert segments_while(machine, program, 4 * SCALE, 2, 9, dies), "nothing moved"


def test_a_program_that_dies_while_its_segments_move_is_only_gone():
    choices = random.Random(int(os.environ.get("METE_SEED", "1")))
    with Machine(METE_SIM_LINK_RATE="2M") as machine:
        for seed in range(4 * SCALE):
            program = Program(machine)
            program.tell("segments", 100000, 2, seed + 1)
            until(lambda: program.moves("resident"))
            machine.fake.gate(False)
            machine.fake.order(program.guest, leave=8 * MIB)
            time.sleep(choices.random() * 0.03)
            program.process.kill()
            program.process.communicate()
            machine.fake.wait(lambda: program.guest not in machine.fake.guests)
            machine.fake.gate(True)


def test_without_a_store_handles_are_the_drivers():
    with Machine(swap=False) as machine, Program(machine) as program:
        program.mapped(0, 4 * MIB)
        assert program.moves("resident") == 0 and program.guest.allocated() == 4 * MIB and program.moves("why") == OWN
        program.check(0)
        program.do("unmap 0", "release 0", "free-range 0")
        assert program.guest.allocated() == 0


run(globals())
