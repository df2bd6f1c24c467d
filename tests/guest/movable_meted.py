# SPDX-License-Identifier: Apache-2.0
"""A daemon for tests of memory that moves: it grants every ask, has a store, and orders guests to move when a test tells it to. It checks reports as
meted does."""
import ctypes
import fcntl
import mmap
import os
import select
import socket
import struct
import subprocess
import threading
import time

from meted import MIB, PAGE, PATIENCE, array, decode, encode

CHUNK = 64 * MIB
GATE_AT, DEVICE_AT, DEVICE_BYTES = 64 + 48, 64, 80
OWN_DEVICE_AT, OWN_MOVABLE_AT = 64, 64 + 16 * 32 + 5 * 16 * 8
SEALS = 1033, 0x1 | 0x2 | 0x4  # F_ADD_SEALS: SEAL, SHRINK, GROW
SYS_futex, FUTEX_WAKE = 202, 1


def sealed(size):
    fd = os.memfd_create("mete-test", 0x0002 | 0x0001)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, SEALS[0], SEALS[1])
    return fd


def uuid_of(simulator, environment):
    """Of device 0 of the simulated machine, as 16 bytes."""
    out = subprocess.run([simulator + "/nvidia-smi", "-L"], env=environment, capture_output=True, text=True)
    assert out.returncode == 0, out
    return bytes.fromhex(out.stdout.split("UUID: GPU-")[1].split(")")[0].replace("-", ""))


class FakeGuest:
    """A guest's connection, with what it was told and what it said."""

    def __init__(self, fake, connection):
        self.fake, self.socket = fake, connection
        self.own_fd = sealed(PAGE)
        self.own = mmap.mmap(self.own_fd, PAGE)
        self.granted = self.stated_movable = self.stated_out = 0
        self.stated, self.store_asks, self.stores = False, 0, 0
        self.asked, self.words = None, 0  # an ask that waits for a recall's answer; MOVED, so far
        self.returned = []  # bytes, in answers to recalls
        self.drained = -1
        self.generation, self.order = 0, dict(leave=0, enter=0, drop=0, prepare=0)
        self.moved = dict(left=0, copied=0, entered=0, returned=0, dropped=0, failed=0)
        self.total = dict(self.moved)
        self.former = self.order
        self.stopped = None
        self.segments = {}
        self.lends = None
        self.last_id = 0

    def say(self, message, /, id=None, fds=(), **fields):
        if id is None:
            self.last_id += 1
            id = 0x80000000 | self.last_id
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        try:
            self.socket.sendmsg([encode(message, id, **fields)], ancillary)
        except OSError:
            pass  # it has ended: the reader hears of it

    def movable(self):
        resident, out, saved, why = struct.unpack_from("<QQQQ", self.own, OWN_MOVABLE_AT)
        return dict(resident=resident, out=out, saved=saved, why=why)

    def waiting(self):
        """Threads that wait at a gate, or for memory."""
        return struct.unpack_from("<Q", self.own, 24)[0]

    def changing(self):
        """A call that changes what it holds is under way."""
        begun, ended = struct.unpack_from("<QQ", self.own, 32)
        return begun != ended

    def credit(self):
        return struct.unpack_from("<Q", self.own, OWN_DEVICE_AT + 8)[0]

    def allocated(self):
        return struct.unpack_from("<Q", self.own, OWN_DEVICE_AT)[0]


class FakeMeted:
    """`limit`: bytes that all guests may have on the device."""

    def __init__(self, folder, uuid, limit=1 << 40, store=8 << 30, chunk=CHUNK, swap=True):
        self.path, self.uuid, self.limit, self.chunk, self.swap = folder + "/fake.sock", uuid, limit, chunk, swap
        self.store_bytes = store
        self.refuse_segments = False
        self.forgets = False  # evicted memory by the guests' reports
        self.recalls = False  # before each grant
        self.recalls_early = 0  # bytes, before it has answered the whole inventory
        self.holds_returns, self.held = False, []  # answers to segments that are given back
        self.cuts = False  # the connection, instead of answering the next ask for a segment; the guest's segments stay
        self.twice = False  # it answers the next ask for a segment again, as it does late
        self.cut_from = {}
        self.mute = False  # it does not answer an inventory
        self.hasty = False  # it orders what is out to come back before it has answered the whole inventory
        self.libc = ctypes.CDLL(None)
        self.guests, self.wrong = [], []
        self.changed = threading.Condition()
        self.epoch = 1
        self.start()

    def start(self):
        self.page_fd = sealed(PAGE)
        self.page = mmap.mmap(self.page_fd, PAGE)
        struct.pack_into("<IIIIII", self.page, 0, 0, 0x6574656D, 1856, 1, 0, 0)
        struct.pack_into("<QIIQQ", self.page, 24, self.epoch, 1, os.getpid(), time.monotonic_ns(), 5 * 10**9)
        struct.pack_into("<16sQQQQIIQQII", self.page, DEVICE_AT, self.uuid, 1 << 40, 1 << 40, 0, self.epoch, 0, 0, 1 << 40, 0, 1, 0)
        self.store_fd, self.free = sealed(self.store_bytes), [(0, self.store_bytes)]
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        self.listener.bind(self.path)
        self.listener.listen(16)
        self.ended, self.wake = os.pipe()
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def kill(self):
        """As SIGKILL would: sockets and pages go."""
        os.close(self.wake)
        self.thread.join()
        os.close(self.ended)
        os.unlink(self.path)
        self.listener.close()
        for guest in self.guests:
            guest.socket.close()
        self.guests = []
        os.close(self.page_fd)
        os.close(self.store_fd)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.kill()
        if kind is None:
            assert not self.wrong, self.wrong

    def pages_what_does_not_fit(self):
        """oversize=managed."""
        struct.pack_into("<Q", self.page, 56, 1)

    def show(self, used):
        """In the tenant's page: so much of a limit of 1 GiB."""
        with self.changed:
            struct.pack_into("<QQ", self.page, DEVICE_AT + 24, 1 << 30, used)
            struct.pack_into("<Q", self.page, DEVICE_AT + 64, used)

    # ---- the thread

    def serve(self):
        while True:
            ready, _, _ = select.select([self.listener, self.ended, *(g.socket for g in self.guests)], [], [])
            if self.ended in ready:
                return
            with self.changed:
                if self.listener in ready:
                    made, _ = self.listener.accept()
                    self.guests.append(FakeGuest(self, made))
                for guest in [g for g in self.guests if g.socket in ready]:
                    self.read(guest)
                self.changed.notify_all()

    def read(self, guest):
        try:
            data, control, _, _ = guest.socket.recvmsg(8192, socket.CMSG_SPACE(64))
        except ConnectionResetError:
            data, control = b"", []
        for level, kind, payload in control:
            fds = array.array("i")
            fds.frombytes(payload)
            for fd in fds:
                os.close(fd)
        if not data:
            self.lose(guest)
            self.free += guest.segments.items()
            return
        message = decode(data)
        getattr(self, "on_" + message.kind, self.on_other)(guest, message)

    def lose(self, guest):
        self.guests.remove(guest)
        guest.socket.close()
        self.limit += guest.granted

    def on_other(self, guest, m):
        guest.say("refused", m.id, code=6, reason="unknown")

    def on_hello(self, guest, m):
        guest.say("welcome", m.id, fds=(guest.own_fd, self.page_fd), major=1, minor=3, devices=1)

    def on_inventory(self, guest, m):
        guest.granted = m.allocated + m.credit
        guest.segments, self.cut_from = self.cut_from, {}
        self.limit -= guest.granted
        guest.stated_movable, guest.stated_out = m.movable, m.out
        guest.say("done", m.id)

    def on_inventory_end(self, guest, m):
        guest.stated, guest.end = True, m.id
        if self.recalls_early:
            guest.say("credit_recall", device=0, bytes=self.recalls_early)
        if self.mute:
            return
        if self.hasty:
            self.order(guest, enter=guest.stated_out)
        guest.say("done", m.id, value=0 if self.forgets else guest.stated_out)

    def on_credit_ask(self, guest, m):
        if self.recalls and guest.asked is None:
            guest.asked = m
            guest.say("credit_recall", device=m.device)
            return
        if m.bytes > self.limit:
            guest.say("refused", m.id, code=4, reason="the device has no room")
            return
        self.limit -= m.bytes
        guest.granted += m.bytes
        guest.say("credit_grant", m.id, bytes=m.bytes)

    def on_credit_return(self, guest, m):
        self.limit += m.bytes
        guest.granted -= m.bytes
        if m.recall:
            guest.returned.append(m.bytes)
        if m.recall and guest.asked:
            self.on_credit_ask(guest, guest.asked)
            guest.asked = None

    def on_residual_ask(self, guest, m):
        guest.say("done", m.id, value=m.bytes)

    on_residual_check = on_residual_ask_end = lambda self, guest, m: guest.say("done", m.id)

    def on_residual_settle(self, guest, m):
        pass

    on_wants = on_idle = on_residual_settle

    def on_processes_ask(self, guest, m):
        guest.say("end", m.id)

    def on_drained(self, guest, m):
        guest.drained = m.epoch

    def on_store_ask(self, guest, m):
        guest.store_asks += 1
        if not self.swap:
            guest.say("refused", m.id, code=6, reason="swap=off")
            return
        guest.stores += 1
        guest.say("store", m.id, fds=(self.store_fd,), chunk=self.chunk)

    def on_segment_ask(self, guest, m):
        place = next((p for p in self.free if p[1] >= m.bytes), None)
        if not place or self.refuse_segments:
            guest.say("refused", m.id, code=4, reason="the store is full")
            return
        self.free.remove(place)
        self.free.append((place[0] + m.bytes, place[1] - m.bytes))
        guest.segments[place[0]] = m.bytes
        if self.cuts:
            self.cuts, self.cut_from = False, guest.segments
            self.lose(guest)
            return
        guest.say("segment", m.id, offset=place[0], bytes=m.bytes)
        if self.twice:
            self.twice = False
            self.on_segment_ask(guest, m)

    def on_segment_return(self, guest, m):
        given = [offset for offset in guest.segments if m.offset <= offset < m.offset + m.bytes]
        bytes = sum(guest.segments[offset] for offset in given)
        self.free += [(offset, guest.segments.pop(offset)) for offset in given]
        self.held.append((guest, m.id, bytes))
        if not self.holds_returns:
            self.answer_returns()

    def answer_returns(self):
        self.holds_returns = False
        while self.held:
            guest, id, bytes = self.held.pop(0)
            guest.say("done", id, value=bytes)

    def on_lend(self, guest, m):
        guest.lends = m.name
        guest.say("done", m.id)

    def on_borrow(self, guest, m):
        lender = next((g for g in self.guests if g.lends == m.name), None)
        if not lender:
            guest.say("refused", m.id, code=6, reason="nobody lends that")
            return
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours, theirs:
            lender.say("channel", fds=(ours.fileno(),), area=m.area)
            guest.say("channel", m.id, fds=(theirs.fileno(),), area=m.area)

    def on_moved(self, guest, m):
        guest.words += 1
        order = guest.order if m.generation == guest.generation else guest.former
        if m.generation != guest.generation and not (guest.stopped is None and m.generation == guest.generation - 1):
            self.wrong.append(f"of another generation: {m}")
        for key in guest.moved:
            if m.fields[key] < guest.moved[key]:
                self.wrong.append(f"{key} shrinks: {m}, {guest.moved}")
        if m.left >= order["leave"] + self.chunk or m.entered + m.returned > order["enter"] or m.copied > m.left:
            self.wrong.append(f"more than was ordered: {m}, {order}")
        self.limit += m.left - guest.moved["left"] + m.returned - guest.moved["returned"]
        guest.granted -= m.left - guest.moved["left"]
        guest.granted += m.entered - guest.moved["entered"]
        for key in guest.moved:
            guest.total[key] += m.fields[key] - guest.moved[key]
            guest.moved[key] = m.fields[key]
        if m.stopped:
            guest.stopped = dict(guest.moved)
            guest.moved = dict.fromkeys(guest.moved, 0)

    # ---- what tests do

    def wait(self, what, otherwise="it never happened"):
        """Until what() is true."""
        end = time.monotonic() + PATIENCE
        with self.changed:
            while not (answer := what()):
                assert not self.wrong, self.wrong
                assert self.changed.wait(min(1, end - time.monotonic())) or time.monotonic() < end, \
                    otherwise() if callable(otherwise) else otherwise
        return answer

    def order(self, guest, **more):
        with self.changed:
            for key, value in more.items():
                guest.order[key] += value
            self.limit -= more.get("enter", 0)
            guest.say("move", generation=guest.generation, **guest.order)

    def stop(self, guest):
        """Ends the generation. Returns what was done in it."""
        with self.changed:
            guest.stopped = None
            guest.generation += 1
            guest.former = guest.order
            guest.order = dict(guest.order, leave=0, enter=0, drop=0)
            guest.say("move", generation=guest.generation, **guest.order)
        self.wait(lambda: guest.stopped is not None or guest not in self.guests, "the stop was not answered")
        if guest.stopped:
            self.limit += guest.former["enter"] - guest.stopped["entered"] - guest.stopped["returned"]
        return guest.stopped

    def gate(self, is_open):
        with self.changed:
            self.epoch += 1
            state = 0 if is_open else 2
            struct.pack_into("<QI", self.page, DEVICE_AT + 40, self.epoch, state)
            struct.pack_into("<I", self.page, 0, 0 if is_open else 1)
            base = ctypes.addressof(ctypes.c_char.from_buffer(self.page))
            if is_open:
                self.libc.syscall(SYS_futex, ctypes.c_void_p(base + DEVICE_AT + 48), FUTEX_WAKE, 1 << 30, None, None, 0)
            for guest in self.guests:
                guest.say("gate", state=state, epoch=self.epoch)

    def close(self):
        """Every guest that is there has drained."""
        self.gate(False)
        self.wait(lambda: all(g.drained == self.epoch for g in self.guests if g.stated), "a gate does not drain")

    def away(self, guest):
        """All that can move leaves; the gate is closed. Returns how much that was. Returns what is out."""
        need = guest.movable()["resident"]
        if need:
            self.order(guest, leave=max(0, need - (guest.order["leave"] - guest.moved["left"])))
        self.wait(lambda: guest not in self.guests or guest.moved["left"] >= guest.order["leave"] or
                  guest.movable()["resident"] == 0, lambda: f"it does not leave: {guest.moved} {guest.order} {guest.movable()}")
        return guest.movable()["out"]

    def back(self, guest):
        """All of it comes back."""
        while guest in self.guests and (out := guest.movable()["out"]):
            pending = guest.order["enter"] - guest.moved["entered"] - guest.moved["returned"]
            if out > pending:
                self.order(guest, enter=out - pending)
            self.wait(lambda: guest not in self.guests or guest.movable()["out"] == 0 or
                      guest.moved["entered"] + guest.moved["returned"] >= guest.order["enter"],
                      lambda: f"it does not come: {guest.moved} {guest.order} {guest.movable()}")

    def round(self, guest):
        """Out and back. Returns how much was out."""
        self.close()
        out = self.away(guest)
        self.stop(guest)
        self.back(guest)
        self.stop(guest)
        self.gate(True)
        return out
