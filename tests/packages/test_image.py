#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`make image`, which needs no engine: the same bytes each time, the labels of deploy/Containerfile, and a container of it works.

    TEST.py BUILD SOURCE"""
import contextlib
import glob
import hashlib
import io
import json
import os
import pty
import shutil
import subprocess
import sys
import tarfile
import tempfile

BUILD, ROOT = (os.path.abspath(path) for path in sys.argv[1:3])
sys.path[:0] = [os.path.join(ROOT, "tests", "system"), os.path.join(ROOT, "tools")]
import image_content as content  # noqa: E402
from runner import require, run  # noqa: E402

WHEN = 1000000000
MOUNTS = [{"destination": "/proc", "type": "proc", "source": "proc"}, {"destination": "/run", "type": "tmpfs", "source": "tmpfs"},
          {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"}, {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
          {"destination": "/dev/shm", "type": "tmpfs", "source": "shm"}, {"destination": "/dev/pts", "type": "devpts", "source": "devpts"}]


def make(folder, **environment):
    """(The archive, its digest as it was said.)"""
    done = subprocess.run([ROOT + "/tools/image", "--built", BUILD, "--to", folder], text=True, capture_output=True,
                          env=dict(os.environ, SOURCE_DATE_EPOCH=str(WHEN), **environment))
    assert done.returncode == 0, done
    path, digest = done.stdout.split()
    return path, digest


class Image:
    """One for all tests, read as a registry would."""

    made = None

    def __init__(self):
        self.place = tempfile.mkdtemp(prefix="mete-")
        self.path, self.digest = make(self.place)
        with tarfile.open(self.path) as archive:
            files = {entry.name: archive.extractfile(entry).read() for entry in archive}
        self.index = json.loads(files.pop("index.json"))
        assert json.loads(files.pop("oci-layout")) == {"imageLayoutVersion": "1.0.0"}
        self.blobs = {"sha256:" + path.rsplit("/", 1)[1]: data for path, data in files.items()}
        for digest, data in self.blobs.items():
            assert digest == "sha256:" + hashlib.sha256(data).hexdigest(), digest
        self.manifest = self.read(self.index["manifests"][0])
        self.config = self.read(self.manifest["config"])

    def read(self, what):
        data = self.blobs[what["digest"]]
        assert len(data) == what["size"], what
        return json.loads(data)

    def layer(self):
        """The one layer, unpacked."""
        what, = self.manifest["layers"]
        assert what["mediaType"] == "application/vnd.oci.image.layer.v1.tar+gzip" and what["size"] == len(self.blobs[what["digest"]])
        return tarfile.open(fileobj=io.BytesIO(self.blobs[what["digest"]]), mode="r:gz")


def image():
    Image.made = Image.made or Image()
    return Image.made


class Root:
    """A container's root file system, and runc that runs commands in it."""

    def __enter__(self):
        self.place = tempfile.mkdtemp(prefix="mete-")
        with image().layer() as layer:
            layer.extractall(self.place + "/rootfs")
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.place)

    def run(self, *command, uid=0, environment=(), terminal=None):
        """`terminal`: where it reads and writes; otherwise it reads nothing, and its output is returned."""
        said = image().config["config"]
        process = {"user": {"uid": uid, "gid": uid}, "args": list(command) or said["Cmd"], "cwd": "/", "env": [*said["Env"], *environment],
                   "terminal": terminal is not None}
        config = {"ociVersion": "1.0.2", "root": {"path": "rootfs"}, "process": process, "mounts": MOUNTS,
                  "linux": {"namespaces": [{"type": kind} for kind in ("pid", "mount", "ipc", "uts", "network")]}}
        with open(self.place + "/config.json", "w") as file:
            json.dump(config, file)
        options = dict(stdin=subprocess.DEVNULL, capture_output=True) if terminal is None else dict(stdin=terminal, stdout=terminal, stderr=terminal)
        return subprocess.run(["runc", "--root", self.place + "/runc", "run", "--bundle", self.place, f"mete-image-{os.getpid()}"],
                              env=dict(os.environ, PATH=os.environ["PATH"] + ":/usr/sbin:/sbin"), text=True, **options)


def test_the_same_tree_has_the_same_bytes():
    again = tempfile.mkdtemp(prefix="mete-")
    before = os.umask(0o077)
    try:
        path, digest = make(again, TZ="Pacific/Auckland", LC_ALL="C", HOME="/nonexistent")
        assert digest == image().digest == image().index["manifests"][0]["digest"]
        assert open(path, "rb").read() == open(image().path, "rb").read()
    finally:
        os.umask(before)
        shutil.rmtree(again)


def test_its_labels_are_those_of_the_containerfile():
    labels = image().config["config"]["Labels"]
    assert labels == image().manifest["annotations"]
    prefix = "org.opencontainers.image."
    assert {name.removeprefix(prefix) for name in labels} == {"title", "description", "version", "revision", "created", "licenses", "vendor", "authors", "url",
                                                              "source", "documentation"}, labels
    assert labels[prefix + "created"] == image().config["created"] == "2001-09-09T01:46:40Z"
    assert labels[prefix + "version"] == content.arguments()["VERSION"] == image().index["manifests"][0]["annotations"][prefix + "ref.name"]
    assert not any("$" in value for value in labels.values()), labels


def test_its_layer_matches_its_configuration_and_belongs_to_root():
    what, = image().manifest["layers"]
    with image().layer() as layer:
        entries = list(layer)
    plain = subprocess.run(["gzip", "-dc"], input=image().blobs[what["digest"]], capture_output=True, check=True).stdout
    assert image().config["rootfs"] == {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(plain).hexdigest()]}
    assert {(entry.uid, entry.gid, entry.mtime) for entry in entries} == {(0, 0, WHEN)}
    modes = {entry.mode for entry in entries if entry.isfile()}
    assert modes == {0o755, 0o644}, modes
    there = {entry.name for entry in entries}
    for name in ("bin/mete", "bin/meted", "bin/on-node", "bin/install-on-node", "lib/mete/mete-hook", "lib/mete/libmete-plugin.so", "lib/mete/examples/train"):
        assert "usr/local/" + name in there, name


def test_a_container_of_it_runs_its_command_and_all_of_its_programs_load():
    require("containers")
    with Root() as root:
        said = root.run()
        assert said.returncode == 0 and said.stdout.startswith("usage: meted"), said
        programs = [name for name in glob.glob(root.place + "/rootfs/usr/local/bin/*") + glob.glob(root.place + "/rootfs/usr/local/lib/mete/*")
                    if os.path.isfile(name) and open(name, "rb").read(4) == b"\x7fELF" and not name.endswith("/mete-hook")]  # that one is static
        assert len(programs) > 3, programs
        for name in programs:
            said = root.run("/usr/lib64/ld-linux-x86-64.so.2", "--list", name.split("/rootfs")[1])
            assert said.returncode == 0 and "not found" not in said.stdout + said.stderr, (name, said)
        # Its shell has what the scripts of a node call.
        said = root.run("sh", "-c", "command -v dirname readlink uname nsenter sha256sum find chmod mv")
        assert said.returncode == 0, said


def test_a_program_has_its_share_in_a_container_of_it():
    require("containers")
    simulated = ["LD_LIBRARY_PATH=/usr/local/lib/mete/sim/lib", "METE_SIM_DIR=/tmp/sim", "XDG_RUNTIME_DIR=/tmp", "HOME=/tmp"]
    with Root() as root:
        for uid in 0, 61001:
            said = root.run("sh", "-c", "mkdir /tmp/sim; exec mete run --name job --memory 1G --report -- /usr/local/lib/mete/examples/train steps=3",
                            uid=uid, environment=simulated)
            assert said.returncode == 0 and "job on GPU 0: held at most" in said.stderr, said


def shown_on(terminal):
    """All that was written to it. The kernel hands it over in pieces, and an error is its end."""
    shown = b""
    with open(terminal, "rb", buffering=0) as pieces, contextlib.suppress(OSError):
        while piece := pieces.read(65536):
            shown += piece
    return shown.decode(errors="replace")


def test_the_full_screen_knows_usual_terminals():
    """As `kubectl exec -it` and `mete top --node` show it."""
    require("containers")
    with Root() as root:
        for name in "xterm-256color", "screen", "linux", "vt100":
            ours, theirs = pty.openpty()
            try:
                os.write(ours, b"q")
                said = root.run("sh", "-c", "mete top; echo ended $?", environment=["TERM=" + name, "XDG_RUNTIME_DIR=/tmp"], terminal=theirs)
            finally:
                os.close(theirs)
            shown = shown_on(ours)
            assert "ended 0" in shown, (name, said, shown)


if __name__ == "__main__":
    try:
        run(globals())
    finally:
        if Image.made:
            shutil.rmtree(Image.made.place)
