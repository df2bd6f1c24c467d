/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The policy fgd against its definition, written down once more in the plainest way: the expected
 * GPU that a usual pod cannot use, its change, floor(100 sigmoid(change / 1000)).
 */
#include <math.h>

#include "core/placement/placement.h"
#include "tests/test.h"

enum { USUALS = 6, GPUS = 4, NODES = 3 };

static _Alignas(64) char memory[1 << 20];

struct state {
	int cpu, model;
	int left[GPUS];
};

static struct placement_request usual[USUALS];
static uint32_t counts[USUALS];

static bool fits(const struct state *s, const struct placement_request *request)
{
	const struct placement_container *it = &request->container[0];
	int gpus = 0;

	for (int i = 0; i < GPUS; i++)
		gpus += s->left[i] >= (int)it->compute_milli;
	return (int)it->cpu_milli <= s->cpu && gpus >= it->devices &&
	       (!request->models || (request->models >> s->model & 1));
}

static double waste(const struct state *s)
{
	double sum = 0, total = 0, pods = 0;

	for (int i = 0; i < GPUS; i++)
		total += s->left[i];
	for (int u = 0; u < USUALS; u++) {
		double lost = 0;

		for (int i = 0; i < GPUS; i++)
			if (s->left[i] < (int)usual[u].container[0].compute_milli)
				lost += s->left[i];
		pods += counts[u];
		sum += counts[u] *
		       (usual[u].container[0].devices && fits(s, &usual[u]) ? lost : total);
	}
	return sum / pods;
}

static double exact(const struct state *before, const struct state *after)
{
	return 100 / (1 + exp(-(waste(before) - waste(after)) / 1000));
}

/* The best score of a part of a GPU on a node; -1 where it does not fit. */
static double best(const struct state *s, const struct placement_request *request)
{
	double most = -1;

	if (!fits(s, request))
		return -1;
	for (int i = 0; i < GPUS; i++) {
		struct state after = *s;

		if (s->left[i] < (int)request->container[0].compute_milli)
			continue;
		after.left[i] -= (int)request->container[0].compute_milli;
		after.cpu -= (int)request->container[0].cpu_milli;
		if (exact(s, &after) > most)
			most = exact(s, &after);
	}
	return most;
}

static struct placement_request random_usual(void)
{
	static const uint32_t milli[] = {100, 230, 320, 470, 650, 810};
	struct placement_request request = {.node = PLACEMENT_ANYWHERE, .containers = 1};
	struct placement_container *it = &request.container[0];

	it->cpu_milli = 1000 * (uint32_t)test_random_below(9);
	request.models = test_random_below(4) ? 0 : 1 + test_random_below(3);
	if (test_random_below(5) == 0)
		return request;
	if (test_random_below(3) == 0) {
		it->devices = (uint8_t)(1 + test_random_below(2));
		it->exclusive = true;
		it->compute_milli = PLACEMENT_WHOLE;
	} else {
		it->devices = 1;
		it->compute_milli = milli[test_random_below(ARRAY_SIZE(milli))];
		/* Few amounts are no whole steps (PLACEMENT_STEP). */
		it->compute_milli -= test_random_below(12) == 0;
	}
	return request;
}

static struct placement *given(struct state states[NODES])
{
	const struct placement_limits limits = {
		.nodes = NODES, .pods = 256, .charges = 256, .shapes = 64, .typicals = USUALS};
	struct placement *p = NULL;

	expect(placement_size(&limits) <= sizeof(memory));
	expect_eq(placement_init(memory, sizeof(memory), &limits, &p), 0);
	expect_eq(placement_configure(p, &(struct placement_config){.policy = PLACEMENT_FGD}), 0);
	for (int u = 0; u < USUALS; u++) {
		usual[u] = random_usual();
		counts[u] = 1 + (uint32_t)test_random_below(100);
	}
	expect_eq(placement_learn(p, usual, counts, USUALS), 0);
	for (int n = 0; n < NODES; n++) {
		struct placement_node node = {.devices = GPUS};
		uint32_t number;

		states[n] = (struct state){.cpu = 1000 * (int)(8 + test_random_below(40)),
					   .model = (int)test_random_below(2)};
		node.cpu_milli = (uint32_t)states[n].cpu;
		node.model = (uint8_t)states[n].model;
		for (int i = 0; i < GPUS; i++) {
			node.device[i].compute_milli = PLACEMENT_WHOLE;
			states[n].left[i] = PLACEMENT_WHOLE;
		}
		expect_eq(placement_add_node(p, &node, &number), 0);
	}
	return p;
}

/* The error of the library's whole numbers, just below or above one: 54.000005 was 53. */
#define NEAR 1e-4

TEST(the_decision_is_the_best_by_the_definition)
{
	for (unsigned rounds = test_rounds(200); rounds > 0; rounds--) {
		struct state states[NODES];
		struct placement *p = given(states);

		for (int i = 0; i < 40; i++) {
			struct placement_request request = random_usual();
			struct placement_decision d;
			struct state *s;
			double most = -1, mine;
			uint64_t pod;
			int device;

			if (!request.container[0].devices || request.container[0].exclusive)
				continue;
			for (int n = 0; n < NODES; n++)
				most = fmax(most, best(&states[n], &request));
			if (most < 0) {
				expect_eq(placement_decide(p, &request, &d), PLACEMENT_NOWHERE);
				continue;
			}
			expect_eq(placement_decide(p, &request, &d), 0);
			s = &states[d.node];
			device = d.assignment.slot[0].device;
			/* The definition truncates: what is chosen is best up to that, and for its
			 * node the score is exact. */
			mine = best(s, &request);
			expect(fabs(mine - round(mine)) < NEAR || d.score == (int)mine);
			expect((int)(most + NEAR) <= d.score + 1 && d.score <= (int)(most + NEAR));
			expect(fabs(most - round(most)) < NEAR || d.score == (int)most);
			{
				struct state after = *s;

				after.left[device] -= (int)request.container[0].compute_milli;
				after.cpu -= (int)request.container[0].cpu_milli;
				expect(fabs(exact(s, &after) - d.score - 0.5) <= 0.5 + NEAR);
				*s = after;
			}
			expect_eq(placement_commit(p, &request, d.node, &d.assignment, 0, &pod), 0);
		}
	}
}

TEST(fragmentation_is_the_sum_of_room_that_the_usual_pods_cannot_use)
{
	for (unsigned rounds = test_rounds(50); rounds > 0; rounds--) {
		struct state states[NODES];
		struct placement *p = given(states);
		double sum = 0;

		for (int n = 0; n < NODES; n++)
			sum += waste(&states[n]);
		expect(fabs(sum - placement_fragmentation(p)) < 1e-6);
	}
}
