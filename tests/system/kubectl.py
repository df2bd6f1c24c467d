# SPDX-License-Identifier: Apache-2.0
"""kubectl for tests that need no cluster: the one that was built for the tests' cluster, or the machine's."""
import os
import shutil
import subprocess

from runner import Skipped

BUILD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cluster", "build.sh")


def kubectl():
    """Its path. Skips the test where there is none."""
    folder = subprocess.run([BUILD, "--where"], text=True, capture_output=True, check=True).stdout.strip()
    found = shutil.which("kubectl", path=folder) or shutil.which("kubectl")
    if not found:
        raise Skipped("there is no kubectl; `make test-kubernetes` builds one, once")
    return found
