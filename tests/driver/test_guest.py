#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The guest over NVIDIA's own library, up to cuInit's "no device": test_guest.py BUILD LOOK.

A program sees the same as without the guest; addresses lead where guest/generate.py has them lead.
"""
import os
import re
import shutil
import subprocess
import sys

import real
import test_rows as rows

BUILD = real.BUILD
sys.argv[1:3] = [BUILD + "/node/meted", BUILD + "/sim/lib"]  # as meted.py wants it: NVML is the simulator's, so that there is a device
from meted import Admin, Daemon, Skipped, run  # noqa: E402
sys.path.insert(0, os.path.join(rows.ROOT, "guest"))
import generate  # noqa: E402

HERE = BUILD + "/tests/driver/"
LIVES = "fork", "children", "close", "threads", "exit"
ROUTES = "symbols", "ask", "odd", "tables", "init"
MUSL = "/lib/ld-musl-x86_64.so.1"


def forwarded():
    """The functions that a look-up gives out as the driver's own."""
    tables = generate.Tables(rows.ROOT)
    return {row.symbol for row, kind in zip(tables.cuda, tables.kinds) if kind == "PASS"}


class Machine:
    """A meted with a simulated device, and a tenant on it."""

    def __enter__(self):
        self.meted = Daemon()
        self.meted.__enter__()
        self.admin = Admin(self.meted.place)
        self.socket = self.admin.tenant("1GiB").socket
        return self

    def __exit__(self, *what):
        self.admin.close()
        self.meted.__exit__(*what)

    def run(self, release, *words, before=(), errors=subprocess.PIPE, **environment):
        """A program with the guest, to its end."""
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("METE_", "LD_", "CUDA_"))}
        clean |= {"METE_SOCKET": self.socket, "METE_DRIVER": release.folder} | environment
        done = subprocess.run([*real.apart(), *before, *words], env=clean, text=True, stdout=subprocess.PIPE, stderr=errors, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done
        return done.stdout.splitlines()

    def alone(self, release, *words, **more):
        return self.run(release, *words, METE_SOCKET="", METE_DRIVER="", LD_LIBRARY_PATH=release.folder, **more)

    def joins(self):
        return next(row.joins for row in self.admin.list() if row.kind == "tenant_row")


def ways(release):
    """How a program gets the guest: the library that it asks for, and its environment."""
    guest, place = release.guest + "/libmete.so", release.guest + "/lib"
    return {
        "in the driver's place": (HERE + "look", "libcuda.so.1", {"LD_LIBRARY_PATH": place}),
        "by an absolute path": (HERE + "look", place + "/libcuda.so.1", {}),
        "by a path of METE_DRIVER's library": (HERE + "look", "libcuda.so.1", {
            "LD_LIBRARY_PATH": place, "METE_DRIVER": release.folder + "/libcuda.so.1"}),
        "preloaded": (HERE + "look", "-", {"LD_PRELOAD": guest}),
        "preloaded, and opened": (HERE + "look", "libcuda.so.1", {"LD_PRELOAD": guest, "LD_LIBRARY_PATH": place}),
        "linked": (HERE + "look_linked", "-", {"LD_LIBRARY_PATH": place}),
        "linked, and preloaded": (HERE + "look_linked", "-", {"LD_PRELOAD": guest, "LD_LIBRARY_PATH": place}),
    }


def expected(line, passed):
    """A driver's text line as the guest has it: addresses of functions that it acts upon are its own."""
    kind, name = line.split(" ", 2)[:2]
    if kind == "symbol":
        return f"symbol {name} guest:{name}" if name in rows.LACKING else line.replace("driver:", "guest:")
    return re.sub(r"driver:(cu\w+)", lambda found: found[0] if found[1] in passed else "guest:" + found[1], line)


def test_every_look_up_arrives_by_each_way():
    passed = forwarded()
    with Machine() as machine:
        for release in real.releases():
            wanted = [expected(line, passed) for line in machine.alone(release, HERE + "look", "libcuda.so.1", *ROUTES)]
            assert f"version 0 {release.cuda}" in wanted and "init 100" in wanted and len(wanted) > 9000
            for way, (program, library, environment) in ways(release).items():
                joins = machine.joins()
                lines = machine.run(release, program, library, *ROUTES, **environment)
                apart = [pair for pair in zip(wanted, lines) if pair[0] != pair[1]]
                assert not apart and len(lines) == len(wanted), (release.name, way, apart[:5])
                assert machine.joins() == joins + 1, (release.name, way)


def test_a_process_lives_as_without_the_guest():
    """It forks before and after the first call, closes the library, calls from 16 threads at once and at its end."""
    with Machine() as machine:
        for release in real.releases():
            for life in LIVES:
                wanted = machine.alone(release, HERE + "live", "libcuda.so.1", life)
                assert wanted and any("init 100" in line or "children" in line for line in wanted), (release.name, life, wanted)
                for environment in {"LD_LIBRARY_PATH": release.guest + "/lib"}, {"LD_PRELOAD": release.guest + "/libmete.so",
                                                                                "LD_LIBRARY_PATH": release.guest + "/lib"}:
                    assert machine.run(release, HERE + "live", "libcuda.so.1", life, **environment) == wanted, (release.name, life)


def test_unwinders_find_the_caller_at_each_instruction():
    with Machine() as machine:
        for release in real.releases():
            walked = {}
            for line in machine.run(release, HERE + "step", "libcuda.so.1", LD_LIBRARY_PATH=release.guest + "/lib"):
                if match := re.fullmatch(r"(\w+) (\w+) = \d+: (\d+) in guest, (\d+) astray; (\d+) in driver, (\d+) astray; (\d+) elsewhere, (\d+) astray", line):
                    walked[match[1], match[2]] = [int(number) for number in match.groups()[2:]]
            assert len(walked) >= 9, walked
            for (call, unwinder), (guest, lost, driver, lost_there, elsewhere, lost_elsewhere) in walked.items():
                if call == "planted":
                    assert lost_elsewhere == elsewhere > 3, (unwinder, elsewhere, lost_elsewhere)
                    continue
                assert guest > 0 and driver > 10, (release.name, call, unwinder, guest, driver)
                assert lost == lost_there == lost_elsewhere == 0, (release.name, call, unwinder, lost, lost_there, lost_elsewhere)
            if "libunwind" not in {unwinder for _, unwinder in walked}:
                print("left out: libunwind (Debian: libunwind8)")


def test_programs_of_nvidias_runtime_come_to_the_tenant():
    """The runtime accepts the guest as the driver, and answers as without it."""
    with Machine() as machine:
        for release in real.releases():
            for runtime in real.runtimes():
                joins = machine.joins()
                wanted = machine.alone(release, HERE + "runtime", runtime)
                assert machine.run(release, HERE + "runtime", runtime, LD_LIBRARY_PATH=release.guest + "/lib") == wanted, (release.name, runtime, wanted)
                too_old = "libcudart.so.12" in runtime and release.cuda < 12000
                assert f"devices {35 if too_old else 100}" in wanted, (release.name, runtime, wanted)
                assert machine.joins() == joins + (not too_old), (release.name, runtime)


GDB = """
set debuginfod enabled off
set confirm off
set breakpoint pending on
break cuCtxGetCurrent
break cuLaunchKernel
break cuMemAdvise
break cuMemAlloc_v2
run
python
import gdb
while gdb.selected_inferior().pid:
    frame, names = gdb.newest_frame(), []
    where = gdb.solib_name(frame.pc())
    while frame:
        names.append(frame.name() or "?")
        frame = frame.older()
    print("stop", where, *names)
    try:
        print("variable", gdb.solib_name(int(gdb.parse_and_eval("(long)&cudbgIpcFlag"))))
    except gdb.error:
        pass  # the driver is not loaded yet
    gdb.execute("continue")
end
"""


def stops(machine, release, *words, **environment):
    """Where gdb stops, each as (library, function, its callers); and the libraries in which it finds a debuggers' variable."""
    if not shutil.which("gdb"):
        raise Skipped("there is no gdb; `tools/setup test` installs it")
    script = machine.meted.place + "/gdb"
    with open(script, "w") as file:
        file.write(GDB)
    wrap = " ".join(f"{key}={value}" for key, value in environment.items())
    lines = [line.split() for line in machine.run(release, *words, before=["gdb", "-nx", "-batch", "-iex", f"set exec-wrapper env {wrap}", "-x", script, "--args"])]
    return ([(os.path.realpath(words[1]), words[2], words[3:]) for words in lines if words[:1] == ["stop"]],
            {os.path.realpath(words[1]) for words in lines if words[:1] == ["variable"]})


def test_gdb_stops_in_both_libraries_and_finds_the_callers():
    with Machine() as machine:
        for release in real.releases():
            seen, variable = stops(machine, release, HERE + "live", "libcuda.so.1", "calls", LD_LIBRARY_PATH=release.guest + "/lib")
            assert variable == {release.library("libcuda.so.1")}, variable  # debuggers write to it
            places = {(library, function) for library, function, _ in seen}
            for function in "cuLaunchKernel", "cuMemAdvise", "cuMemAlloc_v2":
                for library in release.library("libcuda.so.1"), release.guest + "/libmete.so":
                    assert (library, function) in places, (release.name, library, function, places)
            for library, function, callers in seen:
                assert callers[-1] in ("main", "clone3") or callers[-1].startswith("__clone"), (library, function, callers)


def test_cuda_gdb_comes_as_far_as_without_the_guest():
    """To the driver's own part of a debugger, which says that there is no device."""
    with Machine() as machine:
        for release in real.releases():
            for libraries in release.folder, f"{release.guest}/lib:{release.folder}":
                lines = machine.run(release, HERE + "live", "libcuda.so.1", "calls", TMPDIR=machine.meted.place, before=[
                    real.debugger(), "-nx", "-batch", "-ex", f"set exec-wrapper env LD_LIBRARY_PATH={libraries}", "-ex", "run",
                    "-ex", "info address cudbgIpcFlag", "-ex", "kill", "--args"], errors=subprocess.STDOUT,
                    **({"METE_DRIVER": "", "METE_SOCKET": ""} if libraries == release.folder else {}))
                assert [line for line in lines if "CUDBG_ERROR_NO_DEVICE_AVAILABLE" in line], (release.name, libraries, lines)
                assert [line for line in lines if line.startswith('Symbol "cudbgIpcFlag" is at ')], (release.name, libraries, lines)


def opened(machine, release, place, *words, **environment):
    """The files that it opens and makes and the processes that it starts, by strace; from NVIDIA's library on."""
    if not shutil.which("strace"):
        raise Skipped("there is no strace; `tools/setup test` installs it")
    trace = machine.meted.place + "/trace"
    machine.run(release, *words, before=["strace", "-f", "-o", trace, "-e",
                                         "trace=openat,open,stat,readlink,mknod,mknodat,execve,clone,clone3,connect"], **environment)
    lines = [line.split(None, 1)[1].rstrip() for line in open(trace) if "SIG" not in line and "exited" not in line]
    begin = next(i for i, line in enumerate(lines) if place in line)
    return lines[begin:]


def nvidias(lines):
    return {match[1] for line in lines for match in re.finditer(r'"([^"]*nvidia[^"]*)"', line)} - {""}


def test_the_library_opens_the_same_files():
    with Machine() as machine:
        for release in real.releases():
            library = release.folder + "/libcuda.so"
            alone = nvidias(opened(machine, release, library, HERE + "look", library + ".1", "init", METE_SOCKET="", METE_DRIVER=""))
            under = nvidias(opened(machine, release, library, HERE + "look", "libcuda.so.1", "init", LD_LIBRARY_PATH=release.guest + "/lib"))
            known = {"/proc/driver/nvidia/params", "/dev/nvidiactl", "/usr/bin/nvidia-modprobe"}
            mine = {path for path in alone if not path.startswith(release.root)}
            assert known <= mine, mine
            assert {path for path in under if not path.startswith((release.root, BUILD))} == mine, (mine, under)


def test_to_ask_the_version_starts_no_thread_and_opens_no_device():
    """As meted does it, and mete."""
    with Machine() as machine:
        for release in real.releases():
            lines = opened(machine, release, release.library("libcuda.so.1"), BUILD + "/tests/plugin/edits", "plain", release.folder, BUILD + "/guest",
                           BUILD + "/hook/mete-hook", machine.meted.place, "mete.dev/slot", "x", machine.meted.place)
            assert not [line for line in lines if line.startswith(("clone", "mknod", "execve", "connect"))], lines
            assert not [line for line in lines if '"/dev' in line or '"/proc/driver' in line], lines


def test_libraries_are_named_without_a_folder():
    """The libraries that libcuda loads later, when there is a device: as far as its texts tell."""
    for release in real.releases():
        with open(release.library("libcuda.so.1"), "rb") as file:
            library = file.read()
        # By the word that is searched: its hundred thousands of other texts took five seconds.
        around = (library[library.rfind(b"\0", 0, found.start()) + 1:library.find(b"\0", found.start())] for found in re.finditer(b"libnvidia-", library))
        texts = {text.decode() for text in around if len(text) < 80 and re.fullmatch(rb"[ -~]*libnvidia-[\w-]+\.so(\.[\d.]+)?", text)}
        names = {name for text in texts for name in re.findall(r"libnvidia-[\w-]+", text)}
        assert {"libnvidia-ptxjitcompiler", "libnvidia-nvvm"} <= names, names
        assert not [text for text in texts if "/" in text], texts


def lacks(library):
    """The functions that a library needs and musl does not have."""
    def symbols(path, *options):
        said = subprocess.run(["nm", "-D", *options, path], check=True, text=True, capture_output=True).stdout
        return {line.split()[-1].split("@")[0] for line in said.splitlines() if " w " not in line}
    return symbols(library, "-u") - symbols(os.path.realpath(MUSL), "--defined-only")


def test_on_musl_neither_library_loads():
    """Nothing of NVIDIA's does; and so no program there escapes the guest, which does not either."""
    if not os.path.exists(MUSL):
        raise Skipped("there is no musl; `apt-get install musl`")
    for release in real.releases():
        assert {"__register_atfork", "dlvsym", "gnu_get_libc_version"} <= lacks(release.library("libcuda.so.1"))
        assert lacks(release.guest + "/libmete.so") == {"__register_atfork"}
        for library in release.library("libcuda.so.1"), release.guest + "/lib/libcuda.so.1":
            done = subprocess.run([MUSL, HERE + "look", library, "init"], text=True, capture_output=True, stdin=subprocess.DEVNULL)
            assert done.returncode == 2 and "Error relocating" in done.stderr, done


if __name__ == "__main__":
    run(globals())
