#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that no one here wrote, and many at once, while their memory leaves the device and comes back under them.

As test_swap.py, whose node and programs these are. While a program runs, `mete suspend` takes all of its memory away and
`mete resume` brings it back, again and again, and a neighbour fills the rest of the device: it computes what it computes alone.
"""
import threading
from pathlib import Path

import test_swap as swap
from test_swap import *

SOURCES = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCES / "tools"))
from registries import Unavailable
from showcase import tinygrad_python
from test_sim_clients import DRJIT

RUNS = 50
NEIGHBOUR = ("train", "steps=200", "ballast=150M")


class Foreign(swap.Program):
    """Any command; what it computed is what it prints."""

    def __init__(self, node, name, command):
        self.node, self.name = node, name
        self.process = subprocess.Popen([BUILD + "/cli/mete", "run", "--quiet", "-n", name, "--", *command],
                                        env=node.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def comes_and_goes(node, program):
    """Until it ends: its memory leaves, all of it, and comes back. Returns how often."""
    times = 0
    while program.process.poll() is None:
        if node.mete("suspend", "--wait", "0s", program.name, check=False) != 0:
            continue  # it is not there yet, or has ended
        until(lambda: not (row := node.row(program.name)) or row["movable_bytes"] == 0)
        times += bool((row := node.row(program.name)) and row["out_bytes"])
        node.mete("resume", program.name, check=False)
        # It gets on: else it would be suspended whenever it could run.
        until(lambda: not (row := node.row(program.name)) or not row["out_bytes"])
    return times


def is_the_same_as_alone(name, command, least, **settings):
    """`least`: so often it leaves, in as many runs as that takes: a short program may end before it can be sent away."""
    with Node(memory=256, **settings) as node:
        with tempfile.TemporaryDirectory(prefix="mete-alone-") as other:
            alone = subprocess.run(command, env=node.environment | {"METE_SIM_DIR": other}, capture_output=True, text=True, timeout=PATIENCE)
        assert alone.returncode == 0, alone
        [neighbour] = start(node, NEIGHBOUR)
        times, runs = 0, 0
        while times < least or runs == 0:
            assert runs < RUNS, f"{name}: in {runs} runs its memory left {times} times"
            runs += 1
            program = Foreign(node, name, command)
            out = []
            reader = threading.Thread(target=lambda: out.extend(program.process.communicate(timeout=PATIENCE)))
            reader.start()
            times += comes_and_goes(node, program)
            reader.join()
            assert (program.process.returncode, out[0]) == (0, alone.stdout), (name, times, program.process.returncode, out, alone.stdout)
        print(f"{name}: its memory left {times} times")
        neighbour.kill()
        node.is_clean()


def compiled(node, what):
    """GCC's own back end for the device; as tests/system/sim/client.sh."""
    program = f"{node}/{what}"
    source = SOURCES / "tests" / "system" / "sim" / "clients" / f"{what}.c"
    require("offload")
    subprocess.run(["gcc-12", "-O1", f"-f{what}", "-foffload=nvptx-none", "-foffload-options=-lm", str(source), "-o", program, "-lm"], check=True)
    return [program]


def test_openacc():
    with tempfile.TemporaryDirectory(prefix="mete-openacc-") as folder:
        is_the_same_as_alone("openacc", compiled(folder, "openacc"), 3, ACC_DEVICE_TYPE="nvidia")


def test_openmp():
    with tempfile.TemporaryDirectory(prefix="mete-openmp-") as folder:
        is_the_same_as_alone("openmp", compiled(folder, "openmp"), 3, OMP_TARGET_OFFLOAD="mandatory")


def test_tinygrad():
    try:
        python = tinygrad_python()
    except Unavailable as why:
        raise Skipped(why) from None
    with tempfile.TemporaryDirectory(prefix="mete-tinygrad-") as folder:
        is_the_same_as_alone("tinygrad", [str(python), str(SOURCES / "examples" / "tinygrad_train.py")], 5, DEV="CUDA:PTX",
                             CACHEDB=folder + "/tinygrad.db")


def test_drjit():
    python = Path(BUILD) / "venv-clients" / "bin" / "python"
    with tempfile.TemporaryDirectory(prefix="mete-drjit-") as home:
        # To import it is enough for a folder in the home.
        if not python.exists() or subprocess.run([str(python), "-c", "import drjit"], env=dict(os.environ, HOME=home), capture_output=True).returncode:
            raise Skipped("there is no drjit, or none for this Python; run the test sim_clients before, which installs it")
        # Its memory is in pools, which do not move.
        is_the_same_as_alone("drjit", [str(python), "-c", DRJIT], 0, HOME=home, METE_SIM_DEVICES="1xT4")


PRIMARY = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
device, context, at, size, word = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_size_t(24 << 20), ctypes.c_uint32()
assert cuda.cuInit(0) == 0 and cuda.cuDeviceGet(ctypes.byref(device), 0) == 0
for i in range(300):
    for r in (cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), cuda.cuCtxSetCurrent(context), cuda.cuMemAlloc_v2(ctypes.byref(at), size),
              cuda.cuMemsetD32_v2(at, i, size.value // 4), cuda.cuMemcpyDtoH_v2(ctypes.byref(word), ctypes.c_uint64(at.value + size.value - 4), 4)):
        assert r == 0, r
    assert word.value == i, (word, i)
    assert cuda.cuDevicePrimaryCtxRelease_v2(device) == 0
print("right")
"""


def test_a_primary_context_that_ends_again_and_again():
    """Its memory ends with it, wherever that is; the last release, of which only the driver knows, is not under the mover's hands."""
    is_the_same_as_alone("primary", [sys.executable, "-c", PRIMARY], 0, METE_SIM_CONTEXT_COST="1ms")


def test_eight_that_hold_four_times_the_device():
    with Node() as node:
        programs = start(node, *[("train", f"steps={10 + i}", "ballast=92M") for i in range(8)])
        # A test cannot set what they hold at a time, as the machine is busy or not: each waits for its first turn.
        all_right(node, programs)


def test_a_torture_of_all_ways_to_allocate_beside_memory_that_moves():
    """It finds every piece as it left it, also what cannot move."""
    with Node() as node:
        [train] = start(node, LONG)
        until(lambda: (node.row(train.name) or {"movable_bytes": 0})["movable_bytes"] >= 96 << 20)
        torture = Program(node, "torture", ("torture",))
        out, error = torture.process.communicate(timeout=PATIENCE)
        assert torture.process.returncode == 0, (out, error)
        all_right(node, [train])


if __name__ == "__main__":
    run({name: test for name, test in globals().items() if getattr(test, "__module__", None) == "__main__"})
