/* SPDX-License-Identifier: Apache-2.0 */
#include "page/metrics.h"

#include <math.h>
#include <string.h>

#include "view/metrics_write.h"

/* Of one text: each copy has its cost, and anybody may ask. */
enum { COPIES_MOST = 100 };

/* Slots and health are the device plugin's. */
static struct metrics_device device(void *owner, uint32_t index)
{
	const struct metrics *metrics = owner;
	const struct page_host *host = metrics->looks->host;
	struct metrics_device about = {
		.minor = -1, .gpu_instance = -1, .slots = NAN, .xids = NAN, .healthy = NAN};

	host->device(host->daemon, index, &about.minor, &about.gpu_instance);
	return about;
}

static void holder(void *owner, const struct wire_tenant_row *row,
		   struct metrics_holder *ret_holder)
{
	(void)owner;
	ret_holder->container = row->name.text;
}

static char *write_text(struct metrics *metrics)
{
	const struct metrics_source source = {
		.node = metrics->node, .owner = metrics, .device = device, .holder = holder};
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	int r;

	if (!out)
		return NULL;
	r = metrics_write_rows(out, &source, &metrics->looks->rows);
	if (fclose(out) == 0 && r == 0)
		return text;
	free(text);
	return NULL;
}

/* NULL: there is no memory, or there were too many requests. */
static char *recent(struct metrics *metrics)
{
	if (looks_gather(metrics->looks, false) < 0)
		return NULL;
	if (!metrics->text || metrics->since_ns != metrics->looks->since_ns) {
		free(metrics->text);
		metrics->text = write_text(metrics);
		metrics->since_ns = metrics->looks->since_ns;
		metrics->copies = 0;
	}
	if (!metrics->text || metrics->copies == COPIES_MOST)
		return NULL;
	metrics->copies++;
	return strdup(metrics->text);
}

static void on_request(void *owner, const struct http_request *request,
		       struct http_answer *ret_answer)
{
	if (strcmp(request->path, "/healthz") == 0) {
		ret_answer->status = 200;
		return;
	}
	if (strcmp(request->path, "/metrics") != 0) {
		/* As a person types the address that he has said. */
		ret_answer->status = 404;
		ret_answer->body =
			strdup("there is no such path: there are /metrics and /healthz\n");
		ret_answer->size = ret_answer->body ? strlen(ret_answer->body) : 0;
		return;
	}
	ret_answer->entitled = true; /* as far as anybody is */
	ret_answer->body = recent(owner);
	ret_answer->size = ret_answer->body ? strlen(ret_answer->body) : 0;
	ret_answer->type = "text/plain; version=0.0.4; charset=utf-8";
	ret_answer->status = ret_answer->body ? 200 : 503;
}

int metrics_open(struct metrics *metrics, struct looks *looks, struct http_tls *tls,
		 struct fault *why)
{
	const struct http_service service = {.answer = on_request, .owner = metrics, .tls = tls};
	int r;

	metrics->looks = looks;
	if (!looks->host->metrics)
		return 0;
	if (gethostname(metrics->node, sizeof(metrics->node) - 1) != 0)
		metrics->node[0] = '\0';
	r = http_open(looks->host->loop, looks->host->metrics, &service, &metrics->http, why);
	if (r < 0)
		fault_within(why, "--metrics");
	return r;
}

void metrics_close(struct metrics *metrics)
{
	http_close(take(metrics->http));
	free(take(metrics->text));
}
