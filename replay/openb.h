/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One run of the openb protocol: the pods of a list arrive in random order, followed by random
 * draws from the list, until they ask for 130 % of the cluster's GPUs. Each is placed by a policy,
 * or refused for good; none leaves. For each percent of arrivals the run measures what was
 * allocated and stranded.
 *
 * A run is a function of trace, policy and seed: it is the same on every machine.
 */
#pragma once

#include "replay/cluster.h"

enum { OPENB_PERCENT = 131 }; /* arrivals 0 .. 130 % */

struct openb_curve {
	double allocated[OPENB_PERCENT]; /* Σ min(1000, promised) over all GPUs, in percent */
	double stranded[OPENB_PERCENT];	 /* FGD's fragmentation, percent of all GPUs */
	/* What could be allocated for the pods that arrived, if the parts of GPUs were packed as
	 * well as possible and pods with whole GPUs got the rest. */
	double bound[OPENB_PERCENT];
	uint32_t placed, refused;
};

/* -ENOMEM; -EINVAL: a pod that no machine could describe. */
must_check int openb_replay(const struct replay_trace *trace, const struct cluster_run *run,
			    struct openb_curve *ret_curve, struct fault *why);
