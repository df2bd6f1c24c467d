/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a tenant's processes have left behind on a device: see the top of remains.c. */
#pragma once

#include "node/daemon.h"

/* The bytes of a guest that may outlive its process, by its page. Call it before the guest
 * leaves. */
must_check uint64_t remains_of(const struct guest_device *at);
/* Begins the record of a user beyond its tenants. */
void remains_begin(struct remains *it, struct daemon *d, uint32_t index,
		   struct ledger_account *account, uid_t user);
/* A guest of the tenant has left, and may have left these bytes behind. measure_start() follows. */
void remains_left(struct tenant_device *at, uint64_t bytes);
/* The processes that have such memory may have ended. True: there is something to measure, and
 * measure_start() follows. */
bool remains_look(struct daemon *d, uint32_t index);
/* A guest asks for memory: memory that the device's tenants left behind may have gone. */
void remains_asker(struct guest_device *at, uint64_t bytes);
/* `measure.late` has changed: while the driver does not answer, no ask waits for it. */
void remains_late(struct daemon *d);
/* A measurement is complete. */
void remains_seen(struct daemon *d, uint32_t device);
/* A user's account is about to be closed. */
void remains_end(struct remains *it);
/* A tenant's account is about to be closed: the one that encloses it, else its user, if there is
 * one, is charged with the rest. */
void remains_end_of(struct tenant_device *at, const struct user *user);
