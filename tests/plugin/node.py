# SPDX-License-Identifier: Apache-2.0
"""A node of a cluster without a cluster: the real meted, a kubelet of our own (fake_kubelet.c) and a small API server.

    TEST.py METED SIMULATOR BUILD
"""
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import urllib.request
import uuid as uuids

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
BUILD = os.path.abspath(sys.argv[3])
CALLER = os.path.join(BUILD, "tests", "plugin", "caller")
sys.argv[1:] = [os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), *sys.argv[4:]]
from meted import Admin, Daemon, GIB, Guest, MIB, PATIENCE, free_port, needed, require, until  # noqa: E402,F401
from node_api import *  # noqa: E402
from kubelet import *  # noqa: E402


def read_all(folder, read=lambda path: json.load(open(path))):
    """A folder's files; some may go meanwhile, and some are not whole yet (.new)."""
    found = {}
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        try:
            found[name] = read(f"{folder}/{name}")
        except FileNotFoundError:
            pass
        except ValueError:
            assert name.endswith(".new"), name
    return found


class Pod:
    def __init__(self, node, name, uid=None, namespace="ns", annotations=None, marks=None, spec=None):
        self.spec = spec or {}
        self.node, self.name, self.namespace = node, name, namespace
        self.uid = uid or str(uuids.uuid4())
        self.phase, self.held = "Pending", {}
        self.ending = {}  # what metadata has of a pod that is being deleted
        self.marks = {f"mete.dev/{key.replace('_', '-')}": value for key, value in (annotations or {}).items()}
        self.marks.update(marks or {})

    def show(self):
        """The API server has it as it is now."""
        self.node.api.put("pods", {"metadata": {"name": self.name, "namespace": self.namespace, "uid": self.uid, "annotations": self.marks, **self.ending},
                                   "spec": {"nodeName": NODE, **self.spec}, "status": {"phase": self.phase}})
        return self

    def annotate(self, **annotations):
        for key, value in annotations.items():
            self.marks[f"mete.dev/{key.replace('_', '-')}"] = value
        return self.show()

    def admit(self, *ids, container="main", listed=True):
        """The kubelet gives it the ids."""
        self.node.kubelet.ask("allocate", *ids)
        self.held[container] = ids
        self.node.kubelet.give(self, container, ids, listed)
        return self

    def begin(self, container="main"):
        return self.node.kubelet.begin("start", *self.held[container])

    def start(self, container="main"):
        self.node.kubelet.answer(self.begin(container))
        return self

    def refusal(self, container="main"):
        return self.node.kubelet.refusal(self.begin(container))

    def vanish(self):
        """Its containers have ended, and the kubelet has what they held; the API server shows it still."""
        for container in self.held:
            self.node.kubelet.take_back(self, container)
        self.held = {}

    def delete(self):
        self.vanish()
        self.node.api.add("pods", "DELETED", {"metadata": {"name": self.name, "namespace": self.namespace, "uid": self.uid}})

    def title(self, container="main"):
        return f"{self.namespace}/{self.name}/{container}"


class Node:
    """All of it. Keys of the configuration are given by name. meted looks at GPUs as often as it can; `look` None: as often as usual."""

    def __init__(self, devices="2xSIM", labels=None, start=True, api=True, environment=None, options=(), look="100ms", **config):
        self.folder = tempfile.mkdtemp(prefix="mete-")
        self.place, self.cdi, self.sim = (f"{self.folder}/{name}" for name in ("run", "cdi", "sim"))
        for path in (self.place, self.sim):
            os.mkdir(path)
        os.chmod(self.place, 0o711)
        self.api = Api(labels) if api else None
        self.kubelet = Kubelet(BUILD + "/tests/plugin/fake_kubelet", self.folder + "/k")
        self.file = self.folder + "/config.yaml"
        self.config = {"slots": 4, "kubelet-folder": self.kubelet.folder, "cdi-folder": self.cdi, "kubeconfig": "none", "node-name": NODE}
        if api:
            self.config["kubeconfig"] = self.folder + "/kubeconfig"
            self.write_kubeconfig()
        self.configure(**config)
        self.environment = {"METE_SIM_DIR": self.sim, "METE_SIM_DEVICES": devices, **(environment or {})}
        self.options = ["--kubernetes", self.file, "--grace", "100ms", *(["--look-every", look] if look else []), *options]
        self.meted, self.wrap = None, ()
        if start:
            try:
                self.start()
                self.kubelet.hear("registered")
            except Exception:
                self.close(Exception)
                raise

    def write_kubeconfig(self):
        with open(self.folder + "/kubeconfig", "w") as file:
            json.dump({"apiVersion": "v1", "kind": "Config", "current-context": "x",
                       "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{self.api.port}"}}],
                       "users": [{"name": "u", "user": {}}], "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}]}, file)

    def tell_by_environment(self, **more):
        """meted, what a file without the key `mete` does not say."""
        self.environment.update(KUBELET_SOCKET=self.kubelet.plugins + "/kubelet.sock", KUBECONFIG=self.folder + "/kubeconfig", NODE_NAME=NODE, **more)

    def configure(self, **config):
        """Writes the file; None takes a key away."""
        for key, value in config.items():
            self.config[key.replace("_", "-")] = value
        self.write({"version": "v1", "mete": {key: value for key, value in self.config.items() if value is not None}})

    def write(self, content):
        with open(self.file + ".new", "w") as file:
            file.write(content if isinstance(content, str) else json.dumps(content))
        os.rename(self.file + ".new", self.file)

    def start(self):
        try:
            self.meted = Daemon(*self.options, environment=self.environment, wrap=self.wrap, place=self.place, role="--system")
        except AssertionError:
            raise AssertionError("meted did not start: " + open(self.place + "/log").read()) from None
        self.uuid = [word.split("=", 1)[1] for line in self.log().splitlines() if "device.found" in line
                     for word in line.split() if word.startswith("uuid=")][-sum(int(part.split("x")[0]) for part in self.environment["METE_SIM_DEVICES"].split(",")):]

    def has_files(self, *files):
        """From now on meted runs on a machine whose /dev has these."""
        require("devices", "namespaces")
        dev = self.folder + "/dev"
        os.mkdir(dev)
        for name in *files, "null", "zero", "random", "urandom":
            os.mknod(f"{dev}/{name}", stat.S_IFCHR | 0o666, os.makedev(1, {"random": 8, "urandom": 9}.get(name, 3)))
        os.mkdir(dev + "/shm")
        self.wrap = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /dev && exec "$@"', dev]
        subprocess.run([*self.wrap, "true"], check=True)

    def command(self):
        """As it is started, without waiting until it is ready."""
        return [sys.argv[1], "--system", "--dir", self.place, "--driver", sys.argv[2], *self.options]

    def restart(self):
        """After it has ended, somehow: registered again."""
        self.meted.start()
        self.kubelet.hear("registered")

    def doctor(self, check):
        """What `mete doctor` says of one thing on this node."""
        host = self.folder + "/host"
        if not os.path.isdir(host):
            for path in "/run", "/etc", "/var/lib/kubelet/pods":
                os.makedirs(host + path)
            os.symlink(self.place, host + "/run/mete")
            os.symlink(self.kubelet.plugins, host + "/var/lib/kubelet/device-plugins")
        environment = dict(os.environ, METE_HOST=host, XDG_RUNTIME_DIR=self.folder, METE_DRIVER=sys.argv[2], LD_LIBRARY_PATH=sys.argv[2], **self.environment)
        said = subprocess.run([BUILD + "/cli/mete", "doctor", "--json"], env=environment, stdout=subprocess.PIPE, text=True, timeout=PATIENCE).stdout
        row = next(row for row in json.loads(said) if row["check"] == check)
        return row["verdict"], f"{row['found']} -> {row['advice']}"

    def id(self, number, device=0):
        return f"{self.uuid[device]}::{number}"

    def log(self):
        return self.meted.log()

    def await_log(self, pattern, times=1):
        return until(lambda: len(found := re.findall(pattern, self.log())) >= times and found[-1], lambda: f"never said: {pattern}\n{self.log()[-3000:]}")

    def pod(self, name, **more):
        return Pod(self, name, **more).show()

    def run(self, name, *ids, **more):
        """A pod whose container has started."""
        return self.pod(name, **more).admit(*ids).start()

    def tenants(self):
        admin = Admin(self.place)
        try:
            return [row for row in admin.list() if row.kind == "tenant_row"]
        finally:
            admin.close()

    def tenant(self, title):
        """Of several with this name, the last: it was made last."""
        found = sorted((row for row in self.tenants() if row.name == title), key=lambda row: row.tenant)
        return found[-1] if found else None

    def share(self, title):
        row = self.tenant(title)
        return dict(word.split("=", 1) for word in row.share.split()) if row else None

    def await_share(self, title, **texts):
        until(lambda: (share := self.share(title)) is not None and all(share.get(key) == value for key, value in texts.items()),
              lambda: f"{title} has {self.share(title)} instead of {texts}\n{self.log()[-2000:]}")

    def records(self):
        return {name: record for name, record in read_all(self.place + "/bindings").items() if "." not in name}

    def record(self, title):
        return next(((key, row) for key, row in self.records().items()
                     if f"{row['namespace']}/{row['pod']}/{row['container']}" == title), (None, None))

    def links(self):
        return read_all(self.place + "/slots", os.readlink)

    def files(self):
        """Of CDI: their keys, and which folder each mounts at /run/mete."""
        found = {}
        for name, file in read_all(self.cdi).items():
            if not name.endswith(".json"):
                continue
            device = file["devices"][0]
            mounts = device["containerEdits"]["mounts"]
            found[device["name"]] = next(mount["hostPath"] for mount in mounts if mount["containerPath"] == "/run/mete")
        return found

    def folder_of(self, title):
        """Where the container's tenant is joined; every record of it agrees."""
        key, row = self.record(title)
        assert row, f"{title} is not bound: {self.records()}"
        folder = self.links()[key]
        assert self.files().get(key, folder) == folder
        assert os.path.basename(folder).startswith(f"{row['tenant']}-"), (folder, row)
        return folder

    def is_empty(self):
        """Nothing is left of any container."""
        return not (self.tenants() or os.listdir(self.place + "/bindings") or os.listdir(self.place + "/slots")
                    or os.listdir(self.place + "/tenants") or (os.path.isdir(self.cdi) and os.listdir(self.cdi)))

    def left(self):
        return [row.name for row in self.tenants()], [os.listdir(folder) for folder in (
            self.place + "/bindings", self.place + "/slots", self.place + "/tenants", self.cdi) if os.path.isdir(folder)]

    def await_empty(self):
        until(self.is_empty, lambda: f"left: {self.left()}\n{self.log()[-2000:]}")

    def end(self):
        """SIGTERM, whatever it is about."""
        self.meted.process.terminate()
        assert self.meted.wait() == 0, self.log()[-2000:]

    def close(self, kind=None):
        try:
            if self.meted:
                self.meted.__exit__(kind, None, None)
        finally:
            if self.api:
                self.api.close()
            self.kubelet.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.close(kind)


def healthy(devices):
    return sorted(name for name, health in devices.items() if health == "Healthy")


def launch(node, fault, device):
    """A program whose kernel meets that."""
    environment = dict(os.environ, METE_SIM_DIR=node.sim, LD_LIBRARY_PATH=sys.argv[2], METE_SIM_FAULTS=fault, CUDA_VISIBLE_DEVICES=str(device))
    subprocess.run([BUILD + "/examples/train", "steps=1"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def cordon(node, device, on=1):
    """As `mete cordon` and `mete uncordon` do."""
    admin = Admin(node.place)
    try:
        admin.ask("device_cordon", device=str(device), on=on)
    finally:
        admin.close()
