# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of a person's first hour: a terminal, programs that stay, a copy of the tree."""
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import termios

from mete import *

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
METE = os.path.join(BUILD, "cli", "mete")
WAITING = ("sh", "-c", "echo here; cat >/dev/null")
LONG = "a-namespace-of-some-length/a-deployment-7cd5f66b9-xk2lp/a-container"


def in_terminal(node, *words, columns=80, lines=40, status=0, **more):
    """The output of `mete WORDS` on a terminal of that size."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    process = subprocess.Popen([METE, *words], env=dict(dict(node.environment, TERM="xterm"), **more), stdin=follower, stdout=follower,
                               stderr=subprocess.STDOUT, start_new_session=True)
    os.close(follower)
    said = b""
    while True:
        try:
            data = os.read(leader, 65536)
        except OSError:
            break
        if not data:
            break
        said += data
    os.close(leader)
    assert process.wait(timeout=240) == status, said
    return said.decode().replace("\r\n", "\n")


class Terminal:
    """A terminal of that size (tmux) in which a shell's command runs."""

    def __init__(self, node, command, columns=120, lines=40, **environment):
        self.socket = os.path.join(node.place, f"tmux-{len(os.listdir(node.place))}")
        self.environment = dict(dict(node.environment, LC_ALL="C.UTF-8", TERM="xterm-256color"), **environment)
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(lines), "sh", "-c", command)

    def tmux(self, *words):
        return subprocess.run(["tmux", "-S", self.socket, *words], env=self.environment, text=True, capture_output=True, check=True).stdout

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["tmux", "-S", self.socket, "kill-server"], env=self.environment, capture_output=True)

    def text(self, *how):
        return self.tmux("capture-pane", "-p", *how)

    def press(self, *names):
        self.tmux("send-keys", *names)

    def type(self, text):
        self.tmux("send-keys", "-l", text)

    def resize(self, columns, lines):
        self.tmux("resize-window", "-x", str(columns), "-y", str(lines))

    def wait(self, *patterns, without=None):
        """The screen once all of that is on it, and nothing of what it shall be without."""
        last = [""]

        def there():
            last[0] = self.text()
            return all(re.search(pattern, last[0], re.M) for pattern in patterns) and not (without and re.search(without, last[0], re.M)) and last[0]
        return until(there, lambda: f"{patterns} without {without}:\n{last[0]}")


def plain(text):
    return re.sub(r"\033\[[0-9;]*[mKHJ]", "", text)


def running(node, *options, program=WAITING):
    process = node.start("run", *options, "--", *program)
    assert process.stdout.readline() == "here\n"
    return process


class At:
    """A tenant whose program has a context, and goes on until it is told to end."""

    def __init__(self, node, *options):
        self.process = node.start("run", *options, "--", workload("steady"), "stdin=1", "seconds=600", "report_ms=3600000", "kernel_us=5000")
        self.process.stdout.readline()


def cell(table, row, heading):
    """The text of a column of the line that holds `row`, found by where the heading ends or begins."""
    lines = table.splitlines()
    [at] = [i for i, line in enumerate(lines) if row in line]
    head = next(line for line in reversed(lines[:at]) if heading in line)
    begin = head.index(heading)
    words = [(match.start(), match.end(), match[0]) for match in re.finditer(r"\S+(?: \S+)*", lines[at])]
    return next(text for first, last, text in words if first == begin or last == begin + len(heading))


def manual(verb):
    return subprocess.run([os.path.join(BUILD, "cli", "manual"), "page", verb], text=True, capture_output=True, check=True).stdout


def entries(text):
    """The names that a part of a man page explains, each with its meaning."""
    return dict(re.findall(r"^\.TP\n\.B (.+)\n(.+)$", text, re.M))


class Copy:
    """The tree as it is, with this build for build/plain, where `make` may write."""

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="mete-tree-")
        for name in os.listdir(ROOT):
            if name not in ("build", ".git"):
                os.symlink(os.path.join(ROOT, name), os.path.join(self.folder, name))
        os.mkdir(os.path.join(self.folder, "build"))
        os.symlink(BUILD, os.path.join(self.folder, "build", "plain"))
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder)

    def run(self, *words, **environment):
        return subprocess.run(words, cwd=self.folder, env=dict(os.environ, **environment), text=True, capture_output=True, stdin=subprocess.DEVNULL)


def below(folder):
    return sorted(os.path.join(at, name) for at, folders, files in os.walk(folder) for name in folders + files)
