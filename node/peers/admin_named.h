/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the tenant that the CLI means. */
#pragma once

#include "node/daemon.h"

struct admin;

/* The one tenant that a number and a name (0 and "": not given) refer to; NULL: the peer was told
 * why not. */
struct tenant *admin_named(struct admin *a, uint32_t id, uint32_t tenant, const char *name);
/* Likewise, if the peer may change the tenant. `or_keep`: or if the peer runs within it, which
 * allows it to keep that tenant and nothing else. */
struct tenant *admin_own(struct admin *a, uint32_t id, uint32_t tenant, const char *name,
			 bool or_keep);
/* Only root, or the user of a user's own meted, may do `what`; false: the peer was told so. */
bool admin_is_master(struct admin *a, uint32_t id, const char *what);
/* Only its owner may, and a caller that may do everything. */
bool admin_may_change(const struct admin *a, const struct tenant *t);
