#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# About: what the guest adds to an allocation and its return
# What the guest adds to a pair of allocating and freeing: on the simulated driver, under a real
# `mete run`, within the credit that is there; and how many messages pairs cost that exceed it.
set -eu
cd "$(dirname "$0")/.."
. bench/under_mete.inc

mib=$((1 << 20))
moving() { swap=auto "$@"; }
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
many=$(added alloc 4096 100000 20000 120000)
# Where memory can move, which is the default of `mete run`: of segments as PyTorch has them, and larger.
worst=-1000000
for size in 2 20 100; do
	pair=$(moving added alloc $((size * mib)) 4 500 2500)
	after=$(moving added tables-alloc $((size * mib)) 4 500 2500)
	echo "a pair of $size MiB that can move adds $pair instructions, and $after after export tables"
	worst=$(printf '%s\n' "$worst" "$pair" "$after" | sort -g | tail -n 1)
done
echo "figure: movable_pair_added_instructions $worst instructions"
# The second column: after the program has asked for the driver's private tables, as NVIDIA's runtime does.
large=$(added alloc $((4 * mib)) 1000 5000 25000)
tables_small=$(added tables-alloc 4096 100000 20000 120000)
tables_large=$(added tables-alloc $((4 * mib)) 1000 5000 25000)
echo "figure: async_alloc_free_added_instructions_after_export_tables $(added tables-async 4096 8 5000 25000) instructions"
echo "figure: large_alloc_free_added_instructions_after_export_tables $tables_large instructions"
echo "figure: alloc_free_added_instructions_after_export_tables $tables_small instructions"
awk -v a="$many" -v b="$large" -v c="$tables_small" -v d="$tables_large" 'BEGIN {
	printf "figure: alloc_cost_after_export_tables_times %.2f times\n", c / a > d / b ? c / a : d / b }'
awk -v a="$many" -v b="$few" 'BEGIN { printf "figure: alloc_free_growth %.1f percent\n", 100 * (a - b) / b }'
echo "figure: async_alloc_free_added_instructions $(added async 4096 8 5000 25000) instructions"
echo "figure: large_alloc_free_added_instructions $large instructions"
echo "figure: alloc_free_added_instructions $many instructions"
