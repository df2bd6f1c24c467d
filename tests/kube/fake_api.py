# SPDX-License-Identifier: Apache-2.0
"""An API server that does what a test tells it, and the client program (api_client.c) that speaks to it."""
import json
import os
import queue
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../system"))
from http_server import SilentHandler, serve  # noqa: E402
from meted import PATIENCE, run, until  # noqa: E402,F401


def openssl(*words):
    done = subprocess.run(("openssl",) + words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


class Authority:
    """Makes certificates: of itself, of servers, of clients."""
    usual = None  # made once: most tests do not mind whose it is

    def __init__(self, folder, name):
        self.folder, self.name = folder, name
        self.certificate, self.key = self.path("crt"), self.path("key")
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                "-subj", f"/CN={name}", "-keyout", self.key, "-out", self.certificate)

    def path(self, kind, whose=""):
        return os.path.join(self.folder, f"{self.name}{whose}.{kind}")

    def issue(self, whose, days=2):
        request, certificate, key = (self.path(kind, "-" + whose) for kind in ("csr", "crt", "key"))
        with open(self.path("cnf"), "w") as file:
            file.write("subjectAltName=IP:127.0.0.1,IP:::1,DNS:localhost,DNS:api.mete.test\n")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={whose}",
                "-keyout", key, "-out", request)
        openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.key, "-CAcreateserial",
                "-days", str(days), "-extfile", self.path("cnf"), "-out", certificate)
        return certificate, key


def usual_authority():
    if not Authority.usual:
        folder = tempfile.TemporaryDirectory(prefix="mete-authority-")
        Authority.usual = Authority(folder.name, "authority")
        Authority.usual.kept = folder
        Authority.usual.server = Authority.usual.issue("server")
    return Authority.usual


def item(name, version):
    return {"metadata": {"name": name, "resourceVersion": str(version)}}


def listed(*items, version="1", more=None):
    metadata = {"resourceVersion": str(version)}
    if more:
        metadata["continue"] = more
    return {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": list(items)}


def status(code, message=None, reason=None, **more):
    answer = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, **more}
    if message:
        answer["message"] = message
    if reason:
        answer["reason"] = reason
    return answer


def event(kind, object):
    return json.dumps({"type": kind, "object": object}).encode() + b"\n"


class Over(Exception):
    """The client has left."""


class Request:
    """One request. The test answers it, from its own thread."""

    def __init__(self, handler, body):
        self.handler, self.body = handler, body
        self.verb, self.headers = handler.command, handler.headers
        url = urllib.parse.urlsplit(handler.path)
        self.path = url.path
        self.query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        self.done = threading.Event()
        self.peer = handler.client_address

    @property
    def watches(self):
        return "watch" in self.query

    @property
    def token(self):
        return self.headers.get("Authorization", "")

    def write(self, data):
        self.handler.wfile.write(data)
        self.handler.wfile.flush()

    def answer(self, object, code=200, stays=False, **headers):
        """`stays`: something is still to be done with the connection."""
        data = object if isinstance(object, bytes) else json.dumps(object).encode()
        self.handler.send_response(code)
        self.handler.send_header("Content-Type", "application/json")
        self.handler.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.handler.send_header(name.replace("_", "-"), value)
        self.handler.end_headers()
        try:
            self.write(data)
        except OSError:
            pass  # it was too much for the client
        if not stays:
            self.done.set()

    def refuse(self, code, message=None, **headers):
        self.answer(status(code, message), code, **headers)

    def begin(self):
        """The answer of a watch: chunks follow."""
        self.handler.send_response(200)
        self.handler.send_header("Content-Type", "application/json")
        self.handler.send_header("Transfer-Encoding", "chunked")
        self.handler.end_headers()
        self.handler.wfile.flush()
        return self

    def send(self, data):
        """A chunk, as it is."""
        self.write(b"%x\r\n%s\r\n" % (len(data), data))
        return self

    def event(self, kind, object):
        return self.send(event(kind, object))

    def end(self):
        self.write(b"0\r\n\r\n")
        self.done.set()

    def cut(self):
        """The connection goes, without a word of TLS."""
        self.handler.close_connection = True
        self.handler.plain.shutdown(socket.SHUT_RDWR)
        self.done.set()

    def gone(self):
        """Waits until the client has left."""
        self.handler.connection.settimeout(PATIENCE)
        try:
            assert not self.handler.connection.recv(1)
        except OSError:
            pass
        self.handler.close_connection = True
        self.done.set()


class Handler(SilentHandler):
    def setup(self):
        # The handshake here, in the connection's own thread.
        self.plain = self.request
        self.plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A duplicate, so that cut() has a socket of its own when TLS has taken the other.
        self.plain = self.plain.dup()
        try:
            self.request = self.server.tls.wrap_socket(self.request, server_side=True)
        except OSError:
            self.server.api.failed.put("handshake")
            raise
        super().setup()

    def finish(self):
        try:
            super().finish()
        except OSError:
            pass
        self.plain.close()
        self.request.close()

    def serve(self):
        length = int(self.headers.get("Content-Length") or 0)
        asked = Request(self, self.rfile.read(length) if length else b"")
        self.server.api.asked.put(asked)
        asked.done.wait()

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = serve


class Api:
    """A folder with certificates and a service account, a server, and a client program."""

    def __init__(self, token="first", start=True, host="127.0.0.1"):
        self.folder = tempfile.mkdtemp(prefix="mete-api-")
        self.authority = usual_authority()
        self.certificate = self.authority.server
        shutil.copy(self.authority.certificate, self.folder)
        self.account = os.path.join(self.folder, "account")
        self.revision = 0
        self.asked, self.failed = queue.Queue(), queue.Queue()
        self.server, self.host, self.port = None, host, 0
        self.wrap = ()  # of the client
        self.rotate(token, open(self.authority.certificate).read())
        self.serve()
        self.client = None
        if start:
            self.start()

    def rotate(self, token=None, authorities=None):
        """As the kubelet does it: a new folder, and a link that is turned."""
        old = os.path.join(self.account, "..data")
        kept = {name: open(os.path.join(old, name)).read() for name in ("token", "ca.crt")} if self.revision else {}
        self.revision += 1
        new = os.path.join(self.account, f"..{self.revision}")
        os.makedirs(new)
        for name, text in (("token", token), ("ca.crt", authorities)):
            with open(os.path.join(new, name), "w") as file:
                file.write(kept[name] if text is None else text)
            if not os.path.lexists(os.path.join(self.account, name)):
                os.symlink(os.path.join("..data", name), os.path.join(self.account, name))
        os.symlink(f"..{self.revision}", old + ".new")
        os.rename(old + ".new", old)

    def serve(self):
        """Begins to serve; again on the port that it had."""
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(*self.certificate)
        self.server = serve(Handler, self.port, self.host, api=self, tls=tls)
        self.port = self.server.server_address[1]

    def vanish(self):
        """Nobody listens any more. Connections stay: cut() them."""
        self.server.shutdown()
        self.server.server_close()

    def start(self, how=None):
        environment = dict(os.environ, KUBERNETES_SERVICE_HOST=self.host, KUBERNETES_SERVICE_PORT=str(self.port),
                           https_proxy="http://127.0.0.1:1", HTTPS_PROXY="http://127.0.0.1:1")
        self.client = Client(environment, wrap=self.wrap)
        self.client.tell(how or f"open account {self.account}")
        self.client.hear("opened")
        # Patience is for machines under load: no test waits so long.
        for what, ms in (("connect", PATIENCE * 1000), ("answer", PATIENCE * 1000), ("silence", PATIENCE * 1000),
                         ("hasty", PATIENCE * 1000), ("pause-least", 1), ("pause-most", 20)):
            self.client.tell(f"pace {what} {ms}")
        return self.client

    def request(self, path=None, verb="GET"):
        """The next that comes."""
        asked = self.asked.get(timeout=PATIENCE)
        assert asked.verb == verb and path in (None, asked.path), (asked.verb, asked.path, asked.query)
        return asked

    def came(self):
        """A request that is there by now; None: there is none."""
        try:
            return self.asked.get(timeout=1)
        except queue.Empty:
            return None

    def list(self, *items, **more):
        asked = self.request()
        assert not asked.watches, asked.query
        asked.answer(listed(*items, **more))
        return asked

    def watch(self, begin=True):
        asked = self.request()
        assert asked.watches, asked.query
        return asked.begin() if begin else asked

    def end(self):
        if self.client:
            self.client.end()
        self.vanish()
        shutil.rmtree(self.folder)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind and self.client:
            self.client.process.kill()
            print(self.client.process.communicate()[1], file=sys.stderr)
            self.client = None
        self.end()


class Client:
    def __init__(self, environment=None, program=None, wrap=()):
        self.process = subprocess.Popen([*wrap, program or sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, env=environment, bufsize=1)
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def line(self):
        said = self.lines.get(timeout=PATIENCE)
        assert said is not None, "the client has ended: " + self.process.stderr.read()
        return said

    def hear(self, *wanted):
        """These lines, and none between them."""
        for line in wanted:
            said = self.line()
            assert said == line, f"{said!r} instead of {line!r}"

    def hear_start(self, start):
        said = self.line()
        assert said.startswith(start), f"{said!r} instead of {start!r}..."
        return said[len(start):]

    def set(self, line):
        """A command that is silent; when this returns, it was obeyed."""
        self.tell(line)
        self.quiet()

    def ask(self, name, verb, path, *more, within=PATIENCE * 1000):
        self.tell(" ".join((f"ask {name} {within} {verb} {path}",) + more))

    def quiet(self):
        """Nothing was said so far."""
        self.tell("say here")
        self.hear("here")

    def end(self):
        """Finishes; leaks and complaints (sanitizers) are failures."""
        self.tell("finish")
        said = []
        while (line := self.lines.get(timeout=PATIENCE)) is not None:
            said.append(line)
        error = self.process.stderr.read()
        assert self.process.wait(timeout=PATIENCE) == 0 and not error, (said, error)
        assert said[-1] == "finished", said
        return said
