#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kubectl mete with a kubectl of the test's own: what it makes of a cluster's answers. tests/kubernetes/test_kubectl.py has a real cluster.

    TEST.py BUILD"""
import contextlib
import os
import subprocess
import sys
import tempfile

from mete import run

PLUGIN = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "deploy", "kubectl", "kubectl-mete")

# Answers are the files of $ANSWERS; what has no file is forbidden.
KUBECTL = r'''#!/bin/sh
case "$*" in
*"get pods -n mete-system"*) answer=agents ;;
*"jsonpath={.spec.nodeName}") answer=node ;;
*resourceClaimStatuses*) answer=claims ;;
*"containers[?(@.name"*) answer=used ;;
"get "*) exit 0 ;;
"exec -n mete-system "*" -- on-node mete ps "*) answer=ps-$4 ;;
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
        yield lambda *words: subprocess.run(["sh", PLUGIN, *words], env=environment, text=True, capture_output=True, timeout=240)


def test_a_refusal_is_not_taken_for_an_answer():
    with cluster(agents="m1 n1\n", node="n1", claims="") as mete:
        for words in ["why", "mine"], ["suspend", "mine"]:
            done = mete(*words, "-n", "ns")
            assert done.returncode == 1 and done.stdout == "" and done.stderr == "Forbidden: ps-m1\n", done
    with cluster(node="n1") as mete:
        done = mete("why", "mine", "-n", "ns")
        assert done.returncode == 1 and done.stdout == "" and done.stderr == "Forbidden: agents\n", done


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


if __name__ == "__main__":
    run(globals(), sys.argv[2:])
