/* SPDX-License-Identifier: Apache-2.0 */
/* Which requests are frequent among many, for policies of placement that learn them. */
#pragma once

#include "core/placement/placement.h"

struct usual_pod {
	struct placement_request request;
	uint32_t count;
};

struct usual_pods {
	struct placement_request *request; /* owned, like the counts */
	uint32_t *count;
	size_t size;
};

/* Finds the most frequent of `size` requests, which together are `percent` of them: the most
 * frequent first, and among equals the larger first, as in the published simulator. `all` is
 * sorted on the way, and its counts need not be set. -ENOMEM. */
must_check int usual_pods_find(struct usual_pod *all, size_t size, unsigned percent,
			       struct usual_pods *ret_usuals);
void usual_pods_done(struct usual_pods *usuals);
