#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: in.sh DIR COMMAND...: runs a command beside the node of DIR: with its network, mounts and processes,
# in /var/lib/kubelet, /etc/cdi, /run, /dev/shm and /var/log. It ends when in.sh does.
dir=$(cd "$1" && pwd) && shift || exit
export PATH="$dir/bin:$PATH" KUBECACHEDIR="$dir/run/kubectl" KUBECONFIG="$dir/run/admin.kubeconfig" \
	CONTAINERD_ADDRESS=/run/containerd/containerd.sock \
	HTTP2_READ_IDLE_TIMEOUT_SECONDS=0 # as in node.sh
exec nsenter -t "$(cat "$dir/run/pid")" -m -n -p -i -u setpriv --pdeathsig KILL -- "$@"
