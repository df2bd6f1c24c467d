#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One user of the system's meted does what it can to starve the others: they are served all the same.

METE_TEST_SCALE above 1: a thousand `mete run` at once, and not only more than each limit several times; three floods of an ending meted."""
from machine import *

RUNS, FLOODS = (1000, 3) if int(os.environ.get("METE_TEST_SCALE", "1")) > 1 else (250, 1)


def test_a_flood_of_mete_run_by_one_user_leaves_the_others_served():
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
        assert os.waitpid(pid, 0)[1] == 0, "the wrong number was served"
        sleeper.stdin.close()


def flood(here):
    """RUNS at once; each ends by itself, with its program's status or refused with a sentence."""
    become(ALICE)
    out = open(f"{here.home}/tmp/flood", "w+")
    started = [subprocess.Popen([BUILD + "/cli/mete", "run", "-q", "--", "sleep", "3"], env=here.environment, cwd="/", stdin=subprocess.DEVNULL,
                                stdout=out, stderr=out) for _ in range(RUNS)]
    ends = [process.wait() for process in started]
    out.seek(0)
    lines = out.read().splitlines()
    refused = [line for line in lines if "may have no more" in line or "too many connections" in line]
    assert set(ends) <= {0, 125}, set(ends)
    assert ends.count(0) >= 16 and ends.count(125) == len(refused) == len(lines), (ends.count(0), len(refused), lines[:3])
    os._exit(0)


def test_silent_connections_and_endless_lists_leave_the_others_served():
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
        for _ in range(FLOODS):
            floods = [child(BOB, flood_words) for _ in range(6)]
            try:
                for _ in range(20):
                    assert here.ps(ALICE)["tenants"] == []
                here.meted.process.terminate()
                assert here.meted.process.wait(PATIENCE) == 0
            finally:
                end(*floods)
            here.meted = here.start_daemon()


main(globals())
