#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Requests of pods by annotation, and their effects."""
from harness import GIB, MIB, node, pod, run, seen, seen_by, soak, until

SHARE = "share: {memory: 25%}\nmost: {memory: 50%}"


def test_a_pod_says_what_it_wants_by_annotation():
    with node(SHARE, slots=4) as here:
        small = here.pod("small", pod(command=["seen"], slots=1, annotations={"memory": "300MiB"}))
        large = here.pod("large", pod(command=["seen"], slots=1, annotations={"memory": "2Gi"}))
        assert small.await_end() == 0 and large.await_end() == 0
        assert seen_by(small)["total"] == 300 * MIB
        assert seen_by(large)["total"] == 2 * GIB


def test_an_annotation_that_cannot_be_honoured_is_reported_and_waited_for():
    with node(SHARE, slots=4) as here:
        made = here.pod("asks", pod(command=["seen"], slots=1, annotations={"memory": "3GiB"}))
        made.await_reason(r"mete\.dev/memory: '3GiB' is more .*2GiB")
        made.annotate(memory="1GiB")
        assert made.await_end() == 0
        assert seen_by(made)["total"] == GIB


def test_an_unknown_annotation_is_refused_with_the_nearest_one():
    with node(SHARE, slots=4) as here:
        made = here.pod("misspelt", pod(command=["seen"], slots=1, annotations={"memmory": "1GiB"}))
        made.await_reason(r"mete\.dev/memmory: .*nearest is 'memory'")


def test_a_share_is_changed_while_its_program_runs():
    with node(SHARE, slots=4) as here:
        made = here.pod("live", pod(command=["sh", "-c", "seen take=104857600 hold=1 & wait"], slots=1))
        made.await_line("take=granted")
        made.annotate(memory="512MiB")
        changed = lambda: here.tenant(made)["limit_bytes"] == 512 * MIB  # noqa: E731
        until(changed, "the limit never became 512 MiB")
        assert seen(made.exec("seen"))["total"] == 512 * MIB
        made.annotate(memory=None)
        until(lambda: here.tenant(made)["limit_bytes"] == GIB, "the limit never came back")


def test_more_than_is_allowed_is_refused_to_a_running_pod_and_reported():
    with node(SHARE, slots=4) as here:
        made = here.pod("live", pod(command=["seen", "hold=1"], slots=1))
        made.await_line("devices=1")
        made.annotate(memory="3GiB")
        assert "memory" in made.await_event("mete.dev/memory")
        assert "running" in made.get()["status"]["containerStatuses"][0]["state"]
        assert here.tenant(made)["limit_bytes"] <= 2 * GIB


def test_containers_of_a_pod_may_have_shares_of_their_own():
    with node(SHARE, slots=4) as here:
        manifest = pod(command=["seen"], slots=1, annotations={"memory": "300MiB"})
        second = dict(manifest["spec"]["containers"][0], name="second")
        manifest["spec"]["containers"].append(second)
        manifest["metadata"]["annotations"]["second.mete.dev/memory"] = "600MiB"
        made = here.pod("two", manifest)
        made.await_end()
        assert seen(made.log(container="c"))["total"] == 300 * MIB
        assert seen(made.log(container="second"))["total"] == 600 * MIB


def test_a_changed_configuration_changes_running_pods():
    with node(SHARE, slots=4) as here:
        made = here.pod("live", pod(command=["seen", "hold=1"], slots=1))
        made.await_line("total=1073741824")
        here.meted.write("slots: 4\nshare: {memory: 20%}")
        here.meted.signal(1)
        until(lambda: here.tenant(made)["limit_bytes"] < GIB, "the limit did not follow")
        assert abs(here.tenant(made)["limit_bytes"] - GIB * 4 // 5) < MIB


@soak
def test_a_mistake_in_the_configuration_changes_nothing():
    with node(SHARE, slots=4) as here:
        made = here.pod("live", pod(command=["seen", "hold=1"], slots=1))
        made.await_line("total=1073741824")
        here.meted.write("slots: 4\nshare: {memroy: 20%}")
        here.meted.signal(1)
        until(lambda: "config.refused" in here.meted.log(), "the mistake was not said")
        assert "config.yaml:4" in here.meted.log().replace(" line ", ":"), here.meted.log()
        assert here.tenant(made)["limit_bytes"] == GIB


if __name__ == "__main__":
    run(globals())
