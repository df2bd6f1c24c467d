#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Debian's packages as a person gets them: built by tools/deb, installed in a Debian with nothing in it, used, and purged.

    TEST.py BUILD SOURCE

For Debian 12; METE_SUITES=bookworm,trixie: for these. METE_DEBS: a folder with SUITE/*.deb that are taken instead of building any."""
import glob
import os
import re
import shutil
import subprocess
import sys

BUILD, ROOT = (os.path.abspath(path) for path in sys.argv[1:3])
sys.path.insert(0, os.path.join(ROOT, "tests", "system"))
from runner import Skipped, require, run  # noqa: E402

PLACE = os.path.join(ROOT, "build", "deb")
SUITES = os.environ.get("METE_SUITES", "bookworm").split(",")

# Files that apt and dpkg write of themselves, whatever was installed.
THEIRS = re.compile(r"/(var/lib/dpkg|var/lib/apt|var/cache|var/log)/|/etc/ld\.so\.cache$|/(tmp|root)$")

# $1: a folder with packages. What it prints between marks is read by the test.
SESSION = r"""
set -eu
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive HOME=/root
files() { find / -xdev \( -path /proc -o -path /dev -o -path /packages \) -prune -o -print; find /dev/shm /run; }
mark() { echo "== $1"; }
apt-get update -qq
touch /tmp/before /tmp/after
files | sort >/tmp/before
mark install
apt-get install -y -qq --no-install-recommends /packages/mete_*.deb /packages/libmete_*.deb /packages/mete-sim_*.deb 2>&1
mark verify
dpkg --verify mete libmete mete-sim
mark unit
find /lib/systemd/system /usr/lib/systemd/system -name meted.service | head -n 1
find /etc/systemd -name 'meted*'
mark exec
grep ^ExecStart= "$(find /lib/systemd/system /usr/lib/systemd/system -name meted.service | head -n 1)"
mark run
export LD_LIBRARY_PATH=/usr/lib/mete/sim/lib METE_SIM_PATTERN=on
mete run --memory 256M --report -- /usr/lib/mete/examples/hoarder 2>&1
mark sim
mete sim
mark doctor
mete doctor || :
mark version
mete --version
mark page
zcat -f /usr/share/man/man1/mete-run.1* | grep -c .
mark end
for i in $(seq 600); do pgrep -x meted >/dev/null 2>&1 || ls /proc/[0-9]*/exe 2>/dev/null | xargs -n 1 readlink 2>/dev/null | grep -q /meted || break; sleep 0.2; done
unset LD_LIBRARY_PATH
rm -rf /tmp/mete-0 # of a user, as /run/user/0 would be
mkdir -p /etc/mete /run/mete && echo 'version: v1' >/etc/mete/meted.yaml && touch /run/mete/journal # as an administrator and the machine's meted would
mark purge
apt-get purge -y -qq mete libmete mete-sim 2>&1
apt-get autoremove -y -qq --purge 2>&1
mark left
files | sort >/tmp/after
comm -13 /tmp/before /tmp/after
mark lost
comm -23 /tmp/before /tmp/after
mark done
"""


def packages(suite):
    """The folder of the packages for a Debian."""
    given = os.environ.get("METE_DEBS")
    if given:
        return os.path.join(given, suite)
    require("root", "namespaces")
    if not shutil.which("debootstrap", path=os.environ["PATH"] + ":/usr/sbin"):
        raise Skipped("there is no debootstrap; `tools/setup image` installs it")
    done = subprocess.run([os.path.join(ROOT, "tools", "deb"), suite], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    return os.path.join(PLACE, suite)


def session(suite, debs):
    """{mark: lines} of what happens in a fresh root."""
    root = f"{PLACE}/{suite}.try-{os.getpid()}"
    subprocess.run(["cp", "-a", f"{PLACE}/{suite}.base", root], check=True)
    try:
        shutil.copytree(debs, root + "/packages")
        shutil.copy("/etc/resolv.conf", root + "/etc/resolv.conf")
        ready = 'mount -t proc proc "$0/proc"; mount --bind /dev "$0/dev"; mount -t tmpfs tmpfs "$0/dev/shm"; mount -t tmpfs tmpfs "$0/run"; exec chroot "$0" env -i sh -c "$1"'
        done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ready, root, SESSION], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    finally:
        shutil.rmtree(root)
    assert done.returncode == 0 and "== done" in done.stdout, done.stdout[-6000:]
    found, lines = {}, []
    for line in done.stdout.splitlines():
        if line.startswith("== "):
            lines = found.setdefault(line[3:], [])
        else:
            lines.append(line)
    return found


def judge(suite):
    debs = packages(suite)
    names = sorted(os.path.basename(path).split("_")[0] for path in glob.glob(debs + "/*.deb") if "dbgsym" not in path)
    assert names == ["libmete", "mete", "mete-sim"], names
    said = session(suite, debs)
    assert said["verify"] == [], said["verify"]
    assert len(said["unit"]) == 1 and said["unit"][0].endswith("/meted.service"), f"it is there, and enabled by nobody: {said['unit']}"
    assert said["exec"] == ["ExecStart=/usr/bin/meted --system"], said["exec"]
    ran = "\n".join(said["run"])
    assert "hoarder ok" in ran and "of 256MiB" in ran and "the limit of 256MiB is reached" in ran, ran
    assert any("simulated" in line for line in said["sim"]), said["sim"]
    version = re.search(r"^\tversion: '(.*)'", open(os.path.join(ROOT, "meson.build")).read(), re.M)[1]
    assert version in said["version"][0], said["version"]
    assert int(said["page"][0]) > 20, said["page"]
    left = [path for path in said["left"] if not THEIRS.search(path)]
    lost = [path for path in said["lost"] if not THEIRS.search(path)]
    assert not left and not lost, f"purge left {left}, and took {lost}"


def test_packages_for_debian_install_work_and_leave_nothing():
    for suite in SUITES:
        judge(suite)


if __name__ == "__main__":
    run(globals())
