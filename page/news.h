/* SPDX-License-Identifier: Apache-2.0 */
/* Of what has happened, what somebody may be told: of his own tenants, and of devices. */
#pragma once

#include <stdio.h>
#include <sys/types.h>

#include "page/host.h"
#include "view/ps_rows.h"

enum { NEWS_MOST = 32 }; /* at a time */

struct news {
	const struct page_host *host;
	bool all;  /* he sees everything, */
	bool told; /* ... or the tenants that the cluster tells, which are in the rows, */
	uid_t uid; /* ... or those of this user */
	const struct ps_rows *rows; /* that are seen */
	/* ... and were a moment ago: the end of a tenant is told, too. NULL: there were none. */
	const struct ps_rows *before;
	uint64_t after,
		upto; /* numbers of events: beyond the first, and no further than the other */
};

/* Pure. May he know of it? In it then is nothing that he may not know, once news_withhold() has
 * taken that out for who does not see all. */
bool news_seen(const struct news *news, const struct wire_event_row *event);
void news_withhold(struct wire_event_row *event, bool all);

/* The key `clock` (meted's, now), behind a comma. */
void news_write_clock(FILE *out);
/* The keys `clock` and `events`, each behind a comma: the last NEWS_MOST that he may know, the
 * oldest first. */
void news_write(FILE *out, const struct news *news);
/* The same if there are any, and nothing otherwise. Returns whether there were. */
bool news_write_any(FILE *out, const struct news *news);
