#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""meted is killed and started again, and again, while 24 threads of a process allocate, free, make contexts and
destroy them on four devices, and NVML is polled. Another process asks the driver all the time: not for a moment is there a byte more than the limit.
Every call ends. In the end, the book equals the driver's memory.

    test_guest_restarts.py METED SIMULATOR GUEST_LINKS RESTART_LOAD RESTARTS

METE_TEST_SCALE=25 restarts 25 times as often; METE_SEED repeats the choices (not the instants).
"""
import random
import sys
import time

RESTARTS = int(sys.argv.pop(5))
from sim_node import *

RESTARTS *= SCALE
SEED = int(os.environ.get("METE_SEED", time.time_ns() % 1000000))
DEVICES, THREADS = 4, 24
LIMIT, CONTEXT = 1536 * MIB, 64 * MIB
BOOK = struct.Struct("<IIQQQ16Q64Q16Q")


class Book:
    def __init__(self, path):
        with open(path, "w+b") as file:
            file.truncate(PAGE)
            self.map = mmap.mmap(file.fileno(), PAGE)

    def rest(self, yes):
        self.map[0:4] = struct.pack("<I", yes)

    def read(self):
        row = BOOK.unpack_from(self.map, 0)
        return dict(resting=row[1], polls=row[2], looks=row[3], longest_ms=row[4], most=row[5:5 + DEVICES],
                    operations=row[21:21 + THREADS], contexts=row[85:85 + DEVICES])


def until(what, *processes):
    while not what():
        for process in processes:
            assert process.poll() is None, f"it gave up: {process.args}"
        time.sleep(0.002)


def test_restarts_under_many_threads_and_devices_never_let_a_byte_too_much_through():
    print(f"METE_SEED={SEED}")
    generator = random.Random(SEED)
    with Node("1GiB", METE_SIM_DEVICES=f"{DEVICES}xT4") as node:
        book = Book(node.folder + "/book")
        made = node.admin.tenant(str(LIMIT) + "B", device=",".join(map(str, range(DEVICES))))
        errors = open(node.folder + "/errors", "ab")
        watcher = subprocess.Popen([LOAD, "watch", node.folder + "/book", str(DEVICES)], stdin=subprocess.DEVNULL,
                                   env=dict(node.environment, LD_LIBRARY_PATH=os.path.dirname(DRIVER)), stderr=errors)
        program = subprocess.Popen([LOAD, node.folder + "/book", str(DEVICES), str(THREADS), str(SEED)],
                                   env=node.guest_environment(made), stdin=subprocess.DEVNULL, stderr=errors)
        both = watcher, program
        try:
            until(lambda: all(book.read()["operations"]) and book.read()["looks"] and book.read()["polls"], *both)
            for restart in range(RESTARTS):
                before = book.read()
                node.meted.kill()
                time.sleep(generator.choice([0, 0, generator.random() / 20]))
                node.meted.start()
                # Sometimes it is killed while they are still coming back.
                if generator.randrange(4):
                    until(lambda: all(a > b for a, b in zip(book.read()["operations"], before["operations"])), *both)
                else:
                    time.sleep(generator.random() / 50)
                seen = book.read()
                assert max(seen["most"]) <= LIMIT, (restart, seen["most"])
            book.rest(1)
            until(lambda: book.read()["resting"] == THREADS, *both)
            node.admin = Admin(node.meted.place)
            for _ in range(int(PATIENCE / 0.005)):  # until what came last was measured
                rows = [row for row in node.admin.list(made.tenant) if row.kind == "guest_row"]
                used = [row.allocated + row.residual for row in rows]
                contexts = [row.residual for row in rows]
                seen = book.read()
                if contexts == [count * CONTEXT for count in seen["contexts"]]:
                    break
                time.sleep(0.005)
            else:
                raise AssertionError(f"the book has {contexts} of contexts, there are {seen['contexts']}")
            assert max(used) <= LIMIT
            print(f"{RESTARTS} restarts, {sum(seen['operations'])} operations, {seen['polls']} polls, "
                  f"{seen['looks']} looks; longest call {seen['longest_ms']} ms; most in use {max(seen['most'])}")
            # It waits 10 s for a daemon that is away, and 10 s for its answer; the rest is a busy machine.
            assert seen["longest_ms"] < 1000 * PATIENCE, seen["longest_ms"]
        except BaseException:
            sys.stderr.write(open(node.folder + "/errors").read()[-4000:])
            raise
        finally:
            for process in both:
                process.kill()
                process.wait()


if __name__ == "__main__":
    run(globals())
