/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the journal's records. Each function writes one, or does nothing if there is no journal.
 */
#pragma once

#include "node/daemon.h"

/* Rewrites the journal with the current state. */
must_check int recorder_rewrite(struct daemon *d);
void recorder_tenant(struct tenant *t);
void recorder_tenant_gone(struct daemon *d, uint32_t id);
void recorder_guest(struct guest *g);
/* A tenant holds more on a device than the journal says; call it before the grant is sent. */
void recorder_held(struct tenant *t, uint32_t device, uint64_t held_bytes,
		   const struct ledger_sums *sums);
/* The bytes that the tenant's processes have left behind there have changed. */
void recorder_behind(struct tenant *t, uint32_t device);
/* What each of its contexts takes there was measured, and was not known. */
void recorder_context(const struct guest_device *at);
void recorder_guest_gone(struct guest *g);
/* A device was reserved by `mete pick`, or returned. */
void recorder_reserved(struct daemon *d, uint32_t device);
/* Of a pod's wait that it was told, or that it was told to be over. */
void recorder_told(const struct tenant_device *at);
/* A device was cordoned, or is not any more. */
void recorder_cordon(struct daemon *d, uint32_t device);
