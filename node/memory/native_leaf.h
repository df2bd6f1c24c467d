/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control group of a container, from what /proc says. Only groups of version 2 have the
 * driver's limits, and only those of containers are their processes' own: a session, or a service,
 * has programs that are no tenant's. Pure.
 */
#pragma once

#include "base/macros.h"

enum { NATIVE_PATH = 512 };

/* Where version 2 is mounted from its root on, in the text of a /proc/PID/mountinfo; -ENOENT: it is
 * not. */
must_check int native_mount(const char *mountinfo, char ret_mount[NATIVE_PATH]);
/* The folder of a process's group, from the text of its /proc/PID/cgroup: the line of version 2,
 * with a path below that of a pod. -ENOENT: it is in no container's group of version 2, or
 * outside what we see; -ENAMETOOLONG. */
must_check int native_leaf(const char *mount, const char *cgroup, char ret_path[NATIVE_PATH]);
