#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Installed files of `make install` work by themselves."""
import os
import shutil
import subprocess

from mete import *


def test_installed_programs_run():
    with Node() as node:
        root = os.path.join(node.place, "root")
        # Not `meson install`: the build folder must not be rebuilt or relogged by a test.
        prefix = os.path.join(root, "usr/local")
        os.makedirs(prefix + "/bin")
        for program in ("cli/mete", "node/meted"):
            shutil.copy(os.path.join(BUILD, program), prefix + "/bin")
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/install-libraries")
        subprocess.run([script, BUILD], env=dict(os.environ, MESON_INSTALL_DESTDIR_PREFIX=prefix), check=True)
        environment = dict(node.environment, LD_LIBRARY_PATH=prefix + "/lib/mete/sim/lib")
        done = subprocess.run([prefix + "/bin/mete", "run", "--memory", "512MiB", "--report", "--", workload("vector-add")],
                              env=environment, text=True, capture_output=True, timeout=240)
        assert done.returncode == 0 and " ok " in done.stdout and "of 512MiB" in done.stderr, done
        shown = subprocess.run([prefix + "/bin/mete", "sim"], env=environment, text=True, capture_output=True)
        assert "simulated node" in shown.stdout, shown
        smi = subprocess.run([prefix + "/lib/mete/sim/nvidia-smi", "-L"], text=True, capture_output=True,
                             env=dict(environment, LD_LIBRARY_PATH=""))
        assert smi.stdout.startswith("GPU 0:"), smi


if __name__ == "__main__":
    run(globals())
