#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SIGKILL at random instants over real guests that allocate, free, make contexts and destroy them, on the simulated
driver with the real daemon. (tests/system/test_meted_kill.py does so by the thousand, with guests that only speak the
protocol.) Whenever it is looked at, sums are sums and no limit is exceeded; when the living rest, the book is what
the driver says that each of them has; in the end nothing is left, neither in the book nor on the device.

    test_guest_kill.py METED SIMULATOR GUEST_LINKS KILL_LOAD

METE_TEST_SCALE=100 kills 10,000 times; METE_SEED repeats the choices (not the instants).
"""
import ctypes
import random
import time

from sim_node import *

SEED = int(os.environ.get("METE_SEED", time.time_ns() % 1000000))
KILLS = 100 * SCALE
GUESTS, TENANTS, THREADS = 6, 3, 4
# Two guests of four threads each: more contexts than fit into it, and all three more than fit onto the device.
LIMIT, DEVICE = 448 * MIB, "1GiB"
CONTEXT = 64 * MIB
SLOT = struct.Struct("<QII")  # operations done, threads that rest, contexts that there are then


class Device:
    """The figures of the driver's own management library, in this process."""

    def __init__(self, node):
        os.environ["METE_SIM_DIR"] = node.folder  # of this node, which the daemon has made
        self.nvml = ctypes.CDLL(os.path.dirname(DRIVER) + "/libnvidia-ml.so.1")
        self.handle = ctypes.c_void_p()
        assert self.nvml.nvmlInit_v2() == 0
        assert self.nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.handle)) == 0

    def used(self):
        memory = (ctypes.c_uint64 * 3)()
        assert self.nvml.nvmlDeviceGetMemoryInfo(self.handle, memory) == 0
        return memory[2]

    def processes(self):
        rows, count = (ctypes.c_uint64 * 300)(), ctypes.c_uint(100)
        assert self.nvml.nvmlDeviceGetComputeRunningProcesses_v3(self.handle, ctypes.byref(count), rows) == 0
        return {rows[3 * i] & 0xffffffff: rows[3 * i + 1] for i in range(count.value)}


class Worker:
    def __init__(self, node, book, index, tenant, seed):
        self.book, self.at = book, 64 * (index + 1)
        self.book[self.at:self.at + 64] = bytes(64)
        self.process = subprocess.Popen([LOAD, node.folder + "/book", str(index), str(THREADS), str(seed)],
                                        env=node.guest_environment(tenant), stdin=subprocess.DEVNULL,
                                        stderr=open(node.folder + "/errors", "ab"))

    def says(self):
        assert self.process.poll() is None, "a guest gave up"
        return SLOT.unpack_from(self.book, self.at)

    def kill(self):
        self.process.kill()
        self.process.wait()


def check_sums(admin, tenants):
    """One look, with guests in the middle of everything."""
    rows = admin.list()
    device = next(row for row in rows if row.kind == "device_row")
    books = [row for row in rows if row.kind == "tenant_row"]
    assert len(books) == len(tenants)
    for amount in ("allocated", "residual", "credit"):
        assert getattr(device, amount) == sum(getattr(row, amount) for row in books), (amount, rows)
        for book in books:
            guests = [row for row in rows if row.kind == "guest_row" and row.tenant == book.tenant]
            assert getattr(book, amount) == sum(getattr(row, amount) for row in guests), (amount, rows)
    for book in books:
        assert book.allocated + book.credit + book.residual <= book.limit == LIMIT, book
        assert book.peak <= book.limit, book
    assert device.allocated + device.credit + device.residual <= device.capacity - device.reserve, device


def check_inventories(admin, device, workers, book):
    """Everybody rests: then each living guest stands in the book with what the driver says that it has."""
    book[0:4] = struct.pack("<I", 1)
    until(lambda: all(worker.says()[1] == THREADS for worker in workers), "somebody does not rest")
    got, wanted, held = {}, {}, {}

    def agree():
        nonlocal got, wanted, held
        rows = [row for row in admin.list() if row.kind == "guest_row"]
        got = {row.pid: (row.allocated, row.residual) for row in rows}
        held = device.processes()
        wanted = {}
        for worker in workers:
            contexts = worker.says()[2] * CONTEXT
            wanted[worker.process.pid] = (held.pop(worker.process.pid, 0) - contexts, contexts)
        return got == wanted and not held

    # Until what came last was measured, and the dead are forgotten.
    until(agree, lambda: f"the book: {got}, the guests: {wanted}, on the device besides: {held}")
    assert device.used() == sum(sum(amounts) for amounts in wanted.values())
    book[0:4] = bytes(4)


def test_the_book_equals_the_living_guests_inventories_after_any_deaths():
    print(f"METE_SEED={SEED}")
    generator = random.Random(SEED)
    with Node(str(LIMIT) + "B", METE_SIM_MEMORY=DEVICE) as node:
        with open(node.folder + "/book", "w+b") as file:
            file.truncate(PAGE)
            book = mmap.mmap(file.fileno(), PAGE)
        device, workers = Device(node), []
        assert device.used() == 0 and not device.processes()
        tenants = [node.tenant] + [node.admin.tenant(str(LIMIT) + "B") for _ in range(TENANTS - 1)]

        def start(index):
            return Worker(node, book, index, tenants[index % TENANTS], generator.getrandbits(40))

        try:
            workers += [start(i) for i in range(GUESTS)]
            operations = 0
            for kill in range(KILLS):
                victim = generator.randrange(GUESTS)
                # In its first moments, which are joining, or somewhere in one of its next operations.
                if generator.randrange(4) == 0:
                    operations += workers[victim].says()[0]
                    workers[victim].kill()
                    workers[victim] = start(victim)
                    time.sleep(generator.random() / 50)
                else:
                    target = workers[victim].says()[0] + generator.randrange(1, 60)
                    while workers[victim].says()[0] < target:
                        time.sleep(0.0002)
                operations += workers[victim].says()[0]
                workers[victim].kill()
                workers[victim] = start(victim)
                if kill % 10 == 0:
                    check_sums(node.admin, tenants)
                if kill % 50 == 49:
                    check_inventories(node.admin, device, workers, book)
            print(f"{KILLS} deaths, {operations} operations")
            fds = len(os.listdir(f"/proc/{node.meted.process.pid}/fd"))
            assert fds < 80, fds
        except BaseException:
            sys.stderr.write(open(node.folder + "/errors").read()[-4000:])
            raise
        finally:
            for worker in workers:
                worker.kill()
        for tenant in tenants:
            until(lambda: not node.admin.guests(tenant.tenant), "the dead are not forgotten")
            row = node.admin.tenant_row(tenant.tenant)
            assert (row.allocated, row.credit, row.residual, row.guests) == (0, 0, 0, 0), row
        row = node.admin.device_row()
        assert (row.allocated, row.credit, row.residual) == (0, 0, 0), row
        assert device.used() == 0 and not device.processes()


if __name__ == "__main__":
    run(globals())
