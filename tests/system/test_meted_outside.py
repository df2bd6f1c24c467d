#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory that no tenant holds: it is shown, named in a refusal and waited for."""
from machine import *


def outsider(here, size, then="sys.stdin.read()"):
    """A program of root that passes mete by, and holds so much until its stdin is closed."""
    process = subprocess.Popen([sys.executable, "-c", f"""
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
context, at = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0
assert cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t({size})) == 0
print("has it", flush=True)
{then}
"""], env=here.environment, cwd="/", text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    here.started.append(process)
    assert process.stdout.readline() == "has it\n"
    return process


def test_memory_that_no_tenant_holds_is_shown_named_and_waited_for():
    with Machine() as here:
        other = outsider(here, 3950 * MIB)
        shown = here.ps(ALICE)
        row = shown["outside"][0]
        assert (row["pid"], row["user"]) == (other.pid, "root") and row["used_bytes"] >= 3950 * MIB and "python" in row["program"], shown
        assert shown["devices"][0]["outside_bytes"] == row["used_bytes"]
        refused = here.mete(ALICE, "run", "--", program("vector-add"), "size=2M")
        says(refused, "the device is full", "outside mete (python", f"pid {other.pid}")
        waiting = here.start(ALICE, "run", "--wait", "1h", "--name", "patient", "--", program("vector-add"), "size=2M")
        row = until(lambda: (found := here.tenant("patient")) and found.get("waiting_bytes") and found)
        assert row["waiting"] == 1 and row["waiting_ns"] > 0
        other.stdin.close()
        other.wait()
        out, err = waiting.communicate(timeout=PATIENCE)
        assert waiting.returncode == 0 and " ok " in out, err
        assert here.ps()["outside"] == [] and here.ps()["devices"][0]["outside_bytes"] == 0


def test_the_largest_of_several_outside_comes_first():
    with Machine() as here:
        small, large = outsider(here, 100 * MIB), outsider(here, 1000 * MIB)
        assert [row["pid"] for row in here.ps(ALICE)["outside"]] == [large.pid, small.pid]


def test_memory_of_a_program_counts_until_all_of_it_has_ended():
    with Machine() as here:
        other = outsider(here, 3950 * MIB, then=f"""
import threading
threading.Thread(target=lambda: (sys.stdin.read(), __import__("os")._exit(0))).start()
ctypes.CDLL(None).syscall({EXIT_THREAD}, 0)
""")
        # Its first thread has ended, and with it, as far as /proc shows, its memory.
        until(lambda: open(f"/proc/{other.pid}/stat").read().rpartition(") ")[2][0] == "Z")
        shown = here.ps(ALICE)
        assert [row["pid"] for row in shown["outside"]] == [other.pid], shown
        waiting = here.start(ALICE, "run", "--wait", "1h", "--name", "patient", "--", program("vector-add"), "size=2M")
        until(lambda: (found := here.tenant("patient")) and found.get("waiting_bytes"))
        other.stdin.close()
        other.wait()
        out, err = waiting.communicate(timeout=PATIENCE)
        assert waiting.returncode == 0 and " ok " in out, err


main(globals())
