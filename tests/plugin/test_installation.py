#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which files of a driver's installation a container gets: test_installation.py BUILD. First of one that is made here in Debian's
shape; then of all libraries of Debian's own packages, which are fetched by tests/driver/real.py in a long run (METE_TEST_SCALE above 1)."""
import glob
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", "system"), os.path.join(HERE, "..", "driver")]
from runner import Skipped, run  # noqa: E402

BUILD = os.path.abspath(sys.argv[1])
LONG = int(os.environ.get("METE_TEST_SCALE", "1")) > 1
LIBRARIES = "/usr/lib/x86_64-linux-gnu"
APART = LIBRARIES + "/nvidia/current"
PLACE = "/usr/lib/mete/driver/"
TOOLKIT = "v1.17.8"
WEIGHTS = "/usr/share/nvidia/nvoptix.bin"

# All libraries of the driver, and what none of CUDA, NVML, video and OptiX is made of.
WHOLE = ("libcuda1 libcudadebugger1 libegl-nvidia0 libgles-nvidia1 libgles-nvidia2 libglx-nvidia0 libnvcuvid1 libnvidia-allocator1 libnvidia-api1 "
         "libnvidia-cfg1 libnvidia-eglcore libnvidia-encode1 libnvidia-fbc1 libnvidia-glcore libnvidia-glvkspirv libnvidia-gpucomp libnvidia-ml1 "
         "libnvidia-ngx1 libnvidia-nvvm4 libnvidia-opticalflow1 libnvidia-pkcs11-openssl3 libnvidia-ptxjitcompiler1 libnvidia-rtcore libnvoptix1 "
         "nvidia-opencl-icd nvidia-smi nvidia-vdpau-driver nvidia-vulkan-icd")

# Not handed out: what reaches a GPU without the driver API, and so past mete, and what serves only that.
OUTSIDE = {
    "libEGL_nvidia": "EGL", "libGLESv1_CM_nvidia": "OpenGL ES", "libGLESv2_nvidia": "OpenGL ES", "libGLX_nvidia": "OpenGL",
    "libnvidia-eglcore": "EGL", "libnvidia-glcore": "OpenGL", "libnvidia-glsi": "OpenGL", "libnvidia-glvkspirv": "Vulkan", "libnvidia-tls": "OpenGL",
    "libnvidia-opencl": "OpenCL", "libnvidia-fbc": "capturing a screen", "libnvidia-ngx": "Vulkan and Direct3D", "libnvidia-api": "games",
    "libvdpau_nvidia": "VDPAU",
}
# Names that handed out libraries look up all the same, where a program has opened the other world itself, or on other machines.
LOOKED_UP = {
    "libEGL": "interoperation", "libGL": "interoperation", "libOpenCL": "the debugger's", "libvulkan": "optical flow through Vulkan",
    "libEGL_tegra": "Tegra", "libnvrm_sync": "Tegra", "libnvrm_mem": "Tegra", "libnvscibuf": "Tegra", "libnvtegrahv": "Tegra",
    "libnvidia-rtcore-bc": "older releases'", "libnvidia-rtcore-sdk": "NVIDIA's own builds'", "libnvperf_host": "a tool's", "libnvperf_target": "a tool's",
}


def edits(root, folder, way, place):
    os.mkdir(place + "/slot")
    done = subprocess.run([BUILD + "/tests/plugin/edits", way, folder, BUILD + "/guest", BUILD + "/hook/mete-hook", place, "mete.dev/slot", "a1",
                           place + "/slot"], env=dict(os.environ, METE_TEST_DRIVER_ROOT=root), text=True, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def handed_out(root, folder="-"):
    """Path in the container -> file on the host, for runtimes without CDI."""
    with tempfile.TemporaryDirectory() as place:
        said = edits(root, folder, "plain", place)
    mounts = [line.split("\t") for line in said.splitlines() if line.startswith("mount\t")]
    there = {to: source for _, source, to, _ in mounts}
    assert len(there) == len(mounts), f"mounted twice: {sorted(to for _, _, to, _ in mounts)}"
    return there


def by_cdi(root):
    """The same of the CDI file."""
    with tempfile.TemporaryDirectory() as place:
        edits(root, "-", "cdi", place)
        [written] = glob.glob(place + "/*.json")
        device, = json.load(open(written))["devices"]
    return {mount["containerPath"]: mount["hostPath"] for mount in device["containerEdits"]["mounts"]}


def stem(name):
    return name.partition(".so")[0]


def put(root, path, content=b""):
    os.makedirs(os.path.dirname(root + path), exist_ok=True)
    if isinstance(content, str):
        os.symlink(content, root + path)
        return
    with open(root + path, "wb") as file:
        file.write(content)


def alternatives(root):
    """The links of Debian's update-alternatives: each name in the linker's folder leads through /etc to the chosen release's."""
    for path in sorted(glob.glob(root + APART + "/*.so.*")) + [root + "/usr/lib/nvidia/current/nvidia-smi", root + APART + "/nvoptix.bin"]:
        name = os.path.basename(path)
        if not os.path.lexists(path) or re.search(r"\.so\.\d+\.\d", name):
            continue
        link = {"nvidia-smi": "/usr/bin/nvidia-smi", "nvoptix.bin": WEIGHTS}.get(name, f"{LIBRARIES}/{name}")
        put(root, link, f"/etc/alternatives/nvidia--{name}")
        put(root, f"/etc/alternatives/nvidia--{name}", path[len(root):])


def made(root):
    """A small installation in Debian's shape, with the simulated driver as libcuda."""
    simulated = open(os.path.realpath(BUILD + "/sim/lib/libcuda.so.1"), "rb").read()
    put(root, APART + "/libcuda.so.550.1.2", simulated)
    put(root, APART + "/libcuda.so.1", "libcuda.so.550.1.2")
    put(root, APART + "/libnvidia-ptxjitcompiler.so.550.1.2")
    put(root, APART + "/libnvidia-ptxjitcompiler.so.1", "libnvidia-ptxjitcompiler.so.550.1.2")
    put(root, LIBRARIES + "/libnvidia-gpucomp.so.550.1.2")
    put(root, LIBRARIES + "/libnvidia-gpucomp.so.535.9")  # of other releases
    put(root, LIBRARIES + "/libnvidia-gpucomp.so.535.1.2")
    put(root, LIBRARIES + "/libnvidia-glcore.so.550.1.2")
    put(root, APART + "/nvoptix.bin", b"weights")


def test_debians_files_are_found_through_its_alternatives_and_without_them():
    for chosen in True, False:
        with tempfile.TemporaryDirectory() as root:
            made(root)
            if chosen:
                alternatives(root)
            for folder in "-", APART:
                there = handed_out(root, folder)
                driver = {os.path.basename(to) for to in there if to.startswith(PLACE)}
                assert driver == {"libcuda.so.1", "libcuda.so.550.1.2", "libnvidia-ptxjitcompiler.so.1", "libnvidia-ptxjitcompiler.so.550.1.2",
                                  "libnvidia-gpucomp.so.550.1.2"}, (chosen, folder, driver)


def test_optix_gets_the_weights_of_its_denoiser():
    with tempfile.TemporaryDirectory() as root:
        made(root)
        assert WEIGHTS not in handed_out(root)
        alternatives(root)
        assert handed_out(root)[WEIGHTS] == root + APART + "/nvoptix.bin"


def installation(place):
    """All of Debian's libraries of one release, as its packages and alternatives leave them."""
    if not LONG:
        raise Skipped("Debian's packages of a whole driver are 195 MB; METE_TEST_SCALE=2 fetches them")
    import real
    real.RELEASES["550-whole"] = (12040, "trixie", WHOLE)
    release = real.get("550-whole")
    # A copy, to which links are added; its files are the same ones.
    root = place + "/root"
    subprocess.run(["cp", "-a", "--reflink=auto", release.root, root], check=True)
    alternatives(root)
    return root


def texts_of(path):
    return {text.decode() for text in re.findall(rb"\0(lib(?:nv|cuda|GL|EGL|OpenCL|vulkan)[\w-]*\.so(?:\.[0-9][0-9.]*)?)\0", open(path, "rb").read())}


def needed_by(path):
    said = subprocess.run(["readelf", "-d", path], text=True, capture_output=True, check=True).stdout
    return {name for name in re.findall(r"NEEDED.*\[(.*)\]", said) if re.match(r"lib(nv|cuda)", name)}


def test_every_file_that_the_handed_out_libraries_open_is_handed_out():
    with tempfile.TemporaryDirectory() as place:
        root = installation(place)
        there = handed_out(root)
        driver = {os.path.basename(to): source for to, source in there.items() if to.startswith(PLACE)}
        assert len(set(driver.values())) >= 14, sorted(driver)
        for source in sorted(set(driver.values())):
            for name in sorted(needed_by(source) | texts_of(source)):
                if name.endswith((".so.debug", ".debug")) or stem(name) in LOOKED_UP or stem(name) in OUTSIDE:
                    continue
                assert name in driver or name == "libcuda.so", f"{os.path.basename(source)} looks up {name}"
        # The CDI file has the same; hook/cover.c makes the names of these in the linker's folders.
        cdi = by_cdi(root)
        assert {to: source for to, source in cdi.items() if to.startswith(PLACE)} == {PLACE + name: source for name, source in driver.items()}, cdi
        assert cdi["/usr/bin/nvidia-smi"] == there["/usr/bin/nvidia-smi"] and cdi[WEIGHTS] == there[WEIGHTS], cdi
        # In the folder that the linker searches without being told, too: there, names are all that the libraries use.
        for name in driver:
            assert f"{LIBRARIES}/{name}" in there or re.match(r"lib(cuda|nvidia-ml)\.so\.\d+\.", name), name
        assert there["/usr/bin/nvidia-smi"].endswith("/nvidia-smi") and there[WEIGHTS].endswith("/nvoptix.bin")


def test_libraries_that_are_not_handed_out_reach_a_gpu_past_the_driver_api():
    with tempfile.TemporaryDirectory() as place:
        root = installation(place)
        driver = {os.path.basename(to) for to in handed_out(root) if to.startswith(PLACE)}
        names = {os.path.basename(path) for path in glob.glob(root + LIBRARIES + "/**/lib*nvidia*.so.*", recursive=True) +
                 glob.glob(root + LIBRARIES + "/**/lib*nv*.so.*", recursive=True) + glob.glob(root + LIBRARIES + "/**/libcuda*.so.*", recursive=True)}
        assert {stem(name) for name in names - driver} == set(OUTSIDE), {stem(name) for name in names - driver} ^ set(OUTSIDE)


def nvidias_generator():
    """nvidia-ctk, built of NVIDIA's module as the Go proxy has it, and kept."""
    kept = os.path.expanduser(f"~/.cache/mete/nvidia-ctk-{TOOLKIT}/nvidia-ctk")
    if os.path.exists(kept):
        return kept
    if not shutil.which("go"):
        raise Skipped("NVIDIA's CDI generator is built with Go; `apt-get install golang`")
    package = "github.com/NVIDIA/nvidia-container-toolkit/cmd/nvidia-ctk"
    with tempfile.TemporaryDirectory() as place:
        with open(place + "/go.mod", "w") as file:
            file.write("module generator\n\ngo 1.22\n")
        for words in ["get", f"{package}@{TOOLKIT}"], ["build", "-o", place + "/nvidia-ctk", package]:
            done = subprocess.run(["go", *words], cwd=place, text=True, capture_output=True, timeout=1200)
            if done.returncode:
                raise Skipped(f"NVIDIA's CDI generator cannot be built: go {words[0]}: {done.stderr.strip()[-200:]}; give this machine access to a Go proxy")
        os.makedirs(os.path.dirname(kept), exist_ok=True)
        shutil.move(place + "/nvidia-ctk", kept)
    return kept


def test_nvidias_own_generator_lists_nothing_more_for_programs_of_the_driver_api():
    """Its mode "management" asks no GPU for the driver's files; in "nvml", the usual one, it initialises NVML first."""
    if os.getuid() != 0:
        raise Skipped("NVIDIA's CDI generator wants device files, which only root makes; run it as root")
    with tempfile.TemporaryDirectory() as place:
        root = installation(place)
        generator = nvidias_generator()
        os.makedirs(place + "/devices/dev")
        for name, minor in ("nvidia0", 0), ("nvidiactl", 255):
            try:
                os.mknod(f"{place}/devices/dev/{name}", 0o600 | stat.S_IFCHR, os.makedev(195, minor))
            except PermissionError:
                raise Skipped("root may not make device files here; in a container, let it make them (CAP_MKNOD)") from None
        subprocess.run([generator, "cdi", "generate", "--mode=management", f"--driver-root={root}", f"--dev-root={place}/devices",
                        f"--output={place}/cdi.yaml"], check=True, capture_output=True, timeout=300)
        theirs = {os.path.basename(path) for path in re.findall(r"hostPath: (\S+)", open(place + "/cdi.yaml").read()) if ".so" in path}
        there = handed_out(root)
        ours = {os.path.basename(source) for to, source in there.items() if to.startswith(PLACE)}
        assert len(theirs) >= 18, theirs
        assert {stem(name) for name in theirs - ours} <= set(OUTSIDE), theirs - ours


if __name__ == "__main__":
    run(globals())
