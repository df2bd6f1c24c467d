/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cluster made from a trace, for all placement replays: its nodes in a random order, the usual
 * pods of its list (for policies that learn them), and a policy. All random numbers come from the
 * state that the caller passes.
 */
#pragma once

#include "core/placement/placement.h"
#include "replay/trace.h"

enum { CLUSTER_RANDOM = PLACEMENT_POLICIES }; /* a policy of the replay only */

struct cluster_run {
	uint64_t seed;
	int policy;		   /* enum placement_policy, or CLUSTER_RANDOM */
	uint32_t overcommit_milli; /* how much of a GPU may be promised at most, including pods of
				    * class BE; 1000: no overcommitment */
	bool trace_order;	   /* ties go to the node that comes first in the file */
	bool no_memory;		   /* host memory is not a constraint */
};

/* The spelling of a policy; this includes "random". */
const char *cluster_policy_name(int policy);
must_check int cluster_policy_parse(const char *spelling, int *ret_policy);

/* Converts a pod of the trace into a request. / Returns the milli of GPU that it asks for in
 * all. */
void cluster_request(const struct replay_pod *pod, const struct cluster_run *run,
		     struct placement_request *ret_request);
uint64_t cluster_asks(const struct replay_pod *pod);
/* The GPU milli of all nodes. */
uint64_t cluster_capacity(const struct replay_trace *trace);

/* Makes a cluster of `nodes` nodes: the trace's, over and over, in `order` (NULL: as in the trace),
 * with room for `pods` pods at a time. The cluster is one block of *ret_size bytes: free() it. */
must_check int cluster_make(const struct replay_trace *trace, const struct cluster_run *run,
			    uint32_t nodes, uint32_t pods, const size_t *order,
			    struct placement **ret_placement, size_t *ret_size, struct fault *why);
/* Decides on a pod that stays for `stays` (see placement_request), and books it. PLACEMENT_NOWHERE:
 * it was refused; -EINVAL. */
must_check int cluster_place(struct placement *p, const struct replay_pod *pod,
			     const struct cluster_run *run, uint8_t stays, uint64_t *random,
			     uint64_t *ret_pod, struct fault *why);
