#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kubectl mete on a real cluster, as kubectl finds it in PATH: test_kubectl.py BUILD."""
import json
import os
import re

from harness import MIB, ROOT, pod, run, until
from test_deploy import deployed, moving

PLUGIN = os.path.join(ROOT, "deploy", "kubectl")


def once(here, *words):
    done = here.cluster.run("sh", "-c", 'PATH="$0:$PATH"; export PATH; kubectl mete "$@" 2>&1; echo "status=$?"', PLUGIN, *words)
    said, _, code = done.rpartition("status=")
    # A node that is very busy loses connections of kubectl: what was asked is asked again, as a person would.
    return None if re.search("websocket: close|client connection lost", said) else (said, int(code))


def mete(here, *words, status=0):
    """Its output."""
    said, code = until(lambda: once(here, *words), "kubectl's connection was lost again and again")
    assert code == status, said
    return said


def tenant(here, one):
    listed = json.loads(here.cluster.kubectl("exec", "-n", "mete-system", "ds/mete", "-c", "meted", "--", "mete", "ps", "--json"))
    return next((row for row in listed["tenants"] if row["name"] == f"{here.namespace}/{one.name}/c"), None)


def test_a_person_watches_explains_changes_and_suspends_pods():
    with deployed(moving) as here:
        mine = here.pod("mine", pod(command=["steady", "seconds=3600", "memory=100M", "kernel_us=20000", "report_ms=200"], slots=1, annotations={"swap": "auto", "memory": "1Gi"}))
        mine.await_line(".")
        at = ("-n", here.namespace)
        row = until(lambda: next((line for line in mete(here, "top", *at).splitlines() if f"{here.namespace}/mine/c" in line), None), "top never showed it")
        assert row.split()[:3] == ["node", "0", f"{here.namespace}/mine/c"] and row.split()[4] == "1.00", row
        assert "no pods with a share of a GPU in the namespace default" in mete(here, "top", "-n", "default")
        assert f"{here.namespace}/mine/c" in mete(here, "top", "-A", "--node", "node")
        assert f"{here.namespace}/mine/c (tenant " in mete(here, "why", "mine", *at) and "It waits for nothing." in mete(here, "why", "pod/mine", *at)

        assert "annotated" in mete(here, "set", "mine", "weight=200", "memory=512Mi", *at)
        until(lambda: (there := tenant(here, mine)) and there["limit_bytes"] == 512 * MIB and there["fields"]["weight"] == "200", "its share never changed")

        assert "until `mete resume`" in mete(here, "suspend", "mine", *at)
        until(lambda: tenant(here, mine)["suspended"], "it was never suspended")
        assert "lets it go on" in mete(here, "why", "mine", *at)
        mete(here, "resume", "mine", *at)
        until(lambda: not tenant(here, mine)["suspended"], "it was never resumed")


def test_why_speaks_of_pods_that_meted_does_not_know():
    with deployed(moving) as here:
        at = ("-n", here.namespace)
        here.pod("large", pod(command=["seen"], slots=30))
        until(lambda: "is not on a node yet" in (said := mete(here, "why", "large", *at)) and "mete.dev/gpu" in said, "the scheduler's sentence was not said")
        here.pod("none", pod(command=["sh", "-c", "echo here; sleep 3600"])).await_line("here")
        assert f"{here.namespace}/none has no share of a GPU on node node" in mete(here, "why", "none", *at)
        assert "has no share of a GPU on node node" in mete(here, "suspend", "none", *at, status=1)
        refused = here.pod("refused", pod(command=["seen"], slots=1, annotations={"memmory": "1Gi"}))
        refused.await_reason("memmory")
        assert "mete.dev/memmory" in mete(here, "why", "refused", *at)


def test_a_mistake_is_reported_in_a_sentence():
    with deployed(moving) as here:
        assert '"nobody" not found' in mete(here, "why", "nobody", status=1)
        assert mete(here, "why", status=2) == "kubectl mete: why needs a pod, as in: kubectl mete why mine\n"
        assert mete(here, "set", "mine", "weight", status=2) == "kubectl mete: 'weight': accepted are KEY=VALUE, as in weight=200\n"
        assert mete(here, "top", "--colour=1", status=2) == "kubectl mete: '--colour' is no option; kubectl mete --help lists them\n"
        assert mete(here, "whine", status=2).endswith("kubectl mete: there is no verb 'whine'\n")
        assert "mete's pods are looked for in the namespace elsewhere" in mete(here, "top", "--mete-namespace", "elsewhere", status=1)
        assert "kubectl mete why POD" in mete(here, "--help")


def test_the_rights_are_rights_and_the_keys_call_verbs_that_are_there():
    with deployed(moving) as here:
        assert "role.rbac.authorization.k8s.io/mete-operator" in here.cluster.kubectl("apply", "--dry-run=server", "-f", PLUGIN + "/rbac.yaml")
    script = open(PLUGIN + "/kubectl-mete").read()
    called = set(re.findall(r"kubectl mete (\w+)", open(PLUGIN + "/k9s-plugins.yaml").read())) - {"has"}
    assert called >= {"why", "top"} and all(re.search(rf"^({verb}|.*\| {verb}|{verb} \|.*)\) ", script, re.M) for verb in called), called


if __name__ == "__main__":
    run(globals())
