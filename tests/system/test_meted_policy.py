#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""/etc/mete/meted.yaml: what it lets users have of the system's meted, and how it is read again."""
from machine import *


def test_a_share_is_within_the_policy_and_the_sentence_has_its_line_number():
    with Machine(f"default:\n  tenant: {{memory: 25%, class: batch}}\n  sum: {{tenants: 2, weight: 150}}\n"
                 f"users:\n  {BOB}:\n    tenant: {{memory: 50%, guarantee: 20%}}\n    sum: {{guarantee: 30%}}\n") as here:
        says(here.mete(ALICE, "run", "--memory", "26%", "true"), "1.03GiB is more than a tenant of user", "may have: 1GiB", POLICY + ":2", status=125)
        says(here.mete(ALICE, "run", "--class", "standard", "true"), "may not be standard, only batch", POLICY + ":2")
        says(here.mete(ALICE, "run", "--weight", "101", "true"), "weight: 101 is more than", "may allow more")
        says(here.mete(ALICE, "run", "--guarantee", "1%", "true"), "guarantee: 1.0% is more than")
        here.held(ALICE, "--name", "one")
        here.held(ALICE, "--name", "two")
        # Fields that were not stated are as the policy allows.
        assert here.tenant("one")["limit_bytes"] == GIB
        assert all(word in here.tenant("two")["share"] for word in ("weight=50", "class=batch")), here.tenant("two")
        says(here.mete(ALICE, "run", "true"), "has 2 tenants, and may have no more", POLICY + ":3")
        says(here.mete(ALICE, "set", "two", "weight=100"), "weight: 100 plus the 100 of user", POLICY + ":3")
        assert here.mete(ALICE, "set", "one", "weight=10").returncode == 0
        assert here.mete(ALICE, "set", "two", "weight=100").returncode == 0
        here.held(BOB, "--guarantee", "20%", "--name", "sure")
        says(here.mete(BOB, "run", "--guarantee", "20%", "true"), "guarantee: 20.0% plus the 20.0% of", POLICY + ":7")
        assert here.mete(BOB, "run", "--guarantee", "10%", "true").returncode == 0


def test_a_policy_without_devices_lets_everybody_pick_all_of_them():
    with Machine("default:\n  tenant: {memory: 50%}\n", METE_SIM_DEVICES="2xSIM") as here:
        assert len(here.mete(ALICE, "pick", "--limit", "all").stdout.split(",")) == 2
        here.write("default:\n  sum: {devices: 1}\n")
        until(lambda: len(here.mete(BOB, "pick", "--limit", "all", "--hold", "1ms").stdout.split(",")) == 1, "the policy was never read again")


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


def test_a_policy_bounds_what_mig_makes_while_meted_runs():
    with Machine("default:\n  sum: {memory: 160MiB}\n", METE_SIM_DEVICES="2xH100", METE_SIM_PARTS="0:3g.40gb") as here:
        here.held(ALICE, "--device", "1")  # her user has books from before
        former = here.ps()["devices"][0]["uuid"]
        here.file = here.home + "/mig.json"
        with open(here.file, "w") as file:
            json.dump({"version": "v1", "mig-configs": {"it": [{"devices": [0], "mig-enabled": True, "mig-devices": {"2g.20gb": 1}}]}}, file)
        assert here.mete(0, "mig", "apply", "-f", here.file, "-c", "it").returncode == 0

        def parts():
            return [row for row in here.ps()["devices"] if row["uuid"].startswith("MIG-") and row["uuid"] != former]
        until(lambda: parts() and len(here.ps()["devices"]) == 2, lambda: here.ps()["devices"])
        part, = parts()
        says(here.mete(ALICE, "run", "--device", former, "true"), f"there is no '{former}'")
        assert here.mete(ALICE, "run", "--device", part["uuid"], "--memory", "160MiB", "--", program("vector-add")).returncode == 0

        def take():
            guest = guest_of(part["uuid"])
            guest.credit(100 * MIB)
            guest.allocated(100 * MIB)
            try:
                guest_of(part["uuid"]).credit(100 * MIB)
            except Refused as refusal:
                return 0 if "the limit on this user's tenants together is reached: 60MiB left" in str(refusal) else 1
            return 2

        def guest_of(device):
            admin = Admin(PLACE)
            guest = Guest(admin.tenant("1GiB", device=device).socket)
            guest.admin = admin
            return guest

        assert as_user(ALICE, take) == 0, "her books of it came when it did"
        assert as_user(BOB, take) == 0, "and his with him"
        assert "daemon.again" not in here.meted.log() and "device.gone" in here.meted.log()


def test_memory_that_a_users_tenants_leave_to_one_another_counts_for_the_user():
    """Tenants export 64 MiB to another one of their user, and end; without their user's book it would have the whole device."""
    hostile = ["/usr/bin/python3", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cli/hostile.py")]
    with Machine("default:\n  sum: {memory: 512MiB}\n") as here:
        path = here.home + "/tmp/collector"
        keeper = here.start(ALICE, "run", "--memory", "128MiB", "--", *hostile, "collector", METE_COLLECTOR=path)
        assert keeper.stdout.readline() == "listens\n", keeper.stderr.read()
        given = 0
        while given < 20:
            keeper.stdin.write("take\n")
            keeper.stdin.flush()
            done = here.mete(ALICE, "run", "--memory", "128MiB", "--wait", "0s", "--", *hostile, "giver", METE_COLLECTOR=path)
            if done.returncode:
                break
            assert int(keeper.stdout.readline()) <= 512 * MIB, given
            given += 1
        assert 4 <= given < 8, (given, done)
        assert "memory.left_behind user=" in here.meted.log()

        def may_have(bytes):
            try:
                return 0 if guest_of_new("512MiB").credit(bytes) else 1
            except Refused as refusal:
                assert "this user's tenants together" in str(refusal), refusal
                return 1

        assert as_user(ALICE, lambda: may_have(200 * MIB)) == 1
        assert as_user(BOB, lambda: may_have(200 * MIB)) == 0  # others are bounded by their own
        with socket.socket(socket.AF_UNIX) as nothing:  # with which it ends
            nothing.connect(path)
        keeper.wait(PATIENCE)
        until(lambda: as_user(ALICE, lambda: may_have(200 * MIB)) == 0)


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


def test_a_policy_that_an_editor_has_put_aside_stands_until_it_is_replaced():
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


def test_a_user_in_more_groups_than_are_read_is_not_in_none():
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


def test_a_share_by_policy_is_shown_as_people_write_amounts():
    with Machine("default: {tenant: {memory: 1GiB}}\n") as here:
        here.held(ALICE, "--name", "train")
        shown = json.dumps(here.tenant("train"))
        assert "memory=1G" in shown and "1073741824B" not in shown, shown


def test_several_fields_change_at_once_or_none_does():
    with Machine("default: {tenant: {weight: 150}}\n"):
        root = Admin(PLACE)
        made = root.tenant("1GiB")

        def refused(more, value="2GiB", key="memory"):
            before = root.tenant_row(made.tenant)
            try:
                root.ask("tenant_set", tenant=made.tenant, key=key, value=value, more=more)
            except Refused as refusal:
                row = root.tenant_row(made.tenant)
                assert (row.limit, row.share) == (before.limit, before.share), row
                return str(refusal)
            raise AssertionError(more)

        assert "'memory' is given twice" in refused("memory=3GiB")
        assert "'nonsense' is not a field" in refused("weight=50\nnonsense=1")
        assert "expected KEY=VALUE" in refused("weight=50\nclass")
        assert "is too much" in refused("weight=50\nclass=batch", value="900GiB")
        root.ask("tenant_set", tenant=made.tenant, key="guarantee", value="40%", more="cap=50%\nmemory=512MiB\nmode=fixed:1/4\n")
        row = root.tenant_row(made.tenant)
        assert row.limit == 512 * MIB and "guarantee=40%" in row.share and "cap=50%" in row.share, row

        def above():
            admin = Admin(PLACE)
            own = admin.tenant("64MiB")
            admin.ask("tenant_set", tenant=own.tenant, key="memory", value="128MiB", more="weight=151")
            return 0

        assert as_user(ALICE, above) == 100 + VALUE


main(globals())
