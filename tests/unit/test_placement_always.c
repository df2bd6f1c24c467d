/* SPDX-License-Identifier: Apache-2.0 */
/* The laws of core/placement/placement.h under random histories. */
#include "tests/test.h"
#include "tests/unit/placement_world.h"

static int32_t decide(struct placement *p, const struct placement_request *request,
		      struct placement_decision *decision)
{
	int r = placement_decide(p, request, decision);

	expect(r == 0 || r == PLACEMENT_NOWHERE);
	return r;
}

/* A machine that has only seen the living pods decides the same. foresight's prices are those of a
 * while ago, unless they are found anew: on both. */
static void expect_the_same_from_scratch(const struct placement_request *request)
{
	struct placement *other = world_fresh(world.memory[1], sizeof(world.memory[1]));
	struct placement_decision a, b;
	uint64_t name;
	int r;

	for (int i = 0; i < world.pods; i++)
		expect_eq(placement_adopt(other, &world.pod[i].request, world.pod[i].node,
					  &world.pod[i].assignment, world.pod[i].priority, &name),
			  0);
	placement_reprice(world.p);
	placement_reprice(other);
	r = decide(world.p, request, &a);
	expect_eq(decide(other, request, &b), r);
	if (r)
		return;
	expect_eq(a.node, b.node);
	expect_eq(a.score, b.score);
	expect_eq(a.assignment.size, b.assignment.size);
	expect_eq(memcmp(a.assignment.slot, b.assignment.slot,
			 a.assignment.size * sizeof(a.assignment.slot[0])),
		  0);
}

static void arrive(void)
{
	struct pod *pod = &world.pod[world.pods];
	struct placement_decision decision;

	if (world.pods == PODS)
		return;
	*pod = (struct pod){.request = world_request(4)};
	pod->priority = (int32_t)test_random_below(5);
	if (decide(world.p, &pod->request, &decision) != 0)
		return;
	pod->node = decision.node;
	pod->assignment = decision.assignment;
	pod->until = world_chance(30) ? world.now + test_random_below(20) : PLACEMENT_FOR_GOOD;
	expect(brute_fits(pod->node, &pod->request));
	expect_eq(placement_reserve(world.p, &pod->request, pod->node, &pod->assignment,
				    pod->priority, pod->until, &pod->name),
		  0);
	world.pods++;
}

/* Somebody else put a pod somewhere, whether it fits or not. */
static void turn_up(void)
{
	struct pod *pod = &world.pod[world.pods];
	int r, expected = 0;

	if (world.pods == PODS)
		return;
	*pod = (struct pod){.adopted = true,
			    .request = world_request(3),
			    .node = (uint32_t)test_random_below(NODES),
			    .until = PLACEMENT_FOR_GOOD,
			    .priority = (int32_t)test_random_below(5)};
	for (uint8_t c = 0; c < pod->request.containers; c++) {
		uint8_t first = (uint8_t)test_random_below(GPUS);

		for (int k = 0; k < pod->request.container[c].devices; k++) {
			uint8_t device = (uint8_t)((first + k) % GPUS);

			if (device >= world.node[pod->node].devices ||
			    pod->request.container[c].devices > GPUS)
				expected = -EINVAL;
			pod->assignment.slot[pod->assignment.size++] =
				(struct placement_slot){c, device, (uint8_t)test_random_below(5)};
		}
	}
	r = placement_adopt(world.p, &pod->request, pod->node, &pod->assignment, pod->priority,
			    &pod->name);
	expect_eq(r, expected);
	if (r == 0) {
		world.changed[pod->node] = true;
		world.pods++;
	}
}

static void leave(void)
{
	size_t i = world.pods ? test_random_below((uint64_t)world.pods) : 0;

	if (!world.pods)
		return;
	expect_eq(placement_release(world.p, world.pod[i].name), 0);
	expect_eq(placement_release(world.p, world.pod[i].name), -ENOENT);
	world.pod[i] = world.pod[--world.pods];
}

/* Time passes: those whose time has come go, the earliest first, and nobody else. */
static void pass(void)
{
	uint64_t gone[3], last = 0, next = PLACEMENT_FOR_GOOD;
	size_t size;

	world.now += test_random_below(10);
	do {
		size = placement_expire(world.p, world.now, gone, 3);
		for (size_t i = 0; i < size; i++) {
			int k = 0;

			while (k < world.pods && world.pod[k].name != gone[i])
				k++;
			expect(k < world.pods);
			expect(world.pod[k].until <= world.now && world.pod[k].until >= last);
			last = world.pod[k].until;
			world.pod[k] = world.pod[--world.pods];
		}
	} while (size == 3);
	for (int i = 0; i < world.pods; i++)
		next = world.pod[i].until < next ? world.pod[i].until : next;
	expect(next > world.now);
	expect(placement_next_end(world.p) == next);
	if (world.pods && world_chance(50)) {
		struct pod *pod = &world.pod[test_random_below((uint64_t)world.pods)];

		pod->until = world_chance(50) ? world.now + 1 + test_random_below(30)
					      : PLACEMENT_FOR_GOOD;
		expect_eq(placement_keep(world.p, pod->name, pod->until), 0);
		pod->request.stays = (uint8_t)test_random_below(PLACEMENT_STAYS + 1);
		expect_eq(placement_stays(world.p, pod->name, pod->request.stays), 0);
	}
}

/* A node without pods leaves, and another one comes in its place; in between, it may be looked at
 * what that means for others. */
static void replace_node(uint32_t n)
{
	struct placement_request request = world_request(2);
	struct placement_refusal refusal;
	struct placement_decision decision;
	uint32_t number;

	for (int i = 0; i < world.pods; i++)
		if (world.pod[i].node == n)
			return;
	expect_eq(placement_remove_node(world.p, n), 0);
	if (world_chance(50))
		(void)decide(world.p, &request, &decision);
	world.node[n] = world_node();
	expect_eq(placement_add_node(world.p, &world.node[n], &number), 0);
	expect_eq(number, n);
	if (world_chance(50))
		expect_eq(placement_explain(world.p, &request, n, &refusal), 0);
}

/* A node becomes another one under its pods; or it does not, as GPUs that are in use are not said
 * to be gone. */
static void change_node(uint32_t n)
{
	struct placement_node now = world_node(), told;
	bool in_use = false;
	int r;

	for (int g = now.devices; g < world.node[n].devices; g++)
		in_use |= oracle_load(n, g).tenants > 0;
	if (world_chance(60)) {
		/* Often a little only. */
		int g = (int)test_random_below(GPUS);

		told = world.node[n];
		now.device[g].links = told.device[g].links;
		told.device[g] = now.device[g];
		now = told;
		in_use = false;
	}
	r = placement_update_node(world.p, n, &now);
	expect_eq(r, in_use ? -EBUSY : 0);
	if (r == 0) {
		world.node[n] = now;
		world.changed[n] = true;
	}
	expect_eq(placement_get_node(world.p, n, &told), 0);
	expect_eq(told.devices, world.node[n].devices);
	expect_eq(told.cpu_milli, world.node[n].cpu_milli);
}

/* More may be promised from now on, or less, whatever is promised already. */
static void promise_otherwise(void)
{
	world_factors();
	expect_eq(placement_configure(world.p, &world.config), 0);
	for (int n = 0; n < NODES; n++)
		world.changed[n] = true;
}

static void turn_something(void)
{
	uint32_t n = (uint32_t)test_random_below(NODES);

	if (world_chance(10)) {
		promise_otherwise();
		return;
	}
	if (world_chance(30)) {
		replace_node(n);
		return;
	}
	if (world_chance(40)) {
		change_node(n);
		return;
	}

	if (world_chance(50) || !world.node[n].devices) {
		world.node[n].cordoned = world_chance(20);
		expect_eq(placement_cordon(world.p, n, world.node[n].cordoned), 0);
		return;
	}
	int gpu = (int)test_random_below(world.node[n].devices);

	world.node[n].device[gpu].taints = world_chance(30) ? 1 : 0;
	expect_eq(placement_taint(world.p, n, (uint32_t)gpu, world.node[n].device[gpu].taints), 0);
}

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
	for (unsigned round = test_rounds(150); round > 0; round--) {
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
	for (unsigned round = test_rounds(150); round > 0; round--) {
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
	for (unsigned round = test_rounds(150); round > 0; round--) {
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
	for (unsigned round = test_rounds(60); round > 0; round--) {
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
