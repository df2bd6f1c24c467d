#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kubectl mete with a kubectl of the test's own: what it makes of a cluster's answers. tests/kubernetes/test_kubectl.py has a real cluster.

    TEST.py BUILD"""
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile

from mete import run

PLUGIN = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "deploy", "kubectl", "kubectl-mete")

# Answers are the files of $ANSWERS; what has no file is forbidden.
KUBECTL = r'''#!/bin/sh
case "$*" in
*"jsonpath={range .items[*]}{.spec.nodeName}{"*) answer=nodes ;;
*"get pods -n mete-system"*) answer=agents ;;
*"jsonpath={.spec.nodeName}") answer=node ;;
"get pods"*" -o name" | "get namespaces -o name") answer=names ;;
*resourceClaimStatuses*) answer=claims ;;
*"containers[?(@.name"*) answer=used ;;
"get "*) exit 0 ;;
"exec -n mete-system "*" -- on-node mete ps "*) answer=ps-$4 ;;
"exec -n mete-system "*" -- on-node mete events "*) answer=events-$4; shift 8; echo "$*" >>"$ANSWERS/asked" ;;
"exec -n mete-system "*) shift 8; echo "$*"; [ ! -e "$ANSWERS/$2" ] || cat "$ANSWERS/$2"; exit 0 ;;
esac
cat "$ANSWERS/$answer" 2>/dev/null || { echo "Forbidden: $answer" >&2; exit 1; }
'''

ROW = '"{name}","0","1073741824","2147483648","0","0","60000000000","computes"\n'


@contextlib.contextmanager
def cluster(**answers):
    """It yields what runs kubectl mete with these words. Names of answers have _ for -."""
    with tempfile.TemporaryDirectory(prefix="mete-") as place:
        for name, text in {"kubectl": KUBECTL, **answers}.items():
            with open(f"{place}/{name.replace('_', '-')}", "w") as file:
                file.write(text)
        os.chmod(place + "/kubectl", 0o755)
        environment = {**os.environ, "ANSWERS": place, "PATH": place + ":" + os.environ["PATH"]}

        def mete(*words, plugin=PLUGIN):
            return subprocess.run(["sh", plugin, *words], env=environment, text=True, capture_output=True, timeout=240)

        def asked():
            return open(place + "/asked").read().splitlines()

        os.symlink(PLUGIN, place + "/kubectl_complete-mete")
        mete.place, mete.asked, mete.complete = place, asked, lambda *words: mete(*words, plugin=place + "/kubectl_complete-mete")
        yield mete


def test_a_refusal_is_not_taken_for_an_answer():
    with cluster(agents="m1 n1\n", node="n1", claims="") as mete:
        for words in ["why", "mine"], ["suspend", "mine"]:
            done = mete(*words, "-n", "ns")
            assert done.returncode == 1 and done.stdout == "" and done.stderr == "Forbidden: ps-m1\n", done
    with cluster(node="n1") as mete:
        done = mete("why", "mine", "-n", "ns")
        assert done.returncode == 1 and done.stdout == "" and done.stderr == "Forbidden: agents\n", done


def test_without_a_cluster_one_sentence_says_so():
    # As kubectl 1.32 has it, without a kubeconfig.
    log = r'''E1127 23:02:55.615224    1843 memcache.go:265] \"Unhandled Error\" err=\"couldn't get current server API group list: connection refused\"'''
    said = "The connection to the server localhost:8080 was refused - did you specify the right host or port?"
    with cluster(kubectl=f'#!/bin/sh\nfor line in 1 2 3 4 5; do echo "{log}" >&2; done\necho "{said}" >&2\nexit 3\n') as mete:
        for words in (["top"], ["top", "-A"], ["why", "mine"], ["suspend", "mine"], ["set", "mine", "weight=2"], ["events"], ["events", "mine"]):
            done = mete(*words)
            assert done.returncode != 0 and (done.stdout, done.stderr) == ("", said + "\n"), (words, done)


def test_a_mistake_is_told_before_a_cluster_is_asked():
    with cluster(kubectl="#!/bin/sh\necho asked >>$ANSWERS/asked\nexit 1\n") as mete:
        for words, status, said in ((["top", "--live"], 2, "--live needs --node NODE"), (["events", "-f"], 2, "--follow needs a pod that is on a node, or --node NODE"),
                                    (["why"], 2, "why needs a pod, as in: kubectl mete why mine"), (["set"], 2, "set needs a pod and KEY=VALUE"), (["set", "mine"], 2, "set needs KEY=VALUE, as in"),
                                    (["set", "mine", "wieght=2"], 2, "'wieght' is not a field of a share; accepted are memory swap"), (["set", "mine", "weight"], 2, "accepted are KEY=VALUE"),
                                    (["set", "mine", "=2"], 2, "accepted are KEY=VALUE"), (["set", "mine", "we ght=2"], 2, "'we ght' is not a field"), *((["events", "--since", wrong], 2, f"--since '{wrong}': accepted are how long ago")
                                    for wrong in ("yesterday", "1", "1x", "h", "-1h", "1.", "2026-11", "18:00")), (["tpo"], 2, "there is no verb 'tpo'"), ([], 2, "kubectl mete version"), (["version"], 0, ""), (["--help"], 0, "")):
            done = mete(*words)
            assert done.returncode == status and said in done.stderr, (words, done)
        assert not os.path.exists(mete.place + "/asked")


def test_the_fields_that_set_knows_are_those_of_a_share():
    root = os.path.dirname(os.path.dirname(os.path.dirname(PLUGIN)))
    with open(os.path.join(root, "core/share/share.def")) as file:
        fields = [name.replace("_", "-") for name in re.findall(r"^SHARE\((\w+),", file.read(), re.M)]
    with open(PLUGIN) as file:
        assert re.search(r"^fields='(.*)'$", file.read(), re.M)[1].split() == fields
    with cluster(kubectl='#!/bin/sh\necho "$*" >>$ANSWERS/asked\n') as mete:
        done = mete("set", "mine", "on_daemon_loss=block", "idle=park:1m", "-n", "ns")
        assert done.returncode == 0 and mete.asked()[-1].endswith(" mine mete.dev/on-daemon-loss=block mete.dev/idle=park:1m"), (done, mete.asked())


def test_moments_are_passed_on_as_they_are_typed():
    with cluster(agents="m1 n1\n", events_m1="") as mete:
        for since in ("30s", "1h30m", "1.5h", "2026-11-27", "2026-11-27 18:00:00+02:00"):
            done = mete("events", "--since", since, "-n", "ns")
            assert done.returncode == 0 and f"--since={since}" in mete.asked()[-1], (since, done)


def test_remedies_are_commands_for_this_machine():
    said = "ns/mine/c (tenant 2) on GPU 0: waits.\n  `mete resume ns/mine/c` lets it go on.\n  `mete set ns/mine/c weight=N` helps.\n  `mete suspend` of one makes room.\n"
    with cluster(agents="m1 n1\n", node="n1", claims="", ps_m1="ns/mine/c\n", why=said) as mete:
        done = mete("why", "mine", "-n", "ns")
        assert done.returncode == 0 and done.stdout.splitlines()[2:] == [
            "  `kubectl mete resume mine -n ns` lets it go on.", "  `kubectl mete set mine -n ns weight=N` helps.", "  `kubectl mete suspend` of one makes room."], done


def test_top_names_the_node_that_does_not_answer_and_lists_the_others():
    rows = {"ps_m1": ROW.format(name="ns/a/c"), "ps_m3": ROW.format(name="ns/b/c")}
    with cluster(agents="m1 n1\nm2 n2\nm3 n3\n", **rows) as mete:
        done = mete("top", "-n", "ns")
        assert done.returncode == 1 and "kubectl mete: node n2 does not answer\n" in done.stderr, done
        assert [line.split()[:3] for line in done.stdout.splitlines()[1:]] == [["n1", "0", "ns/a/c"], ["n3", "0", "ns/b/c"]], done
    with cluster(agents="m1 n1\nm2 n2\nm3 n3\n", ps_m2="", **rows) as mete:
        done = mete("top", "-A")
        assert done.returncode == 0 and done.stderr == "" and len(done.stdout.splitlines()) == 3, done


def test_a_pods_tenants_are_its_containers_and_its_claims():
    names = ["ns/mine/c", "ns/mine/d", "ns/minefield/c", "ns/gpu", "ns/gpu2", "ns/first+made-x7", "other/gpu", "other/mine/c", "gpu"]
    answers = {"agents": "m1 n1\n", "node": "n1", "ps_m1": "".join(f'"{name}"\r\n' for name in names), "used": "two"}
    claims = "three made-x7\none \ntwo gpu\nthree \n"

    def explained(mete, *words):
        done = mete("why", "mine", "-n", "ns", *words)
        assert done.returncode == 0 and done.stderr == "", done
        return [line.removeprefix("mete why ") for line in done.stdout.splitlines()]

    with cluster(claims=claims, **answers) as mete:
        assert explained(mete) == ["ns/first+made-x7", "ns/gpu", "ns/mine/c", "ns/mine/d"], explained(mete)
        assert explained(mete, "-c", "d") == ["ns/gpu", "ns/mine/d"], explained(mete, "-c", "d")
    # A pod that asks for nvidia.com/gpu has a claim that the scheduler has made, for the containers that it names.
    special = "three made-x7\nthree \n= gpu2 c e\n"
    with cluster(claims=special, **dict(answers, used="")) as mete:
        assert explained(mete) == ["ns/first+made-x7", "ns/gpu2", "ns/mine/c", "ns/mine/d"], explained(mete)
        assert explained(mete, "-c", "d") == ["ns/mine/d"], explained(mete, "-c", "d")
        assert explained(mete, "-c", "c") == ["ns/gpu2", "ns/mine/c"], explained(mete, "-c", "c")
    with cluster(claims="=  \n", **answers) as mete:
        assert explained(mete) == ["ns/mine/c", "ns/mine/d"], explained(mete)


def event(number, at, kind, said, name="", device=None):
    row = {"number": number, "at": f"2026-11-27T18:00:{at:02}.000Z", "kind": kind}
    row |= ({} if device is None else {"device": device}) | ({"tenant": number, "name": name} if name else {}) | {"uid": 0, "said": said}
    return json.dumps(row, separators=(",", ":")) + "\n"


def test_events_are_those_of_the_namespace_of_all_nodes_in_their_order():
    one = event(1, 1, "began", "meted began") + event(2, 2, "came", 'came, with "all"', "ns/mine/c", 0) + event(3, 9, "refused", "a \\\\ b", "ns/mine/c", 10)
    two = event(1, 5, "came", "came", "ns/other/c") + event(2, 6, "came", "came", 'inner","name":"ns/mine/c') + event(3, 7, "came", "came", "nsx/other/c")
    with cluster(agents="m1 n1\nm2 n2\n", events_m1=one, events_m2=two, node="n1", claims="", ps_m1="") as mete:
        done = mete("events", "-n", "ns", "--since", "1h")
        assert done.returncode == 0 and done.stderr == "" and done.stdout.splitlines() == [
            '2026-11-27T18:00:02Z  n1                    came        GPU 0   ns/mine/c: came, with "all"',
            "2026-11-27T18:00:05Z  n2                    came                ns/other/c: came",
            "2026-11-27T18:00:09Z  n1                    refused     GPU 10  ns/mine/c: a \\\\ b"], done.stdout
        assert mete.asked() == ["mete events --json --since=1h"] * 2, mete.asked()
        # Of all, with what is nobody's.
        done = mete("events", "-A")
        assert len(done.stdout.splitlines()) == 6 and "began               meted began" in done.stdout.splitlines()[0], done
        done = mete("events", "-n", "empty")
        assert (done.returncode, done.stdout) == (0, "") and "nothing is told of pods in the namespace empty; -A: of all" in done.stderr, done
    with cluster(agents="m1 n1\nm2 n2\n", events_m2=two) as mete:
        done = mete("events", "-n", "ns")
        assert done.returncode == 1 and "kubectl mete: node n1 does not answer\n" in done.stderr and "ns/other/c: came" in done.stdout, done


def test_a_pods_events_are_its_containers_and_claims_also_when_it_is_gone():
    told = "".join(event(number, number, "came", "came", name) for number, name in enumerate(("ns/mine/c", "ns/mine/d", "ns/minefield/c", "ns/gpu", "ns/gpu2", "other/mine/c"), 1))
    answers = {"agents": "m1 n1\n", "events_m1": told, "ps_m1": '"ns/mine/c"\r\n"ns/gpu"\r\n'}

    def names(mete, *words):
        done = mete("events", "mine", "-n", "ns", *words)
        assert done.returncode == 0 and done.stderr == "", done
        return [line[51:].split(":")[0].split()[-1] for line in done.stdout.splitlines()]

    with cluster(node="n1", claims="two gpu\n", used="", **answers) as mete:
        assert names(mete) == ["ns/mine/c", "ns/mine/d", "ns/gpu"], names(mete)
        assert names(mete, "-c", "d") == ["ns/mine/d"], names(mete, "-c", "d")
        assert names(mete, "-f") == ["ns/mine/c", "ns/mine/d", "ns/gpu"] and "mete events --json --follow" in mete.asked(), mete.asked()
    with cluster(**answers) as mete:
        assert names(mete) == ["ns/mine/c", "ns/mine/d"], names(mete)
        done = mete("events", "mine", "-n", "ns", "-f")
        assert done.returncode == 2 and "--follow needs a pod that is on a node, or --node NODE" in done.stderr, done
        done = mete("events", "yours", "-n", "ns")
        assert done.returncode == 0 and done.stderr == "kubectl mete: nothing is told of ns/yours\n", done


def test_a_shell_completes_verbs_pods_nodes_and_options():
    with cluster(names="pod/train\npod/trial\npod/web\n", nodes="n1\nn2\n") as mete:
        for words, wanted in (([""], ["top", "why", "events", "set", "suspend", "resume", "version"]), (["ev"], ["events"]), (["events", "tr"], ["train", "trial"]),
                              (["-n", "ns", "why", ""], ["train", "trial", "web"]), (["events", "--node", ""], ["n1", "n2"]), (["top", ""], []),
                              (["events", "--s"], ["--since"]), (["top", "-n", "w"], ["web"])):
            done = mete.complete(*words)
            assert done.returncode == 0 and done.stderr == "" and done.stdout.splitlines() == wanted + [":4"], (words, done)
    with cluster() as mete:  # where nothing may be asked
        done = mete.complete("why", "")
        assert (done.returncode, done.stdout, done.stderr) == (0, ":4\n", ""), done


# What k9s itself has with Shift in all lists, in that of pods and in that of nodes (its internal/view/pod.go, node.go, table.go, image_extender.go, pf_extender.go; G goes to the end of a list).
K9S_OWN = set("AGJNPS") | set("CFILMORTXZ") | set("CMORXZ")


def test_no_key_of_the_k9s_snippet_is_one_of_k9s_itself():
    """It says "duplicate plugin key found" of such a one, and does not bind it."""
    keys = re.findall(r"^ +shortCut: (.*)$", open(os.path.join(os.path.dirname(PLUGIN), "k9s-plugins.yaml")).read(), re.M)
    assert len(keys) == 5 == len(set(keys)) and all(re.fullmatch("Shift-[A-Z]", key) for key in keys), keys
    assert not K9S_OWN & {key[-1] for key in keys}, keys


if __name__ == "__main__":
    run(globals(), sys.argv[2:])
