#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""GPUs are divided by the node's label nvidia.com/mig.config, and nvidia.com/mig.config.state tells how far that is: as NVIDIA's mig-manager."""
import contextlib
import threading

from node import *
from meted import run
from test_plugin_claims import DRIVER, Caller, Claims

LABEL, STATE = "nvidia.com/mig.config", "nvidia.com/mig.config.state"
CONFIG = """version: v1
mig-configs:
  all-disabled:
  - {devices: all, mig-enabled: false}
  all-1g.10gb:
  - {devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}
  all-3g.40gb:
  - {devices: all, mig-enabled: true, mig-devices: {3g.40gb: 2}}
  one-half:
  - {devices: [0], mig-enabled: true, mig-devices: {3g.40gb: 1}}
  - {devices: [1], mig-enabled: false}
  empty:
  - {devices: all, mig-enabled: true, mig-devices: {}}
  unknown:
  - {devices: all, mig-enabled: true, mig-devices: {1g.5gb: 7}}
  full:
  - {devices: all, mig-enabled: true, mig-devices: {4g.40gb: 1, 3g.40gb: 2}}
"""
# The label's value on a node with two whole GPUs; the states that the node then has, one after the other; the words of its event.
GOLDEN = (
    ("all-1g.10gb", ["pending", "success"], None),
    ("all-disabled", ["success"], None),  # it is so already: nobody is disturbed
    ("unknown", ["pending", "failed"], "GPU 0 (NVIDIA H100 80GB HBM3) has no profile 1g.5gb"),
    ("full", ["pending", "failed"], "has no room for all of these together: 1 4g.40gb, 2 3g.40gb"),
    ("nobody", ["failed"], "it has no configuration 'nobody'"),
)
MODES = ("nvidia", "mete")
KEYS = {"mete": {"resource": "nvidia.com/gpu", "slots": 2}, "claims": {"dra": "on", "slots": 2}}


class Labelled(Node):
    def __init__(self, label=None, mode="nvidia", strategy="mixed", state=None, text=CONFIG, **more):
        labels = {**({LABEL: label} if label else {}), **({STATE: state} if state else {})}
        super().__init__(start=False, devices="2xH100", labels=labels, **KEYS.get(mode, {}), **more)
        self.labels = labels
        self.mig_file = self.folder + "/mig.yaml"
        with open(self.folder + "/mig.data", "w") as file:
            file.write(text)
        os.symlink("mig.data", self.mig_file)  # as are the files of a ConfigMap
        self.options += ["--mig-config", self.mig_file]
        self.tell_by_environment()
        if mode == "nvidia":
            self.write({"version": "v1", "flags": {"migStrategy": strategy}})
        # Where nobody is left who uses the simulated machine it is a new one.
        self.holder = subprocess.Popen([CALLER, "nvml"],
                                       env=dict(os.environ, LD_LIBRARY_PATH=sys.argv[2], **self.environment), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.holder.stdout.readline() == "0\n"

    def close(self, kind=None):
        self.holder.kill()
        self.holder.wait()
        self.holder.stdin.close()
        self.holder.stdout.close()
        super().close(kind)

    def relabel(self, label):
        with self.api.lock:
            node = self.api.node()
            labels = node["metadata"]["labels"]
            labels.pop(LABEL, None)
            if label:
                labels[LABEL] = label
            self.api.put("nodes", node)

    def states(self):
        """The states that were told, one after the other; twice the same is once: a meted that starts again may not know that it was heard."""
        told = [state for _, patch in self.api.patches if (state := patch.get("metadata", {}).get("labels", {}).get(STATE))]
        return [state for before, state in zip([None, *told], told) if state != before]

    def await_states(self, *states):
        until(lambda: self.states() == list(states), lambda: f"{self.states()} instead of {states}\n{self.log()[-3000:]}")
        until(lambda: self.api.node()["metadata"]["labels"].get(STATE) == states[-1])

    def await_event(self, words):
        until(lambda: [event for event in self.api.events if event["reason"] == "MigConfigFailed" and words in event["message"]], lambda: self.api.events)

    def assert_that(self, name):
        done = subprocess.run([BUILD + "/cli/mete", "mig", "assert", "-f", self.mig_file, "-c", name],
                              env=dict(os.environ, LD_LIBRARY_PATH=sys.argv[2], **self.environment), text=True, capture_output=True)
        assert done.returncode == 0, done


def test_the_states_that_a_label_leads_to():
    for label, states, words in GOLDEN:
        with Labelled(label) as node:
            node.start()
            node.await_states(*states)
            if words:
                node.await_event(words)
            if states[-1] == "success":
                node.assert_that(label)


def test_a_file_with_a_mistake_fails_with_its_line_number():
    with Labelled("all-disabled", text=CONFIG.replace("mig-enabled: false", "mig-enabled: maybe", 1)) as node:
        node.start()
        node.await_states("failed")
        node.await_event("mig.yaml:4: mig-enabled 'maybe'")


def test_doctor_says_why_a_label_failed_until_it_changes():
    with Labelled("unknown") as node:
        node.start()
        node.await_states("pending", "failed")
        verdict, words = node.doctor("refused")
        assert verdict == "wrong" and "nvidia.com/mig.config=unknown: GPU 0" in words and "has no profile 1g.5gb" in words, words
        node.relabel("all-disabled")
        node.await_states("pending", "failed", "success")
        assert node.doctor("refused")[0] == "ok"
        node.relabel("nobody")
        node.await_states("pending", "failed", "success", "failed")
        assert "it has no configuration 'nobody'" in node.doctor("refused")[1]
        node.end()
        with open(node.file, "w") as file:
            json.dump({"version": "v1"}, file)
        node.options = [option for option in node.options if option not in ("--mig-config", node.mig_file)]
        node.start()
        assert node.doctor("refused")[0] == "ok", "it is the former meted's"


def test_a_label_that_changes_divides_anew():
    with Labelled() as node:
        node.kubelet.ask("turn", "nvidia.com/gpu")
        node.start()
        node.kubelet.hear("registered nvidia.com/gpu")
        node.relabel("all-3g.40gb")
        node.await_states("pending", "success")
        node.kubelet.turn("nvidia.com/mig-3g.40gb")
        node.kubelet.await_devices(lambda now: len(healthy(now)) == 4)
        node.relabel(None)  # changes nothing
        node.relabel("one-half")
        node.await_states("pending", "success", "pending", "success")
        node.assert_that("one-half")
        node.kubelet.await_devices(lambda now: len(healthy(now)) == 1)
        node.relabel("all-disabled")
        node.await_states(*3 * ["pending", "success"])
        node.kubelet.turn("nvidia.com/gpu")
        node.kubelet.await_devices(lambda now: len(healthy(now)) == 2)


def test_a_state_from_before_is_not_told_again():
    with Labelled("all-disabled", state="success") as node:
        node.start()
        node.await_log("mig.done config=.?all-disabled")
        node.relabel("unknown")
        node.await_states("pending", "failed")


def test_a_division_that_goes_with_no_strategy_can_be_left():
    """GPUs in MIG mode without parts: with single that plugin does not start then, and meted waits for the label."""
    for parts, first, strategy, resource in (("", "empty", "mixed", "mig-3g.40gb"), ("0:3g.40gb", None, "single", "gpu"), ("0:3g.40gb", None, "mixed", "mig-3g.40gb")):
        leave(parts, first, strategy, "nvidia.com/" + resource)


def leave(parts, first, strategy, resource):
    with Labelled(first, strategy=strategy, environment={"METE_SIM_MIG": "on", "METE_SIM_PARTS": parts}) as node:
        node.kubelet.ask("turn", resource)
        node.start()
        if first:
            node.await_states("success")
        else:
            node.await_log("plugin.unsettled" if strategy == "single" else "mig.unparted")
        node.relabel("all-3g.40gb")
        node.await_states(*(["success"] if first else []), "pending", "success")
        node.kubelet.hear(f"registered {resource} ")
        node.kubelet.await_devices(lambda now: len(healthy(now)) == 4)


def test_nobody_loses_a_device():
    for mode in MODES:
        with Labelled(mode=mode) as node:
            node.kubelet.ask("turn", "nvidia.com/gpu")
            node.start()
            node.kubelet.hear("registered nvidia.com/gpu")
            devices = sorted(node.kubelet.await_devices(lambda now: len(healthy(now)) == (4 if mode == "mete" else 2)))
            pod = node.pod("holds").admit(devices[0])
            node.kubelet.entries.clear()
            write_entry(node, pod, devices[0])
            if mode == "mete":
                pod.start()
            node.relabel("all-1g.10gb")
            node.await_states("pending", "failed")
            node.await_event("it is in use by pod holds, and would have to go")
            node.assert_that("all-disabled")
            # Others get devices again.
            node.kubelet.await_devices(lambda now: len(healthy(now)) == len(devices))
            # The kubelet's record still names a pod that is gone.
            held = dict(node.kubelet.entries)
            pod.delete()
            node.kubelet.entries.update(held)
            write_entry(node, pod, devices[0])
            if mode == "mete":
                until(lambda: not node.tenants() and not node.records())
            node.relabel("all-disabled")
            node.await_states("pending", "failed", "success")
            if mode == "nvidia":
                node.relabel("all-1g.10gb")
                node.await_states("pending", "failed", "success", "pending", "success")


def test_nobody_loses_a_device_that_is_shared_out_otherwise_now():
    """The kubelet's record has its id from when it was given whole."""
    with Labelled() as node:
        node.kubelet.ask("turn", "nvidia.com/gpu")
        node.start()
        node.kubelet.hear("registered nvidia.com/gpu")
        device = sorted(node.kubelet.await_devices(lambda now: len(healthy(now)) == 2))[0]
        pod = node.pod("holds").admit(device)
        node.kubelet.entries.clear()
        write_entry(node, pod, device)
        node.write({"version": "v1", "sharing": {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 2}]}}, "flags": {"migStrategy": "mixed"}})
        node.kubelet.await_devices(lambda now: len(healthy(now)) == 4)
        node.relabel("all-1g.10gb")
        node.await_states("pending", "failed")
        node.await_event("it is in use by pod holds, and would have to go")
        node.assert_that("all-disabled")


def test_nobody_loses_a_part_that_was_made_on_demand():
    """Parts of migStrategy: dynamic are the label's from now on. Nobody removes them beside it, and a container that was given a place keeps it."""
    with Labelled("all-1g.10gb") as node:
        node.start()
        node.await_states("pending", "success")
        gpu = re.search(r"uuid=(GPU-[0-9a-f-]+)", node.log())[1]
        node.end()
        with open(node.place + "/parts", "w") as file:
            file.writelines(f"{gpu}:1g.10gb:{k}\n" for k in (0, 1))
        pod = node.pod("holds")
        write_entry(node, pod, f"{gpu}:1g.10gb:0")
        node.meted.start()
        node.await_log("parts.left")
        assert not os.path.exists(node.place + "/parts")
        node.relabel("all-3g.40gb")
        node.await_event("its part 1g.10gb is in use by pod holds, and would have to go")
        node.assert_that("all-1g.10gb")


def write_entry(node, pod, device):
    """The kubelet's own record names the resource."""
    rows = [{"PodUID": pod.uid, "ContainerName": "main", "ResourceName": "nvidia.com/gpu", "DeviceIDs": {"-1": [device]}, "AllocResp": ""}]
    node.kubelet.write_checkpoint(json.dumps({"Data": {"PodDeviceEntries": rows, "RegisteredDevices": {}}, "Checksum": 1}))


def test_nobody_gets_a_device_meanwhile():
    for mode in MODES:
        nobody_gets_a_device_meanwhile(mode)


def failure_is_told_late(node):
    """The API server answers it once the event is set that this returns: until then the division is not over."""
    told, patch = threading.Event(), node.api.patch_node

    def slow(body):
        if not isinstance(body, list) and body.get("metadata", {}).get("labels", {}).get(STATE) == "failed":
            told.wait()
        return patch(body)
    node.api.patch_node = slow
    return told


def nobody_gets_a_device_meanwhile(mode):
    with Labelled(mode=mode) as node:
        node.kubelet.ask("turn", "nvidia.com/gpu")
        node.start()
        node.kubelet.hear("registered nvidia.com/gpu")
        devices = sorted(node.kubelet.await_devices(lambda now: len(healthy(now)) == (4 if mode == "mete" else 2)))
        told = failure_is_told_late(node)
        try:
            node.relabel("unknown")
            node.kubelet.await_devices(lambda now: not healthy(now))
            # The kubelet has decided it a moment ago.
            if mode == "mete":
                pod = node.pod("late").admit(devices[0])
                refused = pod.refusal()
                assert refused.startswith(f"device {devices[0].split('::')[0]} may be divided by MIG just now"), refused
            else:
                refused = node.kubelet.refusal(node.kubelet.begin("allocate", devices[0]))
                assert refused.endswith(f"device {devices[0]} may be divided by MIG just now"), refused
        finally:
            told.set()
        node.kubelet.await_devices(lambda now: len(healthy(now)) == len(devices))
        if mode == "mete":
            pod.start()


def register(node):
    """The kubelet knows the driver: devices are published."""
    caller = Caller(f"{node.kubelet.folder}/plugins_registry/{DRIVER}-reg.sock")
    caller.tell("known registered")
    assert caller.answer("known").endswith("ok")
    caller.close()


def published(node):
    """The devices of the newest generation's slices, if all of them are there."""
    found = [slice["spec"] for slice in node.api.objects("resourceslices", len(node.api.log))]
    newest = max((spec["pool"]["generation"] for spec in found), default=0)
    found = [spec for spec in found if spec["pool"]["generation"] == newest]
    complete = found and found[0]["pool"]["resourceSliceCount"] == len(found)
    return [device for spec in found for device in spec.get("devices", ())] if complete else []


def taints(device):
    return {taint["key"]: taint["effect"] for taint in device.get("taints", ())}


def await_published(node, are):
    return until(lambda: (devices := published(node)) and are(devices) and devices, lambda: f"published: {published(node)}\n{node.log()[-2000:]}")


def test_slices_are_those_of_the_devices_that_a_division_has_made():
    with Labelled(mode="claims") as node:
        os.mkdir(node.kubelet.folder + "/plugins_registry")
        node.start()
        register(node)
        whole = {device["name"] for device in await_published(node, lambda devices: len(devices) == 2)}
        node.relabel("all-3g.40gb")
        node.await_states("pending", "success")
        parts = await_published(node, lambda devices: len(devices) == 4 and not any(map(taints, devices)))
        assert {device["attributes"]["type"]["string"] for device in parts} == {"mig"}, parts
        made = {device["name"] for device in parts}
        assert not made & whole
        node.api.claim = claims = Claims(next(iter(made)))
        claims.answer_all()
        caller = Caller(f"{node.kubelet.folder}/plugins/{DRIVER}/dra.sock")
        try:
            caller.prepare("c0")
            assert caller.answer("c0").startswith("ok "), caller.answer("c0")
            caller.unprepare("c0")
        finally:
            caller.close()


def test_slices_follow_however_often_gpus_are_divided():
    """With a pause before each round of writing, and checks of health before containers get devices again, this would take minutes."""
    with Labelled(mode="claims") as node:
        os.mkdir(node.kubelet.folder + "/plugins_registry")
        node.start()
        register(node)
        left = [("all-3g.40gb", 4), ("all-disabled", 2)] * 3
        shown = 2

        def goes_on():
            nonlocal shown
            devices = published(node)
            if len(devices) != shown or any(map(taints, devices)) or len(node.states()) % 2:
                return False
            if left:
                name, shown = left.pop(0)
                node.relabel(name)
                return False
            return True
        until(goes_on, lambda: f"{len(left)} divisions are left, {published(node)}\n{node.log()[-2000:]}")


def test_no_claim_is_prepared_meanwhile():
    with Labelled(mode="claims") as node:
        os.mkdir(node.kubelet.folder + "/plugins_registry")
        node.start()
        register(node)
        node.api.claim = made = Claims(node.uuid[0])
        made.answer_all()
        caller = Caller(f"{node.kubelet.folder}/plugins/{DRIVER}/dra.sock")
        told = failure_is_told_late(node)
        try:
            node.relabel("unknown")
            node.await_log("mig.failed")
            caller.prepare("c0")
            assert f"device {node.uuid[0]} may be divided by MIG just now" in caller.answer("c0"), caller.answer("c0")
            await_published(node, lambda devices: len(devices) == 2 and all(taints(device) == {f"{DRIVER}/dividing": "NoSchedule"} for device in devices))
        finally:
            told.set()
        # As a kubelet does, which is told to come again.
        until(lambda: prepared(caller), lambda: node.log()[-3000:])
        await_published(node, lambda devices: len(devices) == 2 and not any(map(taints, devices)))
        caller.close()


def prepared(caller):
    tag = "c0/again"
    caller.answers.pop(tag, None)
    caller.prepare(tag)
    return caller.answer(tag).startswith("ok ")


def test_a_comparison_that_hangs_keeps_no_meted_that_ends():
    """Here in its file; it may as well in the driver."""
    with Labelled("all-disabled") as node:
        os.remove(node.mig_file)
        os.mkfifo(node.mig_file)
        node.start()

        def opened():
            with contextlib.suppress(OSError):  # nobody reads it yet
                return os.open(node.mig_file, os.O_WRONLY | os.O_NONBLOCK)
            return None
        fd = until(opened, "it does not read the file")
        node.end()
        os.close(fd)


def test_a_division_that_cannot_begin_gives_the_devices_back():
    """Its file is gone since it was compared: nothing is divided, and the next value of the label is."""
    with Labelled() as node:
        node.kubelet.ask("turn", "nvidia.com/gpu")
        node.start()
        node.kubelet.hear("registered nvidia.com/gpu")
        listed, objects = threading.Event(), node.api.objects

        def slow(kind, version):
            if kind == "pods" and not listed.is_set():
                node.kubelet.await_devices(lambda now: now and not healthy(now))
                os.rename(node.mig_file, node.mig_file + ".away")
                listed.set()
            return objects(kind, version)
        node.api.objects = slow
        node.relabel("all-1g.10gb")
        assert listed.wait(PATIENCE), "it does not list the pods"
        node.await_states("pending", "failed")
        node.await_event("mig.yaml: No such file or directory")
        node.kubelet.await_devices(lambda now: len(healthy(now)) == 2)
        os.rename(node.mig_file + ".away", node.mig_file)
        node.assert_that("all-disabled")
        node.relabel("all-3g.40gb")
        node.await_states("pending", "failed", "pending", "success")
        node.assert_that("all-3g.40gb")


def test_an_api_server_that_refuses_hears_it_later():
    with Labelled() as node:
        node.kubelet.ask("turn", "nvidia.com/gpu")
        node.start()
        node.kubelet.hear("registered nvidia.com/gpu")
        patch, refusals = node.api.patch_node, iter(range(1))

        def refusing(body):
            state = not isinstance(body, list) and body.get("metadata", {}).get("labels", {}).get(STATE)
            return None if state and next(refusals, None) is not None else patch(body)
        node.api.patch_node = refusing
        node.relabel("unknown")
        node.await_log("mig.untold")
        until(lambda: node.api.node()["metadata"]["labels"].get(STATE) == "failed")


if __name__ == "__main__":
    run(globals())
