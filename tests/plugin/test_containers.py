#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The guest stands in the driver's place in real containers: test_containers.py METED SIMULATOR BUILD."""
from containers import *

LIMIT = 256 * MIB
COMPAT = "/usr/local/cuda-12.8/compat"


def found(machine, image, *names, **how):
    """The libraries that `opener` finds by those names, in a container."""
    done = machine.run(image, "/usr/bin/opener", *names, **how)
    assert done.status == 0, done
    return done.out.split()


def shown(machine, image, *paths, **how):
    done = machine.run(image, "/usr/bin/shown", *paths, **how)
    assert done.status == 0, done
    return done.out.split()


def works(machine, image, *before, **how):
    """A workload computes what it computes alone, and came to the tenant."""
    joins = machine.admin.tenant_row(machine.tenant.tenant).joins
    done = machine.run(image, *before, "/usr/bin/train", "steps=3", **how)
    assert done.status == 0 and done.out == machine.alone("train", "steps=3"), done
    assert machine.admin.tenant_row(machine.tenant.tenant).joins > joins


def test_a_workload_computes_the_same_in_a_container():
    with Machine() as machine:
        works(machine, machine.image())


def test_without_the_edits_nothing_is_found():
    """So that the other tests can fail."""
    with Machine() as machine:
        assert found(machine, machine.image(), *NAMES, how=None) == ["none"] * 4
        image = machine.image().driver(COMPAT)
        assert found(machine, image, COMPAT + "/libcuda.so.1", how=None) == ["other"]


def test_the_limit_holds_in_a_container():
    with Machine() as machine:
        done = machine.run(machine.image(), "/usr/bin/hoarder", f"limit={LIMIT}")
        assert done.status == 0 and " ok " in done.out, done
        row = machine.admin.tenant_row(machine.tenant.tenant)
        assert LIMIT // 2 < row.peak <= LIMIT, row


def test_all_names_find_the_guest_with_no_environment_at_all():
    with Machine() as machine:
        image = machine.image()
        assert found(machine, image, *NAMES) == ["guest"] * 4
        done = machine.run(image, "/usr/bin/env", "-i", "/usr/bin/opener", *NAMES)
        assert done.out.split() == ["guest"] * 4, done
        # A program that cleans the environment takes the simulator's settings, too: it is told where the node is.
        works(machine, image, "/usr/bin/env", "-i", "METE_SIM_DIR=/run/mete-sim")


def test_absolute_paths_of_a_drivers_usual_places_lead_to_the_guest():
    places = [LIBRARIES, "/usr/local/nvidia/lib64", "/usr/lib/wsl/lib"]
    with Machine() as machine:
        image = machine.image()
        for place in places:
            image.driver(place).driver(place, library="libnvidia-ml")
        paths = [f"{place}/{name}" for place in places
                 for name in ("libcuda.so.1", "libcuda.so.565.57.01", "libnvidia-ml.so.1")]
        assert found(machine, image, *paths, how=None)[::3] == ["other"] * len(places)
        assert found(machine, image, *paths) == ["guest"] * len(paths)


def test_a_program_with_an_rpath_finds_the_guest_there():
    with Machine() as machine:
        image = machine.image().driver(COMPAT).link("/usr/local/cuda", "cuda-12.8")
        image.program(BUILD + "/tests/plugin/opener_rpath")
        assert machine.run(image, "/usr/bin/opener_rpath", "libcuda.so.1", how=None).out == "other"
        assert machine.run(image, "/usr/bin/opener_rpath", "libcuda.so.1").out == "guest"


def test_compat_folders_are_covered_however_they_are_found():
    with Machine() as machine:
        ways = {
            "by the linker's cache": lambda i: i.put("/etc/ld.so.conf", "include ld.so.conf.d/*.conf\n")
            .put("/etc/ld.so.conf.d/cuda.conf", COMPAT + "\n").driver(COMPAT).ldconfig(),
            "by a cache alone, of an odd folder": lambda i: i.put("/etc/ld.so.conf", "/opt/odd\n")
            .driver("/opt/odd").ldconfig().put("/etc/ld.so.conf"),
        }
        for way, make in ways.items():
            image = machine.image()
            make(image)
            assert found(machine, image, "libcuda.so.1", how=None) == ["other"], way
            assert found(machine, image, "libcuda.so.1") == ["guest"], way
        image = machine.image().driver(COMPAT).driver("/opt/own/lib")
        for mark in ":;":  # glibc accepts both
            path = "LD_LIBRARY_PATH=" + mark.join(("/nothing", COMPAT, "/opt/own/lib"))
            assert found(machine, image, "libcuda.so.1", environment=[path], how=None) == ["other"]
            assert found(machine, image, "libcuda.so.1", "/opt/own/lib/libcuda.so.1", environment=[path]) == ["guest"] * 2
            works(machine, image, environment=[path])


def test_a_read_only_root_is_served():
    with Machine() as machine:
        image = machine.image()
        readonly = lambda config: config["root"].update(readonly=True)
        assert found(machine, image, *NAMES, change=readonly) == ["guest"] * 4
        works(machine, image, change=readonly)


class Unwritable:
    """The image's root as a mount that nobody can write to; what a runtime mounts things on is there."""

    def __init__(self, machine, image):
        self.root = image.root
        for mount in json.load(open(machine.edits("cdi")))["devices"][0]["containerEdits"]["mounts"]:
            if os.path.isdir(mount["hostPath"]):
                os.makedirs(image.at(mount["containerPath"]), exist_ok=True)
            else:
                image.put(mount["containerPath"])

    def __enter__(self):
        subprocess.run(["mount", "--bind", self.root, self.root], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", self.root], check=True)

    def __exit__(self, *_):
        subprocess.run(["umount", self.root], check=True)


def test_a_root_that_cannot_be_written_gets_a_layer_of_links():
    with Machine() as machine:
        for user_namespace in False, True:
            image = machine.image().driver(COMPAT)
            with Unwritable(machine, image):
                pass
            change = in_user_namespace(image) if user_namespace else None
            before = image.listing()
            with Unwritable(machine, image):
                assert found(machine, image, *NAMES, COMPAT + "/libcuda.so.1", change=change) == ["guest"] * 5
                works(machine, image, change=change)
            assert image.listing() == before


def test_files_mounted_into_a_container_are_not_written_to():
    with Machine() as machine:
        image = machine.image()
        volume = machine.place + "/volume"
        shutil.copytree(image.at(LIBRARIES), volume, symlinks=True)
        before = sorted(os.listdir(volume))

        def change(config):
            config["mounts"].append({"destination": LIBRARIES, "source": volume, "type": "bind", "options": ["bind", "rw"]})

        assert found(machine, image, *NAMES, change=change) == ["guest"] * 4
        works(machine, image, change=change)
        assert sorted(os.listdir(volume)) == before

        # Nor is it hidden what else lies in it.
        os.mkdir(volume + "/more")

        def change_more(config):
            change(config)
            config["mounts"].append({"destination": LIBRARIES + "/more", "source": "tmpfs", "type": "tmpfs"})

        done = machine.run(image, "/usr/bin/shown", "/", change=change_more)
        assert done.status != 0 and "other things are mounted in it" in done.err, done


def test_folders_shared_with_the_host_are_not_covered():
    """A mount over it would be the host's, too. In a mount namespace of the test's own, that stands for the host's."""
    script = """set -e; volume=$1; shift; mount -t tmpfs t "$volume"; mount --make-shared "$volume"
cp "$1"/* "$volume"; shift; "$@" || echo "status $?"; grep -c " $volume/" /proc/self/mountinfo || true"""
    with Machine() as machine:
        for to, content in ("/usr/local/lib", SIM), (LIBRARIES, None):
            image = machine.image()
            volume = image.root + "-volume"
            os.mkdir(volume)

            def change(config):
                config["linux"]["rootfsPropagation"] = "rshared"
                config["mounts"].append({"destination": to, "source": volume, "type": "bind", "options": ["bind", "rw", "rshared"]})

            done = machine.run(image, "/usr/bin/shown", "/", change=change,
                               wrap=["unshare", "-m", "--propagation", "private", "sh", "-c", script, "sh", volume,
                                     content or image.at(LIBRARIES)])
            assert done.out.split() == ["status", "1", "0"] and "is shared with the host" in done.err, done


def test_any_user_is_served():
    with Machine() as machine:
        image = machine.image()
        works(machine, image, user=1000)
        assert found(machine, image, *NAMES, user=4711) == ["guest"] * 4


def test_a_user_namespace_is_served():
    with Machine() as machine:
        image = machine.image().driver(COMPAT)
        change = in_user_namespace(image)
        assert found(machine, image, *NAMES, COMPAT + "/libcuda.so.1", change=change) == ["guest"] * 5
        works(machine, image, change=change)
        works(machine, image, change=change, user=1000)


def test_a_preload_of_the_containers_own_stays():
    with Machine() as machine:
        image = machine.image()
        preload = f"LD_PRELOAD=/lib/{MULTIARCH}/libm.so.6"
        done = machine.run(image, "/bin/sh", "-c", "while read -r line; do case $line in *libm.so*) echo is there; exit;; esac; done </proc/self/maps",
                           environment=[preload])
        assert done.out == "is there", done
        works(machine, image, environment=[preload])


def test_an_image_of_musl_has_the_guest_in_its_linkers_path():
    with Machine() as machine:
        for paths, folders in (None, ["/lib", "/usr/local/lib", "/usr/lib"]), ("/opt/a:/opt/b\n/opt/c\n", ["/opt/b", "/opt/c"]):
            image = machine.image()
            shutil.rmtree(image.at(LIBRARIES))
            shutil.rmtree(image.at("/usr/lib64"))
            image.put(f"/lib/ld-musl-{os.uname().machine}.so.1")
            for folder in folders[1:]:
                image.driver(folder)
            os.makedirs(image.at(folders[0]), exist_ok=True)
            if paths:
                image.put(f"/etc/ld-musl-{os.uname().machine}.path", paths)
            names = [f"{folders[0]}/{name}" for name in NAMES] + [f"{folder}/libcuda.so.1" for folder in folders[1:]]
            assert shown(machine, image, *names) == [machine.guest()] * len(names), names


def test_an_image_of_nothing_but_a_static_program_starts():
    with Machine() as machine:
        image = machine.image()
        for path in os.listdir(image.root):
            if path not in ("usr", "proc", "dev"):
                (os.unlink if os.path.islink(image.at(path)) else shutil.rmtree)(image.at(path))
        shutil.rmtree(image.at("/usr/lib"))
        assert shown(machine, image, GUEST) == [machine.guest()]


def test_a_container_that_starts_again_is_as_it_was():
    with Machine() as machine:
        image = machine.image().driver(COMPAT)
        assert found(machine, image, *NAMES) == ["guest"] * 4
        before = image.listing()
        assert found(machine, image, *NAMES) == ["guest"] * 4
        assert image.listing() == before
        # A link that leads nowhere any more is none.
        os.unlink(image.at(LIBRARIES + "/libcuda.so.1"))
        image.link(LIBRARIES + "/libcuda.so.1", "libcuda.so.535.1.2")
        assert found(machine, image, *NAMES) == ["guest"] * 4


def test_a_containers_own_ldconfig_changes_nothing():
    with Machine() as machine:
        image = machine.image().put("/etc/ld.so.conf", "include ld.so.conf.d/*.conf\n")
        image.put("/etc/ld.so.conf.d/own.conf", "/opt/own/lib\n").driver("/opt/own/lib")
        done = machine.run(image, "/bin/sh", "-c",
                           "/usr/bin/ldconfig && exec /usr/bin/opener /opt/own/lib/libcuda.so.1 " + " ".join(NAMES))
        assert done.out.split() == ["guest"] * 5, done
        assert found(machine, image, *NAMES) == ["guest"] * 4


class Release:
    """The simulator's libraries as a release of NVIDIA's driver lies in a folder, with some more files."""

    def __init__(self, machine, version):
        base = f"{machine.place}/release"
        self.folder = base + "/lib"
        os.makedirs(self.folder)
        os.symlink(BUILD + "/sim/mete-sim", base + "/mete-sim")
        for stem, so in (("libcuda", 1), ("libnvidia-ml", 1), ("libnvidia-ptxjitcompiler", 1), ("libnvidia-nvvm", 4),
                         ("libnvidia-opencl", 1), ("libnvidia-glcore", 1)):
            source = f"{SIM}/{stem}.so.1"
            real = f"{self.folder}/{stem}.so.{version}"
            if os.path.exists(source):
                shutil.copy(source, real)
            else:
                open(real, "w").close()
            os.symlink(os.path.basename(real), f"{self.folder}/{stem}.so.{so}")
        open(f"{self.folder}/libnvidia-container.so.1", "w").close()


def test_the_drivers_other_files_come_along_and_replace_other_versions():
    with Machine() as machine:
        release = Release(machine, "570.124.06")
        machine.driver = release.folder
        image = machine.image().put(COMPAT + "/libnvidia-ptxjitcompiler.so.565.57.01", "old")
        image.link(COMPAT + "/libnvidia-ptxjitcompiler.so.1", "libnvidia-ptxjitcompiler.so.565.57.01")
        image.put(COMPAT + "/libnvidia-ptxjitcompiler.so.560.1", "older")
        about = lambda name: "{0.st_dev}:{0.st_ino}".format(os.stat(f"{release.folder}/{name}"))
        jit, nvvm = about("libnvidia-ptxjitcompiler.so.1"), about("libnvidia-nvvm.so.4")
        wanted = {
            LIBRARIES + "/libnvidia-ptxjitcompiler.so.1": jit, LIBRARIES + "/libnvidia-ptxjitcompiler.so.570.124.06": jit,
            LIBRARIES + "/libnvidia-nvvm.so.4": nvvm, COMPAT + "/libnvidia-ptxjitcompiler.so.1": jit,
            COMPAT + "/libnvidia-ptxjitcompiler.so.565.57.01": jit, COMPAT + "/libnvidia-ptxjitcompiler.so.560.1": jit, DRIVER + "/libcuda.so.1": about("libcuda.so.1"),
            LIBRARIES + "/libcuda.so.1": machine.guest(), LIBRARIES + "/libnvidia-opencl.so.1": "-",
            DRIVER + "/libnvidia-opencl.so.1": "-", DRIVER + "/libnvidia-glcore.so.1": "-", DRIVER + "/libnvidia-container.so.1": "-",
        }
        assert dict(zip(wanted, shown(machine, image, *wanted))) == wanted
        works(machine, image)


def test_a_runtime_without_cdi_is_served_by_mounts():
    with Machine() as machine:
        image = machine.image().driver(COMPAT)
        assert found(machine, image, *NAMES, how="plain") == ["guest"] * 4
        works(machine, image, how="plain")
        done = machine.run(image, "/usr/bin/env", "-i", "/usr/bin/opener", *NAMES, how="plain")
        assert done.out.split() == ["guest"] * 4, done
        # By its name it is found wherever the image has another one; by a path it is not.
        assert found(machine, image, "libcuda.so.1", how="plain", environment=["LD_LIBRARY_PATH=" + COMPAT]) == ["guest"]


require_all("containers")
if __name__ == "__main__":
    run(globals())
