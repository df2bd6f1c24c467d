#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SIGKILL at random instants over allocating guests, and races for the last byte.

METE_TEST_SCALE=100 kills 10,000 times; METE_SEED repeats the choices (not the instants).
"""
import os
import random
import subprocess
import time
import traceback

from meted import *

SCALE = int(os.environ.get("METE_TEST_SCALE", "1"))
SEED = int(os.environ.get("METE_SEED", time.time_ns() % 1000000))
GUESTS, TENANTS, EACH = 8, 3, 64 * MIB
SLOT = struct.Struct("<QQQQ")  # operations done, bytes that it was granted, of them allocated, paused


class Worker:
    """A guest that allocates, frees and returns at random until it is killed. Its books are in shared memory."""

    def __init__(self, book, index, sockets, generator):
        self.book, self.index = book, index
        self.tenant = generator.randrange(TENANTS)
        seed = generator.getrandbits(60)
        self.note(0, 0, 0, 0)
        self.pid = os.fork()
        if self.pid == 0:
            try:
                self.work(sockets[self.tenant], random.Random(seed))
            except BaseException:  # it never returns: whatever comes here is to be seen
                traceback.print_exc()
            finally:
                os._exit(1)

    def alive(self):
        return os.waitpid(self.pid, os.WNOHANG) == (0, 0)

    def note(self, *values):
        SLOT.pack_into(self.book, self.index * SLOT.size, *values)

    def books(self):
        return SLOT.unpack_from(self.book, self.index * SLOT.size)

    def work(self, path, generator):
        guest = Allocator(path, seat=Here())
        operations = 0
        while True:
            operations += 1
            paused = self.book[-1]
            if paused:
                guest.listen()
            else:
                guest.step(generator)
            self.note(operations, guest.held, guest.in_use, paused)


class Allocator(Guest):
    """Answers recalls at once, also while it waits for an answer of its own, as the library's agent does."""

    held = in_use = 0

    def answer(self, id):
        while True:
            message = self.receive()
            if message.id == id:
                return message
            self.on_recall(message)

    def on_recall(self, message):
        assert message.kind == "credit_recall", message
        bytes = min(message.bytes, self.held - self.in_use)
        self.held -= bytes
        self.give_back(bytes, recall=message.id)

    def listen(self):
        self.socket.settimeout(0.002)
        try:
            self.on_recall(self.receive())
        except TimeoutError:
            pass
        self.socket.settimeout(PATIENCE)

    def step(self, generator):
        choice = generator.randrange(10)
        if choice < 5:
            try:
                granted = self.credit(generator.randrange(1, 8 * MIB), want=16 * MIB)
                self.held += granted  # afterwards: a recall may change it meanwhile
            except Refused as refusal:
                assert refusal.code == LIMIT, refusal
        elif choice < 8:
            self.in_use = generator.randrange(self.held + 1)
            self.allocated(self.in_use, self.held - self.in_use)
        else:
            bytes = generator.randrange(self.held - self.in_use + 1)
            self.held -= bytes
            self.give_back(bytes)


def check_limits(admin, tenants):
    rows = [row for row in admin.list() if row.kind == "tenant_row"]
    assert len(rows) == len(tenants)
    for row in rows:
        assert row.allocated + row.credit + row.residual <= row.limit == EACH, row


def check_inventories(admin, workers, tenants, book):
    """Everybody pauses; then the book must be what the living guests have."""
    book[-1] = 1
    until(lambda: all(worker.books()[3] for worker in workers), "somebody does not pause")
    got = wanted = None

    def agree():
        nonlocal got, wanted
        wanted = {worker.pid: worker.books()[1:3] for worker in workers}
        rows = [row for row in admin.list() if row.kind == "guest_row"]
        got = {row.pid: (row.allocated + row.credit, row.allocated) for row in rows}
        return got == wanted

    # Until the last recall was answered, and the dead are forgotten.
    until(agree, lambda: f"the book: {got}, the guests: {wanted}")
    device = admin.device_row()
    assert device.allocated + device.credit == sum(held for held, _ in wanted.values())
    book[-1] = 0


def test_the_book_equals_the_living_guests_inventories_after_any_deaths():
    print(f"METE_SEED={SEED}")
    generator = random.Random(SEED)
    book = mmap.mmap(-1, PAGE)
    with Daemon("--log-level", "warning") as meted:
        admin = Admin(meted.place)
        tenants = [admin.tenant("64MiB") for _ in range(TENANTS)]
        sockets = [made.socket for made in tenants]
        workers = [Worker(book, i, sockets, generator) for i in range(GUESTS)]
        try:
            for kill in range(100 * SCALE):
                victim = generator.randrange(GUESTS)
                # Somewhere in one of its next operations, the first of which is joining.
                target = workers[victim].books()[0] + generator.randrange(4)
                while workers[victim].books()[0] < target:
                    assert workers[victim].alive(), "a guest gave up"
                    os.sched_yield()
                os.kill(workers[victim].pid, signal.SIGKILL)
                os.waitpid(workers[victim].pid, 0)
                workers[victim] = Worker(book, victim, sockets, generator)
                if kill % 5 == 0:
                    check_limits(admin, tenants)
                if kill % 100 == 99:
                    check_inventories(admin, workers, tenants, book)
            fds = len(os.listdir(f"/proc/{meted.process.pid}/fd"))
            assert fds < 60, fds
        finally:
            for worker in workers:
                os.kill(worker.pid, signal.SIGKILL)
                os.waitpid(worker.pid, 0)
        until(lambda: not admin.device_row().credit + admin.device_row().allocated, "the dead have something")


def test_two_guests_race_for_the_last_mib_from_16_threads_each():
    racer = os.path.join(os.path.dirname(sys.argv[2]), "racer")
    with Daemon("--log-level", "warning") as meted:
        admin = Admin(meted.place)
        for limit, piece, rounds in ((128 * MIB, 8 * MIB, 30), (64 * MIB, MIB, 30), (70 * MIB, 12345 * 64, 20)):
            limit -= limit % piece
            made = admin.tenant(f"{limit}B")
            ran = subprocess.run([racer, made.socket, str(limit), str(piece), "16", str(rounds * SCALE)],
                                 capture_output=True, text=True)
            assert ran.returncode == 0, ran.stderr


def test_two_guests_race_for_the_last_bytes_of_a_device():
    racer = os.path.join(os.path.dirname(sys.argv[2]), "racer")
    with Daemon("--log-level", "warning", environment={"METE_STUB_BYTES": str(128 * MIB)}) as meted:
        made = Admin(meted.place)
        tenant = made.tenant("100%")
        ran = subprocess.run([racer, tenant.socket, str(128 * MIB), str(8 * MIB), "16", str(30 * SCALE)],
                             capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr


if __name__ == "__main__":
    run(globals())
