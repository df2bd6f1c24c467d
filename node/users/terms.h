/* SPDX-License-Identifier: Apache-2.0 */
/* Applies the policy to users' tenants. */
#pragma once

#include "node/daemon.h"

struct tenant_spec;

/* How many connections it may have. */
uint32_t user_sessions(const struct user *u);
/* Fields of the share that are not given become what the user may have, and all fields
 * are checked. `room`: for texts that are set in `spec`. */
struct terms_texts {
	char memory[32], weight[16], class[16];
};
must_check int terms_admit(struct user *u, struct tenant_spec *spec, struct terms_texts *room,
			   struct fault *why);
/* May a tenant's share become this one? Fields that do not increase are always allowed. */
must_check int terms_change(struct tenant *t, const struct share *share, struct fault *why);
/* May the user have another device reserved by `mete pick`? */
must_check int terms_reserve(struct user *u, struct fault *why);
/* Sets its limits, and those of all users together, to the policy's current values. */
void terms_apply(struct user *u);
void terms_apply_all(struct daemon *d);
