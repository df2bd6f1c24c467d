#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""As protocol.py: attackers whose words are those of an honest guest, but late, twice, of another connection, or as large as a field can be.

Some are disturbed meanwhile (rows.py): suspended and resumed, and meted is killed."""
import os
import random
import sys
import time

import protocol
from protocol import KEPT, SOCKET, joined, quietly, rounds, stored
from protocol_pages import MOVABLE, MOST, PLACE, heard, hold, in_child, own_number, put
from meted import MIB, Admin, Guest, Here, encode

EDGES = (0, 1, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, (1 << 63) - 1, 1 << 63, MOST - 4095, MOST)


def honest(message):
    """What an honest guest says to that, as (name, fields); None: nothing."""
    if message.kind == "gate" and message.state:
        return "drained", dict(device=message.device, epoch=message.epoch)
    if message.kind == "credit_recall":
        return "credit_return", dict(device=message.device, recall=message.id, bytes=min(message.bytes, 20 * MIB))
    if message.kind == "move":
        return "moved", dict(device=message.device, generation=message.generation, stopped=0, left=message.leave, copied=message.leave,
                             entered=message.enter, returned=0, dropped=message.drop, failed=0)
    return None


def mover():
    guest = joined()
    quietly(lambda: guest.ask("inventory_end", devices=1))
    quietly(lambda: guest.ask("store_ask", device=0))
    for _ in range(3):
        quietly(lambda: guest.ask("credit_ask", device=0, wait=0, bytes=80 * MIB, want=100 * MIB, movable=1))
    guest.allocated(200 * MIB)
    put(guest, MOVABLE, 200 * MIB, 0, 0, 0)
    return guest


def asks_on(guest, turn):
    """So that there is always something to be told."""
    quietly(lambda: guest.send("wants" if turn % 2 else "idle", device=0))
    quietly(lambda: guest.send("segment_ask", device=0, bytes=2 * MIB))
    quietly(lambda: guest.send("credit_ask", device=0, wait=1, bytes=30 * MIB, want=90 * MIB, movable=turn % 2))


def answers_late():
    """answers each message of meted when the next one has come: it drains, moves and returns one step late, all the time"""
    guest, last = mover(), None
    for turn, _ in enumerate(rounds()):
        asks_on(guest, turn)
        message = heard(guest)
        if last and message:
            quietly(lambda: guest.send(last[0], **last[1]))
        last = message and honest(message) or last


def answers_twice():
    """answers each message of meted twice, and all of them again when meted has begun anew"""
    guest, said = mover(), []
    for turn, _ in enumerate(rounds()):
        asks_on(guest, turn)
        message = heard(guest)
        words = message and honest(message)
        if not words:
            continue
        said = said[-100:] + [words]
        for name, fields in (words, words, random.choice(said)):
            quietly(lambda: guest.send(name, **fields))
    guest = quietly(mover)
    for name, fields in said if guest else ():
        quietly(lambda: guest.send(name, **fields))


def answers_of_others():
    """two connections of two processes, each of which answers what the other one was told"""
    one, other = mover(), mover()
    for turn, _ in enumerate(rounds()):
        for guest, sibling in ((one, other), (other, one)):
            asks_on(guest, turn)
            message = heard(guest)
            words = message and honest(message)
            if words:
                quietly(lambda: sibling.send(words[0], **words[1]))


def page_edges():
    """every word of its page is each number at which signed, unsigned and halved ones differ, while all is asked for"""
    guest = mover()
    for turn, _ in enumerate(rounds()):
        for at in range(8, 4096 - 8, 8):
            put(guest, at, EDGES[(turn + at // 8 * (1 + turn % 7)) % len(EDGES)])
        asks_on(guest, turn)
        quietly(lambda: guest.send("residual_settle", device=0, contexts=EDGES[turn % 5] & 0xffffffff, bytes=EDGES[turn % len(EDGES)]))
        heard(guest)


def fields_edges():
    """every field of every message of a guest is each of those numbers"""
    guest = mover()
    for turn, _ in enumerate(rounds()):
        for name in ("inventory", "credit_ask", "credit_return", "residual_ask", "residual_settle", "residual_check", "drained", "wants", "idle",
                     "segment_ask", "segment_return", "moved", "borrow", "processes_ask", "store_ask"):
            fields = {field: EDGES[(turn * 3 + n * 5) % len(EDGES)] & (0xffffffff if kind == "u32" else MOST) for n, (kind, field) in
                      enumerate(protocol.MESSAGES[name][1]) if kind in ("u32", "u64")}
            if turn % 2 and "device" in fields:
                fields["device"] = 0
            quietly(lambda: guest.send(name, **fields))
        guest.socket.settimeout(0.02)
        for _ in range(20):
            if quietly(guest.receive_any) is None:
                break
        guest = guest if quietly(lambda: guest.send("wants", device=0)) else quietly(mover) or guest


def shares_edges():
    """its own share, and shares of tenants within it, by amounts, parts, times and weights at the edge of every type"""
    admin = Admin(PLACE)
    KEPT.append(admin)
    numbers = ["-1", "0", "2147483648", "4294967295", "4294967296", "4294967396", "9223372036854775807", "9223372036854775808",
               "18446744073709551615", "18446744073709551616", "1e400", "nan", "inf", "0x7fffffff", "1" * 200, "00000000000000000001", "0.0000000001", "1e-400"]
    units = {"memory": ("", "B", "G", "EiB", "TiB", "%", "/1000", "/0"), "weight": ("",), "cap": ("%", "/1000", ""), "guarantee": ("%", "/1", ""),
             "wait": ("ms", "h", "s", "m"), "idle": ("ms", "h"), "mode": ("",)}
    for turn, _ in enumerate(rounds()):
        key = list(units)[turn % len(units)]
        for number in numbers:
            value = {"idle": "park:", "mode": "fixed:1/"}.get(key, "") + number + random.choice(units[key])
            if key != "memory":  # that of one user's own may be set, which README admits
                quietly(lambda: admin.ask("tenant_set", tenant=own_number(), name="", key=key, value=value[:255]))
            quietly(lambda: admin.ask("tenant_new", name="edge", outer=SOCKET, **{"memory": "70MiB", key: value[:255]} if key != "idle" else {}))
        quietly(lambda: admin.ask("tenant_suspend", tenant=own_number(), name="", suspends=random.choice(EDGES) & 0xffffffff))
        quietly(lambda: admin.ask("device_reserve", device="0", hold=random.choice(EDGES)))
    quietly(lambda: admin.ask("tenant_set", tenant=own_number(), name="", key="cap", value="100%"))


def connected_twice():
    """one process with two connections at a time, whose inventories contradict each other, again and again while meted comes and goes"""
    def pair():
        here = Here()
        for turn, _ in enumerate(rounds()):
            for copy in (0, 0, 1 << 40):
                guest = quietly(lambda: Guest(SOCKET, timeout=2, seat=here, copy=copy))
                if guest:
                    KEPT.append(guest)
                    quietly(lambda: guest.send("inventory", device=0, contexts=turn, allocated=(300 - 100 * (turn % 3)) * MIB, credit=100 * MIB))
                    quietly(lambda: guest.send("inventory_end", devices=1 + turn % 2))
                    quietly(lambda: guest.credit(60 * MIB))
            while len(KEPT) > 6:
                quietly(KEPT.pop(0).hang_up)

    for child in [in_child(pair) for _ in range(3)]:
        os.waitpid(child, 0)
    guest = joined()
    hold(guest, 100 * MIB)


def weights_swung():
    """its weight and class are changed at 100 Hz by itself, while it asks for turns and never drains in time"""
    admin, guest, epochs = Admin(PLACE), mover(), []
    KEPT.append(admin)
    for turn, _ in enumerate(rounds()):
        admin.send("tenant_set", tenant=own_number(), name="", key="weight", value=("10000", "1")[turn % 2])
        admin.send("tenant_set", tenant=own_number(), name="", key="class", value=("interactive", "batch")[turn % 2])
        quietly(lambda: guest.send("wants" if turn % 3 else "idle", device=0))
        guest.socket.settimeout(0.01)
        message = quietly(guest.receive_any)
        if message and message.kind == "gate" and message.state:
            epochs.append(message.epoch)
        if len(epochs) > 3:
            quietly(lambda: guest.send("drained", device=0, epoch=epochs.pop(0)))
        time.sleep(0.005)
        admin.socket.settimeout(0.001)
        while quietly(admin.receive_any):
            pass
        admin.socket.settimeout(2)


HELPERS = {"honest", "mover", "asks_on"}

if __name__ == "__main__":
    protocol.main(protocol.catalogue(sys.modules["__main__"], HELPERS))
