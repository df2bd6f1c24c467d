#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`mete` on a machine with NVIDIA's libraries and without its kernel module: test_doctor.py BUILD LOOK."""
import json
import os
import subprocess
import tempfile

import real
from runner import Skipped, run

METE = real.BUILD + "/cli/mete"
NOBODY = 65534
LOAD = "load the driver's kernel module"


def machine(release, script, user=0):
    """The output of a shell there, which has `mete` in its path; of that user."""
    with tempfile.TemporaryDirectory(prefix="mete-") as place:
        os.chown(place, user or os.getuid(), -1)
        words = [*real.apart()]
        if user:
            if os.getuid() != 0:
                raise Skipped("only root can become another user; run it as root")
            words += ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--no-new-privs"]
            if subprocess.run([*words, METE, "help"], capture_output=True).returncode:
                raise Skipped("other users cannot run what is in the build folder; `chmod o+x` it, or work elsewhere")
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("METE_", "CUDA_", "LD_"))}
        environment |= {"XDG_RUNTIME_DIR": place, "HOME": place, "LD_LIBRARY_PATH": release.folder,
                        "PATH": os.path.dirname(METE) + ":" + os.environ["PATH"]}
        return subprocess.run([*words, "sh", "-c", script], env=environment, text=True, capture_output=True, stdin=subprocess.DEVNULL)


def checks(done):
    assert done.returncode == 1, done
    return {check["check"]: check for check in json.loads(done.stdout)}


def judge(release, found):
    """doctor's output, whichever user runs it. The sizes of pages depend on the machine."""
    assert found.pop("pages")["verdict"] in ("ok", "note"), found
    assert {name: check["verdict"] for name, check in found.items()} == {
        "driver": "ok", "version": "ok", "nvml": "wrong", "permissions": "wrong", "guest": "ok", "path": "ok", "visible": "ok", "sharers": "ok", "mps": "ok", "place": "ok", "daemon": "ok"}, found
    assert found["driver"]["found"] == release.library("libcuda.so.1"), found
    assert found["version"]["found"] == f"CUDA {release.version}", found
    assert found["nvml"]["found"].endswith(" does not initialise: Driver Not Loaded (error 9)"), found
    assert "is the kernel module loaded" in found["nvml"]["advice"], found
    assert LOAD in found["permissions"]["advice"], found


def test_doctor_says_that_the_kernel_module_is_missing():
    for release in real.releases():
        found = checks(machine(release, "mete doctor --json", user=NOBODY))
        judge(release, found)
        assert found["permissions"]["found"] == "there is no /dev/nvidia*", found


def test_doctor_says_so_to_root_though_the_libraries_make_it_a_device_file():
    if os.getuid() != 0:
        raise Skipped("this is not root; run it as root")
    for release in real.releases():
        found = checks(machine(release, "mete doctor >/dev/null; ls /dev/nvidiactl >&2; mete doctor --json"))
        judge(release, found)
        assert found["permissions"]["found"] == "cannot open /dev/nvidiactl: No such device or address", found


def test_doctor_misses_nvml():
    release = real.get(real.USUAL[0])
    done = machine(release, f'mkdir "$HOME/d" && cp {release.library("libcuda.so.1")} "$HOME/d/libcuda.so.1" && '
                   'LD_LIBRARY_PATH="$HOME/d" mete doctor --json', user=NOBODY if os.getuid() == 0 else 0)
    found = checks(done)
    assert found["driver"]["verdict"] == "ok" and found["nvml"]["found"] == "libnvidia-ml.so.1 is missing", found


def test_other_verbs_give_the_reason():
    for release in real.releases():
        done = machine(release, "mete run -- echo ran")
        assert done.returncode == 125 and not done.stdout and "nvmlInit: Driver Not Loaded" in done.stderr, done
        assert len(done.stderr.splitlines()) == 1, done
        done = machine(release, "mete pick")
        assert done.returncode == 1 and done.stderr == "mete pick: NVML does not initialise: Driver Not Loaded\n", done
        done = machine(release, "mete ps")
        assert done.returncode == 0 and "NVML does not initialise: Driver Not Loaded" in done.stdout + done.stderr, done


if __name__ == "__main__":
    run(globals())
