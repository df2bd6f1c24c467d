/* SPDX-License-Identifier: Apache-2.0 */
/* A node's room, and the pods that are booked on it. */
#include "tests/unit/placement_fixture.h"

TEST(memory_that_is_too_small_is_refused)
{
	const struct placement_limits limits = {.nodes = 1, .pods = 1, .charges = 1, .shapes = 1};
	struct placement *p;
	size_t size = placement_size(&limits);

	expect_eq(placement_init(memory, size - 1, &limits, &p), -EINVAL);
	expect_eq(placement_init(memory, size, &limits, &p), 0);
	expect_eq(placement_size(&(struct placement_limits){0}), 0);
}

TEST(memory_and_compute_are_two_dimensions)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(1);
	struct placement_request little = part(100, 70 * GIB);
	struct placement_request memory_wanted = part(100, 11 * GIB);
	struct placement_request compute_wanted = part(901, 1 * GIB);
	struct placement_decision d;
	struct placement_refusal refusal;
	uint32_t n = with_node(p, &node);

	placed(p, &little, &d);
	expect_eq(placement_explain(p, &memory_wanted, n, &refusal), 0);
	expect_eq(refusal.reason, PLACEMENT_NO_MEMORY);
	expect_eq(refusal.needed, 11 * GIB);
	expect_eq(refusal.available, 10 * GIB);
	expect_eq(placement_explain(p, &compute_wanted, n, &refusal), 0);
	expect_eq(refusal.reason, PLACEMENT_NO_COMPUTE);
	expect_eq(refusal.needed, 901);
	expect_eq(refusal.available, 900);
	expect_eq(placement_decide(p, &compute_wanted, &d), PLACEMENT_NOWHERE);
}

TEST(giving_back_twice_is_harmless)
{
	struct placement *p = given(PLACEMENT_FORESIGHT);
	struct placement_node node = node_of(1);
	struct placement_request request = part(600, 0);
	struct placement_decision d;
	struct placement_totals totals;
	uint64_t first, second;

	with_node(p, &node);
	first = placed(p, &request, &d);
	expect_eq(placement_release(p, first), 0);
	expect_eq(placement_release(p, first), -ENOENT);
	second = placed(p, &request, &d);
	expect(first != second);
	expect_eq(placement_release(p, first), -ENOENT);
	placement_totals(p, &totals);
	expect_eq(totals.promised_milli, 600);
	expect_eq(totals.pods, 1);
}

TEST(a_model_a_taint_and_a_cordon_keep_pods_away)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(1);
	struct placement_request request = part(100, 0);
	uint32_t n;

	node.model = 3;
	n = with_node(p, &node);
	request.models = 1u << 2;
	expect_eq(refused(p, &request, n), PLACEMENT_NO_MODEL);
	request.models = 1u << 3;
	expect_eq(refused(p, &request, n), PLACEMENT_FITS);
	expect_eq(placement_taint(p, n, 0, 4), 0);
	expect_eq(refused(p, &request, n), PLACEMENT_NO_TAINT);
	request.tolerations = 4;
	expect_eq(refused(p, &request, n), PLACEMENT_FITS);
	expect_eq(placement_cordon(p, n, true), 0);
	expect_eq(refused(p, &request, n), PLACEMENT_NO_CORDONED);
}

TEST(a_class_with_a_factor_fills_room_that_the_others_may_not)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_config config = {.policy = PLACEMENT_BINPACK};
	struct placement_node node = node_of(1);
	struct placement_request standard = part(810, 0), small = part(190, 0),
				 batch = part(440, 0);
	struct placement_decision d;
	struct placement_totals totals;
	uint32_t n;

	config.compute_factor_milli[2] = 1250;
	expect_eq(placement_configure(p, &config), 0);
	n = with_node(p, &node);
	batch.class = 2;
	placed(p, &standard, &d);
	placed(p, &batch, &d);
	expect_eq(refused(p, &batch, n), PLACEMENT_NO_COMPUTE);
	/* The others' own limit is 1000, but the GPU's 1250 are promised. */
	expect_eq(refused(p, &small, n), PLACEMENT_NO_COMPUTE);
	placement_totals(p, &totals);
	expect_eq(totals.promised_milli, 1250);
	expect_eq(totals.used_milli, 1000);
	config.compute_factor_milli[2] = 999;
	expect_eq(placement_configure(p, &config), -EINVAL);
}

TEST(a_race_is_lost_at_commit)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(1);
	struct placement_request request = part(600, 0);
	struct placement_decision first, second;
	uint64_t pod;

	with_node(p, &node);
	expect_eq(placement_decide(p, &request, &first), 0);
	expect_eq(placement_decide(p, &request, &second), 0);
	expect_eq(placement_commit(p, &request, first.node, &first.assignment, 0, &pod), 0);
	expect_eq(placement_commit(p, &request, second.node, &second.assignment, 0, &pod),
		  PLACEMENT_NO_COMPUTE);
	second.assignment.slot[0].device = 9;
	expect_eq(placement_commit(p, &request, second.node, &second.assignment, 0, &pod), -EINVAL);
}

TEST(a_pod_that_is_bound_already_is_booked_on_a_cordoned_node)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(1);
	struct placement_request request = part(600, 0);
	struct placement_decision d;
	uint64_t pod;
	uint32_t n = with_node(p, &node);

	expect_eq(placement_decide(p, &request, &d), 0);
	expect_eq(placement_cordon(p, n, true), 0);
	expect_eq(placement_taint(p, n, 0, 1), 0);
	expect_eq(placement_commit(p, &request, n, &d.assignment, 0, &pod), 0);
}

TEST(the_fewest_and_least_important_pods_are_the_victims)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(1);
	struct placement_request request = part(500, 0), wanted = part(400, 0);
	struct placement_decision d;
	uint64_t low, high, victims[8];
	size_t size;
	uint32_t n = with_node(p, &node), where;

	expect_eq(placement_decide(p, &request, &d), 0);
	expect_eq(placement_commit(p, &request, n, &d.assignment, 10, &low), 0);
	expect_eq(placement_decide(p, &request, &d), 0);
	expect_eq(placement_commit(p, &request, n, &d.assignment, 20, &high), 0);
	expect_eq(placement_victims(p, &wanted, n, 10, victims, 8, &size), PLACEMENT_NO_VICTIMS);
	expect_eq(placement_preempt(p, &wanted, 30, &where, victims, 8, &size), 0);
	expect_eq(where, n);
	expect_eq(size, 1);
	expect_eq(victims[0], low);
	wanted.container[0].compute_milli = 900;
	expect_eq(placement_victims(p, &wanted, n, 30, victims, 8, &size), 0);
	expect_eq(size, 2);
	expect_eq(victims[0], high);
}

TEST(nonsense_is_refused)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_request request = part(100, 0);
	struct placement_decision d;

	request.container[0].devices = 0;
	expect_eq(placement_decide(p, &request, &d), -EINVAL);
	request = whole(16);
	request.containers = 3;
	request.container[1] = request.container[2] = request.container[0];
	expect_eq(placement_decide(p, &request, &d), -EINVAL);
	request = part(100, 0);
	request.named_devices = 1;
	expect_eq(placement_decide(p, &request, &d), -EINVAL);
	request.named_devices = 0;
	request.class = 3;
	expect_eq(placement_decide(p, &request, &d), -EINVAL);
}

TEST(a_node_with_pods_is_not_removed)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(1);
	struct placement_request request = part(100, 0);
	struct placement_decision d;
	uint32_t n = with_node(p, &node);
	uint64_t pod = placed(p, &request, &d);

	expect_eq(placement_remove_node(p, n), -EBUSY);
	expect_eq(placement_release(p, pod), 0);
	expect_eq(placement_remove_node(p, n), 0);
	expect_eq(placement_decide(p, &request, &d), PLACEMENT_NOWHERE);
	expect_eq(placement_remove_node(p, n), -ENOENT);
}

static struct placement_refusal refusal_of(struct placement *p,
					   const struct placement_request *request, uint32_t node)
{
	struct placement_refusal refusal;

	expect_eq(placement_explain(p, request, node, &refusal), 0);
	return refusal;
}

TEST(a_node_with_too_few_gpus_is_refused_for_that)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(2);
	struct placement_request request = whole(3);
	uint32_t n = with_node(p, &node);

	expect_eq(refused(p, &request, n), PLACEMENT_NO_DEVICE_COUNT);
	expect_eq(refusal_of(p, &request, n).needed, 3);
	expect_eq(refusal_of(p, &request, n).available, 2);
	expect_eq(placement_cordon(p, n, true), 0);
	expect_eq(refused(p, &request, n), PLACEMENT_NO_CORDONED);
}

TEST(a_pod_without_containers_is_refused_by_a_cordoned_node)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(1);
	struct placement_request nothing = {.node = PLACEMENT_ANYWHERE};
	uint32_t n = with_node(p, &node);

	expect_eq(refused(p, &nothing, n), PLACEMENT_FITS);
	expect_eq(placement_cordon(p, n, true), 0);
	expect_eq(refused(p, &nothing, n), PLACEMENT_NO_CORDONED);
}

TEST(the_best_of_several_gpus_is_the_figure_of_the_last_one)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(2);
	struct placement_request some = part(700, 0), two = part(1000, 0);
	struct placement_decision d;
	uint32_t n = with_node(p, &node);

	placed(p, &some, &d);
	two.container[0].devices = 2;
	expect_eq(refused(p, &two, n), PLACEMENT_NO_COMPUTE);
	expect_eq(refusal_of(p, &two, n).needed, 1000);
	expect_eq(refusal_of(p, &two, n).available, 300);
}

/* One GPU lacks compute, the other one memory: neither number is the other GPU's. */
TEST(the_best_amount_is_of_a_gpu_where_nothing_else_is_in_the_way)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(2);
	struct placement_request some = part(700, 0), both = part(600, 60 * GIB);
	struct placement_decision d;
	struct placement_refusal refusal;
	uint32_t n;

	node.device[1].memory_bytes = 40 * GIB;
	n = with_node(p, &node);
	some.named_devices = 1;
	some.node = (int32_t)n;
	placed(p, &some, &d);
	refusal = refusal_of(p, &both, n);
	expect_eq(refusal.reason, PLACEMENT_NO_MEMORY_SIZE);
	expect_eq(refusal.available, 40 * GIB);
	expect_eq(refusal.needed, 60 * GIB);
}

/* The rest of it is no more than a signed number holds, rounded up or not. */
TEST(a_node_with_endless_memory_takes_pods)
{
	static const uint64_t endless[] = {INT64_MAX, UINT64_MAX};

	for (size_t i = 0; i < ARRAY_SIZE(endless); i++) {
		struct placement *p = given(PLACEMENT_BINPACK);
		struct placement_request request = part(500, GIB);
		struct placement_node node = node_of(1);
		struct placement_decision d;

		node.host_memory_bytes = endless[i];
		with_node(p, &node);
		request.container[0].host_memory_bytes = 8 * GIB;
		placed(p, &request, &d);
		placed(p, &request, &d);
	}
}
