#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""As protocol.py: attackers that forge figures of turns, of the store and of their page, lend and borrow, and use the admin socket.

Some are disturbed meanwhile (rows.py): suspended and resumed, or their gate is closed and opened."""
import fcntl
import os
import random
import signal
import socket
import struct
import sys
import threading
import time

import protocol
from protocol import KEPT, SECONDS, SOCKET, flood, joined, quietly, rounds, stored
from meted import MIB, PAGE, Admin, Gone, Guest, Here, encode

PLACE = os.path.dirname(os.path.dirname(os.path.dirname(SOCKET)))
MOST = (1 << 64) - 1
# Where figures are in struct wire_own_page.
SUBMISSIONS, WAITING, MOVES, CAPTURES, DEVICE, ADRIFT, LOOSE, OTHERS, WAITING_ON, FLIGHT, MOVABLE, OVERSIZE, STOCKED = (
    8, 24, 32, 56, 64, 576, 704, 832, 960, 1088, 1216, 1728, 1856)


def put(guest, at, *figures):
    struct.pack_into(f"<{len(figures)}Q", guest.own, at, *figures)


def heard(guest):
    """meted's message now; None: none within a tenth of a second."""
    guest.socket.settimeout(0.1)
    try:
        return guest.receive_any()
    except socket.timeout:
        return None


def in_child(work):
    child = os.fork()
    if child == 0:
        quietly(work)
        os._exit(0)
    return child


def hold(guest, bytes=200 * MIB):
    """Its inventory, credit, and figures that resemble those of a program at work."""
    quietly(lambda: guest.ask("inventory_end", devices=1))
    quietly(lambda: guest.credit(bytes))
    guest.allocated(bytes)


# ---- turns ----------------------------------------------------------------------------------------


def flight_forged():
    """claims that centuries of work are under way, then none, then less than none"""
    guest = joined()
    hold(guest)
    for turn, _ in enumerate(rounds()):
        put(guest, FLIGHT, (MOST, 0, 1 << 63, 10 ** 18)[turn % 4])
        guest.send("wants" if turn % 2 else "idle", device=0)
        time.sleep(0.002)


def waits_forged():
    """claims that threads wait at its gate, which is open, more and more of them"""
    guest = joined()
    hold(guest)
    for turn, _ in enumerate(rounds()):
        put(guest, WAITING, turn * (1 << 40))
        put(guest, WAITING_ON, MOST - turn)
        guest.send("wants", device=0)
        time.sleep(0.002)


def wants_storm():
    """WANTS and IDLE without end, of devices that are there and that are not"""
    flood(joined(), *[encode(name, n + 1, device=n % 18) for n in range(36) for name in ("wants", "idle")])


def drained_early():
    """acknowledges each close before it comes, by every epoch, and goes on"""
    guest = joined()
    hold(guest)
    for _ in rounds():
        epoch = guest.shown()["epoch"]
        for ahead in range(64):
            guest.send("drained", device=0, epoch=epoch + ahead)
        put(guest, SUBMISSIONS, random.getrandbits(63))
        put(guest, FLIGHT, 10 ** 12)
        time.sleep(0.003)


def drained_never():
    """acknowledges no close, and claims that a capture is open"""
    guest = joined()
    hold(guest)
    guest.captures(MOST)
    for _ in rounds():
        guest.send("wants", device=0)
        heard(guest)


def drained_backwards():
    """acknowledges closes by epochs of the past, and of other devices"""
    guest = joined()
    hold(guest)
    for _ in rounds():
        message = heard(guest)
        epoch = message.epoch if message and message.kind == "gate" else guest.shown()["epoch"]
        for back in range(1, 20):
            guest.send("drained", device=back % 3, epoch=(epoch - back) & MOST)


def times_backwards():
    """every figure of its page that only grows goes back, and calls end that never began"""
    guest = joined()
    hold(guest)
    for turn, _ in enumerate(rounds()):
        put(guest, SUBMISSIONS, MOST - turn)
        put(guest, MOVES, 5, 1 << 40, MOST - turn)
        put(guest, DEVICE + 24, MOST - turn)
        put(guest, OTHERS, MOST - turn)
        quietly(lambda: guest.send("residual_settle", device=0, contexts=1, bytes=0))
        time.sleep(0.002)


def moves_never_still():
    """claims that a call is always in the middle of changing what it holds, and asks to be measured"""
    guest = joined()
    hold(guest)
    put(guest, MOVES, 10, 3)
    for turn, _ in enumerate(rounds()):
        put(guest, MOVES, 10 + turn, 3 + turn % 7)
        quietly(lambda: guest.send("residual_check", device=0))
        quietly(lambda: guest.send("credit_ask", device=0, wait=1, bytes=40 * MIB, want=80 * MIB))
        time.sleep(0.005)


def kinds_forged():
    """claims that all it has is adrift, loose, stocked, managed and out, more than there is"""
    guest = joined()
    hold(guest, 400 * MIB)
    for turn, _ in enumerate(rounds()):
        for at in (ADRIFT, LOOSE, OVERSIZE, STOCKED):
            put(guest, at, (MOST, 1 << 62, 0, 300 * MIB)[turn % 4])
        put(guest, MOVABLE, MOST, 1 << 50, MOST, random.getrandbits(64))
        quietly(lambda: guest.give_back(20 * MIB))
        quietly(lambda: guest.credit(20 * MIB))


# ---- the store ------------------------------------------------------------------------------------


def moved_never():
    """hears what is to leave and to come, and does nothing"""
    guest, _ = stored(300 * MIB)
    for _ in rounds():
        heard(guest)
        put(guest, MOVABLE, 300 * MIB, 0, 0, 0)


def moved_at_once():
    """reports every order as done, and that all came back, whatever its page has"""
    guest, _ = stored(300 * MIB)
    for _ in rounds():
        message = heard(guest)
        if message and message.kind == "move":
            quietly(lambda: guest.send("moved", device=0, generation=message.generation, stopped=1, left=message.leave, copied=0,
                                       entered=message.enter, returned=message.enter, dropped=message.drop, failed=0))


def moved_forth_and_back():
    """takes the orders of one generation for another's, and fails of all blocks after they left"""
    guest, _ = stored(300 * MIB)
    for turn, _ in enumerate(rounds()):
        message = heard(guest)
        generation = message.generation if message and message.kind == "move" else turn
        for off in (1, -1, 0):
            quietly(lambda: guest.send("moved", device=0, generation=(generation + off) % (1 << 32), stopped=turn % 2, left=200 * MIB,
                                       copied=300 * MIB, entered=0, returned=0, dropped=0, failed=1 << 31))


def segments_of_the_dying():
    """processes that claim segments and are killed at once, one after another"""
    def claim():
        guest = Guest(SOCKET, timeout=2, seat=Here())
        guest.ask("inventory_end", devices=1)
        guest.ask("store_ask", device=0)
        guest.ask("credit_ask", device=0, wait=0, bytes=64 * MIB, want=64 * MIB, movable=1)
        guest.allocated(64 * MIB)
        put(guest, MOVABLE, 64 * MIB, 0, 0, 0)
        guest.send("segment_ask", device=0, bytes=32 * MIB)
        guest.send("segment_ask", device=0, bytes=32 * MIB)
        os.kill(os.getpid(), signal.SIGKILL)

    for _ in rounds():
        for child in [in_child(claim) for _ in range(3)]:
            os.waitpid(child, 0)


def segments_of_many():
    """24 processes that each claim all the segments they may and never use one"""
    for _ in range(24):
        in_child(lambda: (flood(stored(20 * MIB)[0], encode("segment_ask", 1, device=0, bytes=2 * MIB)), time.sleep(60)))
    time.sleep(SECONDS + 0.5)


def store_filled():
    """maps its tenant's whole file and writes to each page, claimed or not"""
    guest, file = stored()
    size = min(os.fstat(file).st_size, 512 * MIB)
    for offset in range(0, size, 16 * MIB):
        quietly(lambda: os.pwrite(file, b"x" * (16 * MIB), offset))
        quietly(lambda: guest.send("segment_ask", device=0, bytes=2 * MIB))


def store_locked():
    """locks of every kind on its tenant's file, leases and notices among them, and segments asked for"""
    guest, file = stored()
    for turn, _ in enumerate(rounds()):
        quietly(lambda: fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB))
        quietly(lambda: fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB))
        quietly(lambda: fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK if turn % 2 else fcntl.F_RDLCK))
        quietly(lambda: fcntl.fcntl(file, fcntl.F_NOTIFY, fcntl.DN_MODIFY | fcntl.DN_MULTISHOT))
        quietly(lambda: guest.send("segment_ask", device=0, bytes=2 * MIB))


def descriptors_passed():
    """its pages, its store and its connection lie in a socket of another process, which ends last"""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    child = in_child(lambda: (here.close(), time.sleep(30)))
    for _ in rounds():
        if len(KEPT) > 60:
            break
        guest = quietly(lambda: stored(4 * MIB)[0])
        if guest:
            quietly(lambda: socket.send_fds(here, [b"x"], [*guest.fds, guest.socket.fileno()], socket.MSG_DONTWAIT))
            guest.close()
    return child


# ---- pages ----------------------------------------------------------------------------------------


def page_punched():
    """punches holes in its own page and in its tenant's, and asks for all"""
    guest = joined()
    hold(guest)
    for _ in rounds():
        for fd in guest.fds:
            quietly(lambda: os.posix_fallocate(fd, 0, PAGE))
            protocol.filelock.libc.fallocate(fd, 3, 0, PAGE)
        quietly(lambda: guest.credit(10 * MIB))
        quietly(lambda: guest.give_back(10 * MIB))


def page_of_the_dead():
    """its page is written by a child after it ended and came back as another process"""
    def scribble(own):
        end = time.monotonic() + 2 * SECONDS
        while time.monotonic() < end:
            own[:] = random.randbytes(PAGE)

    for _ in range(6):
        guest = quietly(joined)
        if guest:
            hold(guest, 60 * MIB)
            in_child(lambda: scribble(guest.own))
            guest.seat.end()
        time.sleep(SECONDS / 6)


# ---- identities -----------------------------------------------------------------------------------


def hello_of_others():
    """HELLO with the process of init, of a sibling, of the neighbour, of meted, and of nobody"""
    parent = os.getppid()
    admin = Admin(PLACE)
    pids = [1, parent, admin.welcome.pid, 0, 1 << 31, *[row.pid for row in admin.list() if row.kind == "guest_row"]]
    for _ in rounds():
        for pid in pids:
            peer = quietly(protocol.bare)
            if peer:
                quietly(lambda: peer.send(encode("hello", 1, major=1, pid=pid, driver_version=12090, program="other", copy=pid)))
                quietly(lambda: peer.send(encode("credit_ask", 2, device=0, wait=0, bytes=100 * MIB, want=100 * MIB)))
                peer.close()


def hello_by_heir():
    """a process connects and ends, and its heir says HELLO in its name and takes"""
    for _ in range(8):
        made, here = os.pipe()
        if os.fork() == 0:
            peer = protocol.bare()
            dead = os.getpid()
            if os.fork() == 0:
                time.sleep(0.05)
                quietly(lambda: peer.send(encode("hello", 1, major=1, pid=dead, driver_version=12090, program="heir")))
                quietly(lambda: peer.recv(8192))
                for n in range(20):
                    quietly(lambda: peer.send(encode("credit_ask", n + 2, device=0, wait=0, bytes=60 * MIB, want=60 * MIB)))
                os.write(here, b"y")
                time.sleep(60)
            os._exit(0)
        os.read(made, 1)


def copies_many():
    """one process with a connection for each of 60 copies of the library, each takes credit"""
    seat = Here()
    for copy in range(60):
        guest = quietly(lambda: Guest(SOCKET, timeout=2, seat=seat, copy=copy + 1))
        if guest:
            KEPT.append(guest)
            quietly(lambda: guest.credit(100 * MIB))


def execs_connected():
    """takes credit, and becomes another program with the connection and the pages open"""
    guest = Guest(SOCKET, timeout=2, seat=Here())
    hold(guest, 300 * MIB)
    for fd in (guest.socket.fileno(), *guest.fds):
        os.set_inheritable(fd, True)
    os.execv(os.environ["HOSTILE_ATTACK"], ["attack", "take-linear"])


def inventories_of_many():
    """eight processes that state the whole limit, each time that meted is there again before the neighbour"""
    def state():
        seat = Here()
        while True:
            guest = quietly(lambda: Guest(SOCKET, timeout=2, seat=seat))
            if not guest:
                time.sleep(0.005)
                continue
            quietly(lambda: guest.ask("inventory", device=0, contexts=9, allocated=512 * MIB, credit=512 * MIB))
            quietly(lambda: guest.ask("inventory_end", devices=1))
            quietly(lambda: guest.credit(400 * MIB))
            guest.socket.settimeout(None)
            try:
                while True:
                    guest.receive_any()
            except (OSError, Gone):
                guest.hang_up()

    for _ in range(8):
        in_child(state)
    time.sleep(2 * SECONDS)


# ---- lending --------------------------------------------------------------------------------------


def borrows_unread():
    """lends, reads nothing, and a sibling borrows from it without end: each time two descriptors"""
    name = random.randbytes(16)
    lender, borrower = joined(), joined()
    for guest in lender, borrower:
        quietly(lambda: guest.ask("inventory_end", devices=1))
    lender.ask("lend", name=name)
    flood(borrower, encode("borrow", 1, name=name, area=0))


def channels_kept():
    """borrows a thousand channels, keeps every one of them and sends nothing on them"""
    name = random.randbytes(16)
    lender = joined()
    quietly(lambda: lender.ask("inventory_end", devices=1))
    lender.ask("lend", name=name)
    threading.Thread(target=lambda: quietly(lambda: [lender.receive_any() for _ in range(2000)]), daemon=True).start()
    borrower = joined()
    quietly(lambda: borrower.ask("inventory_end", devices=1))
    for n in range(1000):
        if not quietly(lambda: borrower.ask("borrow", name=name, area=n)):
            break


def names_lent():
    """lends by the name of nobody, of a sibling and of another, borrows from itself and from all of them"""
    names = [bytes(16), b"\xff" * 16, random.randbytes(16)]
    guests = [joined() for _ in range(4)]
    for turn, _ in enumerate(rounds()):
        guest, name = guests[turn % 4], names[turn % 3]
        quietly(lambda: guest.send("lend", name=name))
        quietly(lambda: guest.send("borrow", name=random.choice([*names, random.randbytes(16)]), area=turn))
        if turn % 50 == 0:
            for each in guests:
                each.socket.settimeout(0.001)
                quietly(lambda: [each.receive_any() for _ in range(60)])


# ---- the admin socket -----------------------------------------------------------------------------


def own_number():
    return int(os.path.basename(os.path.dirname(SOCKET)).split("-")[0])


def suspends_neighbour():
    """asks that the neighbour's memory leaves, and every other tenant's, by number and by name"""
    admin = Admin(PLACE)
    for _ in rounds():
        quietly(lambda: admin.ask("tenant_suspend", tenant=0, name="neighbour", suspends=1))
        for tenant in range(20):
            if tenant != own_number():
                quietly(lambda: admin.ask("tenant_suspend", tenant=tenant, name="", suspends=1))


def sets_bent():
    """`mete set` of itself by keys and values that nobody knows, too long, of control characters, and contradictory"""
    admin = Admin(PLACE)
    KEPT.append(admin)
    keys = ["weight", "cap", "guarantee", "class", "mode", "escalate", "wait", "idle", "swap", "oversize", "owner", "limit", "", "\x1b[2J"]
    values = ["", "0", "-1", "100%", "101%", "10000", "1e9", "interactive", "auto", "fixed:9/2", "fixed:1/0", "\x00", "\n" * 50, "x" * 255]
    for _ in rounds():
        more = "\n".join(f"{random.choice(keys)}={random.choice(values)}" for _ in range(3))[:255]
        quietly(lambda: admin.ask("tenant_set", tenant=own_number(), name="", key=random.choice(keys), value=random.choice(values), more=more))


def tenants_storm():
    """makes tenants within itself, without end, with names of control characters, and leaves"""
    names = ["neighbour", "attacker", "\x1b]0;x\x07", "a\nb", "\u202e" * 40, "%s%n", "../..", "tenant 1", "0"]
    for _ in rounds():
        admin = quietly(lambda: Admin(PLACE))
        for name in names if admin else ():
            quietly(lambda: admin.ask("tenant_new", name=name, memory="512MiB", device="", outer=SOCKET))
        if admin:
            admin.close()


def keeps_by_others():
    """has its tenant kept by 60 processes that end, by itself and by one that is not there"""
    admin = Admin(PLACE)
    for pid in (1 << 30, 0, os.getpid()):
        quietly(lambda: admin.ask("tenant_keep", tenant=own_number(), pid=pid))
    children = [in_child(lambda: time.sleep(0.2)) for _ in range(60)]
    for child in children:
        quietly(lambda: admin.ask("tenant_keep", tenant=own_number(), pid=child))
    admin.close()


def picks_hoarded():
    """reserves every device for a century on 30 connections"""
    for _ in range(30):
        admin = quietly(lambda: Admin(PLACE))
        if admin:
            KEPT.append(admin)
            for device in ("0", "1", "", "GPU-none"):
                quietly(lambda: admin.ask("device_reserve", device=device, hold=MOST))


def admin_bent():
    """admin messages cut, in the wrong order, before HELLO, and of guests, beside lists that nobody reads"""
    for _ in rounds():
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        quietly(lambda: peer.connect(PLACE + "/admin.sock"))
        peer.settimeout(0.5)
        if random.random() < 0.7:
            quietly(lambda: peer.send(encode("admin_hello", 1, major=1)))
        for name in ("list", "tenant_keep", "tenant_new", "tenant_set", "hello", "store_ask", "borrow", "moved"):
            whole = encode(name, random.randrange(9), **({"tenant": random.randrange(9)} if name in ("list", "tenant_keep", "tenant_set") else {}))
            quietly(lambda: peer.send(whole[:random.randrange(1, len(whole) + 1)]))
            quietly(lambda: peer.send(encode("list", 3, tenant=0)))
        peer.close()


HELPERS = {"put", "heard", "in_child", "hold", "own_number"}

if __name__ == "__main__":
    protocol.main(protocol.catalogue(sys.modules["__main__"], HELPERS))
