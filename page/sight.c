/* SPDX-License-Identifier: Apache-2.0 */
#include "page/sight.h"

#include <string.h>

bool sight_same(const struct sight *a, const struct sight *b)
{
	return a->all == b->all && (a->all || a->uid == b->uid);
}

static bool sees(const struct sight *sight, const struct wire_message *row, bool seen)
{
	if (sight->all || row->code == WIRE_device_row)
		return true;
	if (row->code == WIRE_tenant_row)
		return row->tenant_row.owner == sight->uid;
	/* A process behind its tenant's row is seen with it. */
	if (row->code == WIRE_guest_row)
		return seen;
	return row->code == WIRE_outside_row && row->outside_row.user == sight->uid;
}

static bool has_tenant(const struct ps_rows *rows, uint32_t tenant)
{
	for (size_t i = 0; i < rows->count; i++)
		if (rows->row[i].code == WIRE_tenant_row &&
		    rows->row[i].tenant_row.tenant == tenant)
			return true;
	return false;
}

static void forget_others(const struct sight *sight, const struct ps_rows *rows,
			  struct wire_message *row)
{
	if (row->code == WIRE_device_row && row->device_row.picked_by != sight->uid) {
		row->device_row.picker = row->device_row.picked_by = 0;
		row->device_row.hold = 0;
	}
	if (row->code != WIRE_tenant_row)
		return;
	if (row->tenant_row.behind && !has_tenant(rows, row->tenant_row.behind))
		row->tenant_row.behind = 0;
	if (row->tenant_row.outer && !has_tenant(rows, row->tenant_row.outer))
		row->tenant_row.outer = 0;
}

int sight_look(const struct sight *sight, const struct ps_rows *rows, struct ps_rows *ret_rows)
{
	struct ps_rows seen = *rows;
	bool tenant = false;

	seen.count = 0;
	seen.room = rows->count;
	seen.flat = true;
	seen.row = calloc(rows->count + 1, sizeof(seen.row[0]));
	if (!seen.row)
		return -ENOMEM;
	for (size_t i = 0; i < rows->count; i++) {
		const struct wire_message *row = &rows->row[i];

		tenant = sees(sight, row, tenant);
		if (!tenant)
			continue;
		seen.row[seen.count++] = *row;
	}
	for (size_t i = 0; i < seen.count; i++) {
		const struct wire_message *row = &seen.row[i];

		if (!sight->all)
			forget_others(sight, &seen, &seen.row[i]);
		seen.flat &= row->code != WIRE_tenant_row || !row->tenant_row.outer;
	}
	*ret_rows = seen;
	return 0;
}
