#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# About: what movable memory costs a tenant that is alone
# What `--swap auto` costs a tenant that is alone on its device, against `--swap off`: instructions of the
# calling thread (callgrind), on the simulated driver, under a real `mete run`, as the difference of two run
# lengths. Of a launch: the guest's own, since the rest depends on when the simulator's threads run. Of a pair
# of allocating and freeing: with the driver's part, because movable memory takes more calls of the driver;
# and the guest's own. Modelled: by the times that the simulated device takes for these calls.
set -eu
cd "$(dirname "$0")/.."
. bench/under_mete.inc

moves() { "$build/cli/mete" run --swap auto -- "$@"; }
stays() { "$build/cli/mete" run --swap off -- "$@"; }

# against WHAT BYTES LIVE FEW MANY: whole and guest where memory moves, and where it stays.
against() { echo "$(each moves "$@") $(each stays "$@")"; }

# timed moves|stays: microseconds of a pair on a device that takes its usual time, on a clock so slow that the
# machine's own time does not count.
timed() {
	METE_SIM_CREATE_COST=60us METE_SIM_CLEAR_RATE=2.4T METE_SIM_DILATE=$dilate "$1" \
		"$build/bench/pairs" timed $((4 << 20)) 0 100 </dev/null
}
dilate=200

# movable NAME WHAT: bytes that leave when it is suspended, of three segments of 20 MiB that are there while a fourth
# comes and goes within the credit.
movable() {
	mkfifo "$scratch/$1"
	"$build/cli/mete" run --swap auto --name "$1" -- "$build/bench/pairs" "$2" $((20 << 20)) 3 1 <"$scratch/$1" >/dev/null &
	exec 3>"$scratch/$1"
	python3 - "$build/cli/mete" "$1" <<'END'
import json, subprocess, sys, time

def row():
    said = subprocess.run([sys.argv[1], "ps", "--json"], capture_output=True, text=True).stdout
    return next((t for t in json.loads(said or "{}").get("tenants", []) if t["name"] == sys.argv[2]), {})

while row().get("allocated_bytes", 0) < 60 << 20:
    time.sleep(0.05)
subprocess.run([sys.argv[1], "suspend", "--wait", "10m", sys.argv[2]], check=True, stdout=subprocess.DEVNULL)
print(row()["out_bytes"])
subprocess.run([sys.argv[1], "resume", sys.argv[2]], check=True, stdout=subprocess.DEVNULL)
END
	exec 3>&-
	wait
}
# Ratios of bytes: with PART=bytes this alone, which takes seconds and does not depend on the machine's load.
without=$(movable without until)
with=$(movable with tables-until)
echo "$with bytes leave after export tables, and $without where nobody asks for them"
awk -v a="$with" -v b="$without" 'BEGIN { printf "figure: movable_after_export_tables_percent %.0f percent\n", 100 * a / b }'
[ "${PART:-all}" != bytes ] || exit 0
# The second column: the same after the program has asked for the driver's private tables, as NVIDIA's runtime does.
launch=$(against launch $((4 << 20)) 10 20000 120000)
large=$(against alloc $((4 << 20)) 100 500 2500)
small=$(against alloc 4096 100 2000 12000)
echo "launch, 4 MiB, 4 KiB: whole and guest's where memory moves, and where it stays"
printf '%s\n' "$launch" "$large" "$small"
tables_launch=$(against tables-launch $((4 << 20)) 10 20000 120000)
tables_large=$(against tables-alloc $((4 << 20)) 100 500 2500)
tables_small=$(against tables-alloc 4096 100 2000 12000)
echo "the same after export tables"
printf '%s\n' "$tables_launch" "$tables_large" "$tables_small"
timed="$(timed moves) $(timed stays)"
echo "$timed" | awk -v d=$dilate '{
	printf "a pair of 4 MiB takes the simulated device %.0f us where memory moves, and %.0f us where it stays\n", $1 / d, $2 / d
	printf "figure: movable_allocation_modelled_times %.2f times\n", $1 / $2 }'
echo "$launch" | awk '{ printf "figure: movable_launch_added_instructions %.2f instructions\n", $2 - $4 }'
echo "$tables_launch" | awk '{ printf "figure: movable_launch_added_instructions_after_export_tables %.2f instructions\n", $2 - $4 }'
echo "$tables_small" | awk '{ printf "figure: movable_small_allocation_times_after_export_tables %.2f times\n", $1 / $3 }'
echo "$tables_large" | awk '{ printf "figure: movable_allocation_times_after_export_tables %.2f times\n", $1 / $3 }'
echo "$small" | awk '{ printf "figure: movable_small_allocation_times %.2f times\n", $1 / $3 }'
echo "$large" | awk '{ printf "figure: movable_allocation_added_guest_instructions %.0f instructions\n", $2 - $4
	printf "figure: movable_allocation_times %.2f times\n", $1 / $3 }'
