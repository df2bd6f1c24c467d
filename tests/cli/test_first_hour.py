#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The first hour with mete, as a person has it: what `mete ps` looks like, what amounts are taken, what is said without
being asked, what make does, and every command line of the README and the docs, word for word."""
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import termios

from mete import *
from meted import until

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
METE = os.path.join(BUILD, "cli", "mete")
WAITING = ("sh", "-c", "echo here; cat >/dev/null")
LONG = "a-namespace-of-some-length/a-deployment-7cd5f66b9-xk2lp/a-container"


def in_terminal(node, *words, columns=80, lines=40, status=0, **more):
    """What `mete WORDS` prints on a terminal of that size."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    process = subprocess.Popen([METE, *words], env=dict(node.environment, TERM="xterm", **more), stdin=follower, stdout=follower,
                               stderr=subprocess.STDOUT, start_new_session=True)
    os.close(follower)
    said = b""
    while True:
        try:
            data = os.read(leader, 65536)
        except OSError:
            break
        if not data:
            break
        said += data
    os.close(leader)
    assert process.wait(timeout=240) == status, said
    return said.decode().replace("\r\n", "\n")


def plain(text):
    return re.sub(r"\033\[[0-9;]*[mKHJ]", "", text)


def running(node, *options, program=WAITING):
    process = node.start("run", *options, "--", *program)
    assert process.stdout.readline() == "here\n"
    return process


class At:
    """A tenant whose program has a context, and goes on until it is told to end."""

    def __init__(self, node, *options):
        self.process = node.start("run", *options, "--", workload("steady"), "stdin=1", "seconds=600", "report_ms=3600000")
        self.process.stdout.readline()


def cell(table, row, heading):
    """The text of a column of the line that holds `row`, found by where the heading ends or begins."""
    lines = table.splitlines()
    [at] = [i for i, line in enumerate(lines) if row in line]
    head = next(line for line in reversed(lines[:at]) if heading in line)
    begin = head.index(heading)
    words = [(match.start(), match.end(), match[0]) for match in re.finditer(r"\S+(?: \S+)*", lines[at])]
    return next(text for first, last, text in words if first == begin or last == begin + len(heading))


# mete ps

def test_amounts_are_right_aligned_in_one_unit_with_a_bar_and_a_percent():
    with Node() as node:
        At(node, "--memory", "1G", "--name", "large")
        At(node, "--memory", "256M", "--name", "small")
        table = node.mete("ps").stdout
        assert "memory in GiB" in table.splitlines()[0], table
        assert re.fullmatch(r"0\.0[6-9]|0\.1\d", cell(table, "large", "USED")), table
        assert cell(table, "large", "LIMIT") == "1.00" and cell(table, "small", "LIMIT") == "0.25", table
        assert re.search(r"small .* ██▌░░░░░░░ +25%", table), table
        assert cell(table, "Simulated GPU", "TOTAL") == "4.00" and cell(table, "Simulated GPU", "OUTSIDE") == "0.00", table
        assert float(cell(table, "Simulated GPU", "USED")) + float(cell(table, "Simulated GPU", "FREE")) == 4.0, table
        assert cell(table, "large", "USER") == __import__("pwd").getpwuid(os.getuid()).pw_name, table
        assert "steady stdin=1" in table and cell(table, "large", "AGE").endswith(" s"), table


def test_a_state_says_why():
    with Node() as node:
        running(node, "--name", "shell")
        At(node, "--memory", "1G", "--name", "trainer")
        table = node.mete("ps").stdout
        assert "no process has joined yet" in next(line for line in table.splitlines() if " shell " in line), table
        assert "running" in next(line for line in table.splitlines() if " trainer " in line), table
        # It held 65 MiB, and is set to less: that is said, by ps and by set itself.
        holder = node.start("run", "--memory", "1G", "--name", "holder", "--", workload("train"), "steps=100000", "ballast=256M")
        held = until(lambda: next((t for t in node.ps()["tenants"] if t["name"] == "holder" and t["allocated_bytes"] > 256 * MIB), None))
        done = node.mete("set", "holder", "memory=128M")
        assert done.returncode == 0 and "1G -> 128M" in done.stdout and "more than it is now allowed" in done.stdout, done
        table = node.mete("ps").stdout
        assert re.search(r"holder .*over its limit by \d", table), table
        assert next(t for t in node.ps()["tenants"] if t["tenant"] == held["tenant"])["over_bytes"] > 0
        holder.terminate()
        holder.wait()


def test_who_waits_for_memory_is_shown_with_how_much_and_how_long():
    with Node() as node:
        holder = node.start("run", "--swap", "off", "--name", "first", "--", workload("train"), "steps=100000", "ballast=3G")
        until(lambda: any(t["allocated_bytes"] > 3 * GIB for t in node.ps()["tenants"]))
        node.start("run", "--swap", "off", "--wait", "10m", "--name", "second", "--", workload("train"), "steps=1", "ballast=2G")
        table = until(lambda: next((t for t in [node.mete("ps").stdout] if "waiting for" in t), None))
        assert re.search(r"second .*waiting for [\d.]+ GiB for \d+ s", table), table
        [waits] = [t for t in node.ps()["tenants"] if t["name"] == "second"]
        assert waits["waiting_bytes"] > 0 and waits["waiting_ns"] > 0, waits
        holder.terminate()
        holder.wait()


def test_a_long_name_is_whole_where_there_is_room_and_shortened_first_where_not():
    with Node() as node:
        name = LONG[-63:]
        running(node, "--name", name)
        assert name in node.mete("ps").stdout
        assert name in plain(in_terminal(node, "ps", columns=200))
        assert name in plain(in_terminal(node, "ps", columns=150))
        for columns in (110, 80, 60):
            narrow = plain(in_terminal(node, "ps", columns=columns))
            assert name not in narrow and name[:9] in narrow and "…" in narrow, narrow
            assert "no process has joined yet" in narrow, narrow
        # Beside it there is room for what is known of the tenant.
        assert re.search(name[:20] + ".* ░{10} +0% .* s  no process has joined yet", plain(in_terminal(node, "ps", columns=110)))


def test_the_reason_of_a_state_can_be_read_on_every_terminal():
    with Node() as node:
        holder = node.start("run", "--memory", "1G", "--name", "a-holder/" + "x" * 40, "--", workload("train"), "steps=100000", "ballast=256M")
        until(lambda: any(t["allocated_bytes"] > 256 * MIB for t in node.ps()["tenants"]))
        assert node.mete("set", "1", "memory=128M").returncode == 0
        for columns in (120, 80, 60, 50, 40):
            shown = plain(in_terminal(node, "ps", columns=columns))
            assert re.search(r"over its limit by 0\.\d\d GiB", shown), (columns, shown)
            assert max(map(len, shown.splitlines())) <= columns, (columns, shown)
        holder.terminate()
        holder.wait()


def test_figures_of_ps_do_not_contradict_each_other():
    with Node() as node:
        holder = node.start("run", "--swap", "off", "--name", "first", "--", workload("train"), "steps=100000", "ballast=2044M")
        until(lambda: any(t["allocated_bytes"] > 2044 * MIB for t in node.ps()["tenants"]))
        free = node.ps()["devices"][0]["free_bytes"]
        # A MiB more than there is, beside the context: to two digits they are the same.
        node.start("run", "--swap", "off", "--wait", "10m", "--name", "second", "--", workload("train"), "steps=1", f"ballast={free // MIB - 64 + 1}M")
        table = until(lambda: next((t for t in [node.mete("ps").stdout] if "waiting for" in t), None))
        wanted = float(re.search(r"waiting for ([\d.]+) GiB", table)[1])
        assert wanted > float(cell(table, "Simulated GPU", "FREE")), table
        total = sum(round(100 * float(cell(table, "Simulated GPU", heading))) for heading in ("USED", "FREE", "OUTSIDE"))
        assert total == 400 and cell(table, "Simulated GPU", "TOTAL") == "4.00", table
        holder.terminate()
        holder.wait()
        # Full is 100 % and nothing less; who is within the limit is not shown above it.
        At(node, "--memory", "333M", "--name", "third")
        table = node.mete("ps").stdout
        assert float(cell(table, "  third ", "USED")) <= float(cell(table, "  third ", "LIMIT")), table


def test_bars_are_ascii_where_the_locale_is():
    with Node() as node:
        At(node, "--name", "x" * 60, "--memory", "256M")
        for locale, ascii_only in (({"LC_ALL": "C"}, True), ({"LC_ALL": "", "LC_CTYPE": "POSIX"}, True), ({"LC_ALL": "", "LC_CTYPE": "", "LANG": "de_DE"}, True),
                                   ({"LC_ALL": "C.UTF-8"}, False), ({"LC_ALL": "", "LC_CTYPE": "", "LANG": ""}, False),
                                   ({"LC_ALL": "en_US.utf8", "LANG": "C"}, False)):
            for shown in (node.mete("ps", **locale).stdout, in_terminal(node, "ps", columns=100, **locale)):
                assert shown.isascii() == ascii_only, (locale, shown)
        assert "##-......." in node.mete("ps", LC_ALL="C").stdout


def test_the_time_of_a_young_tenant_is_of_its_age():
    with Node() as node:
        At(node, "--name", "one", "--weight", "200")
        At(node, "--name", "two")
        table = until(lambda: next((t for t in [node.mete("ps").stdout] if re.search(r"[1-9]\d?\.\d% of \d+ s", t)), None))
        head = next(line for line in table.splitlines() if "LAST MINUTE" in line)
        assert "time of the devices that are shared by turns" in table, table
        for heading in ("LAST SECOND", "DUE", "MEAN WAIT", "LONGEST"):
            assert heading in head, head
        narrow = plain(in_terminal(node, "ps", columns=60))
        assert 1 <= narrow.count("DUE") <= 1 + ("LAST MINUTE" in narrow), narrow


def test_every_width_is_kept():
    with Node() as node:
        At(node, "--name", "x" * 40, "--weight", "200")
        At(node, "--name", "y" * 20)
        for columns in (200, 132, 100, 80, 60, 50):
            shown = plain(in_terminal(node, "ps", columns=columns))
            assert max(map(len, shown.splitlines())) <= columns, (columns, shown)
            assert "USED" in shown and "LIMIT" in shown and "STATE" in shown, (columns, shown)


def test_everything_fits_into_40_columns():
    with Node(METE_SIM_MEMORY="140G") as node:
        running(node, "--name", "shell")
        for _ in range(9):  # then numbers have two digits
            assert node.mete("run", "--quiet", "--", "true").returncode == 0
        uuid = node.mete("pick", "--hold", "10m").stdout.strip()
        assert uuid.startswith("GPU-"), uuid
        At(node, "--name", LONG[-63:], "--weight", "200")
        At(node, "--name", "y" * 20, "--memory", "139G")
        bare = subprocess.Popen([workload("steady"), "stdin=1", "seconds=600", "report_ms=3600000"], env=node.environment, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE)
        bare.stdout.readline()
        shown = plain(in_terminal(node, "ps", "--processes", columns=40))
        assert max(map(len, shown.splitlines())) <= 40, shown
        # What each table is for is there; names are as long as there is room for, and marked; a state is in full.
        for heading in ("GPU +TOTAL +USED +FREE", "ID +TENANT +USED +LIMIT", "ID +PID +ALLOCATED .*PROGRAM", "OUTSIDE +GPU +PID +COMMAND",
                        "ID +TENANT +LAST SECOND"):
            assert re.search(f"^{heading}", shown, re.M), (heading, shown)
        assert re.search(rf"^11  {LONG[-63:][:12]}\S*…  +\d\.\d\d  140\.00 .*\n    \w", shown, re.M), shown
        assert re.search(r"^ 1  shell  .*\n    no process has joined yet$", shown, re.M), shown
        bare.kill()
        bare.communicate()


def test_colour_is_for_terminals_and_for_those_who_want_it():
    with Node() as node:
        running(node)
        assert "\033[" in in_terminal(node, "ps")
        assert "\033[" not in in_terminal(node, "ps", NO_COLOR="1")
        assert "\033[" not in node.mete("ps").stdout


def test_devices_are_shown_without_a_daemon():
    with Node(METE_SIM_DEVICES="2xSIM") as node:
        table = node.mete("ps").stdout
        assert "no meted is running" in table and table.count("Simulated GPU") == 2, table
        bare = subprocess.Popen([workload("steady"), "stdin=1", "seconds=600", "report_ms=3600000"], env=node.environment, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE)
        bare.stdout.readline()
        shown = node.ps()
        assert [one["pid"] for one in shown["outside"]] == [bare.pid], shown
        assert "steady" in node.mete("ps").stdout
        bare.kill()
        bare.communicate()
        lost = node.mete("ps", LD_LIBRARY_PATH="")
        assert lost.returncode == 0 and "no NVIDIA driver here" in lost.stdout, lost


def test_picks_are_shown():
    with Node() as node:
        running(node)
        uuid = node.mete("pick", "--hold", "10m").stdout.strip()
        assert uuid.startswith("GPU-"), uuid
        [device] = node.ps()["devices"]
        assert device["picked_by_pid"] and device["picked_for_ns"] > 0, device
        assert "picked, kept for" in node.mete("ps").stdout


def test_watch_shows_it_again_in_place():
    with Node() as node:
        leader, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        before = signal.signal(signal.SIGINT, signal.SIG_DFL)  # a job in the background, as we may be, ignores it
        try:
            process = subprocess.Popen([METE, "ps", "--watch"], env=dict(node.environment, TERM="xterm"), stdin=follower, stdout=follower,
                                       stderr=subprocess.STDOUT)
        finally:
            signal.signal(signal.SIGINT, before)
        said = b""
        while said.count(b"\033[H") < 3:
            assert select.select([leader], [], [], 240)[0], said
            said += os.read(leader, 65536)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=240) == -signal.SIGINT
        os.close(leader)
        os.close(follower)


def test_watch_erases_nothing_where_it_can_show_nothing():
    with Node() as node:
        running(node)
        pid = node.daemon_pid()
        os.kill(pid, signal.SIGSTOP)
        try:
            said = in_terminal(node, "ps", "--watch", columns=200, status=1)
        finally:
            os.kill(pid, signal.SIGCONT)
        assert f"meted (process {pid}) is stopped" in said and "\033[" not in said, said


def test_set_shows_the_share_before_and_after():
    with Node() as node:
        running(node, "--memory", "1G", "--name", "big", "--weight", "200")
        done = node.mete("set", "big", "memory=512M", "weight=50", "mode=fixed:1/4")
        assert done.returncode == 0, done
        shown = dict(re.findall(r"^  (\w+) +(.*)$", done.stdout, re.M))
        assert shown["memory"] == "1G -> 512M" and shown["mode"] == "best-effort -> fixed:1/4", done.stdout
        assert shown["cap"] == "100% -> 25%", done.stdout  # what the mode stands for
        [tenant] = node.ps()["tenants"]
        assert tenant["fields"]["cap"] == "25%" and tenant["fields"]["class"] == "standard", tenant


def test_set_changes_all_or_nothing_whatever_the_order():
    with Node() as node:
        running(node, "--memory", "1G", "--name", "big")

        def fields():
            [tenant] = node.ps()["tenants"]
            return tenant["fields"]

        before = fields()
        for words in (("cap=10%", "guarantee=20%"), ("guarantee=20%", "cap=10%"), ("weight=50", "class=batch", "cap=20%", "guarantee=30%"),
                      ("weight=50", "memory=1M")):
            done = node.mete("set", "big", *words)
            assert done.returncode == 1 and fields() == before, (words, done, fields())
        for words in (("cap=30%", "guarantee=20%"), ("guarantee=35%", "cap=50%"), ("cap=25%", "guarantee=10%")):
            done = node.mete("set", "big", *words)
            assert done.returncode == 0, (words, done)
            shown = fields()
            assert all(shown[key] == value for key, value in (word.split("=") for word in words)), shown


def manual(verb):
    return subprocess.run([os.path.join(BUILD, "cli", "manual"), "page", verb], text=True, capture_output=True, check=True).stdout


def entries(text):
    """What a part of a man page explains: names, each with its meaning."""
    return dict(re.findall(r"^\.TP\n\.B (.+)\n(.+)$", text, re.M))


def test_every_key_of_the_json_is_in_the_man_page():
    """Those of each object, under that object: none is missing there, none stands there in vain, and each has a meaning."""
    with Node() as node:
        At(node, "--name", "one")
        bare = subprocess.Popen([workload("steady"), "stdin=1", "seconds=600", "report_ms=3600000"], env=node.environment, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE)
        bare.stdout.readline()
        shown = until(lambda: next((now for now in [node.ps()] if now["outside"] and now["tenants"][0]["processes"]), None))
        bare.kill()
        bare.communicate()
        [tenant] = shown["tenants"]
        json_part = re.search(r"^\.SH JSON\n(.*?)^\.SH ", manual("ps"), re.M | re.S)[1]
        explained = {name: entries(text) for name, text in re.findall(r"^\.SS (.*)\n((?:(?!\.SS ).*\n)*)", json_part, re.M)}
        found = {"meted": shown["meted"], "devices": shown["devices"][0], "tenants": tenant, "tenants: time": tenant["time"],
                 "tenants: processes": tenant["processes"][0], "outside": shown["outside"][0]}
        assert set(explained) == set(found) and set(shown) == {"meted", "devices", "tenants", "outside"}, (set(explained), set(shown))
        for name, value in found.items():
            # What the driver says of the time is only sometimes known.
            wanted = set(value) | ({"driver_busy", "drift"} if name == "tenants: time" else set())
            assert set(explained[name]) == wanted, (name, set(explained[name]) ^ wanted)
            assert all(meaning != "\\&" for meaning in explained[name].values()), explained[name]
        page = manual("set")
        assert all(re.search(rf"\b{field}\b", page) for field in tenant["fields"]) and "mete\\-set(1)" in explained["tenants"]["fields"], (tenant, page)


def test_guarantees_are_no_more_than_the_device_in_sum():
    with Node(METE_SIM_DEVICES="2xSIM") as node:
        running(node, "--device", "0", "--guarantee", "70%", "--name", "one")
        refused(node.mete("run", "--device", "0", "--guarantee", "40%", "--", "true"), "guarantee: 40.0% beside the 70.0% of the other tenants",
                "accepted: at most 30.0%", status=125)
        refused(node.mete("run", "--device", "1,0", "--mode", "fixed:1/2", "--", "true"), "guarantee: 50.0%", status=125)
        assert node.mete("run", "-q", "--device", "1", "--guarantee", "100%", "--", "true").returncode == 0
        running(node, "--device", "0", "--guarantee", "30%", "--name", "two")
        refused(node.mete("set", "two", "guarantee=31%"), "accepted: at most 30.0%", status=1)
        refused(node.mete("set", "two", "weight=50", "mode=fixed:1/2"), "accepted: at most 30.0%", status=1)
        assert node.mete("set", "one", "guarantee=50%").returncode == 0
        assert node.mete("set", "two", "guarantee=50%").returncode == 0
        refused(node.mete("set", "one", "guarantee=51%"), "accepted: at most 50.0%", status=1)
        # One that is within another has a part of that one's: it takes nothing of the others'.
        inner = node.mete("run", "-q", "--device", "1", "--guarantee", "80%", "--memory", "1G", "--", METE, "run", "-q", "--memory", "256M", "--guarantee", "40%", "--", "true")
        assert inner.returncode == 0, inner


# Amounts

def test_amounts_are_binary_however_they_are_written():
    with Node() as node:
        running(node, "--name", "it")
        for text in ("1G", "1GB", "1GiB", "1Gi", "1g", "1024M", "1024MB", str(1 << 30), "1/4", "25%", "250/1000"):
            assert node.mete("set", "it", f"memory={text}").returncode == 0, text
            assert node.ps()["tenants"][0]["limit_bytes"] == GIB, text
        for text in ("256m", "4", "25", "1.5"):
            refused(node.mete("set", "it", f"memory={text}"), "memory", text, status=2)
        assert "thousandths" in node.mete("set", "it", "memory=256m").stderr
        for verb in ("run", "pick"):
            assert "powers of 1024" in re.sub(r"\s+", " ", node.mete(verb, "--help").stdout), verb


def test_a_limit_that_cannot_hold_one_context_is_refused():
    with Node() as node:
        refused(node.mete("run", "--memory", "63M", "--", "true"), "cannot hold one context", "64MiB", status=125)
        running(node, "--memory", "64M", "--name", "it")
        refused(node.mete("set", "it", "memory=1M"), "cannot hold one context", status=1)


def test_what_no_daemon_is_needed_to_judge_is_a_matter_of_usage():
    with Node() as node:
        bad = (("--memory", "lots"), ("--memory", "0"), ("--memory", "256m"), ("--wait", "5"), ("--wait", "2h"), ("--weight", "0"), ("--cap", "60"),
               ("--cap", "101%"), ("--guarantee", "3/2"), ("--class", "best"), ("--mode", "fixed:9/8"), ("--escalate", "shout"),
               ("--on-daemon-loss", "panic"), ("--device", ""), ("--name", ""), ("--name", "7"), ("--weight", ""))
        for option, value in bad:
            refused(node.mete("run", option, value, "--", "true"), f"{option}", "accepted", status=2)
        refused(node.mete("run", "--guarantee", "60%", "--cap", "50%", "--", "true"), "--cap", "above the cap", status=2)
        # Without a driver, too: nothing was asked of anybody.
        refused(node.mete("run", "--weight", "x", "--", "true", LD_LIBRARY_PATH=""), "--weight", status=2)
        assert not node.daemon_log()
        running(node, "--name", "it")
        for word in ("memory=lots", "weight=0", "colour=red", "cap=150%", "wait=5", "on-daemon-loss=panic"):
            refused(node.mete("set", "it", word), status=2)
        # What depends on the machine, or on what the tenant has, is no matter of usage.
        refused(node.mete("run", "--memory", "5G", "--", "true"), "memory", status=125)
        refused(node.mete("set", "it", "memory=5G"), "memory", status=1)
        assert node.mete("set", "it", "cap=50%").returncode == 0
        refused(node.mete("set", "it", "guarantee=60%"), "above the cap", status=1)


def test_parts_times_and_amounts_are_written_the_same_everywhere():
    with Node(METE_SIM_DEVICES="2xSIM") as node:
        running(node, "--name", "it", "--cap", "0.75")
        for part in ("25%", "1/4", "250/1000", "0.25"):
            assert node.mete("set", "it", f"cap={part}").returncode == 0, part
            assert node.mete("pick", "--hold", "0", "--max-load", part).returncode == 0, part
            assert node.mete("replay", "--memory", "-q", "--length", "1s", "--cost", part, f"set=1G clean={part} load=job:1s:1s:0s").returncode == 0, part
        for part in ("25", "250m", "x", "-1%"):
            for words in (("set", "it", f"cap={part}"), ("pick", "--max-load", part), ("pick", "--max-memory", part),
                          ("replay", "--memory", "--cost", part, "set=1G"), ("replay", "--placement", "--overcommit", part, ".")):
                refused(node.mete(*words), part, "accepted", status=2)
        for time in ("1500ms", "1.5s", "0.025m"):
            assert node.mete("set", "it", f"wait={time}").returncode == 0, time
            assert node.mete("pick", "--hold", time, "--interval", time).returncode != 2, time
            assert node.mete("replay", "--time", "-q", "--length", time, "weight=1").returncode == 0, time
        for time in ("600", "5sec", "x", "-1s"):
            for words in (("set", "it", f"wait={time}"), ("pick", "--hold", time), ("pick", "--interval", time), ("replay", "--time", "--length", time, "weight=1")):
                refused(node.mete(*words), time, "accepted", status=2)
        # 16G is as many bytes in a replay as elsewhere, and as 16GB and 16GiB.
        said = {node.mete("replay", "--memory", "-j", "-q", "--device", amount, f"2x set={amount} load=job:2s:1s:0s").stdout
                for amount in ("2G", "2GB", "2GiB", "2048M", str(2 * GIB))}
        assert len(said) == 1 and str(2 * GIB) in said.pop()
        for key in ("on-daemon-loss", "on_daemon_loss"):
            done = node.mete("set", "it", f"{key}=block")
            assert done.returncode == 0 and "on_daemon_loss" in done.stdout, done


# Nested

def within(node, *inner, outer=(), program=("true",)):
    """What `mete run INNER -- PROGRAM` says inside of a `mete run` with a share of 1 GiB."""
    return node.mete("run", "-q", "--name", "outer", "--memory", "1G", *outer, "--", METE, "run", "-q", *inner, "--", *program)


def test_a_nested_run_says_which_of_its_options_it_does_not_honour():
    with Node() as node:
        for options, named in ((("--weight", "300"), "--weight is"), (("--cap", "20%", "--class", "batch", "--name", "mine"), "--cap, --class, --name are"),
                               (("--wait", "5s", "--on-daemon-loss", "block"), "--wait, --on-daemon-loss are")):
            done = within(node, *options)
            assert done.returncode == 0 and f"share of tenant" in done.stderr and f"{named} not honoured" in done.stderr, (options, done)
            assert len(done.stderr.splitlines()) == 1, done
        both = within(node, "--memory", "2G", "--weight", "300")
        assert "limit of 1GiB also applies to this program" in both.stderr and "--weight is not honoured" in both.stderr, both
        assert "--memory is" not in both.stderr and "--memory, " not in both.stderr, both
        assert within(node).stderr == ""
        assert within(node, "--device", "0").stderr == ""


def test_a_nested_tenant_is_told_what_it_has_less_of_than_it_asked_for():
    with Node() as node:
        outer = ("--weight", "200", "--cap", "60%", "--class", "batch")
        done = within(node, "--memory", "256M", "--weight", "500", "--cap", "50%", "--class", "interactive", outer=outer)
        assert "share of tenant" in done.stderr and "(outer)" in done.stderr, done
        assert "weight 100, not 500" in done.stderr and "cap 30.0%, not 50.0%" in done.stderr and "class batch, not interactive" in done.stderr, done
        assert within(node, "--memory", "256M", "--weight", "50", "--cap", "10%", outer=outer).stderr == ""
        assert within(node, "--memory", "256M", outer=outer).stderr == ""


def test_what_those_within_hold_and_do_counts_for_the_outer_one():
    with Node() as node:
        # A process of the inner one has come to the outer one's share: nobody says that nothing was limited.
        done = node.mete("run", "--memory", "1G", "--", METE, "run", "--memory", "512M", "--", workload("vector-add"))
        assert done.returncode == 0 and done.stderr == "", done
        outer = node.start("run", "--name", "outer", "--memory", "1G", "--", METE, "run", "--name", "inner", "--memory", "512M", "--",
                           workload("steady"), "stdin=1", "seconds=600", "report_ms=3600000")
        outer.stdout.readline()
        row = {tenant["name"]: tenant for tenant in node.ps()["tenants"]}
        assert row["outer"]["used_bytes"] == 0 < row["outer"]["within_bytes"] == row["inner"]["used_bytes"] and row["inner"]["within_bytes"] == 0, row
        table = node.mete("ps").stdout.split("\ntime of")[0]
        assert cell(table, "  outer ", "USED") == cell(table, "  inner ", "USED") != "0.00", table
        said = node.mete("set", "inner", "weight=1000").stdout
        assert f"within tenant {row['outer']['tenant']}" in said and "no more than a part" in said, said


def test_ps_shows_who_is_within_whom():
    with Node() as node:
        alone = running(node, "--name", "alone")
        assert "WITHIN" not in node.mete("ps").stdout
        shown = within(node, "--memory", "256M", "--name", "inner", program=(METE, "ps")).stdout
        outer, inner = cell(shown, "  outer ", "ID"), cell(shown, "  inner ", "WITHIN")
        assert outer == inner and cell(shown, "  inner ", "ID") != outer, shown
        shown = json.loads(within(node, "--memory", "256M", "--name", "inner", program=(METE, "ps", "--json")).stdout)
        row = {tenant["name"]: tenant for tenant in shown["tenants"]}
        assert "no process but those" in row["outer"]["state"], row
        assert row["inner"]["within_tenant"] == row["outer"]["tenant"] and row["outer"]["within_tenant"] == 0 == row["alone"]["within_tenant"], row
        alone.kill()


# What is said

def test_a_program_to_which_nobody_came_is_reported_unless_that_is_not_wanted():
    with Node() as node:
        done = node.mete("run", "--", "true")
        assert done.returncode == 0 and len(done.stderr.splitlines()) == 1 and "nothing was limited" in done.stderr, done
        assert node.mete("run", "-q", "--", "true").stderr == ""
        assert node.mete("run", "--", workload("vector-add")).stderr == ""
        assert node.mete("run", "--", "sh", "-c", "exit 7").returncode == 7


def test_what_run_reports_can_be_read_by_programs():
    with Node() as node:
        path = os.path.join(node.place, "used.json")
        done = node.mete("run", "--name", "it", "--memory", "512M", "--report-json", path, "--", workload("vector-add"))
        assert done.returncode == 0 and done.stderr == "", done
        said = json.load(open(path))
        assert (said["name"], said["status"], said["signal"], said["joined"], said["trouble"]) == ("it", 0, 0, True, ""), said
        [device] = said["devices"]
        assert device["limit_bytes"] == 512 * MIB and 64 * MIB < device["peak_bytes"] <= 512 * MIB and device["refusals"] == 0, device
        assert device["device_uuid"].startswith("GPU-") and device["fields"]["memory"] == "512M", device
        page = re.search(r"^\.SH JSON\n(.*?)^\.SH ", manual("run"), re.M | re.S)[1]
        assert set(entries(page)) == set(said) and "mete\\-ps(1)" in page, page
        node.mete("run", "--report-json", path, "--", "sh", "-c", "kill -TERM $$")
        said = json.load(open(path))
        assert (said["status"], said["signal"], said["joined"]) == (-1, signal.SIGTERM, False), said
        node.mete("run", "-q", "--report-json", path, "--", "sh", "-c", "exit 7")
        assert json.load(open(path))["status"] == 7
        refused(node.mete("run", "--report-json", node.place + "/none/used.json", "--", "true"), "--report-json", "No such file", status=125)


def test_a_number_is_no_name():
    with Node() as node:
        refused(node.mete("run", "--name", "7", "--", "true"), "--name '7'", "a tenant's id", status=2)
        os.symlink("/bin/sh", os.path.join(node.place, "7"))
        running(node, program=(os.path.join(node.place, "7"), *WAITING[1:]))
        [tenant] = node.ps()["tenants"]
        assert not tenant["name"].isdigit() and "7" in tenant["name"], tenant
        refused(node.mete("set", "7", "weight=50"), "there is no tenant 7", status=1)


def test_pick_says_why_there_is_none():
    with Node() as node:
        refused(node.mete("pick", "-q", "-x", "0"), "--exclude leaves none of 1 GPU", status=1)
        refused(node.mete("pick", "-q", "--memory-free", "100G"), "the only GPU is not as free as requested", status=1)
    with Node(METE_SIM_DEVICES="3xSIM") as node:
        refused(node.mete("pick", "-q", "-x", "0,1,2"), "--exclude leaves none of 3 GPUs", status=1)
        refused(node.mete("pick", "-q", "-x", "0", "--memory-free", "100G"), "none of 2 GPUs that --exclude leaves is as free as requested", status=1)
        refused(node.mete("pick", "-q", "-x", "0,1", "--memory-free", "100G"), "the only GPU that --exclude leaves is not", status=1)
        refused(node.mete("pick", "-q", "--memory-free", "100G"), "none of 3 GPUs is as free as requested", status=1)


def test_a_stopped_meted_is_said_by_all_and_the_doctor_sends_nobody_to_the_doctor():
    with Node() as node:
        holder = running(node, "--name", "it", program=("sh", "-c", "echo here; read line; exec " + workload("vector-add")))
        pid = node.daemon_pid()
        os.kill(pid, signal.SIGSTOP)
        try:
            refused(node.mete("ps"), f"meted (process {pid}) is stopped", "`mete doctor` says what to do", status=1)
            done = node.mete("doctor")
            [line] = [line for line in done.stdout.splitlines() if " daemon " in line and "stopped" in line]
            assert done.returncode == 1 and "mete doctor" not in done.stdout and f"kill -CONT {pid}" in done.stdout, done
            # A program that joins now, too.
            said = holder.communicate("\n", timeout=240)[1]
            assert "the daemon does not answer: it is stopped, or hangs; `mete doctor` says which" in said, said
        finally:
            os.kill(pid, signal.SIGCONT)


def test_a_pick_that_is_not_reserved_says_so():
    with Node() as node:
        done = node.mete("pick")
        assert done.returncode == 0 and done.stdout.startswith("GPU-") and "nothing is reserved" in done.stderr, done
        assert node.mete("pick", "-q").stderr == ""
        running(node)
        assert "nothing is reserved" not in node.mete("pick").stderr


def test_a_device_is_named_by_the_beginning_of_its_uuid():
    with Node(METE_SIM_DEVICES="2xSIM") as node:
        uuid = [device["uuid"] for device in node.ps()["devices"]]
        for i in (0, 1):
            for name in (uuid[i][:12], uuid[i][4:12], uuid[i][:12].upper()):
                done = node.mete("run", "-q", "--device", name, "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
                assert done.stdout.strip() == uuid[i], (name, done)
        both = node.mete("run", "-q", "--device", f"{uuid[1][:12]},{uuid[0][:12]}", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
        assert both.stdout.strip() == f"{uuid[1]},{uuid[0]}", both
        assert node.mete("pick", "-q", "--exclude", uuid[0][:12]).stdout.strip() == uuid[1]
        refused(node.mete("run", "--device", "GPU-", "--", "true"), "GPU-", status=125)


def test_help_describes_a_verb():
    with Node() as node:
        for verb in ("run", "ps", "set", "doctor", "sim", "replay", "pick"):
            assert node.mete("help", verb).stdout == node.mete(verb, "--help").stdout
            assert "Examples:" in node.mete("help", verb).stdout and "Exit status:" in node.mete("help", verb).stdout
        assert "Verbs:" in node.mete("help").stdout
        assert node.mete("help", "dance").returncode == 2
        for words in (("help", "help"), ("help", "--help"), ("help", "-h"), ("--help",)):
            done = node.mete(*words)
            assert done.returncode == 0 and done.stdout == node.mete("help").stdout and not done.stderr, (words, done)
        # One paragraph for each thing that is replayed, and none is wider than a terminal.
        shown = node.mete("help", "replay").stdout
        for word in ("--placement: ", "--time: ", "--memory: "):
            assert "\n\n" + word in shown, shown
        assert max(map(len, shown[shown.index("\n"):].splitlines())) <= 100, shown


def test_figures_of_a_refusal_do_not_contradict_it():
    with Node() as node:
        done = node.mete("run", "--memory", "512M", "--", workload("hoarder"), "limit=512M")
        limit, used, asked = map(int, re.search(r"the limit of (\d+)MiB is reached: (\d+)MiB in use.*?, (\d+)MiB of", done.stderr).groups())
        credit = re.search(r"(\d+)MiB granted in advance", done.stderr)
        assert used + asked + int(credit[1] if credit else 0) > limit, done.stderr


def test_two_simulated_nodes_and_one_daemon_are_said():
    with Node() as node, tempfile.TemporaryDirectory() as other:
        running(node)
        refused(node.mete("run", "--", "true", METE_SIM_DIR=other), "simulated node", other, status=125)
        assert "simulated node" in node.mete("doctor", METE_SIM_DIR=other).stdout
        refused(node.mete("pick", METE_SIM_DIR=other), "simulated node", other, status=1)
        refused(node.mete("pick", "--", "true", METE_SIM_DIR=other), "simulated node", other, status=1)
        for words in (("ps",), ("ps", "--json"), ("set", "sh", "weight=50")):
            done = node.mete(*words, METE_SIM_DIR=other)
            assert done.returncode == 0 and re.fullmatch(r"mete (ps|set): note: meted .*simulated node.*\n", done.stderr) and other in done.stderr, done
            assert node.mete(*words).stderr == "", words
        assert "simulated node" in plain(in_terminal(node, "ps", columns=200, METE_SIM_DIR=other))


def test_sim_settings_are_shown_with_their_values():
    with Node(METE_SIM_MEMORY="2G", METE_SIM_SLICE="3ms") as node:
        shown = node.mete("sim", "--settings").stdout
        assert re.search(r"METE_SIM_MEMORY += 2G +default model's .*\(set\)", shown), shown
        assert re.search(r"METE_SIM_SLICE += 3ms +default 2ms", shown), shown
        assert re.search(r"METE_SIM_DUPLEX += 0.72 +default 0.72", shown), shown
        for line in shown.splitlines():
            row = re.match(r"(METE_SIM_\w+) += (\S+) +default (\S+) ", line)
            assert not row or "(set)" in line or row[2] == row[3] or row[1] in node.environment, line
        # What 0 stands for is said.
        assert re.search(r"METE_SIM_SMS += model's +default model's", shown) and re.search(r"METE_SIM_RESERVED += none +default none", shown), shown
        # Everything that docs/simulator.md names, faults too: of the environment, and of the node's file.
        for name in set(re.findall(r"METE_SIM_[A-Z_]+[A-Z]", open(os.path.join(ROOT, "docs/simulator.md")).read())):
            assert re.search(rf"^{name}\w* +=", shown, re.M), name
        assert re.search(r"METE_SIM_FAULTS += none +what fails", shown), shown
        with open(os.path.join(node.environment["METE_SIM_DIR"], "faults"), "w") as file:
            file.write("alloc oom after=3\n")
        shown = node.mete("sim", "--settings", METE_SIM_FAULTS="launch fail").stdout
        assert re.search(r"METE_SIM_FAULTS += launch fail +what fails.*\(set\)\n +alloc oom after=3", shown), shown


def test_exit_statuses_are_as_documented():
    with Node() as node:
        for status, words in ((0, ("ps",)), (2, ("ps", "--colour")), (0, ("doctor",)), (2, ("doctor", "x")), (0, ("sim",)), (2, ("sim", "x")),
                              (1, ("set", "nobody", "memory=1G")), (2, ("set", "nobody", "memory=lots")), (2, ("set", "nobody", "colour=red")), (2, ("set",)), (2, ("replay",)), (0, ("pick", "-q")),
                              (1, ("pick", "-q", "--memory-free", "100G")), (2, ("pick", "--limit", "x")),
                              (127, ("pick", "-q", "--", "no-such-program")), (126, ("pick", "-q", "--", "/etc/passwd")),
                              (2, ("run", "--memory", "0", "--", "true")), (125, ("run", "--memory", "5G", "--", "true")), (2, ("run",)), (127, ("run", "--", "no-such-program"))):
            done = node.mete(*words)
            assert done.returncode == status, (words, done)
        for verb in ("run", "ps", "set", "doctor", "sim", "replay", "pick"):
            page = manual(verb)
            for section in ("EXIT STATUS", "ENVIRONMENT", "FILES", "EXAMPLES", "OPTIONS"):
                assert f".SH {section}\n" in page, (verb, section)


def complete(node, *words):
    """What bash offers for the last word."""
    script = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _mete 2>/dev/null; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", script, "bash", os.path.join(BUILD, "cli", "mete.bash"), METE, *words], env=node.environment, text=True,
                          capture_output=True)
    return done.stdout.split()


def test_completion_knows_values_tenants_and_keys_and_nothing_behind_the_dashes():
    with Node() as node:
        running(node, "--name", "trainer")
        assert complete(node, "he") == ["help"] and "pick" in complete(node, "")
        assert complete(node, "run", "--cl") == ["--class"]
        assert complete(node, "run", "--class", "") == ["interactive", "standard", "batch"]
        assert complete(node, "run", "--class", "=", "b") == ["batch"]
        assert complete(node, "run", "--memory", "") == []
        assert complete(node, "run", "--device", "") == ["0", node.ps()["devices"][0]["uuid"]]
        assert complete(node, "pick", "-o", "memory") == ["memory", "memory-free"]
        assert complete(node, "set", "") == ["trainer"]
        assert complete(node, "set", "trainer", "we") == ["weight="]
        assert complete(node, "set", "trainer", "class", "=", "i") == ["interactive"]
        assert complete(node, "help", "ru") == ["run"]
        assert complete(node, "run", "--", "--cl") == [] and complete(node, "run", "sh", "--cl") == []


# make

class Copy:
    """The tree as it is, with this build for build/plain, where `make` may write."""

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="mete-tree-")
        for name in os.listdir(ROOT):
            if name not in ("build", ".git"):
                os.symlink(os.path.join(ROOT, name), os.path.join(self.folder, name))
        os.mkdir(os.path.join(self.folder, "build"))
        os.symlink(BUILD, os.path.join(self.folder, "build", "plain"))
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder)

    def run(self, *words, **environment):
        return subprocess.run(words, cwd=self.folder, env=dict(os.environ, **environment), text=True, capture_output=True, stdin=subprocess.DEVNULL)


def below(folder):
    return sorted(os.path.join(at, name) for at, folders, files in os.walk(folder) for name in folders + files)


def test_make_lists_its_targets_and_benchmarks():
    with Copy() as tree:
        listed = tree.run("make", "help").stdout
        targets = re.search(r"^\.PHONY: (.*)$", open(os.path.join(ROOT, "Makefile")).read(), re.M)[1].split()
        for target in targets:
            assert re.search(rf"^{target} +\S", listed, re.M), (target, listed)
        benches = tree.run("make", "-s", "bench").stdout
        # Each that can be run has a line of its own, in words.
        said = dict(re.findall(r"^([\w-]+) +(.*)$", benches, re.M)[:-1])
        names = {name[:-3] for name in os.listdir(os.path.join(ROOT, "bench"))
                 if name.endswith((".sh", ".py")) and os.access(os.path.join(ROOT, "bench", name), os.X_OK)}
        assert set(said) == names, (set(said) ^ names, benches)
        assert len(set(said.values())) == len(said), benches
        for about in said.values():
            assert 20 <= len(about) <= 95 and " " in about and not about.endswith((":", ".", ",")), about


def test_uninstall_removes_what_that_install_wrote_and_nothing_else():
    with Copy() as tree, tempfile.TemporaryDirectory() as place:
        one, two = os.path.join(place, "one"), os.path.join(place, "two")
        os.makedirs(two + "/opt/bin")
        with open(two + "/opt/bin/other", "w") as other:
            other.write("another's\n")
        before = below(place)
        install = ["tools/install", "--built", "build/plain"]
        first = tree.run(*install, DESTDIR=one, PREFIX="")
        assert first.returncode == 0 and f"{one}/usr/local/bin/mete" in first.stdout, first
        second = tree.run(*install, DESTDIR=two, PREFIX="/opt")
        assert second.returncode == 0, second
        # Which one? It is not guessed.
        asked = tree.run("tools/uninstall", DESTDIR="", PREFIX="")
        assert asked.returncode == 2 and f"DESTDIR={one}" in asked.stderr and "PREFIX=/opt" in asked.stderr, asked
        assert f"{two}/opt/bin/" not in open(two + "/opt/lib/systemd/system/meted.service").read()
        assert "/opt/bin/meted" in open(two + "/opt/lib/systemd/system/meted.service").read()
        again = tree.run(*install, DESTDIR=one, PREFIX="")
        assert again.returncode == 0, again
        assert tree.run("make", "-s", "uninstall", f"DESTDIR={one}").returncode == 0
        assert not os.path.exists(one), below(one)
        with open(two + "/opt/bin/mete", "a") as changed:
            changed.write("\n")
        left = tree.run("make", "-s", "uninstall", f"DESTDIR={two}", "PREFIX=/opt")
        assert left.returncode == 0 and "opt/bin/mete" in left.stdout, left
        os.unlink(two + "/opt/bin/mete")
        assert below(place) == before, below(place)
        assert tree.run("tools/uninstall", DESTDIR="", PREFIX="").returncode == 1


def tools_installed():
    sys.path.insert(0, os.path.join(ROOT, "tools"))
    import installed
    return installed


def staged(folder):
    """A few files as meson would stage them."""
    for name in ("bin/mete", "bin/meted", "share/man/man1/mete.1"):
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        with open(os.path.join(folder, name), "w") as file:
            file.write(name)
    return folder


def test_an_installation_that_ends_halfway_can_be_removed():
    installed = tools_installed()
    with tempfile.TemporaryDirectory() as place:
        source, at = staged(os.path.join(place, "stage")), os.path.join(place, "at")
        os.makedirs(at + "/usr/local")
        before, copy = below(at), installed.copy
        for fails_at in range(3):
            copied = []

            def failing(one, to):
                if len(copied) == fails_at:
                    raise PermissionError(13, "Permission denied", to)
                copied.append(to)
                copy(one, to)

            installed.copy = failing
            try:
                installed.Manifest(at, "/usr/local").put(source)
                raise AssertionError("it did not fail")
            except PermissionError:
                pass
            finally:
                installed.copy = copy
            manifest = installed.Manifest(at, "/usr/local")
            assert manifest.exists() and manifest.remove() == [] and below(at) == before, below(at)
        # So does one over an earlier one, whose files are partly the new ones by then.
        installed.Manifest(at, "/usr/local").put(source)
        for name in ("bin/mete", "bin/meted"):
            with open(os.path.join(source, name), "w") as file:
                file.write("newer")
        copied, fails_at, installed.copy = [], 1, failing
        try:
            installed.Manifest(at, "/usr/local").put(source)
        except PermissionError:
            pass
        finally:
            installed.copy = copy
        assert installed.Manifest(at, "/usr/local").remove() == [] and below(at) == before, below(at)


def test_what_is_there_and_is_not_ours_is_not_overwritten():
    installed = tools_installed()
    with tempfile.TemporaryDirectory() as place:
        source, at = staged(os.path.join(place, "stage")), os.path.join(place, "at")
        os.makedirs(at + "/bin")
        with open(at + "/bin/meted", "w") as other:
            other.write("another's\n")
        before = below(at)
        try:
            installed.Manifest("", at).put(source)
            raise AssertionError("it did not fail")
        except FileExistsError as error:
            assert error.filename == at + "/bin/meted", error
        assert below(at) == before and open(at + "/bin/meted").read() == "another's\n"


def test_a_failed_command_is_named_and_an_interrupt_has_no_traceback():
    with Copy() as tree:
        os.unlink(os.path.join(tree.folder, "build", "plain"))
        os.mkdir(os.path.join(tree.folder, "build", "plain"))
        failed = tree.run("tools/install", "--built", "build/plain", DESTDIR=os.path.join(tree.folder, "to"))
        assert failed.returncode == 1 and "make install: `meson install` failed" in failed.stderr and "Traceback" not in failed.stderr, failed
        # Its own words are there, too.
        assert len(failed.stderr.splitlines()) > 1, failed
        for tool in ("install", "uninstall"):
            script = f"import runpy, sys, installed\ndef interrupt(*_): raise KeyboardInterrupt\ninstalled.as_owner = installed.remembered = interrupt\n" \
                     f"sys.argv = ['tools/{tool}', '--built', 'build/plain'][:{3 if tool == 'install' else 1}]\nrunpy.run_path('{ROOT}/tools/{tool}', run_name='__main__')"
            ended = tree.run(sys.executable, "-c", script, PYTHONPATH=os.path.join(ROOT, "tools"), PREFIX="", DESTDIR="")
            assert ended.returncode == -signal.SIGINT and ended.stderr == "", (tool, ended)


def test_root_that_installs_from_a_users_tree_leaves_the_build_theirs():
    if os.geteuid() != 0:
        print("skipped: nobody else can be played here")
        return
    sys.path.insert(0, os.path.join(ROOT, "tools"))
    import installed
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        os.chown(folder, 65534, 65534)
        before, installed.ROOT = installed.ROOT, folder
        try:
            os.chmod(folder, 0o777)
            installed.as_owner(["touch", os.path.join(folder, "built")])
        finally:
            installed.ROOT = before
        assert os.stat(os.path.join(folder, "built")).st_uid == 65534


def interrupted(tree, pattern, *words):
    """What a terminal shows after Ctrl-C, which is typed when it shows the pattern."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tree.folder)
        for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL"):  # of a make that runs us
            os.environ.pop(name, None)
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a job in the background, as we may be, ignores it
        os.execvp(words[0], words)
    said, typed = b"", None
    while True:
        try:
            data = os.read(terminal, 65536)
        except OSError:
            break
        if not data:
            break
        said += data
        if typed is None and re.search(pattern, said):
            typed = len(said)
            os.write(terminal, b"\x03")
    os.waitpid(pid, 0)
    os.close(terminal)
    assert typed is not None, said
    return plain(said[typed:].decode())


def test_ctrl_c_leaves_no_line_but_makes():
    with Copy() as tree:
        with open(os.path.join(tree.folder, "mk"), "w") as file:
            file.write(".PHONY: build demo\nbuild:\n\t@tools/progress building build/log sh -c 'i=0; while :; do i=$$((i+1)); echo \"[$$i/9] x\"; sleep 0.1; done'\n"
                       "demo:\n\t@tools/showcase.py --only train,notebook,inference build/plain\n")
        for target, pattern in (("build", rb"building: 2"), ("demo", rb"bare driver"), ("demo", rb"under mete run")):
            said = interrupted(tree, pattern, "make", "-f", "mk", target)
            # The programs' own results may still come. Make says that it was interrupted, or, where its child was quicker,
            # that it has none; no tool says anything.
            lines = [line for line in re.split(r"[\r\n]+", said.replace("^C", "")) if line.strip() and " ok checksum=" not in line]
            assert lines and all(line.startswith("make: *** ") for line in lines), (target, said)
            assert not re.search("Traceback|KeyboardInterrupt", said), said


def test_what_is_skipped_is_named_with_the_reason():
    rows = [{"name": "one", "result": "OK", "stdout": ""}, {"name": "two", "result": "SKIP", "stdout": "skipped: there is no GPU\n"},
            {"name": "three", "result": "OK", "stdout": "skipped: PyPI is away\n[==========] 4 test(s) run.\n"}]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as log:
        log.writelines(json.dumps(row) + "\n" for row in rows)
        log.flush()
        said = subprocess.run([os.path.join(ROOT, "tools", "tally"), log.name], text=True, capture_output=True).stdout.splitlines()
    assert said == ["skipped: two: there is no GPU", "skipped in three: PyPI is away", "5 passed, 0 failed, 1 skipped"], said


# The texts

PAGES = ["README.md"] + sorted("docs/" + name for name in os.listdir(os.path.join(ROOT, "docs")) if name.endswith(".md"))
# Run elsewhere: by tests/kubernetes/test_walkthrough.py, in a cluster.
ELSEWHERE = ("docs/kubernetes.md",)
# What make is asked for in the texts and takes long is what other tests run: `demo`, `demo_time`, `demo_memory`, the suite itself.
MAKE = '''#!/bin/sh
for target; do
	case $target in
	*=*) export "$target" ;;
	-*) ;;
	install) exec tools/install --built build/plain ;;
	uninstall) exec tools/uninstall ;;
	*) /usr/bin/make -n "$target" >/dev/null || exit 1 ;;
	esac
done
[ $# != 0 ] || exec /usr/bin/make -n >/dev/null
'''
KUBECTL = '''#!/bin/sh
# `kubectl apply -k FOLDER`: the folder is there
[ "$1 $2" = "apply -k" ] && [ -f "$3/kustomization.yaml" ]
'''


def shell_blocks(page):
    """(commands, what they must print) of each block that is marked as shell."""
    text = open(os.path.join(ROOT, page)).read()
    for found in re.finditer(r"^```sh\n(.*?)^```\n((?:\s*<!-- prints: .*? -->\n)*)", text, re.M | re.S):
        yield found[1], re.findall(r"<!-- prints: (.*?) -->", found[2])


def write_program(path, text):
    with open(path, "w") as file:
        file.write(text)
    os.chmod(path, 0o755)


def follow(page):
    """Every block of the page, in its order, in one folder: the tree as somebody has it who has built it."""
    with Copy() as tree, Node(METE_SIM_DEVICES="2xSIM") as node:
        programs = os.path.join(node.place, "bin")
        os.mkdir(programs)
        write_program(os.path.join(programs, "make"), MAKE)
        write_program(os.path.join(programs, "kubectl"), KUBECTL)
        os.symlink(METE, os.path.join(programs, "mete"))
        for name in ("train", "serve", "nightly"):  # the reader's own programs
            write_program(os.path.join(tree.folder, name), f"#!/bin/sh\nexec {workload('vector-add')} rounds=1\n")
        write_program(os.path.join(tree.folder, "serve.py"), "print('serves')\n")
        environment = dict(node.environment, PATH=programs + ":" + os.environ["PATH"], HOME=node.place)
        ran = 0
        for commands, wanted in shell_blocks(page):
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", commands], cwd=tree.folder, env=environment, text=True, capture_output=True,
                                  stdin=subprocess.DEVNULL, timeout=600)
            said = done.stdout + done.stderr
            assert done.returncode == 0, f"{page}: status {done.returncode} of\n{commands}\nwhich said\n{said}"
            for pattern in wanted:
                assert re.search(pattern, said), f"{page}: {pattern!r} is not in what\n{commands}\nsaid:\n{said}"
            ran += 1
        for name in ("nightly", "train"):
            node.mete("ps")
        return ran


def test_every_command_of_the_texts_does_what_they_say():
    for page in PAGES:
        if page not in ELSEWHERE:
            ran = follow(page)
            assert ran >= {"README.md": 5, "docs/simulator.md": 4, "docs/time.md": 1}.get(page, 0), (page, ran)


def test_output_that_cannot_be_written_is_said_once():
    with Node() as node, open("/dev/full", "w") as full:
        done = subprocess.run([METE, "ps"], env=node.environment, stdout=full, stderr=subprocess.PIPE, text=True)
        assert done.returncode == 1 and done.stderr.count("\n") == 1 and "No space left on device" in done.stderr, done


def test_what_is_said_of_a_bad_value_is_of_that_value_and_whole():
    with Node() as node:
        refused(node.mete("run", "--memory", "0.25", "--", "true"), "'0.25' has no unit", "at most all of it", status=2)
        part = node.mete("run", "--cap", "500m", "--", "true")
        refused(part, "'500m' is not how a part is written: write 50% or 500/1000", status=2)
        assert "mebibytes" not in part.stderr, part
        running(node, "--name", "big")
        refused(node.mete("set", "big", "memory=256m"), "write M for mebibytes", "at most all of it")


def test_the_texts_name_the_unit_where_it_is_installed_and_how_to_start_it():
    text = open(os.path.join(ROOT, "README.md")).read()
    assert "systemctl enable --now meted" in text
    for page in PAGES:
        for path in re.findall(r"`((?:deploy|tools|bench|examples)/[\w./-]+)`", open(os.path.join(ROOT, page)).read()):
            assert os.path.exists(os.path.join(ROOT, path)), (page, path)


def test_no_command_of_the_texts_stands_outside_a_block_that_is_run():
    """Indented lines that call mete or make are commands, too: they belong into a ```sh block."""
    for page in PAGES:
        text = re.sub(r"^```.*?^```", "", open(os.path.join(ROOT, page)).read(), flags=re.M | re.S)
        stray = re.findall(r"^    (?:\$ )?(?:mete|make|kubectl) .*$", text, re.M)
        assert not stray or page in ELSEWHERE + ("docs/HACKING.md",), (page, stray)


def test_every_example_of_the_man_pages_is_one():
    """The commands of `mete help VERB` are understood: each is run with its verb's own parser."""
    with Node() as node, Copy() as tree:
        write_program(os.path.join(tree.folder, "train"), "#!/bin/sh\n")
        for verb, command in re.findall(r'^EXAMPLE\((\w+), "((?:[^"\\]|\\.)*)"', open(os.path.join(ROOT, "cli/pages.def")).read(), re.M):
            if verb == "set" or "--watch" in command or "jq" in command or "replay" in command:
                continue
            environment = dict(node.environment, METE_SIM_DEVICES="2xSIM", METE_SIM_DIR=node.environment["METE_SIM_DIR"] + "2",
                               PATH=os.path.dirname(METE) + ":" + os.environ["PATH"])
            os.makedirs(environment["METE_SIM_DIR"], exist_ok=True)
            done = subprocess.run(["sh", "-c", command], cwd=tree.folder, env=environment, text=True, capture_output=True)
            assert done.returncode != 2 or "python3" in command, (command, done)


def test_every_column_of_ps_is_in_its_man_page():
    """And the page names none that there is not."""
    page = re.search(r"^\.SH COLUMNS\n(.*?)^\.SH ", manual("ps"), re.M | re.S)[1]
    explained = {heading for headings in entries(page) for heading in headings.split(", ")}
    columns = set()
    for source in ("ps.c", "ps_time.c"):
        with open(os.path.join(ROOT, "cli", source)) as file:
            headings = re.findall(r'^\t+\{"([^"]+)"(?:, \.|\})', file.read(), re.M)
        assert headings, source
        columns.update(headings)
    assert columns == explained, columns ^ explained


if __name__ == "__main__":
    run(globals())
