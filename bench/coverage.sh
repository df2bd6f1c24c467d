#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# About: every function that the driver exports, by every route: ways past the guest
# Every function that the driver exports, by every route, on a driver that records what it is called
# with (tests/guest/test_guest_calls.c). `escapes` counts ways past the guest to an enforcing function.
set -eu
cd "$(dirname "$0")/.."
build=$PWD/build/plain
failed=0
out=$(METE_TEST_DRIVERS=$build/tests/drivers METE_TEST_GUEST=$build/guest/12.9/libmete.so \
	LD_LIBRARY_PATH=$build/guest/12.9/lib "$build/tests/guest/test_guest_calls" 2>&1) || failed=1
[ $failed = 0 ] || printf '%s\n' "$out" | grep -v '^\[' >&2
value() {
	printf '%s\n' "$out" | sed -n "s/^$1: //p"
}
unwritten=$(grep -vc '^#' guest/unwritten.txt || true)
echo "figure: routes $(value routes) ways"
echo "figure: calls_compared $(value calls) calls"
echo "figure: changed_arguments $(value changed) calls"
echo "figure: gated_functions $(value gated) functions"
echo "figure: inert_functions $(($(value inert) + unwritten)) functions"
echo "figure: escapes $(value escapes) functions"
exit $failed
