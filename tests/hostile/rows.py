# SPDX-License-Identifier: Apache-2.0
"""Every attack, once: those of the programs (`--list`), what is done to the daemon meanwhile, and several together."""
import os
import signal
import subprocess
import sys
import time

from world import HERE, Attack, wait_for

ENVIRONMENT = "those that clear it (`env -i`, `sudo`, setuid)"
ABSOLUTE = "those that open the driver by an absolute path"
AUDITED = "those in which an auditor of the loader (`LD_AUDIT`) leads there run without a limit"
SAME_USER = "Between tenants of one user limits stop accidents, not attacks"
ADMITTED = {"clears_preload": ENVIRONMENT, "empty_env": ENVIRONMENT, "absolute_path": ABSOLUTE, "audited": AUDITED, "joins_neighbour": SAME_USER,
            "raises_its_limit": SAME_USER}
# What only measuring can tell: contexts, modules, heaps (docs/FAILURE.md).
MEASURED = {"contexts_many", "contexts_churn", "primary_race", "modules", "modules_threads", "libraries", "heaps", "page_claims_none",
            "page_claims_all"}
# Their memory can move.
MOVES = {"segments_hoarded", "segments_churned", "moved_noise", "inventory_out", "store_held", "store_punched", "store_noise"}
RESTART_S = 15.0  # a restarted meted waits for those who were there (--grace)
QUICK = {"take-linear", "take-async", "take-virtual", "take-graph", "pools_destroyed", "heaps", "threads_race", "raw_clone", "fork_exec",
         "close_all", "own_sockets", "page_scribbled", "limits_forged", "by_getproc", "second_copy", "empty_env", "hello_storm",
         "ask_storm", "descriptors_sent", "inventory_lies", "inventory_out", "moved_noise", "store_held", "over_returns", "waiting_asks"}


def kill_meted(times, pause_s=0.15):
    def disturb(world, running):
        for _ in range(times):
            time.sleep(pause_s)
            pid = wait_for(world.daemon_pid, 10)
            if pid:
                os.kill(pid, signal.SIGKILL)
        wait_for(world.daemon_pid, 20)
    return disturb


def stop_meted(seconds):
    def disturb(world, running):
        time.sleep(0.2)
        pid = world.daemon_pid()
        os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(pid, signal.SIGCONT)
    return disturb


def close_gate(world, running):
    """The attacker's gate is closed while it runs: it need not drain."""
    wait_for(lambda: running.lines or running.ended, 10)
    for row in world.meet().list():
        if row.kind == "tenant_row" and row.name == "attacker":
            world.admin.send("gate_set", tenant=row.tenant, device=0, state=2)
    time.sleep(0.5)


def listed(*command):
    said = subprocess.run([*command, "--list"], capture_output=True, text=True, check=True).stdout
    return [line.split("\t") for line in said.splitlines()]


def rows(build):
    attack, protocol = f"{build}/tests/hostile/attack", [sys.executable, f"{HERE}/protocol.py"]
    jump = f"{build}/tests/cli/hostile_jump"
    one = {}
    for name, tries in listed(attack):
        one[name] = Attack(name, tries, [attack, name], exact=name not in MEASURED, admitted=ADMITTED.get(name), quick=name in QUICK,
                           devices=4 if name == "devices_all" else 1)
    for name, tries in listed(*protocol):
        one[name] = Attack(name, tries, [*protocol, name], admitted=ADMITTED.get(name), quick=name in QUICK,
                           options=("--swap", "auto") if name in MOVES else ())
    for way, tries in (("jumps", "siglongjmp out of the driver's call, then all is taken"),
                       ("allocates", "a signal handler takes all within a driver's call"),
                       ("jumps-alone", "likewise the jump, from a signal stack of its own"),
                       ("allocates-alone", "likewise the handler, on a signal stack of its own")):
        one["handler_" + way] = Attack("handler_" + way, tries, [jump, way])
    found = list(one.values())

    def disturbed(name, tries, disturb, **more):
        base = one[name.split("/")[0]]
        found.append(Attack(name, tries, base.command, exact=base.exact, disturb=disturb, devices=base.devices, options=base.options, **more))

    for name in ("take-linear", "take-async", "threads_race", "contexts_churn", "page_scribbled", "ask_return_storm", "other_user"):
        disturbed(name + "/meted_killed", f"{name} while meted is killed five times", kill_meted(5), kills=True, slow_s=RESTART_S)
    for name in ("segments_churned", "inventory_out", "store_punched"):
        disturbed(name + "/meted_killed", f"{name} while meted is killed five times", kill_meted(5), kills=True, slow_s=RESTART_S)
    for name in ("take-linear", "threads_race", "reconnect_storm"):
        disturbed(name + "/meted_stopped", f"{name} while meted stands still for 1.5 s", stop_meted(1.5), slow_s=4.0)
    for name in ("host_function", "captures_open", "threads_race", "streams_many", "forged_drains"):
        disturbed(name + "/gate_closed", f"{name} while its gate is closed, which it never drains", close_gate)

    def several(names, between, tries, command, **more):
        exact = not any(name in MEASURED for name in names)
        found.append(Attack(between.join(names), tries, command, exact=exact, **more))

    def together(names):
        several(names, "+", "these at once, in threads of one process", [attack, "+".join(names)])

    together(["threads_race", "page_scribbled"])
    together(["modules", "page_claims_none", "pools_trimmed"])
    together(["close_storm", "take-async", "info_polled"])
    together(["contexts_churn", "nvml_polled", "threads_race"])
    together(["primary_race", "modules_threads", "pools_destroyed"])
    together(["graph_captured", "pools_trimmed", "signals_take"])
    together(["heaps", "contexts_churn", "page_claims_all"])
    together(["fork_exec", "close_all", "take-virtual"])
    together(["own_sockets", "close_storm", "threads_race"])
    together(["limits_forged", "page_scribbled", "take-pool"])
    together(["host_function", "captures_open", "streams_many"])

    def beside(names, **more):
        """Programs of one tenant, at once."""
        line = " ".join(f"{attack} {name} <&3 &" if name in one and one[name].command[0] == attack else
                        f"{' '.join(protocol)} {name} <&3 &" for name in names)
        several(names, " beside ", "these at once, each a process of the tenant", ["sh", "-c", f"exec 3<&0; {line} wait"], **more)

    beside(["threads_race", "ask_storm", "recalls_ignored"])
    beside(["take-async", "hello_storm", "settle_storm"])
    beside(["contexts_churn", "residual_storm", "check_storm"])
    beside(["modules", "page_noise", "inventory_storm"])
    beside(["fork_storm", "reconnect_storm", "killed"])
    beside(["stopped", "credit_hoarded", "threads_race"])
    beside(["waiting_asks", "unread_replies", "silent_connections"])
    beside(["pools_destroyed", "large_pairs", "over_returns"], disturb=kill_meted(3), kills=True, slow_s=RESTART_S)
    return found
