#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which meted serves whom: the system's, a former version's, one that ended, restarts or hangs, and two on one device."""
import contextlib

from machine import *


def test_files_of_an_ended_system_daemon_lock_nobody_out():
    with Machine() as here:
        assert here.ps(ALICE)["tenants"] == []
        here.meted.kill()
        assert os.path.exists(PLACE + "/admin.sock")
        for mode in (0o711, 0o700, 0o777):
            os.chmod(PLACE, mode)
            done = here.mete(ALICE, "run", "--", "sh", "-c", "echo own")
            assert done.returncode == 0 and done.stdout == "own\n", (oct(mode), done)
        # As a former version left it, whose socket was root's alone.
        os.chmod(PLACE, 0o711)
        os.chmod(PLACE + "/admin.sock", 0o600)
        assert here.mete(ALICE, "run", "true").returncode == 0
        here.meted = here.start_daemon()
        assert here.mete(ALICE, "ps").returncode == 0


def test_events_of_a_system_daemon_that_was_stopped_are_roots_to_read():
    """Root and a user each also had a meted of their own, before and after it."""
    with Machine() as here:
        def told(uid):
            done = here.mete(uid, "events")
            assert done.returncode == 0, done
            return {name for name in ("earlier", "systems", "later") if f"{name} (tenant" in done.stdout}, done.stderr

        here.meted.process.terminate()
        here.meted.wait()
        for uid in (0, ALICE):
            assert here.mete(uid, "run", "--name", "earlier", "-q", "true").returncode == 0
        until(lambda: all(told(uid)[0] == {"earlier"} for uid in (0, ALICE)))  # their meteds end with their last tenant
        here.meted = here.start_daemon()
        assert here.mete(ALICE, "run", "--name", "systems", "-q", "true").returncode == 0
        until(lambda: " left " in here.mete(0, "events").stdout)
        here.meted.process.terminate()
        here.meted.wait()
        assert told(0) == ({"systems"}, "mete events: no meted is running: this is what the system's last one has told\n"), told(0)
        assert told(ALICE) == ({"earlier"}, "mete events: no meted is running: this is what your own last one has told; what the system's has told since only root may read\n"), told(ALICE)
        # Who has nothing of his own hears why he is shown nothing.
        assert told(BOB) == (set(), "mete events: no meted is running; what the system's last one has told only root may read\n"), told(BOB)
        assert here.mete(0, "run", "--name", "later", "-q", "true").returncode == 0
        until(lambda: "no meted is running" in told(0)[1])
        assert told(0)[0] == {"earlier", "later"} and told(0)[1].endswith("this is what the last one has told\n"), told(0)
        here.meted = here.start_daemon()


def test_a_former_versions_daemon_that_runs_is_not_passed_by():
    with Machine() as here:
        os.chmod(PLACE + "/admin.sock", 0o600)
        says(here.mete(ALICE, "run", "true"), "belongs to a system meted that serves only root", status=125)


def test_two_meteds_on_one_device_are_noticed_and_reported_by_both():
    with Machine() as here:
        here.meted.process.terminate()
        here.meted.wait()
        ended = []
        for uid in (ALICE, BOB):
            ended.append(here.held(uid))
        log = f"{here.home}/tmp/mete-{ALICE}/meted.log"
        until(lambda: "device.shared" in open(log).read())
        for uid, other in ((ALICE, BOB), (BOB, ALICE)):
            done = here.mete(uid, "ps")
            assert f"(user {other}) holds the mark of GPU 0" in done.stderr, done
            assert "holds the mark of GPU 0" in here.mete(uid, "doctor").stdout
        ended[1].stdin.close()
        ended[1].wait()
        until(lambda: "holds the mark" not in here.mete(ALICE, "ps").stderr)
        ended[0].stdin.close()
        ended[0].wait()
        here.meted = here.start_daemon()


def test_connections_to_the_mark_without_an_end_are_accepted_now_and_then():
    with Machine() as here:
        there = os.stat(here.environment["METE_SIM_DIR"])
        uuid = subprocess.run([BUILD + "/cli/mete", "pick"], env=here.environment, text=True, capture_output=True).stdout.strip()

        def flood():
            for _ in range(2000):
                with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK) as connection:
                    try:
                        connection.connect(f"\0mete/{uuid}/{there.st_dev:x}:{there.st_ino:x}")
                    except BlockingIOError:
                        pass  # as many wait as may
            return 0

        assert as_user(BOB, flood) == 0
        until(lambda: "device.unshared" in here.meted.log())
        assert here.meted.log().count("device.shared") < 50
        # And a meted that comes later is still seen.
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.connect(f"\0mete/{uuid}/{there.st_dev:x}:{there.st_ino:x}")
            until(lambda: f"process {os.getpid()} (user root) holds the mark of GPU 0" in here.mete(ALICE, "ps").stderr)
            advice = here.mete(ALICE, "doctor").stdout
            assert "end the process that is named" in advice and "run the system's meted" not in advice, advice


def test_a_faked_mark_of_a_device_keeps_nobody_from_anything():
    with Machine() as here:
        here.meted.process.terminate()
        here.meted.wait()
        there = os.stat(here.environment["METE_SIM_DIR"])
        uuid = subprocess.run([BUILD + "/cli/mete", "pick"], env=here.environment, text=True, capture_output=True).stdout.strip()
        name = f"\0mete/{uuid}/{there.st_dev:x}:{there.st_ino:x}"
        for listens in (False, True):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as faked:
                faked.bind(name)
                if listens:
                    faked.listen(0)
                here.meted = here.start_daemon()
                assert here.mete(BOB, "run", "--", program("vector-add"), "size=4K").returncode == 0
                done = here.mete(BOB, "ps")
                assert done.returncode == 0 and ("holds the mark of GPU 0" in done.stderr) == listens, done
                if not listens:
                    here.meted.process.terminate()
                    here.meted.wait()


def own_sockets(process):
    """How many sockets `mete run` itself has open."""
    folder, count = f"/proc/{process.pid}/fd", 0
    for fd in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            count += os.readlink(f"{folder}/{fd}").startswith("socket:")
    return count


def test_a_restarted_system_meted_has_its_tenants_back_though_nobody_was_there_for_a_while():
    for end in (signal.SIGKILL, signal.SIGTERM):
        with Machine() as here:
            script = f"echo here; read word; exec {program('vector-add')} size=1M"
            run = here.start(BOB, "run", "--memory", "128M", "--name", "train", "--", "sh", "-c", script)
            assert run.stdout.readline() == "here\n"
            before = here.tenant("train")
            here.meted.process.send_signal(end)
            here.meted.process.wait()
            # It has noticed, and has not found another meted, nor started one.
            until(lambda: not own_sockets(run))
            assert not os.path.exists(f"{here.home}/tmp/mete-{BOB}")
            here.meted = here.start_daemon()
            after = until(lambda: (found := here.tenant("train")) and found["pid"] and found)
            same = ("tenant", "pid", "user", "command", "limit_bytes")
            assert [after[key] for key in same] == [before[key] for key in same], (before, after)
            out, err = run.communicate("go\n", timeout=PATIENCE)
            assert run.returncode == 0 and " ok " in out and "no tenant" not in err, (out, err)
            assert not os.path.exists(f"{here.home}/tmp/mete-{BOB}")


SYSTEMCTL = """#!/bin/sh
# systemd's answer about the unit: the words of the question are checked, the answer is a file.
[ "$*" = "show meted.service -p ActiveState -p Job" ] || exit 1
echo asked >>"$TMPDIR/asked"
cat "$TMPDIR/unit"
"""


class Systemd:
    """systemd runs this machine, as far as `mete` can tell; it has a unit for meted, whose state a test sets."""

    def __init__(self, here):
        self.folder = here.environment["TMPDIR"]
        os.makedirs("/run/systemd/system", exist_ok=True)
        with open(self.folder + "/systemctl", "w") as file:
            file.write(SYSTEMCTL)
        os.chmod(self.folder + "/systemctl", 0o755)
        here.environment["PATH"] = self.folder + ":" + here.environment["PATH"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.rmdir("/run/systemd/system")

    def says(self, *lines):
        with open(self.folder + "/unit.new", "w") as file:
            file.writelines(line + "\n" for line in lines)
        os.chmod(self.folder + "/unit.new", 0o644)
        os.rename(self.folder + "/unit.new", self.folder + "/unit")

    def asked(self):
        try:
            return open(self.folder + "/asked").read().count("asked")
        except FileNotFoundError:
            return 0


def test_a_user_that_comes_while_the_systems_meted_restarts_waits_for_it():
    with Machine() as here, Systemd(here) as systemd:
        for state in (("ActiveState=activating", "Job=0"), ("ActiveState=inactive", "Job=12")):
            here.meted.kill()
            systemd.says(*state)
            before = systemd.asked()
            run = here.start(ALICE, "run", "--name", "early", "--", "sh", "-c", "echo here; read word")
            until(lambda: systemd.asked() >= before + 2)
            here.meted = here.start_daemon()
            assert run.stdout.readline() == "here\n"
            assert here.tenant("early")["user"] == str(ALICE)
            out, err = run.communicate("go\n", timeout=PATIENCE)
            assert run.returncode == 0, (out, err)
            assert not os.path.exists(f"{here.home}/tmp/mete-{ALICE}")


def test_a_system_meted_that_was_stopped_for_good_is_not_waited_for():
    with Machine() as here, Systemd(here) as systemd:
        here.meted.kill()
        systemd.says("ActiveState=inactive", "Job=")
        done = here.mete(ALICE, "run", "-q", "--", "true")
        assert done.returncode == 0 and done.stderr == "" and os.path.exists(f"{here.home}/tmp/mete-{ALICE}"), done
        assert systemd.asked() == 1
        here.meted = here.start_daemon()


def test_a_stopped_meted_is_reported_by_each_verb_and_doctor_gives_the_remedy():
    with Machine() as here:
        pid = here.meted.process.pid
        os.kill(pid, signal.SIGSTOP)
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)
        try:
            for verb in (("ps",), ("run", "true"), ("set", "1", "memory=1GiB")):
                says(here.mete(ALICE, *verb), f"meted (process {pid}) is stopped and does not answer", "mete doctor")
            doctor = here.mete(ALICE, "doctor")
            assert doctor.returncode == 1 and "is stopped" in doctor.stdout and f"kill -CONT {pid}" in doctor.stdout, doctor
        finally:
            os.kill(pid, signal.SIGCONT)
        assert here.mete(ALICE, "ps").returncode == 0


def test_a_driver_that_does_not_answer_is_reported_by_each_verb():
    with Machine() as here:
        here.meted.process.terminate()
        here.meted.wait()
        pipe = here.home + "/processes"  # who opens it to read waits for a writer
        os.mkfifo(pipe)
        os.makedirs(PLACE, exist_ok=True)
        os.chmod(PLACE, 0o711)
        here.meted = Daemon(role="--system", place=PLACE, environment=dict(here.environment, METE_STUB_PROCESSES=pipe))
        here.meted.place = PLACE
        for verb in (("ps",), ("run", "true"), ("ps", "--json")):
            done = here.mete(ALICE, *verb)
            assert done.returncode == 0 and "the driver has not answered meted for" in done.stderr, done
        says(here.mete(ALICE, "set", "x", "memory=1GiB"), "the driver has not answered meted for", "there is no tenant 'x'")
        doctor = here.mete(ALICE, "doctor").stdout
        assert "the driver has not answered meted" in doctor and "does nvidia-smi hang, too?" in doctor, doctor
        os.rename(pipe, pipe + ".old")
        open(pipe, "w").close()
        open(pipe + ".old", "w").close()  # whoever waits reads its end
        until(lambda: "has not answered" not in here.mete(ALICE, "ps").stderr)
        here.meted.kill()


def test_the_demo_shows_its_own_gpu_beside_the_systems_meted():
    with Machine() as here:
        demo = [ROOT + "/tools/apart", ROOT + "/tools/showcase.py", "--only", "vector-add", BUILD]

        def show(uid=0, **more):
            return subprocess.run(demo, env=dict(here.environment, **more), text=True, stdin=subprocess.DEVNULL, capture_output=True,
                                  preexec_fn=lambda: become(uid), timeout=PATIENCE)

        joins = here.meted.log().count("tenant.made")
        done = show()
        assert done.returncode == 0 and "1 of 1 programs: equal checksums, limits held" in done.stdout, done
        done = show(ALICE)
        assert done.returncode == 0 and "1 of 1 programs: equal checksums" in done.stdout or "stop it for so long" in done.stderr, done
        assert here.meted.log().count("tenant.made") == joins
        # Where nothing can be hidden there is one sentence.
        os.mkdir(here.home + "/bin")
        with open(here.home + "/bin/unshare", "w") as file:
            file.write("#!/bin/sh\nexit 1\n")
        os.chmod(here.home + "/bin/unshare", 0o755)
        done = show(PATH=here.home + "/bin:" + os.environ["PATH"])
        assert done.returncode == 1 and not done.stdout and done.stderr.count("\n") == 1 and "(`systemctl stop meted`)" in done.stderr, done


main(globals())
