/* SPDX-License-Identifier: Apache-2.0 */
/* The API server's answers to a list and a watch, told to the watcher. */
#include <string.h>

#include "kube/api_read.h"
#include "kube/api_watch_inside.h"

static int api_watch_keep_version(struct api_watch *watch, const char *version)
{
	char *kept = strdup(version);

	if (!kept)
		return -ENOMEM;
	free(watch->version);
	watch->version = kept;
	return 0;
}

static void say_end(struct api_watch *watch, struct fault *ret_why)
{
	if (watch->transfer.result != CURLE_OK)
		api_transfer_say(&watch->transfer, ret_why);
	else
		fault_set(ret_why, 0, "%.200s: it ends every watch immediately",
			  watch->api->site->server);
}

/* Handles one event. False: the watch continues elsewhere, or is closed. */
static bool take_event(struct api_watch *watch, struct api_event *event)
{
	if (event->kind == API_EVENT_ERROR) {
		watch->doubted = true;
		api_watch_hear_refusal(watch, event->object, api_status_code(event->object), 0);
		return false;
	}
	if (event->version && api_watch_keep_version(watch, event->version) < 0) {
		api_watch_fail(watch, "out of memory", 0);
		return false;
	}
	watch->expired = false;
	if (loop_now_ns() - watch->since_ns >= watch->api->pace.hasty_ns)
		watch->hasty = 0;
	if (watch->hasty <= HASTY_ENDS)
		api_watch_well(watch);
	if (watch->closed)
		return false;
	if (event->kind == API_EVENT_SEEN && watch->watcher.seen)
		watch->watcher.seen(watch->owner, event->object);
	if (event->kind == API_EVENT_GONE && watch->watcher.gone)
		watch->watcher.gone(watch->owner, event->object);
	return !watch->closed;
}

/* Returns false like take_event(). */
static bool take_lines(struct api_watch *watch)
{
	const char *line;
	size_t size;
	int r;

	while ((r = api_stream_line(&watch->stream, &line, &size)) == API_STREAM_LINE) {
		struct api_event event;
		bool goes_on;

		r = api_event_read(line, size, &event);
		if (r < 0)
			break;
		/* Whole events only: one that drips never ends, and hides all that follow. */
		loop_arm(&watch->timer, watch->api->pace.silence_ns);
		goes_on = take_event(watch, &event);
		api_event_done(&event);
		if (!goes_on)
			return false;
	}
	if (r == 0)
		return true;
	watch->doubted = true;
	api_watch_refuse(watch,
			 r == -EFBIG ? "the API server sent an event that is too large"
				     : "the API server sent an event that cannot be read",
			 0);
	return false;
}

void api_watch_hear(struct api_watch *watch)
{
	struct api_transfer *transfer = &watch->transfer;
	struct fault why;

	if (!watch->followed) {
		watch->followed = true;
		watch->since_ns = loop_now_ns();
		loop_arm(&watch->timer, watch->api->pace.silence_ns);
		if (!watch->doubted)
			api_watch_well(watch);
		if (watch->closed)
			return;
	}
	if (!take_lines(watch) || !transfer->over)
		return;
	/* A truncated line is ignored: it comes again, because we resume after the last complete
	 * one. */
	if (transfer->large) {
		watch->doubted = true;
		api_watch_refuse(watch, "the API server sent an event that is too large", 0);
		return;
	}
	say_end(watch, &why);
	api_watch_end(watch, why.text);
}

static void finish_list(struct api_watch *watch, const struct api_page *page)
{
	if (api_watch_keep_version(watch, page->version) < 0) {
		api_watch_fail(watch, "out of memory", 0);
		return;
	}
	free(take(watch->next));
	watch->complete = true;
	if (watch->watcher.listed)
		watch->watcher.listed(watch->owner);
	if (!watch->closed)
		api_watch_carry_on(watch);
}

static void take_page(struct api_watch *watch, const struct api_page *page)
{
	char *next = page->next ? strdup(page->next) : NULL;
	const cJSON *item = NULL;

	if (page->next && !next) {
		api_watch_fail(watch, "out of memory", 0);
		return;
	}
	if (!watch->next) {
		watch->complete = false;
		if (watch->watcher.begins)
			watch->watcher.begins(watch->owner);
	}
	cJSON_ArrayForEach(item, page->items)
	{
		if (!watch->closed && watch->watcher.seen)
			watch->watcher.seen(watch->owner, item);
	}
	if (watch->closed) {
		free(next);
		return;
	}
	free(watch->next);
	watch->next = next;
	if (next)
		api_watch_carry_on(watch);
	else
		finish_list(watch, page);
}

void api_watch_hear_page(struct api_watch *watch)
{
	size_t size;
	const char *text = api_stream_all(&watch->stream, &size);
	struct api_page page;

	if (api_page_read(text, size, &page) < 0) {
		api_watch_fail(watch, "the API server sent a list that cannot be read", 0);
		return;
	}
	/* If a page's next page is the page itself, the list would never end. */
	if (page.next && watch->next && strcmp(page.next, watch->next) == 0)
		api_watch_fail(watch, "the API server sent a list without an end", 0);
	else
		take_page(watch, &page);
	api_page_done(&page);
}
