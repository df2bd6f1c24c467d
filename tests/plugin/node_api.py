# SPDX-License-Identifier: Apache-2.0
"""A small API server: pods, one node and events; lists, watches, and patches of the node's status."""
import json
import socket
import threading
import urllib.parse

from http_server import SilentHandler, serve

NODE = "node-1"


class Api:
    """Pods, one node and events, as an API server has them: lists, watches, patches of the node's status."""

    def __init__(self, labels=None):
        self.lock = threading.Condition()
        self.log = []  # (kind, type, object), of which the place + 1 is the version
        self.oldest = 0  # watches from before are told 410
        self.held = {}  # kind: the last version that is shown
        self.lists_all = False  # lists have what is held, too
        self.refused_lists, self.silent_lists = None, False  # as below, for lists that are read from now on
        self.listings = []  # the queries of all lists
        self.events, self.patches, self.connections = [], [], set()
        self.refused = None  # a status, for all requests
        self.silent = False  # requests are not answered
        self.review = None  # likewise: review("tokenreviews" or "subjectaccessreviews", body)
        self.version = None  # "v1.36.3", if it has one
        self.late = ()  # names of ResourceSlices whose writes are done, and not answered yet
        self.asked_nodes = 0
        self.requests = 0  # of all kinds
        self.taken = ()  # names of ResourceSlices that nobody's watch shows, as of another driver's
        self.drops = ()  # of ResourceSlices: fields of `spec` and of devices whose feature is off
        self.defaults = {}  # likewise: fields of each device that a newer server adds
        self.slice_writes = 0
        self.claim = None  # what a test has: one(namespace, name, connection), list(namespace, limit, connection), page(limit, begin)
        self.server = None
        self.set_node(labels or {})
        self.serve()

    def serve(self, port=0):
        self.server = serve(Handler, port, api=self)
        self.port = self.server.server_address[1]

    def away(self):
        """Nobody listens, and nobody is connected any more."""
        server, self.server = self.server, None
        server.shutdown()
        server.server_close()
        with self.lock:
            for connection in list(self.connections):
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
            self.lock.notify_all()

    def back(self):
        self.serve(self.port)

    def close(self):
        self.silent = self.silent_lists = False
        if self.server:
            self.away()

    def add(self, kind, type, object):
        with self.lock:
            object["metadata"]["resourceVersion"] = str(len(self.log) + 1)
            self.log.append((kind, type, json.loads(json.dumps(object))))
            self.lock.notify_all()

    def objects(self, kind, version):
        found = {}
        for at, type, object in self.log[:version]:
            if at == kind:
                found[object["metadata"]["uid"]] = None if type == "DELETED" else object
        return [object for object in found.values() if object]

    def shown(self, kind):
        return self.held.get(kind, len(self.log))

    def hold(self, kind="pods", lists=True):
        """From now on nothing new is seen; without `lists`, by watches alone."""
        with self.lock:
            self.held[kind] = len(self.log)
            self.lists_all = not lists

    def release(self, kind="pods"):
        with self.lock:
            self.held.pop(kind)
            self.lock.notify_all()

    def forget(self):
        """A client that was away must list anew."""
        with self.lock:
            self.oldest = len(self.log)

    def restored(self, *objects):
        """From a backup: (kind, object), with versions from the beginning. Nobody is connected meanwhile."""
        with self.lock:
            self.log.clear()
            for kind, object in objects:
                self.add(kind, "ADDED", object)

    def put(self, kind, object):
        there = [at["metadata"]["uid"] for at in self.objects(kind, len(self.log))]
        self.add(kind, "MODIFIED" if object["metadata"]["uid"] in there else "ADDED", object)

    def set_node(self, labels):
        """As the kubelet writes it: without what others have added."""
        self.put("nodes", {"metadata": {"name": NODE, "uid": "node-uid", "labels": labels}, "status": {"capacity": {"cpu": "2"}}})

    def node(self):
        """A copy: what was told before stays as it was."""
        return json.loads(json.dumps(self.objects("nodes", len(self.log))[0]))

    def patch_node(self, patch):
        with self.lock:
            return self.patched(patch)

    def patched(self, patch):
        node = self.node()
        if isinstance(patch, list):  # of RFC 6902: that an annotation is so, and that it goes
            test, remove = patch
            name = remove["path"].removeprefix("/metadata/annotations/").replace("~1", "/")
            assert (test["op"], remove["op"], test["path"]) == ("test", "remove", remove["path"]), patch
            if node["metadata"].get("annotations", {}).get(name) != test["value"]:
                return None
            del node["metadata"]["annotations"][name]
            self.put("nodes", node)
            return node
        for part, values in patch["status"].items():
            for name, value in values.items():
                if value is None:
                    node["status"].setdefault(part, {}).pop(name, None)
                else:
                    node["status"].setdefault(part, {})[name] = canonical(value)
        for part, values in patch.get("metadata", {}).items():
            node["metadata"].setdefault(part, {}).update(values)
        self.put("nodes", node)
        return node

    def write_slice(self, object):
        """As the server has it, in which a field is not there whose feature is off."""
        for of in (object["spec"], *object["spec"].get("devices", ())):
            for name in self.drops:
                of.pop(name, None)
        self.slice_writes += 1
        for device in object["spec"].get("devices", ()):
            device.update(self.defaults)
            for taint in device.get("taints", ()):
                taint.setdefault("timeAdded", f"2026-11-28T00:{self.slice_writes // 60:02}:{self.slice_writes % 60:02}Z")
        object["metadata"]["uid"] = object["metadata"]["name"]
        self.put("resourceslices", object)
        return object

    def events_of(self, name):
        return [event for event in self.events if event["involvedObject"]["name"] == name]


def canonical(quantity):
    value, units = int(quantity), iter(["", "k", "M", "G", "T", "P", "E"])
    unit = next(units)
    while value and value % 1000 == 0:
        value, unit = value // 1000, next(units)
    return f"{value}{unit}"


class Handler(SilentHandler):
    disable_nagle_algorithm = True

    def setup(self):
        super().setup()
        self.server.api.connections.add(self.connection)

    def finish(self):
        self.server.api.connections.discard(self.connection)
        super().finish()

    def answer(self, object, code=200):
        data = json.dumps(object).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def refuses(self):
        api = self.server.api
        api.requests += 1
        with api.lock:
            while api.silent:
                api.lock.wait(1)
        if not api.refused:
            return False
        self.answer({"kind": "Status", "code": api.refused, "message": "the test refuses"}, api.refused)
        return True

    def do_GET(self):
        api, url = self.server.api, urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        kind = url.path.rsplit("/", 1)[1]
        if self.refuses():
            return
        if url.path == "/version" and api.version:
            self.answer({"gitVersion": api.version})
            return
        if url.path.endswith("/nodes/" + NODE):
            api.asked_nodes += 1
            self.answer(api.node())
            return
        if "/resourceclaims/" in url.path:
            self.answer(*api.claim.one(url.path.split("/")[-3], kind, self.connection))
            return
        if url.path == "/apis/resource.k8s.io/v1/resourceclaims":
            self.answer(*api.claim.page(int(query["limit"]), int(query.get("continue", "0"))))
            return
        if kind == "resourceclaims":
            self.answer(*api.claim.list(url.path.split("/")[-2], int(query["limit"]), self.connection))
            return
        if "watch" in query:
            self.watch(kind, int(query["resourceVersion"]))
            return
        with api.lock:
            version = len(api.log) if api.lists_all else api.shown(kind)
            items = api.objects(kind, version)
            api.listings.append((kind, query))
            while api.silent_lists and self.server is api.server:
                api.lock.wait(1)
        if api.refused_lists:
            self.answer({"kind": "Status", "code": api.refused_lists, "message": "the test refuses"}, api.refused_lists)
            return
        self.answer({"kind": "List", "metadata": {"resourceVersion": str(version)}, "items": items})

    def watch(self, kind, version):
        api = self.server.api
        if version < api.oldest or version > len(api.log):
            self.answer({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}, 410)
            return
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while True:
            with api.lock:
                while version >= api.shown(kind) and self.server is api.server:
                    api.lock.wait(1)
                changes, version = api.log[version:api.shown(kind)], max(version, api.shown(kind))
            if self.server is not api.server:
                self.close_connection = True
                return
            for at, type, object in changes:
                if at == kind:
                    line = json.dumps({"type": type, "object": object}).encode() + b"\n"
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            self.wfile.flush()

    def body(self):
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def do_PATCH(self):
        body = self.body()
        if self.refuses():
            return
        if "/resourceclaims/" in self.path:
            namespace, name = urllib.parse.urlsplit(self.path).path.split("/")[-4:-1:2]
            self.answer(*self.server.api.claim.tell(namespace, name, body))
            return
        if not isinstance(body, list):
            self.server.api.patches.append((self.path, body))
        node = self.server.api.patch_node(body)
        self.answer(node or {"kind": "Status", "code": 422, "message": "testing value failed"}, 200 if node else 422)

    def do_POST(self):
        body = self.body()
        if self.refuses():
            return
        if "reviews" in self.path:
            self.answer(*self.server.api.review(self.path.rsplit("/", 1)[1], body))
            return
        if self.path.endswith("/resourceslices") and body["metadata"]["name"] in self.server.api.taken:
            self.answer({"kind": "Status", "code": 409, "reason": "AlreadyExists", "message": f'resourceslices "{body["metadata"]["name"]}" already exists'}, 409)
            return
        if self.path.endswith("/resourceslices"):
            self.write_slice(body, 201)
            return
        self.server.api.events.append(body)
        self.answer(body, 201)

    def write_slice(self, body, code):
        api = self.server.api
        written = api.write_slice(body)
        with api.lock:
            while body["metadata"]["name"] in api.late:
                api.lock.wait(1)
        self.answer(written, code)

    def do_PUT(self):
        body = self.body()
        if not self.refuses():
            self.write_slice(body, 200)

    def do_DELETE(self):
        name = self.path.rsplit("/", 1)[1]
        if not self.refuses():
            self.server.api.add("resourceslices", "DELETED", {"metadata": {"name": name, "uid": name}})
            self.answer({"kind": "Status"})
