#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# About: time: how soon shares are right after a change (replayed)
# On the virtual clock of mete replay --time (bench/turns.c): the same figures on every machine.
exec "$(dirname "$0")/../build/plain/bench/turns" convergence
