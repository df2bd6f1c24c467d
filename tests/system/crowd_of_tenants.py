# SPDX-License-Identifier: Apache-2.0
"""Many tenants with processes on the stub's devices, some of which wait: for tests and benchmarks of what shows them."""
import random

from meted import *

EACH = 60  # tenants that one connection keeps
USES = ("train", "notebook", "inference", "eval", "sweep", "render")
PEOPLE = ("ada", "grace", "alan", "edsger", "barbara", "donald")


class Crowd:
    def __init__(self, meted, tenants, devices, guests=40, seed=1):
        self.random = random.Random(seed)
        self.admins, self.made, self.guests = [], [], []
        self.first = Admin(meted.place)
        uuids = [self._uuid(row) for row in self.first.list() if row.kind == "device_row"]
        assert len(uuids) >= devices, uuids
        for i in range(tenants):
            if i % EACH == 0:
                self.admins.append(Admin(meted.place))
            name = f"{self.random.choice(USES)}-{self.random.choice(PEOPLE)}-{i}"
            device = uuids[min(devices - 1, int(self.random.expovariate(3.0 / devices)))]
            memory = self.random.choice((256, 512, 1024, 2048))
            made = self.admins[-1].ask("tenant_new", name=name, memory=f"{memory}MiB", device=device)
            self.made.append((self.admins[-1], made, memory))
        for admin, made, memory in self.made[:guests]:
            guest = Guest(made.socket, program=self.random.choice(USES))
            self.guests.append((guest, memory))
            self.hold(len(self.guests) - 1, self.random.uniform(0.1, 0.6))

    @staticmethod
    def _uuid(row):
        return row.name

    def hold(self, i, part):
        """Of its limit."""
        guest, memory = self.guests[i]
        wanted = int(memory * part) * MIB
        try:
            have = getattr(guest, "granted", 0)
            if wanted > have:
                guest.granted = have + guest.credit(wanted - have)
            guest.allocated(min(wanted, guest.granted))
        except Refused:
            pass

    def close(self):
        for guest, _ in self.guests:
            guest.close()
        for admin in self.admins:
            admin.close()
