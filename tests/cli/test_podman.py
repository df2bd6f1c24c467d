#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`mete run --cdi` with a real engine: containers of Podman have the share. The tests have a /run of their own, with the system's meted in it.

    TEST.py BUILD"""
import json
import os
import shutil
import subprocess
import sys

from mete import *
from meted import require, until
from runner import Skipped, needed

INSIDE = "METE_TEST_OWN_RUN"
DEVICE = "mete.dev/share=job"


class Machine(Node):
    """The system's meted, an engine, and a root file system with a few programs."""

    def __enter__(self):
        assert os.environ.get(INSIDE), "the system's meted would run in the machine's own /run"
        os.chmod(self.place, 0o755)
        os.chmod(self.place + "/sim", 0o1777)
        self.environment.pop("XDG_RUNTIME_DIR")
        self.root = self.place + "/rootfs"
        for folder in ("bin", "etc", "tmp", "proc", "dev", "sys", "run"):
            os.makedirs(f"{self.root}/{folder}")
        os.chmod(self.root + "/tmp", 0o1777)
        shutil.copy(shutil.which("busybox"), self.root + "/bin/sh")
        for program in ("vector-add", "hoarder"):
            shutil.copy(workload(program), self.root + "/bin")
        listed = subprocess.run(["ldd", workload("vector-add"), workload("hoarder"), os.path.join(BUILD, "guest", "12.9", "libmete.so"),
                                 os.path.join(BUILD, "sim", "lib", "libcuda.so.1")], text=True, stdout=subprocess.PIPE, check=True).stdout
        for path in {word for word in listed.split() if word.startswith("/") and not word.endswith(":")}:
            to = self.root + os.path.realpath(os.path.dirname(path))
            os.makedirs(to, exist_ok=True)
            shutil.copy(path, to)
        if not os.path.lexists(self.root + "/lib"):
            os.symlink("usr/lib", self.root + "/lib")
        os.makedirs(self.root + "/usr/lib64", exist_ok=True)
        os.symlink("usr/lib64", self.root + "/lib64")
        shutil.copy("/lib64/ld-linux-x86-64.so.2", self.root + "/usr/lib64")
        self.meted = subprocess.Popen([os.path.join(BUILD, "node", "meted"), "--system"], env=self.environment,
                                      stdout=subprocess.DEVNULL, stderr=open(self.place + "/meted.log", "w"))
        until(lambda: "system" in self.mete("doctor", "--json").stdout and os.path.exists("/run/mete/admin.sock"), "the system's meted")
        return self

    def __exit__(self, kind, *rest):
        self.meted.terminate()
        self.meted.wait()
        if kind is not None:
            sys.stderr.write(open(self.place + "/meted.log").read())
        super().__exit__(kind, *rest)

    def podman(self, *words, user="0", name="c"):
        runtime = ["--runtime", shutil.which("runc", path=os.environ["PATH"] + ":/usr/sbin") or "crun"]
        return ["env", "-u", "LD_LIBRARY_PATH", "podman", "--root", self.place + "/store", "--runroot", self.place + "/runroot", "--storage-driver", "vfs", "--cgroup-manager",
                "cgroupfs", "--events-backend", "none", *runtime, "run", "--rm", "--net", "host", "--ulimit", "nofile=1024:1024", "--ulimit",
                "nproc=1024:1024", "--user", user, *words[:-1], "--rootfs", self.root, *words[-1].split()]

    def share(self, *command, memory="256MiB", **more):
        return self.mete("run", "--name", "job", "--cdi", "--memory", memory, "--report", "--", *command, **more)


def own_run():
    """Goes on in a /run of its own; skipped where the machine cannot run a container of Podman."""
    require("podman", "cgroup", "containers")
    with Machine() as machine:
        tried = subprocess.run(machine.podman("/bin/sh -c true"), text=True, capture_output=True)
        if tried.returncode:
            raise Skipped(f"podman runs no container here: {tried.stderr.strip().splitlines()[-1]}; start it with the right to")


def test_a_container_has_the_share_and_no_more():
    own_run()
    with Machine() as machine:
        done = machine.share(*machine.podman("--device", DEVICE, "/bin/hoarder"))
        assert done.returncode == 0 and "hoarder ok" in done.stdout, done
        assert "the limit of 256MiB is reached" in done.stderr and "job on GPU 0: held at most" in done.stderr, done.stderr
        assert os.listdir("/run/cdi") == [], "the device is gone with the share"
        without = subprocess.run(machine.podman("--device", DEVICE, "/bin/sh -c true"), text=True, capture_output=True)
        assert without.returncode != 0 and DEVICE in without.stderr, without


def test_any_user_in_the_container_and_several_containers_are_in_the_one_share():
    own_run()
    with Machine() as machine:
        one, other = (" ".join(machine.podman("--device", DEVICE, "/bin/vector-add rounds=2", user=user)) for user in ("1234", "0"))
        done = machine.share("sh", "-c", f"{one} && {other} && cat /run/cdi/*.json")
        assert done.returncode == 0 and done.stdout.count("vector-add ok") == 2, done
        file = json.loads(done.stdout.splitlines()[-1])
        assert file["kind"] == "mete.dev/share" and [device["name"] for device in file["devices"]] == ["job"], file


def test_a_container_without_the_device_has_no_gpu():
    own_run()
    with Machine() as machine:
        done = machine.share(*machine.podman("/bin/vector-add"))
        assert done.returncode != 0 and "vector-add ok" not in done.stdout, done


def test_impossible_options_are_refused_before_the_program_starts():
    with Node() as node:
        refused(node.mete("run", "--cdi", "--", "true"), "--cdi", "--name", status=2)
        refused(node.mete("run", "--cdi", "--name", "a b", "--", "true"), "a b", "letters and digits", status=2)
        refused(node.mete("run", "--name", "a", "--cdi-folder", "/tmp", "--", "true"), "--cdi-folder", "--cdi", status=2)
        refused(node.mete("run", "--name", "a", "--cdi", "--cdi-folder", "here", "--", "true"), "here", "absolute", status=2)
        nowhere = node.place + "/file"
        open(nowhere, "w").close()
        refused(node.mete("run", "--name", "a", "--cdi", "--cdi-folder", nowhere + "/x", "--", "true"), nowhere, status=125)
        # A second share of the name: containers of it would get the first one's.
        folder = node.place + "/cdi"
        first = node.start("run", "--name", "a", "--cdi", "--cdi-folder", folder, "--", "sh", "-c", "echo here; cat")
        assert first.stdout.readline() == "here\n"
        before = open(f"{folder}/mete.dev-share_a.json").read()
        refused(node.mete("run", "--name", "a", "--cdi", "--cdi-folder", folder, "--", "true"), "'a' already", "--name", status=125)
        assert open(f"{folder}/mete.dev-share_a.json").read() == before
        first.communicate()
        assert os.listdir(folder) == []


if __name__ == "__main__":
    if os.environ.get(INSIDE) or needed.lacking("podman", "cgroup", "containers"):
        run(globals(), sys.argv[2:])
    os.environ[INSIDE] = "yes"
    ready = 'mount -t tmpfs -o mode=755 tmpfs /run && mkdir -p /run/lock /run/cdi && exec "$@"'
    ended = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", ready, "sh", sys.executable, *sys.argv])
    sys.exit(ended.returncode)
