#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# On the virtual clock of mete replay --time (bench/turns.c): the same figures on every machine.
exec "$(dirname "$0")/../build/plain/bench/turns" idle
