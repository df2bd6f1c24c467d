/* SPDX-License-Identifier: Apache-2.0 */
#include "view/ps_write.h"

#include <string.h>

#include "core/doing.h"
#include "core/gate.h"
#include "core/share/share.h"

static const double exact_most = 9007199254740992; /* whole numbers are exact up to it */

struct object {
	FILE *out;
	const char *between;   /* before the next key */
	const char *separator; /* before those after it */
};

static struct object open_object(FILE *out)
{
	fputs("{\n", out);
	return (struct object){.out = out, .between = "", .separator = ",\n"};
}

static void close_object(const struct object *object)
{
	fputs("\n}", object->out);
}

static void key(struct object *object, const char *name)
{
	fprintf(object->out, "%s\"%s\":", object->between, name);
	object->between = object->separator;
}

void ps_write_text(FILE *out, const char *text)
{
	fputc('"', out);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fprintf(out, "\\%c", *text);
		else if ((unsigned char)*text < ' ' || *text == '\x7f')
			fprintf(out, "\\u%04x", (unsigned char)*text);
		else
			fputc(*text, out);
	}
	fputc('"', out);
}

static void number(struct object *object, const char *name, double value)
{
	key(object, name);
	if (value < exact_most && value > -exact_most && value == (double)(long long)value)
		fprintf(object->out, "%lld", (long long)value);
	else
		fprintf(object->out, "%.17g", value);
}

static void text(struct object *object, const char *name, const char *value)
{
	key(object, name);
	ps_write_text(object->out, value);
}

static void flag(struct object *object, const char *name, bool value)
{
	key(object, name);
	fputs(value ? "true" : "false", object->out);
}

static void names(struct object *object, const char *name, uint32_t reasons)
{
	const char *between = "";

	key(object, name);
	fputc('[', object->out);
	for (uint32_t i = 0; i < GATE_REASONS; i++) {
		if (!gate_has(reasons, i))
			continue;
		fputs(between, object->out);
		ps_write_text(object->out, gate_name(i));
		between = ",";
	}
	fputc(']', object->out);
}

static const char *ps_gate_name(uint32_t gate)
{
	static const char *const known[] = {"open", "closing", "closed"};

	return gate < ARRAY_SIZE(known) ? known[gate] : "unknown";
}

/* One function for each kind of object, which adds the keys of its kind. */
#define IF_meted(object, ...)
#define IF_device(object, ...)
#define IF_tenant(object, ...)
#define IF_time(object, ...)
#define IF_process(object, ...)
#define IF_outside(object, ...)
#define IF_report(object, ...)
#define KEY(object, key, kind, value, meaning) IF_##object(kind(to, #key, value);)

#undef IF_meted
#define IF_meted(...) __VA_ARGS__
static void add_meted(struct object *to, const struct wire_admin_welcome *meted)
{
#include "view/ps_keys.def"
}
#undef IF_meted
#define IF_meted(...)

#undef IF_device
#define IF_device(...) __VA_ARGS__
static void add_device(struct object *to, const struct ps_rows *rows,
		       const struct wire_device_row *device)
{
#include "view/ps_keys.def"
}
#undef IF_device
#define IF_device(...)

#undef IF_tenant
#define IF_tenant(...) __VA_ARGS__
static void add_tenant(struct object *to, const struct ps_rows *rows,
		       const struct wire_tenant_row *tenant)
{
	int bad;

#include "view/ps_keys.def"
}
#undef IF_tenant
#define IF_tenant(...)

#undef IF_time
#define IF_time(...) __VA_ARGS__
static void add_time(struct object *to, const struct wire_tenant_row *time)
{
#include "view/ps_keys.def"
	/* Only if the driver has reported it. */
	if (time->busy) {
		number(to, "driver_busy", ((double)time->busy - 1) / 1000);
		number(to, "drift", ((double)time->busy_charged - time->busy) / 1000);
	}
}
#undef IF_time
#define IF_time(...)

#undef IF_process
#define IF_process(...) __VA_ARGS__
static void add_process(struct object *to, const struct ps_rows *rows,
			const struct wire_guest_row *process)
{
#include "view/ps_keys.def"
}
#undef IF_process
#define IF_process(...)

#undef IF_outside
#define IF_outside(...) __VA_ARGS__
static void add_outside(struct object *to, const struct ps_rows *rows,
			const struct wire_outside_row *outside)
{
#include "view/ps_keys.def"
}
#undef IF_outside
#define IF_outside(object, ...)

#undef IF_report
#define IF_report(...) __VA_ARGS__
static void add_report(struct object *to, const struct ps_report *report)
{
#include "view/ps_keys.def"
}

void ps_write_meted(FILE *out, const struct ps_rows *rows, const struct wire_admin_welcome *meted)
{
	struct object object;

	if (rows->absent) {
		fputs("null", out);
		return;
	}
	object = open_object(out);
	add_meted(&object, meted);
	close_object(&object);
}

/* Only what it says. */
static void add_board(struct object *to, const struct gpu_board *board)
{
	const struct {
		const char *key;
		int value;
	} said[] = {
		{"utilization_percent", board->load_percent},
		{"temperature_celsius", board->celsius},
		{"power_watts", board->watts},
		{"power_limit_watts", board->watts_most},
		{"clock_mhz", board->mhz},
	};

	for (size_t i = 0; i < ARRAY_SIZE(said); i++)
		if (said[i].value != BOARD_UNSAID)
			number(to, said[i].key, said[i].value);
}

void ps_write_device(FILE *out, const struct ps_rows *rows, const struct wire_device_row *device)
{
	struct object object = open_object(out);

	add_device(&object, rows, device);
	if (rows->board && device->index < rows->boards)
		add_board(&object, &rows->board[device->index]);
	close_object(&object);
}

void ps_write_outside(FILE *out, const struct ps_rows *rows, const struct wire_outside_row *outside)
{
	struct object object = open_object(out);

	add_outside(&object, rows, outside);
	close_object(&object);
}

/* Every field of the share by its name, including defaults. */
static void write_fields(FILE *out, const struct wire_tenant_row *tenant)
{
	fputc('{', out);
	for (uint32_t i = 0; share_key(i); i++) {
		fputs(i ? "," : "", out);
		ps_write_text(out, share_key(i));
		fputc(':', out);
		ps_write_text(out, ps_field(&tenant->share, share_key(i)).text);
	}
	fputc('}', out);
}

/* meted lists a tenant's processes after its row. */
static void write_processes(FILE *out, const struct ps_rows *rows,
			    const struct wire_tenant_row *tenant)
{
	const char *before = "{";

	const struct wire_message *end = rows->row + rows->count;
	const struct wire_message *row = container_of(tenant, struct wire_message, tenant_row);

	fputc('[', out);
	for (row++; row < end && row->code == WIRE_guest_row; row++) {
		const struct wire_guest_row *guest = &row->guest_row;
		struct object object = {.out = out, .between = before, .separator = ","};

		add_process(&object, rows, guest);
		fputc('}', out);
		before = ",{";
	}
	fputc(']', out);
}

void ps_write_tenant(FILE *out, const struct ps_rows *rows, const struct wire_tenant_row *tenant)
{
	struct object object = open_object(out), time;

	add_tenant(&object, rows, tenant);
	key(&object, "fields");
	write_fields(out, tenant);
	key(&object, "time");
	time = open_object(out);
	add_time(&time, tenant);
	close_object(&time);
	key(&object, "processes");
	write_processes(out, rows, tenant);
	close_object(&object);
}

void ps_write_report(FILE *out, const struct ps_rows *rows, const struct ps_report *report)
{
	struct object object = open_object(out);
	const char *between = "";

	add_report(&object, report);
	key(&object, "devices");
	fputc('[', out);
	for (size_t i = 0; i < rows->count; i++) {
		if (rows->row[i].code != WIRE_tenant_row ||
		    rows->row[i].tenant_row.tenant != report->tenant)
			continue;
		fputs(between, out);
		ps_write_tenant(out, rows, &rows->row[i].tenant_row);
		between = ",";
	}
	fputc(']', out);
	close_object(&object);
}
