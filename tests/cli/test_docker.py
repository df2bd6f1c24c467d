#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`mete run` with Docker's own engine: containers have the share as a CDI device, or by the way of docs/howto-docker.md for engines without CDI. The
tests have a /run of their own, with the system's meted in it.

    TEST.py BUILD"""
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys

from mete import *
from meted import until
from docker import Engine, engines, newer
from person import ROOT
from runner import Skipped, needed
from test_podman import DEVICE, INSIDE, Machine

NVIDIA = os.path.expanduser("~/.cache/mete/nvidia-container-runtime")
# Nothing of a real GPU is there: the simulated driver, and the machine that its processes share.
SIMULATED = r'-v "$METE_DRIVER:$METE_DRIVER:ro" -v "$METE_SIM_DIR:$METE_SIM_DIR" -e METE_SIM_DIR -e METE_SIM_DEVICES'


@contextlib.contextmanager
def machine(programs, **settings):
    with Machine() as here, Engine(here.place + "/docker", programs, **settings) as engine:
        engine.await_ready()
        engine.load(here.root)
        yield here, engine


def container(engine, *words, user="0"):
    return engine.client("run", "--rm", "--net", "host", "--user", user, *words[:-1], "gpu", *words[-1].split())


def test_an_engine_that_knows_cdi_gives_a_container_the_share_and_no_more():
    with machine(newer(), features={"cdi": True}) as (here, engine):
        assert engine.version() >= (25, 0), engine.version()
        done = here.share(*container(engine, "--device", DEVICE, "/bin/hoarder"))
        assert done.returncode == 0 and "hoarder ok" in done.stdout, done
        assert "the limit of 256MiB is reached" in done.stderr and "job on GPU 0: held at most" in done.stderr, done.stderr
        # Any user of the container's is in the share; without the device there is no GPU, and without the share no device.
        done = here.share(*container(engine, "--device", DEVICE, "/bin/vector-add rounds=2", user="1234"))
        assert done.returncode == 0 and "vector-add ok" in done.stdout, done
        done = here.share(*container(engine, "/bin/vector-add"))
        assert done.returncode != 0 and "vector-add ok" not in done.stdout, done
        done = subprocess.run(container(engine, "--device", DEVICE, "/bin/sh -c true"), text=True, capture_output=True)
        assert done.returncode != 0 and f"unresolvable CDI devices {DEVICE}" in done.stderr, done


def test_nvidias_runtime_gives_the_share_to_a_container_of_any_engine():
    """It knows devices of CDI by names in its variable, whether Docker does or not."""
    found = shutil.which("nvidia-container-runtime", path=needed.SEARCH + ":" + NVIDIA)
    if not found:
        raise Skipped(f"there is no nvidia-container-runtime; `GOBIN={NVIDIA} go install github.com/NVIDIA/nvidia-container-toolkit/cmd/nvidia-container-runtime@v1.17.8`")
    with machine(engines(), runtimes={"nvidia": {"path": found}}) as (here, engine):
        done = here.share(*container(engine, "--runtime", "nvidia", "-e", f"NVIDIA_VISIBLE_DEVICES={DEVICE}", "/bin/hoarder"))
        assert done.returncode == 0 and "hoarder ok" in done.stdout, done
        assert "the limit of 256MiB is reached" in done.stderr and "job on GPU 0: held at most" in done.stderr, done.stderr


def page():
    return open(os.path.join(ROOT, "docs", "howto-docker.md")).read()


def commands():
    """Those of the page's first blocks, up to the table of engines: what is typed behind each `$`."""
    return re.findall(r"^\$ (.*)$", page().partition("## Which engines")[0], re.M)


def as_pasted(here, engine):
    """What runs a command of the page: `mete`, `sudo` and `docker` are found as on a server, and IMAGE is the test's image and its program."""
    folder = here.place + "/bin"
    os.mkdir(folder)
    client = " ".join(engine.client())
    for name, text in (("sudo", 'exec "$@"'), ("mete", f'exec {os.path.join(BUILD, "cli", "mete")} "$@"'),
                       ("docker", f'[ "$1" != run ] || {{ shift; set -- run --net host "$@"; }}\nexec {client} "$@"')):
        with open(f"{folder}/{name}", "w") as file:
            file.write(f"#!/bin/sh\n{text}\n")
        os.chmod(f"{folder}/{name}", 0o755)
    environment = dict(here.environment, PATH=folder + ":" + os.environ["PATH"])

    def paste(command, **more):
        words = command.replace("IMAGE", "gpu /bin/hoarder").replace("OTHER", "gpu /bin/vector-add rounds=2").replace("4G", "256M")
        return subprocess.Popen(["sh", "-c", words], env=environment, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)
    return paste


def test_the_pages_commands_do_as_they_promise():
    once, stays, *containers = commands()
    assert "docker run" in once and stays.endswith("sleep infinity") and len(containers) == 2, commands()
    with machine(newer(), features=json.loads(re.search(r"`(\{\"features\".*?\})`", page())[1])["features"]) as (here, engine):
        paste = as_pasted(here, engine)
        done = paste(once)
        out, said = done.communicate(timeout=240)
        assert done.returncode == 0 and "hoarder ok" in out and "the limit of 256MiB is reached" in said, (out, said)
        share = paste(stays, process_group=0)
        until(lambda: os.listdir("/run/cdi"), "the device is not there")
        for command, wanted in zip(containers, ("hoarder ok", "vector-add ok")):
            done = paste(command)
            out, said = done.communicate(timeout=240)
            assert done.returncode == 0 and wanted in out, (command, out, said)
        os.killpg(share.pid, signal.SIGINT)  # Ctrl-C
        share.communicate(timeout=240)
        assert os.listdir("/run/cdi") == []
        # And what the page says of it then.
        done = paste(containers[0])
        out, said = done.communicate(timeout=240)
        sentence = re.search(r"`(unresolvable CDI devices [^`]*)`", page())[1]
        assert done.returncode != 0 and sentence in said, (out, said)


def recipe():
    """The command of the page for engines without CDI, as somebody pastes it: `mete run ... -- sh -c '...'`."""
    found, = re.findall(r"sudo mete run --name job --memory 4G -- sh -c '(.*?)'\n", page(), re.S)
    return found.replace("\\\n", " ")


def test_an_engine_without_cdi_gives_a_container_the_share_as_documented():
    with machine(engines()) as (here, engine):
        print(f"Docker {'.'.join(map(str, engine.version()))}", flush=True)
        command = recipe()
        assert command.count("--gpus all") == 1 and command.count("/usr/lib/mete:/usr/lib/mete:ro") == 1 and "IMAGE" in command, command
        guest = os.path.join(BUILD, "guest")
        command = command.replace("/usr/lib/mete:/usr/lib/mete:ro", f"{guest}:{guest}:ro").replace("--gpus all", f"--net host {SIMULATED}")
        command = command.replace("IMAGE", "gpu /bin/hoarder")
        given = {name: engine.environment[name] for name in ("DOCKER_HOST", "DOCKER_CONFIG")}
        folder = here.place + "/bin"
        os.mkdir(folder)
        with open(folder + "/docker", "w") as file:
            file.write('#!/bin/sh\nexec ' + " ".join(engine.programs["docker"]) + ' "$@"\n')
        os.chmod(folder + "/docker", 0o755)
        done = here.mete("run", "--name", "job", "--memory", "256MiB", "--report", "--", "sh", "-c", command, **given, PATH=folder + ":" + os.environ["PATH"])
        assert done.returncode == 0 and "hoarder ok" in done.stdout, done
        assert "the limit of 256MiB is reached" in done.stderr and "job on GPU 0: held at most" in done.stderr, done.stderr


def test_an_engine_without_cdi_refuses_the_device():
    with machine(engines(), features={"cdi": False}) as (here, engine):
        done = here.share(*container(engine, "--device", DEVICE, "/bin/hoarder"))
        # The client of before 25 knows no such device; the engine's sentence is that of the page.
        assert done.returncode != 0 and re.search(r"is not an absolute path|could not select device driver \"cdi\"", done.stderr), done


if __name__ == "__main__":
    if os.environ.get(INSIDE) or needed.lacking("cgroup", "containers"):
        run(globals(), sys.argv[2:])
    os.environ[INSIDE] = "yes"
    ready = 'mount -t tmpfs -o mode=755 tmpfs /run && mkdir -p /run/lock /run/cdi && exec "$@"'
    ended = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", ready, "sh", sys.executable, *sys.argv])
    sys.exit(ended.returncode)
