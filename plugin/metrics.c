/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "core/doing.h"
#include "plugin/plugin.h"

/* Writing the text takes milliseconds of the loop that serves the kubelet and all guests, and
 * anybody on the network may ask. Each copy of it has its cost as well. */
enum { ROWS_MOST = 16384, FRESH_MS = 1000, COPIES_MOST = 100 };

struct tenant_row {
	struct wire_tenant_row row;
	const struct binding *binding; /* NULL: not a container's */
};

struct rows {
	const struct plugin *plugin;
	struct wire_device_row device[HOST_DEVICES];
	struct tenant_row *tenant;
	uint32_t devices, tenants, room;
};

static void on_device(void *owner, const struct wire_device_row *row)
{
	struct rows *rows = owner;

	if (rows->devices < HOST_DEVICES)
		rows->device[rows->devices++] = *row;
}

static void on_tenant(void *owner, const struct wire_tenant_row *row)
{
	struct rows *rows = owner;

	if (rows->tenants == rows->room && rows->room < ROWS_MOST) {
		uint32_t room = rows->room ? 2 * rows->room : 64;
		void *more = realloc(rows->tenant, room * sizeof(rows->tenant[0]));

		if (!more)
			return;
		rows->tenant = more;
		rows->room = room;
	}
	if (rows->tenants < rows->room)
		rows->tenant[rows->tenants++] = (struct tenant_row){
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

static void device_labels(FILE *out, const struct wire_device_row *row)
{
	fprintf(out, "gpu=\"%u\",", row->index);
	label(out, "UUID", row->name.text);
	fputc(',', out);
	label(out, "modelName", row->model.text);
}

static void tenant_labels(FILE *out, const struct rows *rows, const struct tenant_row *tenant)
{
	const struct wire_tenant_row *row = &tenant->row;
	const struct binding *b = tenant->binding;

	for (uint32_t i = 0; i < rows->devices; i++)
		if (rows->device[i].index == row->device)
			device_labels(out, &rows->device[i]);
	fprintf(out, ",tenant=\"%u\",", row->tenant);
	label(out, "namespace", b ? b->namespace : "");
	fputc(',', out);
	label(out, "pod", b ? b->pod : "");
	fputc(',', out);
	label(out, "container", b ? b->container : row->name.text);
}

static void head(FILE *out, const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static double seconds(uint64_t ns)
{
	return (double)ns / 1e9;
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
		device_labels(out, &rows->device[i]);                                              \
		fprintf(out, "} %.17g\n", (double)(value));                                        \
	}
#include "plugin/metrics.def"
}

static void write_tenants(FILE *out, const struct rows *rows)
{
#define TENANT(name, type, value, help)                                                            \
	head(out, #name, #type, help);                                                             \
	for (uint32_t i = 0; i < rows->tenants; i++) {                                             \
		const struct wire_tenant_row *row = &rows->tenant[i].row;                          \
		const struct binding *b unused = rows->tenant[i].binding;                          \
                                                                                                   \
		fputs(#name "{", out);                                                             \
		tenant_labels(out, rows, &rows->tenant[i]);                                        \
		fprintf(out, "} %.17g\n", (double)(value));                                        \
	}
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

/* New text; NULL: out of memory. */
static char *write_metrics(struct plugin *p)
{
	struct rows rows = {.plugin = p};
	const struct host_reader reader = {
		.owner = &rows, .device = on_device, .tenant = on_tenant};
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	p->host->rows(p->host->daemon, &reader);
	write_devices(out, p, &rows);
	write_tenants(out, &rows);
	write_states(out, &rows);
	write_plugin(out, p);
	free(rows.tenant);
	if (fclose(out) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

/* A copy of recently written text, or new text; NULL: out of memory, or there were too many
 * requests. */
static char *recent_metrics(struct plugin *p)
{
	uint64_t now = loop_now_ns();

	if (!p->metrics || now - p->metrics_ns >= FRESH_MS * 1000000ull) {
		free(take(p->metrics));
		p->metrics_made++;
		p->metrics = write_metrics(p);
		p->metrics_ns = now;
		p->metrics_copies = 0;
	}
	if (p->metrics_copies == COPIES_MOST)
		return NULL;
	p->metrics_copies++;
	return p->metrics ? strdup(p->metrics) : NULL;
}

static void on_request(void *owner, const struct http_request *request,
		       struct http_answer *ret_answer)
{
	struct plugin *p = owner;

	if (strcmp(request->path, "/metrics") == 0) {
		ret_answer->body = recent_metrics(p);
		ret_answer->size = ret_answer->body ? strlen(ret_answer->body) : 0;
		ret_answer->type = "text/plain; version=0.0.4; charset=utf-8";
		ret_answer->status = ret_answer->body ? 200 : 503;
	} else if (strcmp(request->path, "/healthz") == 0) {
		ret_answer->status = 200;
	}
}

/* A server of its own: who keeps the other one busy does not make the kubelet restart meted. */
static void on_health(void *owner, const struct http_request *request,
		      struct http_answer *ret_answer)
{
	(void)owner;
	if (strcmp(request->path, "/healthz") == 0)
		ret_answer->status = 200;
}

static void stop(struct http **http, char **at)
{
	http_close(take(*http));
	free(take(*at));
}

static int serve(struct plugin *p, const char *address,
		 void (*answer)(void *owner, const struct http_request *request,
				struct http_answer *ret_answer),
		 struct http **http, char **at, struct fault *why)
{
	const struct http_service service = {.answer = answer, .owner = p};
	int r;

	/* Regular clients should not be cut off at each attempt to settle. */
	if (text_same(*at, address))
		return 0;
	stop(http, at);
	if (!address)
		return 0;
	*at = strdup(address);
	if (!*at)
		return fault_set(why, -ENOMEM, "out of memory");
	r = http_open(p->host->loop, address, &service, http, why);
	if (r < 0)
		free(take(*at));
	return r;
}

int metrics_open(struct plugin *p, struct fault *why)
{
	/* The kubelet is answered where the other address is taken. */
	int r = serve(p, p->config->health, on_health, &p->alive, &p->alive_at, why);

	return r < 0 ? r : serve(p, p->config->metrics, on_request, &p->http, &p->metrics_at, why);
}

void metrics_close(struct plugin *p)
{
	stop(&p->http, &p->metrics_at);
	stop(&p->alive, &p->alive_at);
	free(take(p->metrics));
}
