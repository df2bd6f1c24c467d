#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: image.sh: prints the folder of a Debian 12 for a virtual machine (vmlinuz, initrd, root.img), and makes it where the user's
# cache does not have it yet. It is named by a hash of this folder's files that are in it. Wants root, QEMU and debootstrap; status 77
# where they are not, and prints one sentence that says what to do about it. Progress goes to standard error. What is in the machine is
# Debian's, and machine.sh, which starts what a second disk holds.
# METE_MIRROR: Debian's mirror; usually the one that this machine's apt uses.
set -eu
cd "$(dirname "$0")"

cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/mete
place=$cache/v2-$(cat image.sh machine.sh | sha256sum | cut -c1-16)
mirror=${METE_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null | grep -m 1 '/debian/*$' || :)}
# The machine itself; containers and Kubernetes; the product's libraries; what tests use.
packages="systemd systemd-sysv dbus udev kmod \
runc crun podman containernetworking-plugins busybox-static iproute2 openssl procps ca-certificates \
libuv1 libcjson1 libcurl4 libmicrohttpd12 libncursesw6 libnghttp2-14 libprotobuf-c1 libyaml-0-2 libcmocka0 \
meson python3 gcc libc6-dev"

# Debian's kernel from its package, without the tools that make an initrd for any machine: this one has a disk at /dev/vda.
add_kernel() { # NEW ROOT
	kernel=$1/kernel start=$1/initrd.d
	mkdir "$kernel" "$start" "$start/dev" "$start/root"
	package=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: //p' | head -n 1)
	(cd "$kernel" && apt-get download "$package" && dpkg-deb -x "$package"_*.deb .) || return
	cp "$kernel"/boot/vmlinuz-* "$1/vmlinuz"
	cp -a "$kernel/lib/modules" "$2/usr/lib/"
	chroot "$2" depmod "${package#linux-image-}" || return
	cp "$2/bin/busybox" "$start/"
	modules='virtio_ring virtio virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci virtio_blk'
	for module in $modules; do
		find "$kernel/lib/modules" -name "$module.ko" -exec cp {} "$start/" \;
	done
	cat >"$start/init" <<-END
	#!/busybox sh
	/busybox mount -t devtmpfs devtmpfs /dev
	for module in $modules; do /busybox insmod /\$module.ko; done
	until /busybox mount -t ext4 /dev/vda /root; do /busybox sleep 0.1; done
	exec /busybox switch_root /root /sbin/init
	END
	chmod 755 "$start/init"
	(cd "$start" && find . | "$2/bin/busybox" cpio -o -H newc) >"$1/initrd"
}

why=$(../../tools/needs virtual-machine) || {
	echo "$why"
	exit 77
}
mkdir -p "$cache"
exec 9>"$place.lock"
flock 9
if [ ! -d "$place" ]; then
	new=$place.making
	rm -rf --one-file-system "$new"
	mkdir "$new"
	echo "a Debian 12 for the virtual machine, once: 250 MB of packages, 5 to 10 minutes on two cores" >&2
	root=$new/root
	debootstrap --variant=minbase --include="$(echo "$packages" | tr -s ' ' ,)" bookworm "$root" "${mirror:-http://deb.debian.org/debian}" >"$new/log" 2>&1 || {
		tail -n 5 "$new/log" >&2
		exit 1
	}
	rm -f "$root"/var/cache/apt/archives/*.deb
	add_kernel "$new" "$root" >>"$new/log" 2>&1 || {
		tail -n 5 "$new/log" >&2
		exit 1
	}
	install -m 755 machine.sh "$root/sbin/mete-v2"
	echo mete-v2 >"$root/etc/hostname"
	printf '127.0.0.1 localhost mete-v2\n' >"$root/etc/hosts"
	cat >"$root/etc/systemd/system/mete-v2.service" <<-END
	[Unit]
	Description=what the second disk holds
	After=basic.target dbus.socket
	[Service]
	ExecStart=/sbin/mete-v2
	StandardOutput=tty
	StandardError=tty
	TTYPath=/dev/ttyS0
	Environment=HOME=/root
	KillMode=process
	LimitNOFILE=1048576
	TasksMax=infinity
	[Install]
	WantedBy=multi-user.target
	END
	mkdir -p "$root/etc/systemd/system/multi-user.target.wants"
	ln -s ../mete-v2.service "$root/etc/systemd/system/multi-user.target.wants/"
	truncate -s 4G "$new/root.img"
	mkfs.ext4 -q -d "$root" "$new/root.img"
	rm -rf --one-file-system "$root" "$new/kernel" "$new/initrd.d"
	mv "$new" "$place"
fi
echo "$place"
