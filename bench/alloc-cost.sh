#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# About: what the guest adds to an allocation and its return
# What the guest adds to a pair of allocating and freeing: on the simulated driver, under a real
# `mete run`, within the credit that is there; and how many messages pairs cost that exceed it. "After export
# tables": after the program has asked for the driver's private tables, as NVIDIA's runtime does.
#
# The cost is the difference between the program with the guest and without it, and the simulated driver's part is in both: where the guest spares
# calls of the driver, that is subtracted. The guest's own instructions are those that are executed in its library, whatever the driver does.
set -eu
cd "$(dirname "$0")/.."
. bench/under_mete.inc

mib=$((1 << 20))
echo "figure: sync_added_instructions $(added sync 0 0 20000 120000) instructions"
echo "figure: block_alloc_free_added_instructions $(added alloc $mib 0 2000 12000) instructions"
echo "figure: messages_per_1000_pairs_20mib $(messages segments $((20 * mib)) 160 1760) messages"
# Another tenant on the device, which lives until its standard input ends.
mkfifo "$scratch/end"
with_guest "$build/bench/pairs" until $((50 * mib)) 0 1 <"$scratch/end" &
exec 3>"$scratch/end"
beside=$(messages alloc $((100 * mib)) 200 1200)
exec 3>&-
wait
echo "figure: messages_per_1000_pairs_beside_a_rival $beside messages"
echo "figure: messages_per_1000_pairs $(messages alloc $((100 * mib)) 200 1200) messages"
few=$(added alloc 4096 100 20000 120000)
# both WHAT BYTES LIVE FEW MANY: what a pair adds, and what of it is the guest's own; in `before`, and after export
# tables in `after`. The ratio is of the guest's own, since the simulated driver's part of a pool varies by chance.
both() {
	what=$1
	shift
	before=$(pair "$what" "$@")
	after=$(pair "tables-$what" "$@")
	echo "$before $after" | awk '{ printf "%.4f\n", $4 / $2 }' >>"$scratch/times"
}
pair() { printf '%s %s\n' "$(each with_guest "$@")" "$(each without_guest "$@")" | awk '{ printf "%.2f %.2f\n", $1 - $3, $2 }'; }
show() { # WHAT: of the last both()
	echo "$before $after" | awk -v what="$1" '{
		printf "%s: adds %s instructions, %s after export tables; of the guest'"'"'s own %s and %s\n", what, $1, $3, $2, $4 }'
}
# Where memory can move, which is the default of `mete run`: of segments as PyTorch has them, and larger.
swap=auto
for size in 2 20 100; do
	both alloc $((size * mib)) 4 500 2500
	show "a pair of $size MiB that can move"
	echo "$before $after" >>"$scratch/movable"
done
swap=off
both alloc 4096 100000 20000 120000
show "a pair of 4 KiB"
many=${before% *} tables_small=${after% *}
both alloc $((4 * mib)) 1000 5000 25000
show "a pair of 4 MiB"
large=${before% *} tables_large=${after% *}
both async 4096 8 5000 25000
show "a pair of 4 KiB by cuMemAllocAsync"
async=${before% *} tables_async=${after% *}
echo "figure: async_alloc_free_added_instructions_after_export_tables $tables_async instructions"
echo "figure: large_alloc_free_added_instructions_after_export_tables $tables_large instructions"
echo "figure: alloc_free_added_instructions_after_export_tables $tables_small instructions"
printf 'figure: alloc_cost_after_export_tables_times %.2f times\n' "$(sort -g "$scratch/times" | tail -n 1)"
awk -v a="$many" -v b="$few" 'BEGIN { printf "figure: alloc_free_growth %.1f percent\n", 100 * (a - b) / b }'
echo "figure: async_alloc_free_added_instructions $async instructions"
echo "figure: large_alloc_free_added_instructions $large instructions"
echo "figure: alloc_free_added_instructions $many instructions"
awk 'NR == 1 { own = added = -1e9 }
	{ if ($1 > added) added = $1; if ($3 > added) added = $3; if ($2 > own) own = $2; if ($4 > own) own = $4 }
	END { printf "figure: movable_pair_guest_instructions %.2f instructions\n", own
		printf "figure: movable_pair_added_instructions %.2f instructions\n", added }' "$scratch/movable"
