# SPDX-License-Identifier: Apache-2.0
"""What an installation consists of, for tools/install and tools/uninstall.

PREFIX/lib/mete/installed lists it: each file with its content's hash, each link with where it leads, each folder that
was not there before. build/installs lists the installations that were made from this tree.
"""
import errno
import hashlib
import json
import os
import shutil
import signal
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIST = os.path.join(ROOT, "build", "installs")


def owner():
    """Whose the tree is, if root acts in somebody else's: (uid, gid)."""
    there = os.stat(ROOT)
    return (there.st_uid, there.st_gid) if os.geteuid() == 0 and there.st_uid else None


def as_owner(command, **more):
    """Runs it as the tree's owner, to whom the files that it writes then belong."""
    who = owner()
    start = ["setpriv", f"--reuid={who[0]}", f"--regid={who[1]}", "--init-groups", "--"] if who else []
    done = subprocess.run(start + command, text=True, **more)
    if done.returncode:
        raise subprocess.CalledProcessError(done.returncode, command)
    return done


def end_by_interrupt():
    """As Ctrl-C ends any program: make prints the one message."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def what_is(path):
    if os.path.islink(path):
        return "link", os.readlink(path)
    return ("file", digest(path)) if os.path.isfile(path) else ("other", "")


def make_folder(path):
    if not os.path.isdir(path):
        os.mkdir(path, 0o755)
        os.chmod(path, 0o755)


def copy(source, to):
    soon = to + ".new"  # a program that runs keeps its file
    if os.path.lexists(soon):
        os.unlink(soon)
    try:
        if os.path.islink(source):
            os.symlink(os.readlink(source), soon)
        else:
            shutil.copyfile(source, soon)
            os.chmod(soon, 0o755 if os.access(source, os.X_OK) else 0o644)
        os.rename(soon, to)
    except BaseException:
        if os.path.lexists(soon):
            os.unlink(soon)
        raise


class Manifest:
    def __init__(self, destdir, prefix):
        self.destdir, self.prefix = destdir, prefix
        self.folder = destdir + prefix
        self.path = os.path.join(self.folder, "lib", "mete", "installed")

    def exists(self):
        return os.path.exists(self.path)

    def undo(self):
        words = ["make uninstall"]
        if self.prefix != "/usr/local":
            words.append(f"PREFIX={self.prefix}")
        if self.destdir:
            words.append(f"DESTDIR={self.destdir}")
        return " ".join(words)

    def read(self):
        """[(kind, what, path)], in the order of making."""
        if not self.exists():
            return []
        return [tuple(json.loads(line)) for line in open(self.path)]

    def put(self, source):
        """Everything below `source` goes below the prefix. What an earlier installation wrote and this one does not is removed.

        The list is there before the first file: an installation that ends half-way can be removed, too. What is there and
        is not ours is left alone."""
        before = self.read()
        ours = {path for kind, _, path in before if kind != "folder"}
        rows, copies = self.plan(source, {path for kind, _, path in before if kind == "folder"})
        for _, to in copies:
            if os.path.lexists(to) and to not in ours:
                raise FileExistsError(errno.EEXIST, "it is there, and no `make install` of this prefix wrote it: remove it first", to)
        self.begin(before, rows)
        for kind, _, path in rows:
            if kind == "folder":
                make_folder(path)
        for one, to in copies:
            copy(one, to)
        kept = {path for _, _, path in rows}
        self.remove_rows([row for row in before if row[2] not in kept])
        self.write(rows)

    def plan(self, source, mine):
        """The list as it will be, and what is copied where."""
        rows, copies = [], []
        self.add_folder(self.folder, mine, rows)
        for at, folders, files in os.walk(source):
            folders.sort()
            to = os.path.normpath(os.path.join(self.folder, os.path.relpath(at, source)))
            self.add_folder(to, mine, rows)
            linked = [name for name in folders if os.path.islink(os.path.join(at, name))]
            for name in sorted(files) + linked:
                one, there = os.path.join(at, name), os.path.join(to, name)
                rows.append(("link", os.readlink(one), there) if os.path.islink(one) else ("file", digest(one), there))
                copies.append((one, there))
        self.add_folder(os.path.dirname(self.path), mine, rows)
        return rows, copies

    def begin(self, before, rows):
        """The list, with what is there and what will be."""
        above = [row for row in rows if row[0] == "folder" and self.path.startswith(row[2] + "/")]
        made = [row for row in above if not os.path.isdir(row[2])]
        try:
            for _, _, path in made:
                make_folder(path)
            self.write(before + rows)
        except BaseException:
            self.remove_rows(made)
            raise

    def write(self, rows):
        with open(self.path + ".new", "w") as file:
            file.writelines(json.dumps(row) + "\n" for row in dict.fromkeys(rows))
        os.rename(self.path + ".new", self.path)

    @staticmethod
    def add_folder(path, mine, rows):
        missing = []
        while path not in ("", "/") and (path in mine or not os.path.isdir(path)):
            missing.append(path)
            path = os.path.dirname(path)
        rows += [row for row in (("folder", "", folder) for folder in reversed(missing)) if row not in rows]

    def remove(self):
        """Yields what was left, as it has changed."""
        rows = self.read()
        if self.exists():
            os.unlink(self.path)
        return self.remove_rows(rows)

    @staticmethod
    def remove_rows(rows):
        """Returns what was left, as it is none of the files that were to be there."""
        left = []
        for path in dict.fromkeys(path for _, _, path in reversed(rows)):
            if not os.path.lexists(path):
                continue
            if ("folder", "", path) in rows:
                if os.path.isdir(path) and not os.path.islink(path) and not os.listdir(path):
                    os.rmdir(path)
            elif what_is(path) in [row[:2] for row in rows if row[2] == path]:
                os.unlink(path)
            else:
                left.append(path)
        return left


def remembered():
    if not os.path.exists(LIST):
        return []
    return [Manifest(*json.loads(line)) for line in open(LIST)]


def write(manifests):
    os.makedirs(os.path.dirname(LIST), exist_ok=True)
    with open(LIST, "w") as file:
        file.writelines(json.dumps([each.destdir, each.prefix]) + "\n" for each in manifests)
    who = owner()
    if who:
        os.chown(LIST, *who)


def remember(manifest, build):
    """Of the tree's own build; a test's installs are its own business."""
    if os.path.realpath(build) == os.path.realpath(os.path.join(ROOT, "build", "plain")):
        write([each for each in remembered() if each.folder != manifest.folder] + [manifest])


def forget(manifest):
    if os.path.exists(LIST):
        write([each for each in remembered() if each.folder != manifest.folder])
