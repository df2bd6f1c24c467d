#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# About: placement: 4 million random requests against brute force
# Each random request is compared on every node of a small cluster that changes all the time: does it fit (brute force over
# all GPUs for all containers), and does the reason of a refusal bind? The two tests try 6,000 requests at a scale of 1 on
# five nodes (tests/unit/test_placement_always.c), and stop at the first fault: a figure is printed only if there was none.
# BRUTE_SCALE=10 make -s bench BENCH=brute is a shorter run; METE_SEED=N repeats one.
set -eu
cd "$(dirname "$0")/.."
scale=${BRUTE_SCALE:-667}
seed=${METE_SEED:-$(date +%s)}
log=$(mktemp -d)
trap 'rm -rf "$log"' EXIT
check() { # TEST
	METE_SEED=$seed METE_TEST_SCALE=$scale METE_TEST_ONLY=$1 build/plain/tests/unit/test_placement_always >"$log/$1" 2>&1 &&
		grep -q "^\[       OK \] $1\$" "$log/$1" && return
	cat "$log/$1" >&2
	echo "brute: $1 failed with METE_SEED=$seed METE_TEST_SCALE=$scale" >&2
	return 1
}
check a_pod_of_several_containers_is_refused_only_where_nothing_fits &
fits=$!
check a_refusal_names_a_constraint_that_binds
wait $fits
echo "seed $seed, five nodes: $((30000 * scale)) answers each"
echo "figure: brute_requests $((6000 * scale)) requests"
echo "figure: brute_wrong_answers 0 requests"
echo "figure: brute_false_reasons 0 requests"
