#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's own library as containers get it, from a descriptor of meted's: test_handed_out.py BUILD LOOK.

The node's devices are simulated NVML's; its libcuda is NVIDIA's, and answers that there is no device.
"""
import os
import shutil
import subprocess
import sys
import tempfile

import real
import test_guest as host
import test_rows as rows

sys.path.insert(0, os.path.join(rows.ROOT, "tests", "plugin"))
BUILD = real.BUILD


FOLDER = tempfile.mkdtemp(prefix="mete-real-")  # of both libraries; tests of containers read its name when they are imported
sys.argv[1:3] = [BUILD + "/node/meted", FOLDER, BUILD]
import test_handout as handout  # noqa: E402
from containers import require_all  # noqa: E402
from runner import Skipped, run  # noqa: E402

ATTACK = handout.DRIVER + "/libcuda.so.1"


class Site(handout.Site):
    """A node with that release, and an image with the programs of this folder."""

    def __init__(self, release, **config):
        for name, path in ("libcuda.so.1", release.library("libcuda.so.1")), ("libnvidia-ml.so.1", f"{BUILD}/sim/{release.version}/libnvidia-ml.so.1"):
            shutil.copy(path, f"{FOLDER}/{name}")
        super().__init__(**config)

    def __enter__(self):
        super().__enter__()
        for program in "look", "live", "step":
            self.image.program(f"{BUILD}/tests/driver/{program}")
        return self

    def lines(self, *command, **more):
        done = self.run(*command, **more)
        assert done.status == 0, done
        return done.out.splitlines()

    def beside(self, *command, **environment):
        """A program outside of containers that finds what a container has at /run/mete; and in a /dev of its own."""
        edits = handout.json.load(open(self.file))["devices"][0]["containerEdits"]
        folder, = (mount["hostPath"] for mount in edits["mounts"] if mount["containerPath"] == "/run/mete")
        script = 'mount -t tmpfs tmpfs /run && mkdir /run/mete && mount --bind "$0" /run/mete && exec "$@"'
        done = subprocess.run([*real.apart(), "sh", "-c", script, folder, *command], text=True, capture_output=True, stdin=subprocess.DEVNULL,
                              timeout=handout.PATIENCE, env={key: value for key, value in os.environ.items() if not key.startswith("METE_")} | environment)
        assert done.returncode == 0, done
        return done.stdout


def wanted(release):
    passed = host.forwarded()
    lines = rows.look(release.library("libcuda.so.1"), *host.ROUTES)
    assert "init 100" in lines
    return [host.expected(line, passed) for line in lines]


def test_every_look_up_arrives_in_a_container():
    for release in real.releases():
        with Site(release) as site:
            right = wanted(release)
            for before in (), ("/usr/bin/env", "-i"):
                for name in "libcuda.so.1", "libcuda.so", handout.LIBRARIES + "/libcuda.so.1", handout.GUEST:
                    assert site.lines(*before, "/usr/bin/look", name, *host.ROUTES) == right, (release.name, before, name)
            done = site.run("/usr/bin/look", ATTACK, "init")
            assert done.status == 2 and "No such file" in done.err, done


def test_so_it_does_with_the_rights_of_another():
    """Secure execution: the linker and the guest take nothing from the environment."""
    def as_user(config):
        config["process"]["user"] = {"uid": 1000, "gid": 1000}
        config["process"]["noNewPrivileges"] = False

    release = real.get(real.USUAL[0])
    with Site(release) as site:
        os.chmod(site.image.at("/usr/bin/look"), 0o4755)
        os.makedirs(site.image.at("/tmp/nothing"))
        done = site.run("/usr/bin/look", "libcuda.so.1", *host.ROUTES, change=as_user, environment=[
            "METE_DRIVER=/tmp/nothing", "METE_SOCKET=/tmp/nothing", "LD_PRELOAD=/tmp/nothing/x.so", "LD_LIBRARY_PATH=/tmp/nothing"])
        assert done.status == 0 and done.out.splitlines() == wanted(release), done
        assert "preloaded" not in done.err, done  # the linker would say so, if it took that


def test_a_process_lives_in_a_container_as_without_mete():
    for release in real.releases():
        with Site(release) as site:
            for life in host.LIVES:
                alone = subprocess.run([*real.apart(), BUILD + "/tests/driver/live", release.library("libcuda.so.1"), life], text=True, capture_output=True)
                assert alone.returncode == 0 and alone.stdout, alone
                assert site.lines("/usr/bin/live", "libcuda.so.1", life) == alone.stdout.strip().splitlines(), (release.name, life)


def test_unwinders_find_the_caller_in_a_container():
    for release in real.releases():
        with Site(release) as site:
            lines = [line for line in site.lines("/usr/bin/step", "libcuda.so.1") if " in guest, " in line and not line.startswith("planted")]
            assert len(lines) >= 8 and all(" 0 in driver" not in line for line in lines), lines
            for line in lines:
                assert line.count(" 0 astray") == 3, (release.name, line)


def test_programs_of_nvidias_runtime_come_to_the_tenant():
    release = real.get(real.USUAL[0])
    with Site(release) as site:
        for runtime in real.runtimes():
            site.image.program(f"{BUILD}/tests/driver/runtime")
            shutil.copy(runtime, site.image.at("/usr/lib/"))
            joins = len(site.node.log().split(" guest.joined "))
            assert "devices 100" in site.lines("/usr/bin/env", "-i", "/usr/bin/runtime", "/usr/lib/" + os.path.basename(runtime)), runtime
            assert len(site.node.log().split(" guest.joined ")) == joins + 1, runtime


def test_meted_holds_no_device_and_no_thread_of_the_driver():
    """It has loaded the library to ask its version."""
    release = real.get(real.USUAL[0])
    with Site(release) as site:
        proc = f"/proc/{site.node.meted.process.pid}"
        assert site.driver + "/libcuda.so.1" in open(proc + "/maps").read()
        files = [os.readlink(f"{proc}/fd/{number}") for number in os.listdir(proc + "/fd")]
        assert not [path for path in files if path.startswith(("/dev/nvidia", "/proc/driver"))], files
        with_theirs = len(os.listdir(proc + "/task"))
    shutil.copy(f"{BUILD}/sim/{release.version}/libcuda.so.1", FOLDER)
    with handout.Site() as site:
        assert with_theirs == len(os.listdir(f"/proc/{site.node.meted.process.pid}/task"))


GDB = ["-nx", "-batch", "-iex", "set debuginfod enabled off", "-ex", "set breakpoint pending on", "-ex", "break cuMemAlloc_v2", "-ex"]


def debugged(site, release, debugger):
    """Its output about a program with the handed-out driver: it runs, stops in the guest, and is asked for a variable of the driver."""
    return site.beside(debugger, *GDB, f"set exec-wrapper env LD_LIBRARY_PATH={release.guest}/lib", "-ex", "run", "-ex", "bt", "-ex", "info address cudbgIpcFlag",
                       "-ex", "continue", "--args", BUILD + "/tests/driver/live", "libcuda.so.1", "calls", TMPDIR=site.place)


def test_a_debugger_does_not_wait_for_a_file_that_only_the_program_has():
    """It opens each library's name itself. That of the driver must lead nowhere in the debugger's process."""
    release = real.get(real.USUAL[0])
    with Site(release) as site:
        if not shutil.which("gdb"):
            raise Skipped("there is no gdb; `tools/setup test` installs it")
        said = debugged(site, release, "gdb")
        assert "in live_calls" in said and "in main" in said and "cudbgIpcFlag" not in said, said
        assert "cuMemAlloc_v2 3\n" in said and "exited normally" in said, said


def test_cuda_gdb_takes_a_program_with_a_handed_out_driver_for_one_without_cuda():
    """It finds the driver by its symbols: `driver-files: mounted` is for debugging CUDA."""
    release = real.get(real.USUAL[0])
    with Site(release) as site:
        said = debugged(site, release, real.debugger())
        assert "CUDBG_ERROR" not in said and "cudbgIpcFlag" not in said, said
        assert "init 100" in said and "cuMemAlloc_v2 3\n" in said and "exited normally" in said, said


if __name__ == "__main__":
    try:
        require_all("containers")
        run(globals())
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)
