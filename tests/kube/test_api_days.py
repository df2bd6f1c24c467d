#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The client of the API server on days on which the server, its certificates, or the way to it are not well."""
import email.utils
import gzip
import shutil
import socket
import ssl
import threading
import time

from fake_api import *
from meted import require
from runner import Skipped

PODS = "/api/v1/pods"


def configured(api, server, **user):
    path = os.path.join(api.folder, "kubeconfig")
    with open(path, "w") as file:
        json.dump({"current-context": "here", "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
                   "clusters": [{"name": "c", "cluster": {"server": server, "certificate-authority": "authority.crt"}}],
                   "users": [{"name": "u", "user": user or {"token": "mine"}}]}, file)
    return f"open kubeconfig {path}"


def is_answered(api):
    api.client.ask("a", "GET", "/x")
    asked = api.request("/x")
    asked.answer({})
    api.client.hear("a answered 200 - | {}")
    return asked


def renew(api, certificate):
    """Those that are connected stay so."""
    api.certificate = certificate
    api.vanish()
    api.serve()


def test_a_server_that_names_a_date_is_asked_then():
    with Api() as api:
        api.client.ask("a", "GET", "/x")
        began = time.time()
        api.request("/x").refuse(503, "busy", Retry_After=email.utils.formatdate(began + 4, usegmt=True))
        api.request("/x").answer({})
        assert time.time() >= int(began) + 3, "it was asked at once"
        api.client.hear("a answered 200 - | {}")


def test_a_watch_whose_event_drips_is_resumed():
    """A byte now and then is no sign of life: what follows would never be seen."""
    with Api() as api:
        api.client.tell(f"watch w {PODS}")
        api.client.hear("w watch 0")
        api.list(version=10)
        api.client.hear("w begins", "w listed")
        watch, dripping = api.watch(), threading.Event()
        api.client.set("pace silence 200")
        watch.event("ADDED", item("a", 11))  # from then on it has that time
        api.client.hear("w seen a@11")

        def drip():
            watch.send(b'{"type": "')
            while not dripping.wait(0.005):
                try:
                    watch.send(b"A")
                except OSError:
                    break
            watch.done.set()
        thread = threading.Thread(target=drip)
        thread.start()
        try:
            again = api.watch(begin=False)
        finally:
            dripping.set()
            thread.join()
        assert again.query["resourceVersion"] == "11"
        api.client.set(f"pace silence {PATIENCE * 1000}")
        again.begin().event("ADDED", item("b", 12))
        api.client.hear("w seen b@12")


def test_answers_are_not_asked_for_in_gzip_and_one_that_is_is_no_list():
    with Api() as api:
        api.client.tell(f"watch w {PODS}")
        api.client.hear("w watch 0")
        asked = api.request(PODS)
        assert "Accept-Encoding" not in asked.headers
        asked.answer(gzip.compress(json.dumps(listed(version=1)).encode()), Content_Encoding="gzip")
        api.client.hear("w troubled the API server sent a list that cannot be read")
        api.list(item("a", 1), version=10)
        api.client.hear("w begins", "w seen a@1", "w listed")
        api.watch()
        api.client.hear("w well")


def test_a_server_with_an_address_of_version_6_is_spoken_to():
    try:
        with socket.socket(socket.AF_INET6) as one:
            one.bind(("::1", 0))
    except OSError as error:
        raise Skipped(f"there is no ::1: {error}; a loopback device with IPv6") from None
    with Api(host="::1") as api:
        is_answered(api)
        api.client.end()
        api.start(configured(api, f"https://[::1]:{api.port}"))
        assert is_answered(api).token == "Bearer mine"


def test_of_a_name_with_two_addresses_one_may_be_dead():
    """The first one answers nothing, not even that nobody listens there."""
    require("namespaces")
    with Api(start=False) as api, socket.socket() as dead, socket.socket() as waits:
        dead.bind(("127.0.0.2", api.port))
        dead.listen(0)
        waits.connect(("127.0.0.2", api.port))  # its queue is full
        hosts = os.path.join(api.folder, "hosts")
        with open(hosts, "w") as file:
            file.write("127.0.0.2 api.mete.test\n127.0.0.1 api.mete.test\n")
        api.wrap = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', hosts]
        api.start(configured(api, f"https://api.mete.test:{api.port}"))
        api.client.set("pace connect 1000")
        for _ in range(20):  # a busy machine may need longer than that
            api.client.ask("a", "GET", "/x", within=5000)
            asked = api.came()
            if asked:
                asked.answer({})
            said = api.client.line()
            if said == "a answered 200 - | {}":
                return
        raise AssertionError(said)


def heard_without_trouble(api, *wanted):
    """How often it was tried meanwhile, and what it met, is not said here."""
    said = []
    while wanted[-1] not in said:
        said.append(api.client.line())
    assert [line for line in said if "troubled" not in line] == list(wanted), said


def test_a_servers_certificate_that_has_expired_is_reported_until_it_is_renewed():
    with Api() as api:
        good = api.certificate
        renew(api, api.authority.issue("expired", days=-1))
        api.client.ask("a", "GET", "/x")
        assert "certificate has expired" in api.client.hear_start("a answered 0 ")
        api.client.tell(f"watch w {PODS}")
        api.client.hear("w watch 0")
        assert "certificate has expired" in api.client.hear_start("w troubled ")
        renew(api, good)
        api.list(version=10)
        api.watch().event("ADDED", item("a", 11))
        heard_without_trouble(api, "w begins", "w listed", "w well", "w seen a@11")
        is_answered(api)


def test_a_client_certificate_is_read_again_when_it_was_renewed():
    """The server refuses the first one, which has expired, when the handshake is over (TLS 1.3)."""
    with Api(start=False) as api:
        old, new = api.authority.issue("old", days=-1), api.authority.issue("client")
        for kind, path in zip(("crt", "key"), old):
            shutil.copy(path, f"{api.folder}/client.{kind}")
        api.server.tls.load_verify_locations(api.authority.certificate)
        api.server.tls.verify_mode = ssl.CERT_REQUIRED
        api.start(configured(api, f"https://127.0.0.1:{api.port}", **{"client-certificate": "client.crt", "client-key": "client.key"}))
        api.client.tell(f"watch w {PODS}")
        api.client.hear("w watch 0")
        api.client.hear_start("w troubled ")
        for kind, path in zip(("crt", "key"), new):
            shutil.copy(path, f"{api.folder}/new")
            os.rename(f"{api.folder}/new", f"{api.folder}/client.{kind}")
        api.list(version=10)
        api.watch()
        heard_without_trouble(api, "w begins", "w listed", "w well")


def test_a_list_whose_token_expires_again_and_again_is_read_with_pauses():
    with Api() as api:
        api.client.tell(f"watch w {PODS}")
        api.client.hear("w watch 0")
        for n in range(3):
            api.list(item("a", 1), version=10, more="t")
            api.client.hear("w begins", "w seen a@1")
            api.request(PODS).answer(status(410, "expired", "Expired"), 410)
            if n == 1:
                api.client.hear("w troubled expired")
        api.list(item("a", 1), item("b", 2), version=11)
        api.client.hear("w begins", "w seen a@1", "w seen b@2", "w listed")
        api.watch()
        api.client.hear("w well")


if __name__ == "__main__":
    run(globals())
