#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: up.sh DIR: starts a one-node Kubernetes in DIR and returns when its node is ready. down.sh DIR ends it;
# in.sh DIR COMMAND... runs something beside the node. Wants root; status 77 where this machine cannot.
# The node has mount, network, pid, ipc and uts namespaces of its own: several can run side by side.
#
#	DIR/images/*.tar          images that the node is to have (tools/oci.py makes them)
#	DIR/scheduler.fragment    is added to the scheduler's configuration: extenders, profiles
#	DIR/driver                is mounted by runtime handlers that imitate NVIDIA's toolkit: toolkit.py
#	DIR/log                   what each part said
#	DIR/state                 the node's disk, which `down.sh DIR --reboot` leaves for the next up.sh
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
dir=$(cd "$1" && pwd)
[ ! -e "$dir/run" ] || { echo "$dir: already up, or not taken down" >&2; exit 1; }
bin=$("$here/build.sh") || { status=$?; echo "$bin"; exit $status; }
ln -sfn "$bin" "$dir/bin"
# On the machine itself there must be something to mount on: empty folders, which are never removed, as
# another cluster may be mounted on them.
mkdir -p "$dir/run" "$dir/log" "$dir/images" /var/lib/kubelet /var/lib/cni /var/lib/mete /etc/cdi

if [ ! -e "$dir/images/busybox.tar" ]; then
	cc -O1 -static -o "$dir/run/pause" "$here/pause.c"
	python3 "$here/../../tools/oci.py" docker.io/library/pause:1 "$dir/images/pause.tar" /pause="$dir/run/pause"
	python3 "$here/../../tools/oci.py" docker.io/library/busybox:1 "$dir/images/busybox.tar" --busybox
fi

# Leftovers of clusters that nobody took down: groups of processes that are no more.
for group in $("$here/groups.sh" list | sort -u); do
	kill -0 "${group##*-}" 2>/dev/null || "$here/groups.sh" remove "$group" 2>/dev/null || :
done

# The word is "ready", of node.sh, or "ended", should that end first.
mkfifo "$dir/run/word"
{
	# shellcheck disable=SC2016
	sh -c 'echo $$ >"$1/run/unshare"
		exec setsid unshare --mount --propagation private --net --pid --ipc --uts --fork --kill-child --mount-proc \
			"$2/node.sh" "$1"' sh "$dir" "$here" || :
	echo ended >"$dir/run/word"
} </dev/null >"$dir/log/node" 2>&1 &
read -r word <"$dir/run/word"
rm "$dir/run/word"
if [ "$word" != ready ]; then
	tail -n 5 "$dir"/log/* >&2
	"$here/down.sh" "$dir"
	exit 1
fi
read -r unshare <"$dir/run/unshare"
pid=$(cat "/proc/$unshare/task/$unshare/children") # process 1 of the node, as the machine knows it
echo $pid >"$dir/run/pid"
