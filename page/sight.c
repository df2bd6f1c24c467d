/* SPDX-License-Identifier: Apache-2.0 */
#include "page/sight.h"

#include <string.h>

#include "page/rights.h"

enum { DEPTH_MOST = 16 };

bool sight_all(const struct sight *sight)
{
	return sight->all || (sight->rights && rights_see_all(sight->rights));
}

/* Rights are compared without a look at them: they may be there no more. */
bool sight_same(const struct sight *a, const struct sight *b)
{
	return a->all == b->all && a->id == b->id && a->edition == b->edition &&
	       (a->all || a->uid == b->uid);
}

/* A tenant within another one chose its name itself: the outermost one's counts, which is meted's
 * own for a container. */
static bool may_see(const struct sight *sight, const struct ps_rows *rows,
		    const struct wire_tenant_row *tenant)
{
	for (uint32_t depth = 0; tenant && tenant->outer; depth++)
		tenant = depth < DEPTH_MOST ? ps_tenant(rows, tenant->outer) : NULL;
	return tenant && tenant->owner == sight->uid &&
	       rights_see(sight->rights, tenant->name.text);
}

static bool sees(const struct sight *sight, bool all, const struct ps_rows *rows,
		 const struct wire_message *row, bool seen)
{
	if (all || row->code == WIRE_device_row)
		return true;
	if (row->code == WIRE_tenant_row)
		return sight->rights ? may_see(sight, rows, &row->tenant_row)
				     : row->tenant_row.owner == sight->uid;
	/* A process behind its tenant's row is seen with it. */
	if (row->code == WIRE_guest_row)
		return seen;
	return row->code == WIRE_outside_row && !sight->rights &&
	       row->outside_row.user == sight->uid;
}

static void forget_others(const struct sight *sight, const struct ps_rows *rows,
			  struct wire_message *row)
{
	if (row->code == WIRE_device_row &&
	    (sight->rights || row->device_row.picked_by != sight->uid)) {
		row->device_row.picker = row->device_row.picked_by = 0;
		row->device_row.hold = 0;
	}
	if (row->code != WIRE_tenant_row)
		return;
	if (row->tenant_row.behind && !ps_tenant(rows, row->tenant_row.behind))
		row->tenant_row.behind = 0;
	if (row->tenant_row.outer && !ps_tenant(rows, row->tenant_row.outer))
		row->tenant_row.outer = 0;
}

int sight_look(const struct sight *sight, const struct ps_rows *rows, struct ps_rows *ret_rows)
{
	struct ps_rows seen = *rows;
	bool all = sight_all(sight), tenant = false;

	seen.count = 0;
	seen.room = rows->count;
	seen.flat = true;
	/* Sentences for the node's owner: who holds a GPU's mark, for example. */
	if (sight->rights && !all)
		seen.daemon.trouble.text[0] = '\0';
	seen.row = calloc(rows->count + 1, sizeof(seen.row[0]));
	if (!seen.row)
		return -ENOMEM;
	for (size_t i = 0; i < rows->count; i++) {
		const struct wire_message *row = &rows->row[i];

		tenant = sees(sight, all, rows, row, tenant);
		if (!tenant)
			continue;
		seen.row[seen.count++] = *row;
	}
	for (size_t i = 0; i < seen.count; i++) {
		const struct wire_message *row = &seen.row[i];

		if (!all)
			forget_others(sight, &seen, &seen.row[i]);
		seen.flat &= row->code != WIRE_tenant_row || !row->tenant_row.outer;
	}
	*ret_rows = seen;
	return 0;
}
