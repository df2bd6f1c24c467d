#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tenants that fit their limits and not the device together, while meted is killed again and again: what fitted before a restart fits after it.

As test_swap.py, whose node this is. The programs call as NVIDIA's runtime and PyTorch do: export tables first, a primary context, segments of 2 and
20 MiB. Threads allocate and free all the time, so that a restarted meted never sees one at rest. METE_TEST_SCALE: so many times as many restarts.
"""
import test_swap as swap
from test_swap import *

DEVICE = 160
THREADS = 6  # with their segments, a context and what moves memory a program has 86 MiB of its 96 at most
RESTLESS = """
import ctypes, sys, threading
cuda = ctypes.CDLL("libcuda.so.1")
MIB = 1 << 20
ended = threading.Event()


def must(r, what):
    if r:
        sys.exit(f"{what}: {r}")


def segment(mib, value):
    at = ctypes.c_uint64()
    must(cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(mib * MIB)), f"allocating {mib} MiB")
    must(cuda.cuMemsetD8_v2(at, ctypes.c_ubyte(value), ctypes.c_size_t(mib * MIB)), "setting")
    return at


def check(at, mib, value):
    seen = ctypes.create_string_buffer(4)
    for offset in 0, mib * MIB - 4:
        must(cuda.cuMemcpyDtoH_v2(seen, ctypes.c_uint64(at.value + offset), ctypes.c_size_t(4)), "copying")
        must(seen.raw != bytes([value]) * 4, "what was written")


def churn(mib, value):
    must(cuda.cuCtxSetCurrent(context), "current")
    while not ended.is_set():
        at = segment(mib, value)
        check(at, mib, value)
        must(cuda.cuMemFree_v2(at), "freeing")


class Thread(threading.Thread):
    right = False

    def run(self):
        super().run()
        self.right = True


context, table = ctypes.c_void_p(), ctypes.c_void_p()
must(cuda.cuInit(0), "init")
cuda.cuGetExportTable(ctypes.byref(table), (ctypes.c_ubyte * 16)(0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9))
must(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), "retaining")
must(cuda.cuCtxSetCurrent(context), "current")
kept = segment(20, 7)
threads = [Thread(target=churn, args=(2, 3)) for _ in range(int(sys.argv[1]))] + [Thread(target=churn, args=(48, 9))]
for thread in threads:
    thread.start()
print("there", flush=True)
sys.stdin.read()
ended.set()
for thread in threads:
    thread.join()
    must(not thread.right, "a thread")
check(kept, 20, 7)
print("right", flush=True)
"""


HOLDER = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
context, at = ctypes.c_void_p(), ctypes.c_uint64()
took = lambda mib: cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(int(mib) << 20))
cuda.cuInit(0) or cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0)
print(took(sys.argv[1]), flush=True)
for line in sys.stdin:
    print(took(line), flush=True)
"""


class Holder(swap.Program):
    """Takes so many MiB, and those of each line; says the driver's answers."""

    def __init__(self, node, name, mib):
        self.node, self.name = node, name
        self.process = subprocess.Popen([BUILD + "/cli/mete", "run", "--quiet", "--memory", "96M", "--swap", "auto", "-n", name, "--", sys.executable, "-c", HOLDER, str(mib)],
                                        env=node.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1)
        self.hears("0")

    def takes(self, mib):
        self.process.stdin.write(f"{mib}\n")


class Restless(swap.Program):
    def __init__(self, node, name):
        self.node, self.name, self.said = node, name, tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([BUILD + "/cli/mete", "run", "--quiet", "--memory", "96M", "--swap", "auto", "-n", name, "--", sys.executable, "-c", RESTLESS, str(THREADS)],
                                        env=node.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.said, text=True, bufsize=1)

    def ends_well(self):
        out, _ = self.process.communicate(timeout=PATIENCE)
        error = os.pread(self.said.fileno(), 1 << 16, 0).decode()
        assert self.process.returncode == 0 and out == "right\n" and "out of memory" not in error, (self.name, self.process.returncode, out, error)


def is_refused_to_nobody(count):
    with Node("--context", "64M", memory=DEVICE) as node:
        programs = [Restless(node, f"restless{i}") for i in range(count)]
        for program in programs:
            program.hears("there")
        for _ in range(6 * SCALE):
            node.restart()
            until(lambda: all((row := node.row(program.name)) and row["processes"] for program in programs))
        for program in programs:
            program.ends_well()
        node.is_clean()
        assert not re.search("tenant.(stuck|killed)|guest.overstated", node.log()), node.log()


def test_an_ask_waits_until_all_have_stated_what_they_hold():
    """Until then the room for what moves is not known: it would be reckoned without the contexts, and the ask refused."""
    with Node("--grace", f"{PATIENCE}s", memory=DEVICE) as node:
        large, asker, late = Holder(node, "large", 78), Holder(node, "asker", 30), Holder(node, "late", 2)
        os.kill(late.pid(), signal.SIGSTOP)
        node.restart()
        until(lambda: all((row := node.row(name)) and row["processes"] and not row["expected"] for name in ("large", "asker")))
        asker.takes(48)
        until(lambda: node.row("asker")["waiting"] or select.select([asker.process.stdout], [], [], 0)[0])
        os.kill(late.pid(), signal.SIGCONT)
        asker.hears("0")
        for program in large, asker, late:
            program.process.communicate(timeout=PATIENCE)
        node.is_clean()


def test_a_drain_that_a_program_owes_that_has_not_come_back_is_looked_at():
    with Node("--grace", f"{PATIENCE}s", memory=DEVICE) as node:
        late, other = Holder(node, "late", 20), Holder(node, "other", 2)
        os.kill(late.pid(), signal.SIGSTOP)
        node.mete("suspend", "--wait", "0s", "late", check=False)
        node.restart()
        until(lambda: node.process.poll() is not None or node.row("late")["coupled"])
        assert node.process.poll() is None, node.process.poll()
        os.kill(late.pid(), signal.SIGCONT)
        node.mete("resume", "late")
        for program in late, other:
            program.process.communicate(timeout=PATIENCE)
        node.is_clean()


def test_memory_that_fitted_before_a_restart_is_not_refused_after_it():
    is_refused_to_nobody(2)


def test_three_that_make_their_contexts_at_once_are_refused_nothing_then_or_after_a_restart():
    is_refused_to_nobody(3)


def test_meted_is_stopped_and_killed_while_one_is_suspended_and_another_gets_turns():
    """Threads of all three allocate meanwhile. A share that is set makes turns; a suspended tenant is so for the next meted as well."""
    with Node("--context", "64M", memory=DEVICE) as node:
        programs = [Restless(node, f"restless{i}") for i in range(3)]
        for program in programs:
            program.hears("there")
        for i in range(3 * SCALE):
            away, other = programs[i % 3], programs[(i + 1) % 3]
            node.mete("suspend", "--wait", "0s", away.name)
            node.mete("set", other.name, f"weight={100 * (i % 4 + 1)}")
            node.process.send_signal(signal.SIGSTOP)
            node.process.send_signal(signal.SIGCONT)
            until(lambda: node.row(away.name)["swapped_out"])
            node.restart()
            until(lambda: all((row := node.row(program.name)) and row["processes"] for program in programs))
            assert [node.row(program.name)["suspended"] for program in programs] == [program is away for program in programs]
            node.mete("resume", away.name)
        for program in programs:
            program.ends_well()
        node.is_clean()
        assert not re.search("tenant.(stuck|killed)|guest.overstated", node.log()), node.log()


if __name__ == "__main__":
    run({name: test for name, test in globals().items() if getattr(test, "__module__", None) == "__main__"})
