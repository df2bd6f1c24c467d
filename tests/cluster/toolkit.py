#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Usage: toolkit.py DRIVER ANYONE RUNC-ARGUMENTS...: runc as NVIDIA's container toolkit would have it.

A container whose environment names devices (NVIDIA_VISIBLE_DEVICES=all, as NVIDIA's images have it built in)
is given the driver of the folder DRIVER at the loader's usual place, over all that others mounted there.
ANYONE: `anyone`, the toolkit's default, or `privileged` (accept-nvidia-visible-devices-envvar-when-unprivileged=false).
"""
import json
import os
import sys

LIBRARIES = "usr/lib/x86_64-linux-gnu"


def asks(config):
    environment = dict(entry.partition("=")[::2] for entry in config["process"].get("env", []))
    return environment.get("NVIDIA_VISIBLE_DEVICES", "void") not in ("", "void")


def privileged(config):
    return "CAP_SYS_ADMIN" in config["process"].get("capabilities", {}).get("bounding", [])


def give(config, driver):
    config["mounts"] += [
        {"destination": f"/{LIBRARIES}/{name}", "source": os.path.join(driver, name), "type": "bind", "options": ["bind", "ro"]}
        for name in sorted(os.listdir(driver))]
    # The node's folder is to the simulated driver what a device node is to NVIDIA's.
    config["mounts"].append({"destination": "/dev/shm", "source": "/dev/shm", "type": "bind", "options": ["rbind", "rw"]})


def main():
    driver, who, *arguments = sys.argv[1:]
    if "create" in arguments and "--bundle" in arguments:
        path = os.path.join(arguments[arguments.index("--bundle") + 1], "config.json")
        with open(path) as file:
            config = json.load(file)
        if asks(config) and (who == "anyone" or privileged(config)):
            give(config, driver)
            with open(path, "w") as file:
                json.dump(config, file)
    os.execvp("runc", ["runc", *arguments])


main()
