# SPDX-License-Identifier: Apache-2.0
"""A node of a cluster without a cluster: the real meted, a kubelet of our own (fake_kubelet.c) and a small API server.

    TEST.py METED SIMULATOR BUILD
"""
import http.server
import json
import os
import queue
import re
import shutil
import signal
import socket
import socketserver
import stat
import subprocess
import sys
import tempfile
import threading
import urllib.parse
import urllib.request
import uuid as uuids

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
BUILD = os.path.abspath(sys.argv[3])
CALLER = os.path.join(BUILD, "tests", "plugin", "caller")
sys.argv[1:] = [os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), *sys.argv[4:]]
from meted import Admin, Daemon, GIB, Guest, MIB, PATIENCE, needed, require, until  # noqa: E402,F401

RESOURCE = "mete.dev/gpu"
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
        self.drops = ()  # of ResourceSlices: fields of `spec` and of devices whose feature is off
        self.claim = None  # what a test has: one(namespace, name, connection), list(namespace, limit, connection)
        self.server = None
        self.set_node(labels or {})
        self.serve()

    def serve(self, port=0):
        self.server = Server(("127.0.0.1", port), Handler)
        self.server.api = self
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

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
        """From now on nothing new is seen; without `lists`, by those who watch."""
        with self.lock:
            self.held[kind] = len(self.log)
            self.lists_all = not lists

    def release(self, kind="pods"):
        with self.lock:
            self.held.pop(kind)
            self.lock.notify_all()

    def forget(self):
        """Who was away must list anew."""
        with self.lock:
            self.oldest = len(self.log)

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
        object["metadata"]["uid"] = object["metadata"]["name"]
        self.put("resourceslices", object)
        return object

    def events_of(self, name):
        return [event for event in self.events if event["involvedObject"]["name"] == name]


def read_all(folder, read=lambda path: json.load(open(path))):
    """A folder's files; some may go meanwhile, and some are not whole yet (.new)."""
    found = {}
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        try:
            found[name] = read(f"{folder}/{name}")
        except FileNotFoundError:
            pass
        except ValueError:
            assert name.endswith(".new"), name
    return found


def canonical(quantity):
    value, units = int(quantity), iter(["", "k", "M", "G", "T", "P", "E"])
    unit = next(units)
    while value and value % 1000 == 0:
        value, unit = value // 1000, next(units)
    return f"{value}{unit}"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
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
            self.answer(api.node())
            return
        if "/resourceclaims/" in url.path:
            self.answer(*api.claim.one(url.path.split("/")[-3], kind, self.connection))
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
        if version < api.oldest:
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
        if self.path.endswith("/resourceslices"):
            self.answer(self.server.api.write_slice(body), 201)
            return
        self.server.api.events.append(body)
        self.answer(body, 201)

    def do_PUT(self):
        body = self.body()
        if not self.refuses():
            self.answer(self.server.api.write_slice(body))

    def do_DELETE(self):
        name = self.path.rsplit("/", 1)[1]
        if not self.refuses():
            self.server.api.add("resourceslices", "DELETED", {"metadata": {"name": name, "uid": name}})
            self.answer({"kind": "Status"})

    def log_message(self, *_):
        pass


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, client_address):
        pass  # a peer that leaves is no news


class Refused(Exception):
    def __init__(self, line):
        super().__init__(line)
        code, self.sentence = (line.split(" ", 2) + [""])[1:3]
        self.code = int(code)


class Kubelet:
    """fake_kubelet, its words and what happens to it; and the checkpoint file."""

    def __init__(self, folder):
        self.folder = folder
        self.plugins = folder + "/device-plugins"
        for name in ("device-plugins", "pod-resources"):
            os.makedirs(f"{folder}/{name}", exist_ok=True)
        self.entries, self.checkpointed = {}, True
        self.tags = iter(range(1 << 30))
        self.start()

    def start(self):
        self.answers, self.happened = {}, []
        self.lock = threading.Condition()
        self.process = subprocess.Popen([BUILD + "/tests/plugin/fake_kubelet", self.folder], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, bufsize=1)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        self.hear("ready")

    def read(self):
        for line in self.process.stdout:
            tag, _, rest = line.rstrip("\n").partition(" ")
            with self.lock:
                if tag == "*":
                    self.happened.append(rest)
                else:
                    self.answers[tag] = rest
                self.lock.notify_all()
        with self.lock:
            self.answers = None
            self.lock.notify_all()

    def wait(self, what):
        with self.lock:
            assert self.lock.wait_for(lambda: self.answers is None or what(), PATIENCE), f"never: {self.happened[-20:]}"
            assert self.answers is not None, "the kubelet has ended"
            return what()

    def hear(self, start):
        """What happens next, or has happened and was not heard."""
        def there():
            return next((line for line in self.happened if line.startswith(start)), None)
        line = self.wait(there)
        with self.lock:
            del self.happened[:self.happened.index(line) + 1]
        return line

    def begin(self, verb, *words):
        tag = f"t{next(self.tags)}"
        self.process.stdin.write(" ".join([tag, verb, *map(str, words)]) + "\n")
        self.process.stdin.flush()
        return tag

    def answer(self, tag):
        self.wait(lambda: tag in self.answers)
        with self.lock:
            answer = self.answers.pop(tag)
        if answer.startswith("error "):
            raise Refused(answer)
        return answer

    def answered(self, tag):
        with self.lock:
            return tag in self.answers

    def ask(self, verb, *words):
        return self.answer(self.begin(verb, *words))

    def devices(self):
        return dict(word.rsplit("=", 1) for word in self.ask("list").split())

    def await_devices(self, are):
        return until(lambda: (now := self.devices()) and are(now) and now, lambda: f"the devices are {self.devices()}")

    def refusal(self, tag):
        try:
            return "not refused: " + self.answer(tag)
        except Refused as refused:
            return refused.sentence

    def write_checkpoint(self, text=None):
        rows = [{"PodUID": uid, "ContainerName": container, "ResourceName": RESOURCE, "DeviceIDs": {"-1": ids}, "AllocResp": ""}
                for (uid, container), ids in self.entries.items()]
        path = self.plugins + "/kubelet_internal_checkpoint"
        with open(path + ".tmp", "w") as file:
            file.write(json.dumps({"Data": {"PodDeviceEntries": rows, "RegisteredDevices": {}}, "Checksum": 1}) if text is None else text)
        os.rename(path + ".tmp", path)

    def give(self, pod, container, ids, listed=True):
        """What follows Allocate: it is written down, and shown to who asks."""
        if self.checkpointed:
            self.entries[pod.uid, container] = list(ids)
            self.write_checkpoint()
        if listed:
            self.ask("pod", pod.namespace, pod.name, container, *ids)

    def take_back(self, pod, container):
        self.entries.pop((pod.uid, container), None)
        if self.checkpointed:
            self.write_checkpoint()
        self.ask("pod", pod.namespace, pod.name, container)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.reader.join()

    def close(self):
        if self.process.poll() is None:
            self.process.stdin.close()
            assert self.process.wait(timeout=PATIENCE) == 0


class Pod:
    def __init__(self, node, name, uid=None, namespace="ns", annotations=None, marks=None, spec=None):
        self.spec = spec or {}
        self.node, self.name, self.namespace = node, name, namespace
        self.uid = uid or str(uuids.uuid4())
        self.phase, self.held = "Pending", {}
        self.ending = {}  # what metadata has of a pod that is being deleted
        self.marks = {f"mete.dev/{key.replace('_', '-')}": value for key, value in (annotations or {}).items()}
        self.marks.update(marks or {})

    def show(self):
        """The API server has it as it is now."""
        self.node.api.put("pods", {"metadata": {"name": self.name, "namespace": self.namespace, "uid": self.uid, "annotations": self.marks, **self.ending},
                                   "spec": {"nodeName": NODE, **self.spec}, "status": {"phase": self.phase}})
        return self

    def annotate(self, **annotations):
        for key, value in annotations.items():
            self.marks[f"mete.dev/{key.replace('_', '-')}"] = value
        return self.show()

    def admit(self, *ids, container="main", listed=True):
        """The kubelet gives it the ids."""
        self.node.kubelet.ask("allocate", *ids)
        self.held[container] = ids
        self.node.kubelet.give(self, container, ids, listed)
        return self

    def begin(self, container="main"):
        return self.node.kubelet.begin("start", *self.held[container])

    def start(self, container="main"):
        self.node.kubelet.answer(self.begin(container))
        return self

    def refusal(self, container="main"):
        return self.node.kubelet.refusal(self.begin(container))

    def vanish(self):
        """Its containers have ended, and the kubelet has what they held; the API server shows it still."""
        for container in self.held:
            self.node.kubelet.take_back(self, container)
        self.held = {}

    def delete(self):
        self.vanish()
        self.node.api.add("pods", "DELETED", {"metadata": {"name": self.name, "namespace": self.namespace, "uid": self.uid}})

    def title(self, container="main"):
        return f"{self.namespace}/{self.name}/{container}"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Node:
    """All of it. Keys of the configuration are given by name."""

    def __init__(self, devices="2xSIM", labels=None, start=True, api=True, environment=None, options=(), **config):
        self.folder = tempfile.mkdtemp(prefix="mete-")
        self.place, self.cdi, self.sim = (f"{self.folder}/{name}" for name in ("run", "cdi", "sim"))
        for path in (self.place, self.sim):
            os.mkdir(path)
        os.chmod(self.place, 0o711)
        self.api = Api(labels) if api else None
        self.kubelet = Kubelet(self.folder + "/k")
        self.file = self.folder + "/config.yaml"
        self.config = {"slots": 4, "kubelet-folder": self.kubelet.folder, "cdi-folder": self.cdi, "kubeconfig": "none", "node-name": NODE}
        if api:
            self.config["kubeconfig"] = self.folder + "/kubeconfig"
            self.write_kubeconfig()
        self.configure(**config)
        self.environment = {"METE_SIM_DIR": self.sim, "METE_SIM_DEVICES": devices, **(environment or {})}
        self.options = ["--kubernetes", self.file, "--grace", "100ms", *options]
        self.meted, self.wrap = None, ()
        if start:
            try:
                self.start()
                self.kubelet.hear("registered")
            except Exception:
                self.close(Exception)
                raise

    def write_kubeconfig(self):
        with open(self.folder + "/kubeconfig", "w") as file:
            json.dump({"apiVersion": "v1", "kind": "Config", "current-context": "x",
                       "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{self.api.port}"}}],
                       "users": [{"name": "u", "user": {}}], "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}]}, file)

    def configure(self, **config):
        """Writes the file; None takes a key away."""
        for key, value in config.items():
            self.config[key.replace("_", "-")] = value
        self.write({"version": "v1", "mete": {key: value for key, value in self.config.items() if value is not None}})

    def write(self, content):
        with open(self.file + ".new", "w") as file:
            file.write(content if isinstance(content, str) else json.dumps(content))
        os.rename(self.file + ".new", self.file)

    def start(self):
        try:
            self.meted = Daemon(*self.options, environment=self.environment, wrap=self.wrap, place=self.place, role="--system")
        except AssertionError:
            raise AssertionError("meted did not start: " + open(self.place + "/log").read()) from None
        self.uuid = [word.split("=", 1)[1] for line in self.log().splitlines() if "device.found" in line
                     for word in line.split() if word.startswith("uuid=")][-sum(int(part.split("x")[0]) for part in self.environment["METE_SIM_DEVICES"].split(",")):]

    def has_files(self, *files):
        """From now on meted runs on a machine whose /dev has these."""
        require("devices", "namespaces")
        dev = self.folder + "/dev"
        os.mkdir(dev)
        for name in *files, "null", "zero", "random", "urandom":
            os.mknod(f"{dev}/{name}", stat.S_IFCHR | 0o666, os.makedev(1, {"random": 8, "urandom": 9}.get(name, 3)))
        os.mkdir(dev + "/shm")
        self.wrap = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /dev && exec "$@"', dev]
        subprocess.run([*self.wrap, "true"], check=True)

    def command(self):
        """As it is started, without waiting until it is ready."""
        return [sys.argv[1], "--system", "--dir", self.place, "--driver", sys.argv[2], *self.options]

    def restart(self):
        """After it has ended, somehow: registered again."""
        self.meted.start()
        self.kubelet.hear("registered")

    def id(self, number, device=0):
        return f"{self.uuid[device]}::{number}"

    def log(self):
        return self.meted.log()

    def await_log(self, pattern, times=1):
        return until(lambda: len(found := re.findall(pattern, self.log())) >= times and found[-1], lambda: f"never said: {pattern}\n{self.log()[-3000:]}")

    def pod(self, name, **more):
        return Pod(self, name, **more).show()

    def run(self, name, *ids, **more):
        """A pod whose container has started."""
        return self.pod(name, **more).admit(*ids).start()

    def tenants(self):
        admin = Admin(self.place)
        try:
            return [row for row in admin.list() if row.kind == "tenant_row"]
        finally:
            admin.close()

    def tenant(self, title):
        """Of several with this name, the last: it was made last."""
        found = sorted((row for row in self.tenants() if row.name == title), key=lambda row: row.tenant)
        return found[-1] if found else None

    def share(self, title):
        row = self.tenant(title)
        return dict(word.split("=", 1) for word in row.share.split()) if row else None

    def await_share(self, title, **texts):
        until(lambda: (share := self.share(title)) is not None and all(share.get(key) == value for key, value in texts.items()),
              lambda: f"{title} has {self.share(title)} instead of {texts}\n{self.log()[-2000:]}")

    def records(self):
        return {name: record for name, record in read_all(self.place + "/bindings").items() if "." not in name}

    def record(self, title):
        return next(((key, row) for key, row in self.records().items()
                     if f"{row['namespace']}/{row['pod']}/{row['container']}" == title), (None, None))

    def links(self):
        return read_all(self.place + "/slots", os.readlink)

    def files(self):
        """Of CDI: their keys, and which folder each mounts at /run/mete."""
        found = {}
        for name, file in read_all(self.cdi).items():
            if not name.endswith(".json"):
                continue
            device = file["devices"][0]
            mounts = device["containerEdits"]["mounts"]
            found[device["name"]] = next(mount["hostPath"] for mount in mounts if mount["containerPath"] == "/run/mete")
        return found

    def folder_of(self, title):
        """Where the container's tenant is joined; everything that says so says the same."""
        key, row = self.record(title)
        assert row, f"{title} is not bound: {self.records()}"
        folder = self.links()[key]
        assert self.files().get(key, folder) == folder
        assert os.path.basename(folder).startswith(f"{row['tenant']}-"), (folder, row)
        return folder

    def is_empty(self):
        """Nothing is left of any container."""
        return not (self.tenants() or os.listdir(self.place + "/bindings") or os.listdir(self.place + "/slots")
                    or os.listdir(self.place + "/tenants") or (os.path.isdir(self.cdi) and os.listdir(self.cdi)))

    def left(self):
        return [row.name for row in self.tenants()], [os.listdir(folder) for folder in (
            self.place + "/bindings", self.place + "/slots", self.place + "/tenants", self.cdi) if os.path.isdir(folder)]

    def await_empty(self):
        until(self.is_empty, lambda: f"left: {self.left()}\n{self.log()[-2000:]}")

    def end(self):
        """SIGTERM, whatever it is about."""
        self.meted.process.terminate()
        assert self.meted.wait() == 0, self.log()[-2000:]

    def close(self, kind=None):
        try:
            if self.meted:
                self.meted.__exit__(kind, None, None)
        finally:
            if self.api:
                self.api.close()
            self.kubelet.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.close(kind)


def healthy(devices):
    return sorted(name for name, health in devices.items() if health == "Healthy")


def launch(node, fault, device):
    """A program whose kernel meets that."""
    environment = dict(os.environ, METE_SIM_DIR=node.sim, LD_LIBRARY_PATH=sys.argv[2], METE_SIM_FAULTS=fault, CUDA_VISIBLE_DEVICES=str(device))
    subprocess.run([BUILD + "/examples/train", "steps=1"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def cordon(node, device, on=1):
    """As `mete cordon` and `mete uncordon` do."""
    admin = Admin(node.place)
    try:
        admin.ask("device_cordon", device=str(device), on=on)
    finally:
        admin.close()
