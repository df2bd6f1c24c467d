#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`mete ps --node` and `mete top --node` on a real cluster, in a real terminal, with the rights that people have: test_remote.py BUILD."""
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from harness import ROOT, pod, run, until
from test_deploy import deployed, moving
from test_kubectl import tenant

METE = os.path.join(os.path.abspath(sys.argv[1]), "cli", "mete")
BOUND = {kind: {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind + "Binding", "metadata": {"name": "alice-operates", "namespace": space},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "mete-operator"},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}]}
         for kind, space in (("Role", "mete-system"), ("ClusterRole", None))}


class Screen:
    """A terminal (tmux) beside the node, in which a command runs."""

    def __init__(self, here, *command, columns=160, lines=40):
        self.place = tempfile.mkdtemp(prefix="mete-")
        words = here.cluster.inside(*command)
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(lines), "sh", "-c", '"$@"; echo status=$?; exec cat', "sh", *words)

    def tmux(self, *words):
        return subprocess.run(["tmux", "-S", self.place + "/s", *words], env=dict(os.environ, LC_ALL="C.UTF-8", TERM="xterm-256color"), text=True,
                              capture_output=True, check=True).stdout

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(subprocess.CalledProcessError):
            self.tmux("kill-server")
        shutil.rmtree(self.place, ignore_errors=True)

    def wait(self, *patterns):
        last = [""]

        def there():
            last[0] = self.tmux("capture-pane", "-p")
            return all(re.search(pattern, last[0], re.M) for pattern in patterns)
        until(there, lambda: f"{patterns}:\n{last[0]}")

    def press(self, *names):
        self.tmux("send-keys", *names)

    def answer(self, question, text):
        self.wait(question)
        self.tmux("send-keys", "-l", text)
        self.press("Enter")


@contextlib.contextmanager
def alice(here):
    """The kubeconfig of a person with the cluster's address, and with the name alice there."""
    config = json.loads(here.cluster.kubectl("config", "view", "--raw", "--flatten", "-o", "json"))
    for user in config["users"]:
        user["user"]["as"] = "alice"
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(config, file)
        file.flush()
        yield file.name


def ps(here, config, *words, status=0):
    done = here.cluster.run("env", f"KUBECONFIG={config}", METE, "ps", "--node", "node", *words, check=False)
    # A very busy node loses connections of kubectl, as in test_kubectl.py.
    return None if re.search("websocket|connection lost|does not answer", done.stderr) or done.returncode != status else done.stdout + done.stderr


def test_a_person_sees_and_changes_a_nodes_tenants_as_far_as_their_rights_go():
    with deployed(moving) as here, alice(here) as config:
        mine = here.pod("mine", pod(command=["steady", "seconds=3600", "memory=100M", "kernel_us=20000", "report_ms=200"], slots=1, annotations={"swap": "auto", "memory": "1Gi"}))
        mine.await_line(".")
        name = f"{here.namespace}/mine/c"
        assert "orbidden" in until(lambda: ps(here, config, status=1), "alice was never refused")
        here.cluster.kubectl("apply", "-f", os.path.join(ROOT, "deploy", "kubectl", "rbac.yaml"))
        for binding in BOUND.values():
            here.cluster.kubectl("apply", "-f", "-", input=json.dumps(binding))
        try:
            said = until(lambda: ps(here, config), "alice never saw the node")
            assert said.startswith("node node's meted ") and name in said, said
            with Screen(here, "env", f"KUBECONFIG={config}", METE, "top", "--node", "node") as top:
                top.wait("1 GPU, 1 tenant; node node", r"GPU 0 +Simulated GPU +[1-9][0-9]+ °C", rf"{name} .*[1-9]\d*%")
                top.press("z")
                top.answer("^suspend tenant", "y")
                top.wait("mine/c is suspended: ")
                until(lambda: tenant(here, mine)["suspended"], "it was never suspended")
                top.press("r")
                top.wait("mine/c goes on")
                # Seeing is not changing: the pod is not hers.
                top.press("s")
                top.answer("^set ", "weight=200")
                top.wait("kubectl annotate failed: .*orbidden")
                top.press("q")
                top.wait("^status=0")
        finally:
            for kind in BOUND:
                here.cluster.kubectl("delete", kind.lower() + "binding", "alice-operates", "-n", "mete-system", "--ignore-not-found")
                here.cluster.kubectl("delete", kind.lower(), "mete-operator", "-n", "mete-system", "--ignore-not-found")
        with Screen(here, METE, "top", "--node", "node") as top:
            top.wait(f"{name} ")
            top.press("s")
            top.answer("^set ", "weight=200 memory=512Mi")
            top.wait("mine/c: annotated")
            until(lambda: (there := tenant(here, mine)) and there["fields"]["weight"] == "200" and there["limit_bytes"] == 512 << 20, "its share never changed")


if __name__ == "__main__":
    run(globals())
