#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# About: placement: decisions per second in large clusters
# Decisions per second at 1,213, 5,000 and 10,000 nodes (bench/placement.c).
set -eu
cd "$(dirname "$0")/.."
data=$(mktemp -d)
trap 'rm -rf "$data"' EXIT
for name in node_list_gpu_node pod_list_default; do
	gzip -dc "bench/data/openb/openb_$name.csv.gz" >"$data/$name.csv"
done
build/plain/bench/placement "$data/node_list_gpu_node.csv" "$data/pod_list_default.csv" "$@"
