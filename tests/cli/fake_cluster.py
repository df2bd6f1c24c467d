# SPDX-License-Identifier: Apache-2.0
"""An API server with one pod of mete in which commands run: as much of it as kubectl asks for. A test sets what it refuses."""
import base64
import hashlib
import http.server
import json
import os
import socketserver
import struct
import subprocess
import threading
import urllib.parse

POD = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "mete-x7k2p", "namespace": "mete-system"},
       "spec": {"nodeName": "n1", "containers": [{"name": "meted"}]}, "status": {"phase": "Running"}}
RESOURCES = {"kind": "APIResourceList", "groupVersion": "v1",
             "resources": [{"name": "pods", "singularName": "pod", "namespaced": True, "kind": "Pod", "verbs": ["get", "list", "patch"], "shortNames": ["po"]}]}
STDOUT, STDERR, STATUS, CLOSE = 1, 2, 3, 255


class Socket:
    """A WebSocket (RFC 6455) after its handshake, as kubectl exec speaks over it: the first byte of a message is its channel."""

    def __init__(self, source, sink):
        self.source, self.sink, self.lock = source, sink, threading.Lock()

    def exactly(self, size):
        data = self.source.read(size)
        if len(data) < size:
            raise ConnectionError("it has gone")
        return data

    def receive(self):
        """Kind and content of the next frame; None: it is over."""
        first, second = self.exactly(2)
        size = second & 0x7f
        if size >= 126:
            size = int.from_bytes(self.exactly(2 if size == 126 else 8), "big")
        mask = self.exactly(4) if second & 0x80 else bytes(4)
        return first & 0x0f, bytes(byte ^ mask[i % 4] for i, byte in enumerate(self.exactly(size)))

    def send(self, channel, data):
        size = len(data) + 1
        head = bytes([0x82]) + (bytes([size]) if size < 126 else b"\x7e" + struct.pack(">H", size) if size < 65536 else b"\x7f" + struct.pack(">Q", size))
        with self.lock:
            self.sink.write(head + bytes([channel]) + data)
            self.sink.flush()

    def end(self):
        with self.lock:
            self.sink.write(b"\x88\x02\x03\xe8")
            self.sink.flush()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, thing, code=200):
        data = json.dumps(thing).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def refuse(self, code, reason, message):
        self.answer({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message}, code)

    def do(self):
        url = urllib.parse.urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        cluster, query = self.server.cluster, urllib.parse.parse_qs(url.query)
        for verb, part in cluster.forbidden:
            if self.command == verb and part in url.path:
                return self.refuse(403, "Forbidden", f'pods is forbidden: User "alice" cannot {verb} resource "{part}"')
        if url.path == "/api":
            return self.answer({"kind": "APIVersions", "versions": ["v1"]})
        if url.path == "/apis":
            return self.answer({"kind": "APIGroupList", "apiVersion": "v1", "groups": []})
        if url.path == "/api/v1":
            return self.answer(RESOURCES)
        if url.path.endswith("/exec"):
            return self.run(query["command"])
        if url.path == "/api/v1/namespaces/mete-system/pods":
            asked = dict(word.split("=") for word in query["fieldSelector"][0].split(","))
            pods = cluster.pods if asked["spec.nodeName"] == "n1" and query["labelSelector"] == ["app.kubernetes.io/name=mete"] else []
            return self.answer({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": pods})
        if self.command == "PATCH":
            cluster.patches.append((url.path, json.loads(body)))
        return self.answer(dict(POD, metadata=dict(POD["metadata"], name=url.path.rsplit("/", 1)[1], namespace=url.path.split("/")[4])))

    do_GET = do_POST = do_PATCH = do

    def run(self, command):
        """A command in the pod: its own folder is the machine of the test."""
        if self.headers.get("Upgrade", "").lower() != "websocket":
            return self.refuse(400, "BadRequest", "only by WebSocket")
        key = base64.b64encode(hashlib.sha1((self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
        self.send_response(101)
        for name, value in (("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Accept", key), ("Sec-WebSocket-Protocol", "v5.channel.k8s.io")):
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = True
        self.server.cluster.commands.append(command)
        assert command[0] == "on-node", command
        process = subprocess.Popen(self.server.cluster.container(command[1:]), env=self.server.cluster.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        self.server.cluster.processes.append(process)
        carry(process, Socket(self.rfile, self.wfile))
        return None

    def log_message(self, *_):
        pass


def carry(process, socket):
    """Between a process and a WebSocket, until the process ends."""
    def out(pipe, channel):
        while data := os.read(pipe.fileno(), 65536):
            socket.send(channel, data)

    def into():
        try:
            while True:
                kind, data = socket.receive()
                if kind == 8 or data[:1] == bytes([CLOSE]):
                    break
                if data[:1] == b"\0":
                    process.stdin.write(data[1:])
                    process.stdin.flush()
            process.stdin.close()
        except (OSError, ValueError):
            pass  # one of both has gone

    threads = [threading.Thread(target=out, args=(process.stdout, STDOUT), daemon=True), threading.Thread(target=out, args=(process.stderr, STDERR), daemon=True)]
    threading.Thread(target=into, daemon=True).start()
    for thread in threads:
        thread.start()
    status = process.wait()
    for thread in threads:
        thread.join()
    said = {"status": "Success"} if status == 0 else {
        "status": "Failure", "reason": "NonZeroExitCode", "message": f"command terminated with non-zero exit code: exit status {status}",
        "details": {"causes": [{"reason": "ExitCode", "message": str(abs(status))}]}}
    try:
        socket.send(STATUS, json.dumps(said).encode())
        socket.end()
    except OSError:
        pass  # kubectl has left


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass  # a peer that leaves is no news


class FakeCluster:
    """`container`: the command line that a command in the pod becomes. kubectl is found by environment(), with a kubeconfig for it."""

    def __init__(self, place, environment, container):
        self.environment, self.container = environment, container
        self.pods, self.forbidden, self.patches, self.commands, self.processes = [POD], [], [], [], []
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.cluster = self
        self.config = os.path.join(place, "kubeconfig")
        self.home = os.path.join(place, "home")
        os.makedirs(self.home)
        with open(self.config, "w") as file:
            json.dump({"kind": "Config", "apiVersion": "v1", "current-context": "usual",
                       "clusters": [{"name": "fake", "cluster": {"server": f"http://127.0.0.1:{self.server.server_address[1]}"}},
                                    {"name": "nowhere", "cluster": {"server": "http://127.0.0.1:1"}}],
                       "users": [{"name": "alice", "user": {"token": "a"}}],
                       "contexts": [{"name": "usual", "context": {"cluster": "fake", "user": "alice"}},
                                    {"name": "elsewhere", "context": {"cluster": "nowhere", "user": "alice"}}]}, file)
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def variables(self):
        """For a mete of elsewhere: nothing of the node's own, but the cluster."""
        here = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG")}
        return {**here, "KUBECONFIG": self.config, "HOME": self.home, "XDG_RUNTIME_DIR": self.home, "NO_PROXY": "127.0.0.1"}

    def end(self):
        self.server.shutdown()
        self.server.server_close()
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
