/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the journal's records of tenants, guests and reservations, and restores these from it: see
 * the top of restore.c. */
#pragma once

#include "node/daemon.h"

must_check int restore_open(struct daemon *d, struct fault *why);
/* The following write one record each, or do nothing if there is no journal. */
void restore_tenant(struct tenant *t);
void restore_tenant_gone(struct daemon *d, uint32_t id);
void restore_guest(struct guest *g);
/* A tenant holds more on a device than the journal says; call it before the grant is sent. */
void restore_held(struct tenant *t, uint32_t device, uint64_t held_bytes,
		  const struct ledger_sums *sums);
/* What the tenant's processes have left behind there has changed. */
void restore_behind(struct tenant *t, uint32_t device);
void restore_guest_gone(struct guest *g);
/* A device was reserved by `mete pick`, or returned. */
void restore_reserved(struct daemon *d, uint32_t device);
/* If no guests are expected any more, asks are answered from now on. book_pump() follows. */
void restore_release(struct tenant *t);
