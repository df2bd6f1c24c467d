#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The guest has every symbol that NVIDIA's own programs and libraries look up in the two libraries: test_clients.py BUILD."""
import collections
import os
import subprocess

import real
import test_rows as rows
from runner import run

def both(release):
    return set(rows.exports(release.library("libcuda.so.1"))) | set(rows.exports(release.library("libnvidia-ml.so.1")))


def mentions(path, names):
    """Those of the names that a program has as a text of its own, or that the loader looks up for it."""
    texts = set(open(path, "rb").read().split(b"\0"))
    return {name for name in names if name.encode() in texts}


def test_a_program_that_is_linked_with_either_library_starts_with_the_guest():
    """All that they export, but for what is left out on purpose."""
    for release in real.releases():
        lacking = both(release) - set(rows.exports(release.guest + "/libmete.so"))
        assert lacking == rows.known(lacking), (release.name, lacking - rows.known(lacking))


def test_the_guest_exports_only_known_functions_beyond_the_drivers():
    """In the place of libcuda: NVML's functions, and rows that no release for PCs has."""
    for release in real.releases():
        nvml = {row.symbol for row in rows.api.load_nvml()}
        more = set(rows.exports(release.guest + "/libmete.so")) - set(rows.exports(release.library("libcuda.so.1"))) - nvml
        assert more == set(rows.LACKING), (release.name, more)


def test_nvidias_own_programs_find_every_symbol_that_they_need():
    for release in real.releases():
        theirs, guests = both(release), set(rows.exports(release.guest + "/libmete.so"))
        looked = {os.path.basename(path): mentions(path, theirs) for path in release.clients()}
        assert sum(len(names) > 5 for names in looked.values()) >= 4, {path: len(names) for path, names in looked.items()}
        for path, names in looked.items():
            assert names <= guests, (release.name, path, names - guests)


def test_the_two_libraries_find_in_the_guest_every_symbol_that_they_look_up():
    """As libcuda.so.1 or libnvidia-ml.so.1 of the same process, or of a helper. Their own table of names has each once."""
    for release in real.releases():
        theirs, guests = both(release), set(rows.exports(release.guest + "/libmete.so"))
        looked = set()
        for name in "libcuda.so.1", "libnvidia-ml.so.1":
            texts = collections.Counter(open(release.library(name), "rb").read().split(b"\0"))
            own = set(rows.exports(release.library(name)))
            looked |= {symbol for symbol in theirs if texts[symbol.encode()] > (symbol in own)}
        assert "cudbgMain" in looked and looked <= guests, (release.name, looked - guests)


def test_nvidia_smi_says_the_same():
    """It loads NVML and looks all of it up; then there is no kernel module."""
    for release in real.releases():
        smi, = (path for path in release.clients() if path.endswith("/nvidia-smi"))
        for option in (), ("-L",), ("--query-gpu=memory.total", "--format=csv"):
            says = []
            for folder, driver in (release.folder, {}), (release.guest + "/lib", {"METE_DRIVER": release.folder}):
                done = subprocess.run([*real.apart(), smi, *option], text=True, capture_output=True, env=dict(os.environ, LD_LIBRARY_PATH=folder, **driver))
                says.append((done.returncode, done.stdout, done.stderr))
            assert says[0] == says[1] and says[0][0] == 9, (release.name, says)


if __name__ == "__main__":
    run(globals())
