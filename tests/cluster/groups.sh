#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: groups.sh make NAME | remove NAME | list: the control groups below which a cluster's pods are. There is one in each
# hierarchy of cgroup v1, or one in cgroup v2. `list`: the names of those that there are, of all clusters.
set -eu
root=/sys/fs/cgroup
command=$1 name=${2:-}

hierarchies() { # the folder of each
	if [ -e $root/cgroup.controllers ]; then
		echo $root
	else
		find $root -mindepth 1 -maxdepth 1 -type d
	fi
}

make_group() { # HIERARCHY
	# In a hybrid, that of version 2 has no controllers. runc makes groups there, too.
	[ "$1" != $root/unified ] || return 0
	mkdir -p "$1/$name"
	if [ -e "$1/cgroup.controllers" ]; then
		# It can hand down to its pods only controllers that are handed down to it.
		for controller in $(cat "$1/cgroup.controllers"); do
			echo "+$controller" >"$1/cgroup.subtree_control" || echo "groups.sh: $controller is not to be had" >&2
		done
	elif [ -e "$1/cpuset.cpus" ]; then
		# In version 1 nobody can be in a group that has no processors.
		for kind in mems cpus; do
			cat "$1/cpuset.$kind" >"$1/$name/cpuset.$kind"
		done
	fi
}

hierarchies | while read -r hierarchy; do
	case $command in
	make) make_group "$hierarchy" ;;
	remove) [ ! -d "$hierarchy/$name" ] || find "$hierarchy/$name" -depth -type d -exec rmdir {} + ;;
	list) find "$hierarchy/" -mindepth 1 -maxdepth 1 -type d -name 'mete-cluster-*' -exec basename {} \; ;;
	esac
done
