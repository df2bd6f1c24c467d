# SPDX-License-Identifier: Apache-2.0
"""Virtual environments with packages from PyPI, each made once, whoever of several programs asks for it first."""
import fcntl
import os
import re
import shutil
import subprocess

INSTALL = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1", "--timeout", "15"]
LIMIT_S = 400  # of one command


class Away(Exception):
    """The packages cannot be had; with the reason."""


def settings():
    """pip does not know the variables that OpenSSL's users know: a bundle of certificates is told to it in its own."""
    env = dict(os.environ)
    bundle = env.get("REQUESTS_CA_BUNDLE") or env.get("SSL_CERT_FILE")
    if bundle:
        env.setdefault("PIP_CERT", bundle)
    return env


def why(said):
    """pip's reason in one line: its last error; where a connection failed, what of it."""
    for pattern in (r"(certificate verify failed[^\n')]*)", r"^ERROR: (.*)$"):
        found = re.findall(pattern, said, re.M)
        if found:
            return found[-1].strip()
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1] if lines else "pip did not say why"


def step(*command):
    try:
        done = subprocess.run(command, env=settings(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        raise Away(f"{' '.join(command[1:4])} took more than {LIMIT_S} s") from None
    if done.returncode:
        raise Away(why(done.stdout))


def make(folder, python, packages, wanted_too, interpreter):
    shutil.rmtree(folder, ignore_errors=True)
    step(interpreter, "-m", "venv", folder)
    step(python, *INSTALL, *packages)
    for package in wanted_too:
        try:
            step(python, *INSTALL, "--only-binary", ":all:", package)
        except Away:
            pass  # who needs it says that it is not there


def python_with(folder, packages, wanted_too=(), interpreter="/usr/bin/python3"):
    """The interpreter of an environment in `folder` with these packages, and with those of `wanted_too` that can be had; raises Away."""
    folder = os.path.abspath(folder)
    python, stamp = os.path.join(folder, "bin", "python"), os.path.join(folder, "packages")
    wanted = "\n".join([*packages, *wanted_too])
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    with open(folder + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # who comes second finds it whole
        if not os.path.exists(stamp) or open(stamp).read() != wanted:
            make(folder, python, packages, wanted_too, interpreter)
            with open(stamp, "w") as file:
                file.write(wanted)
    return python
