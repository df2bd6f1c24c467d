#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No path of a container leads to the driver, and what meted hands out of it cannot be turned against the host:
test_handout.py METED SIMULATOR BUILD."""
import hashlib
import sys
import threading

arguments = sys.argv[:]
from containers import *  # noqa: E402
sys.argv = arguments  # each of the two takes its own out
import node as nodes  # noqa: E402

# The capabilities that containerd gives to a container that asks for none.
CAPABILITIES = ["CAP_" + name for name in (
    "CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "MKNOD", "NET_RAW", "SETGID", "SETUID", "SETFCAP", "SETPCAP",
    "NET_BIND_SERVICE", "SYS_CHROOT", "KILL", "AUDIT_WRITE")]


class Site:
    """A node, and containers of its pods by runc."""

    def __init__(self, **config):
        self.place, self.count = tempfile.mkdtemp(prefix="mete-runc-"), 0
        os.chmod(self.place, 0o755)
        self.driver = shutil.copytree(SIM, self.place + "/driver")  # an attack that succeeds is to hit nobody else
        sys.argv[2] = self.driver
        self.node = nodes.Node(slots=4, share={"memory": "256MiB"}, environment={"METE_SIM_CONTEXT_COST": "0"}, **config)
        os.chmod(self.node.sim, 0o1777)

    def __enter__(self):
        self.node.__enter__()
        self.image = Image(self.place + "/rootfs")
        self.image.program(f"{BUILD}/tests/plugin/handout")
        self.pod = self.node.run("a", self.node.id(0))
        key, _ = self.node.record(self.pod.title())
        self.file = f"{self.node.cdi}/mete.dev-slot_{key}.json"
        return self

    def __exit__(self, *what):
        self.node.__exit__(*what)
        shutil.rmtree(self.place, ignore_errors=True)

    def run(self, *command, environment=(), change=None):
        config = base_config(command, environment)
        apply_cdi(self.file, config)
        config["process"]["capabilities"] = {kind: CAPABILITIES for kind in ("bounding", "effective", "permitted")}
        if change:
            change(config)
        with open(self.place + "/config.json", "w") as file:
            json.dump(config, file)
        self.count += 1
        return Ended(subprocess.run(["runc", "--root", self.place + "/runc", "run", "--bundle", self.place, f"mete-{os.getpid()}-h{self.count}"],
                                    text=True, capture_output=True, stdin=subprocess.DEVNULL))


def alone(site, *command):
    done = subprocess.run([f"{BUILD}/examples/{command[0]}", *command[1:]], text=True, capture_output=True,
                          env=dict(os.environ, METE_SIM_DIR=site.node.sim, METE_SIM_CONTEXT_COST="0", LD_LIBRARY_PATH=SIM))
    assert done.returncode == 0, done
    return done.stdout.strip()


def test_a_program_computes_with_a_driver_that_no_path_leads_to():
    with Site() as site:
        done = site.run("/usr/bin/train", "steps=3")
        assert done.status == 0 and done.out == alone(site, "train", "steps=3"), done
        done = site.run("/usr/bin/opener", DRIVER + "/libcuda.so.1", DRIVER + "/libnvidia-ml.so.1", *NAMES)
        assert done.out.split() == ["none"] * 2 + ["guest"] * 4, done


def test_a_thread_with_the_least_stack_may_be_the_first_to_call_the_driver():
    with Site() as site:
        done = site.run("/usr/bin/opener", "--least-stack")
        assert (done.status, done.out) == (0, "0"), done


def test_the_limit_holds_whatever_is_preloaded():
    with Site() as site:
        for environment in ([f"LD_PRELOAD={DRIVER}/libcuda.so.1"], [f"LD_LIBRARY_PATH={DRIVER}"], [f"METE_DRIVER={SIM}"],
                            ["METE_SOCKET=/none", "METE_DRIVER=/usr/lib"]):
            done = site.run("/usr/bin/hoarder", f"limit={256 * MIB}", environment=environment)
            assert done.status == 0 and " ok " in done.out, (environment, done)


def test_a_node_may_mount_the_driver_instead():
    with Site(driver_files="mounted") as site:
        assert site.run("/usr/bin/opener", DRIVER + "/libcuda.so.1").out == "other"
        assert site.run("/usr/bin/opener", *NAMES).out.split() == ["guest"] * 4
        done = site.run("/usr/bin/train", "steps=3")
        assert done.status == 0 and done.out == alone(site, "train", "steps=3"), done


def test_containers_from_before_keep_their_driver_when_a_node_begins_to_mount_it():
    with Site() as site:
        site.file = shutil.copy(site.file, site.place + "/before.json")  # what they were made with
        site.node.end()
        site.node.configure(driver_files="mounted")
        site.node.restart()
        done = site.run("/usr/bin/train", "steps=3")
        assert done.status == 0 and done.out == alone(site, "train", "steps=3"), done


def tried(site, what):
    done = site.run("/usr/bin/handout", what)
    assert done.status == 0, done
    return dict(line.split() for line in done.out.splitlines())


def state(path):
    about = os.stat(path)
    return about.st_mode, about.st_uid, about.st_size, about.st_mtime_ns, hashlib.sha256(open(path, "rb").read()).hexdigest()


def test_nobody_can_change_the_hosts_driver_through_a_handed_out_file():
    with Site() as site:
        before = state(site.driver + "/libcuda.so.1")
        saw = tried(site, "meted")
        assert len(saw) == 12 and "done" not in saw.values(), saw
        assert state(site.driver + "/libcuda.so.1") == before


def test_the_attempts_made_there_work_with_a_file_of_ones_own():
    """So that the test above can fail."""
    with Site() as site:
        site.image.put("/tmp/mine", b"driver")
        saw = tried(site, "/tmp/mine")
        assert saw["write"] == saw["chmod"] == saw["chown"] == saw["times"] == saw["truncate"] == "done", saw
        assert saw["copy"] == saw["bind"] == saw["write-again"] == "done", saw


def test_a_program_that_starts_while_meted_is_away_gets_the_driver_when_it_is_back():
    with Site() as site:
        right = alone(site, "train", "steps=3")
        for _ in range(10):  # a guest waits for five seconds, which may be too short on a busy machine
            site.node.end()
            begun, ended = threading.Event(), []

            def start():
                begun.set()
                ended.append(site.run("/usr/bin/train", "steps=3"))

            starter = threading.Thread(target=start)
            starter.start()
            begun.wait()
            site.node.restart()
            starter.join()
            if ended[0].status == 0:
                assert ended[0].out == right, ended
                return
        raise AssertionError(ended)


if __name__ == "__main__":
    require_all("containers")
    run(globals())
