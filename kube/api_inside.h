/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declarations shared by the files of the API client and its tests: libcurl's multi interface on
 * our loop.
 *
 * libcurl silently refuses calls from its own callbacks. These therefore only store incoming data
 * (api_stream) and mark the transfer; api.c's pump calls moved() afterwards, outside libcurl. There
 * anything may be started and ended, including the whole client.
 */
#pragma once

#include <curl/curl.h>

#include "base/list.h"
#include "kube/api.h"
#include "kube/api_site.h"
#include "kube/api_stream.h"

/* The timeouts. api_open() sets the defaults. */
struct api_pace {
	uint64_t pause_least_ns, pause_most_ns; /* between tries: 1 s, 30 s */
	uint64_t connect_ns;			/* 10 s */
	uint64_t answer_ns;  /* an answer must begin, or continue, within this: 30 s */
	uint64_t silence_ns; /* a watch without a byte for this long is dead: 150 s; bookmarks come
				every minute */
	uint64_t hasty_ns;   /* a watch that ended sooner does not count: 1 s */
	unsigned watch_s;    /* a watch lasts this long, or up to twice as long: 300 s */
	unsigned page;	     /* objects in one: 500 */
	size_t most_bytes;   /* of an answer, a page, an event: 16 MiB */
};

struct api {
	struct loop *loop;
	struct api_site *site;
	struct api_pace pace;
	CURLM *multi;
	CURL *spare; /* used again by the next transfer */
	struct loop_timer timer;
	struct list ready; /* of api_transfer.ready: moved() is due */
	bool closed;
};

/* The request. Texts are borrowed while the transfer lasts. */
struct api_wanted {
	const char *verb, *path, *query, *content, *body;
	uint64_t within_ns;
};

struct api_transfer {
	struct api *api;
	CURL *easy; /* NULL: none is under way */
	struct curl_slist *headers;
	struct api_stream *into; /* borrowed */
	struct list ready;
	void (*moved)(struct api_transfer *transfer);
	unsigned generation; /* of the site, as it was sent */
	bool answered;	     /* all headers have come: `status` is HTTP's */
	bool over;	     /* with `result` */
	bool large;	     /* ended because it was */
	int status;
	uint64_t later_ns; /* Retry-After, or 0; once it is over */
	CURLcode result;
	char said[CURL_ERROR_SIZE];
};

/* -EINVAL: verb, path or content cannot be sent. */
must_check int api_wanted_check(const struct api_wanted *wanted);

/* `transfer->into` is emptied. */
must_check int api_transfer_start(struct api *api, struct api_transfer *transfer,
				  const struct api_wanted *wanted, struct api_stream *into,
				  void (*moved)(struct api_transfer *transfer));
/* Ends whatever it is doing; does nothing if idle. */
void api_transfer_end(struct api_transfer *transfer);

/* Why there is no answer, if it ended without one. */
void api_transfer_say(const struct api_transfer *transfer, struct fault *ret_why);

/* The server rejected our credentials, or we rejected the server's certificate: rereads the
 * files. True: they had changed, so that another try is worthwhile. */
bool api_transfer_is_stale(struct api_transfer *transfer);
