#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: keep.sh DIR: brings the cluster of DIR up, prints "ready", and takes it down when standard input ends: when the process that holds its other
# end closes it, or dies, however it dies. (A session of its own keeps it from the terminal's Ctrl-C.) A line "reboot" restarts the node with its
# disk; "ready" again when that is done.
here=$(cd "$(dirname "$0")" && pwd)
"$here/up.sh" "$1" || exit
echo ready
while read -r line; do
	[ "$line" = reboot ] || continue
	"$here/down.sh" "$1" --reboot
	"$here/up.sh" "$1" || break
	echo ready
done
exec "$here/down.sh" "$1"
