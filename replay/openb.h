/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One run of the openb protocol: the pods of a list arrive in random order, extended by random
 * draws from it, until they ask for 130 % of the cluster's GPUs; each is placed by a policy, or
 * refused for good; none leaves. What was arrived, promised and stranded is measured per percent
 * of arrival.
 *
 * A run is a function of trace, policy and seed: the same on every machine.
 */
#pragma once

#include "replay/cluster.h"

enum { OPENB_PERCENT = 131 }; /* arrivals 0 .. 130 % */

struct openb_curve {
	double allocated[OPENB_PERCENT]; /* Σ min(1000, promised) over all GPUs, percent */
	double stranded[OPENB_PERCENT];	 /* FGD's fragmentation, percent of all GPUs */
	/* What could be allocated of those that arrived, if all parts of GPUs were packed as well
	 * as can be and whole ones took the rest. */
	double bound[OPENB_PERCENT];
	uint32_t placed, refused;
};

/* -ENOMEM, -EINVAL (a pod that no machine could describe). */
must_check int openb_replay(const struct replay_trace *trace, const struct cluster_run *run,
			    struct openb_curve *ret_curve, struct fault *why);
