#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sharing.mps when meted starts again, and when a node goes to MPS, or from it, while containers have its GPUs."""
from mps import *
from meted import run
from test_nvidia_configurations import LABEL, named, replicas


def test_the_next_meted_takes_the_daemons_over():
    with mps() as node:
        before = daemon(node, 0), daemon(node, 1)
        node.meted.process.kill()
        node.meted.wait()
        node.restart()
        await_asked(node, 2)
        assert (daemon(node, 0), daemon(node, 1)) == before
        node.end()
        node.restart()
        await_asked(node, 3)
        assert (daemon(node, 0), daemon(node, 1)) == before


def test_unwanted_mps_is_undone_by_the_next_meted():
    with mps() as node, in_use(node):
        pids = daemon(node, 0), daemon(node, 1)
        node.meted.process.kill()
        node.meted.wait()
        assert modes(node) == ["Exclusive_Process"] * 2
        node.write({"version": "v1"})
        node.restart()
        for uuid in node.uuid:
            node.await_log(f"mps.undone uuid={uuid}")
        assert modes(node) == ["Default"] * 2
        for pid in pids:
            until(lambda: not os.path.exists(f"/proc/{pid}/exe"), "it runs still")
        assert not os.listdir(node.place + "/mps")


def test_doctor_sees_gpus_that_an_absent_meted_leaves_exclusive():
    with mps() as node, in_use(node):
        assert node.doctor("mps") == ("ok", "meted's control daemons of 2 GPUs and 0 containers answer -> ")
        assert node.doctor("mode")[0] == "ok"
        node.meted.kill()
        end_daemons(node)
        verdict, words = node.doctor("mps")
        assert verdict == "wrong" and "does not answer" in words and any(f"nvidia-smi -i {uuid} -c DEFAULT" in words for uuid in node.uuid), words
        shutil.rmtree(node.place + "/mps")
        verdict, words = node.doctor("mode")
        assert verdict == "wrong" and "GPU 0 is set to let only one process use it" in words, words
        assert node.doctor("mps")[0] == "ok", "nobody has a record of daemons"


def test_a_record_that_was_cut_off_does_not_keep_the_gpu_from_mps():
    with mps(api=True, devices="1xSIM") as node, in_use(node):
        pod, before = node.run("a", node.id(0)), daemon(node)
        node.meted.kill()
        record = f"{node.place}/mps/{node.uuid[0]}"
        with open(record, "w"):
            pass
        node.meted.start()
        await_asked(node, 2)
        assert daemon(node) == before and "mps.keeps" not in node.log()
        with open(record) as file:
            assert file.read() == node.root + "\n"
        with program_in(node, pod) as allocate:
            assert allocate(1) == 0


def test_another_root_is_that_of_another_daemon():
    with mps(devices="1xSIM") as node, in_use(node):
        first = daemon(node)
        node.meted.process.kill()
        node.meted.wait()
        node.write({**node.file_of(), "flags": {"mpsRoot": node.root + "/b/c"}})
        node.restart()
        node.await_log(f"mps.undone uuid={node.uuid[0]}")
        until(lambda: not os.path.exists(f"/proc/{first}/exe"), "it runs still")
        node.await_log(f"mps.ready uuid={node.uuid[0]} root={node.root}/b/c")
        await_ready(node)
        assert modes(node) == ["Exclusive_Process"]
        with open(f"{node.place}/mps/{node.uuid[0]}") as file:
            assert file.read() == node.root + "/b/c\n"
        assert os.stat(node.root + "/b").st_mode & 0o777 == 0o755, "its programs are of any user"


def test_limits_that_change_are_no_end_of_a_daemon():
    """Its pod hears of the end that comes after that, alone."""
    with mps(api=True, devices="1xSIM") as node:
        def told():
            return [event["involvedObject"]["kind"] for event in list(node.api.events) if event["reason"] == "MPSControlEnded"]
        node.run("a", node.id(0))
        node.write(node.file_of(resources=[{"name": "nvidia.com/gpu", "replicas": 4}]))
        node.await_log("mps.unready")
        node.await_log(f"mps.ready uuid={node.uuid[0]}", times=2)
        # Messages come in the order of the events.
        until(lambda: [event for event in list(node.api.events) if event["reason"] == "MPSControlReady"][1:], "the node was not told")
        assert not told(), told()
        os.kill(daemon(node), signal.SIGKILL)
        until(lambda: set(told()) == {"Node", "Pod"}, "the node or its pod was not told")


def test_other_replicas_are_other_limits_at_once():
    with mps() as node:
        content = node.file_of()
        content["sharing"]["mps"]["resources"][0]["replicas"] = 4
        node.write(content)
        node.kubelet.hear("listed 8")
        until(lambda: control(node, "get_default_active_thread_percentage").strip() == "25.0", "the daemon has the former limits")
        await_ready(node)


def test_a_gpu_leaves_mps_when_its_containers_have_ended():
    with mps(api=True) as node, in_use(node):
        first, other = daemon(node, 0), daemon(node, 1)
        pod = node.run("a", node.id(0))
        with program_in(node, pod) as allocate:
            node.write(SLICES)
            node.await_log(f"mps.undone uuid={node.uuid[1]}")
            until(lambda: not os.path.exists(f"/proc/{other}/exe"), "nobody has that GPU, and its daemon runs still")
            await_offered(node, node.uuid[1])
            assert modes(node) == ["Exclusive_Process", "Default"]
            refusal = node.kubelet.refusal(node.kubelet.begin("allocate", node.id(0)))
            assert refusal.endswith(f"device {node.uuid[0]} is still used by MPS: it is given to others when those containers have ended"), refusal
            assert allocate(1) == 0
            with program_in(node, pod) as another:
                assert another(1) == 0, "it has what it had"
            os.kill(first, signal.SIGKILL)
            until(lambda: daemon(node, 0) not in (None, first), "it is not started again")
            until(lambda: control(node, "get_default_active_thread_percentage").strip() == "50.0", "its limits are the former ones")
            node.meted.kill()
            node.meted.start()
            node.await_log("mps.keeps uuid=" + node.uuid[0], times=2)
            with program_in(node, pod) as another:
                assert another(1) == 0, "and after a restart of meted"
            kept = daemon(node, 0)
        pod.delete()
        node.await_log(f"mps.undone uuid={node.uuid[0]}")
        until(lambda: not os.path.exists(f"/proc/{kept}/exe"), "nobody has it, and its daemon runs still")
        await_offered(node, *node.uuid)
        assert modes(node) == ["Default"] * 2
        assert node.kubelet.ask("allocate", node.id(2)) == f"ok env=NVIDIA_VISIBLE_DEVICES={node.uuid[0]}"


def test_a_pod_that_has_not_started_holds_the_gpu_that_it_was_given_by_mps():
    with mps(api=True) as node, in_use(node):
        pids = daemon(node, 0), daemon(node, 1)
        pod = node.pod("a").admit(node.id(0))
        given(node, pod)
        node.write(SLICES)
        node.await_log(f"mps.undone uuid={node.uuid[1]}")
        node.await_log(f"mps.keeps uuid={node.uuid[0]}")
        await_offered(node, node.uuid[1])
        refusal = node.kubelet.refusal(node.kubelet.begin("allocate", node.id(0)))
        assert f"device {node.uuid[0]} is still used by MPS" in refusal, refusal
        node.meted.kill()
        node.meted.start()
        node.await_log("mps.keeps uuid=" + node.uuid[0], times=2)
        await_offered(node, node.uuid[1])
        assert modes(node) == ["Exclusive_Process", "Default"] and daemon(node, 0) == pids[0]
        node.write(node.file_of())  # and back, before it has started
        await_ready(node)
        pod.start()
        with program_in(node, pod) as allocate:
            assert allocate(1) == 0
        node.write(SLICES)
        node.await_log("mps.keeps uuid=" + node.uuid[0], times=3)
        pod.delete()
        node.await_log(f"mps.undone uuid={node.uuid[0]}")
        await_offered(node, *node.uuid)
        assert modes(node) == ["Default"] * 2


def test_a_gpu_becomes_mpss_when_containers_without_mps_have_ended():
    with mps(api=True, start=False) as node:
        node.write(SLICES)
        node.start()
        node.kubelet.hear("registered")
        await_offered(node, *node.uuid)
        pod = node.pod("a").admit(node.id(0))
        given(node, pod)
        node.write(node.file_of())
        node.await_log("mps.waits uuid=" + node.uuid[0])
        await_offered(node, node.uuid[1])
        assert modes(node) == ["Default", "Exclusive_Process"]
        refusal = node.kubelet.refusal(node.kubelet.begin("allocate", node.id(0)))
        assert refusal.endswith(f"device {node.uuid[0]} is still used without MPS: it is given to others when those containers have ended"), refusal
        pod.start()  # its container starts again, and is no tenant
        assert not node.tenants()
        pod.delete()
        node.await_log("mps.ready uuid=" + node.uuid[0])
        await_offered(node, *node.uuid)
        assert modes(node) == ["Exclusive_Process"] * 2
        assert node.run("b", node.id(1)) and node.tenant("ns/b/main")


def test_a_label_of_the_node_switches_between_time_slicing_and_mps():
    with named({"default": replicas(3)}) as node:
        node.root = node.folder + "/mps"
        node.fill({"default": replicas(3), "mps": json.dumps({"version": "v1", "flags": {"mpsRoot": node.root}, "sharing": {"mps": {"resources": [{"name": "gpu", "replicas": 2}]}}})})
        isolate(node)
        node.environment["PATH"] = BUILD + "/sim:" + os.environ["PATH"]
        node.start()
        try:
            with in_use(node):
                switch(node)
        finally:
            node.end()
            end_daemons(node)


def switch(node):
    node.kubelet.hear("listed 6")
    for round in range(2):
        node.api.set_node({LABEL: "mps"})
        until(lambda: modes(node) == ["Exclusive_Process"] * 2, "MPS does not begin")
        node.kubelet.await_devices(lambda now: len(now) == 4 and set(now.values()) == {"Healthy"})
        pod = node.run(f"a{round}", node.id(0))
        with program_in(node, pod) as allocate:
            for label in ("default", "mps") * 4 + ("default",):
                node.api.set_node({LABEL: label})
            if round:
                node.meted.kill()
                node.meted.start()
            await_offered(node, node.uuid[1])
            node.kubelet.await_devices(lambda now: len(now) == 6)
            assert allocate(1) == 0, "it has what it had"
        pod.delete()
        await_offered(node, *node.uuid)
        until(lambda: modes(node) == ["Default"] * 2, "the mode of MPS was left")
    assert not node.tenants()


def test_a_configuration_that_mps_does_not_go_with_leaves_the_former_one_in_force():
    with mps(api=False, start=False) as node:
        node.write(SLICES)
        node.start()
        node.kubelet.hear("registered")
        await_offered(node, *node.uuid)
        node.write(node.file_of(resources=[{"name": "nvidia.com/gpu", "replicas": 49}]))
        node.await_log("config.refused .*49 replicas are more than the clients that MPS has")
        assert len(node.kubelet.devices()) == 6
        assert node.kubelet.ask("allocate", node.id(0)).startswith("ok ")
        # And from MPS to more of it.
        node.write(node.file_of())
        node.kubelet.await_devices(lambda now: len(now) == 4 and set(now.values()) == {"Healthy"})
        node.write(node.file_of(resources=[{"name": "nvidia.com/gpu", "replicas": 50}]))
        node.await_log("config.refused .*50 replicas are more than the clients that MPS has")
        assert len(await_ready(node)) == 4
        assert node.kubelet.ask("allocate", node.id(0)).startswith("ok ")


def test_parts_that_mps_would_get_by_a_new_file_are_refused_while_the_former_one_is_in_force():
    with mps(start=False, devices="1xH100") as node:
        node.environment["METE_SIM_PARTS"] = "0:7x1g.10gb"
        node.write({"version": "v1", "flags": {"migStrategy": "none"}})
        node.start()
        node.kubelet.hear("registered")
        node.write({**node.file_of(), "flags": {"mpsRoot": node.root, "migStrategy": "single"}})
        node.await_log("config.refused .*GPU 0 is divided by MIG")
        assert "plugin.unsettled" not in node.log()
        node.write({"version": "v1", "flags": {"migStrategy": "single"}})
        node.kubelet.await_devices(lambda now: len(now) == 7)


if __name__ == "__main__":
    run(globals())
