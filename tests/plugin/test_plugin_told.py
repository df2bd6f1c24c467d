#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""meted's reports of itself on a node: sums in the node's status, metrics, probes; and it ends at once."""
import http.client
import os
import time

from node import *
from meted import run


def test_the_scheduler_chooses_the_device_of_opaque_ids():
    with Node(ids="slot", slots=2, overcommit="150%") as node:
        assert sorted(node.kubelet.await_devices(lambda now: len(now) == 4)) == [f"slot-00{n}" for n in range(4)]
        capacity = until(lambda: (there := node.api.node()["status"]["capacity"]).get("mete.dev/gpu-milli") and there)
        assert capacity["mete.dev/gpu-milli"] == "2k" and int(capacity["mete.dev/gpu-memory"]) == 12 * GIB, capacity
        pod = node.pod("a", marks={"mete.dev/assigned": json.dumps({"containers": {"main": {"devices": [node.uuid[1]]}}})})
        pod.admit("slot-002").start()
        assert [row.device for row in node.tenants() if row.name == pod.title()] == [1]
        assert "has no annotation mete.dev/assigned" in node.pod("b").admit("slot-000").refusal()
        for wrong in "x", "{}", '{"containers": {"main": {"devices": ["GPU-x"]}}}', '{"containers": 1}':
            lost = node.pod("c", marks={"mete.dev/assigned": wrong}).admit("slot-001")
            sentence = lost.refusal()
            assert "mete.dev/assigned: " in sentence and '"' not in sentence, "quoted once"
            assert "GPU-x" not in wrong or sentence == "mete.dev/assigned: this node has no device 'GPU-x'", sentence
            lost.delete()
        node.api.set_node({})  # the kubelet has taken them away
        until(lambda: "mete.dev/gpu-milli" in node.api.node()["status"]["capacity"])
        assert len(node.api.patches) == 2, node.api.patches


def test_the_sums_go_with_the_ids_that_need_them():
    with Node(ids="slot", slots=2) as node:
        until(lambda: "mete.dev/gpu-milli" in node.api.node()["status"]["capacity"])
        node.end()
        node.configure(ids="uuid")
        node.restart()
        until(lambda: node.api.node()["status"]["capacity"] == {"cpu": "2"}, lambda: node.api.node())


def test_probes_are_answered_while_it_waits_for_labels():
    port = free_port()
    node = Node(start=False, nodes=[{"labels": {"a": "b"}, "slots": 2}], metrics=f"127.0.0.1:{port}")

    def answer(path):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        connection.request("GET", path)
        return connection.getresponse()

    try:
        node.api.silent = True
        node.start()
        node.await_log("plugin.waits")
        assert answer("/healthz").status == 200
        assert b"mete_" in answer("/metrics").read()
        node.api.silent = False
        node.kubelet.hear("registered")
        assert answer("/healthz").status == 200
        node.end()
    finally:
        node.close()


def test_a_client_that_removes_the_sums_for_ever_is_not_fought_in_a_loop():
    with Node(ids="slot", start=False) as node:
        def taken_away(_):
            with node.api.lock:
                node.api.set_node(node.api.node()["metadata"]["labels"])
                return node.api.node()

        node.api.patch_node = taken_away
        began = time.monotonic()
        node.start()
        until(lambda: node.api.patches)
        for n in range(40):
            node.api.set_node({"n": str(n)})
            node.await_log("config.loaded", times=n + 2)  # it is seen
        # Some at once, for a kubelet that starts; then one in 10 s.
        assert len(node.api.patches) <= 10 + 1 + (time.monotonic() - began) / 10, node.api.patches


def test_labels_that_another_program_writes_too_are_left_to_it():
    product = "nvidia.com/gpu.product"
    with Node(ids="slot", feature_labels="on", labels={}) as node:
        def labels():
            return {key: value for key, value in node.api.node()["metadata"]["labels"].items() if key.startswith("nvidia.com/")}

        def write_back():
            if labels().get(product) == "Simulated-GPU":
                node.api.set_node({**labels(), product: "Another"})
            return re.search("node.labels_contested.*gpu.product: 'Another' instead of 'Simulated-GPU'", node.log())

        until(write_back, lambda: f"it never gave way: {labels()}")
        event = until(lambda: [one for one in node.api.events if one["reason"] == "NodeLabelsContested"], "no event says so")
        assert "mete leaves them to it" in event[0]["message"], event
        # Its other writes to the node are as before, and there are none of the labels.
        node.api.set_node({product: "Another"})
        until(lambda: "mete.dev/gpu-milli" in node.api.node()["status"]["capacity"], "the sums were never written again")
        assert labels() == {product: "Another"} and len(re.findall("node.labels_contested", node.log())) == 1


def test_metrics_name_the_pods():
    port = free_port()
    with Node(metrics=f"127.0.0.1:{port}") as node:
        pods = [node.run(f"p{n}", node.id(n)) for n in range(3)]
        client = http.client.HTTPConnection("127.0.0.1", port)
        client.request("GET", "/metrics")
        text = client.getresponse().read().decode()
        told = set()
        for line in text.splitlines():
            if line.startswith("#"):
                assert re.fullmatch(r"# (HELP (mete|gpu)_\w+ .+|TYPE (mete|gpu)_\w+ (gauge|counter))", line), line
                continue
            name, labels, value = re.fullmatch(r"(mete_\w+)(\{.*\})? ([-+0-9.e]+)", line).groups()
            float(value)
            if labels:
                assert re.fullmatch(r'\{(\w+="([^"\\\n]|\\.)*",?)+\}', labels), line
            told.add(name)
            if name == "mete_tenant_memory_limit_bytes":
                told.add(re.search(r'pod="(.*?)"', labels)[1])
        assert {"p0", "p1", "p2", "mete_plugin_bound_total", "mete_device_healthy", "mete_tenant_time_seconds_total",
                "mete_tenant_time_entitled_seconds_total"} <= told, told
        # Each tenant's state is a label: none has a process yet.
        assert re.findall(r'^mete_tenant_state\{.*pod="(p\d)".*,state="(.*)"\} 1$', text, re.M) == [(f"p{n}", "absent") for n in range(3)], text
        assert re.search(r"^mete_plugin_containers 3$", text, re.M) and re.search(r"^mete_plugin_registered 1$", text, re.M)
        client.request("GET", "/healthz")
        assert client.getresponse().status == 200
        assert pods


def test_frequent_requests_for_metrics_cost_no_more():
    port = free_port()
    with Node(metrics=f"127.0.0.1:{port}") as node:
        clients = [http.client.HTTPConnection("127.0.0.1", port) for _ in range(10)]

        def made(client=clients[0]):
            """How often the figures had been gathered; None: it is asked too often."""
            client.request("GET", "/metrics")
            answer = client.getresponse()
            text = answer.read().decode()
            assert answer.status in (200, 503), answer.status
            return int(re.search(r"^mete_plugin_metrics_made_total (\d+)$", text, re.M)[1]) if answer.status == 200 else None

        began, first = time.monotonic(), made()
        answers = [made(client) for _ in range(100) for client in clients]
        seconds, told = time.monotonic() - began, [answer for answer in answers if answer is not None]
        assert told and told[-1] - first <= seconds + 1, (first, told[-1], seconds)
        assert all(told.count(round) <= 100 for round in set(told)), told
        # Whether it lives is said meanwhile, and the figures are not the same for ever.
        clients[1].request("GET", "/healthz")
        assert clients[1].getresponse().status == 200
        node.run("a", node.id(0))
        until(lambda: (made() or 0) > told[-1])


def test_probes_are_answered_at_an_address_of_their_own():
    """A client that keeps the metrics busy does not make the kubelet restart meted."""
    with Node(start=False) as node:
        ports = [free_port(), free_port()]
        node.configure(metrics=f"127.0.0.1:{ports[0]}", health=f"127.0.0.1:{ports[1]}")
        node.start()
        node.kubelet.hear("registered")
        busy = [socket.create_connection(("127.0.0.1", ports[0])) for _ in range(32)]
        for one in busy:
            one.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n")  # and no more
        told = {}
        for path in "/healthz", "/metrics":
            client = http.client.HTTPConnection("127.0.0.1", ports[1], timeout=PATIENCE)
            client.request("GET", path)
            told[path] = client.getresponse().status
        assert told == {"/healthz": 200, "/metrics": 404}, told
        for one in busy:
            one.close()


def test_it_ends_at_once_whatever_it_is_about():
    def plain(node):
        node.run("a", node.id(0))

    def waits_for_the_watch(node):
        node.api.hold()
        pod = node.pod("a").admit(node.id(0))
        pod.begin()
        node.kubelet.ask("list")

    def waits_for_the_kubelet(node):
        pod = node.pod("a").admit(node.id(0))
        node.kubelet.ask("hang", "on")
        pod.begin()
        node.kubelet.hear("held")

    def waits_for_registering(node):
        node.kubelet.ask("hang", "on")
        node.kubelet.ask("restart")
        node.kubelet.hear("held")

    def api_is_silent(node):
        node.api.silent = True
        with node.api.lock:
            node.api.connections_cut = [c.shutdown(socket.SHUT_RDWR) for c in list(node.api.connections)]
        node.run_known.annotate(memory="100GiB")

    def api_is_away(node):
        node.api.away()
        node.await_log("api.troubled")

    def kubelet_is_away(node):
        node.kubelet.ask("away")

    for state in plain, waits_for_the_watch, waits_for_the_kubelet, waits_for_registering, api_is_silent, api_is_away, kubelet_is_away:
        with Node() as node:
            node.run_known = node.run("known", node.id(3))
            state(node)
            node.end()
            assert not os.path.exists(node.kubelet.plugins + "/mete-gpu.sock"), state
            assert node.record("ns/known/main")[0], "its successor knows it"
    with Node(start=False, nodes=[{"labels": {"a": "b"}, "slots": 2}]) as node:
        node.api.silent = True
        node.start()
        node.await_log("plugin.waits")
        node.end()


if __name__ == "__main__":
    run(globals())
