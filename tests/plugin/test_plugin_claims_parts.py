#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Parts of GPUs that are made for claims: mig: dynamic. tests/plugin/node.py describes the parties."""
import itertools

from node import *
from meted import run
from test_plugin_claims import DRIVER, Caller, Claims, uid
from test_plugin_claims_changes import pod_lists

ROUNDS = 50 if os.environ.get("METE_SOAK") == "1" else 1
STEPS = 8  # a part is made and removed in four changes, each with a moment before and one after it
PLACES = 7 + 7 + 4 + 3 + 2 + 1 + 1  # of an empty H100


class Parts(Node):
    """A node whose GPUs are in MIG mode and have no parts, or those of `parts`. Claims are answered at once."""

    def __init__(self, parts="", devices="1xH100", version="v1.37.0", drops=()):
        super().__init__(start=False, devices=devices, dra="on", mig="dynamic", slots=50, environment={"METE_SIM_MIG": "on", **({"METE_SIM_PARTS": parts} if parts else {})})
        self.options += ["--look-every", "100ms", "--log-level", "debug"]
        self.api.version, self.api.drops = version, drops
        os.mkdir(self.kubelet.folder + "/plugins_registry")
        self.hold()
        self.made = self.api.claim = Claims("unset")
        self.made.answer_all()
        self.caller = self.gpu = None

    def hold(self):
        """Where nobody is left who uses the simulated machine it is a new one."""
        self.holder = subprocess.Popen([CALLER, "nvml"], env=dict(os.environ, **self.environment, LD_LIBRARY_PATH=sys.argv[2]), text=True,
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.holder.stdout.readline() == "0\n"

    def let_go(self):
        self.holder.kill()
        self.holder.wait()
        self.holder.stdin.close()
        self.holder.stdout.close()

    def lose_parts(self):
        """meted is killed, and the machine is a new one, though for meted it is the same start of it."""
        self.meted.kill()
        self.let_go()
        self.hold()
        assert not self.parts(), self.parts()

    def begin(self):
        self.start()
        self.connect()
        return self

    def connect(self):
        """As the kubelet does it: again, if meted begins again just then."""
        def registered():
            register = Caller(f"{self.kubelet.folder}/plugins_registry/{DRIVER}-reg.sock")
            register.tell("known registered")
            said = register.answer("known")
            register.close()
            return said.endswith("ok")
        until(registered, "the kubelet was never registered")
        self.caller = Caller(f"{self.kubelet.folder}/plugins/{DRIVER}/dra.sock")

    def restart(self):
        self.caller.close()
        self.begin()

    def close(self, kind=None):
        if self.caller:
            self.caller.process.kill()
            self.caller.process.wait()
        super().close(kind)
        self.let_go()

    def slices(self):
        return self.api.objects("resourceslices", len(self.api.log))

    def devices(self, wanted):
        """Of the newest generation, by name, when there are as many and no slice is missing."""
        def complete():
            found = self.slices()
            pools = [slice["spec"]["pool"] for slice in found]
            rows = {device["name"]: device for slice in found for device in slice["spec"].get("devices", ())}
            self.gpu = next((device["attributes"]["parentUUID"]["string"] for device in rows.values() if "parentUUID" in device["attributes"]), None)
            return found and len({pool["generation"] for pool in pools}) == 1 and pools[0]["resourceSliceCount"] == len(found) and len(rows) == wanted and rows
        return until(complete, lambda: f"never {wanted} devices: {[len(slice['spec'].get('devices', ())) for slice in self.slices()]}\n{self.log()[-3000:]}")

    def at(self, profile, start):
        """The place's name in slices."""
        name = profile.replace(".", "-").replace("+", "-plus-")
        return f"{self.gpu.lower()}-{name}-{start}"

    def prepare(self, name, place, memory="8Gi"):
        self.made.places[name], self.made.memories[name] = place, memory
        self.caller.prepare(name)
        return self.caller.answer(name)

    def again(self, name):
        self.caller.prepare(name + "/again")
        return self.caller.answer(name + "/again")

    def at_last(self, name):
        """As the kubelet does it, until it is prepared: a meted that begins again ends connections."""
        tags = (f"{name}/{n}" for n in itertools.count())

        def said(tag):
            self.caller.tell(f"{tag} prepare ns {name} {uid(name)}")
            return self.caller.answer(tag)
        until(lambda: said(next(tags)).startswith("ok "), lambda: f"{name} is never prepared: {said('last')}")

    def parts(self):
        """The driver's parts: profiles."""
        said = subprocess.run([BUILD + "/cli/mete", "mig", "export"], env=dict(os.environ, LD_LIBRARY_PATH=sys.argv[2], METE_SIM_DIR=self.sim, XDG_RUNTIME_DIR=self.folder),
                              stdout=subprocess.PIPE, text=True, check=True, timeout=PATIENCE).stdout
        return {name: int(count) for name, count in re.findall(r"\"?([0-9]g\.[^\s\":]+)\"?: (\d+)", said)}

    def await_parts(self, **wanted):
        wanted = {name.replace("_", ".").lstrip("p"): count for name, count in wanted.items()}
        until(lambda: self.parts() == wanted, lambda: f"{self.parts()} instead of {wanted}\n{self.log()[-3000:]}")

    def ours(self):
        return open(self.place + "/parts").read().split() if os.path.exists(self.place + "/parts") else []

    def await_nothing(self, **strangers):
        self.await_parts(**strangers)
        until(lambda: not self.ours(), lambda: self.ours())

    def faults(self, text):
        with open(self.sim + "/faults", "w") as file:
            file.write(text)


def counters(device):
    row, = device["consumesCounters"]
    return row["counterSet"], {name: counter["value"] for name, counter in row["counters"].items()}


def test_each_place_is_a_device_that_consumes_the_parts_counters():
    with Parts() as node:
        node.begin()
        found = node.devices(PLACES)
        small, half = found[node.at("1g.10gb", 4)], found[node.at("3g.40gb", 4)]
        assert counters(small) == ("gpu-0", {"compute-slices": "1", "memory-slice-4": "1", "copy-engines": "1", "decoders": "1", "jpeg-engines": "1"}), small
        assert counters(half) == ("gpu-0", {"compute-slices": "3", **{f"memory-slice-{n}": "1" for n in range(4, 8)}, "copy-engines": "3", "decoders": "3", "jpeg-engines": "3"}), half
        # Only one part may have the optical flow accelerator: two of these exclude each other.
        _, media = counters(found[node.at("1g.10gb+me", 0)])
        assert media["ofa-engines"] == "1"
        sets, = (slice["spec"]["sharedCounters"] for slice in node.slices() if "sharedCounters" in slice["spec"])
        assert [(row["name"], {name: counter["value"] for name, counter in row["counters"].items()}) for row in sets] == [
            ("gpu-0", {"compute-slices": "7", **{f"memory-slice-{n}": "1" for n in range(8)}, "copy-engines": "8", "decoders": "7", "jpeg-engines": "7", "ofa-engines": "1"})], sets
        said = {name: value for name, value in small["attributes"].items() if name in ("type", "profile", "parentUUID", "uuid")}
        assert said == {"type": {"string": "mig"}, "profile": {"string": "1g.10gb"}, "parentUUID": {"string": node.gpu}}, said
        assert small["attributes"]["cudaComputeCapability"] == {"version": "9.0.0"} and "resource.kubernetes.io/pciBusID" in small["attributes"]
        assert small["capacity"]["memory"]["value"] == "9984Mi"


def test_eight_gpus_fit_into_as_many_slices_as_it_takes():
    with Parts(devices="8xH100") as node:
        node.begin()
        node.devices(8 * PLACES)
        rows = [len(slice["spec"].get("devices", ())) for slice in node.slices()]
        assert max(rows) <= 64 and sum(rows) == 8 * PLACES, rows
        assert [len(slice["spec"]["sharedCounters"]) for slice in node.slices() if "sharedCounters" in slice["spec"]] == [8]


def test_a_part_is_made_for_a_claim_and_removed_behind_the_last():
    with Parts() as node:
        node.begin()
        node.devices(PLACES)
        generation = node.slices()[0]["spec"]["pool"]["generation"]
        assert node.prepare("c0", node.at("1g.10gb", 3)) == f"ok mete.dev/claim={uid('c0')}-0"
        assert node.parts() == {"1g.10gb": 1} and node.ours() == [f"{node.gpu}:1g.10gb:3"]
        # Another claim has a share of the same part, and one has a part beside it.
        assert node.prepare("c1", node.at("1g.10gb", 3), memory="1Gi").startswith("ok ")
        assert node.prepare("c2", node.at("3g.40gb", 4)).startswith("ok ")
        assert node.parts() == {"1g.10gb": 1, "3g.40gb": 1}
        assert {row.name for row in node.tenants()} == {"ns/c0", "ns/c1", "ns/c2"}
        node.caller.unprepare("c0")
        node.caller.unprepare("c2")
        node.await_parts(p1g_10gb=1)
        node.caller.unprepare("c1")
        node.await_nothing()
        for n in range(ROUNDS):
            assert node.prepare(f"r{n}", node.at("2g.20gb", 2)).startswith("ok ")
            node.caller.unprepare(f"r{n}")
            node.await_nothing()
        # Published devices show nothing of it.
        assert node.slices()[0]["spec"]["pool"]["generation"] == generation, node.log()
        # And once more: the same device, the same place.
        assert node.prepare("c3", node.at("1g.10gb", 3)).startswith("ok ")


def test_a_part_without_room_is_refused_and_prepared_when_there_is_some():
    with Parts() as node:
        node.begin()
        node.devices(PLACES)
        assert node.prepare("c0", node.at("3g.40gb", 0)).startswith("ok ")
        refusal = node.prepare("c1", node.at("1g.10gb", 2))
        assert "the part of the claim is not made: GPU 0 has no room for 1g.10gb there: its part 3g.40gb at 0 is in use, or is somebody else's" in refusal, refusal
        node.caller.unprepare("c0")
        # An idle part is room at once, whether it has been removed or not.
        assert node.again("c1").startswith("ok ")
        node.await_parts(p1g_10gb=1)


def test_a_strangers_part_stays_and_nothing_is_published_over_it():
    with Parts("0:3g.40gb") as node:
        node.begin()
        # At 0: over it are 4 of 1g, 4 of 1g+me, 2 of 1g.20gb, 2 of 2g, 1 of 3g, 4g and 7g. The part itself is a device, too.
        found = node.devices(PLACES - 15 + 1)
        theirs, = (device for device in found.values() if "uuid" in device["attributes"])
        assert theirs["attributes"]["profile"] == {"string": "3g.40gb"} and counters(theirs)[1].keys() == {"compute-slices", *(f"memory-slice-{n}" for n in range(4))}
        assert node.at("1g.10gb", 2) not in found
        assert node.prepare("c0", theirs["name"]).startswith("ok ")
        assert node.prepare("c1", node.at("1g.10gb", 5)).startswith("ok ")
        assert "is not on this node" in node.prepare("c2", node.at("1g.10gb", 2))
        for name in ("c0", "c1"):
            node.caller.unprepare(name)
        node.await_nothing(p3g_40gb=1)


def test_where_the_scheduler_does_not_count_them_no_places_are_published():
    for more in {"version": "v1.36.3"}, {"drops": ("sharedCounters", "consumesCounters")}:
        with Parts("0:3g.40gb", **more) as node:
            node.begin()
            node.await_log("slices.unplaced reason=.*1.37")
            assert "consumesCounters" not in json.dumps(node.devices(1))


def test_a_claims_part_outlives_meted():
    with Parts() as node:
        node.begin()
        node.devices(PLACES)
        assert node.prepare("c0", node.at("1g.10gb", 2)).startswith("ok ")
        before = node.ours()
        node.meted.kill()
        node.restart()
        node.devices(PLACES)
        assert node.parts() == {"1g.10gb": 1} and node.ours() == before
        assert node.again("c0").startswith("ok ")
        node.caller.unprepare("c0")
        node.await_nothing()


def test_a_part_that_was_made_while_another_was_missing_starts_nothing_anew():
    with Parts() as node:
        node.begin()
        node.devices(PLACES)
        assert node.prepare("lost", node.at("3g.40gb", 4)).startswith("ok ")
        assert node.prepare("cordoned", node.at("1g.10gb", 3)).startswith("ok ")
        cordon(node, 1, 1)
        node.caller.unprepare("cordoned")
        node.lose_parts()
        told = len(node.made.told)
        node.restart()
        node.await_log("claim.absent claim=ns/lost")
        for n in range(3):
            said = node.prepare(f"c{n}", node.at("1g.10gb", n))
            assert said.startswith("ok "), said
        assert "daemon.again" not in node.log(), node.log()
        # What somebody waits for is there again, and known, though its claim's record was written meanwhile.
        until(lambda: any(name == "lost" for name, _ in node.made.told[told:]), "the claim's status never says that its device is missing")
        node.made.places["more"], node.made.memories["more"] = node.at("3g.40gb", 4), "1Gi"
        node.caller.prepare("more")
        node.await_log("daemon.again .*because=.*was missing")
        node.at_last("more")
        node.at_last("lost")


def test_claims_keep_their_parts_when_meted_begins_again_while_others_wait_for_some():
    """What waits for the driver leaves, one after the other, when nobody knows any more who has what."""
    for n in range(ROUNDS):
        with Parts() as node:
            node.environment["LD_PRELOAD"] = BUILD + "/tests/system/again_signals.so"
            node.begin()
            node.devices(PLACES)
            assert node.prepare("lost", node.at("3g.40gb", 4)).startswith("ok ")
            node.lose_parts()
            node.restart()
            node.await_log("claim.absent claim=ns/lost")
            said = node.prepare("c0", node.at("1g.10gb", 0), memory="1Gi")
            assert said.startswith("ok "), said
            node.faults("make-gi=stall")
            node.made.places["c1"], node.made.places["c2"] = node.at("3g.40gb", 4), node.at("2g.20gb", 0)
            node.made.memories["c1"] = node.made.memories["c2"] = "1Gi"
            node.caller.prepare("c1")
            until(lambda: f"{node.gpu}:3g.40gb:4" in node.ours(), node.ours)
            node.caller.prepare("c2")
            assert node.prepare("c3", node.at("1g.10gb", 0), memory="1Gi").startswith("ok ")  # read after that
            node.faults("")  # c1's part is the one that was lost
            node.await_log("daemon.again")
            node.at_last("c0")
            # A part that had been removed would be made anew for who asks; containers that run do not ask.
            assert "claim.absent claim=ns/c0" not in node.log() and "2g.20gb" not in node.parts(), node.log()


def test_a_part_that_the_driver_does_not_make_leaves_nothing():
    with Parts() as node:
        node.begin()
        node.devices(PLACES)
        for n, fault in enumerate(("make-gi=no-room", "make-gi=unknown", "make-gi=elsewhere", "make-ci=no-room", "make-ci=unknown")):
            node.faults(fault + "@1")
            assert node.prepare(f"c{n}", node.at("1g.10gb", 3)).startswith("error the part of the claim is not made: GPU 0"), fault
            assert not node.ours() and not node.parts() and not node.tenants(), fault
            assert node.again(f"c{n}").startswith("ok ")
            node.caller.unprepare(f"c{n}")
            node.await_nothing()


def test_meted_is_killed_at_each_step():
    """Before and after each change that it makes: the next one finds what the former left, and the claim is prepared, or nothing is left."""
    with Parts("0:3g.40gb") as node:
        node.begin()
        node.devices(PLACES - 15 + 1)
        for step in range(1, STEPS + 1):
            name = f"c{step}"
            node.end()
            node.faults(f"die@{step}")  # a process that comes after it counts all of its changes
            node.restart()
            if step <= STEPS // 2:
                node.made.places[name] = node.at("1g.10gb", 5)
                node.caller.tell(f"{name} prepare ns {name} {uid(name)}")
                node.meted.wait()
            else:
                assert node.prepare(name, node.at("1g.10gb", 5)).startswith("ok ")
                node.caller.unprepare(name)
                node.meted.wait()
            node.faults("")
            node.restart()
            if step <= STEPS // 2:
                assert node.again(name).startswith("ok "), name
                assert node.ours() == [f"{node.gpu}:1g.10gb:5"] and {row.name for row in node.tenants()} == {"ns/" + name}
                node.caller.unprepare(name)
            node.await_nothing(p3g_40gb=1)
            assert not node.tenants() and os.listdir(node.cdi) == [], os.listdir(node.cdi)


def test_it_is_switched_on_and_off_while_meted_runs():
    with Parts("0:3g.40gb") as node:
        node.configure(mig=None)
        node.begin()
        node.devices(1)
        node.configure(mig="dynamic")
        found = node.devices(PLACES - 15 + 1)
        place = node.at("1g.10gb", 6)
        assert place in found and node.prepare("c0", place).startswith("ok ")
        # A claim's part stays, and no other claim is given one.
        node.configure(mig="found")
        node.devices(1)
        assert node.parts() == {"3g.40gb": 1, "1g.10gb": 1} and node.again("c0").startswith("ok ")
        # It is not given anew while it is being removed.
        node.faults("destroy-ci=stall")
        node.caller.unprepare("c0")
        node.caller.tell(f"anew prepare ns c0 {uid('c0')}")
        assert "is a part that was made for a claim that has ended" in node.caller.answer("anew"), node.caller.answer("anew")
        node.faults("")
        node.await_nothing(p3g_40gb=1)
        node.devices(1)


def test_a_driver_that_takes_long_holds_up_only_pods_that_wait_for_it():
    with Parts() as node:
        node.begin()
        node.devices(PLACES)
        assert node.prepare("c0", node.at("3g.40gb", 4)).startswith("ok ")
        node.faults("make-gi=stall")
        node.made.places["c1"], node.made.places["c2"] = node.at("1g.10gb", 1), node.at("3g.40gb", 4)
        node.caller.prepare("c1")
        until(lambda: len(node.ours()) == 2, node.ours)  # it is written down before it is made
        assert node.again("c2").startswith("ok ")  # a share of a part that is there
        assert "c1" not in node.caller.answers
        node.faults("")
        assert node.caller.answer("c1").startswith("ok ")


def share_while_the_other_ends(node, place, n):
    first, other, waits, last = (f"{word}{n}" for word in ("first", "other", "waits", "last"))
    assert node.prepare(first, place).startswith("ok ")
    assert node.prepare(other, node.at("2g.20gb", 4)).startswith("ok ")
    node.api.hold()
    node.made.reserved[waits], node.made.places[waits], node.made.memories[waits] = [node.pod(waits).uid], place, "1Gi"
    lists = len(pod_lists(node))
    node.api.silent_lists = True
    node.caller.prepare(waits)
    until(lambda: len(pod_lists(node)) > lists, "nobody asked for the node's pods")
    node.caller.unprepare(first)
    node.caller.unprepare(other)
    until(lambda: "2g.20gb" not in node.parts(), "no look")
    assert node.prepare(last, node.at("1g.10gb", 0)).startswith("ok ")  # after that check
    there = node.parts()["1g.10gb"]
    node.api.silent_lists = False
    node.api.release()
    node.caller.unprepare(last)
    said = node.caller.answer(waits)
    node.caller.unprepare(waits)
    node.await_nothing()
    return said, there


def test_a_claim_that_waits_for_its_pods_keeps_the_part_that_it_shares():
    """The only other claim of the part ends meanwhile: then nobody is prepared who has it."""
    with Parts() as node:
        node.begin()
        node.devices(PLACES)
        # It does not wait for ever: on a busy machine once more.
        tries = (share_while_the_other_ends(node, node.at("1g.10gb", 3), n) for n in itertools.count())
        said, there = next((said, there) for said, there in tries if "pods cannot be read" not in said)
        assert said.startswith("ok ") and there == 2, (said, there)


def lose_while_it_waits(n):
    """A claim of a stranger's part, whose owner removes it meanwhile."""
    with Parts("0:3g.40gb") as node:
        node.begin()
        theirs, = (name for name, device in node.devices(PLACES - 15 + 1).items() if "uuid" in device["attributes"])
        node.api.hold()
        node.made.reserved["waits"], node.made.places["waits"] = [node.pod("waits").uid], theirs
        lists = len(pod_lists(node))
        node.api.silent_lists = True
        node.caller.prepare("waits")
        until(lambda: len(pod_lists(node)) > lists, "nobody asked for the node's pods")
        with open(node.folder + "/mig.yaml", "w") as file:
            json.dump({"version": "v1", "mig-configs": {"it": [{"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb": 1}}]}}, file)
        subprocess.run([BUILD + "/cli/mete", "mig", "apply", "-f", node.folder + "/mig.yaml", "-c", "it"], check=True, timeout=PATIENCE,
                       env=dict(os.environ, LD_LIBRARY_PATH=sys.argv[2], METE_SIM_DIR=node.sim, XDG_RUNTIME_DIR=node.folder))
        node.await_log("device.gone")
        node.api.silent_lists = False
        node.api.release()
        said = node.caller.answer("waits")
        assert not node.tenants(), node.tenants()
        return said


def test_a_claim_whose_device_goes_while_it_waits_is_refused():
    # It does not wait for ever: on a busy machine once more.
    said = next(said for said in map(lose_while_it_waits, itertools.count()) if "pods cannot be read" not in said)
    assert "is gone: MIG has divided its GPU in another way" in said, said


if __name__ == "__main__":
    run(globals())
