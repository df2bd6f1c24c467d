#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The client of the API server, before a server that has good days and bad ones: lists and watches."""
import json
import socket
import time

from fake_api import *

PODS = "/api/v1/pods"


def watching(api, *items, version="10", path=PODS):
    """A watch that is under way; its first request and the server's end of it."""
    api.client.tell(f"watch w {path}")
    api.client.hear("w watch 0")
    first = api.list(*items, version=version)
    api.client.hear("w begins", *[f"w seen {i['metadata']['name']}@{i['metadata']['resourceVersion']}" for i in items],
                    "w listed")
    return first, api.watch()


def test_a_list_comes_in_pages_and_a_watch_goes_on_from_it():
    with Api() as api:
        api.client.tell(f"watch w {PODS}?fieldSelector=spec.nodeName%3Dn1")
        api.client.hear("w watch 0")
        first = api.list(item("a", 1), item("b", 2), version=10, more="to/k=n")
        assert first.query == {"fieldSelector": "spec.nodeName=n1", "limit": "500"}, first.query
        api.client.hear("w begins", "w seen a@1", "w seen b@2")
        second = api.list(item("c", 3), version=10)
        assert second.query["continue"] == "to/k=n" and second.query["fieldSelector"] == "spec.nodeName=n1"
        api.client.hear("w seen c@3", "w listed")
        watch = api.watch()
        assert watch.query["resourceVersion"] == "10" and watch.query["allowWatchBookmarks"] == "true"
        assert watch.query["watch"] == "1" and 300 <= int(watch.query["timeoutSeconds"]) <= 600
        assert watch.query["fieldSelector"] == "spec.nodeName=n1" and "limit" not in watch.query
        watch.event("ADDED", item("d", 11)).event("MODIFIED", item("d", 12)).event("DELETED", item("a", 13))
        api.client.hear("w seen d@11", "w seen d@12", "w gone a@13")
        api.client.tell("current w")
        api.client.hear("w current 1")


def test_an_empty_list_is_a_list():
    with Api() as api:
        api.client.tell(f"watch w {PODS}")
        api.client.hear("w watch 0")
        api.request().answer(dict(listed(version=5), items=None))
        api.client.hear("w begins", "w listed")
        api.watch()


def test_events_may_be_split_and_merged_in_any_way():
    with Api() as api:
        _, watch = watching(api)
        stream = b"".join(event("MODIFIED", item(f"p{i}", 20 + i)) for i in range(20))
        stream = stream.replace(b"p3", "p\u00e9".encode())
        for at in range(0, len(stream) // 2, 7):
            watch.send(stream[at:at + 7])
        at += 7
        watch.send(stream[at:])
        api.client.hear(*[f"w seen p{i if i != 3 else chr(0xe9)}@{20 + i}" for i in range(20)])


def test_a_watch_that_the_server_ends_is_resumed_at_once_from_the_last_event():
    with Api() as api:
        _, watch = watching(api)
        watch.event("ADDED", item("a", 11)).end()
        watch = api.watch()
        assert watch.query["resourceVersion"] == "11"
        watch.event("BOOKMARK", item("", 50)).end()
        watch = api.watch()
        assert watch.query["resourceVersion"] == "50"
        watch.event("ADDED", item("b", 51))
        api.client.hear("w seen a@11", "w seen b@51")


def test_a_connection_that_is_cut_in_the_middle_of_an_event_loses_nothing():
    with Api() as api:
        _, watch = watching(api)
        watch.event("ADDED", item("a", 11)).send(event("ADDED", item("b", 12))[:30])
        api.client.hear("w seen a@11")
        watch.cut()
        watch = api.watch()
        assert watch.query["resourceVersion"] == "11"
        watch.event("ADDED", item("b", 12))
        api.client.hear("w seen b@12")


def test_a_watch_that_ends_again_and_again_is_trouble_and_goes_on():
    with Api() as api:
        _, watch = watching(api)
        for _ in range(4):
            watch.end()
            watch = api.watch()
        api.client.hear(f"w troubled https://127.0.0.1:{api.port}: it ends every watch immediately")
        api.client.tell("current w")
        api.client.hear("w current 0")
        api.client.set("pace hasty 0")
        watch.event("ADDED", item("a", 11))
        api.client.hear("w well", "w seen a@11")
        api.client.tell("current w")
        api.client.hear("w current 1")


def test_an_expired_resource_version_is_listed_anew():
    with Api() as api:
        _, watch = watching(api, item("a", 1))
        watch.event("ERROR", status(410, "too old resource version", "Expired"))
        api.list(item("b", 2), version=100)
        api.client.hear("w begins", "w seen b@2", "w listed")
        watch = api.watch()
        assert watch.query["resourceVersion"] == "100"
        watch.event("ADDED", item("c", 101)).end()
        api.client.hear("w seen c@101")
        api.watch(begin=False).refuse(410, "too old resource version")
        api.list(version=200)
        api.client.hear("w begins", "w listed")
        assert api.watch().query["resourceVersion"] == "200"


def test_an_expiry_that_repeats_itself_is_trouble():
    with Api() as api:
        _, watch = watching(api)
        for _ in range(2):
            watch.event("ERROR", status(410, "too old", "Expired"))
            api.list(version=100)
            watch = api.watch()
        api.client.hear("w begins", "w listed", "w troubled too old", "w begins", "w listed")
        watch.event("BOOKMARK", item("", 101))
        api.client.hear("w well")


def test_a_list_that_expires_in_its_middle_begins_anew():
    with Api() as api:
        api.client.tell(f"watch w {PODS}")
        api.client.hear("w watch 0")
        api.list(item("a", 1), version=10, more="t")
        api.client.hear("w begins", "w seen a@1")
        asked = api.request()
        assert asked.query["continue"] == "t"
        asked.refuse(410, "the continue parameter is too old")
        asked = api.list(item("b", 2), version=20)
        assert "continue" not in asked.query
        api.client.hear("w begins", "w seen b@2", "w listed")


def test_a_server_that_has_gone_is_tried_without_end():
    with Api() as api:
        _, watch = watching(api)
        api.vanish()
        watch.cut()
        api.client.hear(f"w troubled https://127.0.0.1:{api.port}: Connection refused")
        api.client.tell("current w")
        api.client.hear("w current 0")
        with socket.create_server(("127.0.0.1", api.port), backlog=1) as nobody:
            nobody.settimeout(PATIENCE)
            for _ in range(7):
                nobody.accept()[0].close()
        api.serve()
        watch = api.watch()
        assert watch.query["resourceVersion"] == "10"
        while (said := api.client.line()) != "w well":
            assert said.startswith(f"w troubled https://127.0.0.1:{api.port}: "), said
        watch.event("ADDED", item("a", 11))
        api.client.hear("w seen a@11")
        api.client.tell("current w")
        api.client.hear("w current 1")


def test_refusals_are_told_when_they_change():
    with Api() as api:
        api.client.tell(f"watch w {PODS}")
        api.client.hear("w watch 0")
        for code, message in ((500, "etcd"), (500, "etcd"), (403, "forbidden"), (429, "busy")):
            api.request().refuse(code, message)
        api.request().answer(b"", 503)
        api.list(version=1)
        api.watch()
        api.client.hear("w troubled etcd", "w troubled forbidden", "w troubled busy",
                        f"w troubled the API server answered 503 to GET {PODS}", "w begins", "w listed", "w well")


def test_a_watch_waits_as_long_as_the_server_asks():
    with Api() as api:
        _, watch = watching(api)
        watch.end()
        begun = time.monotonic()
        api.watch(begin=False).refuse(429, "busy", Retry_After="1")
        api.client.hear("w troubled busy")
        api.watch()
        assert time.monotonic() - begun >= 1, "sooner than it was asked for; later it may be"
        api.client.hear("w well")


def test_a_watch_that_is_refused_three_times_is_listed_anew():
    with Api() as api:
        _, watch = watching(api)
        watch.end()
        for _ in range(3):
            api.watch(begin=False).refuse(500, "the watch cache is broken")
        api.list(version=30)
        api.client.hear("w troubled the watch cache is broken", "w begins", "w listed")
        assert api.watch().query["resourceVersion"] == "30"
        api.client.hear("w well")


def test_a_cluster_that_was_restored_from_a_backup_is_listed_anew():
    with Api() as api:
        _, watch = watching(api, version=1000)
        watch.end()
        api.watch(begin=False).answer(status(504, "Too large resource version", details={
            "causes": [{"reason": "ResourceVersionTooLarge"}]}), 504)
        api.list(version=3)
        api.client.hear("w troubled Too large resource version", "w begins", "w listed")
        assert api.watch().query["resourceVersion"] == "3"


def test_a_401_of_a_watch_is_tried_with_the_new_token_at_once():
    with Api() as api:
        _, watch = watching(api)
        watch.end()
        asked = api.watch(begin=False)
        api.rotate("second")
        asked.refuse(401, "Unauthorized")
        assert api.watch().token == "Bearer second"
        api.client.quiet()


def test_garbage_in_a_watch_is_reported_and_the_watch_made_anew():
    with Api() as api:
        _, watch = watching(api)
        lines = [b"nonsense\n", b"{}\n", b'{"type":"ADDED"}\n', b'{"type":"ADDED","object":{}}\n', b"[" * 5000 + b"\n",
                 b"\x00\xff\n", b'{"type":"ADDED","object":[]}\n', event("ADDED", {"metadata": {"resourceVersion": 5}})]
        for i, line in enumerate(lines):
            watch.send(line)
            if i % 3 == 2:
                api.list(version=10)
            watch = api.watch()
        watch.event("ADDED", item("a", 11))
        told = "w troubled the API server sent an event that cannot be read"
        api.client.hear(told, "w begins", "w listed", "w begins", "w listed", "w well", "w seen a@11")


def test_an_event_of_a_kind_that_is_new_is_passed_over():
    with Api() as api:
        _, watch = watching(api)
        watch.event("RENAMED", {"x": 1}).event("ADDED", item("a", 11))
        api.client.hear("w seen a@11")


def test_an_event_that_is_too_large_is_reported_and_the_watch_made_anew():
    with Api() as api:
        api.client.tell("pace most 100000")
        _, watch = watching(api)
        try:
            watch.send(event("ADDED", dict(item("a", 11), x="y" * 200000)))
        except OSError:
            watch.done.set()  # the client did not wait for its end
        watch = api.watch()
        watch.event("ADDED", dict(item("a", 11), x="y" * 90000))
        api.client.hear("w troubled the API server sent an event that is too large", "w well", "w seen a@11")


def test_an_event_without_end_is_cut_off():
    with Api() as api:
        api.client.tell("pace most 100000")
        _, watch = watching(api)
        try:
            for _ in range(1000):
                watch.send(b"x" * 100000)
            raise AssertionError("all was taken")
        except OSError:
            watch.done.set()
        api.watch()
        api.client.hear("w troubled the API server sent an event that is too large")


def test_a_list_that_cannot_be_read_is_reported_and_asked_for_again():
    with Api() as api:
        api.client.tell(f"watch w {PODS}")
        api.client.hear("w watch 0")
        for answer in (b"", b"{", {}, {"items": []}, dict(listed(), items={}), dict(listed(), items=[1]), item("a", 1),
                       {"items": [], "metadata": {"resourceVersion": 7}}, {"items": [], "metadata": {"resourceVersion": ""}},
                       json.dumps(listed()).encode() + b"x"):
            api.request().answer(answer)
        api.list(version=3)
        api.client.hear("w troubled the API server sent a list that cannot be read", "w begins", "w listed")


def test_a_list_without_end_is_reported():
    with Api() as api:
        api.client.tell(f"watch w {PODS}")
        api.client.hear("w watch 0")
        api.list(version=3, more="t")
        api.list(version=3, more="t")
        api.client.hear("w begins", "w troubled the API server sent a list without an end")
        api.list(version=3)
        api.client.hear("w listed")


def test_a_page_that_is_too_large_is_asked_for_in_smaller_ones():
    with Api() as api:
        api.client.tell("pace most 4000")
        api.client.tell(f"watch w {PODS}")
        api.client.hear("w watch 0")
        assert api.list(*[dict(item(f"p{i}", i), x="y" * 100) for i in range(500)], version=9).query["limit"] == "500"
        assert api.list(item("a", 1), version=9).query["limit"] == "125"
        api.client.hear("w begins", "w seen a@1", "w listed")


def test_an_object_that_is_too_large_alone_is_reported():
    with Api() as api:
        api.client.tell("pace most 4000")
        api.client.tell("pace page 2")
        api.client.tell(f"watch w {PODS}")
        api.client.hear("w watch 0")
        for limit in "211":
            assert api.list(dict(item("a", 1), x="y" * 5000), version=9).query["limit"] == limit
        api.client.hear(f"w troubled https://127.0.0.1:{api.port}: the answer is larger than 3.9KiB")


def test_a_server_that_does_not_answer_a_list_is_trouble():
    with Api() as api:
        api.client.tell("pace answer 20")
        api.client.tell(f"watch w {PODS}")
        api.client.hear("w watch 0")
        asked = api.request()
        api.client.hear(f"w troubled https://127.0.0.1:{api.port}: no answer in time")
        asked.gone()
        # Those that were given up meanwhile are not answered; with more patience, one is.
        api.client.tell(f"pace answer {PATIENCE * 1000}")
        until(lambda: answered(api, listed(version=5)))
        api.client.hear("w begins", "w listed")


def answered(api, object):
    """Whether the client still waited for this answer: it goes on to its watch."""
    asked = api.request()
    if asked.watches:
        asked.begin()
        return True
    try:
        asked.answer(object)
    except OSError:
        asked.done.set()
    return False


def test_a_watch_that_is_not_answered_is_trouble():
    with Api() as api:
        api.client.tell(f"watch w {PODS}")
        api.client.hear("w watch 0")
        asked = api.request()
        api.client.tell("pace answer 20")
        api.client.tell("current w")
        api.client.hear("w current 0")
        asked.answer(listed(version=10))
        api.client.hear("w begins", "w listed", f"w troubled https://127.0.0.1:{api.port}: no answer in time")
        api.watch(begin=False).gone()


def test_a_connection_that_has_died_is_noticed_and_the_watch_resumed():
    with Api() as api:
        _, watch = watching(api)
        api.client.set("pace silence 20")
        watch.event("ADDED", item("a", 11))
        api.client.hear("w seen a@11")
        again = api.watch(begin=False)
        assert again.query["resourceVersion"] == "11"
        watch.gone()
        api.client.quiet()


def test_several_watches_and_requests_live_side_by_side():
    with Api() as api:
        for i in range(8):
            api.client.tell(f"watch w{i} /api/v1/kind{i}")
        watches = {}
        while len(watches) < 8:
            asked = api.request()
            if asked.watches:
                watches[asked.path] = asked.begin()
            else:
                asked.answer(listed(version=1))
        api.client.ask("a", "GET", "/x")
        api.request("/x").answer({})
        for i in range(8):
            watches[f"/api/v1/kind{i}"].event("ADDED", item(f"p{i}", 2))
        said = [api.client.line() for _ in range(8 * 4 + 1)]
        assert "a answered 200 - | {}" in said
        assert {line for line in said if "seen" in line} == {f"w{i} seen p{i}@2" for i in range(8)}


def test_a_watch_may_be_closed_inside_each_of_its_callbacks():
    with Api() as api:
        for i, kind in enumerate(("begins", "seen", "listed")):
            api.client.tell(f"when w{i} {kind} close w{i}")
            api.client.tell(f"watch w{i} {PODS}")
            api.client.hear(f"w{i} watch 0")
            api.list(item("a", 1), item("b", 2), version=3)
            api.client.hear(*{"begins": [f"w{i} begins"], "seen": [f"w{i} begins", f"w{i} seen a@1"],
                              "listed": [f"w{i} begins", f"w{i} seen a@1", f"w{i} seen b@2", f"w{i} listed"]}[kind])
            api.client.quiet()
        _, watch = watching(api)
        api.client.set("when w gone close w")
        watch.send(event("DELETED", item("a", 11)) + event("DELETED", item("b", 12)))
        api.client.hear("w gone a@11")
        watch.gone()
        api.client.tell("when v troubled close v")
        api.client.tell(f"watch v {PODS}")
        api.client.hear("v watch 0")
        api.request().refuse(500, "no")
        api.client.hear("v troubled no")
        api.client.tell(f"watch u {PODS}")
        api.client.hear("u watch 0")
        api.request().refuse(500, "no")
        api.client.hear("u troubled no")
        api.client.set("when u well close u")
        api.list(version=1)
        api.watch().gone()
        api.client.hear("u begins", "u listed", "u well")
        api.client.quiet()


def test_all_may_be_closed_inside_a_callback():
    for kind in ("begins", "seen", "listed", "troubled", "answered"):
        with Api() as api:
            api.client.tell(f"when w {kind} finish")
            api.client.tell(f"when a {kind} finish")
            api.client.ask("a" if kind == "answered" else "b", "GET", "/x")
            api.client.tell(f"watch w {PODS}")
            both = {asked.path: asked for asked in (api.request(), api.request())}
            if kind == "answered":
                both["/x"].answer({})
            elif kind == "troubled":
                both[PODS].answer(b"no", 500)
            else:
                both[PODS].answer(listed(item("a", 1), version=1, more="t"))
                if kind == "listed":
                    api.list(item("b", 1), version=1)
            assert api.client.process.wait(timeout=PATIENCE) == 0, api.client.process.stderr.read()
            assert not (error := api.client.process.stderr.read()), error
            api.client = None


def test_requests_may_be_made_and_forgotten_inside_callbacks():
    with Api() as api:
        _, watch = watching(api)
        api.client.set(f"when w seen ask a {PATIENCE * 1000} GET /from-seen")
        watch.send(event("ADDED", item("a", 11)) + event("ADDED", item("b", 12)))
        api.client.hear("w seen a@11", "w seen b@12")
        api.client.set(f"when a answered ask b {PATIENCE * 1000} GET /from-answered")
        api.request("/from-seen").answer({})
        api.client.hear("a answered 200 - | {}")
        asked = api.request("/from-answered")
        api.client.set("when w gone forget b")
        watch.event("DELETED", item("b", 13))
        api.client.hear("w gone b@13")
        asked.gone()
        api.client.tell(f"when c answered watch v {PODS}")
        api.client.ask("c", "GET", "/x")
        api.request("/x").answer({})
        api.client.hear("c answered 200 - | {}", "v watch 0")
        api.list(version=1)
        api.client.hear("v begins", "v listed")


def test_it_ends_cleanly_in_the_middle_of_everything():
    with Api() as api:
        _, watch = watching(api)
        watch.send(event("ADDED", item("a", 11))[:20])
        api.client.ask("a", "GET", "/x")
        asked = api.request("/x")
        asked.begin().send(b'{"half": ')
        # Longer than until it is to be repeated, whatever METE_PATIENCE is: it waits for that, and is not answered.
        api.client.ask("b", "GET", "/y", within=200000)
        api.request("/y").refuse(429, "busy", Retry_After="100")
        api.client.tell(f"watch v {PODS}")
        api.client.hear("v watch 0")


# The server's address, and the client's identity.


if __name__ == "__main__":
    run(globals())
