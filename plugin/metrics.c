/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/text.h"
#include "plugin/plugin.h"

/* Writing the text takes milliseconds of the loop that serves the kubelet and all guests, and
 * anybody on the network may ask. Each copy of it has its cost as well. */
enum { FRESH_MS = 1000, COPIES_MOST = 100 };

/* A copy of recently written text, or new text; NULL: out of memory, or there were too many
 * requests. */
static char *recent_metrics(struct plugin *p)
{
	uint64_t now = loop_now_ns();

	if (!p->metrics || now - p->metrics_ns >= FRESH_MS * 1000000ull) {
		free(take(p->metrics));
		p->metrics_made++;
		p->metrics = metrics_write(p);
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

/* A server of its own, so that clients that keep the other one busy do not make the kubelet
 * restart meted. */
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
