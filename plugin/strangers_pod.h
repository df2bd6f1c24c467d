/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pod of a process that uses a device and is not a guest (strangers.c), as its control group
 * says.
 */
#pragma once

#include "base/macros.h"

enum {
	STRANGERS_UID = 37, /* of a pod, with its NUL */
	STRANGERS_MAX = 4096,
};

/* Finds the pod of a process from the text of its /proc/PID/cgroup: the path contains "pod" and a
 * UID, with dashes (cgroupfs), with underscores (systemd), or with neither (a static pod). -ENOENT:
 * it is in none. Pure. */
must_check int strangers_pod(const char *cgroup, char ret_uid[STRANGERS_UID]);
