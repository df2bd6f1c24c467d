# SPDX-License-Identifier: Apache-2.0
"""A real one-node Kubernetes for tests and demos: tests/cluster, driven from Python.

    with Cluster("name") as cluster: ...
    cluster.py BUILD COMMAND...     runs a command while a cluster is up, which Clusters within it then use

What a test needs of Kubernetes it asks the API server for itself, over a socket that leads into the node
(`kubectl proxy`): an answer takes a millisecond, and a watch tells what happens when it happens. Nothing here sleeps.
Status 77 where the machine cannot have a cluster; tests/cluster/build.sh says why.
"""
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TOOLS = os.path.join(ROOT, "tests", "cluster")
PATIENCE = int(os.environ.get("METE_PATIENCE", "300"))  # seconds for what must come, on a machine however busy: only a failure takes so long
QUIET = 60  # seconds that a device with a fault must be quiet, the first time (core/health.c): where it is waited for, this comes on top
SKIPPED = 77
RBAC = "/apis/rbac.authorization.k8s.io/v1"
PLACES = {"Namespace": "/api/v1/namespaces", "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
          "ClusterRole": RBAC + "/clusterroles", "ClusterRoleBinding": RBAC + "/clusterrolebindings",
          "DeviceClass": "/apis/resource.k8s.io/v1/deviceclasses"}


class Never(AssertionError):
    """A state that was waited for did not come."""


def until(holds, what):
    """For a state that nothing reports: asks again and again; returns its value. Each question starts programs: the pause is longer than they
    take."""
    end = time.monotonic() + PATIENCE
    began = time.monotonic()
    while not (answer := holds()):
        now = time.monotonic()
        if now >= end:
            raise Never(what)
        time.sleep(min(max(0.02, 5 * (now - began)), 0.5))
        began = time.monotonic()
    return answer


class Answer(Exception):
    """The API server refused."""

    def __init__(self, status, body):
        self.status = status
        try:
            self.reason = json.loads(body)["message"]
        except (ValueError, KeyError, TypeError):
            self.reason = body.decode(errors="replace")
        super().__init__(f"{status}: {self.reason}")


class Local(http.client.HTTPConnection):
    """HTTP over a socket in the file system."""

    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        # However deep the folder is: a socket's path has at most 107 bytes.
        folder = os.open(os.path.dirname(self.path), os.O_PATH)
        try:
            self.sock.connect(f"/proc/self/fd/{folder}/{os.path.basename(self.path)}")
        finally:
            os.close(folder)


class Cluster:
    """A cluster of its own, or the one that METE_CLUSTER names. It ends with this process, however that ends."""

    def __init__(self, name, build, images=(), shared=True):
        """`images`: functions that are given the folder in which they leave NAME.tar."""
        self.build = os.path.abspath(build)
        self.keeper, self.proxy, self.children = None, None, []
        given = os.environ.get("METE_CLUSTER") if shared else None
        if given and not os.path.isabs(given):  # why there is none: a sentence
            print("skipped: " + given)
            sys.exit(SKIPPED)
        self.folder = given or self.make(name, images)
        self.bin = os.path.join(self.folder, "bin")
        self.connect()

    def make(self, name, images):
        place = os.path.join(self.build, "kubernetes")
        os.makedirs(place, exist_ok=True)
        for old in os.listdir(place):  # of runs that failed, or were killed
            owner = re.fullmatch(re.escape(name) + r"-(\d+)", old)
            if owner and not os.path.exists(f"/proc/{owner[1]}"):
                subprocess.run([os.path.join(TOOLS, "down.sh"), os.path.join(place, old)], check=False)
                shutil.rmtree(os.path.join(place, old), ignore_errors=True)
        folder = os.path.join(place, f"{name}-{os.getpid()}")
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(os.path.join(folder, "images"))
        # First of all whether it can be had: images take time, too.
        can = subprocess.run([os.path.join(TOOLS, "build.sh")], stdout=subprocess.PIPE, text=True)
        if can.returncode:
            shutil.rmtree(folder)
            if can.returncode == SKIPPED:
                print("skipped: " + can.stdout.strip(), flush=True)
            sys.exit(can.returncode)
        install_driver(self.build, os.path.join(folder, "driver"))
        for image in images:
            image(self.build, os.path.join(folder, "images"))
        self.keeper = subprocess.Popen([os.path.join(TOOLS, "keep.sh"), folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       text=True, start_new_session=True)
        self.await_keeper()
        return folder

    def await_keeper(self):
        if self.keeper.stdout.readline().strip() != "ready":
            sys.exit(self.keeper.wait() or 1)

    def connect(self):
        """A way in to the API server, and what the node is."""
        self.end_proxy()
        place = os.path.join(self.folder, "run", f"api-{os.getpid()}")
        shutil.rmtree(place, ignore_errors=True)
        os.makedirs(place)
        self.api_socket = os.path.join(place, "s")
        # It is bound under a short name (the working directory is that of the socket).
        self.proxy = self.start("sh", "-c", 'cd "$1" && exec kubectl proxy --unix-socket=s', "sh", place, stdout=subprocess.PIPE, text=True)
        if not self.proxy.stdout.readline().startswith("Starting to serve"):
            raise Never("kubectl proxy did not start")

    def end_proxy(self):
        if self.proxy:
            self.proxy.kill()
            self.proxy.wait()
            self.proxy.stdout.close()

    def reboot(self):
        """The node's power fails: its disk stays, /run and all processes go."""
        self.end_proxy()
        self.proxy = None
        if self.keeper:
            self.keeper.stdin.write("reboot\n")
            self.keeper.stdin.flush()
            self.await_keeper()
        else:  # of another process, which listens below
            with open(os.path.join(self.folder, "ask"), "w") as ask:
                ask.write("reboot\n")
            with open(os.path.join(self.folder, "answer")) as answer:
                assert answer.read() == "ready\n", "the node was not rebooted"
        self.connect()

    def serve(self):
        """Reboots the node for those that share the cluster."""
        for name in ("ask", "answer"):
            os.mkfifo(os.path.join(self.folder, name))

        def answer():
            while True:
                with open(os.path.join(self.folder, "ask")) as ask:
                    ask.read()
                try:
                    self.reboot()
                    said = "ready\n"
                except (Exception, SystemExit):  # its reason is on standard error, or in the cluster's log
                    said = ""
                with open(os.path.join(self.folder, "answer"), "w") as told:
                    told.write(said)
        threading.Thread(target=answer, daemon=True).start()

    def close(self, keep_logs=False):
        for child in self.children:
            child.kill()
            child.wait()
        self.end_proxy()
        if self.keeper:
            self.keeper.stdin.close()
            self.keeper.stdout.close()
            self.keeper.wait()
            if not keep_logs:
                shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.close(keep_logs=kind is not None)
        if kind is not None and self.keeper:
            sys.stderr.write(f"what the cluster's parts said is in {self.folder}/log\n")

    # Beside the node.

    def inside(self, *command):
        return [os.path.join(TOOLS, "in.sh"), self.folder, *command]

    def start(self, *command, **more):
        """A process beside the node; it is killed when this process ends."""
        return subprocess.Popen(self.inside(*command), **{"stdin": subprocess.DEVNULL, **more})

    def run(self, *command, check=True, **more):
        """Runs a command beside the node to its end; what it printed."""
        done = subprocess.run(self.inside(*command), text=True, capture_output=True, timeout=PATIENCE,
                              **{"stdin": subprocess.DEVNULL} if "input" not in more else {}, **more)
        if check and done.returncode:
            raise AssertionError(f"{' '.join(command)}: status {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout if check else done

    def kubectl(self, *arguments, **more):
        return self.run("kubectl", *arguments, **more)

    def part(self, name):
        """The process of a part of the cluster, as the node knows it."""
        return int(open(os.path.join(self.folder, "run", name + ".pid")).read())

    def kill_part(self, name):
        """It starts again at once, unless its start is held back."""
        self.run("kill", "-KILL", str(self.part(name)))

    def hold_part(self, name):
        """A lock that keeps a part from starting again: close() it."""
        import fcntl
        hold = open(os.path.join(self.folder, "run", name + ".hold"), "a")
        fcntl.flock(hold, fcntl.LOCK_EX)
        return hold

    def import_image(self, path):
        self.run("ctr", "-n", "k8s.io", "images", "import", path)

    def add_image(self, name, image):
        """An image that few tests need. `image`: as in `images`, which makes NAME.tar."""
        path = os.path.join(self.folder, "images", name + ".tar")
        if not os.path.exists(path):
            image(self.build, os.path.dirname(path))
            self.import_image(path)

    # The API server.

    def ask(self, method, path, body=None, kind="application/json", timeout=PATIENCE, **query):
        """`body`: an object, or a text that is of that kind."""
        connection = Local(self.api_socket, timeout)
        try:
            headers = {"Content-Type": kind} if body is not None else {}
            # Without blanks: the server keeps parameters as they are sent, and patches of a claim whose parameters have some are refused.
            text = body.encode() if isinstance(body, str) else json.dumps(body, separators=(",", ":")) if body is not None else None
            connection.request(method, path + ("?" + urllib.parse.urlencode(query) if query else ""), text, headers)
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        if answer.status >= 300:
            raise Answer(answer.status, data)
        return json.loads(data) if "json" in (answer.headers.get("Content-Type") or "") else data.decode(errors="replace")

    def get(self, path, **query):
        return self.ask("GET", path, **query)

    def patch(self, path, body, kind="application/merge-patch+json"):
        return self.ask("PATCH", path, body, kind)

    def apply(self, manifest, namespace):
        """The same as `kubectl apply -f` for the kinds in PLACES, without starting a program that first asks for all kinds that there are."""
        with open(manifest) as file:
            documents = [text for text in re.split(r"^---$", file.read(), flags=re.M) if re.search(r"^kind:", text, re.M)]
        for text in documents:
            kind, name = re.search(r"^kind: (\w+)", text, re.M)[1], re.search(r"^metadata:\n  name: (\S+)", text, re.M)[1]
            self.apply_object(kind, name, text, namespace)

    def apply_object(self, kind, name, text, namespace):
        path = f"{PLACES[kind].format(namespace=namespace)}/{name}"
        self.ask("PATCH", path, text, "application/apply-patch+yaml", fieldManager="tests", force="true")

    def watch(self, path, version, timeout=PATIENCE, **query):
        """Events of a list from a version on: (type, object). Ends when the server has told enough."""
        connection = Local(self.api_socket, timeout)
        try:
            query = dict(query, watch="1", resourceVersion=version, allowWatchBookmarks="true", timeoutSeconds=int(timeout))
            connection.request("GET", f"{path}?{urllib.parse.urlencode(query)}")
            answer = connection.getresponse()
            if answer.status != 200:
                raise Answer(answer.status, answer.read())
            for line in answer:
                event = json.loads(line)
                yield event["type"], event["object"]
        finally:
            connection.close()

    def until(self, path, holds, what, besides=0, **query):
        """Until holds(the objects of a list, by name) is true; what it was. `what`: a sentence for when it never is. `besides`: seconds that
        it takes on any machine."""
        end = time.monotonic() + PATIENCE + besides
        now = None
        while (left := end - time.monotonic()) > 0:
            try:
                listed = self.get(path, **query)
                now = {item["metadata"]["name"]: item for item in listed["items"]}
                if answer := holds(now):
                    return answer
                for kind, item in self.watch(path, listed["metadata"]["resourceVersion"], timeout=max(left, 1), **query):
                    if kind == "ERROR":
                        break
                    if kind == "DELETED":
                        now.pop(item["metadata"]["name"], None)
                    elif kind != "BOOKMARK":
                        now[item["metadata"]["name"]] = item
                    if answer := holds(now):
                        return answer
            except (OSError, http.client.HTTPException, ValueError) as error:
                last = error  # the API server is away, or has ended the watch: again
                if isinstance(error, TimeoutError):
                    break
                time.sleep(0.05)  # nobody tells when a server comes back
        raise Never(f"{what}: {summary(now)}")

    # The node.

    def node(self):
        return self.get("/api/v1/nodes/node")

    def await_resource(self, name, count, besides=0):
        """Until so many of an extended resource are allocatable."""
        self.until("/api/v1/nodes", lambda nodes: nodes["node"]["status"].get("allocatable", {}).get(name, "0") == str(count),
                   f"the node never had {count} {name}", besides)

    # Namespaces and pods.

    def namespace(self, name):
        self.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        path = f"/api/v1/namespaces/{name}/serviceaccounts"
        self.until(path, lambda accounts: "default" in accounts, f"no service account in {name}")
        return name

    def create_pod(self, manifest, namespace="default"):
        self.ask("POST", f"/api/v1/namespaces/{namespace}/pods", manifest)
        return Pod(self, manifest["metadata"]["name"], namespace)


def summary(objects):
    """The members of objects that are worth knowing in a failure's sentence."""
    def one(item):
        status = item.get("status", {})
        states = [s.get("state") for s in status.get("containerStatuses", []) + status.get("initContainerStatuses", [])]
        return {key: value for key, value in dict(phase=status.get("phase"), reason=status.get("reason"), message=status.get("message"), states=states,
                                                  allocatable=status.get("allocatable"),
                                                  conditions=[f"{c['type']}={c['status']} {c.get('message', '')}".strip() for c in status.get("conditions", [])]).items() if value}

    return json.dumps({name: one(item) for name, item in (objects or {}).items()})[:3000]


class Pod:
    def __init__(self, cluster, name, namespace="default"):
        self.cluster, self.name, self.namespace = cluster, name, namespace
        self.all = f"/api/v1/namespaces/{namespace}/pods"
        self.path = f"{self.all}/{name}"
        self.query = {"fieldSelector": f"metadata.name={name}"}

    def get(self):
        return self.cluster.get(self.path)

    def until(self, holds, what, besides=0):
        return self.cluster.until(self.all, lambda pods: self.name in pods and holds(pods[self.name]), f"pod {self.name} {what}", besides, **self.query)

    def await_running(self):
        """Until its containers run."""
        self.until(lambda pod: all("running" in s["state"] for s in pod["status"].get("containerStatuses", [])) and pod["status"].get("containerStatuses"), "never ran")
        return self

    def await_end(self, besides=0):
        """Until its container has ended; its exit status."""
        def ended(pod):
            if pod["status"]["phase"] not in ("Succeeded", "Failed"):
                return None
            states = [s["state"].get("terminated") for s in pod["status"].get("containerStatuses", [])]
            return [state["exitCode"] for state in states if state] or [pod["status"].get("reason", "failed")]

        return self.until(ended, "never ended", besides)[0]

    def await_restart(self, count):
        """Until its container runs for the (count + 1)th time, or has ended that often."""
        self.until(lambda pod: any(s["restartCount"] >= count and not s["state"].get("waiting") for s in pod["status"].get("containerStatuses", [])),
                   f"was not restarted {count} times")

    def await_reason(self, pattern):
        """Until a container is kept waiting for a reason that matches."""
        def waits(pod):
            states = pod["status"].get("initContainerStatuses", []) + pod["status"].get("containerStatuses", [])
            return any(re.search(pattern, s["state"].get("waiting", {}).get("message", "")) for s in states)

        self.until(waits, f"was never told {pattern!r}")

    def log(self, **query):
        return self.cluster.get(self.path + "/log", **query)

    def await_line(self, pattern):
        """Follows its log to a line that matches; the match."""
        end = time.monotonic() + PATIENCE
        said = ""
        while time.monotonic() < end:
            connection = Local(self.cluster.api_socket, max(end - time.monotonic(), 1))
            try:
                connection.request("GET", self.path + "/log?follow=true")
                answer = connection.getresponse()
                if answer.status == 200:
                    said = ""
                    for line in answer:
                        said += line.decode(errors="replace")
                        if found := re.search(pattern, line.decode(errors="replace")):
                            return found
                    if self.get()["status"]["phase"] in ("Succeeded", "Failed"):
                        if found := re.search(pattern, self.log(), re.M):
                            return found
                        time.sleep(0.05)  # nobody tells when the rest of a log is there: on a busy node it comes after the end
                else:
                    answer.read()
                    self.await_running()
            except TimeoutError:
                break
            finally:
                connection.close()
        raise Never(f"pod {self.name} never said {pattern!r}, but: {said[-2000:]}")

    def exec(self, *command, check=True, **more):
        return self.cluster.kubectl("exec", "-n", self.namespace, self.name, "--", *command, check=check, **more)

    def annotate(self, **annotations):
        """A value of None takes one away. Underscores stand for dashes in mete.dev/..."""
        self.cluster.patch(self.path, {"metadata": {"annotations": {f"mete.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}}})

    def delete(self, grace=1, wait=True):
        options = {"gracePeriodSeconds": grace}
        try:
            self.cluster.ask("DELETE", self.path, options)
        except Answer as answer:
            if answer.status != 404:
                raise
        if wait:
            self.await_gone()

    def await_gone(self):
        self.cluster.until(self.all, lambda pods: self.name not in pods, f"pod {self.name} was never gone", **self.query)

    def events(self):
        found = self.cluster.get(f"/api/v1/namespaces/{self.namespace}/events", fieldSelector=f"involvedObject.name={self.name}")
        return [item["message"] for item in found["items"]]

    def await_event(self, pattern):
        return self.cluster.until(f"/api/v1/namespaces/{self.namespace}/events",
                                  lambda events: next((e["message"] for e in events.values() if re.search(pattern, e.get("message", ""))), None),
                                  f"no event of pod {self.name} says {pattern!r}", fieldSelector=f"involvedObject.name={self.name}")


def install_driver(build, folder):
    """The simulated driver, laid out as it is installed."""
    os.makedirs(os.path.join(folder, "lib"))
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        shutil.copy(os.path.join(build, "sim", "lib", name), os.path.join(folder, "lib"))
        os.symlink(name, os.path.join(folder, "lib", name[:-2]))
    for name in ("mete-sim", "nvidia-smi"):
        shutil.copy(os.path.join(build, "sim", name), folder)


def main(build, *command):
    import images
    os.environ.pop("METE_CLUSTER", None)
    can = subprocess.run([os.path.join(TOOLS, "build.sh")], stdout=subprocess.PIPE, text=True)
    if can.returncode == SKIPPED:  # each test reports so, and counts as skipped
        return subprocess.run(command, env=dict(os.environ, METE_CLUSTER=can.stdout.strip())).returncode
    cluster = Cluster("tests", build, [images.work, images.mete])
    cluster.serve()
    # An interrupt takes the cluster down as well; the command is told by the terminal.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        status = subprocess.run(command, env=dict(os.environ, METE_CLUSTER=cluster.folder)).returncode
    except KeyboardInterrupt:
        status = 1
    except BaseException:
        cluster.close(keep_logs=True)
        raise
    cluster.close(keep_logs=status != 0)
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
