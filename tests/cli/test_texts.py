#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every command line of the README and the docs, word for word; the man pages against the tables."""
from person import *


PAGES = ["README.md"] + sorted("docs/" + name for name in os.listdir(os.path.join(ROOT, "docs")) if name.endswith(".md"))
# Run elsewhere: by tests/kubernetes/test_walkthrough.py, in a cluster.
ELSEWHERE = ("docs/kubernetes.md", "docs/claims.md")
# Targets of make that the texts name and that take long are run by other tests: `demo`, `demo_time`, `demo_memory`, the suite itself.
MAKE = '''#!/bin/sh
for target; do
	case $target in
	*=*) export "$target" ;;
	-*) ;;
	install) exec tools/install --built build/plain ;;
	uninstall) exec tools/uninstall ;;
	*) /usr/bin/make -n "$target" >/dev/null || exit 1 ;;
	esac
done
[ $# != 0 ] || exec /usr/bin/make -n >/dev/null
'''
KUBECTL = '''#!/bin/sh
# `kubectl apply -k FOLDER`: the folder is there
[ "$1 $2" = "apply -k" ] && [ -f "$3/kustomization.yaml" ]
'''
HELM = '''#!/bin/sh
# `helm install NAME CHART -n NAMESPACE --create-namespace`: the chart is there
[ "$1 $2 $4 $6" = "install mete -n --create-namespace" ] && [ -f "$3/Chart.yaml" ]
'''


def shell_blocks(page):
    """(commands, what they must print) of each block that is marked as shell."""
    text = open(os.path.join(ROOT, page)).read()
    for found in re.finditer(r"^```sh\n(.*?)^```\n((?:\s*<!-- prints: .*? -->\n)*)", text, re.M | re.S):
        yield found[1], re.findall(r"<!-- prints: (.*?) -->", found[2])


def write_program(path, text):
    with open(path, "w") as file:
        file.write(text)
    os.chmod(path, 0o755)


def session(blocks, folder):
    """The blocks as somebody pastes them, one after the other, into one shell. What each said is in FOLDER/NUMBER, and after it that it
    was right."""
    parts = [f"{{\n{commands}}} >{folder}/{i} 2>&1\necho right >>{folder}/{i}\n" for i, (commands, _) in enumerate(blocks)]
    return "set -euo pipefail\n" + "".join(parts)


def follow(page):
    """Every block of the page, in its order, in one shell: in the tree as somebody has it who has built it, with nothing else in it."""
    blocks = list(shell_blocks(page))
    before = [] if page == "README.md" else [block for block in shell_blocks("README.md") if "export PATH" in block[0]]
    with Copy() as tree, Node() as node:
        programs, said = os.path.join(node.place, "bin"), os.path.join(node.place, "said")
        os.mkdir(programs)
        os.mkdir(said)
        write_program(os.path.join(programs, "make"), MAKE)
        write_program(os.path.join(programs, "kubectl"), KUBECTL)
        write_program(os.path.join(programs, "helm"), HELM)
        environment = dict(node.environment, PATH=programs + ":" + os.environ["PATH"], HOME=node.place)
        for name in ("LD_LIBRARY_PATH", "METE_SIM_DEVICES"):
            environment.pop(name, None)
        subprocess.run(["bash", "-c", session(before + blocks, said)], cwd=tree.folder, env=environment, stdin=subprocess.DEVNULL, timeout=1200)
        for i, (commands, wanted) in enumerate(before + blocks):
            told = open(os.path.join(said, str(i))).read()
            assert told.endswith("right\n"), f"{page}: it ended in\n{commands}\nwhich said\n{told}"
            for pattern in wanted:
                assert re.search(pattern, told), f"{page}: {pattern!r} is not in what\n{commands}\nsaid:\n{told}"
        return len(blocks)


def test_every_command_of_the_texts_does_as_they_promise():
    for page in PAGES:
        if page not in ELSEWHERE:
            ran = follow(page)
            assert ran >= {"README.md": 5, "docs/simulator.md": 4, "docs/time.md": 1, "docs/start.md": 1, "docs/howto-server.md": 1}.get(page, 0), (page, ran)


def test_the_texts_name_the_unit_where_it_is_installed_and_how_to_start_it():
    text = open(os.path.join(ROOT, "README.md")).read()
    assert "systemctl enable --now meted" in text
    for page in PAGES:
        for path in re.findall(r"`((?:deploy|tools|bench|examples)/[\w./-]+)`", open(os.path.join(ROOT, page)).read()):
            assert os.path.exists(os.path.join(ROOT, path)), (page, path)


def test_no_command_of_the_texts_stands_outside_a_block_that_is_run():
    """Indented lines that call mete or make are commands, too: they belong into a ```sh block."""
    for page in PAGES:
        text = re.sub(r"^```.*?^```", "", open(os.path.join(ROOT, page)).read(), flags=re.M | re.S)
        stray = re.findall(r"^    (?:\$ )?(?:mete|make|kubectl) .*$", text, re.M)
        assert not stray or page in ELSEWHERE + ("docs/HACKING.md",), (page, stray)


def named_options(words):
    """The options among a command's words, up to those of a program behind it."""
    for word in words:
        if word == "--":
            return
        if word.startswith("--"):
            yield word.split("=")[0].rstrip(",.;:)|]")


def test_options_that_the_texts_name_are_there():
    """Also in blocks that are not run, and within sentences."""
    with open(os.path.join(ROOT, "cli/commands.def")) as file, open(os.path.join(ROOT, "node/options.def")) as other:
        known = {("meted", "--" + name) for name in re.findall(r"^OPTION\(([a-z-]+), ", other.read(), re.M)}
        known |= {(verb, "--" + name.replace("_", "-")) for verb, name in re.findall(r"^OPTION\((\w+), (\w+),", file.read(), re.M)}
    verbs = {verb for verb, _ in known}
    named = set()
    for page in PAGES:
        for line in re.findall(r"(?:^[$#] +|`)(?:sudo )?((?:mete|meted) [^`\n#]*)", open(os.path.join(ROOT, page)).read(), re.M):
            program, *words = line.split()
            verb = program if program == "meted" else words[0]
            if verb in verbs:
                named.update((page, verb, option) for option in named_options(words[program == "mete":]))
    assert len(named) > 30, named
    missing = {one for one in named if one[1:] not in known and one[2] != "--help"}
    assert not missing, missing


def test_tables_of_the_texts_are_whole_and_have_no_row_twice():
    for page in PAGES:
        lines = open(os.path.join(ROOT, page)).read().splitlines()
        rows = []
        for before, line, after in zip([""] + lines, lines, lines[1:] + [""]):
            if not line.startswith("|"):
                continue
            head = after.startswith("| ---")
            # A row behind an empty line is in no table: it is shown as it is written.
            assert head or before.startswith("|"), (page, line)
            if not head and not line.startswith("| ---"):
                assert line not in rows, (page, line)
                rows.append(line)


def test_a_row_of_the_failures_can_be_read_without_the_one_before_it():
    """People come to one row, by a search or a link. "Likewise" may speak of the cell to its left, and of no other row."""
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in open(os.path.join(ROOT, "docs/FAILURE.md")) if line.startswith("| ") and not line.startswith(("| ---", "| what fails"))]
    leaning = [" | ".join(row)[:160] for row in rows if re.match("likewise|the same\\b", row[0]) or re.match("likewise", row[1]) or re.search(r"\bas (above|below)\b", " ".join(row))]
    assert len(rows) > 150 and not leaning, "\n".join(leaning)


def test_every_example_of_the_man_pages_is_one():
    """The commands of `mete help VERB` are understood: each is run with its verb's own parser."""
    with Node() as node, Copy() as tree:
        write_program(os.path.join(tree.folder, "train"), "#!/bin/sh\n")
        for verb, command in re.findall(r'^EXAMPLE\((\w+), "((?:[^"\\]|\\.)*)"', open(os.path.join(ROOT, "cli/pages.def")).read(), re.M):
            if verb == "set" or "--watch" in command or "jq" in command or "replay" in command:
                continue
            environment = dict(node.environment, METE_SIM_DEVICES="2xSIM", METE_SIM_DIR=node.environment["METE_SIM_DIR"] + "2",
                               PATH=os.path.dirname(METE) + ":" + os.environ["PATH"])
            os.makedirs(environment["METE_SIM_DIR"], exist_ok=True)
            done = subprocess.run(["sh", "-c", command], cwd=tree.folder, env=environment, text=True, capture_output=True)
            assert done.returncode != 2 or "python3" in command, (command, done)


def test_every_key_of_the_json_is_in_the_man_page():
    """Those of each object, under that object: none is missing there, none stands there in vain, and each has a meaning."""
    with Node() as node:
        At(node, "--name", "one")
        bare = subprocess.Popen([workload("steady"), "stdin=1", "seconds=600", "report_ms=3600000"], env=node.environment, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE)
        bare.stdout.readline()
        shown = until(lambda: next((now for now in [node.ps()] if now["outside"] and now["tenants"][0]["processes"]), None))
        bare.kill()
        bare.communicate()
        [tenant] = shown["tenants"]
        json_part = re.search(r"^\.SH JSON\n(.*?)^\.SH ", manual("ps"), re.M | re.S)[1]
        explained = {name: entries(text) for name, text in re.findall(r"^\.SS (.*)\n((?:(?!\.SS ).*\n)*)", json_part, re.M)}
        found = {"meted": shown["meted"], "devices": shown["devices"][0], "tenants": tenant, "tenants: time": tenant["time"],
                 "tenants: processes": tenant["processes"][0], "outside": shown["outside"][0]}
        assert set(explained) == set(found) and set(shown) == {"meted", "devices", "tenants", "outside"}, (set(explained), set(shown))
        for name, value in found.items():
            # The driver's figure of the time is only sometimes known.
            wanted = set(value) | ({"driver_busy", "drift"} if name == "tenants: time" else set())
            assert set(explained[name]) == wanted, (name, set(explained[name]) ^ wanted)
            assert all(meaning != "\\&" for meaning in explained[name].values()), explained[name]
        page = manual("set")
        assert all(re.search(rf"\b{field}\b", page) for field in tenant["fields"]) and "mete\\-set(1)" in explained["tenants"]["fields"], (tenant, page)


def test_every_column_of_ps_is_in_its_man_page():
    """And the page names none that there is not."""
    page = re.search(r"^\.SH COLUMNS\n(.*?)^\.SH ", manual("ps"), re.M | re.S)[1]
    explained = {heading for headings in entries(page) for heading in headings.split(", ")}
    columns = set()
    for source in ("ps.c", "ps_time.c"):
        with open(os.path.join(ROOT, "cli", source)) as file:
            headings = re.findall(r'^\t+\{"([^"]+)"(?:, \.|\})', file.read(), re.M)
        assert headings, source
        columns.update(headings)
    assert columns == explained, columns ^ explained


def test_every_option_of_meted_is_in_its_man_page():
    """And the page names none that there is not; each has a meaning."""
    with open(os.path.join(ROOT, "node/options.def")) as file:
        options = set(re.findall(r"^OPTION\(([a-z-]+), ", file.read(), re.M))
    with open(os.path.join(ROOT, "docs/man/meted.8")) as file:
        page = re.search(r"^\.SH OPTIONS\n(.*?)^\.SH ", file.read(), re.M | re.S)[1]
    heads = re.findall(r"^\.TP\n(.+)\n(?!\.TP)", page, re.M)
    explained = {name.replace("\\", "") for head in heads for name in re.findall(r"\\-\\-((?:[a-z]|\\-)+)", head)}
    assert len(options) > 20 and options == explained, options ^ explained


def test_the_place_where_a_test_runs_is_stated_once():
    """Merges of branches that both changed a row have left it twice."""
    table = open(os.path.join(ROOT, "docs/HACKING.md")).read().partition("### What runs where")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \|", table, re.M)
    assert len(rows) > 10 and len(set(rows)) == len(rows), [row for row in rows if rows.count(row) > 1]


if __name__ == "__main__":
    run(globals())
