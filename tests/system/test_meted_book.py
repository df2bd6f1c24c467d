#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One book per machine: the system's meted, three users of it with real uids, and root. None can change or end another's tenant, or see its socket.
What a user may have: test_meted_policy.py; whether one starves another: test_meted_floods.py."""
from machine import *


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


def test_nobody_changes_or_ends_anothers_tenant():
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


def test_a_user_within_anothers_tenant_keeps_it_and_does_not_change_it():
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


def test_a_user_that_does_not_know_anothers_tenant_is_not_told_its_socket():
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
    """In hundredths of a second since the machine started: with the number it identifies a process."""
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


def test_root_is_bound_by_nothing():
    with Machine("default: none\n") as here:
        says(here.mete(ALICE, "run", "true"), f"user {ALICE} has no share of this machine's GPUs", POLICY + ":1", status=125)
        assert here.mete(ALICE, "ps").returncode == 0
        assert here.mete(0, "run", "--class", "interactive", "--guarantee", "50%", "true").returncode == 0


def test_a_user_that_may_have_nothing_holds_no_device_and_root_takes_a_users():
    def pick(uid, hold=3600 * 10**9):
        return as_user(uid, lambda: Admin(PLACE).ask("device_reserve", device="0", hold=hold) and 0)

    with Machine(f"default: none\nusers: {{{BOB}: {{}}}}\n"):
        assert pick(ALICE) > 100
        assert pick(BOB) == 0
        assert pick(BOB) > 100
        assert pick(0) == 0
        assert pick(0) > 100 and pick(BOB) > 100


main(globals())
