#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: build.sh [--where]: prints the folder of the cluster's programs (Kubernetes, containerd, etcd), and builds
# them from Go modules where the user's cache does not have them yet. Progress goes to standard error.
# Status 77 where this machine cannot have a cluster, and prints one sentence that says why and what to do about it.
# --where: the folder's name alone, whether it is there or not.
set -eu
cd "$(dirname "$0")"

needs=../../tools/needs
cannot() {
	echo "$*"
	exit 77
}

cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/mete
bin=$cache/cluster-$(cat go.mod go.sum main.go | sha256sum | cut -c1-16)
if [ "${1:-}" = --where ]; then
	echo "$bin"
	exit 0
fi
why=$($needs kubernetes) || {
	status=$?
	[ $status = 77 ] || exit $status
	cannot "$why"
}
mkdir -p "$cache"
# The folder gets its name when all is in it; a process that comes meanwhile waits, and finds it.
exec 9>"$bin.lock"
flock -n 9 || { [ -d "$bin" ] || echo "the cluster's programs are being built by somebody else: waiting" >&2; flock 9; }
if [ -d "$bin" ]; then
	echo "$bin"
	exit 0
fi

export CGO_ENABLED=0 GOFLAGS="-mod=readonly -buildvcs=false"
go() { $needs --run go "$@"; }
new=$bin.building
rm -rf "$new"
mkdir "$new"
shim=github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2
echo "building the cluster's programs, once: 164 MB of Go modules, then 5 to 15 minutes on two cores" >&2
go list -deps . $shim >"$new/packages" 2>"$new/log" ||
	cannot "$($needs go-proxy || echo "Go's modules cannot be had: $(grep -v '^go: downloading' "$new/log" | tail -n 1); try again")"
total=$(wc -l <"$new/packages")

progress() { # the build's output, as a count of packages
	count=0 last=
	while read -r line; do
		echo "$line" >>"$new/log"
		last=$line count=$((count + 1))
		if [ -t 2 ]; then
			printf '\r%s of %s packages ' $count "$total" >&2
		elif [ $((count % 300)) = 0 ]; then
			echo "$count of $total packages" >&2
		fi
	done
	[ -t 2 ] && echo >&2
	[ "$last" = "built" ]
}

module() { go list -m -f '{{.Version}}' "$1"; }
kube=$(module k8s.io/kubernetes)
minor=${kube#v1.} minor=${minor%%.*}
version=k8s.io/component-base/version
flags="-s -w -X $version.gitVersion=$kube -X $version.gitMajor=1 -X $version.gitMinor=$minor"
flags="$flags -X github.com/containerd/containerd/v2/version.Version=$(module github.com/containerd/containerd/v2)"
# The shim is a program of its own: one runs for each pod.
{
	go build -v -trimpath -ldflags "$flags" -o "$new/testcluster" . 2>&1 &&
		go build -v -trimpath -ldflags "$flags" -o "$new/containerd-shim-runc-v2" $shim 2>&1 && echo built
} | progress || { tail -n 20 "$new/log" >&2; exit 1; }
for part in etcd containerd ctr kube-apiserver kube-controller-manager kube-scheduler kubelet kubectl; do
	ln -s testcluster "$new/$part"
done
mv "$new" "$bin"
echo "$bin"
