#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# About: time: recorded pods on shared GPUs (replayed)
# Recorded pods on shared GPUs: METE_PODS names the table (t_s,pod,duty,memory_bytes), by default
# the one beside the project. It may not be copied into it.
set -eu
cd "$(dirname "$0")/.."
pods=${METE_PODS:-../shared/data/gentd26/pods.csv}
began=$(date +%s%N)
build/plain/cli/mete replay --time --quiet --pods "$pods"
# 8 rows of 200 GPUs of 60 s; with turns, without, and one pod alone.
echo "figure: time_replay_speed $((8 * 200 * 60 * 3 * 1000 / (($(date +%s%N) - began) / 1000000))) times"
