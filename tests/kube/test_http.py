#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The server for figures, before readers good and bad."""
import os
import socket
import stat
import tempfile

from fake_api import *
from web import hear_out


class Figures:
    def __init__(self, address="127.0.0.1:0"):
        self.client = Client()
        self.client.tell(f"serve {address}")
        self.port = int(self.client.hear_start("serving "))
        self.address = address

    def connect(self, source=None, family=socket.AF_INET):
        """`source`: the address that it comes from."""
        if self.address.startswith("/"):
            made = socket.socket(socket.AF_UNIX)
            made.settimeout(PATIENCE)
            made.connect(self.address)
            return made
        made = socket.socket(family)
        made.settimeout(PATIENCE)
        if source:
            made.bind((source, 0))
        made.connect(("::1" if family == socket.AF_INET6 else "127.0.0.1", self.port))
        return made

    def ask(self, text, made=None):
        """The bytes that come back until the server closes."""
        with made or self.connect() as made:
            made.sendall(text.encode())
            return hear_out(made).decode()

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


def test_a_missing_page_is_404_and_a_method_that_does_not_read_is_405():
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


def test_bytes_that_are_no_request_end_their_connection_and_nothing_else():
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


ASK = b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


class Late(Exception):
    """The time for a head was over before the test had done what it wants to do in it."""


def unhurried(test):
    """Again, where a busy machine was too slow."""
    def run_test():
        for _ in range(20):
            try:
                return test()
            except Late:
                pass
        raise AssertionError("the time for a head is never enough")

    run_test.__name__ = test.__name__
    return run_test


def hears_nothing(made):
    """It is open, and nobody has said anything."""
    made.setblocking(False)
    try:
        said = made.recv(12, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    finally:
        made.settimeout(PATIENCE)
    if said == b"HTTP/1.1 408":
        raise Late
    return False


def said_by(made, may_be_late=False):
    """The first text line that the server sends before it closes; None: it left without a word."""
    said = hear_out(made)
    if said.startswith(b"HTTP/1.1 408") and not may_be_late:
        raise Late
    return said.decode().split("\r\n")[0] or None


@unhurried
def test_a_client_that_sends_no_whole_request_keeps_nobody_waiting():
    with Figures() as figures:
        dripping = [figures.connect("127.0.0.2") for _ in range(32)]
        for made in dripping:
            made.sendall(ASK[:-1])  # nothing but the last byte is missing
        for _ in range(8):
            assert body_of(figures.get("/metrics"))[2] == "mete_up 1\n"
        assert all(hears_nothing(made) for made in dripping), "they made room, instead"
        for made in dripping:
            made.sendall(ASK[-1:])
            assert said_by(made) == "HTTP/1.1 200 OK"


@unhurried
def test_a_host_has_its_number_of_connections_and_takes_nobody_elses():
    with Figures() as figures:
        other, own = figures.connect("127.0.0.3"), [figures.connect("127.0.0.2") for _ in range(32)]
        other.sendall(ASK[:9])
        figures.get("/metrics")  # they have been accepted
        late = figures.connect("127.0.0.2")
        assert said_by(own[0]) == "HTTP/1.1 503 Service Unavailable", "the longest waiting is not told"
        assert all(hears_nothing(made) for made in own[1:] + [other])
        for made, sent in (late, ASK), (own[1], ASK), (other, ASK[9:]):
            made.sendall(sent)
            assert said_by(made) == "HTTP/1.1 200 OK"


@unhurried
def test_where_all_places_are_taken_the_host_with_the_most_makes_room():
    with Figures() as figures:
        small = [figures.connect("127.0.0.9") for _ in range(3)]
        many = [[figures.connect(f"127.0.0.{n}") for _ in range(count)] for n, count in ((2, 31), (3, 32), (4, 31), (5, 30))]
        figures.get("/metrics")  # all of them are in; it may need a place for a moment
        many[3].append(figures.connect("127.0.0.5"))
        assert all(hears_nothing(made) for made in small + sum(many, []))
        late = figures.connect("127.0.0.8")
        late.sendall(ASK[:20])
        assert said_by(many[1][0]) == "HTTP/1.1 503 Service Unavailable"
        late.sendall(ASK[20:])
        assert said_by(late) == "HTTP/1.1 200 OK"
        assert all(hears_nothing(made) for made in small + many[0] + many[1][1:] + many[2] + many[3])


def test_a_head_has_its_time_as_a_whole():
    with Figures() as figures:
        dripping, silent = figures.connect(), figures.connect()
        dripping.sendall(ASK[:-2] + b"X: ")
        dripping.settimeout(0.1)
        said = b""
        while not said:  # nothing but time ends it: silence there is none
            try:
                dripping.sendall(b"a")
                said = dripping.recv(1 << 16) or b"nothing"
            except socket.timeout:
                pass
        assert said.startswith(b"HTTP/1.1 408 Request Timeout\r\n"), said
        assert said_by(silent, may_be_late=True) == "HTTP/1.1 408 Request Timeout"


def test_a_client_that_was_answered_makes_room_for_one_that_asks():
    with Figures() as figures:
        kept = [figures.connect(f"127.0.0.{2 + i % 4}") for i in range(32)]
        for made in kept:
            made.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert made.recv(15) == b"HTTP/1.1 200 OK"
        for _ in range(8):
            assert body_of(figures.get("/metrics"))[2] == "mete_up 1\n"
        assert made.recv(1 << 16) and hears_nothing(made), "the last of them has room"


def test_a_client_that_does_not_read_answers_is_not_waited_for():
    """Their seats are taken: others are told so for moments, then served."""
    with Figures() as figures:
        slow = [figures.connect(f"127.0.0.{2 + i % 4}") for i in range(64)]
        for made in slow:
            made.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")

        def answered():
            line = body_of(figures.get("/metrics"))[0]
            assert line in ("HTTP/1.1 200 OK", "HTTP/1.1 503 Service Unavailable"), line
            return line == "HTTP/1.1 200 OK"

        until(answered, "never served")


def test_addresses_of_each_kind():
    for address, family in (("[::1]:0", socket.AF_INET6), (":0", socket.AF_INET), (":0", socket.AF_INET6)):
        with Figures(address) as figures:
            assert body_of(figures.get("/metrics", made=figures.connect(family=family)))[2] == "mete_up 1\n"


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
