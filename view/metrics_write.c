/* SPDX-License-Identifier: Apache-2.0 */
#include "view/metrics_write.h"

#include <math.h>

#include "core/doing.h"

/* The text, and the holder of each row. */
struct text {
	FILE *out;
	const struct metrics_source *source;
	const struct ps_rows *rows;
	struct metrics_holder *holder; /* of rows[i], if it is a tenant's or a process */
};

/* A label's value, as Prometheus wants it: \, " and line ends are escaped. */
static void label(FILE *out, const char *name, const char *value)
{
	fprintf(out, "%s=\"", name);
	for (; *value; value++) {
		if (*value == '\n')
			fputs("\\n", out);
		else if (*value == '"' || *value == '\\')
			fprintf(out, "\\%c", *value);
		else
			fputc(*value, out);
	}
	fputc('"', out);
}

/* Labels as NVIDIA's DCGM exporter names them, so that figures of both can be joined. */
static void device_labels(const struct text *t, const struct wire_device_row *row)
{
	struct metrics_device device = t->source->device(t->source->owner, row->index);
	FILE *out = t->out;

	fprintf(out, "gpu=\"%u\",", row->index);
	label(out, "UUID", row->name.text);
	if (device.minor >= 0)
		fprintf(out, ",device=\"nvidia%d\"", device.minor);
	if (device.gpu_instance >= 0)
		fprintf(out, ",GPU_I_ID=\"%d\"", device.gpu_instance);
	fputc(',', out);
	label(out, "modelName", row->model.text);
	fputc(',', out);
	label(out, "Hostname", t->source->node);
}

static void holder_labels(const struct text *t, size_t at, uint32_t device, uint32_t tenant)
{
	const struct metrics_holder *holder = &t->holder[at];

	device_labels(t, ps_device(t->rows, device));
	fprintf(t->out, ",tenant=\"%u\",", tenant);
	label(t->out, "namespace", holder->namespace);
	fputc(',', t->out);
	label(t->out, "pod", holder->pod);
	fputc(',', t->out);
	label(t->out, "container", holder->container);
}

static void tenant_labels(const struct text *t, size_t at)
{
	const struct wire_tenant_row *row = &t->rows->row[at].tenant_row;

	holder_labels(t, at, row->device, row->tenant);
}

/* Tools that show processes ask for the UUID by its name in lower case. */
static void process_labels(const struct text *t, size_t at)
{
	const struct wire_guest_row *row = &t->rows->row[at].guest_row;

	holder_labels(t, at, row->device, row->tenant);
	fputc(',', t->out);
	label(t->out, "uuid", ps_device(t->rows, row->device)->name.text);
	fprintf(t->out, ",pid=\"%u\",", row->pid);
	label(t->out, "process_name", row->program.text);
}

void metrics_head(FILE *out, const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static double seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

/* The part of the last minute's time that it was due and did not have. */
static double lacking(const struct wire_tenant_row *row)
{
	return row->entitled_60s > row->charged_60s
		       ? seconds(row->entitled_60s - row->charged_60s) / 60
		       : 0;
}

/* The rows of a kind, if they have a holder or are devices. */
#define EACH(i, kind)                                                                              \
	for (size_t i = 0; i < t->rows->count; i++)                                                \
		if (t->rows->row[i].code == (kind))

/* NAME(): one function for each, as all of them are too long for one. */
#define DEVICE(name, type, value, help)                                                            \
	static void device_##name(const struct text *t)                                            \
	{                                                                                          \
		metrics_head(t->out, #name, #type, help);                                          \
		EACH(i, WIRE_device_row)                                                           \
		{                                                                                  \
			const struct wire_device_row *row = &t->rows->row[i].device_row;           \
			const struct metrics_device about =                                        \
				t->source->device(t->source->owner, row->index);                   \
			const struct metrics_device *device unused = &about;                       \
			double it = (double)(value);                                               \
                                                                                                   \
			if (isnan(it))                                                             \
				continue;                                                          \
			fputs(#name "{", t->out);                                                  \
			device_labels(t, row);                                                     \
			fprintf(t->out, "} %.17g\n", it);                                          \
		}                                                                                  \
	}
#define TENANT(name, type, value, help)                                                            \
	static void tenant_##name(const struct text *t)                                            \
	{                                                                                          \
		metrics_head(t->out, #name, #type, help);                                          \
		EACH(i, WIRE_tenant_row)                                                           \
		{                                                                                  \
			const struct wire_tenant_row *row = &t->rows->row[i].tenant_row;           \
			const struct metrics_holder *holder unused = &t->holder[i];                \
			double it = (double)(value);                                               \
                                                                                                   \
			if (isnan(it))                                                             \
				continue;                                                          \
			fputs(#name "{", t->out);                                                  \
			tenant_labels(t, i);                                                       \
			fprintf(t->out, "} %.17g\n", it);                                          \
		}                                                                                  \
	}
/* A line for each tenant, with its state as a label. */
#define STATE(name, type, value, help)                                                             \
	static void state_##name(const struct text *t)                                             \
	{                                                                                          \
		metrics_head(t->out, #name, #type, help);                                          \
		EACH(i, WIRE_tenant_row)                                                           \
		{                                                                                  \
			const struct wire_tenant_row *row = &t->rows->row[i].tenant_row;           \
                                                                                                   \
			fputs(#name "{", t->out);                                                  \
			tenant_labels(t, i);                                                       \
			fputc(',', t->out);                                                        \
			label(t->out, "state", doing_name(value));                                 \
			fputs("} 1\n", t->out);                                                    \
		}                                                                                  \
	}
#define PROCESS(name, type, value, help)                                                           \
	static void process_##name(const struct text *t)                                           \
	{                                                                                          \
		metrics_head(t->out, #name, #type, help);                                          \
		EACH(i, WIRE_guest_row)                                                            \
		{                                                                                  \
			const struct wire_guest_row *row = &t->rows->row[i].guest_row;             \
                                                                                                   \
			fputs(#name "{", t->out);                                                  \
			process_labels(t, i);                                                      \
			fprintf(t->out, "} %.17g\n", (double)(value));                             \
		}                                                                                  \
	}
#include "view/metrics.def"

static void write_all(const struct text *t)
{
#define DEVICE(name, type, value, help)	 device_##name(t);
#define TENANT(name, type, value, help)	 tenant_##name(t);
#define STATE(name, type, value, help)	 state_##name(t);
#define PROCESS(name, type, value, help) process_##name(t);
#include "view/metrics.def"
}

static void find_holders(const struct text *t)
{
	size_t last = 0;

	for (size_t i = 0; i < t->rows->count; i++) {
		const struct wire_message *row = &t->rows->row[i];

		t->holder[i].pod = t->holder[i].container = "";
		if (row->code == WIRE_tenant_row)
			t->source->holder(t->source->owner, &row->tenant_row, &t->holder[last = i]);
		else if (row->code == WIRE_guest_row)
			t->holder[i] = t->holder[last];
	}
}

int metrics_write_rows(FILE *out, const struct metrics_source *source, const struct ps_rows *rows)
{
	struct text t = {.out = out, .source = source, .rows = rows};

	t.holder = calloc(rows->count + 1, sizeof(t.holder[0]));
	if (!t.holder)
		return -ENOMEM;
	find_holders(&t);
	write_all(&t);
	free(t.holder);
	return 0;
}
