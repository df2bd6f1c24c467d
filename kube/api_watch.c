/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A list that is kept up to date: first its pages, then a watch that continues from the list's
 * resourceVersion.
 *
 * When a watch ends, what happens next depends on the reason:
 *
 *  - The server ends it, or the connection breaks: it is resumed at once after the last event. API
 *    servers end every watch after some minutes.
 *  - It repeatedly ends within a second, sends something unreadable, is refused, or the server
 *    cannot be reached: a pause comes first, and the trouble is reported.
 *  - 410, as an answer or as an event (the server has forgotten our position): the list is read
 *    again, at once. If that does not help, it is read again after a pause.
 *  - Three failures in a row while the server can be reached: as after 410.
 */
#include <string.h>
#include <sys/random.h>

#include "kube/api_read.h"
#include "kube/api_watch_inside.h"

enum {
	LOST_AFTER = 3,	   /* failures of a watch after which the list is read again */
	LATER_MOST_S = 60, /* the longest Retry-After that is believed */
	AHEAD_BYTES = 4 << 20,
};

static void on_moved(struct api_transfer *transfer);

static uint64_t random_below(uint64_t bound)
{
	uint64_t value = 0;

	/* Without entropy (at boot) the pauses are just not spread. */
	best_effort(getrandom(&value, sizeof(value), GRND_NONBLOCK));
	return bound ? value % bound : 0;
}

static void tell_trouble(struct api_watch *watch, const char *sentence)
{
	if (watch->troubled && strcmp(watch->trouble.text, sentence) == 0)
		return;
	watch->troubled = true;
	fault_set(&watch->trouble, 0, "%s", sentence);
	if (watch->watcher.troubled)
		watch->watcher.troubled(watch->owner, watch->trouble.text);
}

void api_watch_well(struct api_watch *watch)
{
	watch->failures = watch->refusals = 0;
	watch->doubted = false;
	if (!watch->troubled)
		return;
	watch->troubled = false;
	if (watch->watcher.troubled)
		watch->watcher.troubled(watch->owner, NULL);
}

/* A random pause of at most 2 s, 4 s, ... 30 s, and at least half of that, so that not all
 * nodes try at the same time. */
static uint64_t pause_ns(const struct api_watch *watch)
{
	const struct api_pace *pace = &watch->api->pace;
	uint64_t most = pace->pause_least_ns, half;

	for (unsigned i = 0; i < watch->failures && most < pace->pause_most_ns; i++)
		most *= 2;
	if (most > pace->pause_most_ns)
		most = pace->pause_most_ns;
	half = most / 2 > pace->pause_least_ns ? most / 2 : pace->pause_least_ns;
	return half + random_below(most > half ? most - half : 0);
}

static void forget_place(struct api_watch *watch)
{
	free(take(watch->version));
	free(take(watch->next));
}

void api_watch_fail(struct api_watch *watch, const char *sentence, uint64_t later_ns)
{
	uint64_t wait_ns;

	api_transfer_end(&watch->transfer);
	watch->phase = PAUSING;
	watch->failures++;
	wait_ns = pause_ns(watch);
	if (later_ns > LATER_MOST_S * 1000000000ull)
		later_ns = LATER_MOST_S * 1000000000ull;
	loop_arm(&watch->timer, later_ns > wait_ns ? later_ns : wait_ns);
	tell_trouble(watch, sentence);
}

void api_watch_refuse(struct api_watch *watch, const char *sentence, uint64_t later_ns)
{
	if (++watch->refusals >= LOST_AFTER) {
		watch->refusals = 0;
		forget_place(watch);
	}
	api_watch_fail(watch, sentence, later_ns);
}

static void expire(struct api_watch *watch, const char *sentence)
{
	bool again = watch->expired;

	forget_place(watch);
	watch->expired = true;
	if (again)
		api_watch_fail(watch, sentence, 0);
	else
		api_watch_carry_on(watch);
}

static int start(struct api_watch *watch, const char *query, uint64_t within_ns)
{
	struct api_wanted wanted = {
		.verb = "GET", .path = watch->path, .query = query, .within_ns = within_ns};

	api_transfer_end(&watch->transfer);
	watch->since_ns = loop_now_ns();
	loop_arm(&watch->timer, watch->api->pace.answer_ns);
	return api_transfer_start(watch->api, &watch->transfer, &wanted, &watch->stream, on_moved);
}

static char joint(const struct api_watch *watch)
{
	return strchr(watch->path, '?') ? '&' : '?';
}

static int start_list(struct api_watch *watch)
{
	char *next = watch->next ? curl_easy_escape(NULL, watch->next, 0) : NULL;
	owned(free) char *query = NULL;
	int length;

	watch->phase = LISTING;
	watch->stream.ahead = 0;
	if (watch->next && !next)
		return -ENOMEM;
	length = asprintf(&query, "%climit=%u%s%s", joint(watch), watch->page,
			  next ? "&continue=" : "", next ? next : "");
	curl_free(next);
	if (length < 0) {
		query = NULL;
		return -ENOMEM;
	}
	return start(watch, query, 10 * watch->api->pace.answer_ns);
}

static int start_watch(struct api_watch *watch)
{
	unsigned usual_s = watch->api->pace.watch_s;
	unsigned seconds = usual_s + (unsigned)random_below(usual_s + 1);
	char *version = curl_easy_escape(NULL, watch->version, 0);
	owned(free) char *query = NULL;
	int length;

	watch->phase = FOLLOWING;
	watch->followed = false;
	watch->stream.ahead = AHEAD_BYTES;
	if (!version)
		return -ENOMEM;
	length = asprintf(&query,
			  "%cwatch=1&allowWatchBookmarks=true&resourceVersion=%s&timeoutSeconds=%u",
			  joint(watch), version, seconds);
	curl_free(version);
	if (length < 0) {
		query = NULL;
		return -ENOMEM;
	}
	/* The server ends the watch in time. If it does not, we do. */
	return start(watch, query, (seconds + 30) * 1000000000ull);
}

void api_watch_carry_on(struct api_watch *watch)
{
	int r = watch->version ? start_watch(watch) : start_list(watch);

	if (r < 0)
		api_watch_fail(watch, r == -ENOMEM ? "out of memory" : strerror(-r), 0);
}

void api_watch_end(struct api_watch *watch, const char *sentence)
{
	if (loop_now_ns() - watch->since_ns >= watch->api->pace.hasty_ns) {
		watch->hasty = 0;
		api_watch_well(watch);
	} else if (++watch->hasty > HASTY_ENDS) {
		watch->doubted = true;
		api_watch_fail(watch, sentence, 0);
		return;
	}
	if (!watch->closed)
		api_watch_carry_on(watch);
}

/* The server was silent for too long: treated like a broken connection. */
static void lose_patience(struct api_watch *watch)
{
	struct fault why;

	watch->transfer.result = CURLE_OPERATION_TIMEDOUT;
	api_transfer_say(&watch->transfer, &why);
	if (watch->phase == FOLLOWING && watch->followed)
		api_watch_end(watch, why.text);
	else
		api_watch_fail(watch, why.text, 0);
}

static void on_timer(struct loop_timer *timer)
{
	struct api_watch *watch = container_of(timer, struct api_watch, timer);

	if (watch->phase == PAUSING)
		api_watch_carry_on(watch);
	else
		lose_patience(watch);
}

void api_watch_hear_refusal(struct api_watch *watch, const cJSON *status, int code,
			    uint64_t later_ns)
{
	struct fault why;

	api_status_say(status, code, "GET", watch->path, &why);
	if (code == 410) {
		expire(watch, why.text);
		return;
	}
	/* Pauses first: the cluster may just be starting from its backup. */
	if (code == 400 || api_status_is_ahead(status))
		forget_place(watch);
	if (watch->version && code != 401 && code != 403 && code != 429 && code != 503)
		api_watch_refuse(watch, why.text, later_ns);
	else
		api_watch_fail(watch, why.text, later_ns);
}

/* A page that is too large may have too many objects: tries again with fewer. */
static bool ask_for_less(struct api_watch *watch)
{
	if (watch->phase != LISTING || !watch->transfer.large || watch->page == 1)
		return false;
	watch->page = watch->page > 4 ? watch->page / 4 : 1;
	api_watch_carry_on(watch);
	return true;
}

static void on_moved(struct api_transfer *transfer)
{
	struct api_watch *watch = container_of(transfer, struct api_watch, transfer);
	struct fault why;
	cJSON *status;
	size_t size;
	const char *text;

	if (watch->phase == FOLLOWING && transfer->status == 200) {
		api_watch_hear(watch);
		return;
	}
	if (!transfer->over) {
		loop_arm(&watch->timer, watch->api->pace.answer_ns);
		return;
	}
	if (api_transfer_is_stale(transfer)) {
		api_watch_carry_on(watch);
		return;
	}
	if (transfer->result != CURLE_OK) {
		if (ask_for_less(watch))
			return;
		api_transfer_say(transfer, &why);
		api_watch_fail(watch, why.text, 0);
		return;
	}
	if (transfer->status == 200) {
		api_watch_hear_page(watch);
		return;
	}
	text = api_stream_all(&watch->stream, &size);
	status = api_read_json(text, size);
	api_watch_hear_refusal(watch, status, transfer->status, transfer->later_ns);
	cJSON_Delete(status);
}

static void on_closed(struct loop_timer *timer)
{
	struct api_watch *watch = container_of(timer, struct api_watch, timer);

	free(watch->stream.data);
	free(watch->path);
	free(watch->version);
	free(watch->next);
	free(watch);
}

int api_watch_open(struct api *api, const char *path, const struct api_watcher *watcher,
		   void *owner, struct api_watch **ret_watch)
{
	struct api_wanted wanted = {.verb = "GET", .path = path};
	struct api_watch *watch;
	int r = api_wanted_check(&wanted);

	if (r < 0)
		return r;
	watch = calloc(1, sizeof(*watch));
	if (!watch)
		return -ENOMEM;
	watch->api = watch->transfer.api = api;
	watch->watcher = *watcher;
	watch->owner = owner;
	watch->page = api->pace.page;
	watch->stream.most = api->pace.most_bytes;
	r = loop_timer_init(api->loop, &watch->timer, on_timer);
	if (r < 0) {
		free(watch);
		return r;
	}
	watch->path = strdup(path);
	r = watch->path ? start_list(watch) : -ENOMEM;
	if (r < 0) {
		api_watch_close(watch);
		return r;
	}
	*ret_watch = watch;
	return 0;
}

void api_watch_close(struct api_watch *watch)
{
	if (!watch || watch->closed)
		return;
	watch->closed = true;
	api_transfer_end(&watch->transfer);
	loop_timer_close(&watch->timer, on_closed);
}

bool api_watch_is_current(const struct api_watch *watch)
{
	return watch->complete && watch->phase == FOLLOWING && !watch->troubled;
}
