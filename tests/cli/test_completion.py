#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What shells complete after `mete`: in the shells themselves. (More of bash: test_first_hour.py.)"""
from person import *

OPTIONS = re.findall(r"^OPTION\((\w+), (\w+),", open(os.path.join(ROOT, "cli/commands.def")).read(), re.M)
VERBS = re.findall(r"^COMMAND\((\w+),", open(os.path.join(ROOT, "cli/commands.def")).read(), re.M)
FIELDS = re.findall(r"^SHARE\((\w+),", open(os.path.join(ROOT, "core/share/share.def")).read(), re.M)


# A kubectl of two clusters: in one a node's pod of mete is being replaced, and another's is about to go.
KUBECTL = r"""#!/bin/sh
case "$*" in
"config get-contexts -o name") printf 'usual\nspare\n'; [ -z "$MORE_CONTEXTS" ] || printf "$MORE_CONTEXTS" ;;
"get pods --request-timeout=3s -n mete-system -l app.kubernetes.io/name=mete --field-selector status.phase=Running -o "*)
	printf 'gpu-1 \ngpu-2 2026-11-26T00:00:00Z\ngpu-2 \nleaving 2026-11-26T00:00:00Z\ncut-o' ;;
"get --context=spare pods --request-timeout=3s -n elsewhere "*) printf 'far-1 \n' ;;
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
    """What it offers at the end of a line without quotes."""
    script = ('source "$1"; COMP_LINE=$2 COMP_POINT=${#2}; line=${2//=/ = }; line=${line//:/ : }; read -ra COMP_WORDS <<<"${line//@/ @ }"; [[ $2 != *" " && $2 != *= ]] || COMP_WORDS+=(""); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); '
              '_mete 2>/dev/null; printf "%s\\n" "${COMPREPLY[@]}"')
    return subprocess.run(["bash", "-c", script, "bash", os.path.join(BUILD, "cli", "mete.bash"), line], env=environment, text=True, capture_output=True).stdout.split()


NODES = ["gpu-1", "gpu-2"]
WITH_NODE = sorted(of for of, name in OPTIONS if name == "node")


class Fish:
    """What it completes a line to: the words, without what it says of them."""

    def __init__(self, node):
        self.environment = dict(node.environment, HOME=node.place, XDG_CONFIG_HOME=node.place, PATH=with_kubectl(node))

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


def test_zsh_completes_verbs_options_values_and_tenants():
    with Node() as node:
        running(node, "--name", "train")
        uuid = node.ps()["devices"][0]["uuid"]
        # As it is where nobody has configured anything: its own functions, and ours.
        open(os.path.join(node.place, ".zshrc"), "w").write(f"PROMPT='%# '; fpath=({os.path.join(BUILD, 'cli')} $fpath)\nautoload -Uz compinit && compinit -u -d {node.place}/dump\n"
                                                            "zstyle ':completion:*' list-prompt ''\n")
        path = with_kubectl(node)
        with Terminal(node, "exec zsh -i", columns=160, lines=60, ZDOTDIR=node.place, PATH=path) as zsh:
            zsh.wait("^# $|^# *$")

            def complete(line, *shown, without=None):
                zsh.press("C-u", "C-l")
                zsh.type(line)
                zsh.press("Tab")
                zsh.wait(*shown, without=without)
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
