#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What has happened, as the page's JSON and its stream tell it: each event once, the last ones where there are many, and to each viewer what he may know."""
import threading

from meted import *
from page_others import NOBODY, OTHER, as_others, end_of, tenant_of
from page_socket import Shown
import web

MOST = 32


def said(events):
    return [event["said"] for event in events]


def test_the_stream_begins_with_the_last_events_and_tells_each_later_one_once():
    with Shown() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB", name="one")
        with web.Stream(meted.page) as stream:
            name, state = stream.next()
            assert name == "state" and [event["kind"] for event in state["events"]] == ["began", "came"] and state["clock"] >= state["events"][-1]["at"], state["events"]
            told = list(state["events"])
            for weight in ("200", "300"):
                admin.set(made.tenant, "weight", weight)
                fresh = stream.until(lambda name, data: data.get("events"))
                assert said(fresh) == [f"its share was changed: weight={weight}"], fresh
                told += fresh
            # The end of a tenant is told, though it is there no more.
            admin.close()
            change = stream.until(lambda name, data: data["gone"] and data)
            assert [event["kind"] for event in change["events"]] == ["left"], change
            told += change["events"]
        numbers = [event["number"] for event in told]
        assert numbers == list(range(1, len(told) + 1)), told
        assert meted.ask("/v1/node").json["events"] == told


def test_of_many_events_the_last_ones_are_told():
    with Shown() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB", name="one")
        with web.Stream(meted.page) as stream:
            last = stream.next()[1]["events"][-1]["number"]
            os.kill(meted.process.pid, signal.SIGSTOP)  # so that all of them come within one second
            for weight in range(101, 101 + 2 * MOST):
                admin.send("tenant_set", tenant=made.tenant, key="weight", value=str(weight))
            os.kill(meted.process.pid, signal.SIGCONT)
            told = []
            while not told or told[-1]["number"] < last + 2 * MOST:
                fresh = stream.until(lambda name, data: data.get("events"))
                assert len(fresh) <= MOST, len(fresh)
                told += fresh
            assert [event["number"] for event in told] == sorted({event["number"] for event in told})
        shown = meted.ask("/v1/node").json["events"]
        assert len(shown) == MOST and said(shown)[-1] == f"its share was changed: weight={100 + 2 * MOST}", said(shown)


def test_a_user_is_told_of_his_own_tenants_and_of_devices():
    if os.geteuid() != 0:
        raise Skipped("only root can play another user; run it as root")
    with Shown(role="--system") as meted:
        admin = Admin(meted.place)
        end_of(tenant_of(meted, NOBODY, "secret-gone"))
        end_of(tenant_of(meted, OTHER, "own-gone"))
        secret = tenant_of(meted, NOBODY, "secret", "2GiB", refused=3 * GIB)
        own = tenant_of(meted, OTHER, "own", "2GiB", refused=3 * GIB)
        admin.ask("device_cordon", device="0", on=1)

        def events():
            answer = web.ask(meted.page, "/v1/node")
            return answer.status == 200 and [(event["kind"], event.get("name"), event["said"]) for event in answer.json["events"]]

        everything = events()
        assert [one[:2] for one in everything] == [("began", None), ("came", "secret-gone"), ("left", "secret-gone"), ("came", "own-gone"), ("left", "own-gone"), ("came", "secret"),
                                                    ("refused", "secret"), ("came", "own"), ("refused", "own"), ("cordoned", None)], everything
        his = eval(as_others(OTHER, lambda: repr(until(events, "too busy"))))
        assert [one[:2] for one in his] == [one[:2] for one in everything if one[1] in (None, "own-gone", "own")], his
        assert ("refused", "own", "memory was refused to one of its processes") in his and ("began", None, "meted began") in his, his

        # Nor by a stream, at its beginning or later.
        def watch():
            with until(lambda: (stream := web.Stream(meted.page)).status == 200 and stream, "no place for a viewer") as stream:
                seen = list(stream.next()[1]["events"])
                tell.write(b"x")
                tell.flush()
                while not any(event["kind"] == "uncordoned" for event in seen):
                    seen += stream.until(lambda name, data: data.get("events"))
                return "secret" if b"secret" in stream.heard else " ".join(event["kind"] for event in seen[-2:])

        hear, tell = (os.fdopen(end, mode) for end, mode in zip(os.pipe(), ("rb", "wb")))

        def act():
            assert hear.read(1) == b"x"
            ids = {row.name: row.tenant for row in admin.list() if row.kind == "tenant_row"}
            admin.set(ids["secret"], "weight", "200")
            admin.set(ids["own"], "weight", "200")
            admin.ask("device_cordon", device="0", on=0)

        acts = threading.Thread(target=act)
        acts.start()
        heard = as_others(OTHER, watch)
        acts.join()
        assert heard == "set uncordoned", heard
        for held in secret, own:
            end_of(held)


if __name__ == "__main__":
    run(globals())
