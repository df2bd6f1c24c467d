/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "base/place.h"
#include "base/text.h"
#include "cli/admin.h"
#include "cli/cli.h"
#include "cli/ps_time.h"

enum { WATCH_MS = 1000 };

OWNED_POINTER(cJSON, cJSON_Delete)

struct rows {
	struct wire_message *row; /* in the order they came */
	size_t count, room;
};

static void rows_free_owned(struct rows *rows)
{
	free(rows->row);
}

static int rows_add(struct rows *rows, const struct wire_message *row)
{
	if (rows->count == rows->room) {
		size_t room = rows->room ? 2 * rows->room : 64;
		struct wire_message *grown = realloc(rows->row, room * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		rows->row = grown;
		rows->room = room;
	}
	rows->row[rows->count++] = *row;
	return 0;
}

static int fetch(struct admin *admin, struct rows *rows, struct fault *why)
{
	struct wire_message request = {.code = WIRE_list}, answer = {0};
	int r = admin_ask(admin, &request, &answer, why);

	for (; r == 0 && answer.code != WIRE_end; r = admin_next(admin, &answer, why))
		if (rows_add(rows, &answer) < 0)
			return fault_set(why, -ENOMEM, "out of memory");
	return r;
}

static const char *gate_name(uint32_t gate)
{
	static const char *const names[] = {"open", "closing", "closed"};

	return gate < ARRAY_SIZE(names) ? names[gate] : "unknown";
}

static const struct wire_device_row *device_of(const struct rows *rows, uint32_t index)
{
	static const struct wire_device_row nothing;

	for (size_t i = 0; i < rows->count; i++)
		if (rows->row[i].code == WIRE_device_row && rows->row[i].device_row.index == index)
			return &rows->row[i].device_row;
	return &nothing;
}

/* The part of a name that a column has room for. */
static wire_text column(const wire_text *text, size_t width)
{
	wire_text shown = *text;

	shown.text[text_fit(shown.text, width)] = '\0';
	return shown;
}

static void print_devices(const struct rows *rows)
{
	printf("%-3s %-28s %-10s %-10s %-10s %-10s %s\n", "GPU", "MODEL", "MEMORY", "ALLOCATED",
	       "RESIDUAL", "CREDIT", "UUID");
	for (size_t i = 0; i < rows->count; i++) {
		const struct wire_device_row *device = &rows->row[i].device_row;

		if (rows->row[i].code != WIRE_device_row)
			continue;
		printf("%-3u %-28s %-10s %-10s %-10s %-10s %s\n", device->index,
		       column(&device->model, 28).text, text_bytes(device->capacity).text,
		       text_bytes(device->allocated).text, text_bytes(device->residual).text,
		       text_bytes(device->credit).text, admin_uuid(device).text);
	}
}

static void print_guests(const struct rows *rows, uint32_t tenant, uint32_t device)
{
	for (size_t i = 0; i < rows->count; i++) {
		const struct wire_guest_row *guest = &rows->row[i].guest_row;

		if (rows->row[i].code != WIRE_guest_row || guest->tenant != tenant ||
		    guest->device != device)
			continue;
		printf("     pid %-15u %-4s %-10s %-10s %-10s %-10s %s\n", guest->pid, "", "",
		       text_bytes(guest->allocated).text, text_bytes(guest->residual).text,
		       text_bytes(guest->credit).text, guest->program.text);
	}
}

static void print_tenants(const struct rows *rows)
{
	size_t tenants = 0;

	for (size_t i = 0; i < rows->count; i++) {
		const struct wire_tenant_row *tenant = &rows->row[i].tenant_row;

		if (rows->row[i].code != WIRE_tenant_row)
			continue;
		if (!tenants++)
			printf("\n%-4s %-19s %-4s %-10s %-10s %-10s %-10s %-10s %s\n", "ID",
			       "TENANT", "GPU", "LIMIT", "ALLOCATED", "RESIDUAL", "CREDIT", "PEAK",
			       "STATE");
		printf("%-4u %-19s %-4u %-10s %-10s %-10s %-10s %-10s %s%s", tenant->tenant,
		       column(&tenant->name, 19).text, tenant->device,
		       text_bytes(tenant->limit).text, text_bytes(tenant->allocated).text,
		       text_bytes(tenant->residual).text, text_bytes(tenant->credit).text,
		       text_bytes(tenant->peak).text, gate_name(tenant->gate),
		       tenant->waiting ? ", waits for memory" : "");
		if (tenant->coupled)
			printf(", coupled: its gate could not be closed");
		if (tenant->refusals)
			printf(", refused %llu", (unsigned long long)tenant->refusals);
		if (tenant->unknown_functions)
			printf(", unknown functions %llu",
			       (unsigned long long)tenant->unknown_functions);
		putchar('\n');
		print_guests(rows, tenant->tenant, tenant->device);
	}
	if (!tenants)
		puts("\nno tenants");
}

static void print_times(const struct rows *rows)
{
	bool any = false;

	for (size_t i = 0; i < rows->count; i++) {
		const struct wire_message *row = &rows->row[i];

		if (row->code != WIRE_tenant_row || !ps_time_matters(&row->tenant_row))
			continue;
		if (!any)
			ps_time_heading();
		any = true;
		ps_time_line(&row->tenant_row);
	}
}

static cJSON *json_device(const struct wire_device_row *device)
{
	cJSON *object = cJSON_CreateObject();

	cJSON_AddNumberToObject(object, "index", device->index);
	cJSON_AddStringToObject(object, "uuid", admin_uuid(device).text);
	cJSON_AddStringToObject(object, "model", device->model.text);
	cJSON_AddNumberToObject(object, "capacity_bytes", (double)device->capacity);
	cJSON_AddNumberToObject(object, "reserve_bytes", (double)device->reserve);
	cJSON_AddNumberToObject(object, "allocated_bytes", (double)device->allocated);
	cJSON_AddNumberToObject(object, "resident_bytes", (double)device->resident);
	cJSON_AddNumberToObject(object, "residual_bytes", (double)device->residual);
	cJSON_AddNumberToObject(object, "credit_bytes", (double)device->credit);
	return object;
}

static cJSON *json_tenant(const struct rows *rows, const struct wire_tenant_row *tenant)
{
	const struct wire_device_row *device = device_of(rows, tenant->device);
	cJSON *object = cJSON_CreateObject(), *guests;

	cJSON_AddNumberToObject(object, "tenant", tenant->tenant);
	cJSON_AddStringToObject(object, "name", tenant->name.text);
	cJSON_AddNumberToObject(object, "device", tenant->device);
	cJSON_AddStringToObject(object, "device_uuid", admin_uuid(device).text);
	cJSON_AddStringToObject(object, "model", device->model.text);
	cJSON_AddNumberToObject(object, "limit_bytes", (double)tenant->limit);
	cJSON_AddNumberToObject(object, "allocated_bytes", (double)tenant->allocated);
	cJSON_AddNumberToObject(object, "resident_bytes", (double)tenant->resident);
	cJSON_AddNumberToObject(object, "residual_bytes", (double)tenant->residual);
	cJSON_AddNumberToObject(object, "credit_bytes", (double)tenant->credit);
	cJSON_AddNumberToObject(object, "peak_bytes", (double)tenant->peak);
	cJSON_AddNumberToObject(object, "refusals", (double)tenant->refusals);
	cJSON_AddNumberToObject(object, "waiting", tenant->waiting);
	cJSON_AddStringToObject(object, "gate", gate_name(tenant->gate));
	cJSON_AddBoolToObject(object, "coupled", tenant->coupled != 0);
	cJSON_AddNumberToObject(object, "unknown_functions", (double)tenant->unknown_functions);
	ps_time_json(object, tenant);
	guests = cJSON_AddArrayToObject(object, "processes");
	for (size_t i = 0; i < rows->count; i++) {
		const struct wire_guest_row *guest = &rows->row[i].guest_row;
		cJSON *process;

		if (rows->row[i].code != WIRE_guest_row || guest->tenant != tenant->tenant ||
		    guest->device != tenant->device)
			continue;
		process = cJSON_CreateObject();
		cJSON_AddNumberToObject(process, "pid", guest->pid);
		cJSON_AddStringToObject(process, "program", guest->program.text);
		cJSON_AddNumberToObject(process, "allocated_bytes", (double)guest->allocated);
		cJSON_AddNumberToObject(process, "residual_bytes", (double)guest->residual);
		cJSON_AddNumberToObject(process, "credit_bytes", (double)guest->credit);
		cJSON_AddItemToArray(guests, process);
	}
	return object;
}

static void print_json(const struct rows *rows)
{
	owned(cJSON_Delete) cJSON *top = cJSON_CreateObject();
	cJSON *devices = cJSON_AddArrayToObject(top, "devices");
	cJSON *tenants = cJSON_AddArrayToObject(top, "tenants");
	owned(free) char *text = NULL;

	for (size_t i = 0; i < rows->count; i++) {
		const struct wire_message *row = &rows->row[i];

		if (row->code == WIRE_device_row)
			cJSON_AddItemToArray(devices, json_device(&row->device_row));
		if (row->code == WIRE_tenant_row)
			cJSON_AddItemToArray(tenants, json_tenant(rows, &row->tenant_row));
	}
	text = cJSON_Print(top);
	puts(text ? text : "{}");
}

/* What there is now, from a connection of its own: a meted that was replaced goes on being shown.
 */
static int print_once(const struct cli_line *line, struct fault *why)
{
	owned(admin_close) struct admin admin = {.fd = -1};
	owned(rows_free) struct rows rows = {0};
	char place[PLACE_MAX];
	int r = admin_connect_any(&admin, place, why);

	if (r < 0 || (r == 0 && fetch(&admin, &rows, why) < 0))
		return -1;
	if (cli_value(line, "watch") && isatty(STDOUT_FILENO))
		fputs("\033[H\033[J", stdout); /* from the top left corner, of an empty screen */
	if (cli_value(line, "json"))
		print_json(&rows);
	else if (r == ADMIN_ABSENT)
		puts("no meted runs: `mete run` starts one");
	else {
		print_devices(&rows);
		print_tenants(&rows);
		print_times(&rows);
	}
	return fflush(stdout) == 0 ? 0
				   : fault_set(why, -errno, "standard output: %s", strerror(errno));
}

int ps_main(const struct cli_line *line)
{
	bool watch = cli_value(line, "watch") != NULL;
	struct fault why;

	if (line->argc)
		return cli_complain(line, CLI_USAGE, "'%s': ps takes no arguments", line->argv[0]);
	do {
		if (print_once(line, &why) < 0)
			return cli_fail(line, 1, &why);
	} while (watch && poll(NULL, 0, WATCH_MS) == 0);
	return 0;
}
