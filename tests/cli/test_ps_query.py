#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`mete ps --filter`, `--query`, `--format` and `--interval`: what programs and scripts ask for."""
import csv

from person import *


def test_a_filter_shows_some_tenants_with_their_devices_and_processes():
    with Node(METE_SIM_DEVICES="2xSIM") as node:
        At(node, "--name", "train", "--device", "0")
        At(node, "--name", "serve", "--device", "1")
        me = __import__("pwd").getpwuid(os.getuid()).pw_name
        everything = node.ps()

        def shown(words):
            found = json.loads(node.mete("ps", "--json", "--filter", words).stdout)
            return [d["index"] for d in found["devices"]], [t["name"] for t in found["tenants"]]
        assert shown("") == shown(f"user={me}") == shown(f"user={os.getuid()} steady") == ([0, 1], ["train", "serve"]), everything
        assert shown("gpu=1") == shown("device=" + everything["devices"][1]["uuid"]) == ([1], ["serve"]), everything
        assert shown("tenant=train") == shown("tenant=1") == shown("TRAIN") == ([0, 1], ["train"]) and shown("tenant=trai")[1] == [], everything
        assert shown("user=nobody,gpu=0") == ([0], [])
        table = node.mete("ps", "--processes", "--filter", "serve").stdout
        assert "serve" in table and "train" not in table and len(re.findall(r"steady$", table, re.M)) == 1, table
        assert "no tenant fits the filter" in node.mete("ps", "--filter", "nothing").stdout
        said = node.mete("ps", "--filter", "gpu=7").stdout
        assert "no device fits the filter" in said and "no tenant fits the filter" in said, said
        assert "no device fits" not in node.mete("ps", "--filter", "gpu=1,nothing").stdout
        done = node.mete("ps", "--filter", "owner=me")
        assert done.returncode == 2 and "filter 'owner=': accepted are user=, tenant=, gpu=" in done.stderr, done
        # Memory outside belongs to no tenant, but to a device.
        bare = subprocess.Popen([workload("steady"), "stdin=1", "seconds=600", "report_ms=3600000"], env=node.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        bare.stdout.readline()
        until(lambda: node.ps()["outside"])
        outside = [len(json.loads(node.mete("ps", "--json", "--filter", words).stdout)["outside"]) for words in ("gpu=0", "gpu=1", "train")]
        assert outside == [1, 0, 0], outside
        bare.kill()
        bare.wait()


def test_a_query_prints_figures_for_programs():
    with Node(METE_SIM_DEVICES="2xSIM") as node:
        At(node, "--name", 'a "name", with signs', "--device", "0", "--weight", "200")
        At(node, "--name", "b", "--device", "1", "--memory", "1G")
        every = node.ps()

        def rows(*words):
            done = node.mete("ps", *words)
            assert done.returncode == 0, done
            return list(csv.reader(done.stdout.splitlines()))
        keys = "name,limit_bytes,suspended,gate_reasons,time.by_turns,fields.weight,device.uuid"
        assert rows("--query", keys) == [keys.split(",")] + [[t["name"], str(t["limit_bytes"]), "false", " ".join(t["gate_reasons"]), "false", t["fields"]["weight"], t["device_uuid"]]
                                                            for t in every["tenants"]]
        assert rows("--query", "name", "--format", "csv,noheader", "--filter", "gpu=1") == [["b"]]
        assert rows("--query", "device.index, device.uuid", "--format", "csv,noheader") == [[str(d["index"]), d["uuid"]] for d in every["devices"]]
        # The driver has not said what it does not know: an empty field, and null.
        assert rows("--query", "name,time.driver_busy", "--format", "csv,noheader")[1] == ["b", ""]
        assert json.loads(node.mete("ps", "--json", "--query", "name,time.driver_busy,tenant").stdout)[1] == {"name": "b", "time.driver_busy": None, "tenant": 2}
        [heading, *lines] = rows("--format", "csv")
        assert heading == [key for key, value in every["tenants"][0].items() if not isinstance(value, dict) and key != "processes"] and len(lines) == 2, heading
        for words, said in ((("--query", "nam"), "--query 'nam': no such key; did you mean 'name'? Accepted are"), (("--query", "used"), "did you mean 'used_bytes'?"), (("--query", "device.modle"), "did you mean 'device.model'?"), (("--query", "x"), "no such key; accepted"), (("--query", "device.name"), "no such key"), (("--query", "fields.color"), "no such key"), (("--query", ""), "no such key"),
                            (("--format", "xml"), "--format 'xml': accepted are table, csv, csv,noheader and json"), (("--query", "name", "--format", "table"), "accepted are with --query csv"),
                            (("-n", "0"), "--interval '0s' is too little"), (("-n", "x"), "--interval 'x'")):
            done = node.mete("ps", *words)
            assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1 and not done.stdout, (words, done)


def test_what_would_be_ignored_is_refused():
    with Node() as node:
        for words, said in ((("--processes", "--query", "name"), "--processes means nothing with --query and with csv"), (("-p", "--format", "csv"), "--processes means nothing with"),
                            (("--json", "--format", "csv"), "--json and --format 'csv': accepted is one of them"), (("-j", "--format", "table"), "--json and --format 'table'")):
            done = node.mete("ps", *words)
            assert done.returncode == 2 and done.stderr.startswith("mete ps: " + said) and not done.stdout, (words, done)
        for words in (("--json", "--format", "json"), ("--json", "--query", "device.index"), ("--json", "--processes"), ("--format", "table", "--processes")):
            assert node.mete("ps", *words).returncode == 0, words


def test_an_interval_repeats():
    with Node() as node:
        running(node, "--name", "one")
        process = subprocess.Popen([METE, "ps", "-n", "0.1", "--query", "name"], env=node.environment, stdout=subprocess.PIPE, text=True)
        assert [process.stdout.readline() for _ in range(6)] == ["name\n", "one\n"] * 3
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=240) == -signal.SIGINT


if __name__ == "__main__":
    run(globals())
