#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The second act of the demo: three programs that always have work share one GPU's time by weight; one goes idle, and
one is set to another weight while it runs.

Usage: tools/showcase_time.py [--gpu] [--unjudged] BUILD

Shown is what each was entitled to and what it had, by meted's clock: in place on a terminal, line by line where
output is a pipe. The verdict compares them over the end of each scene, when the change has settled; exit status 0
only if nobody is off by more than OFF_MOST points and every program ended well. --unjudged: for a machine of which
nothing is known, shares do not count, and scenes are short.
"""
import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import showcase  # noqa: E402

SETTLE_S, SCENE_S, LOOK_S = 1.0, 4.0, 0.5
OFF_MOST = 5.0  # points: the machine that simulates has a say, too
WIDTH = 30


class Tenant:
    def __init__(self, mete, environment, name, weight, steady):
        self.name, self.weight, self.resting = name, weight, False
        self.process = subprocess.Popen(
            [mete, "run", "--name", name, "--weight", str(weight), "--", steady, "kernel_us=1000", "ahead=4", "seconds=600",
             "stdin=1", "report_ms=3600000"], env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE)
        self.process.stdout.readline()  # it is at work

    def toggle(self):
        """Rests, or goes on."""
        self.resting = not self.resting
        self.process.stdin.write("\n")
        self.process.stdin.flush()


class Stage:
    def __init__(self, mete, environment, steady):
        self.mete, self.environment = mete, environment
        self.tenants = [Tenant(mete, environment, name, weight, steady)
                        for name, weight in (("small", 100), ("medium", 200), ("large", 400))]
        self.drawn, self.worst, self.bad = 0, 0.0, 0
        self.accepted, self.scene_s = OFF_MOST, SCENE_S

    def look(self):
        """(when, {name: (had, entitled to)}), ns."""
        done = subprocess.run([self.mete, "ps", "--json"], env=self.environment, text=True, capture_output=True, check=True)
        rows = {row["name"]: row["time"] for row in json.loads(done.stdout)["tenants"]}
        return time.monotonic_ns(), {name: (row["charged_ns"], row["entitled_ns"]) for name, row in rows.items()}

    def draw(self, then, now):
        passed = now[0] - then[0]
        if sys.stdout.isatty() and self.drawn:
            sys.stdout.write(f"\033[{len(self.tenants)}F")
        for tenant in self.tenants:
            had, due = ((now[1][tenant.name][i] - then[1][tenant.name][i]) / passed * 100 for i in (0, 1))
            bar = "#" * round(had / 100 * WIDTH)
            state = "idle" if tenant.resting else f"weight {tenant.weight}"
            print(f"  {tenant.name:<8}{state:<12}had {had:5.1f} %   entitled {due:5.1f} %  |{bar:<{WIDTH}}|")
        if not sys.stdout.isatty():
            print()
        sys.stdout.flush()
        self.drawn += 1

    def scene(self, title):
        print(f"-- {title}")
        self.drawn = 0
        time.sleep(SETTLE_S)
        begin = last = self.look()
        end = time.monotonic() + self.scene_s
        while time.monotonic() < end:
            time.sleep(LOOK_S)
            now = self.look()
            self.draw(last, now)
            last = now
        self.judge(begin, last)

    def judge(self, begin, end):
        working = [tenant for tenant in self.tenants if not tenant.resting]
        had = {tenant.name: end[1][tenant.name][0] - begin[1][tenant.name][0] for tenant in self.tenants}
        off = max(abs(had[tenant.name] / sum(had.values()) - tenant.weight / sum(one.weight for one in working)) * 100
                  for tenant in working)
        self.worst = max(self.worst, off)
        self.bad += off > self.accepted
        shares = ", ".join(f"{tenant.name} {had[tenant.name] / sum(had.values()) * 100:.1f} %" for tenant in self.tenants)
        print(f"   over the whole scene: {shares}; off by at most {off:.1f} points\n", flush=True)

    def play(self):
        small, _, large = self.tenants
        self.scene("three programs that always have work: weights 1:2:4")
        large.toggle()
        self.scene("large goes idle: what it leaves is shared by the others")
        large.toggle()
        subprocess.run([self.mete, "set", "small", "weight=400"], env=self.environment, check=True)
        small.weight = 400
        self.scene("large is back, and small was set to weight 400 while it ran")

    def end(self):
        for tenant in self.tenants:
            out, err = tenant.process.communicate(timeout=300)
            if tenant.process.returncode:
                self.bad += 1
                print(f"{tenant.name} FAILED: exit status {tenant.process.returncode}: {err.strip()}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--unjudged", action="store_true")
    parser.add_argument("build", type=Path)
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    with showcase.stage(build, arguments.gpu) as environment:
        stage = Stage(str(build / "cli" / "mete"), environment, str(build / "examples" / "steady"))
        if arguments.unjudged:
            stage.accepted, stage.scene_s = 100.0, LOOK_S
        try:
            stage.play()
        finally:
            stage.end()
    print(f"time: off by at most {stage.worst:.1f} points" if not stage.bad else
          f"time: FAILED: off by up to {stage.worst:.1f} points of {OFF_MOST} that are accepted, or a program failed")
    return 1 if stage.bad else 0


if __name__ == "__main__":
    showcase.end_with(main)
