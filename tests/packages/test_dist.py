#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`make dist`: the same bytes each time, all that is committed and nothing else, and a list of what is linked that is true.

    TEST.py BUILD SOURCE"""
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

BUILD, ROOT = (os.path.abspath(path) for path in sys.argv[1:3])
sys.path.insert(0, os.path.join(ROOT, "tests", "system"))
from runner import Skipped, run  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "tools"))
import sbom  # noqa: E402

GIT = ("git", "-c", "safe.directory=*", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")


class Clone:
    """The tree with a history of its own of one commit: a working tree may be in any state, or have no history at all."""

    def __enter__(self):
        self.place = tempfile.mkdtemp(prefix="mete-")
        self.tree = self.place + "/tree"
        listed = subprocess.run([*GIT, "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"], stdout=subprocess.PIPE)
        if listed.returncode:
            raise Skipped("this tree is no clone of git's; run it in one")
        for path in sorted(filter(None, set(listed.stdout.decode().split("\0")))):
            if os.path.lexists(os.path.join(ROOT, path)):
                os.makedirs(os.path.dirname(os.path.join(self.tree, path)), exist_ok=True)
                shutil.copy2(os.path.join(ROOT, path), os.path.join(self.tree, path), follow_symlinks=False)
        self.git("init", "-q")
        self.git("add", "-A", "-f")
        self.git("commit", "-q", "-m", "all", "--date=@1000000000", GIT_COMMITTER_DATE="@1000000000")
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.place)

    def git(self, *words, **environment):
        return subprocess.run([*GIT, "-C", self.tree, *words], env=dict(os.environ, **environment), check=True, text=True, stdout=subprocess.PIPE).stdout

    def dist(self, name, **environment):
        """{name: content} of what it makes."""
        folder = os.path.join(self.place, name)
        done = subprocess.run([self.tree + "/tools/dist", "--built", BUILD, "--to", folder], env=dict(os.environ, **environment), text=True, capture_output=True)
        assert done.returncode == 0, done
        self.said = done.stdout + done.stderr
        return {name: open(os.path.join(folder, name), "rb").read() for name in sorted(os.listdir(folder))}


def test_the_same_commit_has_the_same_bytes_and_all_that_is_committed():
    with Clone() as clone:
        first = clone.dist("first")
        (document, listing), (tarball, content) = sorted(first.items(), reverse=False)
        assert tarball.endswith(".tar.gz") and document.endswith(".spdx.json"), list(first)
        assert "not committed" not in clone.said
        # A file that is touched, another umask, another time zone, and something that is not committed.
        os.utime(clone.tree + "/README.md", (7, 7))
        os.chmod(clone.tree + "/README.md", 0o600)
        with open(clone.tree + "/unfinished", "w") as file:
            file.write("x")
        before = os.umask(0o077)
        try:
            second = clone.dist("second", TZ="Pacific/Auckland", LC_ALL="C", HOME="/nonexistent")
        finally:
            os.umask(before)
        assert first == second and "not committed" in clone.said
        committed = {path for path in clone.git("ls-tree", "-r", "-z", "--name-only", "HEAD").split("\0") if path}
        with tarfile.open(os.path.join(clone.place, "first", tarball)) as tar:
            entries = {entry.name.split("/", 1)[1]: entry for entry in tar}
            assert set(entries) == committed, set(entries) ^ committed
            assert {entry.mtime for entry in entries.values()} == {1000000000} and {entry.uname for entry in entries.values()} == {"root"}
            assert entries["tools/dist"].mode == 0o755 and entries["README.md"].mode == 0o644
            assert tar.extractfile(entries["Makefile"]).read() == open(clone.tree + "/Makefile", "rb").read()
        described = json.loads(listing)
        assert described["packages"][0]["checksums"] == [{"algorithm": "SHA256", "checksumValue": hashlib.sha256(content).hexdigest()}]


def described():
    return sbom.describe(BUILD, "0", 0, "a.tar.gz", "0" * 64)


def test_linked_libraries_are_listed():
    document = described()
    packages = {package["SPDXID"]: package for package in document["packages"]}
    assert len(packages) == len(document["packages"]), "two packages have the same identifier"
    related = {(row["spdxElementId"], row["relationshipType"], row["relatedSpdxElement"]) for row in document["relationships"]}
    for one, _, other in related:
        assert {one, other} <= set(packages) | {"SPDXRef-DOCUMENT"}, (one, other)
    for program, how, name in (("mete", "DYNAMIC_LINK", "ncursesw"), ("meted", "DYNAMIC_LINK", "libuv"), ("libmete-plugin.so", "DYNAMIC_LINK", "libcurl"),
                               ("mete-hook", "STATIC_LINK", "glibc"), ("libmete.so", "DYNAMIC_LINK", "glibc")):
        assert (sbom.identifier("program " + program), how, sbom.identifier(name)) in related, program
    # The guest is loaded into others' programs: nothing but the C library comes with it.
    assert {row[2] for row in related if row[0] == sbom.identifier("program libmete.so")} == {sbom.identifier("glibc")}
    for package in packages.values():
        assert package["licenseDeclared"] and package["versionInfo"], package


def test_files_with_a_notice_of_others_are_listed():
    notices = {os.path.dirname(path) for path in subprocess.run([*GIT, "-C", ROOT, "ls-files", "*NOTICE", "*COPYING*"], text=True,
                                                                stdout=subprocess.PIPE).stdout.splitlines()}
    assert notices == {folder for folder, *_ in sbom.INCLUDED}, notices


def test_a_library_without_a_licence_is_named_and_nothing_is_written():
    row = sbom.LIBRARIES.pop("libuv")
    try:
        described()
        raise AssertionError("it is described all the same")
    except SystemExit as error:
        assert "libuv: LIBRARIES has no row with its licence" in str(error), error
    finally:
        sbom.LIBRARIES["libuv"] = row


if __name__ == "__main__":
    run(globals())
