#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`mete ps|top|why|set|suspend|resume --node`: the meted of a cluster's node, through a real kubectl and an API server of the test's own.
tests/kubernetes/test_remote.py has a real cluster.

    TEST.py BUILD"""
import contextlib

from fake_cluster import FakeCluster
from person import *
from kubectl import kubectl


@contextlib.contextmanager
def cluster():
    """A node of a cluster with a tenant of a pod, and a mete elsewhere that knows how to reach it."""
    program = kubectl()
    with Node(METE_SIM_DEVICES="2xSIM") as node:
        api = FakeCluster(node.place, node.environment, lambda words: [METE, *words[1:]])
        folder = node.place + "/bin"
        os.mkdir(folder)
        os.symlink(program, folder + "/kubectl")
        far = Elsewhere(node, api, folder)
        try:
            yield node, api, far
        finally:
            api.end()


class Elsewhere:
    """A machine that has neither a GPU nor a meted."""

    def __init__(self, node, api, folder):
        self.place = node.place
        self.environment = dict(api.variables(), PATH=folder + ":" + os.environ["PATH"])

    def mete(self, *words, **more):
        return subprocess.run([METE, *words], env=dict(self.environment, **more), text=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=240)


def screen(far, *options, **more):
    return Terminal(far, f"{METE} top --node n1 {' '.join(options)}; echo status=$?; exec cat", **more)


def test_ps_shows_the_nodes_tenants_as_the_node_does():
    with cluster() as (node, api, far):
        At(node, "--memory", "1G", "--name", "default/train/c")
        done = far.mete("ps", "--node", "n1", columns="200")
        assert done.returncode == 0 and done.stderr == "", done
        assert done.stdout.startswith("node n1's meted ") and re.search(r"default/train/c .*running", done.stdout), done.stdout
        assert "steady stdin=1" not in done.stdout, "a process of this machine that has the same number is not the tenant's"
        there, here = (json.loads(one.mete("ps", *words, "--json").stdout) for one, words in ((node, ()), (far, ("--node", "n1"))))
        assert [row["limit_bytes"] for row in there["tenants"]] == [row["limit_bytes"] for row in here["tenants"]] == [GIB]
        assert [row["uuid"] for row in there["devices"]] == [row["uuid"] for row in here["devices"]] and len(here["devices"]) == 2
        done = far.mete("ps", "--node", "n1", "--query", "name,used_bytes", "--format", "csv,noheader")
        assert done.stdout.startswith("default/train/c,"), done
        assert set(map(tuple, api.commands)) == {("on-node", "mete", "--relay")}, api.commands


def test_without_node_this_machine_is_meant():
    with cluster() as (_, api, far):
        assert "no meted is running" in far.mete("ps").stdout and not api.commands
        refused(far.mete("ps", "--context", "usual"), "--context needs --node NODE", status=2)
        refused(far.mete("top", "--mete-namespace", "mine"), "--mete-namespace needs --node NODE", status=2)
        for name in ("", "-n1", "n1,status.phase=Failed", "N1"):
            refused(far.mete("ps", f"--node={name}"), "--node", "`kubectl get nodes`", status=2)


def test_events_of_a_node_are_told_as_on_the_node_and_followed():
    with cluster() as (node, api, far):
        At(node, "--memory", "1G", "--name", "default/train/c")
        assert far.mete("events", "--node", "n1", "--json").stdout == node.mete("events", "--json").stdout != ""
        refused(far.mete("events", "--node", "n2", "--follow"), "node n2: no meted runs there", status=1)
        refused(far.mete("events", "--context", "usual"), "--context needs --node NODE", status=2)
        with subprocess.Popen([METE, "events", "--node", "n1", "--tenant", "plain", "--follow", "--json"], env=far.environment, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as follower:
            At(node, "--name", "plain")
            assert json.loads(follower.stdout.readline())["kind"] == "came"
            assert len(api.commands) == 2, "one connection for all that it waits"
            # The pod of mete is replaced: its next one is waited for, and nothing is told twice.
            pods, api.pods = api.pods, []
            api.processes[-1].kill()
            assert re.match("mete events: node n1: .*: waiting until it is back$", follower.stderr.readline())
            assert "no meted runs there" in follower.stderr.readline()
            api.forbidden = [("GET", "/pods")]
            assert "orbidden" in follower.stderr.readline()
            api.pods, api.forbidden = pods, []
            assert follower.stderr.readline() == "mete events: meted is there\n"
            node.mete("set", "plain", "weight=300")
            assert json.loads(follower.stdout.readline())["kind"] == "set"
            follower.kill()


def test_a_failure_is_reported_in_kubectls_words():
    with cluster() as (node, api, far):
        refused(far.mete("ps", "--node", "n2"), "node n2: no meted runs there", "mete.dev/shared=true", "namespace mete-system", status=1)
        refused(far.mete("ps", "--node", "n1"), "node n1: mete --relay: no meted is running", status=1)
        refused(far.mete("ps", "--node", "n1", "--context", "elsewhere"), "node n1: kubectl get failed", "127.0.0.1:1", status=1)
        refused(far.mete("ps", "--node", "n1", PATH="/nowhere"), "node n1: there is no kubectl in PATH", status=1)
        running(node, "--name", "one")
        api.forbidden = [("GET", "/exec"), ("POST", "/exec")]
        refused(far.mete("ps", "--node", "n1"), "node n1: ", "orbidden", status=1)
        api.forbidden = [("GET", "/pods")]
        refused(far.mete("top", "--node", "n1"), "node n1: kubectl get failed", "orbidden", status=1)
        api.forbidden = []
        api.container = lambda words: ["sh", "-c", "echo \"mete: unknown verb '--relay'\" >&2; exit 2"]
        refused(far.mete("ps", "--node", "n1"), "node n1: the mete there is older than this one", status=1)
        api.container = lambda words: ["sh", "-c", "echo this is no protocol of ours"]
        refused(far.mete("ps", "--node", "n1"), "node n1: ", "does not understand", status=1)


def test_the_pod_that_is_about_to_go_is_not_asked():
    with cluster() as (node, api, far):
        running(node, "--name", "one")
        leaving = json.loads(json.dumps(api.pods[0]))
        leaving["metadata"].update(name="mete-old", deletionTimestamp="2026-11-26T00:00:00Z")
        api.pods = [leaving, api.pods[0]]
        assert far.mete("ps", "--node", "n1").returncode == 0
        api.pods = [leaving]
        refused(far.mete("ps", "--node", "n1"), "no meted runs there", status=1)


def test_top_shows_boards_and_tenants_and_acts_on_them():
    with cluster() as (node, api, far):
        At(node, "--memory", "1G", "--swap", "auto", "--name", "default/train/c", "--device", "0")
        At(node, "--name", "plain", "--device", "1")
        with screen(far, "--sort", "id", columns=160) as top:
            # Figures of boards, and on devices without turns those of the driver's samples, come from there.
            top.wait("2 GPUs, 2 tenants; .*node n1", r"GPU 1 +Simulated GPU +[1-9][0-9]+ °C +[1-9][0-9]*/[1-9][0-9]* W", r"▌default/train/c [1-9]\d*%", r"▌plain [1-9]\d*%")
            top.press("z")
            top.wait(r"suspend tenant \d+ default/train/c\? \(y/n\)")
            top.type("y")
            top.press("Enter")
            top.wait("default/train/c is suspended: ")
            until(lambda: node.ps()["tenants"][0]["suspended"], "it was never suspended")
            top.press("r")
            top.wait("default/train/c goes on")
            until(lambda: not node.ps()["tenants"][0]["suspended"], "it was never resumed")
            # A pod's share is its annotations; what is no pod's is set at once.
            top.press("s")
            top.wait("^set .* default/train/c:")
            top.type("weight=200 on_daemon_loss=block")
            top.press("Enter")
            top.wait("default/train/c: annotated")
            path, patch = api.patches[-1]
            assert path == "/api/v1/namespaces/default/pods/train" and patch["metadata"]["annotations"] == {
                "c.mete.dev/weight": "200", "c.mete.dev/on-daemon-loss": "block"}, api.patches
            top.press("Down", "s")
            top.wait("^set .* plain:")
            top.type("weight=300")
            top.press("Enter")
            top.wait("plain: set")
            assert node.ps()["tenants"][1]["fields"]["weight"] == "300" and len(api.patches) == 1
            top.press("T")
            top.wait("a node's processes are not ended from here")
            api.forbidden = [("PATCH", "/pods/train")]
            top.press("Up", "s")
            top.wait("^set .* default/train/c:")
            top.type("weight=400")
            top.press("Enter")
            top.wait("kubectl annotate failed: .*orbidden")
            top.press("q")
            top.wait("^status=0")
        assert len(api.commands) == 1, "one connection for all of it"
        until(lambda: all(process.poll() is not None for process in api.processes), "the relay never ended")


def test_why_set_suspend_and_resume_mean_the_nodes_tenants():
    with cluster() as (node, api, far):
        At(node, "--memory", "1G", "--swap", "auto", "--name", "default/train/c", "--device", "0")
        At(node, "--name", "plain", "--device", "1")
        done = far.mete("suspend", "--wait", "1h", "--node", "n1", "default/train/c")
        assert done.returncode == 0 and done.stdout.startswith("default/train/c stands still until `mete resume`"), done
        assert node.ps()["tenants"][0]["suspended"]
        for words in ((), ("default/train/c",)):
            done = far.mete("why", "--node", "n1", *words)
            assert re.match(r"default/train/c \(tenant \d+\) on GPU 0: suspended", done.stdout) and "plain" not in done.stdout, done
            assert "  `mete resume --node n1 default/train/c` lets it go on.\n" in done.stdout, done
        done = far.mete("resume", "--node", "n1", "default/train/c")
        assert done.returncode == 0 and done.stdout.startswith("default/train/c goes on"), done
        assert not node.ps()["tenants"][0]["suspended"]
        # A pod's share is its annotations; what is no pod's is set at once.
        done = far.mete("set", "--node", "n1", str(node.ps()["tenants"][0]["tenant"]), "weight=200", "on_daemon_loss=block")
        assert done.returncode == 0 and done.stdout.startswith("default/train/c: annotated"), done
        path, patch = api.patches.pop()
        assert path == "/api/v1/namespaces/default/pods/train" and patch["metadata"]["annotations"] == {
            "c.mete.dev/weight": "200", "c.mete.dev/on-daemon-loss": "block"}, patch
        done = far.mete("set", "--node", "n1", "plain", "weight=300")
        assert done.returncode == 0 and re.search(r"weight +100 -> 300", done.stdout) and not api.patches, done
        assert [row["fields"].get("weight", "100") for row in node.ps()["tenants"]] == ["100", "300"]
        api.forbidden = [("PATCH", "/pods/train")]
        refused(far.mete("set", "--node", "n1", "default/train/c", "weight=400"), "kubectl annotate failed", "orbidden", status=1)


def test_a_user_who_may_only_look_is_refused_by_every_verb_and_changes_nothing():
    """A user who may list pods, as by Kubernetes's role `view`, but not run commands in mete's, sees nothing and changes nothing. One who may run
    them, and patch no pod, sees all and changes no pod's share."""
    with cluster() as (node, api, far):
        At(node, "--memory", "1G", "--swap", "auto", "--name", "default/train/c", "--device", "0")
        At(node, "--name", "plain", "--device", "1")
        before = [(row["fields"], row["suspended"], row["limit_bytes"]) for row in node.ps()["tenants"]]
        api.forbidden = [("GET", "/exec"), ("POST", "/exec"), ("PATCH", "/")]
        for words in (("ps",), ("why",), ("set", "default/train/c", "weight=7"), ("set", "plain", "escalate=kill"), ("suspend", "default/train/c"), ("resume", "plain")):
            done = far.mete(words[0], "--node", "n1", *words[1:])
            refused(done, "node n1: ", "orbidden", status=1)
            assert done.stdout == "" and done.stderr.count("\n") == 1, (words, done)
        with screen(far, columns=120) as top:
            top.wait("orbidden", "^status=1")
        assert not api.commands and not api.patches, (api.commands, api.patches)
        api.forbidden = [("PATCH", "/")]
        done = far.mete("set", "--node", "n1", "default/train/c", "weight=7")
        refused(done, "kubectl annotate failed", "orbidden", status=1)
        assert [(row["fields"], row["suspended"], row["limit_bytes"]) for row in node.ps()["tenants"]] == before and not api.patches


def test_a_verbs_refusal_names_the_node():
    with cluster() as (node, api, far):
        refused(far.mete("set", "--node", "n1", "one", "wieght=1"), "did you mean 'weight'", status=2)
        refused(far.mete("set", "--node", "n1", "one"), "expected a tenant and KEY=VALUE", status=2)
        refused(far.mete("suspend", "--node", "n1"), "expected one tenant", status=2)
        assert not api.commands, "the node was asked"
        running(node, "--memory", "1G", "--name", "one")
        refused(far.mete("why", "--node", "n1", "two"), "there is no tenant 'two'; `mete ps --node n1` lists them", "`mete events --node n1 --tenant two` tells", status=1)
        for words in (("suspend", "two"), ("resume", "two"), ("set", "two", "weight=1")):
            refused(far.mete(words[0], "--node", "n1", *words[1:]), "no tenant", status=1)
        refused(far.mete("suspend", "--node", "n1", "one"), "swap=off", "start it with `mete run --swap auto`", status=1)
        for words in (("why",), ("suspend", "one"), ("resume", "one"), ("set", "one", "weight=1")):
            refused(far.mete(words[0], "--node", "n2", *words[1:]), "node n2: no meted runs there", status=1)
            refused(far.mete(words[0], "--context", "usual", *words[1:]), "--context needs --node NODE", status=2)
        assert "no meted is running" in far.mete("suspend", "one").stderr, "this machine is meant"


def test_a_name_that_somebody_chose_is_no_word_for_kubectl():
    """`--all` in the place of a pod's name would change all pods of the namespace."""
    with cluster() as (node, api, far):
        At(node, "--name", "default/--all/c")
        with screen(far, columns=120) as top:
            top.wait(r"^ *1 +default/--all/c ")
            top.press("s")
            top.wait("^set .* default/--all/c:")
            top.type("weight=300")
            top.press("Enter")
            top.wait("default/--all/c: set")
            assert node.ps()["tenants"][0]["fields"]["weight"] == "300" and not api.patches
            top.press("q")
            top.wait("^status=0")


def test_a_part_of_a_share_is_no_pod_whatever_it_is_called():
    with cluster() as (node, api, far):
        inner = node.start("run", "--quiet", "--name", "outer", "--memory", "1G", "--", METE, "run", "--quiet", "--memory", "256M", "--name", "default/train/c", "--",
                           workload("steady"), "stdin=1", "seconds=600", "report_ms=3600000", "kernel_us=5000")
        inner.stdout.readline()
        with screen(far, "--sort", "id", columns=120) as top:
            top.wait(r"^ *2 +default/train/c ")
            top.press("Down", "s")
            top.wait("^set .* default/train/c:")
            top.type("weight=300")
            top.press("Enter")
            top.wait("default/train/c: set")
            top.press("q")
            top.wait("^status=0")
        assert [row["fields"]["weight"] for row in node.ps()["tenants"] if row["name"] == "default/train/c"] == ["300"] and not api.patches


def test_a_connection_that_breaks_is_made_anew():
    with cluster() as (node, api, far):
        At(node, "--name", "train")
        with screen(far, columns=100) as top:
            top.wait("train .*running")
            api.pods, pods = [], api.pods
            api.processes[0].kill()
            top.wait("^node n1: no meted runs there", "train .*running")
            api.pods = pods
            top.wait("^mete top: 2 GPUs, 1 tenant;")
            top.press("q")
            top.wait("^status=0")
        assert len(api.commands) >= 2


def test_watching_asks_again_and_again_through_one_connection():
    with cluster() as (node, api, far):
        running(node, "--name", "one")
        process = subprocess.Popen([METE, "ps", "--node", "n1", "--interval", "0.1", "--query", "name", "--format", "csv,noheader"], env=far.environment, text=True,
                                   stdout=subprocess.PIPE)
        said = [process.stdout.readline() for _ in range(5)]
        assert said == ["one\n"] * 5, said
        process.terminate()
        process.communicate()
        assert len(api.commands) == 1
        until(lambda: api.processes[0].poll() is not None, "the relay never ended")


if __name__ == "__main__":
    run(globals(), sys.argv[2:])
