/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes in pods that use a device and are not guests: programs that use the device file
 * directly, or that brought their own driver. No library can stop them. The driver lists them, so
 * they are reported, or killed (the share's field unannounced, or mete.unannounced). Processes
 * outside pods belong to no tenant and are left alone.
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
