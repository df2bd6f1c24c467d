#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`mete` speaks only to a daemon of its own user (or root's), in a folder where nobody else may put one."""
import os
import socket
import stat

from mete import *

VERBS = (("run", "--", "true"), ("ps",), ("ps", "--json"), ("set", "1", "memory=1GiB"))
NOBODY = 65534


def place_of(node):
    return os.path.join(node.place, "mete")


def all_refuse(node, *words):
    for verb in VERBS:
        refused(node.mete(*verb), "mete", *words)
    # Picking needs no daemon: it chooses, and reports what it could not do.
    picked = node.mete("pick")
    assert picked.returncode == 0 and all(word in picked.stderr for word in ("nothing is reserved", *words)), picked
    doctor = node.mete("doctor")
    assert doctor.returncode == 1 and all(word in doctor.stdout for word in words), doctor


def impostor(path):
    """Listens there; returns the listener."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    listener.listen()
    listener.setblocking(False)
    return listener


def heard_nothing(listener):
    """No daemon stayed to answer it."""
    while True:
        try:
            peer = listener.accept()[0]
        except BlockingIOError:
            return
        peer.setblocking(True)
        assert peer.recv(4096) == b""
        peer.close()


def test_a_folder_that_others_may_write_to_is_refused():
    with Node() as node:
        os.mkdir(place_of(node))
        os.chmod(place_of(node), 0o777)
        with impostor(place_of(node) + "/admin.sock") as listener:
            all_refuse(node, "must be a folder of mode 0700")
            heard_nothing(listener)
        os.chmod(place_of(node), 0o700)
        os.unlink(place_of(node) + "/admin.sock")
        assert node.mete("run", "--", "true").returncode == 0


def test_a_link_in_the_folders_place_is_refused():
    with Node() as node:
        os.mkdir(node.place + "/elsewhere", 0o700)
        os.symlink(node.place + "/elsewhere", place_of(node))
        with impostor(place_of(node) + "/admin.sock") as listener:
            all_refuse(node, "must be a folder of mode 0700")
            heard_nothing(listener)
        assert os.listdir(node.place + "/elsewhere") == ["admin.sock"]


def test_a_file_in_the_folders_place_is_refused():
    with Node() as node:
        open(place_of(node), "w").close()
        all_refuse(node, "must be a folder of mode 0700")


def test_a_folder_that_somebody_else_made_is_refused():
    require("users")
    with Node() as node:
        os.mkdir(place_of(node), 0o700)
        os.chown(place_of(node), NOBODY, NOBODY)
        with impostor(place_of(node) + "/admin.sock") as listener:
            all_refuse(node, "belongs to user 0")
            advice = node.mete("doctor").stdout
            heard_nothing(listener)
        # There is no daemon of ours, of whatever version.
        assert "set XDG_RUNTIME_DIR to a folder of your own" in advice and "another version" not in advice, advice


def test_another_users_daemon_in_our_folder_is_not_spoken_to():
    require("users")
    with Node() as node:
        os.mkdir(place_of(node), 0o700)
        theirs = tempfile.mkdtemp(prefix="mete-theirs-")
        os.chown(theirs, NOBODY, NOBODY)
        bound, release = os.pipe(), os.pipe()
        pid = os.fork()
        if pid == 0:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            listener = impostor(theirs + "/admin.sock")
            os.write(bound[1], b"x")
            os.read(release[0], 1)
            try:
                heard_nothing(listener)
            except AssertionError:
                os._exit(1)
            os._exit(0)
        os.read(bound[0], 1)
        os.rename(theirs + "/admin.sock", place_of(node) + "/admin.sock")
        all_refuse(node, f"user {NOBODY} listens there")
        os.write(release[1], b"x")
        assert os.waitpid(pid, 0)[1] == 0, "it was spoken to"
        os.unlink(place_of(node) + "/admin.sock")
        os.rmdir(theirs)


def test_files_that_mete_makes_are_its_users_alone():
    with Node() as node:
        running = node.start("run", "--", "sh", "-c", "echo here; cat >/dev/null")
        assert running.stdout.readline() == "here\n"
        for folder, _, files in os.walk(place_of(node)):
            assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700, folder
            for name in files:
                assert stat.S_IMODE(os.stat(os.path.join(folder, name)).st_mode) & 0o77 == 0, name
        running.stdin.close()
        assert running.wait(timeout=60) == 0


if __name__ == "__main__":
    run(globals())
