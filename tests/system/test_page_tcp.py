#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""meted's page at a TCP address: nobody is shown a figure without a token, unless its administrator said so."""
import subprocess
import sys

from meted import *
import web

TOKEN = "0123456789abcdef-token"
HOST = "127.0.0.1"


class Token:
    def __init__(self, text=TOKEN + "\n", mode=0o600):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "token")
        with open(self.path, "w") as file:
            file.write(text)
        os.chmod(self.path, mode)


def test_the_page_is_not_shown_where_that_is_not_safe():
    for address in ("127.0.0.1:0", ":0", "[::1]:0", "0.0.0.0:0"):
        assert "whoever reaches this address would see all tenants; accepted: --page-token FILE" in refused("--page", address), address
    for address in (":0", "0.0.0.0:0", "[::]:0", "192.0.2.1:0"):
        assert "is not a loopback address" in refused("--page", address, "--page-open"), address
    assert "need --page ADDRESS" in refused("--page-open")
    assert "not an address with a port" in refused("--page", "9401", "--page-open")
    for text, mode, why in (("x" * 15, 0o600, "a token has 16 to 512 characters"), ("x" * 513, 0o600, "16 to 512"), (TOKEN, 0o640, "accepted: a file of meted's user with mode 0600"), ("\0".join("secret-of-all"), 0o600, "letters, digits and signs of ASCII"),
                            (TOKEN, 0o604, "mode 0600"), ("x" * 10 + " " + "x" * 10, 0o600, "no blanks"), ("é" * 16, 0o600, "of ASCII")):
        token = Token(text, mode)
        assert why in refused("--page", "127.0.0.1:0", "--page-token", token.path), (text, mode)
    assert "No such file" in refused("--page", "127.0.0.1:0", "--page-token", "/nothing")
    assert "not a file" in refused("--page", "127.0.0.1:0", "--page-token", "/")
    assert "mutually exclusive" in refused("--page", "127.0.0.1:0", "--page-token", Token().path, "--page-open")


PATHS = ("/v1/node", "/v1/events", "/v1/tenants/secret", "/v1/devices/0", "/v1/nothing", "/anything")
# Ways to send something that is not the token; none may be taken for it.
WITHOUT = ((), ("Authorization: Bearer",), ("Authorization: Bearer ",), ("Authorization: Bearer " + TOKEN[:-1],), ("Authorization: Bearer " + TOKEN + "x",),
           ("Authorization: Bearer " + TOKEN.upper(),), (f"Authorization: Basic {TOKEN}",), (f"Authorization: {TOKEN}",), (f"Cookie: token={TOKEN}",), (f"X-Token: {TOKEN}",),
           ("Authorization: Bearer " + TOKEN + TOKEN,), (f"Proxy-Authorization: Bearer {TOKEN}",))


def test_nobody_is_shown_a_figure_without_the_token():
    port, token = free_port(), Token()
    with Daemon("--page", f"{HOST}:{port}", "--page-token", token.path) as meted:
        admin = Admin(meted.place)
        admin.tenant("1GiB", name="secret")
        for path in PATHS:
            for headers in WITHOUT:
                for shown in (path, f"{path}?token={TOKEN}", f"{path}#token={TOKEN}"):
                    answer = web.ask((HOST, port), shown, headers=headers)
                    assert answer.status in (401, 400), (shown, headers, answer.status, answer.body)
                    assert "secret" not in answer.body and "GPU-" not in answer.body
        assert web.ask((HOST, port), "/v1/node").headers["www-authenticate"].startswith("Bearer")
        said = web.ask((HOST, port), "/v1/node", headers=(f"Authorization: Bearer {TOKEN}",))
        assert said.status == 200 and [row["name"] for row in said.json["tenants"]] == ["secret"]
        with web.Stream((HOST, port), headers=(f"authorization: bearer  {TOKEN}",)) as stream:
            assert stream.status == 200 and stream.next()[0] == "state"
        page = web.ask((HOST, port), "/")
        assert page.status == 200 and "secret" not in page.body
        assert TOKEN not in meted.log()


def test_other_sites_pages_cannot_ask():
    port = free_port()
    with Daemon("--page", f"{HOST}:{port}", "--page-open") as meted:
        admin = Admin(meted.place)
        admin.tenant("1GiB", name="secret")
        for path in ("/", *PATHS):
            for host in ("evil.example", f"evil.example:{port}", "localhost.evil.example", f"127.0.0.1.evil.example:{port}", "gpu1"):
                answer = web.ask((HOST, port), path, host=host)
                assert answer.status == 421 and "secret" not in answer.body, (path, host, answer.status)
        for site in ("cross-site", "same-site"):
            for path in PATHS:
                answer = web.ask((HOST, port), path, headers=(f"Sec-Fetch-Site: {site}",))
                assert answer.status == 403 and "secret" not in answer.body, (path, site)
        for host, site in ((f"127.0.0.1:{port}", "same-origin"), (f"localhost:{port}", "none"), ("[::1]", "none")):
            answer = web.ask((HOST, port), "/v1/node", host=host, headers=(f"Sec-Fetch-Site: {site}",))
            assert answer.status == 200 and "access-control-allow-origin" not in answer.headers, (host, site)


if __name__ == "__main__":
    run(globals())
