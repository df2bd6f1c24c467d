/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the tests of core/placement/placement.h that are examples: a machine of sixteen nodes at
 * most, nodes with GPUs of 80 GiB, requests of one container.
 */
#pragma once

#include "core/placement/placement.h"
#include "tests/test.h"

#define GIB (1ull << 30)

static _Alignas(64) char memory[4 << 20];

static inline struct placement *given(enum placement_policy policy)
{
	const struct placement_limits limits = {
		.nodes = 16, .pods = 64, .charges = 128, .shapes = 8, .typicals = 8, .steps = 16};
	struct placement *p = NULL;

	expect(placement_size(&limits) <= sizeof(memory));
	expect_eq(placement_init(memory, sizeof(memory), &limits, &p), 0);
	expect_eq(placement_configure(p, &(struct placement_config){.policy = policy}), 0);
	return p;
}

static inline struct placement_node node_of(int gpus)
{
	struct placement_node node = {.cpu_milli = 64000, .host_memory_bytes = 256 * GIB};

	node.devices = (uint8_t)gpus;
	for (int i = 0; i < gpus; i++)
		node.device[i] = (struct placement_device){.memory_bytes = 80 * GIB,
							   .compute_milli = PLACEMENT_WHOLE};
	return node;
}

static inline uint32_t with_node(struct placement *p, const struct placement_node *node)
{
	uint32_t number = 0;

	expect_eq(placement_add_node(p, node, &number), 0);
	return number;
}

static inline struct placement_request part(uint32_t milli, uint64_t bytes)
{
	struct placement_request request = {.node = PLACEMENT_ANYWHERE, .containers = 1};

	request.container[0] = (struct placement_container){
		.devices = 1, .compute_milli = milli, .memory_bytes = bytes, .cpu_milli = 1000};
	return request;
}

static inline struct placement_request whole(int gpus)
{
	struct placement_request request = part(PLACEMENT_WHOLE, 0);

	request.container[0].devices = (uint8_t)gpus;
	request.container[0].exclusive = true;
	return request;
}

/* Decides and books; returns the pod, and where it went. */
static inline uint64_t placed(struct placement *p, const struct placement_request *request,
			      struct placement_decision *decision)
{
	uint64_t pod = 0;

	expect_eq(placement_decide(p, request, decision), 0);
	expect_eq(placement_commit(p, request, decision->node, &decision->assignment, 0, &pod), 0);
	return pod;
}

static inline enum placement_reason refused(struct placement *p,
					    const struct placement_request *request, uint32_t node)
{
	struct placement_refusal refusal;

	expect_eq(placement_explain(p, request, node, &refusal), 0);
	return refusal.reason;
}
