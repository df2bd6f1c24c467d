#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The server for figures, before readers good and bad."""
import os
import socket
import stat
import tempfile

from fake_api import *


class Figures:
    def __init__(self, address="127.0.0.1:0"):
        self.client = Client()
        self.client.tell(f"serve {address}")
        self.port = int(self.client.hear_start("serving "))
        self.address = address

    def connect(self, family=socket.AF_INET):
        if self.address.startswith("/"):
            made = socket.socket(socket.AF_UNIX)
            made.settimeout(PATIENCE)
            made.connect(self.address)
            return made
        made = socket.socket(family)
        made.settimeout(PATIENCE)
        made.connect(("::1" if family == socket.AF_INET6 else "127.0.0.1", self.port))
        return made

    def ask(self, text, made=None):
        """What comes back until the server closes."""
        with made or self.connect() as made:
            made.sendall(text.encode())
            said = b""
            try:
                while data := made.recv(1 << 16):
                    said += data
            except ConnectionResetError:
                pass
            return said.decode()

    def get(self, path, verb="GET", **more):
        return self.ask(f"{verb} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", **more)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind:
            self.client.process.kill()
        else:
            self.client.end()


def body_of(said):
    head, _, body = said.partition("\r\n\r\n")
    return head.split("\r\n")[0], head.lower(), body


def test_figures_are_served():
    with Figures() as figures:
        line, head, body = body_of(figures.get("/metrics"))
        assert line == "HTTP/1.1 200 OK" and body == "mete_up 1\n", (line, body)
        assert "content-type: text/plain; version=0.0.4" in head, head
        assert body_of(figures.get("/healthz?x=y"))[::2] == ("HTTP/1.1 200 OK", "ok\n")
        assert body_of(figures.get("/%6detrics"))[2] == "mete_up 1\n"
        line, head, body = body_of(figures.get("/metrics", "HEAD"))
        assert line == "HTTP/1.1 200 OK" and not body and "content-length: 10" in head


def test_what_is_not_there_is_404_and_what_is_not_read_is_405():
    with Figures() as figures:
        assert body_of(figures.get("/"))[::2] == ("HTTP/1.1 404 Not Found", "not found\n")
        for verb in ("POST", "DELETE", "OPTIONS", "BREW"):
            line, head, _ = body_of(figures.get("/metrics", verb))
            assert line.startswith("HTTP/1.1 405 ") and "allow: get, head" in head, (verb, head)


def test_a_large_answer_comes_whole():
    with Figures() as figures:
        assert len(body_of(figures.get("/large"))[2]) == 8 << 20


def test_a_connection_serves_several_requests():
    with Figures() as figures:
        asked = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
        said = figures.ask(asked * 3 + asked.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"))
        assert said.count("HTTP/1.1 200 OK") == 4, said


def test_requests_with_content_are_refused():
    with Figures() as figures:
        for headers in ("Content-Length: 4\r\n", "Transfer-Encoding: chunked\r\n",
                        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", "Content-Length: 99999999999999\r\n"):
            said = figures.ask(f"GET /metrics HTTP/1.1\r\nHost: x\r\n{headers}\r\n")
            assert said.startswith("HTTP/1.1 413 "), said


def test_what_is_no_request_ends_its_connection_and_nothing_else():
    with Figures() as figures:
        for text in ("\r\n\r\n\r\nx\r\n\r\n", "GET /metrics HTTP/1.1\r\n\r\n", "GET / HTTP/9.9\r\nHost: x\r\n\r\n",
                     "GET /" + "a" * 100000 + " HTTP/1.1\r\nHost: x\r\n\r\n", "\0" * 1000 + "\r\n\r\n",
                     "GET / HTTP/1.1\r\nHost: x\r\n" + "A: b\r\n" * 20000 + "\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n"):
            with figures.connect() as made:
                try:
                    made.sendall(text.encode("latin1"))
                    made.shutdown(socket.SHUT_WR)
                    said = made.recv(12)
                except OSError:
                    said = b""
                assert not said.startswith((b"HTTP/1.1 2", b"HTTP/1.0 2")), said
        assert body_of(figures.get("/metrics"))[2] == "mete_up 1\n"


def test_readers_that_leave_at_any_moment_do_no_harm():
    with Figures() as figures:
        text = b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n"
        for i in range(len(text) + 1):
            with figures.connect() as made:
                made.sendall(text[:i])
        assert body_of(figures.get("/metrics"))[2] == "mete_up 1\n"


def test_more_readers_than_there_is_room_for_wait_for_their_turn():
    with Figures() as figures:
        waiting = [figures.connect() for _ in range(32)]
        late = figures.connect()
        late.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        figures.client.quiet()
        waiting[7].close()
        assert late.recv(15) == b"HTTP/1.1 200 OK"
        for made in waiting + [late]:
            made.close()


def test_those_who_say_nothing_or_little_are_cut_off_and_make_room():
    with Figures() as figures:
        waiting = [figures.connect() for _ in range(32)]
        for made in waiting[:16]:
            made.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nA: ")
        # Nothing but their end makes room for this one.
        assert body_of(figures.get("/metrics"))[2] == "mete_up 1\n"
        for made in waiting:
            made.close()


def test_addresses_of_each_kind():
    for address, family in (("[::1]:0", socket.AF_INET6), (":0", socket.AF_INET), (":0", socket.AF_INET6)):
        with Figures(address) as figures:
            assert body_of(figures.get("/metrics", made=figures.connect(family)))[2] == "mete_up 1\n"


def test_a_unix_socket_is_its_owners_and_goes_with_the_server():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "s")
        with Figures(path) as figures:
            about = os.stat(path)
            assert stat.S_ISSOCK(about.st_mode) and about.st_mode & 0o777 == 0o600
            assert body_of(figures.get("/metrics"))[2] == "mete_up 1\n"
            other = Client()
            other.tell(f"serve {path}")
            other.hear(f"refused '{path}': Address already in use")
            other.end()
            assert body_of(figures.get("/metrics"))[2] == "mete_up 1\n"
        assert not os.path.lexists(path)
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(path)
        with Figures(path) as figures:  # nobody listens there
            assert body_of(figures.get("/metrics"))[2] == "mete_up 1\n"
            os.unlink(path)
            with open(path, "w") as file:
                file.write("another's")
        assert open(path).read() == "another's"
        other = Client()
        other.tell(f"serve {path}")
        other.hear(f"refused '{path}' exists and is not a socket")
        other.end()


def test_a_bad_address_is_a_sentence():
    client = Client()
    for address, why in (("9400", "'9400' is not an address with a port; "), ("a:9400", "'a:9400': 'a' is not an IP address; "),
                         (":x", "':x': 'x' is not a port; "), (":65536", "':65536': '65536' is not a port; "),
                         ("::1:9400", "'::1:9400': '::1' is not an IP address; "), ("[::1:9400", "'[::1:9400': '[::1' is not"),
                         ("[]:1", "'[]:1': '[]' is not an IP address"), ("192.0.2.1:9400", "'192.0.2.1:9400': Cannot assign"),
                         ("/" + "x" * 200, "'/xxx"), ("/no/such/folder", "'/no/such/folder': No such file or directory")):
        client.tell(f"serve {address}")
        said = client.hear_start("refused ")
        assert said.startswith(why), said
    with Figures() as figures:
        client.tell(f"serve 127.0.0.1:{figures.port}")
        client.hear(f"refused '127.0.0.1:{figures.port}': Address already in use")
    client.end()


def test_the_server_may_be_closed_by_its_own_answer_and_opened_again():
    with Figures() as figures:
        with figures.connect() as idle:
            figures.get("/end")
            assert idle.recv(1) == b""
        figures.client.quiet()
        figures.client.tell(f"serve 127.0.0.1:{figures.port}")
        figures.client.hear(f"serving {figures.port}")
        assert body_of(figures.get("/metrics"))[2] == "mete_up 1\n"
        figures.client.tell("unserve")
        figures.client.quiet()


if __name__ == "__main__":
    run(globals())
