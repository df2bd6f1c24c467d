/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of meted as they are now, gathered once a second at most for all who ask; and what
 * somebody sees of them as JSON. */
#pragma once

#include "page/names.h"
#include "page/sight.h"

enum {
	LOOKS_FRESH_MS = 900,	 /* so old they may be */
	LOOKS_KEPT_MS = 2000,	 /* so long nobody has to ask, before they are forgotten */
	LOOKS_ANSWERS = 16,	 /* whose texts are kept */
	LOOKS_COPIES_MOST = 100, /* answers to one of them */
	LOOKS_CROWDS_MOST = 8,	 /* ... and how often his stream is begun from nothing */
	LOOKS_BOARDS = 64,	 /* devices whose boards are shown */
};

/* Somebody who asks: nobody's many questions are answered instead of another one's. */
struct looks_answer {
	char *text; /* of everything that is seen; NULL: that was not asked for */
	struct sight sight;
	uint32_t copies, crowds;
};

struct looks {
	const struct page_host *host; /* borrowed */
	struct names names;
	struct ps_names said;
	struct ps_rows rows;
	uint64_t since_ns; /* 0: there are none */
	bool lacking;	   /* a row had no memory */
	uint64_t happened; /* the number of the last event that there was then; 0: none */
	struct gpu_board board[LOOKS_BOARDS];
	uint64_t boards_ns; /* page_host.boards_since_ns of them */
	struct loop_timer forget;
	struct looks_answer answer[LOOKS_ANSWERS];
	uint32_t answers;
};

must_check int looks_open(struct looks *looks, const struct page_host *host);
void looks_close(struct looks *looks, void (*closed)(struct loop_timer *timer));

/* New rows, or recent ones where that will do. -ENOMEM. */
must_check int looks_gather(struct looks *looks, bool now);

/* Of the rows gathered last: may a stream be begun from nothing? -EBUSY. */
must_check int looks_may_begin(struct looks *looks, const struct sight *sight);

/* Malloc'ed JSON. -ENOENT: it is not there, or not to be seen. -EBUSY: too many ask. */
must_check int looks_node(struct looks *looks, const struct sight *sight, char **ret_text);
/* By its name or number: a row for each of its devices. */
must_check int looks_tenant(struct looks *looks, const struct sight *sight, const char *name,
			    char **ret_text);
/* By its UUID, or a part of it, or its index: the device, and the tenants that are seen on it. */
must_check int looks_device(struct looks *looks, const struct sight *sight, const char *name,
			    char **ret_text);

/* The keys of /v1/node, without the braces around them, of the rows that were gathered last.
 * -ENOMEM. */
must_check int looks_write(FILE *out, struct looks *looks, const struct sight *sight);
