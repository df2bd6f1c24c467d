#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory that a driver holds beyond what was allocated, and the tenant that is charged for it: with meted alone, on a stub that answers as the driver
would. test_meted_residual.py METED STUB_FOLDER
"""
import contextlib
import tempfile

from meted import *


class Driver:
    """The management library's figures of processes. It answers at once, or, once it is slow, when the test says so."""

    def __init__(self):
        self.file = tempfile.NamedTemporaryFile("w")
        self.environment = {"METE_STUB_PROCESSES": self.file.name}
        self.used = {}
        self.slow = None  # the FIFO

    def fails(self):
        self.file.seek(0)
        self.file.write("!")
        self.file.flush()

    def failed(self):
        """How often."""
        try:
            return os.path.getsize(self.file.name + ".failed")
        except FileNotFoundError:
            return 0

    def text(self):
        return "".join(f"0 {pid:10d} {bytes:20d}\n" for pid, bytes in self.used.items())

    def says(self, guest, used):
        """In place, in lines of one length: the daemon may be reading."""
        self.used[guest.seat.pid] = used
        self.file.seek(0)
        self.file.write(self.text())
        self.file.flush()

    def slows(self):
        """From now on a question waits until it is answered: who opens a FIFO to read waits for who opens it to write, and the other way round."""
        os.mkfifo(self.file.name + ".slow")
        self.slow = os.open(self.file.name + ".slow", os.O_PATH)
        os.rename(self.file.name + ".slow", self.file.name)

    def asked(self):
        """The next question; returns when it was asked. Each has a FIFO of its own: who reads one answer to its end would read the next one, too."""
        question = open(f"/proc/self/fd/{self.slow}", "w")
        os.close(self.slow)
        self.slows()
        return question

    def answers(self, question):
        with question:
            question.write(self.text())

    def rests(self):
        """Nobody waits for it any more."""
        if self.slow is None:
            return
        with open(self.file.name + ".quick", "w") as file:
            file.write(self.text())
        os.rename(self.file.name + ".quick", self.file.name)
        os.close(os.open(f"/proc/self/fd/{self.slow}", os.O_RDWR))  # does not wait, and lets those go on who do
        os.close(self.slow)
        self.slow = None


@contextlib.contextmanager
def a_node(*memory):
    """A daemon and a guest in each of several tenants."""
    driver = Driver()
    with Daemon(environment=driver.environment) as meted:
        admin = Admin(meted.place)
        tenants = [admin.tenant(text) for text in memory]
        try:
            yield driver, meted, admin, [Guest(made.socket) for made in tenants], tenants
        finally:
            driver.rests()


def has_context(driver, guest, used, count=1, others=0, reserved=64 * MIB):
    guest.ask("residual_ask", device=0, bytes=reserved)
    driver.says(guest, used)
    guest.contexts(count, others=others)
    guest.send("residual_settle", device=0, contexts=count, bytes=reserved)


def measured(admin, made, residual):
    until(lambda: admin.tenant_row(made.tenant).residual == residual)


def price(guest):
    """The price of a context that it is told; it makes none."""
    value = guest.ask("residual_ask", device=0, bytes=0).value
    guest.send("residual_settle", device=0, contexts=0, bytes=value)
    return value


def test_a_module_does_not_make_anybodys_context_dearer():
    with a_node("2GiB", "1GiB") as (driver, meted, admin, (guest, neighbour), tenants):
        has_context(driver, guest, 964 * MIB, others=1)
        measured(admin, tenants[0], 964 * MIB)
        assert price(neighbour) == price(guest) == 64 * MIB


def test_two_tenants_agree_upon_a_price_and_it_falls_as_well_as_rises():
    with a_node("1GiB", "1GiB", "1GiB") as (driver, meted, admin, (one, two, third), tenants):
        has_context(driver, one, 500 * MIB)
        measured(admin, tenants[0], 500 * MIB)
        assert price(third) == 64 * MIB, "one alone may lie"
        has_context(driver, two, 300 * MIB)
        measured(admin, tenants[1], 300 * MIB)
        assert price(third) == 300 * MIB
        # A tenant expects what it had itself; nobody expects less than of an unknown driver.
        assert price(one) == 500 * MIB
        for guest, made, used in ((one, tenants[0], 100 * MIB), (two, tenants[1], 10 * MIB)):
            driver.says(guest, used)
            measured(admin, made, used)
        assert price(one) == 100 * MIB and price(two) == price(third) == 64 * MIB


def test_a_page_that_claims_nothing_takes_no_room_from_the_neighbours():
    with a_node("1GiB", "1GiB", "2GiB") as (driver, meted, admin, (one, two, third), tenants):
        for guest in (one, two):
            credit = GIB - 64 * MIB
            assert guest.credit(credit) == credit
            has_context(driver, guest, GIB)
            guest.allocated(0)
            until(lambda: guest.shown()["used"] >= GIB)
        row = admin.device_row()
        assert row.allocated + row.credit + row.residual <= 2 * GIB, row
        assert sum(r.credit + r.residual for r in admin.list() if r.kind == "tenant_row") <= 2 * GIB
        rest = row.capacity - row.reserve - 2 * GIB
        assert third.credit(rest) == rest
        assert one.refused(1) == LIMIT


def test_memory_that_passed_a_guest_by_is_in_the_book_though_nobody_asks():
    with a_node("1GiB", "1GiB") as (driver, meted, admin, (guest, neighbour), tenants):
        assert neighbour.credit(MIB) == MIB
        assert guest.credit(100 * MIB) == 100 * MIB
        guest.allocated(100 * MIB)
        driver.says(guest, 700 * MIB)
        until(lambda: guest.shown()["used"] == 700 * MIB)
        assert guest.refused(400 * MIB) == LIMIT
        driver.says(guest, 100 * MIB)
        until(lambda: guest.shown()["used"] == 100 * MIB)


def test_what_a_look_found_of_one_who_is_alone_is_looked_at_again():
    """Small arrays share blocks, and the guest knows roughly what they take. When they are gone nobody asks for anything."""
    with a_node("1GiB") as (driver, meted, admin, (guest,), tenants):
        has_context(driver, guest, 64 * MIB)
        assert guest.credit(100 * MIB) == 100 * MIB
        guest.allocated(100 * MIB)
        driver.says(guest, 163 * MIB)

        def is_seen():
            guest.credit(4096)  # by an ask alone
            return guest.shown()["used"] == 163 * MIB

        until(is_seen)
        driver.says(guest, 64 * MIB)
        guest.allocated(0)
        until(lambda: guest.shown()["used"] == 64 * MIB, lambda: guest.shown())


def test_an_ask_is_answered_from_figures_that_are_not_old():
    with a_node("1GiB") as (driver, meted, admin, (guest,), tenants):
        assert guest.credit(100 * MIB) == 100 * MIB
        guest.allocated(100 * MIB)
        driver.says(guest, GIB)

        def refused():
            try:
                guest.give_back(guest.credit(MIB))
                return False
            except Refused as refusal:
                return refusal.code == LIMIT

        until(refused)  # alone, and nobody reads the book


def reports(guest):
    guest.send("residual_settle", device=0, contexts=0, bytes=0, keep=1)
    guest.ask("processes_ask", device=0)  # it was heard: two connections have no order


def test_reported_memory_is_measured_before_more_is_granted():
    """To the process that reported it, and to another one of its tenant; and by a question that was asked after the report."""
    for another in (False, True):
        with a_node("1GiB") as (driver, meted, admin, (guest,), (made,)):
            asker = Guest(made.socket) if another else guest
            assert asker.credit(100 * MIB) == 100 * MIB
            asker.allocated(100 * MIB)
            driver.says(asker, 100 * MIB)
            assert asker.credit(MIB) == MIB  # the figures are fresh now
            driver.slows()
            reports(guest)
            first = driver.asked()
            reports(guest)
            id = asker.send("credit_ask", device=0, wait=0, bytes=200 * MIB, want=200 * MIB)
            asker.ask("processes_ask", device=0)
            driver.answers(first)
            second = driver.asked()
            driver.says(guest, (0 if another else 100 * MIB) + 900 * MIB)
            driver.answers(second)
            driver.rests()
            answer = asker.answer(id)
            assert answer.kind == "refused" and answer.code == LIMIT or "measure.late" in meted.log(), "it was granted before anybody had looked"


def test_a_driver_that_does_not_answer_holds_nobody_up():
    with a_node("1GiB") as (driver, meted, admin, (guest,), (made,)):
        assert guest.credit(100 * MIB) == 100 * MIB
        guest.allocated(100 * MIB)
        driver.slows()
        reports(guest)
        question = driver.asked()
        assert guest.credit(MIB) == MIB
        assert "measure.late" in meted.log()
        assert Admin(meted.place).tenant_row(made.tenant).allocated == 100 * MIB  # nor who lists them
        driver.says(guest, 500 * MIB)
        driver.answers(question)
        driver.rests()
        until(lambda: guest.shown()["used"] == 500 * MIB)
        assert guest.refused(600 * MIB) == LIMIT


def test_unused_credit_is_recalled_from_a_tenant_over_its_limit():
    with a_node("1GiB", "1GiB") as (driver, meted, admin, (guest, neighbour), tenants):
        assert neighbour.credit(MIB) == MIB
        assert guest.credit(300 * MIB) == 300 * MIB
        guest.allocated(100 * MIB)
        driver.says(guest, GIB)
        recall = guest.hear("credit_recall")
        assert recall.bytes == 200 * MIB, recall
        guest.give_back(200 * MIB, recall=recall.id)
        assert guest.refused(1) == LIMIT


def test_a_guest_that_comes_back_after_its_limit_was_lowered_keeps_its_memory():
    with a_node("1GiB") as (driver, meted, admin, (guest,), (made,)):
        assert guest.credit(800 * MIB) == 800 * MIB
        guest.allocated(800 * MIB)
        admin.set(made.tenant, "memory", "100MiB")
        for _ in range(2):  # what the first successor writes down the second one reads
            meted.kill()
            meted.start()
            guest.hang_up()
            guest = Guest(made.socket, seat=guest.seat)
            guest.state(800 * MIB)
            guest.allocated(800 * MIB)
            row = Admin(meted.place).tenant_row(made.tenant)
            assert (row.allocated, row.limit) == (800 * MIB, 100 * MIB), row
            assert guest.refused(1) == LIMIT


def test_a_context_of_before_a_restart_is_measured_though_the_driver_failed_once():
    """Nobody lists anything meanwhile, which would measure it."""
    with a_node("1GiB") as (driver, meted, admin, (guest,), (made,)):
        has_context(driver, guest, 100 * MIB)
        measured(admin, made, 100 * MIB)
        meted.kill()
        driver.fails()
        meted.start()
        guest.hang_up()
        again = Guest(made.socket, seat=guest.seat, hello=False)
        again.ask("hello", major=1, pid=guest.seat.pid, driver_version=12090, program="test", copy=0)
        tenant = mmap.mmap(again.fds[1], PAGE, prot=mmap.PROT_READ)
        before = driver.failed()
        again.state(0, contexts=1)
        until(lambda: driver.failed() > before)
        driver.says(guest, 100 * MIB)
        again.tenant = tenant
        until(lambda: again.shown()["granted"] == 100 * MIB, lambda: again.shown())
        os.unlink(driver.file.name + ".failed")


def comes_back_restless(driver, guest, made, contexts):
    """It is never measured exactly: a call of it is under way. It has just freed all of its memory when the driver is asked, and its page does not say so
    yet. When all attempts to measure it are over, this is what its tenant is shown to have been granted."""
    guest.hang_up()
    driver.says(guest, 100 * MIB)
    again = Guest(made.socket, seat=guest.seat, hello=False)
    again.ask("hello", major=1, pid=guest.seat.pid, driver_version=12090, program="test", copy=0)
    again.tenant = mmap.mmap(again.fds[1], PAGE, prot=mmap.PROT_READ)
    again.own = mmap.mmap(again.fds[0], PAGE)
    again.allocated(200 * MIB)
    again.contexts(contexts)
    again.changing()
    again.state(200 * MIB, contexts=contexts)
    again.ask("residual_check", device=0)
    return again.shown()["granted"]


def test_a_context_costs_after_a_restart_what_it_was_measured_to_cost():
    """Of a guest that never rests only bounds are known, and a guess would be lowered to nothing: its tenant could have that much more."""
    with a_node("1GiB") as (driver, meted, admin, (guest,), (made,)):
        has_context(driver, guest, 100 * MIB)
        measured(admin, made, 100 * MIB)
        assert guest.credit(200 * MIB) == 200 * MIB
        for _ in range(2):  # the next meted records it as well
            meted.kill()
            meted.start()
            assert comes_back_restless(driver, guest, made, 1) == 300 * MIB
        meted.kill()
        meted.start()
        assert comes_back_restless(driver, guest, made, 0) == 200 * MIB, "it has none any more"


if __name__ == "__main__":
    run(globals())
