/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of the Kubernetes API server, with libcurl on the daemon's loop: single requests, and
 * lists that are kept up to date. Objects are JSON trees (cJSON). It never blocks and never logs:
 * the caller is told about problems and decides.
 */
#pragma once

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "base/fault.h"
#include "base/loop.h"

struct api;

struct api_place {
	/* A kubeconfig; NULL: a pod's environment (KUBERNETES_SERVICE_HOST and _PORT, and the
	 * service account's folder, whose token and certificates are reread when they are
	 * rotated). */
	const char *kubeconfig;
	const char *account_folder; /* NULL: /var/run/secrets/kubernetes.io/serviceaccount */
};

/* Reports what is wrong with the configuration; the server is not contacted yet. */
must_check int api_open(struct loop *loop, const struct api_place *place, struct api **ret_api,
			struct fault *why);
/* All requests and watches must have been closed or forgotten. NULL: does nothing. */
void api_close(struct api *api);

struct api_request {
	const char *verb;    /* "GET", "POST", "PATCH", ... */
	const char *path;    /* "/api/v1/nodes/a/status?fieldManager=mete" */
	const char *content; /* the body's type; NULL: application/json. Required for PATCH */
	const char *body;    /* NULL: none. Copied */
	uint64_t within_ns;  /* 0: 30 s */
	size_t most_bytes;   /* of the answer: a longer one is a problem; 0: 16 MiB */
	bool exact;	     /* an answer with \u0000 is none: cJSON's texts end there */
};

struct api_asked;

/* The loop calls answered() once, unless api_forget() was called before. `status` is HTTP's; 0:
 * there was no answer, and `problem` says why. `problem` is NULL if status is 2xx, otherwise one
 * sentence, the server's if it gave one. `object` is the body, if it is JSON; lent. */
must_check int api_ask(struct api *api, const struct api_request *request,
		       void (*answered)(void *owner, int status, const char *problem,
					const cJSON *object),
		       void *owner, struct api_asked **ret_asked);
void api_forget(struct api_asked *asked);

/* Callbacks for a list that is kept up to date. The loop calls all of them; objects are lent. */
struct api_watcher {
	/* A new list begins (the first one, or after the server has lost our position): objects
	 * that are not seen before listed() no longer exist. */
	void (*begins)(void *owner);
	/* The object exists or has changed. Bookmarks are not passed on. */
	void (*seen)(void *owner, const cJSON *object);
	void (*gone)(void *owner, const cJSON *object);
	/* All that exists has been seen. */
	void (*listed)(void *owner);
	/* The server cannot be reached, or refuses: it is tried again with growing pauses (1 s to
	 * 30 s, at random), without end. Called when the sentence changes; NULL: all is well again.
	 */
	void (*troubled)(void *owner, const char *problem);
};

struct api_watch;

/* `path`: that of the list, with its selectors ("/api/v1/pods?fieldSelector=spec.nodeName%3Da").
 * The list comes in pages (limit, continue); a watch with bookmarks continues from there. After
 * 410 the list is read again. */
must_check int api_watch_open(struct api *api, const char *path, const struct api_watcher *watcher,
			      void *owner, struct api_watch **ret_watch);
void api_watch_close(struct api_watch *watch);
/* Whether the list has been complete once and the watch is active. */
bool api_watch_is_current(const struct api_watch *watch);
