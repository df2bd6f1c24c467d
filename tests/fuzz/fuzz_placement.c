/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Histories of core/placement spelled as bytes: nodes, requests that make sense and that do not,
 * pods that come and go. After each step the books must add up, and what is remembered must be what
 * a fresh look gives.
 */
#include <string.h>

#include "core/placement.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { NODES = 4, PODS = 32, STEPS = 40 };

struct input {
	const uint8_t *at;
	size_t left;
};

static uint8_t byte(struct input *in)
{
	if (!in->left)
		return 0;
	in->left--;
	return *in->at++;
}

static void add_nodes(struct placement *p, struct input *in, uint8_t geometry)
{
	for (int i = 0; i < NODES; i++) {
		struct placement_node node = {
			.cpu_milli = 1000u * byte(in),
			.host_memory_bytes = (uint64_t)byte(in) << 28,
			.model = byte(in) % 4,
			.devices = byte(in) % 6,
		};
		uint32_t number;

		for (int k = 0; k < node.devices; k++) {
			uint8_t bits = byte(in);

			node.device[k] = (struct placement_device){
				.memory_bytes = (uint64_t)(bits & 15) << 30,
				.compute_milli = PLACEMENT_WHOLE,
				.slots = bits >> 6,
				.links = byte(in),
				.numa = bits >> 4 & 1,
				.geometry = bits >> 5 & 1 ? geometry : 0,
			};
		}
		if (placement_add_node(p, &node, &number) != 0)
			abort();
	}
}

static struct placement_request read_request(struct input *in)
{
	struct placement_request request = {.node = PLACEMENT_ANYWHERE};
	uint8_t bits = byte(in);

	request.class = bits & 3;
	request.numa = bits >> 2 & 3;
	request.links = bits >> 4 & 3;
	request.containers = 1 + (bits >> 6);
	request.models = byte(in) & 7;
	for (int i = 0; i < request.containers; i++) {
		struct placement_container *it = &request.container[i];
		uint8_t what = byte(in);

		it->kind = what & 3;
		it->devices = what >> 2 & 3;
		it->exclusive = what >> 4 & 1;
		it->profile = what >> 5 == 7 ? 1 + (byte(in) & 1) : 0;
		it->compute_milli = it->profile ? 0 : 8u * byte(in);
		it->memory_bytes = it->profile ? 0 : (uint64_t)byte(in) << 26;
		it->cpu_milli = 100u * byte(in);
	}
	return request;
}

static void check(struct placement *p)
{
	uint32_t node;

	if (placement_audit(p, &node) != 0)
		abort();
}

static void arrive(struct placement *p, struct input *in, uint64_t pods[PODS], int *size)
{
	struct placement_request request = read_request(in);
	struct placement_decision decision;
	struct placement_refusal refusal;
	int r = placement_decide(p, &request, &decision);

	if (r == 0 && *size < PODS) {
		if (placement_commit(p, &request, decision.node, &decision.assignment, byte(in) & 3,
				     &pods[(*size)++]) != 0)
			abort();
	} else if (r == PLACEMENT_NOWHERE) {
		for (uint32_t i = 0; i < NODES; i++)
			if (placement_explain(p, &request, i, &refusal) != 0 || !refusal.reason)
				abort();
	} else if (r != 0 && r != -EINVAL) {
		abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static _Alignas(64) char memory[1 << 18];
	static const struct placement_profile profiles[] = {
		{.name = 1, .starts = 0x7f, .size = 1, .compute = 1},
		{.name = 2, .starts = 0x11, .size = 4, .compute = 3, .most = 1},
	};
	const struct placement_limits limits = {
		.nodes = NODES, .pods = PODS, .charges = PODS * 12, .shapes = 3, .typicals = 2};
	struct input in = {data, size};
	struct placement_config config = {0};
	struct placement *p;
	uint64_t pods[PODS];
	uint8_t geometry;
	int living = 0;

	if (placement_size(&limits) > sizeof(memory) ||
	    placement_init(memory, sizeof(memory), &limits, &p) != 0 ||
	    placement_geometry(p, profiles, ARRAY_SIZE(profiles), &geometry) != 0)
		abort();
	config.policy = (enum placement_policy)(byte(&in) % PLACEMENT_POLICIES);
	config.compute_factor_milli[2] = 1000 + 4u * byte(&in);
	config.memory_factor_milli[1] = 1000 + 4u * byte(&in);
	if (placement_configure(p, &config) != 0)
		abort();
	add_nodes(p, &in, geometry);
	for (int step = 0; in.left && step < STEPS; step++) {
		uint8_t verb = byte(&in);

		if (verb % 4 < 2) {
			arrive(p, &in, pods, &living);
		} else if (verb % 4 == 2 && living) {
			int which = byte(&in) % living;

			if (placement_release(p, pods[which]) != 0)
				abort();
			if (placement_release(p, pods[which]) != -ENOENT)
				abort();
			pods[which] = pods[--living];
		} else {
			best_effort(placement_taint(p, byte(&in) % NODES, byte(&in) % 6,
						    byte(&in) & 1));
		}
		check(p);
	}
	return 0;
}
