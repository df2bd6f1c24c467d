#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_corpus.py BUILD: writes tests/fuzz/corpus/grpc_server and grpc_client anew: the bytes of real peers (those that the tests grpc_go, grpc_js and
grpc_python have built in BUILD), and frames made by hand. The first byte of each is the fuzz target's own (tests/fuzz/grpc_fuzz.h)."""

import os
import select
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading

from test_grpc_peers import build as peer

CORPUS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fuzz", "corpus")
DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END_STREAM, END_HEADERS, PADDED = 1, 4, 8
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def write(side, name, data):
    with open(os.path.join(CORPUS, "grpc_" + side, name), "wb") as file:
        file.write(b"\0" + data)


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def field(name, value, how=0):
    """Plain; `how` 0x40: into the dynamic table, too."""
    return bytes([how, len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def message(data, flag=0):
    return struct.pack(">BI", flag, len(data)) + data


def begin(stream, path, *more, flags=END_HEADERS):
    block = b"\x83" + field(":path", path) + field("content-type", "application/grpc") + b"".join(field(*f) for f in more)
    return frame(HEADERS, flags, stream, block)


def call(stream, path, data, *more):
    return begin(stream, path, *more) + frame(DATA, END_STREAM, stream, message(data))


def by_hand_server():
    hello = PREFACE + frame(SETTINGS, 0, 0)
    cancel = frame(RST, 0, 1, b"\0\0\0\x08")
    wide = frame(SETTINGS, 0, 0, b"\0\x04\x7f\xff\xff\xff") + frame(WINDOW, 0, 0, b"\x7f\0\0\0")
    rows = {
        "echo": call(1, "/t/Echo", b"hello"),
        "two": call(1, "/t/Echo", b"one") + call(3, "/t/Echo", b"two" * 300),
        "refuse": call(1, "/t/Refuse", b"x") + call(3, "/t/Nowhere", b""),
        "wait": call(1, "/t/Wait", b"x" * 100) + call(3, "/t/Wait", b"") + frame(PING, 0, 0, b"12345678"),
        "cancel": call(1, "/t/Wait", b"x") + cancel + call(3, "/t/Echo", b"y"),
        "release": call(1, "/t/Wait", b"x") + call(3, "/t/Wait", b"y") + call(5, "/t/Release", b"z" * 50),
        "windows": wide + call(1, "/t/Wait", b"x" * 3000) + frame(WINDOW, 0, 1, b"\0\1\0\0") + call(3, "/t/Release", b""),
        "closed_window": frame(SETTINGS, 0, 0, b"\0\4\0\0\0\2") + call(1, "/t/Wait", b"hello") + frame(WINDOW, 0, 1, b"\0\0\0\x09"),
        "close": call(1, "/t/Wait", b"x") + call(3, "/t/Close", b"") + call(5, "/t/Echo", b""),
        "close_ended": call(1, "/t/Wait", b"x") + call(3, "/t/Close", b"x") + call(5, "/t/Echo", b""),
        "deadlines": call(1, "/t/Wait", b"x", ("grpc-timeout", "1n")) + call(3, "/t/Wait", b"x", ("grpc-timeout", "99999999H"))
            + call(5, "/t/Wait", b"x", ("grpc-timeout", "soon")),
        "continued": frame(HEADERS, 0, 1, b"\x83") + frame(CONTINUATION, 0, 1, field(":path", "/t/Echo"))
            + frame(CONTINUATION, END_HEADERS, 1, field("content-type", "application/grpc"))
            + frame(DATA, END_STREAM, 1, message(b"hello")),
        "padded": begin(1, "/t/Echo") + frame(DATA, END_STREAM | PADDED, 1, b"\x03" + message(b"hello") + b"\0\0\0"),
        "pieces": begin(1, "/t/Echo") + b"".join(frame(DATA, 0, 1, bytes([b])) for b in message(b"hello"))
            + frame(DATA, END_STREAM, 1),
        "trailers": begin(1, "/t/Echo") + frame(DATA, 0, 1, message(b"hello"))
            + frame(HEADERS, END_HEADERS | END_STREAM, 1, field("x", "y")),
        "compressed": begin(1, "/t/Echo") + frame(DATA, END_STREAM, 1, message(b"hello", 1)),
        "large": begin(1, "/t/Echo") + frame(DATA, 0, 1, b"\0\0\x50\0\0" + b"x" * 100),
        "http": frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x82\x84") + begin(3, "/", flags=END_HEADERS | END_STREAM),
        "table": frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x83" + field("x", "v" * 100, 0x40) + b"\xbe" * 200),
        "goaway": call(1, "/t/Wait", b"x") + frame(GOAWAY, 0, 0, b"\0\0\0\0\0\0\0\0"),
        "priorities": frame(PRIORITY, 0, 9, b"\0\0\0\7\x10") + call(1, "/t/Echo", b"x"),
        "resets": b"".join(call(i, "/t/Wait", b"x") + frame(RST, 0, i, b"\0\0\0\x08") for i in range(1, 100, 2)),
    }
    for name, data in rows.items():
        write("server", "hand_" + name, hello + data)
    write("server", "hand_http1", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")


def answer(stream, data, status="0", text=""):
    return (frame(HEADERS, END_HEADERS, stream, b"\x88" + field("content-type", "application/grpc"))
            + frame(DATA, 0, stream, message(data))
            + frame(HEADERS, END_HEADERS | END_STREAM, stream, field("grpc-status", status) + field("grpc-message", text)))


def refusal(stream, status, text):
    return frame(HEADERS, END_HEADERS | END_STREAM, stream, b"\x88" + field("content-type", "application/grpc")
                 + field("grpc-status", status) + field("grpc-message", text))


def by_hand_client():
    hello = frame(SETTINGS, 0, 0) + frame(SETTINGS, 1, 0)
    reset = lambda stream, code: frame(RST, 0, stream, bytes([0, 0, 0, code]))
    rows = {
        "all": b"".join(answer(i, b"hello") for i in (1, 3, 5, 7)),
        "backwards": b"".join(answer(i, b"x" * 1000) for i in (7, 5, 3, 1)),
        "refused": refusal(1, "9", "100 %25 f%C3%BCr") + refusal(3, "99", "%00%FF%0a") + refusal(5, "x", "") + refusal(7, "0", ""),
        "resets": reset(1, 8) + reset(3, 7) + reset(5, 0) + reset(7, 11),
        "goaway": answer(1, b"x") + frame(GOAWAY, 0, 0, b"\0\0\0\3\0\0\0\0") + answer(3, b"y"),
        "broken": frame(GOAWAY, 0, 0, b"\0\0\0\0\0\0\0\1why"),
        "http": frame(HEADERS, END_HEADERS | END_STREAM, 1, field(":status", "503"))
            + frame(HEADERS, END_HEADERS, 3, b"\x8d") + frame(DATA, END_STREAM, 3, b"<html>"),
        "interim": frame(HEADERS, END_HEADERS, 1, field(":status", "100")) + answer(1, b"x"),
        "two": answer(1, b"x" + message(b"y")) + answer(3, b""),
        "pieces": frame(HEADERS, END_HEADERS, 1, b"\x88" + field("content-type", "application/grpc"))
            + b"".join(frame(DATA, 0, 1, bytes([b])) for b in message(b"hello"))
            + frame(HEADERS, END_HEADERS | END_STREAM, 1, field("grpc-status", "0")),
        "large": frame(HEADERS, END_HEADERS, 1, b"\x88" + field("content-type", "application/grpc"))
            + frame(DATA, 0, 1, b"\0\2\0\0\1x"),
        "push": frame(PUSH, END_HEADERS, 1, b"\0\0\0\2\x82\x84\x87"),
        "pings": frame(PING, 0, 0, b"12345678") * 20 + answer(1, b"x"),
        "few": frame(SETTINGS, 0, 0, b"\0\3\0\0\0\1") + answer(1, b"x"),
    }
    for name, data in rows.items():
        write("client", "hand_" + name, hello + data)


class Recorder:
    """A socket that leads to another one, and keeps what goes through: the first connection's."""

    def __init__(self, place, target):
        self.said = {"client": b"", "server": b""}
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(place)
        self.listener.listen(10)
        threading.Thread(target=self.accept, args=(target,), daemon=True).start()

    def accept(self, target):
        first = True
        while True:
            try:
                near, _ = self.listener.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(target)
            except OSError:
                return
            threading.Thread(target=self.pump, args=(near, far, first), daemon=True).start()
            first = False

    def pump(self, near, far, keep):
        with near, far:
            while True:
                for end in select.select([near, far], [], [])[0]:
                    try:
                        data = end.recv(65536)
                        (far if end is near else near).sendall(data)
                    except OSError:
                        data = b""
                    if not data:
                        return
                    if keep:
                        self.said["client" if end is near else "server"] += data


def cut(data, start):
    """Whole frames, as long as they are small."""
    at = start
    while at + 9 <= len(data) and at < 6000:
        size = int.from_bytes(data[at:at + 3], "big")
        if size > 2000 or at + 9 + size > len(data):
            break
        at += 9 + size
    return data[:at]


def tell_all(command, lines):
    """Until it has answered to so many lines."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for line in lines:
        process.stdin.write(line + "\n")
        process.stdin.flush()
        process.stdout.readline()
    return process


def record(build, language, command):
    place = tempfile.mkdtemp(prefix="mete-record-")
    ours, near = os.path.join(place, "ours"), os.path.join(place, "near")
    host = subprocess.Popen([os.path.join(build, "tests/kube/grpc_host"), ours], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    host.stdout.readline()
    recorder = Recorder(near, ours)
    client = subprocess.Popen(command + ["client", near], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for line in client.stdout:
        if line.startswith("ok parallel"):
            break
    write("server", language, cut(recorder.said["client"], len(PREFACE)))
    client.kill()
    host.kill()
    theirs, near = os.path.join(place, "theirs"), os.path.join(place, "near2")
    server = subprocess.Popen(command + ["server", theirs], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    server.stdout.readline()
    recorder = Recorder(near, theirs)
    caller = tell_all([os.path.join(build, "tests/kube/grpc_caller"), near],
                      ["ask a /t/Echo 0 hello", "ask b /t/Refuse 60000 9 100 % für", "ask c /t/Nowhere 0 x",
                       "ask d /t/Big 0 1000", "ask e /t/Echo 0 "])
    write("client", language, cut(recorder.said["server"], 0))
    caller.kill()
    server.kill()
    shutil.rmtree(place)


def main(build):
    build = os.path.abspath(build)
    for side in ("client", "server"):
        os.makedirs(os.path.join(CORPUS, "grpc_" + side), exist_ok=True)
    by_hand_server()
    by_hand_client()
    for language in "go", "js", "python":
        record(build, language, peer(language, f"{build}/peer-{language}"))


main(sys.argv[1])
