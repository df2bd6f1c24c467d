/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the API server's answers: events of a watch, pages of a list, statuses. Pure: text in,
 * trees and sentences out. Nothing is trusted: anything that violates the API's conventions is
 * -EBADMSG.
 */
#pragma once

#include <stdbool.h>
#include <cjson/cJSON.h>

#include "base/fault.h"

enum {
	API_VERSION_MAX = 1024, /* of a resourceVersion */
	API_CONTINUE_MAX =
		16384, /* of a continue token: it goes into the next request's first line */
};

/* One complete value with nothing after it; NULL if it is not JSON. */
cJSON *api_read_json(const char *text, size_t size);

/* Has a text of it a zero byte, where cJSON would cut it? */
bool api_read_has_zero(const char *text, size_t size);

enum api_event_kind {
	API_EVENT_SEEN, /* ADDED, MODIFIED */
	API_EVENT_GONE,
	API_EVENT_BOOKMARK,
	API_EVENT_ERROR, /* `object` is a status, `version` is NULL */
	API_EVENT_OTHER, /* an event of a kind that does not concern us */
};

struct api_event {
	enum api_event_kind kind;
	cJSON *tree;	     /* owned */
	const cJSON *object; /* in the tree; likewise: */
	const char *version; /* the watch's position after this event */
};

must_check int api_event_read(const char *line, size_t size, struct api_event *ret_event);
void api_event_done(struct api_event *event);

struct api_page {
	cJSON *tree;	     /* owned */
	const cJSON *items;  /* an array of objects, or NULL: none; in the tree; likewise: */
	const char *version; /* of the list */
	const char *next;    /* token of the next page; NULL: this is the last */
};

must_check int api_page_read(const char *text, size_t size, struct api_page *ret_page);
void api_page_done(struct api_page *page);

/* HTTP's code of a status object, or 0. */
int api_status_code(const cJSON *status);
/* Its message, safe to display; if it has none, that VERB PATH was answered with `code`. */
void api_status_say(const cJSON *status, int code, const char *verb, const char *path,
		    struct fault *ret_why);
/* Whether the resourceVersion belongs to another history of the cluster (restored from a
 * backup). */
int api_status_is_ahead(const cJSON *status);
