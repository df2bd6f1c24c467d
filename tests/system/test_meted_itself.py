#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""meted itself: its options and folder, the processes that keep a tenant alive, and how it ends."""
import fcntl
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading

from children import *


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
        (dict(memory="1GiB", device="7"), "there is no '7'", "index below 1", "`mete ps` lists them"),
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


def test_unknown_options_are_refused_in_one_sentence():
    for options, word in [(["--colour"], "'--colour' is not an option"), (["junk"], "'junk' is not an option: see"),
                          (["--sytem"], "'--sytem' is not an option (did you mean '--system'?)"), (["--page-tokn=x"], "did you mean '--page-token'?"), (["--"], "'--' is not an option: see"),
                          (["--user", "--system"], "exclusive"), (["--dir"], "--dir needs a value"),
                          (["--dir", "relative"], "absolute"), (["--log-level", "loud"], "'loud'"),
                          (["--reserve", "5m"], "512M"), (["--block", "3M"], "2MiB to 64MiB"), (["--block", "66M"], "2MiB to 64MiB"), (["--look-every", "99ms"], "100ms to 60s"), (["--look-every", "61s"], "100ms to 60s"),
                          (["--look-every", "5"], "a time with its unit"), (["--help=1"], "takes no value"),
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


def a_system():
    place = tempfile.mkdtemp(prefix="mete-")
    os.chmod(place, 0o711)
    return Daemon(place=place, role="--system")


def stand_by(meted):
    """A second daemon in its folder, which waits."""
    later = Daemon("--stand-by", place=meted.place, environment=meted.environment, role=meted.role)
    assert later.process.poll() is None
    return later


def ready(later, times):
    until(lambda: later.log().count("daemon.ready") == times, lambda: later.log()[-2000:])


def test_a_stand_by_takes_the_place_of_a_meted_that_ends():
    with a_system() as meted:
        with stand_by(meted) as later:
            ready(later, 1)
            third = subprocess.run([sys.argv[1], "--system", "--dir", meted.place, "--driver", sys.argv[2], "--stand-by"], capture_output=True, text=True)
            assert third.returncode == 1 and "another meted stands by there" in third.stderr, third.stderr
            meted.process.terminate()
            assert meted.wait() == 0 and "daemon.precedes" in meted.log(), meted.log()
            ready(later, 2)
            with stand_by(later) as last:
                later.kill()
                ready(last, 3)
                assert last.log().count("standby.over") == 2
                assert not os.path.exists(last.place + "/stand-by.sock")


def test_a_stand_by_ends_when_it_is_told_to_and_the_other_goes_on():
    with a_system() as meted:
        later = stand_by(meted)
        later.process.terminate()
        assert later.wait() == 0
        assert meted.process.poll() is None and not os.path.exists(meted.place + "/stand-by.sock")
        with stand_by(meted) as again:
            again.kill()  # its socket is left
            meted.process.terminate()
            assert meted.wait() == 0 and "daemon.precedes" not in meted.log()


def test_two_never_run_in_one_folder():
    with Daemon() as meted:
        ran = subprocess.run([sys.argv[1], "--user", "--dir", meted.place, "--driver", sys.argv[2]],
                             capture_output=True, text=True)
        assert ran.returncode == 1 and "another meted is running" in ran.stderr, ran.stderr
        assert Admin(meted.place).welcome.pid == meted.process.pid


def test_who_wants_a_page_beside_a_meted_that_mete_run_has_started_is_told_how():
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(folder + "/mete", 0o700)
        with Daemon(place=folder + "/mete"):
            ran = subprocess.run([sys.argv[1], "--user", "--driver", sys.argv[2], "--page", f"unix:{folder}/page.sock"], capture_output=True, text=True,
                                 env=dict(os.environ, XDG_RUNTIME_DIR=folder))
            assert ran.returncode == 1 and ": another meted is running there: if `mete run` has started it, it ends with its last tenant (`mete ps`), and yours can start before the next" in ran.stderr, ran.stderr
        os.makedirs(folder, exist_ok=True)


def test_a_lock_that_children_of_a_killed_meted_hold_is_waited_for():
    with Daemon() as meted:
        meted.kill()
        with open(meted.place + "/lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # as a child that is about to execute a program
            started = threading.Thread(target=meted.start)
            before = meted.process
            started.start()
            until(lambda: meted.process is not before)
            waits = re.compile(rf"-> FLOCK +ADVISORY +WRITE {meted.process.pid} ")
            until(lambda: meted.process.poll() is not None or waits.search(pathlib.Path("/proc/locks").read_text()))
            assert meted.process.poll() is None, meted.log()
        started.join()
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
            raise AssertionError("a process that is gone keeps it")
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


def test_a_signal_that_comes_while_it_ends_does_not_end_it_otherwise():
    """It has nothing left to do, or was told to end; threads of the driver do not block the signal."""
    kept = os.path.dirname(sys.argv[2]) + "/kept_signals.so"
    for told in False, True:
        mark = tempfile.mktemp(prefix="mete-kept-")
        with Daemon(environment={"LD_PRELOAD": kept, "KEPT_MARK": mark}) as meted:
            assert "kept_signals" in open(f"/proc/{meted.process.pid}/maps").read()
            if told:
                meted.process.terminate()
            else:
                Admin(meted.place).close()
            assert meted.wait() == 0
            assert told or "daemon.unneeded" in meted.log(), meted.log()
            assert not os.path.exists(mark), "SIGTERM has its default action again"


def test_at_its_end_no_guest_is_told_that_its_memory_is_free():
    """Programs go on, by what they were last told: of their own memory, their siblings' and others' on the device."""
    with Daemon() as meted:
        admin = Admin(meted.place)
        made, other = admin.tenant("1GiB"), admin.tenant("1GiB", name="other")
        guests = [Guest(made.socket), Guest(made.socket), Guest(other.socket)]
        for guest in guests:
            guest.credit(100 * MIB)
        before = [guest.shown() for guest in guests]
        assert [one["granted"] for one in before] == [200 * MIB, 200 * MIB, 100 * MIB], before
        meted.process.terminate()
        assert meted.wait() == 0
        for guest, was in zip(guests, before):
            now = guest.shown()
            assert all(now[key] == was[key] for key in ("limit", "used", "granted", "room", "lent_mib", "rivals")), (was, now)


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
