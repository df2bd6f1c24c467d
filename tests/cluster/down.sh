#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: down.sh DIR [--reboot]: ends the cluster of DIR. With --reboot its disk stays for the next up.sh.
# The end of process 1 of the node's pid namespace ends all of it, its mounts and its network.
set -u
dir=$(cd "$1" && pwd) || exit
[ -e "$dir/run" ] || exit 0
if unshare=$(cat "$dir/run/unshare" 2>/dev/null); then
	# unshare ends when process 1 has, and that when all others of its namespace have.
	python3 - "$unshare" "$dir" <<-'END'
	import os, select, signal, sys
	unshare, folder = int(sys.argv[1]), sys.argv[2]
	try:
	    end = os.pidfd_open(unshare)
	    with open(f"/proc/{unshare}/cmdline") as line:
	        if folder in line.read().split("\0"):
	            with open(f"/proc/{unshare}/task/{unshare}/children") as children:
	                for child in children.read().split():
	                    os.kill(int(child), signal.SIGKILL)
	            select.select([end], [], [])
	except (ProcessLookupError, FileNotFoundError):
	    pass  # it has ended
	END
	"$(dirname "$0")/groups.sh" remove "mete-cluster-$unshare"
fi
rm -rf "$dir/run"
[ "${2:-}" = --reboot ] || rm -rf "$dir/state"
