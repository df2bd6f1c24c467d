#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/kubernetes.md and docs/claims.md, word for word: each block of shell commands is run, in its order, in the folder of the repository,
and prints what the comments below it (`prints: REGULAR EXPRESSION`) say."""
import os
import re

from harness import ROOT, run, soak, the_cluster


def blocks(page):
    """(commands, what they must print)"""
    text = open(os.path.join(ROOT, "docs", page)).read()
    for found in re.finditer(r"^```sh\n(.*?)^```\n((?:\s*<!-- prints: .*? -->\n)*)", text, re.M | re.S):
        yield found[1], re.findall(r"<!-- prints: (.*?) -->", found[2])


def walk(page, overlay, pods, least):
    cluster = the_cluster()
    cluster.run("sh", "-c", "rm -rf /run/mete /run/cdi /dev/shm/mete-sim")
    ran = 0
    try:
        for commands, wanted in blocks(page):
            done = cluster.run("bash", "-euo", "pipefail", "-c", f'cd "$0"\n{commands}', ROOT, check=False)
            said = done.stdout + done.stderr
            assert done.returncode == 0, f"status {done.returncode} of\n{commands}\nwhich said\n{said}"
            for pattern in wanted:
                assert re.search(pattern, said), f"{pattern!r} is not in what\n{commands}\nsaid:\n{said}"
            ran += 1
    finally:
        cluster.kubectl("delete", "pod", *pods, "--ignore-not-found")
        cluster.kubectl("delete", "-k", os.path.join(ROOT, "deploy", "overlays", overlay), "--ignore-not-found")
        cluster.kubectl("label", "node", "--all", "mete.dev/shared-")
        cluster.await_resource("mete.dev/gpu", 0)
    assert ran >= least, ran


def test_every_command_of_the_walk_through_does_as_the_page_promises():
    walk("kubernetes.md", "simulated", ("large", "small", "greedy"), 10)


@soak
def test_every_command_of_the_walk_through_of_claims_does_as_the_page_promises():
    walk("claims.md", "simulated-claims", ("first", "second", "third", "legacy"), 8)


if __name__ == "__main__":
    run(globals())
