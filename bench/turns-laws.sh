#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# About: the laws of taking turns, over 10 million random steps
# The laws of core/turns/turns.h over 10 million random steps (tests/unit/test_turns_always.c: 800 histories
# of 400 steps, times the scale). METE_SEED repeats a run.
set -eu
cd "$(dirname "$0")/.."
scale=32
METE_TEST_SCALE=$scale build/plain/tests/unit/test_turns_always
echo "figure: turns_laws_steps $((scale * 800 * 400)) steps"
