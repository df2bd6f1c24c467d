# SPDX-License-Identifier: Apache-2.0
"""Requests to meted's page as plain bytes, and its stream of events."""
import json
import socket

from meted import PATIENCE


def connect(address):
    """`address`: a path, (host, port), or with TLS (host, port, context)."""
    made = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
    made.settimeout(PATIENCE)
    made.connect(address if isinstance(address, str) else address[:2])
    return address[2].wrap_socket(made, server_hostname="localhost") if len(address) == 3 and not isinstance(address, str) else made


class Answer:
    def __init__(self, said):
        head, _, self.bytes = said.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        self.status = int(first.split()[1]) if first else 0
        self.headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        self.body = self.bytes.decode(errors="replace")

    @property
    def json(self):
        return json.loads(self.body)


def request(path, host="localhost", headers=(), verb="GET", close=True):
    lines = [f"{verb} {path} HTTP/1.1", *([f"Host: {host}"] if host else []), *headers, *(["Connection: close"] if close else [])]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def hear_out(made):
    """The bytes that come until the peer closes, or resets."""
    said = b""
    try:
        while data := made.recv(1 << 16):
            said += data
    except ConnectionResetError:
        pass
    return said


def ask(address, path, **more):
    with connect(address) as made:
        made.sendall(request(path, **more))
        return Answer(hear_out(made))


class Stream:
    """Server-sent events; `state` and `change` become (name, data)."""

    def __init__(self, address, path="/v1/events", **more):
        self.socket = connect(address)
        self.socket.sendall(request(path, close=False, **more))
        self.file = self.socket.makefile("rb")
        self.status = int(self.file.readline().split()[1])
        self.headers = {}
        while (line := self.file.readline().strip()):
            name, _, value = line.decode().partition(": ")
            self.headers[name.lower()] = value
        self.text = b""
        self.heard = b""  # all of it

    def _more(self):
        size = int(self.file.readline(), 16)
        data = self.file.read(size)
        self.file.readline()
        self.text += data
        self.heard += data
        return size

    def next(self):
        """None: it is over."""
        while True:
            while b"\n\n" not in self.text:
                if not self._more():
                    return None
            event, _, self.text = self.text.partition(b"\n\n")
            lines = dict(line.split(": ", 1) for line in event.decode().split("\n") if ": " in line)
            if "event" in lines:
                return lines["event"], json.loads(lines["data"])

    def until(self, what):
        """Reads on until `what` is true of an event; returns its result."""
        while (event := self.next()) is not None:
            if found := what(*event):
                return found
        raise AssertionError("the stream ended")

    def close(self):
        self.file.close()
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Watched:
    """A viewer's state after each event: rows by name, as the page keeps them."""

    def __init__(self, stream):
        self.stream, self.tenants, self.devices, self.states = stream, {}, {}, 0

    def step(self):
        name, data = self.stream.next()
        if name == "state":
            self.states += 1
            self.devices = {row["index"]: row for row in data["devices"]}
            self.tenants = {(row["tenant"], row["device"]): row for row in data["tenants"]}
            return
        for row in data["devices"]:
            self.devices.setdefault(row["index"], {}).update(row)
        for row in data["tenants"]:
            known = self.tenants.setdefault((row["tenant"], row["device"]), {})
            if "time" in row and "time" in known:
                row["time"] = known["time"] | row["time"]
            known.update(row)
        for row in data["gone"]:
            if "index" in row:
                del self.devices[row["index"]]
            else:
                del self.tenants[row["tenant"], row["device"]]

    def until(self, what):
        while not what(self):
            self.step()


def base64_digest(text):
    import base64
    import hashlib
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
