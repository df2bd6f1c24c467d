# SPDX-License-Identifier: Apache-2.0
"""Guests whose memory moves, as the real library does it: blocks that are on the device, in the store, or both."""
import contextlib
import mmap
import os
import select

from meted import *

CHUNK = 32 * MIB  # the largest block of this meted, of two pieces (STORE_PIECE): half of the usual one costs the kernel half as many pages
DEVICE = 16 * CHUNK
SET = 9 * CHUNK  # 56 %


def mib(bytes):
    """As meted is told it, and says it."""
    return f"{bytes // MIB}MiB" if bytes else "0"


class Block:
    def __init__(self, bytes, pattern):
        self.bytes, self.pattern, self.here, self.segment, self.clean = bytes, pattern, True, None, False


class Mover(Guest):
    """`obeys`: carries out MOVE, one step at each turn; `log`, shared, has which guest moved which way."""

    def __init__(self, path, name="a", log=None, obeys=True, drains=True, state=True, **more):
        super().__init__(path, **more)
        self.name, self.log, self.obeys, self.drains = name, [] if log is None else log, obeys, drains
        self.blocks, self.plain, self.unused, self.asked, self.store_fd, self.refusal = [], 0, 0, {}, None, None
        self.kept, self.full, self.hindered, self.foreign, self.former = [], False, "", 0, 0
        self.anew()
        if state:
            self.state_all()

    def anew(self):
        self.order = dict(generation=0, leave=0, enter=0, drop=0, prepare=0)
        self.generation, self.done = 0, dict(left=0, copied=0, entered=0, returned=0, dropped=0, failed=0)

    def close(self):
        super().close()
        for fd in self.kept:
            os.close(fd)
        self.kept = []

    # ---- what it has

    def here(self):
        return sum(block.bytes for block in self.blocks if block.here)

    def out(self):
        return sum(block.bytes for block in self.blocks if not block.here)

    def show(self):
        self.allocated(self.here() + self.plain, self.unused)
        struct.pack_into("<QQQQ", self.own, 1216, self.here(), self.out(), 0, 0)

    def state_all(self):
        self.show()
        self.ask("inventory", device=0, contexts=0, allocated=self.here() + self.plain, credit=self.unused, movable=self.here(), out=self.out())
        self.counted = self.ask("inventory_end", devices=1).value
        return self

    def swaps(self):
        """Asks for the store."""
        before = len(self.fds)
        answer = self.ask("store_ask", device=0)
        assert answer.kind == "store" and len(self.fds) == before + 1, answer
        if self.store_fd is not None and os.fstat(self.fds[-1]).st_ino != os.fstat(self.store_fd).st_ino:
            self.foreign, self.former = self.out(), 0
        again = self.store_fd is not None and os.fstat(self.fds[-1]).st_ino == os.fstat(self.store_fd).st_ino
        self.store_fd, self.chunk = self.fds[-1], answer.chunk
        if again:
            self.returns_unheld()
        return self

    def returns_unheld(self):
        """What the same daemon may have given it on another connection, and it knows nothing of."""
        begin = 0
        held = sorted(block.segment[:2] for block in self.blocks if block.segment and not self.is_former(block))
        for offset, bytes in [*held, (1 << 63, 0)]:
            if begin < offset:
                try:
                    self.ask("segment_return", device=0, offset=begin, bytes=offset - begin)
                except Refused as refused:
                    assert "no such segment" in str(refused), refused
            begin = offset + bytes

    def again(self, path, state=True):
        """A new connection of the same process."""
        self.socket.close()
        connection = self.seat.connect(path)
        connection.settimeout(PATIENCE)
        for fd in self.fds[:2]:
            os.close(fd)
        self.kept += self.fds[2:]  # what left is there
        self.socket, self.fds, self.heard, self.asked = connection, [], [], {}
        self.ask("hello", major=1, pid=self.seat.pid, driver_version=12090, program="test")
        self.own, self.tenant = mmap.mmap(self.fds[0], PAGE), mmap.mmap(self.fds[1], PAGE, prot=mmap.PROT_READ)
        self.anew()
        return self.state_all().swaps() if state else self

    def log_sum(self, way):
        return sum(bytes for who, how, bytes in self.log if who == self.name and how == way)

    # ---- what it wants

    def allocate(self, bytes, wait=1, movable=1):
        """Asks; the answer is heard later."""
        self.asked[self.send("credit_ask", device=0, wait=wait, bytes=bytes, want=bytes, movable=movable)] = bytes

    def idle(self):
        self.send("idle", device=0)

    def wants(self):
        self.send("wants", device=0)

    def free(self, block):
        self.blocks.remove(block)
        self.show()
        if block.segment:
            self.ends(block)
        if block.here:
            self.send("credit_return", device=0, recall=0, bytes=block.bytes)

    def ends(self, block):
        """Its segment was freed with it; what was to be dropped is gone then, too."""
        if not self.is_former(block):
            self.returns(block)
            self.drops_freed(block.segment[1])
        else:
            self.former += self.former_ends(block)

    def former_ends(self, block):
        """Of what was out when the present daemon came it counts that much in a former one's store."""
        bytes = min(block.segment[1], self.foreign)
        self.foreign -= bytes
        return bytes

    def is_former(self, block):
        return os.fstat(block.segment[2]).st_ino != os.fstat(self.store_fd).st_ino

    def drops_freed(self, given=0):
        """Of a former daemon's store this one hears only then."""
        opened = max(0, self.order["drop"] - self.done["dropped"]) if self.order["generation"] == self.generation else 0
        own = min(given, opened)
        former = min(self.former, opened - own)
        self.former -= former
        self.done["dropped"] += own + former
        if own + former:
            self.say()
        return own + former > 0

    def returns_freed(self):
        """Room that was given for memory that is gone."""
        rest = self.order["enter"] - self.done["entered"] - self.done["returned"]
        if rest <= 0 or self.out() or self.done["left"] < self.order["leave"]:
            return False
        self.done["returned"] += rest
        self.say()
        return True

    def returns(self, block):
        """Its segment, unless it is a former daemon's."""
        if not self.is_former(block):
            self.ask("segment_return", device=0, offset=block.segment[0], bytes=block.segment[1])

    # ---- what it hears

    def hears(self, message):
        if message.id in self.asked:
            bytes = self.asked.pop(message.id)
            if message.kind == "refused":
                self.refusal = message
                return
            assert message.kind == "credit_grant" and message.bytes >= bytes, message
            self.unused += message.bytes - bytes
            while bytes:
                size = min(bytes, CHUNK)
                self.blocks.append(Block(size, len(self.blocks) % 250 + 1))
                bytes -= size
            self.show()
        elif message.kind == "gate" and message.state != OPEN:
            if self.drains:
                self.send("drained", device=0, epoch=message.epoch)
        elif message.kind == "credit_recall":
            some, self.unused = self.unused, 0
            self.show()
            self.send("credit_return", device=0, recall=message.id, bytes=some)
        elif message.kind == "hindered":
            self.hindered = message.by
        elif message.kind == "move":
            self.order, self.full = message.fields, False

    def say(self, stopped=0):
        self.send("moved", device=0, generation=self.generation, stopped=stopped, **self.done)

    def ends_generation(self):
        self.say(stopped=1)
        self.anew_generation()

    def anew_generation(self):
        self.generation, self.done = self.order["generation"], dict.fromkeys(self.done, 0)

    def memory(self, block):
        return mmap.mmap(block.segment[2], block.bytes, offset=block.segment[0])

    def leaves(self, block):
        copied = 0 if block.segment and block.clean else block.bytes
        if not block.segment:
            try:
                answer = self.ask("segment_ask", device=0, bytes=block.bytes)
            except Refused:  # until it hears of MOVE
                self.full = True
                return
            block.segment = answer.offset, answer.bytes, self.store_fd
            with self.memory(block) as memory:
                assert memory[:PAGE] == bytes(PAGE) and memory[-PAGE:] == bytes(PAGE), "it is not zero"
        with self.memory(block) as memory:
            memory[:4], memory[-4:] = [bytes([block.pattern]) * 4] * 2
        block.here, block.clean = False, True
        self.show()
        self.done["left"] += block.bytes
        self.done["copied"] += copied
        self.log.append((self.name, "left", block.bytes))
        self.say()

    def enters(self, block):
        with self.memory(block) as memory:
            assert memory[:4] == memory[-4:] == bytes([block.pattern]) * 4, "it is not what was there"
        block.here = True
        self.show()
        self.done["entered"] += block.bytes
        self.log.append((self.name, "entered", block.bytes))
        self.say()

    def drops(self, block):
        if self.is_former(block):
            self.former_ends(block)
        self.returns(block)
        self.done["dropped"] += block.segment[1]
        block.segment, block.clean = None, False
        self.say()

    def step(self):
        """One block; False: there is nothing to do."""
        if not self.obeys:
            return False
        if self.order["generation"] != self.generation:
            self.ends_generation()
            return True
        order, done = self.order, self.done
        room = order["enter"] - done["entered"] - done["returned"]
        # A block that leaves goes where its copy is, if it has one.
        for block in sorted(self.blocks, key=lambda block: not block.segment):
            if block.here and done["left"] < order["leave"] and not self.full:
                self.leaves(block)
                return True
            if not block.here and block.bytes <= room:
                self.enters(block)
                return True
            if block.here and block.segment and done["dropped"] < order["drop"]:
                self.drops(block)
                return True
        return self.drops_freed() or self.returns_freed()

    def runs(self):
        return self.shown()["gate"] == OPEN

    def is_whole(self):
        return self.runs() and not self.out()


def play(movers, until_, otherwise=None):
    """Lets them answer and move until until_() is true, which is tested after each step."""
    deadline = time.monotonic() + PATIENCE
    while True:
        for mover in movers:
            while mover.heard:
                mover.hears(mover.heard.pop(0))
        if until_():
            return
        if any([mover.step() for mover in movers]):
            continue
        ready = select.select([mover.socket for mover in movers], [], [], 0.05)[0]
        assert time.monotonic() < deadline, otherwise() if otherwise else [(m.name, m.shown(), m.order, m.done, m.here(), m.out()) for m in movers]
        for mover in movers:
            if mover.socket in ready:
                mover.hears(mover.receive_any())


def spins(nice):
    """Does not return: wants the first processor for ever."""
    os.nice(nice)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    while True:
        pass


class Starved(Seat):
    """Its process always wants the processor that others_spin() has."""

    @staticmethod
    def serve(fd):
        os.closerange(4, 1 << 20)
        orders = socket.socket(fileno=fd)
        Seat.hand_out(orders, orders.recv(200))
        spins(15)


@contextlib.contextmanager
def others_spin():
    pids = []
    for _ in range(2):
        pids.append(os.fork())
        if pids[-1] == 0:
            spins(5)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


class Node(Daemon):
    """A meted whose device has DEVICE bytes for tenants that move: the stub's has 4 GiB."""

    def __init__(self, *options, store=16 * CHUNK, **more):
        sizes = ["--reserve", mib(4 * GIB - DEVICE), "--context", "1M", "--store", mib(store), "--block", mib(CHUNK)]
        super().__init__(*sizes, "--movement", "50%", *options, **more)
        self.admin = Admin(self.place)
        self.moves, self.movers = [], []

    def tenant(self, name, **fields):
        """Its number, and where its guests connect."""
        made = self.admin.tenant(name=name, memory="100%", **fields)
        self.admin.set(made.tenant, "swap", "auto")
        return made

    def mover(self, name, bytes=0, made=None, device="", **more):
        made = made or self.tenant(name, device=device)
        mover = Mover(made.socket, name, self.moves, **more).swaps()
        mover.made = made
        self.movers.append(mover)
        if bytes:
            mover.allocate(bytes)
            self.play(lambda: not mover.asked)
        return mover

    def play(self, until_):
        play(self.movers, until_)

    def row(self, mover):
        return self.admin.tenant_row(mover.made.tenant)

    def resident(self):
        return sum(mover.here() for mover in self.movers)

    def ends(self):
        """All guests have left: nothing of theirs is left."""
        for mover in self.movers:
            mover.close()
        self.movers = []
        until(lambda: self.store_bytes() == 0, lambda: f"{self.store_bytes()} bytes are left in the store")

    def store_bytes(self):
        return store_bytes(self.process.pid)
