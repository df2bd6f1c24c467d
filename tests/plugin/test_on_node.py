#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""deploy/on-node finds the driver of a node that is seen below a folder, as the node's own links lead there."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "system"))
from runner import Skipped, run  # noqa: E402

ON_NODE = os.path.join(HERE, "..", "..", "deploy", "on-node")
PATIENCE = 300  # seconds, on a machine however busy: only a failure takes so long
MULTIARCH = f"/usr/lib/{os.uname().machine}-linux-gnu"


class Host:
    """A node's files, and a meted that prints how it was called."""

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="mete-")
        self.programs = self.folder + "/bin"
        os.makedirs(self.folder + "/host")
        os.makedirs(self.programs)
        for name in ("meted", "mete", "nsenter"):
            with open(f"{self.programs}/{name}", "w") as file:
                file.write(f'#!/bin/sh\n[ "$1" != where ] || exec echo "$METE_HOST"\necho {name} "$@" driver=$METE_DRIVER\n')
            os.chmod(f"{self.programs}/{name}", 0o755)
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder)

    def put(self, path, target=None):
        whole = self.folder + "/host" + path
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        if target:
            os.symlink(target, whole)
        else:
            open(whole, "w").close()

    def run(self, *command, **more):
        environment = dict(os.environ, METE_HOST=self.folder + "/host", PATH=self.programs + ":" + os.environ["PATH"], **more)
        done = subprocess.run([ON_NODE, *command], env=environment, text=True, capture_output=True)
        assert done.returncode == 0, done
        return done.stdout.replace(self.folder, "").splitlines()


def deployed(path):
    with open(os.path.join(os.path.dirname(ON_NODE), path)) as file:
        return file.read()


def test_the_probes_ask_where_the_configuration_answers_and_not_at_the_metrics():
    ports = dict(re.findall(r"\{name: (\w+), containerPort: (\d+)\}", deployed("base/daemonset.yaml")))
    assert re.findall(r"httpGet: \{path: /healthz, port: (\w+)\}", deployed("base/daemonset.yaml")) == ["health"] * 2
    for path in "config.yaml", "base/config.yaml", "overlays/simulated/config.yaml":
        assert dict(re.findall(r'^  (metrics|health): ":(\d+)"', deployed(path), re.M)) == ports, path


def test_the_base_has_a_policy_for_allowed_clients():
    policy = re.search(r"^- (.*policy.*)$", deployed("base/kustomization.yaml"), re.M)[1]
    assert re.findall(r"- \{port: (\d+)\}", deployed("base/" + policy)) == ["9400"], "of all ports the metrics' is open, to some"
    assert "namespaceSelector" in deployed("base/" + policy)


def test_a_driver_in_a_usual_folder_is_named_to_meted():
    for folder in (MULTIARCH, "/usr/lib64"):
        with Host() as host:
            host.put(folder + "/libnvidia-ml.so.1")
            assert host.run("meted", "--system") == [f"meted --driver /host{folder} --system driver="]
            assert host.run("mete", "doctor") == [f"mete doctor driver=/host{folder}"]


def test_the_time_of_day_is_the_nodes():
    with Host() as host:
        with open(host.programs + "/when", "w") as file:
            file.write('#!/bin/sh\necho "$TZ"; date -d @0 +%H:%M\n')
        os.chmod(host.programs + "/when", 0o755)
        assert host.run("when", TZ="")[0] == "", "a node that does not say"
        host.put("/usr/share/zoneinfo/Far/Away")
        with open(host.folder + "/host/usr/share/zoneinfo/Far/Away", "wb") as file:  # UTC+5:30, by its last line
            head = b"TZif2" + bytes(15) + (0).to_bytes(4, "big") * 4 + (1).to_bytes(4, "big") + (1).to_bytes(4, "big")
            file.write(head + bytes(6) + b"\0" + head + (19800).to_bytes(4, "big", signed=True) + b"\0\0" + b"\0" + b"\n<+0530>-5:30\n")
        host.put("/etc/localtime", "/usr/share/zoneinfo/Far/Away")
        assert host.run("when", TZ="") == [":/host/usr/share/zoneinfo/Far/Away", "05:30"]
        assert host.run("when", TZ="UTC0") == ["UTC0", "00:00"], "a value that is set counts"


def test_mete_is_told_where_the_nodes_files_are():
    with Host() as host:
        environment = {key: value for key, value in os.environ.items() if key != "METE_HOST"}
        environment["PATH"] = host.programs + ":" + environment["PATH"]
        done = subprocess.run([ON_NODE, "mete", "where"], env=environment, text=True, capture_output=True)
        assert done.stdout == "/host\n", done


def test_links_of_the_node_are_followed_below_it():
    """Debian's alternatives: absolute, in two steps."""
    with Host() as host:
        host.put(MULTIARCH + "/nvidia/current/libnvidia-ml.so.1", "libnvidia-ml.so.570.1")
        host.put(MULTIARCH + "/nvidia/current/libnvidia-ml.so.570.1")
        host.put("/etc/alternatives/ml", MULTIARCH + "/nvidia/current/libnvidia-ml.so.1")
        host.put(MULTIARCH + "/libnvidia-ml.so.1", "/etc/alternatives/ml")
        assert host.run("meted") == [f"meted --driver /host{MULTIARCH}/nvidia/current driver="]


def waiting(host):
    """on-node, and meted in it, which waits until it is told to end, however early."""
    with open(host.programs + "/meted", "w") as file:
        file.write(f"""#!{sys.executable}
import signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
print("waits", *sys.argv[1:], flush=True)
signal.sigwait([signal.SIGTERM])
print("told", flush=True)
sys.exit(3)
""")
    environment = dict(os.environ, METE_HOST=host.folder + "/host", PATH=host.programs + ":" + os.environ["PATH"])
    program = subprocess.Popen([ON_NODE, "meted", "--system"], env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert program.stdout.readline() == "waits --system\n"
    return program


def test_meted_that_waits_for_a_driver_ends_when_there_is_one():
    """So that the kubelet makes the container again, with the driver's device files."""
    with Host() as host:
        program = waiting(host)
        host.put("/usr/lib64/libnvidia-ml.so.1")
        said, why = program.communicate(timeout=PATIENCE)
        assert said == "told\n" and program.returncode == 3 and "the node has a driver now" in why, (said, why)


def test_meted_that_waits_for_a_driver_is_told_to_end_like_any_other():
    with Host() as host:
        program = waiting(host)
        program.terminate()
        # Not communicate(): the process that waits for a driver has its output, and goes when nobody has this process any more.
        assert program.stdout.readline() == "told\n" and program.wait(timeout=PATIENCE) == 3
        assert program.communicate(timeout=PATIENCE) == ("", "")


def test_without_a_driver_meted_is_started_all_the_same():
    with Host() as host:
        assert host.run("meted", "--system") == ["meted --system driver="]


def test_links_in_a_circle_and_no_driver_leave_the_command_as_it_is():
    with Host() as host:
        host.put(MULTIARCH + "/libnvidia-ml.so.1", "libnvidia-ml.so.1")
        assert host.run("meted", "--help") == ["meted --help driver="]
        assert host.run("mete", "ps") == ["mete ps driver="]


def test_the_file_of_uvm_is_asked_for_where_there_is_a_driver_without_it():
    with Host() as host:
        host.put("/dev/nvidiactl")
        assert host.run("meted")[0].startswith("nsenter --target 1 --mount -- nvidia-modprobe -u -c 0")
        assert len(host.run("mete", "ps")) == 1
        host.put("/dev/nvidia-uvm")
        assert len(host.run("meted")) == 1


def test_files_that_containers_get_are_labelled_where_selinux_guards_them():
    label = "system_u:object_r:container_file_t:s0"
    with tempfile.TemporaryDirectory(prefix="mete-") as place:
        for folder in ("installed/guest/12.9", "node", "run"):
            os.makedirs(f"{place}/{folder}")
        for name in ("guest/12.9/libmete.so", "mete-hook"):
            open(f"{place}/installed/{name}", "w").close()
        try:
            os.setxattr(place, "security.selinux", label.encode() + b"\0")
        except OSError as error:
            raise Skipped(f"no label can be given here: {error.strerror}; run it as root") from None
        environment = dict(os.environ, METE_INSTALLED=place + "/installed", METE_ON_NODE=place + "/node", METE_PLACE=place + "/run")
        for more, wanted in ({}, None), ({"METE_SELINUX": label}, label):
            subprocess.run([os.path.join(os.path.dirname(ON_NODE), "install-on-node")], env=dict(environment, **more), check=True)
            for path in ("node", "node/current/guest/12.9/libmete.so", "node/current/mete-hook", "run"):
                named = os.listxattr(f"{place}/{path}")
                found = os.getxattr(f"{place}/{path}", "security.selinux").rstrip(b"\0").decode() if "security.selinux" in named else None
                assert found == wanted, (path, found)


if __name__ == "__main__":
    run(globals(), sys.argv[1:])
