#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The output of tools/krew: an archive, and a manifest by which krew finds and installs it.

    TEST.py BUILD SOURCE"""
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

BUILD, ROOT = (os.path.abspath(path) for path in sys.argv[1:3])
sys.path.insert(0, os.path.join(ROOT, "tests", "system"))
from runner import Skipped, run, soak  # noqa: E402
import needed  # noqa: E402
import registries  # noqa: E402

VERSION = re.search(r"^\tversion: '(.*?)'", open(ROOT + "/meson.build").read(), re.M)[1]
URL = f"https://example.org/kubectl-mete-{VERSION}.tar.gz"
KREW = "v0.4.3"
OWN = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "mete", "krew-" + KREW)


def make(folder, url=URL, **more):
    return subprocess.run([ROOT + "/tools/krew", url, folder], text=True, capture_output=True, **more)


class Made:
    """A folder with the archive and the manifest."""

    def __enter__(self):
        self.place = tempfile.mkdtemp(prefix="mete-")
        done = make(self.place + "/out")
        assert done.returncode == 0, done
        self.archive, self.manifest = f"{self.place}/out/kubectl-mete-{VERSION}.tar.gz", self.place + "/out/mete.yaml"
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.place)

    def text(self):
        return open(self.manifest).read()


def plugin(path, folder):
    """The program that kubectl runs: found in PATH by its name, with a kubectl that prints the words that it is given."""
    with open(folder + "/kubectl", "w") as file:
        file.write('#!/bin/sh\ncase "$*" in config*) ;; *) echo "kubectl $*" ;; esac\n')
    os.chmod(folder + "/kubectl", 0o755)
    return lambda *words: subprocess.run(["kubectl-mete", *words], text=True, capture_output=True, cwd="/", env={"PATH": f"{path}:{folder}:/usr/bin:/bin"})


def is_that_plugin(mete):
    assert mete("version").stdout == VERSION + "\n", mete("version")
    assert mete("--help").stdout.startswith("Usage: kubectl mete top"), mete("--help")
    done = mete("set", "mine", "weight=200", "-n", "ns")
    assert done.returncode == 0 and done.stdout == "kubectl annotate pod -n ns --overwrite mine mete.dev/weight=200\n", done


def test_the_manifest_is_one_by_krews_rules():
    with Made() as made:
        text = made.text()
        for line in ("apiVersion: krew.googlecontainertools.github.com/v1alpha2", "kind: Plugin", "  name: mete", f"  version: v{VERSION}", f"    uri: {URL}",
                     "    bin: kubectl-mete"):
            assert f"{line}\n" in text, (line, text)
        assert re.fullmatch(r"\d+\.\d+\.\d+", VERSION) and os.path.basename(made.manifest) == "mete.yaml", "the file has the plugin's name"
        assert set(re.findall(r"\{key: (\w+),", text)) == {"os"} and "values: [linux, darwin]" in text, "by the rules a selector knows os and arch"
        assert 10 < len(re.search(r"^  shortDescription: (.*)$", text, re.M)[1]) <= 50 and re.search(r"^  description: \|\n    \S", text, re.M), text
        sum = re.search(r"^    sha256: ([a-f0-9]{64})$", text, re.M)[1]
        assert sum == hashlib.sha256(open(made.archive, "rb").read()).hexdigest()


def test_the_same_source_gives_the_same_archive_wherever_it_is_made():
    with Made() as made:
        done = make("again", cwd=made.place, umask=0o077, env=dict(os.environ, TZ="Pacific/Auckland"))
        assert done.returncode == 0, done
        for name in os.listdir(made.place + "/out"):
            assert open(f"{made.place}/out/{name}", "rb").read() == open(f"{made.place}/again/{name}", "rb").read(), name


def test_the_archive_has_the_manifests_files_and_they_run():
    with Made() as made:
        with tarfile.open(made.archive) as archive:
            assert {one.name for one in archive} == set(re.findall(r"\{from: ([\w.-]+), to: \.\}", made.text()))
            archive.extractall(made.place + "/store")
        # krew links a plugin's program under the plugin's name.
        os.mkdir(made.place + "/bin")
        os.symlink("../store/kubectl-mete", made.place + "/bin/kubectl-mete")
        os.mkdir(made.place + "/tools")
        is_that_plugin(plugin(made.place + "/bin", made.place + "/tools"))


def test_a_wrong_address_is_refused_and_nothing_is_made():
    with tempfile.TemporaryDirectory() as place:
        for url in ("", "http://example.org/a.tar.gz", "https://example.org/a.zip", "https://example.org/a b.tar.gz", "https://example.org/#a.tar.gz", "https://.tar.gz\n"):
            done = make(place + "/out", url)
            assert done.returncode == 2 and done.stderr == f"tools/krew: '{url}': expected the address of a .tar.gz: https://HOST/PATH.tar.gz\n", done
        assert os.listdir(place) == []


def krew():
    """krew's own programs, built once: half a minute."""
    with registries.made_once(OWN):
        if not os.path.exists(OWN):
            shutil.rmtree(OWN + ".building", ignore_errors=True)
            programs = [f"sigs.k8s.io/krew/cmd/{name}@{KREW}" for name in ("krew", "validate-krew-manifest")]
            try:
                needed.fetch("go-proxy", "krew", lambda: registries.run(
                    ["env", f"GOBIN={OWN}.building", "CGO_ENABLED=0", "GOFLAGS=", "go", "install", "-trimpath", "-ldflags", "-s -w", *programs], cwd="/", timeout=3000))
            except registries.Unavailable as error:
                raise Skipped(str(error)) from None
            os.rename(OWN + ".building", OWN)
    return OWN


@soak
def test_krew_itself_takes_the_manifest_and_installs_the_archive():
    programs = krew()
    with Made() as made:
        environment = dict(os.environ, KREW_ROOT=made.place + "/krew", KREW_NO_UPGRADE_CHECK="1")

        def say(program, *words):
            return subprocess.run([f"{programs}/{program}", *words], env=environment, text=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=240)

        done = say("validate-krew-manifest", "-manifest", made.manifest, "-skip-install=true")
        assert done.returncode == 0, done.stderr
        done = say("krew", "install", "--manifest=" + made.manifest, "--archive=" + made.archive)
        assert done.returncode == 0 and "Installed plugin: mete" in done.stderr, done
        is_that_plugin(plugin(made.place + "/krew/bin", made.place))
        assert os.path.exists(f"{made.place}/krew/store/mete/v{VERSION}/rbac.yaml")
        # An archive that is not the manifest's is not installed.
        environment["KREW_ROOT"] = made.place + "/another"
        with open(made.archive, "ab") as file:
            file.write(b"x")
        done = say("krew", "install", "--manifest=" + made.manifest, "--archive=" + made.archive)
        assert done.returncode != 0 and "checksum" in done.stderr, done


if __name__ == "__main__":
    run(globals(), sys.argv[3:])
