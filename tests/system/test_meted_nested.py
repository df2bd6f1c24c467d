#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Names of tenants, and `mete run` within `mete run`: the outer share is never widened."""
import re
import select

from machine import *


def test_a_taken_name_gets_a_number_and_an_ambiguous_one_is_refused_with_the_list():
    with Machine() as here:
        for wanted in ("train", "train", "train-2"):
            here.held(ALICE, "--name", wanted)
        # `mete run` refuses a number; meted does not rely on that.
        says(here.mete(ALICE, "run", "--name", "7", "true"), "a number is a tenant's id", status=2)
        kept = Admin(PLACE)
        assert kept.tenant(name="7").name == "7-2"
        assert [row["name"] for row in here.ps()["tenants"]] == ["train", "train-2", "train-2-2", "7-2"]
        says(here.mete(ALICE, "set", "trai", "memory=1GiB"), "there is no tenant 'trai'; there are: 1 (train), 2 (train-2)")
        says(here.mete(ALICE, "set", "99", "memory=1GiB"), "there is no tenant 99; there are: 1 (train)")
        assert here.mete(ALICE, "set", "train-2", "memory=1GiB").returncode == 0
        assert here.tenant("train-2")["limit_bytes"] == GIB


def test_equal_names_of_a_former_version_are_not_clear():
    with Machine() as here:
        here.held(ALICE, "--name", "train")
        here.held(ALICE, "--name", "other")
        here.meted.kill()
        text = open(PLACE + "/journal").read()
        lines = [line.split(" ", 1)[1].replace("name=other", "name=train") for line in text.splitlines()]
        os.unlink(PLACE + "/journal")
        write_journal(lines)
        here.meted = here.start_daemon()
        says(here.mete(ALICE, "set", "train", "memory=1GiB"), "'train' is ambiguous; give its number: 1 (train), 2 (train)")
        assert here.mete(ALICE, "set", "2", "memory=1GiB").returncode == 0


def write_journal(lines):
    """With the checksums of base/journal.c."""
    with open(PLACE + "/journal", "w") as file:
        for line in lines:
            file.write(f"{zlib.crc32(line.encode()):08x} {line}\n")
    os.chmod(PLACE + "/journal", 0o600)


def nested(here, *inner, outer=("--memory", "512MiB"), **more):
    return here.mete(ALICE, "run", "--name", "outer", *outer, "--", *more.pop("before", ()), BUILD + "/cli/mete", "run", *inner, **more)


def test_a_nested_run_is_within_the_outer_share():
    with Machine() as here:
        joined = nested(here, "--memory", "1GiB", "--", program("vector-add"), "size=64M")
        says(joined, "within tenant 1 (outer): its limit of 512MiB also applies to this program", "the limit of 512MiB is reached")
        silent = nested(here, "--", BUILD + "/cli/mete", "ps", "--json")
        assert [row["name"] for row in json.loads(silent.stdout)["tenants"]] == ["outer"] and "within tenant" not in silent.stderr, silent
        part = nested(here, "--memory", "256MiB", "--name", "inner", "--", BUILD + "/cli/mete", "ps", "--json")
        rows = json.loads(part.stdout)["tenants"]
        assert [(row["name"], row["limit_bytes"]) for row in rows] == [("outer", 512 * MIB), ("inner", 256 * MIB)], rows
        assert rows[1]["within_tenant"] == rows[0]["tenant"]
        small = nested(here, "--memory", "256MiB", "--", program("vector-add"), "size=64M")
        says(small, "the limit of 256MiB is reached")
        # An environment that was emptied widens nothing.
        emptied = nested(here, "--memory", "1GiB", "--", program("vector-add"), "size=64M", before=("env", "-u", "METE_SOCKET"))
        says(emptied, "the limit of 512MiB is reached")
        deep = nested(here, "--memory", "256MiB", "--", BUILD + "/cli/mete", "run", "--memory", "1GiB", "--", program("vector-add"),
                      "size=64M")
        says(deep, "the limit of 256MiB is reached")


def test_a_nested_part_and_the_outer_tenant_hold_no_more_together():
    with Machine():
        def take():
            admin = Admin(PLACE)
            outer = admin.tenant("100MiB")
            first = Guest(outer.socket)
            part = admin.ask("tenant_new", name="part", memory="80MiB", outer=outer.socket)
            assert part.tenant != outer.tenant and not part.joined
            second = Guest(part.socket)
            second.credit(60 * MIB)
            second.allocated(60 * MIB)
            try:
                first.credit(50 * MIB)
            except Refused:
                pass
            else:
                return 1
            first.credit(40 * MIB)
            first.allocated(40 * MIB)
            try:
                second.credit(MIB)
            except Refused as refusal:
                assert "the enclosing tenant's limit is reached" in str(refusal), refusal
                return 0
            return 2

        assert as_user(ALICE, take) == 0


def test_an_outer_tenant_stays_for_those_within_it_and_both_come_back_after_a_restart():
    with Machine() as here:
        seats = Seat(), Seat()
        admin = Admin(PLACE)
        outer = admin.tenant("1GiB")
        part = admin.ask("tenant_new", name="part", memory="80MiB", outer=outer.socket)
        for made, seat in zip((outer, part), seats):
            Guest(made.socket, seat=seat).credit(MIB)
        admin.close()
        here.meted.kill()
        here.meted = here.start_daemon()
        rows = {row["tenant"]: row for row in here.ps()["tenants"]}
        assert rows[part.tenant]["within_tenant"] == outer.tenant and not rows[outer.tenant]["within_tenant"], rows
        seats[0].end()
        until(lambda: "tenant=%d guest" % outer.tenant in here.meted.log() and "guest.left" in here.meted.log())
        assert {row["tenant"] for row in here.ps()["tenants"]} == {outer.tenant, part.tenant}
        seats[1].end()
        until(lambda: here.ps()["tenants"] == [])


def test_a_run_within_another_meteds_share_makes_nothing():
    with Machine() as here:
        other = tempfile.mkdtemp(prefix="mete-other-")
        os.chown(other, ALICE, ALICE)
        here.meted.process.terminate()
        here.meted.wait()
        done = here.mete(ALICE, "run", "--memory", "256MiB", "--", "env", f"XDG_RUNTIME_DIR={other}", BUILD + "/cli/mete", "run",
                         "--memory", "1GiB", "--", program("vector-add"), "size=64M")
        says(done, "runs within a share of another meted", "the limit of 256MiB is reached")
        shutil.rmtree(other)
        here.meted = here.start_daemon()


def test_tenants_within_another_one_have_no_more_time_together_than_it_was_to_have():
    """A weight of 1 is divided, too: by whole numbers, each of 21 parts would have a weight of 1. What each is due is counted, whatever it takes."""
    with Machine():
        admin = Admin(PLACE)
        outer = admin.tenant("1GiB", weight="1")
        parts = [admin.ask("tenant_new", name="part", memory="100MiB", outer=outer.socket) for _ in range(20)]
        neighbour = admin.tenant("1GiB", weight="21", name="neighbour")
        guests = [Guest(made.socket) for made in (neighbour, outer, *parts)]
        by_socket = {guest.socket: guest for guest in guests}

        def due():
            for ready in select.select(list(by_socket), [], [], 0.02)[0]:
                message = by_socket[ready].receive_any()
                if message.kind == "gate" and message.state != OPEN:
                    by_socket[ready].send("drained", device=0, epoch=message.epoch)
            rows = {row.tenant: row.entitled for row in admin.list() if row.kind == "tenant_row"}
            return rows.pop(neighbour.tenant), sum(rows.values())

        for guest in guests:
            guest.send("wants", device=0)
        before = until(lambda: (now := due()) and now[0] > 10_000_000 and now)
        after = until(lambda: (now := due()) and now[0] > before[0] + 100_000_000 and now)
        of_neighbour, of_others = (now - then for then, now in zip(before, after))
        assert 0 < of_others < of_neighbour / 10, (of_neighbour, of_others)


def test_a_tenant_has_so_many_within_it_and_is_told_when_there_are_no_more():
    with Machine() as here:
        admin = Admin(PLACE)
        outer = admin.tenant("1GiB", name="outer")
        made = [admin.ask("tenant_new", name="part", memory="100MiB", outer=outer.socket) for _ in range(30)]
        deep = admin.ask("tenant_new", name="deep", memory="80MiB", outer=made[0].socket)
        assert not deep.joined
        for within in (outer, made[3], deep):
            try:
                admin.ask("tenant_new", name="one more", memory="70MiB", outer=within.socket)
            except Refused as refusal:
                assert "tenant 1 (outer) has 31 tenants within it, and may have no more" in str(refusal), refusal
            else:
                raise AssertionError("it was made")
        assert admin.ask("tenant_new", name="joins", outer=outer.socket).joined
        assert len(here.ps()["tenants"]) == 32
        assert admin.tenant("1GiB").tenant, "others are made"


def test_a_cap_is_divided_among_no_more_than_have_a_part_of_it():
    """0.1 % is the least that turns know: of 1 %, eleven would have 1.1 %."""
    with Machine() as here:
        admin = Admin(PLACE)
        outer = admin.tenant("1GiB", name="outer", cap="1%")
        made = [admin.ask("tenant_new", name="part", memory="100MiB", outer=outer.socket) for _ in range(9)]
        for within, sentence in ((outer, r"tenant 1 \(outer\) would have a cap of 1.0% for 11 parts, and 0.1% each is the least; accepted: "),
                                 (made[2], r"tenant 4 \(part-3\) would have a cap of 0.1% for 2 parts, and 0.1% each is the least; accepted: ")):
            try:
                admin.ask("tenant_new", name="one more", memory="70MiB", outer=within.socket)
            except Refused as refusal:
                assert re.search(sentence, str(refusal)), refusal
            else:
                raise AssertionError("it was made")
        smaller = here.mete(0, "set", "outer", "cap=0.5%")
        says(smaller, "cap: 0.5% cannot be divided with the tenants within tenant 1 (outer), as 0.1% each is the least; accepted: at least 1.0%")
        assert here.mete(0, "set", "outer", "cap=2%").returncode == 0
        assert not admin.ask("tenant_new", name="one more", memory="70MiB", outer=outer.socket).joined
        says(here.mete(0, "set", "outer", "cap=1%"), "accepted: at least 1.1%")


def test_a_small_weight_that_is_divided_is_said_in_hundredths():
    with Machine():
        admin = Admin(PLACE)
        outer = admin.tenant("1GiB", name="outer", weight="1")
        for weight in "0.50", "0.33":
            made = admin.ask("tenant_new", name="part", memory="100MiB", weight="1", outer=outer.socket)
            assert f"and no more: weight {weight}, not 1" in made.note, made


main(globals())
