/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What somebody may see: everything, a user's own tenants, or those that the cluster lets him see
 * (page/rights.h). Rows are left out before anything is
 * made of them, so that whatever is shown afterwards cannot tell of others. Pure.
 */
#pragma once

#include <sys/types.h>

#include "view/ps_rows.h"

struct rights;

struct sight {
	bool all;
	uid_t uid; /* whose tenants; not if `all` */
	/* Whose of the user's tenants, by the cluster's word. Lent; NULL: all of them. */
	const struct rights *rights;
	uint64_t id, edition; /* of these rights: another one, once some of them are gone */
};

/* Does it see everything just now? */
bool sight_all(const struct sight *sight);
bool sight_same(const struct sight *a, const struct sight *b);

/* Copies what it sees of `rows` to *ret_rows, which ps_rows_free() frees. What names others in a
 * row that is seen (who is waited for, who encloses it, who picked a device) is zero there. A
 * node's trouble is only for who sees all of the node. -ENOMEM. */
must_check int sight_look(const struct sight *sight, const struct ps_rows *rows,
			  struct ps_rows *ret_rows);
