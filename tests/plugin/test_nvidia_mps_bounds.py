#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Folders of MPS's control daemons, in which containers write, are file systems of their own: what a hostile container can do to the host and its neighbours there."""
import contextlib
import ctypes

from node import *
from meted import run
from mps import SLICES, await_ready, control, daemon, in_use, mps, pipe, program_in
from mps_steps import slot, started
from test_nvidia_mps_apart import await_nothing, processes

LIBC = ctypes.CDLL(None, use_errno=True)
NEW_NAMESPACE, PRIVATE, SHARED, RECURSIVE, DETACHED = 0x20000, 1 << 18, 1 << 20, 1 << 14, 2
MOST_MIB, MOST_FILES = 32, 2048


def call(status):
    if status:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def mount(source, target, kind, flags):
    call(LIBC.mount(*(word and word.encode() for word in (source, target, kind)), ctypes.c_ulong(flags), None))


def leave_the_machine():
    """Mounts are this program's from now on, and go with it."""
    require("namespaces")
    call(LIBC.unshare(NEW_NAMESPACE))
    mount(None, "/", None, PRIVATE | RECURSIVE)


@contextlib.contextmanager
def bounded(propagation=SHARED, within="true", **more):
    """The node's folder for MPS is mounted there, as a host's is, and meted's own mounts are not those of the host."""
    leave_the_machine()
    with mps(start=False, api=True, **{"devices": "1xSIM", "daemonPer": "container", **more}) as node:
        os.mkdir(node.root)
        mount("host", node.root, "tmpfs", 0)
        mount(None, node.root, None, propagation)
        node.wrap = ["unshare", "-m", "--propagation", "unchanged", "sh", "-c", f'{within} && exec "$@"', node.root, *node.wrap[2:]]
        node.bin = node.folder + "/bin"
        os.mkdir(node.bin)
        os.symlink(BUILD + "/sim/nvidia-cuda-mps-control", node.bin + "/nvidia-cuda-mps-control")
        node.environment["PATH"] = node.bin + ":" + os.environ["PATH"]
        try:
            node.start()
            node.kubelet.hear("registered")
            await_ready(node)
            yield node
        finally:
            if node.meted and node.meted.process.poll() is None:
                node.end()
            call(LIBC.umount2(node.root.encode(), DETACHED))


def mounts(node):
    with open("/proc/self/mounts") as file:
        return sorted(os.path.relpath(line.split()[1], node.root) for line in file if line.split()[1].startswith(node.root + "/"))


def fill(folder):
    """As much as fits; returns the bytes."""
    taken = 0
    with open(folder + "/all", "wb", buffering=0) as file, contextlib.suppress(OSError):
        while taken < 2 * MOST_MIB * MIB:
            taken += file.write(bytes(MIB))
    return taken


def make_files(folder):
    """As many as there can be; returns how many."""
    made = 0
    with contextlib.suppress(OSError):
        while made < 2 * MOST_FILES:
            os.mkdir(f"{folder}/d{made}")
            made += 1
    return made


def await_gone(node):
    await_nothing(node)
    assert mounts(node) == []


def test_a_container_that_fills_its_folder_takes_nothing_of_the_host_and_of_its_neighbour():
    with bounded() as node:
        hostile, neighbour = started(node, "a", node.id(0)), started(node, "b", node.id(1))
        before = os.statvfs(node.root)
        assert 0 < make_files(pipe(node, slot(node, hostile))) <= MOST_FILES
        shutil.rmtree(pipe(node, slot(node, hostile)) + "/d0")
        assert 0 < fill(pipe(node, slot(node, hostile))) <= MOST_MIB * MIB
        after = os.statvfs(node.root)
        assert (after.f_bfree, after.f_ffree) == (before.f_bfree, before.f_ffree), "it is the host's"
        os.kill(daemon(node, slot(node, neighbour)), signal.SIGKILL)
        node.await_log(f"mps.ready .*daemon={slot(node, neighbour)}", times=2)
        with program_in(node, neighbour, slot=slot(node, neighbour)) as allocate:
            assert allocate(1) == 0
        hostile.delete()
        neighbour.delete()
        await_gone(node)


LAST_MOMENT = """#!/bin/sh
[ "$1" != -d ] || [ ! -e {0}/plant ] || /bin/ln -sfn {0}/host $CUDA_MPS_PIPE_DIRECTORY/nvidia-cuda-mps-control.pid
exec {1} "$@"
"""


def test_a_link_that_is_planted_at_the_last_moment_leads_nowhere():
    with bounded() as node:
        with open(node.folder + "/host", "w") as file:
            file.write("untouched")
        pod = started(node, "a", node.id(0))
        place = slot(node, pod)
        with open(node.folder + "/control", "w") as file:
            file.write(LAST_MOMENT.format(node.folder, BUILD + "/sim/nvidia-cuda-mps-control"))
        os.chmod(node.folder + "/control", 0o755)
        os.rename(node.folder + "/control", node.bin + "/nvidia-cuda-mps-control")
        with open(node.folder + "/plant", "w"):
            pass
        control(node, "quit", device=place)
        until(lambda: os.path.islink(pipe(node, place) + "/nvidia-cuda-mps-control.pid"), "no link was planted")
        os.unlink(node.folder + "/plant")
        node.await_log(f"mps.ready .*daemon={place}", times=2)
        with open(node.folder + "/host") as file:
            assert file.read() == "untouched"
        with contextlib.suppress(OSError):
            os.mknod(pipe(node, place) + "/device", stat.S_IFCHR | 0o666, os.makedev(1, 3))
            with open(pipe(node, place) + "/device", "rb"):
                raise AssertionError("a device can be opened")


def test_a_mount_of_a_killed_meted_goes_with_its_container():
    with bounded() as node, in_use(node):
        pod, other = started(node, "a", node.id(0)), started(node, "b", node.id(1))
        place, pid = slot(node, pod), daemon(node, slot(node, pod))
        node.meted.kill()
        other.delete()
        node.restart()
        node.await_log(f"mps.ready .*daemon={place}", times=2)
        assert daemon(node, place) == pid
        until(lambda: mounts(node) == [place], lambda: mounts(node))
        os.kill(pid, signal.SIGKILL)
        node.await_log(f"mps.ready .*daemon={place}", times=3)
        assert mounts(node) == [place], "it is not mounted over what the container has"
        pod.delete()
        await_gone(node)


def test_files_without_a_record_are_not_the_next_containers():
    """A folder below a root on a disk, after the machine was restarted."""
    with bounded() as node:
        pod = started(node, "a", node.id(0))
        place = slot(node, pod)
        pod.delete()
        await_gone(node)
        os.makedirs(f"{node.root}/{place}/pipe")
        os.symlink("/", f"{node.root}/{place}/pipe/left")
        assert slot(node, started(node, "a", node.id(0))) == place
        assert mounts(node) == [place] and not os.path.lexists(pipe(node, place) + "/left")


SLOW = """#!/bin/sh
[ "$1" = -d ] || [ -e {0}/again ] || exit 1
[ "$1" = -d ] || exec {1}
[ ! -e {0}/first ] || : >{0}/again
: >{0}/first
{1} -d && [ -e {0}/again ]
"""


def test_a_daemon_that_answers_late_keeps_its_folder():
    """Started again meanwhile, it is the only one, as NVIDIA's program sees to by a lock in the folder."""
    with bounded() as node:
        with open(node.folder + "/control", "w") as file:
            file.write(SLOW.format(node.folder, BUILD + "/sim/nvidia-cuda-mps-control"))
        os.chmod(node.folder + "/control", 0o755)
        os.rename(node.folder + "/control", node.bin + "/nvidia-cuda-mps-control")
        pod = started(node, "a", node.id(0))
        assert os.path.exists(node.folder + "/again"), "it was started once"
        until(lambda: processes(node) == [daemon(node, slot(node, pod))], lambda: processes(node))
        pod.delete()
        await_gone(node)


def test_the_folder_of_a_gpus_daemon_is_bounded_until_mps_is_over():
    with bounded(daemonPer="gpu") as node, in_use(node):
        assert mounts(node) == [node.uuid[0]]
        assert 0 < fill(pipe(node)) <= MOST_MIB * MIB
        os.unlink(pipe(node) + "/all")
        node.write(SLICES)
        node.kubelet.await_devices(lambda now: len(now) == 3 and set(now.values()) == {"Healthy"})
        until(lambda: mounts(node) == [], lambda: mounts(node))
        os.makedirs(pipe(node))  # as a meted that bounds no folders has left it, on a disk
        node.write(node.file_of())
        node.kubelet.await_devices(lambda now: len(now) == 2 and set(now.values()) == {"Healthy"})
        assert mounts(node) == [node.uuid[0]]


def test_where_the_host_would_not_see_it_the_folder_is_the_hosts():
    """meted's container has no mountPropagation."""
    with bounded(propagation=PRIVATE) as node:
        node.await_log('mps.unbounded .*reason=".*accepted: a folder whose mount is shared with the host')  # before there is a container
        pod = started(node, "a", node.id(0))
        with program_in(node, pod, slot=slot(node, pod)) as allocate:
            assert allocate(1) == 0


SERVICE = 'mount --make-slave "$0" && mount --make-shared "$0"'  # as systemd does: it gets the host's mounts, and shares its own with its like alone


def test_the_folders_of_a_service_are_mounted_where_its_manager_is():
    with bounded(within=SERVICE) as node:
        pod, other = started(node, "a", node.id(0)), started(node, "b", node.id(1))
        assert mounts(node) == sorted([slot(node, pod), slot(node, other)])
        assert 0 < make_files(pipe(node, slot(node, pod))) <= MOST_FILES
        shutil.rmtree(pipe(node, slot(node, pod)) + "/d0")
        assert 0 < fill(pipe(node, slot(node, pod))) <= MOST_MIB * MIB
        with program_in(node, other, slot=slot(node, other)) as allocate:
            assert allocate(1) == 0
        # The next meted finds them; its daemons may have ended with the former one.
        node.meted.kill()
        other.delete()
        node.restart()
        pod.delete()
        await_gone(node)
        assert "mps.unbounded" not in node.meted.log()


def test_what_meted_does_not_see_is_not_mounted():
    """Its root gets the mounts of another place than its manager's."""
    other = 'mount --make-private "$0" && mkdir "$0-other" && mount -t tmpfs none "$0-other" && mount --make-shared "$0-other" && mount --bind "$0-other" "$0" && mount --make-slave "$0"'
    with bounded(within=other) as node:
        os.mkdir(f"{node.root}/elsewhere")
        started(node, "a", node.id(0))
        node.await_log('mps.unbounded .*reason="')
        assert mounts(node) == []


if __name__ == "__main__":
    run(globals())
