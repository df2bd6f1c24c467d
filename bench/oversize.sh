#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# About: a program larger than its device, on managed memory in part and altogether
# A program that goes through 1.5 times its device again and again: with oversize=managed, where only what does not fit is
# managed, against all of it in managed memory, as interposers have it that serve cuMemAlloc() so. Times of the simulated
# device, whose faults move 3.7 GB/s; the clock is slowed so that the machine's own time does not count.
set -eu
cd "$(dirname "$0")/.."
. bench/under_mete.inc
mib=1048576 dilate=4
export METE_SIM_MEMORY=512M METE_SIM_CONTEXT_MEMORY=8M METE_SIM_DILATE=$dilate

large=$("$build/cli/mete" run --quiet --oversize managed -- "$build/bench/circle" plain $((768 * mib)) 5)
all=$(METE_SIM_DIR="$scratch/sim" "$build/bench/circle" managed $((768 * mib)) 5)
echo "$large $all" | awk -v d=$dilate '{
	printf "a round of 768 MiB on 512 MiB: %.1f ms, all in managed memory %.1f ms\n", $1 / d / 1000, $2 / d / 1000
	printf "figure: oversize_against_all_managed %.2f times\n", $1 / $2 }'
