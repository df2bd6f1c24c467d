#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: kueue.sh: prints the folder of Kueue's manager and its CRDs (crd/), and builds it from the Go proxy where the user's cache does
# not have it yet. Status 77 where this machine cannot have it, and prints one sentence that says why.
set -eu
cd "$(dirname "$0")"

version=v0.17.0 # what docs/kueue.md speaks of
needs=../../tools/needs
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/mete
bin=$cache/kueue-$version
why=$($needs kubernetes) || { echo "$why"; exit 77; }
mkdir -p "$cache"
exec 9>"$bin.lock"
flock 9
[ -d "$bin" ] || {
	new=$bin.building
	rm -rf "$new"
	mkdir "$new"
	export CGO_ENABLED=0 GOFLAGS=-buildvcs=false GOBIN="$new"
	echo "building Kueue $version, once: 5 to 15 minutes on two cores" >&2
	$needs --run go install -trimpath -ldflags=-s "sigs.k8s.io/kueue/cmd/kueue@$version" >"$new/log" 2>&1 || {
		echo "Kueue $version cannot be had of the Go proxy: $(grep -v '^go: downloading' "$new/log" | tail -n 1)"
		exit 77
	}
	cp -r "$($needs --run go env GOMODCACHE)/sigs.k8s.io/kueue@$version/config/components/crd/bases" "$new/crd"
	chmod -R u+w "$new"
	mv "$new" "$bin"
}
echo "$bin"
