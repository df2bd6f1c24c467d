#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# About: what the host's pages cost when memory leaves a device for the first time
# A segment's pages, before anything is copied: what pinning faults in, over a fault for each page of 4 KiB, and what the daemon takes to
# prepare them beside it. The best of 5. Without copies and the driver's own part of pinning.
set -eu
cd "$(dirname "$0")/.."
TARGETS=bench/store_pages tools/build plain
for _ in 1 2 3 4 5; do build/plain/bench/store_pages "${MIB:-1024}"; done | awk '
	!($1 in best) || $2 < best[$1] { best[$1] = $2 }
	END {
		for (what in best) printf "%s: %d ns for a MiB, %.1f GB/s\n", what, best[what], 1048576 / best[what]
		printf "figure: store_map_times %.2f times\n", best["map"] / best["faults"]
	}'
