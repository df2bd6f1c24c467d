# SPDX-License-Identifier: Apache-2.0
"""A simulated machine with a neighbour at work, and the judge of what is done beside it.

An attack runs under a real `mete run` with a real meted. It is judged by three books that are not the attacker's: the
driver's (witness.c), the neighbour's (neighbour.c) and meted's (its admin socket).
"""
import contextlib
import ctypes
import glob
import math
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "system"))
from scraper import Scraper, free_port, wait_for  # noqa: E402
from spent import LONGER, Spent  # noqa: E402
import users  # noqa: E402
from meted import MIB, PATIENCE, Admin, Gone, Refused, become, run  # noqa: E402,F401

LIMIT, NEIGHBOUR = 512 * MIB, 256 * MIB  # of a device of 1 GiB: an escape of a quarter harms the neighbour
GRACE_S = 2.0  # what only measuring can tell is in the book after that
END_S = 2.0  # meted ends within that, whatever others do
SLOW_S = 2.0   # the neighbour's longest round: three allocations, two of them beyond its credit
BOOKED = LIMIT - MIB  # so much in meted's book: nothing more is granted
PERSON_S = 10  # a person at a terminal
BOOK_S = 15.0  # until what an attacker held is in nobody's name

HELD, ADMITTED, ESCAPED, HARMED, UNTRIED = "held", "admitted", "ESCAPED", "NEIGHBOUR HARMED", "not tried"


def readme():
    return re.sub(r"\s+", " ", open(os.path.join(ROOT, "README.md")).read())


class Reader(threading.Thread):
    """Keeps a process's output, text line by text line, with the time."""

    def __init__(self, process):
        super().__init__(daemon=True)
        self.process, self.lines, self.ended = process, [], False
        self.start()

    def run(self):
        for line in self.process.stdout:
            self.lines.append((time.monotonic(), line))
        self.ended = True


def parents():
    """pid -> (parent, name) of all processes."""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                text = open(f"/proc/{entry}/stat", errors="replace").read()
            except OSError:
                continue
            name, rest = text[text.index("(") + 1:text.rindex(")")], text[text.rindex(")") + 2:].split()
            found[int(entry)] = (int(rest[1]), name)
    return found


class World:
    """`daemon`: "doors": meted has a page and metrics that speak TLS; "no_room": what the store is made of can be refused it; "clock": its time of day
    jumps; "parts": each of two devices is a part that MIG made of one; "users": it is the system's, in a /run of our own (users.py), the neighbour is one
    user's, and the attacker another one's; "users_doors": both."""

    def __init__(self, build, devices=1, daemon=None):
        # A process that outlives its parents becomes our child: none gets away.
        ctypes.CDLL(None).prctl(36, 1)
        self.build, self.devices, self.daemon, self.scrapers, self.doors, self.ends = build, devices, daemon, [], "", []
        self.users = bool(daemon) and daemon.startswith("users")
        self.folder = tempfile.mkdtemp(prefix="mete-", dir="/tmp")
        self.place = users.PLACE if self.users else self.folder + "/mete"
        self.python = users.python() if self.users else sys.executable
        os.mkdir(self.folder + "/sim")
        os.chmod(self.folder, 0o755)
        os.chmod(self.folder + "/sim", 0o777)
        kept = {key: value for key, value in os.environ.items()
                if not key.startswith("METE_") and key not in ("CUDA_VISIBLE_DEVICES", "LD_PRELOAD")}
        self.environment = dict(kept, XDG_RUNTIME_DIR=self.folder, METE_SIM_DIR=self.folder + "/sim", METE_SIM_DEVICES=f"{devices}xSIM",
                                METE_SIM_MEMORY="1GiB", METE_SIM_RATE="1000", METE_SIM_PATTERN="0", METE_SIM_CONTEXT_COST="0",
                                METE_SIM_CREATE_COST="0", METE_SIM_MAP_COST="0", METE_SIM_UNMAP_COST="0",
                                LD_LIBRARY_PATH=build + "/sim/lib", HOSTILE_ATTACK=self.program("attack"))
        if daemon == "parts":
            self.environment |= dict(METE_SIM_DEVICES="1xH100", METE_SIM_PARTS="0:2x3g.40gb", METE_SIM_MEMORY="2400MiB")
        if self.users:
            self.environment.pop("XDG_RUNTIME_DIR")
            self.environment["TMPDIR"] = self.folder + "/sim"  # theirs, to write in
        self.errors = open(self.folder + "/errors", "a+")
        self.admin = None

    def program(self, name):
        return f"{self.build}/tests/hostile/{name}"

    def mete_run(self, name, memory, *command, devices=1, options=(), **more):
        which = ["--device", ",".join(map(str, range(devices))), *options]
        command = [self.python if word == sys.executable else word for word in command]
        whose = users.NEIGHBOUR if name == "neighbour" else users.ATTACKER
        return subprocess.Popen([self.build + "/cli/mete", "run", "--memory", f"{memory // MIB}MiB", "--name", name, *which, "--", *command],
                                env=dict(self.environment, **more), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=self.errors, start_new_session=True, preexec_fn=(lambda: become(whose)) if self.users else None)

    def start_meted(self, *options, **more):
        place, self.options = self.place, (options, more)
        self.meted = subprocess.Popen([self.build + "/node/meted", "--system" if self.users else "--user", "--dir", place, "--driver", self.build + "/sim/lib", "--grace", f"{PATIENCE}s", *options],
                                      env=dict(self.environment, **more), stdin=subprocess.DEVNULL, stderr=self.errors)
        assert wait_for(self.connected, PATIENCE), "meted does not start: " + self.said()

    def connected(self):
        """Keeps the connection: a user's meted ends when the last who needs it leaves."""
        try:
            self.meet()
        except (OSError, Gone, Refused):
            return False
        return True

    def again(self):
        """After meted has ended: a user's is started by whoever uses it; the system's by systemd, which is us."""
        if self.users:
            self.meted.wait()
            options, more = self.options
            self.start_meted(*options, **more)

    def open_doors(self):
        page, metrics = free_port(), free_port()
        certificate, key, token = (f"{self.folder}/{name}" for name in ("tls.crt", "tls.key", "token"))
        word = os.urandom(16).hex()
        with open(token, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(word)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "3", "-subj", "/CN=localhost",
                        "-addext", "subjectAltName=DNS:localhost", "-out", certificate, "-keyout", key], check=True, capture_output=True)
        os.chmod(key, 0o600)
        self.start_meted("--page", f"127.0.0.1:{page}", "--page-token", token, "--metrics", f"127.0.0.1:{metrics}", "--tls-cert", certificate, "--tls-key", key)
        self.doors = f"{page} {metrics}"
        self.scrapers = [Scraper(page, "/v1/node", certificate, {"Authorization": "Bearer " + word}), Scraper(metrics, "/metrics", certificate, {})]

    def end_meted(self, pid):
        with open(os.pidfd_open(pid)) as ending:
            began = time.monotonic()
            os.kill(pid, signal.SIGTERM)
            ended = select.select([ending], [], [], PATIENCE)[0]
        self.ends.append(time.monotonic() - began if ended else math.inf)
        self.again()

    def put_number(self, name, number):
        """For a library in meted's process (number_file.h). None: no number."""
        path = f"{self.folder}/{name}"
        if number is None:
            os.remove(path)
            return
        with open(path + ".new", "w") as file:
            file.write(str(number))
        os.rename(path + ".new", path)

    def refuse_room(self, error):
        """From now on, until `error` is None."""
        self.put_number("no_room", error)

    def __enter__(self):
        if self.users:
            os.makedirs(self.place, mode=0o711, exist_ok=True)
        if self.daemon in ("doors", "users_doors"):
            self.open_doors()
        elif self.daemon == "clock":
            self.start_meted(LD_PRELOAD=self.program("clock_jumps.so"), HOSTILE_CLOCK=self.folder + "/clock")
        elif self.daemon == "no_room":
            self.start_meted(LD_PRELOAD=self.program("no_room.so"), HOSTILE_NO_ROOM=self.folder + "/no_room")
        elif self.users:
            self.start_meted()
        self.neighbour = Reader(self.mete_run("neighbour", NEIGHBOUR, self.program("neighbour")))
        assert wait_for(lambda: self.neighbour.lines, PATIENCE), "the neighbour does not start: " + self.said()
        self.witness = Reader(subprocess.Popen([self.program("witness"), self.build + "/sim/lib/libnvidia-ml.so.1"], text=True,
                                               env=self.environment, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                               stderr=self.errors))
        rows = self.meet().list()
        [self.tenant] = {row.tenant for row in rows if row.kind == "tenant_row"}
        [self.pid] = {row.pid for row in rows if row.kind == "guest_row"}
        self.look()
        return self

    def __exit__(self, *_):
        self.admin.close()
        for scraper in self.scrapers:
            scraper.over = True
        keep_out = {os.getpid()}
        for process in (self.neighbour.process, self.witness.process):
            if process.stdin:
                process.stdin.close()
        self.witness.process.kill()
        wait_for(lambda: self.neighbour.process.poll() is not None, 5)
        self.end_all(keep_out, daemons=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def said(self):
        self.errors.seek(0)
        return self.errors.read()[-2000:]

    def socket_of_neighbour(self):
        """The name of its folder ends in what nobody can guess."""
        return next(iter(glob.glob(f"{self.place}/tenants/{self.tenant}*/guest.sock")), "")

    def daemon_pid(self):
        """Of a living one; asked on a new connection."""
        try:
            admin = Admin(self.place)
        except (OSError, Gone, Refused):
            return None
        admin.close()
        return admin.welcome.pid

    def ours(self, keep, daemons=False):
        """Every process that descends from us, without these, what is beneath them, and daemons."""
        tree, found, grew = parents(), {os.getpid()}, True
        while grew:
            grew = False
            for pid, (parent, name) in tree.items():
                if parent in found and pid not in found and pid not in keep and (daemons or name != "meted"):
                    found.add(pid)
                    grew = True
        return found - {os.getpid()}

    def attackers(self):
        """The attack's processes, without its `mete run`."""
        names = parents()
        return [pid for pid in self.ours({self.neighbour.process.pid, self.witness.process.pid}) if names.get(pid, (0, "mete"))[1] != "mete"]

    def end_all(self, keep, daemons=False):
        while True:
            left = self.ours(keep, daemons)
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                pass
            left = {pid for pid in left if pid in self.ours(keep, daemons)}
            if not left:
                return
            time.sleep(0.01)

    # The driver's book.

    def held(self, line):
        """The memory of others than the neighbour on the fullest device, by a text line of the witness."""
        sums = {}
        for device, pid, bytes in (map(int, word.split(":")) for word in line.split()[1:]):
            if pid != self.pid:
                sums[device] = sums.get(device, 0) + bytes
        return max(sums.values(), default=0)

    def sampled(self, line):
        """When the witness asked the driver, by our clock."""
        return int(line.split()[0]) / 1000

    def look(self):
        """Their memory now: by an answer of the witness that begins after this."""
        now = time.monotonic()
        seen = wait_for(lambda: self.witness.ended or self.witness.lines and self.sampled(self.witness.lines[-1][1]) > now, PATIENCE)
        assert seen and not self.witness.ended, "nobody watches the driver's book: " + self.said()
        return self.held(self.witness.lines[-1][1])

    def beyond(self, since, limit, settled=None):
        """The longest time in s that others than the neighbour held more than that, the most they held, and by how much
        it grew after `settled`, or after GRACE_S beyond it."""
        now_held = self.look()
        longest = most = grown = last = 0
        began = after_grace = None
        looks = [(self.sampled(line), self.held(line)) for _, line in self.witness.lines]
        for t, now in [(t, now) for t, now in looks if t >= since] + [(time.monotonic(), now_held)]:
            if began is not None:
                longest = max(longest, t - began)
                if after_grace is None and t > (settled or began + GRACE_S):
                    after_grace = last
                grown = max(grown, now - after_grace) if after_grace is not None else grown
            most, last = max(most, now), now
            began = (began if began is not None else t) if now > limit else None
            after_grace = after_grace if began is not None else None
        return longest, most, grown

    # The neighbour's.

    def neighbour_now(self):
        _, line = self.neighbour.lines[-1]
        return list(map(int, line.split()))

    def neighbour_harmed(self, before, since, slow_s):
        if self.neighbour.process.poll() is not None:
            return "the neighbour ended: " + self.said()[-300:]
        lines = [(t, list(map(int, line.split()))) for t, line in self.neighbour.lines if t >= since]
        now = self.neighbour_now()
        if now[1] > before[1]:
            return f"the neighbour was refused {now[1] - before[1]} times: " + self.said()[-300:]
        if now[2] > before[2]:
            return f"the neighbour saw {now[2] - before[2]} wrong things: " + self.said()[-300:]
        slowest = max([line[3] / 1e6 for _, line in lines] + [time.monotonic() - self.neighbour.lines[-1][0]])
        if slow_s and slowest > slow_s:
            return f"the neighbour waited for {slowest:.2f} s"
        return None

    # A person's.

    def unanswered(self, patience_s):
        """What is not answered to somebody who looks at who is there. None: nothing."""
        try:
            subprocess.run([self.build + "/cli/mete", "ps"], env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=patience_s)
        except subprocess.TimeoutExpired:
            return f"`mete ps` is not answered within {patience_s:.0f} s"
        return None

    # meted's.

    def meeting(self):
        """A connection to the daemon that is there now, for one act."""
        return contextlib.closing(Admin(self.place))

    def meet(self):
        """A connection to the daemon that is there now, which we keep."""
        if self.admin:
            self.admin.close()
        self.admin = Admin(self.place)
        return self.admin

    def booked(self):
        """The attackers' memory on the fullest device, by its figures: one tenant's, and that of tenants within it."""
        sums = {}
        try:
            for row in self.meet().list():
                if row.kind == "tenant_row" and row.tenant != self.tenant:
                    sums[row.device] = sums.get(row.device, 0) + row.allocated + row.residual
        except (OSError, Gone, Refused):
            return 0
        return max(sums.values(), default=0)

    def left_in_book(self):
        """Rows of anybody but the neighbour, or what there is more of the neighbour's than there was; None: nothing."""
        try:
            admin = Admin(self.place)
            rows = [row for row in admin.list() if row.kind == "tenant_row" and row.tenant != self.tenant]
            admin.close()
        except (OSError, Gone, Refused) as error:
            return f"meted does not answer: {error!r}"
        return ", ".join(f"{row.name}: guests={row.guests} allocated={row.allocated} residual={row.residual} credit={row.credit}"
                         for row in rows) or None


class Attack:
    """One row. `exact`: not even for a moment beyond the limit; otherwise for no longer than GRACE_S, or in meted's book.

    With judge_time=False nothing is judged by how long it takes, which is a matter of the machine's load: GRACE_S, BOOK_S and
    slow_s are PATIENCE then."""

    def __init__(self, name, tries, command, exact=True, admitted=None, disturb=None, kills=False, devices=1, slow_s=SLOW_S, quick=False,
                 options=(), daemon=None, cap=None):
        """`cap`: over 10 s it has no more of the device's time, in percent; the row lasts for longer than that."""
        self.daemon, self.cap = daemon, cap
        self.name, self.tries, self.command, self.exact = name, tries, command, exact
        self.admitted, self.disturb, self.kills, self.devices, self.slow_s = admitted, disturb, kills, devices, slow_s
        self.quick, self.options = quick, options

    def run(self, world, judge_time=True):
        """(outcome, why)"""
        def patience(seconds):
            return seconds if judge_time else PATIENCE

        def held():
            return sum("holds" in line for _, line in running.lines)

        before, daemon = world.neighbour_now(), world.daemon_pid()
        programs = self.name.count(" beside ") + 1 if self.cap and judge_time else 1
        keep = world.ours(set())
        seed = os.environ.get("METE_SEED") or str(time.time_ns())
        world.sought = world.met = False
        since = time.monotonic()
        spent = Spent(world.build, world.environment, world.pid) if self.cap and judge_time else None
        running = Reader(world.mete_run("attacker", LIMIT, *self.command, devices=self.devices, options=self.options,
                                        HOSTILE_NEIGHBOUR=world.socket_of_neighbour(), HOSTILE_DOORS=world.doors, METE_SEED=seed,
                                        **dict(HOSTILE_LONGER=LONGER) if spent else {}))
        try:
            if self.disturb:
                self.disturb(world, running)
            wait_for(lambda: running.ended or held() >= programs, patience(60 if spent else 20))
            too_much, had = spent.judge(self.cap) if spent else (False, "")
            # Memory beyond the limit now is watched until it may be beyond it no longer.
            wait_for(lambda: world.look() <= LIMIT or not judge_time and (self.exact or world.booked() >= BOOKED), patience(GRACE_S + 0.5))
            settled = None if judge_time else time.monotonic()
            over, most, grown = world.beyond(since, LIMIT, settled)
            late = over > GRACE_S if judge_time else world.look() > LIMIT
            booked = world.booked() if late else 0
            unanswered = world.unanswered(patience(PERSON_S))
        finally:
            try:
                running.process.stdin.close()
            except OSError:
                pass
            wait_for(lambda: running.process.poll() is not None, 0.5)
            world.end_all(keep)
        left = world.left_in_book()
        if left:
            wait_for(lambda: not world.left_in_book(), patience(BOOK_S))
            left = world.left_in_book()
        # One more line of the neighbour's, of now.
        seen = len(world.neighbour.lines)
        goes_on = wait_for(lambda: len(world.neighbour.lines) > seen, patience(10))
        harmed = world.neighbour_harmed(before, since, self.slow_s if judge_time else None)
        harmed = harmed or unanswered
        if not harmed and not self.kills and world.daemon_pid() != daemon:
            harmed = "meted ended"
        if not harmed and not judge_time and not goes_on:
            harmed = "the neighbour stands still"
        if not harmed and left:
            harmed = "in meted's book is left: " + left
        if not harmed and max(world.ends, default=0) > (END_S if judge_time else PATIENCE):
            harmed = f"meted took {max(world.ends):.2f} s to end"
        world.ends.clear()
        for scraper in world.scrapers:
            harmed = harmed or scraper.harmed(since, judge_time)
        shown = [line for _, line in running.lines if "was shown" in line]
        # In the book, so that all further memory is refused: that is what is promised of what only measuring can tell.
        escaped = bool(shown) or (most > LIMIT if self.exact else late and (booked < BOOKED or grown > 0))
        why = (shown[0].strip() + ", " if shown else "") + f"{most / MIB:.0f} MiB at most" + (f", {over:.2f} s beyond the limit" if most > LIMIT else "")
        escaped |= bool(too_much)
        why += f", {had}" if spent else ""
        if late:
            why += f", {booked / MIB:.0f} MiB in meted's book, {grown / MIB:.0f} MiB more later"
        unmet = world.sought and not world.met
        if unmet:
            why += ", no tenant of the attacker's was found to act on"
        # As `mete run` ends if it cannot execute the program; so does a program for whose symbols there is no memory, in the midst of its work.
        if running.process.poll() in (126, 127) and not most:
            unmet, why = True, why + ", its program did not start"
        if any("protocol" in word for word in self.command):
            why, harmed = f"{why}, METE_SEED={seed}", harmed and f"{harmed}, METE_SEED={seed}"
        return self.outcome(escaped, why, harmed, too_much is None or unmet)

    def outcome(self, escaped, why, harmed, untried=False):
        if (escaped or harmed) and self.admitted:
            if self.admitted in readme():
                return ADMITTED, f"README: \"{self.admitted}\""
            return ESCAPED, f"README does not say \"{self.admitted}\""
        if escaped:
            return ESCAPED, why + ("; " + harmed if harmed else "")
        if harmed:
            return HARMED, harmed
        return UNTRIED if untried else HELD, why
