# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of this folder: argv[1] of a test is the build folder, argv[2...] names of tests to run.

One cluster serves a whole file (METE_CLUSTER: all files); a test has a namespace of its own in it. Tests that ask for the same meted, one
after the other, have the same one, unless a test did something to it.
"""
import atexit
import base64
import contextlib
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "system")]
import images  # noqa: E402
from cluster import PATIENCE, QUIET, ROOT, Answer, Cluster, Never, until  # noqa: E402,F401
from runner import Skipped, needed, run as run_tests, soak  # noqa: E402,F401

BUILD = os.path.abspath(sys.argv[1])
IMAGES = [images.work, images.mete]
MIB, GIB = 1 << 20, 1 << 30
REPEATED = bool(os.environ.get("METE_SOAK"))  # `make soak` does again and again what `make test` does once or twice
held = []


def the_cluster():
    if not held:
        cluster = Cluster(os.path.basename(sys.argv[0]).removesuffix(".py").replace("_", "-"), BUILD, IMAGES)
        held.append(cluster)
        atexit.register(lambda: cluster.close(keep_logs=failed))
    return held[0]


failed = []


def unused():
    """A name's end that no other test of the cluster has had; pids come again."""
    return secrets.token_hex(5)


# Settings that cost a pod time, and have nothing to do with GPUs.
CHEAP = {"hostNetwork": True, "automountServiceAccountToken": False, "enableServiceLinks": False}


def pod(command=(), image=images.WORK, slots=0, annotations=None, env=None, runtime=None, restart="Never", resource="mete.dev/gpu",
        security=None, init=None, cheap=True, **spec):
    """A pod's manifest; annotations in our domain are given by their short names, with underscores. `cheap`: without a network and a token of its own."""
    container = {"name": "c", "image": image, "imagePullPolicy": "Never", "command": list(command),
                 "env": [{"name": key, "value": value} for key, value in (env or {}).items()]}
    if slots:
        container["resources"] = {"limits": {resource: slots}}
    if security:
        container["securityContext"] = security
    full = {"terminationGracePeriodSeconds": 1, "restartPolicy": restart, "containers": [container], **(CHEAP if cheap else {}), **spec}
    if init:
        full["initContainers"] = [dict(container, name="first", command=list(init))]
    if runtime:
        full["runtimeClassName"] = runtime
    marks = {f"mete.dev/{key.replace('_', '-')}": value for key, value in (annotations or {}).items()}
    return {"metadata": {"annotations": marks}, "spec": full}


class Meted:
    """meted beside the node, as a machine's service would run it, on a simulated GPU of its own."""

    resource = "mete.dev/gpu"
    options = ()  # more of meted's

    def __init__(self, cluster, config="", slots=4, total=None, options=(), **sim):
        """`config`: lines below `mete`. `sim`: METE_SIM_ settings, without that prefix. `total`: slots in all. `options`: of meted."""
        self.options = (*self.options, *options)
        self.cluster, self.total = cluster, slots if total is None else total
        self.program = os.path.join(BUILD, "node", "meted")
        name = f"meted-{unused()}"
        self.folder = os.path.join(cluster.folder, "run", name)
        os.makedirs(self.folder)
        self.log_path = os.path.join(cluster.folder, "log", name)
        self.sim = f"/dev/shm/sim-{name}"
        cluster.run("sh", "-c", f"rm -rf /run/mete /run/cdi; mkdir -m 1777 {self.sim}")
        self.settings = {"METE_SIM_DIR": self.sim, "METE_SIM_CONTEXT_COST": "1ms", "METE_SIM_PATTERN": "on",
                         **{"METE_SIM_" + key: str(value) for key, value in sim.items()}}
        self.asked, self.changed, self.log_begin = None, False, 0
        self.write(f"slots: {slots}\n{config}")
        self.start()
        self.changed = False

    def begin(self):
        """Another test has it from now on: what it said before is not that test's matter."""
        self.log_begin = os.path.getsize(self.log_path)

    def write(self, config):
        self.changed = True
        lines = "".join(f"  {line}\n" for line in (config + f"\nkubeconfig: {self.kubeconfig()}").splitlines() if line)
        with open(self.folder + "/config.new", "w") as file:
            file.write("version: v1\nmete:\n" + lines)
        os.rename(self.folder + "/config.new", self.folder + "/config.yaml")

    def kubeconfig(self):
        """The rights of a DaemonSet's pod: those that deploy/ gives, and no others."""
        path = self.folder + "/kubeconfig"
        if os.path.exists(path):
            return path
        deploy = os.path.join(ROOT, "deploy", "base")
        for manifest in ("namespace.yaml", "rbac.yaml"):
            self.cluster.apply(os.path.join(deploy, manifest), "mete-system")
        token = self.cluster.ask("POST", "/api/v1/namespaces/mete-system/serviceaccounts/mete/token",
                                 {"spec": {"expirationSeconds": 7200}})["status"]["token"]
        authority = base64.b64encode(open(self.cluster.folder + "/state/tls/apiserver.crt", "rb").read()).decode()
        with open(path, "w") as file:
            json.dump({"apiVersion": "v1", "kind": "Config", "current-context": "x",
                       "clusters": [{"name": "c", "cluster": {"server": "https://10.99.0.1", "certificate-authority-data": authority}}],
                       "users": [{"name": "u", "user": {"token": token}}], "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}]}, file)
        return path

    def launch(self, *options):
        """Until it reports that it is ready: its pid, as the node knows it. `options`: more than it usually has."""
        self.changed = self.changed or bool(options)
        place = tempfile.mkdtemp(prefix="mete-")
        notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        notify.bind(place + "/n")
        notify.settimeout(PATIENCE)
        environment = {key: value for key, value in os.environ.items() if not key.startswith("METE_")}
        environment.update(self.settings, NOTIFY_SOCKET=place + "/n", NODE_NAME="node")
        with open(self.log_path, "ab") as log:
            self.process = self.cluster.start(
                "sh", "-c", 'echo $$; exec "$@"', "sh", self.program, "--system", "--driver",
                os.path.join(self.cluster.folder, "driver", "lib"), "--kubernetes", self.folder + "/config.yaml", *self.options, *options,
                env=environment, stdout=subprocess.PIPE, stderr=log, text=True)
        self.pid = int(self.process.stdout.readline())
        try:
            assert notify.recv(100) == b"READY=1"
        except socket.timeout:
            raise AssertionError("meted did not become ready: " + self.log()[-3000:]) from None
        finally:
            notify.close()
            shutil.rmtree(place)

    def start(self):
        before = self.registrations()
        self.launch()
        until(lambda: self.registrations() > before, "it did not register")
        self.await_registered()

    def registrations(self):
        return self.log().count("kubelet.registered") if os.path.exists(self.log_path) else 0

    def await_registered(self):
        self.cluster.await_resource(self.resource, self.total)

    def signal(self, number):
        self.changed = self.changed or number not in (signal.SIGKILL, signal.SIGTERM)
        self.cluster.run("kill", f"-{number}", str(self.pid))

    def kill(self):
        """Until the kubelet has noticed: the node's resources would otherwise be those of before."""
        self.signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()
        self.cluster.await_resource(self.resource, 0)

    def stop(self):
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
            status = self.process.wait(timeout=PATIENCE)
            self.process.stdout.close()
            assert status == 0, f"meted ended with {status}: {self.log()[-2000:]}"
            self.cluster.await_resource(self.resource, 0)

    def log(self):
        with open(self.log_path, "rb") as file:
            file.seek(self.log_begin)
            return file.read().decode()

    def mete(self, *arguments, **more):
        return self.cluster.run(os.path.join(BUILD, "cli", "mete"), *arguments, **more)

    def ps(self):
        """Tenants by their names: NAMESPACE/POD/CONTAINER."""
        return {row["name"]: row for row in json.loads(self.mete("ps", "--json"))["tenants"]}


idle = []  # the meted of the test before, if it may serve the next one


def idle_is(*arguments, **settings):
    """Whether there is one that is what these ask for."""
    return bool(idle) and idle[0].asked == (arguments, settings)


def end_idle():
    while idle:
        idle.pop().stop()


class Node:
    """The cluster's node for one test: a namespace of its own, and meted where the test asks for it."""

    def __init__(self, cluster=None):
        self.cluster = cluster or the_cluster()
        self.namespace = self.cluster.namespace(f"t-{unused()}")
        self.pods, self.meted = [], None

    def share(self, *arguments, **settings):
        """To end a meted and to start another takes longer than most tests: that of the test before goes on, if it is the same."""
        if idle_is(*arguments, **settings):
            self.meted = idle.pop()
            self.meted.begin()
        else:
            end_idle()
            self.meted = Meted(self.cluster, *arguments, **settings)
            self.meted.asked = arguments, settings
        return self.meted

    def pod(self, name, manifest):
        manifest["metadata"]["name"] = name
        made = self.cluster.create_pod(manifest, self.namespace)
        self.pods.append(made)
        return made

    def tenant(self, pod, container="c"):
        """The row of a pod's container in `mete ps`."""
        return self.meted.ps()[f"{self.namespace}/{pod.name}/{container}"]

    # The API server judges what is created by copies that it keeps of quotas, limits and priority classes. A copy may be behind what a list
    # shows, a quota's status included: what comes before it is admitted, and counted nowhere. So each is tried until it holds.

    def answer_to(self, path, object):
        """The API server's answer to an object of that list; "" if it would take it."""
        try:
            self.cluster.ask("POST", path, dict(object, metadata=dict(object.get("metadata", {}), name="tried")), dryRun="All")
        except Answer as answer:
            return answer.reason
        return ""

    def quota(self, name, hard, path, beyond):
        """Until `beyond`, an object of that list, is refused for it."""
        self.cluster.ask("POST", f"/api/v1/namespaces/{self.namespace}/resourcequotas", {"metadata": {"name": name}, "spec": {"hard": hard}})
        until(lambda: f"exceeded quota: {name}" in self.answer_to(path, beyond), "the quota was never in force")

    def limits(self, beyond, **of_containers):
        """A LimitRange, until `beyond`, a pod that it forbids, is refused for it."""
        self.cluster.ask("POST", f"/api/v1/namespaces/{self.namespace}/limitranges",
                         {"metadata": {"name": "limits"}, "spec": {"limits": [{"type": "Container", **of_containers}]}})
        until(lambda: "usage per Container is" in self.answer_to(f"/api/v1/namespaces/{self.namespace}/pods", beyond), "the limits were never in force")

    @contextlib.contextmanager
    def priority(self, value):
        """The name of a PriorityClass that pods may have."""
        name, path = f"{self.namespace}-{value}", "/apis/scheduling.k8s.io/v1/priorityclasses"
        self.cluster.ask("POST", path, {"metadata": {"name": name}, "value": value})
        try:
            until(lambda: "no PriorityClass" not in self.answer_to(f"/api/v1/namespaces/{self.namespace}/pods", pod(priorityClassName=name)),
                  "the priority was never known")
            yield name
        finally:
            self.cluster.ask("DELETE", f"{path}/{name}")

    def end_pods(self):
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        self.cluster.ask("DELETE", path, {"gracePeriodSeconds": 1})
        self.cluster.until(path, lambda pods: not pods, "pods were never gone")

    def lose_power(self):
        """The node is rebooted: its disk stays, and of meted nothing is left but its log. A test that wants another one starts it."""
        self.meted.process.stdout.close()
        self.meted.changed = True
        self.cluster.reboot()
        self.meted.process.wait()

    def close(self, keep=False):
        """`keep`: meted may serve the next test. What cannot be ended does not keep the rest from ending: the next test has the same node."""
        with contextlib.ExitStack() as rest:
            rest.callback(self.cluster.ask, "DELETE", f"/api/v1/namespaces/{self.namespace}")
            rest.callback(self.leave_meted, keep)
            self.end_pods()

    def leave_meted(self, keep):
        if not self.meted:
            return
        keep = keep and not self.meted.changed and self.meted.process.poll() is None
        try:
            if keep:
                until(lambda: not self.meted.ps(), "tenants were left behind")
                idle.append(self.meted)
        finally:
            if self.meted not in idle:
                self.meted.stop()


@contextlib.contextmanager
def node(*arguments, **settings):
    """A node without mete; with any arguments, those of Meted, with it."""
    if not arguments and not settings:
        end_idle()
    here, passed = Node(), False
    try:
        if arguments or settings:
            here.share(*arguments, **settings)
        yield here
        passed = True
    except BaseException:
        if here.meted:
            sys.stderr.write(here.meted.log()[-6000:])
        raise
    finally:
        here.close(keep=passed)


def seen(text):
    """The output of `seen`, as numbers and words."""
    line = next(line for line in text.splitlines() if line.startswith("seen "))
    return {key: int(value) if value.isdigit() else value for key, _, value in (word.partition("=") for word in line.split()[1:])}


def seen_by(pod):
    """The output of `seen` in a pod that has ended."""
    return seen(pod.await_line(r"^seen .*")[0])


def checksum(text):
    """The result of a workload that checked itself."""
    found = re.search(r" ok checksum=([0-9a-f]+)", text)
    assert found, text
    return found[1]


def alone(program, *arguments):
    """Its checksum on the bare simulated driver of this machine."""
    place = tempfile.mkdtemp(prefix="mete-alone-")
    try:
        done = subprocess.run([os.path.join(BUILD, "examples", program), *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True,
                              env=dict(os.environ, LD_LIBRARY_PATH=os.path.join(BUILD, "sim", "lib"), METE_SIM_DIR=place))
        return checksum(done.stdout)
    finally:
        shutil.rmtree(place)


def run(namespace):
    """A failure keeps the cluster's logs."""
    try:
        run_tests(namespace, sys.argv[2:], failed)
    finally:
        try:
            end_idle()
        except BaseException:
            failed.append("the end of what tests shared")
            raise


if __name__ == "__main__":  # for a test that kills who holds a cluster
    cluster = Cluster("held", BUILD, shared=False)
    print(cluster.folder, cluster.keeper.pid, open(os.path.join(cluster.folder, "run", "unshare")).read().strip(), flush=True)
    sys.stdin.read()
