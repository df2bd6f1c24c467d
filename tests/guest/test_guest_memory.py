#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Limits hold for every way to device memory, on the simulated driver with the real daemon; what is freed
is free again, to the byte; racing guests get all of the limit, and not a byte more.

    test_guest_memory.py METED SIMULATOR GUEST_LINKS MEMORY_LOAD
"""
import os
import signal
import subprocess
import sys

from memory_node import *


def way(name):
    with Node() as node:
        out, err = node.run(name)
        assert out.count("bytes") >= 8, out
        assert "out of memory" in err
        # A neighbour's view: the peak was within the limit, and everything has come back.
        row = node.row()
        assert row.peak <= row.limit, row
        node.nothing_left()


for name in ("linear", "pitch", "managed", "async", "pool", "async-freed-at-once", "linear-freed-in-order", "virtual",
             "handle", "array", "array3d", "mipmap", "graph"):
    globals()["test_limit_of_" + name.replace("-", "_")] = lambda name=name: way(name)


def test_contexts_take_their_memory_along():
    with Node("1GiB") as node:
        node.run("contexts")
        node.nothing_left()


def test_memory_that_graphs_leave_is_charged_once_until_it_is_trimmed():
    with Node() as node:
        node.run("graphs")
        row = node.row()
        assert row.peak <= row.limit, row
        node.nothing_left()


def test_a_mix_of_everything_from_many_threads():
    with Node() as node:
        for _ in range(SCALE):
            node.run("mix", 8)
        node.nothing_left()


def test_the_pool_that_serves_is_charged_also_while_another_thread_exchanges_it():
    with Node() as node:
        for _ in range(SCALE):
            node.run("exchange", 8)
        node.nothing_left()


def test_a_thread_with_the_least_stack_allocates_loads_launches_and_frees():
    if INSTRUMENTED:
        raise Skipped("instrumented functions take more stack; run it in the gcc build")
    with Node() as node:
        node.run("least-stack")
        node.nothing_left()


def ends_with_what_it_should_have(node, guest):
    """A context, and what it was given after the others had gone."""
    guest.stdin.write("\n")
    guest.stdin.flush()
    assert guest.stdout.readline() == "holds\n", guest.stderr.read()
    row = node.row()
    assert (row.allocated, row.residual) == (40 * MIB, 64 * MIB), row
    guest.stdin.close()
    assert guest.wait() == 0, guest.stderr.read()
    node.nothing_left()


def test_contexts_and_memory_from_many_threads_are_within_the_limit_at_all_times():
    with Node("512MiB") as node:
        guest, contexts = node.start("making", 8), 0
        while contexts < 500 * SCALE:
            row = node.row()
            assert row.allocated + row.residual <= row.limit and row.peak <= row.limit, row
            contexts += row.residual > 128 * MIB
        ends_with_what_it_should_have(node, guest)


def test_a_daemon_that_came_back_in_the_middle_of_it_measures_as_exactly():
    with Node("512MiB") as node:
        guest = node.start("making", 8)
        for _ in range(5 * SCALE):
            while node.row().residual <= 128 * MIB:
                assert guest.poll() is None, guest.stderr.read()
            node.meted.kill()
            node.meted.start()
            node.admin = Admin(node.meted.place)
        ends_with_what_it_should_have(node, guest)


def room(node):
    """The memory that the tenant's guests can still be given."""
    row = node.row()
    return row.limit - row.allocated - row.residual


def race(node, bytes, rounds):
    guests = [node.start("race", 16) for _ in range(2)]
    for guest in guests:
        assert guest.stdout.readline().startswith("ready"), guest.stderr.read()
    for _ in range(rounds):
        for guest in guests:
            guest.stdin.write(f"{bytes}\n")
            guest.stdin.flush()
        for guest in guests:
            assert guest.stdout.readline().startswith("full"), guest.stderr.read()
        row = node.row()
        assert row.allocated + row.residual <= row.limit, row
        # Everybody was refused: so what is left must be too little for one more.
        left, block = room(node), 2 * MIB
        assert left < (bytes + block - 1) // block * block, (left, row)
        for guest in guests:
            guest.stdin.write("empty\n")
            guest.stdin.flush()
        for guest in guests:
            assert guest.stdout.readline() == "empty\n", guest.stderr.read()
    for guest in guests:
        guest.stdin.write("0\n")
        guest.stdin.close()
        assert guest.wait() == 0, guest.stderr.read()
    node.nothing_left()


def test_two_guests_race_for_the_last_large_block():
    with Node("256MiB") as node:
        race(node, 3 * MIB, 20 * SCALE)


def test_two_guests_race_for_the_last_mebibyte():
    with Node("256MiB") as node:
        race(node, MIB, 20 * SCALE)


def test_two_guests_race_for_the_last_pages():
    with Node("192MiB") as node:
        race(node, 150000, 5 * SCALE)


# Programs begin with a context.
BEGINNING = r'''
import ctypes as c, os, re, resource, struct, sys
def ok(r):
    assert r == 0, r
lib, context, address = c.CDLL("libcuda.so.1"), c.c_void_p(), c.c_uint64()
ok(lib.cuInit(0))
ok(lib.cuCtxCreate_v2(c.byref(context), 0, 0))
'''

# Allocates and frees, and keeps the credit.
FREER = BEGINNING + r'''
ok(lib.cuMemAlloc_v2(c.byref(address), c.c_size_t(int(sys.argv[1]))))
ok(lib.cuMemFree_v2(address))
print("ready", flush=True)
sys.stdin.read()
'''


def test_beside_a_neighbour_freed_memory_goes_back():
    with Node("1GiB", METE_SIM_MEMORY="1600MiB") as node:
        other = node.admin.tenant("1GiB")
        first = Client(node, node.tenant.socket, 700 * MIB, program=FREER)
        row = node.row()
        assert row.allocated == 0 and row.credit <= 128 * MIB, (row, other)
        first.end()
        node.nothing_left()


def test_memory_that_a_process_freed_alone_is_free_for_its_siblings_and_for_neighbours():
    with Node("1GiB", METE_SIM_MEMORY="1600MiB") as node:
        first = Client(node, node.tenant.socket, 700 * MIB, program=FREER)
        row = node.row()
        # Alone it keeps everything, which is not in use.
        assert row.allocated == 0 and row.credit >= 700 * MIB, row
        second = Client(node, node.tenant.socket, 20 * MIB)
        total, free, used = second.sees()["memory"]
        assert (total, used) == (1 * GIB, (2 * 64 + 20) * MIB), (total, free, used)
        neighbour = Client(node, node.admin.tenant("1500MiB").socket, 20 * MIB)
        free = neighbour.sees()["memory"][1]
        assert free >= 1500 * MIB - (3 * 64 + 2 * 20) * MIB, free
        # And they get it, within the limits.
        third = Client(node, node.tenant.socket, 800 * MIB)
        row = node.row()
        assert row.allocated == 820 * MIB and row.allocated + row.credit + row.residual <= row.limit, row
        third.end()
        for client in (neighbour, second):
            client.end()
        neighbour = Client(node, node.admin.tenant("1500MiB").socket, 1400 * MIB)
        row = node.row()
        assert row.credit <= (1600 - 1400 - 2 * 64) * MIB, row
        for client in (neighbour, first):
            client.end()
        node.nothing_left()


def test_a_child_of_fork_is_a_guest_of_its_own():
    with Node("400MiB") as node:
        for how in ("fork", "fork-later"):
            client = Client(node, node.tenant.socket, 50 * MIB, how)
            assert node.row().allocated == 50 * MIB, node.row()
            assert client.sees()["pids"] == [client.process.pid]
            client.end()
            node.nothing_left()


# The library once more, in a namespace of its own.
TWICE = r'''
import ctypes as c, sys
LM_ID_NEWLM, RTLD_NOW = -1, 2
def take(lib, bytes):
    address = c.c_uint64()
    return lib.cuMemAlloc_v2(c.byref(address), c.c_size_t(bytes))
first, own, context = c.CDLL("libcuda.so.1"), c.CDLL(None), c.c_void_p()
own.dlmopen.restype = own.dlsym.restype = c.c_void_p
assert first.cuInit(0) == 0 and first.cuCtxCreate_v2(c.byref(context), 0, 0) == 0
assert take(first, 100 << 20) == 0
handle = own.dlmopen(c.c_long(LM_ID_NEWLM), b"libcuda.so.1", RTLD_NOW)
assert handle
init = c.CFUNCTYPE(c.c_int, c.c_uint)(own.dlsym(c.c_void_p(handle), b"cuInit"))
for _ in range(3):
    assert init(0) == 802, init(0)
assert take(first, 50 << 20) == 0 and take(first, 20 << 20) == 2
print(flush=True)
sys.stdin.read()
'''


def test_a_second_copy_of_the_library_in_a_process_is_refused_and_the_first_goes_on():
    with Node("224MiB") as node:
        program = subprocess.Popen([sys.executable, "-c", TWICE], env=node.guest_environment(), text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert program.stdout.readline(), program.communicate()[1]
        row = node.row()
        assert (row.guests, row.joins, row.allocated, row.residual) == (1, 1, 150 * MIB, 64 * MIB), row
        _, said = program.communicate()
        assert "another copy of mete's library" in said, said
        node.nothing_left()


# Memory that pools may release, by its own page.
KEEPER = BEGINNING + r'''
def loose():
    [at] = [int(line.split("-")[0], 16) for line in open("/proc/self/maps") if "mete-guest" in line and " rw-s " in line]
    return c.c_uint64.from_address(at + 704).value >> 20
def keep(pool, bytes):
    ok(lib.cuMemPoolSetAttribute(pool, 4, c.byref(c.c_uint64(bytes))))
def pool_that_keeps():
    pool, kept, freed = c.c_void_p(), c.c_uint64(), c.c_uint64()
    ok(lib.cuMemPoolCreate(c.byref(pool), struct.pack("<iiii72x", 1, 0, 1, 0)))
    keep(pool, 1 << 62)
    ok(lib.cuMemAllocFromPoolAsync(c.byref(kept), c.c_size_t(8 << 20), pool, None))
    ok(lib.cuMemAllocFromPoolAsync(c.byref(freed), c.c_size_t(24 << 20), pool, None))
    # It stays until this has returned, and so there is something to let go of.
    ok(lib.cuLaunchHostFunc(None, wait, None))
    ok(lib.cuMemFreeAsync(freed, None))
    return pool
waits = c.CDLL(None).sem_wait
semaphore = c.create_string_buffer(64)
ok(c.CDLL(None).sem_init(semaphore, 0, 0))
wait = c.CFUNCTYPE(None, c.c_void_p)(lambda _: waits(semaphore))
pool, other = pool_that_keeps(), pool_that_keeps()
assert loose() == 0, loose()
ok(lib.cuMemPoolDestroy(pool))
assert loose() == 24, loose()
keep(other, 0)
assert loose() == 48, loose()
c.CDLL(None).sem_post(semaphore)
c.CDLL(None).sem_post(semaphore)
ok(lib.cuCtxSynchronize())
assert loose() == 0, loose()
'''


def test_memory_that_a_pool_is_to_keep_no_longer_is_reported_as_loose_at_once():
    with Node() as node:
        program = subprocess.run([sys.executable, "-c", KEEPER], env=node.guest_environment(), text=True, capture_output=True)
        assert program.returncode == 0, program.stderr
        node.nothing_left()


# A pool with room in it; then linear memory is taken, 2 MiB by line of input, and 64 times room in the pool.
SHORT = BEGINNING + r'''
def take():
    ok(lib.cuMemAllocAsync(c.byref(address), c.c_size_t(4096), None))
    return address.value
for i, piece in enumerate([take() for _ in range(600)]):
    if i % 2:
        ok(lib.cuMemFreeAsync(c.c_uint64(piece), None))
ok(lib.cuCtxSynchronize())
print("ready", flush=True)
for line in sys.stdin:
    if line == "pool\n":
        for _ in range(64):
            take()
    else:
        ok(lib.cuMemAlloc_v2(c.byref(address), c.c_size_t(2 << 20)))
    print("done", flush=True)
'''


def test_a_guest_that_finds_room_in_a_pool_for_want_of_credit_asks_for_some():
    with Node() as node:
        with subprocess.Popen([sys.executable, "-c", SHORT], env=node.guest_environment(), text=True, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE) as program:
            def tell(line):
                program.stdin.write(line + "\n")
                program.stdin.flush()
                assert program.stdout.readline() == "done\n"

            assert program.stdout.readline() == "ready\n"
            while node.row().credit >= 2 << 20:
                tell("linear")
            before = node.row()
            tell("pool")
            after = node.row()
            assert after.allocated == before.allocated and after.credit > 2 << 20, (before, after)
            assert after.refusals == 0
            program.stdin.close()
        assert program.returncode == 0


# Exports what it makes, and lets go of it, until it is refused; then imports it all.
EXPORTER = BEGINNING + r'''
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
class Properties(c.Structure):
    _fields_ = [("type", c.c_int), ("handles", c.c_int), ("place", c.c_int), ("id", c.c_int), ("rest", c.c_uint64 * 2)]
def make():
    handle = c.c_uint64()
    r = lib.cuMemCreate(c.byref(handle), c.c_size_t(16 << 20), c.byref(Properties(1, 1, 1, 0)), c.c_uint64(0))
    return r, handle
descriptors = []
for _ in range(40):
    r, handle = make()
    if r:
        assert r == 2, r
        break
    descriptor = c.c_int()
    ok(lib.cuMemExportToShareableHandle(c.byref(descriptor), handle, 1, c.c_uint64(0)))
    descriptors.append(descriptor.value)
    ok(lib.cuMemRelease(handle))
for descriptor in descriptors:
    handle = c.c_uint64()
    ok(lib.cuMemImportFromShareableHandle(c.byref(handle), c.c_void_p(descriptor), 1))
    os.close(descriptor)
    # Only its last release could give anything back, and it is the process's end that does.
    ok(lib.cuMemRelease(handle))
    assert make()[0] == 2
print(len(descriptors), flush=True)
sys.stdin.read()
'''


def test_exported_memory_counts_until_its_process_ends():
    with Node("160MiB") as node:
        environment = dict(node.environment, METE_SOCKET=node.tenant.socket, METE_DRIVER=os.path.dirname(DRIVER),
                           LD_LIBRARY_PATH=LINKS)
        process = subprocess.Popen([sys.executable, "-c", EXPORTER], env=environment, text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        made = int(process.stdout.readline())
        row = node.row()
        assert made > 0 and row.allocated == made * 16 * MIB and row.allocated <= row.limit, (made, row)
        assert row.residual == 64 * MIB, "what the driver no longer counts here does not hide the context"
        process.stdin.close()
        assert process.wait() == 0
        node.nothing_left()


def test_managed_memory_that_is_not_on_the_device_does_not_hide_a_context():
    with Node() as node:
        guest = node.start("hold-managed")
        assert guest.stdout.readline() == "holds\n", guest.stderr.read()
        for _ in range(3):
            row = node.row()
            assert (row.allocated, row.residual) == (40 * MIB, 64 * MIB), row
        guest.stdin.close()
        assert guest.wait() == 0, guest.stderr.read()
        node.nothing_left()


# Passes mete by: calls the driver itself, in the context that the guest made.
BYPASS = BEGINNING + r'''
guest, driver = lib, c.CDLL(sys.argv[1])
ok(guest.cuMemAlloc_v2(c.byref(address), c.c_size_t(20 << 20)))
print("within", flush=True)
sys.stdin.readline()
ok(driver.cuMemAlloc_v2(c.byref(address), c.c_size_t(100 << 20)))
print("beyond", flush=True)
for line in sys.stdin:
    r = guest.cuMemAlloc_v2(c.byref(address), c.c_size_t(8 << 20))
    if r == 0:
        ok(guest.cuMemFree_v2(address))
    print(r, flush=True)
'''


def test_a_program_that_took_memory_past_mete_is_refused_more_and_its_neighbours_see_it():
    with Node("160MiB") as node:
        other = node.admin.tenant("1GiB")
        neighbour = Client(node, other.socket, 20 * MIB)
        environment = dict(node.guest_environment(), METE_SOCKET=node.tenant.socket)
        process = subprocess.Popen([sys.executable, "-c", BYPASS, DRIVER], env=environment, text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)

        def say():
            process.stdin.write("\n")
            process.stdin.flush()

        assert process.stdout.readline() == "within\n"
        say()
        assert process.stdout.readline() == "beyond\n"
        # Nobody reads the book: it is found all the same, and then no byte is given any more.
        answer = "0\n"
        while answer == "0\n":
            say()
            answer = process.stdout.readline()
        assert answer == "2\n", answer
        row = node.row()
        assert (row.allocated, row.residual) == (20 * MIB, 164 * MIB), row
        assert row.peak <= row.limit + 100 * MIB, row
        neighbour.end()
        process.stdin.close()
        assert process.wait() == 0
        node.nothing_left()


# Loads code and asks for memory as soon as it has a context: it is never quiet with nothing but that.
AT_ONCE = r'''
import ctypes as c, sys
cuda = c.CDLL("libcuda.so.1")
context, address, module = c.c_void_p(), c.c_uint64(), c.c_void_p()
allocate = cuda.cuMemAlloc_v2
assert cuda.cuInit(0) == cuda.cuCtxCreate_v2(c.byref(context), 0, 0) == 0
assert cuda.cuModuleLoadData(c.byref(module), b".version 6.5\n.target sm_70\n.address_size 64\n.visible .entry k() { ret; }\n") == 0
assert allocate(c.byref(address), c.c_size_t(32 << 20)) == 0
print("ready", flush=True)
sys.stdin.read()
'''


def test_the_price_of_a_context_is_learnt_of_programs_that_go_on_at_once():
    with Node("1GiB", METE_SIM_CONTEXT_MEMORY="100M", METE_SIM_ANSWER_COST="20ms") as node:
        command = [sys.executable, "-c", AT_ONCE]
        tenants = [node.admin.tenant("1GiB") for _ in range(2)]
        programs = [subprocess.Popen(command, env=node.guest_environment(tenant), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for tenant in tenants]
        for program in programs:
            assert program.stdout.readline() == "ready\n"
        assert Guest(node.tenant.socket).ask("residual_ask", device=0, bytes=0).value == 100 * MIB
        for program in programs:
            program.communicate()
            assert program.returncode == 0


def test_a_killed_guest_leaves_nothing():
    with Node() as node:
        for _ in range(20 * SCALE):
            guest = node.start("hold")
            assert guest.stdout.readline() == "holds\n", guest.stderr.read()
            assert node.row().allocated == 40 * MIB, node.row()
            guest.send_signal(signal.SIGKILL)
            guest.wait()
            node.nothing_left()


if INSTRUMENTED:
    for name, test in list(globals().items()):
        if name.startswith("test_") and {"Client", "EXPORTER", "BYPASS", "TWICE", "KEEPER", "SHORT", "AT_ONCE"} & set(test.__code__.co_names):
            print(f"{name}: left out, as the guest is instrumented")
            del globals()[name]

run(globals())
