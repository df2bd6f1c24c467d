/* SPDX-License-Identifier: Apache-2.0 */
/* The CLI's connections, for their three files: admin_accept.c accepts them, admin.c handles
 * their messages, admin_make.c creates tenants. No other file includes this. */
#pragma once

#include "node/peers/admin_types.h"

/* Its messages and its end, in admin.c. */
extern const struct peer_class admin_class;
void admin_leave(struct admin *a);

/* The connection keeps the tenant alive. */
must_check int admin_make_place(struct admin *a, struct fault *why); /* for one more */
must_check int admin_keep(struct admin *a, struct tenant *t, struct fault *why);

void admin_close_all(struct daemon *d);
