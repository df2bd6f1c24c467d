#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shares as a person asks for them and changes them: `mete run` and `mete set`, what amounts are taken, and shares within shares."""
import socket

from person import *
from meted import decode, encode


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


def test_a_mistake_that_needs_no_daemon_to_judge_is_one_of_usage():
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
        # A refusal that depends on the machine, or on the tenant's share, is no matter of usage.
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
    """The output of `mete run INNER -- PROGRAM` inside of a `mete run` with a share of 1 GiB."""
    return node.mete("run", "-q", "--name", "outer", "--memory", "1G", *outer, "--", METE, "run", "-q", *inner, "--", *program)


def test_a_nested_run_names_options_that_it_does_not_honour():
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


def test_a_nested_tenant_is_told_where_it_has_less_than_it_asked_for():
    with Node() as node:
        outer = ("--weight", "200", "--cap", "60%", "--class", "batch")
        done = within(node, "--memory", "256M", "--weight", "500", "--cap", "50%", "--class", "interactive", outer=outer)
        assert "share of tenant" in done.stderr and "(outer)" in done.stderr, done
        assert "weight 100, not 500" in done.stderr and "cap 30.0%, not 50.0%" in done.stderr and "class batch, not interactive" in done.stderr, done
        assert within(node, "--memory", "256M", "--weight", "50", "--cap", "10%", outer=outer).stderr == ""
        assert within(node, "--memory", "256M", outer=outer).stderr == ""


def test_memory_and_time_of_tenants_within_count_for_the_outer_one():
    with Node() as node:
        # A process of the inner one has come to the outer one's share: it is not reported that nothing was limited.
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


def test_ps_shows_which_tenant_is_within_which():
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


if __name__ == "__main__":
    run(globals())
