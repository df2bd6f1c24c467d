/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by api_watch.c, which asks and tries again, and api_watch_read.c, which reads answers. */
#pragma once

#include "kube/api_inside.h"

/* Ends in a row after which a watch is still resumed at once. */
enum { HASTY_ENDS = 3 };

enum phase { LISTING, FOLLOWING, PAUSING };

struct api_watch {
	struct api *api;
	struct api_watcher watcher;
	void *owner;
	char *path;
	struct api_transfer transfer;
	struct api_stream stream;
	struct loop_timer timer; /* a pause, or the longest silence of the server */
	enum phase phase;
	char *version;	   /* from which the watch continues; NULL: the list must be read */
	char *next;	   /* token of the next page; NULL: the first */
	unsigned page;	   /* objects per page */
	uint64_t since_ns; /* when the watch was answered */
	unsigned failures; /* in a row */
	unsigned refusals; /* of these failures, the ones of the watch itself */
	unsigned hasty;	   /* ends in a row that came too soon */
	bool expired;	   /* reading the list again because of 410, without success so far */
	bool doubted;	   /* the data was bad: an answer alone does not count as healthy */
	bool followed;	   /* the current watch was answered */
	bool complete;	   /* listed() was called, and begins() was not called since */
	bool troubled;
	bool closed;
	struct fault trouble; /* as last reported */
};

/* ---- api_watch.c ----------------------------------------------------------------------------- */

/* Reads the list, or continues the watch. */
void api_watch_carry_on(struct api_watch *watch);
/* Tries again after a pause, not before `later_ns`. */
void api_watch_fail(struct api_watch *watch, const char *sentence, uint64_t later_ns);
/* Likewise: the server can be reached, but the watch makes no progress. */
void api_watch_refuse(struct api_watch *watch, const char *sentence, uint64_t later_ns);
/* The watch was answered, and has ended for whatever reason. */
void api_watch_end(struct api_watch *watch, const char *sentence);
/* Handles an error that came as an event or as an answer. `code` is the HTTP status. */
void api_watch_hear_refusal(struct api_watch *watch, const cJSON *status, int code,
			    uint64_t later_ns);
/* It works: what was reported is over. */
void api_watch_well(struct api_watch *watch);

/* ---- api_watch_read.c ------------------------------------------------------------------------ */

/* More of the watch's events has arrived, or it is over. */
void api_watch_hear(struct api_watch *watch);
/* A page of the list is complete. */
void api_watch_hear_page(struct api_watch *watch);
