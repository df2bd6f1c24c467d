#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A GPU is divided while its tenants' memory is out, and in the store is no room for the new parts. argv[3]: the build's folder."""
import contextlib
import json
import subprocess

from mover import *

BUILD = sys.argv.pop(3)
HELD = 12 * CHUNK  # of a store of 32: nothing moves with a seventh of the rest, and something does with a seventh of all
SMALL = CHUNK // 4  # a part that has come has room for that, when it has all that it may have


@contextlib.contextmanager
def parts():
    if os.geteuid():
        raise Skipped("only the system's meted looks for divisions, and root starts it; run it as root")
    with tempfile.TemporaryDirectory(prefix="mete-sim-") as sim:
        settings = {"METE_SIM_DIR": sim, "METE_SIM_DEVICES": "1xH100", "METE_SIM_PARTS": "0:2x3g.40gb", "LD_LIBRARY_PATH": sys.argv[2]}
        with Node(store=32 * CHUNK, environment=settings, role="--system") as meted:
            meted.sim = sim
            yield meted


def divide(meted, **kinds):
    """As an administrator does it who has no other program in the way."""
    path = meted.sim + "/mig.json"
    with open(path, "w") as file:
        json.dump({"version": "v1", "mig-configs": {"it": [{"devices": [0], "mig-enabled": True, "mig-devices": kinds}]}}, file)
    subprocess.run([BUILD + "/cli/mete", "mig", "apply", "-f", path, "-c", "it"], check=True, timeout=PATIENCE,
                   env=dict(meted.environment, XDG_RUNTIME_DIR=meted.sim))


def seven(meted):
    divide(meted, **{"1g.10gb": 7})
    until(lambda: meted.log().count("device.found") == 9 and meted.log().count("device.gone") == 2, meted.log)


def suspended(meted, mover):
    """All of it is out."""
    meted.admin.ask("tenant_suspend", tenant=mover.made.tenant, name="", suspends=1)
    meted.play(lambda: mover.here() == 0)


def refusal(meted, mover):
    try:
        meted.admin.ask("tenant_suspend", tenant=mover.made.tenant, name="", suspends=1)
    except Refused as refused:
        return str(refused)
    return ""


def note(meted, device="2"):
    """The sentence for a tenant that wants memory that moves there: on a part that has come."""
    return meted.admin.tenant(name="told", memory="64MiB", swap="auto", device=device).note


def leaves(meted, mover):
    """As soon as its part has grown enough: what the others had is cleared piece by piece."""
    until(lambda: refusal(meted, mover) == "", lambda: refusal(meted, mover))
    meted.play(lambda: mover.here() == 0)
    assert note(meted) == ""


def test_memory_that_is_out_of_a_part_that_a_division_takes_comes_back_and_then_the_new_parts_have_room():
    with parts() as meted:
        a = meted.mover("a", HELD, device="0")
        suspended(meted, a)
        seven(meted)
        told = note(meted)
        assert f"nothing moves for now: the store has {mib(20 * CHUNK // 7)} for each device, and needs more than {mib(4 * CHUNK)}" in told, told
        b = meted.mover("b", SMALL, device="2")
        assert "the store has no room for the memory of tenant" in refusal(meted, b), "it was promised what the part that is gone has"
        meted.admin.ask("tenant_suspend", tenant=a.made.tenant, name="", suspends=0)
        a.wants()
        meted.play(lambda: a.out() == 0 and a.is_whole())
        a.close()
        meted.movers.remove(a)
        leaves(meted, b)
        assert "daemon.again" not in meted.log()
        meted.ends()


def test_tenants_of_a_part_that_is_gone_that_are_killed_while_out_leave_their_store_to_the_new_parts():
    with parts() as meted:
        a = meted.mover("a", HELD, device="0")
        suspended(meted, a)
        seven(meted)
        assert note(meted)
        a.close()
        meted.movers.remove(a)
        b = meted.mover("b", SMALL, device="2")
        leaves(meted, b)
        meted.ends()


def test_an_ask_that_waits_when_a_division_takes_its_part_is_answered():
    """Nothing moves on a part that is gone: memory on it stays, and a suspend that waits for it to leave is told why it will not."""
    with parts() as meted:
        a = meted.mover("a", HELD, device="0")
        b = meted.mover("b", device="0")
        a.obeys = False
        row = meted.admin.device_row(0)
        wanted = row.capacity - row.reserve - HELD + 4 * CHUNK
        b.allocate(wanted)
        meted.play(lambda: meted.row(b).waiting)
        seven(meted)
        meted.play(lambda: not b.asked)
        assert b.refusal and "neither the device nor the store has room" in b.refusal.reason and "0MiB in the store" in b.refusal.reason, b.refusal
        a.obeys = True
        meted.play(a.is_whole)
        # Room that is there needs no store.
        a.close()
        meted.movers.remove(a)
        b.refusal = None
        b.allocate(wanted)
        meted.play(lambda: not b.asked)
        assert not b.refusal and b.here() == wanted, b.refusal
        assert "daemon.again" not in meted.log()
        meted.ends()


def test_a_part_that_a_division_brings_back_has_its_tenants_memory_as_it_was():
    with parts() as meted:
        a = meted.mover("a", HELD, device="0")
        suspended(meted, a)
        seven(meted)
        divide(meted, **{"3g.40gb": 2})
        until(lambda: meted.log().count("device.back") == 2, meted.log)
        assert note(meted, "0") == "", "each of two devices has half of the store"
        meted.admin.ask("tenant_suspend", tenant=a.made.tenant, name="", suspends=0)
        a.wants()
        meted.play(lambda: a.out() == 0 and a.is_whole())
        meted.ends()


if __name__ == "__main__":
    run(globals(), at_once=4)
