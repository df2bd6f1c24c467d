#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# About: time: how evenly tenants are served (replayed), and those that are alike (real programs)
# On the virtual clock of mete replay --time (bench/turns.c): the same figures on every machine.
set -eu
"$(dirname "$0")/../build/plain/bench/turns" fairness
exec "$(dirname "$0")/alike.py"
