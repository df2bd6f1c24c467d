# SPDX-License-Identifier: Apache-2.0
"""What is done to meted, or to an attacker's tenant, while the attacker is at work: each takes the world and the running attack."""
import os
import resource
import signal
import threading
import time

from bounds import Bound
from freezer import Freezer
from world import MIB, PATIENCE, Admin, Gone, Refused, World, parents, wait_for


def kill_meted(times, pause_s=0.15):
    def disturb(world, running):
        for _ in range(times):
            time.sleep(pause_s)
            pid = wait_for(world.daemon_pid, 10)
            if pid:
                os.kill(pid, signal.SIGKILL)
                world.again()
        wait_for(world.daemon_pid, 20)
    return disturb


def end_meted(times, pause_s=0.2):
    """In an orderly way, as an update does. World.ends has how long each took."""
    def disturb(world, running):
        for _ in range(times):
            time.sleep(pause_s)
            pid = wait_for(world.daemon_pid, 10)
            if pid:
                world.end_meted(pid)
        wait_for(world.daemon_pid, 20)
    return disturb


def end_meted_after(times):
    """Likewise, once it has done its worst."""
    def disturb(world, running):
        wait_for(lambda: running.ended or any("holds" in line for _, line in running.lines), PATIENCE)
        end_meted(times)(world, running)
    return disturb


def stop_meted(seconds):
    def disturb(world, running):
        time.sleep(0.2)
        pid = world.daemon_pid()
        os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(pid, signal.SIGCONT)
    return disturb


def close_gate(world, running):
    """The attacker's gate is closed while it runs: it need not drain."""
    wait_for(lambda: running.lines or running.ended, 10)
    for row in world.meet().list():
        if row.kind == "tenant_row" and row.name == "attacker":
            world.admin.send("gate_set", tenant=row.tenant, device=0, state=2)
    time.sleep(0.5)


def theirs(world):
    """The tenants that are not the neighbour. An attack of which none is ever found was not tried (Attack.run())."""
    world.sought = True
    try:
        with world.meeting() as admin:
            found = {row.tenant for row in admin.list() if row.kind == "tenant_row" and row.tenant != world.tenant}
    except (OSError, Gone, Refused):
        return set()
    world.met = world.met or bool(found)
    return found


def ask_of_theirs(world, message, **fields):
    """The request matters, not the answer: they may have ended, or it may be refused. On a connection of its own, as several acts may be at work:
    who shared one would wait for an answer that another has read, or on a connection that another has closed."""
    for tenant in wait_for(lambda: theirs(world), 5) or ():
        try:
            with world.meeting() as admin:
                admin.ask(message, tenant=tenant, **fields)
        except (OSError, Gone, Refused):
            pass


def close_often(world, running):
    """Its gate is closed and opened while it runs, and no acknowledgement is waited for."""
    admin = world.meet()
    for turn in range(10):
        for tenant in wait_for(lambda: theirs(world), 5) or ():
            admin.send("gate_set", tenant=tenant, device=0, state=0 if turn % 2 else 2)
        time.sleep(0.12)


def suspend(world, running):
    """Its memory leaves and comes back, again and again."""
    for _ in range(5):
        ask_of_theirs(world, "tenant_suspend", name="", suspends=1)
        time.sleep(0.15)
        ask_of_theirs(world, "tenant_suspend", name="", suspends=0)
        time.sleep(0.1)


def suspended(pauses_s, meet, rest_s=0):
    """Likewise, and meted meets that while it is out, or on its way."""
    def disturb(world, running):
        for pause_s in pauses_s:
            ask_of_theirs(world, "tenant_suspend", name="", suspends=1)
            time.sleep(pause_s)
            meet(world, running)
            ask_of_theirs(world, "tenant_suspend", name="", suspends=0)
            time.sleep(rest_s)
    return disturb


suspend_and_kill = suspended((0.05, 0.2, 0.6), kill_meted(1, 0), 0.1)
suspend_and_end = suspended((0.02, 0.2, 0.6), end_meted(1, 0))


def no_room(error):
    """Its memory leaves and comes back, and in the middle of both the store's pages are refused with that error."""
    def disturb(world, running):
        for pause_s in (0.02, 0.1, 0.3):
            ask_of_theirs(world, "tenant_suspend", name="", suspends=1)
            time.sleep(pause_s)
            world.refuse_room(error)
            time.sleep(0.3)
            ask_of_theirs(world, "tenant_suspend", name="", suspends=0)
            time.sleep(pause_s)
            world.refuse_room(None)
            time.sleep(0.1)
    return disturb


def suspend_and_set(world, running):
    """Its share is changed while its memory is out, and on its way."""
    for key, value in (("weight", "10000"), ("cap", "1%"), ("memory", "200MiB"), ("class", "batch"), ("swap", "off"), ("memory", "512MiB"), ("swap", "auto"), ("cap", "100%"), ("class", "interactive")):
        ask_of_theirs(world, "tenant_suspend", name="", suspends=1)
        time.sleep(0.05)
        ask_of_theirs(world, "tenant_set", name="", key=key, value=value)
        time.sleep(0.05)
        ask_of_theirs(world, "tenant_suspend", name="", suspends=0)
        time.sleep(0.03)


def set_shares(*pairs):
    """`mete set` of each in turn, four times."""
    def disturb(world, running):
        for key, value in pairs * 4:
            ask_of_theirs(world, "tenant_set", name="", key=key, value=value)
            time.sleep(0.1)
    return disturb


def hold(group, meanwhile, times, seconds, whom=World.attackers):
    """They are held in a group, in the midst of whatever they do; `meanwhile` is done then."""
    def disturb(world, running):
        wait_for(lambda: theirs(world), 5)
        with group() as held:
            for _ in range(times):
                time.sleep(0.3)
                held.hold(whom(world))
                if meanwhile:
                    meanwhile(world, running)
                time.sleep(seconds)
                held.release()
    return disturb


def freeze(kind, meanwhile=None, times=3, seconds=1.5):
    return hold(lambda: Freezer(kind), meanwhile, times, seconds)


def bind(kind, meanwhile=None, times=2, seconds=1.5):
    """They hardly go on."""
    return hold(lambda: Bound(kind), meanwhile, times, seconds)


def its_daemon(world):
    return [world.daemon_pid()]


def freeze_meted(kind):
    """Not as a stop does it: nobody is told."""
    return hold(lambda: Freezer(kind), None, 2, 1.5, its_daemon)


def bind_meted(kind):
    """It hardly goes on."""
    return hold(lambda: Bound(kind), None, 2, 1.0, its_daemon)


def straiten_meted(which, bytes_or_files, times=3, seconds=0.7):
    """It gets hardly more of that than it has: `bytes_or_files(pid)` in all."""
    def disturb(world, running):
        for _ in range(times):
            time.sleep(0.3)
            pid = wait_for(world.daemon_pid, PATIENCE)
            before = resource.prlimit(pid, which)
            resource.prlimit(pid, which, (bytes_or_files(pid), before[1]))
            time.sleep(seconds)
            try:
                resource.prlimit(pid, which, before)
            except ProcessLookupError:
                return  # judged by others
    return disturb


def files_and_three(pid):
    return len(os.listdir(f"/proc/{pid}/fd")) + 3


def memory_as_it_is(pid):
    return int(open(f"/proc/{pid}/statm").read().split()[0]) * resource.getpagesize()


def jump_clock(world, running):
    """The time of day is another one, forth and back, by seconds and by decades."""
    for seconds in (3600, -3600, 10, -10, 1 << 30, -(1 << 30), 86400 * 366, 0, -1 << 31, 1 << 32):
        world.put_number("clock", seconds)
        time.sleep(0.1)
    world.put_number("clock", None)


def suspend_once(world, running):
    """Its memory is to leave, and may come back."""
    ask_of_theirs(world, "tenant_suspend", name="", suspends=1)
    time.sleep(0.5)
    ask_of_theirs(world, "tenant_suspend", name="", suspends=0)


def flood_set(connections=6, seconds=2.0):
    """Its owner changes its share as fast as meted takes it, on so many connections, and reads no answer."""
    pairs = (("weight", "10000"), ("memory", "100MiB"), ("cap", "1%"), ("class", "interactive"), ("memory", "512MiB"), ("cap", "100%"), ("weight", "1"), ("class", "batch"))

    def flood(place, tenant, end):
        while time.monotonic() < end:
            try:
                admin = Admin(place)
                while time.monotonic() < end:
                    for key, value in pairs:
                        admin.send("tenant_set", tenant=tenant, name="", key=key, value=value)
            except (OSError, Gone, Refused):
                time.sleep(0.01)

    def disturb(world, running):
        end = time.monotonic() + seconds
        floods = [threading.Thread(target=flood, args=(world.place, tenant, end))
                  for tenant in wait_for(lambda: theirs(world), 5) or () for _ in range(connections)]
        for one in floods:
            one.start()
        for one in floods:
            one.join()
        ask_of_theirs(world, "tenant_set", name="", key="memory", value="512MiB")
    return disturb


def both(*disturbances):
    """All of these at once."""
    def disturb(world, running):
        threads = [threading.Thread(target=one, args=(world, running)) for one in disturbances]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    return disturb


def closers(world):
    """meted's processes that close what peers sent: pid -> state."""
    meted, found = world.daemon_pid(), {}
    for pid, (parent, name) in parents().items():
        if parent == meted and name == "mete-close":
            try:
                found[pid] = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0]
            except OSError:
                pass
    return found


def kill_closers(world, running):
    """Each as soon as it is seen."""
    end = time.monotonic() + 2
    while time.monotonic() < end:
        for pid in closers(world):
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


RESIZED = (("memory", "20MiB"), ("memory", "400MiB"), ("memory", "512MiB"))
