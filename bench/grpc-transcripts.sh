#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# About: mutated transcripts of gRPC peers against our server and client
# Mutated transcripts of real gRPC peers (tests/fuzz/corpus/grpc_*) against kube/'s server and client, under
# ASan and UBSan: a report, or a broken promise of tests/fuzz/fuzz_grpc_*.c, ends it. COUNT: in all.
set -eu
cd "$(dirname "$0")/.."
count=${COUNT:-1000000} seed=${METE_SEED:-$(date +%s)}
TARGETS='tests/fuzz/mutate_grpc_server tests/fuzz/mutate_grpc_client' tools/build san
echo "METE_SEED=$seed"
pids=
for side in server client; do
	UBSAN_OPTIONS=halt_on_error=1 build/san/tests/fuzz/mutate_grpc_$side $((count / 2)) "$seed" \
		"tests/fuzz/corpus/grpc_$side" &
	pids="$pids $!"
done
for pid in $pids; do
	wait "$pid"
done
echo "figure: grpc_mutated_transcripts $((count / 2 * 2)) count"
