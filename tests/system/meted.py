# SPDX-License-Identifier: Apache-2.0
"""Guests, CLIs and daemons for the tests of meted: the protocol is read from wire/messages.def."""
import array
import ctypes
import mmap
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

from runner import Skipped, needed, require, require_all, run, skip  # noqa: F401

PR_SET_PDEATHSIG = 1
# A child of a test that fails must not stay behind. (A child that is to outlive its parent calls outlives_its_parent().)
os.register_at_fork(after_in_child=lambda: ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL))

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MAGIC = 0x6574656D
MIB, GIB = 1 << 20, 1 << 30
PAGE = 4096
PATIENCE = int(os.environ.get("METE_PATIENCE", 240))  # seconds, for what must come, on a machine however busy: only a failure takes so long
OPEN, CLOSING, CLOSED = 0, 1, 2
BAD, VERSION, LIMIT, FULL, DEADLINE, UNKNOWN, IDENTITY, VALUE = range(1, 9)


def read_messages():
    text = re.sub(r"/\*.*?\*/", "", open(os.path.join(ROOT, "wire/messages.def")).read(), flags=re.S)
    rows = re.findall(r"^MESSAGE\((\w+),\s*(\d+),\s*\w+,\s*(.*)\)\s*$", text, re.M)
    return {name: (int(code), re.findall(r"(?:FIELD|LATER)\((\w+), (\w+)\)", fields)) for name, code, fields in rows}


MESSAGES = read_messages()
# States of a tenant: names, by their numbers.
DOING = re.findall(r'^DOING\(\w+, +"([\w-]+)"', open(os.path.join(ROOT, "core/doing.def")).read(), re.M)
NAMES = {code: name for name, (code, _) in MESSAGES.items()}


class Message:
    def __init__(self, kind, id, fields):
        self.kind, self.id, self.fields = kind, id, fields

    def __getattr__(self, key):
        try:
            return self.fields[key]
        except KeyError:
            raise AttributeError(f"{self.kind} has no {key}: {self.fields}") from None

    def __repr__(self):
        return f"{self.kind}#{self.id} {self.fields}"


def encode(message, id, /, **fields):
    code, rows = MESSAGES[message]
    body = b""
    for kind, field in rows:
        value = fields.pop(field, "" if kind == "text" else 0)
        if kind == "u32":
            body += struct.pack("<I", value)
        elif kind == "u64":
            body += struct.pack("<Q", value)
        elif kind == "uuid":
            body += bytes(value or 16)
        else:
            data = value if isinstance(value, bytes) else value.encode()
            body += bytes([len(data)]) + data
    assert not fields, f"{message} has no {fields}"
    return struct.pack("<IHHII", MAGIC, code, 16 + len(body), id, 0) + body


def decode(frame):
    magic, code, length, id, zero = struct.unpack_from("<IHHII", frame)
    assert magic == MAGIC and length == len(frame) and zero == 0, frame
    name, at, fields = NAMES[code], 16, {}
    for kind, field in MESSAGES[name][1]:
        if kind == "u32":
            (fields[field],), at = struct.unpack_from("<I", frame, at), at + 4
        elif kind == "u64":
            (fields[field],), at = struct.unpack_from("<Q", frame, at), at + 8
        elif kind == "uuid":
            fields[field], at = frame[at:at + 16], at + 16
        else:
            n = frame[at]
            fields[field], at = frame[at + 1:at + 1 + n].decode(), at + 1 + n
    assert at == length
    return Message(name, id, fields)


class Gone(Exception):
    """The other end closed the connection."""


class Refused(Exception):
    def __init__(self, message):
        super().__init__(message.reason)
        self.code = message.code


def store_bytes(pid):
    """The sizes of meted's memory files, by the kernel."""
    sum = 0
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            if "mete-store" in os.readlink(f"/proc/{pid}/fd/{fd}"):
                sum += os.stat(f"/proc/{pid}/fd/{fd}").st_blocks * 512
        except FileNotFoundError:
            pass  # closed meanwhile
    return sum


def until(what, otherwise="it never happened"):
    """For a state that nothing reports: asks until what() is true, and returns its value. Questions become rarer, up to 20 ms apart, the longer it
    takes, and those that take long themselves (a program that is started) up to 50 ms: others need the processors."""
    began = time.monotonic()
    while True:
        looked = time.monotonic()
        if answer := what():
            return answer
        now = time.monotonic()
        assert now < began + PATIENCE, otherwise() if callable(otherwise) else otherwise
        time.sleep(max(0.001, min((now - began) / 20, 0.02), min(3 * (now - looked), 0.05)))


def become(uid):
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)


def as_user(uid, action):
    """Its result there (an int), or an errno."""
    pid = os.fork()
    if pid == 0:
        status = 99
        try:
            become(uid)
            status = action()
        except OSError as error:
            status = error.errno
        except Refused as refusal:
            status = 100 + refusal.code
        except BaseException as error:
            sys.stderr.write(f"{error!r}\n")
        os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def outlives_its_parent(word):
    """In a forked child: it lives on when its parent is killed, and answers a process that asks; it ends with that process."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, 0)
    while word.recv(1):
        word.send(b"y")
    os._exit(0)


class Seat:
    """A process that connects for us: meted knows guests by their process. It lives until end(), or until nobody
    knows it any more."""

    def __init__(self):
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.owner = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                self.serve(os.dup2(theirs.fileno(), 3))
            finally:
                os._exit(1)
        theirs.close()

    @staticmethod
    def serve(fd):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, 0)  # the end of a thread of the test is not ours
        os.closerange(4, 1 << 20)  # connections of others must not stay open because of us
        orders = socket.socket(fileno=fd)
        while path := orders.recv(200):
            Seat.hand_out(orders, path)
        os._exit(0)

    @staticmethod
    def hand_out(orders, path):
        made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        error = made.connect_ex(path)
        orders.sendmsg([struct.pack("<I", error)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", made.fileno()))])
        made.close()

    def connect(self, path):
        self.socket.send(path.encode())
        data, control, _, _ = self.socket.recvmsg(4, socket.CMSG_SPACE(4))
        made = socket.socket(fileno=struct.unpack("i", control[0][2])[0])
        error, = struct.unpack("<I", data)
        if error:
            made.close()
            raise OSError(error, os.strerror(error))
        return made

    def signal(self, number):
        os.kill(self.pid, number)

    def end(self):
        if self.pid and self.owner == os.getpid():  # a forked child of ours has this object, too
            self.signal(signal.SIGKILL)
            os.waitpid(self.pid, 0)
        self.pid = 0
        self.socket.close()

    def __del__(self):
        try:
            self.end()
        except (OSError, AttributeError):
            pass  # not our child: of before a fork


class Here:
    """This process itself, in the place of a Seat: for a child that is one guest."""

    def __init__(self):
        self.pid = os.getpid()

    def connect(self, path):
        made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        made.connect(path)
        return made

    def end(self):
        pass


class Connection:
    """One request at a time; what comes unasked is kept in `heard`."""

    def __init__(self, path, timeout=PATIENCE, seat=None):
        if seat:
            self.socket = seat.connect(path)
        else:
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
            self.socket.connect(path)  # waits while the backlog is full: with a timeout, that would be an error
        self.socket.settimeout(timeout)
        self.last_id, self.heard, self.fds = 0, [], []

    def close(self):
        self.socket.close()

    def send(self, message, /, **fields):
        self.last_id += 1
        id = self.last_id
        try:
            self.socket.send(encode(message, id, **fields))
        except (BrokenPipeError, ConnectionResetError):
            raise Gone() from None
        return id

    def receive(self):
        """The next message but those of turns, which come at any time: hear() has them."""
        while (message := self.receive_any()).kind in ("gate", "pace"):
            self.heard.append(message)
        return message

    def receive_any(self):
        try:
            data, control, _, _ = self.socket.recvmsg(8192, socket.CMSG_SPACE(64))
        except ConnectionResetError:
            raise Gone() from None
        for level, kind, payload in control:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds = array.array("i")
                fds.frombytes(payload)
                self.fds += list(fds)
        if not data:
            raise Gone()
        return decode(data)

    def answer(self, id):
        for message in self.heard:  # while another answer was waited for
            if message.id == id:
                self.heard.remove(message)
                return message
        while True:
            message = self.receive_any()
            if message.id == id:
                return message
            self.heard.append(message)

    def ask(self, message, /, **fields):
        answer = self.answer(self.send(message, **fields))
        if answer.kind == "refused":
            raise Refused(answer)
        return answer

    def hear(self, kind):
        """The next unasked message of that name."""
        for message in self.heard:
            if message.kind == kind:
                self.heard.remove(message)
                return message
        while True:
            message = self.receive_any()
            if message.kind == kind:
                return message
            self.heard.append(message)


class Guest(Connection):
    """A guest in a process of its own, or in the one of `seat`."""

    def __init__(self, path, program="test", major=1, hello=True, seat=None, copy=0, **more):
        self.seat = seat or Seat()
        super().__init__(path, seat=self.seat, **more)
        self.welcome = None
        if hello:
            self.welcome = self.ask("hello", major=major, pid=self.seat.pid, driver_version=12090, program=program, copy=copy)
            assert self.welcome.kind == "welcome" and len(self.fds) == 2, self.fds
            self.own = mmap.mmap(self.fds[0], PAGE)
            self.tenant = mmap.mmap(self.fds[1], PAGE, prot=mmap.PROT_READ)

    def hang_up(self):
        """Its connection ends; its process lives on."""
        super().close()
        for fd in self.fds:
            os.close(fd)
        self.fds = []

    def close(self):
        """Its process ends."""
        self.hang_up()
        self.seat.end()

    def state(self, allocated, credit=0, contexts=0, device=0):
        """Its inventory, of one device."""
        try:
            self.ask("inventory", device=device, contexts=contexts, allocated=allocated, credit=credit)
        finally:
            self.ask("inventory_end", devices=1)

    def credit(self, bytes, want=None, wait=0, device=0):
        return self.ask("credit_ask", device=device, wait=wait, bytes=bytes, want=want or bytes).bytes

    def refused(self, bytes, wait=0, device=0):
        try:
            granted = self.credit(bytes, wait=wait, device=device)
        except Refused as refusal:
            return refusal.code
        raise AssertionError(f"{granted} bytes were granted")

    def allocated(self, bytes, credit=0, device=0):
        """Its own page's figures."""
        struct.pack_into("<QQ", self.own, 64 + 32 * device, bytes, credit)

    def contexts(self, count, device=0, others=0):
        """Likewise; and how many modules and the like."""
        struct.pack_into("<Q", self.own, 64 + 32 * device + 16, count)
        struct.pack_into("<Q", self.own, 832 + 8 * device, others + 1)

    def captures(self, count):
        """Likewise; how many captures are open."""
        struct.pack_into("<Q", self.own, 56, count)

    def changing(self):
        """A call that changes what it holds has begun."""
        struct.pack_into("<QQ", self.own, 32, 1, 0)

    def waits(self, threads, device=0):
        """Likewise; how many threads stand at a closed gate."""
        struct.pack_into("<Q", self.own, 24, threads)
        struct.pack_into("<Q", self.own, 960 + 8 * device, threads)

    def give_back(self, bytes, recall=0, device=0):
        self.send("credit_return", device=device, recall=recall, bytes=bytes)

    def shown(self, device=0):
        at = 64 + 80 * device
        total, limit, used, epoch, gate, rivals, room, granted, guests, lent = struct.unpack_from("<QQQQIIQQII", self.tenant, at + 16)
        return dict(total=total, limit=limit, used=used, epoch=epoch, gate=gate, rivals=rivals, room=room, granted=granted, lent_mib=lent,
                    not_open=struct.unpack_from("<I", self.tenant, 0)[0], strict=struct.unpack_from("<I", self.tenant, 20)[0],
                    generation=struct.unpack_from("<Q", self.tenant, 40)[0])

    def turns(self, device=0):
        """The figures of turns that it is told: struct wire_tenant_turns."""
        say, contended, flight, grace = struct.unpack_from("<IIQQ", self.tenant, 1344 + 32 * device)
        return dict(say=say, contended=contended, flight_ns=flight, grace_ns=grace)


class Admin(Connection):
    def __init__(self, place, **more):
        super().__init__(place + "/admin.sock", **more)
        self.welcome = self.ask("admin_hello", major=1)

    def tenant(self, memory="1GiB", name="test", **fields):
        made = self.ask("tenant_new", name=name, memory=memory, **fields)
        assert made.kind == "tenant_made"
        return made

    def set(self, tenant, key, value):
        self.ask("tenant_set", tenant=tenant, key=key, value=value)

    def list(self, tenant=0):
        id = self.send("list", tenant=tenant)
        rows = []
        while True:
            row = self.answer(id)
            if row.kind == "refused":
                raise Refused(row)
            if row.kind == "end":
                assert row.rows == len(rows)
                return rows
            rows.append(row)

    def tenant_row(self, tenant):
        return next(row for row in self.list(tenant) if row.kind == "tenant_row")

    def device_row(self, index=0):
        return next(row for row in self.list() if row.kind == "device_row" and row.index == index)

    def guests(self, tenant):
        return [row for row in self.list(tenant) if row.kind == "guest_row"]


def free_port():
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return made.getsockname()[1]


def refused(*options):
    """The sentence with which a user's meted does not start."""
    with tempfile.TemporaryDirectory() as place:
        done = subprocess.run([sys.argv[1], "--user", "--dir", place, "--driver", sys.argv[2], *options], capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode != 0, done
        return next(line for line in done.stderr.splitlines() if "daemon.failed" in line)


class Daemon:
    """A meted of its own folder, on the stub driver. argv[1] of a test is meted, argv[2] the stub's folder."""

    def __init__(self, *options, environment=None, wrap=(), place=None, role="--user"):
        self.place = place or tempfile.mkdtemp(prefix="mete-")
        self.options, self.wrap, self.role = options, wrap, role
        # A node of its own: stubs of other tests have devices of the same names.
        self.environment = dict(os.environ, METE_SIM_DIR=self.place + "/sim") | (environment or {})
        self.log_path = self.place + "/log"
        self.start()

    def start(self):
        notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        notify.bind("")  # the kernel picks an abstract name
        notify.settimeout(PATIENCE)
        environment = dict(self.environment, NOTIFY_SOCKET="@" + notify.getsockname()[1:].decode())
        # A user's meted leaves if nobody comes within its grace. Where nobody was before, that is only the time that a busy machine may take until we
        # come.
        grace = () if os.path.exists(self.place + "/journal") else ("--grace", f"{PATIENCE}s")
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                [*self.wrap, sys.argv[1], self.role, "--dir", self.place, "--driver", sys.argv[2], *self.options, *grace],
                env=environment, stderr=log, stdin=subprocess.DEVNULL)
        try:
            assert notify.recv(100) == b"READY=1"
        except socket.timeout:
            raise AssertionError("meted did not become ready: " + self.log()) from None
        finally:
            notify.close()

    def log(self):
        return open(self.log_path).read()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def wait(self):
        return self.process.wait(timeout=PATIENCE)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if self.process.poll() is None:
            self.process.terminate()
            if self.wait() != 0 and kind is None:
                raise AssertionError("meted ended badly: " + self.log()[-1000:])
        if kind is not None:
            sys.stderr.write(self.log()[-4000:])
        shutil.rmtree(self.place, ignore_errors=True)
