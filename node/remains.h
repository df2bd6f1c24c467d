/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a tenant's processes have left behind on a device: see the top of remains.c. */
#pragma once

#include "node/daemon.h"

/* What of a guest's memory may outlive its process, as its page says; before it leaves. */
must_check uint64_t remains_of(const struct guest_device *at);
/* The guest has left, and may have left so much behind. measure_start() follows. */
void remains_left(struct tenant_device *of, uint64_t bytes);
/* A guest asks for memory: what the device's tenants have left behind may have gone. */
void remains_asker(struct guest_device *at, uint64_t bytes);
/* A measurement is complete. */
void remains_seen(struct daemon *d, uint32_t device);
/* The tenant's account is about to be closed: its remains are the enclosing tenant's, if there is
 * one. */
void remains_end(struct tenant_device *of);
