#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mete run, ps, set, doctor and sim: good days and bad input."""
import contextlib
import fcntl
import json
import os
import re
import signal
import socket
import struct
import subprocess

from mete import *
from meted import until

# Prints that it runs, and ends when its standard input does.
WAITING = ("sh", "-c", "echo here; cat >/dev/null")


def test_the_programs_exit_status_is_passed_on():
    with Node() as node:
        assert node.mete("run", "--", "sh", "-c", "exit 7").returncode == 7
        assert node.mete("run", "true").returncode == 0


def test_a_signal_that_ends_the_program_ends_mete_too():
    with Node() as node:
        assert node.mete("run", "--", "sh", "-c", "kill -SEGV $$").returncode == -signal.SIGSEGV
        running = node.start("run", "--", *WAITING)
        assert running.stdout.readline() == "here\n"
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=240) == -signal.SIGTERM


def test_a_signal_to_mete_alone_reaches_the_program():
    with Node() as node:
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGUSR1):
            before = signal.signal(number, signal.SIG_DFL)  # a job in the background, as we may be, ignores some
            try:
                running = node.start("run", "--", "sh", "-c", "echo here; exec cat >/dev/null")
            finally:
                signal.signal(number, before)
            assert running.stdout.readline() == "here\n"
            running.send_signal(number)
            assert running.wait(timeout=240) == -number


def test_a_signal_that_was_ignored_stays_ignored():
    with Node() as node:
        for number, name in ((signal.SIGHUP, "HUP"), (signal.SIGINT, "INT"), (signal.SIGUSR1, "USR1")):
            before = signal.signal(number, signal.SIG_IGN)  # as nohup does
            try:
                done = node.mete("run", "--", "sh", "-c", f"kill -{name} $PPID $$; echo alive")
            finally:
                signal.signal(number, before)
            assert done.returncode == 0 and done.stdout == "alive\n", (name, done)


def test_a_program_sees_its_tenants_devices_and_no_others():
    with Node(METE_SIM_DEVICES="3xSIM") as node:
        holder = node.start("run", "--device", "0", "--", *WAITING)
        assert holder.stdout.readline() == "here\n"
        uuid = {device["index"]: device["uuid"] for device in node.ps()["devices"]}
        show = ("sh", "-c", "echo $CUDA_VISIBLE_DEVICES; exec " + workload("vector-add"))
        for options, visible, wanted in (
                ((), None, [1]),  # of which the least is promised
                (("--device", "2"), None, [2]),
                (("--device", uuid[2]), None, [2]),
                (("--device", "2"), "1", [2]),
                ((), "1", [1]),
                ((), uuid[2] + "," + uuid[0], [2, 0]),
                (("--device", "2,1"), None, [2, 1])):
            environment = {"CUDA_VISIBLE_DEVICES": visible} if visible else {}
            done = node.mete("run", "--report", "--memory", "256MiB", *options, "--", *show, **environment)
            assert done.returncode == 0 and " ok " in done.stdout, (options, visible, done)
            assert done.stdout.splitlines()[0] == ",".join(uuid[i] for i in wanted), (options, visible, done)
            used = {int(device) for device, peak in re.findall(r"on GPU (\d+): held at most (\d+)[KM]iB of 256MiB", done.stderr) if int(peak)}
            assert used == {wanted[0]}, (options, visible, done)
        # A user who hides all devices hides them from the program, too.
        assert "NO_DEVICE" in node.mete("run", "--", workload("vector-add"), CUDA_VISIBLE_DEVICES="").stderr
        refused(node.mete("run", "--", "true", CUDA_VISIBLE_DEVICES="7"), "device", "'7'", status=125)
        # The driver would refuse it at cuInit().
        for twice in ("1,1", "1," + uuid[1]):
            refused(node.mete("run", "--", "true", CUDA_VISIBLE_DEVICES=twice), "device", "named twice", status=125)
        holder.stdin.close()
        assert holder.wait(timeout=240) == 0


def test_a_name_is_a_word_that_can_be_shown():
    with Node() as node:
        for name in ("", "two\nlines", "\x1b[2J", "x" * 64):
            refused(node.mete("run", "--name", name, "--", "true"), "--name", "accepted", status=2)
        # A program's own name is what it is: it is shown without what would move the cursor.
        odd = os.path.join(node.place.encode(), b"odd\nna\xffme")
        os.symlink("/bin/sh", odd)
        running = node.start("run", "--", odd, *WAITING[1:])
        assert running.stdout.readline() == "here\n"
        assert "odd?na?me" in node.mete("ps").stdout
        assert node.ps()["tenants"][0]["name"] == "odd?na?me"
        assert node.mete("set", b"odd\nna\xffme", "memory=1GiB").returncode == 0
        refused(node.mete("set", b"no\nna\xffme", "memory=1GiB"), "no?na?me")
        running.stdin.close()
        assert running.wait(timeout=240) == 0


def test_a_program_that_does_not_exist_is_reported_in_a_sentence():
    with Node() as node:
        refused(node.mete("run", "--", "no-such-program"), "no-such-program", "no such program", status=127)
        refused(node.mete("run", "--", "/etc/passwd"), "/etc/passwd", "ermission denied", status=126)
        refused(node.mete("run"), "no program given", status=2)


def test_amounts_that_make_no_sense_are_refused_with_the_accepted_ones():
    with Node() as node:
        for memory in ("0", "-1GiB", "4GiBs", "nonsense", "", "101%", "0%", "1e99GiB", "4096PiB", "99999999999999999999GiB"):
            done = node.mete("run", "--memory", memory, "--", "true")
            refused(done, "--memory", status=2)
        refused(node.mete("run", "--memory", "5GiB", "--", "true"), "memory", "4GiB", status=125)
        refused(node.mete("run", "--wait", "soon", "--", "true"), "--wait", status=2)
        refused(node.mete("run", "--on-daemon-loss", "panic", "--", "true"), "--on-daemon-loss", "continue", status=2)


def test_an_unknown_device_is_refused():
    with Node() as node:
        refused(node.mete("run", "--device", "7", "--", "true"), "device", "7", status=125)
        refused(node.mete("run", "--device", "GPU-00000000-0000-0000-0000-000000000000", "--", "true"), "device", status=125)
        assert node.mete("run", "--device", "0", "--", "true").returncode == 0


def test_without_a_driver_it_says_so():
    with Node() as node:
        refused(node.mete("run", "--", "true", LD_LIBRARY_PATH=""), "no CUDA driver", status=125)
        refused(node.mete("run", "--", "true", METE_DRIVER="/nonexistent"), "no CUDA driver", status=125)
        # Ours twice: the guest is not a driver.
        guest = os.path.join(BUILD, "guest", "12.9", "lib")
        refused(node.mete("run", "--", "true", METE_DRIVER=guest), "guest", "METE_DRIVER", status=125)
        copy = os.path.join(node.place, "copy")
        os.mkdir(copy)
        shutil.copy(os.path.join(guest, "libcuda.so.1"), copy)
        refused(node.mete("run", "--", "true", METE_DRIVER=copy), "is mete's own guest", "METE_DRIVER", status=125)


def test_the_reason_why_meted_does_not_start_is_reported():
    with Node(METE_SIM_DEVICES="2") as node:
        # The simulator's library reports mistakes in its settings in a text line of its own.
        done = node.mete("run", "--", "true")
        [line] = [line for line in done.stderr.splitlines() if line.startswith("mete run: ")]
        assert done.returncode == 125 and "meted does not start" in line and "libnvidia-ml.so.1" in line, done


def test_bad_usage_is_told_and_exits_with_2():
    with Node() as node:
        refused(node.mete("run", "--colour", "--", "true"), "--colour", status=2)
        refused(node.mete("run", "-rx", "--", "true"), "'-x'", status=2)
        refused(node.mete("run", "--report=yes", "--", "true"), "--report", "no value", status=2)
        refused(node.mete("run", "-m"), "'-m'", status=2)
        refused(node.mete("ps", "extra"), "extra", status=2)
        assert node.mete("dance").returncode == 2
        with open("/dev/full", "w") as full:
            done = subprocess.run([os.path.join(BUILD, "cli", "mete"), "doctor"], env=node.environment, stdout=full,
                                  stderr=subprocess.PIPE, text=True)
        refused(done, "cannot be written", "No space left", status=1)
        for verb in ("run", "ps", "set", "doctor", "sim"):
            shown = node.mete(verb, "--help")
            assert shown.returncode == 0 and f"mete {verb}" in shown.stdout, shown


def test_ps_shows_the_tenant_while_it_runs():
    with Node() as node:
        before = node.ps()
        assert before["meted"] is None and before["tenants"] == [] and len(before["devices"]) == 1, before
        running = node.start("run", "--memory", "25%", "--name", "quarter", "--", *WAITING)
        assert running.stdout.readline() == "here\n"
        shown = node.ps()
        assert [device["capacity_bytes"] for device in shown["devices"]] == [4 * GIB], shown
        [tenant] = shown["tenants"]
        assert tenant["name"] == "quarter" and tenant["limit_bytes"] == GIB, tenant
        assert tenant["device_uuid"] == shown["devices"][0]["uuid"], shown
        table = node.mete("ps").stdout
        assert "quarter" in table and "1.00" in table, table
        running.stdin.close()
        assert running.wait(timeout=240) == 0


def test_the_daemon_ends_with_its_last_tenant():
    with Node() as node:
        running = node.start("run", "--", *WAITING)
        assert running.stdout.readline() == "here\n"
        pid = node.daemon_pid()
        pidfd = os.pidfd_open(pid)
        running.stdin.close()
        assert running.wait(timeout=240) == 0
        import select
        assert select.select([pidfd], [], [], 60)[0], "meted stays"
        os.close(pidfd)


def test_the_daemons_log_does_not_grow_for_ever():
    with Node() as node:
        assert node.mete("run", "--", "true").returncode == 0
        until(lambda: not node.daemon_pid(), "the daemon never leaves")
        with open(os.path.join(node.place, "mete", "meted.log"), "a") as log:
            log.write("x" * (1 << 20) + "\n")
        assert node.mete("run", "--", "true").returncode == 0
        assert len(node.daemon_log()) < 1 << 20 and "daemon.ready" in node.daemon_log()


def test_a_daemon_that_leaves_is_no_failure():
    with Node() as node:
        for _ in range(10):
            assert node.mete("run", "--", "true").returncode == 0
            for shown in (node.mete("ps"), node.mete("ps", "--json"), node.mete("doctor")):
                assert shown.returncode == 0, (shown.stdout, shown.stderr)


def test_many_that_start_at_once_share_one_daemon():
    with Node() as node:
        for _ in range(4):
            runs = [node.start("run", "--", "true") for _ in range(8)]
            assert [run.wait(timeout=240) for run in runs] == [0] * 8, [run.stderr.read() for run in runs]


def test_a_limit_is_changed_while_it_runs():
    with Node() as node:
        running = node.start("run", "--memory", "1GiB", "--name", "big", "--", *WAITING)
        assert running.stdout.readline() == "here\n"
        assert node.mete("set", "big", "memory=512MiB").returncode == 0
        [tenant] = node.ps()["tenants"]
        assert tenant["limit_bytes"] == 512 * MIB, tenant
        assert node.mete("set", str(tenant["tenant"]), "memory=2GiB", "wait=5s").returncode == 0
        refused(node.mete("set", "big", "memory=lots"), "memory", "lots")
        refused(node.mete("set", "big", "colour=red"), "colour")
        refused(node.mete("set", "nobody", "memory=1GiB"), "nobody")
        refused(node.mete("set", "big", "memory"), "KEY=VALUE")
        refused(node.mete("set", "big", "memory="), "memory", "empty")
        # A refused option changes nothing, wherever it stands.
        refused(node.mete("set", "big", "memory=1GiB", "wait=soon"), "wait", "soon")
        refused(node.mete("set", "big", "memory=1GiB", "colour=red"), "colour")
        refused(node.mete("set", "big", "memory=1GiB", "wait="), "wait", "empty")
        assert node.ps()["tenants"][0]["limit_bytes"] == 2 * GIB
        running.stdin.close()
        assert running.wait(timeout=240) == 0


def test_the_bill_is_shown_beside_the_drivers_figure():
    with Node(METE_SIM_SAMPLES_KEPT="300") as node:  # the driver wants more room than meted has rows
        load = ["--", workload("steady"), "kernel_us=1000", "seconds=600", "stdin=1", "report_ms=3600000"]
        both = {name: node.start("run", "--name", name, "--weight", weight, *load)
                for name, weight in (("works", "300"), ("rests", "100"))}
        for program in both.values():
            program.stdout.readline()
        both["rests"].stdin.write("\n")
        both["rests"].stdin.flush()

        def times():
            return {row["name"]: row["time"] for row in node.ps()["tenants"]}

        # The driver samples now and then; each question is a process.
        seen = until(lambda: (now := times())["works"].get("driver_busy") and not now["rests"]["driver_busy"] and now)
        for time in seen.values():
            assert -1 <= time["drift"] <= 1 and 0 <= time["driver_busy"] <= 1, time
        assert "DRIFT" in node.mete("ps").stdout
        for program in both.values():
            program.communicate("")
            assert program.returncode == 0


def test_sim_describes_the_simulated_node():
    with Node(METE_SIM_DEVICES="2xH200,1xT4") as node:
        shown = node.mete("sim")
        assert shown.returncode == 0 and len(re.findall(r"^device \d", shown.stdout, re.M)) == 3, shown
        assert "METE_SIM_MEMORY" in node.mete("sim", "--settings").stdout


def test_a_workload_runs_under_a_limit_and_is_reported():
    with Node() as node:
        alone = node.mete("run", "--", workload("vector-add"))
        assert alone.returncode == 0, alone
        done = node.mete("run", "--report", "--memory", "512MiB", "--", workload("vector-add"))
        assert done.returncode == 0 and " ok " in done.stdout, done
        assert "mete run: vector-add on GPU 0: held at most 66MiB of 512MiB\n" in done.stderr, done.stderr
        assert done.stdout == alone.stdout
        assert "came to mete" not in done.stderr, done.stderr


def test_a_program_that_passes_mete_by_is_reported():
    with Node() as node:
        done = node.mete("run", "--report", "--", "sh", "-c", "exit 3")
        assert done.returncode == 3 and "sh on GPU 0: held at most 0MiB of 4GiB" in done.stderr, done
        assert "no process of sh joined mete: if it used a GPU, nothing was limited" in done.stderr, done
        # A guest loads the library that it was given; what is loaded by its path is another one.
        passing = node.mete("run", "--report", "--", "env", "-u", "LD_PRELOAD", "LD_LIBRARY_PATH=" + os.path.join(BUILD, "sim", "lib"),
                            workload("vector-add"))
        assert passing.returncode == 0 and " ok " in passing.stdout and "no process of env joined" in passing.stderr, passing


def test_a_program_whose_mete_run_is_killed_before_it_begins_is_limited_all_the_same():
    with Node() as node:
        running = node.start("run", "--memory", "96MiB", "--name", "orphan", "--", "sh", "-c",
                             f"echo here; read line; {workload('vector-add')} size=16M; echo ended $?")
        assert running.stdout.readline() == "here\n"
        running.kill()
        running.wait()
        assert [tenant["name"] for tenant in node.ps()["tenants"]] == ["orphan"], node.ps()
        running.stdin.write("\n")
        running.stdin.flush()
        said = running.stdout.read()
        assert "ended 0" not in said and "ended " in said, said
        assert "the limit of 96MiB is reached" in running.stderr.read()
        until(lambda: not node.daemon_pid(), "it does not leave with its last tenant")


def test_a_program_over_its_limit_gets_out_of_memory_and_goes_on():
    with Node() as node:
        done = node.mete("run", "--report", "--memory", "512MiB", "--", workload("hoarder"), "limit=512M")
        assert done.returncode == 0 and " ok " in done.stdout, done
        peak, refusals = map(int, re.search(r"held at most (\d+)MiB of 512MiB; memory was refused (\d+) times?\n", done.stderr).groups())
        assert peak <= 512 and refusals > 0, done.stderr


def test_the_daemon_is_killed_and_the_program_does_not_notice():
    with Node() as node:
        running = node.start("run", "--memory", "512MiB", "--name", "steady", "--", workload("notebook"), "cells=30", "think=100")
        for _ in range(5):
            # Between two daemons there is none: mete run starts the next one.
            pid = until(lambda: node.daemon_pid() or running.poll() is not None and -1)
            if pid > 0:
                os.kill(pid, signal.SIGKILL)
        out, err = running.communicate(timeout=240)
        assert running.returncode == 0 and " ok " in out, (running.returncode, out, err)


@contextlib.contextmanager
def replaced(node):
    """A program under `mete run` whose meted has been killed; the test has the lock of its place, as another meted would."""
    process = node.start("run", "--", "sh", "-c", "echo here; cat")
    assert process.stdout.readline() == "here\n"
    pid = node.daemon_pid()
    process.send_signal(signal.SIGSTOP)
    os.kill(pid, signal.SIGKILL)
    with open(node.place + "/mete/lock", "r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # when it has died
        fcntl.lockf(lock, fcntl.LOCK_EX)
        process.send_signal(signal.SIGCONT)
        until(lambda: "another meted" in node.daemon_log(), "no meted found the lock taken")
        yield process


def test_while_another_meted_has_the_place_the_programs_end_is_not_waited_with():
    with Node() as node, replaced(node) as process:
        said, complaint = process.communicate(timeout=240)
        assert process.returncode == 0 and "meted is gone" not in complaint, complaint


def test_a_meted_that_somebody_else_started_in_its_place_is_asked_as_soon_as_it_answers():
    with Node() as node, replaced(node) as process, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door:
        with contextlib.suppress(FileNotFoundError):
            os.remove(node.place + "/mete/admin.sock")
        door.bind(node.place + "/mete/admin.sock")
        door.listen()
        # It has the lock all the time.
        door.settimeout(240)
        with door.accept()[0] as peer:
            for code, answer in (64, struct.pack("<HIIII", 65, 1, 0, os.getpid(), 0) + b"\x03new\0"), (75, struct.pack("<HQ", 32, 0)):
                asked = peer.recv(4096)
                assert struct.unpack_from("<H", asked, 4)[0] == code, asked
                peer.send(struct.pack("<IHHII", 0x6574656d, struct.unpack_from("<H", answer)[0], 14 + len(answer), struct.unpack_from("<I", asked, 8)[0], 0) + answer[2:])
            process.stdin.close()
            assert process.wait(timeout=240) == 0


def test_a_program_without_a_limit_that_asks_for_too_much_is_told_of_oversize():
    with Node() as node:
        large = (workload("train"), "steps=1", "ballast=5G")
        for options in (), ("--swap", "off"), ("--memory", "100%"):
            done = node.mete("run", *options, "--", *large)
            assert done.returncode != 0 and "with --oversize managed the driver pages what does not fit" in done.stderr, (options, done)
            assert "the limit of" not in done.stderr, (options, done)
        done = node.mete("run", "--memory", "1G", "--", *large)
        assert done.returncode != 0 and "the limit of 1GiB is reached" in done.stderr and "oversize" not in done.stderr, done


def test_a_share_may_silence_its_programs_notices_of_waits():
    with Node() as node:
        for options, share in (((), []), (("--notices", "on"), []), (("--notices", "off"), ["notices=off"])):
            inner = node.start("run", *options, "--name", "one", "--", "sh", "-c", "echo here; read word")
            assert inner.stdout.readline() == "here\n"
            [row] = [row for row in node.ps()["tenants"] if row["name"] == "one"]
            assert [word for word in row["share"].split() if word.startswith("notices")] == share, row
            if share:
                done = node.mete("set", "one", "notices=on")
                assert done.returncode == 0 and re.search("notices +off -> on", done.stdout), done
            inner.communicate("go\n", timeout=240)
        done = node.mete("run", "--notices", "no", "--", "true")
        assert done.returncode == 2 and "--notices: 'no'" in done.stderr and "accepted: on or off" in done.stderr, done


if __name__ == "__main__":
    run(globals(), at_once=4)
