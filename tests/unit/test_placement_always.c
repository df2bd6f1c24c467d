/* SPDX-License-Identifier: Apache-2.0 */
/* The laws of core/placement/placement.h under random histories. */
#include "tests/unit/placement_history.h"

/* The machine as it can be seen from outside. */
struct seen {
	uint64_t pods[NODES][PODS];
	struct placement_left left[NODES];
	struct placement_totals totals;
	struct placement_decision decision[3];
	int r[3];
	uint64_t next_end;
};

static void look(const struct placement_request requests[3], struct seen *ret)
{
	size_t size;

	memset(ret, 0, sizeof(*ret));
	for (int i = 0; i < 3; i++)
		ret->r[i] = decide(world.p, &requests[i], &ret->decision[i]);
	for (uint32_t n = 0; n < NODES; n++) {
		expect_eq(placement_pods(world.p, n, ret->pods[n], PODS, &size), 0);
		expect_eq(placement_left(world.p, n, 0, &ret->left[n]), 0);
	}
	placement_totals(world.p, &ret->totals);
	ret->next_end = placement_next_end(world.p);
}

static bool same_bytes(const void *a, const void *b, size_t size)
{
	return memcmp(a, b, size) == 0;
}

static void expect_the_same(const struct seen *a, const struct seen *b)
{
	expect(same_bytes(a->pods, b->pods, sizeof(a->pods)));
	expect(same_bytes(a->left, b->left, sizeof(a->left)));
	expect(same_bytes(&a->totals, &b->totals, sizeof(a->totals)));
	expect(a->next_end == b->next_end);
	for (int i = 0; i < 3; i++) {
		const struct placement_decision *x = &a->decision[i], *y = &b->decision[i];

		expect_eq(a->r[i], b->r[i]);
		if (a->r[i])
			continue;
		expect_eq(x->node, y->node);
		expect_eq(x->score, y->score);
		expect_eq(memcmp(x->assignment.slot, y->assignment.slot,
				 x->assignment.size * sizeof(x->assignment.slot[0])),
			  0);
	}
}

/* All of them, or none. */
static void arrive_together(void)
{
	enum { SIZE = 4 };
	struct placement_request requests[SIZE];
	struct placement_decision decisions[SIZE];
	size_t stuck = SIZE, size = 1 + test_random_below(SIZE);
	struct seen before, after;
	uint64_t names[SIZE];
	int r;

	if (world.pods + SIZE > PODS)
		return;
	for (size_t i = 0; i < SIZE; i++)
		requests[i] = world_request(2);
	look(requests, &before);
	r = placement_gang(world.p, requests, size, 2, decisions, names, &stuck);
	expect(r == 0 || r == PLACEMENT_NOWHERE || (world.on_trial && r == -ENOSPC));
	for (size_t i = 0; i < size && r == 0; i++)
		world.pod[world.pods++] = (struct pod){.name = names[i],
						       .request = requests[i],
						       .assignment = decisions[i].assignment,
						       .until = PLACEMENT_FOR_GOOD,
						       .priority = 2,
						       .node = decisions[i].node};
	if (r == 0)
		return;
	expect(stuck < size);
	look(requests, &after);
	expect_the_same(&before, &after);
}

/* Nothing but pods changes on trial. */
static void expect_busy(void)
{
	struct placement_node node = world_node();
	uint32_t number = (uint32_t)test_random_below(NODES);

	expect_eq(placement_begin(world.p), -EBUSY);
	expect_eq(placement_configure(world.p, &world.config), -EBUSY);
	expect_eq(placement_learn(world.p, world.usual, world.counts, 4), -EBUSY);
	expect_eq(placement_cordon(world.p, number, true), -EBUSY);
	expect_eq(placement_remove_node(world.p, number), -EBUSY);
	expect_eq(placement_update_node(world.p, number, &node), -EBUSY);
	expect_eq(placement_add_node(world.p, &node, &number), -EBUSY);
	if (world.pods)
		expect_eq(placement_keep(world.p, world.pod[0].name, 1), -EBUSY);
	expect_eq(placement_expire(world.p, UINT64_MAX - 1, &(uint64_t){0}, 1), 0);
}

/* As if it had not been; or it stands. */
static void try_out(void)
{
	static struct {
		char bytes[offsetof(struct world, memory)];
	} kept;
	struct placement_request requests[3] = {world_request(2), world_request(2),
						world_request(1)};
	struct seen before, after;
	uint32_t node;

	look(requests, &before);
	memcpy(kept.bytes, &world, sizeof(kept.bytes));
	expect_eq(placement_begin(world.p), 0);
	world.on_trial = true;
	/* No more steps than are noted. */
	for (uint64_t i = test_random_below(STEPS / 4); i > 0; i--) {
		uint64_t what = test_random_below(10);

		if (what < 4)
			arrive();
		else if (what < 5)
			turn_up();
		else if (what < 6)
			arrive_together();
		else
			leave();
		expect_nothing_promised_twice();
		expect_eq(placement_audit(world.p, &node), 0);
	}
	expect_busy();
	world.on_trial = false;
	if (world_chance(30)) {
		expect_eq(placement_finish(world.p), 0);
		expect_eq(placement_finish(world.p), -EINVAL);
		return;
	}
	expect_eq(placement_roll_back(world.p), 0);
	expect_eq(placement_roll_back(world.p), -EINVAL);
	memcpy(&world, kept.bytes, sizeof(kept.bytes));
	look(requests, &after);
	expect_the_same(&before, &after);
}

static void step(void)
{
	uint64_t what = test_random_below(20);
	uint32_t node;

	if (what < 11)
		arrive();
	else if (what < 12)
		turn_up();
	else if (what < 14)
		pass();
	else if (what < 15)
		try_out();
	else if (what < 16 && world_chance(30))
		arrive_together();
	else if (what < 18)
		leave();
	else
		turn_something();
	expect_nothing_promised_twice();
	expect_eq(placement_audit(world.p, &node), 0);
}

TEST(nothing_is_promised_twice_and_incremental_equals_from_scratch)
{
	for (unsigned round = test_histories(150); round > 0; round--) {
		struct placement_request asked_again[3];

		world_given();
		for (int i = 0; i < 3; i++)
			asked_again[i] = world_request(2);
		for (int i = 0; i < 60; i++) {
			/* Now and then more changes than a shape can catch up with one by one. */
			for (uint64_t n = world_chance(20) ? NODES + test_random_below(5) : 1;
			     n > 0; n--)
				step();
			expect_the_same_from_scratch(&asked_again[test_random_below(3)]);
		}
	}
}

TEST(a_refusal_names_a_constraint_that_binds)
{
	for (unsigned round = test_histories(150); round > 0; round--) {
		world_given();
		for (int i = 0; i < 40; i++) {
			struct placement_request request = world_request(1);

			step();
			for (uint32_t n = 0; n < NODES; n++)
				expect_a_binding_reason(n, &request);
		}
	}
}

TEST(a_pod_of_several_containers_is_refused_only_where_nothing_fits)
{
	for (unsigned round = test_histories(150); round > 0; round--) {
		world_given();
		for (int i = 0; i < 40; i++) {
			struct placement_request request = world_request(4);
			struct placement_refusal refusal;

			step();
			for (uint32_t n = 0; n < NODES; n++) {
				expect_eq(placement_explain(world.p, &request, n, &refusal), 0);
				expect_eq(refusal.reason == PLACEMENT_FITS,
					  brute_fits(n, &request));
			}
		}
	}
}

/* Would it fit, by brute force, without the node's pods below a priority? */
static bool fits_without(const struct placement_request *request, uint32_t node, int32_t below)
{
	static struct pod kept[PODS];
	int pods = world.pods;
	bool fits;

	memcpy(kept, world.pod, sizeof(kept));
	for (int i = 0; i < world.pods; i++)
		if (world.pod[i].node == node && world.pod[i].priority < below)
			world.pod[i--] = world.pod[--world.pods];
	fits = brute_fits(node, request);
	memcpy(world.pod, kept, sizeof(kept));
	world.pods = pods;
	return fits;
}

/* Whether some candidate could take it at all, and whether one could without the lower ones. */
static int answer_of(const struct placement_request *request, const uint32_t *nodes, size_t size,
		     int32_t priority)
{
	bool large = false, fits = false;

	for (size_t i = 0; i < size; i++) {
		large |= fits_without(request, nodes[i], INT32_MAX);
		fits |= fits_without(request, nodes[i], priority);
	}
	if (fits)
		return 0;
	return large ? PLACEMENT_NO_VICTIMS : PLACEMENT_TOO_SMALL;
}

static struct pod *pod_named(uint64_t name)
{
	for (int i = 0; i < world.pods; i++)
		if (world.pod[i].name == name)
			return &world.pod[i];
	return NULL;
}

/* Gone one by one: it fits when the last one has left, not before. */
static void expect_victims(const struct placement_request *request,
			   const struct placement_victims *said, const uint64_t *victims,
			   const uint32_t *allowed)
{
	uint32_t off[4] = {0}, overdrawn = 0;
	struct placement_decision decision;
	struct placement_pod_info info;
	int32_t last = INT32_MAX;

	expect(said->size > 0);
	for (size_t v = 0; v < said->size; v++) {
		struct pod *pod = pod_named(victims[v]);

		expect(placement_try(world.p, request, said->node, &decision) > 0);
		expect(pod && pod->priority < 3 && pod->priority <= last);
		last = pod->priority;
		expect(v > 0 || last == said->priority);
		expect_eq(pod->node, said->node);
		expect_eq(placement_get_pod(world.p, pod->name, &info), 0);
		if (info.budget && info.budget < 3 && ++off[info.budget] > allowed[info.budget - 1])
			overdrawn++;
		*pod = world.pod[--world.pods];
		expect_eq(placement_release(world.p, victims[v]), 0);
	}
	expect_eq(said->overdrawn, overdrawn);
	expect_eq(placement_try(world.p, request, said->node, &decision), 0);
}

TEST(victims_make_room_and_none_of_them_could_stay)
{
	for (unsigned round = test_histories(60); round > 0; round--) {
		world_given();
		for (int i = 0; i < 60; i++) {
			struct placement_request request = world_request(2);
			uint32_t nodes[2] = {(uint32_t)test_random_below(NODES), 0};
			uint32_t allowed[2] = {(uint32_t)test_random_below(2), 1};
			struct placement_preemption how = {.priority = 3,
							   .nodes = nodes,
							   .nodes_size = 2,
							   .allowed = allowed,
							   .budgets = 2,
							   .keep_budgets = world_chance(30)};
			struct placement_decision decision;
			struct placement_victims said;
			uint64_t victims[PODS];
			int r;

			arrive();
			if (world_chance(10))
				turn_up();
			if (world.pods)
				expect_eq(placement_protect(world.p, world.pod[world.pods - 1].name,
							    (uint16_t)test_random_below(4)),
					  0);
			nodes[1] = (nodes[0] + 1) % NODES;
			if (placement_decide(world.p, &request, &decision) == 0)
				continue;
			r = placement_preempt_among(world.p, &request, &how, victims, PODS, &said);
			expect(r == answer_of(&request, nodes, 2, 3) ||
			       (r == PLACEMENT_NO_VICTIMS && how.keep_budgets));
			if (r == 0) {
				expect(said.node == nodes[0] || said.node == nodes[1]);
				expect(!how.keep_budgets || !said.overdrawn);
				expect_victims(&request, &said, victims, allowed);
			}
			expect_eq(placement_audit(world.p, &nodes[0]), 0);
		}
	}
}

TEST(shapes_that_are_forgotten_are_learned_again)
{
	world_given();
	for (int i = 0; i < 200; i++) {
		struct placement_request request = world_request(1);
		struct placement_decision decision;

		/* More shapes than the six that are remembered, asked between changes. */
		(void)decide(world.p, &request, &decision);
		if (i % 7 == 0)
			step();
		expect_the_same_from_scratch(&request);
	}
}
