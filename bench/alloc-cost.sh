#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the guest adds to a pair of cuMemAlloc and cuMemFree, within the credit that it holds: while
# 100,000 other allocations are there, and while there are 100; small ones, which share blocks of
# 2 MiB, and large ones.
set -eu
cd "$(dirname "$0")/.."
. bench/added_instructions.inc

few=$(added_instructions alloc-100 20000 120000)
many=$(added_instructions alloc-100000 20000 120000)
echo "figure: large_alloc_free_added_instructions_100 $(added_instructions large-100 20000 120000) instructions"
echo "figure: large_alloc_free_added_instructions $(added_instructions large-100000 20000 120000) instructions"
echo "figure: alloc_free_added_instructions_100 $few instructions"
awk -v a="$many" -v b="$few" 'BEGIN { printf "figure: alloc_free_growth %.1f percent\n", 100 * (a - b) / b }'
echo "figure: alloc_free_added_instructions $many instructions"
