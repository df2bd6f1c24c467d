# SPDX-License-Identifier: Apache-2.0
"""Every attack, once: those of the programs (`--list`), what is done to the daemon meanwhile, and several together."""
import errno
import os
import resource
import subprocess
import sys

from acts import (RESIZED, bind, bind_meted, both, close_gate, close_often, end_meted, end_meted_after, files_and_three, flood_set, freeze, freeze_meted, jump_clock,
                  kill_closers, kill_meted, memory_as_it_is, no_room, set_shares, stop_meted, straiten_meted, suspend, suspend_and_end, suspend_and_kill,
                  suspend_and_set, suspend_once)
from bounds import bounds
from freezer import freezers
from world import HERE, SLOW_S, Attack

ENVIRONMENT = "those that clear the environment (`env -i`, `sudo`, setuid)"
ABSOLUTE = "those that open the driver by an absolute path"
AUDITED = "those in which an auditor of the loader (`LD_AUDIT`) leads to the driver"
LAUNCHED = "Work that was launched cannot be taken back"
SAME_USER = "Between tenants of one user limits stop accidents, not attacks"
ADMITTED = {"clears_preload": ENVIRONMENT, "empty_env": ENVIRONMENT, "absolute_path": ABSOLUTE, "audited": AUDITED, "joins_neighbour": SAME_USER,
            "raises_its_limit": SAME_USER, "meted_fetched": SAME_USER, "turns_long_threads": LAUNCHED, "turns_long_children": LAUNCHED, "turns_leaning": LAUNCHED}
# Memory that only measuring can tell: contexts, modules, heaps (docs/FAILURE.md).
MEASURED = {"contexts_many", "contexts_churn", "primary_race", "modules", "modules_threads", "libraries", "heaps", "page_claims_none",
            "page_claims_all", "nested_lenders", "memory_written"}
# Likewise what the mover loads into each process whose memory leaves (guest/movable/movable_hash.c).
MOVED = ("moves_", "lends_", "both_")
# Their memory can move.
MOVES = {"answers_late", "answers_twice", "answers_of_others", "page_edges", "fields_edges", "connected_twice", "weights_swung", "inventory_out", "store_held", "store_punched", "store_noise", "store_filled", "store_locked", "descriptors_passed"}
# While meted is told to end, in `make test`.
ENDED = {"take-linear", "store_held"}
# Where they are installed, or lie (HOSTILE_LIBRARIES).
LIBRARIES = os.environ.get("HOSTILE_LIBRARIES", "/usr/lib/x86_64-linux-gnu")
ALLOCATORS = {"jemalloc": LIBRARIES + "/libjemalloc.so.2", "tcmalloc": LIBRARIES + "/libtcmalloc_minimal.so.4"}
CAP = 20
CAPPED = ("--cap", f"{CAP}%", "--weight", "1000")
# Judged by it, but for those in which a kernel never ends (docs/time.md, "What it does not promise"), and those whose cap is set meanwhile.
ENDLESS = {"turns_spinning", "turns_decided"}
NESTED_CAPPED = {"nested_capped", "nested_come_and_go", "nested_once"}
NO_KERNELS = {"turns_capture_execs"}  # their copies are not in that ledger
CAP_SET = ("shares_set", "suspended_set", "set_flooded", "set_flooded_killed")
# Their forgeries are believed only of a tenant that takes part in turns.
TURNS = {"flight_forged", "waits_forged", "wants_storm", "drained_early", "drained_never", "drained_backwards", "times_backwards"}
RESTART_S = 15.0  # a restarted meted waits for guests that were there (--grace)
QUICK = {"take-linear", "memory_held_for_ever", "first_thread_ends", "neighbours_listed", "descriptors_lingering", "descriptors_behind", "image_forged", "image_forged_copy", "interposed_apart", "take-async", "take-virtual", "pools_destroyed", "heaps", "threads_race", "raw_clone", "fork_exec",
         "close_all", "own_sockets", "page_scribbled", "limits_forged", "by_getproc", "second_copy", "empty_env", "hello_storm",
         "ask_storm", "descriptors_sent", "inventory_lies", "inventory_out", "moved_noise", "store_held", "over_returns", "waiting_asks",
         "pools_exchanged", "graph_updates", "captures_of_others", "lends_freed", "flight_forged", "moved_forth_and_back", "segments_of_the_dying",
         "nested", "both_lent_forked_died", "both_expandable", "both_recalled_killed", "doors_half_open", "doors_verbs"}


def listed(*command):
    said = subprocess.run([*command, "--list"], capture_output=True, text=True, check=True).stdout
    return [line.split("\t") for line in said.splitlines()]


# The acts on these while they run.
DISTURBED = dict.fromkeys(["moved_never", "moved_at_once", "moved_forth_and_back"], suspend) | dict.fromkeys(
    ["drained_early", "drained_never", "drained_backwards"], close_often) | {
        "inventories_of_many": kill_meted(4),
        "both_dozing": set_shares(("weight", "10000"), ("idle", "park:50ms"), ("cap", "1%"), ("class", "batch"), ("idle", "keep"), ("cap", "100%"), ("idle", "park:100ms"))}
NESTED = {"nested": "exec 3<&0; for n in 1 2 3; do {mete} run -q --memory 400MiB -- {attack} take-linear <&3 & done; wait",
          "nested_names": "exec 3<&0; for n in neighbour \"$(printf 'a\\033[2J\\n')\" attacker; do "
                          "{mete} run -q --name \"$n\" --memory 400MiB -- {attack} take-async <&3 & done; wait",
          "nested_shares": "exec 3<&0; export HOSTILE_OUTER=$METE_SOCKET; {mete} run -q --memory 400MiB -- {attack} two_shares <&3 & wait",
          "nested_orphans": "exec 3<&0; setsid {mete} run -q --memory 400MiB -- {attack} take-linear <&3 & sleep 0.3; kill -9 $PPID; {mete} run -q --memory 500MiB -- {attack} take-linear <&3 & wait",
          "nested_capped": "exec 3<&0; for n in 1 2 3; do {mete} run -q --memory 100MiB --cap 100% --weight 10000 -- {attack} turns_children <&3 & done; wait",
          "nested_handed": "exec 3<&0; for n in 1 2; do {mete} run -q --memory 250MiB -- {attack} handed_over <&3 & done; wait",
          "nested_come_and_go": "exec 3<&0; for n in 1 2 3 4 5 6; do timeout -s KILL 2 {mete} run -q --memory 100MiB -- {attack} turns_died <&3; done; {attack} take-linear <&3",
          "nested_once": "exec 3<&0; for n in 1 2 3 4 5 6 7 8 9 10; do timeout -s KILL 4 {mete} run -q --memory 100MiB -- {attack} turns_once <&3; done; {attack} take-linear <&3",
          "nested_lenders": "exec 3<&0; for n in 1 2 3; do {mete} run -q --memory 400MiB --swap auto -- {attack} lends_killed <&3 & done; wait"}


def is_exact(name):
    return name not in MEASURED and not name.startswith(MOVED)


def options_of(name):
    if name in TURNS or name.startswith("turns_") or name in NESTED_CAPPED:
        return CAPPED
    if name == "both_capture_child":
        return (*CAPPED, "--swap", "auto")
    if name == "both_dozing":
        return ("--swap", "auto", "--idle", "park:100ms")
    return ("--swap", "auto") if name in MOVES or name.startswith((*MOVED, "moved_", "segments_")) else ()


def judge_caps(attacks):
    for attack in attacks:
        whole, _, disturbed = attack.name.partition("/")
        programs = whole.split(" beside ")
        computes = [name for name in programs if (name.startswith(("turns_", "both_capture_child")) or name in NESTED_CAPPED) and name not in NO_KERNELS]
        if set(CAPPED) <= set(attack.options) and computes and not ENDLESS & set(computes) and disturbed not in CAP_SET:
            attack.cap = CAP
    return attacks


def rows(build):
    attack, protocol = f"{build}/tests/hostile/attack", [sys.executable, f"{HERE}/protocol.py"]
    pages, kernel, late = ([sys.executable, f"{HERE}/protocol_{name}.py"] for name in ("pages", "kernel", "late"))
    jump = f"{build}/tests/cli/hostile_jump"
    one = {}
    for name, tries in listed(attack):
        one[name] = Attack(name, tries, [attack, name], exact=is_exact(name), admitted=ADMITTED.get(name), quick=name in QUICK,
                           devices=4 if name == "devices_all" else 1, options=options_of(name),
                           disturb=DISTURBED.get(name, suspend if name.startswith(("moves_", "both_")) else None))
    for script in protocol, pages, kernel, late:
        for name, tries in listed(*script):
            one[name] = Attack(name, tries, [*script, name], admitted=ADMITTED.get(name), quick=name in QUICK, options=options_of(name),
                               disturb=DISTURBED.get(name), kills=name == "inventories_of_many",
                               slow_s=RESTART_S if name == "inventories_of_many" else SLOW_S)
    doors = [sys.executable, f"{HERE}/doors.py"]
    for name, tries in listed(*doors):
        one[name] = Attack(name, tries, [*doors, name], quick=name in QUICK, daemon="doors")
    for name, tries in (("nested", "three mete run within it, each with most of its limit, that take"),
                        ("nested_names", "likewise, by the neighbour's name and by one of control characters"),
                        ("nested_shares", "a process that belongs to its tenant and to one within it, and takes as either"),
                        ("nested_orphans", "one within it goes on when its own mete run was killed, another one is made within it, both take"),
                        ("nested_capped", "three within it, each with a cap of 100 % and a weight of 10,000, that compute under its cap"),
                        ("nested_come_and_go", "tenants within it that compute and are killed, each with a cap that has nothing to pay yet"),
                        ("nested_handed", "two within it, one of which gets the other's connection and pages"),
                        ("nested_once", "tenants within it that have one call of a second each, and end"),
                        ("nested_lenders", "likewise, whose lenders are killed with what they lent open")):
        one[name] = Attack(name, tries, ["sh", "-c", NESTED[name].format(mete=f"{build}/cli/mete", attack=attack)], exact=is_exact(name),
                           quick=name in QUICK, options=options_of(name))
    for way, tries in (("jumps", "siglongjmp out of the driver's call, then all is taken"),
                       ("allocates", "a signal handler takes all within a driver's call"),
                       ("jumps-alone", "likewise the jump, from a signal stack of its own"),
                       ("allocates-alone", "likewise the handler, on a signal stack of its own")):
        one["handler_" + way] = Attack("handler_" + way, tries, [jump, way])
    for name, library in ALLOCATORS.items():
        if os.path.exists(library):
            one[name] = Attack(name, f"{os.path.basename(library)} is preloaded before the guest", ["sh", "-c", f"LD_PRELOAD={library}:$LD_PRELOAD exec {attack} threads_race"])
    found = list(one.values())

    def disturbed(name, tries, disturb, **more):
        base = one[name.split("/")[0]]
        found.append(Attack(name, tries, base.command, disturb=disturb,
                            **dict(exact=base.exact, options=base.options, devices=base.devices) | more))

    def movable(name, tries, disturb, **more):
        """Likewise, and its memory can move: what the mover loads, only measuring can tell."""
        disturbed(name, tries, disturb, exact=False, options=(*one[name.split("/")[0]].options, "--swap", "auto"), **more)

    for name in ("take-linear", "take-async", "threads_race", "contexts_churn", "page_scribbled", "ask_return_storm", "other_user"):
        disturbed(name + "/meted_killed", f"{name} while meted is killed five times", kill_meted(5), kills=True, slow_s=RESTART_S)
    for name in ("take-linear", "moves_taken", "lends_freed", "turns_coupled", "turns_spinning", "both_barrier", "both_thread_stopped", "store_held", "store_locked",
                 "own_clock"):
        disturbed(name + "/meted_ended", f"{name} while meted is told to end three times", end_meted(3), kills=True, slow_s=RESTART_S, quick=name in ENDED)
    for name in ("descriptors_unwritten", "descriptors_lingering", "first_thread_ends", "both_page_withheld"):
        disturbed(name + "/meted_ended_then", f"{name}, and after that meted is told to end twice", end_meted_after(2), kills=True, slow_s=RESTART_S)
    for name in ("segments_churned", "inventory_out", "store_punched"):
        disturbed(name + "/meted_killed", f"{name} while meted is killed five times", kill_meted(5), kills=True, slow_s=RESTART_S)
    for name in ("moves_taken", "moves_mapped", "lends_freed", "lends_killed", "exports_posted", "graph_updates", "turns_coupled"):
        disturbed(name + "/meted_killed", f"{name} while meted is killed five times", kill_meted(5), kills=True, slow_s=RESTART_S)
    for name in ("moves_taken", "lends_many", "turns_captured"):
        disturbed(name + "/meted_stopped", f"{name} while meted stands still for 1.5 s", stop_meted(1.5), slow_s=4.0)
    for name in ("lends_freed", "lends_killed", "lends_many", "segments_of_the_dying", "store_filled"):
        disturbed(name + "/suspended", f"{name} while it is suspended and resumed", suspend)
    for name in ("lends_killed", "lends_many", "moves_taken", "store_filled", "nested_lenders"):
        movable(name + "/suspended_killed", f"{name} while it is suspended, and meted is killed", suspend_and_kill, kills=True, slow_s=RESTART_S)
    for name in ("exports_posted", "nested_lenders", "graph_conditions", "green_contexts", "turns_decided", "turns_green"):
        movable(name + "/suspended", f"{name} while it is suspended and resumed", suspend)
    for name in ("nested_lenders", "turns_decided"):
        disturbed(name + "/meted_killed", f"{name} while meted is killed five times", kill_meted(5), kills=True, slow_s=RESTART_S)
    for name in ("turns_decided", "turns_green"):
        disturbed(name + "/shares_set", f"{name} while its weight, cap and class are set",
                  set_shares(("weight", "10000"), ("cap", "1%"), ("class", "interactive"), ("cap", "100%"), ("weight", "1"), ("class", "batch")))
    for name in ("moves_taken", "moves_mapped", "take-pool", "graph_trimmed"):
        disturbed(name + "/limit_set", f"{name} while its limit is set up and down",
                  set_shares(("memory", "100MiB"), ("memory", "400MiB"), ("memory", "512MiB")))
    for name in ("turns_coupled", "turns_children", "turns_spinning"):
        disturbed(name + "/shares_set", f"{name} while its weight, cap and class are set",
                  set_shares(("weight", "10000"), ("cap", "1%"), ("class", "interactive"), ("cap", "100%"), ("weight", "1"), ("class", "batch")))
    for name in ("moves_captured", "turns_captured", "graph_trimmed"):
        disturbed(name + "/gate_often", f"{name} while its gate is closed and opened", close_often)
    for name in ("take-linear", "threads_race", "reconnect_storm"):
        disturbed(name + "/meted_stopped", f"{name} while meted stands still for 1.5 s", stop_meted(1.5), slow_s=4.0)
    for name in ("host_function", "captures_open", "threads_race", "streams_many", "forged_drains"):
        disturbed(name + "/gate_closed", f"{name} while its gate is closed, which it never drains", close_gate)

    # Mechanisms together: suspension, turns, captures, lending, limits and the store, each while another is at work.
    for name in ("turns_children", "turns_captured", "turns_graphs", "captures_open", "host_function", "fork_exec"):
        movable(name + "/suspended", f"{name} with memory that moves, while it is suspended and resumed", suspend)
    for name in ("lends_forked", "lends_to_stopped"):
        disturbed(name + "/suspended", f"{name} while it is suspended and resumed", suspend)
    for name in ("moves_taken", "moves_stocked", "lends_freed", "turns_captured"):
        movable(name + "/swap_set", f"{name} while its memory may move, and may not", set_shares(("swap", "off"), ("swap", "auto"), ("class", "batch")))
    for name in ("lends_killed", "lends_many"):
        disturbed(name + "/limit_set", f"{name} while its limit is set up and down",
                  set_shares(("memory", "100MiB"), ("memory", "400MiB"), ("memory", "512MiB")))
    for name in ("store_locked", "moves_contexts", "moves_stocked"):
        movable(name + "/suspended_killed", f"{name} while it is suspended, and meted is killed", suspend_and_kill, kills=True, slow_s=RESTART_S)

    for name in ("both_expandable", "both_lent_forked_died", "both_graph_lent"):
        disturbed(name + "/limit_set", f"{name} while its limit is set up and down",
                  set_shares(("memory", "100MiB"), ("memory", "400MiB"), ("memory", "512MiB")))
    for name in ("both_lent_forked_died", "both_opened_out", "both_expandable", "both_event_waits", "moves_taken", "turns_children"):
        movable(name + "/suspended_set", f"{name} while it is suspended and resumed, and its share is changed in between", suspend_and_set)
    for name in ("both_barrier", "both_halves", "both_updated", "both_thread_stopped"):
        movable(name + "/suspended_killed", f"{name} while it is suspended, and meted is killed", suspend_and_kill, kills=True, slow_s=RESTART_S)
    for name in ("both_barrier", "both_batched", "both_stop_storm"):
        movable(name + "/suspended_set", f"{name} while it is suspended and resumed, and its share is changed in between", suspend_and_set)
    for name in ("both_barrier", "both_trimmed"):
        movable(name + "/parked", f"{name} while it is parked whenever it is idle for a moment", set_shares(
            ("idle", "park:50ms"), ("weight", "10000"), ("idle", "keep"), ("weight", "1")))
    for name in ("both_updated", "both_trimmed", "both_halves"):
        movable(name + "/limit_set", f"{name} while its limit is set up and down, below what it holds",
                set_shares(("memory", "20MiB"), ("memory", "400MiB"), ("memory", "512MiB")))
    for name in ("turns_capture_execs", "own_clock", "threads_end"):
        movable(name + "/suspended", f"{name} while it is suspended and resumed", suspend)
    for name in ("interrupted", "own_clock", "own_numbers", "calls_refused"):
        disturbed(name + "/meted_killed", f"{name} while meted is killed five times", kill_meted(5), kills=True, slow_s=RESTART_S)
    for name in ("both_lent_forked_died", "both_opened_out", "both_recalled_killed"):
        disturbed(name + "/suspended_killed", f"{name} while it is suspended, and meted is killed", suspend_and_kill, kills=True, slow_s=RESTART_S)
    for name, error, what in (("moves_taken", errno.ENOSPC, "full"), ("lends_many", errno.ENOMEM, "full"), ("both_lent_forked_died", errno.ENOSPC, "full"),
                              ("store_filled", errno.ENOSPC, "full"), ("moves_taken", errno.EROFS, "read_only"), ("both_expandable", errno.EROFS, "read_only")):
        movable(f"{name}/store_{what}", f"{name} while the store becomes {what.replace('_', '-')} in the middle of a movement", no_room(error), daemon="no_room")

    # Frozen: no signal, and not a stop that a guest or a tracer could see.
    for kind in freezers():
        for name in ("turns_children", "turns_spinning", "turns_graphs", "turns_captured", "threads_race", "take-async"):
            disturbed(f"{name}/frozen_{kind}", f"{name} while its processes are frozen ({kind})", freeze(kind))
        for name in ("moves_taken", "moves_killed", "both_expandable", "lends_freed", "store_locked"):
            movable(f"{name}/frozen_out_{kind}", f"{name} while it is frozen ({kind}) and its memory is to leave", freeze(kind, suspend_once))
        for name in ("moves_taken", "turns_graphs", "image_forged"):
            movable(f"{name}/frozen_killed_{kind}", f"{name} while it is frozen ({kind}) and meted is killed", freeze(kind, kill_meted(1)), kills=True, slow_s=RESTART_S)
    for kind in bounds():
        how = "have a hundredth of a processor" if kind.startswith("slow") else "get no page more"
        for name in ("turns_children", "turns_captured", "threads_race", "ask_storm"):
            disturbed(f"{name}/{kind}", f"{name} while its processes {how} ({kind[-2:]})", bind(kind))
        for name in ("moves_taken", "both_expandable", "lends_freed", "store_filled"):
            movable(f"{name}/{kind}_out", f"{name} while its processes {how} ({kind[-2:]}), and its memory is to leave", bind(kind, suspend_once))
    for name in ("take-linear", "threads_race", "turns_children", "moves_taken"):
        disturbed(name + "/set_flooded", f"{name} while its owner changes its share as fast as meted takes it", flood_set())
    for name in ("moves_taken", "turns_children", "both_few_files"):
        movable(name + "/set_flooded_killed", f"{name} likewise, and meted is killed three times", both(flood_set(), kill_meted(3, 0.6)), kills=True, slow_s=RESTART_S)
    for name in ("image_forged", "nested_shares", "interposed_apart", "places_closed", "both_limits_low"):
        disturbed(name + "/meted_killed", f"{name} while meted is killed five times", kill_meted(5), kills=True, slow_s=RESTART_S)
    for name in ("execs_alike", "execs_behind", "agents_ended", "undumpable", "connection_passed", "users_nested"):
        disturbed(name + "/meted_killed", f"{name} while meted is killed five times", kill_meted(5), kills=True, slow_s=RESTART_S)
    for name in ("spawned", "execs_of_much", "threads_many"):
        movable(name + "/suspended", f"{name} with memory that moves, while it is suspended and resumed", suspend)
    # A restarted meted has only the hint that is forged, and then the driver's figures (docs/decisions/0171).
    disturbed("image_forged_copy/meted_killed", "image_forged_copy while meted is killed five times", kill_meted(5), kills=True, slow_s=RESTART_S, exact=False)

    # Two mechanisms in the middle of each other.
    restarted = dict(kills=True, slow_s=RESTART_S)
    for name in ("graph_captured", "captures_open", "lends_many", "ipc_opened", "store_noise", "managed_moves"):
        movable(name + "/suspended_ended", f"{name} while it is suspended, and meted is told to end", suspend_and_end, **restarted)
    for name in ("ipc_opened", "lends_forked", "exports_posted", "events_shared", "graph_captured", "store_punched"):
        movable(name + "/resized", f"{name} while its memory leaves and comes back, and its limit is set below what it holds and up again",
                both(suspend, set_shares(*RESIZED)))
    for name in ("lends_many", "lends_to_stopped", "fork_storm", "half_messages", "connection_passed"):
        disturbed(name + "/meted_ended", f"{name} while meted is told to end three times", end_meted(3), **restarted)
    for name in ("descriptors_sent", "descriptors_lingering", "descriptors_behind", "half_closed"):
        disturbed(name + "/closers_killed", f"{name} while meted's processes that close what it sends are killed, and meted is told to end",
                  both(kill_closers, end_meted(2, 0.7)), **restarted)

    # Three: a cap, a suspension and a meted that ends; a lender's exec and fork, a limit below what is held, and a meted that is killed.
    for name in ("turns_children", "turns_graphs", "turns_green", "turns_execs"):
        movable(name + "/suspended_killed", f"{name} while it is suspended, and meted is killed", suspend_and_kill, **restarted)
    for name in ("turns_died", "turns_execs", "turns_capture_execs"):
        disturbed(name + "/killed_often", f"{name} while meted is killed every half a second", kill_meted(18, 0.5), **restarted)
    for name in ("both_lent_exec", "lends_forked", "both_green_captured"):
        movable(name + "/resized_killed", f"{name} while it leaves and comes back, its limit is set below what it holds, and meted is killed",
                both(suspend, set_shares(*RESIZED), kill_meted(3, 0.5)), **restarted)
    for name in ("answers_late", "answers_twice", "answers_of_others"):
        disturbed(name + "/suspended_killed", f"{name} while it is suspended, and meted is killed", suspend_and_kill, **restarted)
    for name in ("both_unlucky", "both_agent_lies", "both_bounds_storm"):
        disturbed(name + "/suspended_ended", f"{name} while it is suspended, and meted is told to end", suspend_and_end, **restarted)
    for name in ("forks_in_locks", "connected_twice"):
        disturbed(name + "/meted_killed", f"{name} while meted is killed five times", kill_meted(5), **restarted)

    # What is handed on past meted, while meted comes and goes.
    for name in ("numbers_again", "handed_over", "descriptors_fetched", "memory_written", "old_gate_speaks"):
        disturbed(name + "/meted_killed", f"{name} while meted is killed five times", kill_meted(5), **restarted)
    for name in ("numbers_again", "both_first_dies", "both_store_withheld", "both_ring_pins"):
        movable(name + "/suspended_killed", f"{name} while it is suspended, and meted is killed", suspend_and_kill, **restarted)
    for name in ("both_store_withheld", "both_ring_pins", "both_first_dies"):
        movable(name + "/suspended_ended", f"{name} while it is suspended, and meted is told to end", suspend_and_end, **restarted)

    # meted itself is in want, or stands still unseen.
    for name in ("fork_storm", "lends_many", "descriptors_in_circles", "joined_connections", "take-linear"):
        disturbed(name + "/meted_few_files", f"{name} while meted has three descriptors left", straiten_meted(resource.RLIMIT_NOFILE, files_and_three), slow_s=RESTART_S)
    for name in ("fork_storm", "lends_many", "unread_by_many", "moves_taken"):
        disturbed(name + "/meted_no_memory", f"{name} while meted gets no memory more", straiten_meted(resource.RLIMIT_AS, memory_as_it_is), slow_s=RESTART_S)
    for name in ("fork_storm", "moves_taken", "tenants_storm"):
        disturbed(name + "/meted_no_file_grows", f"{name} while no file of meted's may grow (as on a full disk)", straiten_meted(resource.RLIMIT_FSIZE, lambda pid: 1),
                  slow_s=RESTART_S)
    for kind in freezers():
        for name in ("lends_many", "moves_taken", "ask_storm"):
            disturbed(f"{name}/meted_frozen_{kind}", f"{name} while meted is frozen ({kind})", freeze_meted(kind), slow_s=RESTART_S)
        for name in ("lends_many", "lends_freed", "both_first_dies"):
            movable(f"{name}/frozen_killed_{kind}", f"{name} while it is frozen ({kind}) and meted is killed", freeze(kind, kill_meted(1)), **restarted)
    for kind in bounds():
        for name in ("lends_many", "fork_storm"):
            disturbed(f"{name}/meted_{kind}", f"{name} while meted {'has a hundredth of a processor' if kind.startswith('slow') else 'gets no page more'} ({kind[-2:]})",
                      bind_meted(kind), slow_s=RESTART_S)
    for name in ("take-linear", "moves_taken", "tenants_storm"):
        disturbed(name + "/clock_jumps", f"{name} while meted's time of day jumps", jump_clock, daemon="clock")

    # Lenders and others on parts of a GPU that MIG made.
    for name in ("lends_forked", "lends_killed", "devices_all", "moves_taken"):
        movable(name + "/parts", f"{name} on parts that MIG made of a GPU, while it is suspended and resumed", suspend, daemon="parts", devices=2)

    # Doors that are flooded while meted is told to end.
    for name in ("doors_half_open", "doors_dripped", "doors_verbs"):
        disturbed(name + "/meted_ended", f"{name} while meted is told to end three times", end_meted(3, 0.8), daemon="users_doors", **restarted)

    # A cap, and whoever is told what is owed: a meted that ends, a share that is set, a process that is frozen.
    for name in ("turns_graphs", "turns_children", "turns_captured", "turns_green", "turns_stopped", "turns_wait_values", "turns_relayed", "turns_pulsing"):
        disturbed(name + "/meted_ended", f"{name} while meted is told to end three times", end_meted(3), **restarted)
    for name in ("turns_graphs", "turns_coupled", "turns_pulsing"):
        disturbed(name + "/ended_often", f"{name} while meted is told to end every second", end_meted(9, 1.0), **restarted)
        disturbed(name + "/weight_set", f"{name} while its weight and class are set, and its cap to what it is",
                  set_shares(("weight", "1"), ("cap", f"{CAP}%"), ("class", "interactive"), ("weight", "10000"), ("cap", f"{CAP}%"), ("class", "batch")))
    for name in ("turns_graphs", "turns_pulsing"):
        movable(name + "/suspended_ended", f"{name} while it is suspended, and meted is told to end", suspend_and_end, **restarted)
    for kind in freezers():
        disturbed(f"turns_pulsing/frozen_ended_{kind}", f"turns_pulsing while its processes are frozen ({kind}) and meted is told to end",
                  freeze(kind, end_meted(1, 0)), **restarted)

    def several(names, between, tries, command, **more):
        exact = all(map(is_exact, names))
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
        line = " ".join(f"{' '.join(one[name].command)} <&3 &" for name in names)
        several(names, " beside ", "these at once, each a process of the tenant", ["sh", "-c", f"exec 3<&0; {line} wait"], **more)

    beside(["threads_race", "ask_storm", "recalls_ignored"])
    beside(["take-async", "hello_storm", "settle_storm"])
    beside(["contexts_churn", "residual_storm", "check_storm"])
    beside(["modules", "page_noise", "inventory_storm"])
    beside(["fork_storm", "reconnect_storm", "killed"])
    beside(["stopped", "credit_hoarded", "threads_race"])
    beside(["moves_taken", "segments_churned", "moved_noise"], options=("--swap", "auto"), disturb=suspend)
    beside(["lends_freed", "borrows_unread", "segments_of_the_dying"], options=("--swap", "auto"), disturb=suspend)
    beside(["turns_coupled", "flight_forged", "drained_early"], options=CAPPED)
    beside(["waiting_asks", "unread_replies", "silent_connections"])
    beside(["turns_captured", "store_filled"], options=(*CAPPED, "--swap", "auto"), disturb=suspend)
    beside(["lends_to_stopped", "store_filled", "turns_children"], options=(*CAPPED, "--swap", "auto"), disturb=suspend)
    beside(["lends_freed", "captures_open", "fork_storm"], options=("--swap", "auto"), disturb=kill_meted(3), kills=True, slow_s=RESTART_S)
    beside(["pools_destroyed", "large_pairs", "over_returns"], disturb=kill_meted(3), kills=True, slow_s=RESTART_S)
    return judge_caps(found)
