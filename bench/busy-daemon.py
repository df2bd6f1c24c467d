#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# About: meted with 1,000 tenants while 500 connections flood it
"""meted with 1,000 tenants, of which 500 connections flood it: how long a neighbour waits, what an
ask costs with 10 tenants and with 1,000, what memory stays when the flooders have left, how long a
restart with 1,024 tenants takes, and what it all leaves in the log.

On the stub of the management library: meted alone is measured. CPU times are those of meted's own
thread, so that other work on the machine does not count.
"""
import os
import re
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, "build/plain")
sys.argv[1:] = [BUILD + "/node/meted", BUILD + "/tests/system/stub_driver"]
sys.path.insert(0, os.path.join(ROOT, "tests/system"))
from meted import Admin, Daemon, Gone  # noqa: E402

FLOODERS, SECONDS = 500, 4


class Crowd:
    """bench/crowd.c: guests of many tenants."""

    def __init__(self, sockets, *what):
        self.process = subprocess.Popen([BUILD + "/bench/crowd", *map(str, what)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.process.stdin.write("".join(socket + "\n" for socket in sockets) + "\n")
        self.process.stdin.flush()
        if self.process.stdout.readline() != "ready\n":
            sys.exit("busy-daemon: the crowd did not join")

    def go(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def end(self):
        self.process.stdin.close()
        said = self.process.stdout.read()
        self.process.wait()
        return said


def daemon():
    """In memory, as /run and $XDG_RUNTIME_DIR are."""
    return Daemon(place=tempfile.mkdtemp(prefix="mete-", dir="/dev/shm"))


def tenants(place, count, **share):
    """One admin connection keeps 64 of them."""
    made, admins = [], []
    for i in range(count):
        if i % 64 == 0:
            admins.append(Admin(place))
        made.append(admins[-1].tenant("1GiB", name=f"tenant {i}", **share))
    return made, admins


def cpu_ns(pid):
    return int(open(f"/proc/{pid}/task/{pid}/schedstat").read().split()[0])


def rss_kib(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{pid}/status").read()).group(1))


def ask_cost_us(meted, made, asks=20000):
    """CPU time of an ask and of giving back, of one tenant while the others hold."""
    holders = Crowd([tenant.socket for tenant in made[1:]], "hold")
    crowd = Crowd([made[0].socket], "ask", asks, 0)
    before = cpu_ns(meted.process.pid)
    crowd.go()
    crowd.process.wait()
    took = cpu_ns(meted.process.pid) - before
    holders.end()
    return took / asks / 1000


def settled_rss(pid):
    """Once it does not change any more."""
    last, same = rss_kib(pid), 0
    for _ in range(100):
        time.sleep(0.1)
        now = rss_kib(pid)
        same = same + 1 if now == last else 0
        if same == 15:
            break
        last = now
    return last


def costs():
    figures = {}
    for count in (10, 1000):
        with daemon() as meted:
            made, _ = tenants(meted.place, count)
            figures[count] = min(ask_cost_us(meted, made) for _ in range(3))
            print(f"figure: pump_us_{count}_tenants {figures[count]:.2f} us")
    print(f"figure: pump_growth {figures[1000] / figures[10]:.2f} times")


def flood(kinds, name):
    """`kinds` of flooding, by FLOODERS connections in all, each of another tenant."""
    with daemon() as meted:
        pid = meted.process.pid
        made, admins = tenants(meted.place, 1000)
        neighbour, flooded = made[0], made[1:1 + FLOODERS]
        holders = Crowd([tenant.socket for tenant in made[1 + FLOODERS:]], "hold")
        Crowd([tenant.socket for tenant in flooded], "hold").end()
        before, log = settled_rss(pid), os.path.getsize(meted.log_path)
        share = FLOODERS // (4 * len(kinds))
        crowds = [Crowd([tenant.socket for tenant in flooded[i * share:(i + 1) * share]], kinds[i % len(kinds)])
                  for i in range(4 * len(kinds))]
        asks = Crowd([neighbour.socket], "ask", SECONDS * 200, 5000)
        for crowd in crowds:
            crowd.go()
        began = time.monotonic()
        asks.go()
        median, p99, most = asks.process.stdout.read().split()
        asks.end()
        took, peak = time.monotonic() - began, rss_kib(pid)
        written = os.path.getsize(meted.log_path) - log
        for crowd in crowds:
            crowd.end()
        after = settled_rss(pid)
        holders.end()
    print(f"{name}: median {float(median) / 1e3:.2f} ms, most {float(most) / 1e3:.1f} ms; memory before {before / 1024:.2f}, "
          f"under the flood {peak / 1024:.2f}, after {after / 1024:.2f} MiB; log {written / took / 1024:.1f} KiB/s")
    return float(p99) / 1e3, 100 * (after - before) / before, written / took / 1024


def restart():
    with daemon() as meted:
        made, admins = tenants(meted.place, 1024)
        crowd = Crowd([tenant.socket for tenant in made], "hold")
        meted.kill()
        began = time.monotonic()
        meted.start()
        took = time.monotonic() - began
        assert len([row for row in Admin(meted.place).list() if row.kind == "tenant_row"]) == 1024
        crowd.end()
    print(f"figure: restart_1024_tenants_s {took:.3f} s")


def main():
    costs()
    restart()
    found = [flood(["flood"], "asks and returns"), flood(["hello"], "connections that come and go"),
             flood(["deaf"], "asks whose answers nobody reads"), flood(["flood", "hello", "deaf"], "all of them")]
    print(f"figure: neighbour_ask_p99_ms {max(p99 for p99, _, _ in found):.2f} ms")
    print(f"figure: rss_back_within {max(rss for _, rss, _ in found):.1f} percent")
    print(f"figure: log_under_flood_kib_per_s {max(log for _, _, log in found):.1f} KiB/s")


if __name__ == "__main__":
    main()
