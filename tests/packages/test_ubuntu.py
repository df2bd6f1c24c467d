#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether Ubuntu 24.04 has the dependencies of packages built on Debian 12: the names of its libraries, and a glibc that is new enough. Its own apt
would say the same; here this machine's asks Ubuntu's index of packages, with lists of its own, and installs nothing.

    TEST.py BUILD SOURCE

METE_UBUNTU_MIRROR: another mirror. METE_UBUNTU_KEYRING: Ubuntu's keys, if not where the package ubuntu-keyring has them."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

BUILD, ROOT = (os.path.abspath(path) for path in sys.argv[1:3])
sys.path.insert(0, os.path.join(ROOT, "tests", "system"))
from runner import Skipped, run  # noqa: E402

MIRROR = os.environ.get("METE_UBUNTU_MIRROR", "http://archive.ubuntu.com/ubuntu")
KEYRING = os.environ.get("METE_UBUNTU_KEYRING", "/usr/share/keyrings/ubuntu-archive-keyring.gpg")
# The files that debian/*.install puts into each package, as they are in the build.
PARTS = {"mete": ["cli/mete", "node/meted", "page/libmete-page.so"], "libmete": ["guest/*/libmete.so"], "mete-sim": ["sim/lib/*.so.1", "examples/hoarder"]}


def say(*words, **more):
    return subprocess.run(words, text=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=600, **more)


def depends(place, parts):
    """The answer of dpkg-shlibdeps, as for debian/control's ${shlibs:Depends}."""
    files = [os.path.realpath(path) for part in parts for path in glob.glob(os.path.join(BUILD, part))]
    assert len(files) >= len(parts), files
    done = say("dpkg-shlibdeps", "--ignore-missing-info", "-O", *("-e" + path for path in files), cwd=place)
    assert done.returncode == 0 and "shlibs:Depends=" in done.stdout, done
    return done.stdout.strip().split("=", 1)[1]


def make(place, name, needs):
    """An empty package that asks for that."""
    os.makedirs(f"{place}/{name}/DEBIAN")
    with open(f"{place}/{name}/DEBIAN/control", "w") as file:
        file.write(f"Package: {name}\nVersion: 0~test\nArchitecture: amd64\nMaintainer: test <test@example.org>\nDepends: {needs}\nDescription: test\n")
    assert say("dpkg-deb", "-b", f"{place}/{name}", f"{place}/{name}.deb").returncode == 0
    return f"{place}/{name}.deb"


class Ubuntu:
    """apt, as if this were a machine with nothing installed and Ubuntu 24.04's sources."""

    def __init__(self, place):
        for name in "lists/partial", "archives/partial", "parts", "preferences":
            os.makedirs(f"{place}/apt/{name}")
        open(place + "/apt/status", "w").close()
        with open(place + "/apt/sources.list", "w") as file:
            file.write(f"deb [arch=amd64 signed-by={KEYRING}] {MIRROR} noble main universe\n")
        settings = {"Dir::State": "apt", "Dir::State::status": "apt/status", "Dir::Cache": "apt", "Dir::Etc::sourcelist": "apt/sources.list", "Dir::Etc::sourceparts": "apt/parts"}
        self.options = [word for key, value in settings.items() for word in ("-o", f"{key}={place}/{value}")] + ["-o", "APT::Sandbox::User=root", "-o", "APT::Architecture=amd64"]

    def apt(self, *words):
        return say("apt-get", "-q", *self.options, *words)

    def installs(self, *packages):
        return self.apt("install", "--simulate", "--no-install-recommends", *packages)


def test_ubuntu_has_the_packages_dependencies():
    for program in "apt-get", "dpkg-shlibdeps":
        if not shutil.which(program):
            raise Skipped(f"there is no {program}; `apt-get install dpkg-dev` on a Debian")
    if not os.path.exists(KEYRING):
        raise Skipped(f"there is no {KEYRING}; install ubuntu-keyring (Debian 13 has it), or name the file in METE_UBUNTU_KEYRING")
    with tempfile.TemporaryDirectory(prefix="mete-ubuntu-") as place:
        os.makedirs(place + "/debian")
        with open(place + "/debian/control", "w") as file:  # dpkg-shlibdeps wants one
            file.write("Source: mete\n\nPackage: mete\nArchitecture: any\n")
        ubuntu = Ubuntu(place)
        done = ubuntu.apt("update")
        if done.returncode or "Failed to fetch" in done.stdout + done.stderr:
            raise Skipped(f"Ubuntu's index of packages cannot be fetched: {(done.stderr.strip().splitlines() or ['apt-get failed'])[-1]}; METE_UBUNTU_MIRROR names another mirror")
        wanted = {name: depends(place, parts) for name, parts in PARTS.items()}
        done = ubuntu.installs(*(make(place, name, needs) for name, needs in wanted.items()))
        assert done.returncode == 0, (wanted, done.stdout, done.stderr)
        assert all(re.search(rf"^Inst {name} \(0~test", done.stdout, re.M) for name in PARTS), done.stdout
        print("\n".join(f"{name}: {needs}" for name, needs in wanted.items()), flush=True)
        # apt would have said so.
        refused = ubuntu.installs(make(place, "newer", "libc6 (>= 2.40)"))
        assert refused.returncode != 0 and "libc6" in refused.stdout, refused


if __name__ == "__main__":
    run(globals(), sys.argv[3:])
