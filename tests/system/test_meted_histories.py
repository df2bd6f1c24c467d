#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random histories of guests whose memory moves, and whose messages cross those of meted: asks, credit, orders, reports, inventories, restarts,
suspends, changed shares. Judged by sums; and in the end everybody has what is there, and nothing is left.

METE_SEED: the first seed; METE_TEST_SCALE: so many times as many histories, 20 at most. A history takes 2 to 40 s, of waiting for turns with
the device above all. When messages cross depends on the machine too, so that a seed alone does not repeat a history.
"""
import random

from mover import *

SCALE = int(os.environ.get("METE_TEST_SCALE", "1"))
SEED = int(os.environ.get("METE_SEED", "401"))
HISTORIES, STEPS, MOST = 4, 40, 4


class History:
    def __init__(self, node, seed, store):
        self.store = store
        self.node, self.chance, self.count, self.told = node, random.Random(seed), 0, []
        self.suspended, self.off, self.has_been_off = set(), set(), False

    # ---- what happens

    def joins(self):
        if len(self.node.movers) < MOST:
            self.count += 1
            self.node.mover(f"t{self.count}")

    def somebody(self):
        return self.chance.choice(self.node.movers) if self.node.movers else None

    def asks(self):
        mover = self.somebody()
        if mover and not mover.asked:
            mover.allocate(self.chance.randint(1, 8) * CHUNK, wait=self.chance.random() < 0.8)

    def frees(self):
        mover = self.somebody()
        if mover and mover.blocks:
            mover.free(self.chance.choice(mover.blocks))

    def frees_into_credit(self):
        mover = self.somebody()
        here = [block for block in mover.blocks if block.here and not block.segment] if mover else []
        if here:
            block = self.chance.choice(here)
            mover.blocks.remove(block)
            mover.unused += block.bytes
            mover.show()

    def pauses(self):
        mover = self.somebody()
        if mover:
            mover.idle() if self.chance.random() < 0.5 else mover.wants()

    def obeys_or_not(self):
        mover = self.somebody()
        if mover:
            mover.obeys = not mover.obeys

    def suspends(self):
        mover = self.somebody()
        if not mover:
            return
        tenant = mover.made.tenant
        try:
            self.node.admin.ask("tenant_suspend", tenant=tenant, name="", suspends=tenant not in self.suspended)
            self.suspended ^= {tenant}
        except Refused as refused:
            assert tenant not in self.suspended, refused

    def sets(self):
        mover = self.somebody()
        if mover:
            tenant = mover.made.tenant
            self.node.admin.set(tenant, "swap", "auto" if tenant in self.off else "off")
            self.off ^= {tenant}
            self.has_been_off = True

    def leaves(self):
        mover = self.somebody()
        if mover and self.chance.random() < 0.4:
            self.node.movers.remove(mover)
            mover.close()

    def connects_again(self):
        mover = self.somebody()
        if not mover:
            return
        for _ in range(self.chance.randrange(3)):
            mover.send("segment_ask", device=0, bytes=CHUNK)  # an answer that it does not read
        if self.chance.random() < 0.5:
            mover.ask("processes_ask", device=0)
        self.back(mover)

    def restarts(self):
        if self.chance.random() < 0.5:
            self.node.kill()
            self.node.start()
            self.node.admin = Admin(self.node.place)
            for mover in self.node.movers:
                self.back(mover)

    def back(self, mover):
        mover.again(mover.made.socket, state=False)
        try:
            mover.state_all()
        except Refused as refused:  # room is kept for others that are expected
            assert "it is void" in str(refused), refused
            mover.unused = 0
            mover.show()
            mover.ask("inventory_end", devices=1)
        try:
            mover.swaps()
        except Refused as refused:
            assert mover.made.tenant in self.off, refused
        if not self.chance.randrange(3):
            mover.idle()

    # ---- what holds

    def passes(self, steps):
        """So many steps of everybody, without waiting for anything."""
        for _ in range(steps):
            for mover in self.node.movers:
                mover.heard += self.heard(mover)
                while mover.heard:
                    mover.hears(mover.heard.pop(0))
            for mover in self.node.movers:
                mover.step()

    @staticmethod
    def heard(mover):
        messages = []
        while select.select([mover.socket], [], [], 0)[0]:
            messages.append(mover.receive_any())
        return messages

    def judge(self):
        movers = self.node.movers
        on_device = sum(mover.here() + mover.unused for mover in movers)
        assert on_device <= DEVICE, (on_device, self.about())
        device = self.node.admin.device_row()
        assert device.resident + device.residual + device.credit <= device.capacity - device.reserve, (device, self.about())

    def about(self):
        return self.told, [(m.name, m.here(), m.out(), m.unused, m.asked, m.order, m.done, m.shown()) for m in self.node.movers]

    def run(self):
        verbs = [self.joins, self.joins, self.asks, self.asks, self.asks, self.frees, self.frees_into_credit, self.pauses, self.pauses,
                 self.obeys_or_not, self.suspends, self.sets, self.leaves, self.connects_again, self.restarts]
        for _ in range(STEPS):
            verb = self.chance.choice(verbs)
            self.told.append(verb.__name__)
            verb()
            self.passes(self.chance.choice((0, 0, 1, 3, 8)))
            self.judge()
        self.ends()

    def ends(self):
        """Everybody obeys: each ask is answered, and everybody's memory comes when nobody else wants the device."""
        self.told.append("the end")
        for mover in self.node.movers:
            mover.obeys = True
            tenant = mover.made.tenant
            if tenant in self.suspended:
                self.node.admin.ask("tenant_suspend", tenant=tenant, name="", suspends=0)
            if tenant in self.off:
                self.node.admin.set(tenant, "swap", "auto")
            mover.idle()
        play(self.node.movers, lambda: not any(mover.asked for mover in self.node.movers), self.about)
        for mover in self.node.movers:
            mover.wants()
            play(self.node.movers, mover.is_whole, self.about)
            mover.idle()
        self.judge()
        self.fills()
        self.node.ends()
        until(self.is_nothing_left, lambda: (self.node.admin.list(), self.told))

    def fills(self):
        """One more is granted all that device and store have room for, beside what is promised to nobody. What was allocated under swap=off is
        not counted here."""
        has = sum(mover.here() + mover.out() for mover in self.node.movers)
        room = min(DEVICE, DEVICE + self.store - 4 * CHUNK - has) // CHUNK * CHUNK
        if room > 0 and not self.has_been_off:
            last = self.node.mover("last")
            last.allocate(room)
            play(self.node.movers, lambda: not last.asked, self.about)
            assert not last.refusal, (last.refusal, room, self.about())

    def is_nothing_left(self):
        for row in self.node.admin.list():
            if row.kind == "device_row" and row.allocated + row.resident + row.residual + row.credit:
                return False
            if row.kind == "tenant_row" and row.guests + row.allocated + row.credit + row.movable + row.out + row.stored + row.waiting:
                return False
        return True


def history(seed):
    print(f"seed {seed}", flush=True)
    store = random.Random(seed).choice((13, 16, 32)) * CHUNK
    with Node("--grace", "60s", store=store) as node:
        History(node, seed, store).run()


def test_in_random_histories_sums_hold_and_everybody_has_what_is_there():
    for i in range(min(HISTORIES * SCALE, 20)):
        history(SEED + i)


if __name__ == "__main__":
    run(globals())
