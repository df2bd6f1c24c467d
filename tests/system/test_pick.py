#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mete pick: criteria, programs, and GPUs that are given to one caller at a time."""
import json
import os
import subprocess
import sys
import tempfile
import zlib

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from meted import *

METE = os.path.abspath(sys.argv[3])


def uuid(n):
    return f"GPU-00000000-0000-0000-0000-0000000000{n:02x}"


def environment(place, **settings):
    """The CLI finds a user's meted in $XDG_RUNTIME_DIR/mete."""
    runtime = os.path.dirname(place) if place else "/nonexistent"
    return {"PATH": os.environ["PATH"], "METE_DRIVER": sys.argv[2], "METE_STUB_DEVICES": Meted.devices,
            "XDG_RUNTIME_DIR": runtime, **settings}


class Meted(Daemon):
    """A meted that the CLI finds, kept alive by an admin connection."""
    devices = "4"  # both see as many

    def __init__(self, devices, **settings):
        self.runtime = tempfile.mkdtemp(prefix="mete-")
        place = os.path.join(self.runtime, "mete")
        os.mkdir(place, 0o700)
        Meted.devices = str(devices)
        super().__init__(environment={"METE_STUB_DEVICES": Meted.devices, **settings}, place=place)
        self.admin = Admin(place)

    def again(self, how):
        """A successor, which nobody is connected to."""
        self.process.send_signal(how)
        self.process.wait()
        self.admin.close()
        self.start()

    def __exit__(self, *what):
        self.admin.close()
        super().__exit__(*what)
        Meted.devices = "4"
        shutil.rmtree(self.runtime, ignore_errors=True)


def pick(place, *arguments, **settings):
    return subprocess.run([METE, "pick", *arguments], env=environment(place, **settings), text=True,
                          capture_output=True, timeout=PATIENCE)


def printed(place, *arguments, **settings):
    done = pick(place, *arguments, **settings)
    assert done.returncode == 0, done
    return done.stdout.strip()


def nowhere(folder):
    return os.path.join(folder, "nobody", "mete")


def test_without_meted_nvml_alone_decides():
    with tempfile.TemporaryDirectory() as folder:
        place = nowhere(folder)
        loads = dict(METE_STUB_LOADS="90,40,0,-", METE_STUB_USED="0,10,20,30")
        assert printed(place, **loads) == uuid(1)
        assert printed(place, "--limit", "9", **loads) == f"{uuid(1)},{uuid(2)}"
        assert printed(place, "--order", "load", "-i", **loads) == "2"
        assert printed(place, "--include-nan", "--order", "last", "-i", **loads) == "3"
        assert printed(place, "--exclude", f"1,{uuid(0)}", "-i", **loads) == "2"
        for all_of_them in ("0", "all"):
            assert printed(place, "-l", all_of_them, "-i", "--max-load", "100%", **loads) == "0,1,2"
        assert printed(place, "--order", "memory-free", "-i", **loads) == "1"
        assert printed(place, "--memory-free", "75%", "-l", "all", "-i", **loads) == "1,2"
        assert printed(place, "--memory-free", "85%", "-l", "all", "-i", **loads) == "1"
        # Twice the same: nobody keeps anything.
        assert printed(place, **loads) == uuid(1)


def test_a_lack_of_free_gpus_is_reported_and_tried_again():
    with tempfile.TemporaryDirectory() as folder:
        done = pick(nowhere(folder), "--attempts", "3", "--interval", "10ms", METE_STUB_LOADS="90,90,90,90")
        assert done.returncode == 1 and done.stderr == "mete pick: none of 4 GPUs is as free as requested; load not below 50 % (--max-load): 0,1,2,3\n", done


def test_bad_values_are_refused():
    for arguments, text in ((["--limit", "65"], "--limit '65': a whole number from 1 to 64 is accepted, or all (as 0)"),
                            (["--limit", "1.5"], "--limit '1.5': a whole number from 1 to 64 is accepted, or all (as 0)"),
                            (["--memory-free", "20"], "--memory-free '20' has no unit (a number alone is bytes, 1048576 or more); accepted: 20G (units are powers of 1024) or 25% of a device"),
                            (["--max-load", "x"], "--max-load 'x' is not understood; accepted: a part from 0% to 100% (25%, 250/1000 or 0.25)"),
                            (["--order", "best"], "--order 'best': first, last, random, load, memory or memory-free is accepted")):
        done = pick(None, *arguments)
        assert done.returncode == 2 and done.stderr == f"mete pick: {text}\n", done
    # Another machine may have it.
    done = pick(None, "-x", "foo")
    assert done.returncode == 1 and done.stderr == "mete pick: --exclude: there is no 'foo'; accepted: UUIDs and indices below 4 (`mete ps` lists them)\n", done


def test_the_program_gets_the_ids_and_its_status_is_ours():
    with tempfile.TemporaryDirectory() as folder:
        done = pick(nowhere(folder), "--limit", "2", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES; exit 7")
        assert done.returncode == 7 and done.stdout.strip() == f"{uuid(0)},{uuid(1)}", done
        done = pick(nowhere(folder), "--", "/no/such/program")
        assert done.returncode == 127 and "no such program" in done.stderr, done


def test_a_gpu_is_given_to_one_caller_at_a_time():
    with Meted(4) as meted:
        got = [printed(meted.place, "--hold", "10m") for _ in range(4)]
        assert sorted(got) == [uuid(n) for n in range(4)], got
        done = pick(meted.place)
        assert done.returncode == 1 and "is held for another" in done.stderr, done


def test_each_gpu_is_named_with_what_keeps_it():
    with Meted(4) as meted:
        for n in (1, 3):
            assert printed(meted.place, "--hold", "10m", "-x", ",".join(str(m) for m in range(4) if m != n)) == uuid(n)
        done = pick(meted.place, METE_STUB_LOADS="90,10,80,10")
        assert done.returncode == 1 and done.stderr.startswith("mete pick: none of 4 GPUs is to be had; load not below 50 % (--max-load): 0,2; "), done
        assert done.stderr.count("was given out and is held for another") == 2, done


def test_callers_at_once_never_share():
    with Meted(4) as meted:
        racers = [subprocess.Popen([METE, "pick", "--order", "random", "--hold", "10m"], stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, text=True, env=environment(meted.place))
                  for _ in range(12)]
        got = [racer.communicate(timeout=PATIENCE)[0].strip() for racer in racers]
        won = sorted(text for text in got if text)
        assert won == [uuid(n) for n in range(4)], got


def test_a_program_holds_its_gpu_until_it_ends():
    with Meted(1) as meted:
        program = subprocess.Popen([METE, "pick", "--", "sh", "-c", "echo started; read line"], text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(meted.place))
        assert program.stdout.readline() == "started\n"
        done = pick(meted.place)
        assert done.returncode == 1 and "is given to process" in done.stderr, done
        program.stdin.write("\n")
        program.stdin.close()
        assert program.stdout.read() == ""  # and nobody else keeps the pipe open
        assert program.wait() == 0
        # The keeper notices by itself: at most as long as it takes to be scheduled.
        until(lambda: pick(meted.place, "--hold", "1ms").returncode == 0, "the GPU was never given back")


def test_a_killed_program_gives_its_gpu_back():
    with Meted(1) as meted:
        program = subprocess.Popen([METE, "pick", "--", "sh", "-c", "echo started; read line"], text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(meted.place))
        assert program.stdout.readline() == "started\n"
        program.kill()
        assert program.wait() == -9
        until(lambda: pick(meted.place, "--hold", "1ms").returncode == 0, "the GPU was never given back")


def keeper_of(meted):
    """The process that `mete pick` left behind on this machine: the only one of its folder that is still `mete`."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/exe") == METE and f"XDG_RUNTIME_DIR={meted.runtime}".encode() in open(f"/proc/{pid}/environ", "rb").read().split(b"\0"):
                return int(pid)
        except OSError:
            pass  # it has gone
    return None


def test_a_gpu_is_free_as_soon_as_its_program_has_ended():
    with Meted(1) as meted:
        program = program_on(meted)
        keeper = keeper_of(meted)
        until(lambda: os.readlink(f"/proc/{keeper}/fd/1") == "/dev/null")  # it has let go of the program's pipe
        os.kill(keeper, signal.SIGSTOP)
        try:
            program.communicate("\n")
            assert program.returncode == 0
            # Another program may have it: the one that keeps the reservation was not asked.
            other = pick(meted.place, "--", "true")
            assert other.returncode == 0, other
        finally:
            os.kill(keeper, signal.SIGCONT)


def program_on(meted, *options):
    program = subprocess.Popen([METE, "pick", *options, "--", "sh", "-c", "echo started; read line"], text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(meted.place))
    assert program.stdout.readline() == "started\n"
    return program


def test_a_restarted_meted_knows_which_caller_has_which_gpu():
    with Meted(3) as meted:
        program = program_on(meted)
        assert printed(meted.place, "--hold", "10m") == uuid(1)
        for how in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
            meted.again(how)
            done = pick(meted.place, "--exclude", "1,2")
            assert done.returncode == 1 and f"is given to process {program.pid}" in done.stderr, done
            done = pick(meted.place, "--exclude", "0,2")
            assert done.returncode == 1 and "is held for another" in done.stderr, done
            assert printed(meted.place, "--hold", "1ms") == uuid(2)
        program.kill()
        program.wait()
        # meted notices by itself: at most as long as it takes to be scheduled.
        until(lambda: pick(meted.place, "--exclude", "1,2", "--hold", "1ms").returncode == 0)


def test_a_gpu_that_was_given_back_is_free_after_a_restart():
    with Meted(1) as meted:
        # The holder is this process, so it is not its end that sets the GPU free.
        holder = Admin(meted.place)
        holder.ask("device_reserve", device=uuid(0))
        holder.close()
        until(lambda: b" free device=" in open(meted.place + "/journal", "rb").read())
        meted.again(signal.SIGKILL)
        assert printed(meted.place) == uuid(0)


def test_a_caller_that_ended_while_meted_was_away_has_nothing():
    with Meted(2) as meted:
        program = program_on(meted)
        printed(meted.place, "--hold", "50ms")
        meted.kill()
        program.kill()
        program.wait()
        meted.admin.close()
        meted.start()
        assert printed(meted.place, "--exclude", "1") == uuid(0)
        done = pick(meted.place, "--exclude", "0", "--attempts", "20000", "--interval", "10ms")
        assert done.returncode == 0, done


def test_a_process_with_a_reused_number_does_not_have_the_gpu():
    with Meted(1) as meted:
        program = program_on(meted)
        meted.kill()
        path = meted.place + "/journal"
        lines = [line[9:] for line in open(path, "rb").read().splitlines()]
        older = [re.sub(rb"started=(\d+)", lambda at: b"started=%d" % (int(at[1]) - 1), line) for line in lines]
        assert older != lines
        with open(path, "wb") as file:
            file.write(b"".join(b"%08x %s\n" % (zlib.crc32(line), line) for line in older))
        meted.admin.close()
        meted.start()
        assert printed(meted.place) == uuid(0)
        program.kill()
        program.wait()


def test_a_restarted_users_meted_ends_with_the_last_that_has_a_gpu():
    with Meted(1) as meted:
        program = program_on(meted)
        meted.again(signal.SIGKILL)
        assert pick(meted.place).returncode == 1  # nobody is connected any more, and still it stays
        assert meted.process.poll() is None
        program.kill()
        program.wait()
        assert meted.wait() == 0
        assert "daemon.unneeded" in meted.log()


def test_a_hold_ends():
    with Meted(1) as meted:
        printed(meted.place, "--hold", "50ms")
        done = pick(meted.place, "--attempts", "20000", "--interval", "10ms")
        assert done.returncode == 0, done


def test_ids_that_nobody_could_be_told_are_given_back_at_once():
    with Meted(1) as meted:
        with open("/dev/full", "w") as full:
            done = subprocess.run([METE, "pick", "--hold", "1h"], env=environment(meted.place), text=True, stdout=full, stderr=subprocess.PIPE, timeout=PATIENCE)
        assert done.returncode == 1 and "mete pick: its output cannot be written: No space left on device" in done.stderr, done
        until(lambda: pick(meted.place).returncode == 0, "it is held")


def test_a_users_meted_stays_while_it_holds_something():
    with Meted(1) as meted:
        printed(meted.place, "--hold", "10m")
        meted.admin.close()
        done = pick(meted.place)
        assert done.returncode == 1 and "is held for another" in done.stderr, done
        meted.admin = Admin(meted.place)


def test_programs_share_no_gpu_though_no_meted_ran():
    with tempfile.TemporaryDirectory() as folder:
        place = os.path.join(folder, "mete")
        def program():
            started = subprocess.Popen([METE, "pick", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES; read line; true"], text=True,
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(place))
            return started, started.stdout.readline().strip()

        # At once, and one after the other; the first caller starts meted, and it stays as long as any caller has a GPU.
        racers = [subprocess.Popen([METE, "pick", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES; read line; true"], text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(place)) for _ in range(2)]
        got = [racer.stdout.readline().strip() for racer in racers]
        racers[0].stdin.close()
        assert racers[0].wait() == 0
        until(lambda: pick(place, "--exclude", got[1], "--hold", "1ms").returncode == 0, "the GPU was never given back")
        # The programs have no children that they do not know of.
        assert not open(f"/proc/{racers[1].pid}/task/{racers[1].pid}/children").read()
        third, ids = program()
        got.append(ids)
        fourth, ids = program()
        got.append(ids)
        assert len(set(got[1:])) == 3 and got[0] != got[1], got
        log = os.path.join(place, "meted.log")
        for process in (racers[1], third, fourth):
            process.stdin.close()
            assert process.wait() == 0
        until(lambda: "daemon.unneeded" in open(log).read(), "meted stays though nobody has a GPU")


def test_ps_names_devices_as_the_driver_does():
    for kind in ("GPU", "MIG"):
        with Meted(1, METE_STUB_KIND=kind) as meted:
            named = uuid(0).replace("GPU", kind)
            assert meted.admin.tenant("1GiB").uuid == named
            ran = subprocess.run([METE, "ps", "--json"], env=environment(meted.place), text=True, capture_output=True)
            seen = json.loads(ran.stdout)
            assert seen["devices"][0]["uuid"] == seen["tenants"][0]["device_uuid"] == named, seen


if __name__ == "__main__":
    sys.argv[3:] = sys.argv[4:]
    run(globals())
