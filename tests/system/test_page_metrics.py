#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""meted --metrics on a machine without Kubernetes: the figures of devices and tenants that a node's exporter has, too."""
import re
import subprocess
import sys

from meted import *
import web

HOST = "127.0.0.1"
TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "view", "metrics.def")
SAMPLE = re.compile(r'^(\w+)\{(.*)\} (\S+)$', re.M)
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Served(Daemon):
    def __init__(self, *options):
        self.at = (HOST, free_port())
        super().__init__("--metrics", f"{HOST}:{self.at[1]}", *options)

    def text(self):
        answer = web.ask(self.at, "/metrics", host=f"{HOST}:{self.at[1]}")
        assert answer.status == 200 and answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8", answer.headers
        return answer.body

    def of(self, name, **labels):
        found = [float(value) for one, said, value in SAMPLE.findall(self.text()) if one == name and labels.items() <= dict(LABEL.findall(said)).items()]
        assert len(found) < 2, found
        return found[0] if found else None


def test_prometheus_reads_the_figures_of_a_node():
    with Served() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB", name='a/"b\\c"')
        guest = Guest(made.socket, program="train")
        guest.credit(64 * MIB)
        guest.allocated(64 * MIB)
        name = 'a/\\"b\\\\c\\"'
        until(lambda: meted.of("mete_tenant_memory_allocated_bytes", container=name) == 64 * MIB, lambda: meted.text())
        said = meted.text()
        with open(TABLE) as file:
            names = re.findall(r"^(?:DEVICE|TENANT|STATE|PROCESS)\((\w+), *(\w+),", file.read(), re.M)
        assert len(names) > 30 and re.findall(r"^# TYPE (\w+) (\w+)$", said, re.M) == names
        device = dict(LABEL.findall(next(labels for one, labels, _ in SAMPLE.findall(said) if one == "mete_device_memory_bytes")))
        assert device["gpu"] == "0" and device["UUID"].startswith("GPU-") and device["Hostname"] == socket.gethostname() and device["modelName"], device
        wanted = {"UUID": device["UUID"], "namespace": "", "pod": "", "container": name, "tenant": str(made.tenant)}
        assert meted.of("mete_tenant_memory_limit_bytes", **wanted) == GIB and meted.of("mete_tenant_processes", **wanted) == 1
        assert meted.of("mete_device_memory_promised_bytes", UUID=device["UUID"]) == GIB
        assert meted.of("gpu_process_memory_bytes", process_name="train", uuid=device["UUID"], **wanted) >= 64 * MIB
        assert meted.of("mete_tenant_state", state="computes", **wanted) or meted.of("mete_tenant_state", **wanted) == 1
        # Those are the device plugin's.
        for other in "mete_device_slots", "mete_device_healthy", "mete_device_xid_errors_total":
            assert meted.of(other) is None, other
        guest.close()
        admin.close()


def test_it_serves_nothing_else_and_changes_nothing():
    with Served() as meted:
        assert web.ask(meted.at, "/healthz").body == "ok\n"
        for path in ("/", "/v1/node", "/v1/events", "/metrics/", "/metrics/x"):
            answer = web.ask(meted.at, path)
            assert (answer.status, answer.body) == (404, "there is no such path: there are /metrics and /healthz\n"), (path, answer.body)
        assert web.ask(meted.at, "/metrics", verb="POST").status == 405
        statuses = [web.ask(meted.at, "/metrics").status for _ in range(150)]
        assert set(statuses) <= {200, 503} and statuses[0] == 200


def refused(*options):
    with tempfile.TemporaryDirectory() as place:
        done = subprocess.run([sys.argv[1], "--system", "--dir", place, "--driver", sys.argv[2], *options], capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode != 0, done
        return done.stderr


def test_an_option_of_a_nodes_meted_is_refused_elsewhere():
    assert refused("--mig-config", "/nothing") == "meted: --mig-config needs --kubernetes FILE: on another machine `mete mig apply` divides GPUs\n"
    assert refused("--no-native-limits") == "meted: --no-native-limits needs --kubernetes FILE: elsewhere the driver limits nothing by itself\n"


def test_an_address_that_cannot_be_served_is_named():
    assert "--metrics is for a machine without Kubernetes; on a node the file of --kubernetes has the key 'metrics'" in refused("--kubernetes", "/nothing", "--metrics", ":0")
    assert "--metrics: '9400' is not an address with a port" in refused("--metrics", "9400")
    assert "--metrics: 'unix:m.sock': a socket's path begins with /; accepted: " in refused("--metrics", "unix:m.sock")


if __name__ == "__main__":
    run(globals())
