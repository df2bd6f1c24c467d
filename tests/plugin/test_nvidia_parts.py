#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Parts of GPUs that are made when a container needs them, and removed when nobody has them: migStrategy: dynamic."""
import contextlib

from node import *
from meted import run

PREFIX = "nvidia.com/mig-"
SMALL, HALF = PREFIX + "1g.10gb", PREFIX + "3g.40gb"
ROUNDS = 50 if os.environ.get("METE_SOAK") == "1" else 1
STEPS = 8  # a part is made and removed in four changes, each with a moment before and one after it
LIBRARY = sys.argv[2] + "/libnvidia-ml.so.1"


class Parts(Node):
    """A node with one GPU in MIG mode that has no parts, or those of METE_SIM_PARTS."""

    def __init__(self, parts="", devices="1xH100", listen=SMALL, flags=None):
        super().__init__(start=False, api=False, devices=devices, environment={"METE_SIM_MIG": "on", **({"METE_SIM_PARTS": parts} if parts else {})})
        self.write({"version": "v1", "flags": {"migStrategy": "dynamic", **(flags or {})}})
        self.options += ["--log-level", "debug"]
        self.environment["KUBELET_SOCKET"] = self.kubelet.plugins + "/kubelet.sock"
        # Where nobody is left who uses the simulated machine it is a new one.
        self.holder = subprocess.Popen([CALLER, "nvml"], env=dict(os.environ, LD_LIBRARY_PATH=sys.argv[2], **self.environment), text=True,
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.holder.stdout.readline() == "0\n"
        self.given = {}
        self.write_given()
        self.kubelet.ask("turn", listen)

    def close(self, kind=None):
        super().close(kind)
        self.holder.kill()
        self.holder.wait()
        self.holder.stdin.close()
        self.holder.stdout.close()

    def begin(self, listen=SMALL):
        self.start()
        self.kubelet.hear(f"registered {listen} ")
        return self

    def restart(self, listen=SMALL):
        """Until this resource is registered again: one that is registered anew loses the calls that were begun before. The former
        meted may have registered it twice, first for a part that was left over."""
        with self.kubelet.lock:
            self.kubelet.happened.clear()
        self.meted.start()
        self.kubelet.hear(f"registered {listen} ")

    def write_given(self):
        """The kubelet's own record."""
        rows = [{"PodUID": uid, "ContainerName": "main", "ResourceName": resource, "DeviceIDs": {"-1": ids}, "AllocResp": ""}
                for uid, (resource, ids) in self.given.items()]
        self.kubelet.write_checkpoint(json.dumps({"Data": {"PodDeviceEntries": rows, "RegisteredDevices": {}}, "Checksum": 1}))

    def give(self, uid, resource, *ids):
        """Returns the UUIDs that the container gets. What meted has not found in the record counts as given for ten seconds."""
        before = self.log().count("parts.noted")
        answer = self.kubelet.ask("allocate", *ids)
        self.given[uid] = resource, list(ids)
        self.write_given()
        self.await_log("parts.noted", before + sum(id.startswith("GPU-") for id in ids))
        return re.search(r"NVIDIA_VISIBLE_DEVICES=(\S+)", answer)[1].split(",")

    def take(self, uid):
        del self.given[uid]
        self.write_given()

    def places(self, *wanted):
        """Those that the resource has and that are healthy, as soon as they are these (profile:start), or as many."""
        def names(now):
            return sorted(id.split(":", 1)[1] for id in healthy(now) if id.startswith("GPU-"))
        now = self.kubelet.await_devices(lambda now: names(now) == sorted(wanted) if wanted and isinstance(wanted[0], str) else len(names(now)) == wanted[0])
        return {id.split(":", 1)[1]: id for id in now}

    def parts(self):
        """The driver's parts: profiles."""
        said = subprocess.run([BUILD + "/cli/mete", "mig", "export"], env=dict(os.environ, LD_LIBRARY_PATH=sys.argv[2], METE_SIM_DIR=self.sim, XDG_RUNTIME_DIR=self.folder),
                              stdout=subprocess.PIPE, text=True, check=True, timeout=PATIENCE).stdout
        return {name: int(count) for name, count in re.findall(r"\"?([0-9]g\.[^\s\":]+)\"?: (\d+)", said)}

    def await_parts(self, **wanted):
        wanted = {name.replace("_", ".").lstrip("p"): count for name, count in wanted.items()}
        until(lambda: self.parts() == wanted, lambda: f"{self.parts()} instead of {wanted}\n{self.log()[-2000:]}")

    def ours(self):
        return open(self.place + "/parts").read().split() if os.path.exists(self.place + "/parts") else []

    def await_nothing(self):
        self.await_parts()
        until(lambda: not self.ours(), lambda: self.ours())

    def faults(self, text):
        with open(self.sim + "/faults", "w") as file:
            file.write(text)


def divide(node, profile):
    subprocess.run([os.path.join(BUILD, "tests", "plugin", "divide"), LIBRARY, "0", str(profile)], check=True, env=dict(os.environ, METE_SIM_DIR=node.sim))


def test_a_part_is_made_when_it_is_needed_and_removed_when_it_is_idle():
    with Parts() as node:
        node.begin()
        for n in range(ROUNDS):
            ids = node.places(*(f"1g.10gb:{k}" for k in range(7)))
            uuid, = node.give("pod", SMALL, ids["1g.10gb:3"])
            assert uuid.startswith("MIG-") and node.parts() == {"1g.10gb": 1}
            assert node.ours() == [ids["1g.10gb:3"]]
            node.take("pod")
            node.await_nothing()
        assert node.log().count("plugin.ready ") == 7, node.log()  # each profile's name, at once
        assert "daemon.again" not in node.log() and "device.unhealthy" not in node.log()


def test_doctor_names_a_part_that_the_kubelet_has_for_a_pod_that_has_gone():
    with Parts() as node:
        node.begin()
        verdict, words = node.doctor("mig")
        assert verdict == "note" and "GPU 0 is in MIG mode and has no parts" in words and "dynamic" in words, words
        ids = node.places(7)
        node.give("pod", SMALL, ids["1g.10gb:3"])
        verdict, words = node.doctor("mig")
        assert verdict == "note" and f"the kubelet's record has part {ids['1g.10gb:3']} for the pod pod, which has gone" in words, words
        os.mkdir(node.folder + "/host/var/lib/kubelet/pods/pod")
        assert node.doctor("mig") == ("ok", "1 parts on 1 GPUs in MIG mode; 1 of them have no process -> ")


def test_parts_of_one_profile_leave_the_lists_of_others():
    with Parts(listen=HALF) as node:
        node.begin(HALF)
        ids = node.places("3g.40gb:0", "3g.40gb:4")
        node.give("pod", HALF, ids["3g.40gb:4"])
        node.kubelet.turn(SMALL)
        small = node.places(*(f"1g.10gb:{k}" for k in range(4)))
        # The kubelet decided it a moment ago.
        refusal = node.kubelet.refusal(node.kubelet.begin("allocate", small["1g.10gb:5"]))
        assert refusal == (f'invalid allocation request for "{SMALL}": GPU 0 has no room for 1g.10gb there: its part 3g.40gb at 4 is in use, or is somebody else\'s'), refusal
        assert node.parts() == {"3g.40gb": 1}
        node.kubelet.turn(PREFIX + "1g.10gb.me")
        assert len(node.places(1)) == 7  # one at a time
        node.kubelet.turn(PREFIX + "7g.80gb")
        node.kubelet.await_devices(lambda now: not healthy(now))
        node.take("pod")
        node.places("7g.80gb:0")
        node.await_nothing()


def test_the_place_is_preferred_that_leaves_most_for_others():
    with Parts() as node:
        node.begin()
        ids = node.places(7)
        # Slice 6 is of no 2g.20gb: a part there costs others least.
        assert node.kubelet.ask("prefer", 1, "-", *ids.values()) == "ok " + ids["1g.10gb:6"]
        node.give("pod", SMALL, ids["1g.10gb:0"])
        # Beside a part in slice 0 the pair of 0 and 1 is lost already.
        rest = [id for name, id in ids.items() if name != "1g.10gb:0"]
        said = node.kubelet.ask("prefer", 2, "-", *rest)
        assert said == f"ok {ids['1g.10gb:1']} {ids['1g.10gb:2']}", said


def test_a_container_gets_two_parts_at_once():
    with Parts() as node:
        node.begin()
        ids = node.places(7)
        assert len(set(node.give("pod", SMALL, ids["1g.10gb:1"], ids["1g.10gb:2"]))) == 2
        assert node.parts() == {"1g.10gb": 2}


def test_a_strangers_part_stays():
    with Parts("0:3g.40gb") as node:
        node.begin()
        ids = node.places("1g.10gb:4", "1g.10gb:5", "1g.10gb:6")
        node.give("pod", SMALL, ids["1g.10gb:6"])
        node.take("pod")
        node.await_parts(p3g_40gb=1)
        until(lambda: not node.ours(), node.ours)  # it is gone before it is struck off
        # A part that somebody makes while we run, too: it is offered by its UUID.
        divide(node, 14)
        node.kubelet.turn(PREFIX + "2g.20gb")
        found = node.kubelet.await_devices(lambda now: any(id.startswith("MIG-") for id in now))
        uuid = next(id for id in found if id.startswith("MIG-"))
        assert node.kubelet.ask("allocate", uuid) == f"ok env=NVIDIA_VISIBLE_DEVICES={uuid}"
        node.kubelet.turn(SMALL)
        node.give("pod", SMALL, node.places("1g.10gb:6")["1g.10gb:6"])
        node.take("pod")
        node.await_parts(p2g_20gb=1, p3g_40gb=1)
        until(lambda: not node.ours(), node.ours)  # it is gone before it is struck off


def test_a_container_gets_a_strangers_part_and_one_that_is_made():
    with Parts("0:1g.10gb") as node:
        node.begin()
        found = node.kubelet.await_devices(lambda now: any(id.startswith("MIG-") for id in now) and any(id.startswith("GPU-") for id in healthy(now)))
        theirs = next(id for id in found if id.startswith("MIG-"))
        place = next(id for id in healthy(found) if id.startswith("GPU-"))
        # The kubelet's order is that of a set.
        assert theirs in node.give("pod", SMALL, theirs, place)
        assert node.ours() == [place] and node.parts() == {"1g.10gb": 2}


def test_a_part_that_a_process_uses_stays():
    with Parts() as node:
        node.begin()
        id = node.places(7)["1g.10gb:0"]
        uuid, = node.give("pod", SMALL, id)
        holder = subprocess.Popen([CALLER, "context"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                  env=dict(os.environ, LD_LIBRARY_PATH=sys.argv[2], CUDA_VISIBLE_DEVICES=uuid, **node.environment))
        try:
            assert holder.stdout.readline() == "0\n"
            node.take("pod")
            node.await_log("parts.used parts=1")
            assert node.parts() == {"1g.10gb": 1}
            # No container is sent there, nor to a place over it, and one that comes nevertheless is refused.
            node.places(*(f"1g.10gb:{k}" for k in range(1, 7)))
            refusal = node.kubelet.refusal(node.kubelet.begin("allocate", id))
            assert f"process {holder.pid} is on {id} though nobody was given it" in refusal, refusal
            node.kubelet.turn(HALF)
            node.places("3g.40gb:4")
        finally:
            holder.kill()
            holder.wait()
            holder.stdin.close()
            holder.stdout.close()
        node.await_nothing()


def test_a_containers_part_outlives_meted():
    with Parts() as node:
        node.begin()
        id = node.places(7)["1g.10gb:2"]
        uuid = node.give("pod", SMALL, id)
        node.meted.kill()
        node.restart()
        node.places(7)
        assert node.parts() == {"1g.10gb": 1} and node.ours() == [id]
        assert node.give("pod", SMALL, id) == uuid  # the container is started again
        node.take("pod")
        node.await_nothing()


def at_once(node, **wanted):
    """These are asked for at the same moment, each by its container: a name to (resource, id). Returns those that were given, with their UUIDs."""
    tags = {name: node.kubelet.begin("beside", resource, "allocate", id) for name, (resource, id) in wanted.items()}
    given = {}
    for name, tag in tags.items():
        try:
            given[name] = re.search(r"NVIDIA_VISIBLE_DEVICES=(\S+)", node.kubelet.answer(tag))[1]
        except Refused as refused:
            assert re.search("has no room for .* there: its part .* is in use, or is somebody else's$", refused.sentence), refused
    noted = {name: f"parts.noted id={wanted[name][1]}$" for name in given}
    before = {name: len(re.findall(line, node.log(), re.M)) for name, line in noted.items()}
    node.given.update({name: (wanted[name][0], [wanted[name][1]]) for name in given})
    node.write_given()
    for name, line in noted.items():
        until(lambda: len(re.findall(line, node.log(), re.M)) > before[name], lambda: f"{line}: {node.log()[-2000:]}")
    return given


def ask_at_once():
    """meted leaves lines out of its log where there are many (parts.noted): each history has a node of its own."""
    with Parts() as node:
        node.begin()
        gpu = node.places(7)["1g.10gb:0"].split(":")[0]
        large, half, pair, small = (lambda start, profile=profile: (PREFIX + profile, f"{gpu}:{profile}:{start}") for profile in ("4g.40gb", "3g.40gb", "2g.20gb", "1g.10gb"))
        assert len(at_once(node, leaves=small(5), stays=small(1))) == 2
        # The part of who leaves is in the way of one, and has gone by then, or has not.
        node.take("leaves")
        assert len(at_once(node, a=half(4), b=pair(2))) == 2
        assert node.parts() == {"1g.10gb": 1, "3g.40gb": 1, "2g.20gb": 1}, node.parts()
        # Two that cannot both be: the first of them has it, and the other is refused.
        node.take("b")
        assert set(at_once(node, c=pair(2), d=small(3))) == {"c"}
        node.take("a")
        node.take("stays")
        given = at_once(node, e=large(0), f=pair(4), g=small(6))
        assert set(given) == {"f", "g"}, given  # c is at 2
        assert len(set(given.values())) == 2
        node.await_parts(p2g_20gb=2, p1g_10gb=1)  # what "stays" had is in nobody's way
        for name in "c", "f", "g":
            node.take(name)
        node.await_nothing()
        assert "device.unhealthy" not in node.log() and "daemon.again" not in node.log(), node.log()


def test_containers_ask_at_once_for_parts_of_different_profiles_while_another_leaves():
    for _ in range(ROUNDS):
        ask_at_once()


def test_a_part_that_a_container_has_is_made_again_after_the_machine():
    with Parts() as node:
        probe = node.begin().places(7)["1g.10gb:2"]
        node.end()
        node.given["pod"] = SMALL, [probe]
        node.write_given()
        node.restart()
        node.await_parts(p1g_10gb=1)
        assert node.ours() == [probe]


def test_all_that_containers_have_is_made_again_as_far_as_there_is_room():
    """More than one Allocate may ask for, and the first of them has no room: somebody else has made a part there."""
    with Parts("0:3g.40gb", devices="3xH100") as node:
        node.begin()
        open_ = [id for id in healthy(node.kubelet.await_devices(lambda now: len(healthy(now)) == 17)) if id.startswith("GPU-")]
        assert len(open_) == 17
        first = next(id for id in open_ if id.endswith(":4") and id.replace(":4", ":0") not in open_)
        node.end()
        node.given["pod"] = SMALL, [first.replace(":4", ":0"), *open_]
        node.write_given()
        node.restart()
        until(lambda: sorted(node.ours()) == sorted(open_), lambda: node.ours())
        node.await_log("parts.problem reason=")


def test_meted_is_killed_at_each_step():
    """Before and after each change that it makes: the next one finds what the former left, and nothing else."""
    with Parts("0:3g.40gb") as node:
        node.begin()
        ids, free = node.places(3), "1g.10gb:5"
        for step in range(1, STEPS + 1):
            node.end()
            node.faults(f"die@{step}")  # a process that comes after it counts all of its changes
            node.restart()
            node.places(3)
            if step <= STEPS // 2:
                tag = node.kubelet.begin("allocate", ids[free])
                node.meted.wait()
                assert not node.kubelet.refusal(tag).startswith("not refused")
            else:
                node.give("pod", SMALL, ids[free])
                node.take("pod")
                node.meted.wait()
            node.faults("")
            node.restart()
            node.await_parts(p3g_40gb=1)
            until(lambda: not node.ours(), lambda: node.ours())
            node.places(3)


def refusal(node, id):
    return node.kubelet.refusal(node.kubelet.begin("allocate", id)).removeprefix(f'invalid allocation request for "{SMALL}": ')


def test_a_part_that_the_driver_does_not_make_leaves_nothing():
    with Parts() as node:
        id = node.begin().places(7)["1g.10gb:3"]
        for fault, sentence in (("make-gi=no-room", "1g.10gb: the driver has no room there"), ("make-gi=unknown", "1g.10gb: an error of no known kind"),
                                ("make-gi=elsewhere", "1g.10gb: the driver makes it at 0 instead of 3"),
                                ("make-ci=no-room", "a compute instance: the driver has no room there"), ("make-ci=unknown", "a compute instance: an error of no known kind")):
            node.faults(fault + "@1")
            assert refusal(node, id) == f"GPU 0: {sentence}"
            assert not node.ours() and not node.parts(), fault
            node.give("pod", SMALL, id)
            node.take("pod")
            node.await_nothing()
            node.places(7)


def test_half_a_part_that_the_driver_keeps_is_removed_later():
    """The GPU instance is there, its compute instance cannot be made, and it cannot be destroyed: not until the fault is over."""
    with Parts() as node:
        ids = node.begin().places(7)
        node.faults("make-ci=unknown, destroy-gi=in-use")
        assert refusal(node, ids["1g.10gb:3"]) == "GPU 0: a compute instance: an error of no known kind"
        assert node.ours() == [ids["1g.10gb:3"]]
        node.await_log("parts.used parts=1")
        # It is no room, and nobody else waits for it.
        node.places(*(f"1g.10gb:{k}" for k in range(7) if k != 3))
        node.faults("")
        node.await_nothing()
        node.give("pod", SMALL, node.places(7)["1g.10gb:3"])


def test_a_part_that_the_driver_does_not_destroy_is_tried_again():
    with Parts() as node:
        ids = node.begin().places(7)
        for fault, said in (("destroy-ci=in-use", "parts.used parts=1"), ("destroy-gi=in-use", "parts.used parts=1"),
                            ("destroy-ci=unknown", "parts.problem reason=.*an error of no known kind"), ("destroy-gi=unknown", "parts.problem reason=.*an error of no known kind")):
            before = len(re.findall(said, node.log()))
            node.faults(fault)
            node.give("pod", SMALL, ids["1g.10gb:3"])
            node.take("pod")
            node.await_log(said, before + 1)
            assert node.ours() == [ids["1g.10gb:3"]]
            node.places(*(f"1g.10gb:{k}" for k in range(7) if k != 3))
            # Others come and go meanwhile.
            assert node.give("other", SMALL, ids["1g.10gb:6"])[0].startswith("MIG-")
            node.faults("")
            until(lambda: node.ours() == [ids["1g.10gb:6"]], node.ours)
            node.take("other")
            node.await_nothing()
            node.places(7)


def test_a_driver_that_takes_long_holds_up_only_pods_that_wait_for_it():
    with Parts() as node:
        ids = node.begin().places(7)
        node.faults("make-gi=stall")
        first = node.kubelet.begin("allocate", ids["1g.10gb:3"])
        until(lambda: node.ours() == [ids["1g.10gb:3"]], node.ours)  # it is written down before it is made
        second = node.kubelet.begin("allocate", ids["1g.10gb:4"])
        assert len(healthy(node.kubelet.devices())) == 7 and not node.tenants()
        assert not node.kubelet.answered(first) and not node.kubelet.answered(second)
        node.faults("")
        for tag in first, second:
            assert node.kubelet.answer(tag).startswith("ok env=NVIDIA_VISIBLE_DEVICES=MIG-")
        assert node.parts() == {"1g.10gb": 2}


def test_the_configuration_is_switched_while_a_part_is_being_made():
    """To one without parts on demand, and back: the pod is refused, and what was made for it goes."""
    with Parts() as node:
        ids = node.begin().places(7)
        for n in range(3):
            node.faults("make-gi=stall")
            tag = node.kubelet.begin("allocate", ids["1g.10gb:3"])
            until(lambda: node.ours() == [ids["1g.10gb:3"]], node.ours)
            before = node.log().count("config.loaded")
            node.write({"version": "v1", "flags": {"migStrategy": ("mixed", "none", "single")[n]}})
            node.await_log("config.loaded", before + 1)
            refusal = node.kubelet.refusal(tag)
            assert not refusal.startswith("not refused"), refusal
            with node.kubelet.lock:
                node.kubelet.happened.clear()
            if n == 1:  # back before the driver answers
                node.write({"version": "v1", "flags": {"migStrategy": "dynamic"}})
                node.await_log("config.loaded", before + 2)
            node.faults("")
            node.await_nothing()
            if n != 1:
                node.write({"version": "v1", "flags": {"migStrategy": "dynamic"}})
            node.kubelet.hear(f"registered {SMALL} ")
            node.give("pod", SMALL, node.places(7)["1g.10gb:3"])
            node.take("pod")
            node.await_nothing()
        assert "daemon.again" not in node.log(), node.log()


def test_a_driver_that_hangs_keeps_no_meted_that_ends():
    with Parts() as node:
        ids = node.begin().places(7)
        node.faults("make-ci=stall")
        tag = node.kubelet.begin("allocate", ids["1g.10gb:3"])
        until(lambda: node.ours(), "nothing is made")
        node.end()
        assert not node.kubelet.refusal(tag).startswith("not refused")
        node.faults("")
        node.restart()
        node.await_nothing()
        node.places(7)


def test_it_is_refused_beside_a_label_that_divides():
    with Parts() as node:
        node.options += ["--mig-config", "/nowhere"]
        refused = subprocess.run(node.command(), env=dict(os.environ, **node.environment), stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
        assert refused.returncode and "flags.migStrategy: dynamic does not go with --mig-config" in refused.stderr, refused


def test_parts_go_after_it_has_been_switched_off():
    with Parts(devices="2xH100") as node:
        node.begin()
        node.give("pod", SMALL, node.places(14)["1g.10gb:0"])
        node.write({"version": "v1", "flags": {"migStrategy": "mixed"}})
        node.take("pod")
        node.await_nothing()


if __name__ == "__main__":
    run(globals())
