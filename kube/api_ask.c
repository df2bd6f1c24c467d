/* SPDX-License-Identifier: Apache-2.0 */
/* Single requests. */
#include <string.h>

#include "kube/api_inside.h"
#include "kube/api_read.h"

struct api_asked {
	struct api *api;
	struct api_transfer transfer;
	struct api_stream answer;
	struct loop_timer timer; /* the server asked us to come later */
	char *verb, *path, *content, *body;
	uint64_t until_ns;
	bool again; /* sent a second time, because the credentials' files had changed */
	bool exact; /* as in the request */
	bool over;  /* answered, or forgotten */
	void (*answered)(void *owner, int status, const char *problem, const cJSON *object);
	void *owner;
};

static void on_moved(struct api_transfer *transfer);

static void on_closed(struct loop_timer *timer)
{
	struct api_asked *asked = container_of(timer, struct api_asked, timer);

	free(asked->answer.data);
	free(asked->verb);
	free(asked->path);
	free(asked->content);
	free(asked->body);
	free(asked);
}

/* Ends the request. The memory is freed in the loop's next iteration. */
static void let_go(struct api_asked *asked)
{
	asked->over = true;
	api_transfer_end(&asked->transfer);
	loop_timer_close(&asked->timer, on_closed);
}

static int submit(struct api_asked *asked)
{
	uint64_t now = loop_now_ns();
	struct api_wanted wanted = {
		.verb = asked->verb,
		.path = asked->path,
		.content = asked->content,
		.body = asked->body,
		.within_ns = asked->until_ns > now ? asked->until_ns - now : 0,
	};
	int r = api_wanted_check(&wanted);

	if (r < 0)
		return r;
	return api_transfer_start(asked->api, &asked->transfer, &wanted, &asked->answer, on_moved);
}

static void answer(struct api_asked *asked, int status, const char *problem, const cJSON *object)
{
	asked->over = true;
	asked->answered(asked->owner, status, problem, object);
	let_go(asked);
}

static void answer_whole(struct api_asked *asked)
{
	struct api_transfer *transfer = &asked->transfer;
	size_t size;
	const char *text = api_stream_all(&asked->answer, &size);
	bool cut = asked->exact && api_read_has_zero(text, size);
	cJSON *object = cut ? NULL : api_read_json(text, size);
	bool good = transfer->status >= 200 && transfer->status <= 299;
	struct fault why;

	if (!good)
		api_status_say(object, transfer->status, asked->verb, asked->path, &why);
	answer(asked, transfer->status, good ? NULL : why.text, object);
	cJSON_Delete(object);
}

static void on_later(struct loop_timer *timer)
{
	struct api_asked *asked = container_of(timer, struct api_asked, timer);

	if (submit(asked) < 0)
		answer(asked, 0, "out of memory", NULL);
}

static void on_moved(struct api_transfer *transfer)
{
	struct api_asked *asked = container_of(transfer, struct api_asked, transfer);
	struct fault why;

	if (!transfer->over)
		return;
	/* In neither case did the server do anything, so any verb may be repeated. */
	if (!asked->again && api_transfer_is_stale(transfer)) {
		api_transfer_end(transfer);
		asked->again = true;
		on_later(&asked->timer);
		return;
	}
	if (transfer->result != CURLE_OK) {
		api_transfer_say(transfer, &why);
		answer(asked, 0, why.text, NULL);
		return;
	}
	/* A server under load says when to retry (Retry-After), and has not done anything. */
	if ((transfer->status == 429 || transfer->status >= 500) && transfer->later_ns &&
	    loop_now_ns() + transfer->later_ns < asked->until_ns) {
		uint64_t later_ns = transfer->later_ns;

		api_transfer_end(transfer);
		loop_arm(&asked->timer, later_ns);
		return;
	}
	answer_whole(asked);
}

static int copy_texts(struct api_asked *asked, const struct api_request *request)
{
	asked->verb = strdup(request->verb);
	asked->path = strdup(request->path);
	asked->content = request->content ? strdup(request->content) : NULL;
	asked->body = request->body ? strdup(request->body) : NULL;
	if (!asked->verb || !asked->path || (request->content && !asked->content) ||
	    (request->body && !asked->body))
		return -ENOMEM;
	return 0;
}

int api_ask(struct api *api, const struct api_request *request,
	    void (*answered)(void *owner, int status, const char *problem, const cJSON *object),
	    void *owner, struct api_asked **ret_asked)
{
	struct api_asked *asked = calloc(1, sizeof(*asked));
	uint64_t within_ns = request->within_ns ? request->within_ns : 30000000000;
	int r;

	if (!asked)
		return -ENOMEM;
	asked->api = asked->transfer.api = api;
	asked->answer.most = request->most_bytes ? request->most_bytes : api->pace.most_bytes;
	asked->answered = answered;
	asked->owner = owner;
	asked->exact = request->exact;
	asked->until_ns = loop_now_ns() + within_ns;
	r = loop_timer_init(api->loop, &asked->timer, on_later);
	if (r < 0) {
		free(asked);
		return r;
	}
	r = copy_texts(asked, request);
	if (r == 0)
		r = submit(asked);
	if (r < 0) {
		let_go(asked);
		return r;
	}
	if (ret_asked)
		*ret_asked = asked;
	return 0;
}

void api_forget(struct api_asked *asked)
{
	if (asked && !asked->over)
		let_go(asked);
}
