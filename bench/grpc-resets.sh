#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# About: 50,000 gRPC calls that are begun and left at once
# 50,000 calls that are begun and left at once: see grpc_resets.c.
exec "$(dirname "$0")/../build/plain/bench/grpc_resets" "${COUNT:-50000}"
