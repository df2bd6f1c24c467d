/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/ps_json.h"

#include <string.h>

#include <cjson/cJSON.h>

#include "cli/ps_filter.h"
#include "cli/ps_time.h"
#include "core/doing.h"
#include "core/gate.h"
#include "core/share/share.h"

OWNED_POINTER(cJSON, cJSON_Delete)

static const char *ps_gate_name(uint32_t gate)
{
	static const char *const names[] = {"open", "closing", "closed"};

	return gate < ARRAY_SIZE(names) ? names[gate] : "unknown";
}

#define number(object, key, value) cJSON_AddNumberToObject(object, key, (double)(value))
#define text(object, key, value)   cJSON_AddStringToObject(object, key, value)
#define flag(object, key, value)   cJSON_AddBoolToObject(object, key, (value) != 0)

static void names(cJSON *json, const char *key, uint32_t reasons)
{
	cJSON *list = cJSON_AddArrayToObject(json, key);

	for (uint32_t i = 0; i < GATE_REASONS; i++)
		if (gate_has(reasons, i))
			cJSON_AddItemToArray(list, cJSON_CreateString(gate_name(i)));
}

/* One function for each kind of object, which adds the keys of its kind. */
#define IF_meted(object, ...)
#define IF_device(object, ...)
#define IF_tenant(object, ...)
#define IF_time(object, ...)
#define IF_process(object, ...)
#define IF_outside(object, ...)
#define IF_report(object, ...)
#define KEY(object, key, kind, value, meaning) IF_##object(kind(json, #key, value);)

#undef IF_meted
#define IF_meted(...) __VA_ARGS__
static void add_meted(cJSON *json, const struct wire_admin_welcome *meted)
{
#include "cli/ps_keys.def"
}
#undef IF_meted
#define IF_meted(...)

#undef IF_device
#define IF_device(...) __VA_ARGS__
static void add_device(cJSON *json, const struct ps_rows *rows,
		       const struct wire_device_row *device)
{
#include "cli/ps_keys.def"
}
#undef IF_device
#define IF_device(...)

#undef IF_tenant
#define IF_tenant(...) __VA_ARGS__
static void add_tenant(cJSON *json, const struct ps_rows *rows,
		       const struct wire_tenant_row *tenant)
{
	int bad;

#include "cli/ps_keys.def"
}
#undef IF_tenant
#define IF_tenant(...)

#undef IF_time
#define IF_time(...) __VA_ARGS__
static void add_time(cJSON *json, const struct wire_tenant_row *time)
{
#include "cli/ps_keys.def"
	/* Only where the driver has said. */
	if (time->busy) {
		number(json, "driver_busy", ((double)time->busy - 1) / 1000);
		number(json, "drift", ((double)time->busy_charged - time->busy) / 1000);
	}
}
#undef IF_time
#define IF_time(...)

#undef IF_process
#define IF_process(...) __VA_ARGS__
static void add_process(cJSON *json, const struct wire_guest_row *process)
{
#include "cli/ps_keys.def"
}
#undef IF_process
#define IF_process(...)

#undef IF_outside
#define IF_outside(...) __VA_ARGS__
static void add_outside(cJSON *json, const struct wire_outside_row *outside)
{
#include "cli/ps_keys.def"
}

#undef IF_outside
#define IF_outside(object, ...)

#undef IF_report
#define IF_report(...) __VA_ARGS__
static void add_report(cJSON *json, const struct ps_report *report)
{
#include "cli/ps_keys.def"
}

/* Every field of the share by its name, those at their default, too. */
static void add_fields(cJSON *json, const struct wire_tenant_row *tenant)
{
	cJSON *fields = cJSON_AddObjectToObject(json, "fields");

	for (uint32_t i = 0; share_key(i); i++)
		cJSON_AddStringToObject(fields, share_key(i),
					ps_field(&tenant->share, share_key(i)).text);
}

static void add_processes(cJSON *json, const struct ps_rows *rows,
			  const struct wire_tenant_row *tenant)
{
	cJSON *processes = cJSON_AddArrayToObject(json, "processes");

	for (size_t i = 0; i < rows->count; i++) {
		const struct wire_guest_row *guest = &rows->row[i].guest_row;
		cJSON *process;

		if (rows->row[i].code != WIRE_guest_row || guest->tenant != tenant->tenant ||
		    guest->device != tenant->device)
			continue;
		process = cJSON_CreateObject();
		add_process(process, guest);
		cJSON_AddItemToArray(processes, process);
	}
}

cJSON *ps_json_tenant(const struct ps_rows *rows, const struct wire_tenant_row *tenant)
{
	cJSON *json = cJSON_CreateObject();

	add_tenant(json, rows, tenant);
	add_fields(json, tenant);
	add_time(cJSON_AddObjectToObject(json, "time"), tenant);
	add_processes(json, rows, tenant);
	return json;
}

cJSON *ps_json_device(const struct ps_rows *rows, const struct wire_device_row *device)
{
	cJSON *json = cJSON_CreateObject();

	add_device(json, rows, device);
	return json;
}

void ps_json_print(const struct ps_rows *rows)
{
	owned(cJSON_Delete) cJSON *top = cJSON_CreateObject();
	cJSON *devices, *tenants, *outside, *row;
	owned(free) char *printed = NULL;

	if (rows->absent)
		cJSON_AddNullToObject(top, "meted");
	else
		add_meted(cJSON_AddObjectToObject(top, "meted"), &rows->daemon);
	devices = cJSON_AddArrayToObject(top, "devices");
	tenants = cJSON_AddArrayToObject(top, "tenants");
	outside = cJSON_AddArrayToObject(top, "outside");
	for (size_t i = 0; i < rows->count; i++) {
		if (!ps_shows(rows, &rows->row[i]))
			continue;
		if (rows->row[i].code == WIRE_device_row)
			cJSON_AddItemToArray(devices,
					     ps_json_device(rows, &rows->row[i].device_row));
		if (rows->row[i].code == WIRE_tenant_row)
			cJSON_AddItemToArray(tenants,
					     ps_json_tenant(rows, &rows->row[i].tenant_row));
		if (rows->row[i].code == WIRE_outside_row) {
			row = cJSON_CreateObject();
			add_outside(row, &rows->row[i].outside_row);
			cJSON_AddItemToArray(outside, row);
		}
	}
	printed = cJSON_Print(top);
	puts(printed ? printed : "{}");
}

void ps_json_report(FILE *out, const struct ps_rows *rows, const struct ps_report *report)
{
	owned(cJSON_Delete) cJSON *top = cJSON_CreateObject();
	owned(free) char *printed = NULL;
	cJSON *devices;

	add_report(top, report);
	devices = cJSON_AddArrayToObject(top, "devices");
	for (size_t i = 0; i < rows->count; i++)
		if (rows->row[i].code == WIRE_tenant_row &&
		    rows->row[i].tenant_row.tenant == report->tenant)
			cJSON_AddItemToArray(devices,
					     ps_json_tenant(rows, &rows->row[i].tenant_row));
	printed = cJSON_Print(top);
	fprintf(out, "%s\n", printed ? printed : "{}");
}
