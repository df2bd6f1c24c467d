#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# About: what the guest adds to the launch of a kernel
# What the guest adds to a launch while the gate is open: instructions on the calling thread over the
# bare call of a null driver, system calls, locked instructions. backtrace() is a test (guest_manners).
set -eu
cd "$(dirname "$0")/.."
. bench/added_instructions.inc

added=$(added_instructions launch 20000 120000)
# Where turns are taken, of kernels of 10 us: beside tenants that do not want the device (100 ms may be
# under way), and while one waits for it (4 ms). The samples are in it, with what they cost in the
# guest; the null driver's own part is not what a driver's would be.
beside=$(added_instructions launch-beside 20000 120000)
against=$(added_instructions launch-against 20000 120000)

# After the program has asked for the driver's private tables, as NVIDIA's runtime does.
tables=$(added_instructions tables-launch 20000 120000)

syscalls() { # COUNT
	METE_DRIVER=$driver valgrind --tool=none -q --trace-syscalls=yes \
		"$build/tests/guest/guest_cost" "$guest" launch "$1" 2>&1 | grep -c '^SYSCALL\[[0-9]*,1\]' || true
}
few=$(syscalls 20000)
many=$(syscalls 120000)
[ "$few" -gt 0 ] || { echo "launch-cost: valgrind shows no system call at all" >&2; exit 1; }

# The path of an open gate: up to the first return.
objdump -d --no-show-raw-insn --disassemble=cuLaunchKernel "$guest" |
	awk '/<cuLaunchKernel>:/ { inside = 1 } inside { print } inside && /\tret/ { exit }' >"$scratch/path"
grep -q 'call' "$scratch/path" || { echo "launch-cost: no disassembly of cuLaunchKernel" >&2; exit 1; }
locked=$(grep -cE '\block\b|\bxchg\b|\bcmpxchg|\bxadd\b|\bsyscall\b|\bmfence\b' "$scratch/path" || true)

# Start and end differ by a call or two from run to run.
awk -v n=$((many - few)) 'BEGIN { printf "figure: launch_added_syscalls %.3f calls\n", n < 0 ? 0 : n / 100000 }'
echo "figure: launch_locked_instructions $locked instructions"
echo "figure: launch_added_instructions_beside $beside instructions"
echo "figure: launch_added_instructions_against $against instructions"
echo "figure: launch_added_instructions_after_export_tables $tables instructions"
awk -v a="$tables" -v b="$added" 'BEGIN { printf "figure: launch_cost_after_export_tables_times %.2f times\n", a / b }'
echo "figure: launch_added_instructions $added instructions"
