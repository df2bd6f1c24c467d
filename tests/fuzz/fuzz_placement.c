/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Histories of core/placement spelled as bytes: nodes, requests that make sense and that do not,
 * pods that come and go. After each step the books must add up, and remembered results must equal
 * those of a fresh search.
 */
#include <string.h>

#include "core/placement/placement.h"

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

static struct placement_node read_node(struct input *in, uint8_t geometry)
{
	struct placement_node node = {
		.cpu_milli = 1000u * byte(in),
		.host_memory_bytes = (uint64_t)byte(in) << 28,
		.model = byte(in) % 4,
		.tags = 1,
		.devices = byte(in) % 6,
	};

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
	return node;
}

static void add_nodes(struct placement *p, struct input *in, uint8_t geometry)
{
	for (int i = 0; i < NODES; i++) {
		struct placement_node node = read_node(in, geometry);
		uint32_t number;

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
	bits = byte(in);
	request.models = bits & 7;
	request.prefers = bits >> 3 & 3;
	request.avoids = bits >> 5 & 1;
	request.way = bits >> 6;
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

/* The books add up, and nothing that is left is less than nothing. */
static void check(struct placement *p)
{
	struct placement_totals totals;
	struct placement_left left;
	uint32_t node, over = 0;

	if (placement_audit(p, &node) != 0)
		abort();
	for (node = 0; node < NODES; node++) {
		if (placement_left(p, node, (uint8_t)(node % PLACEMENT_CLASSES), &left) != 0 ||
		    left.cpu_milli > 255000 || left.host_memory_bytes > 255ull << 28)
			abort();
		for (int i = 0; i < left.devices; i++)
			if (left.device[i].memory_bytes > 1ull << 40 ||
			    left.device[i].compute_milli > 1u << 20)
				abort();
		over += left.over;
	}
	placement_totals(p, &totals);
	if (totals.nodes_over != over)
		abort();
}

struct history {
	struct placement *p;
	struct input in;
	uint64_t pods[PODS], now;
	int living;
	/* As it was before what is tried. */
	uint64_t pods_before[PODS];
	int living_before;
	bool on_trial;
};

/* A pod that runs where somebody else put it, or cannot be there. */
static void turn_up(struct history *h)
{
	struct placement_request request = read_request(&h->in);
	struct placement_assignment assignment = {.size = byte(&h->in) % PLACEMENT_SLOTS};
	uint32_t node = byte(&h->in) % (NODES + 1);
	int r;

	for (int i = 0; i < assignment.size; i++) {
		uint8_t bits = byte(&h->in);

		assignment.slot[i] = (struct placement_slot){bits & 3, bits >> 2 & 7, bits >> 5};
	}
	if (h->living == PODS)
		return;
	r = placement_adopt(h->p, &request, node, &assignment, node & 3, &h->pods[h->living]);
	if (r == 0)
		h->living++;
	else if (r != -EINVAL && r != -ENOENT && r != -ENOSPC)
		abort();
}

/* Time passes, and those whose time has come go. */
static void pass(struct history *h)
{
	uint64_t gone[PODS];
	size_t ended;
	int which = h->living ? byte(&h->in) % h->living : 0;

	if (h->living)
		best_effort(placement_keep(h->p, h->pods[which], h->now + byte(&h->in)));
	h->now += byte(&h->in);
	ended = placement_expire(h->p, h->now, gone, PODS);
	for (size_t i = 0; i < ended; i++)
		for (int k = 0; k < h->living; k++)
			if (h->pods[k] == gone[i])
				h->pods[k--] = h->pods[--h->living];
	if (placement_next_end(h->p) <= h->now && !h->on_trial)
		abort();
}

static void change(struct history *h)
{
	struct placement_node node = read_node(&h->in, (uint8_t)(1 + byte(&h->in) % 2));
	int r;

	node.device[0].lost = byte(&h->in) & 1;
	r = placement_update_node(h->p, byte(&h->in) % NODES, &node);
	if (r != 0 && r != -EBUSY)
		abort();
}

/* A pod that would have to go is there, and no more important. */
static void preempt(struct history *h, const struct placement_request *request)
{
	uint8_t bits = byte(&h->in);
	const uint32_t allowed[2] = {bits & 1, bits >> 1 & 1};
	const struct placement_preemption how = {
		.priority = 2, .allowed = allowed, .budgets = 2, .keep_budgets = bits >> 2 & 1};
	struct placement_victims said;
	struct placement_pod_info info;
	uint64_t victims[PODS];
	int r;

	if (h->living)
		best_effort(placement_protect(h->p, h->pods[bits % h->living], bits >> 3 & 3));
	r = placement_preempt_among(h->p, request, &how, victims, PODS, &said);
	if (r == PLACEMENT_NO_VICTIMS || r == PLACEMENT_TOO_SMALL)
		return;
	if (r != 0 || said.size == 0 || (how.keep_budgets && said.overdrawn))
		abort();
	for (size_t i = 0; i < said.size; i++)
		if (placement_get_pod(h->p, victims[i], &info) != 0 || info.node != said.node ||
		    info.priority >= how.priority)
			abort();
}

static void arrive(struct history *h)
{
	struct placement_request request = read_request(&h->in);
	struct placement_decision decision;
	struct placement_refusal refusal;
	int r = placement_decide(h->p, &request, &decision);

	if (r == 0 && h->living < PODS) {
		r = placement_commit(h->p, &request, decision.node, &decision.assignment,
				     byte(&h->in) & 3, &h->pods[h->living]);
		if (r == 0)
			h->living++;
		else if (r != -ENOSPC)
			abort();
	} else if (r == PLACEMENT_NOWHERE) {
		preempt(h, &request);
		for (uint32_t i = 0; i < NODES; i++)
			if (placement_explain(h->p, &request, i, &refusal) != 0 || !refusal.reason)
				abort();
	} else if (r != 0 && r != -EINVAL) {
		abort();
	}
}

/* All of them, or none. */
static void arrive_together(struct history *h)
{
	struct placement_request requests[3];
	struct placement_decision decisions[3];
	struct placement_totals before, after;
	uint64_t names[3];
	size_t stuck;
	int r;

	for (int i = 0; i < 3; i++)
		requests[i] = read_request(&h->in);
	if (h->living + 3 > PODS)
		return;
	placement_totals(h->p, &before);
	r = placement_gang(h->p, requests, 3, 1, decisions, names, &stuck);
	placement_totals(h->p, &after);
	if (after.pods != before.pods + (r == 0 ? 3 : 0) ||
	    (r && memcmp(&before, &after, sizeof(before)) != 0))
		abort();
	for (int i = 0; i < 3 && r == 0; i++)
		h->pods[h->living++] = names[i];
}

static void leave(struct history *h)
{
	int which, r;

	if (!h->living)
		return;
	which = byte(&h->in) % h->living;
	r = placement_release(h->p, h->pods[which]);
	if (r == -ENOSPC && h->on_trial)
		return;
	if (r != 0 || placement_release(h->p, h->pods[which]) != -ENOENT)
		abort();
	h->pods[which] = h->pods[--h->living];
}

/* Begins to try something out; or ends that, and everybody is there again who was before. */
static void try_out(struct history *h)
{
	struct placement_pod_info info;

	if (!h->on_trial) {
		memcpy(h->pods_before, h->pods, sizeof(h->pods));
		h->living_before = h->living;
		h->on_trial = placement_begin(h->p) == 0;
		return;
	}
	h->on_trial = false;
	if (byte(&h->in) & 1) {
		best_effort(placement_finish(h->p));
		return;
	}
	best_effort(placement_roll_back(h->p));
	memcpy(h->pods, h->pods_before, sizeof(h->pods));
	h->living = h->living_before;
	for (int i = 0; i < h->living; i++)
		if (placement_get_pod(h->p, h->pods[i], &info) != 0)
			abort();
}

static void step(struct history *h)
{
	uint8_t verb = byte(&h->in);

	switch (verb % 16) {
	case 15:
		turn_up(h);
		break;
	case 7:
		pass(h);
		break;
	case 11:
		change(h);
		break;
	case 9:
		try_out(h);
		break;
	case 13:
		arrive_together(h);
		break;
	case 3:
		best_effort(placement_taint(h->p, byte(&h->in) % NODES, byte(&h->in) % 6,
					    byte(&h->in) & 1));
		break;
	default:
		if (verb % 4 == 2)
			leave(h);
		else
			arrive(h);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static _Alignas(64) char memory[1 << 20];
	static const struct placement_profile profiles[] = {
		{.name = 1, .starts = 0x7f, .size = 1, .compute = 1},
		{.name = 2, .starts = 0x11, .size = 4, .compute = 3, .most = 1},
	};
	const struct placement_limits limits = {.nodes = NODES,
						.pods = PODS,
						.charges = PODS * 12,
						.shapes = 3,
						.typicals = 2,
						.steps = 8};
	struct history h = {.in = {data, size}};
	struct placement_config config = {0};
	uint8_t geometry;

	if (placement_size(&limits) > sizeof(memory) ||
	    placement_init(memory, sizeof(memory), &limits, &h.p) != 0 ||
	    placement_geometry(h.p, profiles, 1, &geometry) != 0 ||
	    placement_geometry(h.p, profiles, ARRAY_SIZE(profiles), &geometry) != 0)
		abort();
	config.policy = (enum placement_policy)(byte(&h.in) % PLACEMENT_POLICIES);
	config.compute_factor_milli[2] = 1000 + 4u * byte(&h.in);
	config.memory_factor_milli[1] = 1000 + 4u * byte(&h.in);
	if (placement_configure(h.p, &config) != 0)
		abort();
	add_nodes(h.p, &h.in, geometry);
	for (int n = 0; h.in.left && n < STEPS; n++) {
		step(&h);
		check(h.p);
	}
	return 0;
}
