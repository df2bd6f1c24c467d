#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: inside.sh OUT: in the virtual machine, from the tree's folder: runs the tests that tools/test-v2 asked for, and leaves in OUT
# what that takes back. Its status is not 0 where a test failed.
out=$1 failed=0
export XDG_CACHE_HOME="$PWD/build/cache" PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8
. build/v2/environment
export METE_SEEN="$PWD/build/v2/seen"
mkdir -p build/plain/meson-logs
mount -o remount,size=50% /run /tmp 2>/dev/null

echo "== $(uname -sr), $(systemctl --version | head -n 1), $(stat -fc %T /sys/fs/cgroup): $(cat /sys/fs/cgroup/cgroup.controllers)"
kubernetes=$(grep '^kubernetes' build/v2/tests)
others=$(grep -v '^kubernetes' build/v2/tests)
if [ -n "$others" ]; then
	# shellcheck disable=SC2086
	meson test -C build/plain --no-rebuild --print-errorlogs --logbase v2 --num-processes 2 -t "$METE_V2_SLOWER" $others >build/v2/said 2>&1 || failed=1
	cat build/v2/said
fi
if [ -n "$kubernetes" ]; then
	# shellcheck disable=SC2086
	LOGBASE=v2-kubernetes tools/test-kubernetes -t "$METE_V2_SLOWER" $kubernetes >build/v2/said 2>&1 || failed=1
	cat build/v2/said
fi
cp build/plain/meson-logs/v2*.json build/plain/meson-logs/v2*.txt "$out" 2>/dev/null
cp -r build/v2/seen "$out" 2>/dev/null
[ $failed = 0 ] || for folder in build/plain/kubernetes/*/log; do
	[ ! -d "$folder" ] || cp -r "$folder" "$out/$(basename "$(dirname "$folder")")"
done
exit $failed
