#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""meted's page on a real cluster: two service accounts, each with the rights that RBAC gives it, and no more. test_page.py BUILD."""
import base64
import json
import os
import subprocess

from harness import ROOT, Answer, node, pod, run, soak, until
from test_deploy import DEPLOY, SIMULATED, deployed

PORT = 9402
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def account(here, name):
    """A service account's token."""
    path = f"/api/v1/namespaces/{here.namespace}/serviceaccounts"
    here.cluster.ask("POST", path, {"metadata": {"name": name}})
    return here.cluster.ask("POST", f"{path}/{name}/token", {"spec": {"expirationSeconds": 3600}})["status"]["token"]


def allow(here, name, namespace, rule):
    """A right of that account in a namespace; None: in all of the cluster. Returns what takes it away."""
    kind, where = ("ClusterRole", RBAC) if namespace is None else ("Role", f"{RBAC}/namespaces/{namespace}")
    full = f"{here.namespace}-{name}"
    here.cluster.ask("POST", f"{where}/{kind.lower()}s", {"metadata": {"name": full}, "rules": [rule]})
    here.cluster.ask("POST", f"{where}/{kind.lower()}bindings", {
        "metadata": {"name": full}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": full},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": here.namespace}]})
    return lambda: here.cluster.ask("DELETE", f"{where}/{kind.lower()}bindings/{full}")


def curl(here, token, path, *headers):
    """Status and body, once the API server has told meted what it asked. On a busy machine it may take longer than a viewer has to wait."""
    return until(lambda: (answer := ask_page(here, token, path, *headers))[0] != 503 and answer, "the page is told nothing by the API server")


def ask_page(here, token, path, *headers):
    words = [word for header in (*([f"Authorization: Bearer {token}"] if token else []), *headers) for word in ("-H", header)]
    said = here.cluster.run("curl", "-s", "--path-as-is", "-m", "30", "-w", "\n%{http_code}", *words, f"http://127.0.0.1:{PORT}{path}")
    body, _, status = said.rpartition("\n")
    return int(status), body


def names(here, token):
    status, body = curl(here, token, "/v1/node")
    assert status in (200, 403), body
    return {row["name"] for row in json.loads(body)["tenants"]} if status == 200 else set()


def test_each_account_sees_pods_that_it_may_get():
    with node("share: {memory: 1GiB}", slots=4, options=("--page", f":{PORT}", "--page-kubernetes", "5s")) as here:
        other = here.cluster.namespace(here.namespace + "-b")
        steady = {"command": ["steady", "seconds=3600", "memory=10M", "kernel_us=20000", "report_ms=200"], "slots": 1}
        mine = here.pod("mine", pod(**steady))
        manifest = pod(**steady)
        manifest["metadata"]["name"] = "theirs"
        theirs = here.cluster.create_pod(manifest, other)
        here.pods.append(theirs)
        for one in mine, theirs:
            one.await_line(".")
        tenants = {f"{here.namespace}/mine/c", f"{other}/theirs/c"}
        until(lambda: tenants <= set(here.meted.ps()), "the pods are no tenants")
        one, other_one = account(here, "one"), account(here, "other")

        try:
            here.cluster.ask("DELETE", f"{RBAC}/clusterrolebindings/mete-page")  # of a former test on this cluster
        except Answer:
            pass
        # Without the right to ask, meted shows nothing: the rights of deploy/base are not enough.
        until(lambda: ask_page(here, one, "/v1/node")[0] == 503, "it is shown without being asked for")
        here.cluster.apply(os.path.join(ROOT, "deploy", "components", "page", "rbac.yaml"), "mete-system")
        until(lambda: curl(here, one, "/v1/node")[0] == 403, "meted may not ask")

        end = allow(here, "one", here.namespace, {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["mine"]})
        allow(here, "other", other, {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]})
        until(lambda: names(here, one) == {f"{here.namespace}/mine/c"}, "one's pod is not seen")
        until(lambda: names(here, other_one) == {f"{other}/theirs/c"}, "the other's pod is not seen")
        number = here.meted.ps()[f"{other}/theirs/c"]["tenant"]
        escaped = f"{other}%2Ftheirs%2Fc"
        for path in ("/v1/node", "/v1/node?all=1", f"/v1/tenants/{escaped}", f"/v1/tenants/{number}", f"/v1/tenants/x/../{escaped}", "/v1/devices/0"):
            for headers in ((), ("Impersonate-User: system:admin", "Impersonate-Group: system:masters"), (f"Authorization: Bearer {other_one}",),
                            ("X-Remote-User: system:admin",), (f"Cookie: token={other_one}",)):
                status, body = curl(here, one, path, *headers)
                assert "theirs" not in body and status in (200, 404), (path, headers, body)
        assert curl(here, None, "/v1/node")[0] == 401 and curl(here, one[:-4] + "AAAA", "/v1/node")[0] == 401

        # A user who may see the node's metrics sees all.
        all_of_it = account(here, "all")
        assert curl(here, all_of_it, "/v1/node")[0] == 403
        allow(here, "all", None, {"apiGroups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]})
        until(lambda: names(here, all_of_it) >= tenants, "not all is seen")

        # A stream ends when the right is gone.
        stream = here.cluster.start("curl", "-sN", "-H", f"Authorization: Bearer {one}", f"http://127.0.0.1:{PORT}/v1/events", stdout=subprocess.PIPE, text=True)
        said = stream.stdout.readline() + stream.stdout.readline()
        assert said.startswith("event: state\n") and f"{here.namespace}/mine/c" in said and "theirs" not in said, said
        end()
        assert "theirs" not in stream.stdout.read() and stream.wait() == 0
        stream.stdout.close()
        until(lambda: curl(here, one, "/v1/node")[0] == 403, "the right is not gone")
        assert one not in here.meted.log() and other_one not in here.meted.log()
        theirs.delete()
        here.cluster.ask("DELETE", f"/api/v1/namespaces/{other}")


def certificate(place):
    """One that signs itself, with its key, in the files that a Secret of that type has."""
    os.makedirs(place, exist_ok=True)
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30", "-subj", "/CN=mete.example.org", "-addext",
                    "subjectAltName=DNS:mete.example.org", "-out", place + "/tls.crt", "-keyout", place + "/tls.key"], check=True, capture_output=True)
    return {name: open(f"{place}/{name}").read() for name in ("tls.crt", "tls.key")}


def with_tls(cluster):
    """deploy/overlays/page-tls of the simulated GPU, and the Secret that it asks for."""
    place = os.path.join(cluster.folder, "run", "page-tls")
    certificate(place)
    with open(place + "/kustomization.yaml", "w") as file:  # JSON is YAML
        json.dump({"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "namespace": "mete-system", "resources": [os.path.relpath(SIMULATED, place)],
                   "components": [os.path.relpath(os.path.join(DEPLOY, "components", name), place) for name in ("page", "page-tls")],
                   "generatorOptions": {"disableNameSuffixHash": True},
                   "secretGenerator": [{"name": "mete-page-tls", "type": "kubernetes.io/tls", "files": ["tls.crt", "tls.key"]}]}, file)
    return place


@soak
def test_the_page_in_the_daemonsets_pod_speaks_tls_with_a_secret_and_its_successor():
    with deployed(with_tls) as here:
        first = os.path.join(here.cluster.folder, "run", "page-tls", "tls.crt")
        mine = here.pod("mine", pod(command=["steady", "seconds=3600", "memory=10M", "kernel_us=20000", "report_ms=200"], slots=1))
        mine.await_line(".")
        one = account(here, "one")
        allow(here, "one", here.namespace, {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["mine"]})
        address = here.cluster.get(f"/api/v1/namespaces/mete-system/pods/{here.agent}")["status"]["podIP"]

        def ask(*words, scheme="https", headers=("-H", f"Authorization: Bearer {one}")):
            return here.cluster.run("curl", "-s", "-m", "30", "--resolve", f"mete.example.org:{PORT}:{address}", *words, *headers,
                                    f"{scheme}://mete.example.org:{PORT}/v1/node", check=False)

        def seen(authority):
            done = ask("--cacert", authority)
            return done.returncode == 0 and f"{here.namespace}/mine/c" in done.stdout
        until(lambda: seen(first), "the page is not served to who trusts the Secret's certificate")
        assert ask(scheme="http").stdout == "this address speaks TLS: use https://\n"
        assert ask().returncode == 60, "nobody trusts it without being told"
        bare = ask("--cacert", first, "-w", "%{http_code}", headers=())
        assert bare.stdout.endswith("401") and "mine" not in bare.stdout, bare

        # Its successor, as cert-manager writes it: nobody restarts.
        place = os.path.join(here.cluster.folder, "run", "page-tls-next")
        here.cluster.patch("/api/v1/namespaces/mete-system/secrets/mete-page-tls",
                           {"data": {name: base64.b64encode(text.encode()).decode() for name, text in certificate(place).items()}})
        until(lambda: seen(place + "/tls.crt"), "the Secret was changed, and the certificate was not")
        assert ask("--cacert", first).returncode == 60
        agent, = here.cluster.get("/api/v1/namespaces/mete-system/pods")["items"]
        assert agent["metadata"]["name"] == here.agent and agent["status"]["containerStatuses"][0]["restartCount"] == 0


if __name__ == "__main__":
    run(globals())
