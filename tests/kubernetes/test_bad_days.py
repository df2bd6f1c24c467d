#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The bad days of docs/FAILURE.md on a node of Kubernetes, made to happen."""
import contextlib
import os
import re
import shutil
import subprocess

from harness import BUILD, GIB, MIB, REPEATED, node, pod, run, seen, seen_by, until

SHARE = "share: {memory: 1GiB}"


def bound(meted, pod):
    return len(re.findall(rf"container\.bound pod=\S*/{pod.name} ", meted.log()))


def identity(pod):
    """Which container it is: another one after a restart."""
    return pod.get()["status"]["containerStatuses"][0]["containerID"]


def works(here, name="after"):
    """A new pod starts and has its share."""
    made = here.pod(name, pod(command=["seen"], slots=1))
    assert made.await_end() == 0, made.log()
    assert seen_by(made)["total"] == GIB, made.log()


def test_the_kubelet_is_restarted():
    with node(SHARE, slots=4) as here:
        made = here.pod("stays", pod(command=["seen", f"take={100 * MIB}", "hold=1"], slots=1))
        made.await_line("take=granted")
        container = identity(made)
        for round in range(3 if REPEATED else 1):
            before = here.meted.registrations()
            here.cluster.kill_part("kubelet")
            until(lambda: here.meted.registrations() > before, "meted did not register again")
            here.meted.await_registered()
            works(here, f"after-{round}")
        assert identity(made) == container
        assert here.tenant(made)["allocated_bytes"] >= 100 * MIB


def test_meted_is_killed_while_programs_run():
    with node(SHARE, slots=4) as here:
        holds = here.pod("holds", pod(command=["seen", f"take={100 * MIB}", "hold=1"], slots=1))
        holds.await_line("take=granted")
        trains = here.pod("trains", pod(command=["train", "steps=200"], slots=1))
        trains.await_running()
        container, tenant = identity(holds), here.tenant(holds)["tenant"]
        for round in range(5 if REPEATED else 2):
            here.meted.kill()
            here.meted.start()
        until(lambda: here.tenant(holds)["allocated_bytes"] >= 100 * MIB, "it did not come back")
        assert here.tenant(holds)["tenant"] == tenant and identity(holds) == container
        assert trains.await_end() == 0, trains.log()
        works(here)


def is_kept(pod):
    return any(c["type"] == "PodScheduled" and c["status"] == "False" and "mete.dev/gpu" in c.get("message", "") for c in pod["status"].get("conditions", []))


def await_kept(here):
    """The node has no slots (kill() has waited for that), so the scheduler keeps the pod. It may see that later than we do: the kubelet
    then rejects the pod, as it rejects those of a Deployment, which makes another one."""
    while True:
        made = here.pod("waits", pod(command=["seen"], slots=1))
        made.until(lambda pod: is_kept(pod) or pod["status"]["phase"] == "Failed", "was neither kept nor rejected")
        if is_kept(made.get()):
            return made
        assert made.get()["status"]["reason"] == "UnexpectedAdmissionError", made.get()["status"]
        made.delete()


def test_a_pod_that_comes_while_meted_is_away_waits_for_it():
    with node(SHARE, slots=4) as here:
        works(here, "before")
        here.meted.kill()
        made = await_kept(here)
        assert made.get()["status"]["phase"] == "Pending"
        here.meted.start()
        assert made.await_end() == 0, made.get()["status"]
        assert seen_by(made)["total"] == GIB, made.log()
        works(here)


def running(here):
    """Which file meted runs from."""
    return here.cluster.run("stat", "-L", "-c", "%d %i", f"/proc/{here.meted.pid}/exe")


@contextlib.contextmanager
def another_meted():
    """A copy of meted that claims to be of another version, where it finds the parts that belong to it; and that version."""
    usual = os.path.join(BUILD, "node", "meted")
    version = subprocess.run([usual, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    other = version[:-1] + ("8" if version[-1] == "9" else "9")
    path = f"{usual}-{other}-{os.getpid()}"
    try:
        shutil.copy(usual, path)
        with open(path, "r+b") as file:
            content = file.read()
            assert version.encode() + b"\0" in content
            file.seek(0)
            file.write(content.replace(version.encode() + b"\0", other.encode() + b"\0"))
        assert subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout.split()[1] == other
        yield path, version, other
    finally:
        os.unlink(path)


def test_meted_is_upgraded():
    """It ends by itself, as with a new image, and another one takes over."""
    with another_meted() as (path, version, other), node(SHARE, slots=4) as here:
        made = here.pod("stays", pod(command=["seen", f"take={100 * MIB}", "hold=1"], slots=1))
        made.await_line("take=granted")
        tenant, usual = here.tenant(made)["tenant"], here.meted.program
        for now, program in (other, path), (version, usual):  # and back again
            before = running(here)
            here.meted.stop()
            here.meted.program = program
            here.meted.start()
            assert re.findall(r"daemon\.ready version=(\S+)", here.meted.log())[-1] == now
            assert running(here) != before
            until(lambda: here.tenant(made)["allocated_bytes"] >= 100 * MIB, "it did not come back")
            assert here.tenant(made)["tenant"] == tenant
            works(here, f"after-{now.replace('.', '-')}")


def test_a_pod_is_deleted_by_force_and_its_ids_are_given_to_another():
    """There is one slot. The pod that had it is a while in dying."""
    with node("share: {memory: 25%}\nmost: {memory: 100%}", slots=1) as here:
        for round in range(3 if REPEATED else 1):
            manifest = pod(command=["seen", f"take={100 * MIB}", "hold=1"], slots=1, annotations={"memory": "512MiB"}, terminationGracePeriodSeconds=3)
            manifest["spec"]["containers"][0]["lifecycle"] = {"preStop": {"sleep": {"seconds": 3}}}
            first = here.pod(f"first-{round}", manifest)
            first.await_line("take=granted")
            former = here.tenant(first)["tenant"]
            first.delete(grace=0, wait=False)
            second = here.pod(f"second-{round}", pod(command=["seen", "hold=1"], slots=1, annotations={"memory": "768MiB"}))
            saw = seen(second.await_line("seen .*")[0])
            assert saw["total"] == 768 * MIB, saw
            assert here.tenant(second)["tenant"] != former
            second.delete(grace=0)


def test_a_pods_name_comes_again_with_another_share():
    """As a StatefulSet's does."""
    with node("share: {memory: 25%}\nmost: {memory: 100%}", slots=1) as here:
        for round, size in enumerate((300, 600, 400)):
            made = here.pod("web-0", pod(command=["seen", "hold=1"], slots=1, annotations={"memory": f"{size}MiB"}))
            assert seen(made.await_line("seen .*")[0])["total"] == size * MIB
            made.delete(grace=0)


def test_a_container_is_restarted_in_place_with_a_changed_annotation():
    with node("share: {memory: 25%}\nmost: {memory: 100%}", slots=4) as here:
        waits = ["sh", "-c", "seen; trap 'exit 0' TERM; while :; do sleep 1000 & wait; done"]
        made = here.pod("again", pod(command=waits, slots=1, restart="Always", annotations={"memory": "512MiB"}))
        assert seen(made.await_line("seen .*")[0])["total"] == 512 * MIB
        former = here.tenant(made)["tenant"]
        made.annotate(memory="768MiB")
        made.exec("kill", "-TERM", "1", check=False)  # who ends the container may end with it
        made.await_restart(1)
        assert seen(made.await_line("seen .*")[0])["total"] == 768 * MIB
        assert here.tenant(made)["tenant"] != former


def test_the_api_server_is_away():
    """A running container goes on; one that ends is started again, with the share that its pod has."""
    with node("share: {memory: 25%}\nmost: {memory: 100%}", slots=4) as here:
        counts = ["sh", "-c", "seen; trap 'exit 0' TERM; sleep 100000 & wait"]
        made = here.pod("goes-on", pod(command=counts, slots=1, restart="Always", annotations={"memory": "512MiB"}))
        made.await_line("seen .*")
        # The line came before the shell made its sleep.
        process = until(lambda: here.cluster.run("sh", "-c", "ps ax -o pid,args | grep 'sleep 10000[0]$' | head -n 1").split(), "it never slept")[0]
        hold = here.cluster.hold_part("apiserver")
        try:
            here.cluster.kill_part("apiserver")
            until(lambda: "api.troubled" in here.meted.log(), "meted did not notice")
            here.cluster.run("kill", "-KILL", process)  # its shell ends, too
            until(lambda: bound(here.meted, made) >= 2, "the container was not started again")
            assert here.tenant(made)["limit_bytes"] == 512 * MIB
        finally:
            hold.close()
        until(lambda: here.meted.log().rfind("api.well") > here.meted.log().rfind("api.troubled"), "meted did not find it again")
        assert seen(made.await_line("seen .*")[0])["total"] == 512 * MIB
        made.annotate(memory="256MiB")
        until(lambda: here.tenant(made)["limit_bytes"] == 256 * MIB, "changes do not arrive any more")


def test_the_kubelet_forgets_nothing_when_both_are_killed():
    with node(SHARE, slots=4) as here:
        made = here.pod("stays", pod(command=["seen", f"take={100 * MIB}", "hold=1"], slots=1))
        made.await_line("take=granted")
        here.cluster.kill_part("kubelet")
        here.meted.kill()
        here.meted.start()
        until(lambda: here.tenant(made)["allocated_bytes"] >= 100 * MIB, "it did not come back")
        works(here)


if __name__ == "__main__":
    run(globals())
