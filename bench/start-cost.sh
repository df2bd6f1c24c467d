#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# About: what the guest adds to the start of a program
# What the guest adds to the start of a program, as instructions of its first thread: to one that never
# calls CUDA (`true`, preloaded), and to cuInit. The driver's own start is in both and cancels out.
set -eu
cd "$(dirname "$0")/.."
. bench/under_mete.inc

preloaded() { LD_PRELOAD="$build/guest/12.9/libmete.so" "$@"; }
pairs="$build/bench/pairs"
preload=$(($(instructions preloaded /bin/true) - $(instructions without_guest /bin/true)))
init=$(($(instructions with_guest "$pairs" init 0 0 0) - $(instructions without_guest "$pairs" init 0 0 0)))
# Other settings of `mete run` (folders to search) are in the figure of cuInit.
echo "figure: relocations $(readelf -rW "$build/guest/12.9/libmete.so" | grep -c R_X86_64_) relocations"
echo "figure: init_added_instructions $((init - preload)) instructions"
echo "figure: preload_added_instructions $preload instructions"
