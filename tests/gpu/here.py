# SPDX-License-Identifier: Apache-2.0
"""The machine that under_mete.py asks: its build, its driver, the programs that are started there; and how a question ends."""
import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

MIB = 1 << 20
PATIENCE = 60
MOVING = "doing", "movable_bytes", "out_bytes", "moved_out_bytes", "moved_in_bytes", "unmovable_why"


def end(status, reason):
    print(reason, flush=True)
    sys.exit(status)


def no(reason):
    end(1, reason)


def needs(what):
    end(77, what)


def failed(reason):
    end(2, reason)


def until(what, wanted, patience=PATIENCE, shown=None):
    """Polls another process's records; `patience` is only for broken ones. The failure prints the result of shown()."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        got = what()
        if got:
            return got
        time.sleep(0.05)
    failed(f"after {patience} s: {wanted}" + (f"; {shown()}" if shown else ""))


class Here:
    """The build, the driver that programs find, and the processes that were started."""

    def __init__(self, build):
        self.build, self.started = Path(build).resolve(), []
        self.simulated = "METE_SIM_DIR" in os.environ

    def mete(self, *words):
        """Programs under it are on the device that NVML is asked about."""
        first = ["--device", "0"] if words[0] == "run" else []
        return [str(self.build / "cli" / "mete"), words[0], *first, *words[1:]]

    def program(self, folder, name, *words):
        return [str(self.build / folder / name), *words]

    def start(self, command, **more):
        """In a session of its own, so that kill() reaches what it starts: `mete run` cannot pass on SIGKILL."""
        process = subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   start_new_session=True, **more)
        self.started.append(process)
        return process

    def run(self, command, **more):
        """Its output; a program that fails answers the question with no."""
        process = self.start(command, **more)
        out, err = process.communicate("", timeout=300)
        self.started.remove(process)
        if process.returncode != 0:
            no(f"{' '.join(command[-4:])} ended with {process.returncode}: {(out + err).strip()[-200:]}")
        return out + err

    @staticmethod
    def kill(process):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def ps(self):
        return json.loads(subprocess.run(self.mete("ps", "--json"), text=True, capture_output=True, timeout=60).stdout)

    def tenant(self, name):
        return next((tenant for tenant in self.ps()["tenants"] if tenant["name"] == name), None)

    def shown(self, name):
        """All that `mete ps` shows of it is printed; what of that concerns memory that moves is returned, for the last line."""
        tenant = self.tenant(name)
        print(json.dumps(tenant))
        return f"`mete ps` shows {json.dumps({key: tenant[key] for key in MOVING})}" if tenant else "it is no tenant"

    def close(self):
        for process in self.started:
            if process.returncode is None:
                self.kill(process)


def nvml_processes(here):
    """pid -> bytes on device 0, by NVML."""
    class Process(ctypes.Structure):
        _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("gi", ctypes.c_uint), ("ci", ctypes.c_uint)]

    library = ctypes.CDLL("libnvidia-ml.so.1")
    device, n, rows = ctypes.c_void_p(), ctypes.c_uint(256), (Process * 256)()
    library.nvmlInit_v2()
    library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device))
    if library.nvmlDeviceGetComputeRunningProcesses_v3(device, ctypes.byref(n), rows) != 0:
        failed("NVML does not list the processes")
    return {rows[i].pid: rows[i].used for i in range(n.value)}
