# SPDX-License-Identifier: Apache-2.0
"""meted's page in a real browser, with a crowd of tenants behind it: for the tests that look at it there."""
import contextlib

from browser import Browser
from crowd_of_tenants import Crowd
from meted import *

HOST = "127.0.0.1"
THE = []  # the browser


@contextlib.contextmanager
def begin():
    """One for all tests of a file: its start takes longer than most of them. What a page keeps is its own, as each has another port."""
    with Browser() as browser:
        THE.append(browser)
        yield


def put_boards(file, devices, celsius=50):
    """Each takes a watt more than the one before it, of 1,000."""
    file.seek(0)
    file.truncate()
    file.write("".join(f"{n} {celsius + n % 40} {1000 * (500 + n)} 1000000 1980\n" for n in range(devices)))
    file.flush()


@contextlib.contextmanager
def page(tenants, devices, *options, guests=12):
    port = free_port()
    with tempfile.NamedTemporaryFile("w") as boards, Daemon("--page", f"{HOST}:{port}", *(options or ("--page-open",)), environment={"METE_STUB_DEVICES": str(devices + 1), "METE_STUB_BOARDS": boards.name, "METE_STUB_LOADS": ",".join(str(7 * n % 101) for n in range(devices + 1))}) as meted:
        put_boards(boards, devices + 1)
        crowd = Crowd(meted, tenants, devices, guests)
        browser = THE[0]
        browser.said()  # what it said of an earlier page
        browser.size("normal")
        browser.url = f"http://{HOST}:{port}/"
        browser.open(browser.url)
        try:
            yield meted, crowd, browser
        finally:
            browser.open("about:blank")  # before its daemon goes
        crowd.close()


LIVE = "window.mete && mete.timing.first > 0"


def views(browser):
    row = browser.wait("[...mete.store.tenants.values()].find((row) => row.processes.length)")
    return {"overview": "#/", "devices": "#/devices", "tenants": "#/tenants", "tenant": f"#/tenant/{row['tenant']}/{row['device']}", "nowhere": "#/nothing"}


def waiter(meted, crowd):
    """A tenant that waits for room, and whose name is known."""
    admin = Admin(meted.place)
    device = [row.name for row in crowd.first.list() if row.kind == "device_row"][-1]  # nobody else's
    guests = []
    for name in ("a-big-one", "one-that-waits"):
        made = admin.ask("tenant_new", name=name, memory="3584MiB", device=device, wait="3600s")
        guests.append(Guest(made.socket, program=name))
    guests[0].credit(2 * GIB)
    guests[0].allocated(2 * GIB)
    guests[1].send("credit_ask", device=0, wait=3600 * 1000, bytes=3 * GIB, want=3 * GIB)
    return admin, guests
