/* SPDX-License-Identifier: Apache-2.0 */
/* Waits for a GPU on a Kubernetes node that has none: see the top of missing.c. */
#pragma once

#include "node/daemon.h"
#include "node/devices/nvml.h"

/* Is there nothing to begin with? A GPU in MIG mode without parts is no device, and something: the
 * node has its labels, and its parts are noticed when they are made. */
bool missing_is(const struct nvml *nvml);
/* Replaces everything else that is opened at start. -errno: its file does not ask for this, or
 * cannot be read. */
must_check int missing_open(struct daemon *d, struct fault *why);
void missing_close(struct daemon *d);
