#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""meted's page on its Unix socket: figures as JSON, the stream of changes, and what each user sees.

argv[3]: the build's folder. Only root can play another user.
"""
import json
import re
import subprocess
import sys

from meted import *
from page_others import NOBODY, OTHER, as_others, end_of, tenant_of
from page_socket import Shown
import web

BUILD = sys.argv.pop(3)
SO_PASSRIGHTS = 83


def same_shape(a, b):
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same_shape(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same_shape(x, y) for x, y in zip(a, b))
    return type(a) is type(b)


def test_nobody_sends_the_page_descriptors():
    """Whoever reads them closes them, which takes as long as their sender likes."""
    with Shown() as meted:
        with socket.socket(socket.AF_UNIX) as client:
            try:
                client.setsockopt(socket.SOL_SOCKET, SO_PASSRIGHTS, 1)
            except OSError:
                raise Skipped("the kernel is older than 6.16, and passes descriptors to everybody; run it on a newer one") from None
            client.connect(meted.page)
            try:
                socket.send_fds(client, [b"GET /v1/node HTTP/1.1\r\nHost: here\r\n\r\n"], [client.fileno()])
                raise AssertionError("they were sent")
            except PermissionError:
                pass
        assert meted.ask("/v1/node").status == 200


def test_the_node_equals_the_output_of_mete_ps():
    with tempfile.TemporaryDirectory() as folder:
        with Shown(place=folder + "/mete") as meted:
            admin = Admin(meted.place)
            made = admin.tenant("1GiB", name='a"b\\c é')
            with_process = Guest(made.socket)
            with_process.credit(64 * MIB)
            with_process.allocated(64 * MIB)
            printed = json_of(subprocess.run([f"{BUILD}/cli/mete", "ps", "--json"], capture_output=True, check=True, text=True,
                                             env=dict(os.environ, XDG_RUNTIME_DIR=folder)).stdout)
            answer = meted.ask("/v1/node")
            assert answer.status == 200 and answer.headers["content-type"] == "application/json", answer.headers
            shown = answer.json
            assert (shown.pop("sees"), shown.pop("viewer")) == ("all", "")
            assert [event["kind"] for event in shown.pop("events")] == ["began", "came"] and shown.pop("clock")
            for device in shown["devices"]:  # what boards say is the page's alone
                assert device.pop("utilization_percent") == 0 and "temperature_celsius" not in device, device
            assert same_shape(shown, printed), (shown, printed)
            for one in (shown, printed):
                for row in one["tenants"]:
                    for key in ("age_ns", "command"):
                        row.pop(key)
                    for process in row["processes"]:
                        process.pop("age_ns")
            assert shown["devices"] == printed["devices"] and shown["tenants"] == printed["tenants"], (shown, printed)
            assert shown["tenants"][0]["name"] == made_name(printed) and shown["tenants"][0]["allocated_bytes"] == 64 * MIB
            with_process.close()
            os.makedirs(meted.place, exist_ok=True)


def json_of(text):
    return web.json.loads(text)


def made_name(printed):
    return printed["tenants"][0]["name"]


def test_a_tenant_and_a_device_by_name_and_number():
    with Shown() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB", name="a/b c")
        other = admin.tenant("2GiB", name="other")
        for name in ("a%2Fb%20c", "a/b%20c", str(made.tenant)):
            answer = meted.ask(f"/v1/tenants/{name}")
            assert answer.status == 200 and [row["tenant"] for row in answer.json["tenants"]] == [made.tenant], answer.body
            # The answer of `mete why` about it.
            assert answer.json["why"] == [{"tenant": made.tenant, "device": 0, "waits": False, "sentences": ["No process of it uses the GPU."]}], answer.body
        for name in ("nobody", "", "99"):
            answer = meted.ask(f"/v1/tenants/{name}")
            assert answer.status == 404 and ("no tenant that you may see has this name" in answer.body or not name), (name, answer.body)
        uuid = meted.ask("/v1/node").json["devices"][0]["uuid"]
        for name in (uuid, "0"):
            said = meted.ask(f"/v1/devices/{name}").json
            assert said["device"]["uuid"] == uuid and {row["tenant"] for row in said["tenants"]} == {made.tenant, other.tenant}
        for path in ("/v1/devices/1", "/v1/devices/GPU-nothing", "/v1", "/v1/", "/v2/node", "/v1/node/", "/metrics", "/v1/../v1/node"):
            answer = meted.ask(path)
            assert answer.status == 404 and ("no device has this UUID" if "devices/" in path else "there is no such path: there are /, ") in answer.body, (path, answer.body)
        assert meted.ask("/healthz").body == "ok\n"


def served_keys(answer):
    """Those of the answer itself, and of the objects that no other page explains."""
    return set(answer) | {key for row in answer.get("why", ()) for key in row}


def test_the_keys_that_are_documented_are_those_that_are_served():
    """Of rows that `mete ps --json` prints, too, mete-ps(1) has them: tests/cli/test_texts.py."""
    paths = open(os.path.join(os.path.dirname(__file__), "..", "..", "docs", "page.md")).read().partition("\n## Paths\n")[2].partition("\n## ")[0]
    everywhere = set(re.findall(r"in `(\w+)`", re.search(r"^Each answer .*$", paths, re.M)[0]))
    with Shown() as meted:
        made = Admin(meted.place)
        tenant = made.tenant("1GiB", name="one")
        for path, asked in (("/v1/node", "/v1/node"), ("/v1/tenants/NAME", f"/v1/tenants/{tenant.tenant}"), ("/v1/devices/UUID", "/v1/devices/0")):
            row = re.search(rf"^\| `{path}` \| (.*) \|$", paths, re.M)[1]
            documented = {word for word in re.findall(r"`(\w+)`", row) if word not in ("all", "own")} | everywhere
            assert documented == served_keys(meted.ask(asked).json), (path, documented ^ served_keys(meted.ask(asked).json))


def test_the_page_runs_nothing_but_its_own_script():
    with Shown() as meted:
        answer = meted.ask("/")
        policy = answer.headers["content-security-policy"]
        assert answer.status == 200 and "default-src 'none'" in policy and "unsafe" not in policy, policy
        for mark, text in (("script-src", "script"), ("style-src", "style")):
            inner = answer.body.split(f"<{text}>", 1)[1].split(f"</{text}>", 1)[0]
            digest = web.base64_digest(inner)
            assert f"{mark} 'sha256-{digest}'" in policy, (mark, policy)
        for path in ("/", "/v1/node", "/v1/events", "/nothing"):
            headers = web.Stream(meted.page, path).headers
            for name, value in (("x-content-type-options", "nosniff"), ("referrer-policy", "no-referrer"), ("x-frame-options", "DENY"),
                                ("cross-origin-resource-policy", "same-origin")):
                assert headers[name] == value, (path, headers)
            assert "access-control-allow-origin" not in headers and "set-cookie" not in headers
        for address in ("http://", "https://", "//cdn"):
            assert f'src="{address}' not in answer.body and f"import('{address}" not in answer.body and f"url({address}" not in answer.body


def test_nothing_can_be_changed():
    with Shown() as meted:
        for verb in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
            assert meted.ask("/v1/node", verb=verb).status == 405, verb


def test_the_stream_sends_all_and_then_changes():
    with Shown() as meted:
        stays, admin = Admin(meted.place), Admin(meted.place)
        first = stays.tenant("1GiB", name="first")
        with web.Stream(meted.page) as stream:
            assert stream.status == 200 and stream.headers["content-type"] == "text/event-stream"
            name, state = stream.next()
            node = meted.ask("/v1/node").json
            assert name == "state" and same_shape(state, node), (state, node)
            assert [row["name"] for row in state["tenants"]] == ["first"]

            second = admin.tenant("2GiB", name="second")
            came = stream.until(lambda name, data: name == "change" and data["tenants"])
            assert [(row["name"], row["limit_bytes"]) for row in came] == [("second", 2 * GIB)] and came[0].keys() == node["tenants"][0].keys()

            stays.set(first.tenant, "memory", "512MiB")
            rows = stream.until(lambda name, data: data["tenants"])
            assert len(rows) == 1 and rows[0].pop("tenant") == first.tenant and rows[0].pop("device") == 0
            assert rows[0]["limit_bytes"] == 512 * MIB and "name" not in rows[0] and "uid" not in rows[0], rows

            admin.close()
            gone = stream.until(lambda name, data: data["gone"])
            assert gone == [{"tenant": second.tenant, "device": 0}], gone


def test_a_device_that_mig_takes_leaves_the_stream_and_another_comes():
    """meted sees it, and so does the page, without a restart."""
    stub, sys.argv[2] = sys.argv[2], BUILD + "/sim/lib"
    try:
        with Shown(role="--system", environment={"METE_SIM_DEVICES": "1xH100", "METE_SIM_PARTS": "0:3g.40gb"}) as meted, web.Stream(meted.page) as stream:
            watched = web.Watched(stream)
            watched.step()
            former = watched.devices[0]["uuid"]
            with open(meted.place + "/mig.json", "w") as file:
                json.dump({"version": "v1", "mig-configs": {"it": [{"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb": 2}}]}}, file)
            subprocess.run([BUILD + "/cli/mete", "mig", "apply", "-f", meted.place + "/mig.json", "-c", "it"], check=True, timeout=PATIENCE,
                           env=dict(meted.environment, LD_LIBRARY_PATH=BUILD + "/sim/lib"))
            watched.until(lambda w: set(w.devices) == {1, 2})
            assert watched.states == 1 and all(row["uuid"].startswith("MIG-") and row["uuid"] != former for row in watched.devices.values()), watched.devices
    finally:
        sys.argv[2] = stub


def test_the_changes_add_up_to_the_whole():
    with Shown() as meted:
        admin = Admin(meted.place)
        made = [admin.tenant("64MiB", name=f"t{i}") for i in range(6)]
        guests = [Guest(one.socket, program=f"p{i}") for i, one in enumerate(made)]
        with web.Stream(meted.page) as stream:
            watched = web.Watched(stream)
            watched.step()
            for step in range(4):
                wanted = {one.tenant: (str(100 + 10 * step + i), (64 + step + i) * MIB) for i, one in enumerate(made)}
                for tenant, (weight, limit) in wanted.items():
                    admin.set(tenant, "weight", weight)
                    admin.set(tenant, "memory", f"{limit // MIB}MiB")
                guests[step].close()
                watched.until(lambda w: {key[0]: (row["fields"]["weight"], row["limit_bytes"]) for key, row in w.tenants.items()} == wanted)
            watched.until(lambda w: sum(len(row["processes"]) for row in w.tenants.values()) == 2)

            def without_ages(row):
                kept = {key: value for key, value in row.items() if key not in ("age_ns", "doing_ns", "state")}
                return kept | {"processes": [{key: value for key, value in one.items() if key != "age_ns"} for one in row["processes"]]}

            different = []

            # Both may be a second apart: as many readings as that takes.
            def same():
                watched.step()
                node = {(row["tenant"], row["device"]): without_ages(row) for row in meted.ask("/v1/node").json["tenants"]}
                seen = {key: without_ages(row) for key, row in watched.tenants.items()}
                different[:] = [(key, name, row[name], seen[key].get(name)) for key, row in node.items() for name in row if seen[key].get(name) != row[name]]
                return not different and node.keys() == seen.keys()

            admin.set(made[5].tenant, "memory", "70MiB")
            until(lambda: admin.set(made[4].tenant, "memory", f"{next(sizes)}MiB") or same(), lambda: f"what the changes add up to is something else: {different}")
        for guest in guests[4:]:
            guest.close()


sizes = iter(range(70, 10000))


def test_a_client_that_does_not_read_misses_changes_and_then_gets_all():
    """It holds up nobody, and nothing lines up for it: what it reads afterwards is all there is by then."""
    with Shown() as meted:
        admins = [Admin(meted.place) for _ in range(4)]  # one may keep 64 tenants
        made = [(admin, admin.tenant("64MiB", name=f"{n}-{i}-" + "x" * 200)) for n, admin in enumerate(admins) for i in range(62)]
        slow, quick = web.Watched(web.Stream(meted.page)), web.Watched(web.Stream(meted.page))
        quick.step()
        for step in range(2):  # the first state alone is more than a socket holds; a client that reads nothing for 20 s is dropped
            for admin, one in made:
                admin.set(one.tenant, "weight", str(100 + step))
            quick.until(lambda w: all(row["fields"]["weight"] == str(100 + step) for row in w.tenants.values()))
        assert quick.states == 1, "it has read all changes"
        assert meted.ask("/v1/node").status == 200
        slow.until(lambda w: w.states and all(row["fields"]["weight"] == "101" for row in w.tenants.values()))
        assert slow.states == 2, slow.states
        for watched in slow, quick:
            watched.stream.close()


def test_a_users_meted_that_was_asked_for_a_page_stays():
    """Somebody has started it by hand, to look at it: it does not leave with its last tenant, nor with its last viewer or question. Without a page it does."""
    with Shown() as meted:
        admin = Admin(meted.place)
        admin.tenant("64MiB", name="last")
        with web.Stream(meted.page) as stream:
            stream.next()
            admin.close()
            assert stream.until(lambda name, data: data.get("gone"))
        Admin(meted.place).close()
        assert meted.ask("/v1/node").json["tenants"] == []
        with web.Stream(meted.page) as stream:  # it is loaded again, and shows the next program
            assert stream.next()[1]["tenants"] == []
            other = Admin(meted.place)
            other.tenant("64MiB", name="again")
            assert stream.until(lambda name, data: [row for row in data.get("tenants", ()) if row.get("name") == "again"])
            other.close()
            assert stream.until(lambda name, data: data.get("gone"))
        assert meted.process.poll() is None and "daemon.unneeded" not in meted.log()
    with Daemon() as meted:
        Admin(meted.place).close()
        assert meted.wait() == 0 and "daemon.unneeded" in meted.log()


def test_a_user_has_his_number_of_viewers_and_takes_nobody_elses():
    if os.geteuid() != 0:
        raise Skipped("only root can play another user; run it as root")
    with Shown(role="--system") as meted:
        streams = [web.Stream(meted.page) for _ in range(12)]
        assert all(stream.status == 200 for stream in streams)
        assert web.Stream(meted.page).status == 503
        assert meted.ask("/v1/node").status == 200  # there are seats for those
        assert as_others(NOBODY, lambda: str(web.Stream(meted.page).status)) == "200"
        streams[0].close()

        def again():
            stream = web.Stream(meted.page)
            streams.append(stream)
            return stream.status == 200

        until(again, "who left still has a place")


# Attempts to see another's tenant: a path, and headers.
TRIES = [(path, headers) for path in (
    "/v1/node", "/v1/node?user=root", "/v1/node?all=1", "/v1/tenants/secret", "/v1/tenants/SECRET", "/v1/tenants/%73ecret", "/v1/tenants/{id}", "/v1/tenants/{id}?",
    "/v1/tenants/", "/v1/tenants/*", "/v1/tenants/0", "/v1/tenants/-1", "/v1/tenants/own/../secret", "/v1/tenants/own%00secret", "/v1/devices/0",
    "/v1/devices/{uuid}", "/v1/devices/0/secret", "/v1//node", "//v1/node", "/v1/events", "/v1/events?tenant={id}", "/v1/events/secret", "/v1/events?after=0", "/v1/node?events=all", "/v1/tenants/secret-gone", "/metrics", "/",
    "/v1/tenants/secret;x", "/v1/tenants/secret%20", "http://localhost/v1/node", "http://localhost/v1/tenants/secret")
    for headers in ((), ("Authorization: Bearer 0",), ("Authorization: Basic cm9vdDo=",), ("X-Forwarded-User: root", "X-Remote-User: root", "Remote-User: root"),
                    ("Cookie: uid=0; user=root",), ("Last-Event-ID: 0",), ("X-Original-URL: /v1/tenants/secret", "X-Rewrite-URL: /v1/tenants/secret"))]


def test_a_user_that_may_see_one_tenant_sees_no_other_by_any_request():
    if os.geteuid() != 0:
        raise Skipped("only root can play another user; run it as root")
    with Shown(role="--system") as meted:
        end_of(tenant_of(meted, NOBODY, "secret-gone"))  # of which events are left
        secret, own = tenant_of(meted, NOBODY, "secret", "3GiB"), tenant_of(meted, OTHER, "own")
        rows = Admin(meted.place).list()
        id = next(row.tenant for row in rows if row.kind == "tenant_row" and row.name == "secret")
        uuid = meted.ask("/v1/node").json["devices"][0]["uuid"]
        assert {row["name"] for row in meted.ask("/v1/node").json["tenants"]} == {"secret", "own"}, "root sees both"
        assert {event.get("name") for event in meted.ask("/v1/node").json["events"]} >= {"secret", "secret-gone", "own"}

        def text_of(path, headers):
            """None: it is busy. A user asks no more than so often in a second."""
            if not path.startswith("/v1/events"):
                answer = web.ask(meted.page, path, headers=headers)
                return answer.status != 503 and f"{answer.status} {answer.body}"
            with web.Stream(meted.page, path, headers=headers) as stream:
                text = "" if stream.status != 200 or not stream.next() else stream.heard.decode()
                return stream.status != 503 and f"{stream.status} {text}"

        def tries():
            saw = []
            for path, headers in TRIES:
                path = path.format(id=id, uuid=uuid)
                text = until(lambda: text_of(path, headers), "too busy for too long")
                if "secret" in text or f'"tenant":{id},' in text or f'"uid":{NOBODY}' in text:
                    saw.append(f"{path} {headers}: {text[:300]}")
            return "\n".join(saw) or "nothing"

        def own_seen():
            until(lambda: web.ask(meted.page, "/v1/tenants/own").status == 200, "his own tenant is not shown")
            return " ".join(row["name"] for row in until(lambda: seen("/v1/node"), "too busy")["tenants"])

        def seen(path):
            answer = web.ask(meted.page, path)
            return answer.status == 200 and answer.json

        saw = as_others(OTHER, tries)
        assert saw == "nothing", saw
        assert as_others(OTHER, own_seen) == "own"
        assert as_others(1234, lambda: str(until(lambda: seen("/v1/node"))["tenants"])) == "[]"

        # A stream that is open does not begin to tell either: what it hears first is of its own tenant.
        def begin():
            stream = web.Stream(meted.page)
            return stream.status == 200 and stream

        def watch():
            with until(begin, "no place for a viewer") as stream:
                stream.next()
                own = Admin(meted.place)
                own.tenant("64MiB", name="mine-too")
                stream.until(lambda name, data: any(row.get("name") == "mine-too" for row in data["tenants"]))
                return "secret" if "secret" in stream.heard.decode() else "nothing"

        assert as_others(OTHER, lambda: watch()) == "nothing"
        for held in secret, own:
            end_of(held)


# Ways to say a request: what goes over the wire for a path.
FORMS = {
    "GET": lambda path: web.request(path),
    "HEAD": lambda path: web.request(path, verb="HEAD"),
    "OPTIONS": lambda path: web.request(path, verb="OPTIONS"),
    "POST": lambda path: web.request(path, verb="POST", headers=("Content-Length: 0",)),
    "an unknown verb": lambda path: web.request(path, verb="LOOK"),
    "TRACE": lambda path: web.request(path, verb="TRACE"),
    "HTTP/1.0": lambda path: f"GET {path} HTTP/1.0\r\n\r\n".encode(),
    "HTTP/1.0, kept": lambda path: f"GET {path} HTTP/1.0\r\nConnection: keep-alive\r\n\r\n".encode(),
    "HTTP/0.9": lambda path: f"GET {path}\r\n".encode(),
    "a range": lambda path: web.request(path, headers=("Range: bytes=0-40",)),
    "ranges": lambda path: web.request(path, headers=("Range: bytes=0-0,5-9,-1", "If-Range: x")),
    "If-None-Match": lambda path: web.request(path, headers=("If-None-Match: *",)),
    "If-Modified-Since": lambda path: web.request(path, headers=("If-Modified-Since: Sat, 29 Oct 2033 19:43:31 GMT",)),
    "encodings": lambda path: web.request(path, headers=("Accept-Encoding: gzip, br", "Accept: text/html", "TE: trailers, chunked")),
    "an empty chunk": lambda path: web.request(path, headers=("Transfer-Encoding: chunked",)) + b"0\r\n\r\n",
    "chunks": lambda path: web.request(path, headers=("Transfer-Encoding: chunked",)) + b"3\r\nabc\r\n0\r\n\r\n",
    "two lengths": lambda path: web.request(path, headers=("Content-Length: 3", "Transfer-Encoding: chunked")) + b"0\r\n\r\n",
    "a request as content": lambda path: web.request("/healthz", close=False, headers=(f"Content-Length: {len(web.request(path))}",)) + web.request(path),
    "behind another one": lambda path: web.request("/healthz", close=False) + web.request(path),
    "behind a HEAD": lambda path: web.request("/v1/node", verb="HEAD", close=False) + web.request(path),
    "behind one that is not there": lambda path: web.request("/v1/tenants/none", close=False) + web.request(path),
    "twice": lambda path: web.request(path, close=False) + web.request(path),
    "an upgrade": lambda path: web.request(path, headers=("Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__")),
    "100-continue": lambda path: web.request(path, headers=("Expect: 100-continue",)),
    "a folded header": lambda path: web.request(path, headers=("X-A: b\r\n c",)),
    "two hosts": lambda path: web.request(path, headers=("Host: other",)),
    "a whole address": lambda path: web.request("http://localhost" + path),
    "a parameter": lambda path: web.request(path + "?user=root&uid=0&all=1&fields=*&filter=user%3Droot"),
}
# Addresses that have a name in them, or would.
NAMED = ("/v1/tenants/{}", "/v1/tenants/{}/", "/v1/tenants/{}/events", "/v1/tenants/{}/why", "/v1/events/{}", "/v1/events?tenant={}", "/v1/devices/{}", "/v1/devices/0/{}", "/v1/users/{}", "/v1/node/{}", "/{}")


def test_by_no_form_of_a_request_a_tenant_of_another_user_differs_from_one_that_is_not_there():
    """Neither what it is, nor that it is: the same bytes come for its name, its user's and its number as for those of nobody."""
    if os.geteuid() != 0:
        raise Skipped("only root can play another user; run it as root")
    with Shown(role="--system") as meted:
        secret, own = tenant_of(meted, NOBODY, "secret-x", "3GiB"), tenant_of(meted, OTHER, "own")
        id = next(row.tenant for row in Admin(meted.place).list() if row.kind == "tenant_row" and row.name == "secret-x")
        user = __import__("pwd").getpwuid(NOBODY).pw_name

        def heard(form, path):
            """None: too busy. Without what is another at another time, and nothing but the name of the path."""
            with web.connect(meted.page) as made:
                made.sendall(FORMS[form](path))
                made.shutdown(socket.SHUT_WR)
                said = web.hear_out(made)
            if re.search(rb"^HTTP/1.1 503|\r\n\r\nHTTP/1.1 503|[^0-9]503 Service", said):
                return None
            return b"heard: " + re.sub(rb"(?m)^Date: .*?$|\"(clock|age_ns|doing_ns)\":(\"[^\"]*\"|\d+)", b"", said)

        def differing():
            found, tried = [], 0
            for form in FORMS:
                for path in NAMED:
                    for there, none in (("secret-x", "nobody-x"), (user, "ydobon"[:len(user)].ljust(len(user), "x")), (str(id), str(id + 7))):
                        if "events" in path and path.startswith("/v1/events?"):
                            continue  # a stream: TRIES has those
                        both = [until(lambda: heard(form, path.format(name)), f"{form} {path}: too busy for too long") for name in (there, none)]
                        tried += 1
                        if both[0].replace(there.encode(), none.encode()) != both[1].replace(there.encode(), none.encode()) or b"secret" in both[0].replace(path.format(there).encode(), b""):
                            found.append(f"{form} {path} {there}: {both[0][:300]} and {both[1][:300]}")
            assert tried > 800
            return "\n".join(found) or "nothing"

        saw = as_others(OTHER, differing)
        assert saw == "nothing", saw
        # The same forms do show what one may see.
        shown = as_others(OTHER, lambda: " ".join(form for form in FORMS if b'"name":"own"' in until(lambda: heard(form, "/v1/tenants/own"), "too busy")))
        assert {"GET", "HTTP/1.0", "a", "If-None-Match", "twice"} <= set(shown.split()), shown
        for held in secret, own:
            end_of(held)


def test_the_reason_of_a_wait_names_no_tenant_that_the_user_does_not_see():
    if os.geteuid() != 0:
        raise Skipped("only root can play another user; run it as root")
    with Shown(role="--system") as meted:
        admin = Admin(meted.place)
        guest = Guest(admin.tenant("3GiB", name="secret").socket, program="secret")
        guest.credit(2 * GIB)
        guest.allocated(2 * GIB)
        own = tenant_of(meted, OTHER, "own", "3584MiB", asks=3 * GIB)

        def why():
            answer = web.ask(meted.page, "/v1/tenants/own")
            return answer.status == 200 and answer.json["why"][0]["waits"] and answer.body

        said = until(why, "root never sees that it waits")
        assert "secret (tenant" in said, said
        said = json_of(as_others(OTHER, lambda: until(why, "he never sees that it waits")))
        sentences = said["why"][0]["sentences"]
        assert sentences[0].startswith("It asks for 3.00 GiB, and GPU 0 has ") and sentences[-1].startswith("It is refused when"), said
        assert "secret" not in str(said), said
        end_of(own)
        guest.close()
        admin.close()


def test_events_are_of_the_users_own_tenants_and_name_no_other():
    if os.geteuid() != 0:
        raise Skipped("only root can play another user; run it as root")
    with Shown(role="--system") as meted:
        admin = Admin(meted.place)
        guest = Guest(admin.tenant("3GiB", name="secret").socket, program="secret")
        guest.allocated(guest.credit(2 * GIB))
        own = tenant_of(meted, OTHER, "own", "3584MiB", refused=3 * GIB)

        def story(name="own"):
            answer = web.ask(meted.page, f"/v1/tenants/{name}")
            return answer.status != 503 and (answer.body if answer.status == 200 else str(answer.status))

        events = json_of(story())["events"]
        assert [event["kind"] for event in events] == ["came", "refused"] and "3GiB of memory requested" in events[1]["said"], events
        said = as_others(OTHER, lambda: until(story, "too busy"))
        events = json_of(said)["events"]
        assert [event["kind"] for event in events] == ["came", "refused"], events
        assert events[1]["said"] == "memory was refused to one of its processes" and "secret" not in said, said
        assert as_others(OTHER, lambda: until(lambda: story("secret"), "too busy")) == "404"
        end_of(own)
        guest.close()
        admin.close()


if __name__ == "__main__":
    run(globals(), at_once=4)
