#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: [KUBE=36.3] [CONTAINERD=v2.3.7] [ETCD=v3.6.8] modules.sh: writes go.mod and go.sum anew, for an
# upgrade of the cluster.
set -eu
cd "$(dirname "$0")"
kube=${KUBE:-36.3}
rm -f go.mod go.sum
go mod init testcluster
go mod edit -require="k8s.io/kubernetes@v1.$kube" \
	-require="github.com/containerd/containerd/v2@${CONTAINERD:-v2.3.7}" \
	-require="go.etcd.io/etcd/server/v3@${ETCD:-v3.6.8}" \
	-tool=github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2
# k8s.io/kubernetes asks for its own parts as v0.0.0: say which release of each.
own=$(go mod download -json "k8s.io/kubernetes@v1.$kube" | sed -n 's/.*"GoMod": "\(.*\)",$/\1/p')
for module in $(sed -n 's|^	\(k8s.io/[^ ]*\) v0\.0\.0$|\1|p' "$own"); do
	go mod edit -require="$module@v0.$kube"
done
go mod tidy
