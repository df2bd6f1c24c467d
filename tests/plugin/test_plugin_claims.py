#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Many claims at once: meted's requests to an API server of ours, when a kubelet of ours asks for them. tests/plugin/node.py describes the parties."""
import contextlib
import itertools

from node import *
from meted import run

DRIVER = "gpu.mete.dev"
READS, TOGETHER = 8, 4  # requests at a time; so many that wait are read by a list


class Claims:
    """The claims c0, c1, ... of each namespace. Requests are answered when the test lets them; `read` has what was asked for: "c0", "list NAMESPACE"."""

    def __init__(self, uuid):
        self.lock = threading.Condition()
        self.device, self.places = uuid.lower(), {}  # of all claims; of some, by name
        self.read, self.under_way, self.most = [], set(), 0
        self.connections, self.let, self.all = set(), set(), False
        self.listed, self.refused, self.limits = {}, None, []
        self.refused_from = 0  # of the pages of all claims: the first that is refused
        self.admins = set()  # claims with adminAccess
        self.told, self.deaf, self.reason = [], None, "the test refuses"  # the claims' status that meted wrote; the code with which that is refused, and why
        self.memory, self.memories = "64Mi", {}  # of each; of some, by name
        self.annotation = ""  # of each list's first claim
        self.uids, self.pools, self.missing = {}, {}, set()  # of claims that were made anew, and of those of another node, by name; claims that are gone
        self.parts = {}  # by name: the results of a claim that has several, [(request, device), ...]
        self.reserved = {}  # by name: UIDs of the pods that a claim is reserved for
        self.cluster, self.pages = [], []  # the claims of all namespaces, and what was said when they were asked for: from which on, the devices published
        self.node = None

    def await_let(self, what, connection):
        with self.lock:
            self.read.append(what)
            self.connections.add(connection)
            self.under_way.add(what)
            self.most = max(self.most, len(self.under_way))
            self.lock.notify_all()
            self.lock.wait_for(lambda: self.all or what in self.let, PATIENCE)
            self.under_way.discard(what)

    def claim(self, namespace, name):
        result = {"request": "gpu", "driver": DRIVER, "pool": self.pools.get(name, NODE + "-mete"), "device": self.places.get(name, self.device), "shareID": "s",
                  "consumedCapacity": {"memory": self.memories.get(name, self.memory), "compute": "1", "slots": "1"}}
        if name in self.admins:
            result["adminAccess"] = True
        pods = [{"resource": "pods", "name": "any", "uid": pod} for pod in self.reserved.get(name, ())]
        results = [{**result, "request": request, "device": device, "shareID": f"s{number}"}
                   for number, (request, device) in enumerate(self.parts[name])] if name in self.parts else [result]
        return {"metadata": {"namespace": namespace, "name": name, "uid": self.uids.get(name, uid(name))},
                "status": {"allocation": {"devices": {"results": results}}, "reservedFor": pods}}

    def one(self, namespace, name, connection):
        self.await_let(name, connection)
        return ({"kind": "Status", "code": 404, "details": {"name": name}}, 404) if name in self.missing else (self.claim(namespace, name),)

    def list(self, namespace, limit, connection):
        """Of the names that the test has put into `listed`."""
        self.limits.append(limit)
        self.await_let("list " + namespace, connection)
        if self.refused:
            return {"kind": "Status", "code": self.refused, "message": "the test refuses"}, self.refused
        items = [self.claim(namespace, name) for name in self.listed[namespace]]
        items[0]["metadata"]["annotations"] = {"long": self.annotation}
        return {"metadata": {}, "items": items},

    def page(self, limit, begin):
        """Of the claims of all namespaces."""
        slices = self.node.api.objects("resourceslices", len(self.node.api.log))
        self.pages.append((begin, tuple(device["name"] for slice in slices for device in slice["spec"].get("devices", ()))))
        if self.refused and begin >= self.refused_from:
            return {"kind": "Status", "code": self.refused, "message": "the test refuses"}, self.refused
        end = begin + limit
        return {"metadata": {"continue": str(end)} if end < len(self.cluster) else {}, "items": self.cluster[begin:end] or None},

    def tell(self, namespace, name, body):
        """The object that is applied to a claim's status."""
        with self.lock:
            self.told.append((name, body))
            self.lock.notify_all()
            if self.deaf:
                return {"kind": "Status", "code": self.deaf, "message": self.reason}, self.deaf
        return self.claim(namespace, name),

    def answer(self, *what):
        with self.lock:
            self.let.update(what)
            self.lock.notify_all()

    def answer_all(self):
        with self.lock:
            self.all = True
            self.lock.notify_all()

    def await_reads(self, count):
        with self.lock:
            assert self.lock.wait_for(lambda: len(self.read) >= count, PATIENCE), f"only {self.read} were read"
            return list(self.read)


def uid(name):
    return "uid-" + name


class Caller:
    """claims_caller, and its answers: TAG: (MS, WORDS)."""

    def __init__(self, socket):
        self.process = subprocess.Popen([BUILD + "/tests/plugin/claims_caller", socket], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.lock, self.answers, self.numbers = threading.Condition(), {}, itertools.count()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            tag, _, rest = line.rstrip("\n").split(" ", 2)
            with self.lock:
                self.answers[tag] = rest
                self.lock.notify_all()

    def tell(self, *lines):
        self.process.stdin.write("".join(line + "\n" for line in lines))
        self.process.stdin.flush()

    def prepare(self, *tags, namespace="ns"):
        """A claim's name is a tag, and "/again" may follow. When this returns, meted knows."""
        self.tell(*(f"{tag} prepare {namespace} {name} {uid(name)}" for tag in tags for name in [tag.removesuffix("/again")]))
        self.await_known()

    def unprepare(self, name, namespace="ns"):
        tag = f"end-{next(self.numbers)}"
        self.tell(f"{tag} unprepare {namespace} {name} {uid(name)}")
        assert self.answer(tag) == "ok", self.answer(tag)

    def await_known(self):
        tag = f"known-{next(self.numbers)}"
        self.tell(f"{tag} unprepare ns none none")
        assert self.answer(tag) == "ok"

    def answer(self, tag):
        with self.lock:
            assert self.lock.wait_for(lambda: tag in self.answers, PATIENCE), f"{tag} was never answered"
            return self.answers[tag]

    def forget(self, *tags):
        """When this returns, meted knows."""
        self.tell(*(f"{tag} forget" for tag in tags))
        self.await_known()

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(timeout=PATIENCE) == 0


@contextlib.contextmanager
def claims(version=None, drops=(), files=(), **more):
    """`version`: of the API server; `drops`: what it drops of slices; `files`: of the driver, in /dev."""
    with Node(start=False, dra="on", slots=50, **more) as node:
        node.api.version, node.api.drops = version, drops
        os.mkdir(node.kubelet.folder + "/plugins_registry")
        if files:
            node.has_files(*files)
        node.start()
        node.api.claim = made = Claims(node.uuid[0])
        made.node = node
        caller = Caller(f"{node.kubelet.folder}/plugins/{DRIVER}/dra.sock")
        try:
            yield node, made, caller
        finally:
            made.answer_all()
            caller.close()


def names(begin, end):
    return [f"c{n}" for n in range(begin, end)]


def busy(made, caller):
    """So many claims are read by themselves that others wait."""
    for n in range(READS):
        caller.prepare(f"b{n}")
        assert made.await_reads(n + 1)[-1] == f"b{n}"


def test_claims_that_wait_are_read_by_one_list_of_their_namespace():
    with claims() as (node, made, caller):
        busy(made, caller)
        made.listed = {"ns": names(0, 40), "other": ["c50"]}
        caller.prepare(*names(0, 20))
        caller.prepare("c50", namespace="other")
        caller.prepare(*names(20, 40))
        made.answer("b0", "list ns", "c50")
        for name in ["b0", "c50", *names(0, 40)]:
            assert caller.answer(name) == f"ok mete.dev/claim={uid(name)}-0"
        assert made.read[READS:] == ["list ns", "c50"] and made.limits == [640], (made.read, made.limits)
        assert {row.name for row in node.tenants()} == {"ns/b0", "other/c50", *("ns/" + name for name in names(0, 40))}


def test_few_claims_are_read_by_themselves_in_the_order_of_asking():
    with claims() as (node, made, caller):
        busy(made, caller)
        caller.prepare(*names(0, TOGETHER - 1))
        for n in range(TOGETHER - 1):
            made.answer(f"b{n}")
            assert made.await_reads(READS + n + 1)[-1] == f"c{n}"
        made.answer_all()
        for name in names(0, TOGETHER - 1):
            assert caller.answer(name).startswith("ok "), caller.answer(name)
        # Another request of meted's may have one of them for a moment.
        assert made.most == READS and len(made.connections) <= READS + 2, (made.most, len(made.connections))


def test_a_claim_that_a_list_lacks_is_read_by_itself():
    with claims() as (node, made, caller):
        busy(made, caller)
        made.listed = {"ns": ["unknown", "c3", "c1"]}
        caller.prepare(*names(0, 5))
        made.answer("b0", "list ns")
        assert made.await_reads(READS + 2)[READS:] == ["list ns", "c0"]
        made.answer_all()
        for name in names(0, 5):
            assert caller.answer(name).startswith("ok "), caller.answer(name)
        assert set(made.read[READS + 2:]) == {"c2", "c4"}, made.read


def test_where_lists_are_refused_each_claim_is_read_by_itself():
    with claims() as (node, made, caller):
        busy(made, caller)
        made.refused = 403
        caller.prepare(*names(0, 30))
        made.answer_all()
        for name in names(0, 30):
            assert caller.answer(name).startswith("ok "), caller.answer(name)
        assert made.read[READS] == "list ns" and set(made.read[READS + 1:]) == set(names(0, 30)) and made.most == READS, made.read


def test_a_server_that_is_overloaded_is_not_asked_for_each_claim_of_a_refused_list():
    """It refuses the list without a word when to come again. The kubelet asks for the claims again, later."""
    for code in 429, 503:
        with claims() as (node, made, caller):
            busy(made, caller)
            made.refused = code
            caller.prepare(*names(0, 30))
            made.answer_all()
            for name in names(0, 30):
                assert caller.answer(name).startswith("error ") and "the test refuses" in caller.answer(name), caller.answer(name)
            assert made.read[READS:] == ["list ns"], made.read
            made.refused, made.listed = None, {"ns": names(0, 30)}
            caller.prepare(*(name + "/again" for name in names(0, 30)))
            for name in names(0, 30):
                assert caller.answer(name + "/again").startswith("ok "), caller.answer(name + "/again")


def test_where_a_list_is_long_each_claim_is_read_by_itself():
    with claims() as (node, made, caller):
        busy(made, caller)
        made.listed, made.annotation = {"ns": names(0, 30)}, "x" * MIB
        caller.prepare(*names(0, 30))
        made.answer_all()
        for name in names(0, 30):
            assert caller.answer(name).startswith("ok "), caller.answer(name)
        assert made.read[READS] == "list ns" and set(made.read[READS + 1:]) == set(names(0, 30)), made.read


def test_a_call_that_the_kubelet_has_given_up_makes_room_for_the_next():
    with claims() as (node, made, caller):
        busy(made, caller)
        caller.prepare("c0", "c1")
        caller.forget("c0")  # it waits
        made.answer("b0")
        assert made.await_reads(READS + 1)[-1] == "c1"
        made.listed = {"ns": names(2, 8)}
        caller.prepare(*names(2, 8))
        caller.forget("b1")  # it is being read
        assert made.await_reads(READS + 2)[-1] == "list ns"
        caller.prepare(*(f"c{n}" for n in (9, 10)))
        caller.forget(*names(2, 7))
        assert len(made.read) == READS + 2, "somebody still waits for the list"
        caller.forget("c7")
        assert made.await_reads(READS + 3)[-1] == "c9"
        made.answer_all()
        answered = {"b0", *(f"b{n}" for n in range(2, READS)), "c1", "c9", "c10"}
        for name in answered:
            assert caller.answer(name).startswith("ok "), caller.answer(name)
        assert {row.name for row in node.tenants()} == {"ns/" + name for name in answered}


def test_a_claim_that_was_prepared_meanwhile_is_not_read_again():
    with claims() as (node, made, caller):
        busy(made, caller)
        caller.prepare("b0/again", "c8")
        made.answer("b0")
        assert caller.answer("b0/again") == caller.answer("b0")
        assert made.await_reads(READS + 1)[READS:] == ["c8"]


def test_a_claim_that_is_unprepared_while_it_waits_is_not_prepared_later():
    """As when a pod is deleted by force, and the kubelet's call for it has not ended yet."""
    with claims() as (node, made, caller):
        busy(made, caller)
        caller.prepare("c0", "b0/again")
        for name in "c0", "b0":  # it waits to be read; it is being read, for two calls
            caller.unprepare(name)
        for tag in "c0", "b0", "b0/again":
            assert caller.answer(tag) == "error the claim was unprepared meanwhile", caller.answer(tag)
        made.answer_all()
        for name in [f"b{n}" for n in range(1, READS)]:
            assert caller.answer(name).startswith("ok "), caller.answer(name)
        assert {row.name for row in node.tenants()} == {f"ns/b{n}" for n in range(1, READS)} and "c0" not in made.read
        caller.prepare("c0/again")
        assert caller.answer("c0/again").startswith("ok "), caller.answer("c0/again")


def test_of_alternatives_the_kubelet_is_told_the_request_that_containers_name():
    """It compares: a container that names `gpu` would start without the device of `gpu/small`."""
    with claims() as (node, made, caller):
        made.answer_all()
        first, second = (uuid.lower() for uuid in node.uuid)
        made.parts = {"c0": [("gpu/small", first)], "c1": [("one", first), ("other/large", second)]}
        for name, wanted in ("c0", "gpu"), ("c1", "one other"):
            caller.tell(f"{name} requests ns {name} {uid(name)}")
            assert caller.answer(name) == "ok " + wanted, caller.answer(name)
        assert {row.name for row in node.tenants()} == {"ns/c0", "ns/c1"}


def test_a_container_that_names_a_request_gets_the_files_of_that_requests_gpu():
    """As of two containers that ask for nvidia.com/gpu each, for which kube-scheduler makes one claim."""
    with claims(files=("nvidiactl", "nvidia0", "nvidia1")) as (node, made, caller):
        made.answer_all()
        made.parts = {"c0": [(f"container-{number}-request-0", uuid.lower()) for number, uuid in enumerate(node.uuid)]}
        caller.prepare("c0")
        assert caller.answer("c0") == "ok mete.dev/claim=uid-c0-0 mete.dev/claim=uid-c0-1", caller.answer("c0")
        (file,) = read_all(node.cdi).values()
        assert [(device["name"], [at["path"] for at in device["containerEdits"]["deviceNodes"]]) for device in file["devices"]] == [
            (f"uid-c0-{number}", [f"/dev/nvidia{number}"]) for number in range(2)], file
        assert [at["path"] for at in file["containerEdits"]["deviceNodes"]] == ["/dev/nvidiactl"], file
        assert not any(text.startswith("CUDA_VISIBLE_DEVICES") for text in file["containerEdits"]["env"]), file


def test_who_looks_at_all_gpus_of_a_node_has_one_claim():
    """allocationMode: All, with adminAccess."""
    with claims() as (node, made, caller):
        made.answer_all()
        made.admins, made.parts = {"c0"}, {"c0": [("all", uuid.lower()) for uuid in node.uuid]}
        caller.prepare("c0", "c1")
        assert caller.answer("c0") == "ok mete.dev/claim=uid-c0-0 mete.dev/claim=uid-c0-1", caller.answer("c0")
        assert caller.answer("c1").startswith("ok "), caller.answer("c1")
        assert {(row.name, row.device) for row in node.tenants()} == {("ns/c0", 0), ("ns/c0", 1), ("ns/c1", 0)}


def test_a_claim_that_tolerates_a_devices_taint_is_prepared_unless_the_device_is_gone():
    """kube-scheduler gives it the device; what the taint was for is its owner's affair."""
    with claims() as (node, made, caller):
        made.answer_all()
        cordon(node, 0)
        caller.prepare("c0")
        assert caller.answer("c0").startswith("ok "), caller.answer("c0")
        launch(node, "xid=48@1", 0)
        node.await_log("device.unhealthy")
        caller.prepare("c1")
        assert caller.answer("c1").startswith("ok "), caller.answer("c1")
        launch(node, "xid=79@1", 0)
        node.await_log("device.unhealthy .*Xid 79")
        caller.prepare("c2")
        assert re.match("error device .* is gone from the bus: the container starts when", caller.answer("c2")), caller.answer("c2")
        caller.prepare("c0/again")  # which it had before
        assert caller.answer("c0/again") == caller.answer("c0")


def test_a_claim_may_have_the_longest_name_of_kubernetes():
    """253 characters, which need no dots, in a namespace of 63."""
    with claims() as (node, made, caller):
        made.answer_all()
        namespace, name = "n" * 63, "c" * 253
        made.uids[name] = "0" * 36
        for _ in range(2):
            caller.tell(f"long prepare {namespace} {name} {made.uids[name]}")
            assert caller.answer("long") == f"ok mete.dev/claim={made.uids[name]}-0", caller.answer("long")
            (row,) = node.tenants()
            assert f"{namespace}/{name}".startswith(row.name) and len(row.name) == 255, row.name
            node.end()
            node.start()
            caller.close()
            caller = Caller(f"{node.kubelet.folder}/plugins/{DRIVER}/dra.sock")
        caller.tell(f"end unprepare {namespace} {name} {made.uids[name]}")
        assert caller.answer("end") == "ok" and not node.tenants() and not os.listdir(node.cdi), node.tenants()
        caller.close()


def test_a_claim_that_was_made_anew_ends_the_former_one_of_its_name():
    with claims() as (node, made, caller):
        made.answer_all()
        caller.prepare("c0")
        assert caller.answer("c0").startswith("ok "), caller.answer("c0")
        (former,) = node.tenants()
        made.uids["c0"] = "uid-anew"
        caller.tell("anew prepare ns c0 uid-anew")
        assert caller.answer("anew") == "ok mete.dev/claim=uid-anew-0", caller.answer("anew")
        (row,) = node.tenants()
        assert row.name == "ns/c0" and row.tenant != former.tenant
        assert len(os.listdir(node.cdi)) == 1 and set(os.listdir(f"{node.place}/claims")) == {".announced", "uid-anew"}
        caller.unprepare("c0")  # of which the kubelet hears later


def test_claims_that_wait_are_refused_when_the_server_goes_and_prepared_when_it_is_back():
    with claims() as (node, made, caller):
        busy(made, caller)
        caller.prepare(*names(0, 2 * READS))
        node.api.away()
        for name in names(0, 2 * READS):
            assert caller.answer(name).startswith("error the claim cannot be read: "), caller.answer(name)
        made.listed = {"ns": names(0, 2 * READS)}
        node.api.back()
        made.answer_all()
        caller.prepare(*(name + "/again" for name in names(0, 2 * READS)))
        for name in names(0, 2 * READS):
            assert caller.answer(name + "/again").startswith("ok "), caller.answer(name + "/again")


def test_meted_ends_while_claims_wait():
    with claims() as (node, made, caller):
        busy(made, caller)
        caller.prepare(*names(0, 2 * READS))
        node.end()
        node.start()
        made.listed = {"ns": names(0, 2 * READS)}
        made.answer_all()
        caller.prepare(*(name + "/again" for name in names(0, 2 * READS)))
        for name in names(0, 2 * READS):
            assert caller.answer(name).startswith("error "), name
            assert caller.answer(name + "/again").startswith("ok "), caller.answer(name)


def test_files_that_a_killed_meted_wrote_without_a_record_are_removed_everywhere():
    with claims() as (node, made, caller):
        made.answer_all()
        caller.prepare("c0")
        assert caller.answer("c0").startswith("ok ")
        node.meted.kill()
        with open(f"{node.place}/claims/.announced") as file:
            assert file.read() == f"mete.dev/claim {node.cdi}\n"
        elsewhere = node.folder + "/former cdi"
        os.mkdir(elsewhere)
        (kept,) = os.listdir(node.cdi)
        for folder in (node.cdi, elsewhere):  # as after a death between this file and its record
            shutil.copy(f"{node.cdi}/{kept}", f"{folder}/{kept.replace('c0', 'c1')}")
        with open(f"{elsewhere}/{kept.replace('c0', 'c2')}", "w") as file:
            file.write("another mete's")
        with open(f"{node.place}/claims/.announced", "a") as file:
            file.write(f"mete.dev/claim {elsewhere}\n")
        node.start()
        until(lambda: os.listdir(node.cdi) == [kept] and os.listdir(elsewhere) == [kept.replace("c0", "c2")], lambda: (os.listdir(node.cdi), os.listdir(elsewhere)))
        assert {row.name for row in node.tenants()} == {"ns/c0"}


def test_a_claims_file_that_somebody_removed_is_written_again():
    with claims() as (node, made, caller):
        made.answer_all()
        caller.prepare("c0")
        assert caller.answer("c0").startswith("ok ")
        (name,) = os.listdir(node.cdi)
        path = f"{node.cdi}/{name}"
        with open(path) as file:
            was = file.read()
        shutil.rmtree(node.cdi)
        caller.prepare("c0/again")  # by a kubelet that has started anew
        assert caller.answer("c0/again") == caller.answer("c0") and open(path).read() == was
        os.unlink(path)  # of a claim for which nobody asks any more
        until(lambda: os.path.exists(path), lambda: node.log()[-2000:])
        assert open(path).read() == was
        caller.unprepare("c0")
        assert not os.listdir(node.cdi)


def test_a_claims_file_that_cannot_be_written_is_told_once_and_the_kubelet_hears_why():
    def unwritten():
        return re.findall("claim.unwritten .*", node.log())

    with claims() as (node, made, caller):
        made.answer_all()
        caller.prepare("c0")
        assert caller.answer("c0").startswith("ok ")
        for time in range(1, 3):
            shutil.rmtree(node.cdi)
            open(node.cdi, "w").close()  # no folder: nothing can be written there
            until(lambda: len(unwritten()) == time, node.log)
            caller.prepare("c0/again")  # by a kubelet that has started anew
            assert caller.answer("c0/again").startswith("error ") and node.cdi in caller.answer("c0/again"), caller.answer("c0/again")
            # The claim is looked up at each third look.
            seen = made.read.count("c0")
            until(lambda: made.read.count("c0") > seen + 2 - time, lambda: made.read)
            assert len(unwritten()) == time, unwritten()
            os.unlink(node.cdi)
            until(lambda: os.path.isdir(node.cdi) and os.listdir(node.cdi), node.log)
        caller.unprepare("c0")


if __name__ == "__main__":
    run(globals(), at_once=4)
