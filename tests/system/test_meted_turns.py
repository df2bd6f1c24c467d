#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns as guests see them: which gates are open when, and what becomes of tenants that do not drain."""
import re
import select
import struct

from meted import *

NONE, SILENT, CAPPED, WAITS, RUNS, ENDS, HANGS, SUSPENDED = range(8)


class Player(Guest):
    """A guest that drains when it is told to, unless `stubborn`; `opened`: how often its gate was."""

    def __init__(self, path, stubborn=False, **more):
        super().__init__(path, **more)
        self.stubborn, self.opened = stubborn, 0
        self.state(0)

    def hears(self, message):
        if message.kind == "gate" and message.state == OPEN:
            self.opened += 1
        elif message.kind == "gate" and not self.stubborn:
            self.send("drained", device=message.device, epoch=message.epoch)

    def drain(self):
        self.stubborn = False
        self.send("drained", device=0, epoch=self.epoch())

    def epoch(self):
        return struct.unpack_from("<Q", self.tenant, 64 + 16 + 24)[0]

    def runs(self):
        return self.shown()["gate"] == OPEN


def play(players, until_):
    """Lets them answer until until_() is true, which is tested after each message."""
    for player in players:
        while player.heard:
            player.hears(player.heard.pop(0))
    deadline = time.monotonic() + PATIENCE
    while not until_():
        ready = select.select([player.socket for player in players], [], [], 0.05)[0]
        assert time.monotonic() < deadline, [player.shown() for player in players]
        for player in players:
            if player.socket in ready:
                player.hears(player.receive_any())


def test_nothing_is_gated_where_no_share_makes_a_difference():
    with Daemon() as meted:
        admin = Admin(meted.place)
        guests = [Player(admin.tenant(name=name).socket) for name in "ab"]
        for guest in guests:
            guest.send("wants", device=0)
            assert guest.runs() and guest.turns() == dict(say=0, contended=0, flight_ns=0, grace_ns=0)
        assert [row.governed for row in admin.list() if row.kind == "tenant_row"] == [0, 0]
        assert not select.select([guest.socket for guest in guests], [], [], 0)[0], "nobody was told anything"


def test_a_tenant_is_told_that_a_cap_applies():
    """Also where nobody else waits, and until its cap is 100 %."""
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant(name="a", cap="50%")
        guest = Player(made.socket)
        until(lambda: guest.turns()["contended"] == 4, guest.turns)
        admin.set(made.tenant, "cap", "100%")
        until(lambda: guest.turns()["contended"] == 0, guest.turns)


def test_how_much_may_be_under_way_stays_as_meted_ends():
    """What is queued while there is none is had before anybody has paid for it."""
    with Daemon() as meted:
        admin = Admin(meted.place)
        guest = Player(admin.tenant(cap="50%").socket)
        until(lambda: guest.turns()["flight_ns"] and guest.turns()["contended"] == 4, guest.turns)
        told = guest.turns()
        meted.process.terminate()
        meted.wait()
        assert guest.turns() == told


def test_tenants_of_different_weights_run_one_at_a_time():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = [admin.tenant(name=name, weight=weight) for name, weight in (("a", "100"), ("b", "300"))]
        players = [Player(one.socket) for one in made]

        def rows():
            return [admin.tenant_row(one.tenant) for one in made]

        def alone_until(turns):
            # a's word is read first: if b's gate opens in between, a's was seen closed. Where a player's word comes late, on a busy machine, it may
            # be taken for one that awaits the other.
            assert sum(player.runs() for player in players) <= 1 or "tenant.awaits" in meted.log(), [player.shown() for player in players]
            return all(player.opened >= turns for player in players)

        # Both were open when turns began.
        play(players, lambda: all(player.opened for player in players))
        begun, before = time.monotonic_ns(), rows()
        play(players, lambda: alone_until(20))
        after = rows()
        assert all(row.governed == 1 and row.turns >= 20 for row in after), after
        charged = [late.charged - early.charged for early, late in zip(before, after)]
        assert all(charged) and sum(charged) <= time.monotonic_ns() - begun, (before, after)
        assert [row.share for row in after] == ["memory=1GiB weight=100", "memory=1GiB weight=300"], after
        assert all(player.turns()["say"] == 1 and player.turns()["flight_ns"] > 0 for player in players)


def test_a_silent_tenant_leaves_the_device_to_the_other():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = [admin.tenant(name=name, weight=weight) for name, weight in (("a", "1"), ("b", "10000"))]
        first, second = [Player(one.socket) for one in made]
        play([first, second], lambda: first.opened and second.opened)
        second.send("idle", device=0)
        play([first, second], lambda: admin.tenant_row(made[1].tenant).turn == SILENT)
        play([first, second], first.runs)
        turns = admin.tenant_row(made[0].tenant).turns
        assert admin.tenant_row(made[0].tenant).turns == turns and first.runs(), "its turn goes on"
        assert not second.runs()
        opened = second.opened
        second.send("wants", device=0)
        play([first, second], lambda: second.opened > opened)


def test_a_cap_closes_the_gate_of_a_tenant_that_is_alone():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant(cap="40%")
        player = Player(made.socket)
        play([player], lambda: player.opened >= 5)
        assert admin.tenant_row(made.tenant).turns >= 5
        admin.set(made.tenant, "cap", "100%")
        play([player], player.runs)
        assert admin.tenant_row(made.tenant).governed == 0 and player.turns()["say"] == 0


def test_a_share_is_changed_live():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = [admin.tenant(name=name) for name in "ab"]
        players = [Player(one.socket) for one in made]
        assert all(player.runs() for player in players)
        admin.set(made[0].tenant, "weight", "200")
        play(players, lambda: all(player.opened >= 3 for player in players))
        # Everybody's weight, but stated.
        admin.set(made[0].tenant, "weight", "100")
        play(players, lambda: all(player.opened >= 6 for player in players))
        admin.set(made[0].tenant, "mode", "best-effort")
        play(players, lambda: all(player.runs() for player in players))
        # Said before, the weight is void, for the next daemon as well.
        assert "weight" not in admin.tenant_row(made[0].tenant).share
        try:
            admin.set(made[0].tenant, "cap", "0%")
            raise AssertionError("a cap of nothing was accepted")
        except Refused as refusal:
            assert refusal.code == VALUE, refusal


def test_a_tenant_that_dies_in_its_turn_leaves_the_device_to_the_others():
    with Daemon() as meted:
        admin = Admin(meted.place)
        stays = Player(admin.tenant(name="stays", weight="300").socket)
        for stubborn in (False, True):  # while its gate is open; while it is closing
            other = Admin(meted.place)
            goes = Player(other.tenant(name="goes").socket, stubborn=stubborn)
            play([stays, goes], (lambda: goes.shown()["gate"] == CLOSING) if stubborn else (lambda: goes.opened and goes.runs()))
            goes.close()
            other.close()
            play([stays], stays.runs)


def hanging(admin, escalate):
    """A tenant that never drains, and one that waits for it."""
    made = admin.tenant(name="hangs", escalate=escalate, weight="300")
    hangs = Player(made.socket, stubborn=True)
    other = Player(admin.tenant(name="waits").socket)
    play([hangs, other], lambda: hangs.shown()["gate"] == CLOSING)
    return made, hangs, other


def test_a_tenant_that_does_not_drain_is_reported_and_the_others_run():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made, hangs, other = hanging(admin, "")
        play([hangs, other], lambda: other.opened)
        assert meted.log().count("tenant.hangs") == 1
        assert admin.tenant_row(made.tenant).turn == HANGS
        # For people it computes: from the outside it is a kernel of some seconds so far.
        row = admin.tenant_row(made.tenant)
        assert DOING[row.doing] == "long-kernel" and row.lasting >= 10**9, row
        hangs.drain()
        opened = hangs.opened
        play([hangs, other], lambda: hangs.opened > opened)
        assert admin.tenant_row(made.tenant).turn != HANGS


def test_a_stopped_tenant_that_does_not_drain_is_reported_as_stopped():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made, hangs, other = hanging(admin, "")
        os.kill(hangs.seat.pid, signal.SIGSTOP)
        play([other], lambda: DOING[admin.tenant_row(made.tenant).doing] == "stopped")
        os.kill(hangs.seat.pid, signal.SIGCONT)
        play([other], lambda: DOING[admin.tenant_row(made.tenant).doing] == "long-kernel")
        hangs.drain()


def test_the_state_of_each_is_shown_while_they_take_turns():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = [admin.tenant(name=name, weight=weight) for name, weight in (("a", "100"), ("b", "300"))]
        players = [Player(one.socket) for one in made]

        def doing():
            return {DOING[admin.tenant_row(one.tenant).doing] for one in made}
        play(players, lambda: doing() == {"computes", "waits-for-turn"})
        players[0].send("idle", device=0)
        play(players, lambda: doing() == {"computes", "idle"})


def test_a_tenant_that_does_not_drain_is_killed_where_its_share_says_so():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made, hangs, other = hanging(admin, "kill")
        play([other], lambda: "tenant.killed" in meted.log())
        os.waitid(os.P_PID, hangs.seat.pid, os.WEXITED | os.WNOWAIT)
        play([other], lambda: not admin.guests(made.tenant))
        play([other], other.runs)


def test_a_tenant_that_does_not_drain_is_suspended_until_its_share_is_set():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made, hangs, other = hanging(admin, "suspend")
        play([hangs, other], lambda: "tenant.suspended_by_share" in meted.log())
        assert admin.tenant_row(made.tenant).turn == SUSPENDED
        hangs.drain()
        opened = other.opened
        play([hangs, other], lambda: hangs.shown()["gate"] == CLOSED and other.runs())
        assert admin.tenant_row(made.tenant).turn == SUSPENDED
        admin.set(made.tenant, "escalate", "report")
        opened = hangs.opened
        play([hangs, other], lambda: hangs.opened > opened)


def test_a_tenant_that_its_share_has_suspended_is_resumed_as_any_other():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made, hangs, other = hanging(admin, "suspend")
        play([hangs, other], lambda: "tenant.suspended_by_share" in meted.log())
        hangs.drain()
        play([hangs, other], lambda: hangs.shown()["gate"] == CLOSED and other.runs())
        opened = hangs.opened
        assert admin.ask("tenant_suspend", tenant=made.tenant, name="", suspends=0).value == 0, "it was suspended"
        play([hangs, other], lambda: hangs.opened > opened)
        assert admin.ask("tenant_suspend", tenant=made.tenant, name="", suspends=0).value == 1, "it goes on already"


def test_a_tenant_that_waits_for_its_own_thread_at_the_gate_is_coupled_and_not_killed():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made, hangs, other = hanging(admin, "kill")
        hangs.waits(1)
        play([hangs, other], lambda: admin.tenant_row(made.tenant).coupled)
        play([hangs, other], hangs.runs)
        assert meted.log().count("tenant.coupled") == 1
        hangs.waits(0)
        hangs.stubborn = False
        play([hangs, other], lambda: other.opened)
        assert "tenant.killed" not in meted.log() and "tenant.hangs" not in meted.log()


def test_a_tenant_whose_thread_stands_at_its_gate_for_ever_runs_beside_the_others():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made, liar, other = hanging(admin, "kill")
        liar.waits(1)
        third = Player(admin.tenant(name="third").socket)
        # The others take turns all the same.
        opened = other.opened
        play([liar, other, third], lambda: "tenant.beside" in meted.log())
        play([liar, other, third], lambda: other.opened > opened + 10 and third.opened > 10)
        # It is let in again and again, all of which it pays for.
        opened = liar.opened
        play([liar, other, third], lambda: liar.opened > opened + 10)
        assert admin.tenant_row(made.tenant).coupled and meted.log().count("tenant.beside") == 1
        assert "tenant.killed" not in meted.log() and "tenant.hangs" not in meted.log()
        # Its work ends from now on: it takes turns as they do.
        liar.waits(0)
        liar.drain()
        liar.send("wants", device=0)
        play([liar, other, third], lambda: not admin.tenant_row(made.tenant).coupled)
        opened, more = liar.opened, other.opened
        play([liar, other, third], lambda: liar.opened > opened + 2 and other.opened > more + 2)


def test_a_tenant_that_hangs_until_a_thread_comes_to_its_gate_is_let_in():
    """It reports nothing more: its thread was busy when the gate closed."""
    with Daemon() as meted:
        admin = Admin(meted.place)
        made, hangs, other = hanging(admin, "report")
        play([hangs, other], lambda: "tenant.hangs" in meted.log())
        hangs.waits(1)
        opened = hangs.opened
        play([hangs, other], lambda: hangs.opened > opened + 2)
        assert admin.tenant_row(made.tenant).coupled and admin.tenant_row(made.tenant).turn != HANGS


def test_turns_go_on_after_a_restart_in_the_middle_of_one():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = [admin.tenant(name=name, weight=weight) for name, weight in (("a", "100"), ("b", "300"))]
        players = [Player(one.socket) for one in made]
        play(players, lambda: all(player.opened >= 2 for player in players))
        meted.kill()
        meted.start()
        admin = Admin(meted.place)
        for one in made:
            admin.ask("tenant_keep", tenant=one.tenant)
        again = [Player(one.socket, seat=player.seat) for one, player in zip(made, players)]
        play(again, lambda: all(player.opened >= 2 for player in again))
        assert all(row.governed == 1 for row in admin.list() if row.kind == "tenant_row")


def owed_s(meted, tenant):
    """Of its cap, by the journal's last record; 0: there is none."""
    found = re.findall(rf"owed tenant={tenant} .* cap=([0-9]+)", open(meted.place + "/journal").read())
    return int(found[-1]) / 1e12 if found else 0


def owe(meted, admin, made):
    """A player of a tenant whose cap takes 100 s to pay for a drain of a second."""
    player = Player(made.socket, stubborn=True)
    until(lambda: admin.tenant_row(made.tenant).turn == HANGS)
    player.drain()
    until(lambda: owed_s(meted, made.tenant) > 0.5)
    return player


def owing(meted, admin):
    made = admin.tenant(cap="1%")
    return made, owe(meted, admin, made)


def again(meted, made, player):
    """Another meted with the tenant's process, whose gate that one has closed."""
    meted.start()
    admin = Admin(meted.place)
    admin.ask("tenant_keep", tenant=made.tenant)
    player = Player(made.socket, seat=player.seat)
    play([player], lambda: player.shown()["gate"] == CLOSED)
    player.waits(1)
    return admin, player


def test_what_a_tenant_owes_for_its_cap_it_owes_to_the_next_meted():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made, player = owing(meted, admin)
        for _ in range(2):
            meted.process.terminate()
            meted.wait()
            admin, player = again(meted, made, player)
            assert admin.tenant_row(made.tenant).turn == CAPPED
        meted.process.terminate()
        meted.wait()
        assert owed_s(meted, made.tenant) > 0.5
        admin, player = again(meted, made, player)
        admin.set(made.tenant, "cap", "100%")
        play([player], player.runs)


def test_the_time_without_a_meted_is_paid_for_once():
    """A third meted charged it again, with the time of the second one, where that was killed."""
    def ran(meted):
        return re.findall(r"owed tenant=.* ran=([01])", open(meted.place + "/journal").read())

    with Daemon() as meted:
        made, player = owing(meted, Admin(meted.place))
        meted.process.terminate()
        meted.wait()
        assert "1" in ran(meted)
        again(meted, made, player)
        assert ran(meted) and "1" not in ran(meted)


def test_what_a_tenant_owes_for_its_cap_it_owes_after_a_kill():
    with Daemon() as meted:
        made, player = owing(meted, Admin(meted.place))
        meted.kill()
        again(meted, made, player)
        meted.process.terminate()
        meted.wait()
        assert owed_s(meted, made.tenant) > 0.5


def test_what_a_tenant_owes_at_its_end_is_owed_by_the_one_that_it_is_within_and_by_the_next():
    with Daemon() as meted:
        admin, keeper = Admin(meted.place), Admin(meted.place)
        outer = admin.tenant(name="outer", cap="2%")

        def part(of):
            return of.ask("tenant_new", name="part", memory="100MiB", outer=outer.socket)

        first = part(keeper)
        player = owe(meted, admin, first)
        player.close()
        keeper.close()
        until(lambda: first.tenant not in [row.tenant for row in admin.list() if row.kind == "tenant_row"])
        second = part(admin)
        meted.process.terminate()
        meted.wait()
        assert owed_s(meted, outer.tenant) > 0.2 and owed_s(meted, second.tenant) > 0.2


def test_several_devices_are_had_together():
    with Daemon(environment={"METE_STUB_DEVICES": "2"}) as meted:
        admin = Admin(meted.place)
        both = Player(admin.tenant(name="both", device="0,1", weight="300").socket)
        one = Player(admin.tenant(name="one", device="0").socket)
        other = Player(admin.tenant(name="other", device="1").socket)

        def together():
            return both.shown(0)["gate"] == OPEN and both.shown(1)["gate"] == OPEN

        for _ in range(5):
            play([both, one, other], together)
            play([both, one, other], lambda: one.runs() or other.runs())


if __name__ == "__main__":
    run(globals())
