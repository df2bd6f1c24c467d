#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mete events: what has happened, as lines and as JSON, of one tenant, and as it happens. argv[3]: the build's folder."""
import json
import re
import subprocess
import sys

from meted import *
from own_machine import own_machine

BUILD = sys.argv.pop(3)


class Machine(Daemon):
    """A user's meted where `mete` finds it."""

    def __init__(self, *options):
        self.folder = tempfile.mkdtemp(prefix="mete-")
        os.mkdir(self.folder + "/mete", 0o700)
        super().__init__(*options, place=self.folder + "/mete", environment={"METE_STUB_DEVICES": "2"})

    def elsewhere(self):
        """On a machine that has never had a system's meted, whose events are read where a user has none. Only root can make it."""
        if os.getuid() == 0:
            own_machine()

    def command(self, *words):
        return [BUILD + "/cli/mete", "events", *words], dict(os.environ, XDG_RUNTIME_DIR=self.folder)

    def events(self, *words):
        command, environment = self.command(*words)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0 and not done.stderr, done
        return done.stdout

    def nothing(self, *words):
        """What is said where nothing is printed."""
        command, environment = self.command(*words)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, preexec_fn=self.elsewhere)
        assert done.returncode == 0 and not done.stdout, done
        return done.stderr

    def follow(self, *words):
        command, environment = self.command("--follow", "--format", "json", *words)
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def told(self, *words):
        return [json.loads(line) for line in self.events("--json", *words).splitlines()]


def test_a_tenants_events_are_told_in_their_order():
    with Machine() as meted:
        admin = Admin(meted.place)
        made = admin.ask("tenant_new", name="job\x1b[2J", memory="256MiB", device="0", swap="auto")
        leaver = Admin(meted.place)
        leaver.ask("tenant_new", name="other", memory="64MiB", device="1")
        guest = Guest(made.socket, program="train")
        guest.refused(GIB)
        guest.refused(GIB)
        admin.ask("tenant_set", tenant=made.tenant, key="wait", value="5s")
        admin.ask("device_cordon", device="1", on=1)
        admin.ask("device_cordon", device="1", on=1)
        admin.ask("device_cordon", device="1", on=0)
        told = meted.told()
        assert [row["kind"] for row in told] == ["came", "came", "refused", "set", "cordoned", "uncordoned"], told
        assert [row["number"] for row in told] == list(range(1, 7)) and all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", row["at"]) for row in told), told
        refused = told[2]
        assert (refused["tenant"], refused["device"], refused["uid"]) == (made.tenant, 0, os.getuid()), refused
        assert refused["name"] == "job?[2J" and "the limit of 256MiB is reached" in refused["said"], refused
        assert "tenant" not in told[4] and told[4]["device"] == 1
        # Its own, by name or number; and none of a time that has not been.
        for who in "job?[2J", str(made.tenant):
            assert [row["kind"] for row in meted.told("--tenant", who)] == ["came", "refused", "set"], who
        assert meted.told("--tenant", "nobody") == [] and meted.told("--since", "0s") == [] and meted.told("--since", "1d12h") == told
        # From a moment on, which another event's --json has printed; it is rounded down.
        moment = told[2]["at"]
        assert [row for row in meted.told("--since", moment) if row["number"] > 2] == told[2:] and meted.told("--since", "2100-01-01") == []
        assert meted.nothing("--tenant", "jib") == "mete events: nothing is told of a tenant 'jib'\n"
        assert meted.nothing("--tenant", "othre") == "mete events: nothing is told of a tenant 'othre'; did you mean 'other'?\n"
        assert meted.nothing("--tenant", "other", "--since", "2100-01-01") == "mete events: nothing is told of a tenant 'other' since then\n"
        assert meted.nothing("--since", "0s") == "mete events: nothing has happened since then\n"
        lines = meted.events().splitlines()
        assert len(lines) == 6 and re.fullmatch(r"[-\d]{10} [:\d]{8}  refused     GPU 0   job\?\[2J \(tenant 1\): process \d+ was refused memory: the limit .*", lines[2]), lines
        for suspends in 1, 1, 0, 0:
            admin.ask("tenant_suspend", tenant=made.tenant, suspends=suspends)
        assert [row["kind"] for row in meted.told("--tenant", "1")] == ["came", "refused", "set", "suspended", "resumed"], meted.told()
        # The sentence goes on behind its kind, and does not say it again.
        assert all(row["kind"] not in row["said"] for row in meted.told("--tenant", "1") if row["kind"] in ("came", "suspended", "resumed")), meted.told()
        leaver.close()
        until(lambda: [row["kind"] for row in meted.told("--tenant", "other")] == ["came", "left"])
        assert meted.told("--tenant", "other")[1]["said"] == "ended; no process of it has used a GPU"
        guest.close()
        admin.close()


def next_of(follower, kind):
    row = json.loads(follower.stdout.readline())
    assert row["kind"] == kind, row
    return row


def test_events_to_come_are_told_also_by_a_meted_that_comes_back():
    with Machine() as meted:
        with meted.follow() as follower:
            admin = Admin(meted.place)
            admin.ask("tenant_new", name="job", memory="64MiB", device="0")
            assert next_of(follower, "came")["number"] == 1
            meted.kill()
            assert follower.stderr.readline() == "mete events: meted has ended: waiting until it is back\n"
            meted.start()
            # Nothing is told twice, and nothing is left out.
            began = next_of(follower, "began")
            assert began["number"] == 2 and began["said"].endswith(f"began as process {meted.process.pid}, and found 1 tenant"), began
            assert follower.stderr.readline() == "mete events: meted is there\n"
            assert [row["kind"] for row in meted.told()] == ["came", "began"]
            follower.kill()
        admin.close()


def spent(pid):
    """Whether it has run: its voluntary and other switches, by the kernel."""
    return [line for line in open(f"/proc/{pid}/status") if "ctxt_switches" in line]


def waits(process):
    """Until it sleeps in poll()."""
    until(lambda: open(f"/proc/{process.pid}/syscall").read().split()[0] in ("7", "271"), "it does not wait")


def test_a_follower_waits_without_asking_and_ends_with_its_reader():
    with Machine() as meted:
        with meted.follow() as follower:
            admin = Admin(meted.place)
            admin.ask("device_cordon", device="1", on=1)
            next_of(follower, "cordoned")
            waits(follower)
            before = spent(follower.pid)  # meted does something, but nothing that is told
            for _ in range(50):
                admin.ask("list", tenant=0)
            assert spent(follower.pid) == before
            follower.stdout.close()
            assert follower.wait(timeout=PATIENCE) == 0 and follower.stderr.read() == ""
        admin.close()


def test_the_second_question_of_a_connection_that_waits_has_the_first_answered_at_once():
    with Machine() as meted:
        admin = Admin(meted.place)
        admin.ask("device_cordon", device="0", on=1)
        assert admin.ask("events_await", after=0).kind == "event_row"  # what there is
        assert admin.receive().kind == "end"
        first, second = (admin.send("events_await", after=1) for _ in range(2))
        end = admin.receive()
        assert (end.id, end.kind, end.rows) == (first, "end", 0), end
        other = Admin(meted.place)
        other.ask("device_cordon", device="1", on=1)
        row, end = admin.receive(), admin.receive()
        assert (row.id, row.number, end.id, end.rows) == (second, 2, second, 1), (row, end)
        # One that leaves is not waited with; a number that nobody has given out is the first.
        admin.send("events_await", after=2)
        admin.close()
        other.ask("device_cordon", device="1", on=0)
        assert other.ask("events_await", after=1000).number == 1
        other.close()


def test_events_outlive_meted_and_nobody_else_reads_or_writes_them():
    with Machine() as meted:
        admin = Admin(meted.place)
        admin.ask("tenant_new", name="job", memory="64MiB", device="0")
        stays = Admin(meted.place)
        admin.close()
        until(lambda: [row["kind"] for row in meted.told()] == ["came", "left"])
        meted.process.terminate()
        meted.wait()
        stays.close()
        file = meted.place + "/events"
        assert os.stat(file).st_mode & 0o777 == 0o600 and os.stat(file).st_uid == os.getuid()
        meted.start()
        admin = Admin(meted.place)
        assert [row["number"] for row in meted.told()] == [1, 2], meted.told()
        # A tenant's number is not another one's, as events tell of it.
        assert admin.ask("tenant_new", name="job", memory="64MiB", device="0").tenant == 2
        meted.kill()
        admin.close()
        with open(file, "r+b") as broken:
            broken.write(b"\0\xff garbage")
        meted.start()
        told = meted.told()
        assert [row["kind"] for row in told] == ["began"] and "journal.cut" in meted.log(), meted.log()


def test_events_of_a_meted_that_has_ended_are_read_from_its_file():
    """A user's own ends with its last tenant."""
    with Machine() as meted:
        admin = Admin(meted.place)
        made = admin.ask("tenant_new", name="job\x1b[2J, a = 50 %", memory="256MiB", device="1")
        admin.ask("device_cordon", device="1", on=1)
        admin.ask("device_cordon", device="1", on=0)
        told = meted.told()
        admin.close()
        assert meted.wait() == 0
        command, environment = meted.command("--json")
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0 and done.stderr == "mete events: no meted is running: this is what the last one has told\n", done
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        assert rows[:-1] == told and rows[-1]["kind"] == "left" and told[0]["device"] == 1, (rows, told)
        command, environment = meted.command("--tenant", str(made.tenant))
        assert len(subprocess.run(command, env=environment, capture_output=True, text=True).stdout.splitlines()) == 2
        assert "nothing is told of a tenant 'nobody'" in meted.nothing("--tenant", "nobody")


def test_a_mistake_is_one_sentence_and_without_meted_there_are_no_events():
    with Machine() as meted:
        for words, sentence in ((["train"], "'train': events takes no arguments; `mete events --tenant train` tells what happened to a tenant"), (["--format", "xml"], "--format 'xml': accepted are lines and json"),
                                (["--since", "soon"], "--since 'soon': accepted are how long ago"),
                                (["--folow"], "did you mean '--follow'?"), (["--tennant=x"], "did you mean '--tenant'?"), (["--jsno"], "did you mean '--json'?")):
            command, environment = meted.command(*words)
            done = subprocess.run(command, env=environment, capture_output=True, text=True)
            assert done.returncode == 2 and sentence in done.stderr, done
        assert meted.nothing() == "mete events: nothing has happened yet\n"
        meted.process.terminate()
        meted.wait()
        os.unlink(meted.place + "/events")
        if os.getuid() != 0 and os.path.exists("/run/mete/events"):
            raise Skipped("there is a /run/mete on this machine; run it as root, or in a container")
        assert meted.nothing() == "mete events: no meted is running\n"


if __name__ == "__main__":
    run(globals())
