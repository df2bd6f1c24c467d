#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The first hour with mete, as a person has it: what amounts are taken, what is said without being asked, what is refused
and how. What `mete ps` looks like: test_ps.py; what make does: test_make.py; the texts: test_texts.py."""
import socket

from person import *
from meted import decode, encode

# Each that there is.
VERBS = re.findall(r"^COMMAND\((\w+),", open(os.path.join(ROOT, "cli/commands.def")).read(), re.M)


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
        # Nothing changed on the way, not even for a moment: meted's log has those that were accepted.
        assert "key=weight" not in node.daemon_log() and "key=class" not in node.daemon_log(), node.daemon_log()
        refused(node.mete("set", "big", "weight=50", "weight=60"), "weight is given twice: 50 and 60", status=2)


def test_several_fields_are_not_set_one_by_one_where_meted_is_too_old_to_set_them_at_once():
    with tempfile.TemporaryDirectory(prefix="mete-old-") as place:
        os.mkdir(place + "/mete", 0o700)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(place + "/mete/admin.sock")
        listener.listen()
        environment = dict(os.environ, XDG_RUNTIME_DIR=place, LD_LIBRARY_PATH=os.path.join(BUILD, "sim", "lib"), METE_SIM_DIR=place)
        setting = subprocess.Popen([METE, "set", "big", "weight=50", "class=batch"], env=environment, text=True, stderr=subprocess.PIPE)
        old, _ = listener.accept()
        kinds = []
        while data := old.recv(4096):
            message = decode(data)
            kinds.append(message.kind)
            answer = encode("admin_welcome", message.id, major=1, minor=1) if message.kind == "admin_hello" else encode("end", message.id)
            old.send(answer)
        said = setting.communicate(timeout=240)[1]
        assert setting.returncode == 1 and "changes one field at a time" in said and "tenant_set" not in kinds, (said, kinds)


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
               ("--on-daemon-loss", "panic"), ("--device", ""), ("--device", ","), ("--device", "0,"), ("--name", ""), ("--name", "7"), ("--weight", ""))
        for option, value in bad:
            refused(node.mete("run", option, value, "--", "true"), f"{option}", "accepted", status=2)
        for option in ("--memory", "-m", "--weight"):
            refused(node.mete("run", option, "--", "true"), f"option '{'--memory' if option == '-m' else option}' needs a value", status=2)
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
        for verb in VERBS:
            assert node.mete("help", verb).stdout == node.mete(verb, "--help").stdout
            shown = node.mete("help", verb).stdout.split("\nExamples:\n")[1].split("\nExit status:\n")
            assert len(shown) == 2 and "mete " + verb in shown[0] and re.match("  [0N] ", shown[1]), shown
        assert "Verbs:" in node.mete("help").stdout
        assert node.mete("help", "dance").returncode == 2
        for words in (("help", "help"), ("help", "--help"), ("help", "-h"), ("--help",)):
            done = node.mete(*words)
            assert done.returncode == 0 and done.stdout == node.mete("help").stdout and not done.stderr, (words, done)
        # One paragraph for each thing that is replayed.
        shown = node.mete("help", "replay").stdout
        for word in ("--placement: ", "--time: ", "--memory: "):
            assert "\n\n" + word in shown, shown


def test_no_help_is_wider_than_a_terminal():
    with Node() as node:
        meted = subprocess.run([os.path.join(BUILD, "node", "meted"), "--help"], text=True, capture_output=True, check=True).stdout
        for shown in (meted, node.mete("help").stdout, *(node.mete("help", verb).stdout for verb in VERBS)):
            # But for what is to be typed as one line.
            wide = [line for line in shown.splitlines() if len(line) > 79 and not line.startswith("Usage: ")]
            assert not wide, wide
        # What an option means is under its name, also if that is a long one.
        assert max(len(line) - len(line.lstrip()) for line in meted.splitlines()) == 25, meted


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


def test_sim_lists_a_process_on_the_devices_that_it_uses_and_nowhere_else():
    with Node(METE_SIM_DEVICES="3xSIM") as node:
        At(node, "--device", "1", "--name", "second")
        shown = node.mete("sim").stdout
        devices = re.split(r"^device \d+: ", shown, flags=re.M)[1:]
        assert ["(steady)" in one for one in devices] == [False, True, False], shown
        # meted looks at all of them and uses none: it is named once.
        assert shown.count("(meted)") == 1 and re.search(r"^on no device: .*\(meted\)", shown, re.M), shown


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
                              (1, ("set", "nobody", "memory=1G")), (2, ("set", "nobody", "memory=lots")), (2, ("set", "nobody", "colour=red")), (2, ("set",)), (2, ("suspend",)), (1, ("suspend", "nobody")), (2, ("resume",)), (1, ("resume", "nobody")), (2, ("replay",)), (0, ("pick", "-q")),
                              (1, ("pick", "-q", "--memory-free", "100G")), (2, ("pick", "--limit", "x")),
                              (127, ("pick", "-q", "--", "no-such-program")), (126, ("pick", "-q", "--", "/etc/passwd")),
                              (2, ("run", "--memory", "0", "--", "true")), (125, ("run", "--memory", "5G", "--", "true")), (2, ("run",)), (127, ("run", "--", "no-such-program"))):
            done = node.mete(*words)
            assert done.returncode == status, (words, done)
        for verb in VERBS:
            page = manual(verb)
            for section in ("EXIT STATUS", "ENVIRONMENT", "FILES", "EXAMPLES", "OPTIONS"):
                assert re.search(rf"^\.SH {section}\n\.TP\n", page, re.M), (verb, section)  # and it is not empty


def complete(node, *words):
    """What bash offers for the last word."""
    script = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _mete 2>/dev/null; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", script, "bash", os.path.join(BUILD, "cli", "mete.bash"), METE, *words], env=node.environment, text=True,
                          capture_output=True)
    return done.stdout.split()


def test_a_mistyped_word_is_seen_through_in_the_last_line():
    with Node() as node:
        for words, said in ((["rnu"], "mete: unknown verb 'rnu'; did you mean 'run'?"), (["suspnd", "x"], "mete: unknown verb 'suspnd'; did you mean 'suspend'?"),
                            (["zzz"], "mete: unknown verb 'zzz'"), (["help", "pss"], "mete: unknown verb 'pss'; did you mean 'ps'?"),
                            (["run", "--memroy", "4G", "--", "true"], "mete run: unknown option '--memroy'; did you mean '--memory'? `mete run --help` lists them"),
                            (["run", "--wieght=4", "--", "true"], "mete run: unknown option '--wieght=4'; did you mean '--weight'? `mete run --help` lists them"),
                            (["ps", "--nothing-like-it"], "mete ps: unknown option '--nothing-like-it'; `mete ps --help` lists them"),
                            (["set", "a", "wight=1"], "mete set: 'wight' is not a field of a share; did you mean 'weight'?")):
            done = node.mete(*words)
            assert done.returncode == 2 and not done.stdout and done.stderr.splitlines()[-1] == said, (words, done)


def test_without_a_driver_the_simulated_one_is_named():
    with Node() as node:
        node.environment.pop("LD_LIBRARY_PATH")
        done = node.mete("run", "--", "true", METE_DRIVER="/nowhere")
        assert done.returncode == 125 and f"or try the simulated one: LD_LIBRARY_PATH={BUILD}/sim/lib" in done.stderr, done


def test_completion_offers_files_only_where_one_is_wanted():
    script = os.path.join(BUILD, "cli", "mete.bash")
    told = subprocess.run(["bash", "-c", 'source "$1"; complete -p mete', "-", script], text=True, capture_output=True, check=True).stdout
    assert told == "complete -F _mete mete\n", told


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
        for verb in ("suspend", "resume", "why"):
            assert complete(node, verb, "") == ["trainer"] and complete(node, verb, "trainer", "") == [] and complete(node, verb, "--h") == ["--help"], verb
        assert complete(node, "set", "trainer", "we") == ["weight="]
        assert complete(node, "run", "--idle", "p") == complete(node, "set", "trainer", "idle", "=", "p") == ["park", "park:"]
        assert complete(node, "run", "--mode", "") == ["best-effort", "equal", "fixed:"]
        assert complete(node, "set", "trainer", "class", "=", "i") == ["interactive"]
        assert complete(node, "help", "ru") == ["run"]
        assert complete(node, "run", "--", "--cl") == [] and complete(node, "run", "sh", "--cl") == []


def test_success_of_suspend_and_resume_says_what_moved():
    with Node() as node:
        program = node.start("run", "--name", "it", "--swap", "auto", "--", workload("steady"), "memory=300M", "stdin=1", "seconds=3600", "report_ms=50")
        assert program.stdout.readline(), program.stderr.read()
        assert node.mete("suspend", "--wait", "1h", "it").stdout == "it stands still until `mete resume`: 300MiB of it are in the host's memory\n"
        assert node.ps()["tenants"][0]["out_bytes"] == 300 * MIB, "it was said when it was so"
        assert node.mete("resume", "it").stdout == "it goes on; 300MiB of it come back to the device when its programs use it\n"
        assert node.mete("resume", "it").stdout == "it was not suspended\n"


def test_suspend_of_who_does_not_drain_says_that_its_memory_is_still_moving_out():
    with Node() as node:
        program = node.start("run", "--name", "it", "--swap", "auto", "--", workload("steady"), "memory=300M", "stdin=1", "seconds=3600", "report_ms=50")
        assert program.stdout.readline(), program.stderr.read()
        [pid] = {row["pid"] for row in node.ps()["tenants"][0]["processes"]}
        os.kill(pid, signal.SIGSTOP)
        still = "it stands still until `mete resume`: 300MiB of it are still moving out (mete ps says how far it is)\n"
        said = node.mete("suspend", "--wait", "100ms", "it")
        assert said.stdout == still, said
        assert node.mete("suspend", "--wait", "0s", "it").stdout == still, "again, and not waited for"
        os.kill(pid, signal.SIGCONT)
        assert node.mete("suspend", "--wait", "1h", "it").stdout == "it stands still until `mete resume`: 300MiB of it are in the host's memory\n"


def test_output_that_cannot_be_written_is_said_once():
    with Node() as node, open("/dev/full", "w") as full:
        for words in (["ps"], ["why"], ["ps", "--json"], ["doctor"], ["pick", "--quiet"], ["sim"], ["sim", "--settings"], ["--version"], ["help"], ["help", "ps"], ["ps", "--help"]):
            done = subprocess.run([METE, *words], env=node.environment, stdout=full, stderr=subprocess.PIPE, text=True)
            assert done.returncode == 1 and done.stderr.count("\n") == 1 and "No space left on device" in done.stderr, (words, done)
        meted = subprocess.run([os.path.join(BUILD, "node", "meted"), "--help"], stdout=full, stderr=subprocess.PIPE, text=True)
        assert meted.returncode == 1 and "No space left on device" in meted.stderr, meted


def test_what_is_said_of_a_bad_value_is_of_that_value_and_whole():
    with Node() as node:
        refused(node.mete("run", "--memory", "0.25", "--", "true"), "'0.25' has no unit", "at most all of it", status=2)
        for value in "1", "4.5":  # bare bytes are accepted where they can be meant
            refused(node.mete("run", "--memory", value, "--", "true"), f"'{value}' has no unit, which only whole bytes from 1048576 on may lack", status=2)
        part = node.mete("run", "--cap", "500m", "--", "true")
        refused(part, "'500m' is not how a part is written: write 50% or 500/1000", status=2)
        assert "mebibytes" not in part.stderr, part
        running(node, "--name", "big")
        refused(node.mete("set", "big", "memory=256m"), "write M for mebibytes", "at most all of it")


if __name__ == "__main__":
    run(globals())
