#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`make demo-kubernetes`, on a cluster of its own, which it takes down again."""
import os
import re
import subprocess

from harness import BUILD, ROOT, run, the_cluster


def clusters():
    place = os.path.join(BUILD, "kubernetes")
    return {name for name in os.listdir(place) if name.startswith("demo-")} if os.path.isdir(place) else set()


def test_the_demo_shows_four_pods_that_share_a_gpu_and_leaves_nothing():
    the_cluster()  # where there can be none, this is skipped
    before = clusters()
    done = subprocess.run([os.path.join(ROOT, "tools", "demo-kubernetes")], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    assert "4 pods on one GPU: equal checksums, each within its own limit" in done.stdout, done.stdout
    assert len(re.findall(r"^train-\S+ +1/1 +Running", done.stdout, re.M)) == 4, done.stdout
    assert len(re.findall(r" default/train-\S+/train +0 ", done.stdout)) == 4, done.stdout
    said = re.findall(r"^train-\S+ +checksum=(\w+)$", done.stdout, re.M)
    assert len(said) == 4 and len(set(said)) == 1, said
    assert re.search(r"^(all [1-9]\d+ queries have figures|not asked: .+)$", done.stdout, re.M), done.stdout
    assert clusters() <= before, clusters() - before


if __name__ == "__main__":
    run(globals())
