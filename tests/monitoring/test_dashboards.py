#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Dashboards, rules and documents ask for what there is: test_dashboards.py METED SIMULATOR BUILD. A real meted, with pods that
share a simulated GPU, and a real Prometheus that asks it."""
import json
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "plugin"))
from metrics import Metrics  # noqa: E402
from node import until  # noqa: E402
from prometheus import ALL, MONITORING, ROOT, await_figures, complaints, dashboards, panels, promtool, rules, server, variables  # noqa: E402
from runner import run  # noqa: E402

NAME = re.compile(r"\b(?:mete|gpu)_[a-z_]+\b")
RECORDED = re.compile(r"\bmete:\w+:\w+\b")
ELSEWHERE = {"gpu_time_lacking"}  # a name that docs/monitoring.md gives in the adapter's configuration


def expressions():
    """(where, text) of all that names metrics."""
    yield from ((f"{name}: {title}", expression) for name, title, expression in panels())
    yield from (("rules.yaml", line) for line in re.findall(r"expr: '(.*)'", rules()))
    with open(os.path.join(ROOT, "docs", "monitoring.md")) as file:
        yield from (("docs/monitoring.md", name) for name in re.findall(r"(?:mete|gpu)[_:][a-z_:0-9]*[a-z0-9]\b", file.read()))


def test_every_name_is_one_that_meted_serves_or_a_rule_records():
    with Metrics() as metrics:
        served = set(re.findall(r"^# TYPE (\w+) ", metrics.text(), re.M))
    recorded = set(re.findall(r"- record: (\S+)", rules()))
    missing = {(where, name) for where, text in expressions() for name in NAME.findall(re.sub(RECORDED, "", text)) if name not in served | ELSEWHERE}
    missing |= {(where, name) for where, text in expressions() for name in RECORDED.findall(text) if name not in recorded}
    assert not {(where, name) for where, name in missing if name not in ("mete_device_", "mete_tenant_", "mete_plugin_")}, missing
    assert len(served) > 30 and len(list(panels())) > 25


def test_every_expression_of_a_panel_is_one():
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write("groups:\n- name: panels\n  rules:\n")
        for number, (_, _, expression) in enumerate(panels()):
            file.write(f"  - record: panel:{number}\n    expr: '{expression}'\n")
        file.flush()
        assert f"{len(list(panels()))} rules found" in promtool("check", "rules", file.name)


def test_served_metrics_keep_prometheus_conventions():
    with Metrics() as metrics:
        metrics.node.run("a", metrics.node.id(0))
        # DCGM's label modelName is in camel case.
        other = [line for line in complaints(metrics.text()) if not line.endswith("label names should be written in 'snake_case' not 'camelCase'")]
        assert not other, other


def test_every_panel_has_data_where_pods_share_a_gpu():
    with Metrics(devices="1xSIM", most={"weight": 1000}) as metrics:
        pods = [metrics.node.run(f"p{n}", metrics.node.id(n), annotations={"weight": str(100 + n)}) for n in range(2)]
        with metrics.steady(pods[0]), metrics.steady(pods[1]), server(f"127.0.0.1:{metrics.port}") as prometheus:
            selected = await_figures(prometheus, until)
            assert set(selected) == set(ALL) and selected["pod"] == "p0", selected
            # A choice in one list narrows the next.
            # Of a claim, and without Kubernetes, there is no pod to choose by.
            assert all('container=~"' in expression for name, _, expression in panels() if name == "tenant.json")
            for name, variable, series, label in variables(**selected):
                assert selected[variable] in {row["metric"][label] for row in prometheus.query(series)}, (name, variable)
                assert variable == "node" or not prometheus.query(series.replace(selected["node"], "elsewhere")), (name, variable)
            # Mostly nobody waits, and here is no claim.
            for name in set(re.findall(r"- record: (\S+)", rules())) - {"mete:device_waiting_tenants:count", "mete:claim_time_lacking:ratio"}:
                until(lambda: prometheus.query(name), f"nothing is recorded as {name}")
            assert [row["metric"]["pod"] for row in prometheus.query('mete_tenant_memory_limit_bytes{pod="p0"}')] == ["p0"], "the pod's name, not Prometheus'"


def test_each_panel_is_one_by_grafanas_model():
    for name, dashboard in dashboards():
        numbers, places = [panel["id"] for panel in dashboard["panels"]], []
        assert len(set(numbers)) == len(numbers), f"{name}: two panels have the same number"
        assert re.fullmatch(r"[a-z-]{1,40}", dashboard["uid"]) and dashboard["schemaVersion"] >= 38 and "id" not in dashboard, name
        named = {variable["name"] for variable in dashboard["templating"]["list"]}
        assert set(re.findall(r"\$\{?(\w+)", json.dumps(dashboard))) <= named | {"__rate_interval", "__all"}, f"{name}: a variable that is not there"
        for panel in dashboard["panels"]:
            letters = [target["refId"] for target in panel["targets"]]
            assert letters and len(set(letters)) == len(letters) and panel["type"] in ("stat", "timeseries", "bargauge", "table", "state-timeline"), (name, panel["title"])
            assert {panel["datasource"]["uid"], *(target["datasource"]["uid"] for target in panel["targets"])} == {"${datasource}"}, (name, panel["title"])
            at = panel["gridPos"]
            assert 0 <= at["x"] and 0 < at["w"] and at["x"] + at["w"] <= 24 and at["h"] > 0, (name, panel["title"], at)
            for other, there in places:
                apart = at["x"] >= there["x"] + there["w"] or there["x"] >= at["x"] + at["w"] or at["y"] >= there["y"] + there["h"] or there["y"] >= at["y"] + at["h"]
                assert apart, f"{name}: {panel['title']} lies upon {other}"
            places.append((panel["title"], at))


def test_the_kustomization_has_each_file():
    text = open(os.path.join(MONITORING, "kustomization.yaml")).read()
    there = {name for name in os.listdir(MONITORING) if name.endswith(".yaml")} - {"kustomization.yaml", "podmonitor.yaml"}
    assert there == set(re.findall(r"^- (\S+\.yaml)$", text, re.M)), there
    assert set(re.findall(r"dashboards/[\w.]+", text)) == {"dashboards/" + name for name in os.listdir(MONITORING + "/dashboards")}


if __name__ == "__main__":
    run(globals())
