/* SPDX-License-Identifier: Apache-2.0 */
/* What has happened to a tenant, as meted's events tell it. */
#pragma once

#include <stdio.h>

#include "page/host.h"
#include "view/ps_rows.h"

/* The keys `clock` (meted's, now) and `events`, each behind a comma: of the tenants of these rows
 * with that name or number. Who does not see `all` hears of a refusal without its reason, which
 * may name others (news_withhold()). */
void story_write(FILE *out, const struct page_host *host, const struct ps_rows *rows,
		 const char *name, bool all);
