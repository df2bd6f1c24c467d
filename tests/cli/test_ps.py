#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The form of `mete ps`: on terminals of every width, in pipes, with and without a daemon."""
from person import *


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


def test_the_memory_that_is_promised_is_shown_by_device_and_counts_a_tenant_within_another_once():
    with Node(METE_SIM_DEVICES="2xSIM") as node:
        large = At(node, "--device", "0", "--memory", "3G", "--name", "large")
        running(node, "--device", "0", "--memory", "2G", "--name", "outer", program=("sh", "-c", f"{METE} run --memory 1G --name inner -- sh -c 'echo here; cat >/dev/null'"))
        until(lambda: "inner" in node.mete("ps").stdout)
        # More than the 4 GiB of the first device, and nothing of the second.
        assert [device["promised_bytes"] for device in node.ps()["devices"]] == [5 * GIB, 0]
        table = node.mete("ps").stdout
        [first, second] = [line for line in table.splitlines() if "Simulated GPU" in line]
        assert "TOTAL  PROMISED  USED" in table and re.search(r"Simulated GPU +4\.00 +5\.00 +0\.", first) and re.search(r"Simulated GPU +4\.00 +0\.00 +4\.00 ", second), table
        assert node.mete("ps", "--query", "device.promised_bytes", "--format", "csv,noheader").stdout.split() == [str(5 * GIB), "0"]
        assert "PROMISED" in plain(in_terminal(node, "ps", columns=80)) and "PROMISED" not in plain(in_terminal(node, "ps", columns=40))
        assert node.mete("set", "large", "memory=1G").returncode == 0
        assert node.ps()["devices"][0]["promised_bytes"] == 3 * GIB
        large.process.terminate()
        until(lambda: node.ps()["devices"][0]["promised_bytes"] == 2 * GIB)


def test_a_state_gives_its_reason():
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


def test_a_wait_for_memory_is_shown_with_how_much_and_how_long():
    with Node() as node:
        holder = node.start("run", "--swap", "off", "--name", "first", "--", workload("train"), "steps=100000", "ballast=3G")
        until(lambda: any(t["allocated_bytes"] > 3 * GIB for t in node.ps()["tenants"]))
        node.start("run", "--swap", "off", "--wait", "10m", "--name", "second", "--", workload("train"), "steps=1", "ballast=2G")
        table = until(lambda: next((t for t in [node.mete("ps").stdout] if "waits for" in t), None))
        assert re.search(r"second .*waits for [\d.]+ GiB for \d+ s", table), table
        [waits] = [t for t in node.ps()["tenants"] if t["name"] == "second"]
        assert waits["waiting_bytes"] > 0 and waits["waiting_ns"] > 0 and waits["doing"] == "waits-for-room", waits
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



def test_the_gpu_of_each_tenant_is_shown_at_every_width_and_a_cut_state_below():
    with Node(METE_SIM_DEVICES="2xSIM") as node:
        first = At(node, "--memory", "3G", "--name", "holder", "--device", "1")
        node.mete("suspend", "holder")
        sentence = json.loads(node.mete("ps", "--json").stdout)["tenants"][0]["state"]
        for columns in (40, 60, 80, 100, 200):
            shown = plain(in_terminal(node, "ps", columns=columns))
            row = next(line for line in shown.splitlines() if "holder" in line)
            assert cell(shown, row, "GPU") == "1", shown
            assert sentence in re.sub(r"\s+", " ", shown), (sentence, shown)


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
        table = until(lambda: next((t for t in [node.mete("ps").stdout] if "waits for" in t), None))
        wanted = float(re.search(r"waits for ([\d.]+) GiB", table)[1])
        assert wanted > float(cell(table, "Simulated GPU", "FREE")), table
        total = sum(round(100 * float(cell(table, "Simulated GPU", heading))) for heading in ("USED", "FREE", "OUTSIDE"))
        assert total == 400 and cell(table, "Simulated GPU", "TOTAL") == "4.00", table
        holder.terminate()
        holder.wait()
        # Full is 100 % and nothing less; a tenant within the limit is not shown above it.
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
            assert "USED" in shown and "LIMIT" in shown and ("STATE" in shown or columns < 52 and len(re.findall("^ {4}(?:waits|has|running|idle)", shown, re.M)) == 2), (columns, shown)


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
        # The main columns of each table are there; names are as long as there is room for, and marked; a state is in full.
        for heading in ("GPU +TOTAL +USED +FREE .*FULL$", "ID +TENANT +GPU +USED +LIMIT +FULL$", "ID +PID +ALLOCATED .*PROGRAM", "OUTSIDE +GPU +PID +COMMAND",
                        "ID +TENANT +LAST SECOND"):
            assert re.search(f"^{heading}", shown, re.M), (heading, shown)
        assert re.search(rf"^11  {LONG[-63:][:9]}\S*…  +0  +\d\.\d\d  140\.00 .*\n    \w", shown, re.M), shown
        assert re.search(r"^ 1  shell  .*\n    no process has joined yet$", shown, re.M), shown
        bare.kill()
        bare.communicate()


def test_colour_is_for_terminals_and_on_request():
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


if __name__ == "__main__":
    run(globals())
