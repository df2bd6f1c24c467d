/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/ps_rows.h"

#include <string.h>
#include <unistd.h>

#include "base/place.h"
#include "cli/gpus.h"
#include "cli/sim_node.h"

void ps_rows_free(struct ps_rows *rows)
{
	free(rows->row);
}

static struct wire_message *add_row(struct ps_rows *rows)
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

int ps_fetch_rows(struct admin *admin, uint32_t tenant, struct ps_rows *rows, struct fault *why)
{
	struct wire_message request = {.code = WIRE_list}, answer = {0}, *row;
	int r;

	request.list.tenant = tenant;
	r = admin_ask(admin, &request, &answer, why);
	for (; r == 0 && answer.code != WIRE_end; r = admin_next(admin, &answer, why)) {
		row = add_row(rows);
		if (!row)
			return fault_set(why, -ENOMEM, "out of memory");
		*row = answer;
	}
	return r;
}

static int add_gpu(struct ps_rows *rows, const struct gpus *gpus, const struct pick_gpu *gpu)
{
	struct gpus_process processes[256];
	size_t n = gpus_processes(gpus, gpu->index, processes, ARRAY_SIZE(processes));
	struct wire_message *row = add_row(rows);

	if (!row)
		return -ENOMEM;
	row->code = WIRE_device_row;
	row->device_row.index = gpu->index;
	row->device_row.capacity = gpu->memory_bytes;
	/* What NVML has in use and no process is named for is outside, too: ps_outside(). */
	row->device_row.outside = gpu->memory_bytes - gpu->free_bytes;
	wire_set_text(&row->device_row.model, gpus_model(gpus, gpu->index).text);
	wire_set_text(&row->device_row.name, gpu->uuid);
	for (size_t i = 0; i < n; i++) {
		row = add_row(rows);
		if (!row)
			return -ENOMEM;
		row->code = WIRE_outside_row;
		row->outside_row.device = gpu->index;
		row->outside_row.pid = processes[i].pid;
		row->outside_row.user = ps_owner(processes[i].pid);
		row->outside_row.used = processes[i].used_bytes;
	}
	return 0;
}

/* No meted: what there is all the same. */
static int fetch_gpus(struct ps_rows *rows, struct fault *why)
{
	owned(gpus_close) struct gpus *gpus = NULL;
	struct pick_gpu gpu[PICK_GPUS];
	size_t size = 0, count = 0;

	rows->absent = true;
	if (gpus_open(&gpus, &rows->why) < 0 || gpus_look(gpus, gpu, &size, &count, &rows->why) < 0)
		return 0; /* that is shown, and no failure */
	rows->why.text[0] = '\0';
	for (size_t i = 0; i < size; i++)
		if (add_gpu(rows, gpus, &gpu[i]) < 0)
			return fault_set(why, -ENOMEM, "out of memory");
	return 0;
}

/* From a connection of its own each time: a meted that was replaced goes on being shown. */
int ps_fetch(struct ps_rows *ret_rows, struct fault *why)
{
	owned(admin_close) struct admin admin = {.fd = -1};
	char place[PLACE_MAX];
	int r = admin_connect_any(&admin, place, why);

	if (r < 0)
		return r;
	if (r == ADMIN_ABSENT)
		return fetch_gpus(ret_rows, why);
	ret_rows->daemon = admin.daemon;
	ret_rows->elsewhere.text[0] = '\0';
	best_effort(sim_node_same(admin.daemon.pid, &ret_rows->elsewhere));
	/* On a terminal it is part of the page. */
	if (!isatty(STDOUT_FILENO)) {
		admin_tell(&admin, "ps");
		if (ret_rows->elsewhere.text[0])
			fprintf(stderr, "mete ps: note: %s\n", ret_rows->elsewhere.text);
	}
	return ps_fetch_rows(&admin, 0, ret_rows, why);
}

const struct wire_device_row *ps_device(const struct ps_rows *rows, uint32_t index)
{
	static const struct wire_device_row nothing;

	for (size_t i = 0; i < rows->count; i++)
		if (rows->row[i].code == WIRE_device_row && rows->row[i].device_row.index == index)
			return &rows->row[i].device_row;
	return &nothing;
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
	/* No deeper than there are tenants, whatever a meted says. */
	for (size_t i = 0; inner && inner->outer && i < rows->count; i++) {
		if (inner->outer == tenant)
			return true;
		inner = row_of(rows, inner->outer, inner->device);
	}
	return false;
}

bool ps_has_within(const struct ps_rows *rows, const struct wire_tenant_row *tenant)
{
	for (size_t i = 0; i < rows->count; i++)
		if (rows->row[i].code == WIRE_tenant_row &&
		    rows->row[i].tenant_row.outer == tenant->tenant)
			return true;
	return false;
}

uint64_t ps_within(const struct ps_rows *rows, const struct wire_tenant_row *tenant)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < rows->count; i++) {
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

	/* Who is within the limit is shown so. */
	return held > limit && bytes <= tenant->limit ? limit : held;
}
