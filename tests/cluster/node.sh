#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Usage: node.sh DIR: process 1 of the node, started by up.sh in namespaces of its own.
#
# Each part starts again when it is killed, and its process id (of the node's namespace) is in DIR/run/PART.pid.
# A process that holds the lock of DIR/run/PART.hold (flock) holds that start back.
set -eu
dir=$1 run=$1/run log=$1/log state=$1/state
here=$(dirname "$0")
export PATH="$dir/bin:$PATH:/usr/sbin:/sbin" KUBECACHEDIR="$run/kubectl"
export GOGC=400 # the parts are small, and none lives long: memory is cheaper than a tenth of their time for collecting garbage
# Clients would give a connection up for lost, and with it what they had asked, whose server has not answered a ping for 15 s: on a busy
# machine it may not. Here a connection does not get lost without a word: a process that is killed closes it.
export HTTP2_READ_IDLE_TIMEOUT_SECONDS=0
ip=10.99.0.1
unshare=$(cat "$run/unshare")
name=mete-cluster-$unshare
hostname node

# The network: an address of the node on lo (the kubelet refuses 127.0.0.1), the API's service address, on
# which the server listens itself, so that no kube-proxy is needed, and a default route.
ip link set lo up
ip address add $ip/32 dev lo
ip address add 10.96.0.1/32 dev lo
ip route add default dev lo
printf '127.0.0.1 localhost\n%s node\n' $ip >"$run/hosts"
mount --bind "$run/hosts" /etc/hosts
[ -e /etc/resolv.conf ] && mount --bind /dev/null /etc/resolv.conf # a name that is looked up must fail, not hang

# Places of its own instead of the machine's. up.sh has made what is mounted on.
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /dev/shm
mkdir -m 1777 /run/lock
mount --bind "$log" /var/log
for place in /var/lib/kubelet /var/lib/cni /var/lib/mete /etc/cdi; do
	mkdir -p "$state$place"
	mount --bind "$state$place" $place
done
mkdir -p "$state/cni" "$run/sys"
for setting in vm/overcommit_memory=1 kernel/panic=10 kernel/panic_on_oops=1; do
	# The kubelet insists on these: it is given files to see.
	file=$run/sys/$(basename "${setting%=*}")
	echo "${setting#*=}" >"$file"
	mount --bind "$file" "/proc/sys/${setting%=*}"
done
# As systemd leaves a machine's; only now, or what is mounted below the folders above would be mounted twice.
mount --make-rshared /
"$here/groups.sh" make "$name"

# Identities. They are on the node's disk, with the server's certificate: a reboot does not change them.
tls=$state/tls
mkdir -p "$tls"
[ -e "$tls/sa.key" ] || openssl genrsa -out "$tls/sa.key" 2048 2>/dev/null
openssl rsa -in "$tls/sa.key" -pubout -out "$tls/sa.pub" 2>/dev/null
identity() { # identity FILE USER GROUP
	local token
	token=$(head -c 16 /dev/urandom | od -An -tx8 | tr -d ' \n')
	echo "$token,$2,$2,$3" >>"$run/tokens"
	cat >"$run/$1.kubeconfig" <<-END
	apiVersion: v1
	kind: Config
	clusters: [{name: c, cluster: {server: "https://$ip", certificate-authority: "$tls/apiserver.crt"}}]
	users: [{name: u, user: {token: "$token"}}]
	contexts: [{name: x, context: {cluster: c, user: u}}]
	current-context: x
	END
}
identity admin admin system:masters
identity kubelet system:node:node system:nodes
identity scheduler system:kube-scheduler ""
identity manager system:kube-controller-manager ""

# Two runtimes beside runc, which imitate NVIDIA's toolkit where there is a driver: one that believes any
# container's environment, as the toolkit does by default, and one that believes privileged ones only.
runtimes=
for who in anyone privileged; do
	printf '#!/bin/sh\nexec /usr/bin/python3 %s %s %s "$@"\n' "$here/toolkit.py" "$dir/driver/lib" $who >"$run/toolkit-$who"
	chmod 755 "$run/toolkit-$who"
	runtimes="$runtimes
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.toolkit-$who]
runtime_type = 'io.containerd.runc.v2'
options = {BinaryName = '$run/toolkit-$who'}"
done
cat >"$run/containerd.toml" <<END
version = 3
root = "$state/containerd"
state = "/run/containerd"
[grpc]
address = "/run/containerd/containerd.sock"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "docker.io/library/pause:1"
[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ["/usr/lib/cni"]
conf_dir = "$state/cni"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = 'io.containerd.runc.v2'
$runtimes
[plugins.'io.containerd.internal.v1.opt']
path = "$state/opt"
END
cat >"$state/cni/10-bridge.conflist" <<END
{"cniVersion": "1.0.0", "name": "bridge", "plugins": [{"type": "bridge", "bridge": "cni0", "isDefaultGateway": true,
 "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.98.0.0/22"}]]}}]}
END
# Times that are shorter than usual: tests wait for their effects. A node that has not changed need not say so each time.
cat >"$run/kubelet.yaml" <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupRoot: /$name
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
crashLoopBackOff: {maxContainerRestartPeriod: 1s}
enforceNodeAllocatable: []
evictionHard: {memory.available: 50Mi, nodefs.available: "1%", imagefs.available: "1%", nodefs.inodesFree: "1%"}
failSwapOn: false
makeIPTablesUtilChains: false
maxPods: 400
nodeStatusReportFrequency: 5m
nodeStatusUpdateFrequency: 1s
oomScoreAdj: 0
readOnlyPort: 0
registryPullQPS: 0
resolvConf: ""
syncFrequency: 5s
volumePluginDir: $state/volume-plugins
END

start() { # start PART COMMAND...
	local part=$1 child
	shift
	(
		trap - EXIT
		while flock "$run/$part.hold" true; do
			"$@" >>"$log/$part" 2>&1 &
			child=$!
			echo $child >"$run/$part.pid"
			status=0
			wait $child || status=$?
			# By a signal: somebody wants it gone. By itself: it cannot run, and its log has the reason.
			[ $status -gt 128 ] || exit $status
		done
	) &
}
start containerd containerd -c "$run/containerd.toml"
start etcd etcd --data-dir "$state/etcd" --unsafe-no-fsync
start apiserver kube-apiserver --etcd-servers=http://127.0.0.1:2379 --advertise-address=$ip --secure-port=443 \
	--endpoint-reconciler-type=none --kubelet-preferred-address-types=InternalIP \
	--cert-dir="$tls" --token-auth-file="$run/tokens" --authorization-mode=Node,RBAC \
	--service-account-issuer=https://kubernetes.default.svc --service-account-key-file="$tls/sa.pub" \
	--service-account-signing-key-file="$tls/sa.key" --service-cluster-ip-range=10.96.0.0/16 --allow-privileged=true
until [ -S /run/containerd/containerd.sock ] && ctr version >/dev/null 2>&1; do sleep 0.1; done
mkdir -p "$state/images"
for image in "$dir"/images/*.tar; do
	had=$state/images/$(basename "$image")
	[ -e "$had" ] && continue # before a reboot
	ctr -n k8s.io images import "$image"
	touch "$had"
done
# Starting kubectl takes longer than a test of the port.
until (: <>/dev/tcp/$ip/443) 2>/dev/null && kubectl --kubeconfig "$run/admin.kubeconfig" get --raw /readyz >/dev/null 2>&1; do sleep 0.2; done
config=$run/scheduler.yaml
cat - "$(ls "$dir/scheduler.fragment" 2>/dev/null || echo /dev/null)" >"$config" <<END
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {kubeconfig: "$run/scheduler.kubeconfig"}
END
start scheduler kube-scheduler --config="$config" \
	--authentication-kubeconfig="$run/scheduler.kubeconfig" --authorization-kubeconfig="$run/scheduler.kubeconfig"
start manager kube-controller-manager --kubeconfig="$run/manager.kubeconfig" --leader-elect=false \
	--kube-api-qps=500 --kube-api-burst=500 --node-monitor-period=1s --use-service-account-credentials=true \
	--service-account-private-key-file="$tls/sa.key" --root-ca-file="$tls/apiserver.crt" \
	--flex-volume-plugin-dir="$state/volume-plugins"
export KUBECONFIG=$run/admin.kubeconfig
# After a reboot the API server remembers a node that was ready: it is asked to look again.
kubectl patch node node --subresource=status -p '{"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}' 2>&1 || :
start kubelet kubelet --config="$run/kubelet.yaml" --kubeconfig="$run/kubelet.kubeconfig" --hostname-override=node \
	--node-ip=$ip --cert-dir="$tls/kubelet"
# One kubectl that watches instead of many that ask; they ask when it has come.
kubectl wait --timeout=60s --for=create --for=condition=Ready node/node 2>&1 || :
until kubectl get node node -o jsonpath='{.status.conditions[?(@.type=="Ready")].status}{.spec.taints}' 2>&1 | grep -qx True; do sleep 0.2; done
until kubectl get serviceaccount default >/dev/null 2>&1; do sleep 0.2; done
for handler in toolkit-anyone toolkit-privileged; do
	kubectl apply -f - <<END
{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: $handler}, handler: $handler}
END
done
echo ready >"$run/word"
wait
