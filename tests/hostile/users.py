# SPDX-License-Identifier: Apache-2.0
"""The table with two users: the system's meted in a /run and an /etc of our own, and a policy that gives the attacker's user what its tenant has."""
import subprocess
import sys

from meted import become
from own_machine import own_machine

PLACE, POLICY = "/run/mete", "/etc/mete/meted.yaml"
NEIGHBOUR, ATTACKER = 61001, 61002


def python():
    """One that the attacker may execute: ours may lie in root's home."""
    for path in (sys.executable, "/usr/bin/python3"):
        try:
            subprocess.run([path, "-c", ""], preexec_fn=lambda: become(ATTACKER), cwd="/", check=True)
            return path
        except (OSError, subprocess.SubprocessError):
            pass
    sys.exit("hostile: another user may execute no Python here")


def begin(limit):
    """For this process and its children, for good."""
    own_machine()
    with open(POLICY, "w") as file:
        file.write("default: {tenant: {weight: 10000}, sum: {weight: 100000, tenants: 64}}\n"
                   f"users: {{{ATTACKER}: {{tenant: {{weight: 10000}}, sum: {{memory: {limit >> 20}MiB, weight: 100000, tenants: 64}}}}}}\n")


def of_two_users(attacks):
    """Those that need no daemon of their own. What only one user's own programs can do must be held there."""
    found = [attack for attack in attacks if not attack.daemon or attack.daemon == "users_doors"]
    for attack in found:
        attack.daemon = attack.daemon or "users"
        attack.admitted = None if attack.name in ("joins_neighbour", "raises_its_limit", "meted_fetched") else attack.admitted
    return found


def of_one_user(attacks):
    """Those that need no system's meted."""
    return [attack for attack in attacks if attack.daemon != "users_doors"]
