#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ways in which a container may try to have more than its slot: each sees the limit, or nothing."""
import contextlib
import functools
import re
import sys

import harness
import images
from harness import GIB, MIB, node, run, seen, soak, until

pod = functools.partial(harness.pod, cheap=False)  # as pods usually are: a node's network has more that could be tried
SHARE = "share: {memory: 1GiB}"
TAKE = f"take={1200 * MIB}"


# In each container first, before anything is tried, and with none of the environment that is given to it.
WORKS = 'env -i PATH=/usr/local/bin:/usr/bin:/bin seen; exec "$@"'


class Shared:
    """One meted for those that try something: to start and to end one for each takes longer than what they try."""

    def __init__(self):
        self.stack, self.here, self.count = contextlib.ExitStack(), None, 0

    def pod(self, manifest):
        self.here = self.here or self.stack.enter_context(node(SHARE, slots=4))
        self.count += 1
        return self.here.pod(f"escape-{self.count}", manifest)

    def end(self):
        self.here = None
        self.stack.close()


shared = Shared()


@contextlib.contextmanager
def alone(*arguments, **settings):
    """A meted of the test's own."""
    shared.end()
    with node(*arguments, **settings) as here:
        yield here


def tried(*command, slots=1, **more):
    """The amount that a process in a container with 1 GiB of 4 came to, and all of its output. The container has a GPU that works."""
    made = shared.pod(pod(command=["sh", "-c", WORKS, "sh", *command], slots=slots, **more))
    try:
        made.await_end()
        # Nobody tells when the rest of a log is there: on a busy node it comes after the end.
        said = until(lambda: len(re.findall("^seen ", text := made.log(), re.M)) > 1 and text, "it never said twice what it saw")
        end = said.index("\n", re.search("^seen ", said, re.M).end())
        first, rest = said[:end], said[end + 1:]
        works = seen(first)
        assert works["devices"] == works["nvml_devices"] == 1 and works["total"] == works["nvml_total"] == GIB, first
        return seen(rest), rest
    except BaseException:
        sys.stderr.write(shared.here.meted.log()[-6000:])
        raise
    finally:
        made.delete()


def holds(*command, **more):
    """It saw its slot, and was not given more; or it saw no GPU at all."""
    return judged(tried(*command, **more)[0])


def judged(saw):
    if saw["devices"] == 0:
        return saw
    assert saw["total"] == GIB and saw["take"] == "refused", saw
    assert saw.get("nvml_total", GIB) == GIB, saw
    return saw


def test_the_escapes_tried_here_work_within_the_limit():
    saw, _ = tried("seen", f"take={200 * MIB}")
    assert saw["take"] == "granted" and saw["total"] == GIB, saw


def test_an_empty_environment():
    assert holds("env", "-i", "/usr/local/bin/seen", TAKE)["devices"] == 1


@soak
def test_a_socket_of_ones_own():
    holds("seen", TAKE, env={"METE_SOCKET": "/tmp/none"})


@soak
def test_a_driver_named_by_the_environment():
    holds("seen", TAKE, env={"METE_DRIVER": "/usr/lib/mete/driver"})


@soak
def test_the_simulated_nodes_own_settings():
    holds("seen", TAKE, env={"METE_SIM_MEMORY": "64GiB", "METE_SIM_DRIVER": "11.0"})


@soak
def test_preloading_a_library():
    assert holds("seen", TAKE, env={"LD_PRELOAD": "libm.so.6"})["devices"] == 1


@soak
def test_a_library_path_of_ones_own():
    holds("seen", TAKE, env={"LD_LIBRARY_PATH": "/usr/lib/x86_64-linux-gnu:/lib64:/usr/lib"})


@soak
def test_the_drivers_place_in_the_library_path():
    holds("seen", TAKE, env={"LD_LIBRARY_PATH": "/usr/lib/mete/driver"})


@soak
def test_the_driver_by_its_usual_absolute_path():
    path = "/usr/lib/x86_64-linux-gnu/libcuda.so.1"
    assert holds("seen", f"cuda={path}", f"nvml={path.replace('cuda', 'nvidia-ml')}", TAKE)["devices"] == 1


def test_a_program_of_another_root():
    holds("sh", "-c", "mkdir -p /tmp/root/tmp && cp -a /usr /bin /lib /lib64 /tmp/root/ 2>/dev/null; "
                      f"exec busybox chroot /tmp/root /usr/local/bin/seen {TAKE}")


def test_unmounting_the_guest():
    mounts = "cut -d ' ' -f 2 /proc/mounts | grep mete"
    saw, said = tried("sh", "-c", f"{mounts} | sed 's/^/before /'; for at in $({mounts} | sort -r); do umount -l $at; done; {mounts} | sed 's/^/after /'; "
                                  f"exec seen {TAKE}", security={"capabilities": {"add": ["SYS_ADMIN"]}})
    before, after = ([line.split()[1] for line in said.splitlines() if line.startswith(word)] for word in ("before ", "after "))
    assert "/run/mete" in before and any("libmete" in at for at in before), said
    assert not after, said
    judged(saw)


@soak
def test_the_loader_called_by_hand():
    assert holds("/lib64/ld-linux-x86-64.so.2", "--inhibit-cache", "/usr/local/bin/seen", TAKE)["devices"] == 1


@soak
def test_a_cache_of_the_loader_of_ones_own():
    holds("sh", "-c", f": >/etc/ld.so.cache; rm -f /etc/ld.so.preload; exec seen {TAKE}")


def test_the_socket_of_another_pod():
    """The mounted folder is a process's identity: the others' are not there."""
    with alone(SHARE, slots=4) as here:
        here.pod("first", pod(command=["seen", "hold=1"], slots=1)).await_line("devices=1")
        made = here.pod("second", pod(command=["sh", "-c", "ls /run/mete; ls /run/mete/.. | tr '\\n' ' '; cat /proc/mounts | grep -c tenants; true"], slots=1))
        made.await_end()
        assert made.log().split()[0] == "guest.sock" and "tenants" not in made.log(), made.log()


def test_more_processes_share_one_limit():
    with alone(SHARE, slots=4) as here:
        made = here.pod("many", pod(command=["sh", "-c", f"seen take={500 * MIB} hold=1 & sleep 1000"], slots=1))
        made.await_line("take=granted")
        saw = seen(made.exec("seen", f"take={600 * MIB}"))
        assert saw["take"] == "refused", saw
        assert seen(made.exec("env", "-i", "/usr/local/bin/seen", f"take={600 * MIB}"))["take"] == "refused"


def test_no_path_leads_to_the_driver():
    path = "/usr/lib/mete/driver/libcuda.so.1"
    assert holds("seen", f"cuda={path}", "nvml=/none", TAKE)["devices"] == 0
    assert holds("env", f"LD_PRELOAD={path}", "seen", TAKE)["devices"] == 1
    assert holds("sh", "-c", f"cp {path} /tmp/mine.so; exec seen cuda=/tmp/mine.so nvml=/none {TAKE}")["devices"] == 0


def test_no_file_of_another_process_leads_to_the_driver():
    """One that has loaded it: nothing that its /proc shows can be opened as a library."""
    with alone(SHARE, slots=4) as here:
        search = ("for file in /proc/[0-9]*/fd/* /proc/[0-9]*/map_files/*; do case $(readlink $file) in "
                  f"*libcuda*|*libnvidia*) seen cuda=$file nvml=/none {TAKE};; esac; done; echo searched")
        made = here.pod("itself", pod(command=["seen", "hold=1"], slots=1))
        made.await_line("devices=1")
        said = made.exec("sh", "-c", search)
        assert said.splitlines()[-1] == "searched" and "take=granted" not in said, said


# A program that brings its own driver speaks to the device itself. A library in the program's own process cannot hold it: it is shown, or killed, and
# what it takes is in the book of nobody else.
OWN = ["seen", f"cuda={images.OWN_DRIVER}", "nvml=/none", TAKE, "hold=1"]


def test_a_pod_that_brings_its_own_driver_is_shown():
    with alone(SHARE, slots=4) as here:
        made = here.pod("itself", pod(command=OWN, slots=1))
        made.await_line("seen ")
        until(lambda: f"process.unannounced pid=" in here.meted.log() and f"pod={here.namespace}/itself " in here.meted.log(), "nobody was told of it")


def test_a_process_that_bypasses_the_guest_is_killed_where_that_is_wanted():
    with alone(SHARE + "\nunannounced: kill", slots=4) as here:
        made = here.pod("itself", pod(command=OWN, slots=1))
        innocent = here.pod("innocent", pod(command=["seen", "hold=1"], slots=1))
        assert made.await_end() == 137
        assert "running" in innocent.await_running().get()["status"]["containerStatuses"][0]["state"]


def test_memory_that_a_program_takes_past_its_guest_is_in_its_tenants_book():
    """It has announced itself (by NVML), and calls the driver directly: meted measures by the driver's figures."""
    with alone(SHARE, slots=4) as here:
        made = here.pod("both", pod(command=["seen", f"cuda={images.OWN_DRIVER}", f"take={700 * MIB}", "hold=1"], slots=1))
        made.await_line("take=granted")
        until(lambda: here.tenant(made)["residual_bytes"] + here.tenant(made)["allocated_bytes"] >= 700 * MIB, "it was never charged")


def test_meted_is_well_after_all_of_it():
    shared.end()


if __name__ == "__main__":
    run(globals())
