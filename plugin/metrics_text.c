/* SPDX-License-Identifier: Apache-2.0 */
/* The text of /metrics: view/metrics.def of the node's devices and tenants, and metrics.def. */
#include <math.h>
#include <string.h>

#include "plugin/plugin.h"
#include "view/metrics_write.h"

enum { ROWS_MOST = 32768 };

static void add(void *owner, const struct wire_message *row)
{
	struct ps_rows *rows = owner;
	struct wire_message *added = rows->count < ROWS_MOST ? ps_rows_add(rows) : NULL;

	if (added)
		*added = *row;
}

static void on_device(void *owner, const struct wire_device_row *row)
{
	add(owner, &(struct wire_message){.code = WIRE_device_row, .device_row = *row});
}

static void on_tenant(void *owner, const struct wire_tenant_row *row)
{
	add(owner, &(struct wire_message){.code = WIRE_tenant_row, .tenant_row = *row});
}

static void on_guest(void *owner, const struct wire_guest_row *row)
{
	add(owner, &(struct wire_message){.code = WIRE_guest_row, .guest_row = *row});
}

static struct metrics_device device(void *owner, uint32_t index)
{
	const struct plugin *p = owner;
	const struct host_device *about = &p->host->device[index];
	const struct offer *offer = &p->offer[index];

	return (struct metrics_device){.minor = about->minor,
				       .gpu_instance = about->gpu_instance,
				       .slots = offer->shared ? offer->slots : 0,
				       .xids = (double)p->xids[index],
				       .healthy = offer->healthy && !about->gone};
}

/* A claim's tenant is called NAMESPACE/CLAIM; another one has no namespace. */
static void holder(void *owner, const struct wire_tenant_row *row,
		   struct metrics_holder *ret_holder)
{
	const struct plugin *p = owner;
	const struct binding *b = binding_store_of_tenant(&p->bindings, row->tenant);
	const char *name = row->name.text, *slash = strchr(name, '/');

	ret_holder->pod = b ? b->pod : "";
	ret_holder->container = b ? b->container : name;
	ret_holder->over = b && over_is(b, row->device);
	if (b)
		snprintf(ret_holder->namespace, sizeof(ret_holder->namespace), "%s", b->namespace);
	else
		snprintf(ret_holder->namespace, sizeof(ret_holder->namespace), "%.*s",
			 slash ? (int)(slash - name) : 0, name);
}

static void write_plugin(FILE *out, const struct plugin *p)
{
#define PLUGIN(name, type, value, help)                                                            \
	metrics_head(out, #name, #type, help);                                                     \
	fprintf(out, #name " %.17g\n", (double)(value));
#include "plugin/metrics.def"
}

char *metrics_write(struct plugin *p)
{
	struct ps_rows rows = {0};
	const struct host_reader reader = {
		.owner = &rows, .device = on_device, .tenant = on_tenant, .guest = on_guest};
	const struct metrics_source source = {
		.node = p->node, .owner = p, .device = device, .holder = holder};
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	int r;

	if (!out)
		return NULL;
	p->host->rows(p->host->daemon, &reader);
	r = metrics_write_rows(out, &source, &rows);
	write_plugin(out, p);
	ps_rows_free(&rows);
	if (fclose(out) == 0 && r == 0)
		return text;
	free(text);
	return NULL;
}
