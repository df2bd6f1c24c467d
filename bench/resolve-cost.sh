#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# About: what the guest adds to a look-up by cuGetProcAddress
# What the guest adds to a look-up by cuGetProcAddress_v2, over the null driver's own.
set -eu
cd "$(dirname "$0")/.."
. bench/added_instructions.inc

echo "figure: resolve_added_instructions $(added_instructions resolve 2000 22000) instructions"
