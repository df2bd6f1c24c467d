/* SPDX-License-Identifier: Apache-2.0 */
/* What libmete-page.so exports; which path shows what. */
#include <string.h>

#include "base/log.h"
#include "http/http.h"
#include "page/access.h"
#include "page/crowd.h"
#include "page/host.h"
#include "page/metrics.h"
#include "page_html.h"

struct page_server {
	const struct page_host *host;
	struct access access;
	struct http *http;
	struct http_tls *tls;
	struct looks looks;
	struct rights_table rights;
	struct crowds crowds;
	struct metrics metrics;
	struct http_host viewer; /* of the answer that is being made */
};

/* What a browser does with an answer: nothing but to show it to whoever asked for it himself. */
#define NOTHING_ELSE                                                                               \
	"X-Content-Type-Options", "nosniff", "Referrer-Policy", "no-referrer", "X-Frame-Options",  \
		"DENY", "Cross-Origin-Resource-Policy", "same-origin",                             \
		"Cross-Origin-Opener-Policy", "same-origin"

static const char *const page_headers[] = {
	"Content-Security-Policy", PAGE_POLICY, "Cache-Control", "no-cache", NOTHING_ELSE, NULL};
static const char *const figure_headers[] = {"Content-Security-Policy",
					     "default-src 'none'; frame-ancestors 'none'",
					     "Cache-Control",
					     "no-store",
					     NOTHING_ELSE,
					     NULL};
static const char *const token_headers[] = {"WWW-Authenticate", "Bearer realm=\"mete\"",
					    "Cache-Control",	"no-store",
					    NOTHING_ELSE,	NULL};

static void answer_page(struct http_answer *ret_answer)
{
	ret_answer->headers = page_headers;
	ret_answer->type = "text/html; charset=utf-8";
	ret_answer->body = malloc(sizeof(page_html));
	ret_answer->status = ret_answer->body ? 200 : 503;
	if (!ret_answer->body)
		return;
	memcpy(ret_answer->body, page_html, sizeof(page_html));
	ret_answer->size = sizeof(page_html);
}

static void answer_text(int r, char *text, struct http_answer *ret_answer)
{
	ret_answer->headers = figure_headers;
	if (r < 0) {
		ret_answer->status = 503;
		return;
	}
	ret_answer->status = 200;
	ret_answer->type = "application/json";
	ret_answer->body = text;
	ret_answer->size = strlen(text);
}

static void say(struct http_answer *ret_answer, unsigned status, const char *sentence)
{
	ret_answer->status = status;
	ret_answer->body = strdup(sentence);
	ret_answer->size = ret_answer->body ? strlen(sentence) : 0;
}

static void answer_events(struct page_server *p, const struct sight *sight,
			  struct http_answer *ret_answer)
{
	int r = crowds_join(&p->crowds, sight, &ret_answer->stream);

	if (sight->rights)
		p->viewer = http_host_named(rights_name(sight->rights));
	ret_answer->headers = figure_headers;
	if (r == -EBUSY)
		say(ret_answer, 503,
		    "you have four streams of this node already: close one of them\n");
	else if (r < 0)
		ret_answer->status = 503;
	if (r < 0)
		return;
	if (sight->rights)
		ret_answer->whose = &p->viewer;
	ret_answer->type = "text/event-stream";
	ret_answer->status = 200;
}

/* The rest of the path behind a prefix; NULL: it has another one, or nothing follows. */
static const char *behind(const char *path, const char *prefix)
{
	size_t size = strlen(prefix);

	return strncmp(path, prefix, size) == 0 && path[size] ? path + size : NULL;
}

/* Nothing tells a tenant that may not be seen from one that is not there. */
static void say_absent(const char *path, struct http_answer *ret_answer)
{
	const char *sentence =
		"there is no such path: there are /, /healthz, /v1/node, /v1/events, "
		"/v1/tenants/NAME and /v1/devices/UUID\n";

	if (behind(path, "/v1/tenants/"))
		sentence = "no tenant that you may see has this name or number: /v1/node lists "
			   "them\n";
	else if (behind(path, "/v1/devices/"))
		sentence = "no device has this UUID or index: /v1/node lists them\n";
	ret_answer->headers = figure_headers;
	say(ret_answer, 404, sentence);
}

static void answer_figures(struct page_server *p, const struct sight *sight, const char *path,
			   struct http_answer *ret_answer)
{
	const char *name;
	char *text = NULL;
	int r = -ENOENT;

	if (strcmp(path, "/v1/events") == 0) {
		answer_events(p, sight, ret_answer);
		return;
	}
	if (strcmp(path, "/v1/node") == 0)
		r = looks_node(&p->looks, sight, &text);
	else if ((name = behind(path, "/v1/tenants/")) != NULL)
		r = looks_tenant(&p->looks, sight, name, &text);
	else if ((name = behind(path, "/v1/devices/")) != NULL)
		r = looks_device(&p->looks, sight, name, &text);
	if (r == -ENOENT)
		say_absent(path, ret_answer);
	else
		answer_text(r, text, ret_answer);
}

/* Whose token it is, and what he may see: false if that is refused, or not known yet. */
static bool enter(struct page_server *p, const struct http_request *request,
		  struct sight *ret_sight, struct http_answer *ret_answer)
{
	struct http_asker asker;
	int r;

	access_asker(request, &asker);
	r = rights_enter(&p->rights, access_bearer(request), &asker, request->waited_ns, ret_sight);
	if (r == RIGHTS_LATER) {
		ret_answer->later = true;
	} else if (r == RIGHTS_STRANGER) {
		ret_answer->headers = token_headers;
		say(ret_answer, 401, "this cluster's API server does not know this token\n");
	} else if (r == RIGHTS_NOTHING) {
		say(ret_answer, 403,
		    "nothing here may be seen with this token: neither a pod or claim with a share "
		    "of this node's GPUs, nor nodes/metrics of this node\n");
	} else if (r == -EBUSY) {
		say(ret_answer, 503, "too many others ask now: ask again in a few seconds\n");
	} else if (r < 0) {
		say(ret_answer, 503,
		    "the API server did not say whose this token is, or what he may see: ask again "
		    "in a few seconds\n");
	}
	return r == 0;
}

static void on_settled(void *owner)
{
	struct page_server *p = owner;

	http_go_on(p->http);
}

/* After a while in which nobody has looked, the first answer waits for the driver. */
static bool waits_for_boards(struct page_server *p, const char *path)
{
	const struct page_host *host = p->host;

	return (strcmp(path, "/v1/node") == 0 || strcmp(path, "/v1/events") == 0 ||
		behind(path, "/v1/devices/")) &&
	       host->want_boards(host->daemon, on_settled, p);
}

static void on_request(void *owner, const struct http_request *request,
		       struct http_answer *ret_answer)
{
	struct page_server *p = owner;
	bool page = strcmp(request->path, "/") == 0;
	struct sight sight;

	if (strcmp(request->path, "/healthz") == 0) {
		ret_answer->status = 200;
		return;
	}
	ret_answer->status = access_check(&p->access, request, page ? NULL : &sight);
	ret_answer->headers = ret_answer->status == 401 ? token_headers : figure_headers;
	if (ret_answer->status)
		return;
	ret_answer->entitled = !page;
	if (page)
		answer_page(ret_answer);
	else if (p->access.cluster && !enter(p, request, &sight, ret_answer))
		return;
	else if (waits_for_boards(p, request->path))
		ret_answer->later = true;
	else
		answer_figures(p, &sight, request->path, ret_answer);
}

static void on_tick_closed(struct loop_timer *timer)
{
	free(container_of(timer, struct page_server, crowds.tick));
}

static void on_forget_closed(struct loop_timer *timer)
{
	struct page_server *p = container_of(timer, struct page_server, looks.forget);

	crowds_close(&p->crowds, on_tick_closed);
}

static void close_page(struct page_server *p)
{
	if (!p)
		return;
	http_close(take(p->http));
	metrics_close(&p->metrics);
	http_tls_close(take(p->tls));
	rights_close(&p->rights);
	looks_close(&p->looks, on_forget_closed);
}

static int serve(struct page_server *p, struct fault *why)
{
	const struct http_service service = {
		.answer = on_request, .owner = p, .tls = p->tls, .everybody = p->host->system};
	int r;

	if (!p->host->page)
		return 0;
	r = http_open(p->host->loop, p->host->page, &service, &p->http, why);
	if (r < 0)
		fault_within(why, "--page");
	return r;
}

static void on_tls_read(void *owner, int r, const struct fault *why)
{
	(void)owner;
	if (r < 0)
		log_warning("tls.kept", "reason=\"%s\"", why->text);
	else
		log_info("tls.changed", "connections from now on have the new certificate");
}

static int open_tls(struct page_server *p, struct fault *why)
{
	int r = http_tls_open(p->host->loop, p->host->certificate, p->host->key, on_tls_read, p,
			      &p->tls, why);

	if (r < 0)
		fault_within(why, "--tls-cert and --tls-key");
	return r;
}

static int open_page(const struct page_host *host, struct page_server **ret_page, struct fault *why)
{
	struct page_server *p = calloc(1, sizeof(*p));
	int r = p ? looks_open(&p->looks, host) : -ENOMEM;

	if (r == 0)
		r = crowds_open(&p->crowds, &p->looks, &p->rights);
	if (r < 0)
		return fault_set(why, r, "out of memory");
	p->host = host;
	rights_open(&p->rights, &p->looks, on_settled, p);
	r = access_open(&p->access, host, why);
	if (r == 0 && host->certificate)
		r = open_tls(p, why);
	if (r == 0)
		r = serve(p, why);
	if (r == 0)
		r = metrics_open(&p->metrics, &p->looks, p->tls, why);
	if (r < 0)
		close_page(p);
	else
		*ret_page = p;
	return r;
}

__attribute__((visibility("default"))) extern const struct page_entry mete_page;
const struct page_entry mete_page = {
	.version = PAGE_VERSION, .open = open_page, .close = close_page};
