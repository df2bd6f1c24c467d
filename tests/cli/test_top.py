#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`mete top` in a real terminal (tmux): what it shows at every width, its keys, and what it does to tenants."""
import pwd

from person import *


KEYS = "q quit  h help  <> sort  t tree  f filter  d detail  e events  u users  s set  z suspend  r resume  T end"


class Screen(Terminal):
    """A terminal in which `mete top OPTIONS` runs; at its end it prints `status=N`."""

    def __init__(self, node, *options, **more):
        super().__init__(node, f"trap : INT; {METE} top {' '.join(options)}; echo status=$?; exec cat", **more)

    def shown_at(self, columns, lines, pattern):
        """The screen, if it was painted for that size (keys are in the last line, and only there) and has that."""
        shown = self.text()
        rows = shown.splitlines()
        return len(rows) == lines and rows[-1].startswith("q quit") and sum(row.startswith("q quit") for row in rows) == 1 and (
            columns >= len(KEYS) or rows[-1].endswith("…")) and max(map(len, rows)) <= columns and re.search(pattern, shown) and shown


def order(screen, *names):
    return sorted(names, key=lambda name: re.search(rf"^ *\d+ +{name}\b", screen, re.M).start())


def test_it_shows_devices_and_tenants_at_every_width():
    with Node(METE_SIM_DEVICES="2xSIM") as node:
        At(node, "--memory", "1G", "--name", "train", "--device", "0")
        running(node, "--name", "shell", "--device", "1")
        with Screen(node, columns=200) as top:
            shown = top.wait(r"2 GPUs, 2 tenants", r"^ *\d+ +train .*running .*steady stdin=1", r"shell .*no process has joined yet", "GPU 1 +Simulated GPU +[1-9][0-9]+ °C +[1-9][0-9]*/[1-9][0-9]* W", "GPU 0 .* 1.00 GiB promised",
                             r"time \[\|+ *[1-9]\d*%\] memory \[\|+ +0\.0[1-9]/4\.00\]", r"train [1-9]\d*%", "tenant 1 train of")
            for heading in ("HAD", "DUE", "HISTORY", "USED", "LIMIT", "AGE", "STATE", "COMMAND"):
                assert heading in shown, shown
            for columns, lines in ((120, 40), (80, 24), (60, 20), (40, 20), (40, 8), (200, 60)):
                top.resize(columns, lines)
                shown = until(lambda: top.shown_at(columns, lines, "train .*running"), lambda: f"{columns} times {lines}:\n{top.text()}")
                assert "HAD" in shown and "USED" in shown, shown


def test_what_has_happened_is_shown_and_followed_at_every_width():
    with Node(METE_SIM_DEVICES="2xSIM") as node:
        At(node, "--memory", "1G", "--name", "first")
        with Screen(node, columns=120, lines=30) as top:
            top.wait("first .*running")
            top.press("e")
            top.wait("what has happened, the newest first; e: the tenants", r"^\d\d:\d\d:\d\d +came +GPU 0 +first: a new tenant, with a limit of 1", without="LIMIT")
            # It comes while somebody looks, above what was before.
            At(node, "--memory", "2G", "--name", "second")
            shown = top.wait(r"^\d\d:\d\d:\d\d +came +GPU [01] +second: a new tenant")
            assert shown.index("second: a new") < shown.index("first: a new"), shown
            top.press("z")
            top.wait("e leads back to the tenants")
            top.press("G")  # the oldest alone
            top.wait("first: a new tenant", without="second: a new tenant")
            top.press("g")
            top.wait("second: a new tenant")
            top.resize(40, 12)
            shown = top.wait(r"^\d\d:\d\d:\d\d +second: a new ten", without="came")
            assert max(map(len, shown.splitlines())) <= 40, shown
            # However long a name is, what is said stands behind it.
            running(node, "--name", "w" * 63, "--memory", "1G")
            top.wait("^" + r"\d\d:\d\d:\d\d +w{12}…: a new ten")
            top.resize(120, 12)
            top.wait(r"^\d\d:\d\d:\d\d +came +GPU [01] +w{39}…: a new tenant, with a limit of 1")
            for columns, lines in ((200, 50), (80, 24), (12, 6), (3, 3), (80, 24)):
                top.resize(columns, lines)
            top.wait("second: a new tenant")
            top.press("e")
            top.wait("HAD", "first .*running", without="what has happened")


def test_a_terminal_of_any_size_is_survived():
    with Node(METE_SIM_DEVICES="2xSIM") as node:
        At(node, "--name", "train", "--weight", "200")
        with Screen(node, columns=100) as top:
            top.wait("train .*running")
            for columns, lines in ((12, 30), (80, 5), (80, 4), (4, 4), (1, 1), (3, 60), (300, 2), (80, 3)):
                top.resize(columns, lines)

                def painted():
                    rows = top.text().split("\n")[:-1]
                    # In the corner curses cannot write without scrolling: of a single character nothing is to be seen.
                    return len(rows) == lines and (columns == lines == 1 or rows[-1][:1] in ("q", "…")) and max(map(len, rows)) <= columns
                until(painted, lambda: f"{columns} times {lines}:\n{top.text()}")
                top.press("h", "x", "d")
            top.resize(100, 30)
            top.wait("train .*running", "^q quit")


def test_the_list_of_keys_can_be_read_on_a_small_terminal():
    with Node() as node:
        for columns, lines in ((40, 12), (80, 12)):
            with Screen(node, columns=columns, lines=lines) as top:
                top.wait("^q quit")
                top.press("h")
                shown = top.wait("^Up k +select the line above", r"^\d+ more: the terminal is small")
                assert max(map(len, shown.splitlines())) <= columns and len(re.findall("select the line", shown)) == 2, shown


def test_a_narrow_terminal_cuts_no_key_and_no_meaning():
    with Node() as node:
        for columns, lines in ((40, 24), (80, 13)):
            with Screen(node, columns=columns, lines=lines) as top:
                top.wait("^q quit")
                top.press("h")
                shown = top.wait("^Up k +select the line above", "q F10 Ctrl-C quit", "s +change the tenant's share")
                listed = shown.rstrip().splitlines()[:-1]  # the last line is the screen's own
                assert "…" not in "".join(listed) and max(map(len, listed)) <= columns, shown
        with Screen(node, columns=80, lines=24) as top:
            top.wait("^q quit")
            top.press("h")
            top.wait("^s +change the tenant's share: weight=200 memory=4G$")


def test_ascii_and_no_colour_where_they_are_asked_for():
    with Node() as node:
        At(node, "--memory", "1G", "--name", "train")
        with Screen(node, LC_ALL="C", NO_COLOR="1") as top:
            top.wait("train .*running", r"train [1-9]\d*%")
            shown = top.text("-e")
            assert shown.isascii() and not re.search(r"\033\[(3[0-7]|38)", shown), shown
        with Screen(node) as top:
            top.wait("train .*running", r"▌train [1-9]\d*%")
            assert re.search(r"\033\[3[0-7]m", top.text("-e")), top.text("-e")


def test_time_had_and_due_is_shown_second_by_second():
    with Node() as node:
        At(node, "--name", "much", "--weight", "300")
        At(node, "--name", "little", "--weight", "100")
        # By number: the first row is the same one in each second.
        with Screen(node, "--sort", "id", columns=160) as top:
            # Both are due their weights' parts; the history has the seconds that were seen.
            # So has that of the device, behind what its board says.
            top.wait(r"much .* [67]\d% ", r"little .* [23]\d% ", r"▌much \d+% .*▌little \d+%", r"much .*[▁▂▃▄▅▆▇█]{3}", r"^GPU 0 .* MHz .*[▁▂▃▄▅▆▇█]{3}$")
            top.press("d")
            top.wait("much", without="tenant [0-9]+ (much|little) of")
            top.press("Enter")
            top.wait(r"tenant \d+ much of", r"weight=300; [1-9]\d* turns", r"100% │", r" 0% │.*[▁▂▃▄▅▆▇█]")


def test_waits_have_the_unit_that_ps_gives_them():
    with Node() as node:
        for name, kernel in ("long", 1300000), ("short", 1000):
            process = node.start("run", "--name", name, "--", workload("steady"), "stdin=1", "seconds=600", "report_ms=3600000", f"kernel_us={kernel}")
            process.stdout.readline()
        with Screen(node, "--sort", "id", columns=160) as top:
            top.wait("tenant 1 long of")
            top.press("Down")
            # Work that lasts for long is waited for for about a second: a little more, or less.
            def alike():
                shown = re.search(r"longest wait ([\d.]+ m?s), mean [\d.]+ m?s$", top.text(), re.M)
                return shown and re.search(rf"short .* {re.escape(shown[1])} ", plain(in_terminal(node, "ps", columns=200)))
            top.wait("tenant 2 short of")
            until(alike, lambda: top.text() + in_terminal(node, "ps", columns=200))


def test_keys_sort_filter_and_select():
    with Node() as node:
        for name in ("first", "second", "third"):
            running(node, "--name", name)
        with Screen(node, "--sort", "id") as top:
            assert order(top.wait("third", "by id;"), "first", "second", "third") == ["first", "second", "third"]
            top.press("/")
            assert order(top.wait("by id, reversed"), "first", "second", "third") == ["third", "second", "first"]
            top.press(">")
            top.wait("by gpu;")
            top.press("<")
            top.wait("by id;", "tenant 1 first of")
            top.press("Down")
            top.wait("tenant 2 second of")
            top.press("G")
            top.wait("tenant 3 third of")
            top.press("Home")
            top.wait("tenant 1 first of")
            top.press("f")
            top.wait("^only:")
            top.type("sec")
            top.press("Enter")
            top.wait("only sec;", "tenant 2 second of", without="(first|third) ")
            top.press("f", "BSpace", "BSpace", "BSpace")
            top.type("name=x")
            top.press("Enter")
            top.wait("filter 'name=': accepted are user=, tenant=, gpu= and parts of names", "only sec;")
            top.press("f", "BSpace", "BSpace", "BSpace")
            top.type("nobody")
            top.press("Enter")
            top.wait("no tenant fits the filter")
            top.press("s")
            top.wait("^no tenant is selected")
            top.press("f")
            top.wait("^only: nobody")
            top.press("Escape")
            top.wait("^q quit", "no tenant fits the filter")
            top.press("h")
            shown = top.wait("keys; any key closes this list", "ask them to end")
            assert shown.count("select the line") == 2, shown
            top.press("x")
            top.wait("no tenant fits the filter")
            top.press("q")
            top.wait("^status=0$")


def test_users_are_shown_with_the_sums_of_their_tenants():
    with Node(METE_SIM_DEVICES="2xSIM") as node:
        At(node, "--name", "much", "--weight", "300", "--device", "0")
        At(node, "--name", "little", "--device", "0")
        At(node, "--name", "alone", "--device", "1")
        # It has no process on its two devices, and is one tenant.
        running(node, "--name", "both", "--device", "0,1")
        me = re.escape(pwd.getpwuid(os.getuid()).pw_name)
        with Screen(node, columns=120) as top:
            top.wait("much .*")
            top.press("u")
            # Nearly all of both GPUs' time, which is 200 %.
            shown = top.wait("^users: their tenants' sums", "^USER +TENANTS +WAIT +HAD +DUE +USED +GPUS", rf"^{me} +4 +\d +(1\d\d|20[01])% +(1\d\d|20[01])% +0\.[1-9]\d +0 1", without="LIMIT")
            assert len(re.findall(rf"^{me} ", shown, re.M)) == 1, shown
            top.press("z")
            top.wait("u leads back to the tenants")
            for columns, lines in ((200, 50), (40, 12), (12, 6), (3, 3), (80, 24)):
                top.resize(columns, lines)
            top.wait(rf"^{me} +4 ")
            # The list has an end.
            top.press("G")
            top.press("Down")
            top.wait(rf"^{me} +4 ")
            top.press("f")
            top.wait("^only:")
            top.press("gpu=1", "Enter")
            top.wait(rf"^{me} +2 .* 1$", "only gpu=1")
            top.press("u")
            top.wait("alone", "LIMIT", without="users:")


def test_a_line_above_the_tenants_counts_who_waits_and_what_is_not_shown():
    with Node() as node:
        for number in range(12):
            running(node, "--name", f"here-{number}")
        with Screen(node, "--sort", "id", columns=80, lines=14) as top:
            shown = top.wait(r"^lines 1 to \d+ of 12$", "here-0 ", without="here-11 ")
            last = int(re.search(r"^lines 1 to (\d+) of 12$", shown, re.M)[1])
            assert f"here-{last - 1} " in shown and f"here-{last} " not in shown, shown
            top.press("G")
            top.wait(rf"^lines {12 - last + 1} to 12 of 12$", "here-11 ")
            top.resize(80, 40)
            top.wait("here-0 ", "here-11 ", without="^lines ")
            program = node.start("run", "--name", "it", "--swap", "auto", "--", workload("steady"), "memory=20M", "stdin=1", "seconds=3600", "report_ms=50")
            assert program.stdout.readline(), program.stderr.read()
            assert node.mete("suspend", "--wait", "1h", "it").returncode == 0
            top.wait("^1 suspended$", "suspended by `mete suspend`")


def test_a_tenant_counts_once_and_who_is_suspended_does_not_wait():
    """On two devices it has two rows. The figures are exact: nobody takes turns here."""
    with Node(METE_SIM_DEVICES="2xSIM", METE_SIM_MEMORY="1G", METE_SIM_CONTEXT_MEMORY="4M") as node:
        full = [node.start("run", "--name", f"full-{i}", "--device", str(i), "--memory", "700M", "--", workload("steady"), "memory=600M", "stdin=1", "seconds=3600", "report_ms=50") for i in range(2)]
        for one in full:
            assert one.stdout.readline(), one.stderr.read()
        program = f"{workload('steady')} memory=500M stdin=1 seconds=3600"
        node.start("run", "--name", "both", "--device", "0,1", "--memory", "900M", "--wait", "10m", "--", "sh", "-c",
                   f"CUDA_VISIBLE_DEVICES=0 {program} & CUDA_VISIBLE_DEVICES=1 {program}")
        until(lambda: [row["doing"] for row in node.ps()["tenants"]].count("waits-for-room") == 2, lambda: node.ps()["tenants"])
        node.start("run", "--name", "out", "--swap", "auto", "--device", "0", "--", workload("steady"), "memory=20M", "stdin=1", "seconds=3600", "report_ms=50").stdout.readline()
        assert node.mete("suspend", "--wait", "1h", "out").returncode == 0
        me = re.escape(pwd.getpwuid(os.getuid()).pw_name)
        with Screen(node, columns=120) as top:
            top.wait("2 GPUs, 4 tenants", "^1 waits, 1 suspended$")
            top.press("u")
            top.wait(rf"^{me} +4 +1 ")


def test_the_tree_has_tenants_within_tenants_and_processes():
    with Node() as node:
        outer = node.start("run", "--name", "outer", "--", "sh", "-c", f"{METE} run --memory 1G --name inner -- {workload('steady')} stdin=1 seconds=600 report_ms=3600000")
        until(lambda: any(t["name"] == "inner" and t["processes"] for t in node.ps()["tenants"]))
        [pid] = [p["pid"] for t in node.ps()["tenants"] for p in t["processes"]]
        with Screen(node, "--tree", "--sort", "id") as top:
            top.wait(r"^ *1 +outer ", r"^ *2 +  inner ", rf"^ +    {pid} ")
            top.press("t")
            top.wait(r"^ *2 +inner ", without=rf"^ +{pid} ")
            top.press("t", "Down", "Down", "I")
            top.wait(rf"^interrupt process {pid} of inner\? \(y/n\)")
            top.type("y")
            top.press("Enter")
            top.wait("^SIGINT sent to 1 process$")
        assert outer.wait(timeout=240) == 130, outer


def test_a_share_is_changed_and_a_mistake_is_one_sentence():
    with Node() as node:
        At(node, "--name", "train", "--weight", "100")
        with Screen(node) as top:
            top.wait("tenant 1 train of")
            top.press("s")
            top.wait("^set 1 train:")
            top.type("weight=250 cap=50%")
            top.press("Enter")
            top.wait("^tenant 1 train: set", "weight=250 cap=50%")
            fields = node.ps()["tenants"][0]["fields"]
            assert (fields["weight"], fields["cap"]) == ("250", "50%"), fields
            for typed, said in (("wight=1", "'wight' is not a field of a share"), ("weight", "'weight': expected KEY=VALUE"), ("weight=1 weight=2", "weight is given twice")):
                top.press("s")
                top.wait("^set 1 train:")
                top.type(typed)
                top.press("Enter")
                top.wait("^" + re.escape(said))
            assert node.ps()["tenants"][0]["fields"] == fields


def test_a_tenant_is_suspended_and_goes_on():
    with Node() as node:
        At(node, "--name", "train", "--swap", "auto")
        with Screen(node) as top:
            top.wait("tenant 1 train of", "running")
            top.press("z")
            top.wait(r"^suspend tenant 1 train\? \(y/n\)")
            top.type("n")
            top.press("Enter")
            top.wait("^q quit")
            assert not node.ps()["tenants"][0]["suspended"]
            top.press("z")
            top.type("y")
            top.press("Enter")
            top.wait("^train is suspended: ", "suspended by `mete suspend`")
            assert node.ps()["tenants"][0]["suspended"]
            top.press("r")
            top.wait("^train goes on")
            until(lambda: not node.ps()["tenants"][0]["suspended"])


def test_below_the_table_stands_the_selected_tenants_wait_and_its_remedy():
    with Node(METE_SIM_DEVICES="1xSIM", METE_SIM_MEMORY="1G", METE_SIM_CONTEXT_MEMORY="4M") as node:
        large = node.start("run", "--name", "large", "--memory", "700M", "--", workload("steady"), "memory=600M", "stdin=1", "seconds=3600", "report_ms=50")
        assert large.stdout.readline(), large.stderr.read()
        node.start("run", "--name", "it", "--memory", "900M", "--wait", "10m", "--", workload("steady"), "memory=500M", "stdin=1", "seconds=3600")
        with Screen(node, "--sort", "id", lines=32) as top:
            top.wait("it .*waits for ")
            top.press("Down")
            top.wait(r"tenant 2 it of", r"^large \(tenant 1\) holds \d.*, which cannot leave\.", r"^It goes on once others free so much, or end\.", "^100% │|^ 100% │")
        # On a narrow terminal they go on in the next line, and nothing of them is cut.
        with Screen(node, "--sort", "id", columns=40, lines=44) as top:
            top.wait("^.*it .*")
            top.press("Down")
            top.wait(r"tenant 2 it of")

            def whole():
                words = " ".join(top.text().split())
                return "which cannot leave. It goes on once others free so much, or end." in words and words
            until(whole, top.text)
        # Where there is no room for it, the rest is as it was.
        with Screen(node, "--sort", "id", lines=24) as top:
            top.wait("it .*waits for ")
            top.press("Down")
            top.wait(r"tenant 2 it of", without="cannot leave")


def test_processes_are_ended_only_after_a_yes():
    with Node() as node:
        victim, other = At(node, "--name", "victim"), At(node, "--name", "other")
        with Screen(node, "--filter", "victim") as top:
            top.wait("tenant 1 victim of")
            for answer in ("n", "", "yes", "Y"):
                top.press("T")
                top.wait(r"^terminate the 1 process of tenant 1 victim\? \(y/n\)")
                top.type(answer) if answer else None
                top.press("Enter")
                top.wait("^q quit")
            assert victim.process.poll() is None
            top.press("K")
            top.wait(r"^kill the 1 process of tenant 1 victim\? ")
            top.type("y")
            top.press("Enter")
            top.wait("^SIGKILL sent to 1 process$", "no tenant fits the filter")
        assert victim.process.wait(timeout=240) == -signal.SIGKILL and other.process.poll() is None


def test_processes_outside_of_mete_are_listed_and_left_alone():
    with Node() as node:
        bare = subprocess.Popen([workload("steady"), "stdin=1", "seconds=600", "report_ms=3600000"], env=node.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        bare.stdout.readline()
        with Screen(node) as top:
            top.wait("no meted is running", rf"\(outside\) .*0\.0[1-9].*process {bare.pid}, no tenant's")
            top.press("K")
            top.wait("^no tenant is selected")
            running(node, "--name", "one")
            top.wait("one .*no process has joined yet", rf"process {bare.pid}, no tenant's")
            top.press("f")
            top.type("one")
            top.press("Enter")
            top.wait("one .*no process has joined yet", without="outside")
        assert bare.poll() is None
        bare.kill()
        bare.wait()


def test_without_meted_devices_are_shown_and_a_meted_that_comes_or_stops_is_seen():
    with Node() as node:
        with Screen(node) as top:
            top.wait("no meted is running: `mete run` starts one", "GPU 0 +Simulated GPU", "^no tenants")
            running(node, "--name", "late")
            top.wait("1 GPU, 1 tenant;", "late .*no process has joined yet")
            pid = node.daemon_pid()
            os.kill(pid, signal.SIGSTOP)
            try:  # what was known stays
                top.wait(rf"^meted \(process {pid}\) is stopped", "late .*no process has joined yet")
            finally:
                os.kill(pid, signal.SIGCONT)
            top.wait("1 GPU, 1 tenant;")


def test_commands_cannot_write_to_the_terminal():
    with Node() as node:
        running(node, "--name", "evil", program=("sh", "-c", "echo here; cat >/dev/null # \x1b]0;title\x07\x03"))
        with Screen(node, columns=160) as top:
            shown = top.wait("evil .*no process has joined yet")
            assert not re.search("[\x00-\x09\x0b-\x1f]", shown), shown
            assert "title" not in top.tmux("display-message", "-p", "#{pane_title}"), shown


def test_a_key_that_does_not_apply_is_answered_in_one_sentence():
    with Node() as node:
        done = node.mete("top")
        assert (done.returncode, done.stderr) == (1, "mete top: it needs a terminal; `mete ps` prints once\n"), done
        for options, said in ((["--sort", "size"], "--sort: 'size': accepted are id, gpu, had, lacks, used, out, waits, age, user"), (["--interval", "1x"], "--interval"),
                              (["--interval", "1ms"], "--interval"), (["--filter", "uid=1"], "filter 'uid=': accepted are"), (["now"], "'now': top takes no arguments")):
            done = node.mete("top", *options)
            assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1, done
        assert "a terminal of the kind 'nonsense' (TERM) is not known here" in in_terminal(node, "top", status=1, **{"TERM": "nonsense"})


def test_a_signal_leaves_the_terminal_as_it_was():
    with Node() as node:
        running(node, "--name", "one")
        for send in (lambda top: top.press("C-c"), lambda top: subprocess.run(["pkill", "-TERM", "-f", f"^{METE} top --interval 700ms"], check=True)):
            with Screen(node, "--interval", "700ms") as top:
                top.wait("one .*no process has joined yet")
                send(top)
                shown = top.wait(r"^status=(0|1|130|143)$")
                assert "no process has joined" not in shown, shown  # the screen of before is back
                top.type("typed")
                top.wait("^typed")


if __name__ == "__main__":
    run(globals())
