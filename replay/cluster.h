/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cluster made of a trace, as all placement replays use it: its nodes in a random order, its
 * list's usual pods learned, a policy. Nothing here draws but from the state that is given.
 */
#pragma once

#include "core/placement.h"
#include "replay/trace.h"

enum { CLUSTER_RANDOM = PLACEMENT_POLICIES }; /* a policy of the replay only */

struct cluster_run {
	uint64_t seed;
	int policy;		   /* enum placement_policy, or CLUSTER_RANDOM */
	uint32_t overcommit_milli; /* promised of a GPU at most, pods of class BE included; 1000:
				      none */
	bool trace_order;	   /* ties go to the node that the file names first */
	bool no_memory;		   /* host memory does not bind */
};

/* How a policy is spelled, "random" included. */
const char *cluster_policy_name(int policy);
must_check int cluster_policy_parse(const char *spelling, int *ret_policy);

uint64_t cluster_random(uint64_t *state);
/* Evenly, below `bound`. */
size_t cluster_below(uint64_t *state, size_t bound);
/* In [0, 1). */
double cluster_part(uint64_t *state);
/* 0 .. size - 1 in a random order. */
void cluster_shuffle(size_t *items, size_t size, uint64_t *random);

/* What a pod of the trace asks for, and how many milli of GPU that is in all. */
void cluster_request(const struct replay_pod *pod, const struct cluster_run *run,
		     struct placement_request *ret_request);
uint64_t cluster_asks(const struct replay_pod *pod);
/* Of all nodes. */
uint64_t cluster_capacity(const struct replay_trace *trace);

/* `nodes` nodes: the trace's over and over, in `order` (NULL: its own), with room for `pods` pods
 * at a time. The machine is one block of *ret_size bytes: free() it. */
must_check int cluster_make(const struct replay_trace *trace, const struct cluster_run *run,
			    uint32_t nodes, uint32_t pods, const size_t *order,
			    struct placement **ret_placement, size_t *ret_size, struct fault *why);
/* Decides and books a pod that stays for so long (placement_request): PLACEMENT_NOWHERE where it is
 * refused; -EINVAL. */
must_check int cluster_place(struct placement *p, const struct replay_pod *pod,
			     const struct cluster_run *run, uint8_t stays, uint64_t *random,
			     uint64_t *ret_pod, struct fault *why);
