#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# About: how fast the simulator's PTX interpreter runs
# The PTX interpreter on examples/kernels/matmul.cu and saxpy.cu, made into PTX by clang.
set -eu
exec "$(dirname "$0")/../build/plain/bench/ptx_speed"
