#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A bounded part of `make bench BENCH=hostile`: attacks beside a neighbour. argv[1]: the build's folder."""
import errno
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from apart import apart  # noqa: E402
from rows import rows  # noqa: E402
from spent import judged, others  # noqa: E402
from world import ADMITTED, ESCAPED, HELD, LIMIT, PATIENCE, Attack, Reader, World, readme, run, wait_for  # noqa: E402
from runner import Skipped  # noqa: E402  (world.py says where it is)

BUILD = os.path.abspath(sys.argv[1])
HOST = 2048  # of `unmovable`


def test_attacks_get_no_more_than_their_limit_and_harm_nobody():
    """How long the neighbour waits is a matter of the machine's load: only the benchmark judges that."""
    quick = [attack for attack in rows(BUILD) if attack.quick]
    for daemon in sorted({attack.daemon or "" for attack in quick}):
        with World(BUILD, daemon=daemon) as world:
            for attack in quick:
                if (attack.daemon or "") != daemon:
                    continue
                outcome, why = attack.run(world, judge_time=False)
                print(f"{attack.name}: {outcome} {why}", flush=True)
                assert outcome == (ADMITTED if attack.admitted else HELD), (attack.name, outcome, why)


def test_admitted_gaps_are_in_the_readme_and_really_so():
    admitted = [attack for attack in rows(BUILD) if attack.admitted]
    assert admitted and all(attack.admitted in readme() for attack in admitted)


def test_the_judge_sees_an_escape():
    """One that is admitted, were it not."""
    with World(BUILD) as world:
        program = [world.program("attack"), "absolute_path"]
        outcome, why = Attack("escape", "", program).run(world, judge_time=False)
        assert outcome == ESCAPED and "beyond the limit" in why, (outcome, why)


def test_a_cap_is_judged_by_all_that_was_computed_but_the_neighbours():
    """Also by processes that have left the ledger. Copies are not counted, and what computed nothing has tried no cap."""
    ledger = ("device 0 lane compute busy_ns 9000\ndevice 0 lane within busy_ns 70\ndevice 1 lane compute busy_ns 500\n"
              "process 12 neighbour device 0 compute_ns 2000 kernels 1 alive\nprocess 13 attack device 0 compute_ns 2500 kernels 1 alive\n")
    assert others(ledger, 12) == 7500
    assert not judged(20, 2_400_000_000, 10.0)[0] and judged(20, 2_600_000_000, 10.0)[0]
    assert judged(20, 9_000_000_000, 9.9)[0], "an attack that is over sooner is judged, too"
    assert judged(20, 0, 10.0)[0] is None and "not tried" in judged(20, 0, 10.0)[1]


def test_memory_that_could_not_leave_for_want_of_the_hosts_leaves_when_there_is_some():
    """It is tried again and again; that it fails is said once, and not each time. Nobody is called stuck for it, or killed."""
    for error in errno.ENOMEM, errno.EROFS:
        with World(BUILD, daemon="no_room") as world:
            def said():
                return open(world.folder + "/errors").read()

            running = Reader(world.mete_run("it", LIMIT, world.program("attack"), "take-linear", options=("--swap", "auto", "--escalate", "kill")))
            assert wait_for(lambda: running.lines, PATIENCE), said()
            [tenant] = {row.tenant for row in world.meet().list() if row.kind == "tenant_row" and row.name == "it"}
            world.refuse_room(error)
            world.admin.ask("tenant_suspend", tenant=tenant, name="", suspends=1)
            # Another one asks for its room, and its sentence names the culprit.
            other = error == errno.ENOMEM and Reader(world.mete_run("other", LIMIT, world.program("attack"), "take-linear", options=("--swap", "auto")))
            assert wait_for(lambda: "tenant.unhoused" in said(), PATIENCE), said()
            assert not other or wait_for(lambda: f"the host has no memory for what tenant {tenant} (it)" in said(), PATIENCE), said()
            assert "stuck" not in said() and "tenant.killed" not in said() and not running.ended, said()
            assert said().count(f"store.failed tenant={tenant} ") == 1, said()
            assert world.admin.tenant_row(tenant).movable, "it is still there"
            shown = subprocess.run([BUILD + "/cli/mete", "ps"], env=world.environment, text=True, capture_output=True, check=True).stdout
            assert "the host has no memory for what is to leave" in shown and "as it was told" not in shown, shown
            world.refuse_room(None)
            assert wait_for(lambda: not world.admin.tenant_row(tenant).movable, PATIENCE), (errno.errorcode[error], world.admin.tenant_row(tenant))
            row = world.admin.tenant_row(tenant)
            assert row.out and not row.unmovable & HOST, row


def test_another_library_that_wraps_dlsym_keeps_nobody_from_the_driver():
    """The guest would find that library's functions in the place of the driver's, and itself behind them."""
    with World(BUILD) as world:
        for attack in rows(BUILD):
            if attack.name.startswith("interposed_"):
                outcome, why = attack.run(world, judge_time=False)
                assert outcome == HELD and why.startswith(f"{LIMIT >> 20} MiB at most"), (attack.name, outcome, why)


def test_no_room_is_waited_for_where_a_program_lacks_addresses():
    """Each of its hundred requests would take ten seconds."""
    with World(BUILD) as world:
        running = Reader(world.mete_run("it", LIMIT, world.program("attack"), "both_little_space", options=("--swap", "auto")))
        assert wait_for(lambda: running.lines, PATIENCE), world.said()


def test_an_attacker_cannot_signal_who_is_outside():
    """To root kill(-1) is everybody who has a number: here that is us, and who descends from us."""
    if os.geteuid():
        raise Skipped("without root, an attacker's user is not everybody's; run it as root")
    assert (os.getpid(), os.getppid(), os.readlink("/proc/self")) == (1, 0, "1"), (os.getpid(), os.getppid(), os.readlink("/proc/self"))


def test_enough_is_attacked_and_each_by_a_name_of_its_own():
    names = [attack.name for attack in rows(BUILD)]
    assert len(names) >= 60 and len(names) == len(set(names))


apart()
run(globals())
