/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What has happened, as `mete top` shows it instead of the tenants. meted is asked only while it is
 * shown.
 */
#pragma once

#include "cli/remote.h"
#include "cli/top/page.h"

enum { NEWS_MOST = 200 };

struct news {
	struct wire_event_row *row; /* a ring of NEWS_MOST; NULL: it was not shown yet */
	size_t count;		    /* that were ever added */
	uint64_t after;		    /* the last one's number */
	size_t first;		    /* how many of the newest are scrolled past */
	struct fault trouble;	    /* why meted was not asked; "": it was */
};

/* Reads what is new. A meted that does not answer is no failure but `trouble`. -ENOMEM. */
must_check int news_refresh(struct news *news, struct remote *remote, struct fault *why);
/* That many lines down (negative: up). */
void news_step(struct news *news, long lines);
/* The newest first, `lines` lines with the heading. */
void news_write(const struct page *page, struct news *news, unsigned lines);
void news_free(struct news *news);
