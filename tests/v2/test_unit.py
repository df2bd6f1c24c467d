#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""meted as systemd's service, and several users of it, where systemd runs the machine and control groups are of version 2.

    TEST.py BUILD

It installs mete on the machine: tools/test-v2 runs it in a virtual one, and nothing else does."""
import json
import os
import re
import subprocess
import sys

BUILD = os.path.abspath(sys.argv[1])
ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "tests", "system"))
from runner import run, skip  # noqa: E402

PREFIX, SIM = "/usr/local", "/dev/shm/mete-sim"
METE = PREFIX + "/bin/mete"
USERS = {"alice": 61001, "bob": 61002}
SETTINGS = {"LD_LIBRARY_PATH": PREFIX + "/lib/mete/sim/lib", "METE_SIM_DIR": SIM, "METE_SIM_CONTEXT_COST": "1ms"}
GIB = 1 << 30


def words(*command, **more):
    done = subprocess.run(command, text=True, stdin=subprocess.DEVNULL, capture_output=True, **more)
    assert done.returncode == 0, done
    return done.stdout


def group_of(pid):
    with open(f"/proc/{pid}/cgroup") as file:
        return file.read()


def keep(name, text):
    folder = os.environ.get("METE_SEEN")
    if folder:
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, name), "w") as file:
            file.write(text)


def install():
    """mete, its unit with the simulated GPU in the place of a driver, and two people. tools/test-v2 has left what is installed."""
    words("cp", "-a", ROOT + "/build/v2/installed/.", "/")
    os.mkdir(SIM)
    os.chmod(SIM, 0o1777)
    place = "/etc/systemd/system/meted.service.d"
    os.makedirs(place)
    with open(place + "/simulated.conf", "w") as file:
        file.write("[Service]\n" + "".join(f"Environment={name}={value}\n" for name, value in SETTINGS.items()))
    for name, uid in USERS.items():
        words("useradd", "--uid", str(uid), "--create-home", name)
    words("systemctl", "daemon-reload")


def main_pid():
    return int(words("systemctl", "show", "--property=MainPID", "--value", "meted"))


def held(user, *options):
    """A tenant of a user's that stays until its stdin is closed, in a group of its own as a login's programs are."""
    settings = [f"--setenv={name}={value}" for name, value in SETTINGS.items()]
    process = subprocess.Popen(["systemd-run", "--quiet", "--pipe", "--wait", "--collect", f"--uid={user}", *settings, METE, "run", *options, "--", "sh", "-c",
                                "cat /proc/self/cgroup; echo here; exec cat"], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.group = process.stdout.readline()
    assert process.stdout.readline() == "here\n"
    return process


def leave(*processes):
    for process in processes:
        process.stdin.close()
        assert process.wait() == 0
        process.stdout.close()


def tenants():
    return {row["name"]: row for row in json.loads(words(METE, "ps", "--json"))["tenants"]}


def test_the_unit_starts_meted_in_a_group_of_its_own():
    install()
    words("systemctl", "enable", "--now", "--quiet", "meted")  # returns when it has said that it is ready
    assert words("systemctl", "is-active", "meted") == "active\n"
    keep("meted.service", group_of(main_pid()))
    assert group_of(main_pid()) == "0::/system.slice/meted.service\n"
    said = words(METE, "doctor", env=dict(os.environ, **SETTINGS))
    assert "system" in said, said


def test_each_users_programs_are_tenants_of_the_units_meted():
    ran = {name: held(name, "--name", f"of-{name}", "--memory", "1G") for name in USERS}
    keep("users", "".join(process.group for process in ran.values()))
    for name, process in ran.items():
        assert re.fullmatch(r"0::/system\.slice/run-\S+\.service\n", process.group), process.group
    rows = tenants()
    assert {f"of-{name}" for name in USERS} <= set(rows) and all(rows[f"of-{name}"]["limit_bytes"] == GIB for name in USERS), rows
    shown = words(METE, "ps")
    for name in USERS:
        assert re.search(rf"of-{name} .*\b{name}\b|\b{name}\b.* of-{name}", shown), shown
    leave(*ran.values())


def test_a_program_of_a_user_gets_its_limit_and_no_more():
    done = subprocess.run(["setpriv", "--reuid=alice", "--regid=alice", "--init-groups", METE, "run", "--memory", "256M", "--report", "--",
                           BUILD + "/examples/hoarder"], text=True, capture_output=True, env=dict(os.environ, **SETTINGS), cwd="/")
    assert done.returncode == 0 and "hoarder ok" in done.stdout and "the limit of 256MiB is reached" in done.stderr, done


def test_a_restart_of_the_unit_leaves_its_tenants_alone():
    first = main_pid()
    process = held("bob", "--name", "stays", "--memory", "1G")
    before = tenants()["stays"]["tenant"]
    words("systemctl", "restart", "meted")
    assert main_pid() != first
    assert tenants()["stays"]["tenant"] == before
    leave(process)


def test_the_unit_ends_at_once_and_without_a_failure():
    words("systemctl", "stop", "meted")
    assert words("systemctl", "show", "--property=Result", "--value", "meted") == "success\n"
    assert not os.path.exists("/sys/fs/cgroup/system.slice/meted.service")


if __name__ == "__main__":
    if not os.path.exists("/sbin/mete-v2"):
        skip("it installs mete on the machine; `tools/test-v2` runs it in a virtual one")
    run(globals(), sys.argv[2:])
