#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mete why: what a tenant waits for, in sentences. argv[1]: the build folder."""
import os
import re
import signal

from person import *


def steady(node, name, *options, kernel_us=1000, memory="10M"):
    process = node.start("run", "--name", name, *options, "--", workload("steady"), f"memory={memory}", "stdin=1", "seconds=3600", "report_ms=50", f"kernel_us={kernel_us}")
    assert process.stdout.readline(), process.stderr.read()
    return process


def says(node, *words, who=("it",)):
    """Until its output has all of this; returns it."""
    def look():
        said = node.mete("why", *who)
        return said.returncode == 0 and not said.stderr and all(word in said.stdout for word in words) and said.stdout

    return until(look, lambda: f"never: {words}: {node.mete('why', *who).stdout}")


def test_a_tenant_that_waits_for_a_turn_is_told_whose_it_is():
    with Node(METE_SIM_DEVICES="1xSIM") as node:
        steady(node, "slow", kernel_us=100000)
        steady(node, "it", "--weight", "101")
        said = says(node, "it (tenant 2) on GPU 0: waits for its turn", "slow (tenant 1) has its turn now.",
                    "of GPU 0's time within the last ", ", and was due ",
                    "  It goes on by itself; `mete set it weight=N` gives it a larger part of the time.\n")
        assert said.startswith("it (tenant 2)"), said
        says(node, "waits for its turn", who=())


def test_a_tenant_that_waits_for_room_is_told_who_holds_it():
    with Node(METE_SIM_DEVICES="1xSIM", METE_SIM_MEMORY="1G", METE_SIM_CONTEXT_MEMORY="4M") as node:
        steady(node, "large", "--memory", "700M", memory="600M")
        node.start("run", "--name", "it", "--memory", "900M", "--wait", "10m", "--", workload("steady"), "memory=500M", "stdin=1", "seconds=3600")
        says(node, "it (tenant 2) on GPU 0: waits for", "It asks for 0.49 GiB, and GPU 0 has 0.40 GiB free", "large (tenant 1) holds 0.59 GiB of it, which cannot leave.",
             "It goes on once others free so much, or end.", "It is refused when it has waited for 10m (wait).")


def test_a_tenant_that_waits_for_its_memory_is_told_whose_can_leave():
    """Each stays for the time that movement may cost nothing: far longer than a check takes."""
    with Node(METE_SIM_DEVICES="1xSIM", METE_SIM_MEMORY="1G", METE_SIM_CONTEXT_MEMORY="4M") as node:
        steady(node, "fixed", "--memory", "200M", memory="100M")
        steady(node, "other", "--swap", "auto", memory="500M")
        node.start("run", "--name", "it", "--swap", "auto", "--", workload("steady"), "memory=500M", "stdin=1", "seconds=3600")
        said = says(node, "it (tenant 3) on GPU 0: waits for its memory", "other (tenant 2) holds", "can leave.", "`mete suspend` of one makes room at once.")
        assert re.search(r"other \(tenant 2\) holds 0\.\d+ GiB of it, of which 0\.\d+ GiB can leave\.\n", said), said
        assert re.search(r"fixed \(tenant 1\) holds 0\.\d+ GiB of it, which cannot leave\.\n", said), said


def test_a_tenant_whose_memory_has_room_and_is_on_its_way_is_told_so():
    """Its program is stopped, so that it stays on its way."""
    with Node(METE_SIM_DEVICES="1xSIM") as node:
        program = steady(node, "it", "--swap", "auto", memory="100M")
        assert node.mete("suspend", "it").returncode == 0
        os.killpg(program.pid, signal.SIGSTOP)
        assert node.mete("resume", "it").returncode == 0
        said = says(node, "it (tenant 1) on GPU 0: waits for its memory", "  There is room for it: it is being moved back.\n")
        assert "mete suspend" not in said, said


def test_a_suspended_tenant_is_told_how_it_can_go_on():
    with Node(METE_SIM_DEVICES="1xSIM") as node:
        steady(node, "it", "--swap", "auto")
        assert node.mete("suspend", "it").returncode == 0
        says(node, "`mete resume it` lets it go on")
        says(node, "it (tenant 1)", who=())
        says(node, "suspended by `mete suspend` for ", " s, ")  # since when


def words(text):
    """Without for how long something has been so: that goes on between two calls."""
    return re.sub(r" for \d+ \w+", "", " ".join(text.split())).split()


def test_sentences_are_broken_between_words_on_a_terminal():
    """And nowhere else: what is read from a pipe has a sentence in each line."""
    with Node(METE_SIM_DEVICES="1xSIM") as node:
        steady(node, "it", "--swap", "auto")
        assert node.mete("suspend", "it").returncode == 0
        says(node, "`mete resume it` lets it go on")
        for verb in ("why", "it"), ("events",):
            plain = node.mete(*verb).stdout
            assert max(map(len, plain.splitlines())) > 60, plain
            for columns in 40, 80, 200:
                with Terminal(node, f"{METE} {' '.join(verb)}; exec cat", columns=columns) as terminal:
                    until(lambda: words(terminal.text()) == words(plain), lambda: (terminal.text(), plain))


def test_no_wait_is_shown_where_there_is_none():
    with Node(METE_SIM_DEVICES="1xSIM") as node:
        assert node.mete("why").stdout == "no meted is running: nobody waits\n"
        refused(node.mete("why", "it"), "no meted is running, so there is no tenant 'it'; of one that has ended `mete events --tenant it` tells", status=1)
        process = steady(node, "it")
        says(node, "it (tenant 1) on GPU 0: running.\n  It waits for nothing.\n")
        assert node.mete("why").stdout == "nobody waits\n"
        says(node, "it (tenant 1)", who=("1",))
        refused(node.mete("why", "nobody"), "there is no tenant 'nobody'; `mete ps` lists them, and of one that has ended `mete events --tenant nobody` tells", status=1)
        refused(node.mete("why", "it", "other"), "'other': why takes one tenant, or none", status=2)
        process.communicate()


if __name__ == "__main__":
    run(globals())
