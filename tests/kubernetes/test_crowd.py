#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Equal pods with different shares, created at once, again and again: each must have the share of its own annotations. METE_CROWD_ROUNDS: how often:
once (`make soak`: 100)."""
import os
import random
import threading

from harness import MIB, node, pod, run, seen_by

ROUNDS, PODS = int(os.environ.get("METE_CROWD_ROUNDS", "1")), 10


def test_pods_that_are_created_at_once_are_never_mixed_up():
    choose = random.Random(int(os.environ.get("METE_SEED", "1")))
    with node("share: {memory: 10%}\nmost: {memory: 100%}", slots=PODS) as here:
        for round in range(ROUNDS):
            sizes = choose.sample(range(80, 400), PODS)
            made = [None] * PODS

            def create(i):
                made[i] = here.pod(f"r{round}-{i}", pod(command=["seen", "nvml=/none"], slots=1, annotations={"memory": f"{sizes[i]}MiB"}))

            threads = [threading.Thread(target=create, args=(i,)) for i in range(PODS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for one, size in zip(made, sizes):
                assert one.await_end() == 0, f"round {round}: {one.log()}"
                assert seen_by(one)["total"] == size * MIB, f"round {round}, {one.name}: {size} MiB were asked for: {one.log()}"
            for one in made:
                one.delete(grace=0, wait=False)


if __name__ == "__main__":
    run(globals())
