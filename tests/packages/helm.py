#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Helm for tests: the machine's, or one of Go's proxy in the user's cache. Run as a program, it builds that and prints where it is (once: 3 minutes
on two cores, 90 MB of Go modules)."""
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(HERE, "..", "system"))
from runner import Skipped  # noqa: E402
import needed  # noqa: E402
import registries  # noqa: E402

VERSION = "v3.21.4"
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "mete")
OWN = os.path.join(CACHE, "helm-" + VERSION)
KUBERNETES = "1.36.0"  # for which charts are rendered: no cluster is asked


def build():
    with registries.made_once(OWN):
        if not os.path.exists(OWN + "/helm"):
            shutil.rmtree(OWN + ".building", ignore_errors=True)
            needed.fetch("go-proxy", "helm", lambda: registries.run(
                ["env", f"GOBIN={OWN}.building", "CGO_ENABLED=0", "GOFLAGS=", "go", "install", "-trimpath", "-ldflags", "-s -w",
                 "helm.sh/helm/v3/cmd/helm@" + VERSION], cwd="/", timeout=3000))
            os.rename(OWN + ".building", OWN)
    return OWN + "/helm"


@functools.cache
def helm():
    """Where it is. `make soak` builds one where there is none."""
    there = shutil.which("helm")
    if there and re.match(r"v[34]\.", subprocess.run([there, "version", "--template", "{{.Version}}"], text=True, capture_output=True).stdout):
        return there
    if os.path.exists(OWN + "/helm"):
        return OWN + "/helm"
    if not os.environ.get("METE_SOAK"):
        raise Skipped("there is no helm; `tests/packages/helm.py` builds one for tests, once")
    try:
        return build()
    except registries.Unavailable as error:
        raise Skipped(str(error)) from None


def run_helm(*words):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HELM_", "KUBE"))}
    return subprocess.run([helm(), *words], env=environment, text=True, stdin=subprocess.DEVNULL, capture_output=True)


# A template's own functions are the YAML parser of these tests: Debian's python3 has none.
LISTS = """{{- range $path, $text := .Files.Glob "files/*" }}
{{- range splitList "\\n---\\n" (printf "\\n%s" (toString $text)) }}
---
{{ dict "path" $path "is" (fromYaml .) | toJson }}
{{- end }}{{- end }}
"""


def documents(*texts):
    """These texts of YAML as Python's objects: a list of documents for each."""
    with tempfile.TemporaryDirectory(prefix="mete-") as place:
        for folder in ("files", "templates"):
            os.mkdir(f"{place}/{folder}")
        for name, text in [("Chart.yaml", "apiVersion: v2\nname: parser\nversion: 0.0.1\n"), ("templates/all.yaml", LISTS),
                           *((f"files/{index:03}", text) for index, text in enumerate(texts))]:
            with open(f"{place}/{name}", "w") as file:
                file.write(text)
        done = run_helm("template", "parser", place)
        assert done.returncode == 0, done.stderr
    found = [[] for _ in texts]
    for line in re.findall(r"^{.*}$", done.stdout, re.M):
        row = json.loads(line)
        assert "Error" not in row["is"], row
        if row["is"]:
            found[int(row["path"][-3:])].append(row["is"])
    return found


if __name__ == "__main__":
    try:
        print(build())
    except registries.Unavailable as error:
        sys.exit(str(error))
