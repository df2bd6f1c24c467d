# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's own libraries, for tests that need no GPU: fetched from Debian's non-free packages, unpacked into the build
folder, and never installed, changed or passed on.

    release = real.get("535")       raises Skipped, with the reason and what to do, where they cannot be had
    release.cuda                    12020: what cuDriverGetVersion says
    release.folder                  the folder of its libcuda.so.1 and libnvidia-ml.so.1
    release.root                    all of its files, as they would lie below /
    release.guest                   the folder of the guest that belongs to it
    real.releases()                 those that this run is about
    real.runtimes()                 NVIDIA's runtime libraries: their paths
    real.debugger()                 cuda-gdb's path
    real.apart()                    what to put before a command that initialises them

apt gets a configuration of its own: sources, lists and cache lie in the build folder, and the machine's apt is only asked
which mirror it uses. Packages that were fetched once are kept in ~/.cache/mete/driver, for other builds.
"""
import fcntl
import glob
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
from runner import Skipped, needed  # noqa: E402

BUILD = os.path.abspath(sys.argv[1])  # of each test of this folder

# Name of the branch: the CUDA version, Debian's suite, and packages there: libcuda, libnvidia-ml, and programs and libraries of
# NVIDIA's that use these two.
RELEASES = {
    "470": (11040, "bookworm", "libnvidia-tesla-470-cuda1 libnvidia-tesla-470-ml1 nvidia-tesla-470-smi nvidia-tesla-470-driver-bin "
            "libegl-nvidia-tesla-470-0 libnvidia-tesla-470-fbc1 libnvidia-tesla-470-nvcuvid1"),
    "525": (12000, "bookworm", "libnvidia-tesla-cuda1 libnvidia-tesla-ml1 nvidia-tesla-smi nvidia-tesla-driver-bin "
            "libegl-nvidia-tesla0 libnvidia-tesla-fbc1 libnvidia-tesla-nvcuvid1 libnvidia-tesla-cudadebugger1"),
    "535": (12020, "bookworm", "libcuda1 libnvidia-ml1 nvidia-smi nvidia-driver-bin libegl-nvidia0 libnvidia-fbc1 libnvcuvid1 libcudadebugger1"),
    "550": (12040, "trixie", "libcuda1 libnvidia-ml1 nvidia-smi nvidia-driver-bin libegl-nvidia0 libnvidia-fbc1 libnvcuvid1 libcudadebugger1"),
}
USUAL = ("535",)  # the newest of Debian 12
RUNTIMES = ["libcudart11.0/bookworm", "libcudart12/trixie"]  # what most programs are built on: of CUDA 11.8 and 12.4
DEBUGGER = ["nvidia-cuda-gdb/bookworm"]
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
REMEDY = "give this machine access to a Debian mirror with non-free packages, or copy {} from one that has it"
FETCH_S, AGAIN_S = 300, 600  # only a mirror that does not answer takes so long


def chosen():
    """All releases in a long run, one in the usual one. The one place that decides it."""
    long = os.environ.get("METE_SOAK") == "1" or int(os.environ.get("METE_TEST_SCALE", "1")) > 1
    return tuple(RELEASES) if long else USUAL


# A /dev of its own: root's cuInit() and nvmlInit() make /dev/nvidiactl, also where there is no kernel module.
APART = """mount -t tmpfs -o mode=755 tmpfs /dev && mknod -m 666 /dev/null c 1 3 && mknod -m 666 /dev/zero c 1 5 &&
mknod -m 666 /dev/random c 1 8 && mknod -m 666 /dev/urandom c 1 9 && mkdir -m 1777 /dev/shm && ln -s /proc/self/fd /dev/fd || exit 77
exec "$0" "$@\""""


def apart():
    """Words before a command that initialises NVIDIA's libraries, so that it finds no device and leaves none."""
    if os.path.exists("/proc/driver/nvidia/version"):
        raise Skipped("this machine has NVIDIA's kernel module: what its libraries do without one cannot be seen; run it on a machine without")
    if os.getuid() != 0:
        return []
    words = ["unshare", "-m", "sh", "-c", APART]
    if subprocess.run([*words, "true"], stdin=subprocess.DEVNULL, capture_output=True).returncode:
        raise Skipped("root may not mount here, and NVIDIA's libraries would make device files in /dev; run it as another user, or, " + needed.PRIVILEGE)
    return words


def releases():
    return [get(name) for name in chosen()]


class Release:
    def __init__(self, name, root):
        self.name, self.root = name, root
        self.cuda = RELEASES[name][0]
        self.version = f"{self.cuda // 1000}.{self.cuda % 1000 // 10}"
        self.guest = f"{BUILD}/guest/{self.version}"
        self.folder, = (os.path.dirname(path) for path in glob.glob(root + "/usr/lib/**/libcuda.so.1", recursive=True))

    def library(self, name):
        """The file that a name like libcuda.so.1 leads to."""
        return os.path.realpath(os.path.join(self.folder, name))

    def clients(self):
        """NVIDIA's programs and libraries other than the two that the guest stands in for."""
        ours = {self.library("libcuda.so.1"), self.library("libnvidia-ml.so.1")}
        for at, _, files in os.walk(self.root):
            for path in (os.path.join(at, name) for name in sorted(files)):
                if not os.path.islink(path) and path not in ours and open(path, "rb").read(4) == b"\x7fELF":
                    yield path


def packages(name):
    if name in ("runtimes", "debugger"):
        return RUNTIMES if name == "runtimes" else DEBUGGER
    _, suite, names = RELEASES[name]
    return [f"{package}/{suite}" for package in names.split()]


def call(words, **more):
    return subprocess.run(words, stdin=subprocess.DEVNULL, text=True, capture_output=True, timeout=FETCH_S, **more)


def mirror():
    """The Debian archive that the machine's apt uses for its own suite."""
    suite = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    found = re.search(rf"'(\S+)/dists/{suite}/InRelease'", call(["apt-get", "update", "--print-uris"]).stdout)
    if not suite or not found:
        raise Skipped(f"apt has no source for {suite or 'this system'}: NVIDIA's libraries come from Debian's archive; add Debian to its sources")
    return found[1]


def configure(place):
    """An apt of our own in that folder; returns its environment."""
    for folder in ("lists/partial", "cache/archives/partial", "sources", "preferences"):
        os.makedirs(os.path.join(place, folder), exist_ok=True)
    uri, signed = mirror(), f"Signed-By: {KEYRING}\n" if os.path.exists(KEYRING) else ""
    suites = " ".join(sorted({row[1] for row in RELEASES.values()}))
    with open(place + "/sources/own.sources", "w") as file:
        file.write(f"Types: deb\nURIs: {uri}\nSuites: {suites}\nComponents: non-free\nArchitectures: amd64\n{signed}")
    open(place + "/status", "w").close()
    with open(place + "/conf", "w") as file:
        # Hooks in the machine's apt are not to run: one cleans the machine's cache.
        file.write(f'''Dir::State "{place}"; Dir::State::Lists "{place}/lists"; Dir::State::status "{place}/status";
Dir::Cache "{place}/cache"; Dir::Etc::SourceList "/dev/null"; Dir::Etc::SourceParts "{place}/sources";
Dir::Etc::Preferences "/dev/null"; Dir::Etc::PreferencesParts "{place}/preferences"; APT::Architecture "amd64";
APT::Sandbox::User "root"; Acquire::http::Timeout "20"; Acquire::Retries "1"; Acquire::Languages "none";
#clear APT::Update::Post-Invoke; #clear APT::Update::Post-Invoke-Success; #clear Acquire::IndexTargets::deb::DEP-11;
''')
    return dict(os.environ, APT_CONFIG=place + "/conf", LC_ALL="C")


def download(name, place, into):
    """Tests run one after the other here: a mirror that gave nothing to the last is not asked again at once."""
    note = place + ".failed"
    if os.path.exists(note) and time.time() - os.stat(note).st_mtime < AGAIN_S:
        raise Skipped(open(note).read())
    try:
        download_now(name, place, into)
    except Skipped as why:
        with open(note, "w") as file:
            file.write(str(why))
        raise


def download_now(name, place, into):
    environment = configure(place)
    for words in ["apt-get", "update", "-qq", "-o", "APT::Update::Error-Mode=any"], ["apt-get", "download", "-qq", *packages(name)]:
        try:
            done = call(words, env=environment, cwd=into)
            said = [line for line in done.stderr.splitlines() if line.startswith("E:")] or [f"status {done.returncode}"]
        except subprocess.TimeoutExpired:
            done, said = None, [f"no answer in {FETCH_S} s"]
        if not done or done.returncode:
            raise Skipped(f"NVIDIA's libraries cannot be fetched: apt-get {words[1]}: {said[0].removeprefix('E: ')}; " + REMEDY.format(kept(name)))


def kept(name):
    """Where a release's packages lie once they are fetched: a folder that is complete when it is there."""
    mark = hashlib.sha256(" ".join(packages(name)).encode()).hexdigest()[:12]
    return os.path.expanduser(f"~/.cache/mete/driver/{name}-{mark}")


def whole(folder, fill):
    """Makes a folder that nobody sees before it is whole."""
    if os.path.isdir(folder):
        return folder
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=os.path.dirname(folder)) as new:
        fill(new + "/it")
        try:
            os.rename(new + "/it", folder)
        except OSError:  # another build was faster
            if not os.path.isdir(folder):
                raise
    return folder


def debugger():
    """cuda-gdb: it needs the libraries that gdb needs."""
    path = unpacked("debugger") + "/usr/bin/cuda-gdb"
    lacking = re.findall(r"(\S+) => not found", call(["ldd", path]).stdout)
    if lacking:
        raise Skipped(f"cuda-gdb lacks {' '.join(lacking)}; `apt-get install gdb`")
    return path


had = {}  # what became of each set of packages in this process: a mirror that does not answer is asked once


def unpacked(name):
    """The folder of a set of packages, fetched and unpacked if they are not yet."""
    try:
        had[name] = had.get(name) or made(name)
    except Skipped as why:
        had[name] = why
    if isinstance(had[name], Skipped):
        raise had[name]
    return had[name]


def get(name):
    return Release(name, unpacked(name))


def runtimes():
    return sorted(path for path in glob.glob(unpacked("runtimes") + "/usr/lib/**/libcudart.so.*", recursive=True) if not os.path.islink(path))


def made(name):
    if platform.machine() != "x86_64":
        raise Skipped(f"NVIDIA's libraries are looked at on x86_64 only, and this is {platform.machine()}; run it on one")
    for program in "apt-get", "dpkg-deb":
        if not shutil.which(program):
            raise Skipped(f"there is no {program}, and NVIDIA's libraries come in Debian's packages; run it on a Debian")
    here = os.path.join(BUILD, "tests", "driver")
    os.makedirs(here, exist_ok=True)

    def fetch(folder):
        os.mkdir(folder)
        download(name, here + "/apt", folder)

    def unpack(folder):
        for package in sorted(os.listdir(whole(kept(name), fetch))):
            subprocess.run(["dpkg-deb", "-x", os.path.join(kept(name), package), folder], check=True)

    with open(here + "/lock", "w") as lock:  # tests run side by side
        fcntl.flock(lock, fcntl.LOCK_EX)
        return whole(os.path.join(here, "releases", os.path.basename(kept(name))), unpack)
