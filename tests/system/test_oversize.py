#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A tenant larger than its device, with oversize=managed: it computes what it computes where nothing is too large.

As test_swap.py, whose node and programs these are. The device has 192 MiB.
"""
from test_swap import *

LARGE = ("train", "steps=20", "ballast=300M")
MANAGED = ("--oversize", "managed")
MANAGED_WHY = 8  # of `unmovable_why`


def program(node, *arguments, options=MANAGED, name="large"):
    return Program(node, name, arguments, *options)


def waits(node, *arguments, options=MANAGED, name="large"):
    """A program that has allocated everything, and goes on when it is told to."""
    waiting = program(node, *arguments, "stdin=1", options=options, name=name)
    waiting.hears("train: half way")
    return waiting


def go_on(waiting):
    """Until it has ended; is_right() reads the rest of its output."""
    waiting.process.stdin.write("\n\n")
    waiting.process.stdin.flush()
    waiting.is_right()


PRELUDE = """
import ctypes, random, sys, threading, time
cuda = ctypes.CDLL("libcuda.so.1")
def must(r): assert r == 0, r
def context(device):
    made = ctypes.c_void_p()
    must(cuda.cuCtxCreate_v2(ctypes.byref(made), 0, device))
    return made
def allocate(size):
    at = ctypes.c_uint64()
    return cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(size)), at
def free():
    left, total = ctypes.c_size_t(), ctypes.c_size_t()
    must(cuda.cuMemGetInfo_v2(ctypes.byref(left), ctypes.byref(total)))
    return left.value
def wait(*words):
    print(*words, flush=True)
    input()
must(cuda.cuInit(0))
first = context(0)
"""


def python(node, source, *options, arguments=()):
    return subprocess.Popen([BUILD + "/cli/mete", "run", "--quiet", "-n", "py", *options, "--", sys.executable, "-c", PRELUDE + source, *arguments],
                            env=node.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_program_larger_than_its_device_is_right():
    with Node() as node:
        for options in MANAGED, MANAGED + ("--swap", "off"):
            large = waits(node, *LARGE, options=options)
            row = node.row("large")
            assert row["oversize_bytes"] >= 100 << 20, row
            assert row["used_bytes"] <= DEVICE << 20 and row["unmovable_why"] & MANAGED_WHY, row
            assert "managed, beyond what its device has" in node.said("ps")
            go_on(large)
        node.is_clean()


def test_without_it_the_same_program_is_refused():
    with Node() as node:
        for options in (), ("--oversize", "refuse"), ("--swap", "off"):
            refused = program(node, *LARGE, options=options)
            out, error = refused.process.communicate(timeout=PATIENCE)
            assert "memory" in error.lower() and "checksum" not in out, (out, error)
        node.is_clean()


def test_a_program_that_fits_has_no_managed_memory():
    with Node() as node:
        fits = waits(node, "train", "steps=20", "ballast=140M")
        row = node.row("large")
        assert row["oversize_bytes"] == 0 and not row["unmovable_why"] & MANAGED_WHY, row
        go_on(fits)
        node.is_clean()


def test_freed_memory_is_given_back_to_its_source():
    """A program that holds nothing any more is charged nothing: twice, in one process."""
    source = """
must(cuda.cuMemFree_v2(allocate(2 << 20)[1]))  # what moves memory is there from the first block on
size, before = 60 << 20, free()
for round in range(2):
    held = []
    for i in range(8):
        r, at = allocate(size)
        must(r)
        must(cuda.cuMemsetD8_v2(at, i, ctypes.c_size_t(size)))
        held.append(at)
    pitch, wide = ctypes.c_size_t(), ctypes.c_uint64()
    must(cuda.cuMemAllocPitch_v2(ctypes.byref(wide), ctypes.byref(pitch), ctypes.c_size_t(1000), ctypes.c_size_t(4096), 4))
    assert pitch.value >= 1000 and pitch.value % 512 == 0, pitch
    must(cuda.cuMemFree_v2(wide))
    for i, at in enumerate(held):
        byte = ctypes.create_string_buffer(1)
        must(cuda.cuMemcpyDtoH_v2(byte, ctypes.c_uint64(at.value + size - 1), ctypes.c_size_t(1)))
        assert byte.raw[0] == i, (i, byte.raw)
        must(cuda.cuMemFree_v2(at))
    assert free() == before, (free(), before)
for end in "destroyed", "left":
    other = context(0)
    for i in range(8):
        must(allocate(size)[0])
    must(cuda.cuCtxDestroy_v2(other))
wait("there")
"""
    with Node() as node:
        process = python(node, source, *MANAGED)
        assert process.stdout.readline() == "there\n", process.communicate()
        row = node.row("py")
        assert row["oversize_bytes"] == 0 and row["allocated_bytes"] == 0, row
        process.communicate("\n", timeout=PATIENCE)
        node.is_clean()


def test_small_requests_share_blocks_while_there_is_room_and_cost_the_host_no_blocks_after_that():
    source = """
wait({allocate(160 << 20)[0]})
wait({allocate(4096)[0] for _ in range(3000)})
wait({allocate(40 << 20)[0] for _ in range(4)})
wait({allocate(4096)[0] for _ in range(1000)})
"""
    with Node() as node:
        for options in MANAGED, MANAGED + ("--swap", "off"):
            process = python(node, source, *options)
            rows = []
            for _ in range(4):
                line = process.stdout.readline()
                assert line == "{0}\n", (line, process.communicate("\n" * 4))
                rows.append(node.row("py"))
                process.stdin.write("\n")
                process.stdin.flush()
            process.communicate(timeout=PATIENCE)
            full, shared, beyond, small = rows
            assert shared["oversize_bytes"] == 0 and not shared["unmovable_why"] & MANAGED_WHY, (full, shared)
            assert shared["allocated_bytes"] - full["allocated_bytes"] < 16 << 20, (full, shared)
            assert 0 <= small["oversize_bytes"] - beyond["oversize_bytes"] < 128 << 20, (beyond, small)
            node.is_clean()


def test_memory_that_became_managed_is_freed_in_stream_order_as_well():
    source = """
held = [allocate(40 << 20)[1] for _ in range(8)]
wait({cuda.cuMemFreeAsync(at, None) for at in held})
"""
    with Node() as node:
        for options in MANAGED, MANAGED + ("--swap", "off"):
            process = python(node, source, *options)
            line = process.stdout.readline()
            assert line == "{0}\n", (line, process.communicate("\n"))
            row = node.row("py")
            process.communicate("\n", timeout=PATIENCE)
            assert row["oversize_bytes"] == 0 and row["allocated_bytes"] == 0, row
            node.is_clean()


def test_it_outlives_a_restart_of_meted():
    with Node() as node:
        large = waits(node, *LARGE)
        before = node.row("large")
        node.restart()
        until(lambda: (row := node.row("large")) and row["oversize_bytes"] == before["oversize_bytes"] and
              row["allocated_bytes"] == before["allocated_bytes"])
        go_on(large)
        node.is_clean()


THREADS = """
must(cuda.cuMemFree_v2(allocate(2 << 20)[1]))  # what moves memory is there from the first block on
before, going, failed = free(), True, []
def work(seed):
    chance, held = random.Random(seed), []
    must(cuda.cuCtxSetCurrent(first))
    while going or held:
        if going and len(held) < 6 and chance.random() < 0.6:
            size, byte = chance.choice((4096, 3 << 20, 20 << 20, 40 << 20)), chance.randrange(256)
            r, at = allocate(size)
            must(r)
            must(cuda.cuMemsetD8_v2(at, byte, ctypes.c_size_t(size)))
            held.append((at, size, byte))
        elif held:
            at, size, byte = held.pop(chance.randrange(len(held)))
            found = ctypes.create_string_buffer(1)
            must(cuda.cuMemcpyDtoH_v2(found, ctypes.c_uint64(at.value + chance.randrange(size)), ctypes.c_size_t(1)))
            assert found.raw[0] == byte, (found.raw, byte)
            must(cuda.cuMemFree_v2(at))
def guarded(seed):
    try:
        work(seed)
    except BaseException as error:
        failed.append(error)
threads = [threading.Thread(target=guarded, args=(int(sys.argv[1]) + i,)) for i in range(6)]
for thread in threads: thread.start()
wait("there")
going = False
for thread in threads: thread.join()
assert not failed, failed
deadline = time.monotonic() + float(sys.argv[2])
while free() != before and time.monotonic() < deadline:  # a new meted has asked for credit back that it had not granted
    time.sleep(0.01)
wait("free" if free() == before else f"{free()} of {before}")
"""


def test_many_threads_whose_meted_is_killed_are_right():
    """And in the end the books are what they were."""
    seed = int(os.environ.get("METE_SEED", random.randrange(1 << 30)))
    print(f"METE_SEED={seed}", flush=True)
    with Node() as node:
        process = python(node, THREADS, *MANAGED, arguments=[str(seed), str(PATIENCE)])
        assert process.stdout.readline() == "there\n", process.communicate()
        for _ in range(3):
            until(lambda: (row := node.row("py")) and row["oversize_bytes"])
            node.restart()
        process.stdin.write("\n")
        process.stdin.flush()
        said = process.stdout.readline()
        assert said == "free\n", (said, process.communicate("\n"))
        row = node.row("py")
        assert row["oversize_bytes"] == 0 and row["allocated_bytes"] == 0, row
        process.communicate("\n", timeout=PATIENCE)
        node.is_clean()


def test_others_beside_it_are_right():
    """It pages; a program that fits beside it takes turns with it, and one that does not is refused, or waits until it has ended."""
    with Node() as node:
        large = waits(node, *LARGE)
        beside = program(node, "train", "steps=5", options=("--wait", "1m"), name="beside")
        go_on(large)
        beside.is_right()
        node.is_clean()


def test_it_needs_the_whole_device():
    with Node() as node:
        ran = subprocess.run([BUILD + "/cli/mete", "run", "--memory", "50%", *MANAGED, "--", "true"], env=node.environment, capture_output=True, text=True)
        assert ran.returncode != 0 and "oversize: managed memory cannot be kept within 96MiB of 192MiB" in ran.stderr, ran
        large = waits(node, *LARGE)
        ran = subprocess.run([BUILD + "/cli/mete", "set", "large", "memory=50%"], env=node.environment, capture_output=True, text=True)
        assert ran.returncode != 0 and "oversize" in ran.stderr, ran
        node.mete("set", "large", "memory=50%", "oversize=refuse")
        go_on(large)
        node.is_clean()


def test_the_hosts_memory_is_promised_once_not_for_each_device():
    source = """
available = next(int(line.split()[1]) << 10 for line in open("/proc/meminfo") if line.startswith("MemAvailable:"))
first = allocate(available * 7 // 10)[0]
context(1)
wait(first, allocate(available * 7 // 10)[0])
"""
    with Node(METE_SIM_DEVICES="2xSIM") as node:
        process = python(node, source, *MANAGED, "--device", "0,1")
        out, error = process.communicate("\n", timeout=PATIENCE)
        assert out == "0 2\n" and "in the host's memory" in error, (out, error)
        node.is_clean()


def test_more_than_the_host_has_is_refused():
    with Node() as node:
        large = program(node, "train", "steps=1", "ballast=100000G")
        out, error = large.process.communicate(timeout=PATIENCE)
        assert "in the host's memory" in error and "checksum" not in out, (out, error)
        node.is_clean()


if __name__ == "__main__":
    run({name: test for name, test in globals().items() if getattr(test, "__module__", None) == "__main__"})
