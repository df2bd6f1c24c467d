#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""meted's page in a real browser over a user's day: two who look at once, reloads, a computer that sleeps, a page that stays open; and what a screen reader reads."""
import contextlib
import re
import select
import sys
import threading

from meted import *

require_all("browser")
from page_others import OTHER, end_of, tenant_of  # noqa: E402
from page_shown import HOST, LIVE, THE, begin, page, views, waiter  # noqa: E402

EVENTS = "[...document.querySelectorAll('.events li')].map((li) => li.textContent)"


def pass_on(to, uid):
    """A port that leads to a Unix socket, or another port, as that user, as `ssh -L` does. Returns its process and the port."""
    listener = socket.create_server((HOST, 0), backlog=64)
    pid = os.fork()
    if pid == 0:
        try:
            become(uid)
            while True:
                threading.Thread(target=carry, args=(listener.accept()[0], to), daemon=True).start()
        finally:
            os._exit(0)
    port = listener.getsockname()[1]
    listener.close()
    return pid, port


def carry(ours, to):
    with contextlib.suppress(ConnectionError), ours, socket.socket(socket.AF_UNIX if isinstance(to, str) else socket.AF_INET) as theirs:
        theirs.connect(to)
        while True:
            for at in select.select([ours, theirs], [], [])[0]:
                said = at.recv(1 << 16)
                if not said:
                    return
                (theirs if at is ours else ours).sendall(said)


def test_two_people_who_look_at_once_each_see_their_own_tenants():
    if os.geteuid():
        raise Skipped("only root can play another user; run it as root")
    browser, place = THE[0], tempfile.mkdtemp(prefix="mete-")
    with Daemon("--page", f"unix:{place}/page.sock", role="--system", place=place) as meted:
        ports = [pass_on(f"{place}/page.sock", uid) for uid in (0, OTHER)]
        first = browser.driver.current_window_handle
        browser.driver.switch_to.new_window("window")
        windows = [first, browser.driver.current_window_handle]
        admin = Admin(meted.place)
        admin.ask("tenant_new", name="secret", memory="64MiB", device="0")
        held = tenant_of(meted, OTHER, "own", memory="64MiB")
        try:
            for window, (_, port) in zip(windows, ports):
                browser.driver.switch_to.window(window)
                browser.open(f"http://{HOST}:{port}/")
                browser.wait(LIVE)
                browser.view("#/tenants")
            names = "[...mete.store.tenants.values()].map((row) => row.name).sort().join()"
            browser.wait(f"{names} === 'own'")
            browser.driver.switch_to.window(windows[0])
            browser.wait(f"{names} === 'own,secret'")
            # What comes later reaches who may see it, and him alone: the second window hears of his own tenant's end.
            admin.ask("tenant_new", name="secret-too", memory="64MiB", device="0")
            browser.wait(f"{names} === 'own,secret,secret-too'")
            end_of(held)
            browser.wait(f"{names} === 'secret,secret-too'")
            browser.driver.switch_to.window(windows[1])
            browser.wait("mete.store.tenants.size === 0")
            seen = browser.run("return document.documentElement.textContent.replace(document.querySelector('body > script').textContent, '') + JSON.stringify([...mete.store.tenants, ...mete.store.devices, mete.store.meted])")
            assert "secret" not in seen, seen
            assert browser.said() == []
        finally:
            browser.driver.switch_to.window(windows[1])
            browser.driver.close()
            browser.driver.switch_to.window(first)
            browser.open("about:blank")
            for pid, _ in ports:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        admin.close()


def test_a_page_that_is_loaded_while_meted_restarts_comes_alive():
    with page(3, 1) as (meted, crowd, browser):
        browser.wait(LIVE)
        fragment = f"#/tenant/{crowd.made[0][1].tenant}/0"
        browser.view(fragment)
        # The document comes, and then nothing more: meted is gone before the page has asked for anything.
        browser.driver.execute_cdp_cmd("Network.enable", {})
        browser.driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": ["*/v1/*"]})
        browser.driver.refresh()
        browser.wait("document.querySelector('#state').dataset.state === 'waits'")
        meted.kill()
        browser.driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})
        assert browser.run("return document.querySelector('#view > *').hidden"), "it shows figures that nobody has said"
        meted.start()
        browser.wait(f"{LIVE} && location.hash === '{fragment}' && !document.querySelector('#view > *').hidden && document.querySelector('h1').textContent.length > 0")
        browser.driver.refresh()
        browser.wait(f"{LIVE} && document.querySelector('#state').dataset.state === 'live'")
        browser.wait(f"{EVENTS}.length > 0 || mete.store.tenants.size === 3")


def test_a_computer_that_slept_for_an_hour_hears_what_happened():
    """Its clock jumps, its network says nothing for a while, and things have happened meanwhile."""
    with page(2, 1) as (meted, crowd, browser):
        network, port = pass_on((HOST, int(browser.url.split(":")[2].strip("/"))), os.geteuid())
        browser.open(f"http://{HOST}:{port}/")
        browser.wait(LIVE)
        admin, made, _ = crowd.made[0]
        browser.view(f"#/tenant/{made.tenant}/0")
        browser.wait(f"{EVENTS}.some((text) => /a new tenant, with a limit of/.test(text))")
        browser.run("const real = Date.now.bind(Date); window.slept = 0; Date.now = () => real() + slept")
        browser.wait("inOrder([...mete.store.past.values()][0].kind).slice(-3).every(Boolean)")
        os.kill(network, signal.SIGSTOP)
        admin.ask("tenant_set", tenant=made.tenant, key="wait", value="5s")
        crowd.guests[0][0].refused(2 * GIB)
        before = browser.run("slept = 3600e3; return mete.store.states")
        # It asks anew at once, and does not wait until a silence has lasted.
        browser.wait("document.querySelector('#state').dataset.state === 'waits'")
        os.kill(network, signal.SIGCONT)
        browser.wait(f"mete.store.states > {before} && document.querySelector('#state').dataset.state === 'live'")
        for text in ("its share was changed: wait=5s", "was refused memory: the limit of "):
            browser.wait(f"{EVENTS}.filter((one) => one.includes('{text}')).length === 1", f"{text}: {browser.run('return ' + EVENTS)}")
        # Of the hour nothing is drawn.
        kinds = browser.run("return inOrder([...mete.store.past.values()][0].kind)")
        assert kinds.count(None) > 280 and kinds[-1], kinds
        assert browser.said() == []
        browser.open("about:blank")
        os.kill(network, signal.SIGKILL)
        os.waitpid(network, 0)


def test_a_story_that_is_opened_later_has_earlier_events():
    with page(2, 1) as (meted, crowd, browser):
        admin, made, _ = crowd.made[0]
        crowd.guests[0][0].refused(2 * GIB)
        admin.ask("tenant_set", tenant=made.tenant, key="wait", value="5s")
        browser.wait(LIVE)
        browser.view(f"#/tenant/{made.tenant}/0")
        browser.wait(f"{EVENTS}.length === 3")
        assert [text.split(": ")[0][8:] for text in browser.run(f"return {EVENTS}")][-1].startswith("a new tenant, with a limit of"), browser.run(f"return {EVENTS}")
        # Each is told once, however often it is asked for.
        admin.ask("tenant_set", tenant=made.tenant, key="wait", value="6s")
        browser.wait(f"{EVENTS}.some((text) => text.endsWith('wait=6s'))")
        assert len(browser.run(f"return {EVENTS}")) == 4


UPDATES = 10000
UPDATE = """
    const done = arguments[arguments.length - 1], rows = [...mete.store.tenants.values()], doings = ['running', 'waits-for-turn', 'computes', 'idle'];
    let left = arguments[0];
    function some() {
        for (let i = 0; i < 50 && left > 0; i++, left--) {
            const tenants = rows.map((row, n) => ({ tenant: row.tenant, device: row.device, doing: doings[(left + n) % 4], state: `state ${left}`, used_bytes: left * 1e6, refusals: left % 7,
                moved_out_bytes: row.moved_out_bytes + 1e6, time: { charged_1s_ns: left % 1000 * 1e6 } }));
            onChange({ devices: [{ index: 0, used_bytes: left * 1e6 }], tenants, gone: [] });
            changed(performance.now());
        }
        left > 0 ? setTimeout(some) : done();
    }
    some();"""


def test_a_page_that_stays_open_stays_small():
    """The heap of the page after 1,000 updates of each tenant, and after 10,000 more: its history is bounded, and elements are used again."""
    with page(8, 1) as (meted, crowd, browser):
        browser.wait(LIVE)

        def heap():
            browser.driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
            return browser.driver.execute_cdp_cmd("Runtime.getHeapUsage", {})["usedSize"], browser.driver.execute_cdp_cmd("Memory.getDOMCounters", {})["nodes"]

        for fragment in ("#/", "#/tenants", f"#/tenant/{crowd.made[0][1].tenant}/0"):
            browser.view(fragment)
            browser.driver.execute_async_script(UPDATE, 1000)
            small, few = heap()
            for _ in range(UPDATES // 1000):
                browser.driver.execute_async_script(UPDATE, 1000)
            large, many = heap()
            print(f"{fragment}: {small} bytes, {few} nodes; after {UPDATES} updates {large} bytes, {many} nodes")
            assert large < small + (1 << 20), f"{fragment}: {small} bytes became {large}"
            # The list of events and the strips of five minutes may not have been full yet.
            assert many < few + UPDATES // 4, f"{fragment}: {few} nodes became {many}"


def read_aloud(browser):
    """What a screen reader has of the page, in its order: (role, name) of all that it stops at."""
    nodes = browser.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    by_id, said = {node["nodeId"]: node for node in nodes}, []

    def read(node):
        role = node["role"]["value"]
        if not node.get("ignored") and role not in ("generic", "InlineTextBox", "none"):
            said.append((role, node.get("name", {}).get("value", "")))
        for child in node.get("childIds", ()):
            if child in by_id:
                read(by_id[child])

    read(nodes[0])
    return said


NAMED = ("link", "button", "image", "heading", "columnheader", "combobox", "searchbox", "navigation", "table")


def test_a_screen_reader_hears_all_that_is_shown_once():
    with page(5, 2) as (meted, crowd, browser):
        admin, guests = waiter(meted, crowd)
        browser.wait(LIVE)
        browser.wait("[...mete.store.tenants.values()].some((row) => row.doing === 'waits-for-room')")
        story = browser.run("return linkOf([...mete.store.tenants.values()].find((row) => row.doing === 'waits-for-room'))")
        for name, fragment in {**views(browser), "story": story}.items():
            browser.view(fragment)
            heading = browser.wait("document.querySelector('h1').textContent !== '' && !document.querySelector('#view > *').hidden && document.querySelector('h1').textContent")
            said = read_aloud(browser)
            unnamed = [one for one in said if one[0] in NAMED and not one[1] and one != ("table", "")]
            assert not unnamed, (name, unnamed)
            # Who follows a link hears where he is; the window's name says it, too.
            assert browser.run("return document.activeElement.tagName === 'H1'"), name
            assert name == "overview" or heading.lower() in browser.driver.title.lower(), (heading, browser.driver.title)
            assert not [one for one in said if re.search("[←↑↓]|GPU-0", one[1])], (name, [one for one in said if re.search("[←↑↓]|GPU-0", one[1])])
            # What a chart is called stands above it, and is not said again by it.
            for (role, caption), (next_role, words) in zip(said, said[1:]):
                assert next_role != "image" or not words.startswith(caption), (name, caption, words)
        browser.view("#/devices")
        browser.wait("document.querySelectorAll('.on li').length > 0")
        said = [text for role, text in read_aloud(browser) if role == "StaticText"]
        at = said.index("one-that-waits")
        assert said[at + 1:at + 3] == ["waits,", "0 MiB"], said[at:at + 4]
        for guest in guests:
            guest.close()
        admin.close()


def announced(browser):
    """But what a busy machine makes: meted that does not answer for a second, and the meteds of other tests on these devices."""
    return [text for text in browser.run("return announced") if text.strip() and text not in ("live", "meted does not answer") and "holds the mark of GPU" not in text]


def test_nothing_is_announced_because_time_passes():
    """Live regions change when the person has done something, or the connection is another one; not because tenants come and go."""
    with page(5, 2) as (meted, crowd, browser):
        browser.wait(LIVE)
        browser.view("#/tenants")
        browser.wait("document.querySelector('.count').textContent === '5 rows'")
        browser.wait("document.querySelector('#state').dataset.state === 'live'")
        browser.run("""window.announced = [];
            for (const one of document.querySelectorAll('[role=status], [role=alert], [aria-live]'))
                new MutationObserver(() => announced.push(one.textContent)).observe(one, { childList: true, characterData: true, subtree: true });""")
        admin = Admin(meted.place)
        admin.ask("tenant_new", name="late", memory="64MiB", device="0")
        browser.wait("document.querySelector('.count').textContent === '6 rows'")
        assert announced(browser) == []
        browser.keys("/", *"late")
        browser.wait("announced.includes('1 of 6 rows')")
        admin.close()
        browser.wait("document.querySelector('.count').textContent === '0 of 5 rows'")
        assert announced(browser)[-1] == "1 of 6 rows"


if __name__ == "__main__":
    with begin():
        run(globals())
