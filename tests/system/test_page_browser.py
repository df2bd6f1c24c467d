#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""meted's page in a real browser: what each view shows at every width, dark and light, by keyboard, and to an audit of accessibility."""
import json
import re
import sys

from meted import *

require_all("browser")
from browser import WIDTHS, axe  # noqa: E402
from page_shown import LIVE, begin, page, views, waiter  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

RULES = "{resultTypes: ['violations'], runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']}"


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
                    found += too_wide(browser, f"{name}, {width}")
                    if width == "small":
                        continue  # the audit sees the page as on a phone
                    said = browser.driver.execute_async_script(f"axe.run(document, {RULES}).then(arguments[0], (error) => arguments[0]({{violations: [], error: String(error)}}))")
                    found += [f"{name}, {width}, {theme}: {rule['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
                              for rule in said["violations"] for node in rule["nodes"][:3]]
                    if "error" in said:
                        found.append(said["error"])
        assert not found, "\n".join(found)
        assert browser.said() == []
        for guest in kept[1]:
            guest.close()


def too_wide(browser, name):
    browser.wait("!document.querySelector('#view > *').hidden")
    wide = browser.run("return [document.documentElement.scrollWidth, innerWidth]")
    return [f"{name}: {wide[0]} wide, in {wide[1]}"] if wide[0] > wide[1] else []


STRANGE = ["<img src=x onerror=alert(1)><script>alert(2)</script>", "&lt;b&gt;'\"${alert(3)}`", "שלום עולם", "اسم طويل جدا", "W" * 200, "名前" * 40, "../../%2e%2e/#/tenant", "-", "🔬 e\u0301"]


def test_strange_names_are_text_and_stay_in_their_place():
    with page(0, 1) as (meted, crowd, browser):
        admin = Admin(meted.place)
        made = [admin.ask("tenant_new", name=name, memory="64MiB", device="0") for name in STRANGE]
        guests = [Guest(one.socket, program=name[:40]) for name, one in zip(STRANGE, made)]
        guests[0].credit(64 * MIB)
        guests[0].allocated(64 * MIB)
        guests[0].refused(GIB)
        browser.wait(f"{LIVE} && mete.store.tenants.size === {len(STRANGE)}")
        found = []
        for width in WIDTHS:
            browser.size(width)
            for fragment in ("#/", "#/devices", "#/tenants", *(f"#/tenant/{one.tenant}/0" for one in made)):
                browser.view(fragment)
                found += too_wide(browser, f"{fragment}, {width}")
                if fragment == "#/tenants":
                    browser.wait(f"document.querySelectorAll('.rows .row:not([hidden])').length === {len(STRANGE)}")
                    shown = browser.run("return [...document.querySelectorAll('.rows .row:not([hidden]) .name')].map((cell) => cell.textContent)")
                    assert sorted(shown) == sorted(STRANGE), shown
                    # Names that are written from right to left move nothing beside them.
                    starts = browser.run("return [...document.querySelectorAll('.rows .row:not([hidden]) .name a')].map((name) => Math.round(name.getBoundingClientRect().left))")
                    assert len(set(starts)) == 1, starts
        assert not found, "\n".join(found)
        assert browser.run("return document.querySelectorAll('img, #view script').length") == 0 and browser.said() == []
        for guest in guests:
            guest.close()
        admin.close()


def test_addresses_that_mean_nothing_are_said_to():
    with page(1, 2) as (meted, crowd, browser):
        browser.wait(LIVE)
        for fragment, said in (("#/__proto__", "shown at #/__proto__."), ("#/constructor", "constructor"), ("#/tenant", "#/tenant."), ("#/tenant/", "#/tenant/."), ("#/tenants/1", "#/tenants/1"),
                               ("#/devices/GPU-7", "#/devices/GPU-7"), ("#/%", "#/%"), ("#nothing", "#nothing"), ("#/a%20<b>", "#/a <b>."),
                               ("#/tenant/x/y", "No tenant here is called x/y: it has ended, has not come yet, or is not yours to see."), ("#/tenant/%E0%A4%A", "%E0%A4%A")):
            browser.view("#/devices")
            browser.run("location.hash = arguments[0]", fragment)
            browser.wait("document.querySelector('#view h1').textContent === 'Not here'", fragment)
            assert said in browser.run("return document.querySelector('#view .none').textContent"), fragment
        for address in ("#", "#/"):
            browser.view("#/devices")
            browser.run("location.hash = arguments[0]", address)
            browser.wait("document.querySelector('#view h1').textContent === 'Overview'", address)
        assert browser.said() == []


def test_a_tenants_story_is_found_by_its_name_and_told_where_it_is():
    with page(0, 2) as (meted, crowd, browser):
        browser.wait(LIVE)
        heading = "document.querySelector('#view h1').textContent"
        browser.view("#/tenant/later/the%20main")
        browser.wait(f"{heading} === 'Not here'")
        admin = Admin(meted.place)
        made = admin.ask("tenant_new", name="later/the main", memory="64MiB", device="1")
        # It comes while somebody looks.
        browser.wait(f"{heading} === 'later/the main' && location.hash === '#/tenant/{made.tenant}/1'")
        browser.view("#/tenants")
        browser.run("location.hash = arguments[0]", f"#/tenant/{made.tenant}")
        browser.wait(f"location.hash === '#/tenant/{made.tenant}/1'")
        browser.view(f"#/tenant/{made.tenant}/0")
        browser.wait("document.querySelector('#view .none:not([hidden])')?.innerText.trim() === 'This tenant is not on GPU 0, but on GPU 1'")
        browser.view("#/tenant/77/0")
        browser.wait("document.querySelector('#view .none:not([hidden])')?.innerText.includes('`mete events --tenant 77` tells what has happened to it.')")
        admin.close()
        assert browser.said() == []


def test_time_is_shown_where_turns_are_taken_and_not_where_nobody_counts_it():
    """A tenant alone on its device computes as much as it likes: that it had nothing would be wrong."""
    with page(4, 2) as (meted, crowd, browser):
        browser.wait(LIVE)
        where = views(browser)
        # As meted would say it of one device, whose tenants have taken turns: two fifths and a half.
        turns = """for (const row of mete.store.tenants.values()) if (row.device === arguments[0]) row.time = { ...row.time, by_turns: true, charged_1s_ns: 0 };
            [...mete.store.tenants.values()].filter((row) => row.device === arguments[0]).slice(0, 2).forEach((row, i) => { row.time.charged_1s_ns = [4e8, 5e8][i]; });"""
        device = where["tenant"].split("/")[-1]
        browser.view(where["tenant"])
        said = "document.querySelector('.charts')"
        browser.wait(f"/No turns are taken on this device now/.test({said}.innerText) && {said}.querySelector('[aria-label=\"not counted now\"]')")
        browser.wait(f"mete.store.looks > 3 && [...{said}.querySelectorAll('path.had')].every((path) => !path.getAttribute('d'))")
        browser.view(where["devices"])
        shown = "[...document.querySelectorAll('.device')].filter((card) => /had .* of its last second/.test(card.innerText))"
        assert browser.run(f"return {shown}.length") == 0
        browser.run(turns, int(device))
        browser.wait(f"{shown}.length === 1 && /tenants had (40|90) % of its last second/.test({shown}[0].innerText)")
        browser.view(where["tenant"])
        browser.wait(f"!/No turns are taken/.test({said}.innerText) && {said}.querySelector('[aria-label^=\"had \"]')")
        assert browser.said() == []


def test_users_are_compared_where_there_are_several():
    audit = axe()
    with page(12, 3) as (meted, crowd, browser):
        browser.wait(LIVE)
        panel = "document.querySelector('.users')"
        browser.wait(f"{panel}.hidden && mete.store.tenants.size >= 12")
        # The crowd is one user's: some of its tenants become others', and two of them take turns.
        names = ["alice", "bob-with-a-long-name-" * 3, "carol"]
        browser.run("""const rows = [...mete.store.tenants.values()];
            rows.forEach((row, i) => { row.user = arguments[0][i % 3]; });
            for (const [row, had] of [[rows[1], 6e8], [rows[4], 7e8]])
                Object.assign(row.time, { by_turns: true, charged_1s_ns: had, entitled_1s_ns: 5e8 });""", names)
        browser.view("#/devices")
        browser.view("#/")
        browser.wait(f"!{panel}.hidden")
        shown = browser.run(f"return [...{panel}.querySelectorAll('tbody tr')].map((row) => [...row.children].map((cell) => cell.textContent))")
        sums = browser.run("""return Object.fromEntries([...new Set([...mete.store.tenants.values()].map((row) => row.user))].map((user) => {
            const rows = [...mete.store.tenants.values()].filter((row) => row.user === user);
            return [user, [String(new Set(rows.map((row) => row.tenant)).size), [...new Set(rows.map((row) => row.device))].sort().join(' ')]]; }))""")
        assert shown[0][0] == names[1] and shown[0][4] == "130 % of 100 %" and all(row[4] == "–" for row in shown[1:]), shown
        assert {row[0]: [row[1], row[5]] for row in shown} == sums and sorted(sums) == sorted(names), (shown, sums)
        # A user's row leads to that user's tenants: to bob's, and not to those that have "bob" in their command.
        browser.run(f"{panel}.querySelector('tbody a').click()")
        browser.wait("location.hash.startsWith('#/tenants/user%3Dbob') && document.querySelector('#filter')?.value === 'user=' + " + json.dumps(names[1]))
        browser.wait(f"document.querySelector('.count').textContent === '{sums[names[1]][0]} of ' + mete.store.tenants.size + ' rows'")
        assert set(browser.run("return [...document.querySelectorAll('.rows .row:not([hidden]) .cell.user')].map((cell) => cell.textContent)")) == {names[1]}
        first = browser.run("return [...mete.store.tenants.values()][0]")
        for typed, fit in (("user=bob", 0), ("bob", int(sums[names[1]][0])), ("USER=carol", 0), (f"user={names[0]},gpu=2", None), ("tenant=" + str(first["tenant"]), 1), (f"gpu={first['device_uuid'][:-4]} tenant={first['name']}", 1), ("gpu=GPU-none", 0), ("colour=red", 0)):
            browser.run("const filter = document.querySelector('#filter'); filter.value = arguments[0]; filter.dispatchEvent(new Event('input'))", typed)
            wanted = fit if fit is not None else browser.run("return [...mete.store.tenants.values()].filter((row) => row.user === arguments[0] && row.device === 2).length", names[0])
            assert browser.run("return document.querySelector('.count').textContent").split(" of ")[0] == str(wanted), typed
        browser.view("#/")
        browser.wait(f"!{panel}.hidden")
        browser.run(audit)
        found = []
        for width in WIDTHS:
            browser.size(width)
            found += too_wide(browser, f"users, {width}")
        said = browser.driver.execute_async_script(f"axe.run('.users', {RULES}).then(arguments[0], (error) => arguments[0]({{violations: [], error: String(error)}}))")
        found += [f"{rule['id']}: {node['html'][:200]}" for rule in said["violations"] for node in rule["nodes"]] + [said.get("error", "")] * ("error" in said)
        assert not found, "\n".join(found)
        assert browser.said() == []


def test_what_boards_say_is_shown_and_left_out_where_they_say_nothing():
    with page(3, 3) as (meted, crowd, browser):
        browser.wait(LIVE)
        boards = meted.environment["METE_STUB_BOARDS"]
        cards = "Object.fromEntries([...document.querySelectorAll('.cards .card')].filter((card) => !card.hidden).map((card) => [...card.children].map((one) => one.textContent)).map(([title, ...said]) => [title, said]))"
        shown = browser.run(f"return {cards}")
        # 0, 7, 14 and 21 percent; 500 to 503 W.
        assert shown["Busy"] == ["11 %", "1 of 4 idle"] and shown["Power"] == ["2006 W", "of 4000 W, hottest 53 °C (GPU 3)"], shown
        browser.view("#/devices")
        words = "[...document.querySelectorAll('.device')].map((card) => card.innerText).join()"
        browser.wait(f"/21 % busy · 53 °C · 503 of 1000 W/.test({words}) && document.querySelectorAll('.spark[aria-label=\"busy in the last minute: 21 % to 21 %\"]').length === 1")
        browser.run("const order = document.querySelector('#order'); order.value = 'busiest first'; order.dispatchEvent(new Event('change'))")
        browser.wait("[...document.querySelectorAll('.device h2')].map((name) => name.textContent.split(' ')[1]).join('') === '3210'")
        with open(boards, "r+") as file:
            file.write("0 90 ")  # it has grown hotter
        browser.wait(f"/0 % busy · 90 °C · 500 of 1000 W/.test({words})")
        open(boards, "w").close()
        browser.wait(f"/21 % busy/.test({words}) && !/ W|°C/.test({words})")
        browser.view("#/")
        browser.wait(f"{cards}.Busy && !{cards}.Power")
        assert browser.said() == []


def test_no_device_and_64_devices():
    with page(0, -1) as (meted, crowd, browser):
        browser.wait(LIVE)
        assert browser.run("return [...document.querySelectorAll('.cards .card')].filter((card) => !card.hidden).map((card) => card.textContent)")[1] == "Devices0meted has none"
        browser.view("#/devices")
        browser.wait("document.querySelector('#view .none:not([hidden])')?.textContent === 'meted has no devices.'")
        assert browser.said() == []
    with page(64, 63) as (meted, crowd, browser):
        browser.wait(LIVE)
        found = []
        for width in WIDTHS:
            browser.size(width)
            for fragment in ("#/", "#/devices"):
                browser.view(fragment)
                found += too_wide(browser, f"{fragment}, {width}")
            browser.wait("document.querySelectorAll('.card.device').length === 64 && document.querySelector('#view .none').hidden")
        assert not found and browser.said() == [], found


def test_a_meted_that_begins_anew_is_followed():
    """Under an open page: nothing stands there twice, nothing is drawn of the time without figures, and a tenant with an old number has no old
    history."""
    with page(6, 1) as (meted, crowd, browser):
        browser.wait(LIVE)
        browser.view(f"#/tenant/{crowd.made[0][1].tenant}/0")
        name = browser.run("return document.querySelector('h1').textContent")
        crowd.guests[0][0].close()
        browser.wait("document.querySelectorAll('.events li').length > 0")
        meted.kill()
        browser.wait("document.querySelector('#state').dataset.state === 'waits'")
        before = browser.run("return mete.store.looks")
        browser.wait(f"mete.store.looks > {before + 2}")
        assert browser.run("return inOrder([...mete.store.past.values()][0].kind).slice(-2)") == [None, None]
        # The same one, which knows them all; and then one that knows nobody, with fewer devices, and gives the numbers anew.
        meted.start()
        browser.wait(f"document.querySelector('#state').dataset.state === 'live' && document.querySelector('h1').textContent === {json.dumps(name)}")
        browser.wait("document.querySelectorAll('.events li').length > 0")  # it asks for the story anew
        meted.kill()
        for name in ("journal", "events"):  # which both know the numbers that were given out
            os.unlink(f"{meted.place}/{name}")
        meted.environment["METE_STUB_DEVICES"] = "1"
        meted.start()
        admin = Admin(meted.place)
        made = [admin.ask("tenant_new", name=f"new-{n}", memory="64MiB", device="0") for n in range(3)]
        assert made[0].tenant == crowd.made[0][1].tenant
        browser.wait("document.querySelector('h1').textContent === 'new-0' && mete.store.tenants.size === 3")
        browser.wait("document.querySelectorAll('.events li').length === 0 || [...document.querySelectorAll('.events li')].every((one) => one.textContent.endsWith('came'))")
        for fragment, rows in (("#/tenants", ".rows .row:not([hidden])"), ("#/devices", ".card.device")):
            browser.view(fragment)
            count = {"#/tenants": 3, "#/devices": 1}[fragment]
            browser.wait(f"document.querySelectorAll('{rows}').length === {count}")
        admin.close()


def test_a_silent_connection_is_made_anew():
    """A meted that is stopped, or a network that is gone without a word."""
    with page(1, 1) as (meted, crowd, browser):
        # Its patience is shortened, which nobody else has.
        browser.run("const real = setTimeout; window.setTimeout = (what, ms) => real(what, ms === 30000 ? 3000 : ms)")
        browser.wait(LIVE)
        crowd.guests[0][0].close()  # so that something is heard, and then waited for
        browser.wait("[...mete.store.tenants.values()][0].processes.length === 0")
        meted.process.send_signal(signal.SIGSTOP)
        try:
            browser.wait("document.querySelector('#state').dataset.state === 'waits'")
        finally:
            meted.process.send_signal(signal.SIGCONT)
        browser.wait("document.querySelector('#state').dataset.state === 'live'")
        assert browser.said() == []


def test_a_clock_that_is_set_changes_no_age():
    with page(1, 1) as (meted, crowd, browser):
        browser.wait(LIVE)
        browser.view(f"#/tenant/{crowd.made[0][1].tenant}/0")
        age = "[...document.querySelectorAll('dl div')].find((row) => row.textContent.startsWith('For how long')).querySelector('dd').textContent"
        browser.wait(f"/^\\d+ (s|min)$/.test({age})")
        for jump in (-3600, 86400):
            browser.run(f"window.now ||= Date.now; Date.now = () => now.call(Date) + {jump * 1000}")
            looks = browser.run("return mete.store.looks")
            browser.wait(f"mete.store.looks > {looks + 1}")
            assert re.fullmatch(r"\d+ (s|min)", browser.run(f"return {age}")), browser.run(f"return {age}")


def test_each_control_is_reached_by_keyboard_and_can_be_seen():
    with page(8, 3) as (meted, crowd, browser):
        browser.wait(LIVE)
        for fragment in views(browser).values():
            browser.view(fragment)
            if fragment.startswith("#/tenant/"):
                browser.wait("document.querySelector('.events:not([hidden]) li')")  # it comes after what is drawn at once
            browser.run("document.querySelector('.skip').focus(); scrollTo(0, 0)")
            # In the table of tenants one row is, and the arrows lead to the others.
            wanted = browser.run("return [...document.querySelectorAll('a[href]:not([tabindex=\"-1\"]), button, input, select, [tabindex=\"0\"]')].filter((one) => one.checkVisibility({visibilityProperty: true})).length")
            reached, hidden = ["the first"], []
            for _ in range(wanted + 3):
                browser.keys(Keys.TAB)
                state = browser.run("""const one = document.activeElement, at = one.getBoundingClientRect();
                    if (one === document.body || one.className === 'skip' || one.seen === location.hash) return null;
                    one.seen = location.hash;
                    const over = document.elementFromPoint(at.left + at.width / 2, at.top + at.height / 2);
                    return [one.outerHTML.slice(0, 80), at.width > 0 && at.top >= 0 && at.bottom < innerHeight + 1 && (one.contains(over) || over?.contains(one)), getComputedStyle(one).outlineStyle !== 'none']""")
                if state is None:
                    break
                reached.append(state[0])
                if not state[1] or not state[2]:
                    hidden.append(state)
            assert len(reached) == wanted, (fragment, wanted, reached)
            assert not hidden, (fragment, hidden)
        browser.keys(Keys.HOME)


def test_the_page_follows_meteds_changes():
    with page(5, 2) as (meted, crowd, browser):
        browser.wait(LIVE)
        assert browser.run("return [...document.querySelectorAll('.cards .card')].find((card) => card.firstChild.textContent === 'Devices').querySelector('.value').textContent") == "3"
        admin, guests = waiter(meted, crowd)
        browser.wait("document.querySelector('.line[data-kind=waits] .why')?.textContent.startsWith('waits for 3.00 GiB for ')")
        browser.run("document.querySelector('.line[data-kind=waits] a').click()")
        browser.wait("document.querySelector('h1')?.textContent === 'one-that-waits' && document.querySelector('.sentence').textContent.startsWith('waits for')")
        # Which tenant has what it waits for, and what helps.
        for sentence in ("a-big-one \\(tenant \\d+\\) holds .* of it, which cannot leave\\.", "It goes on once others free so much, or end\\."):
            browser.wait(f"[...document.querySelectorAll('.reasons:not([hidden]) li')].some((li) => /^{sentence}$/.test(li.textContent))")
        guests[0].close()
        browser.wait("!document.querySelector('.sentence').textContent.startsWith('waits for')")
        browser.wait("document.querySelectorAll('.events li').length > 0")
        guests[1].close()
        browser.wait("document.querySelector('.sentence').textContent === 'no process now'")
        admin.close()
        browser.wait("[...document.querySelectorAll('.none')].some((p) => !p.hidden && p.textContent.includes('is not here'))")
        assert browser.said() == []


WRONG = ({"over_bytes": 1 << 20}, {"stuck": True}, {"kept_bytes": 1 << 20}, {"behind": 1, "doing": "waits-for-memory"}, {"unmovable_why": 1 << 11}, {"doing": "hangs"}, {"doing": "stopped"}, {"doing": "suspended-by-share"})


def test_what_is_wrong_with_a_tenant_that_runs_is_among_what_needs_a_look():
    """As `mete top` has it in red: it may have its turn all the while."""
    with page(1, 1) as (meted, crowd, browser):
        browser.wait(LIVE)
        row = browser.wait("[...mete.store.tenants.values()][0]")
        needs = "[...document.querySelectorAll('.line[data-kind=bad] a')].map((a) => a.textContent).join() + document.querySelector('.cards .card:last-child .note').textContent"
        assert browser.run(f"return {needs}") == "0 need a look"
        for wrong in WRONG:
            was = {key: row.get(key) for key in wrong}
            browser.run("onChange({ devices: [], gone: [], tenants: [arguments[0]] }); changed(0)", {"tenant": row["tenant"], "device": row["device"], **wrong})
            browser.wait(f"{needs} === '{row['name']}1 needs a look'", f"{wrong}: {browser.run('return ' + needs)}")
            browser.run("onChange({ devices: [], gone: [], tenants: [arguments[0]] }); changed(0)", {"tenant": row["tenant"], "device": row["device"], **was})
            browser.wait(f"{needs} === '0 need a look'", str(wrong))
        # Of a device that is cordoned the overview says so, too.
        crowd.first.ask("device_cordon", device="0", on=1)
        browser.wait("[...document.querySelectorAll('.columns .where')].some((where) => / · cordoned · /.test(where.textContent))")


def test_a_tenant_on_two_devices_counts_once_and_one_that_needs_a_look_does_not_wait():
    with page(1, 1) as (_, crowd, browser):
        browser.wait(LIVE)
        row = browser.wait("[...mete.store.tenants.values()][0]")
        both = [{**row, "device": device, "doing": "waits-for-turn"} for device in (0, 1)]
        hung = {**row, "tenant": row["tenant"] + 1, "user": "another", "doing": "hangs"}
        browser.run("onChange({ devices: [], gone: [], tenants: arguments[0] }); changed(0)", [*both, hung])
        cards = "[...document.querySelectorAll('.cards .card')].slice(-2).map((card) => card.innerText.replace(/\\s+/g, ' ')).join()"
        browser.wait(f"/2 2 users, 0 run,.*\\b1 1 needs a look/.test({cards})", browser.run(f"return {cards}"))
        users = "Object.fromEntries([...document.querySelectorAll('.users tbody tr')].map((line) => [line.cells[0].innerText, line.cells[1].innerText + ' ' + line.cells[2].innerText]))"
        assert browser.run(f"return {users}") == {row["user"]: "1 1", "another": "1 0"}


NEWS = "[...document.querySelectorAll('.news li')].map((li) => li.innerText.replace(/\\s+/g, ' ').trim())"


def test_the_overview_tells_what_happens_as_it_happens():
    with page(2, 2) as (meted, crowd, browser):
        browser.wait(LIVE)
        browser.wait(f"{NEWS}.length === 3")
        admin = Admin(meted.place)
        made = admin.ask("tenant_new", name="the <late> one", memory="64MiB", device="1")
        # The newest first: when, whose, on which device, and what.
        browser.wait(f"/^\\d\\d:\\d\\d:\\d\\d the <late> one GPU 1 a new tenant, with a limit of 64MiB$/.test({NEWS}[0])", f"{browser.run('return ' + NEWS)}")
        admin.set(made.tenant, "weight", "200")
        browser.wait(f"/ the <late> one its share was changed: weight=200$/.test({NEWS}[0]) && {NEWS}.length === 5")
        admin.ask("device_cordon", device="0", on=1)
        browser.wait(f"/ GPU 0 it takes no new tenants$/.test({NEWS}[0])")
        # By keyboard one gets into the list, and from there to the tenant's story, which hears of the same at once.
        browser.run("document.querySelector('.news').focus()")
        assert browser.run("return document.activeElement.className") == "events news"
        browser.keys(Keys.TAB)
        assert browser.run("return document.activeElement.textContent") == "the <late> one"
        browser.keys(Keys.ENTER)
        browser.wait(f"location.hash === '#/tenant/{made.tenant}/1'")
        admin.set(made.tenant, "wait", "5s")
        browser.wait("document.querySelector('.events li')?.textContent.endsWith('its share was changed: wait=5s')")
        # Who has ended is named, and leads nowhere.
        admin.close()
        browser.view("#/")
        browser.wait(f"/ the <late> one ended; no process of it has used a GPU$/.test({NEWS}[0])", f"{browser.run('return ' + NEWS)}")
        assert browser.run("return [...document.querySelectorAll('.news a[href]')].filter((a) => a.textContent === 'the <late> one').length") == 0
        # What is no newer than a state is told once, and no more is kept than meted tells.
        browser.run("onChange({ devices: [], tenants: [], gone: [], clock: new Date().toISOString(), events: [...Array(50).keys()].map((n) => "
                    "({ number: n + 1, at: '2020-01-02T03:04:05.000Z', kind: 'came', said: `number ${n + 1}` })) }); changed(0)")
        browser.wait(f"{NEWS}.length === 32 && new Set({NEWS}).size === 32 && {NEWS}[0].endsWith('number 50') && !{NEWS}.some((one) => one.endsWith('number 1'))")
        # Of another day it says the day.
        assert re.search(r"\b2\b.*\d\d:\d\d:\d\d", browser.run(f"return {NEWS}[0]")) and browser.run("return document.querySelector('.news time').dateTime").startswith("2020-01-02")
        assert browser.said() == []


def test_on_paper_all_rows_stand_on_white_and_nothing_is_to_be_clicked():
    rows = "document.querySelectorAll('.rows .row:not([hidden])').length"
    with page(60, 2) as (meted, crowd, browser):
        browser.wait(LIVE)
        browser.size("normal", "dark")
        browser.view("#/tenants")
        before = browser.wait(rows)
        assert before < 60, "the window shows all of them: the test needs more"
        browser.run(f"addEventListener('beforeprint', () => {{ window.printed = {rows}; }})")
        assert browser.driver.execute_cdp_cmd("Page.printToPDF", {})["data"]
        assert browser.run("return window.printed") == 60
        browser.wait(f"{rows} === {before}")
        # The printed page, on the screen.
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": [{"name": "prefers-color-scheme", "value": "dark"}]})
        browser.run("dispatchEvent(new Event('beforeprint'))")
        places = browser.run("return [...document.querySelectorAll('.rows .row:not([hidden])')].map((row) => [row.getBoundingClientRect().top, row.getBoundingClientRect().bottom])")
        assert len(places) == 60 and all(one[1] <= other[0] + 1 for one, other in zip(places, places[1:])), places
        for theme in ("", "dark"):
            browser.run("document.documentElement.dataset.theme = arguments[0]", theme)
            assert browser.run("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)", theme
        assert browser.run("return [...document.querySelectorAll('nav, #theme, #filter')].every((one) => getComputedStyle(one).display === 'none')")
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
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
        browser.wait("location.hash === '#/tenants' && document.querySelector('.headings .used button') !== null")
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
    with begin():
        run(globals())
