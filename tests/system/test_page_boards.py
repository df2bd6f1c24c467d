#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the page asks the driver, and when: what devices' boards say of themselves, and nothing while nobody looks."""
import re

from meted import *
from page_socket import Shown
import web

BOARD = ("temperature_celsius", "power_watts", "power_limit_watts", "clock_mhz", "utilization_percent")


def put_boards(path, *lines):
    with open(path + ".new", "w") as file:
        file.write("".join(line + "\n" for line in lines))
    os.replace(path + ".new", path)


def asked_of_boards(path):
    return os.path.getsize(path + ".asked") if os.path.exists(path + ".asked") else 0


def test_what_boards_say_is_shown_and_followed_and_nobody_is_asked_while_nobody_looks():
    with tempfile.TemporaryDirectory() as folder:
        boards = folder + "/boards"
        put_boards(boards, "0 61 320400 700000 1980")
        with Shown(environment={"METE_STUB_DEVICES": "2", "METE_STUB_BOARDS": boards, "METE_STUB_LOADS": "73,-"}) as meted:
            Admin(meted.place).tenant("1GiB", name="one")
            # Rows, the page itself and a tenant's story need none of it.
            for _ in range(3):
                Admin(meted.place).list()
                assert meted.ask("/").status == 200 and meted.ask("/v1/tenants/one").status in (200, 404)
            assert asked_of_boards(boards) == 0
            # The first answer has them already, whichever path is asked first.
            for path in ("/v1/devices/0", "/v1/node"):
                said = meted.ask(path).json
                device = said["device"] if "device" in said else said["devices"][0]
                assert [device[key] for key in BOARD] == [61, 320, 700, 1980, 73], device
            documented = set(re.findall(r"`(\w+)`", re.search(r"^Of its board, .*$", open(os.path.join(os.path.dirname(__file__), "..", "..", "docs", "page.md")).read(), re.M)[0]))
            assert documented == set(BOARD), documented ^ set(BOARD)
            # One of which the driver says nothing has no such keys.
            assert not set(BOARD) & set(meted.ask("/v1/devices/1").json["device"])
            with web.Stream(meted.page) as stream:
                watched = web.Watched(stream)
                watched.step()
                assert watched.devices[0]["power_watts"] == 320
                put_boards(boards, "0 62 320400 700000 1980", "1 40 60000 300000 345")
                changed = stream.until(lambda name, data: name == "change" and len(data["devices"]) == 2 and data["devices"])
                assert changed == [{"index": 0, "temperature_celsius": 62},
                                   {"index": 1, "temperature_celsius": 40, "power_watts": 60, "power_limit_watts": 300, "clock_mhz": 345}], changed
                put_boards(boards)
                changed = stream.until(lambda name, data: name == "change" and data["devices"])
                assert changed[0] == {"index": 0, "temperature_celsius": None, "power_watts": None, "power_limit_watts": None, "clock_mhz": None}, changed


def sleeps_until_called(pid):
    """All its threads are in a call of the system that nothing but somebody else's doing ends: no timer, and no question to the driver."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/syscall") as file:
            number, *arguments = file.read().split()
        # epoll_wait() without a time, and futex() likewise.
        if number == "232" and int(arguments[3], 16) & 0xffffffff == 0xffffffff or number == "202" and int(arguments[3], 16) == 0:
            continue
        return False
    return True


def test_when_the_last_who_looked_has_left_nothing_is_done_any_more():
    if os.uname().machine != "x86_64" or not os.path.exists("/proc/self/syscall"):
        raise Skipped("this kernel does not say in which call a thread is; run it on Linux for x86-64")
    with tempfile.TemporaryDirectory() as folder:
        boards = folder + "/boards"
        put_boards(boards, "0 61 320400 700000 1980")
        with Shown(environment={"METE_STUB_BOARDS": boards, "METE_SIM_DIR": folder}) as meted:
            admin, pid = Admin(meted.place), meted.process.pid
            admin.tenant("1GiB", name="one")
            until(lambda: sleeps_until_called(pid))
            assert asked_of_boards(boards) == 0
            with web.Stream(meted.page) as stream:
                stream.next()
                asked = asked_of_boards(boards)
                # As long as somebody looks, the driver is asked again and again, and meted has a time to wake up at.
                until(lambda: asked_of_boards(boards) > asked + 1)
                until(lambda: not sleeps_until_called(pid))
            until(lambda: sleeps_until_called(pid))


def test_a_driver_that_says_nothing_of_boards_holds_up_no_figure_of_meted():
    with tempfile.TemporaryDirectory() as folder:
        os.mkfifo(folder + "/boards")
        with Shown(environment={"METE_STUB_BOARDS": folder + "/boards"}) as meted:
            admin = Admin(meted.place)
            admin.tenant("1GiB", name="one")
            with web.Stream(meted.page) as stream:  # its first words wait a second, and no longer
                assert [row["name"] for row in stream.next()[1]["tenants"]] == ["one"]
                admin.tenant("1GiB", name="two")
                assert [row["name"] for row in stream.until(lambda name, data: data["tenants"])] == ["two"]
            device = meted.ask("/v1/node").json["devices"][0]
            assert not set(BOARD) & set(device), device
            assert len([row for row in admin.list() if row.kind == "tenant_row"]) == 2
            # It says something again.
            with open(folder + "/boards", "w") as file:
                os.unlink(folder + "/boards")
                put_boards(folder + "/boards", "0 61 320400 700000 1980")
                file.write("0 1 1000 1000 1\n")
            until(lambda: meted.ask("/v1/node").json["devices"][0].get("power_watts") == 320)


if __name__ == "__main__":
    run(globals())
