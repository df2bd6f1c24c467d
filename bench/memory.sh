#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# About: memory that moves between the device and the host (replayed)
# Memory that moves, on a virtual clock: two jobs that each fill a GPU, a handover, what fits; and
# recorded pods, four on each GPU: METE_PODS names the table (t_s,pod,duty,memory_bytes), by default
# the one beside the project. It may not be copied into it.
set -eu
cd "$(dirname "$0")/.."
build/plain/bench/memory
pods=${METE_PODS:-../shared/data/gentd26/pods.csv}
[ -f "$pods" ] || [ -f "$pods.gz" ] || { echo "no table of pods at $pods" >&2; exit 0; }
out=$(build/plain/cli/mete replay --memory --quiet --json --pods "$pods")
value() { printf '%s\n' "$out" | sed "s/.*\"$1\":\([0-9.]*\).*/\1/"; }
echo "figure: notebooks_most_held $(value most_held) times"
echo "figure: deferred_work_percent $(value deferred_percent) percent"
echo "figure: collides_percent $(value collides_percent) percent"
echo "figure: notebooks_longest_wait_s $(value longest_wait_s) s"
echo "figure: notebooks_out_of_memory $(value refused) asks"
