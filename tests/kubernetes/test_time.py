#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pods' portions of a GPU's time, by the kernels that their programs have counted themselves: all are of the same length, and
meted's own book has no say. How the host runs its simulator has one: where a pod is off, it is tried again on a slower clock, up to three times."""
import bisect
import calendar
import re
import time

from harness import node, pod, run, soak, until

# It prints every 20 ms how many kernels have ended; the lines of its log have the node's time.
STEADY = ["steady", "kernel_us=1000", "ahead=4", "seconds=36000", "report_ms=20"]
ACCEPTED = 0.05  # of the whole
KERNELS = 2000  # of all pods together, over which is judged


def reports(made, **query):
    """When the program had how many kernels behind it: (seconds, kernels), in order."""
    found = re.findall(r"^(\S+?)(\.\d+)Z at_ms=\S+ kernels=(\d+)$", made.log(timestamps="true", **query), re.M)
    return [(calendar.timegm(time.strptime(second, "%Y-%m-%dT%H:%M:%S")) + float(part), int(kernels)) for second, part, kernels in found]


def last(made):
    return (reports(made, tailLines=3) or [(0, 0)])[-1]


def kernels_at(rows, when):
    """Between two reports in proportion."""
    after = bisect.bisect_left(rows, (when, 0))
    assert 0 < after < len(rows), (when, rows[0], rows[-1])
    (t0, n0), (t1, n1) = rows[after - 1], rows[after]
    return n0 + (n1 - n0) * (when - t0) / (t1 - t0)


def portions(pods):
    """Of the kernels that they had together from now on, until those are enough."""
    before = {name: last(made) for name, made in pods.items()}
    begin = max(when for when, _ in before.values())

    def enough():
        now = {name: last(made) for name, made in pods.items()}
        end = min(when for when, _ in now.values())
        return end if end > begin and sum(now[name][1] - before[name][1] for name in pods) >= KERNELS else None

    end = until(enough, "they did not get any time")
    rows = {name: reports(made) for name, made in pods.items()}
    had = {name: kernels_at(rows[name], end) - kernels_at(rows[name], begin) for name in pods}
    return {name: value / sum(had.values()) for name, value in had.items()}


def judged(config, annotations, wanted, change=None, **sim):
    """`annotations`, `wanted`: by pod. `change`: annotations that are set while they run, and what is wanted then. `sim`: of the simulated GPU."""
    off = []
    for dilate in (1, 4, 16):
        with node(config, slots=4, DILATE=dilate, **sim) as here:
            pods = {name: here.pod(name, pod(command=STEADY, slots=1, annotations=marks)) for name, marks in annotations.items()}
            for made in pods.values():
                made.await_running()
            until(lambda: all(last(made)[1] > 0 for made in pods.values()), "they never began")
            had = portions(pods)
            worst = max(abs(had[name] - wanted[name]) for name in pods)
            if change:
                for name, marks in change[0].items():
                    pods[name].annotate(**marks)
                until(lambda: "changed" and all(
                    f"weight {marks['weight']}" in str(here.tenant(pods[name])) or f"weight={marks['weight']}" in str(here.tenant(pods[name]))
                    for name, marks in change[0].items()), "the change never arrived")
                had = portions(pods)
                worst = max(worst, *(abs(had[name] - change[1][name]) for name in pods))
            if worst <= ACCEPTED:
                return
            off.append((dilate, round(worst, 3)))
    raise AssertionError(f"off by (clock, part of the whole): {off}")


def test_pods_have_time_by_weight_and_a_changed_weight_holds_at_once():
    judged("share: {memory: 25%}\nmost: {weight: 1000}", {"small": {"weight": "100"}, "large": {"weight": "300"}}, {"small": 0.25, "large": 0.75},
           ({"small": {"weight": "900"}}, {"small": 0.75, "large": 0.25}))


@soak
def test_a_guarantee_goes_before_weights():
    judged("share: {memory: 25%}\nmost: {guarantee: 60%, weight: 1000}", {"sure": {"guarantee": "60%", "weight": "1"}, "other": {"weight": "1000"}},
           {"sure": 0.6, "other": 0.4})


if __name__ == "__main__":
    run(globals())
