# SPDX-License-Identifier: Apache-2.0
"""The images that the tests' containers run from, made of what was built and of the machine's own libraries."""
import glob
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "..", "tools"))
import image_content as content  # noqa: E402
import oci  # noqa: E402

WORK, PYTHON, METE = "mete.test/work:1", "mete.test/python:1", "docker.io/library/mete:latest"
OWN_DRIVER = "/opt/driver/libcuda.so.1"  # one that an image brings along, in a folder that no linker searches
WORKLOADS = content.examples()
VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"


def workloads(build, layer):
    layer.busybox()
    layer.libc()
    programs = [os.path.join(build, "examples", name) for name in WORKLOADS]
    programs.append(os.path.join(build, "tests", "kubernetes", "seen"))
    for program in programs:
        if os.path.exists(program):  # `make demo-kubernetes` builds no tests
            layer.copy("usr/local/bin/" + os.path.basename(program), program)
            layer.libraries(program)


def work(build, folder):
    """A shell and the examples: dynamic programs, in an image that has heard of no GPU. As process 1 they would not end by SIGTERM, and
    each pod would be waited for until its grace is over."""
    layer = oci.Layer()
    workloads(build, layer)
    layer.copy(OWN_DRIVER.strip("/"), os.path.join(build, "sim", "lib", "libcuda.so.1"))
    oci.write(WORK, os.path.join(folder, "work.tar"), layer, StopSignal="SIGKILL")


def python(build, folder):
    """Debian's Python, and tinygrad where PyPI can be reached."""
    from registries import Unavailable
    from showcase import tinygrad_python
    layer = oci.Layer()
    workloads(build, layer)
    interpreter = os.path.realpath("/usr/bin/python3")
    library = os.path.join("/usr/lib", os.path.basename(interpreter))
    layer.copy("usr/bin/" + os.path.basename(interpreter), interpreter)
    layer.link("usr/bin/python3", os.path.basename(interpreter))
    layer.libraries(interpreter)
    for name in sorted(os.listdir(library)):
        if name != "__pycache__" and not name.startswith("config-"):  # what programs are linked with: 25 MB
            layer.copy(f"{library.strip('/')}/{name}", os.path.join(library, name))
    extensions = os.path.join(library, "lib-dynload")
    for name in sorted(os.listdir(extensions)):
        layer.libraries(os.path.join(extensions, name))
    environment = ["PYTHONPATH=/opt/site", "PYTHONDONTWRITEBYTECODE=1", "CACHEDB=/tmp/tinygrad.db"]
    try:
        virtual = tinygrad_python()
    except Unavailable:
        virtual = None
    if virtual:
        asked = subprocess.run([virtual, "-c", "import numpy; print(numpy.__path__[0])"], capture_output=True, text=True, check=True)
        site = os.path.dirname(asked.stdout.strip())
        for name in sorted(os.listdir(site)):
            if name.startswith(("tinygrad", "numpy")):
                layer.copy("opt/site/" + name, os.path.join(site, name))
        for library in glob.glob(site + "/numpy/**/*.so", recursive=True):
            layer.libraries(library, without=site)  # it has them by then
        layer.copy("opt/tinygrad_train.py", os.path.join(HERE, "..", "..", "examples", "tinygrad_train.py"))
    oci.write(PYTHON, os.path.join(folder, "python.tar"), layer, environment, StopSignal="SIGKILL")


def mete(build, folder):
    """The image that tools/image makes, or the one that METE_IMAGE names, as tools/test-image has built it."""
    given = os.environ.get("METE_IMAGE")
    if given:
        shutil.copyfile(given, os.path.join(folder, "mete.tar"))
        return
    layer = oci.Layer()
    content.fill(layer, build)
    oci.write(METE, os.path.join(folder, "mete.tar"), layer, content.ENVIRONMENT)
