/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "replay/cluster.h"
#include "replay/draw.h"
#include "replay/usual_pods.h"

enum { STANDARD = 1, BATCH = 2, MOST_USUALS = 4000 };

const char *cluster_policy_name(int policy)
{
	return policy == CLUSTER_RANDOM ? "random"
					: placement_policy_name((enum placement_policy)policy);
}

int cluster_policy_parse(const char *spelling, int *ret_policy)
{
	enum placement_policy policy;

	if (strcmp(spelling, "random") == 0) {
		*ret_policy = CLUSTER_RANDOM;
		return 0;
	}
	if (placement_policy_parse(spelling, &policy) < 0)
		return -EINVAL;
	*ret_policy = (int)policy;
	return 0;
}

void cluster_request(const struct replay_pod *pod, const struct cluster_run *run,
		     struct placement_request *ret_request)
{
	bool part = pod->gpus == 1 && pod->gpu_milli < PLACEMENT_WHOLE;

	memset(ret_request, 0, sizeof(*ret_request));
	ret_request->node = PLACEMENT_ANYWHERE;
	ret_request->models = pod->models;
	ret_request->class =
		run->overcommit_milli > 1000 && part && pod->best_effort ? BATCH : STANDARD;
	ret_request->containers = 1;
	ret_request->container[0].cpu_milli = pod->cpu_milli;
	if (!run->no_memory)
		ret_request->container[0].host_memory_bytes = (uint64_t)pod->memory_mib << 20;
	ret_request->container[0].devices = (uint8_t)pod->gpus;
	ret_request->container[0].compute_milli = pod->gpus ? pod->gpu_milli : 0;
	ret_request->container[0].exclusive = pod->gpus && pod->gpu_milli == PLACEMENT_WHOLE;
}

uint64_t cluster_asks(const struct replay_pod *pod)
{
	return (uint64_t)pod->gpus * pod->gpu_milli;
}

uint64_t cluster_capacity(const struct replay_trace *trace)
{
	uint64_t milli = 0;

	for (size_t i = 0; i < trace->nodes_size; i++)
		milli += 1000ull * trace->nodes[i].gpus;
	return milli;
}

/* The published policies learn the same as in their publication: the most frequent requests, up
 * to 95% of the list. foresight learns all, because pods with eight GPUs are rare and yet a
 * large part of the demand. Host memory does not make requests different. */
static int find_usuals(const struct replay_trace *trace, const struct cluster_run *run,
		       struct usual_pods *ret_usuals)
{
	owned(free) struct usual_pod *all = calloc(trace->pods_size, sizeof(*all));

	if (!all)
		return -ENOMEM;
	for (size_t i = 0; i < trace->pods_size; i++) {
		cluster_request(&trace->pods[i], run, &all[i].request);
		all[i].request.container[0].host_memory_bytes = 0;
	}
	return usual_pods_find(all, trace->pods_size, run->policy == PLACEMENT_FORESIGHT ? 100 : 95,
			       ret_usuals);
}

static int add_nodes(struct placement *p, const struct replay_trace *trace,
		     const struct cluster_run *run, size_t nodes, const size_t *order,
		     struct fault *why)
{
	for (size_t i = 0; i < nodes; i++) {
		size_t at = i % trace->nodes_size;
		const struct replay_node *it = &trace->nodes[order ? order[at] : at];
		struct placement_node node = {
			.cpu_milli = it->cpu_milli,
			.host_memory_bytes = run->no_memory ? 0 : (uint64_t)it->memory_mib << 20,
			.devices = it->gpus,
			.model = it->model,
		};
		uint32_t number;
		int r;

		for (int k = 0; k < it->gpus; k++)
			node.device[k].compute_milli = PLACEMENT_WHOLE;
		r = placement_add_node(p, &node, &number);
		if (r < 0)
			return fault_set(why, r, "node %zu cannot be described", i);
	}
	return 0;
}

static int fill(struct placement *p, const struct replay_trace *trace,
		const struct cluster_run *run, uint32_t nodes, const size_t *order,
		const struct usual_pods *usuals, struct fault *why)
{
	struct placement_config config = {.policy = (enum placement_policy)run->policy};
	int r;

	if (run->policy == CLUSTER_RANDOM)
		config.policy = PLACEMENT_BINPACK;
	config.compute_factor_milli[BATCH] = run->overcommit_milli;
	r = placement_configure(p, &config);
	if (r < 0)
		return fault_set(why, r, "%s, overcommit %u: not a valid configuration",
				 cluster_policy_name(run->policy), run->overcommit_milli);
	r = add_nodes(p, trace, run, nodes, order, why);
	if (r < 0)
		return r;
	r = placement_learn(p, usuals->request, usuals->count, usuals->size);
	return r < 0 ? fault_set(why, r, "the list's usual pods cannot be described") : 0;
}

int cluster_make(const struct replay_trace *trace, const struct cluster_run *run, uint32_t nodes,
		 uint32_t pods, const size_t *order, struct placement **ret_placement,
		 size_t *ret_size, struct fault *why)
{
	struct placement_limits limits = {
		.nodes = nodes, .pods = pods, .charges = pods, .shapes = 512};
	owned(free) void *memory = NULL;
	struct usual_pods usuals;
	struct placement *p;
	size_t size;
	int r;

	if (find_usuals(trace, run, &usuals) < 0)
		return fault_set(why, -ENOMEM, "out of memory");
	for (size_t i = 0; i < nodes; i++)
		limits.charges += trace->nodes[i % trace->nodes_size].gpus;
	if (usuals.size > MOST_USUALS)
		usuals.size = MOST_USUALS; /* the most frequent come first */
	limits.typicals = (uint32_t)usuals.size;
	size = placement_size(&limits);
	memory = aligned_alloc(64, (size + 63) & ~(size_t)63);
	if (!memory || placement_init(memory, size, &limits, &p) < 0)
		r = fault_set(why, -ENOMEM, "out of memory");
	else
		r = fill(p, trace, run, nodes, order, &usuals, why);
	usual_pods_done(&usuals);
	if (r < 0)
		return r;
	*ret_size = size;
	*ret_placement = take(memory);
	return 0;
}

/* Draws among all nodes that fit, and among all of the node's GPUs that fit. */
static int decide_randomly(struct placement *p, struct placement_request *request, uint64_t *random,
			   struct placement_decision *ret_decision)
{
	const int32_t *scores;
	uint32_t size, seen = 0, chosen = 0;
	struct placement_decision one;
	int r = placement_scores(p, request, &scores, &size);

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < size; i++)
		if (scores[i] != INT32_MIN && draw_below(random, ++seen) == 0)
			chosen = i;
	if (!seen)
		return PLACEMENT_NOWHERE;
	if (request->container[0].devices != 1)
		return placement_try(p, request, chosen, ret_decision);
	seen = 0;
	request->node = (int32_t)chosen;
	for (int i = 0; i < PLACEMENT_DEVICES; i++) {
		request->named_devices = 1u << i;
		if (placement_try(p, request, chosen, &one) == 0 && draw_below(random, ++seen) == 0)
			*ret_decision = one;
	}
	request->node = PLACEMENT_ANYWHERE;
	request->named_devices = 0;
	return 0;
}

int cluster_place(struct placement *p, const struct replay_pod *pod, const struct cluster_run *run,
		  uint8_t stays, uint64_t *random, uint64_t *ret_pod, struct fault *why)
{
	struct placement_request request;
	struct placement_decision decision;
	int r;

	cluster_request(pod, run, &request);
	request.stays = stays;
	r = run->policy == CLUSTER_RANDOM ? decide_randomly(p, &request, random, &decision)
					  : placement_decide(p, &request, &decision);
	if (r == PLACEMENT_NOWHERE)
		return r;
	if (r == 0)
		r = placement_commit(p, &request, decision.node, &decision.assignment, 0, ret_pod);
	if (r != 0)
		return fault_set(why, -EINVAL, "a pod could not be booked as decided: %d", r);
	return 0;
}
