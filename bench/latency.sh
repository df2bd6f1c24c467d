#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# About: time: how long an interactive tenant waits beside a batch job (replayed)
# On the virtual clock of mete replay --time (bench/turns.c): the same figures on every machine.
exec "$(dirname "$0")/../build/plain/bench/turns" latency
