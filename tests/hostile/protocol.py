#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attackers that speak the protocol themselves, for world.py: `protocol.py NAME` under `mete run`; `--list`.

Each does its worst for a second or so, prints "holds", and stays until its standard input ends.
"""
import array
import fcntl
import os
import random
import resource
import socket
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
import filelock  # noqa: E402
from meted import *  # noqa: E402

SOCKET = os.environ.get("METE_SOCKET", "")
SECONDS = float(os.environ.get("HOSTILE_SECONDS", "1"))
KEPT = []  # connections that stay open


def rounds():
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        yield


def bare():
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    peer.connect(SOCKET)
    peer.settimeout(2)
    return peer


def joined(**more):
    guest = Guest(SOCKET, timeout=2, **more)
    KEPT.append(guest)
    return guest


def flood(guest, *frames):
    """As much as it takes, for the whole time, without reading an answer."""
    guest.socket.setblocking(False)
    for _ in rounds():
        try:
            for frame in frames:
                guest.socket.send(frame)
        except BlockingIOError:
            time.sleep(0.001)
        except OSError:
            return


def quietly(action):
    try:
        return action()
    except (OSError, Gone, Refused, AssertionError, AttributeError, KeyError, struct.error):
        return None


def hello_storm():
    """connects, says HELLO and leaves, as fast as it can"""
    for _ in rounds():
        guest = quietly(lambda: Guest(SOCKET, timeout=2))
        if guest:
            guest.close()


def hello_again():
    """HELLO again and again on one connection"""
    flood(joined(), encode("hello", 1, major=1, pid=os.getpid(), program="again"))


def ask_storm():
    """CREDIT_ASK without end, answers unread"""
    flood(joined(), encode("credit_ask", 1, device=0, wait=1, bytes=MIB, want=MIB))


def ask_return_storm():
    """asks and returns the same bytes without end"""
    guest = joined()
    for _ in rounds():
        if quietly(lambda: guest.credit(200 * MIB)):
            quietly(lambda: guest.give_back(200 * MIB))


def odd_sizes():
    """0, all bytes, and sums that overflow, by every message that has a size"""
    guest = joined()
    for bytes in (0, 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, (1 << 64) - 4096):
        for message in ("credit_ask", "credit_return", "residual_ask", "residual_settle"):
            for want in (0, (1 << 64) - 1):
                fields = dict(device=0, bytes=bytes, **({"want": want} if message == "credit_ask" else {}))
                guest.send(message, **fields)
    quietly(lambda: [guest.receive() for _ in range(24)])


def unread_replies():
    """lists of processes asked for and never read"""
    flood(joined(), encode("processes_ask", 1, device=0))


def unread_by_many():
    """100 connections of as many processes that ask for lists and read nothing"""
    for _ in range(100):
        if os.fork() == 0:
            quietly(lambda: flood(joined(), encode("processes_ask", 1, device=0)))
            time.sleep(60)
            os._exit(0)
    time.sleep(SECONDS + 1)


def list_storm():
    """LIST on the user's own admin socket without end, unread"""
    admin = Admin(os.path.dirname(os.path.dirname(os.path.dirname(SOCKET))))
    KEPT.append(admin)
    flood(admin, encode("list", 1, tenant=0))


def half_messages():
    """frames that are cut, and that lie about their length"""
    whole = encode("credit_ask", 7, device=0, wait=0, bytes=MIB, want=MIB)
    for _ in rounds():
        for cut in range(0, len(whole), 3):
            peer = quietly(bare)
            if peer:
                quietly(lambda: peer.send(whole[:cut] or b"m"))
                quietly(lambda: peer.send(whole[:6] + struct.pack("<H", random.randrange(65536)) + whole[8:]))
                peer.close()


def noise():
    """random bytes, after HELLO and before"""
    for _ in rounds():
        peer = quietly(lambda: Guest(SOCKET, timeout=2).socket if random.random() < 0.5 else bare())
        for _ in range(20):
            if peer:
                quietly(lambda: peer.send(random.randbytes(random.randrange(1, 4096))))


def bent_messages():
    """valid frames of every kind with random fields, from both sides"""
    guest = joined()
    for _ in rounds():
        name = random.choice(list(MESSAGES))
        fields = {field: random.choice([0, 1, random.getrandbits(32)]) if kind in ("u32", "u64") else
                  random.randbytes(16) if kind == "uuid" else "x" * random.randrange(200) for kind, field in MESSAGES[name][1]}
        try:
            guest.send(name, **fields)
            guest.socket.setblocking(False)
            quietly(lambda: guest.socket.recv(8192))
            guest.socket.settimeout(2)
        except (Gone, OSError):
            fresh = quietly(joined)
            guest = fresh or guest
            time.sleep(0.01)


def descriptors_sent():
    """descriptors beside messages, 100 at a time"""
    for _ in rounds():
        guest = quietly(lambda: Guest(SOCKET, timeout=2))
        if guest:
            quietly(lambda: guest.socket.sendmsg([encode("credit_ask", 5, device=0, bytes=1, want=1)],
                                                 [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0] * 100))]))
            guest.close()


def other_majors():
    """other versions of the protocol, again and again"""
    for _ in rounds():
        peer = quietly(bare)
        if peer:
            quietly(lambda: peer.send(encode("hello", 1, major=random.getrandbits(31) + 2, pid=1)))
            peer.close()


def inventory_lies():
    """an inventory of all there is, in memory, credit and contexts"""
    guest = joined()
    for _ in range(3):
        quietly(lambda: guest.ask("inventory", device=0, contexts=0xFFFFFFFF, allocated=(1 << 64) - 1, credit=(1 << 64) - 1))
    quietly(lambda: guest.credit(500 * MIB))


def inventory_out():
    """claims that a TiB of its memory is in the store, on a new connection each time"""
    for _ in rounds():
        guest = quietly(lambda: Guest(SOCKET, timeout=2, seat=KEPT[0].seat if KEPT else None))
        if not guest:
            continue
        quietly(lambda: guest.ask("inventory", device=0, contexts=0, allocated=300 * MIB, credit=200 * MIB, movable=300 * MIB, out=1 << 40))
        if KEPT:
            guest.hang_up()
        else:
            KEPT.append(guest)


def stored(bytes=4 * MIB):
    """A guest whose memory can move, and the store's file."""
    guest = joined()
    guest.ask("inventory_end", devices=1)
    guest.ask("store_ask", device=0)
    quietly(lambda: guest.ask("credit_ask", device=0, wait=0, bytes=bytes, want=bytes, movable=1))
    guest.allocated(bytes)
    struct.pack_into("<QQQQ", guest.own, 1216, bytes, 0, 0, 0)
    return guest, guest.fds[-1]


def segments_hoarded():
    """asks for segments without end, and ignores MOVE"""
    guest, _ = stored()
    flood(guest, *[encode("segment_ask", n + 1, device=0, bytes=64 * MIB >> n) for n in range(6)])


def segments_churned():
    """takes segments for all that it has, and returns them, without end"""
    guest, _ = stored(256 * MIB)
    for _ in rounds():
        segments = [quietly(lambda: guest.ask("segment_ask", device=0, bytes=64 * MIB)) for _ in range(5)]
        for segment in filter(None, segments):
            quietly(lambda: guest.ask("segment_return", device=0, offset=segment.offset, bytes=segment.bytes))


def moved_noise():
    """random figures of MOVED and SEGMENT_RETURN, and a new connection whenever it is closed"""
    def figure():
        return random.choice([0, 0, 0, 1, 64 * MIB, 1 << 40, (1 << 64) - 1, random.getrandbits(64)])

    guest = None
    for _ in rounds():
        guest = guest or quietly(lambda: stored(256 * MIB)[0])
        try:
            guest.send("moved", device=0, generation=random.randrange(3), stopped=random.randrange(2),
                       **{field: figure() for field in ("left", "copied", "entered", "returned", "dropped", "failed")})
            guest.send("segment_return", device=0, offset=figure(), bytes=figure())
            guest.send("segment_ask", device=0, bytes=figure())
        except (Gone, OSError, AttributeError):
            guest = None


def store_held():
    """holds the lock of its tenant's file by a write from a page that never comes, and asks for segments"""
    guest, file = stored()
    if filelock.can_hold():
        filelock.Child(filelock.write_what_never_comes, file)
    flood(guest, encode("segment_ask", 1, device=0, bytes=2 * MIB))


def store_punched():
    """24 threads allocate and punch holes in its tenant's file, while it asks for segments"""
    guest, file = stored()
    filelock.Child(filelock.allocate_and_punch, file)
    flood(guest, encode("segment_ask", 1, device=0, bytes=2 * MIB))


def store_noise():
    """writes all over its tenant's file, and tries to cut, grow and seal it"""
    guest, file = stored()
    for _ in rounds():
        quietly(lambda: os.pwrite(file, random.randbytes(1 << 16), random.randrange(1 << 26)))
        quietly(lambda: os.ftruncate(file, random.randrange(1 << 30)))
        quietly(lambda: fcntl.fcntl(file, 1033, random.randrange(32)))
        quietly(lambda: guest.send("segment_ask", device=0, bytes=2 * MIB))


def inventory_storm():
    """inventories without end, of devices that are there and that are not"""
    flood(joined(), *[encode("inventory", n + 1, device=n, contexts=n, allocated=MIB << n, credit=MIB) for n in range(20)])


def over_returns():
    """returns what it never had, and then asks for it"""
    guest = joined()
    for _ in rounds():
        guest.give_back(1 << 40)
        guest.give_back(700 * MIB, recall=1)
        quietly(lambda: guest.credit(400 * MIB))


def forged_drains():
    """claims that it drained, of every device and epoch"""
    flood(joined(), *[encode("drained", n + 1, device=n % 17, epoch=n) for n in range(64)])


def page_noise():
    """random bytes in its own page while it asks, settles and returns"""
    guest = joined()
    for _ in rounds():
        guest.own[:] = random.randbytes(PAGE)
        quietly(lambda: guest.credit(8 * MIB))
        quietly(lambda: guest.send("residual_settle", device=0, contexts=3, bytes=0))
        quietly(lambda: guest.give_back(8 * MIB))


def page_says_none():
    """takes credit to the limit and claims to have allocated none, then returns it and asks again"""
    guest = joined()
    for _ in rounds():
        quietly(lambda: guest.credit(300 * MIB))
        guest.allocated(0, credit=0)
        quietly(lambda: guest.give_back(300 * MIB))


def reconnect_storm():
    """20 connections at a time, joined and dropped together"""
    for _ in rounds():
        crowd = [quietly(lambda: Guest(SOCKET, timeout=2)) for _ in range(20)]
        for guest in filter(None, crowd):
            guest.close()


def silent_connections():
    """as many connections as it may open, all silent"""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    for _ in range(5000):
        peer = quietly(bare)
        if not peer:
            break
        KEPT.append(peer)


def joined_connections():
    """700 connections that say HELLO and stay"""
    for _ in range(700):
        if not quietly(joined):
            break


def many_processes():
    """150 processes that join, take credit and stay"""
    for _ in range(150):
        if os.fork() == 0:
            quietly(lambda: joined().credit(3 * MIB))
            time.sleep(60)
            os._exit(0)
    time.sleep(1.5)


def waiting_asks():
    """64 asks that wait, of each of 32 connections"""
    guests = [quietly(joined) for _ in range(32)]
    for guest in filter(None, guests):
        for _ in range(64):
            quietly(lambda: guest.send("credit_ask", device=0, wait=1, bytes=400 * MIB, want=400 * MIB))


def recalls_ignored():
    """takes all credit in one process, lets others of its tenant ask, and answers no recall"""
    quietly(lambda: joined().credit(500 * MIB))
    others = [quietly(joined) for _ in range(8)]
    for _ in rounds():
        for guest in filter(None, others):
            quietly(lambda: guest.send("credit_ask", device=0, wait=1, bytes=20 * MIB, want=20 * MIB))
        time.sleep(0.05)


def residual_storm():
    """reserves for contexts without end and never settles"""
    flood(joined(), encode("residual_ask", 1, device=0, bytes=MIB))


def settle_storm():
    """claims without end that contexts came, so that everything is measured"""
    flood(joined(), encode("residual_settle", 1, device=0, contexts=5, bytes=0))


def check_storm():
    """has its modules checked without end"""
    flood(joined(), encode("residual_check", 1, device=0))


def unknown_codes():
    """codes that nobody knows"""
    flood(joined(), *[struct.pack("<IHHII", MAGIC, code, 16, 1, 0) for code in range(200, 264)])


def others_words():
    """messages that only a daemon or a CLI sends"""
    flood(joined(), encode("credit_grant", 1, device=0, bytes=1 << 40), encode("tenant_set", 2, tenant=1, key="memory", value="3GiB"),
          encode("shutdown", 3, force=1), encode("welcome", 4, major=1))


def names():
    """program names of control characters and broken text"""
    for _ in rounds():
        quietly(lambda: Guest(SOCKET, timeout=2, program=bytes(random.randrange(1, 256) for _ in range(200))).close())


def slow_reader():
    """reads one answer in a hundred"""
    guest = joined()
    frame = encode("processes_ask", 1, device=0)
    for _ in rounds():
        for _ in range(100):
            quietly(lambda: guest.socket.send(frame))
        quietly(lambda: guest.socket.recv(8192))


def child_keeps_connection():
    """a child that keeps the connection after its parent ended, with credit"""
    guest = joined()
    quietly(lambda: guest.credit(300 * MIB))
    child = os.fork()
    if child == 0:
        os.setsid()
        time.sleep(30)
        os._exit(0)


def connection_given_away():
    """hands its connection to another process, which asks in its name"""
    here, there = socket.socketpair()
    guest = joined()
    if os.fork() == 0:
        here.close()
        guest_there = socket.socket(fileno=os.dup(guest.socket.fileno()))
        for n in range(50):
            quietly(lambda: guest_there.send(encode("credit_ask", 1000 + n, device=0, bytes=50 * MIB, want=50 * MIB)))
        time.sleep(30)
        os._exit(0)
    time.sleep(SECONDS / 2)


def threads_of_storms():
    """hello, ask, list and settle storms at once, each in threads of its own"""
    works = [hello_storm, ask_storm, list_storm, settle_storm, unread_replies, reconnect_storm] * 2
    threads = [threading.Thread(target=lambda work=work: quietly(work)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def raises_its_limit():
    """asks the user's own daemon for a larger limit (mete set)"""
    admin = Admin(os.path.dirname(os.path.dirname(os.path.dirname(SOCKET))))
    KEPT.append(admin)
    tenant = int(os.path.basename(os.path.dirname(SOCKET)).split("-")[0])
    admin.ask("tenant_set", tenant=tenant, key="memory", value="900MiB")
    os.execv(os.environ["HOSTILE_ATTACK"], ["attack", "take-linear"])


HELPERS = {"rounds", "bare", "joined", "stored", "flood", "quietly", "catalogue", "main"}


def catalogue(here, helpers):
    """The attacks of a module, by name."""
    return {name: thing for name, thing in vars(here).items()
            if getattr(thing, "__module__", None) == here.__name__ and callable(thing) and name not in helpers}


def main(attacks):
    if sys.argv[1] == "--list":
        for name, attack in attacks.items():
            print(f"{name}\t{attack.__doc__}")
        return
    seed = int(os.environ.get("METE_SEED") or time.time_ns())
    random.seed(f"{seed} {sys.argv[1]}")  # of several at once each draws its own
    print(f"{sys.argv[1]}: METE_SEED={seed} draws the same again", file=sys.stderr, flush=True)
    quietly(attacks[sys.argv[1]])
    print("holds", flush=True)
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main(catalogue(sys.modules["__main__"], HELPERS))
