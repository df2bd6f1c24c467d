# SPDX-License-Identifier: Apache-2.0
"""promtool and Prometheus from Debian's package, unpacked and never installed.

    promtool()      its path; raises Skipped, with the reason and what to do, where it cannot be had
    server(...)     a Prometheus that scrapes an address
"""
import contextlib
import fcntl
import json
import math
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
from runner import Skipped, needed, require  # noqa: E402

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
MONITORING = os.path.join(ROOT, "deploy", "monitoring")
KEPT = os.path.expanduser("~/.cache/mete/prometheus")  # for other builds, too


def fetch(folder):
    with tempfile.TemporaryDirectory(dir=os.path.dirname(folder)) as new:
        try:
            done = subprocess.run(["apt-get", "download", "-qq", "prometheus"], cwd=new, stdin=subprocess.DEVNULL, text=True, capture_output=True, timeout=300)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Skipped(f"Debian's package prometheus cannot be fetched: {error}; {needed.NEEDS['prometheus'].remedy}") from None
        packages = [name for name in os.listdir(new) if name.endswith(".deb")]
        if done.returncode or not packages:
            said = [line for line in done.stderr.splitlines() if line.startswith("E:")] or ["no package came"]
            raise Skipped(f"Debian's package prometheus cannot be fetched: {said[0].removeprefix('E: ')}; {needed.NEEDS['prometheus'].remedy}")
        subprocess.run(["dpkg-deb", "-x", os.path.join(new, packages[0]), new + "/root"], check=True)
        os.rename(new + "/root", folder)


def program(name):
    found = shutil.which(name)
    if found:
        return found
    require("prometheus")
    os.makedirs(os.path.dirname(KEPT), exist_ok=True)
    with open(KEPT + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.isdir(KEPT):
            fetch(KEPT)
    return os.path.join(KEPT, "usr", "bin", name)


def promtool(*words):
    """Its output; AssertionError if it finds a mistake."""
    done = subprocess.run([program("promtool"), *words], text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def complaints(text):
    """promtool's findings about metrics."""
    done = subprocess.run([program("promtool"), "check", "metrics"], input=text, text=True, capture_output=True)
    return [line for line in (done.stdout + done.stderr).splitlines() if line]


def rules():
    """The file of rules that the operator makes of the manifest, by its comment."""
    text = open(os.path.join(MONITORING, "rules.yaml")).read()
    return "".join(line.removeprefix("  ") + "\n" for line in text.split("\nspec:\n", 1)[1].splitlines())


ALL = {"node": ".*", "namespace": ".*", "pod": ".*", "container": ".*"}  # what is selected, by Grafana's variables


def dashboards():
    """(name, dashboard) of each."""
    for name in sorted(os.listdir(os.path.join(MONITORING, "dashboards"))):
        with open(os.path.join(MONITORING, "dashboards", name)) as file:
            yield name, json.load(file)


def panels(**selected):
    """(dashboard, title, expression) of each query."""
    for name, dashboard in dashboards():
        for panel in dashboard["panels"]:
            for target in panel["targets"]:
                yield name, panel["title"], filled(target["expr"], **selected)


def variables(**selected):
    """(dashboard, variable, expression whose samples have its values, their label) of what a person selects from a list."""
    for name, dashboard in dashboards():
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "query":
                series, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"]).groups()
                yield name, variable["name"], filled(series, **selected), label


def filled(expression, **selected):
    """As Grafana fills its variables; usually everything is selected."""
    for name, value in {"__rate_interval": "1m", **ALL, **selected}.items():
        expression = expression.replace("$" + name, value)
    return expression


def has_figures(rows):
    return rows and all(math.isfinite(float(row["value"][1])) for row in rows)


def choose(prometheus, until):
    """{variable: the first value that its list offers}"""
    selected = {}
    for name, variable, series, label in variables():
        rows = until(lambda: prometheus.query(series), f"{name}: ${variable} has nothing to select: {series}")
        offered = sorted({row["metric"].get(label, "") for row in rows})
        assert all(offered), (name, variable, rows)
        assert selected.setdefault(variable, offered[0]) == offered[0], "the dashboards have the same lists"
    return selected


def await_figures(prometheus, until):
    """Until each panel shows figures, of everything and of what its lists offer first; what that is. `until(holds, what)` is the caller's,
    with his patience."""
    selected = choose(prometheus, until)
    for name, title, expression in (*panels(), *panels(**selected)):
        assert "$" not in expression, (name, title, expression)
        until(lambda: has_figures(prometheus.query(expression)), f"{name}: {title} shows no figures: {expression}")
    return selected


class Server:
    def __init__(self, port):
        self.url = f"http://127.0.0.1:{port}/api/v1/query?"

    def query(self, expression):
        """The samples; [] while it is not up."""
        try:
            with urllib.request.urlopen(self.url + urllib.parse.urlencode({"query": expression}), timeout=60) as answer:
                return json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as error:
            if error.code == 503:
                return []
            raise AssertionError(f"{expression}: {error.read().decode()}") from None
        except OSError:
            return []


@contextlib.contextmanager
def server(target):
    """It scrapes that address every second, as the job mete."""
    with socket.socket() as free, tempfile.TemporaryDirectory(prefix="mete-prometheus-") as place:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        with open(place + "/rules.yaml", "w") as file:
            file.write(rules())
        with open(place + "/prometheus.yml", "w") as file:
            json.dump({"global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "rule_files": ["rules.yaml"],
                       "scrape_configs": [{"job_name": "mete", "honor_labels": True, "static_configs": [{"targets": [target]}]}]}, file)
        with open(place + "/log", "w") as log:
            process = subprocess.Popen([program("prometheus"), f"--config.file={place}/prometheus.yml", f"--storage.tsdb.path={place}/data",
                                        f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"], stdout=log, stderr=log)
        try:
            yield Server(port)
        finally:
            process.terminate()
            process.wait()
