#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""meted and its guests: joining, credit, limits, waiting, gates, leaving."""
import os
import subprocess
import sys
import tempfile
import threading

from meted import *


def forked(work):
    """A child process that runs work() and then waits to be killed; returns its pid once work() is done."""
    ready, done = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            keep = work()  # what it returns must stay open
            os.write(done, b"1")
            signal.pause()
            del keep
        finally:
            os._exit(1)
    os.close(done)
    assert os.read(ready, 1) == b"1"
    os.close(ready)
    return pid


def kill(pid):
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def eventually(admin, what):
    """meted learns of a death by itself: asks until what(admin) is true."""
    until(lambda: admin.list() and what())


def test_a_guest_joins_and_is_granted_credit():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")
        guest = Guest(made.socket)
        assert guest.welcome.tenant == made.tenant and guest.welcome.devices == 1
        shown = guest.shown()
        assert shown["limit"] == GIB and shown["total"] == 4 * GIB and shown["gate"] == OPEN, shown
        assert guest.credit(MIB) == MIB
        guest.allocated(MIB)
        assert guest.refused(GIB) == LIMIT
        row = admin.tenant_row(made.tenant)
        assert (row.allocated, row.credit, row.guests, row.refusals) == (MIB, 0, 1, 1), row
        assert admin.guests(made.tenant)[0].pid == guest.seat.pid
        assert meted.log().count("memory.refused") == 1
        guest.refused(GIB)
        assert meted.log().count("memory.refused") == 1, "the reason is logged once"


def test_the_limit_holds_to_the_byte_and_what_is_left_is_granted():
    with Daemon("--context", "1K") as meted:
        admin = Admin(meted.place)
        guest = Guest(admin.tenant("1MiB").socket)
        assert guest.credit(MIB - 1) == MIB - 1
        guest.allocated(MIB - 1)
        assert guest.refused(2) == LIMIT
        assert guest.credit(1) == 1


def test_a_killed_guest_leaves_nothing():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")

        def work():
            guest = Guest(made.socket, seat=Here())
            guest.credit(GIB)
            guest.allocated(GIB)
            return guest

        pid = forked(work)
        other = Guest(made.socket)
        assert other.refused(1) == LIMIT
        kill(pid)
        eventually(admin, lambda: admin.tenant_row(made.tenant).allocated == 0)
        assert other.credit(GIB) == GIB


def test_a_guest_dies_although_its_child_keeps_the_connection_open():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")
        ours, its = socket.socketpair()
        ours.settimeout(PATIENCE)

        def work():
            guest = Guest(made.socket, seat=Here())
            guest.credit(GIB)
            if os.fork() == 0:
                ours.close()
                outlives_its_parent(its)
            return guest

        pid = forked(work)
        its.close()

        def child_lives():
            return ours.send(b"?") == 1 and ours.recv(1) == b"y"

        assert child_lives() and admin.tenant_row(made.tenant).credit == GIB
        kill(pid)
        eventually(admin, lambda: admin.tenant_row(made.tenant).credit == 0)
        assert child_lives(), "what was given back was its parent's, and it has the connection still"
        ours.close()


def test_what_a_guest_held_is_returned_when_its_process_ends_not_its_connection():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")
        guest, other = Guest(made.socket), Guest(made.socket)
        guest.credit(600 * MIB)
        guest.allocated(200 * MIB)
        guest.hang_up()
        until(lambda: "guest.away" in meted.log(), "the end of a connection is an event of meted's")
        row = admin.tenant_row(made.tenant)
        assert (row.guests, row.allocated, row.credit) == (2, 200 * MIB, 400 * MIB), row
        assert other.refused(500 * MIB) == LIMIT
        guest = Guest(made.socket, seat=guest.seat)
        guest.state(200 * MIB, 100 * MIB)  # what it returned meanwhile, or never heard of
        guest.allocated(200 * MIB, 100 * MIB)
        row = admin.tenant_row(made.tenant)
        assert (row.guests, row.allocated, row.credit) == (2, 200 * MIB, 100 * MIB), row
        guest.close()
        eventually(admin, lambda: admin.tenant_row(made.tenant).guests == 1)
        assert other.credit(GIB) == GIB


def test_a_process_is_one_guest_however_often_it_connects():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")
        guest = Guest(made.socket)
        guest.credit(100 * MIB)
        guest.allocated(50 * MIB)
        for _ in range(20):
            again = Guest(made.socket, seat=guest.seat)
            try:
                while True:
                    guest.receive()
            except Gone:
                pass  # the earlier connection has ended
            guest = again
            row = admin.tenant_row(made.tenant)
            assert (row.guests, row.allocated + row.credit, row.joins) == (1, 100 * MIB, 1), row
            guest.state(50 * MIB, 50 * MIB)
            guest.allocated(50 * MIB, 50 * MIB)
        # It cannot come into more than it was granted by saying so.
        again = Guest(made.socket, seat=guest.seat)
        again.state(900 * MIB, 100 * MIB)
        again.allocated(900 * MIB, 100 * MIB)
        row = admin.tenant_row(made.tenant)
        assert (row.guests, row.allocated, row.credit) == (1, 100 * MIB, 0), row


def refused_as_another_copy(socket_path, seat, copy):
    try:
        Guest(socket_path, seat=seat, copy=copy)
    except Refused as refusal:
        assert refusal.code == IDENTITY and "another copy" in str(refusal), refusal
        return True
    return False


def test_a_second_copy_of_the_library_in_a_process_does_not_take_the_place_of_the_first():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")
        guest = Guest(made.socket, copy=0x7f0000001000)
        guest.credit(600 * MIB)
        guest.allocated(200 * MIB)
        # It would state that it holds nothing, and the credit of the first one would be granted twice.
        assert refused_as_another_copy(made.socket, guest.seat, 0x7f0000002000)
        row = admin.tenant_row(made.tenant)
        assert (row.guests, row.allocated, row.credit, row.joins) == (1, 200 * MIB, 400 * MIB, 1), row
        guest.give_back(100 * MIB)
        assert guest.credit(MIB) == MIB  # on the connection that it has
        # Nor while the first one is away, which may come back. In another process it is the first one.
        guest.hang_up()
        until(lambda: "guest.away" in meted.log(), "the end of a connection is an event of meted's")
        assert refused_as_another_copy(made.socket, guest.seat, 0x7f0000002000)
        again = Guest(made.socket, seat=guest.seat, copy=0x7f0000001000)
        again.state(200 * MIB, 100 * MIB)
        other = Guest(made.socket, copy=0x7f0000002000)
        assert admin.tenant_row(made.tenant).guests == 2
        again.close()
        other.close()


def test_a_process_that_becomes_another_program_is_another_guest():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")
        watch, end = os.pipe()
        ready, done = os.pipe()
        pid = os.fork()
        if pid == 0:
            guest = Guest(made.socket, seat=Here())
            guest.credit(GIB)
            os.write(done, b"1")
            os.close(done)
            os.dup2(watch, 0)
            os.execvp("sh", ["sh", "-c", "read line"])
        assert os.read(ready, 1) == b"1"
        eventually(admin, lambda: admin.tenant_row(made.tenant).guests == 0)
        assert os.waitpid(pid, os.WNOHANG) == (0, 0), "it lives"
        assert Guest(made.socket).credit(GIB) == GIB
        os.write(end, b"\n")
        os.waitpid(pid, 0)


def test_a_siblings_unused_credit_is_recalled_before_a_refusal():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("100MiB")
        first, second = Guest(made.socket), Guest(made.socket)
        assert first.credit(100 * MIB) == 100 * MIB
        first.allocated(60 * MIB)
        id = second.send("credit_ask", device=0, wait=0, bytes=40 * MIB, want=40 * MIB)
        recall = first.hear("credit_recall")
        assert recall.bytes == 40 * MIB and recall.id & 0x80000000
        first.give_back(40 * MIB, recall=recall.id)
        assert second.answer(id).kind == "credit_grant"
        second.allocated(40 * MIB)
        assert second.refused(1) == LIMIT


def test_a_sibling_that_is_stopped_delays_a_refusal_and_does_not_prevent_it():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("100MiB")
        first, second = Guest(made.socket), Guest(made.socket)
        first.credit(100 * MIB)
        assert second.refused(MIB) == LIMIT  # first never answers
        assert first.hear("credit_recall").bytes == MIB


def full_device(meted, wait):
    """Three tenants that may each have the whole device, of which the first has everything."""
    admin = Admin(meted.place)
    makes = [admin.tenant("100%", name=f"t{i}", wait=wait) for i in range(3)]
    holder = Guest(makes[0].socket)
    holder.credit(4 * GIB)
    holder.allocated(4 * GIB)
    return admin, makes, holder


def test_room_is_waited_for_in_the_order_of_asking():
    with Daemon() as meted:
        admin, makes, holder = full_device(meted, "60s")
        first, second = Guest(makes[1].socket), Guest(makes[2].socket)
        one = first.send("credit_ask", device=0, wait=1, bytes=2 * GIB, want=2 * GIB)
        eventually(admin, lambda: admin.tenant_row(makes[1].tenant).waiting == 1)
        two = second.send("credit_ask", device=0, wait=1, bytes=GIB, want=GIB)
        eventually(admin, lambda: admin.tenant_row(makes[2].tenant).waiting == 1)
        holder.allocated(3 * GIB)
        holder.give_back(GIB)  # the second would fit: it is not its turn
        eventually(admin, lambda: admin.tenant_row(makes[0].tenant).allocated == 3 * GIB)
        assert admin.tenant_row(makes[2].tenant).waiting == 1
        holder.allocated(2 * GIB)
        holder.give_back(GIB)
        assert first.answer(one).bytes == 2 * GIB
        first.allocated(2 * GIB)
        assert admin.tenant_row(makes[2].tenant).waiting == 1
        holder.allocated(GIB)
        holder.give_back(GIB)
        assert second.answer(two).bytes == GIB


def test_memory_freed_into_credit_reaches_who_waits():
    with Daemon() as meted:
        admin, makes, holder = full_device(meted, "60s")
        waiter = Guest(makes[1].socket)
        id = waiter.send("credit_ask", device=0, wait=1, bytes=GIB, want=GIB)
        eventually(admin, lambda: admin.tenant_row(makes[1].tenant).waiting == 1)
        holder.allocated(3 * GIB, credit=GIB)  # freed, and not returned
        recall = holder.hear("credit_recall")
        holder.give_back(recall.bytes, recall=recall.id)
        assert waiter.answer(id).bytes == GIB


def test_waiting_is_bounded_and_never_under_capture():
    with Daemon() as meted:
        admin, makes, holder = full_device(meted, "200ms")
        waiter = Guest(makes[1].socket)
        assert waiter.refused(GIB, wait=1) == DEADLINE
        assert waiter.refused(GIB, wait=0) == FULL
        assert admin.tenant_row(makes[1].tenant).waiting == 0


def test_a_killed_waiter_leaves_nothing():
    with Daemon() as meted:
        admin, makes, holder = full_device(meted, "1h")

        def work():
            guest = Guest(makes[1].socket, seat=Here())
            guest.send("credit_ask", device=0, wait=1, bytes=3 * GIB, want=3 * GIB)
            return guest

        pid = forked(work)
        eventually(admin, lambda: admin.tenant_row(makes[1].tenant).waiting == 1)
        kill(pid)
        eventually(admin, lambda: admin.tenant_row(makes[1].tenant).waiting == 0)
        holder.allocated(3 * GIB)
        holder.give_back(GIB)
        assert Guest(makes[2].socket).credit(GIB) == GIB


def test_over_its_own_limit_nobody_waits():
    with Daemon("--context", "1K") as meted:
        admin = Admin(meted.place)
        guest = Guest(admin.tenant("1MiB", wait="1h").socket)
        guest.credit(MIB)
        guest.allocated(MIB)
        assert guest.refused(1, wait=1) == LIMIT


def test_limits_change_live_and_break_nothing():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB", name="live")
        guest = Guest(made.socket)
        guest.credit(GIB)
        guest.allocated(GIB)
        admin.set(made.tenant, "memory", "512MiB")
        assert guest.shown()["limit"] == 512 * MIB
        assert admin.tenant_row(made.tenant).allocated == GIB
        assert guest.refused(1) == LIMIT
        guest.allocated(256 * MIB)
        guest.give_back(768 * MIB)
        assert guest.credit(256 * MIB) == 256 * MIB
        admin.ask("tenant_set", tenant=0, name="live", key="memory", value="2GiB")
        guest.allocated(512 * MIB)
        assert guest.credit(GIB) == GIB
        assert guest.shown()["strict"] == 0
        admin.set(made.tenant, "strict", "yes")
        assert guest.shown()["strict"] == 1


def test_bad_input_gets_one_sentence():
    rows = [
        (dict(memory="8GiB"), "is too much", "4GiB"),
        (dict(memory="0GiB"), "is zero", "accepted"),
        (dict(memory="-1GiB"), "is negative", "accepted"),
        (dict(memory="4 parsecs"), "has no unit", "512MiB"),
        (dict(memory="much"), "is not understood", "20G"),
        (dict(memory="256m"), "thousandths", "write M"),
        (dict(memory="0" * 200 + "8.123456789GiB"), "is too much", "GPU-", "has 4GiB", "at most all of it"),
        (dict(memory="8.5" + "x" * 200), "has no unit", "at most all of it"),
        (dict(memory="1GiB", device="7"), "there is no '7'", "index below 1", "nvidia-smi -L"),
        (dict(memory="1GiB", device="GPU-ffffffff-0000-0000-0000-000000000000"), "there is no", "UUID"),
        (dict(memory="1GiB", device="0,0"), "named twice", "0"),
        (dict(memory="1GiB", wait="soon"), "is not understood", "10s"),
        (dict(memory="1GiB", on_daemon_loss="panic"), "is not understood", "continue, block or fail"),
    ]
    with Daemon() as meted:
        admin = Admin(meted.place)
        for fields, *words in rows:
            try:
                admin.tenant(**fields)
                raise AssertionError(f"{fields} was accepted")
            except Refused as refusal:
                assert refusal.code == VALUE
                assert all(word in str(refusal) for word in words), str(refusal)
                assert "\n" not in str(refusal)
        made = admin.tenant("1GiB")
        for who, key, value, word in [(made.tenant, "memory", "5GiB", "has 4GiB"), (made.tenant, "colour", "red", "memory"),
                                      (99, "memory", "1GiB", "no tenant 99"), (made.tenant, "cap", "200%", "too much")]:
            try:
                admin.set(who, key, value)
                raise AssertionError(f"{key}={value} was accepted")
            except Refused as refusal:
                assert word in str(refusal), str(refusal)


def test_options_that_are_not_understood_are_one_sentence():
    for options, word in [(["--colour"], "'--colour' is not an option"), (["junk"], "'junk' is not an option"),
                          (["--user", "--system"], "exclusive"), (["--dir"], "--dir needs a value"),
                          (["--dir", "relative"], "absolute"), (["--log-level", "loud"], "'loud'"),
                          (["--reserve", "5m"], "512M"), (["--block", "3M"], "2MiB to 64MiB"), (["--block", "66M"], "2MiB to 64MiB"), (["--help=1"], "takes no value"),
                          (["--dir", "/" + "x" * 200], "at most 79")]:
        ran = subprocess.run([sys.argv[1], *options], capture_output=True, text=True)
        assert ran.returncode in (1, 2) and word in ran.stderr, (options, ran.stderr)
        assert ran.stderr.count("\n") == 1, ran.stderr
    ran = subprocess.run([sys.argv[1], "--help"], capture_output=True, text=True)
    assert ran.returncode == 0 and "--reserve BYTES" in ran.stdout
    assert "meted 0" in subprocess.run([sys.argv[1], "--version"], capture_output=True, text=True).stdout


def test_without_a_driver_it_says_so():
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o700)
        ran = subprocess.run([sys.argv[1], "--user", "--dir", place, "--driver", place], capture_output=True, text=True)
        assert ran.returncode == 1 and "libnvidia-ml.so.1" in ran.stderr and "cannot be opened" in ran.stderr
        # A library that is none of NVIDIA's, or too old a one.
        os.symlink("/lib/x86_64-linux-gnu/libc.so.6", place + "/libnvidia-ml.so.1")
        ran = subprocess.run([sys.argv[1], "--user", "--dir", place, "--driver", place], capture_output=True, text=True)
        assert ran.returncode == 1 and "nvmlInit_v2" in ran.stderr and "too old" in ran.stderr, ran.stderr


def test_a_folder_of_another_mode_is_refused():
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        ran = subprocess.run([sys.argv[1], "--user", "--dir", place, "--driver", sys.argv[2]], capture_output=True, text=True)
        assert ran.returncode == 1 and "mode 0700" in ran.stderr, ran.stderr


def test_two_never_run_in_one_folder():
    with Daemon() as meted:
        ran = subprocess.run([sys.argv[1], "--user", "--dir", meted.place, "--driver", sys.argv[2]],
                             capture_output=True, text=True)
        assert ran.returncode == 1 and "another meted is running" in ran.stderr, ran.stderr
        assert Admin(meted.place).welcome.pid == meted.process.pid


def test_a_tenant_lives_until_its_keeper_and_its_guests_have_left_and_the_daemon_with_it():
    with Daemon() as meted:
        admin = Admin(meted.place)
        watcher = Admin(meted.place)
        made = admin.tenant("1GiB")
        guest = Guest(made.socket)
        admin.close()
        assert watcher.tenant_row(made.tenant).guests == 1
        guest.close()
        eventually(watcher, lambda: not [row for row in watcher.list() if row.kind == "tenant_row"])
        assert not os.path.exists(made.socket)
        watcher.close()
        assert meted.wait() == 0
        assert not os.path.exists(meted.place + "/journal") and not os.path.exists(meted.place + "/admin.sock")


def test_another_connection_may_keep_a_tenant():
    with Daemon() as meted:
        admin, other = Admin(meted.place), Admin(meted.place)
        made = admin.tenant("1GiB")
        other.ask("tenant_keep", tenant=made.tenant)
        admin.close()
        assert Guest(made.socket).credit(MIB) == MIB
        assert other.tenant_row(made.tenant).limit == GIB


def test_a_process_may_keep_a_tenant_before_it_is_a_guest():
    with Daemon() as meted:
        admin, watcher = Admin(meted.place), Admin(meted.place)
        other = watcher.tenant("1GiB")
        made = admin.tenant("1GiB")
        with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as program:
            for _ in range(100):  # twice is once
                admin.ask("tenant_keep", tenant=made.tenant, pid=program.pid)
            admin.close()
            guest = Guest(made.socket)
            assert guest.credit(MIB) == MIB
            guest.close()
            eventually(watcher, lambda: watcher.tenant_row(made.tenant).guests == 0)
            assert watcher.tenant_row(made.tenant).joins == 1
        eventually(watcher, lambda: len([row for row in watcher.list() if row.kind == "tenant_row"]) == 1)
        assert not os.path.exists(made.socket)
        try:
            watcher.ask("tenant_keep", tenant=other.tenant, pid=program.pid)
            raise AssertionError("somebody who is gone keeps it")
        except Refused as refusal:
            assert f"there is no process {program.pid}" in str(refusal), refusal


def kernels():
    """A thread of the kernel; None: this namespace shows none."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as stat:
                if int(stat.read().rpartition(")")[2].split()[6]) & 0x200000:
                    return int(pid)
        except OSError:
            pass
    return None


def test_nobody_keeps_a_tenant_whose_end_would_never_come():
    with Daemon() as meted:
        admin, watcher = Admin(meted.place), Admin(meted.place)
        made = admin.tenant("1GiB")
        for pid, what in (meted.process.pid, "meted itself"), (kernels(), "the kernel's"):
            if not pid:
                continue
            try:
                admin.ask("tenant_keep", tenant=made.tenant, pid=pid)
                raise AssertionError(f"{what} keeps it")
            except Refused as refusal:
                assert f"process {pid} is {what}" in str(refusal), refusal
        admin.close()
        eventually(watcher, lambda: not [row for row in watcher.list() if row.kind == "tenant_row"])


def test_a_context_is_reserved_first_and_then_measured():
    with tempfile.NamedTemporaryFile("w") as processes:
        with Daemon(environment={"METE_STUB_PROCESSES": processes.name}) as meted:
            admin = Admin(meted.place)
            made = admin.tenant("1GiB")
            guest = Guest(made.socket)
            answer = guest.ask("residual_ask", device=0, bytes=300 * MIB)
            assert answer.kind == "done" and answer.value == 300 * MIB
            assert admin.tenant_row(made.tenant).residual == 300 * MIB
            assert guest.refused(800 * MIB) == LIMIT
            guest.credit(100 * MIB)
            guest.allocated(100 * MIB)

            def driver_says(used):  # in place: the daemon may be reading
                processes.seek(0)
                processes.write(f"0 {guest.seat.pid} {used:12d}\n0 1 {GIB}\n")
                processes.flush()

            driver_says(250 * MIB)
            guest.contexts(1)
            guest.send("residual_settle", device=0, contexts=1, bytes=300 * MIB)
            eventually(admin, lambda: admin.tenant_row(made.tenant).residual == 150 * MIB)
            assert guest.shown()["used"] == 250 * MIB
            assert guest.credit(GIB - 250 * MIB) == GIB - 250 * MIB
            driver_says(GIB)
            guest.allocated(GIB - 150 * MIB)
            # The next context is thought to take what the first one took.
            assert guest.refused(1) == LIMIT
            guest.allocated(100 * MIB)
            driver_says(250 * MIB)
            guest.give_back(GIB - 250 * MIB)
            assert guest.ask("residual_ask", device=0, bytes=0).value == 150 * MIB


def test_a_context_beyond_the_limit_is_refused_with_a_sentence():
    with Daemon() as meted:
        admin = Admin(meted.place)
        guest = Guest(admin.tenant("64MiB").socket)
        try:
            guest.ask("residual_ask", device=0, bytes=65 * MIB)
            raise AssertionError("granted")
        except Refused as refusal:
            assert refusal.code == LIMIT and "65MiB of a context" in str(refusal) and "64MiB is reached" in str(refusal)


def test_a_module_beyond_the_limit_is_told_after_it_was_measured():
    with tempfile.NamedTemporaryFile("w") as processes:
        with Daemon(environment={"METE_STUB_PROCESSES": processes.name}) as meted:
            admin = Admin(meted.place)
            made = admin.tenant("1GiB")
            guest, other = Guest(made.socket), Guest(made.socket)
            assert guest.ask("residual_check", device=0).kind == "done"
            processes.write(f"0 {guest.seat.pid} {GIB}\n")
            processes.flush()
            assert guest.ask("residual_check", device=0).kind == "done", "just within"
            processes.seek(0)
            processes.truncate()
            processes.flush()
            guest.send("residual_settle", device=0, contexts=0, bytes=0, keep=1)
            assert other.credit(100 * MIB) == 100 * MIB, "it waits for what is being measured"
            processes.write(f"0 {guest.seat.pid} {GIB + MIB:12d}\n")
            processes.flush()
            try:
                guest.ask("residual_check", device=0)
                raise AssertionError("granted")
            except Refused as refusal:
                assert refusal.code == LIMIT and "a module" in str(refusal)


def test_the_gate_closes_when_every_guest_has_drained():
    with Daemon() as meted:
        admin, other = Admin(meted.place), Admin(meted.place)
        made = admin.tenant("1GiB")
        first, second = Guest(made.socket), Guest(made.socket)
        id = admin.send("gate_set", tenant=made.tenant, device=0, state=CLOSED)
        told = first.hear("gate")
        assert told.state == CLOSING and first.shown()["gate"] == CLOSING and first.shown()["not_open"] == 1
        assert told.epoch == first.shown()["epoch"]
        first.send("drained", device=0, epoch=told.epoch - 1)  # of an earlier close: ignored
        first.send("drained", device=0, epoch=told.epoch)
        told = second.hear("gate")
        assert other.tenant_row(made.tenant).gate == CLOSING
        second.send("drained", device=0, epoch=told.epoch)
        assert admin.answer(id).kind == "done"
        assert first.shown()["gate"] == CLOSED
        late = Guest(made.socket)  # joins a closed gate: it is told
        assert late.hear("gate").state == CLOSED
        admin.ask("gate_set", tenant=made.tenant, device=0, state=OPEN)
        assert first.hear("gate").state == OPEN and first.shown()["not_open"] == 0


def test_a_close_that_a_capture_holds_up_is_given_up():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")
        first, second = Guest(made.socket), Guest(made.socket)
        first.captures(1)
        id = admin.send("gate_set", tenant=made.tenant, device=0, state=CLOSED)
        told = second.hear("gate")
        second.send("drained", device=0, epoch=told.epoch)
        assert first.hear("gate").state == CLOSING
        answer = admin.answer(id)
        assert answer.kind == "refused" and f"process {first.seat.pid} keeps a stream capture open" in answer.reason, answer
        assert first.hear("gate").state == OPEN and second.hear("gate").state == OPEN
        assert first.shown()["gate"] == OPEN and first.shown()["not_open"] == 0
        row = admin.tenant_row(made.tenant)
        assert row.coupled == 1 and row.gate == OPEN
        first.captures(0)  # and it is no longer coupled once it has drained
        id = admin.send("gate_set", tenant=made.tenant, device=0, state=CLOSED)
        for guest in first, second:
            guest.send("drained", device=0, epoch=guest.hear("gate").epoch)
        assert admin.answer(id).kind == "done" and admin.tenant_row(made.tenant).coupled == 0


def test_a_close_that_waits_for_work_is_not_given_up():
    with Daemon() as meted:
        admin, other = Admin(meted.place), Admin(meted.place)
        made, captures = admin.tenant("1GiB"), other.tenant("1GiB", name="captures")
        works, restless = Guest(made.socket), Guest(captures.socket)
        restless.captures(1)
        id = admin.send("gate_set", tenant=made.tenant, device=0, state=CLOSED)
        told = works.hear("gate")
        try:  # long enough for a neighbour that began later to be given up
            other.ask("gate_set", tenant=captures.tenant, device=0, state=CLOSED)
            raise AssertionError("it closed over a capture")
        except Refused:
            pass
        assert works.shown()["gate"] == CLOSING and other.tenant_row(made.tenant).coupled == 0
        works.send("drained", device=0, epoch=told.epoch)
        assert admin.answer(id).kind == "done"


def test_a_guest_may_say_that_it_is_idle_or_wants_its_device():
    with Daemon() as meted:
        admin = Admin(meted.place)
        guest = Guest(admin.tenant("1GiB").socket)
        assert guest.turns() == dict(say=0, contended=0, flight_ns=0, grace_ns=0)
        for word in ("idle", "wants", "idle", "idle"):
            guest.send(word, device=0)
        guest.send("wants", device=99)  # not one of its devices: nothing comes of it
        assert guest.credit(1 << 20) == 1 << 20


def test_a_dead_guest_counts_as_drained():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")
        pid = forked(lambda: Guest(made.socket))
        id = admin.send("gate_set", tenant=made.tenant, device=0, state=CLOSED)
        kill(pid)
        assert admin.answer(id).kind == "done"


def test_a_close_that_is_overtaken_is_refused():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")
        guest = Guest(made.socket)
        close = admin.send("gate_set", tenant=made.tenant, device=0, state=CLOSED)
        open_ = admin.send("gate_set", tenant=made.tenant, device=0, state=OPEN)
        assert admin.answer(close).kind == "refused"
        assert admin.answer(open_).kind == "done"
        assert guest.shown()["gate"] == OPEN and guest.shown()["not_open"] == 0


def test_several_devices_each_with_its_own_book():
    with Daemon(environment={"METE_STUB_DEVICES": "3"}) as meted:
        admin = Admin(meted.place)
        made = admin.tenant("25%", device="2,0")
        guest = Guest(made.socket)
        assert guest.welcome.devices == 2
        assert guest.credit(GIB, device=0) == GIB and guest.credit(GIB, device=1) == GIB
        guest.allocated(GIB, device=0)
        guest.allocated(GIB, device=1)
        assert guest.refused(1, device=1) == LIMIT
        assert admin.device_row(2).allocated == GIB and admin.device_row(0).allocated == GIB
        assert admin.device_row(1).allocated == 0
        try:
            guest.credit(1, device=2)
            raise AssertionError("granted")
        except Refused as refusal:
            assert refusal.code == UNKNOWN
        # Without a wish, a tenant comes to the device of which least is promised.
        assert admin.tenant("10%").uuid.endswith("01")


def test_a_peak_between_two_looks_is_seen():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")
        guest = Guest(made.socket)
        guest.credit(500 * MIB)
        guest.allocated(0)
        struct.pack_into("<Q", guest.own, 64 + 24, 400 * MIB)
        assert admin.tenant_row(made.tenant).peak == 400 * MIB
        assert admin.tenant_row(made.tenant).allocated == 0
        struct.pack_into("<Q", guest.own, 64 + 24, 1 << 60)  # more than it was ever granted: not believed
        assert admin.tenant_row(made.tenant).peak == 500 * MIB


def test_a_peak_goes_with_the_context_that_there_was_then():
    with tempfile.NamedTemporaryFile("w") as processes:
        with Daemon(environment={"METE_STUB_PROCESSES": processes.name}) as meted:
            admin = Admin(meted.place)
            made = admin.tenant("1GiB")
            guest = Guest(made.socket)
            guest.ask("residual_ask", device=0, bytes=100 * MIB)
            processes.write(f"0 {guest.seat.pid} {100 * MIB}\n")
            processes.flush()
            guest.contexts(1)
            guest.send("residual_settle", device=0, contexts=1, bytes=100 * MIB)
            guest.credit(20 * MIB)
            assert admin.tenant_row(made.tenant).peak == 100 * MIB
            # It allocates, frees, and its context is gone before anybody looks again.
            struct.pack_into("<Q", guest.own, 64 + 24, 20 * MIB)
            processes.seek(0)
            processes.truncate()
            guest.contexts(0)
            row = admin.tenant_row(made.tenant)
            assert (row.residual, row.allocated, row.peak) == (0, 0, 120 * MIB), row


def test_processes_are_those_of_the_tenant():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made, other = admin.tenant("1GiB"), admin.tenant("1GiB")
        guest, stranger = Guest(made.socket), Guest(other.socket)
        guest.credit(MIB)
        guest.allocated(MIB)
        stranger.credit(MIB)
        stranger.allocated(MIB)
        id = guest.send("processes_ask", device=0)
        row = guest.answer(id)
        assert row.kind == "process_row" and (row.pid, row.used) == (guest.seat.pid, MIB)
        assert guest.answer(id).rows == 1


def test_the_page_shows_rivals_and_room():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("4GiB")
        guest = Guest(made.socket)
        assert guest.shown()["rivals"] == 0 and guest.shown()["room"] == 4 * GIB
        other = Guest(admin.tenant("4GiB").socket)
        assert guest.shown()["rivals"] == 1
        other.credit(GIB)
        assert guest.shown()["room"] == 3 * GIB


def test_the_reserve_is_given_to_nobody():
    with Daemon("--reserve", "1GiB") as meted:
        admin = Admin(meted.place)
        guest = Guest(admin.tenant("100%").socket)
        assert guest.refused(3 * GIB + 1) == FULL
        assert guest.credit(3 * GIB) == 3 * GIB


def test_another_version_is_refused_with_a_sentence():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")
        try:
            Guest(made.socket, major=2)
            raise AssertionError("welcome")
        except Refused as refusal:
            assert refusal.code == VERSION and "version 1" in str(refusal) and "version 2" in str(refusal)
        connection = Connection(meted.place + "/admin.sock")
        try:
            connection.ask("admin_hello", major=9)
            raise AssertionError("welcome")
        except Refused as refusal:
            assert refusal.code == VERSION
        assert Guest(made.socket).credit(MIB) == MIB


def test_sigterm_is_a_clean_end_and_the_watchdog_is_fed():
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listener.bind("")
    listener.settimeout(PATIENCE)
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o700)
        environment = dict(os.environ, NOTIFY_SOCKET="@" + listener.getsockname()[1:].decode(), WATCHDOG_USEC="20000")
        process = subprocess.Popen([sys.argv[1], "--user", "--dir", place, "--driver", sys.argv[2]],
                                   env=environment, stderr=subprocess.DEVNULL)
        assert listener.recv(100) == b"READY=1"
        assert listener.recv(100) == b"WATCHDOG=1" and listener.recv(100) == b"WATCHDOG=1"
        process.terminate()
        while listener.recv(100) != b"STOPPING=1":
            pass
        assert process.wait(timeout=PATIENCE) == 0


def test_no_timer_runs_while_guests_are_silent():
    """The loop sleeps without a time-out: its fourth argument is -1."""
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB", wait="1h")
        guests = [Guest(made.socket) for _ in range(5)]
        guests[0].credit(GIB)
        guests[0].allocated(GIB - MIB)
        id = guests[1].send("credit_ask", device=0, wait=1, bytes=MIB, want=MIB)
        recall = guests[0].hear("credit_recall")
        guests[0].give_back(MIB, recall=recall.id)
        guests[1].answer(id)
        admin.list()

        def sleeps_without_end():
            words = open(f"/proc/{meted.process.pid}/syscall").read().split()
            return words[0] != "running" and int(words[4], 16) & 0xFFFFFFFF == 0xFFFFFFFF

        until(sleeps_without_end, "it sleeps with a time-out")


def test_shutdown_asks_twice_where_guests_are_connected():
    with Daemon() as meted:
        admin = Admin(meted.place)
        guest = Guest(admin.tenant("1GiB").socket)
        try:
            admin.ask("shutdown", force=0)
            raise AssertionError("done")
        except Refused as refusal:
            assert "1 processes" in str(refusal)
        admin.ask("shutdown", force=1)
        assert meted.wait() == 0
        guest.close()


if __name__ == "__main__":
    run(globals())
