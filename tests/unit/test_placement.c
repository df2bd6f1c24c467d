/* SPDX-License-Identifier: Apache-2.0 */
#include "core/placement.h"
#include "tests/test.h"

#define GIB (1ull << 30)

static _Alignas(64) char memory[4 << 20];

static struct placement *given(enum placement_policy policy)
{
	const struct placement_limits limits = {
		.nodes = 16, .pods = 64, .charges = 128, .shapes = 8, .typicals = 8};
	struct placement *p = NULL;

	expect(placement_size(&limits) <= sizeof(memory));
	expect_eq(placement_init(memory, sizeof(memory), &limits, &p), 0);
	expect_eq(placement_configure(p, &(struct placement_config){.policy = policy}), 0);
	return p;
}

static struct placement_node node_of(int gpus)
{
	struct placement_node node = {.cpu_milli = 64000, .host_memory_bytes = 256 * GIB};

	node.devices = (uint8_t)gpus;
	for (int i = 0; i < gpus; i++)
		node.device[i] = (struct placement_device){.memory_bytes = 80 * GIB,
							   .compute_milli = PLACEMENT_WHOLE};
	return node;
}

static uint32_t with_node(struct placement *p, const struct placement_node *node)
{
	uint32_t number = 0;

	expect_eq(placement_add_node(p, node, &number), 0);
	return number;
}

static struct placement_request part(uint32_t milli, uint64_t bytes)
{
	struct placement_request request = {.node = PLACEMENT_ANYWHERE, .containers = 1};

	request.container[0] = (struct placement_container){
		.devices = 1, .compute_milli = milli, .memory_bytes = bytes, .cpu_milli = 1000};
	return request;
}

static struct placement_request whole(int gpus)
{
	struct placement_request request = part(PLACEMENT_WHOLE, 0);

	request.container[0].devices = (uint8_t)gpus;
	request.container[0].exclusive = true;
	return request;
}

/* Decides and books; returns the pod, and where it went. */
static uint64_t placed(struct placement *p, const struct placement_request *request,
		       struct placement_decision *decision)
{
	uint64_t pod = 0;

	expect_eq(placement_decide(p, request, decision), 0);
	expect_eq(placement_commit(p, request, decision->node, &decision->assignment, 0, &pod), 0);
	return pod;
}

static enum placement_reason refused(struct placement *p, const struct placement_request *request,
				     uint32_t node)
{
	struct placement_refusal refusal;

	expect_eq(placement_explain(p, request, node, &refusal), 0);
	return refusal.reason;
}

TEST(memory_that_is_too_small_is_refused)
{
	const struct placement_limits limits = {.nodes = 1, .pods = 1, .charges = 1, .shapes = 1};
	struct placement *p;
	size_t size = placement_size(&limits);

	expect_eq(placement_init(memory, size - 1, &limits, &p), -EINVAL);
	expect_eq(placement_init(memory, size, &limits, &p), 0);
	expect_eq(placement_size(&(struct placement_limits){0}), 0);
}

TEST(parts_of_a_gpu_are_packed_onto_one)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(4);
	struct placement_request request = part(300, 10 * GIB);
	struct placement_decision first, second;

	with_node(p, &node);
	placed(p, &request, &first);
	placed(p, &request, &second);
	expect_eq(second.assignment.slot[0].device, first.assignment.slot[0].device);
}

TEST(spread_takes_the_emptiest_node_and_gpu)
{
	struct placement *p = given(PLACEMENT_SPREAD);
	struct placement_node node = node_of(2);
	struct placement_request request = part(300, 0);
	struct placement_decision d[4];
	uint32_t seen = 0;

	with_node(p, &node);
	with_node(p, &node);
	for (int i = 0; i < 4; i++) {
		placed(p, &request, &d[i]);
		seen |= 1u << (d[i].node * 2 + d[i].assignment.slot[0].device);
	}
	expect_eq(seen, 15);
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

TEST(an_exclusive_gpu_has_no_other_tenant)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(2);
	struct placement_request small = part(0, 1 * GIB), both = whole(2), one = whole(1);
	struct placement_decision d;
	uint32_t n = with_node(p, &node);
	uint64_t pod = placed(p, &small, &d);

	expect_eq(refused(p, &both, n), PLACEMENT_NO_EXCLUSIVE);
	placed(p, &one, &d);
	expect_eq(d.assignment.slot[0].device, 1);
	expect_eq(placement_release(p, pod), 0);
	placed(p, &one, &d);
	expect_eq(refused(p, &small, n), PLACEMENT_NO_SHARED);
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

TEST(gpus_of_one_numa_node_are_preferred_and_can_be_demanded)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(4);
	struct placement_request two = whole(2), one = whole(1);
	struct placement_decision d;
	uint32_t n;

	for (int i = 0; i < 4; i++)
		node.device[i].numa = (uint8_t)(i % 2);
	n = with_node(p, &node);
	two.numa = PLACEMENT_PREFER;
	placed(p, &two, &d);
	expect_eq(d.assignment.slot[0].device % 2, d.assignment.slot[1].device % 2);
	placed(p, &one, &d);
	two.numa = PLACEMENT_REQUIRE;
	expect_eq(refused(p, &two, n), PLACEMENT_NO_EXCLUSIVE);
	expect_eq(placement_add_node(p, &node, &n), 0);
	one.node = (int32_t)n;
	one.named_devices = 1;
	placed(p, &one, &d);
	one.named_devices = 2;
	placed(p, &one, &d);
	expect_eq(refused(p, &two, n), PLACEMENT_NO_NUMA);
}

TEST(linked_gpus_are_found_among_others)
{
	struct placement *p = given(PLACEMENT_FORESIGHT);
	struct placement_node node = node_of(8);
	struct placement_request three = whole(3);
	struct placement_decision d;
	uint32_t set = 0;
	uint32_t n;

	/* 1, 4 and 6 are linked pairwise; 0-2, 2-3 and 3-5 are pairs. */
	node.device[1].links = 1u << 4 | 1u << 6;
	node.device[4].links = 1u << 1 | 1u << 6;
	node.device[6].links = 1u << 1 | 1u << 4;
	node.device[0].links = 1u << 2;
	node.device[2].links = 1u << 0 | 1u << 3;
	node.device[3].links = 1u << 2 | 1u << 5;
	node.device[5].links = 1u << 3;
	n = with_node(p, &node);
	three.links = PLACEMENT_REQUIRE;
	placed(p, &three, &d);
	for (int i = 0; i < 3; i++)
		set |= 1u << d.assignment.slot[i].device;
	expect_eq(set, 1u << 1 | 1u << 4 | 1u << 6);
	expect_eq(refused(p, &three, n), PLACEMENT_NO_LINK);
	three.links = PLACEMENT_PREFER;
	placed(p, &three, &d);
}

TEST(a_node_that_meets_the_wish_comes_before_a_better_one)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node torn = node_of(2), whole_node = node_of(2);
	struct placement_request two = whole(2);
	struct placement_decision d;
	uint32_t good;

	torn.device[1].numa = 1;
	with_node(p, &torn);
	good = with_node(p, &whole_node);
	two.numa = PLACEMENT_PREFER;
	placed(p, &two, &d);
	expect_eq(d.node, good);
	placed(p, &two, &d);
	expect(d.node != good);
}

static uint8_t with_geometry(struct placement *p)
{
	/* An H200's: seven compute slices, eight memory slices. */
	const struct placement_profile profiles[] = {
		{.name = 1, .starts = 0x7f, .size = 1, .compute = 1},
		{.name = 2, .starts = 0x55, .size = 2, .compute = 1},
		{.name = 3, .starts = 0x15, .size = 2, .compute = 2},
		{.name = 4, .starts = 0x11, .size = 4, .compute = 3},
		{.name = 5, .starts = 0x01, .size = 4, .compute = 4},
		{.name = 6, .starts = 0x01, .size = 8, .compute = 7},
		{.name = 7, .starts = 0x7f, .size = 1, .compute = 1, .most = 1},
	};
	uint8_t geometry = 0;

	expect_eq(placement_geometry(p, profiles, ARRAY_SIZE(profiles), &geometry), 0);
	return geometry;
}

static struct placement_request instance(uint16_t profile)
{
	struct placement_request request = {.node = PLACEMENT_ANYWHERE, .containers = 1};

	request.container[0].devices = 1;
	request.container[0].profile = profile;
	return request;
}

TEST(a_mig_instance_is_put_where_it_spoils_least)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(1);
	struct placement_request one = instance(1), four = instance(5), three = instance(4);
	struct placement_decision d;
	uint32_t n;

	node.device[0].geometry = with_geometry(p);
	n = with_node(p, &node);
	placed(p, &one, &d);
	/* Slices 0..3 are the only place of profile 5: the first instance stays out of them. */
	expect(d.assignment.slot[0].start >= 4);
	placed(p, &four, &d);
	expect_eq(d.assignment.slot[0].start, 0);
	expect_eq(refused(p, &three, n), PLACEMENT_NO_MIG_PLACEMENT);
	placed(p, &one, &d);
}

TEST(a_profile_may_be_limited_and_a_split_gpu_takes_no_parts)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(1);
	struct placement_request media = instance(7), other = instance(99), share = part(100, 0);
	struct placement_decision d;
	uint64_t pod;
	uint32_t n;

	node.device[0].geometry = with_geometry(p);
	n = with_node(p, &node);
	pod = placed(p, &media, &d);
	expect_eq(refused(p, &media, n), PLACEMENT_NO_MIG_PLACEMENT);
	expect_eq(refused(p, &other, n), PLACEMENT_NO_MIG_PROFILE);
	expect_eq(refused(p, &share, n), PLACEMENT_NO_MIG_MODE);
	expect_eq(placement_release(p, pod), 0);
	expect_eq(refused(p, &media, n), PLACEMENT_FITS);
}

TEST(containers_of_a_pod_are_placed_together)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(2);
	struct placement_request request = part(600, 0);
	struct placement_decision d;
	uint32_t n = with_node(p, &node);

	request.containers = 2;
	request.container[1] = request.container[0];
	placed(p, &request, &d);
	expect_eq(d.assignment.size, 2);
	expect(d.assignment.slot[0].device != d.assignment.slot[1].device);
	expect_eq(refused(p, &request, n), PLACEMENT_NO_COMPUTE);
	request.container[0].compute_milli = request.container[1].compute_milli = 400;
	placed(p, &request, &d);
}

TEST(what_fits_one_by_one_but_not_together_is_called_so)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(1);
	struct placement_request request = part(600, 50 * GIB);
	uint32_t n = with_node(p, &node);

	request.containers = 2;
	request.container[1] = request.container[0];
	/* Neither memory nor compute alone is to blame. */
	expect_eq(refused(p, &request, n), PLACEMENT_NO_PACKING);
}

TEST(an_awkward_mix_of_containers_is_still_found)
{
	struct placement *p = given(PLACEMENT_SPREAD);
	struct placement_node node = node_of(2);
	struct placement_request request = {.node = PLACEMENT_ANYWHERE, .containers = 5};
	static const uint32_t milli[5] = {500, 400, 400, 400, 300};
	struct placement_decision d;
	uint32_t load[2] = {0};

	/* 500 + 500 would be the spread; only 400 + 300 + 300 against the rest fits. */
	for (int i = 0; i < 5; i++)
		request.container[i] =
			(struct placement_container){.devices = 1, .compute_milli = milli[i]};
	request.container[0].compute_milli = 600;
	request.container[4].compute_milli = 200;
	with_node(p, &node);
	placed(p, &request, &d);
	for (int i = 0; i < d.assignment.size; i++)
		load[d.assignment.slot[i].device] +=
			request.container[d.assignment.slot[i].container].compute_milli;
	expect_eq(load[0], 1000);
	expect_eq(load[1], 1000);
}

TEST(init_containers_use_what_the_pod_will_have)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(1);
	struct placement_request request = part(600, 20 * GIB), rest = part(400, 0);
	struct placement_decision d;
	struct placement_totals totals;
	uint64_t pod;

	with_node(p, &node);
	request.containers = 3;
	request.container[1] = request.container[2] = request.container[0];
	request.container[0].kind = PLACEMENT_INIT;
	request.container[1].kind = PLACEMENT_INIT;
	request.container[0].memory_bytes = 30 * GIB;
	pod = placed(p, &request, &d);
	placement_totals(p, &totals);
	expect_eq(totals.promised_milli, 600);
	placed(p, &rest, &d);
	expect_eq(placement_release(p, pod), 0);
	placement_totals(p, &totals);
	expect_eq(totals.promised_milli, 400);
}

TEST(a_sidecar_counts_beside_later_init_containers)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(1);
	struct placement_request request = part(300, 0);
	struct placement_decision d;
	struct placement_totals totals;

	with_node(p, &node);
	request.containers = 3;
	request.container[1] = request.container[2] = request.container[0];
	request.container[0].kind = PLACEMENT_SIDECAR;
	request.container[1].kind = PLACEMENT_INIT;
	request.container[1].compute_milli = 500;
	placed(p, &request, &d);
	placement_totals(p, &totals);
	/* 300 + 500 while the init container runs, 300 + 300 after. */
	expect_eq(totals.promised_milli, 800);
}

TEST(a_class_with_a_factor_fills_what_the_others_may_not)
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

TEST(slots_limit_how_many_share)
{
	struct placement *p = given(PLACEMENT_BINPACK);
	struct placement_node node = node_of(1);
	struct placement_request request = part(0, 0);
	struct placement_decision d;
	uint32_t n;

	node.device[0].slots = 2;
	n = with_node(p, &node);
	placed(p, &request, &d);
	placed(p, &request, &d);
	expect_eq(refused(p, &request, n), PLACEMENT_NO_SLOTS);
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

TEST(what_is_bound_already_is_booked_on_a_cordoned_node)
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

TEST(fgd_does_not_cut_what_the_usual_pods_need)
{
	struct placement *p = given(PLACEMENT_FGD);
	struct placement_node node = node_of(1);
	struct placement_request half = part(500, 0), third = part(300, 0), usual = part(700, 0);
	const uint32_t count = 1;
	struct placement_decision d, other;

	with_node(p, &node);
	with_node(p, &node);
	expect_eq(placement_learn(p, &usual, &count, 1), 0);
	placed(p, &half, &d);
	/* The other GPU can still take a usual pod: it is left alone. */
	placed(p, &third, &other);
	expect_eq(other.node, d.node);
	expect_eq((long)placement_fragmentation(p), 200);
}

TEST(foresight_keeps_cpu_beside_free_gpus)
{
	struct placement *p = given(PLACEMENT_FORESIGHT);
	struct placement_node poor = node_of(2), rich = node_of(2);
	struct placement_request hungry = part(100, 0), usual = whole(1);
	const uint32_t count = 1;
	struct placement_decision d;
	uint32_t n;

	poor.cpu_milli = 16000;
	rich.cpu_milli = 64000;
	usual.container[0].cpu_milli = 8000;
	hungry.container[0].cpu_milli = 10000;
	with_node(p, &poor);
	n = with_node(p, &rich);
	expect_eq(placement_learn(p, &usual, &count, 1), 0);
	placed(p, &hungry, &d);
	expect_eq(d.node, n);
}

TEST(foresight_spares_the_model_that_some_pods_insist_on)
{
	struct placement *p = given(PLACEMENT_FORESIGHT);
	struct placement_node scarce = node_of(2), common = node_of(2);
	struct placement_request usual[2] = {whole(1), whole(1)}, any = whole(1);
	const uint32_t counts[2] = {1, 1};
	struct placement_decision d;
	uint32_t n;

	scarce.model = 1;
	common.model = 2;
	usual[0].models = 1u << 1;
	with_node(p, &scarce);
	n = with_node(p, &common);
	expect_eq(placement_learn(p, usual, counts, 2), 0);
	placed(p, &any, &d);
	expect_eq(d.node, n);
}

TEST(of_equal_nodes_the_lowest_is_taken_across_blocks)
{
	const struct placement_limits limits = {
		.nodes = 200, .pods = 256, .charges = 256, .shapes = 2, .typicals = 1};
	struct placement_node node = node_of(1);
	struct placement_request one = whole(1);
	struct placement_decision d;
	struct placement *p;

	expect(placement_size(&limits) <= sizeof(memory));
	expect_eq(placement_init(memory, sizeof(memory), &limits, &p), 0);
	for (int i = 0; i < 200; i++)
		with_node(p, &node);
	for (uint32_t i = 0; i < 200; i++) {
		placed(p, &one, &d);
		expect_eq(d.node, i);
	}
	expect_eq(placement_decide(p, &one, &d), PLACEMENT_NOWHERE);
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
