/* SPDX-License-Identifier: Apache-2.0 */
/* The CLI's connections: their messages and their end. Only the files of that name include this. */
#pragma once

#include "node/peers/admin_types.h"

extern const struct peer_class admin_class;
void admin_leave(struct admin *a);

/* The connection keeps the tenant alive. */
must_check int admin_make_place(struct admin *a, struct fault *why); /* for one more */
must_check int admin_keep(struct admin *a, struct tenant *t, struct fault *why);

void admin_close_all(struct daemon *d);
