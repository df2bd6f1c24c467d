#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The client of the API server, before a server that has good days and bad ones: requests, and its identity."""
import base64
import json
import os
import shutil
import ssl

from fake_api import *


def test_a_request_is_answered_with_its_object():
    with Api() as api:
        api.client.ask("a", "GET", "/api/v1/nodes/n1?pretty=false")
        asked = api.request("/api/v1/nodes/n1")
        assert asked.token == "Bearer first" and asked.headers["Accept"] == "application/json"
        assert "Expect" not in asked.headers and "Content-Type" not in asked.headers
        assert asked.headers["User-Agent"] == "mete", "a server that takes us for curl indents"
        asked.answer({"kind": "Node"})
        api.client.hear('a answered 200 - | {"kind":"Node"}')


def test_patches_are_sent_with_their_kind_and_body():
    with Api() as api:
        for kind in ("merge-patch", "strategic-merge-patch"):
            api.client.ask("a", "PATCH", "/api/v1/nodes/n1/status", f"application/{kind}+json", '{"a": "b c"}')
            asked = api.request("/api/v1/nodes/n1/status", "PATCH")
            assert asked.headers["Content-Type"] == f"application/{kind}+json" and asked.body == b'{"a": "b c"}'
            asked.answer({})
            api.client.hear("a answered 200 - | {}")


def test_a_large_body_is_sent_without_waiting_for_leave():
    with Api() as api:
        body = json.dumps({"a": "x" * 20000})
        api.client.ask("a", "POST", "/api/v1/events", "application/json", body)
        asked = api.request(verb="POST")
        assert asked.body.decode() == body and "Expect" not in asked.headers
        asked.answer({}, 201)
        api.client.hear("a answered 201 - | {}")


def test_verbs_without_a_body_are_whole_requests():
    with Api() as api:
        for verb in ("DELETE", "POST", "PUT", "GET"):
            api.client.ask("a", verb, "/x")
            api.request(verb=verb).answer({})
            api.client.hear("a answered 200 - | {}")


def test_requests_share_a_connection():
    with Api() as api:
        peers = set()
        for _ in range(5):
            api.client.ask("a", "GET", "/x")
            asked = api.request()
            peers.add(asked.peer)
            asked.answer({})
            api.client.hear("a answered 200 - | {}")
        assert len(peers) == 1, peers


def test_a_kept_connection_that_the_server_has_closed_is_no_failure():
    with Api() as api:
        for _ in range(3):
            api.client.ask("a", "GET", "/x")
            asked = api.request()
            asked.answer({}, stays=True)
            api.client.hear("a answered 200 - | {}")
            asked.cut()


def test_many_requests_at_once_are_all_answered():
    with Api() as api:
        for i in range(40):
            api.client.ask(f"a{i}", "GET", f"/x/{i}")
        for _ in range(40):
            asked = api.request()
            asked.answer({"path": asked.path})
        said = {api.client.line() for _ in range(40)}
        assert said == {f'a{i} answered 200 - | {{"path":"/x/{i}"}}' for i in range(40)}


def test_a_refusal_is_the_servers_sentence():
    with Api() as api:
        api.client.ask("a", "GET", "/x")
        api.request().refuse(403, "nodes is\nforbidden")
        assert api.client.hear_start("a answered 403 nodes is?forbidden | {")
        api.client.ask("a", "GET", "/x")
        api.request().answer(b"<html>", 502)
        api.client.hear("a answered 502 the API server answered 502 to GET /x | -")
        api.client.ask("a", "GET", "/x")
        api.request().answer(b"not json")
        api.client.hear("a answered 200 - | -")


def test_a_redirection_is_not_followed():
    with Api() as api:
        api.client.ask("a", "GET", "/x")
        api.request().answer({}, 302, Location="https://127.0.0.1:1/")
        api.client.hear("a answered 302 the API server answered 302 to GET /x | {}")


def test_an_answer_that_is_cut_or_too_large_is_none():
    with Api() as api:
        api.client.ask("a", "GET", "/x")
        asked = api.request()
        asked.begin().send(b'{"a":')
        asked.cut()
        api.client.hear_start(f"a answered 0 https://127.0.0.1:{api.port}: ")
        api.client.tell("pace most 1000")
        api.client.ask("a", "GET", "/x")
        asked = api.request()
        asked.answer(b"[" + b"1," * 5000 + b"1]")
        api.client.hear(f"a answered 0 https://127.0.0.1:{api.port}: the answer is larger than 1000B | -")


def test_a_server_that_hangs_is_given_up_in_time():
    with Api() as api:
        for within in (50, 500, 5000, 50000):  # on a busy machine the request itself takes longer than a while
            api.client.ask("a", "GET", "/x", within=within)
            api.client.hear(f"a answered 0 https://127.0.0.1:{api.port}: no answer in time | -")
            asked = api.came()
            if asked:
                asked.gone()
                return
        raise AssertionError("no request ever reached the server")


def test_a_server_that_is_not_there_is_reported():
    with Api() as api:
        api.vanish()
        api.client.ask("a", "GET", "/x")
        api.client.hear(f"a answered 0 https://127.0.0.1:{api.port}: Connection refused | -")
        api.serve()


def test_a_server_that_asks_us_to_come_later_is_asked_later():
    with Api() as api:
        for code in (429, 500, 503):
            api.client.ask("a", "POST", "/x", "application/json", "{}")
            api.request(verb="POST").refuse(code, "busy", Retry_After="1")
            again = api.request(verb="POST")
            assert again.body == b"{}"
            again.answer({}, 201)
            api.client.hear("a answered 201 - | {}")


def test_later_than_the_caller_waits_is_a_refusal():
    with Api() as api:
        api.client.ask("a", "GET", "/x", within=PATIENCE * 1000)
        api.request().refuse(429, "busy", Retry_After=str(PATIENCE + 1))
        api.client.hear_start("a answered 429 busy | {")
        api.client.ask("a", "GET", "/x")
        api.request().refuse(500, "etcd is away")
        api.client.hear_start("a answered 500 etcd is away | {")


def test_a_forgotten_request_is_not_answered():
    with Api() as api:
        api.client.ask("a", "GET", "/x")
        asked = api.request()
        api.client.tell("forget a")
        asked.gone()
        api.client.quiet()


def test_a_request_that_cannot_be_sent_is_refused_at_once():
    with Api() as api:
        for words in ("GET x", "G&T /x", "GET /x#y", "GET /a\tb", "GET /x text\x01"):
            api.client.tell(f"ask a 0 {words}")
            api.client.hear("a ask -22")
        api.client.tell("watch w nowhere")
        api.client.hear("w watch -22")


def test_a_token_is_read_again_when_it_has_changed():
    with Api() as api:
        for token in ("first", "second", "third"):
            api.rotate(token + "\n")
            api.client.ask("a", "GET", "/x")
            asked = api.request()
            assert asked.token == f"Bearer {token}"
            asked.answer({})
            api.client.hear("a answered 200 - | {}")


def test_a_token_that_is_no_good_leaves_the_old_one():
    with Api() as api:
        for bad in ("", "two words", "line\nends", "\n"):
            api.rotate(bad)
            api.client.ask("a", "GET", "/x")
            asked = api.request()
            assert asked.token == "Bearer first"
            asked.answer({})
            api.client.hear("a answered 200 - | {}")


def test_a_401_is_tried_once_more_with_a_token_that_was_rotated_meanwhile():
    with Api() as api:
        api.client.ask("a", "PATCH", "/x", "application/merge-patch+json", "{}")
        asked = api.request(verb="PATCH")
        api.rotate("second")
        asked.refuse(401, "Unauthorized")
        again = api.request(verb="PATCH")
        assert again.token == "Bearer second" and again.body == b"{}"
        again.refuse(401, "Unauthorized")
        api.client.hear_start("a answered 401 Unauthorized")
        api.client.ask("a", "GET", "/x")
        api.request().refuse(401, "Unauthorized")
        api.client.hear_start("a answered 401 Unauthorized")


def test_a_server_of_another_authority_is_not_spoken_to():
    with Api() as api:
        api.certificate = Authority(api.folder, "stranger").issue("server")
        api.vanish()
        api.serve()
        api.client.ask("a", "GET", "/x")
        assert "certificate" in api.client.hear_start("a answered 0 ")
        assert api.asked.empty()


def test_authorities_are_read_again_when_they_have_changed_and_may_be_several():
    with Api() as api:
        second = Authority(api.folder, "second")
        api.certificate = second.issue("server")
        api.vanish()
        api.serve()
        api.rotate(authorities=open(api.authority.certificate).read() + open(second.certificate).read())
        api.client.ask("a", "GET", "/x")
        api.request().answer({})
        api.client.hear("a answered 200 - | {}")


def kubeconfig(api, cluster=None, user=None, name="kubeconfig", **more):
    config = {"current-context": "here", "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
              "clusters": [{"name": "other", "cluster": {"server": "https://127.0.0.1:1"}},
                           {"name": "c", "cluster": {"server": f"https://127.0.0.1:{api.port}",
                                                     "certificate-authority": "authority.crt"} if cluster is None else cluster}],
              "users": [{"name": "u", "user": {"token": "mine"} if user is None else user}], **more}
    path = os.path.join(api.folder, name)
    with open(path, "w") as file:
        file.write(json.dumps(config, indent=1))  # JSON is YAML
    return path


def in_base64(path):
    return base64.b64encode(open(path, "rb").read()).decode()


def asks(api, path):
    api.start(f"open kubeconfig {path}")
    api.client.ask("a", "GET", "/x")
    asked = api.request()
    asked.answer({})
    api.client.hear("a answered 200 - | {}")
    return asked


def test_a_kubeconfigs_files_are_relative_to_it():
    with Api(start=False) as api:
        os.mkdir(os.path.join(api.folder, "below"))
        with open(os.path.join(api.folder, "below/token"), "w") as file:
            file.write("of a file\n".replace(" ", "-"))
        path = kubeconfig(api, user={"tokenFile": "below/token", "token": "not-this"})
        assert asks(api, path).token == "Bearer of-a-file"
        with open(os.path.join(api.folder, "below/token"), "w") as file:
            file.write("another")
        api.client.ask("a", "GET", "/x")
        asked = api.request()
        assert asked.token == "Bearer another"
        asked.answer({})


def test_a_kubeconfigs_data_goes_before_its_files():
    with Api(start=False) as api:
        path = kubeconfig(api, cluster={"server": f"https://127.0.0.1:{api.port}/", "certificate-authority": "absent",
                                        "certificate-authority-data": in_base64(api.authority.certificate)})
        assert asks(api, path).token == "Bearer mine"


def test_a_client_certificate_is_shown_to_the_server():
    with Api(start=False) as api:
        certificate, key = api.authority.issue("client")
        shutil.copy(certificate, api.folder)
        api.server.tls.load_verify_locations(api.authority.certificate)
        api.server.tls.verify_mode = ssl.CERT_REQUIRED
        for user in ({"client-certificate": os.path.basename(certificate), "client-key": key},
                     {"client-certificate-data": in_base64(certificate), "client-key-data": in_base64(key)}):
            asked = asks(api, kubeconfig(api, user=user))
            name = dict(pair for part in asked.handler.connection.getpeercert()["subject"] for pair in part)
            assert name["commonName"] == "client" and not asked.token
            api.client.end()
        api.client = None


def refusal(api, line, **environment):
    base = {name: value for name, value in os.environ.items() if not name.startswith("KUBERNETES_")}
    client = Client(dict(base, **environment))
    client.tell(line)
    said = client.hear_start("refused ")
    client.end()
    return said


def test_a_mistake_in_a_kubeconfig_is_a_sentence_with_its_file_and_line_number():
    with Api(start=False) as api:
        def refused(text=None, **more):
            path = kubeconfig(api, **more)
            if text is not None:
                with open(path, "w") as file:
                    file.write(text)
            said = refusal(api, f"open kubeconfig {path}")
            assert said.startswith(path + ": "), said
            return said[len(path) + 2:]

        server = {"server": f"https://127.0.0.1:{api.port}"}
        assert refusal(api, "open kubeconfig /no/such") == "/no/such: No such file or directory"
        assert refusal(api, f"open kubeconfig {api.folder}") == f"{api.folder}: it is not a file"
        assert refused("") == "it is not a kubeconfig"
        assert refused("a: [") == "line 2: did not find expected node content" or refused("a: [").startswith("line ")
        assert refused("[" * 100000) == "line 1: it is nested too deeply"
        assert refused("x: y") == "there is no current-context"
        assert refused("current-context: x") == "there is no list 'contexts'"
        assert refused(**{"current-context": "there"}) == "line 3: contexts has no 'there'"
        assert refused(clusters=[]).endswith(": clusters has no 'c'")
        assert refused(users=[{"name": "u"}]).endswith(": 'u' of users has no 'user'")
        assert refused(cluster={}).endswith(": the cluster 'c' has no server")
        assert refused(cluster={"server": "ftp://x"}).startswith("line ")
        assert "is not an address of a server" in refused(cluster={"server": "https://a b"})
        assert "https: only" in refused(cluster={"server": "http://127.0.0.1"})
        assert refused(cluster=dict(server, **{"insecure-skip-tls-verify": True})).endswith(
            ": insecure-skip-tls-verify is not supported: name the server's authority in certificate-authority")
        assert ": exec is not supported: " in refused(user={"exec": {"command": "x"}})
        assert refused(user={"token": ["x"]}).endswith(": token is not a text")
        assert refused(user={"token": "a b"}).endswith(": token: it is not a token")
        assert refused(user={"tokenFile": "absent"}) == f"{api.folder}/absent: No such file or directory"
        assert refused(cluster=dict(server, **{"certificate-authority-data": "?"})).endswith("it is not in base64")
        assert "there is no CERTIFICATE in it" in refused(cluster=dict(server, **{"certificate-authority-data": "YWJj"}))
        assert "there is a client certificate without a client key" in refused(
            user={"client-certificate": "authority.crt"})
        with open(os.path.join(api.folder, "locked"), "w") as file:
            file.write("-----BEGIN ENCRYPTED PRIVATE KEY-----\n-----END ENCRYPTED PRIVATE KEY-----\n")
        assert "locked: it is encrypted" in refused(user={"client-certificate": "authority.crt", "client-key": "locked"})


def test_a_mistake_of_a_pods_account_is_a_sentence_with_its_file():
    with Api(start=False) as api:
        here = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(api.port)}
        account = f"open account {api.account}"
        assert refusal(api, account).startswith("this is not a pod ")
        assert refusal(api, account, **dict(here, KUBERNETES_SERVICE_PORT="https")) == \
            "KUBERNETES_SERVICE_PORT: 'https' is not a port"
        assert refusal(api, "open account /no", **here) == "/no/ca.crt: No such file or directory"
        api.rotate("")
        assert refusal(api, account, **here) == f"{api.account}/token: there is no token in it"
        api.rotate("x", "-----BEGIN CERTIFICATE-----\nMII")
        assert refusal(api, account, **here) == f"{api.account}/ca.crt: it ends in the middle of a PEM block"


if __name__ == "__main__":
    run(globals())
