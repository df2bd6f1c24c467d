/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/ps_json.h"

#include <cjson/cJSON.h>

#include "cli/ps_filter.h"

OWNED_POINTER(cJSON, cJSON_Delete)

/* A text in memory, and the stream that writes it. */
struct writing {
	FILE *out; /* NULL: no memory */
	char *text;
	size_t size;
};

static void begin(struct writing *to)
{
	*to = (struct writing){0};
	to->out = open_memstream(&to->text, &to->size);
}

/* NULL without memory. */
static cJSON *parsed(struct writing *to)
{
	cJSON *json = to->out && fclose(to->out) == 0 ? cJSON_Parse(to->text) : NULL;

	free(to->text);
	return json;
}

cJSON *ps_json_tenant(const struct ps_rows *rows, const struct wire_tenant_row *tenant)
{
	struct writing to;

	begin(&to);
	if (to.out)
		ps_write_tenant(to.out, rows, tenant);
	return parsed(&to);
}

cJSON *ps_json_device(const struct ps_rows *rows, const struct wire_device_row *device)
{
	struct writing to;

	begin(&to);
	if (to.out)
		ps_write_device(to.out, rows, device);
	return parsed(&to);
}

static void write_row(FILE *out, const struct ps_rows *rows, const struct wire_message *row)
{
	if (row->code == WIRE_device_row)
		ps_write_device(out, rows, &row->device_row);
	else if (row->code == WIRE_tenant_row)
		ps_write_tenant(out, rows, &row->tenant_row);
	else
		ps_write_outside(out, rows, &row->outside_row);
}

static void write_list(FILE *out, const struct ps_rows *rows, uint16_t code, const char *key)
{
	const char *between = "";

	fprintf(out, ",\"%s\":[", key);
	for (size_t i = 0; i < rows->count; i++) {
		if (rows->row[i].code != code || !ps_shows(rows, &rows->row[i]))
			continue;
		fputs(between, out);
		write_row(out, rows, &rows->row[i]);
		between = ",";
	}
	fputc(']', out);
}

/* In cJSON's layout. */
static void print(FILE *out, struct writing *to)
{
	owned(cJSON_Delete) cJSON *json = parsed(to);
	owned(free) char *printed = cJSON_Print(json);

	fprintf(out, "%s\n", printed ? printed : "{}");
}

void ps_json_print(const struct ps_rows *rows)
{
	struct writing to;

	begin(&to);
	if (to.out) {
		fputs("{\"meted\":", to.out);
		ps_write_meted(to.out, rows, &rows->daemon);
		write_list(to.out, rows, WIRE_device_row, "devices");
		write_list(to.out, rows, WIRE_tenant_row, "tenants");
		write_list(to.out, rows, WIRE_outside_row, "outside");
		fputc('}', to.out);
	}
	print(stdout, &to);
}

void ps_json_report(FILE *out, const struct ps_rows *rows, const struct ps_report *report)
{
	struct writing to;

	begin(&to);
	if (to.out)
		ps_write_report(to.out, rows, report);
	print(out, &to);
}
