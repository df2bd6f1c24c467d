#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""meted's instructions for an event depend on the event, not on the tenants: counted by callgrind, not timed."""
import re
import shutil
import struct
import sys
import tempfile

from meted import *
from runner import Skipped

TENANTS = 100


class Counted(Daemon):
    """meted under callgrind, which counts what is executed within one of its functions."""

    def __init__(self, function):
        if not shutil.which("valgrind"):
            raise Skipped("there is no valgrind; `tools/setup test` installs it")
        self.out = tempfile.TemporaryDirectory()
        # A file for each process: meted's helpers write theirs, too.
        super().__init__(wrap=("valgrind", "--tool=callgrind", "-q", f"--callgrind-out-file={self.out.name}/%p",
                               "--toggle-collect=" + function))

    def instructions(self):
        self.process.terminate()
        self.wait()
        with self.out, open(f"{self.out.name}/{self.process.pid}") as counted:
            return int(re.search(r"^(?:totals|summary): (\d+)", counted.read(), re.M).group(1))


def tenants(meted, count):
    admins = [Admin(meted.place) for _ in range(0, count, 50)]
    return [admins[i // 50].tenant("1GiB") for i in range(count)], admins


def asked(others):
    """A thousand asks, each with its return, beside so many others."""
    with Counted("words_heard") as meted:
        made, admins = tenants(meted, 1 + others)
        guests = [Guest(tenant.socket) for tenant in made]
        for _ in range(1000):
            guests[0].credit(MIB)
            guests[0].give_back(MIB)
        assert guests[0].ask("processes_ask", device=0).kind == "end"  # it has read all of that
        return meted.instructions()


def test_an_ask_costs_the_same_beside_many_tenants():
    alone, beside = asked(0), asked(TENANTS)
    assert 1_000_000 < alone < 10_000_000, alone
    assert beside < 1.5 * alone, (alone, beside)


def test_showing_a_devices_room_to_a_tenant_costs_some_dozens_of_instructions():
    with Counted("on_show_timer") as meted:
        first, kept = tenants(meted, 1)
        silent = Guest(first[0].socket)

        def shown():
            return struct.unpack_from("<Q", silent.tenant, 24)[0]

        begin = shown()
        made, admins = tenants(meted, TENANTS - 1)
        asker = Guest(made[0].socket)
        all_there = shown()

        def looked():
            asker.credit(MIB)
            asker.give_back(MIB)
            return shown() >= all_there + 50

        until(looked)
        passes = shown() - begin
        each = meted.instructions() / passes / TENANTS
    assert 5 < each < 110, each


if __name__ == "__main__":
    run(globals())
