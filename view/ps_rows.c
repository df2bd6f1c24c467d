/* SPDX-License-Identifier: Apache-2.0 */
#include "view/ps_rows.h"

#include <string.h>

void ps_rows_free(struct ps_rows *rows)
{
	free(rows->row);
}

struct wire_message *ps_rows_add(struct ps_rows *rows)
{
	if (rows->count == rows->room) {
		size_t room = rows->room ? 2 * rows->room : 64;
		struct wire_message *grown = realloc(rows->row, room * sizeof(*grown));

		if (!grown)
			return NULL;
		rows->row = grown;
		rows->room = room;
	}
	rows->row[rows->count] = (struct wire_message){0};
	return &rows->row[rows->count++];
}

struct ps_uuid ps_uuid(const struct wire_device_row *device)
{
	struct ps_uuid named;
	int n = snprintf(named.text, sizeof(named.text), "%.79s", device->name.text);

	if (n > 0)
		return named;
	/* An older meted sends only the number. */
	n = snprintf(named.text, sizeof(named.text), "GPU-");
	for (int i = 0; i < 16; i++)
		n += snprintf(named.text + n, sizeof(named.text) - (size_t)n, "%s%02x",
			      i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
			      device->uuid.byte[i]);
	return named;
}

const struct wire_device_row *ps_device(const struct ps_rows *rows, uint32_t index)
{
	static const struct wire_device_row nothing;

	for (size_t i = 0; i < rows->count; i++)
		if (rows->row[i].code == WIRE_device_row && rows->row[i].device_row.index == index)
			return &rows->row[i].device_row;
	return &nothing;
}

const struct wire_tenant_row *ps_tenant(const struct ps_rows *rows, uint32_t tenant)
{
	for (size_t i = 0; i < rows->count; i++)
		if (rows->row[i].code == WIRE_tenant_row &&
		    rows->row[i].tenant_row.tenant == tenant)
			return &rows->row[i].tenant_row;
	return NULL;
}

uint64_t ps_used(const struct wire_device_row *device)
{
	return device->resident + device->residual;
}

uint64_t ps_outside(const struct ps_rows *rows, uint32_t device)
{
	return ps_device(rows, device)->outside;
}

uint64_t ps_free(const struct ps_rows *rows, const struct wire_device_row *device)
{
	uint64_t taken = device->reserve + ps_used(device) + ps_outside(rows, device->index);

	return taken < device->capacity ? device->capacity - taken : 0;
}

uint64_t ps_held(const struct wire_tenant_row *tenant)
{
	return tenant->allocated + tenant->residual;
}

static const struct wire_tenant_row *row_of(const struct ps_rows *rows, uint32_t tenant,
					    uint32_t device)
{
	for (size_t i = 0; i < rows->count; i++)
		if (rows->row[i].code == WIRE_tenant_row &&
		    rows->row[i].tenant_row.tenant == tenant &&
		    rows->row[i].tenant_row.device == device)
			return &rows->row[i].tenant_row;
	return NULL;
}

static bool is_within(const struct ps_rows *rows, const struct wire_tenant_row *inner,
		      uint32_t tenant)
{
	/* The depth is bounded by the number of tenants, whatever a meted sends. */
	for (size_t i = 0; inner && inner->outer && i < rows->count; i++) {
		if (inner->outer == tenant)
			return true;
		inner = row_of(rows, inner->outer, inner->device);
	}
	return false;
}

bool ps_has_within(const struct ps_rows *rows, const struct wire_tenant_row *tenant)
{
	for (size_t i = 0; !rows->flat && i < rows->count; i++)
		if (rows->row[i].code == WIRE_tenant_row &&
		    rows->row[i].tenant_row.outer == tenant->tenant)
			return true;
	return false;
}

uint64_t ps_within(const struct ps_rows *rows, const struct wire_tenant_row *tenant)
{
	uint64_t sum = 0;

	for (size_t i = 0; !rows->flat && i < rows->count; i++) {
		const struct wire_tenant_row *inner = &rows->row[i].tenant_row;

		if (rows->row[i].code == WIRE_tenant_row && inner->device == tenant->device &&
		    is_within(rows, inner, tenant->tenant))
			sum += ps_held(inner);
	}
	return sum;
}

struct ps_unit ps_unit(const struct ps_rows *rows)
{
	for (size_t i = 0; i < rows->count; i++)
		if (rows->row[i].code == WIRE_device_row &&
		    rows->row[i].device_row.capacity >= 1ull << 30)
			return (struct ps_unit){"GiB", 30, 2};
	return (struct ps_unit){"MiB", 20, 0};
}

uint64_t ps_steps(struct ps_unit unit, uint64_t bytes, enum text_rounding rounding)
{
	uint64_t one = unit.digits == 2 ? 100 : 1, mask = (1ull << unit.shift) - 1;
	uint64_t rest = (bytes & mask) * one;

	return (bytes >> unit.shift) * one + (rest >> unit.shift) +
	       (rounding == TEXT_UP && (rest & mask));
}

struct ps_text ps_amount(struct ps_unit unit, uint64_t steps)
{
	struct ps_text said;

	if (unit.digits == 2)
		snprintf(said.text, sizeof(said.text), "%llu.%02llu",
			 (unsigned long long)steps / 100, (unsigned long long)steps % 100);
	else
		snprintf(said.text, sizeof(said.text), "%llu", (unsigned long long)steps);
	return said;
}

uint64_t ps_free_steps(const struct ps_rows *rows, const struct wire_device_row *device)
{
	struct ps_unit unit = ps_unit(rows);
	uint64_t all = ps_steps(unit, device->capacity, TEXT_DOWN);
	uint64_t taken = ps_steps(unit, ps_used(device), TEXT_UP) +
			 ps_steps(unit, ps_outside(rows, device->index), TEXT_UP) +
			 ps_steps(unit, device->reserve, TEXT_UP);

	return taken < all ? all - taken : 0;
}

uint64_t ps_held_steps(const struct ps_rows *rows, const struct wire_tenant_row *tenant)
{
	struct ps_unit unit = ps_unit(rows);
	uint64_t bytes = ps_held(tenant) + ps_within(rows, tenant);
	uint64_t held = ps_steps(unit, bytes, TEXT_UP);
	uint64_t limit = ps_steps(unit, tenant->limit, TEXT_DOWN);

	/* Rounding must not show a tenant beyond its limit that is within it. */
	return held > limit && bytes <= tenant->limit ? limit : held;
}
