#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Completion after `mete`, in the shells themselves. (More of bash: test_first_hour.py.)"""
from person import *
from test_remote import cluster

OPTIONS = re.findall(r"^OPTION\((\w+), (\w+),", open(os.path.join(ROOT, "cli/commands.def")).read(), re.M)
VERBS = re.findall(r"^COMMAND\((\w+),", open(os.path.join(ROOT, "cli/commands.def")).read(), re.M)
FIELDS = re.findall(r"^SHARE\((\w+),", open(os.path.join(ROOT, "core/share/share.def")).read(), re.M)


# A kubectl of two clusters: in one a node's pod of mete is being replaced, and another's is about to go.
KUBECTL = r"""#!/bin/sh
case "$*" in
"config get-contexts -o name") printf 'usual\nspare\n'; [ -z "$MORE_CONTEXTS" ] || printf "$MORE_CONTEXTS" ;;
"get --request-timeout=${WITHIN:-3}s pods -n mete-system -l app.kubernetes.io/name=mete --field-selector status.phase=Running -o "*)
	printf 'gpu-1 \ngpu-2 2026-11-26T00:00:00Z\ngpu-2 \nleaving 2026-11-26T00:00:00Z\ncut-o' ;;
"get --context=spare --request-timeout=${WITHIN:-3}s pods -n elsewhere "*) printf 'far-1 \n' ;;
*) echo "Unable to connect to the server" >&2; exit 1 ;;
esac
"""


def with_kubectl(node):
    """A PATH with that one."""
    folder = os.path.join(node.place, "bin")
    os.mkdir(folder)
    with open(folder + "/kubectl", "w") as file:
        file.write(KUBECTL)
    os.chmod(folder + "/kubectl", 0o755)
    return folder + ":" + os.path.dirname(METE) + ":" + os.environ["PATH"]


def bash(environment, line):
    """The words that it offers at the end of a command line without quotes."""
    script = ('source "$1"; COMP_LINE=$2 COMP_POINT=${#2}; line=${2//=/ = }; line=${line//:/ : }; read -ra COMP_WORDS <<<"${line//@/ @ }"; [[ $2 != *" " && $2 != *= ]] || COMP_WORDS+=(""); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); '
              '_mete 2>/dev/null; printf "%s\\n" "${COMPREPLY[@]}"')
    return subprocess.run(["bash", "-c", script, "bash", os.path.join(BUILD, "cli", "mete.bash"), line], env=environment, text=True, capture_output=True).stdout.split()


NODES = ["gpu-1", "gpu-2"]
WITH_NODE = sorted(of for of, name in OPTIONS if name == "node")


class Fish:
    """The words to which it completes a command line, without their descriptions."""

    def __init__(self, node, **environment):
        self.environment = dict(dict(node.environment, HOME=node.place, XDG_CONFIG_HOME=node.place), **(environment or {"PATH": with_kubectl(node)}))

    def complete(self, line):
        script = f"source {os.path.join(BUILD, 'cli', 'mete.fish')}; complete -C $argv[1]"
        done = subprocess.run(["fish", "--no-config", "-c", script, line], env=self.environment, text=True, capture_output=True, check=True)
        assert not done.stderr, done
        return [found.split("\t")[0] for found in done.stdout.splitlines()]


def test_fish_completes_verbs_options_and_their_values():
    with Node() as node:
        fish = Fish(node)
        assert sorted(fish.complete("mete ")) == sorted(VERBS + ["help"])
        for verb in VERBS:
            wanted = {"--" + name.replace("_", "-") for of, name in OPTIONS if of == verb} | {"--help"}
            assert wanted == {word.rstrip("=") for word in fish.complete(f"mete {verb} --")}, verb
        assert fish.complete("mete run --class ") == ["batch", "interactive", "standard"]
        assert fish.complete("mete run --swap=") == ["--swap=auto", "--swap=off"]
        columns = re.findall(r"^SORT\(\w+, +(\w+),", open(os.path.join(ROOT, "cli/top/sorts.def")).read(), re.M)
        assert len(columns) > 5 and fish.complete("mete top --sort ") == sorted(columns)
        assert set(fish.complete("mete set a class=")) - {"class="} == {"class=batch", "class=interactive", "class=standard"}
        assert "true" in fish.complete("mete run --memory=4G -- tru")


def test_each_shell_completes_a_verbs_own_words_and_the_tenant_of_events():
    with Node() as node:
        fish = Fish(node)
        environment = fish.environment
        running(node, "--name", "train")
        for line, words in (("mete mig ", ["apply", "assert", "export"]), ("mete mig as", ["assert"]), ("mete migrate --from ", ["nvidia"]), ("mete events --tenant ", ["train"]), ("mete events -t ", ["train"])):
            assert fish.complete(line) == words and bash(environment, line) == words, (line, fish.complete(line), bash(environment, line))
        with Zsh(node, PATH=fish.environment["PATH"]) as zsh:
            zsh.complete("mete mig ", r"apply +assert +export")
            for line, whole in (("mete migrate --from nv", "mete migrate --from nvidia"), ("mete events --tenant tr", "mete events --tenant train")):
                found = zsh.completed(line)
                assert found == whole, found


def test_each_shell_completes_the_words_of_filters_and_the_keys_of_queries():
    with Node(METE_SIM_DEVICES="2xSIM") as node:
        fish = Fish(node)
        running(node, "--name", "train")
        running(node, "--name", "my train")  # a filter has no place for a blank
        user = __import__("pwd").getpwuid(os.getuid()).pw_name
        keys = [key for of, key in re.findall(r"^KEY\((\w+), +(\w+),", open(os.path.join(ROOT, "view/ps_keys.def")).read(), re.M) if of == "tenant"]
        assert len(keys) > 30 and sorted(fish.complete("mete ps --query ")) == sorted(keys + ["time.", "fields.", "device."])
        assert sorted(bash(fish.environment, "mete ps -q ")) == sorted(keys + ["time.", "fields.", "device."])
        for line, value, words in (("mete ps --query ", "nam", ["name"]), ("mete ps --query=", "name,device.fr", ["name,device.free_bytes"]), ("mete ps -q ", "name,us", ["name,used_bytes", "name,user"]),
                                   ("mete ps --query ", "fields.we", ["fields.weight"]), ("mete ps --filter ", "", ["device=", "gpu=", "tenant=", "user="]), ("mete ps -f ", "user=", [f"user={user}"]),
                                   ("mete top --filter=", "tenant=t", ["tenant=train"]), ("mete top --filter ", f"user={user},g", [f"user={user},gpu="]), ("mete ps --filter ", "tenant=train,gpu=", ["tenant=train,gpu=0", "tenant=train,gpu=1"])):
            given = line.split()[-1] if line.endswith("=") else ""
            assert sorted(fish.complete(line + value)) == [given + word for word in words], (line + value, fish.complete(line + value))
            # readline has the word behind the last "=" in its hands, and replaces only that.
            before = value[:value.rfind("=") + 1]
            assert sorted(bash(fish.environment, line + value)) == [word[len(before):] for word in words], (line + value, bash(fish.environment, line + value))
        with Zsh(node, PATH=fish.environment["PATH"]) as zsh:
            for line, whole in (("mete ps --query name,device.fr", "mete ps --query name,device.free_bytes"), ("mete ps --query=tim", "mete ps --query=time."), ("mete top --filter ten", "mete top --filter tenant="),
                                ("mete ps -f tenant=t", "mete ps -f tenant=train"), ("mete ps --filter=tenant=train,us", "mete ps --filter=tenant=train,user=")):
                found = zsh.completed(line)
                assert found == whole, found


def test_fish_completes_tenants_devices_and_fields_and_no_files():
    with Node() as node:
        fish = Fish(node)
        running(node, "--name", "train")
        assert fish.complete("mete suspend ") == ["train"] and fish.complete("mete resume tr") == fish.complete("mete why ") == ["train"]
        assert {"train"} | {field + "=" for field in FIELDS} <= set(fish.complete("mete set "))
        uuid = node.ps()["devices"][0]["uuid"]
        assert fish.complete("mete run --device ") == fish.complete("mete drain ") == ["0", uuid]
        assert fish.complete(f"mete run --report-json {ROOT}/READ") == [f"{ROOT}/README.md"]
        assert fish.complete(f"mete suspend {ROOT}/READ") == []


def test_fish_completes_nodes_and_contexts():
    with Node() as node:
        fish = Fish(node)
        for verb in WITH_NODE:
            assert fish.complete(f"mete {verb} --node ") == NODES, verb
        assert fish.complete("mete top --context=spare --mete-namespace elsewhere --node f") == ["far-1"]
        assert fish.complete("mete top --context ") == ["spare", "usual"]
        assert fish.complete("mete ps --context broken --node ") == []


def test_bash_completes_nodes_and_contexts():
    with Node() as node:
        environment = dict(node.environment, PATH=with_kubectl(node))
        assert len(WITH_NODE) > 5
        for verb in WITH_NODE:
            assert bash(environment, f"mete {verb} --node ") == bash(environment, f"mete {verb} --node=") == NODES, verb
        assert bash(environment, "mete ps --node gpu-2") == ["gpu-2"]
        assert bash(environment, "mete top --context spare --mete-namespace=elsewhere --node ") == ["far-1"]
        assert bash(environment, "mete top --context=spare --mete-namespace elsewhere --node=f") == ["far-1"]
        assert bash(environment, "mete top --context ") == ["usual", "spare"]
        # Nothing is said in the middle of somebody's typing, and no file is offered.
        for line in ("mete ps --context broken --node ", "mete ps --context= --node none", "mete ps --mete-namespace -A --node ", "mete ps --mete-namespace "):
            assert bash(environment, line) == [], line
        assert bash(dict(environment, PATH=os.path.dirname(METE) + ":/usr/bin:/bin"), "mete ps --node ") == []


def test_how_long_a_cluster_is_waited_for_can_be_set():
    with Node() as node:
        environment = dict(node.environment, PATH=with_kubectl(node))
        for set_to, within in {"": 3, "0": 3, "601": 3, "5x": 3, "-5": 3, " 5": 3, "1e2": 3, "99999999999999999999": 3, "1": 1, "60": 60, "600": 600}.items():
            done = subprocess.run([METE, "--complete", "nodes"], env=dict(environment, METE_COMPLETE_SECONDS=set_to, WITHIN=str(within)), text=True, capture_output=True)
            assert done.stdout.split() == NODES and not done.stderr, (set_to, done)


def test_bash_runs_nothing_of_a_name_and_offers_it_as_it_is_to_be_typed():
    with Node() as node:
        mark = node.place + "/ran"
        for name in (f"$(touch {mark})", f"`touch {mark}`", "my train", "it's"):
            running(node, "--name", name)
        environment = dict(node.environment, PATH=with_kubectl(node), MORE_CONTEXTS=f"$(touch${{IFS}}{mark})\nadmin@one\nadmin@two\narn:r:1:cluster/x\n")
        assert bash(environment, "mete why my") == ["my\\", "train"] and bash(environment, "mete why it") == ["it\\'s"]
        assert len(bash(environment, "mete suspend ")) > 4 and len(bash(environment, "mete ps --context ")) == 6
        assert bash(environment, "mete why \"m") == []  # it would be other words there
        assert not os.path.exists(mark), "what is in a name was run"
        # Contexts of kubeadm and of EKS: what is to be added behind the last : or @.
        assert bash(environment, "mete ps --context admin@") == bash(environment, "mete ps --context=admin@") == ["one", "two"]
        assert bash(environment, "mete ps --context arn:r:") == ["1:cluster/x"] and bash(environment, "mete ps --context=arn:r:1:cl") == ["cluster/x"]
        assert bash(environment, "mete ps --context admin@one --node ") == []


class Zsh(Terminal):
    """As it is where nobody has configured anything: its own functions, and ours."""

    def __init__(self, node, **environment):
        with open(os.path.join(node.place, ".zshrc"), "w") as file:
            file.write(f"PROMPT='%# '; fpath=({os.path.join(BUILD, 'cli')} $fpath)\nautoload -Uz compinit && compinit -u -d {node.place}/dump\n"
                       "zstyle ':completion:*' list-prompt ''\n")
        super().__init__(node, "exec zsh -i", columns=160, lines=60, ZDOTDIR=node.place, **environment)
        self.wait("^# $|^# *$")

    def begin(self, line):
        self.press("C-u", "C-l")
        self.wait("^# *$", without="^# *mete")  # otherwise the line before may be taken for this one
        self.type(line)

    def complete(self, line, *shown, without=None, keys=("Tab",)):
        self.begin(line)
        self.press(*keys)
        self.wait(*shown, without=without)

    def completed(self, line):
        """The command line that it makes of one; "x" is typed behind it, so that it is known to be done."""
        self.begin(line)
        self.press("Tab", "x")
        return re.search("^# (.*?) ?x$", self.wait("^# mete .*x$"), re.M)[1]


def strange_names(node):
    """Tenants whose names a shell would take for something else; a file that one of them would make."""
    mark = node.place + "/ran"
    for name in (f"$(touch {mark})", f"`touch {mark}`", "my train", "it's", 'a"quote', "c:\\d", "~root", "*"):
        running(node, "--name", name)
    return mark


def test_fish_runs_nothing_of_a_name_and_offers_it_as_it_is_to_be_typed():
    with Node() as node:
        mark = strange_names(node)
        fish = Fish(node)
        for verb in ("why", "set", "suspend", "resume"):
            assert {f"$(touch {mark})", f"`touch {mark}`", "my train", "it's", 'a"quote', "c:\\d", "~root", "*"} <= set(fish.complete(f"mete {verb} ")), verb
        assert fish.complete("mete why my") == ["my train"] and fish.complete("mete why c:") == ["c:\\d"] and fish.complete("mete why \\$") == [f"$(touch {mark})"]
        assert not os.path.exists(mark), "what is in a name was run"


def test_zsh_runs_nothing_of_a_name_and_types_it_as_it_is_to_be_typed():
    with Node() as node:
        mark = strange_names(node)
        with Zsh(node, PATH=with_kubectl(node)) as zsh:
            for line, typed in (("my", r"my\ train"), ("it", r"it\'s"), ("a", r'a\"quote'), ("c", r"c:\\d"), (r"\$", r"\$\(touch\ "), (r"\`", r"\`touch\ "), (r"\~", r"\~root"), (r"\*", r"\*")):
                zsh.complete("mete why " + line, "^# mete why " + re.escape(typed))
            # All of them, in a list.
            zsh.complete("mete suspend ", r"my\\ train", r"it\\'s", r"\\\$\\\(touch", r"\\`touch", keys=("Tab", "Tab"))
            assert not os.path.exists(mark), "what is in a name was run"


def test_with_a_node_its_tenants_are_offered_and_never_those_of_this_machine():
    with cluster() as (node, api, far):
        running(node, "--name", "default/train/c")
        # This machine has tenants, too: those of the node, as it happens.
        here = dict(node.environment, PATH=os.path.dirname(METE) + ":" + far.environment["PATH"], METE_COMPLETE_SECONDS="240", **{name: far.environment[name] for name in ("KUBECONFIG", "NO_PROXY", "HOME")})
        fish = Fish(node, **here)
        for verb in ("why", "set", "suspend", "resume"):
            for options in ("--node n1", "--node=n1", "--context usual --node n1"):
                assert bash(here, f"mete {verb} {options} de") == ["default/train/c"], (verb, options)
                assert [name for name in fish.complete(f"mete {verb} {options} ") if "=" not in name] == ["default/train/c"], (verb, options)
                assert len(api.commands) >= 2, "the node was not asked"
                api.commands.clear()
            for options in ("--node n2", "--node -x", "--node n1 --context elsewhere", "--context usual", "--node n1 default/train/c", "default/train/c"):
                assert "default/train/c" not in bash(here, f"mete {verb} {options} "), (verb, options)
                assert "default/train/c" not in fish.complete(f"mete {verb} {options} "), (verb, options)
                assert not api.commands, (verb, options)
        assert bash(here, "mete set --node n1 default/train/c we") == ["weight="]
        with Zsh(node, **here) as zsh:
            assert zsh.completed("mete why --node n2 d") == "mete why --node n2 d" and not api.commands
            for line in ("mete why --context usual --node n1 ", "mete set --node=n1 "):
                assert zsh.completed(line + "d") == line + "default/train/c", line
            assert zsh.completed("mete why --node n1 default/train/c d") == "mete why --node n1 default/train/c d"


def test_a_verb_stands_first():
    """Not words of a program, or of what help describes."""
    with Node() as node:
        running(node, "--name", "train")
        fish = Fish(node)
        assert "train" not in fish.complete("mete run -- why ") and sorted(fish.complete("mete help ")) == sorted(VERBS)
        with Zsh(node, PATH=fish.environment["PATH"]) as zsh:
            zsh.complete("mete help susp", "^# mete help suspend *$")


def test_zsh_completes_verbs_options_values_and_tenants():
    with Node() as node:
        running(node, "--name", "train")
        uuid = node.ps()["devices"][0]["uuid"]
        with Zsh(node, PATH=with_kubectl(node)) as zsh:
            complete = zsh.complete
            complete("mete su", r"^# mete suspend$")
            complete("mete ", *(rf"^{verb} +-- " for verb in VERBS))
            complete("mete run --wei", r"^# mete run --weight=$")
            complete("mete run -", *(rf"^--{name.replace('_', '-')} .*-- |^--{name.replace('_', '-')} +-[a-z] +-- |^-[a-z] +--{name.replace('_', '-')} +-- |--{name.replace('_', '-')}" for of, name in OPTIONS if of == "run"))
            complete("mete run --class=", "batch +interactive +standard")
            complete("mete run --device=G", rf"^# mete run --device={uuid}$")
            complete("mete suspend ", r"^# mete suspend train$")
            complete("mete why ", r"^# mete why train$")
            complete("mete top --node gp", r"^# mete top --node gpu-$")
            complete("mete why --node=gpu-", "^gpu-1 +gpu-2", without="leaving|cut-o")
            complete("mete top --context=spare --mete-namespace elsewhere --node=f", "^# mete top --context=spare --mete-namespace elsewhere --node=far-1 *$")
            complete("mete ps --context=sp", "^# mete ps --context=spare *$")
            complete("mete set tr", r"^# mete set train$")
            complete("mete set train wei", r"^# mete set train weight=$")
            complete("mete set train class=b", r"^# mete set train class=batch$")
            complete(f"mete replay --time --output={ROOT}/docs/decis", rf"^# mete replay --time --output={ROOT}/docs/decisions/$")
            complete("mete run --memory 4G -- uname --vers", r"^# mete run --memory 4G -- uname --version$|uname --vers")


if __name__ == "__main__":
    run(globals())
