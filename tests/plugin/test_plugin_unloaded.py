#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A meted without Kubernetes has nothing of it in memory: neither our part nor the libraries that only it needs."""
from node import *
from meted import run

OF_KUBERNETES = ("libmete-plugin", "libcurl", "libnghttp2", "libprotobuf-c", "libmicrohttpd")
METE = BUILD + "/cli/mete"


def mapped(pid):
    """The names of all files that the process has in memory as code or data."""
    return {os.path.basename(line.split(None, 5)[5].strip()) for line in open(f"/proc/{pid}/maps") if len(line.split(None, 5)) > 5}


def found_in(names):
    return {library for library in OF_KUBERNETES if any(name.startswith(library) for name in names)}


def loaded(environment, *command):
    """The names of all libraries that the program, or one that it starts, opens until it ends."""
    log = tempfile.mkdtemp(prefix="mete-")
    try:
        done = subprocess.run(command, env=dict(environment, LD_DEBUG="files", LD_DEBUG_OUTPUT=log + "/of"), capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, done
        text = "".join(open(f"{log}/{name}").read() for name in os.listdir(log))
    finally:
        shutil.rmtree(log)
    return {os.path.basename(name) for name in re.findall(r"file=(\S+) \[\d+\];  generating link map", text)}


def test_where_kubernetes_is_used_all_of_it_is_loaded():
    """Otherwise the names that are searched here would be wrong."""
    with Node() as node:
        assert found_in(mapped(node.meted.process.pid)) == set(OF_KUBERNETES)


def test_without_kubernetes_meted_loads_nothing_of_it():
    for role in "--user", "--system":
        with Daemon(role=role) as meted:
            admin = Admin(meted.place)
            guest = Guest(admin.tenant("1GiB").socket)
            guest.credit(MIB)
            names = mapped(meted.process.pid)
            assert "meted" in names and any(name.startswith("libc.so") for name in names), names
            assert not found_in(names), names


def test_the_command_and_the_programs_that_it_runs_load_nothing_of_it():
    place = tempfile.mkdtemp(prefix="mete-")
    environment = {"PATH": os.environ["PATH"], "HOME": place, "XDG_RUNTIME_DIR": place, "METE_SIM_DIR": place, "LD_LIBRARY_PATH": sys.argv[2]}
    try:
        for words in (["--version"], ["run", "--memory", "1GiB", "--", BUILD + "/examples/train", "steps=1"], ["ps"]):
            names = loaded(environment, METE, *words)
            assert any(name.startswith("libc.so") for name in names), names
            assert (words[0] != "run") or {"libmete.so", "libuv.so.1"} <= names, names
            assert not found_in(names), (words, names)
    finally:
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    run(globals())
