/* SPDX-License-Identifier: Apache-2.0 */
/* The rows that are shown, for all modules that show them: devices, tenants each with its
 * processes, and processes outside. */
#pragma once

#include "node/daemon.h"
#include "wire/wire.h"

struct listing {
	/* The row is borrowed. */
	void (*row)(void *owner, const struct wire_message *row);
	void *owner;
};

/* Of everything; for an older `mete` without the processes outside. */
void listing_all(struct daemon *d, const struct listing *to);
void listing_tenants(struct daemon *d, const struct listing *to);
/* Of one tenant. */
void listing_one(struct tenant *t, const struct listing *to);

/* meted's own figures. */
void listing_welcome(const struct daemon *d, struct wire_admin_welcome *ret_said);
