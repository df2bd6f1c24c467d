/* SPDX-License-Identifier: Apache-2.0 */
/* What the text of a /proc/PID/cgroup says (cgroups(7)). Pure. */
#pragma once

#include <stddef.h>

/* The path in the line of version 2 ("0::/..."), which ends after `ret_length` bytes. NULL: there
 * is no such line. Borrowed. */
const char *cgroup_path(const char *text, size_t *ret_length);

/* The UID of a pod, which follows the first "pod" that begins a part of a path, as in
 * "/kubepods/burstable/pod..." or "...-pod....slice": a UUID of 8-4-4-4-12 hexadecimal digits with
 * '-' (driver cgroupfs) or '_' (systemd) between them, or 32 without, which the kubelet makes for
 * its static pods. NULL: it is no pod's. Borrowed. */
const char *cgroup_pod(const char *path, size_t *ret_length);
