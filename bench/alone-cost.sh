#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# About: what mete costs a workload that has the device to itself
# What a workload costs that is alone on its device under mete, against the same without mete: instructions of all
# of its threads (callgrind), as the ratio of what so many steps more take. The most of all workloads is the figure.
set -eu
cd "$(dirname "$0")/.."
. bench/under_mete.inc

all_instructions() {
	how=$1
	shift
	"$how" valgrind --tool=callgrind -q --callgrind-out-file="$scratch/out" "$@" >/dev/null 2>&1
	sed -n 's/^totals: //p' "$scratch/out"
	rm -f "$scratch"/out*
}

# more with_guest|without_guest WORKLOAD SETTING FEW MANY
more() {
	echo $(($(all_instructions "$1" "$build/examples/$2" "$3=$5") - $(all_instructions "$1" "$build/examples/$2" "$3=$4")))
}

while read -r workload setting few many; do
	with=$(more with_guest "$workload" "$setting" "$few" "$many" </dev/null)
	without=$(more without_guest "$workload" "$setting" "$few" "$many" </dev/null)
	awk -v w="$workload" -v a="$with" -v b="$without" 'BEGIN { printf "%s %.5f\n", w, a / b }'
done <<END | tee "$scratch/ratios"
matmul rounds 4 12
train steps 10 30
inference requests 10 40
notebook cells 2 6
graph-loop launches 20 60
END
sort -k2n "$scratch/ratios" | awk 'END { printf "figure: alone_ratio %s times\n", $2 }'
