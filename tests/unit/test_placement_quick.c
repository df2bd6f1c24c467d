/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The short ways to a score (core/placement/placement_quick.c, twins, nodes that are alike) against
 * the search: on clusters where nothing but compute binds on most GPUs, under all policies, while
 * pods come and go.
 */
#include "tests/unit/placement_fixture.h"

enum { NODES = 60, PODS = 240, KINDS = 24 };

static _Alignas(64) char plenty[16 << 20];

static struct {
	struct placement *p;
	uint64_t pod[PODS];
	size_t pods;
	struct placement_request kind[KINDS];
} cluster;

static bool chance(uint64_t percent)
{
	return test_random_below(100) < percent;
}

static struct placement_node some_node(void)
{
	static const int gpus[] = {0, 1, 2, 4, 8, 16};
	struct placement_node node = node_of(gpus[test_random_below(ARRAY_SIZE(gpus))]);

	node.cpu_milli = 16000 << test_random_below(4);
	node.model = (uint8_t)test_random_below(3);
	node.host_memory_bytes = (16 + test_random_below(64)) * GIB - test_random_below(2);
	/* A node that a brief cannot describe, now and then. */
	for (int i = 0; i < node.devices && chance(10); i++) {
		node.device[i].slots = (uint16_t)test_random_below(4);
		node.device[i].taints = chance(30);
		node.device[i].compute_milli -= chance(20) ? 5 : 0;
	}
	return node;
}

static struct placement_request some_request(void)
{
	struct placement_request request = part(10 * (1 + (uint32_t)test_random_below(100)), 0);
	struct placement_container *want = &request.container[0];

	if (chance(30))
		request = whole(1 << test_random_below(4));
	else if (chance(10))
		*want = (struct placement_container){0};
	want->cpu_milli = (uint32_t)test_random_below(16) * 1000;
	want->host_memory_bytes = test_random_below(3) * 8 * GIB;
	if (chance(10))
		request.models = 1 + test_random_below(7);
	/* And requests that need the search. */
	if (want->devices && !want->exclusive && chance(15))
		want->memory_bytes = 40 * GIB;
	if (want->devices && !want->exclusive && chance(5))
		want->compute_milli += 3;
	request.stays = chance(3) ? 4 : 0;
	request.way = chance(5) ? PLACEMENT_WAY_SPREAD : PLACEMENT_WAY_POLICY;
	return request;
}

static void given_a_cluster(enum placement_policy policy)
{
	const struct placement_limits limits = {.nodes = NODES,
						.pods = PODS,
						.charges = PODS * 16,
						.shapes = KINDS,
						.typicals = KINDS};
	uint32_t counts[KINDS];

	expect(placement_size(&limits) <= sizeof(plenty));
	expect_eq(placement_init(plenty, sizeof(plenty), &limits, &cluster.p), 0);
	expect_eq(placement_configure(cluster.p, &(struct placement_config){.policy = policy}), 0);
	cluster.pods = 0;
	for (int i = 0; i < NODES; i++) {
		struct placement_node node = some_node();

		with_node(cluster.p, &node);
	}
	for (int i = 0; i < KINDS; i++) {
		bool twin = i > 0 && chance(30);

		cluster.kind[i] = twin ? cluster.kind[i - 1] : some_request();
		if (twin)
			cluster.kind[i].container[0].host_memory_bytes = test_random_below(3) * GIB;
		counts[i] = 1 + (uint32_t)test_random_below(20);
	}
	expect_eq(placement_learn(cluster.p, cluster.kind, counts, KINDS / (1 + chance(20))), 0);
}

static void expect_the_same_as_the_search(const struct placement_request *request,
					  const struct placement_decision *decision)
{
	struct placement_decision searched;

	expect_eq(placement_try(cluster.p, request, decision->node, &searched), 0);
	expect_eq(decision->score, searched.score);
	expect_eq(decision->assignment.size, searched.assignment.size);
	for (int i = 0; i < searched.assignment.size; i++)
		expect_eq(decision->assignment.slot[i].device, searched.assignment.slot[i].device);
}

static void step(void)
{
	const struct placement_request *request = &cluster.kind[test_random_below(KINDS)];
	struct placement_decision decision;
	size_t leaves = cluster.pods ? test_random_below(cluster.pods) : 0;
	int r;

	if (cluster.pods == PODS || (cluster.pods && chance(35))) {
		expect_eq(placement_release(cluster.p, cluster.pod[leaves]), 0);
		cluster.pod[leaves] = cluster.pod[--cluster.pods];
		return;
	}
	r = placement_decide(cluster.p, request, &decision);
	if (r == PLACEMENT_NOWHERE)
		return;
	expect_eq(r, 0);
	expect_the_same_as_the_search(request, &decision);
	expect_eq(placement_commit(cluster.p, request, decision.node, &decision.assignment, 0,
				   &cluster.pod[cluster.pods++]),
		  0);
}

TEST(a_lookup_finds_the_same_as_the_search)
{
	for (unsigned round = test_rounds(30); round > 0; round--) {
		uint32_t node;

		given_a_cluster((enum placement_policy)(round % PLACEMENT_POLICIES));
		for (int i = 0; i < 400; i++) {
			step();
			if (i % 8 == 0)
				expect_eq(placement_audit(cluster.p, &node), 0);
		}
	}
}

TEST(a_pod_that_differs_in_host_memory_alone_goes_where_that_is)
{
	struct placement *p = given(PLACEMENT_FORESIGHT);
	struct placement_request small = part(500, 0), large = part(500, 0), learned = part(500, 0);
	struct placement_node tight = node_of(1), wide = node_of(2);
	struct placement_decision decision;
	uint32_t count = 1;

	tight.host_memory_bytes = 8 * GIB;
	with_node(p, &tight);
	with_node(p, &wide);
	expect_eq(placement_learn(p, &learned, &count, 1), 0);
	small.container[0].host_memory_bytes = 4 * GIB;
	large.container[0].host_memory_bytes = 16 * GIB;
	expect_eq(placement_decide(p, &small, &decision), 0);
	expect_eq(placement_decide(p, &large, &decision), 0);
	expect_eq(decision.node, 1);
	large.container[0].host_memory_bytes = 6 * GIB;
	small.container[0].host_memory_bytes = 6 * GIB;
	placed(p, &small, &decision);
	/* And back: the smaller one may have a node that refused the larger one for its memory. */
	small.container[0].host_memory_bytes = GIB;
	expect_eq(placement_try(p, &small, 0, &decision), 0);
	expect_eq(placement_decide(p, &small, &decision), 0);
	expect_eq(refused(p, &small, decision.node), PLACEMENT_FITS);
}
