# SPDX-License-Identifier: Apache-2.0
"""Steps that run beside each other: a step begins when the steps that it comes after have ended, and its output is a file.

What it prints of how far it is (tools/progress) is passed on with its name before it; at its failure, the end of its output.
"""
import os
import signal
import subprocess
import sys
import threading
import time


class Step:
    def __init__(self, name, command, needs=(), after=(), nice=0, env=None):
        """`needs`: steps that must have succeeded, or this one is left out; `after`: steps that must have ended."""
        self.name, self.command, self.needs, self.after, self.nice, self.env = name, command, needs, after, nice, env
        self.over, self.status, self.seconds = threading.Event(), None, 0.0


class Lanes:
    def __init__(self, steps, folder):
        self.steps, self.folder = steps, folder
        self.started, self.lock, self.running, self.stopped = time.monotonic(), threading.Lock(), set(), False
        os.makedirs(folder, exist_ok=True)

    def say(self, words):
        with self.lock:
            print(f"{time.monotonic() - self.started:5.0f} s  {words}", flush=True)

    def log_of(self, step):
        return os.path.join(self.folder, step.name.replace(" ", "-").replace(":", "") + ".log")

    def run(self):
        """True where all succeeded."""
        threads = [threading.Thread(target=self.work, args=(step,), daemon=True) for step in self.steps]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except BaseException:
            self.stop()
            raise
        return all(step.status == 0 for step in self.steps)

    def stop(self):
        """Ends what runs: a step and all that it started in its process group. meson and tests/kubernetes/cluster.py end theirs."""
        with self.lock:
            self.stopped = True
            running = list(self.running)
        for process in running:
            os.killpg(process.pid, signal.SIGTERM)
        for process in running:
            process.wait()

    def work(self, step):
        try:
            for other in (*step.needs, *step.after):
                other.over.wait()
            broken = [other.name for other in step.needs if other.status != 0]
            if broken:
                self.say(f"{step.name}: left out, since {broken[0]} failed")
                return
            self.carry_out(step)
        finally:
            step.over.set()

    def carry_out(self, step):
        begun = time.monotonic()
        with self.lock:
            if self.stopped:
                return
            process = subprocess.Popen(["nice", "-n", str(step.nice), *step.command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=subprocess.STDOUT, env=step.env, start_new_session=True)
            self.running.add(process)
        self.say(f"{step.name} ...")
        with open(self.log_of(step), "wb") as log:
            for line in process.stdout:
                log.write(line)
                log.flush()
                if line.rstrip().endswith(b" %"):
                    self.say(f"{step.name}: {line.decode(errors='replace').strip()}")
        step.status = process.wait()
        with self.lock:
            self.running.discard(process)
            if self.stopped:
                return
        step.seconds = time.monotonic() - begun
        if step.status:
            self.say(f"FAILED: {step.name} (status {step.status})")
            self.show_end(step)
        else:
            self.say(f"{step.name}: done in {step.seconds:.0f} s")

    def show_end(self, step, lines=100):
        with self.lock, open(self.log_of(step), errors="replace") as log:
            sys.stdout.writelines(log.readlines()[-lines:])
            sys.stdout.flush()
