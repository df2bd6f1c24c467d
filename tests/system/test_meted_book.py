#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One book per machine: the system's meted at /run/mete, three users of it with real uids, and root.

argv[3]: the build's folder. Everything happens in a mount namespace with a /run and /etc/mete of its own; only root can
make that, and play other users.
"""
import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import zlib

from meted import *

BUILD = sys.argv.pop(3)
ALICE, BOB, CAROL = 61001, 61002, 61003
CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 1 << 18
EXIT_THREAD = 93 if os.uname().machine == "aarch64" else 60  # the number of exit(2), which ends one thread
PIPE = os.pipe()  # from children that are to be heard of
PLACE, POLICY = "/run/mete", "/etc/mete/meted.yaml"


def skip(reason):
    print(f"left out: {reason}")
    sys.exit(77)


def own_machine():
    """A /run and an /etc/mete that nobody else sees."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0 or libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None) != 0:
        skip(f"no mount namespace: {os.strerror(ctypes.get_errno())}")
    os.makedirs("/etc/mete", exist_ok=True)
    for folder in (b"/run", b"/etc/mete"):
        if libc.mount(b"tmpfs", folder, b"tmpfs", 0, b"mode=755") != 0:
            skip(f"{folder.decode()}: {os.strerror(ctypes.get_errno())}")


def become(uid):
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)


class Machine:
    """A simulated node with its system meted; `policy` is its file's text."""

    def __init__(self, policy=None, **settings):
        self.home = tempfile.mkdtemp(prefix="mete-book-")
        os.chmod(self.home, 0o755)
        for name in ("sim", "tmp"):
            os.mkdir(f"{self.home}/{name}")
            os.chmod(f"{self.home}/{name}", 0o777)
        self.write(policy)
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith(("METE_", "XDG_", "CUDA_", "LD_"))}
        self.environment.update(METE_SIM_DIR=self.home + "/sim", METE_SIM_CONTEXT_COST="0", LD_LIBRARY_PATH=BUILD + "/sim/lib",
                                TMPDIR=self.home + "/tmp", **settings)
        self.started = []
        self.meted = None

    @staticmethod
    def write(policy):
        """Anew, in the file's place, as editors do."""
        if policy is None:
            if os.path.exists(POLICY):
                os.unlink(POLICY)
            return
        with open(POLICY + ".new", "w") as file:
            file.write(policy)
        os.chmod(POLICY + ".new", 0o644)
        os.rename(POLICY + ".new", POLICY)

    def __enter__(self):
        self.meted = self.start_daemon()
        return self

    def start_daemon(self):
        os.makedirs(PLACE, mode=0o711, exist_ok=True)
        os.chmod(PLACE, 0o711)
        driver, sys.argv[2] = sys.argv[2], BUILD + "/sim/lib"
        try:
            return Daemon(role="--system", place=PLACE, environment=self.environment)
        finally:
            sys.argv[2] = driver

    def __exit__(self, *what):
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe:
                    pipe.close()
        if self.meted:
            self.meted.__exit__(*what)
        shutil.rmtree(self.home, ignore_errors=True)

    def start(self, uid, *arguments, **more):
        process = subprocess.Popen([BUILD + "/cli/mete", *arguments], env=dict(self.environment, **more), text=True, cwd="/",
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   preexec_fn=lambda: become(uid))
        self.started.append(process)
        return process

    def mete(self, uid, *arguments, **more):
        return subprocess.run([BUILD + "/cli/mete", *arguments], env=dict(self.environment, **more), text=True, cwd="/",
                              stdin=subprocess.DEVNULL, capture_output=True, preexec_fn=lambda: become(uid), timeout=PATIENCE)

    def held(self, uid, *options):
        """A tenant that stays until its stdin is closed."""
        process = self.start(uid, "run", *options, "--", "sh", "-c", "echo here; read word")
        assert process.stdout.readline() == "here\n", process.stderr.read()
        return process

    def ps(self, uid=0):
        done = self.mete(uid, "ps", "--json")
        assert done.returncode == 0, done
        return json.loads(done.stdout)

    def tenant(self, name, uid=0):
        return next((row for row in self.ps(uid)["tenants"] if row["name"] == name), None)


def program(name):
    return BUILD + "/examples/" + name


def as_user(uid, action):
    """What it returns there (an int), or an errno."""
    pid = os.fork()
    if pid == 0:
        status = 99
        try:
            become(uid)
            status = action()
        except OSError as error:
            status = error.errno
        except Refused as refusal:
            status = 100 + refusal.code
        except BaseException as error:
            sys.stderr.write(f"{error!r}\n")
        os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def says(done, *words, status=None):
    assert done.returncode != 0 if status is None else done.returncode == status, done
    for word in words:
        assert word in done.stderr, (word, done.stderr)


# ---- three users


def test_limits_hold_across_users_and_ps_shows_all():
    with Machine() as here:
        held = [here.held(uid, "--memory", f"{size}MiB", "--name", "train")
                for uid, size in ((ALICE, 128), (BOB, 256), (CAROL, 512))]
        rows = here.ps(BOB)["tenants"]
        assert [(row["name"], row["user"], row["limit_bytes"]) for row in rows] == [
            ("train", str(ALICE), 128 * MIB), ("train-2", str(BOB), 256 * MIB), ("train-3", str(CAROL), 512 * MIB)], rows
        for uid, size in ((ALICE, 128), (BOB, 256)):
            small = here.mete(uid, "run", "--memory", f"{size}MiB", "--", program("vector-add"), "size=64K")
            large = here.mete(uid, "run", "--memory", f"{size}MiB", "--", program("vector-add"), "size=32M")
            assert small.returncode == 0 and " ok " in small.stdout, small
            says(large, f"the limit of {size}MiB is reached")
        assert len(here.ps()["tenants"]) == len(held)


def test_nobody_changes_or_ends_what_is_anothers():
    with Machine() as here:
        here.held(ALICE, "--name", "train", "--memory", "1GiB")
        id = here.tenant("train")["tenant"]
        says(here.mete(BOB, "set", "train", "memory=64MiB"), f"tenant {id} (train) belongs to user {ALICE}")

        def with_admin(verb, **fields):
            return as_user(BOB, lambda: Admin(PLACE).ask(verb, **fields) and 0)

        assert with_admin("tenant_keep", tenant=id) == 100 + IDENTITY
        assert with_admin("gate_set", tenant=id, state=2) == 100 + IDENTITY
        assert with_admin("shutdown", force=1) == 100 + IDENTITY
        assert here.tenant("train")["limit_bytes"] == GIB
        assert here.mete(ALICE, "set", "train", "memory=512MiB").returncode == 0
        assert here.mete(0, "set", str(id), "memory=256MiB").returncode == 0
        assert here.tenant("train")["limit_bytes"] == 256 * MIB


def test_who_runs_within_anothers_tenant_keeps_it_and_does_not_change_it():
    with Machine("default: {tenant: {memory: 10%}}\n"):
        root = Admin(PLACE)
        outer = root.tenant("128MiB", cap="10%")

        def inner():
            admin = Admin(PLACE)
            joined = admin.ask("tenant_new", name="x", memory="", outer=outer.socket)
            assert joined.joined and joined.tenant == outer.tenant
            admin.ask("tenant_keep", tenant=outer.tenant, pid=os.getpid())
            admin.ask("tenant_set", tenant=outer.tenant, key="memory", value="100%")
            return 0

        assert as_user(ALICE, inner) == 100 + IDENTITY
        assert root.tenant_row(outer.tenant).limit == 128 * MIB


def test_who_does_not_know_anothers_tenant_is_not_told_its_socket():
    with Machine():
        root = Admin(PLACE)
        root.ask("tenant_keep", tenant=root.tenant("128MiB").tenant, pid=os.getpid())

        def asks():
            try:
                Admin(PLACE).tenant()
            except Refused as refusal:
                assert "which belongs to user root: METE_SOCKET" in str(refusal), refusal
                raise
            return 0

        assert as_user(BOB, asks) > 100


def start_of(pid):
    """In hundredths of a second since the machine started: with the number it is who a process is."""
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rsplit(")", 1)[1].split()[19])


def test_a_processs_number_that_comes_back_puts_nobody_into_anothers_tenant():
    with Machine():
        ours, theirs = socket.socketpair()
        first = os.fork()
        if first == 0:
            become(BOB)
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
                connection.connect(PLACE + "/admin.sock")
                socket.send_fds(theirs, [str(start_of("self")).encode()], [connection.fileno()])
                os._exit(0)
        begun, fds, _, _ = socket.recv_fds(ours, 100, 1)
        Admin(PLACE).close()  # meted has let in who came before
        os.waitpid(first, 0)
        second = 0
        for _ in range(1000):  # others may be quicker
            with open("/proc/sys/kernel/ns_last_pid", "w") as last:
                last.write(str(first - 1))
            second = os.fork()
            if second == 0:
                while True:
                    signal.pause()
            if second == first and start_of(second) != int(begun):  # no number comes back so soon
                break
            end(second)
        assert second == first, "its number did not come back"
        root = Admin(PLACE)
        made = root.tenant("128MiB")
        root.ask("tenant_keep", tenant=made.tenant, pid=second)
        bob = Connection.__new__(Connection)
        bob.socket, bob.last_id, bob.heard, bob.fds = socket.socket(fileno=fds[0]), 0, [], []
        bob.socket.settimeout(PATIENCE)
        bob.ask("admin_hello", major=1)
        own = bob.ask("tenant_new", name="x")
        assert not own.joined and own.tenant != made.tenant and own.socket != made.socket, own
        bob.socket.close()
        end(second)


def test_a_process_of_somebody_else_keeps_nobodys_tenant():
    with Machine():
        def keep(pid):
            admin = Admin(PLACE)
            admin.ask("tenant_keep", tenant=admin.tenant().tenant, pid=pid)
            return 0

        assert as_user(ALICE, lambda: keep(1)) == 100 + IDENTITY
        assert as_user(ALICE, lambda: keep(os.getpid())) == 0


def test_a_tenants_socket_is_its_users_alone():
    with Machine() as here:
        def own():
            guest = guest_of_new()
            guest.credit(MIB)
            with open(here.home + "/tmp/socket", "w") as file:
                file.write(guest.path)
            return guest

        alice = child(ALICE, own)
        socket = open(here.home + "/tmp/socket").read()
        assert stat_of(socket) == (ALICE, 0o600)
        assert as_user(BOB, lambda: Guest(socket) and 0) == 13
        assert as_user(BOB, lambda: len(os.listdir(os.path.dirname(socket)))) == 13
        assert as_user(BOB, lambda: os.unlink(socket) or 0) == 13
        assert as_user(ALICE, lambda: os.unlink(socket) or 0) == 13  # nor does its owner put another one there
        end(alice)


def guest_of_new(memory="1GiB"):
    """A guest of a tenant of its own, with the connection that keeps that one."""
    admin = Admin(PLACE)
    path = admin.tenant(memory).socket
    guest = Guest(path)
    guest.admin, guest.path = admin, path
    return guest


def child(uid, action):
    """It does so as that user, and waits to be killed."""
    pid = os.fork()
    if pid == 0:
        try:
            become(uid)
            kept = action()
            os.write(PIPE[1], b"x")
            while kept is not Ellipsis:
                signal.pause()
        except BaseException as error:
            sys.stderr.write(f"{error!r}\n")
            os.write(PIPE[1], b"n")
        os._exit(1)
    assert os.read(PIPE[0], 1) == b"x"
    return pid


def end(*pids):
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def stat_of(path):
    there = os.stat(path)
    return there.st_uid, there.st_mode & 0o777


def test_root_is_bound_by_nothing():
    with Machine("default: none\n") as here:
        says(here.mete(ALICE, "run", "true"), f"user {ALICE} has no share of this machine's GPUs", POLICY + ":1", status=125)
        assert here.mete(ALICE, "ps").returncode == 0
        assert here.mete(0, "run", "--class", "interactive", "--guarantee", "50%", "true").returncode == 0


def test_who_may_have_nothing_holds_no_device_and_root_takes_what_a_user_holds():
    def pick(uid, hold=3600 * 10**9):
        return as_user(uid, lambda: Admin(PLACE).ask("device_reserve", device="0", hold=hold) and 0)

    with Machine(f"default: none\nusers: {{{BOB}: {{}}}}\n"):
        assert pick(ALICE) > 100
        assert pick(BOB) == 0
        assert pick(BOB) > 100
        assert pick(0) == 0
        assert pick(0) > 100 and pick(BOB) > 100


# ---- the policy


def test_a_share_is_within_the_policy_and_the_sentence_has_its_line():
    with Machine(f"default:\n  tenant: {{memory: 25%, class: batch}}\n  sum: {{tenants: 2, weight: 150}}\n"
                 f"users:\n  {BOB}:\n    tenant: {{memory: 50%, guarantee: 20%}}\n    sum: {{guarantee: 30%}}\n") as here:
        says(here.mete(ALICE, "run", "--memory", "26%", "true"), "is more than a tenant of user", "1GiB", POLICY + ":2", status=125)
        says(here.mete(ALICE, "run", "--class", "standard", "true"), "may not be standard, only batch", POLICY + ":2")
        says(here.mete(ALICE, "run", "--weight", "101", "true"), "weight: 101 is more than", "may allow more")
        says(here.mete(ALICE, "run", "--guarantee", "1%", "true"), "guarantee: 1.0% is more than")
        here.held(ALICE, "--name", "one")
        here.held(ALICE, "--name", "two")
        # What was not said is what may be had.
        assert here.tenant("one")["limit_bytes"] == GIB
        assert all(word in here.tenant("two")["share"] for word in ("weight=50", "class=batch")), here.tenant("two")
        says(here.mete(ALICE, "run", "true"), "has 2 tenants, and may have no more", POLICY + ":3")
        says(here.mete(ALICE, "set", "two", "weight=100"), "weight: 100 plus the 100 of user", POLICY + ":3")
        assert here.mete(ALICE, "set", "one", "weight=10").returncode == 0
        assert here.mete(ALICE, "set", "two", "weight=100").returncode == 0
        here.held(BOB, "--guarantee", "20%", "--name", "sure")
        says(here.mete(BOB, "run", "--guarantee", "20%", "true"), "guarantee: 20.0% plus the 20.0% of", POLICY + ":7")
        assert here.mete(BOB, "run", "--guarantee", "10%", "true").returncode == 0


def test_a_users_tenants_hold_no_more_together_than_the_policy_says():
    with Machine("default:\n  sum: {memory: 160MiB}\n") as here:
        def take():
            admin = Admin(PLACE)
            one, two = (Guest(admin.tenant("1GiB", name=name).socket, seat=None) for name in ("one", "two"))
            one.credit(100 * MIB)
            one.allocated(100 * MIB)
            two.credit(50 * MIB)
            two.allocated(50 * MIB)
            try:
                two.credit(20 * MIB)
            except Refused as refusal:
                assert "the limit on this user's tenants together is reached: 10MiB left" in str(refusal), refusal
                return 0
            return 1

        assert as_user(ALICE, take) == 0
        assert as_user(BOB, lambda: guest_of_new().credit(150 * MIB) and 0) == 0
        assert here.meted.process.poll() is None


def test_all_users_tenants_hold_no_more_together_than_the_policy_says():
    with Machine("together: {memory: 300MiB}\n"):
        def hold():
            guest = guest_of_new("200MiB")
            guest.credit(150 * MIB)
            guest.allocated(150 * MIB)
            return guest

        def take():
            guest = guest_of_new()
            guest.credit(100 * MIB)
            try:
                guest.credit(100 * MIB)
            except Refused as refusal:
                assert "the limit on all users' tenants together is reached: 50MiB left" in str(refusal), refusal
                return 0
            return 1

        alice = child(ALICE, hold)
        assert as_user(BOB, take) == 0
        end(alice)


def test_the_policy_is_read_again_when_it_changes_and_a_mistake_changes_nothing():
    with Machine("default: {sum: {tenants: 1}}\n") as here:
        here.held(ALICE)
        says(here.mete(ALICE, "run", "true"), "may have no more")
        here.write("default: {sum: {tenants: 2}}\n")
        until(lambda: here.mete(ALICE, "run", "true").returncode == 0)
        here.write("default:\n  sum: {tenents: 0}\n")
        until(lambda: "policy.refused" in here.meted.log())
        assert f"{POLICY}:2: default.sum: there is no key 'tenents'; the nearest is 'tenants'" in here.meted.log()
        assert here.mete(ALICE, "run", "true").returncode == 0
        here.write(None)
        known = here.meted.log().count("policy.read")
        here.meted.process.send_signal(signal.SIGHUP)
        until(lambda: here.meted.log().count("policy.read") > known)
        for _ in range(3):
            here.held(ALICE)


def test_a_users_sum_holds_after_a_restart_before_anybody_asks_for_a_tenant():
    with Machine(f"users:\n  {ALICE}: {{sum: {{memory: 200MiB}}}}\n") as here:
        ours, theirs = socket.socketpair()

        def holds():
            admin = Admin(PLACE)
            paths = [admin.tenant("190MiB", name=name).socket for name in ("one", "two")]
            seats = [Seat(), Seat()]
            guests = [Guest(path, seat=seat) for path, seat in zip(paths, seats)]
            guests[0].credit(150 * MIB)
            guests[0].allocated(150 * MIB)
            theirs.send(b"x")
            theirs.recv(1)
            one, two = (Guest(path, seat=seat) for path, seat in zip(paths, seats))
            one.state(150 * MIB)
            two.state(0)
            one.allocated(150 * MIB)
            try:
                two.credit(150 * MIB)
            except Refused as refusal:
                theirs.send(b"y" if "the limit on this user's tenants together is reached" in str(refusal) else b"n")
                return two
            theirs.send(b"n")
            return two

        pid = os.fork()
        if pid == 0:
            try:
                become(ALICE)
                holds()
            except BaseException as error:
                sys.stderr.write(f"{error!r}\n")
                theirs.send(b"n")
            os._exit(0)
        assert ours.recv(1) == b"x"
        here.meted.kill()
        here.meted = here.start_daemon()
        ours.send(b"x")
        try:
            assert ours.recv(1) == b"y"
        finally:
            os.waitpid(pid, 0)


def test_a_policy_that_an_editor_has_put_aside_stands_until_somebody_says_otherwise():
    with Machine("default: none\n") as here:
        def aside(count):
            os.rename(POLICY, POLICY + "~")
            until(lambda: here.meted.log().count("policy.away") == count)

        aside(1)
        says(here.mete(ALICE, "run", "true"), f"user {ALICE} has no share of this machine's GPUs")
        here.write("")
        until(lambda: f"{POLICY}:1: the file is empty" in here.meted.log())
        says(here.mete(ALICE, "run", "true"), f"user {ALICE} has no share of this machine's GPUs")
        aside(2)
        known = here.meted.log().count("policy.read")
        here.meted.process.send_signal(signal.SIGHUP)
        until(lambda: here.meted.log().count("policy.read") > known)
        assert here.mete(ALICE, "run", "true").returncode == 0
    with Machine("default: [\n") as here:
        os.rename(POLICY, POLICY + "~")
        until(lambda: "policy.away" in here.meted.log())
        says(here.mete(ALICE, "run", "true"), "only root is served")


def test_who_is_in_more_groups_than_are_looked_at_is_not_in_none():
    def in_groups(*groups):
        def ask():
            Admin(PLACE).tenant("64MiB")
            return 0

        pid = os.fork()
        if pid == 0:
            status = 99
            try:
                os.setgroups(groups)
                os.setgid(ALICE)
                os.setuid(ALICE)
                status = ask()
            except Refused as refusal:
                status = 1 if f"user {ALICE} is in more than 127 groups" in str(refusal) else 2
            os._exit(status)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    with Machine("groups: {61100: none}\n") as here:
        assert in_groups() == 0
        assert in_groups(61100) == 2
        assert in_groups(*range(62000, 62200), 61100) == 1
        other = here.held(ALICE)
        # Its groups are those of each that comes, not of the first.
        assert in_groups(61100) == 2
        other.stdin.close()


def test_with_a_policy_that_cannot_be_read_root_alone_is_served():
    with Machine("default: [\n") as here:
        says(here.mete(ALICE, "run", "true"), "only root is served", POLICY + ":")
        assert here.mete(0, "run", "true").returncode == 0
        here.write("default: {}\n")
        until(lambda: "policy.read" in here.meted.log())
        assert here.mete(ALICE, "run", "true").returncode == 0


def test_a_policy_that_others_may_write_is_not_believed():
    with Machine("default: {}\n") as here:
        os.chmod(POLICY, 0o666)
        here.meted.process.send_signal(signal.SIGHUP)
        until(lambda: "must belong to root and be writable by nobody else" in here.meted.log())


# ---- floods


def test_a_thousand_mete_run_by_one_user_leave_the_others_served():
    with Machine() as here:
        sleeper = here.held(BOB, "--name", "bobs", "--memory", "1GiB")
        pid = os.fork()
        if pid == 0:
            try:
                flood(here)
            finally:
                os._exit(1)
        until(lambda: sum(row["user"] == str(ALICE) for row in here.ps()["tenants"]) >= 1)
        for _ in range(10):
            assert here.mete(BOB, "run", "--memory", "128MiB", "--", program("vector-add"), "size=4K").returncode == 0
            assert here.mete(CAROL, "run", "true").returncode == 0
            assert here.mete(BOB, "set", "bobs", "memory=512MiB").returncode == 0
            assert here.tenant("bobs", CAROL)["limit_bytes"] == 512 * MIB
            assert sum(row["user"] == str(ALICE) for row in here.ps()["tenants"]) <= 16
        assert os.waitpid(pid, 0)[1] == 0, "of a thousand, the wrong number was served"
        sleeper.stdin.close()


def flood(here):
    """1,000 at once; each ends by itself, with its program's status or refused with a sentence."""
    become(ALICE)
    out = open(f"{here.home}/tmp/flood", "w+")
    started = [subprocess.Popen([BUILD + "/cli/mete", "run", "-q", "--", "sleep", "3"], env=here.environment, cwd="/", stdin=subprocess.DEVNULL,
                                stdout=out, stderr=out) for _ in range(1000)]
    ends = [process.wait() for process in started]
    out.seek(0)
    lines = out.read().splitlines()
    refused = [line for line in lines if "may have no more" in line or "too many connections" in line]
    assert set(ends) <= {0, 125}, set(ends)
    assert ends.count(0) >= 16 and ends.count(125) == len(refused) == len(lines), (ends.count(0), len(refused), lines[:3])
    os._exit(0)


def test_connections_that_say_nothing_and_lists_without_an_end_leave_the_others_served():
    with Machine() as here:
        def call():
            silent = []
            for _ in range(1000):
                made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                made.connect(PLACE + "/admin.sock")
                made.settimeout(PATIENCE)
                silent.append(made)
            assert all(decode(made.recv(4096)).kind == "refused" for made in silent[100:])
            return silent

        alice = child(ALICE, call)
        for uid in (BOB, CAROL, 0):
            assert here.mete(uid, "run", "true").returncode == 0
            assert here.mete(uid, "ps").returncode == 0
        end(alice)
        assert here.mete(ALICE, "run", "true").returncode == 0


def test_one_users_waiting_requests_leave_places_for_the_others():
    with Machine() as here:
        def most():
            guest = guest_of_new("4GiB")
            guest.credit(3 * GIB)
            guest.allocated(3 * GIB)
            return guest

        def wait():
            kept = []
            for _ in range(4):
                admin = Admin(PLACE)
                made = admin.tenant("4GiB", wait="1h")
                guests = [Guest(made.socket, seat=Seat()) for _ in range(4)]
                for guest in guests:
                    for _ in range(60):
                        guest.send("credit_ask", bytes=2 * GIB, want=2 * GIB, wait=1)
                kept.append((admin, guests))
            return kept

        bob, alice = child(BOB, most), child(ALICE, wait)
        until(lambda: sum(row["waiting"] for row in here.ps()["tenants"]) >= 512)
        # Those beyond it were refused, but for the sure ones of each tenant.
        assert sum(row["waiting"] for row in here.ps()["tenants"]) <= 512 + 4 * 4
        assert as_user(CAROL, lambda: guest_of_new().credit(100 * MIB) and 0) == 0
        end(alice, bob)


def test_a_thousand_users_without_tenants_leave_the_others_served():
    def connect(uid):
        os.seteuid(uid)
        try:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            connection.connect(PLACE + "/admin.sock")
            return connection
        finally:
            os.seteuid(0)

    resource.setrlimit(resource.RLIMIT_NOFILE, [resource.getrlimit(resource.RLIMIT_NOFILE)[1]] * 2)
    with Machine() as here:
        here.held(BOB, "--name", "bobs")
        kept = [connect(200000 + i) for i in range(1030)]
        assert here.ps(ALICE)["tenants"][0]["name"] == "bobs"
        assert here.mete(CAROL, "run", "true").returncode == 0 and here.mete(BOB, "run", "true").returncode == 0
        # Now none of them has more than a few.
        more = [connect(201029) for _ in range(4)]
        more[-1].settimeout(PATIENCE)
        assert b"too many connections of this user" in more[-1].recv(4096)
        for connection in kept + more:
            connection.close()


def test_meted_ends_by_itself_while_a_user_floods_it():
    def flood_words():
        frame = encode("tenant_keep", 7, tenant=999999)
        admin = Admin(PLACE)
        os.write(PIPE[1], b"x")
        admin.socket.setblocking(False)
        try:
            while True:
                for step in (lambda: admin.socket.send(frame), lambda: admin.socket.recv(8192)):
                    try:
                        step()
                    except BlockingIOError:
                        pass
        except OSError:
            pass
        while True:
            signal.pause()

    with Machine() as here:
        for _ in range(3):
            floods = [child(BOB, flood_words) for _ in range(6)]
            try:
                for _ in range(20):
                    assert here.ps(ALICE)["tenants"] == []
                here.meted.process.terminate()
                assert here.meted.process.wait(PATIENCE) == 0
            finally:
                end(*floods)
            here.meted = here.start_daemon()


# ---- which daemon


def test_what_an_ended_system_daemon_left_locks_nobody_out():
    with Machine() as here:
        assert here.ps(ALICE)["tenants"] == []
        here.meted.kill()
        assert os.path.exists(PLACE + "/admin.sock")
        for mode in (0o711, 0o700, 0o777):
            os.chmod(PLACE, mode)
            done = here.mete(ALICE, "run", "--", "sh", "-c", "echo own")
            assert done.returncode == 0 and done.stdout == "own\n", (oct(mode), done)
        # As a former version left it, whose socket was root's alone.
        os.chmod(PLACE, 0o711)
        os.chmod(PLACE + "/admin.sock", 0o600)
        assert here.mete(ALICE, "run", "true").returncode == 0
        here.meted = here.start_daemon()
        assert here.mete(ALICE, "ps").returncode == 0


def test_a_former_versions_daemon_that_runs_is_not_passed_by():
    with Machine() as here:
        os.chmod(PLACE + "/admin.sock", 0o600)
        says(here.mete(ALICE, "run", "true"), "belongs to a system meted that serves only root", status=125)


def test_two_meteds_on_one_device_are_noticed_and_said_by_both():
    with Machine() as here:
        here.meted.process.terminate()
        here.meted.wait()
        ended = []
        for uid in (ALICE, BOB):
            ended.append(here.held(uid))
        log = f"{here.home}/tmp/mete-{ALICE}/meted.log"
        until(lambda: "device.shared" in open(log).read())
        for uid, other in ((ALICE, BOB), (BOB, ALICE)):
            done = here.mete(uid, "ps")
            assert f"(user {other}) holds the mark of GPU 0" in done.stderr, done
            assert "holds the mark of GPU 0" in here.mete(uid, "doctor").stdout
        ended[1].stdin.close()
        ended[1].wait()
        until(lambda: "holds the mark" not in here.mete(ALICE, "ps").stderr)
        ended[0].stdin.close()
        ended[0].wait()
        here.meted = here.start_daemon()


def test_who_connects_to_the_mark_without_an_end_is_let_in_now_and_then():
    with Machine() as here:
        there = os.stat(here.environment["METE_SIM_DIR"])
        uuid = subprocess.run([BUILD + "/cli/mete", "pick"], env=here.environment, text=True, capture_output=True).stdout.strip()

        def flood():
            for _ in range(2000):
                with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK) as connection:
                    try:
                        connection.connect(f"\0mete/{uuid}/{there.st_dev:x}:{there.st_ino:x}")
                    except BlockingIOError:
                        pass  # as many wait as may
            return 0

        assert as_user(BOB, flood) == 0
        until(lambda: "device.unshared" in here.meted.log())
        assert here.meted.log().count("device.shared") < 50
        # And whoever comes later is still seen.
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.connect(f"\0mete/{uuid}/{there.st_dev:x}:{there.st_ino:x}")
            until(lambda: f"process {os.getpid()} (user root) holds the mark of GPU 0" in here.mete(ALICE, "ps").stderr)
            advice = here.mete(ALICE, "doctor").stdout
            assert "end the process that is named" in advice and "run the system's meted" not in advice, advice


def test_who_fakes_the_mark_of_a_device_keeps_nobody_from_anything():
    with Machine() as here:
        here.meted.process.terminate()
        here.meted.wait()
        there = os.stat(here.environment["METE_SIM_DIR"])
        uuid = subprocess.run([BUILD + "/cli/mete", "pick"], env=here.environment, text=True, capture_output=True).stdout.strip()
        name = f"\0mete/{uuid}/{there.st_dev:x}:{there.st_ino:x}"
        for listens in (False, True):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as faked:
                faked.bind(name)
                if listens:
                    faked.listen(0)
                here.meted = here.start_daemon()
                assert here.mete(BOB, "run", "--", program("vector-add"), "size=4K").returncode == 0
                done = here.mete(BOB, "ps")
                assert done.returncode == 0 and ("holds the mark of GPU 0" in done.stderr) == listens, done
                if not listens:
                    here.meted.process.terminate()
                    here.meted.wait()


# ---- names, nesting


def test_a_name_that_is_taken_gets_a_number_and_what_is_not_clear_is_refused_with_the_list():
    with Machine() as here:
        for wanted in ("train", "train", "train-2"):
            here.held(ALICE, "--name", wanted)
        # `mete run` refuses a number; meted does not rely on that.
        says(here.mete(ALICE, "run", "--name", "7", "true"), "a number is a tenant's id", status=2)
        kept = Admin(PLACE)
        assert kept.tenant(name="7").name == "7-2"
        assert [row["name"] for row in here.ps()["tenants"]] == ["train", "train-2", "train-2-2", "7-2"]
        says(here.mete(ALICE, "set", "trai", "memory=1GiB"), "there is no tenant 'trai'; there are: 1 (train), 2 (train-2)")
        says(here.mete(ALICE, "set", "99", "memory=1GiB"), "there is no tenant 99; there are: 1 (train)")
        assert here.mete(ALICE, "set", "train-2", "memory=1GiB").returncode == 0
        assert here.tenant("train-2")["limit_bytes"] == GIB


def test_equal_names_of_a_former_version_are_not_clear():
    with Machine() as here:
        here.held(ALICE, "--name", "train")
        here.held(ALICE, "--name", "other")
        here.meted.kill()
        text = open(PLACE + "/journal").read()
        lines = [line.split(" ", 1)[1].replace("name=other", "name=train") for line in text.splitlines()]
        os.unlink(PLACE + "/journal")
        write_journal(lines)
        here.meted = here.start_daemon()
        says(here.mete(ALICE, "set", "train", "memory=1GiB"), "'train' is ambiguous; give its number: 1 (train), 2 (train)")
        assert here.mete(ALICE, "set", "2", "memory=1GiB").returncode == 0


def write_journal(lines):
    """With the checksums of node/journal.c."""
    with open(PLACE + "/journal", "w") as file:
        for line in lines:
            file.write(f"{zlib.crc32(line.encode()):08x} {line}\n")
    os.chmod(PLACE + "/journal", 0o600)


def nested(here, *inner, outer=("--memory", "512MiB"), **more):
    return here.mete(ALICE, "run", "--name", "outer", *outer, "--", *more.pop("before", ()), BUILD + "/cli/mete", "run", *inner, **more)


def test_a_nested_run_is_within_the_outer_share():
    with Machine() as here:
        joined = nested(here, "--memory", "1GiB", "--", program("vector-add"), "size=64M")
        says(joined, "within tenant 1 (outer): its limit of 512MiB also applies to this program", "the limit of 512MiB is reached")
        silent = nested(here, "--", BUILD + "/cli/mete", "ps", "--json")
        assert [row["name"] for row in json.loads(silent.stdout)["tenants"]] == ["outer"] and "within tenant" not in silent.stderr, silent
        part = nested(here, "--memory", "256MiB", "--name", "inner", "--", BUILD + "/cli/mete", "ps", "--json")
        rows = json.loads(part.stdout)["tenants"]
        assert [(row["name"], row["limit_bytes"]) for row in rows] == [("outer", 512 * MIB), ("inner", 256 * MIB)], rows
        assert rows[1]["within_tenant"] == rows[0]["tenant"]
        small = nested(here, "--memory", "256MiB", "--", program("vector-add"), "size=64M")
        says(small, "the limit of 256MiB is reached")
        # An environment that was emptied widens nothing.
        emptied = nested(here, "--memory", "1GiB", "--", program("vector-add"), "size=64M", before=("env", "-u", "METE_SOCKET"))
        says(emptied, "the limit of 512MiB is reached")
        deep = nested(here, "--memory", "256MiB", "--", BUILD + "/cli/mete", "run", "--memory", "1GiB", "--", program("vector-add"),
                      "size=64M")
        says(deep, "the limit of 256MiB is reached")


def test_a_nested_part_and_the_outer_tenant_hold_no_more_together():
    with Machine():
        def take():
            admin = Admin(PLACE)
            outer = admin.tenant("100MiB")
            first = Guest(outer.socket)
            part = admin.ask("tenant_new", name="part", memory="80MiB", outer=outer.socket)
            assert part.tenant != outer.tenant and not part.joined
            second = Guest(part.socket)
            second.credit(60 * MIB)
            second.allocated(60 * MIB)
            try:
                first.credit(50 * MIB)
            except Refused:
                pass
            else:
                return 1
            first.credit(40 * MIB)
            first.allocated(40 * MIB)
            try:
                second.credit(MIB)
            except Refused as refusal:
                assert "the enclosing tenant's limit is reached" in str(refusal), refusal
                return 0
            return 2

        assert as_user(ALICE, take) == 0


def test_an_outer_tenant_stays_for_those_within_it_and_both_come_back_after_a_restart():
    with Machine() as here:
        seats = Seat(), Seat()
        admin = Admin(PLACE)
        outer = admin.tenant("1GiB")
        part = admin.ask("tenant_new", name="part", memory="80MiB", outer=outer.socket)
        for made, seat in zip((outer, part), seats):
            Guest(made.socket, seat=seat).credit(MIB)
        admin.close()
        here.meted.kill()
        here.meted = here.start_daemon()
        rows = {row["tenant"]: row for row in here.ps()["tenants"]}
        assert rows[part.tenant]["within_tenant"] == outer.tenant and not rows[outer.tenant]["within_tenant"], rows
        seats[0].end()
        until(lambda: "tenant=%d guest" % outer.tenant in here.meted.log() and "guest.left" in here.meted.log())
        assert {row["tenant"] for row in here.ps()["tenants"]} == {outer.tenant, part.tenant}
        seats[1].end()
        until(lambda: here.ps()["tenants"] == [])


def test_a_run_within_another_meteds_share_makes_nothing():
    with Machine() as here:
        other = tempfile.mkdtemp(prefix="mete-other-")
        os.chown(other, ALICE, ALICE)
        here.meted.process.terminate()
        here.meted.wait()
        done = here.mete(ALICE, "run", "--memory", "256MiB", "--", "env", f"XDG_RUNTIME_DIR={other}", BUILD + "/cli/mete", "run",
                         "--memory", "1GiB", "--", program("vector-add"), "size=64M")
        says(done, "runs within a share of another meted", "the limit of 256MiB is reached")
        shutil.rmtree(other)
        here.meted = here.start_daemon()


def own_sockets(process):
    """How many sockets `mete run` itself has open."""
    folder = f"/proc/{process.pid}/fd"
    return sum(os.readlink(f"{folder}/{fd}").startswith("socket:") for fd in os.listdir(folder))


def test_a_restarted_system_meted_has_its_tenants_back_though_nobody_was_there_for_a_while():
    for end in (signal.SIGKILL, signal.SIGTERM):
        with Machine() as here:
            script = f"echo here; read word; exec {program('vector-add')} size=1M"
            run = here.start(BOB, "run", "--memory", "128M", "--name", "train", "--", "sh", "-c", script)
            assert run.stdout.readline() == "here\n"
            before = here.tenant("train")
            here.meted.process.send_signal(end)
            here.meted.process.wait()
            # It has noticed, and has not found another meted, nor started one.
            until(lambda: not own_sockets(run))
            assert not os.path.exists(f"{here.home}/tmp/mete-{BOB}")
            here.meted = here.start_daemon()
            after = until(lambda: (found := here.tenant("train")) and found["pid"] and found)
            same = ("tenant", "pid", "user", "command", "limit_bytes")
            assert [after[key] for key in same] == [before[key] for key in same], (before, after)
            out, err = run.communicate("go\n", timeout=PATIENCE)
            assert run.returncode == 0 and " ok " in out and "no tenant" not in err, (out, err)
            assert not os.path.exists(f"{here.home}/tmp/mete-{BOB}")


def test_a_share_by_policy_is_shown_as_people_write_amounts():
    with Machine("default: {tenant: {memory: 1GiB}}\n") as here:
        here.held(ALICE, "--name", "train")
        shown = json.dumps(here.tenant("train"))
        assert "memory=1G" in shown and "1073741824B" not in shown, shown


# ---- outside


def outsider(here, size, then="sys.stdin.read()"):
    """A program of root that passes mete by, and holds so much until its stdin is closed."""
    process = subprocess.Popen([sys.executable, "-c", f"""
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
context, at = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0
assert cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t({size})) == 0
print("has it", flush=True)
{then}
"""], env=here.environment, cwd="/", text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    here.started.append(process)
    assert process.stdout.readline() == "has it\n"
    return process


def test_memory_that_no_tenant_holds_is_shown_named_and_waited_for():
    with Machine() as here:
        other = outsider(here, 3950 * MIB)
        shown = here.ps(ALICE)
        row = shown["outside"][0]
        assert (row["pid"], row["user"]) == (other.pid, "root") and row["used_bytes"] >= 3950 * MIB and "python" in row["program"], shown
        assert shown["devices"][0]["outside_bytes"] == row["used_bytes"]
        refused = here.mete(ALICE, "run", "--", program("vector-add"), "size=2M")
        says(refused, "the device is full", "outside mete (python", f"pid {other.pid}")
        waiting = here.start(ALICE, "run", "--wait", "1h", "--name", "patient", "--", program("vector-add"), "size=2M")
        row = until(lambda: (found := here.tenant("patient")) and found.get("waiting_bytes") and found)
        assert row["waiting"] == 1 and row["waiting_ns"] > 0
        other.stdin.close()
        other.wait()
        out, err = waiting.communicate(timeout=PATIENCE)
        assert waiting.returncode == 0 and " ok " in out, err
        assert here.ps()["outside"] == [] and here.ps()["devices"][0]["outside_bytes"] == 0


def test_memory_of_a_program_counts_until_all_of_it_has_ended():
    with Machine() as here:
        other = outsider(here, 3950 * MIB, then=f"""
import threading
threading.Thread(target=lambda: (sys.stdin.read(), __import__("os")._exit(0))).start()
ctypes.CDLL(None).syscall({EXIT_THREAD}, 0)
""")
        # Its first thread has ended, and with it, as far as /proc shows, its memory.
        until(lambda: open(f"/proc/{other.pid}/stat").read().rpartition(") ")[2][0] == "Z")
        shown = here.ps(ALICE)
        assert [row["pid"] for row in shown["outside"]] == [other.pid], shown
        waiting = here.start(ALICE, "run", "--wait", "1h", "--name", "patient", "--", program("vector-add"), "size=64M")
        until(lambda: (found := here.tenant("patient")) and found.get("waiting_bytes"))
        other.stdin.close()
        other.wait()
        out, err = waiting.communicate(timeout=PATIENCE)
        assert waiting.returncode == 0 and " ok " in out, err


# ---- a meted that hangs


def test_a_stopped_meted_is_said_by_each_verb_and_doctor_tells_what_to_do():
    with Machine() as here:
        pid = here.meted.process.pid
        os.kill(pid, signal.SIGSTOP)
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)
        try:
            for verb in (("ps",), ("run", "true"), ("set", "1", "memory=1GiB")):
                says(here.mete(ALICE, *verb), f"meted (process {pid}) is stopped and does not answer", "mete doctor")
            doctor = here.mete(ALICE, "doctor")
            assert doctor.returncode == 1 and "is stopped" in doctor.stdout and f"kill -CONT {pid}" in doctor.stdout, doctor
        finally:
            os.kill(pid, signal.SIGCONT)
        assert here.mete(ALICE, "ps").returncode == 0


def test_a_driver_that_does_not_answer_is_said_by_each_verb():
    with Machine() as here:
        here.meted.process.terminate()
        here.meted.wait()
        pipe = here.home + "/processes"  # who opens it to read waits for a writer
        os.mkfifo(pipe)
        os.makedirs(PLACE, exist_ok=True)
        os.chmod(PLACE, 0o711)
        here.meted = Daemon(role="--system", place=PLACE, environment=dict(here.environment, METE_STUB_PROCESSES=pipe))
        here.meted.place = PLACE
        for verb in (("ps",), ("run", "true"), ("ps", "--json")):
            done = here.mete(ALICE, *verb)
            assert done.returncode == 0 and "the driver has not answered meted for" in done.stderr, done
        says(here.mete(ALICE, "set", "x", "memory=1GiB"), "the driver has not answered meted for", "there is no tenant 'x'")
        doctor = here.mete(ALICE, "doctor").stdout
        assert "the driver has not answered meted" in doctor and "does nvidia-smi hang, too?" in doctor, doctor
        os.rename(pipe, pipe + ".old")
        open(pipe, "w").close()
        open(pipe + ".old", "w").close()  # whoever waits reads its end
        until(lambda: "has not answered" not in here.mete(ALICE, "ps").stderr)
        here.meted.kill()


if os.geteuid() != 0:
    skip("only root can play other users")
if as_user(ALICE, lambda: 0 if os.access(BUILD + "/examples/vector-add", os.X_OK) else 1) != 0:
    skip("the build's folder is closed to others")
own_machine()
run(globals())
