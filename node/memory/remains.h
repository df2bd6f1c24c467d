/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a tenant's processes have left behind on a device: see the top of remains.c. */
#pragma once

#include "node/daemon.h"

/* What of a guest's memory may outlive its process, as its page says; before it leaves. */
must_check uint64_t remains_of(const struct guest_device *at);
/* Of a tenant on a device, or (`of` NULL) of a user, beyond its tenants'. */
void remains_begin(struct remains *it, struct daemon *d, uint32_t index,
		   struct ledger_account *account, struct tenant_device *of);
/* A guest has left, and may have left so much behind. measure_start() follows. */
void remains_left(struct remains *it, uint64_t bytes);
/* Who had it may have gone. Returns whether there is anything to measure: measure_start() follows.
 */
bool remains_look(struct daemon *d, uint32_t index);
/* A guest asks for memory: what the device's tenants have left behind may have gone. */
void remains_asker(struct guest_device *at, uint64_t bytes);
/* `measure.late` has changed: nobody waits for what the driver does not say. */
void remains_late(struct daemon *d);
/* A measurement is complete. */
void remains_seen(struct daemon *d, uint32_t device);
/* The account is about to be closed: what is left is the heir's, if there is one. */
void remains_end(struct remains *it, struct remains *heir);
/* Of a tenant: the one that encloses it, else its user; NULL: neither bounds it. */
struct remains *remains_heir(const struct tenant_device *of, const struct user *user);
