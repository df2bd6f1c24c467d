/* SPDX-License-Identifier: Apache-2.0 */
/* Which tenant the CLI means. */
#pragma once

#include "node/daemon.h"

struct admin;

/* The one tenant that a number and a name (0 and "": not given) refer to; NULL: the peer was told
 * why not.
 */
struct tenant *admin_named(struct admin *a, uint32_t id, uint32_t tenant, const char *name);
bool admin_may_change(const struct admin *a, const struct tenant *t);
