#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""debian/ without building it: each file that meson installs is in one package or named as left out, and numbers and packages are those of the rest of
the tree. tests/packages/test_debian_install.py builds them.

    TEST.py BUILD SOURCE"""
import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys

BUILD, ROOT = (os.path.abspath(path) for path in sys.argv[1:3])
sys.path.insert(0, os.path.join(ROOT, "tests", "system"))
from runner import Skipped, run  # noqa: E402

PACKAGES = ("mete", "libmete", "mete-sim")


def text(path):
    with open(os.path.join(ROOT, path)) as file:
        return file.read()


def rows(path):
    return [line.split() for line in text("debian/" + path).splitlines() if line and not line.startswith("#")]


def installed():
    """The files that `meson install` puts below the prefix; of tools/install-libraries the folders."""
    listed = json.loads(subprocess.run(["meson", "introspect", "--installed", BUILD], stdout=subprocess.PIPE, text=True, check=True).stdout)
    prefix = next(option["value"] for option in json.loads(subprocess.run(
        ["meson", "introspect", "--buildoptions", BUILD], stdout=subprocess.PIPE, text=True, check=True).stdout) if option["name"] == "prefix")
    files = {path.removeprefix(prefix + "/") for path in listed.values()}
    files |= {"lib/mete/" + folder for folder in re.findall(r'"?\$to/(\w+)/', text("tools/install-libraries"))}
    return files


def covers(pattern, path):
    return fnmatch.fnmatch("usr/" + path, pattern) or ("usr/" + path).startswith(pattern + "/")


def test_each_file_is_in_one_package_or_left_out():
    files = installed() | {"lib/mete/examples"}
    assert {"bin/mete", "lib/mete/guest", "lib/mete/sim", "share/man/man1/mete-run.1"} <= files, files
    lists = {name: [words[0] for words in rows(name + ".install")] for name in PACKAGES}
    lists["left out"] = [words[0] for words in rows("not-installed")]
    moved = re.search(r"^\tmv debian/tmp/usr/(\S+) debian/mete\.meted\.service", text("debian/rules"), re.M)[1]
    for path in files - {moved}:
        holders = [name for name, patterns in lists.items() for pattern in patterns if covers(pattern, path)]
        assert len(holders) == 1, f"{path} is in {holders or 'no list of debian/'}"
    for name, patterns in lists.items():
        for pattern in patterns:
            assert any(covers(pattern, path) for path in files), f"{name}: {pattern} is not installed"
    assert moved in files


def test_the_examples_are_those_of_the_image():
    packaged = re.search(r"^examples = (.*)$", text("debian/rules"), re.M)[1].split()
    image = re.search(r"^\tcp (.*) /installed", text("deploy/Containerfile"), re.M)[1].split()
    assert packaged == image, (packaged, image)


def test_the_image_has_the_libraries_that_its_programs_link():
    """By their own names: what comes along with another library goes when that one needs it no more."""
    if not shutil.which("dpkg") or "\nVERSION_CODENAME=bookworm\n" not in "\n" + open("/etc/os-release").read():
        raise Skipped("packages have the image's names on Debian 12 (bookworm) alone; run it there")
    wanted = set()
    for program in ("cli/mete", "node/meted", "plugin/libmete-plugin.so", "page/libmete-page.so"):
        linked = subprocess.run(["readelf", "-d", os.path.join(BUILD, program)], stdout=subprocess.PIPE, text=True, check=True).stdout
        names = re.findall(r"\(NEEDED\).*\[(.*)\]", linked)
        assert names, program
        for name in names:
            owners = subprocess.run(["dpkg", "-S", "*/" + name], stdout=subprocess.PIPE, text=True, check=True).stdout
            wanted |= {line.split(":")[0] for line in owners.splitlines()}
    given = set(re.search(r"apt-get install .*--no-install-recommends \\\n\t(lib.*) && \\$", text("deploy/Containerfile"), re.M)[1].split())
    wanted = {name for name in wanted if not name.startswith("libc6")}  # of which a machine may have another architecture's, too
    assert "libgnutls30" in wanted and wanted == given, wanted ^ given


def test_the_version_is_that_of_the_build():
    version = re.search(r"^\tversion: '(.*)'", text("meson.build"), re.M)[1]
    assert text("debian/changelog").startswith(f"mete ({version}) "), text("debian/changelog").splitlines()[0]


def test_building_needs_the_packages_that_tools_setup_installs():
    control = text("debian/control")
    taken = {word.split()[0].rstrip(",").removesuffix(":any") for word in re.search(r"^Build-Depends:\n((?: .*\n)+)", control, re.M)[1].splitlines()}
    packages = set(re.search(r"^packages='([^']*)'", text("tools/setup"), re.M)[1].split())
    assert taken - {"debhelper-compat"} == packages - {"gcc", "libc6-dev", "python3-venv"}, taken ^ packages


def test_each_package_describes_itself_and_purge_removes_its_files():
    paragraphs = dict(re.findall(r"^Package: (\S+)\n((?:.+\n)+)", text("debian/control"), re.M))
    assert tuple(paragraphs) == PACKAGES
    for name, paragraph in paragraphs.items():
        assert re.search(r"^Description: .{20,60}$", paragraph, re.M) and "${shlibs:Depends}" in paragraph, name
    for name, left in ("mete", ["/run/mete", "/etc/mete/meted.yaml"]), ("mete-sim", ["/dev/shm/mete-sim-"]):
        script = text(f"debian/{name}.postrm")
        assert "#DEBHELPER#" in script and all(path in script for path in left), name


if __name__ == "__main__":
    run(globals())
