/* SPDX-License-Identifier: Apache-2.0 */
/* Devices that take no new tenants (`mete cordon`); tenants that are there run on. */
#pragma once

#include "node/daemon.h"

/* Written down, logged, and told to the Kubernetes part. Without effect if it is so already. */
void cordon_set(struct daemon *d, uint32_t device, bool cordoned);
/* From the journal: nothing is written down. */
void cordon_return(struct daemon *d, uint32_t device);
/* -EBUSY with a sentence: one of the devices takes no new tenants. */
must_check int cordon_check(const struct daemon *d, const uint32_t *device, uint32_t devices,
			    struct fault *why);
bool cordon_any(const struct daemon *d);
