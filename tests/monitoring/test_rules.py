#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""deploy/monitoring/rules.yaml: each alert fires where it should and not a step before, and has a runbook."""
import json
import os
import re
import tempfile

from prometheus import MONITORING, ROOT, promtool, rules
from runner import run

DEVICE = '{gpu="0",UUID="GPU-1",Hostname="n"}'
POD = '{gpu="0",Hostname="n",namespace="ns",pod="p"}'


def state(word):
    return f'mete_tenant_state{POD[:-1]},state="{word}"}}'


# Of each alert: series in which it fires after an hour, and series that are as near as can be and do not concern it. Values are of
# each minute, as promtool writes them: 1x60 is 61 times 1, 0+1x60 counts.
CASES = {
    "MeteAbsent": ({'up{job="mete",instance="n"}': "0x60"}, {'up{job="mete",instance="n"}': "1x56 0 0 0 0", 'up{job="other"}': "0x60"}),
    "MeteNotRegistered": ({"mete_plugin_registered": "0x60"}, {"mete_plugin_registered": "1x56 0 0 0 0"}),
    "MeteApiServerUnreachable": ({"mete_plugin_api_server": "0x60"}, {"mete_plugin_api_server": "1x51 0x8"}),
    "MeteContainersRefused": ({"mete_plugin_refused_total": "0x54 1x5"}, {"mete_plugin_refused_total": "7x60"}),
    "MeteDeviceUnhealthy": ({"mete_device_healthy" + DEVICE: "0x60"}, {"mete_device_healthy" + DEVICE: "1x59 0"}),
    "MeteXidErrors": ({"mete_device_xid_errors_total" + DEVICE: "0x54 2x5"}, {"mete_device_xid_errors_total" + DEVICE: "2x60"}),
    "MeteDeviceMemoryOutside": ({"mete_device_memory_outside_bytes" + DEVICE: "11x60", "mete_device_memory_bytes" + DEVICE: "100x60"},
                                {"mete_device_memory_outside_bytes" + DEVICE: "10x60", "mete_device_memory_bytes" + DEVICE: "100x60"}),
    "MeteStrangers": ({"mete_plugin_strangers": "1x60"}, {"mete_plugin_strangers": "0x56 1x3"}),
    "MeteTenantOverLimit": ({"mete_tenant_over_limit" + POD: "1x60"}, {"mete_tenant_over_limit" + POD: "0x56 1x3"}),
    "MeteTenantHangs": ({state("hangs"): "1x60"}, {state("long-kernel"): "1x60"}),
    "MeteTenantStuck": ({"mete_tenant_stuck" + POD: "1x60"}, {"mete_tenant_stuck" + POD: "0x56 1x3"}),
    # The reason of its wait may change meanwhile.
    "MeteTenantWaitsForMemory": ({state("waits-for-room"): "1x50 _x10", state("waits-for-memory"): "_x50 1x10"}, {state("waits-for-turn"): "1x60"}),
    "MeteTenantLacksTime": ({"mete_tenant_time_lacking_ratio" + POD: "0.3x60"}, {"mete_tenant_time_lacking_ratio" + POD: "0.2x60"}),
    "MeteTenantIdle": ({"mete_tenant_since_last_launch_seconds" + POD: "86401x60", "mete_tenant_memory_allocated_bytes" + POD: "5x60"},
                       {"mete_tenant_since_last_launch_seconds" + POD: "90000x60", "mete_tenant_memory_allocated_bytes" + POD: "0x60"}),
}


def alerts():
    """{name: its runbook}"""
    return dict(re.findall(r"- alert: (\w+)\n(?:.*\n)*?\s+runbook_url: (\S+)", rules()))


def question(name, series, fires):
    return {"interval": "1m", "input_series": [{"series": at, "values": values} for at, values in series.items()],
            "promql_expr_test": [{"expr": f'count(ALERTS{{alertname="{name}",alertstate="firing"}}) or vector(0)', "eval_time": "60m",
                                  "exp_samples": [{"labels": "{}", "value": int(fires)}]}]}


def test_the_rules_are_rules():
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(rules())
        file.flush()
        assert f"{len(alerts()) + rules().count('- record: ')} rules found" in promtool("check", "rules", file.name)


def test_each_alert_fires_once_in_its_situation():
    assert set(CASES) == set(alerts()), set(CASES) ^ set(alerts())
    with tempfile.TemporaryDirectory() as place:
        with open(place + "/rules.yaml", "w") as file:
            file.write(rules())
        tests = [question(name, CASES[name][quiet], not quiet) for name in CASES for quiet in (False, True)]
        with open(place + "/test.yaml", "w") as file:  # JSON is YAML
            json.dump({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests}, file)
        assert "SUCCESS" in promtool("test", "rules", place + "/test.yaml")


def test_an_alert_about_a_tenant_names_it():
    """Of a claim the label `pod` is empty, and without Kubernetes `namespace` as well."""
    who = "{{ if $labels.pod }}{{ $labels.namespace }}/{{ $labels.pod }}/{{ end }}{{ $labels.container }}"
    about = [(name, rest) for name, rest in re.findall(r"- alert: (\w+)\n((?:.*\n)*?)\s+runbook_url", rules()) if "mete_tenant_" in rest]
    assert len(about) > 4 and all(who in rest for _, rest in about), about
    tests = []
    for labels, named in (({"namespace": "ns", "pod": "p", "container": "c"}, "ns/p/c"), ({"namespace": "ns", "pod": "", "container": "ns/claim"}, "ns/claim"),
                          ({"namespace": "", "pod": "", "container": "train"}, "train")):
        series = "mete_tenant_over_limit{" + ",".join(f'{key}="{value}"' for key, value in labels.items()) + "}"
        tests.append({"interval": "1m", "input_series": [{"series": series, "values": "1x60"}], "alert_rule_test": [{
            "eval_time": "60m", "alertname": "MeteTenantOverLimit", "exp_alerts": [{
                "exp_labels": {"severity": "warning", **{key: value for key, value in labels.items() if value}},
                "exp_annotations": {"summary": f"{named} has more memory than its limit", "description": "As the driver measures it.", "runbook_url": alerts()["MeteTenantOverLimit"]}}]}]})
    with tempfile.TemporaryDirectory() as place:
        with open(place + "/rules.yaml", "w") as file:
            file.write(rules())
        with open(place + "/test.yaml", "w") as file:
            json.dump({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests}, file)
        assert "SUCCESS" in promtool("test", "rules", place + "/test.yaml")


def test_what_pods_and_claims_lack_is_recorded_under_their_names():
    """What scales a deployment asks for it. A claim's tenant has no pod, and is called NAMESPACE/CLAIM; on a machine without Kubernetes there is neither."""
    holders = [('namespace="ns",pod="p",container="c"', "0.1x60"), ('namespace="ns",pod="p",container="d"', "0.3x60"),
               ('namespace="ns",pod="",container="ns/claim"', "0.2x60"), ('namespace="ns",pod="",container="ns/one+other"', "0.4x60"),
               ('namespace="",pod="",container="train"', "0.9x60")]
    series = [{"series": f'mete_tenant_time_lacking_ratio{{gpu="0",{holder}}}', "values": values} for holder, values in holders]
    wanted = {"mete:pod_time_lacking:ratio": {'{namespace="ns",pod="p"}': 0.3}, "mete:claim_time_lacking:ratio": {'{namespace="ns",claim="claim"}': 0.2, '{namespace="ns",claim="one+other"}': 0.4}}
    asked = [{"expr": name, "eval_time": "30m", "exp_samples": [{"labels": name + labels, "value": value} for labels, value in rows.items()]} for name, rows in wanted.items()]
    with tempfile.TemporaryDirectory() as place:
        with open(place + "/rules.yaml", "w") as file:
            file.write(rules())
        with open(place + "/test.yaml", "w") as file:
            json.dump({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [{"interval": "1m", "input_series": series, "promql_expr_test": asked}]}, file)
        assert "SUCCESS" in promtool("test", "rules", place + "/test.yaml")


def test_each_alert_has_a_runbook():
    text = open(os.path.join(ROOT, "docs", "runbooks.md")).read()
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", text, re.M | re.S))
    assert set(sections) == set(alerts()), set(sections) ^ set(alerts())
    for name, url in alerts().items():
        assert url == f"https://mete.dev/docs/runbooks#{name.lower()}", url
        assert "**Then**" in sections[name] and "**Means**" in sections[name], name


def test_the_monitors_ask_at_meteds_address():
    def there(name):
        return open(os.path.join(MONITORING, name)).read()

    selected = re.compile(r"app\.kubernetes\.io/name: mete\b")
    assert re.search(r"\{name: metrics, containerPort: 9400\}", open(os.path.join(ROOT, "deploy", "base", "daemonset.yaml")).read())
    for name in "service.yaml", "servicemonitor.yaml", "podmonitor.yaml":
        assert selected.search(there(name)) and "metrics" in there(name), name
    assert "honorLabels: true" in there("servicemonitor.yaml") and "honorLabels: true" in there("podmonitor.yaml")


if __name__ == "__main__":
    run(globals())
