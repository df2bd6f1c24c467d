#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""meted's page in a real browser: what each view shows at every width, dark and light, by keyboard, and to an audit of accessibility."""
import contextlib
import sys

from meted import *

require_all("browser")
from browser import WIDTHS, Browser, axe  # noqa: E402
from crowd_of_tenants import Crowd  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

HOST = "127.0.0.1"
RULES = "{resultTypes: ['violations'], runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']}"


def free_port():
    with socket.socket() as made:
        made.bind((HOST, 0))
        return made.getsockname()[1]


@contextlib.contextmanager
def page(tenants, devices, *options, guests=12):
    port = free_port()
    with Daemon("--page", f"{HOST}:{port}", *(options or ("--page-open",)), environment={"METE_STUB_DEVICES": str(devices + 1)}) as meted:
        crowd = Crowd(meted, tenants, devices, guests)
        browser = the_browser
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
    return {"overview": "#/", "devices": "#/devices", "tenants": "#/tenants", "tenant": f"#/tenant/{row['tenant']}/{row['device']}"}


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


def test_every_view_fits_every_width_and_passes_the_audit():
    audit = axe()
    with page(30, 4) as (meted, crowd, browser):
        kept = waiter(meted, crowd)
        browser.wait(LIVE)
        browser.wait("[...mete.store.tenants.values()].some((row) => row.doing === 'waits-for-room')")
        browser.run(audit)
        found = []
        for name, fragment in views(browser).items():
            browser.view(fragment)
            for width in WIDTHS:
                for theme in ("light", "dark"):
                    browser.size(width, theme)
                    browser.wait("!document.querySelector('#view > *').hidden")
                    wide = browser.run("return [document.documentElement.scrollWidth, innerWidth]")
                    if wide[0] > wide[1]:
                        found.append(f"{name}, {width}: {wide[0]} wide, in {wide[1]}")
                    said = browser.driver.execute_async_script(f"axe.run(document, {RULES}).then(arguments[0], (error) => arguments[0]({{violations: [], error: String(error)}}))")
                    found += [f"{name}, {width}, {theme}: {rule['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
                              for rule in said["violations"] for node in rule["nodes"][:3]]
                    if "error" in said:
                        found.append(said["error"])
        assert not found, "\n".join(found)
        assert browser.said() == []
        for guest in kept[1]:
            guest.close()


def test_what_meted_says_is_shown_as_it_changes():
    with page(5, 2) as (meted, crowd, browser):
        browser.wait(LIVE)
        assert browser.run("return document.querySelectorAll('.cards .value')[1].textContent") == "3"
        admin, guests = waiter(meted, crowd)
        browser.wait("document.querySelector('.line[data-kind=waits] .why')?.textContent.startsWith('waits for 3.00 GiB for ')")
        browser.run("document.querySelector('.line[data-kind=waits] a').click()")
        browser.wait("document.querySelector('h1')?.textContent === 'one-that-waits' && document.querySelector('.sentence').textContent.startsWith('waits for')")
        guests[0].close()
        browser.wait("!document.querySelector('.sentence').textContent.startsWith('waits for')")
        browser.wait("document.querySelectorAll('.events li').length > 0")
        guests[1].close()
        browser.wait("document.querySelector('.sentence').textContent === 'no process now'")
        admin.close()
        browser.wait("[...document.querySelectorAll('.none')].some((p) => !p.hidden && p.textContent.includes('is not here'))")
        assert browser.said() == []


def test_a_thousand_rows_are_walked_by_keyboard():
    with page(1000, 16) as (meted, crowd, browser):
        browser.wait(LIVE)
        browser.view("#/tenants")
        browser.wait("document.querySelector('.count').textContent === '1000 rows'")
        shown = browser.run("return document.querySelectorAll('.rows .row:not([hidden])').length")
        assert 5 < shown < 80, f"{shown} rows exist"
        browser.keys("/")
        browser.wait("document.activeElement.id === 'filter'")
        browser.keys(*"sweep-ada")
        browser.wait("/^\\d+ of 1000 rows$/.test(document.querySelector('.count').textContent)")
        names = browser.run("return [...document.querySelectorAll('.rows .row:not([hidden]) .name')].map((cell) => cell.textContent)")
        assert names and all("sweep-ada" in name for name in names), names
        while not browser.run("return document.activeElement.closest('.rows') !== null"):
            browser.keys(Keys.TAB)
        first = browser.run("return document.activeElement.textContent")
        browser.keys(Keys.ARROW_DOWN)
        second = browser.run("return document.activeElement.textContent")
        assert second != first and "sweep-ada" in second
        browser.keys(Keys.END)
        last = browser.run("return document.activeElement.closest('.row').getAttribute('aria-rowindex')")
        assert int(last) == int(browser.run("return document.querySelector('.table').getAttribute('aria-rowcount')"))
        browser.keys(Keys.HOME)
        assert browser.run("return document.activeElement.textContent") == first
        browser.keys(Keys.ENTER)
        browser.wait(f"document.querySelector('h1').textContent === '{first}'")
        browser.keys(Keys.ESCAPE)
        browser.wait("location.hash === '#/tenants'")
        browser.run("document.querySelector('.headings .used button').click()")
        browser.wait("document.querySelector('.headings .used').getAttribute('aria-sort') === 'descending'")
        held = browser.run("return [...document.querySelectorAll('.rows .row:not([hidden])')].sort((a, b) => a.getAttribute('aria-rowindex') - b.getAttribute('aria-rowindex'))"
                           ".map((row) => mete.store.tenants.get(row.key).used_bytes)")
        assert held == sorted(held, reverse=True) and held[0] > 0, held
        assert browser.said() == []


def test_the_page_asks_for_the_token_and_shows_it_to_nobody():
    token = "0123456789abcdef-token"
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(token)
        file.flush()
        os.chmod(file.name, 0o600)
        with page(3, 1, "--page-token", file.name) as (meted, crowd, browser):
            browser.wait("document.querySelector('#token') !== null")
            assert not browser.run("return mete.store.known")
            browser.keys(*token, Keys.ENTER)
            browser.wait(LIVE)
            assert browser.run("return mete.store.tenants.size") == 3
            assert token not in browser.driver.current_url and browser.run("return document.cookie") == ""
            browser.run("sessionStorage.clear()")
            browser.open(browser.url + "?x#token=" + token)
            browser.wait(LIVE)
            assert token not in browser.driver.current_url
            assert token not in meted.log()


if __name__ == "__main__":
    # One for all tests: its start takes longer than most of them. What a page keeps is its own, as each has another port.
    with Browser() as the_browser:
        run(globals())
