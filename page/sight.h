/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What somebody may see: everything, or a user's own tenants. Rows are left out before anything is
 * made of them, so that whatever is shown afterwards cannot tell of others. Pure.
 */
#pragma once

#include <sys/types.h>

#include "view/ps_rows.h"

struct sight {
	bool all;
	uid_t uid; /* whose tenants; not if `all` */
};

bool sight_same(const struct sight *a, const struct sight *b);

/* Copies what it sees of `rows` to *ret_rows, which ps_rows_free() frees. What names others in a
 * row that is seen (who is waited for, who encloses it, who picked a device) is zero there.
 * -ENOMEM. */
must_check int sight_look(const struct sight *sight, const struct ps_rows *rows,
			  struct ps_rows *ret_rows);
