#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""meted's page and metrics with TLS: to Python's ssl, which is OpenSSL."""
import ssl
import subprocess
import sys
import threading

from meted import *
import web

TOKEN = "0123456789abcdef-token"
HOST = "127.0.0.1"
BEARER = (f"Authorization: Bearer {TOKEN}",)


class Files:
    """A certificate that signs itself, and its key; and a token."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.certificate, self.key, self.token = (os.path.join(self.folder.name, name) for name in ("tls.crt", "tls.key", "token"))
        with open(self.token, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(TOKEN)
        self.make()

    def make(self, kind=("ec", "-pkeyopt", "ec_paramgen_curve:P-256"), only=None):
        """`only`: replaces that one of the two files alone."""
        new = {path: path + ".new" for path in (self.certificate, self.key)}
        subprocess.run(["openssl", "req", "-x509", "-newkey", *kind, "-nodes", "-days", "30", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,DNS:gpu1.example.org",
                        "-out", new[self.certificate], "-keyout", new[self.key]], check=True, capture_output=True)
        os.chmod(new[self.key], 0o600)
        for path in (only,) if only else new:
            os.rename(new[path], path)

    def options(self):
        return "--tls-cert", self.certificate, "--tls-key", self.key

    def trusted(self):
        return ssl.create_default_context(cafile=self.certificate)


class Secure(Daemon):
    def __init__(self, files, *options):
        self.files, self.port = files, free_port()
        super().__init__("--page", f"{HOST}:{self.port}", "--page-token", files.token, *files.options(), *options)

    @property
    def at(self):
        return HOST, self.port, self.files.trusted()

    def ask(self, path="/v1/node", host="localhost", headers=BEARER):
        return web.ask(self.at, path, host=host, headers=headers)

    def plain(self, data):
        """The bytes that come back, until it is closed."""
        with web.connect((HOST, self.port)) as made:
            made.sendall(data)
            return web.hear_out(made)


def shown(port):
    return ssl.get_server_certificate((HOST, port))


def test_a_client_that_trusts_the_certificate_is_served():
    with Secure(Files()) as meted:
        admin = Admin(meted.place)
        admin.tenant("1GiB", name="secret")
        answer = meted.ask()
        assert answer.status == 200 and [row["name"] for row in answer.json["tenants"]] == ["secret"]
        assert meted.ask(headers=()).status == 401 and "<html" in meted.ask("/").body
        # A browser has compared the name with the certificate.
        assert meted.ask(host="gpu1.example.org").status == 200
        with web.Stream(meted.at, headers=BEARER) as stream:
            assert stream.next()[0] == "state"
            other = Admin(meted.place)
            other.tenant("64MiB", name="more")
            assert stream.until(lambda name, data: [row for row in data.get("tenants", ()) if row.get("name") == "more"])
        with web.connect(meted.at) as made:
            assert made.version() == "TLSv1.3"
        old = meted.files.trusted()
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        assert web.ask((HOST, meted.port, old), "/v1/node", headers=BEARER).status == 200


def test_metrics_speak_it_too():
    port = free_port()
    with Secure(Files(), "--metrics", f"{HOST}:{port}") as meted:
        answer = web.ask((HOST, port, meted.files.trusted()), "/metrics")
        assert answer.status == 200 and "mete_" in answer.body


def test_the_certificate_changes_while_streams_go_on():
    files = Files()
    with Secure(files) as meted:
        with web.Stream(meted.at, headers=BEARER) as stream:
            assert stream.next()[0] == "state"
            before = shown(meted.port)
            files.make(kind=("rsa:2048",), only=files.certificate)
            until(lambda: "tls.kept" in meted.log(), "the half of a pair is not reported")
            assert "is not the key of the certificate" in meted.log() and shown(meted.port) == before
            files.make(kind=("rsa:2048",))
            until(lambda: shown(meted.port) != before, "the new certificate is never shown")
            assert "tls.changed" in meted.log() and meted.ask().status == 200
            os.remove(files.key)
            until(lambda: "No such file" in meted.log(), "that a file is gone is not reported")
            assert meted.ask().status == 200
            admin = Admin(meted.place)
            admin.tenant("64MiB", name="late")
            assert stream.until(lambda name, data: [row for row in data.get("tenants", ()) if row.get("name") == "late"])


def hello(meted):
    """The first message of a handshake."""
    outgoing = ssl.MemoryBIO()
    client = meted.files.trusted().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def test_a_handshake_that_never_ends_keeps_nobody_waiting():
    with Secure(Files()) as meted:
        whole = hello(meted)
        held = []
        for size in (0, 1, 4, 5, len(whole) - 1, len(whole)):
            held += [web.connect((HOST, meted.port)) for _ in range(6)]
            for one in held[-6:]:
                one.sendall(whole[:size])
        # A client that holds as many as a host may makes room for itself.
        assert meted.ask().status == 200
        for one in held:  # each has its time
            try:
                while one.recv(1 << 16):
                    pass
            except ConnectionResetError:
                pass
            one.close()
        assert meted.ask().status == 200


def test_a_client_that_waits_within_a_handshake_keeps_no_core_busy():
    with Secure(Files()) as meted:
        def switches():
            return sum(int(count) for thread in os.listdir(f"/proc/{meted.process.pid}/task")
                       for count in re.findall(r"ctxt_switches:\t(\d+)", open(f"/proc/{meted.process.pid}/task/{thread}/status").read()))

        with web.connect((HOST, meted.port)) as silent:
            silent.sendall(hello(meted))
            assert silent.recv(1)  # its part of the handshake
            before = switches()
            time.sleep(2)
            # A check each 10 ms, at most. It was one each 1 to 2 ms.
            assert switches() - before < 600
            assert meted.ask().status == 200


def test_a_client_cannot_choose_expensive_algorithms():
    files = Files()
    files.make(kind=("rsa:2048",))
    with Secure(files) as meted:
        for options in (("-tls1_3", "-groups", "ffdhe8192"), ("-tls1_2", "-cipher", "DHE-RSA-AES128-GCM-SHA256"), ("-tls1_2", "-cipher", "AES128-GCM-SHA256")):
            said = subprocess.run(["openssl", "s_client", "-connect", f"{HOST}:{meted.port}", *options], stdin=subprocess.DEVNULL, capture_output=True, text=True)
            assert said.returncode != 0 and "New, (NONE)" in said.stdout, (options, said)
        for options in (("-tls1_3", "-groups", "P-384"), ("-tls1_2", "-cipher", "ECDHE-RSA-AES128-GCM-SHA256")):
            said = subprocess.run(["openssl", "s_client", "-connect", f"{HOST}:{meted.port}", *options], stdin=subprocess.DEVNULL, capture_output=True, text=True)
            assert said.returncode == 0, (options, said)


def test_bytes_that_are_no_tls_end_their_connection_and_nothing_else():
    with Secure(Files()) as meted:
        said = meted.plain(web.request("/v1/node", headers=BEARER))
        assert said.startswith(b"HTTP/1.1 400 ") and said.endswith(b"this address speaks TLS: use https://\n"), said
        whole = hello(meted)
        for data in (b"\0", b"\x15\x03\x01\0\x02\x02\x28", b"\x16" + b"\xff" * 20000, b"\x16\x03\x01\0\0", b"\x16\x03\x01\0\x04\x01\0\0\0", whole[:11] + bytes(len(whole) - 11),
                     whole + b"GET / HTTP/1.1\r\n\r\n", whole + whole, whole[:60] + b"\xff" * (len(whole) - 60)):
            assert b"HTTP/1.1 200" not in meted.plain(data), data
        assert meted.ask().status == 200


def test_a_client_that_asks_for_handshakes_without_end_is_refused():
    with Secure(Files()) as meted:
        whole = hello(meted)

        def refused():
            """How many of a hundred that come at once."""
            many = [web.connect((HOST, meted.port)) for _ in range(100)]
            silent = 0
            for one in many:
                try:
                    one.sendall(whole)
                except OSError:
                    pass
            for one in many:
                try:
                    silent += not one.recv(1)
                except OSError:
                    silent += 1
                one.close()
            return silent

        until(refused, "handshakes are never refused")
        until(lambda: try_status(meted) == 200, "nobody is served any more")


def test_a_known_client_is_served_while_strangers_from_many_addresses_use_up_all_handshakes():
    with Secure(Files()) as meted:
        whole, over, refused = hello(meted), threading.Event(), threading.Event()
        assert meted.ask().status == 200

        def flood(net):
            turn = 0
            while not over.is_set():
                turn += 1
                try:
                    with socket.create_connection((HOST, meted.port), PATIENCE, (f"127.0.{net}.{turn % 200 + 1}", 0)) as made:
                        made.sendall(whole)
                        if not made.recv(1):
                            refused.set()
                except OSError:
                    refused.set()

        strangers = [threading.Thread(target=flood, args=(net,)) for net in range(1, 9)]
        for one in strangers:
            one.start()
        try:
            assert refused.wait(PATIENCE), "handshakes are never refused"
            for _ in range(7):  # a stranger among these gets one in three
                assert meted.ask().status == 200
        finally:
            over.set()
            for one in strangers:
                one.join()


def try_status(meted):
    try:
        return meted.ask().status
    except OSError:  # it was refused
        return 0


def test_options_of_tls_that_cannot_be_used_are_refused():
    files, other = Files(), Files()
    page = ("--page", f"{HOST}:0")
    assert "whoever reaches this address would see all tenants" in refused(*page, *files.options()), "TLS is no token"
    page += ("--page-token", files.token)
    assert "--tls-cert and --tls-key need each other" in refused(*page, "--tls-cert", files.certificate)
    assert "--tls-cert and --tls-key need each other" in refused("--tls-key", files.key)
    assert "--tls-cert needs a TCP address" in refused("--page", "unix:/tmp/never", *files.options())
    assert "is not the key of the certificate" in refused(*page, "--tls-cert", files.certificate, "--tls-key", other.key)
    assert "accepted: a certificate in PEM" in refused(*page, "--tls-cert", files.key, "--tls-key", files.key)
    assert "accepted: a private key in PEM" in refused(*page, "--tls-cert", files.certificate, "--tls-key", files.token)
    assert "No such file" in refused(*page, "--tls-cert", files.folder.name + "/none", "--tls-key", files.key)
    os.chmod(files.key, 0o644)
    assert "every user may read it" in refused(*page, *files.options())


if __name__ == "__main__":
    run(globals())
