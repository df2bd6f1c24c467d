#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/bare-container, on a system of busybox alone instead of a Debian's.

    TEST.py BUILD SOURCE"""
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.abspath(sys.argv[2])
sys.path.insert(0, os.path.join(ROOT, "tests", "system"))
from runner import require, run  # noqa: E402

GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
FOLDERS = "bin", "dev", "etc", "mnt", "proc", "root", "run", "srv", "sys", "tmp", "var/cache/apt/archives"


class Container:
    """A tree with the tool, and a system that it does not have to fetch."""

    def __enter__(self):
        require("namespaces", "cgroup", "cluster-tools")
        self.place = tempfile.mkdtemp(prefix="mete-")
        for name in "bare-container", "registries.py":
            os.makedirs(self.place + "/tools", exist_ok=True)
            shutil.copy2(os.path.join(ROOT, "tools", name), self.place + "/tools")
        with open(self.place + "/.gitignore", "w") as file:
            file.write("/build/\n__pycache__/\n")
        for words in ["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "all"]:
            subprocess.run([*GIT, "-C", self.place, *words], check=True)
        base = self.place + "/build/bare/base"
        for name in FOLDERS:
            os.makedirs(f"{base}/{name}")
        shutil.copy(shutil.which("busybox"), base + "/bin")
        for name in "cat", "env", "ls", "nsenter", "sh", "sleep", "umount":
            os.symlink("busybox", f"{base}/bin/{name}")
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.place)

    def words(self, *command):
        return [self.place + "/tools/bare-container", *command]

    def run(self, *command):
        return subprocess.run(self.words(*command), text=True, capture_output=True, stdin=subprocess.DEVNULL)


def test_a_command_runs_in_a_fresh_clone_and_its_status_is_the_tools():
    with Container() as container:
        done = container.run("sh", "-c", "ls; ls /mnt; touch() { : >$1; }; touch of-this-run; exit 3")
        assert (done.returncode, done.stdout) == (3, "tools\n"), done
        assert container.run("ls").stdout == "tools\n", "a run found what the one before it had left"
        assert sorted(os.listdir(container.place + "/build/bare")) == ["base", "cache"]


def test_who_enters_the_namespace_of_its_mounts_is_within_it():
    """As the tests' cluster does for each of its commands."""
    with Container() as container:
        done = container.run("nsenter", "-t", "1", "-m", "sh", "-c", "cd /srv/mete && ls")
        assert (done.returncode, done.stdout) == (0, "tools\n"), done


def processors():
    """The hierarchy of version 1 that divides the processors, in a list, as there may be none."""
    with open("/proc/self/mounts") as file:
        mounts = [line.split() for line in file]
    return [mount[1] for mount in mounts if mount[2] == "cgroup" and "cpu" in mount[3].split(",")]


def group_of(pid):
    """Its group in that hierarchy."""
    with open(f"/proc/{pid}/cgroup") as file:
        return next((line.split(":", 2)[2].strip() for line in file if "cpu" in line.split(":")[1].split(",")), "")


@contextlib.contextmanager
def group(hierarchy):
    """A group of ours within the one that this process is in, or in the first of all where that is of another namespace."""
    above = hierarchy + group_of("self")
    made = os.path.normpath(f"{above if os.path.isdir(above) else hierarchy}/mete-test-{os.getpid()}")
    os.mkdir(made)
    try:
        yield made
    finally:
        os.rmdir(made)


def descendants(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        for child in file.read().split():
            yield child
            yield from descendants(child)


def test_its_processors_are_a_part_of_its_callers():
    for hierarchy in processors():
        with Container() as container, group(hierarchy) as ours:
            def join():
                with open(ours + "/cgroup.procs", "w") as file:
                    file.write(str(os.getpid()))
            with subprocess.Popen(container.words("sh", "-c", "echo there; read -r end"), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  text=True, preexec_fn=join) as running:
                assert running.stdout.readline() == "there\n"
                groups = {group_of(pid) for pid in descendants(running.pid)}
                running.stdin.close()
            assert running.returncode in (0, 1), running.returncode
            assert groups == {f"{ours.removeprefix(hierarchy)}/mete-bare-{running.pid}"}, groups
            assert not [name for name in os.listdir(ours) if name.startswith("mete-bare-")], "a group stayed"


if __name__ == "__main__":
    run(globals())
