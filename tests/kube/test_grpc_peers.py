#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real gRPC implementations against kube/grpc.h, both ways: test_grpc_peers.py LANGUAGE FOLDER HOST CALLER.
LANGUAGE is go, js or python: the peer of tests/kube/peers/LANGUAGE is built in FOLDER from its registry, at the
versions that its files pin. Skipped (77), with the reason, where that cannot be done."""

import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "system"))
from runner import needed, require_all, skip  # noqa: E402
import registries  # noqa: E402

# The findings that each peer's client prints, in their order.
FOUND = ["echo", "empty", "4 MiB", "too large", "refused", "unknown", "big", "deadline", "cancel", "parallel", "count",
         "latest"]
FOUND_BY = {"go": ["devices", "allocated", "pods", "pods", "pods", "authority"], "js": [], "python": []}


def fetch(need, what, action):
    try:
        needed.fetch(need, what, action)
    except registries.Unavailable as why:
        skip(why)


def fresh(folder, language, names):
    """A copy of the peer in the folder; whether it is there already, as it is now."""
    source = os.path.join(HERE, "peers", language)
    wanted = {name: open(os.path.join(source, name), "rb").read() for name in names}
    stamp = os.path.join(folder, "built")
    try:
        same = all(open(os.path.join(folder, name), "rb").read() == text for name, text in wanted.items())
    except OSError:
        same = False
    if same and os.path.exists(stamp):
        return True
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    for name, text in wanted.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(text)
    return False


def build(language, folder):
    """The command that runs the peer."""
    if language == "go":
        command = [os.path.join(folder, "peer")]
        if not fresh(folder, "go", ["go.mod", "go.sum", "main.go"]):
            require_all("go")
            fetch("go-proxy", "grpc-go", lambda: registries.run(["go", "list", "-deps", "."], 800, cwd=folder))
            subprocess.run(["go", "build", "-o", "peer", "."], check=True, env=registries.environment(), cwd=folder)
    elif language == "js":
        command = ["node", os.path.join(folder, "peer.js")]
        if not fresh(folder, "js", ["package.json", "package-lock.json", "peer.js"]):
            fetch("npm", "grpc-js", lambda: registries.run(["npm", "ci", "--no-audit", "--no-fund"], 800, cwd=folder))
    else:
        fresh(folder, "python", ["requirements.txt", "peer.py"])
        with open(os.path.join(folder, "requirements.txt")) as file:
            python = registries.kept_environment("grpcio", ["--only-binary", ":all:", *file.read().split()], lambda make: fetch("pypi", "grpcio", make))
        command = [python, os.path.join(folder, "peer.py")]
    open(os.path.join(folder, "built"), "w").close()
    return command


class Process:
    """A peer that prints text lines, and is told text lines."""

    def __init__(self, *command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        encoding="utf-8", env=dict(os.environ, GRPC_VERBOSITY="NONE"))
        self.said = []

    def line(self):
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"{self.process.args} said no more after {self.said[-5:]}")
        self.said.append(line.rstrip("\n"))
        return self.said[-1]

    def hear(self, wanted):
        got = self.line()
        assert got == wanted, f"{got!r}, wanted {wanted!r}"

    def find(self, wanted):
        """Reads on until it has printed that; reports of other calls may come in between."""
        while wanted not in self.said:
            self.line()

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def end(self):
        """Closes its input; its last lines."""
        self.process.stdin.close()
        rest = self.process.stdout.read().splitlines()
        status = self.process.wait()
        assert status == 0, f"{self.process.args} ended with {status}"
        self.said += rest
        return rest

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def their_client(language, peer, host, socket):
    """Their client, our server."""
    ours = Process(host, socket)
    ours.hear("ready")
    theirs = Process(*peer, "client", socket)
    for name in FOUND + FOUND_BY[language]:
        theirs.hear("ok " + name)
    theirs.hear("restart it")
    # Three waited: one's deadline has passed (on a busy machine, before it was sent), one was cancelled, one is
    # told that we close.
    rest = ours.end()
    called = [line for line in rest if line.startswith("called ")]
    assert rest[-1] == "closed" and rest.count("gone") == len(called) == len(rest) - 1 - rest.count("gone"), rest
    assert set(called) - {"called deadline"} == {"called cancel", "called restart"}, rest
    assert not os.path.exists(socket)
    theirs.hear("ok goodbye")
    ours = Process(host, socket)
    ours.hear("ready")
    theirs.tell("go on")
    theirs.hear("ok back")
    theirs.hear("done")
    theirs.end()
    ours.end()


def answer(ours, name, status, part, size=None):
    got = ours.line().split(" ", 4)
    assert got[0] == name and int(got[1]) == status and part in got[4], (got, name, status, part)
    assert size is None or int(got[2]) == size, (got[:4], size)


def their_server(peer, caller, socket):
    """Their server, our client."""
    ours = Process(caller, socket)
    ours.tell("ask early /t/Echo 0 x")
    answer(ours, "early", 14, "cannot connect to " + socket)
    theirs = Process(*peer, "server", socket)
    theirs.hear("ready")
    ours.tell("ask echo /t/Echo 60000 hello")
    answer(ours, "echo", 0, "hello", 5)
    ours.tell("ask empty /t/Echo 0 ")
    answer(ours, "empty", 0, "", 0)
    ours.tell("ask large /t/Echo 0 #4194304")
    answer(ours, "large", 0, "", 4194304)
    ours.tell("ask refused /t/Refuse 0 9 100 % für 日本 😀")
    answer(ours, "refused", 9, "100 % für 日本 😀")
    ours.tell("ask unknown /t/Nowhere 0 x")
    answer(ours, "unknown", 12, "")
    ours.tell("ask big /t/Big 0 16777216")
    answer(ours, "big", 0, "", 16777216)
    ours.tell("ask toobig /t/Big 0 33554433")
    answer(ours, "toobig", 8, "too large")
    # On a busy machine the deadline may pass before the call is sent; either side may be the first to report it.
    for within_ms in (100, 1000, 10000):
        ours.tell(f"ask late /t/Wait {within_ms} late")
        answer(ours, "late", 4, "eadline")
        ours.tell("ask left /t/Wait 0 left")
        theirs.find("called left")
        ours.tell("forget left")
        theirs.find("gone left")
        if "called late" in theirs.said:
            theirs.find("gone late")
            break
        theirs.said.clear()
    for i in range(1000):
        ours.tell(f"ask {i} /t/Echo 0 {i}")
    got = sorted(ours.line() for i in range(1000))
    assert got == sorted(f"{i} 0 {len(str(i))} {sum(str(i).encode())} {i}" for i in range(1000)), got[:3]
    # It dies in the middle of a call, and comes back.
    ours.tell("ask died /t/Wait 0 died")
    theirs.find("called died")
    theirs.kill()
    answer(ours, "died", 14, "")
    if os.path.exists(socket):
        os.unlink(socket)
    theirs = Process(*peer, "server", socket)
    theirs.hear("ready")
    ours.tell("ask back /t/Echo 0 back")
    answer(ours, "back", 0, "back")
    theirs.tell("stop")
    theirs.end()
    ours.tell("ask gone /t/Echo 0 gone")
    answer(ours, "gone", 14, "cannot connect")
    ours.end()


def main(language, folder, host, caller):
    folder = os.path.abspath(folder)
    peer = build(language, folder)
    place = tempfile.mkdtemp(prefix="mete-grpc-")
    try:
        their_client(language, peer, host, os.path.join(place, "ours"))
        print("their client: as wanted")
        their_server(peer, caller, os.path.join(place, "theirs"))
        print("their server: as wanted")
    finally:
        shutil.rmtree(place)


if __name__ == "__main__":
    main(*sys.argv[1:])
