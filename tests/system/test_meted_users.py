#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The system's meted, root's: programs of other users are guests of the tenant that they were given, and of no other.

argv[3]: the build's folder. Only root can play another user.
"""
import errno
import os
import re
import stat
import subprocess
import sys
import tempfile

from meted import *

BUILD = sys.argv.pop(3)
NOBODY = 65534


def system_daemon(**more):
    return Daemon(role="--system", **more)


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def test_folders_and_sockets_are_as_open_as_they_need_be():
    with system_daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")
        folder = os.path.dirname(made.socket)
        assert [mode(path) for path in (meted.place, meted.place + "/tenants", folder)] == [0o711] * 3
        assert mode(made.socket) == 0o666
        for name in ("lock", "journal"):
            assert mode(f"{meted.place}/{name}") == 0o600, name
        assert mode(meted.place + "/admin.sock") == 0o666  # who may do what there: test_meted_book.py
        # Its name cannot be guessed, nor read where the kernel lists all sockets.
        assert re.fullmatch(rf"{made.tenant}-[0-9a-f]{{16}}", os.path.basename(folder)), folder
        assert admin.tenant("1GiB").socket[-20:] != made.socket[-20:]
        assert os.path.basename(folder) not in open("/proc/net/unix").read()


def test_another_user_joins_the_tenant_that_it_was_given():
    with system_daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")

        def join():
            guest = Guest(made.socket)
            guest.credit(100 * MIB)
            guest.allocated(100 * MIB)
            assert guest.refused(GIB) == LIMIT
            assert admin_sees(100 * MIB)
            return 0

        def admin_sees(bytes):
            row = admin.tenant_row(made.tenant)
            return (row.allocated, row.guests) == (bytes, 1)

        assert as_user(NOBODY, join) == 0
        while admin.tenant_row(made.tenant).guests:
            pass  # it has died: meted hears of it
        assert admin.tenant_row(made.tenant).allocated == 0


def test_another_user_finds_nobody_elses_tenant_and_changes_none():
    with system_daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")
        assert as_user(NOBODY, lambda: len(os.listdir(meted.place))) == errno.EACCES
        assert as_user(NOBODY, lambda: len(os.listdir(meted.place + "/tenants"))) == errno.EACCES
        assert as_user(NOBODY, lambda: Admin(meted.place).set(made.tenant, "memory", "1MiB") or 0) == 100 + IDENTITY
        assert as_user(NOBODY, lambda: Guest(f"{meted.place}/tenants/{made.tenant}/guest.sock") and 0) == errno.ENOENT
        assert as_user(NOBODY, lambda: os.open(meted.place + "/journal", os.O_RDONLY)) == errno.EACCES
        assert as_user(NOBODY, lambda: os.mkdir(meted.place + "/tenants/77") or 0) == errno.EACCES
        assert as_user(NOBODY, lambda: os.unlink(made.socket) or 0) == errno.EACCES


def test_a_restarted_daemon_is_found_where_the_former_one_was():
    with system_daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")
        guest = Guest(made.socket)
        meted.kill()
        meted.start()
        assert as_user(NOBODY, lambda: Guest(made.socket) and 0) == 0
        guest.close()


def test_a_folder_that_is_left_over_belongs_to_no_new_tenant():
    with system_daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")
        left = os.path.dirname(made.socket)
        meted.kill()
        for name in ("journal", "events"):  # which both know the numbers that were given out
            os.unlink(f"{meted.place}/{name}")
        meted.start()
        admin = Admin(meted.place)
        again = admin.tenant("1GiB")
        assert again.tenant == made.tenant and again.socket != made.socket
        assert not os.path.exists(left)


def test_a_users_own_daemon_is_closed_to_others_as_before():
    with Daemon() as meted:
        admin = Admin(meted.place)  # with it its tenants would go
        made = admin.tenant("1GiB")
        assert mode(meted.place) == mode(os.path.dirname(made.socket)) == 0o700
        assert as_user(NOBODY, lambda: Guest(made.socket) and 0) == errno.EACCES


def test_a_real_program_of_another_user_is_limited():
    with tempfile.TemporaryDirectory(prefix="mete-users-") as folder:
        os.chmod(folder, 0o755)
        sim = folder + "/sim"
        os.mkdir(sim)
        os.chmod(sim, 0o777)
        settings = dict(METE_SIM_DIR=sim, METE_SIM_CONTEXT_COST="0")
        sys.argv[2], stub = BUILD + "/sim/lib", sys.argv[2]
        try:
            with system_daemon(environment=settings) as meted:
                admin = Admin(meted.place)
                made = admin.tenant("96MiB")
                links = BUILD + "/guest/12.9"
                environment = dict(os.environ, METE_SOCKET=made.socket, METE_DRIVER=BUILD + "/sim/lib",
                                   LD_LIBRARY_PATH=links + "/lib", LD_PRELOAD=links + "/libmete.so", **settings)

                def vector_add(size):
                    return subprocess.run([BUILD + "/examples/vector-add", f"size={size}"], env=environment, text=True,
                                          capture_output=True, preexec_fn=lambda: become(NOBODY), cwd="/")

                small, large = vector_add("64K"), vector_add("16M")
                assert small.returncode == 0 and " ok " in small.stdout, small
                assert large.returncode != 0 and "the limit of 96MiB is reached" in large.stderr, large
                assert admin.tenant_row(made.tenant).joins == 2
        finally:
            sys.argv[2] = stub


require_all("open-build")
run(globals())
