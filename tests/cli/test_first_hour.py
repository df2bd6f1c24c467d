#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The first hour with mete, as a person has it: reports without being asked, and refusals. The accepted amounts: test_shares.py; the form of `mete
ps`: test_ps.py; make: test_make.py; the texts: test_texts.py."""
from person import *

# Each that there is.
VERBS = re.findall(r"^COMMAND\((\w+),", open(os.path.join(ROOT, "cli/commands.def")).read(), re.M)


def test_a_program_to_which_nobody_came_is_reported_unless_that_is_not_wanted():
    with Node() as node:
        done = node.mete("run", "--", "true")
        assert done.returncode == 0 and len(done.stderr.splitlines()) == 1 and "nothing was limited" in done.stderr, done
        assert node.mete("run", "-q", "--", "true").stderr == ""
        assert node.mete("run", "--", workload("vector-add")).stderr == ""
        assert node.mete("run", "--", "sh", "-c", "exit 7").returncode == 7


def test_reports_of_run_can_be_read_by_programs():
    with Node() as node:
        path = os.path.join(node.place, "used.json")
        done = node.mete("run", "--name", "it", "--memory", "512M", "--report-json", path, "--", workload("vector-add"))
        assert done.returncode == 0 and done.stderr == "", done
        said = json.load(open(path))
        assert (said["name"], said["status"], said["signal"], said["joined"], said["trouble"]) == ("it", 0, 0, True, ""), said
        [device] = said["devices"]
        assert device["limit_bytes"] == 512 * MIB and 64 * MIB < device["peak_bytes"] <= 512 * MIB and device["refusals"] == 0, device
        assert device["device_uuid"].startswith("GPU-") and device["fields"]["memory"] == "512M", device
        page = re.search(r"^\.SH JSON\n(.*?)^\.SH ", manual("run"), re.M | re.S)[1]
        assert set(entries(page)) == set(said) and "mete\\-ps(1)" in page, page
        node.mete("run", "--report-json", path, "--", "sh", "-c", "kill -TERM $$")
        said = json.load(open(path))
        assert (said["status"], said["signal"], said["joined"]) == (-1, signal.SIGTERM, False), said
        node.mete("run", "-q", "--report-json", path, "--", "sh", "-c", "exit 7")
        assert json.load(open(path))["status"] == 7
        refused(node.mete("run", "--report-json", node.place + "/none/used.json", "--", "true"), "--report-json", "No such file", status=125)


def test_a_number_is_no_name():
    with Node() as node:
        refused(node.mete("run", "--name", "7", "--", "true"), "--name '7'", "a tenant's id", status=2)
        os.symlink("/bin/sh", os.path.join(node.place, "7"))
        running(node, program=(os.path.join(node.place, "7"), *WAITING[1:]))
        [tenant] = node.ps()["tenants"]
        assert not tenant["name"].isdigit() and "7" in tenant["name"], tenant
        refused(node.mete("set", "7", "weight=50"), "there is no tenant 7", status=1)


def test_pick_tells_why_there_is_no_gpu():
    with Node() as node:
        refused(node.mete("pick", "-q", "-x", "0"), "--exclude leaves none of 1 GPU", status=1)
        refused(node.mete("pick", "-q", "--memory-free", "100G"), "the only GPU is not as free as requested; less memory free than --memory-free: 0", status=1)
    with Node(METE_SIM_DEVICES="3xSIM") as node:
        refused(node.mete("pick", "-q", "-x", "0,1,2"), "--exclude leaves none of 3 GPUs", status=1)
        refused(node.mete("pick", "-q", "-x", "0", "--memory-free", "100G"), "none of 2 GPUs that --exclude leaves is as free as requested", status=1)
        refused(node.mete("pick", "-q", "-x", "0,1", "--memory-free", "100G"), "the only GPU that --exclude leaves is not", status=1)
        refused(node.mete("pick", "-q", "--memory-free", "100G"), "none of 3 GPUs is as free as requested", status=1)


def test_a_stopped_meted_is_reported_by_all_and_doctor_does_not_point_to_itself():
    with Node() as node:
        holder = running(node, "--name", "it", program=("sh", "-c", "echo here; read line; exec " + workload("vector-add")))
        pid = node.daemon_pid()
        os.kill(pid, signal.SIGSTOP)
        try:
            refused(node.mete("ps"), f"meted (process {pid}) is stopped", "`mete doctor` says what to do", status=1)
            done = node.mete("doctor")
            [line] = [line for line in done.stdout.splitlines() if " daemon " in line and "stopped" in line]
            assert done.returncode == 1 and "mete doctor" not in done.stdout and f"kill -CONT {pid}" in done.stdout, done
            # A program that joins now, too.
            said = holder.communicate("\n", timeout=240)[1]
            assert "the daemon does not answer: it is stopped, or hangs; `mete doctor` says which" in said, said
        finally:
            os.kill(pid, signal.SIGCONT)


def test_a_pick_that_is_not_reserved_says_so():
    with Node() as node:
        done = node.mete("pick")
        assert done.returncode == 0 and done.stdout.startswith("GPU-") and "nothing is reserved" in done.stderr, done
        assert node.mete("pick", "-q").stderr == ""
        running(node)
        assert "nothing is reserved" not in node.mete("pick").stderr


def test_a_device_is_named_by_the_beginning_of_its_uuid():
    with Node(METE_SIM_DEVICES="2xSIM") as node:
        uuid = [device["uuid"] for device in node.ps()["devices"]]
        for i in (0, 1):
            for name in (uuid[i][:12], uuid[i][4:12], uuid[i][:12].upper()):
                done = node.mete("run", "-q", "--device", name, "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
                assert done.stdout.strip() == uuid[i], (name, done)
        both = node.mete("run", "-q", "--device", f"{uuid[1][:12]},{uuid[0][:12]}", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
        assert both.stdout.strip() == f"{uuid[1]},{uuid[0]}", both
        assert node.mete("pick", "-q", "--exclude", uuid[0][:12]).stdout.strip() == uuid[1]
        refused(node.mete("run", "--device", "GPU-", "--", "true"), "GPU-", status=125)


def test_help_describes_a_verb():
    with Node() as node:
        for verb in VERBS:
            assert node.mete("help", verb).stdout == node.mete(verb, "--help").stdout
            shown = node.mete("help", verb).stdout.split("\nExamples:\n")[1].split("\nExit status:\n")
            assert len(shown) == 2 and "mete " + verb in shown[0] and re.match("  [0N] ", shown[1]), shown
        assert "Verbs:" in node.mete("help").stdout
        assert node.mete("help", "dance").returncode == 2
        for words in (("help", "help"), ("help", "--help"), ("help", "-h"), ("--help",)):
            done = node.mete(*words)
            assert done.returncode == 0 and done.stdout == node.mete("help").stdout and not done.stderr, (words, done)
        # One paragraph for each thing that is replayed.
        shown = node.mete("help", "replay").stdout
        for word in ("--placement: ", "--time: ", "--memory: "):
            assert "\n\n" + word in shown, shown


def test_no_help_is_wider_than_a_terminal():
    with Node() as node:
        meted = subprocess.run([os.path.join(BUILD, "node", "meted"), "--help"], text=True, capture_output=True, check=True).stdout
        for shown in (meted, node.mete("help").stdout, *(node.mete("help", verb).stdout for verb in VERBS)):
            # But for what is to be typed as one line.
            wide = [line for line in shown.splitlines() if len(line) > 79 and not line.startswith("Usage: ")]
            assert not wide, wide
        # An option's meaning is under its name, also if that is a long one.
        assert max(len(line) - len(line.lstrip()) for line in meted.splitlines()) == 25, meted


def test_figures_of_a_refusal_do_not_contradict_it():
    with Node() as node:
        done = node.mete("run", "--memory", "512M", "--", workload("hoarder"), "limit=512M")
        limit, used, asked = map(int, re.search(r"the limit of (\d+)MiB is reached: (\d+)MiB in use.*?, (\d+)MiB of", done.stderr).groups())
        credit = re.search(r"(\d+)MiB granted in advance", done.stderr)
        assert used + asked + int(credit[1] if credit else 0) > limit, done.stderr


def test_two_simulated_nodes_and_one_daemon_are_reported():
    with Node() as node, tempfile.TemporaryDirectory() as other:
        running(node)
        refused(node.mete("run", "--", "true", METE_SIM_DIR=other), "simulated node", other, status=125)
        assert "simulated node" in node.mete("doctor", METE_SIM_DIR=other).stdout
        refused(node.mete("pick", METE_SIM_DIR=other), "simulated node", other, status=1)
        refused(node.mete("pick", "--", "true", METE_SIM_DIR=other), "simulated node", other, status=1)
        for words in (("ps",), ("ps", "--json"), ("set", "sh", "weight=50")):
            done = node.mete(*words, METE_SIM_DIR=other)
            assert done.returncode == 0 and re.fullmatch(r"mete (ps|set): note: meted .*simulated node.*\n", done.stderr) and other in done.stderr, done
            assert node.mete(*words).stderr == "", words
        assert "simulated node" in plain(in_terminal(node, "ps", columns=200, METE_SIM_DIR=other))


def test_sim_lists_a_process_on_the_devices_that_it_uses_and_nowhere_else():
    with Node(METE_SIM_DEVICES="3xSIM") as node:
        At(node, "--device", "1", "--name", "second")
        shown = node.mete("sim").stdout
        devices = re.split(r"^device \d+: ", shown, flags=re.M)[1:]
        assert ["(steady)" in one for one in devices] == [False, True, False], shown
        # meted reads all of them and uses none: it is named once.
        assert shown.count("(meted)") == 1 and re.search(r"^on no device: .*\(meted\)", shown, re.M), shown


def test_sim_settings_are_shown_with_their_values():
    with Node(METE_SIM_MEMORY="2G", METE_SIM_SLICE="3ms") as node:
        shown = node.mete("sim", "--settings").stdout
        assert re.search(r"METE_SIM_MEMORY += 2G +default model's .*\(set\)", shown), shown
        assert re.search(r"METE_SIM_SLICE += 3ms +default 2ms", shown), shown
        assert re.search(r"METE_SIM_DUPLEX += 0.72 +default 0.72", shown), shown
        for line in shown.splitlines():
            row = re.match(r"(METE_SIM_\w+) += (\S+) +default (\S+) ", line)
            assert not row or "(set)" in line or row[2] == row[3] or row[1] in node.environment, line
        # The meaning of 0 is stated.
        assert re.search(r"METE_SIM_SMS += model's +default model's", shown) and re.search(r"METE_SIM_RESERVED += none +default none", shown), shown
        # Everything that docs/simulator.md names, faults too: of the environment, and of the node's file.
        for name in set(re.findall(r"METE_SIM_[A-Z_]+[A-Z]", open(os.path.join(ROOT, "docs/simulator.md")).read())):
            assert re.search(rf"^{name}\w* +=", shown, re.M), name
        assert re.search(r"METE_SIM_FAULTS += none +what fails", shown), shown
        with open(os.path.join(node.environment["METE_SIM_DIR"], "faults"), "w") as file:
            file.write("alloc oom after=3\n")
        shown = node.mete("sim", "--settings", METE_SIM_FAULTS="launch fail").stdout
        assert re.search(r"METE_SIM_FAULTS += launch fail +what fails.*\(set\)\n +alloc oom after=3", shown), shown


def test_exit_statuses_are_as_documented():
    with Node() as node:
        for status, words in ((0, ("ps",)), (2, ("ps", "--colour")), (0, ("doctor",)), (2, ("doctor", "x")), (0, ("sim",)), (2, ("sim", "x")),
                              (1, ("set", "nobody", "memory=1G")), (2, ("set", "nobody", "memory=lots")), (2, ("set", "nobody", "colour=red")), (2, ("set",)), (2, ("suspend",)), (1, ("suspend", "nobody")), (2, ("resume",)), (1, ("resume", "nobody")), (2, ("replay",)), (0, ("pick", "-q")),
                              (1, ("pick", "-q", "--memory-free", "100G")), (2, ("pick", "--limit", "x")),
                              (127, ("pick", "-q", "--", "no-such-program")), (126, ("pick", "-q", "--", "/etc/passwd")),
                              (2, ("run", "--memory", "0", "--", "true")), (125, ("run", "--memory", "5G", "--", "true")), (2, ("run",)), (127, ("run", "--", "no-such-program"))):
            done = node.mete(*words)
            assert done.returncode == status, (words, done)
        for verb in VERBS:
            page = manual(verb)
            for section in ("EXIT STATUS", "ENVIRONMENT", "FILES", "EXAMPLES", "OPTIONS"):
                assert re.search(rf"^\.SH {section}\n\.TP\n", page, re.M), (verb, section)  # and it is not empty


# Whose options have values that name what a machine or a person has; of all others some values are valid nowhere.
OPEN = ("DEVICE", "NAME", "FILE", "FOLDER", "NODE", "GPU,...", "NAME,...|all", "TENANT", "WORDS")
# What makes a line of the verb whole; `replay` has three kinds.
REST = {"run": ("--", "true"), "suspend": ("it",), "resume": ("it",), "set": ("it", "weight=1"), "cordon": ("0",), "uncordon": ("0",), "drain": ("0",), "mig": ("export",),
        "migrate": ("/none",)}
MANY = ("run", "pick", "set", "replay", "migrate")  # that take any number of words


def rest(verb, name, description):
    if verb == "replay":
        kind = next((kind for kind in ("memory", "time") if f"with --{kind}" in description), "time" if "with --pods" in description else "placement")
        return {"placement": ("--placement", *(["--departures"] if "with --departures" in description else []), "/none"),
                "time": ("--time", *(["--pods", "/none"] if "with --pods" in description else ["weight=1"])), "memory": ("--memory", "set=1G")}[kind]
    if verb == "drain" and name == "grace":
        return ("--end", "batch", "0")
    return REST.get(verb, ())


def usage_mistakes():
    """(command line) of each verb: options that are not there, lack their value, have one too many, or one that is valid nowhere; words too many or too few."""
    table = open(os.path.join(ROOT, "cli/commands.def")).read()
    for verb in VERBS:
        yield verb, "--no-such-option", *REST.get(verb, ())
        if verb not in MANY:
            yield verb, *REST.get(verb, ()), "a", "b", "c"
    for verb, name, argument, description in re.findall(r"^OPTION\((\w+), (\w+), [^,]+,\s*\"(.*?)\",\s*\"(.*)\"\)$", table, re.M):
        option = "--" + name.replace("_", "-")
        if not argument:
            yield verb, option + "=x", *rest(verb, name, description)
            continue
        yield verb, option
        if argument not in OPEN:
            yield verb, option, "no such value", *rest(verb, name, description)
    for line in (["run"], ["set"], ["set", "it"], ["set", "", "weight=1"], ["set", "it", "weight"], ["set", "it", "wieght=1"], ["set", "it", "weight=x"], ["suspend"], ["suspend", ""],
                 ["resume"], ["resume", ""], ["why", ""], ["cordon"], ["cordon", ""], ["uncordon"], ["uncordon", ""], ["drain"], ["drain", ""], ["drain", "--dry-run", ""],
                 ["drain", "--grace", "1s", "0"], ["replay"], ["replay", "--placement"], ["replay", "--time"], ["replay", "--time", "weight=x"], ["replay", "--memory", "set=x"],
                 ["migrate"], ["migrate", "--from", "elsewhere"], ["mig"], ["mig", "divide"], ["mig", "apply"], ["mig", "export", "-f", "x"], ["ps", "--filter", "colour=red"], ["top", "--filter", "gpu="], ["run", "--name", "7", "--", "true"], ["run", "--cdi", "--", "true"], ["dance"], [], ["help", "dance"],
                 *([verb, "--context", "c", *REST.get(verb, ())] for verb in ("ps", "top", "why", "events", "set", "suspend", "resume"))):
        yield line


def test_a_mistake_of_usage_exits_with_2_in_every_verb_and_nobody_is_asked():
    """Without a driver, a meted or a kubectl: whoever asks one of them first exits with another status."""
    with Node() as node:
        node.environment.pop("LD_LIBRARY_PATH")
        environment = dict(METE_DRIVER="/nowhere", PATH="/nowhere", KUBECONFIG="/nowhere", CUDA_VISIBLE_DEVICES="")
        wrong, lines = [], list(usage_mistakes())
        for line in lines:
            done = node.mete(*line, **environment)
            if done.returncode != 2 or done.stdout or not done.stderr.strip().splitlines()[-1].startswith("mete" if line else "`mete help"):
                wrong.append((line, done.returncode, done.stderr or done.stdout))
        assert not wrong and len(lines) > 200 and not node.daemon_log(), "\n".join(map(str, wrong))
        # What is wrong only here is not.
        for status, line in ((1, ["pick", "-q", "-x", "7"]), (1, ["replay", "--time", "--tenants", "/none"]), (1, ["replay", "--placement", "/none"]), (1, ["migrate", "--from", "nvidia", "/none"]),
                             (1, ["mig", "apply", "-f", "/none"]), (1, ["cordon", "7"]), (1, ["set", "nobody", "weight=1"]), (125, ["run", "--device", "7", "--", "true"])):
            assert node.mete(*line, LD_LIBRARY_PATH=BUILD + "/sim/lib").returncode == status, line


def complete(node, *words):
    """The words that bash offers for the last word."""
    script = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _mete 2>/dev/null; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", script, "bash", os.path.join(BUILD, "cli", "mete.bash"), METE, *words], env=node.environment, text=True,
                          capture_output=True)
    return done.stdout.split()


def test_a_mistyped_word_is_recognised_in_the_last_text_line():
    with Node() as node:
        for words, said in ((["rnu"], "mete: unknown verb 'rnu'; did you mean 'run'?"), (["suspnd", "x"], "mete: unknown verb 'suspnd'; did you mean 'suspend'?"),
                            (["zzz"], "mete: unknown verb 'zzz'"), (["version"], "mete: unknown verb 'version'; did you mean '--version'?"), (["status"], "mete: unknown verb 'status'; did you mean 'ps'?"), (["help", "pss"], "mete: unknown verb 'pss'; did you mean 'ps'?"),
                            (["run", "--memroy", "4G", "--", "true"], "mete run: unknown option '--memroy'; did you mean '--memory'? `mete run --help` lists them"),
                            (["run", "--wieght=4", "--", "true"], "mete run: unknown option '--wieght=4'; did you mean '--weight'? `mete run --help` lists them"),
                            (["ps", "--nothing-like-it"], "mete ps: unknown option '--nothing-like-it'; `mete ps --help` lists them"),
                            (["set", "a", "wight=1"], "mete set: 'wight' is not a field of a share; did you mean 'weight'?")):
            done = node.mete(*words)
            assert done.returncode == 2 and not done.stdout and done.stderr.splitlines()[-1] == said, (words, done)


def test_without_a_driver_the_simulated_one_is_named():
    with Node() as node:
        node.environment.pop("LD_LIBRARY_PATH")
        done = node.mete("run", "--", "true", METE_DRIVER="/nowhere")
        assert done.returncode == 125 and f"or try the simulated one: LD_LIBRARY_PATH={BUILD}/sim/lib" in done.stderr, done


def test_completion_offers_files_only_where_one_is_wanted():
    script = os.path.join(BUILD, "cli", "mete.bash")
    told = subprocess.run(["bash", "-c", 'source "$1"; complete -p mete', "-", script], text=True, capture_output=True, check=True).stdout
    assert told == "complete -F _mete mete\n", told


def test_completion_knows_values_tenants_and_keys_and_nothing_behind_the_dashes():
    with Node() as node:
        running(node, "--name", "trainer")
        assert complete(node, "he") == ["help"] and "pick" in complete(node, "")
        assert complete(node, "run", "--cl") == ["--class"]
        assert complete(node, "run", "--class", "") == ["interactive", "standard", "batch"]
        assert complete(node, "run", "--class", "=", "b") == ["batch"]
        assert complete(node, "run", "--memory", "") == []
        assert complete(node, "run", "--device", "") == ["0", node.ps()["devices"][0]["uuid"]]
        assert complete(node, "pick", "-o", "memory") == ["memory", "memory-free"]
        assert complete(node, "set", "") == ["trainer"]
        for verb in ("suspend", "resume", "why"):
            assert complete(node, verb, "") == ["trainer"] and complete(node, verb, "trainer", "") == [] and complete(node, verb, "--h") == ["--help"], verb
        assert complete(node, "set", "trainer", "we") == ["weight="]
        assert complete(node, "run", "--idle", "p") == complete(node, "set", "trainer", "idle", "=", "p") == ["park", "park:"]
        assert complete(node, "run", "--mode", "") == ["best-effort", "equal", "fixed:"]
        assert complete(node, "set", "trainer", "class", "=", "i") == ["interactive"]
        assert complete(node, "help", "ru") == ["run"]
        assert complete(node, "run", "--", "--cl") == [] and complete(node, "run", "sh", "--cl") == []


def test_success_of_suspend_and_resume_tells_how_much_memory_moved():
    with Node() as node:
        program = node.start("run", "--name", "it", "--swap", "auto", "--", workload("steady"), "memory=300M", "stdin=1", "seconds=3600", "report_ms=50")
        assert program.stdout.readline(), program.stderr.read()
        assert node.mete("suspend", "--wait", "1h", "it").stdout == "it stands still until `mete resume`: 300MiB of it are in the host's memory\n"
        assert node.ps()["tenants"][0]["out_bytes"] == 300 * MIB, "it was said when it was so"
        assert node.mete("resume", "it").stdout == "it goes on; 300MiB of it come back to the device when its programs use it\n"
        assert node.mete("resume", "it").stdout == "it was not suspended\n"


def test_suspend_of_a_tenant_that_does_not_drain_says_that_its_memory_is_still_moving_out():
    with Node() as node:
        program = node.start("run", "--name", "it", "--swap", "auto", "--", workload("steady"), "memory=300M", "stdin=1", "seconds=3600", "report_ms=50")
        assert program.stdout.readline(), program.stderr.read()
        [pid] = {row["pid"] for row in node.ps()["tenants"][0]["processes"]}
        os.kill(pid, signal.SIGSTOP)
        still = "it stands still until `mete resume`: 300MiB of it are still moving out (mete ps says how far it is)\n"
        said = node.mete("suspend", "--wait", "100ms", "it")
        assert said.stdout == still, said
        assert node.mete("suspend", "--wait", "0s", "it").stdout == still, "again, and not waited for"
        os.kill(pid, signal.SIGCONT)
        assert node.mete("suspend", "--wait", "1h", "it").stdout == "it stands still until `mete resume`: 300MiB of it are in the host's memory\n"


def test_a_name_that_is_taken_is_told_to_whoever_chose_it():
    with Node() as node:
        running(node, "--name", "job")
        said = node.mete("run", "--name", "job", "--", workload("vector-add"))
        assert said.returncode == 0 and said.stderr == "mete run: note: there is a tenant called 'job' already: this one is 'job-2'\n", said
        # Nobody chose the name of a program.
        running(node)
        assert node.mete("run", "--", workload("steady"), "seconds=0").stderr == ""


def test_a_setting_that_changes_nothing_is_told():
    with Node() as node:
        said = node.mete("run", "--memory", "1G", "--idle", "park:1m", "--", workload("vector-add"))
        assert said.returncode == 0 and said.stderr.startswith("mete run: note: idle=park has no effect, as its memory does not move: --swap auto lets it"), said
        for options in (["--memory", "1G", "--swap", "auto", "--idle", "park:1m"], ["--idle", "park"], ["--memory", "1G", "--idle", "keep"]):
            assert node.mete("run", *options, "--", workload("vector-add")).stderr == "", options


def test_a_folder_is_no_program_and_no_list_of_tenants():
    with Node() as node:
        refused(node.mete("run", "--", node.place), node.place + ": is a folder, not a program", status=126)
        refused(node.mete("replay", "--time", "--tenants", node.place), node.place + ": Is a directory", status=1)


def test_a_replay_names_the_field_that_was_meant():
    with Node() as node:
        refused(node.mete("replay", "--time", "wieght=100"), "'wieght=100' is not a field of a share; did you mean 'weight'?", status=2)
        refused(node.mete("replay", "--time", "colour=red"), "'colour=red' is not a field of a share; accepted besides are ", "kernel=", status=2)
        # Sizes are in the unit in which they are typed.
        said = node.mete("replay", "--memory", "set=15G load=job:1s:1s:1s")
        assert "set GiB" in said.stdout and re.search(r"^t1 +15\.0 ", said.stdout, re.M), said


def test_a_mistyped_setting_of_the_simulated_driver_is_what_run_complains_of():
    with Node(METE_SIM_DEVICES="3xNONE") as node:
        refused(node.mete("run", "--", "true"), "meted does not start", "mete-sim: METE_SIM_DEVICES=3xNONE: wants COUNTxMODEL", status=125)


def suspended_line(memory):
    """What a program says that is suspended and then stands still."""
    with Node() as node:
        program = node.start("run", "--name", "it", "--swap", "auto", "--", workload("steady"), *memory, "stdin=1", "seconds=3600", "report_ms=50")
        assert program.stdout.readline(), program.stderr.read()
        assert node.mete("suspend", "--wait", "1h", "it").returncode == 0
        said = program.stderr.readline()
        assert "suspended by `mete suspend`" in node.mete("why").stdout and "`mete resume it` lets it go on" in node.mete("why").stdout, node.mete("why")
        return said


def test_a_program_that_is_suspended_says_so_whether_its_memory_has_left_or_none_could():
    words = "mete: this program is suspended, until somebody resumes it; `mete why` says why, and what helps (notices=off in its share silences this)\n"
    for memory in (["memory=100M"], []):
        said = suspended_line(memory)
        assert said == words, (memory, said)


def test_output_that_cannot_be_written_is_reported_once():
    with Node() as node, open("/dev/full", "w") as full:
        for words in (["ps"], ["why"], ["ps", "--json"], ["doctor"], ["pick", "--quiet"], ["sim"], ["sim", "--settings"], ["--version"], ["help"], ["help", "ps"], ["ps", "--help"]):
            done = subprocess.run([METE, *words], env=node.environment, stdout=full, stderr=subprocess.PIPE, text=True)
            assert done.returncode == 1 and done.stderr.count("\n") == 1 and "No space left on device" in done.stderr, (words, done)
        meted = subprocess.run([os.path.join(BUILD, "node", "meted"), "--help"], stdout=full, stderr=subprocess.PIPE, text=True)
        assert meted.returncode == 1 and "No space left on device" in meted.stderr, meted


def test_a_sentence_about_a_bad_value_is_of_that_value_and_whole():
    with Node() as node:
        refused(node.mete("run", "--memory", "0.25", "--", "true"), "'0.25' has no unit", "at most all of it", status=2)
        for value in "1", "4.5":  # bare bytes are accepted where they can be meant
            refused(node.mete("run", "--memory", value, "--", "true"), f"'{value}' has no unit (a number alone is bytes, 1048576 or more)", status=2)
        part = node.mete("run", "--cap", "500m", "--", "true")
        refused(part, "'500m' is not how a part is written: write 50% or 500/1000", status=2)
        assert "mebibytes" not in part.stderr, part
        running(node, "--name", "big")
        refused(node.mete("set", "big", "memory=256m"), "write M for mebibytes", "at most all of it")


if __name__ == "__main__":
    run(globals(), at_once=4)
