#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cuIpc* of memory that moves, with the real daemon: which processes may open whose memory, and what a daemon that is killed changes about that.

    test_guest_lend.py METED SIMULATOR GUEST_LINKS MOVABLE_LOAD
"""
from sim_node import *
from sim_node import Load as SimLoad, Node as SimNode

MIB = 1 << 20
SIZE = 3 * MIB


class Load(SimLoad):
    def take(self, i, size=SIZE):
        assert self.ask("alloc", i, size) == "0"
        self.ask("fill", i, i + 1)
        return self.ask("lend", i)


class Node(SimNode):
    def used(self):
        """Of the device, by the simulated machine's own book."""
        return MIB * int(subprocess.run([sys.argv[2] + "/../nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], check=True,
                                        env=self.environment | {"LD_LIBRARY_PATH": sys.argv[2]}, capture_output=True, text=True).stdout)

    def loads(self, *swaps):
        return [Load(self, self.admin.tenant("160MiB", swap=swap)) for swap in swaps]


def test_two_processes_of_a_tenant_share_memory():
    with Node() as node:
        tenant = node.admin.tenant("1GiB", swap="auto")
        lender, borrower = Load(node, tenant), Load(node, tenant)
        handles = [lender.take(i, size) for i, size in enumerate((70 * MIB, 500, 700))]
        for i, size in enumerate((70 * MIB, 500, 700)):
            assert borrower.ask("borrow", i, handles[i], size) == "0"
            assert borrower.ask("range", i) == f"0 {size}"
            assert borrower.ask("check", i, i + 1) == "same"
        until(lambda: (row := node.admin.tenant_row(tenant.tenant)).unmovable & 1 and row.movable == 0, lambda: node.admin.tenant_row(tenant.tenant))
        borrower.ask("fill", 0, 9)
        assert lender.ask("check", 0, 9) == "same" and lender.ask("check", 1, 2) == "same"
        lender.end()
        assert borrower.ask("check", 0, 9) == "same"  # as long as it is open
        assert borrower.ask("return", 0) == "0"
        borrower.end()
        until(lambda: node.admin.tenant_row(tenant.tenant).guests == 0)
        # Memory that it had lent might have outlived it, until that was measured.
        until(lambda: (row := node.admin.tenant_row(tenant.tenant)).allocated == row.credit == row.residual == 0)


def test_lent_memory_that_is_freed_counts_until_nobody_has_it():
    """However often: the limit holds to the byte, by the simulated machine's book. What a borrower closes, or takes along, is room again."""
    size = 16 * MIB
    for leaves in "returns", "ends", "is killed":
        with Node() as node:
            tenant = node.admin.tenant("256MiB", swap="auto")
            lender, borrower = Load(node, tenant), Load(node, tenant)
            lent = 0
            while (result := lender.ask("alloc", lent, size)) == "0":
                lender.ask("fill", lent, lent + 1)
                handle = lender.ask("lend", lent)
                assert borrower.ask("borrow", lent, handle, size) == "0"
                assert lender.ask("free", lent) == "0"
                assert node.used() <= 256 * MIB, node.used()
                lent += 1
                assert lent < 12, "the limit does not hold"
            assert result == "2" and lent, (result, lent)
            assert borrower.ask("check", 0, 1) == "same"
            if leaves == "returns":
                for i in range(lent):
                    assert borrower.ask("return", i) == "0"
            elif leaves == "ends":
                borrower.end()
            else:
                borrower.process.kill()
                borrower.process.wait()
            until(lambda: lender.ask("alloc", 0, size) == "0")
            if leaves == "returns":
                borrower.end()
            lender.end()
            until(lambda: (row := node.admin.tenant_row(tenant.tenant)).allocated == row.credit == row.residual == 0)


def test_lent_memory_is_charged_once_also_when_its_lender_has_been_killed():
    """Freed or not: while a borrower has it, it is in its tenant's book, once; then in nobody's."""
    size, count = 16 * MIB, 6
    for freed in True, False:
        with Node() as node:
            tenant = node.admin.tenant("512MiB", swap="auto")
            lender, borrower = Load(node, tenant), Load(node, tenant)

            def book():
                row = node.admin.tenant_row(tenant.tenant)
                return row.allocated + row.residual

            for i in range(count):
                handle = lender.take(i, size)
                assert borrower.ask("borrow", i, handle, size) == "0"
                assert not freed or lender.ask("free", i) == "0"
            until(lambda: book() == node.used() >= count * size, lambda: (book(), node.used()))
            lender.process.kill()
            lender.process.wait()
            until(lambda: node.admin.tenant_row(tenant.tenant).guests == 1)
            assert book() >= node.used(), (book(), node.used())
            # Asks that are in vain measure again how much it is.
            until(lambda: (borrower.ask("alloc", 50, 500 * MIB), book() == node.used() >= count * size)[1], lambda: (book(), node.used()))
            # A meted that is killed, or ends, is followed by one that knows of it.
            for end in node.meted.kill, lambda: (node.meted.process.terminate(), node.meted.process.wait()):
                end()
                node.meted.start()
                node.admin = Admin(node.meted.place)
                until(lambda: node.admin.tenant_row(tenant.tenant).guests == 1)
                assert book() >= node.used() - 66 * MIB, (book(), node.used())  # its context and mover are yet to be measured
                until(lambda: (borrower.ask("alloc", 50, 500 * MIB), book() == node.used() >= count * size)[1], lambda: (book(), node.used()))
            for i in range(count):
                assert borrower.ask("return", i) == "0"
            until(lambda: (borrower.ask("alloc", 50, 500 * MIB), book() == node.used() < count * size)[1], lambda: (book(), node.used()))
            borrower.end()


def test_tenants_of_one_user_share_memory_whether_theirs_moves_or_not():
    with Node() as node:
        moving, plain, other = node.loads("auto", "off", "auto")
        handle = moving.take(0)
        assert plain.ask("borrow", 1, handle, SIZE) == "0" and plain.ask("check", 1, 1) == "same"
        handle = plain.take(2)
        for load in moving, other:
            assert load.ask("borrow", 2, handle, SIZE) == "0" and load.ask("check", 2, 3) == "same"
        for load in moving, plain, other:
            load.end()


def test_memory_is_lent_and_stays_lent_over_a_daemon_that_is_killed():
    with Node() as node:
        lender, borrower, late = node.loads("auto", "auto", "auto")
        handles = [lender.take(i) for i in range(2)]
        assert borrower.ask("borrow", 0, handles[0], SIZE) == "0"
        for _ in range(3):
            node.meted.kill()
            node.meted.start()
            # The first that is back waits for the other.
            assert borrower.ask("borrow", 1, handles[1], SIZE) == "0"
            assert borrower.ask("check", 0, 1) == "same" and borrower.ask("check", 1, 2) == "same"
            assert borrower.ask("return", 1) == "0"
        node.admin = Admin(node.meted.place)  # or meted leaves with the last of them
        assert late.ask("borrow", 0, handles[0], SIZE) == "0"
        assert (found := late.ask("check", 0, 1)) == "same", found
        os.kill(lender.process.pid, signal.SIGKILL)
        lender.process.wait()
        assert late.ask("check", 0, 1) == "same"
        assert late.ask("borrow", 1, handles[1], SIZE) == "205"
        late.end()
        borrower.end()


def test_a_lender_that_stands_still_holds_up_only_processes_that_open_its_handle():
    """Opening fails in the end; everything else goes on, and once the lender goes on, too, it can be opened."""
    with Node() as node:
        lender, borrower, other = node.loads("auto", "auto", "auto")
        handle = lender.take(0)
        os.kill(lender.process.pid, signal.SIGSTOP)
        os.waitpid(lender.process.pid, os.WUNTRACED)  # only now do all of its threads stand still
        try:
            borrower.process.stdin.write(f"borrow 0 {handle} {SIZE}\n")
            lent = other.take(1)
            assert other.ask("check", 1, 2) == "same"
            assert borrower.hear() not in ("0", "")
            assert borrower.ask("borrow", 1, lent, SIZE) == "0" and borrower.ask("check", 1, 2) == "same"
        finally:
            os.kill(lender.process.pid, signal.SIGCONT)
        assert borrower.ask("borrow", 0, handle, SIZE) == "0" and borrower.ask("check", 0, 1) == "same"
        for load in borrower, other, lender:
            load.end()


def test_a_name_that_nobody_has_is_refused_and_a_borrower_gets_no_other_channel():
    with Node() as node:
        guest = Guest(node.tenant.socket)
        guest.state(0)
        guest.ask("lend", name=bytes(16))
        guest.ask("lend", name=b"y" * 16)
        for name in (bytes(16), b"x" * 16):
            try:
                guest.ask("borrow", name=name, area=1)
                raise AssertionError("somebody lends")
            except Refused as refused:
                assert refused.code == UNKNOWN, refused
        assert guest.ask("borrow", name=b"y" * 16, area=7).kind == "channel"
        assert guest.hear("channel").area == 7 and len(guest.fds) == 4
        guest.close()


def refusal(guest, name):
    try:
        return guest.ask("borrow", name=name, area=1)
    except Refused as refused:
        return refused.code


def test_a_lender_that_is_late_after_a_restart_is_waited_for():
    """Later than meted itself waits for it, too: its process lives, and states its name when it comes."""
    with Node() as node:
        lender = Guest(node.tenant.socket)
        lender.state(0)
        lender.ask("lend", name=b"y" * 16)
        node.meted.kill()
        node.meted.options = ("--grace", "1s")
        node.meted.start()
        node.admin = Admin(node.meted.place)
        borrower = Guest(node.tenant.socket)
        borrower.state(0)
        assert refusal(borrower, b"y" * 16) == BAD
        until(lambda: "guest.missing" in node.meted.log(), "the grace is not over")
        assert refusal(borrower, b"y" * 16) == BAD
        lender = Guest(node.tenant.socket, seat=lender.seat)
        assert refusal(borrower, b"y" * 16) == BAD
        lender.ask("lend", name=b"y" * 16)
        assert refusal(borrower, b"x" * 16) == UNKNOWN
        assert refusal(borrower, b"y" * 16).kind == "channel"
        for guest in borrower, lender:
            guest.close()


run(globals())
