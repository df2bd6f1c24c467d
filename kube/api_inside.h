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
	uint64_t silence_ns; /* a watch without an event for this long is dead: 150 s
			      * (bookmarks arrive every minute) */
	uint64_t hasty_ns;   /* a watch that ended sooner counts as failed: 1 s */
	unsigned watch_s;    /* a watch lasts this long, or up to twice as long: 300 s */
	unsigned page;	     /* objects per page: 500 */
	size_t most_bytes;   /* of an answer, a page or an event: 16 MiB */
};

struct api {
	struct loop *loop;
	struct api_site *site;
	struct api_pace pace;
	CURLM *multi;
	CURL *spare; /* reused by the next transfer */
	struct loop_timer timer;
	struct list ready; /* links api_transfer.ready; moved() is due for these */
	bool closed;
};

/* The request. Texts are borrowed while the transfer lasts. */
struct api_wanted {
	const char *verb, *path, *query, *content, *body;
	uint64_t within_ns;
};

struct api_transfer {
	struct api *api;
	CURL *easy; /* NULL: no transfer is running */
	struct curl_slist *headers;
	struct api_stream *into; /* borrowed */
	struct list ready;
	void (*moved)(struct api_transfer *transfer);
	unsigned generation; /* the site's generation when the request was sent */
	bool answered;	     /* all headers have arrived; `status` is the HTTP status */
	bool over;	     /* the transfer has ended, with `result` */
	bool large;	     /* ended because the answer was too large */
	int status;
	uint64_t later_ns; /* Retry-After, or 0; valid once the transfer is over */
	CURLcode result;
	char said[CURL_ERROR_SIZE];
};

/* -EINVAL: verb, path or content cannot be sent. */
must_check int api_wanted_check(const struct api_wanted *wanted);

/* Empties `transfer->into` first. */
must_check int api_transfer_start(struct api *api, struct api_transfer *transfer,
				  const struct api_wanted *wanted, struct api_stream *into,
				  void (*moved)(struct api_transfer *transfer));
/* Ends what the transfer is doing. Does nothing if it is idle. */
void api_transfer_end(struct api_transfer *transfer);

/* Says why there is no answer, if the transfer ended without one. */
void api_transfer_say(const struct api_transfer *transfer, struct fault *ret_why);

/* The server rejected our credentials, or we rejected the server's certificate: rereads the
 * files. True: they had changed, so that another try is worthwhile. */
bool api_transfer_is_stale(struct api_transfer *transfer);
