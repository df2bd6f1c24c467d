# SPDX-License-Identifier: Apache-2.0
"""Pods whose share is a claim (`counted: claims`).

burst  200 claims on a real node, allocated by us as kube-scheduler does it. The preparation of all is asked for at the same moment, by a caller in the
       kubelet's place; meted reads each claim from the API server. Then: how often the node's slices are written while nothing changes.
"""
import os
import statistics
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, "build/plain")
CLAIMS, REST_S = int(os.environ.get("CLAIMS", 200)), int(os.environ.get("REST_S", 60))


def allocate(here, driver, number, device):
    name = f"c-{number}"
    here.claim(name, memory="256Mi", compute="1")
    made = here.cluster.get(f"{here.all}/{name}")
    made["status"] = {"allocation": {"devices": {"results": [{
        "request": "gpu", "driver": driver, "pool": "node-mete", "device": device, "shareID": f"00000000-0000-0000-0000-{number:012}",
        "consumedCapacity": {"memory": "256Mi", "compute": "1", "slots": "1"}}]}}}
    return f"{here.namespace} {name} {here.cluster.ask('PUT', f'{here.all}/{name}/status', made)['metadata']['uid']}"


def call(here, socket, verb, claims):
    """How long each call took, in milliseconds."""
    lines = "".join(f"{n} {verb} {claim}\n" for n, claim in enumerate(claims))
    answers = [line.split(" ", 3)[1:] for line in here.cluster.run(f"{BUILD}/tests/plugin/claims_caller", socket, input=lines).splitlines()]
    refused = [words for words in answers if words[1] != "ok"]
    assert len(answers) == len(claims) and not refused, (len(answers), refused[:3])
    return sorted(float(words[0]) for words in answers)


def versions(here):
    return {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in here.slices()}


def burst():
    sys.argv = ["counted", BUILD]
    sys.path.insert(0, os.path.join(ROOT, "tests/kubernetes"))
    from claims import DRIVER, KUBELET, claims
    socket = f"{KUBELET}/plugins/{DRIVER}/dra.sock"
    with claims(slots=1000) as here:
        device = here.devices()[0]["name"]
        made = [allocate(here, DRIVER, n, device) for n in range(CLAIMS)]
        times, load = call(here, socket, "prepare", made), os.getloadavg()[0]
        before = versions(here)
        time.sleep(REST_S)
        writes = sum(before.get(name) != version for name, version in versions(here).items())
        call(here, socket, "unprepare", made)
        here.cluster.ask("DELETE", here.all)
    print(f"{CLAIMS} claims at once: median {statistics.median(times):.1f} ms, longest {times[-1]:.1f} ms, load {load:.0f}")
    print(f"figure: prepare_p99_ms {times[len(times) - 1 - len(times) // 100]:.1f} ms")
    print(f"figure: slice_writes_at_rest {writes} writes")
