#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""deploy/Containerfile without podman: what it copies is there, what its image installs is what meted and its node need.

    TEST.py BUILD SOURCE
"""
import fnmatch
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
from runner import Skipped, run  # noqa: E402

BUILD, SOURCE = (os.path.abspath(path) for path in sys.argv[1:3])
PREFIX = "/usr/local"
IN_BASE = {"libc6", "libgcc-s1", "libtinfo6"}  # of those that programs need, what every Debian has


def instructions():
    text = open(SOURCE + "/deploy/Containerfile").read()
    text = re.sub(r"\\\n\s*", " ", re.sub(r"^#.*\n", "", text, flags=re.M))
    return [line.split(None, 1) for line in text.splitlines() if line.strip()]


def shell():
    """The commands of RUN, by words."""
    return [words.split() for name, rest in instructions() if name == "RUN" for words in re.split(r"&&|;", rest)]


class Image:
    """The files that `make install` puts there, as of this build."""

    def __enter__(self):
        self.root = tempfile.mkdtemp(prefix="mete-")
        subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", self.root], check=True, stdout=subprocess.DEVNULL)
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.root, ignore_errors=True)

    def at(self, path):
        return self.root + PREFIX + "/" + path


def test_copied_files_are_in_the_context():
    ignored = [line for line in open(SOURCE + "/.containerignore").read().split("\n") if line and not line.startswith("#")]
    copies = [rest.split() for name, rest in instructions() if name == "COPY"]
    assert len(copies) == 3, copies
    for *sources, _ in (words for words in copies if not words[0].startswith("--from")):
        for source in sources:
            assert os.path.exists(f"{SOURCE}/{source}"), source
            assert not any(fnmatch.fnmatch(source.split("/")[0], one) for one in ignored), source
    assert {"build", ".git"} <= set(ignored), "a build of another machine's compiler is none of the image's"


def test_examples_that_are_copied_are_built():
    copied, = (words[1:-1] for words in shell() if words[0] == "cp")
    for name in copied:
        assert os.access(f"{BUILD}/examples/{name}", os.X_OK), f"{name} is no program of examples/"


def test_commands_of_the_manifests_are_in_the_image():
    brought = {os.path.basename(source) for name, rest in instructions() if name == "COPY" and not rest.startswith("--from") for source in rest.split()[:-1]}
    called = set()
    for path in glob.glob(SOURCE + "/deploy/base/*.yaml") + glob.glob(SOURCE + "/deploy/overlays/*/*.yaml"):
        called |= {word.strip() for words in re.findall(r"^\s*command: \[(.*?)\]", open(path).read(), re.M)
                   for word in words.split(",")[:2] if not word.strip().startswith("-")}
    assert called == {"meted", "on-node", "install-on-node"}, called
    with Image() as image:
        for name in called:
            assert name in brought or os.access(image.at("bin/" + name), os.X_OK), name
    for name in brought & called:
        assert os.access(f"{SOURCE}/deploy/{name}", os.X_OK), name


def test_installed_files_are_built_where_only_the_product_is():
    """deploy/Containerfile, tools/demo and tools/demo-kubernetes build this target alone, and install."""
    asked = subprocess.run(["ninja", "-C", BUILD, "-t", "query", "product"], stdout=subprocess.PIPE, text=True, check=True).stdout
    built = {line.strip(" |") for line in asked.splitlines()}
    installed = json.loads(subprocess.run(["meson", "introspect", "--installed", BUILD], stdout=subprocess.PIPE, text=True, check=True).stdout)
    wanted = {path[len(BUILD) + 1:] for path in installed if path.startswith(BUILD + "/")}
    wanted -= {"node/meted.service", "plugin/nvidia.yaml"}  # they are made when the build is configured
    wanted |= set(re.findall(r'"\$build/([a-z./-]+)"', open(SOURCE + "/tools/install-libraries").read()))
    assert len(wanted) > 10, wanted
    assert wanted <= built, f"not built: {wanted - built}"


def test_the_image_is_built_on_a_machine_that_has_nothing_yet():
    """`make install` brings what it needs, python3 first of all, before anything that is written in it runs."""
    recipe, = re.findall(r"^install:.*\n((?:\t.*\n)+)", open(SOURCE + "/Makefile").read(), re.M)
    first, *rest = recipe.splitlines()
    assert first.strip("\t@") == "command -v python3 >/dev/null || tools/setup" and rest, recipe
    assert open(SOURCE + "/tools/setup").readline() == "#!/bin/sh\n"
    assert " python3 " in open(SOURCE + "/tools/setup").read()


def test_labels_describe_the_image():
    text = open(SOURCE + "/deploy/Containerfile").read()
    labels = dict(re.findall(r'org\.opencontainers\.image\.([\w.]+)="([^"]*)"', text))
    assert {"title", "description", "version", "revision", "created", "licenses", "vendor", "authors", "url", "source", "documentation", "base.name"} == set(labels), labels
    final = text[text.rindex("\nFROM "):]
    given = set(re.findall(r"^ARG (\w+)", final, re.M))
    for name, value in labels.items():
        assert value and (value[0] != "$" or value[1:] in given), (name, value)
    version = re.search(r"^\tversion: '(.*)'", open(SOURCE + "/meson.build").read(), re.M)[1]
    assert f"ARG VERSION={version}\n" in final
    told = subprocess.run([SOURCE + "/tools/image-arguments"], env=dict(os.environ, SOURCE_DATE_EPOCH="1000000000"), check=True, text=True, stdout=subprocess.PIPE).stdout.split()
    assert told[:2] == ["--timestamp=1000000000", f"--build-arg=VERSION={version}"] and "--build-arg=CREATED=2001-09-09T01:46:40Z" in told, told


def needed(path):
    said = subprocess.run(["readelf", "-d", path], stdout=subprocess.PIPE, text=True, check=True).stdout
    return set(re.findall(r"\(NEEDED\)\s+Shared library: \[([^]]+)\]", said))


def test_packages_of_the_image_have_the_libraries_that_programs_need():
    if not shutil.which("dpkg") or not re.search(r'^VERSION_ID="?12"?$', open("/etc/os-release").read(), re.M):
        raise Skipped("this is no Debian 12, as the image is; run it on one")
    installs = [words for words in shell() if words[:2] == ["apt-get", "install"]]
    packages = {word for word in installs[-1][2:] if not word.startswith("-")}
    with Image() as image:
        libraries = set().union(*(needed(image.at(path)) for path in ("bin/meted", "bin/mete", "lib/mete/libmete-plugin.so")))
        assert not needed(image.at("lib/mete/mete-hook")), "the hook runs on any host"
    owners = {}
    for library in libraries:
        found = subprocess.run(["dpkg", "-S", "*/" + library], stdout=subprocess.PIPE, text=True, check=True).stdout
        owners[library] = {line.split(":")[0] for line in found.splitlines()}
    lacking = {library: names for library, names in owners.items() if not names & (packages | IN_BASE)}
    assert not lacking, f"the image lacks {lacking}"
    assert packages <= set().union(*owners.values()), f"nobody needs {packages - set().union(*owners.values())}"


def test_files_that_a_node_is_given_are_in_the_image():
    with Image() as image:
        for arguments, parts in ((), {"guest", "mete-hook"}), (("--simulated",), {"guest", "mete-hook", "sim"}):
            place = tempfile.mkdtemp(prefix="mete-")
            try:
                for name in "node", "run":
                    os.mkdir(f"{place}/{name}")
                subprocess.run([SOURCE + "/deploy/install-on-node", *arguments], check=True, env=dict(
                    os.environ, METE_INSTALLED=image.at("lib/mete"), METE_ON_NODE=place + "/node", METE_PLACE=place + "/run", METE_SIM_DIR=place + "/sim"))
                current = place + "/node/current"
                assert set(os.listdir(current)) == parts, os.listdir(current)
                assert os.access(current + "/mete-hook", os.X_OK) and os.path.exists(current + "/guest/ld.so.preload")
                assert glob.glob(current + "/guest/*/libmete.so")
                assert "--simulated" not in arguments or os.path.exists(current + "/sim/lib/libcuda.so.1")
            finally:
                shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    run(globals())
