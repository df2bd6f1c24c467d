# SPDX-License-Identifier: Apache-2.0
"""The content of the image that tools/image makes, which the tests' clusters run, too: it follows deploy/Containerfile."""
import json
import os
import re
import subprocess
import tempfile

from installed import ROOT

LINKED = ("bin/mete", "bin/meted", "lib/mete/libmete-plugin.so", "lib/mete/libmete-page.so")
# What `mete top` needs of a Debian: the terminals that people have, and characters beyond ASCII.
TERMINALS = [f"lib/terminfo/{name[0]}/{name}" for name in
             ("ansi", "dumb", "linux", "screen", "screen-256color", "tmux", "tmux-256color", "vt100", "vt220", "xterm", "xterm-256color")]
LOCALE = "usr/lib/locale/C.utf8"
ENVIRONMENT = ["TERMINFO=/usr/lib/terminfo", "LANG=C.UTF-8"]


def arguments():
    """{name: value} of what an engine is told for deploy/Containerfile."""
    said = subprocess.run([os.path.join(ROOT, "tools", "image-arguments")], check=True, text=True, stdout=subprocess.PIPE).stdout.split()
    return dict(word.removeprefix("--build-arg=").removeprefix("--").split("=", 1) for word in said)


def containerfile():
    text = open(os.path.join(ROOT, "deploy", "Containerfile")).read()
    return re.sub(r"\\\n\s*", " ", re.sub(r"^#.*\n", "", text, flags=re.M))


def labels(given):
    """Those of deploy/Containerfile, but for the one of its base: there is none."""
    found = re.findall(r'(org\.opencontainers\.image\.[\w.]+)="([^"]*)"', containerfile())
    return {name: given[value[1:]] if value[0] == "$" else value for name, value in found if not name.endswith(".base.name")}


def examples():
    """Programs of the walk-through that deploy/Containerfile copies."""
    return re.search(r" cp ((?:[a-z-]+ )+)/installed", containerfile())[1].split()


def fill(layer, build):
    layer.busybox()
    layer.libc()
    with tempfile.TemporaryDirectory() as place:
        subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", place], check=True, stdout=subprocess.DEVNULL)
        options = subprocess.run(["meson", "introspect", "--buildoptions", build], check=True, text=True, stdout=subprocess.PIPE).stdout
        installed = place + next(option["value"] for option in json.loads(options) if option["name"] == "prefix")
        for part in ("bin", "lib/mete"):
            layer.copy("usr/local/" + part, os.path.join(installed, part))
        for program in LINKED:
            layer.libraries(os.path.join(installed, program))
    for name in examples():
        layer.copy("usr/local/lib/mete/examples/" + name, os.path.join(build, "examples", name))
    for script in ("install-on-node", "on-node"):
        layer.copy("usr/local/bin/" + script, os.path.join(ROOT, "deploy", script))
    for path in TERMINALS:
        if os.path.exists("/" + path):
            layer.copy("usr/" + path, os.path.realpath("/" + path))
    if os.path.exists("/" + LOCALE):
        layer.copy(LOCALE, "/" + LOCALE)
