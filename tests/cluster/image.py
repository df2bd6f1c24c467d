#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes an OCI image of one layer, without an engine or a registry:

    image.py NAME OUT.tar [--busybox] [--libc] [--env KEY=VALUE] [PATH=SOURCE]...

PATH in the image is SOURCE: a file or folder, copied with all that is below, and with the libraries that a program is
linked with; `@TARGET`: a symbolic link. --busybox: a shell and the usual commands; --libc: glibc. The first PATH is the
entry point.
"""
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile

FOLDERS = ("dev", "etc", "proc", "root", "run", "sys", "tmp", "usr", "usr/bin", "usr/lib", "usr/lib64", "usr/local", "var")
MERGED = {"bin": "usr/bin", "lib": "usr/lib", "lib64": "usr/lib64", "sbin": "usr/bin"}  # as Debian has it
LINKER = "/lib64/ld-linux-x86-64.so.2"  # what ldd asks, which is a script that starts ten programs
APPLETS = "basename cat chmod chown cp cut date dd echo env false find grep head id kill ln ls mkdir mount mv ps readlink rm sed sh sha256sum sleep sort stat tail tee touch true umount uname unshare wc xargs".split()


def inside(path):
    """A path of ours as the image has it: /lib64/... is /usr/lib64/..."""
    parts = path.strip("/").split("/")
    return "/".join([MERGED.get(parts[0], parts[0]), *parts[1:]] if len(parts) > 1 else parts)


def needed(program):
    """The libraries that a program or library is linked with, and its loader."""
    if subprocess.run([LINKER, "--verify", program], capture_output=True).returncode == 1:
        return []  # it is linked with nothing
    listed = subprocess.run([LINKER, "--list", program], capture_output=True, text=True).stdout
    return re.findall(r"(/\S+) \(0x", listed)


class Layer:
    def __init__(self):
        self.buffer = io.BytesIO()
        self.tar = tarfile.open(fileobj=self.buffer, mode="w", format=tarfile.PAX_FORMAT)
        self.there = set()
        for folder in FOLDERS:
            self.folder(folder, 0o1777 if folder == "tmp" else 0o755)
        for name, target in MERGED.items():
            self.link(name, target)
        self.link("var/run", "/run")
        self.file("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n", 0o644)
        self.file("etc/group", b"root:x:0:\nnogroup:x:65534:\n", 0o644)

    def add(self, path, data=b"", **fields):
        if path in self.there:
            return
        self.there.add(path)
        parent = os.path.dirname(path)
        if parent and parent not in self.there and parent not in MERGED:
            self.folder(parent)
        entry = tarfile.TarInfo(path)
        entry.size = len(data)
        for name, value in fields.items():
            setattr(entry, name, value)
        self.tar.addfile(entry, io.BytesIO(data))

    def folder(self, path, mode=0o755):
        self.add(path, type=tarfile.DIRTYPE, mode=mode)

    def link(self, path, target):
        self.add(path, type=tarfile.SYMTYPE, linkname=target, mode=0o777)

    def file(self, path, data, mode=0o755):
        self.add(path, data, mode=mode)

    def copy(self, path, source):
        """A file, link or folder with all that is below it, but what Python caches."""
        if os.path.islink(source):
            self.link(path, os.readlink(source))
        elif os.path.isdir(source):
            self.folder(path)
            for name in sorted(os.listdir(source)):
                if name != "__pycache__":
                    self.copy(f"{path}/{name}", os.path.join(source, name))
        elif os.path.isfile(source):
            with open(source, "rb") as file:
                self.file(path, file.read(), os.stat(source).st_mode & 0o7777)

    def libraries(self, program, without=None):
        """What it is linked with, but for what is in the folder `without`."""
        for library in needed(program):
            if not without or not os.path.realpath(library).startswith(os.path.realpath(without) + "/"):
                self.copy(inside(library), os.path.realpath(library))

    def libc(self):
        """All of glibc: an image that has any of it has the rest, too."""
        for library in needed("/bin/sh"):
            if "/libc.so" in library:
                for name in ("libdl.so.2", "libm.so.6", "libpthread.so.0", "libresolv.so.2", "librt.so.1"):
                    path = os.path.join(os.path.dirname(library), name)
                    self.copy(inside(path), os.path.realpath(path))
        self.libraries("/bin/sh")

    def busybox(self):
        self.copy("usr/bin/busybox", os.path.realpath(shutil.which("busybox")))
        for name in APPLETS:
            self.link(f"usr/bin/{name}", "busybox")

    def bytes(self):
        self.tar.close()
        return self.buffer.getvalue()


def write(name, out, layer, environment=(), entry=None, stop=None):
    """The image as `ctr images import` takes it. `stop`: the signal that ends its containers."""
    blobs = {}

    def blob(data, kind):
        digest = hashlib.sha256(data).hexdigest()
        blobs["blobs/sha256/" + digest] = data
        return {"mediaType": "application/vnd.oci.image." + kind, "digest": "sha256:" + digest, "size": len(data)}

    content = blob(layer.bytes(), "layer.v1.tar")
    settings = {"Env": ["PATH=/usr/local/bin:/usr/bin:/bin", *environment]}
    if entry:
        settings["Entrypoint"] = [entry]
    if stop:
        settings["StopSignal"] = stop
    config = blob(json.dumps({"architecture": "amd64", "os": "linux", "config": settings,
                              "rootfs": {"type": "layers", "diff_ids": [content["digest"]]}}).encode(), "config.v1+json")
    manifest = blob(json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                                "config": config, "layers": [content]}).encode(), "manifest.v1+json")
    manifest["annotations"] = {"io.containerd.image.name": name}
    blobs["oci-layout"] = b'{"imageLayoutVersion": "1.0.0"}'
    blobs["index.json"] = json.dumps({"schemaVersion": 2, "manifests": [manifest]}).encode()
    with tarfile.open(out, "w", format=tarfile.USTAR_FORMAT) as tar:
        for path, data in blobs.items():
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(data), 0o644
            tar.addfile(entry, io.BytesIO(data))


def main(name, out, *words):
    layer, environment, entry, words = Layer(), [], None, list(words)
    while words:
        word = words.pop(0)
        if word == "--busybox":
            layer.busybox()
        elif word == "--libc":
            layer.libc()
        elif word == "--env":
            environment.append(words.pop(0))
        else:
            path, _, source = word.partition("=")
            entry = entry or path
            if source.startswith("@"):
                layer.link(inside(path), source[1:])
            else:
                layer.copy(inside(path), source)
                layer.libraries(source)
    write(name, out, layer, environment, entry)


if __name__ == "__main__":
    main(*sys.argv[1:])
