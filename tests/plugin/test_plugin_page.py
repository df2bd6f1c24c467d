#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""meted's page on a node of Kubernetes: the API server tells a token's user and his rights. A user who may see one tenant sees no other one by any
URL, header or stream."""
import queue
import time
import urllib.parse

from node import *
from meted import run
import web

HOST = "127.0.0.1"
NODE_RIGHT = ("", "nodes", "metrics", "", NODE)
TOO_MANY = "too many others ask now: ask again in a few seconds\n"
UNSAID = "the API server did not say whose this token is, or what he may see: ask again in a few seconds\n"


def pods(namespace, name=None):
    return ("", "pods", None, namespace, name)


class Cluster:
    """Users by their tokens, and what each may `get`: (group, resource, subresource, namespace, name)."""

    def __init__(self, **users):
        self.tokens = {f"token-of-{name}": name for name in users}
        self.rights = users
        self.asked, self.fails, self.lock = [], set(), threading.Lock()
        self.silent = threading.Event()
        self.silent.set()

    def review(self, kind, body):
        self.silent.wait()
        spec = body["spec"]
        with self.lock:
            self.asked.append((kind, spec))
        if kind in self.fails:
            return {"kind": "Status", "code": 500, "message": "the test fails"}, 500
        if kind == "tokenreviews":
            name = self.tokens.get(spec["token"])
            user = {"username": name, "uid": "u-" + name, "groups": ["all", "g-" + name], "extra": {"a/b": ["c"]}} if name else None
            known = {"authenticated": True, "user": user} if name else {"error": "unknown"}
            return dict(body, status=known | ({"audiences": spec["audiences"]} if "audiences" in spec else {})), 201
        wanted = spec["resourceAttributes"]
        name = spec["user"]
        assert spec["groups"] == ["all", "g-" + name] and spec["extra"] == {"a/b": ["c"]} and spec["uid"] == "u-" + name, spec
        assert wanted["verb"] == "get", spec
        right = (wanted.get("group", ""), *(wanted.get(key) for key in ("resource", "subresource", "namespace", "name")))
        right = tuple("" if part is None and place == 3 and right[1] == "nodes" else part for place, part in enumerate(right))
        return dict(body, status={"allowed": right in self.rights[name], "reason": ""}), 201

    def count(self, kind):
        with self.lock:
            return sum(one == kind for one, _ in self.asked)


class Page(Node):
    def __init__(self, cluster, *options, believed="5s", **more):
        self.at = (HOST, free_port())
        more.setdefault("share", {"memory": "25%"})
        super().__init__(options=("--page", f"{HOST}:{self.at[1]}", "--page-kubernetes", believed, *options), **more)
        self.api.review = cluster.review

    def said_by(self, user, path="/v1/node", *headers, unsaid=False, **more):
        """Where one user has asked a hundred times in a second, it is asked again; and where a review took too long on a busy machine,
        but for `unsaid`."""
        answers = []

        def said():
            answers.append(web.ask(self.at, path, headers=(*as_user(user), *headers), **more))
            return answers[-1].body != "unavailable\n" and (unsaid or answers[-1].body != UNSAID)

        until(said, lambda: answers[-1].body)
        return answers[-1]

    def stream(self, user, path="/v1/events", *headers):
        """Likewise."""
        def opened():
            stream = web.Stream(self.at, path, headers=(*as_user(user), *headers))
            if stream.status == 503:
                stream.close()
            return stream if stream.status != 503 else None

        return until(opened, "there is never a stream")

    def names(self, user):
        answer = self.said_by(user)
        assert answer.status == 200, answer.body
        return {row["name"] for row in answer.json["tenants"]}


def as_user(user):
    return (f"Authorization: Bearer token-of-{user}",)


def two(node):
    """Two namespaces' pods on one device."""
    return node.run("mine", node.id(0), namespace="a"), node.run("theirs", node.id(0, 1), namespace="b")


def test_a_user_sees_pods_that_he_may_get():
    cluster = Cluster(admin={NODE_RIGHT}, team={pods("a")}, one={pods("b", "theirs")}, nobody=set())
    with Page(cluster) as node:
        mine, theirs = two(node)
        assert node.names("admin") == {mine.title(), theirs.title()}
        assert node.names("team") == {mine.title()} and node.names("one") == {theirs.title()}
        said = node.said_by("one").json
        assert (said["sees"], said["viewer"]) == ("own", "one") and node.said_by("admin").json["sees"] == "all"
        nothing = node.said_by("nobody")
        assert nothing.status == 403 and nothing.body == ("nothing here may be seen with this token: neither a pod or claim with a share of this node's GPUs, "
                                                          "nor nodes/metrics of this node\n"), nothing.body
        assert node.said_by("stranger").status == 401 and "API server does not know this token" in node.said_by("stranger").body
        assert web.ask(node.at, "/v1/node").status == 401 and web.ask(node.at, "/").status == 200
        # A new pod of his is seen as soon as it is there, and another's is not.
        more = node.run("more", node.id(1), namespace="a")
        until(lambda: node.names("team") == {mine.title(), more.title()}, "the new pod is not seen")
        assert node.names("one") == {theirs.title()}


def test_a_word_is_believed_for_a_while_and_asked_once_for_all():
    cluster = Cluster(team={pods("a")})
    with Page(cluster, believed="60m") as node:
        mine, _ = two(node)
        assert node.names("team") == {mine.title()}
        before = cluster.count("tokenreviews")
        streams = [node.stream("team") for _ in range(4)]
        for stream in streams:
            assert [row["name"] for row in stream.next()[1]["tenants"]] == [mine.title()]
            stream.close()
        for _ in range(5):
            assert node.names("team") == {mine.title()}
        assert cluster.count("tokenreviews") == before, cluster.asked


def test_a_user_who_may_look_changes_nothing_by_any_verb():
    """Neither a user who sees one tenant nor one who sees all of the node: there are no verbs for it, whatever names are tried."""
    cluster = Cluster(admin={NODE_RIGHT}, team={pods("a")})
    with Page(cluster) as node:
        mine, _ = two(node)
        name = urllib.parse.quote(mine.title(), safe="")
        before = node.said_by("admin").json
        for user in ("team", "admin"):
            node.names(user)
            for verb in ("POST", "PUT", "PATCH", "DELETE"):
                for path in (f"/v1/tenants/{name}", f"/v1/tenants/{name}/suspend", "/v1/node", "/v1/devices/0", "/v1/devices/0/cordon"):
                    said = web.ask(node.at, path + "?memory=1MiB&weight=1&suspends=1", verb=verb, headers=(*as_user(user), "Content-Length: 0"))
                    assert said.status == 405, (user, verb, path, said.status, said.body)
            for header in ("X-HTTP-Method-Override: PATCH", "X-Method-Override: DELETE"):
                said = node.said_by(user, f"/v1/tenants/{name}?_method=PATCH&memory=1MiB&suspends=1", header)
                assert said.status == 200 and said.json["tenants"][0]["name"] == mine.title(), said.body
        after = node.said_by("admin").json
        for key in ("limit_bytes", "fields", "suspended"):
            assert [row[key] for row in before["tenants"]] == [row[key] for row in after["tenants"]], key


# Requests of a user who sees `a` and wants to see `b`: a path, and headers besides his own. {}: the name of b's tenant, escaped.
TRIED = [(path, headers) for path in (
    "/v1/node", "/v1/node?tenant={}", "/v1/node?all=1&sees=all", "/v1/tenants/{}", "/v1/tenants/{number}", "/v1/tenants/{plain}", "/v1/tenants/b", "/v1/tenants/b%2Ftheirs",
    "/v1/tenants/a%2Fmine%2Fmain/../{}", "/v1/tenants//{}", "/v1/tenants/%00{}", "/v1/tenants/{}%00", "/v1/tenants/*", "/v1/tenants/", "/v1/tenants/-1", "/v1/tenants/+{number}",
    "/v1/devices/0", "/v1/devices/{uuid}", "/v1/devices/0?tenant={number}", "/v1/devices/0/tenants/{}", "/v1/../v1/tenants/{}", "//v1/tenants/{}", "/v1/%2e%2e/v1/tenants/{}",
    "/v1/node/{}", "/metrics", "/v1/events?token=token-of-admin", "/v1/node?token=token-of-admin", "http://localhost/v1/tenants/{}", "/", "/healthz")
    for headers in (
        (), ("Authorization: Bearer token-of-admin",), ("Proxy-Authorization: Bearer token-of-admin",), ("X-Remote-User: admin", "X-Remote-Group: system:masters"),
        ("Impersonate-User: admin", "Impersonate-Group: system:masters"), ("X-Forwarded-User: admin", "X-Forwarded-For: 127.0.0.1"), ("Cookie: token=token-of-admin",),
        ("X-Original-URL: /v1/tenants/{}", "X-Rewrite-URL: /v1/tenants/{}"), ("Last-Event-ID: 0",), ("Range: bytes=0-",), ("Origin: http://localhost",), ("Forwarded: for=127.0.0.1",))]


def test_no_answer_shows_anothers_tenant():
    """A table of requests, each tried. A second Authorization does not count: the first is his own."""
    cluster = Cluster(team={pods("a")}, admin={NODE_RIGHT})
    with Page(cluster, believed="60m") as node:
        mine, theirs = two(node)
        number = node.tenant(theirs.title()).tenant
        marks = (theirs.title(), "theirs", "b/theirs")
        assert theirs.title() in node.said_by("admin").body  # there is something to be seen

        def fill(text):
            escaped = theirs.title().replace("/", "%2F")
            return (text.replace("{}", escaped).replace("{plain}", theirs.title()).replace("{number}", str(number)).replace("{uuid}", node.uuid[0]))

        statuses = set()
        for path, headers in TRIED:
            path, headers = fill(path), tuple(map(fill, headers))
            if "/v1/events" in path:
                with node.stream("team", path, *headers) as stream:
                    said = json.dumps(stream.next()) if stream.status == 200 else ""
                    assert stream.status == 200, (path, headers)
            else:
                answer = node.said_by("team", path, *headers)
                statuses.add(answer.status)
                said = answer.body if path.startswith("/v") or "tenants" in path else ""
                assert f'"tenant":{number},' not in said.replace(" ", ""), (path, headers, said)
            for mark in marks:
                assert mark not in said, (path, headers, said)
            if path == "/v1/node":
                assert mine.title() in said, (headers, said)
        assert statuses <= {200, 400, 403, 404}, statuses


def test_a_name_that_a_tenant_chose_itself_shows_nothing():
    """A tenant within a container's is seen with the container, whatever it is called."""
    cluster = Cluster(team={pods("a")}, other={pods("b")})
    with Page(cluster, believed="60m") as node:
        mine, theirs = two(node)
        admin = Admin(node.place)
        inner = admin.tenant("64MiB", name="b/theirs/inner", outer=node.folder_of(mine.title()) + "/guest.sock")
        assert inner.tenant
        until(lambda: node.names("team") == {mine.title(), "b/theirs/inner"}, "what is within his is not seen")
        assert node.names("other") == {theirs.title()}
        admin.close()


def test_a_name_with_a_zero_byte_is_nobodys():
    """Cut there, it would be the administrator's."""
    cluster = Cluster(admin={NODE_RIGHT})
    cluster.tokens["token-of-other"] = "admin\0x"
    with Page(cluster) as node:
        two(node)
        answer = node.said_by("other", unsaid=True)
        assert (answer.status, answer.body) == (503, UNSAID) and not cluster.count("subjectaccessreviews"), answer.body


def test_a_stream_ends_when_the_right_is_gone():
    cluster = Cluster(team={pods("a")}, both={pods("a", "mine"), pods("b", "theirs")})
    with Page(cluster) as node:
        mine, theirs = two(node)
        one, both = (node.stream(user) for user in ("team", "both"))
        assert [row["name"] for row in one.next()[1]["tenants"]] == [mine.title()]
        assert {row["name"] for row in both.next()[1]["tenants"]} == {mine.title(), theirs.title()}
        cluster.rights["both"].discard(pods("b", "theirs"))
        while both.next():
            pass
        assert node.names("both") == {mine.title()}
        del cluster.tokens["token-of-team"]  # the token is revoked
        while one.next():
            pass
        assert node.said_by("team").status == 401
        # Where both are watched and nothing is taken, the stream goes on over several reviews.
        with node.stream("both") as stays:
            assert stays.next()
            before = cluster.count("tokenreviews")
            until(lambda: cluster.count("tokenreviews") >= before + 2, "nobody is asked again")
            more = node.run("mine", node.id(1), namespace="c")
            cluster.rights["both"].add(pods("c"))
            assert stays.until(lambda name, data: any(row.get("name") == more.title() for row in data["tenants"]))


def test_one_viewer_leaves_streams_for_others():
    """All come from one host, as they do through a server in front."""
    cluster = Cluster(team={pods("a")}, one={pods("b", "theirs")})
    cluster.tokens["token-of-twin"] = "team"  # another token of the same user's
    with Page(cluster, believed="60m") as node:
        two(node)
        streams = [node.stream(user) for user in ("team", "twin", "team", "twin")]
        answer = node.said_by("team", "/v1/events")
        assert (answer.status, answer.body) == (503, "you have four streams of this node already: close one of them\n"), answer.body
        node.stream("one").close()
        streams.pop().close()
        node.stream("team").close()
        for stream in streams:
            assert stream.next()
            stream.close()


def test_three_users_behind_one_server_leave_streams_for_a_fourth():
    """Twelve streams are what one host has."""
    users = ("ada", "bob", "carol")
    cluster = Cluster(team={pods("a")}, **{user: {pods("a")} for user in users})
    with Page(cluster, believed="60m") as node:
        two(node)
        streams = [node.stream(user) for user in users for _ in range(4)]
        assert [stream.status for stream in streams] == [200] * 12
        for _ in range(2):
            streams.append(node.stream("team"))
            assert streams[-1].status == 200 and streams[-1].next()
        for stream in streams:
            stream.close()


def test_where_all_streams_are_taken_a_user_with_none_gets_one_of_the_user_with_most():
    users = [f"user{i}" for i in range(9)]  # three have four, the others two
    cluster = Cluster(late={pods("a")}, **{user: {pods("a")} for user in users})
    with Page(cluster, believed="60m") as node:
        two(node)
        streams = [node.stream(user) for i, user in enumerate(users) for _ in range(4 if i < 3 else 2)]
        assert len(streams) == 24
        with node.stream("late") as late:
            assert late.status == 200 and late.next()
            ended = queue.Queue()

            def read(i):
                try:
                    while streams[i].next():
                        pass
                    ended.put(i)
                except (OSError, ValueError):  # it is closed here
                    pass

            readers = [threading.Thread(target=read, args=(i,)) for i in range(len(streams))]
            for reader in readers:
                reader.start()
            assert ended.get(timeout=PATIENCE) < 12, "it was one of the users with four"
            assert node.said_by("late").status == 200  # there are seats for those
            assert ended.empty(), "another one had to end, too"
        for stream in streams:
            stream.socket.shutdown(socket.SHUT_RDWR)
        for reader in readers:
            reader.join()
        for stream in streams:
            stream.close()


def test_an_attacker_behind_the_same_server_keeps_nobody_out():
    """The server in front names the client for which it asks: its addition is the last, in the header or in another one of that name."""
    cluster = Cluster(user0={pods("a")}, user1={pods("a")})
    with Page(cluster, believed="60m") as node:
        mine, _ = two(node)
        guesses = iter(range(1 << 30))

        def attack():
            bodies = set()
            for _ in range(20):
                made_up = f"198.51.100.{next(guesses) % 250}"
                for forwarded in ((f"X-Forwarded-For: {made_up}, 203.0.113.7",), (f"X-Forwarded-For: {made_up}", "X-Forwarded-For: 203.0.113.7")):
                    bodies.add(web.ask(node.at, "/v1/node", headers=(f"Authorization: Bearer guess-{next(guesses)}", *forwarded)).body)
            return bodies

        until(lambda: TOO_MANY in attack(), "an attacker is never refused")
        for user in range(2):  # whom nobody knows yet
            answer = node.said_by(f"user{user}", "/v1/node", f"X-Forwarded-For: 192.0.2.{user}")
            assert answer.status == 200 and mine.title() in answer.body, answer.body


def test_without_the_api_servers_word_nothing_is_shown():
    cluster = Cluster(team={pods("a")})
    with Page(cluster) as node:
        mine, _ = two(node)
        cluster.fails = {"subjectaccessreviews"}
        answer = node.said_by("team", unsaid=True)
        assert (answer.status, answer.body) == (503, UNSAID), answer.body
        cluster.fails = set()
        assert node.said_by("team").status == 200
        with node.stream("team") as stream:
            assert stream.next()
            cluster.fails = {"subjectaccessreviews", "tokenreviews"}
            while stream.next():  # its rights run out
                pass
        assert node.said_by("team", unsaid=True).status == 503, "rights that have run out are still shown"
        assert mine.title() not in node.said_by("team", unsaid=True).body
        log = node.log()
        assert "review.failed" in log and "token-of-team" not in log, "tokens are not logged"
        cluster.fails = set()
        assert node.said_by("team").status == 200


def test_meted_waits_for_nobody_and_ends_while_it_asks():
    cluster = Cluster(team={pods("a")})
    with Page(cluster) as node:
        two(node)
        cluster.silent.clear()
        waiting = [web.connect(node.at) for _ in range(3)]
        for one in waiting:
            one.sendall(web.request("/v1/node", headers=as_user("team")))
        leaves = web.connect(node.at)
        leaves.sendall(web.request("/v1/node", headers=as_user("team")))
        leaves.close()
        assert web.ask(node.at, "/healthz").status == 200 and web.ask(node.at, "/").status == 200
        node.run("third", node.id(1))  # the kubelet is served, too
        cluster.silent.set()
        for one in waiting:
            assert one.recv(64).split(b" ")[1] in (b"200", b"503"), "on a busy machine the server was silent for too long"
            one.close()
        assert node.said_by("team").status == 200
        cluster.silent.clear()
        held = web.connect(node.at)
        held.sendall(web.request("/v1/node", headers=("Authorization: Bearer another",)))
        assert web.ask(node.at, "/healthz").status == 200
        node.meted.process.terminate()
        assert node.meted.process.wait(PATIENCE) == 0
        cluster.silent.set()
        held.close()


def test_tokens_that_nobody_knows_cost_others_nothing():
    cluster = Cluster(team={pods("a")})
    with Page(cluster, believed="60m") as node:
        mine, _ = two(node)
        assert node.names("team") == {mine.title()}
        before, began = cluster.count("tokenreviews"), time.monotonic()
        statuses = [web.ask(node.at, "/v1/node", headers=(f"Authorization: Bearer guess-{i}",)).status for i in range(200)]
        assert set(statuses) <= {401, 503}, statuses
        # Of one host six at once, and two in a second.
        assert cluster.count("tokenreviews") - before <= 6 + 2 * (time.monotonic() - began + 1), cluster.count("tokenreviews")
        assert node.names("team") == {mine.title()}
        for token in ("x" * 8193, "é" * 20):
            assert web.ask(node.at, "/v1/node", headers=(f"Authorization: Bearer {token}",)).status in (401, 431), token


def test_tokens_are_for_this_page_alone_where_that_is_wanted():
    cluster = Cluster(team={pods("a")})
    with Page(cluster, "--page-audience", "mete.dev") as node:
        mine, _ = two(node)
        assert node.names("team") == {mine.title()}
        assert cluster.asked[0][1]["audiences"] == ["mete.dev"]
        review = cluster.review

        def unaware(kind, body):  # a server that knows no audiences
            said, status = review(kind, body)
            said["status"].pop("audiences", None)
            return said, status

        node.api.review = unaware
        cluster.tokens["token-of-late"] = "team"
        assert node.said_by("late").status == 401


def test_options_that_do_not_fit_together_are_refused():
    with tempfile.TemporaryDirectory() as folder:
        def refused(*options):
            done = subprocess.run([sys.argv[1], "--system", "--dir", folder, *options], capture_output=True, text=True, timeout=PATIENCE,
                                  env=dict(os.environ, LD_LIBRARY_PATH=sys.argv[2], METE_SIM_DIR=folder))
            assert done.returncode != 0, done
            return done.stderr

        assert "--page-kubernetes needs a node of Kubernetes: --kubernetes FILE" in refused("--page", ":0", "--page-kubernetes", "30s")
        assert "--page-audience needs --page-kubernetes TIME" in refused("--page", ":0", "--page-audience", "mete.dev")
        for time, why in (("1s", "accepted: 5s to 60m"), ("100ms", "accepted: 5s to 60m"), ("61m", "is too much"), ("x", "accepted: a time with its unit")):
            assert "--page-kubernetes: " in refused("--page", ":0", "--kubernetes", "/nothing", "--page-kubernetes", time) and why in refused("--page", ":0", "--kubernetes", "/nothing", "--page-kubernetes", time), time


if __name__ == "__main__":
    run(globals(), at_once=4)
