/* SPDX-License-Identifier: Apache-2.0 */
/* The text of /metrics: rows are gathered, and then written by metrics.def. */
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "core/doing.h"
#include "plugin/plugin.h"

enum { ROWS_MOST = 16384 };

struct tenant_row {
	struct wire_tenant_row row;
	const struct binding *binding; /* NULL: not a container's */
};

struct process_row {
	struct wire_guest_row row;
	const struct binding *binding;
};

struct rows {
	const struct plugin *plugin;
	struct wire_device_row device[HOST_DEVICES];
	struct tenant_row *tenant;
	struct process_row *process;
	uint32_t devices, tenants, tenant_room, processes, process_room;
};

static void on_device(void *owner, const struct wire_device_row *row)
{
	struct rows *rows = owner;

	if (rows->devices < HOST_DEVICES)
		rows->device[rows->devices++] = *row;
}

/* An array with room for one more; NULL: what there is stays as it is, and takes no more. */
static void *make_room(void *list, uint32_t count, uint32_t *room, size_t size)
{
	uint32_t larger = *room ? 2 * *room : 64;
	void *more;

	if (count < *room)
		return list;
	more = larger <= ROWS_MOST ? realloc(list, larger * size) : NULL;
	if (more)
		*room = larger;
	return more;
}

static void on_tenant(void *owner, const struct wire_tenant_row *row)
{
	struct rows *rows = owner;
	struct tenant_row *list =
		make_room(rows->tenant, rows->tenants, &rows->tenant_room, sizeof(*list));

	if (!list)
		return;
	rows->tenant = list;
	list[rows->tenants++] = (struct tenant_row){
		*row, binding_store_of_tenant(&rows->plugin->bindings, row->tenant)};
}

static void on_guest(void *owner, const struct wire_guest_row *row)
{
	struct rows *rows = owner;
	struct process_row *list =
		make_room(rows->process, rows->processes, &rows->process_room, sizeof(*list));

	if (!list)
		return;
	rows->process = list;
	list[rows->processes++] = (struct process_row){
		*row, binding_store_of_tenant(&rows->plugin->bindings, row->tenant)};
}

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

/* The names that NVIDIA's DCGM exporter gives them, so that figures of both can be joined. */
static void device_labels(FILE *out, const struct plugin *p, const struct wire_device_row *row)
{
	const struct host_device *device = &p->host->device[row->index];

	fprintf(out, "gpu=\"%u\",", row->index);
	label(out, "UUID", row->name.text);
	if (device->minor >= 0)
		fprintf(out, ",device=\"nvidia%d\"", device->minor);
	if (device->gpu_instance >= 0)
		fprintf(out, ",GPU_I_ID=\"%d\"", device->gpu_instance);
	fputc(',', out);
	label(out, "modelName", row->model.text);
	fputc(',', out);
	label(out, "Hostname", p->node);
}

static const struct wire_device_row *find_device(const struct rows *rows, uint32_t index)
{
	for (uint32_t i = 0; i < rows->devices; i++)
		if (rows->device[i].index == index)
			return &rows->device[i];
	return NULL;
}

/* Of a claim's tenant, which is NAMESPACE/CLAIM; "" of a name without a slash. */
static void namespace_of_name(FILE *out, const char *name)
{
	char namespace[sizeof(((struct wire_tenant_row *)NULL)->name.text)];
	const char *slash = strchr(name, '/');

	snprintf(namespace, sizeof(namespace), "%.*s", slash ? (int)(slash - name) : 0, name);
	label(out, "namespace", namespace);
}

static void holder_labels(FILE *out, const struct rows *rows, uint32_t index, uint32_t tenant,
			  const struct binding *b, const char *name)
{
	const struct wire_device_row *device = find_device(rows, index);

	if (device)
		device_labels(out, rows->plugin, device);
	fprintf(out, ",tenant=\"%u\",", tenant);
	if (b)
		label(out, "namespace", b->namespace);
	else
		namespace_of_name(out, name);
	fputc(',', out);
	label(out, "pod", b ? b->pod : "");
	fputc(',', out);
	label(out, "container", b ? b->container : name);
}

static void tenant_labels(FILE *out, const struct rows *rows, const struct tenant_row *tenant)
{
	holder_labels(out, rows, tenant->row.device, tenant->row.tenant, tenant->binding,
		      tenant->row.name.text);
}

/* "": it is gone. */
static const char *tenant_name(const struct rows *rows, uint32_t tenant)
{
	for (uint32_t i = 0; i < rows->tenants; i++)
		if (rows->tenant[i].row.tenant == tenant)
			return rows->tenant[i].row.name.text;
	return "";
}

/* Tools that show processes ask for the UUID by its name in lower case. */
static void process_labels(FILE *out, const struct rows *rows, const struct process_row *process)
{
	const struct wire_device_row *device = find_device(rows, process->row.device);

	holder_labels(out, rows, process->row.device, process->row.tenant, process->binding,
		      process->binding ? "" : tenant_name(rows, process->row.tenant));
	fputc(',', out);
	label(out, "uuid", device ? device->name.text : "");
	fprintf(out, ",pid=\"%u\",", process->row.pid);
	label(out, "process_name", process->row.program.text);
}

static void head(FILE *out, const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static double seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

/* Of the last minute's time, what it was due and did not have. */
static double lacking(const struct wire_tenant_row *row)
{
	return row->entitled_60s > row->charged_60s
		       ? seconds(row->entitled_60s - row->charged_60s) / 60
		       : 0;
}

static void write_plugin(FILE *out, const struct plugin *p)
{
#define PLUGIN(name, type, value, help)                                                            \
	head(out, #name, #type, help);                                                             \
	fprintf(out, #name " %.17g\n", (double)(value));
#include "plugin/metrics.def"
}

static void write_devices(FILE *out, const struct plugin *p, const struct rows *rows)
{
#define DEVICE(name, type, value, help)                                                            \
	head(out, #name, #type, help);                                                             \
	for (uint32_t i = 0; i < rows->devices; i++) {                                             \
		const struct wire_device_row *row unused = &rows->device[i];                       \
		const struct offer *offer unused = &p->offer[row->index];                          \
                                                                                                   \
		fputs(#name "{", out);                                                             \
		device_labels(out, p, &rows->device[i]);                                           \
		fprintf(out, "} %.17g\n", (double)(value));                                        \
	}
#include "plugin/metrics.def"
}

/* tenant_NAME(): one function for each, as all of them are too long for one. */
#define TENANT(name, type, value, help)                                                            \
	static void tenant_##name(FILE *out, const struct rows *rows)                              \
	{                                                                                          \
		head(out, #name, #type, help);                                                     \
		for (uint32_t i = 0; i < rows->tenants; i++) {                                     \
			const struct wire_tenant_row *row = &rows->tenant[i].row;                  \
			const struct binding *b unused = rows->tenant[i].binding;                  \
			double it = (double)(value);                                               \
                                                                                                   \
			if (isnan(it))                                                             \
				continue;                                                          \
			fputs(#name "{", out);                                                     \
			tenant_labels(out, rows, &rows->tenant[i]);                                \
			fprintf(out, "} %.17g\n", it);                                             \
		}                                                                                  \
	}
#include "plugin/metrics.def"

static void write_tenants(FILE *out, const struct rows *rows)
{
#define TENANT(name, type, value, help) tenant_##name(out, rows);
#include "plugin/metrics.def"
}

/* One line of each tenant: what it does is a label. */
static void write_states(FILE *out, const struct rows *rows)
{
#define STATE(name, type, value, help)                                                             \
	head(out, #name, #type, help);                                                             \
	for (uint32_t i = 0; i < rows->tenants; i++) {                                             \
		const struct wire_tenant_row *row = &rows->tenant[i].row;                          \
                                                                                                   \
		fputs(#name "{", out);                                                             \
		tenant_labels(out, rows, &rows->tenant[i]);                                        \
		fputc(',', out);                                                                   \
		label(out, "state", doing_name(value));                                            \
		fputs("} 1\n", out);                                                               \
	}
#include "plugin/metrics.def"
}

static void write_processes(FILE *out, const struct rows *rows)
{
#define PROCESS(name, type, value, help)                                                           \
	head(out, #name, #type, help);                                                             \
	for (uint32_t i = 0; i < rows->processes; i++) {                                           \
		const struct wire_guest_row *row = &rows->process[i].row;                          \
                                                                                                   \
		fputs(#name "{", out);                                                             \
		process_labels(out, rows, &rows->process[i]);                                      \
		fprintf(out, "} %.17g\n", (double)(value));                                        \
	}
#include "plugin/metrics.def"
}

char *metrics_write(struct plugin *p)
{
	struct rows rows = {.plugin = p};
	const struct host_reader reader = {
		.owner = &rows, .device = on_device, .tenant = on_tenant, .guest = on_guest};
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	p->host->rows(p->host->daemon, &reader);
	write_devices(out, p, &rows);
	write_tenants(out, &rows);
	write_states(out, &rows);
	write_processes(out, &rows);
	write_plugin(out, p);
	free(rows.tenant);
	free(rows.process);
	if (fclose(out) != 0) {
		free(text);
		return NULL;
	}
	return text;
}
