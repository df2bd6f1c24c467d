#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The gate's law with the real daemon, from another process: close, drain, acknowledge, open.

    test_guest_meted.py METED NVML_FOLDER GUEST GUEST_LOAD DRIVER ROUNDS

On the law driver, which counts submissions after an acknowledgement, or on the simulator, where every
stream must be idle after one.
"""
import mmap
import os
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
GUEST, LOAD, DRIVER = map(os.path.abspath, sys.argv[3:6])
ROUNDS = sys.argv[6]
del sys.argv[3:]
from meted import *

ROUNDS = int(ROUNDS) * int(os.environ.get("METE_TEST_SCALE", "1"))
GIVE_UP = 0.02  # seconds; a close that a thread waits for is given up, as the policy of the daemon will
LAW = struct.Struct("<IIIIQQq")  # struct law


class Law:
    def __init__(self, path):
        with open(path, "wb") as file:
            file.truncate(PAGE)
        self.file = open(path, "r+b")
        self.map = mmap.mmap(self.file.fileno(), PAGE)

    def read(self):
        names = ("acknowledged", "violations", "bad_calls", "checks", "submissions", "captured", "outstanding")
        return dict(zip(names, LAW.unpack_from(self.map, 0)))

    def acknowledge(self, value):
        struct.pack_into("<I", self.map, 0, value)

    def wait_for_check(self):
        """Until guest_load has checked once from beginning to end: the first check may be under way."""
        before = self.read()["checks"]
        while self.read()["checks"] < before + 2:
            time.sleep(0.0005)


def close_once(admin, tenant, law, give_up):
    """Whether it was acknowledged."""
    id = admin.send("gate_set", tenant=tenant, device=0, state=CLOSED)
    admin.socket.settimeout(give_up)
    acknowledged = True
    try:
        assert admin.answer(id).kind == "done"
    except (socket.timeout, TimeoutError):
        acknowledged = False
    admin.socket.settimeout(PATIENCE)
    if acknowledged:
        law.acknowledge(1)
        before = law.read()
        if DRIVER.endswith("law.so"):
            assert before["outstanding"] == 0, before
        law.wait_for_check()
        law.acknowledge(0)
        # Its check must not go on with the gate open: captures begin then.
        law.wait_for_check()
    admin.ask("gate_set", tenant=tenant, device=0, state=OPEN)
    return acknowledged


def test_nothing_is_submitted_after_an_acknowledgement():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")
        law = Law(meted.place + "/law")
        environment = dict(meted.environment, METE_SOCKET=made.socket, METE_DRIVER=DRIVER, METE_TEST_LAW=meted.place + "/law")
        process = subprocess.Popen([LOAD, GUEST, meted.place + "/law"], env=environment,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdout.readline() == b"started\n", process.wait()
        acknowledged, in_vain = 0, 0
        for _ in range(ROUNDS):
            # A machine that is busy with other things needs longer to drain: four in vain double the patience,
            # and one that was acknowledged halves it, so that for long no more than four of five are in vain.
            if close_once(admin, made.tenant, law, min(GIVE_UP * 2 ** (in_vain // 4), 10)):
                acknowledged, in_vain = acknowledged + 1, max(0, in_vain - 4)
            else:
                in_vain += 1
            assert process.poll() is None, process.returncode
        process.stdin.close()
        assert process.wait(timeout=PATIENCE) == 0
        print(f"{ROUNDS} closes, {acknowledged} acknowledged, {law.read()}")
        assert law.read()["violations"] == 0 and law.read()["bad_calls"] == 0
        assert acknowledged > ROUNDS / 20


run(globals())
