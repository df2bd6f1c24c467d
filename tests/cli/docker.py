# SPDX-License-Identifier: Apache-2.0
"""Docker's engine for a test: the machine's own, or that of Debian 13, which knows CDI, fetched once and unpacked in ~/.cache/mete (never installed).

It runs in folders of the test's own, without a network, and stores images by copying (vfs)."""
import fcntl
import glob
import json
import os
import re
import shutil
import subprocess
import tempfile

from meted import until
from runner import Skipped, needed, require

KEPT = os.path.expanduser("~/.cache/mete/docker-trixie")
PACKAGES = ("docker.io", "docker-cli", "libc6", "libcap2", "libsystemd0")
SOURCE = "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] {mirror} trixie main\n"
MIRROR = os.environ.get("METE_DEBIAN_MIRROR", "http://deb.debian.org/debian")
REMEDY = "give this machine access to a Debian mirror (METE_DEBIAN_MIRROR names another)"


def fetch(folder):
    """By apt, with lists of its own: the machine's sources stay as they are."""
    with tempfile.TemporaryDirectory(dir=os.path.dirname(folder)) as new:
        for name in "state/lists/partial", "cache/archives/partial", "parts", "root":
            os.makedirs(f"{new}/{name}")
        for name, text in ("status", ""), ("sources.list", SOURCE.format(mirror=MIRROR)):
            with open(f"{new}/{name}", "w") as file:
                file.write(text)
        settings = {"Dir::State": "state", "Dir::State::status": "status", "Dir::Cache": "cache", "Dir::Etc::sourcelist": "sources.list", "Dir::Etc::sourceparts": "parts"}
        options = [word for key, value in settings.items() for word in ("-o", f"{key}={new}/{value}")] + ["-o", "APT::Sandbox::User=root"]
        for words in ["update"], ["download", *PACKAGES]:
            done = subprocess.run(["apt-get", "-qq", *options, *words], cwd=new, stdin=subprocess.DEVNULL, text=True, capture_output=True, timeout=600)
            if done.returncode:
                raise Skipped(f"Docker of Debian 13 cannot be fetched: {(done.stderr.strip().splitlines() or ['apt-get failed'])[-1]}; {REMEDY}")
        for name in os.listdir(new):
            if name.endswith(".deb"):
                subprocess.run(["dpkg-deb", "-x", f"{new}/{name}", new + "/root"], check=True)
        os.rename(new + "/root", folder)


def newer():
    """How the engine and the client of Debian 13 are called: by that Debian's loader, as this one's libc may be older."""
    require("cgroup", "containers")
    if not shutil.which("apt-get"):
        raise Skipped(f"this is no Debian, and Docker of Debian 13 cannot be fetched; {REMEDY}")
    os.makedirs(os.path.dirname(KEPT), exist_ok=True)
    with open(KEPT + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.isdir(KEPT):
            fetch(KEPT)
    libraries = KEPT + "/usr/lib/x86_64-linux-gnu"
    return {name: [libraries + "/ld-linux-x86-64.so.2", "--argv0", name, "--library-path", libraries, f"{KEPT}/usr/{folder}/{name}"]
            for name, folder in (("dockerd", "sbin"), ("docker", "bin"))}


def own():
    """Those of the machine."""
    return {name: [shutil.which(name, path=needed.SEARCH)] for name in ("dockerd", "docker")}


def search():
    """Where the engine finds containerd: on the machine, or among the programs of the tests' own cluster."""
    built = sorted(glob.glob(os.path.expanduser("~/.cache/mete/cluster-*/containerd")))
    return ":".join([needed.SEARCH, *map(os.path.dirname, built[-1:])])


class Engine:
    """One that runs, with an image of that root file system; environment: what its client needs."""

    def __init__(self, place, programs, **settings):
        self.place, self.programs = place, programs
        os.makedirs(place)
        with open(place + "/daemon.json", "w") as file:
            json.dump(settings, file)
        self.environment = {**{name: value for name, value in os.environ.items() if not name.startswith("LD_")}, "DOCKER_HOST": f"unix://{place}/socket",
                            "DOCKER_CONFIG": place, "PATH": search()}
        self.log = open(place + "/log", "w")
        self.process = subprocess.Popen(
            [*programs["dockerd"], "--config-file", place + "/daemon.json", "--data-root", place + "/data", "--exec-root", place + "/exec", "--pidfile", place + "/pid",
             "-H", f"unix://{place}/socket", "--bridge=none", "--iptables=false", "--ip6tables=false", "--userland-proxy=false", "--storage-driver", "vfs"],
            env=self.environment, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)

    def client(self, *words):
        """The command line of a client, which needs no environment: one of a share would be the containers' and not its own."""
        return ["env", "-i", *(f"{name}={self.environment[name]}" for name in ("DOCKER_HOST", "DOCKER_CONFIG", "PATH")), *self.programs["docker"], *words]

    def ask(self, *words, **more):
        return subprocess.run(self.client(*words), text=True, capture_output=True, timeout=240, **more)

    def await_ready(self):
        def ready():
            if self.process.poll() is not None:
                said = open(self.place + "/log").read().strip().splitlines() or ["it said nothing"]
                raise Skipped(f"Docker's engine does not run here: {said[-1]}; start it with the right to")
            return self.ask("version").returncode == 0
        until(ready, "the engine was never ready")

    def version(self):
        return tuple(map(int, re.findall(r"\d+", self.ask("version", "--format", "{{.Server.Version}}").stdout)[:2]))

    def load(self, root):
        """The image `gpu`."""
        packed = subprocess.run(["tar", "-C", root, "-c", "."], stdout=subprocess.PIPE, check=True).stdout
        done = subprocess.run(self.client("import", "-", "gpu"), input=packed, capture_output=True, timeout=240)
        assert done.returncode == 0, done
        tried = self.ask("run", "--rm", "--net", "host", "gpu", "/bin/sh", "-c", "true")
        if tried.returncode:
            raise Skipped(f"Docker runs no container here: {tried.stderr.strip().splitlines()[-1]}; start it with the right to")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        # What it leaves mounted could not be removed: a network's namespace, or its data upon itself.
        with open("/proc/self/mounts", encoding="utf-8") as mounts:
            left = [line.split()[1] for line in mounts if f" {self.place}/" in line]
        for path in reversed(left):
            subprocess.run(["umount", "--lazy", path], check=True)
        self.log.close()


def engines():
    """The engine that a test takes: the machine's own, or the one that is fetched."""
    require("cgroup", "containers")
    return own() if needed.lacking("docker") is None else newer()
