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

#include "core/placement.h"
#include "replay/trace.h"

enum {
	OPENB_PERCENT = 131,		   /* arrivals 0 .. 130 % */
	OPENB_RANDOM = PLACEMENT_POLICIES, /* a policy of the replay only */
};

struct openb_run {
	uint64_t seed;
	int policy;		   /* enum placement_policy, or OPENB_RANDOM */
	uint32_t overcommit_milli; /* promised of a GPU at most, pods of class BE included; 1000:
				      none */
	bool trace_order;	   /* ties go to the node that the file names first */
	bool no_memory;		   /* host memory does not bind */
};

struct openb_curve {
	double allocated[OPENB_PERCENT]; /* Σ min(1000, promised) over all GPUs, percent */
	double stranded[OPENB_PERCENT];	 /* FGD's fragmentation, percent of all GPUs */
	uint32_t placed, refused;
};

/* How a policy is spelled, "random" included. */
const char *openb_policy_name(int policy);
must_check int openb_policy_parse(const char *spelling, int *ret_policy);

/* -ENOMEM, -EINVAL (a pod that no machine could describe). */
must_check int openb_replay(const struct replay_trace *trace, const struct openb_run *run,
			    struct openb_curve *ret_curve, struct fault *why);

/* The cluster alone, for benchmarks: `nodes` nodes, the trace's over and over in its order, with
 * room for `pods` pods. The machine is one block of *ret_size bytes: free() it. */
must_check int openb_cluster(const struct replay_trace *trace, const struct openb_run *run,
			     uint32_t nodes, uint32_t pods, struct placement **ret_placement,
			     size_t *ret_size, struct fault *why);
/* What a pod of the trace asks for. */
void openb_request(const struct replay_pod *pod, const struct openb_run *run,
		   struct placement_request *ret_request);
