/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets the fields of a tenant's share, with a sentence for the person who wrote them, and changes
 * several at once while programs run. Either all given fields change, or none: nobody ever sees, or
 * is bound by, a share that was not asked for.
 */
#pragma once

#include "node/daemon.h"

struct change {
	const char *key, *value; /* borrowed; the value "" is the default */
};

/* Sets one field. If it is not accepted, `why` says so. */
must_check int change_field(struct share *share, const struct change *one, struct fault *why);
/* The share's limit on one of the daemon's devices; `text`: as it was written, or NULL. */
must_check int change_limit(struct daemon *d, const struct share *share, uint32_t index,
			    const char *text, uint64_t *ret_bytes, struct fault *why);
/* Without room for one context a program cannot even start, and CUDA's error names no reason. */
must_check int change_holds_context(struct daemon *d, uint32_t index, uint64_t limit,
				    struct fault *why);

/* A share with oversize=managed needs the whole device: the driver alone decides how much managed
 * memory is on it. */
must_check int change_oversize(const struct tenant *t, const struct share *share, uint32_t index,
			       uint64_t limit, struct fault *why);

/* The share that a tenant would have with these fields. Their order does not matter: they are set
 * in share.def's, and one that another one makes possible (a guarantee above the former cap) is
 * set after that. */
must_check int change_share(const struct tenant *t, const struct change *changes, uint32_t count,
			    struct share *ret_share, struct fault *why);
/* Changes these fields, each named once, within the policy for `who`; NULL: without a policy. */
must_check int change_tenant(struct tenant *t, const struct user *who, const struct change *changes,
			     uint32_t count, struct fault *why);
