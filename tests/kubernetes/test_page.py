#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""meted's page on a real cluster: two service accounts, each with the rights that RBAC gives it, and no more. test_page.py BUILD."""
import json
import os
import subprocess

from harness import ROOT, Answer, node, pod, run, until

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


def test_each_account_sees_what_it_may_get():
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

        # Who may see the node's metrics sees all.
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


if __name__ == "__main__":
    run(globals())
