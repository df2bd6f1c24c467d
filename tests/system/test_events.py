#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mete events: what has happened, as lines and as JSON, of one tenant, and as it happens. argv[3]: the build's folder."""
import json
import re
import subprocess
import sys

from meted import *

BUILD = sys.argv.pop(3)


class Machine(Daemon):
    """A user's meted where `mete` finds it."""

    def __init__(self, *options):
        self.folder = tempfile.mkdtemp(prefix="mete-")
        os.mkdir(self.folder + "/mete", 0o700)
        super().__init__(*options, place=self.folder + "/mete", environment={"METE_STUB_DEVICES": "2"})

    def command(self, *words):
        return [BUILD + "/cli/mete", "events", *words], dict(os.environ, XDG_RUNTIME_DIR=self.folder)

    def events(self, *words):
        command, environment = self.command(*words)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0 and not done.stderr, done
        return done.stdout

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
        assert [row["kind"] for row in told] == ["began", "came", "came", "refused", "set", "cordoned", "uncordoned"], told
        assert [row["number"] for row in told] == list(range(1, 8)) and all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", row["at"]) for row in told), told
        refused = told[3]
        assert (refused["tenant"], refused["device"], refused["uid"]) == (made.tenant, 0, os.getuid()), refused
        assert refused["name"] == "job?[2J" and "the limit of 256MiB is reached" in refused["said"], refused
        assert "tenant" not in told[5] and told[5]["device"] == 1
        # Its own, by name or number; and none of a time that has not been.
        for who in "job?[2J", str(made.tenant):
            assert [row["kind"] for row in meted.told("--tenant", who)] == ["came", "refused", "set"], who
        assert meted.told("--tenant", "nobody") == [] and meted.told("--since", "0s") == [] and meted.told("--since", "1d") == told
        lines = meted.events().splitlines()
        assert len(lines) == 7 and re.fullmatch(r"[-\d]{10} [:\d]{8}  refused     GPU 0   job\?\[2J \(tenant 1\): process \d+ was refused memory: the limit .*", lines[3]), lines
        for suspends in 1, 1, 0, 0:
            admin.ask("tenant_suspend", tenant=made.tenant, suspends=suspends)
        assert [row["kind"] for row in meted.told("--tenant", "1")] == ["came", "refused", "set", "suspended", "resumed"], meted.told()
        leaver.close()
        until(lambda: [row["kind"] for row in meted.told("--tenant", "other")] == ["came", "left"])
        guest.close()
        admin.close()


def test_events_to_come_are_told_also_by_a_meted_that_comes_back():
    with Machine() as meted:
        command, environment = meted.command("--follow", "--format", "json")
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as follower:
            def next_of(kind):
                row = json.loads(follower.stdout.readline())
                assert row["kind"] == kind, row
                return row

            next_of("began")
            admin = Admin(meted.place)
            admin.ask("tenant_new", name="job", memory="64MiB", device="0")
            next_of("came")
            meted.kill()
            meted.start()
            assert next_of("began")["number"] == 1
            follower.kill()
        admin.close()


def test_a_mistake_is_one_sentence_and_without_meted_there_are_no_events():
    with Machine() as meted:
        for words, sentence in ((["train"], "'train': events takes no arguments; --tenant names a tenant"), (["--format", "xml"], "--format 'xml': accepted are lines and json"),
                                (["--since", "soon"], "--since")):
            command, environment = meted.command(*words)
            done = subprocess.run(command, env=environment, capture_output=True, text=True)
            assert done.returncode == 2 and sentence in done.stderr, done
        meted.process.terminate()
        meted.wait()
        command, environment = meted.command()
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0 and done.stdout == "" and "no meted is running" in done.stderr, done


if __name__ == "__main__":
    run(globals())
