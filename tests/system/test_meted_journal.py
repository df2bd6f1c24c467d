#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""meted's journal: torn, on a full disk, and long."""
import os
import random
import resource
import zlib

from meted import *


def test_a_torn_journal_is_read_as_far_as_it_is_whole():
    with Daemon() as meted:
        admin = Admin(meted.place)
        first, second = admin.tenant("1GiB", name="first"), admin.tenant("2GiB", name="second")
        guests = [Guest(first.socket), Guest(second.socket)]
        meted.kill()
        path = meted.place + "/journal"
        whole = open(path, "rb").read()
        lines = whole.splitlines(keepends=True)
        for line in lines:
            assert zlib.crc32(line[9:-1]) == int(line[:8], 16), line
        last = next(i for i, line in enumerate(lines) if b"name=second" in line)
        torn = b"".join(lines[:last]) + lines[last][:-4]
        for content in (torn, b"".join(lines[:last]) + lines[last].replace(b"2GiB", b"3GiB"),
                        b"".join(lines[:last]) + random.Random(1).randbytes(500)):
            with open(path, "wb") as file:
                file.write(content)
            meted.start()
            admin = Admin(meted.place)
            assert [row.name for row in admin.list() if row.kind == "tenant_row"] == ["first"]
            assert "journal.cut" in meted.log()
            # The file of events tells of the second one by its number.
            assert admin.tenant("1GiB", name="third").tenant > second.tenant
            meted.kill()


def test_a_full_disk_is_logged_once_and_everything_goes_on():
    # Pages need 4096 bytes: with this limit they can be made, and the journal cannot grow for long.
    with Daemon("--log-level", "warning", wrap=("prlimit", "--fsize=8192:unlimited")) as meted:
        admin = Admin(meted.place)
        makes = [admin.tenant("1GiB", name="x" * 200) for _ in range(40)]
        guests = [Guest(made.socket) for made in makes]
        assert all(guest.credit(MIB) == MIB for guest in guests[:4])
        assert meted.log().count("journal.lost") == 1
        for line in open(meted.place + "/journal", "rb").read().splitlines():
            assert zlib.crc32(line[9:]) == int(line[:8], 16), "no half line is left behind"
        for guest in guests:
            guest.close()


def test_there_is_room_again_and_nothing_was_lost():
    with Daemon("--log-level", "warning", wrap=("prlimit", "--fsize=8192:unlimited")) as meted:
        admin = Admin(meted.place)
        makes = [admin.tenant("1GiB", name="x" * 200) for _ in range(40)]
        assert "journal.lost" in meted.log()
        resource.prlimit(meted.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        admin.set(makes[0].tenant, "memory", "2GiB")
        for line in open(meted.place + "/journal", "rb").read().splitlines():
            assert zlib.crc32(line[9:]) == int(line[:8], 16)
        meted.kill()
        meted.start()
        assert len([row for row in Admin(meted.place).list() if row.kind == "tenant_row"]) == 40


def test_the_journal_stays_short():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB", name="y" * 200)
        for i in range(2000):
            admin.set(made.tenant, "memory", f"{i + 101}MiB")
        assert os.path.getsize(meted.place + "/journal") < 80000
        guest = Guest(made.socket)
        meted.kill()
        meted.start()
        assert Admin(meted.place).tenant_row(made.tenant).limit == 2100 * MIB


if __name__ == "__main__":
    run(globals())
