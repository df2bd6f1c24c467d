#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Images that are made to lead the hook astray: test_hostile_images.py METED SIMULATOR BUILD.

Whatever an image holds, its container starts with the guest in place or does not start, for a reason that is said, and
nothing outside the container changes.
"""
import threading

from containers import *

COMPAT = "/usr/local/cuda/compat"


class Host:
    """Files that no container may change."""

    def __init__(self, machine):
        self.place = machine.place

    def __enter__(self):
        self.before = self.look()

    def look(self):
        files = [os.stat(path) for path in ("/etc/shadow", "/etc/passwd", "/dev/zero", HOOK, GUESTS + "/12.9/libmete.so")]
        mounts = [line for line in open("/proc/self/mountinfo") if self.place in line or "libmete" in line]
        return mounts, [(f.st_dev, f.st_ino, f.st_mode, f.st_mtime_ns, f.st_size) for f in files], \
            [name for name in os.listdir("/usr/lib/" + MULTIARCH) if name.startswith(("libcuda", "libnvidia"))]

    def __exit__(self, kind, *_):
        if kind is None:
            assert self.look() == self.before


def starts(machine, image, *paths, **how):
    """The container runs, finds the guest by its names, and has it at these paths."""
    with Host(machine):
        done = machine.run(image, "/usr/bin/opener", *NAMES, **how)
        assert done.status == 0 and done.out.split() == ["guest"] * 4, done
        done = machine.run(image, "/usr/bin/shown", *paths, **how)
        assert done.out.split() == [machine.guest()] * len(paths), done


def does_not_start(machine, image, why, **how):
    with Host(machine):
        done = machine.run(image, "/usr/bin/shown", "/", **how)
        assert done.status != 0 and not done.out and "mete-hook: " in done.err and why in done.err, done


def test_links_that_lead_in_circles():
    with Machine() as machine:
        image = machine.image()
        image.link(LIBRARIES + "/libcuda.so.1", "libcuda.so.1")
        image.link("/usr/local/lib", "/usr/local/lib64").link("/usr/local/lib64", "lib")
        image.link("/usr/local/cuda", "cuda").link("/usr/local/cuda-1", ".")
        image.link("/etc/ld.so.conf.d", "ld.so.conf.d").link("/etc/ld.so.cache", "ld.so.cache")
        image.put("/etc/ld.so.conf", "include ld.so.conf.d/*\n/usr/local/lib\n")
        starts(machine, image)


def test_links_that_lead_out_of_the_image():
    up = "../" * 40
    with Machine() as machine:
        image = machine.image()
        image.link(LIBRARIES + "/libcuda.so.1", "/etc/shadow").link(LIBRARIES + "/libnvidia-ml.so.1", up + "etc/shadow")
        image.link("/usr/local/cuda-1/compat", up + "usr/lib/" + MULTIARCH).link("/usr/local/cuda-2", up + "etc")
        image.link("/usr/local/nvidia/lib64", up + "tmp").put("/etc/ld.so.conf", f"/{up}etc\n/{up}/tmp\n")
        starts(machine, image)
        # Even where the image has such a file: what is hidden is the image's own.
        image = machine.image().put("/etc/shadow", "the image's").link(LIBRARIES + "/libcuda.so.1", up + "etc/shadow")
        starts(machine, image, "/etc/shadow")


def test_links_through_proc():
    with Machine() as machine:
        image = machine.image()
        image.link(LIBRARIES + "/libcuda.so.1", "/proc/self/exe").link(LIBRARIES + "/libcuda.so", "/proc/1/root/etc/shadow")
        image.link("/usr/local/cuda-1/compat", "/proc/self/cwd").link("/usr/local/cuda-2", "/proc/self/root/etc")
        image.link("/etc/ld.so.cache", "/proc/self/fd/0").link("/etc/ld.so.conf", "/proc/kmsg")
        starts(machine, image)


def test_the_guests_own_place_is_a_link():
    with Machine() as machine:
        image = machine.image().link("/usr/lib/mete", "/" + "../" * 30 + "opt/elsewhere")
        os.makedirs(image.at("/opt/elsewhere"))
        starts(machine, image, "/opt/elsewhere/libmete.so")
        # The runtime follows it; to a place where something else lies afterwards, it is not the guest.
        image = machine.image().link("/usr/lib/mete", "/proc/self")
        done = machine.run(image, "/usr/bin/shown", "/")
        assert done.status != 0 and not done.out, done


def test_a_path_that_is_no_file_is_not_read():
    with Machine() as machine:
        image = machine.image()
        os.makedirs(image.at("/etc/ld.so.conf.d"))
        os.mkfifo(image.at("/etc/ld.so.conf"))
        os.mknod(image.at("/etc/ld.so.cache"), 0o666 | stat.S_IFCHR, os.makedev(1, 5))
        os.makedirs(image.at(COMPAT))
        os.mkfifo(image.at(COMPAT + "/libcuda.so.1"))
        os.mknod(image.at(COMPAT + "/libnvidia-ml.so.1"), 0o666 | stat.S_IFCHR, os.makedev(1, 5))
        os.makedirs(image.at(COMPAT + "/libcuda.so.2"))
        with open(image.at(f"/lib/ld-musl-{os.uname().machine}.so.1"), "w"):
            os.mkfifo(image.at(f"/etc/ld-musl-{os.uname().machine}.path"))
        starts(machine, image, COMPAT + "/libcuda.so.1", COMPAT + "/libnvidia-ml.so.1")
        image = machine.image().put("/etc/ld.so.conf", "include /etc/ld.so.conf.d/*\n")
        os.makedirs(image.at("/etc/ld.so.conf.d"))
        os.mkfifo(image.at("/etc/ld.so.conf.d/a"))
        os.makedirs(image.at("/usr/lib64/libc.so.6"))
        os.makedirs(image.at("/usr/glibc-compat/lib"))
        os.mkfifo(image.at("/usr/glibc-compat/lib/libc.so.6"))
        starts(machine, image)


def test_a_folder_where_the_library_should_be_protects_itself():
    with Machine() as machine:
        image = machine.image()
        os.makedirs(image.at(LIBRARIES + "/libcuda.so.1"))
        with Host(machine):
            done = machine.run(image, "/usr/bin/opener", "libcuda.so.1", "libcuda.so")
            assert done.out.split() == ["error", "guest"], done


def test_a_file_that_is_too_large_to_be_read_is_refused():
    with Machine() as machine:
        image = machine.image()
        with open(image.at("/etc/ld.so.cache"), "wb") as file:
            file.truncate(1 << 40)
        does_not_start(machine, image, "/etc/ld.so.cache is larger than 8192 KiB")
        does_not_start(machine, machine.image().put("/etc/ld.so.conf", "#" * (300 << 10)), "ld.so.conf is larger than")
        does_not_start(machine, machine.image().put("/etc/ld.so.cache", b"/libcuda.so\0" * 500000), "more entries than are examined")
        does_not_start(machine, machine.image().put("/etc/ld.so.conf", "/\n" * 100 + "include /etc/*.conf\n"), "includes more than 256 files")
        image = machine.image()
        for i in range(1100):
            os.makedirs(image.at(f"/many/{i}"))
        image.put("/etc/ld.so.conf", "".join(f"/many/{i}\n" for i in range(1100)))
        does_not_start(machine, image, "more than 1024 folders")


def test_nonsense_is_passed_over():
    noise = bytes(range(256)) * 4000
    with Machine() as machine:
        image = machine.image().put("/etc/ld.so.conf", noise[:200000]).driver(COMPAT)
        image.put("/etc/ld.so.cache", noise + b"/" * 100000 + COMPAT.encode() + b"/libcuda.so.1\0" + noise)
        image.link("/etc/long", "x/" * 2000)
        starts(machine, image, COMPAT + "/libcuda.so.1")
        image = machine.image().put("/etc/ld.so.cache", b"\xff" * 20 + b"/opt/odd/libcuda.so.565.57.01").driver("/opt/odd")
        starts(machine, image, "/opt/odd/libcuda.so.1")


def test_a_volume_that_others_change_meanwhile():
    """As another container of the pod may: what is found is a file, a link out, a pipe, a folder, in turn."""
    with Machine() as machine:
        volume, over = machine.place + "/volume", threading.Event()
        os.mkdir(volume)

        def restless():
            kinds = [lambda p: os.symlink("/etc/shadow", p), os.mkfifo, os.mkdir, lambda p: open(p, "w").close(),
                     lambda p: os.symlink("../" * 30 + "etc/passwd", p), lambda p: os.symlink(os.path.basename(p), p)]
            at = 0
            while not over.is_set():
                for name in NAMES:
                    new = f"{volume}/new{at}"
                    kinds[at % len(kinds)](new)
                    at += 1
                    old = f"{volume}/{name}"
                    if os.path.isdir(old) and not os.path.islink(old):
                        os.rmdir(old)
                    if os.path.isdir(new) and not os.path.islink(new) and os.path.lexists(old):
                        os.unlink(old)
                    os.rename(new, old)

        thread = threading.Thread(target=restless)
        thread.start()
        change = lambda config: config["mounts"].append(
            {"destination": "/usr/local/lib", "source": volume, "type": "bind", "options": ["bind", "rw"]})
        try:
            with Host(machine):
                for _ in range(20):
                    done = machine.run(machine.image(), "/usr/bin/opener", *NAMES, change=change)
                    assert done.out.split() == ["guest"] * 4 if done.status == 0 else "mete-hook: " in done.err, done
        finally:
            over.set()
            thread.join()


def test_a_hook_without_its_mounts_starts_nothing():
    """As where a runtime runs it too early, or drops the mounts."""
    with Machine() as machine:
        def without(config):
            config["mounts"] = [m for m in config["mounts"] if m["destination"] != GUEST]
        does_not_start(machine, machine.image(), "the container has no " + GUEST, change=without)
        does_not_start(machine, machine.image().put(GUEST, "mine"), "is not the host's", change=without)

        def too_early(config):
            config["hooks"] = {"createRuntime": config["hooks"]["createContainer"]}
        does_not_start(machine, machine.image(), "the container has no " + GUEST, change=lambda c: (without(c), too_early(c)))

        def another(config):
            config["hooks"]["createContainer"][0]["args"][1] = "/etc/passwd"
        does_not_start(machine, machine.image(), "is not the host's", change=another)


require_all("containers")
if __name__ == "__main__":
    run(globals())
