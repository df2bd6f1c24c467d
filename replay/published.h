/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The published results for a pod list ("Beware of Fragmentation", USENIX ATC '23): for each policy
 * a curve over arrivals, the mean of its authors' seeds. The tables are published_allo.csv and
 * published_frag.csv beside the lists (bench/data/openb/NOTICE names their origin).
 */
#pragma once

#include "replay/openb.h"

struct published {
	double percent[OPENB_PERCENT]; /* of all GPUs */
	uint32_t seeds;		       /* 0: nothing was published */
};

enum { PUBLISHED_POLICIES = PLACEMENT_POLICIES + 1 };

/* Reads all curves of a list, by policy; ret_curves has PUBLISHED_POLICIES elements.
 * -EINVAL: not such a table. */
must_check int published_read(FILE *file, const char *name, const char *list,
			      struct published *ret_curves, struct fault *why);
/* `kind`: "allo" or "frag". If the folder has no such table, there are no curves. */
must_check int published_load(const char *folder, const char *kind, const char *list,
			      struct published *ret_curves, struct fault *why);
