#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# About: the web page with 64 devices and 1,000 tenants: how soon it shows, and what meted spends on it
"""meted's page of 64 devices and 1,000 tenants, of which 40 change all the time: how long a browser takes to show it and each
change, what ten viewers cost meted, and what it does when nobody watches.

On the stub of the management library. A CPU time is that of meted's process, so that other work on the machine does not count.
"""
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, "build/plain")
sys.argv[1:] = [BUILD + "/node/meted", BUILD + "/tests/system/stub_driver"]
sys.path.insert(0, os.path.join(ROOT, "tests/system"))
from meted import Daemon  # noqa: E402
import web  # noqa: E402
from browser import Browser  # noqa: E402
from crowd_of_tenants import Crowd  # noqa: E402

DEVICES, TENANTS, CHANGING, VIEWERS, SECONDS = 64, 1000, 40, 10, 15
ADDRESS = ("127.0.0.1", 19401)


def cpu_seconds(pid):
    fields = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def calls(pid, seconds):
    """Of the system, as strace counts them."""
    with tempfile.NamedTemporaryFile("r") as file:
        subprocess.run(["timeout", str(seconds), "strace", "-f", "-p", str(pid), "-o", file.name], stderr=subprocess.DEVNULL)
        return sum("(" in line and "unfinished" not in line and "restart_syscall" not in line for line in file)


class Viewer(threading.Thread):
    def __init__(self):
        super().__init__(daemon=True)
        self.stream, self.texts = web.Stream(ADDRESS), 0
        self.start()

    def run(self):
        try:
            while self.stream.socket.recv(1 << 20):
                self.texts += 1
        except OSError:
            pass


class Changes(threading.Thread):
    def __init__(self, crowd):
        super().__init__(daemon=True)
        self.crowd, self.over = crowd, False
        self.start()

    def run(self):
        step = 0
        while not self.over:
            step += 1
            for i in range(CHANGING):
                self.crowd.hold(i, 0.1 + 0.05 * ((i + step) % 8))
            time.sleep(0.5)

    def end(self):
        self.over = True
        self.join()


def spent(pid):
    """Percent of a core."""
    before, began = cpu_seconds(pid), time.monotonic()
    time.sleep(SECONDS)
    return 100 * (cpu_seconds(pid) - before) / (time.monotonic() - began)


def main():
    # The stub's devices have the same names for all: another meted of this machine is greeted, unless it is on another simulated machine.
    with tempfile.TemporaryDirectory() as machine, Daemon("--page", f"{ADDRESS[0]}:{ADDRESS[1]}", "--page-open",
                                                          environment={"METE_STUB_DEVICES": str(DEVICES), "METE_SIM_DIR": machine}) as meted:
        crowd, pid = Crowd(meted, TENANTS, DEVICES, CHANGING), meted.process.pid
        time.sleep(5)  # what the driver is asked soon after guests have come
        print(f"figure: page_idle_calls {calls(pid, 10)} calls of the system in 10 s, while nobody watches", flush=True)
        changes = Changes(crowd)
        without = spent(pid)
        viewers = [Viewer() for _ in range(VIEWERS)]
        time.sleep(2)
        watched = spent(pid)
        print(f"{VIEWERS} viewers: {watched:.2f} % of a core; nobody: {without:.2f} %; {viewers[0].texts} texts each", flush=True)
        print(f"figure: page_core_percent {watched - without:.2f} %", flush=True)
        for viewer in viewers:
            viewer.stream.socket.shutdown(socket.SHUT_RDWR)
        with Browser() as browser:
            browser.size("normal")
            first, updates = [], []
            for fragment in ("#/", "#/devices", "#/tenants"):
                browser.open("about:blank")
                browser.open(f"http://{ADDRESS[0]}:{ADDRESS[1]}/{fragment}")
                browser.wait("window.mete && mete.timing.first > 0")
                browser.wait("mete.timing.updates.length > 8")
                timing = browser.run("return mete.timing")
                first.append(timing["first"])
                updates += timing["updates"][1:]
        changes.end()
        crowd.close()
    print(f"first views {[round(ms) for ms in first]} ms; {len(updates)} updates, median {statistics.median(updates):.1f} ms, most {max(updates):.1f} ms")
    print(f"figure: page_first_view_ms {max(first):.0f} ms")
    print(f"figure: page_update_ms {statistics.quantiles(updates, n=20)[-1]:.0f} ms, of 95 % of the updates at most")


if __name__ == "__main__":
    main()
