#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mete doctor on ill machines and nodes: the problems that docs/doctor.md lists, each provoked. argv[1]: the build folder."""
import contextlib
import re
import socket
import stat

from mete import *
from runner import Skipped

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
ILL = os.path.join(BUILD, "tests", "cli", "ill")  # a management library that is told what to answer


def finds(node, check, verdict, *words, **environment):
    """doctor's answer for one thing; None: it is not shown."""
    rows = {row["check"]: row for row in json.loads(node.mete("doctor", "--json", **environment).stdout)}
    row = rows.get(check, {"verdict": None, "found": "", "advice": ""})
    assert row["verdict"] == verdict, row
    for word in words:
        assert word in row["found"] + " -> " + row["advice"], (word, row)
    return row


def ill(node):
    """The environment of a machine whose driver is a copy of the simulated one, with that management library beside it."""
    folder = node.place + "/driver"
    if not os.path.isdir(folder):
        os.mkdir(folder)
        for name, file in (("libcuda.so.1", BUILD + "/sim/lib/libcuda.so.1"), ("libnvidia-ml.so.1", ILL + "/libnvidia-ml.so.1")):
            shutil.copyfile(file, f"{folder}/{name}")
    return {"METE_DRIVER": folder}


def host(node):
    """A node of Kubernetes, seen below that folder."""
    path = node.place + "/host"
    os.makedirs(path + "/var/lib/kubelet/device-plugins", exist_ok=True)
    os.makedirs(path + "/etc", exist_ok=True)
    return path


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def test_no_driver_is_found():
    with Node() as node:
        finds(node, "driver", "wrong", "no CUDA driver", "install NVIDIA's driver", LD_LIBRARY_PATH="")
        finds(node, "driver", "ok")


def test_the_driver_was_updated_and_the_module_was_not():
    with Node() as node:
        finds(node, "nvml", "ok", **ill(node))
        finds(node, "nvml", "wrong", "error 18", "the kernel has the former module: restart the machine", METE_ILL_INIT="18", **ill(node))
        finds(node, "nvml", "wrong", "error 9", "is the kernel module loaded", METE_ILL_INIT="9", **ill(node))


def test_the_device_of_managed_memory_is_missing():
    require("devices", "namespaces")
    with Node() as node:
        dev = node.place + "/dev"
        os.mkdir(dev)
        for name in "nvidia0", "nvidiactl", "null":
            os.mknod(f"{dev}/{name}", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        script = 'mount --bind "$0" /dev && exec "$@"'

        def checked():
            done = subprocess.run(["unshare", "-m", "sh", "-c", script, dev, os.path.join(BUILD, "cli", "mete"), "doctor", "--json"],
                                  env=dict(node.environment, LD_LIBRARY_PATH=""), text=True, capture_output=True)
            return next(row for row in json.loads(done.stdout) if row["check"] == "permissions")

        row = checked()
        assert row["verdict"] == "wrong" and "no /dev/nvidia-uvm" in row["found"] and "nvidia-modprobe -u -c 0" in row["advice"], row
        os.mknod(dev + "/nvidia-uvm", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        assert checked()["verdict"] == "ok", checked()


def test_programs_are_told_to_see_no_gpu():
    with Node() as node:
        for hidden in "", "-1":
            finds(node, "visible", "wrong", "programs see no GPU", "unset CUDA_VISIBLE_DEVICES", CUDA_VISIBLE_DEVICES=hidden)
        finds(node, "visible", "ok", CUDA_VISIBLE_DEVICES="0,1")
        finds(node, "visible", "ok")


def test_another_library_shares_gpus():
    with Node() as node:
        finds(node, "sharers", "ok")
        write(host(node) + "/etc/ld.so.preload", "/usr/local/vgpu/libvgpu.so\n")
        finds(node, "sharers", "wrong", "HAMi's library libvgpu.so is loaded by", "/etc/ld.so.preload", METE_HOST=host(node))
        write(node.place + "/libnvshare.so", "")
        finds(node, "sharers", "wrong", "nvshare's", "LD_PRELOAD", LD_PRELOAD=node.place + "/libnvshare.so")


def test_mps_runs():
    with Node() as node:
        os.mkdir(node.place + "/mps")
        finds(node, "mps", "ok", CUDA_MPS_PIPE_DIRECTORY=node.place + "/mps")
        write(node.place + "/mps/control", "")
        finds(node, "mps", "note", "mps/control is there", "echo quit | nvidia-cuda-mps-control", CUDA_MPS_PIPE_DIRECTORY=node.place + "/mps")


def test_a_gpu_lets_only_one_process_in():
    with Node() as node:
        finds(node, "mode", "ok", METE_ILL_MODE="0", **ill(node))
        finds(node, "mode", "wrong", "GPU 0 is set to let only one process use it", "nvidia-smi -i 0 -c DEFAULT", METE_ILL_MODE="3", **ill(node))
        finds(node, "mode", "wrong", "let no process use it", METE_ILL_MODE="2", **ill(node))


MIG = """import ctypes, sys
nvml, gpu, made, error = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
assert nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(gpu)) == 0
{}
print("here", flush=True)
sys.stdin.read()
"""
ONE_SLICE = 19  # the driver's number of an H100's smallest profile


@contextlib.contextmanager
def somebody(node, *lines):
    """A program that has done that, and stays."""
    process = subprocess.Popen([sys.executable, "-c", MIG.format("\n".join(lines))], env=node.environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == "here\n"
        yield
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


def test_a_gpu_in_mig_mode_has_no_parts():
    with Node(METE_SIM_DEVICES="2xH100") as node:
        finds(node, "mig", None)
        finds(node, "mig", "note", "GPU 0 is in MIG mode and has no parts", "mete mig apply", "nvidia-smi -i 0 -mig 0", METE_SIM_MIG="on")
        finds(node, "mig", "ok", "5 parts on 2 GPUs in MIG mode; 5 of them have no process", METE_SIM_PARTS="0:3x1g.10gb;1:2x3g.40gb")


def test_a_part_has_no_compute_instance():
    with Node(METE_SIM_DEVICES="1xH100", METE_SIM_MIG="on") as node:
        with somebody(node, f"assert nvml.nvmlDeviceCreateGpuInstance(gpu, {ONE_SLICE}, ctypes.byref(made)) == 0"):
            finds(node, "mig", "wrong", "GPU 0: its part 1g.10gb at ", "has no compute instance", "nvidia-smi mig -i 0 -gi ")


def test_a_gpu_waits_for_its_reset_to_be_divided():
    with Node(METE_SIM_DEVICES="1xH100") as node:
        with somebody(node, "cuda = ctypes.CDLL('libcuda.so.1')", "assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(made), 0) == 0",
                      "assert nvml.nvmlDeviceSetMigMode(gpu, 1, ctypes.byref(error)) == 0 and error.value"):
            finds(node, "mig", "wrong", "GPU 0 is not in MIG mode until it is reset", "nvidia-smi --gpu-reset -i 0")


def record(node, path, text):
    """A file of meted's folder on that node."""
    if os.path.exists("/run/mete"):
        raise Skipped("there is a /run/mete on this machine; end its meted, or run it in a container")
    write(f"{host(node)}/run/mete/{path}", text)


def test_meted_has_refused_a_configuration_or_a_division():
    with Node() as node:
        finds(node, "refused", None)
        finds(node, "refused", "ok", METE_HOST=host(node))
        record(node, "refused/mig-config", "nvidia.com/mig.config=all-9g: f: it has no configuration 'all-9g'")
        finds(node, "refused", "wrong", "it has no configuration 'all-9g'", "correct the label nvidia.com/mig.config", METE_HOST=host(node))
        record(node, "refused/config", "d: neither a label of the node nor $DEFAULT_CONFIG names a configuration")
        finds(node, "refused", "wrong", "neither a label", "$FALLBACK_STRATEGIES", "the former one is in force", METE_HOST=host(node))


def test_meteds_mps_does_not_answer():
    with Node() as node:
        root, path = node.place + "/r", node.place + "/r/GPU-1/pipe/control"
        os.makedirs(os.path.dirname(path))
        record(node, "mps/GPU-1", f"{root}\n")
        finds(node, "mps", "wrong", "meted's control daemon of GPU-1 does not answer", "nvidia-smi -i GPU-1 -c DEFAULT", METE_HOST=host(node))
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as daemon:
            daemon.bind(path)
            daemon.listen()
            finds(node, "mps", "ok", "meted's control daemons of 1 GPUs and 0 containers answer", METE_HOST=host(node))
        finds(node, "mps", "wrong", "does not answer", METE_HOST=host(node))
        record(node, "mps/GPU-1", f"{root}\napart\n")
        record(node, "mps-containers/0123", f"{root}\nGPU-1\nns/pod/uid\n0=1024M\n")
        finds(node, "mps", "note", "meted's control daemon of the container 0123 does not answer", METE_HOST=host(node))


def as_another_user(node, check, **environment):
    """doctor's answer to one who may not read what is closed."""
    rights = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    done = subprocess.run([*rights, os.path.join(BUILD, "cli", "mete"), "doctor", "--json"], env=dict(node.environment, **environment), text=True, capture_output=True)
    return next(row for row in json.loads(done.stdout) if row["check"] == check)


@contextlib.contextmanager
def closed(path):
    mode = stat.S_IMODE(os.stat(path).st_mode)
    os.chmod(path, 0)
    try:
        yield
    finally:
        os.chmod(path, mode)


def test_another_user_may_not_see_whether_meted_has_set_the_mode():
    with Node() as node:
        environment = {"METE_HOST": host(node), "METE_ILL_MODE": "3", "METE_ILL_UUID": "GPU-1", **ill(node)}
        finds(node, "mode", "wrong", **environment)
        record(node, "mps/GPU-1", "/r\n")
        finds(node, "mode", "ok", **environment)
        with closed(host(node) + "/run/mete/mps"):
            row = as_another_user(node, "mode", **environment)
        assert row["verdict"] == "note" and "run this as root" in row["advice"], row


def test_another_user_hears_what_of_mps_he_may_not_see():
    with Node() as node, socket.socket(socket.AF_UNIX) as daemon:
        root, pipe = node.place + "/r", node.place + "/r/GPU-1/pipe"
        os.makedirs(pipe)
        record(node, "mps/GPU-1", f"{root}\n")
        daemon.bind(pipe + "/control")
        daemon.listen()
        records = host(node) + "/run/mete/mps"
        write(node.place + "/own/pipe/control", "")
        for path, own in (records, ""), (records + "/GPU-1", ""), (pipe, ""), (pipe + "/control", ""), (node.place + "/own/pipe", node.place + "/own/pipe"):
            if own:
                shutil.rmtree(records)
            with closed(path):
                row = as_another_user(node, "mps", METE_HOST=host(node), CUDA_MPS_PIPE_DIRECTORY=own)
            assert row["verdict"] == "note" and "Permission denied" in row["found"] and path in row["found"] and "root" in row["advice"], (path, row)


def test_nvidias_device_plugin_has_the_gpus():
    with Node() as node:
        finds(node, "owner", "ok", METE_HOST=host(node))
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(host(node) + "/var/lib/kubelet/device-plugins/nvidia-gpu.sock")
            listener.listen()
            finds(node, "owner", "wrong", "NVIDIA's device plugin is running here", "a device has one owner", METE_HOST=host(node))


def test_containers_that_only_name_gpus_get_them_all():
    with Node() as node:
        write(host(node) + "/etc/nvidia-container-runtime/config.toml", "disable-require = false\n")
        finds(node, "toolkit", "wrong", "gets all of them, whole", METE_HOST=host(node))


def test_a_reload_of_systemd_takes_gpus_away():
    require("devices")
    with Node() as node:
        dev = host(node) + "/dev"
        os.makedirs(dev + "/char")
        os.mknod(dev + "/nvidia0", stat.S_IFCHR | 0o666, os.makedev(195, 0))
        finds(node, "links", "wrong", "nvidia0 has no link in /dev/char", "create-dev-char-symlinks", METE_HOST=host(node))
        os.symlink("../nvidia0", dev + "/char/195:0")
        finds(node, "links", "ok", METE_HOST=host(node))
        finds(node, "links", None)


def test_selinux_stands_between():
    with Node() as node:
        write(host(node) + "/sys/fs/selinux/enforce", "1")
        finds(node, "selinux", "note", "SELinux is enforced", "container_file_t", METE_HOST=host(node))
        write(host(node) + "/sys/fs/selinux/enforce", "0")
        finds(node, "selinux", "ok", METE_HOST=host(node))


def test_the_runtime_reads_no_cdi_files():
    with Node() as node:
        write(host(node) + "/etc/containerd/config.toml", "enable_cdi = false\n")
        finds(node, "cdi", "note", "enable_cdi = false", "1.7 with enable_cdi = true", METE_HOST=host(node))


def test_each_problem_of_the_document_is_a_check_and_a_test_here():
    text = open(os.path.join(ROOT, "docs", "doctor.md")).read()
    rows = re.findall(r"^\| \d+ \| .* \| `(\w+)` \| `(test_\w+)` \|$", text, re.M)
    checks = re.findall(r"^CHECK\((\w+),", open(os.path.join(ROOT, "cli", "checks.def")).read(), re.M)
    assert len(rows) >= 10, rows
    for check, test in rows:
        assert check in checks and test in globals(), (check, test)


def test_doctor_finds_a_healthy_machine_and_an_ill_one():
    with Node() as node:
        well = node.mete("doctor")
        assert well.returncode == 0 and "simulated" in well.stdout, well
        ill = node.mete("doctor", LD_LIBRARY_PATH="")
        assert ill.returncode == 1 and "->" in ill.stdout and "no CUDA driver" in ill.stdout, ill


def test_doctor_tells_the_size_of_the_hosts_pages_for_memory_that_leaves():
    try:
        chosen = re.search(r"\[(\w+)\]", open("/sys/kernel/mm/transparent_hugepage/shmem_enabled").read()).group(1)
    except OSError:
        chosen = "not there"
    small = chosen in ("never", "deny", "not there")
    with Node() as node:
        row = next(row for row in json.loads(node.mete("doctor", "--json").stdout) if row["check"] == "pages")
        assert row["verdict"] == ("note" if small else "ok"), row
        assert (chosen in row["found"] and "echo advise >/sys" in row["advice"]) if small else not row.get("advice"), row


def test_doctor_reads_the_nodes_files_and_not_its_containers():
    with Node() as node:
        host = node.place + "/host"

        def put(path, text):
            os.makedirs(os.path.dirname(host + path), exist_ok=True)
            with open(host + path, "w") as file:
                file.write(text)

        def verdict(name):
            rows = json.loads(node.mete("doctor", "--json", METE_HOST=host).stdout)
            return next((row for row in rows if row["check"] == name), None)

        toolkit, switch = "/etc/nvidia-container-runtime/config.toml", "accept-nvidia-visible-devices-envvar-when-unprivileged"
        os.makedirs(host)
        assert verdict("toolkit") is None, "this is no node"
        os.makedirs(host + "/var/lib/kubelet/device-plugins")
        unseen = verdict("toolkit")
        assert "cannot be seen from here" in unseen["found"]
        assert host in unseen["advice"] and "on-node" not in unseen["advice"], "that is what was run"
        os.makedirs(host + "/etc")
        assert "not installed" in verdict("toolkit")["found"]
        for text, good in (f"#{switch} = false\n", False), (f"{switch} = true\n", False), (f"{switch} = false\n", True):
            put(toolkit, text)
            found = verdict("toolkit")
            assert ("gives no devices" if good else "gets all of them, whole") in found["found"], found
            assert good or found["advice"].endswith(toolkit), found
        os.unlink(host + toolkit)
        put("/usr/local/nvidia/toolkit/.config/nvidia-container-runtime/config.toml", f"{switch} = true\n")
        assert "gets all of them, whole" in verdict("toolkit")["found"]

        put("/etc/containerd/config.toml", "enable_cdi = false\n")
        found = verdict("cdi")
        assert found["found"] == "containerd's configuration has enable_cdi = false" and "1.7 with enable_cdi" in found["advice"], found
        put("/etc/containerd/config.toml", "  enable_cdi = true\n")
        assert verdict("cdi")["found"].endswith("containerd's configuration has enable_cdi = true")
        os.makedirs(host + "/var/run/cdi")
        assert verdict("cdi")["found"].endswith("/cdi; containerd's configuration has enable_cdi = true")

        for name, path in ("kubelet", "device-plugins/kubelet.sock"), ("resources", "pod-resources/kubelet.sock"):
            path = f"{host}/var/lib/kubelet/{path}"
            assert "No such file" in verdict(name)["found"]
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(path)
                listener.listen()
                assert verdict(name)["found"].endswith("answers")

        plugins = host + "/var/lib/kubelet/device-plugins"
        assert verdict("plugin")["verdict"] == "wrong" and "mete has no socket" in verdict("plugin")["found"], verdict("plugin")
        assert verdict("owner")["found"] == "NVIDIA's is not running here"
        with socket.socket(socket.AF_UNIX) as dead, socket.socket(socket.AF_UNIX) as live, socket.socket(socket.AF_UNIX) as theirs:
            dead.bind(plugins + "/mete-former.sock")
            found = verdict("plugin")
            assert found["verdict"] == "wrong" and "mete-former.sock: Connection refused" in found["found"], found
            live.bind(plugins + "/mete-gpu.sock")
            live.listen()
            assert verdict("plugin")["found"].endswith("/mete-gpu.sock answers")
            theirs.bind(plugins + "/nvidia-gpu.sock")
            theirs.listen()
            found = verdict("owner")
            assert found["verdict"] == "wrong" and "alongside mete's" in found["found"] and "a device has one owner" in found["advice"], found
        registry = host + "/var/lib/kubelet/plugins_registry"
        os.makedirs(registry)
        with socket.socket(socket.AF_UNIX) as theirs:
            theirs.bind(registry + "/gpu.nvidia.com-reg.sock")
            theirs.listen()
            found = verdict("owner")
            assert found["verdict"] == "wrong" and "NVIDIA's DRA driver is running here" in found["found"] and "one owner" in found["advice"], found

        def claims(**more):
            lines = {"driver": "gpu.mete.dev", "server": "v1.36.3", "registered": "yes", "published": "2", "slices": "ok", "told": "ok", **more}
            put("/run/mete/dra", "".join(f"{key} {lines[key]}\n" for key in ("driver", "server", "registered", "published", "withheld", "slices", "told") if key in lines))
            found = verdict("claims")
            return found["verdict"], found["found"], found.get("advice", "")
        if not os.path.exists("/run/mete/dra"):
            assert verdict("claims") is None, "no GPU is given out by claims"
            assert claims() == ("ok", "gpu.mete.dev publishes 2 devices; Kubernetes v1.36.3 counts their shares", "")
            for more, word, found, advice in (
                    ({"slices": "the API server drops what makes a device shareable", "server": "v1.35.1"}, "wrong", "Kubernetes v1.35.1.*drops what", "DRAConsumableCapacity"),
                    ({"slices": "HTTP 403: forbidden"}, "wrong", "cannot be published.*403", "rbac.yaml"),
                    ({"registered": "no"}, "wrong", "kubelet has not registered", "plugins_registry"),
                    ({"withheld": "GPU-1 is NVIDIA's"}, "note", "2 devices are published, but device GPU-1 is NVIDIA's", ""),
                    ({"told": "HTTP 403: needs resourceclaims/driver"}, "note", "statuses cannot be told: HTTP 403", "resourceclaims/driver")):
                said = claims(**more)
                assert said[0] == word and re.search(found, said[1]) and advice in said[2], said


if __name__ == "__main__":
    run(globals())
