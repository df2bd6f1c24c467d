# SPDX-License-Identifier: Apache-2.0
"""Containers by runc on a simulated machine, with the edits of a CDI file applied as a runtime does.

    TEST.py METED SIMULATOR BUILD

Needs root and runc: each program of tests begins with require_all("containers").
"""
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", folder) for folder in ("system", "../tools")]
BUILD = os.path.abspath(sys.argv[3])
del sys.argv[3]
from meted import *
from oci import needed

SIM = os.path.abspath(sys.argv[2])
HOOK = BUILD + "/hook/mete-hook"
EDITS = BUILD + "/tests/plugin/edits"
GUESTS = BUILD + "/guest"
MULTIARCH = os.uname().machine + "-linux-gnu"
LIBRARIES = "/usr/lib/" + MULTIARCH
GUEST, DRIVER = "/usr/lib/mete/libmete.so", "/usr/lib/mete/driver"
NAMES = ("libcuda.so", "libcuda.so.1", "libnvidia-ml.so", "libnvidia-ml.so.1")
FIRST_ID = 100000  # of a user namespace


class Image:
    """A root file system as Debian lays it out, with a few programs. What tests add, they add by plain paths."""

    def __init__(self, folder):
        self.root = folder
        for path in ("usr/bin", "usr/lib64", LIBRARIES, "etc", "proc", "dev", "tmp", "run"):
            os.makedirs(self.at(path), exist_ok=True)
        for name in ("bin", "lib", "lib64"):
            os.symlink("usr/" + name, self.at(name))
        for program in ("train", "hoarder"):
            self.program(f"{BUILD}/examples/{program}")
        for program in ("opener", "shown"):
            self.program(f"{BUILD}/tests/plugin/{program}")
        for program in ("env", "dash", "ldconfig"):
            self.program(shutil.which(program, path="/usr/bin:/usr/sbin:/sbin"))
        os.symlink("dash", self.at("/bin/sh"))
        for library in (GUESTS + "/12.9/libmete.so", SIM + "/libcuda.so.1"):
            self.libraries(library)  # glibc's own: no image has a part of it

    def at(self, path):
        """A path of the image's, without following its links (but those of the layout, which lead to /usr)."""
        return os.path.join(self.root, path.lstrip("/"))

    def program(self, path):
        shutil.copy(path, self.at("/usr/bin/" + os.path.basename(path)))
        self.libraries(path)

    def libraries(self, path):
        for library in needed(path):
            to = self.at(library)
            if not os.path.exists(to):
                os.makedirs(os.path.dirname(to), exist_ok=True)
                shutil.copy(library, to)

    def put(self, path, content=b""):
        os.makedirs(os.path.dirname(self.at(path)), exist_ok=True)
        with open(self.at(path), "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        return self

    def link(self, path, target):
        os.makedirs(os.path.dirname(self.at(path)), exist_ok=True)
        os.symlink(target, self.at(path))
        return self

    def driver(self, folder, version="565.57.01", library="libcuda"):
        """A driver of the image's own: one that limits nobody."""
        os.makedirs(self.at(folder), exist_ok=True)
        shutil.copy(f"{SIM}/{library}.so.1", self.at(f"{folder}/{library}.so.{version}"))
        os.symlink(f"{library}.so.{version}", self.at(f"{folder}/{library}.so.1"))
        return self

    def ldconfig(self):
        subprocess.run(["ldconfig", "-r", self.root], check=True, stderr=subprocess.DEVNULL)
        return self

    def listing(self):
        """All that is in it, for comparison: path, kind, link's target."""
        found = {}
        for folder, folders, files in os.walk(self.root):
            for name in folders + files:
                path = os.path.join(folder, name)
                about = os.lstat(path)
                found[os.path.relpath(path, self.root)] = (
                    stat.S_IFMT(about.st_mode), about.st_size if stat.S_ISREG(about.st_mode) else 0,
                    os.readlink(path) if stat.S_ISLNK(about.st_mode) else "")
        return found


# The fields of CDI 0.5.0: another field makes a file invalid.
FIELDS = {
    "file": {"cdiVersion", "kind", "containerEdits", "devices"},
    "device": {"name", "containerEdits"},
    "edits": {"env", "deviceNodes", "hooks", "mounts"},
    "node": {"path", "hostPath", "type", "major", "minor", "fileMode", "permissions", "uid", "gid"},
    "mount": {"hostPath", "containerPath", "options", "type"},
    "hook": {"hookName", "path", "args", "env", "timeout"},
}


def known(kind, item):
    assert set(item) <= FIELDS[kind], (kind, item)
    return item


def apply_cdi(path, config):
    """A CDI device's edits, as a runtime applies them."""
    file = known("file", json.load(open(path)))
    assert tuple(map(int, file["cdiVersion"].split("."))) <= (0, 5, 0), file["cdiVersion"]
    (device,) = file["devices"]
    edits = known("edits", known("device", device)["containerEdits"])
    for variable in edits.get("env", ()):
        name = variable.split("=")[0] + "="
        config["process"]["env"] = [v for v in config["process"]["env"] if not v.startswith(name)] + [variable]
    for node in edits.get("deviceNodes", ()):
        add_node(config, known("node", node).get("hostPath", node["path"]), node["path"])
    for mount in edits.get("mounts", ()):
        known("mount", mount)
        config["mounts"].append({"destination": mount["containerPath"], "source": mount["hostPath"],
                                 "type": mount.get("type", "bind"), "options": mount["options"]})
    for hook in edits.get("hooks", ()):
        hook = dict(known("hook", hook))
        config["hooks"].setdefault(hook.pop("hookName"), []).append(hook)


def add_node(config, host_path, path):
    about = os.stat(host_path)
    config["linux"].setdefault("devices", []).append({
        "path": path, "type": "c", "major": os.major(about.st_rdev), "minor": os.minor(about.st_rdev), "fileMode": 0o666, "uid": 0, "gid": 0})


def apply_plain(lines, config):
    for line in lines.splitlines():
        kind, *words = line.split("\t")
        if kind == "env":
            config["process"]["env"].append("=".join(words))
        elif kind == "mount":
            config["mounts"].append({"destination": words[1], "source": words[0], "type": "bind",
                                     "options": ["bind", words[2], "rprivate"]})
        elif kind == "node":  # of a machine that has a GPU
            add_node(config, *words)
        else:
            raise AssertionError(line)


class Ended:
    def __init__(self, done):
        self.status, self.out, self.err = done.returncode, done.stdout.strip(), done.stderr

    def __repr__(self):
        return f"status {self.status}\n{self.out}\n{self.err}"


class Machine:
    """A simulated machine with a system's daemon and one tenant, and a folder of containers."""

    def __init__(self, memory="256MiB"):
        self.place = tempfile.mkdtemp(prefix="mete-runc-")
        os.chmod(self.place, 0o755)
        self.memory, self.driver, self.count = memory, SIM, 0
        for name, mode in ("sim", 0o1777), ("cdi", 0o755), ("runc", 0o700):
            os.mkdir(f"{self.place}/{name}")
            os.chmod(f"{self.place}/{name}", mode)
        self.environment = dict(os.environ, METE_SIM_DIR=self.place + "/sim", METE_SIM_CONTEXT_COST="0")

    def __enter__(self):
        self.meted = Daemon(role="--system", environment=self.environment)
        self.meted.__enter__()
        self.admin = Admin(self.meted.place)
        self.tenant = self.admin.tenant(self.memory)
        return self

    def __exit__(self, *what):
        self.admin.close()
        self.meted.__exit__(*what)
        shutil.rmtree(self.place, ignore_errors=True)

    def image(self):
        self.count += 1
        folder = f"{self.place}/c{self.count}"
        os.mkdir(folder)
        return Image(folder + "/rootfs")

    def edits(self, how, name="slot"):
        done = subprocess.run([EDITS, how, self.driver, GUESTS, HOOK, self.place + "/cdi", "mete.dev/slot", name,
                               os.path.dirname(self.tenant.socket)], env=self.environment, text=True, capture_output=True)
        assert done.returncode == 0, done.stderr
        return f"{self.place}/cdi/mete.dev-slot_{name}.json" if how == "cdi" else done.stdout

    def alone(self, *command):
        """The program as it is without mete."""
        done = subprocess.run([f"{BUILD}/examples/{command[0]}", *command[1:]], text=True, capture_output=True,
                              env=dict(self.environment, LD_LIBRARY_PATH=SIM))
        assert done.returncode == 0, done
        return done.stdout.strip()

    def run(self, image, *command, how="cdi", change=None, environment=(), user=0, wrap=()):
        """A container to its end."""
        bundle = os.path.dirname(image.root)
        config = base_config(command, environment, user)
        if how == "cdi":
            apply_cdi(self.edits("cdi"), config)
        elif how == "plain":
            apply_plain(self.edits("plain"), config)
        if change:
            change(config)
        with open(bundle + "/config.json", "w") as file:
            json.dump(config, file)
        self.count += 1
        return Ended(subprocess.run(
            [*wrap, "runc", "--root", self.place + "/runc", "run", "--bundle", bundle, f"mete-{os.getpid()}-{self.count}"],
            text=True, capture_output=True, stdin=subprocess.DEVNULL))

    def guest(self):
        """Device and inode of the guest, by `shown`."""
        about = os.stat(GUESTS + "/12.9/libmete.so")
        return f"{about.st_dev}:{about.st_ino}"


def base_config(command, environment=(), user=0):
    return {
        "ociVersion": "1.0.2",
        "process": {"terminal": False, "user": {"uid": user, "gid": user}, "args": list(command), "cwd": "/",
                    "env": ["PATH=/usr/bin", *environment], "noNewPrivileges": True},
        "root": {"path": "rootfs"},
        "hostname": "c",
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=64k"]},
            {"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": ["nosuid", "mode=1777", "size=64m"]},
        ],
        "hooks": {},
        "linux": {"namespaces": [{"type": t} for t in ("pid", "mount", "ipc", "uts")]},
    }


def in_user_namespace(image):
    """The image's files become those of the namespace's root; returns the change of the configuration."""
    for folder, folders, files in os.walk(image.root):
        for name in ["."] + folders + files:
            os.lchown(os.path.join(folder, name), FIRST_ID, FIRST_ID)

    def change(config):
        ids = [{"containerID": 0, "hostID": FIRST_ID, "size": 65536}]
        config["linux"]["namespaces"].append({"type": "user"})
        config["linux"]["uidMappings"] = config["linux"]["gidMappings"] = ids
    return change
