/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Law 13 of core/turns/turns.h: tenants whose work waits for other tenants' work. A device of one
 * processor, which its contexts have in slices of 2 ms, and programs that launch kernels on it.
 */
#include "core/turns/turns.h"

#include "base/least.h"
#include "tests/test.h"

#define US 1000ull
#define MS 1000000ull

enum { PROGRAMS = 6, STEP_NS = 50 * 1000, SLICE_STEPS = 40 };

enum kind {
	GREEDY, /* kernels of `kernel_ns`, always several in flight */
	LONG,	/* one at a time, of up to that */
	EVEN,	/* one at a time */
	MEETS,	/* one that lasts until all programs of that kind have begun theirs; then a pause */
	HOLDS,	/* what it has launched never ends, and takes nothing of the device */
};

struct program {
	enum kind kind;
	uint32_t weight, cap_milli;
	uint64_t kernel_ns;
	unsigned ahead; /* launches that may be in flight */

	struct turns_tenant tenant;
	struct turns_seat seat, second;
	struct turns_seat *at; /* where it launches */
	bool open, drained, stands, busy;
	unsigned queued;
	uint64_t begun, done; /* kernels */
	uint64_t left_ns;     /* of the one that has begun */
	uint64_t free_at;     /* its next launch */
	uint64_t had_ns;
	uint64_t last_end_ns, gap_ns;
};

static struct {
	struct turns turns;
	struct turns_device device, second;
	struct program program[PROGRAMS];
	unsigned programs, running, slice;
	bool bare;
	uint64_t now;
	unsigned found, beside, hung;
} m;

static void given(bool bare)
{
	memset(&m, 0, sizeof(m));
	m.bare = bare;
	m.now = 1000 * MS;
}

static struct program *add(enum kind kind, uint32_t weight, uint64_t kernel_ns)
{
	struct program *p = &m.program[m.programs++];

	*p = (struct program){
		.kind = kind, .weight = weight, .cap_milli = 1000, .kernel_ns = kernel_ns};
	p->ahead = kind == GREEDY ? 4 : 1;
	return p;
}

/* ---- programs -------------------------------------------------------------------------------- */

static uint64_t length_of(const struct program *p)
{
	if (p->kind == LONG)
		return 1 + test_random_below(p->kernel_ns);
	return p->kernel_ns;
}

static void launch(struct program *p)
{
	if (p->queued == p->ahead || p->free_at > m.now)
		return;
	if (!p->open) {
		if (!p->stands)
			turns_wants(p->at, m.now);
		p->stands = true;
		return;
	}
	p->stands = false;
	p->queued++;
	if (!p->busy && !m.bare)
		turns_wants(p->at, m.now);
	p->busy = true;
	if (p->kind == MEETS && p->ahead == 1)
		p->free_at = UINT64_MAX; /* until its kernel has ended */
}

static bool is_met(const struct program *p)
{
	for (unsigned i = 0; i < m.programs; i++) {
		if (m.program[i].kind == MEETS && m.program[i].begun < p->begun)
			return false;
	}
	return true;
}

static void end_kernel(struct program *p)
{
	p->queued--;
	p->done++;
	p->gap_ns = most(p->gap_ns, m.now - p->last_end_ns);
	p->last_end_ns = m.now;
	p->free_at = p->kind == MEETS ? m.now + test_random_below(5 * MS) : m.now;
}

static void compute(struct program *p)
{
	p->had_ns += STEP_NS;
	if (p->begun == p->done) {
		p->begun++;
		p->left_ns = length_of(p);
	}
	p->left_ns -= least(p->left_ns, STEP_NS);
	if (!p->left_ns && (p->kind != MEETS || is_met(p)))
		end_kernel(p);
}

static bool uses_the_device(const struct program *p)
{
	return p->queued && p->kind != HOLDS;
}

static void device(void)
{
	for (unsigned i = 0; i < m.programs; i++) {
		if (m.slice && uses_the_device(&m.program[m.running]))
			break;
		m.running = (m.running + 1) % m.programs;
		m.slice = SLICE_STEPS;
	}
	if (!uses_the_device(&m.program[m.running]))
		return;
	m.slice--;
	compute(&m.program[m.running]);
}

static void say(struct program *p)
{
	if (p->queued || m.bare)
		return;
	if (!p->open && !p->drained) {
		p->drained = true;
		p->busy = false;
		turns_drained(p->at, p->stands, m.now);
	} else if (p->open && p->busy && p->free_at > m.now) {
		p->busy = false;
		turns_idle(p->at, m.now);
	}
}

/* ---- meted ----------------------------------------------------------------------------------- */

static void act(const struct turns_action *action)
{
	struct program *p = action->seat->owner;

	if (action->seat != p->at)
		return;
	switch (action->verb) {
	case TURNS_OPEN:
		p->open = true;
		p->drained = false;
		if (!p->stands && !p->queued)
			turns_idle(p->at, m.now);
		break;
	case TURNS_CLOSE:
		p->open = false;
		break;
	case TURNS_LATE:
		turns_late(p->at, p->stands, m.now);
		break;
	case TURNS_AWAITS:
		m.found++;
		break;
	case TURNS_BESIDE:
		m.beside++;
		break;
	case TURNS_REPORT:
		m.hung++;
		break;
	case TURNS_COUPLED:
	case TURNS_UNCOUPLED:
	case TURNS_SUSPEND:
	case TURNS_KILL:
		break;
	}
}

static void pump(void)
{
	struct turns_action action;

	turns_tick(&m.turns, m.now);
	while (turns_next(&m.turns, &action))
		act(&action);
}

static void begin(void)
{
	turns_init(&m.turns, &turns_usual);
	turns_device_init(&m.turns, &m.device, 0);
	turns_device_init(&m.turns, &m.second, 1);
	for (unsigned i = 0; i < m.programs; i++) {
		struct program *p = &m.program[i];
		struct turns_share share = {.weight = p->weight,
					    .weighted = true,
					    .cap_milli = p->cap_milli,
					    .class = SHARE_STANDARD};

		p->at = &p->seat;
		p->open = m.bare;
		p->drained = true;
		p->last_end_ns = m.now;
		if (m.bare)
			continue;
		turns_tenant_init(&m.turns, &p->tenant, &share);
		turns_join(&p->seat, &p->tenant, &m.device, p, false, m.now);
		pump();
	}
}

static void run(uint64_t length_ns)
{
	for (uint64_t end = m.now + length_ns; m.now < end; m.now += STEP_NS) {
		for (unsigned i = 0; i < m.programs; i++)
			launch(&m.program[i]);
		pump();
		device();
		for (unsigned i = 0; i < m.programs; i++) {
			say(&m.program[i]);
			pump();
		}
	}
}

/* ---- what is seen ---------------------------------------------------------------------------- */

/* In hundredths of the time given. */
static double had(const struct program *p, uint64_t of_ns)
{
	return 100.0 * (double)p->had_ns / (double)of_ns;
}

static void forget_what_they_had(void)
{
	for (unsigned i = 0; i < m.programs; i++)
		m.program[i].had_ns = m.program[i].gap_ns = 0;
}

/* Rounds of `members` programs within the time given. */
static uint64_t rounds(bool bare, unsigned members, unsigned ahead, uint64_t length_ns)
{
	struct program *neighbours[2];

	given(bare);
	for (unsigned i = 0; i < members; i++)
		add(MEETS, 100, 100 * US)->ahead = ahead;
	for (unsigned i = 0; i < 2 && !bare; i++)
		neighbours[i] = add(GREEDY, 100, 1 * MS);
	begin();
	run(length_ns);
	for (unsigned i = 0; i < 2 && !bare; i++)
		expect(neighbours[i]->gap_ns <= 500 * MS);
	return m.program[0].done;
}

/* `part_milli`: of its part, which is one of as many as there are tenants. */
static void expect_progress(unsigned members, unsigned ahead, uint64_t part_milli)
{
	uint64_t bare = rounds(true, members, ahead, 5000 * MS);
	uint64_t shared = rounds(false, members, ahead, 5000 * MS);

	expect(shared * (members + 2) * 1000 >= bare * part_milli);
	expect_eq(m.hung, 0);
}

TEST(two_that_wait_for_each_other_get_on)
{
	expect_progress(2, 1, 1000);
}

TEST(three_that_wait_for_each_other_get_on)
{
	expect_progress(3, 1, 500);
}

TEST(two_that_wait_for_each_other_and_launch_ahead_get_on)
{
	expect_progress(2, 4, 500);
}

TEST(those_who_wait_for_each_other_have_their_parts_in_sum)
{
	struct program *a, *b, *n;
	uint64_t charged = 0;

	given(false);
	a = add(MEETS, 10, 100 * US);
	b = add(MEETS, 100, 100 * US);
	n = add(GREEDY, 100, 1 * MS);
	add(GREEDY, 100, 1 * MS);
	begin();
	run(2000 * MS);
	forget_what_they_had();
	run(10000 * MS);
	expect(had(a, 10000 * MS) + had(b, 10000 * MS) <= 11000 / 310.0 + 5);
	expect(had(n, 10000 * MS) >= 10000 / 310.0 - 5);
	/* Their time together is charged once. */
	for (unsigned i = 0; i < m.programs; i++) {
		turns_settle(&m.program[i].seat, m.now);
		charged += m.program[i].seat.charged_ns;
	}
	expect(charged <= 12000 * MS + 200 * MS);
}

/* One is awaited by a tenant that may have more than it. */
TEST(who_comes_along_keeps_its_cap)
{
	struct program *a;

	given(false);
	a = add(MEETS, 100, 100 * US);
	a->cap_milli = 50;
	add(MEETS, 1000, 100 * US);
	add(GREEDY, 100, 1 * MS);
	begin();
	run(2000 * MS);
	forget_what_they_had();
	run(10000 * MS);
	expect(had(a, 10000 * MS) <= 5 + 5);
}

TEST(those_who_wait_for_each_other_keep_their_caps)
{
	struct program *a, *b;

	given(false);
	a = add(MEETS, 100, 100 * US);
	b = add(MEETS, 100, 100 * US);
	a->cap_milli = b->cap_milli = 100;
	add(GREEDY, 100, 1 * MS);
	begin();
	run(2000 * MS);
	forget_what_they_had();
	run(10000 * MS);
	expect(had(a, 10000 * MS) <= 10 + 5 && had(b, 10000 * MS) <= 10 + 5);
}

/* The pair has threads that launch, and what is in flight never ends. */
TEST(a_group_that_never_drains_takes_nothing_of_its_neighbours)
{
	struct program *n;

	given(false);
	add(HOLDS, 10, 0)->ahead = 1000000;
	add(HOLDS, 10, 0);
	n = add(GREEDY, 100, 1 * MS);
	add(GREEDY, 100, 1 * MS);
	begin();
	run(5000 * MS);
	forget_what_they_had();
	run(20000 * MS);
	expect(had(n, 20000 * MS) >= 10000 / 220.0 - 5);
	expect(n->gap_ns <= 1200 * MS);
}

/* Somebody is let in while its kernels end, by chance. */
TEST(who_has_long_kernels_has_its_part)
{
	struct program *l, *n;

	given(false);
	l = add(LONG, 100, 400 * MS);
	n = add(GREEDY, 100, 1 * MS);
	add(GREEDY, 100, 1 * MS);
	begin();
	run(5000 * MS);
	forget_what_they_had();
	run(60000 * MS);
	expect(had(l, 60000 * MS) <= 100 / 3.0 + 5 && had(l, 60000 * MS) >= 100 / 3.0 - 5);
	expect(had(n, 60000 * MS) >= 100 / 3.0 - 5);
	expect_eq(m.hung, 0);
}

TEST(who_has_kernels_of_one_length_is_not_taken_for_one_who_waits)
{
	for (uint64_t length = 40 * MS; length <= 400 * MS; length += 30 * MS) {
		given(false);
		add(EVEN, 100, length);
		add(GREEDY, 100, 1 * MS);
		add(GREEDY, 100, 1 * MS);
		begin();
		run(10000 * MS);
		expect(!m.program[0].tenant.awaits[0]);
	}
}

/* One has a hundredth of the weight, and kernels that take long. */
TEST(who_is_awaited_takes_no_time_of_those_who_do_not_wait)
{
	struct program *l;

	given(false);
	l = add(LONG, 100, 300 * MS);
	add(GREEDY, 1, 1 * MS);
	begin();
	run(60000 * MS);
	expect(had(l, 60000 * MS) >= 10000 / 101.0 - 5);
}

/* Two that wait for each other, beside a greedy one, have been found. */
static void find_pair(struct program **ret_a, struct program **ret_b)
{
	given(false);
	*ret_a = add(MEETS, 100, 100 * US);
	*ret_b = add(MEETS, 100, 100 * US);
	add(GREEDY, 100, 1 * MS);
	begin();
	run(3000 * MS);
	expect((*ret_a)->tenant.awaits[0] == &(*ret_b)->tenant);
	expect((*ret_b)->tenant.awaits[0] == &(*ret_a)->tenant);
}

TEST(who_waits_for_nobody_any_more_has_its_turns_alone)
{
	struct program *a, *b;

	find_pair(&a, &b);
	a->kind = b->kind = GREEDY;
	a->ahead = b->ahead = 4;
	run(100000 * MS);
	expect(!a->tenant.awaits[0] && !b->tenant.awaits[0]);
}

static void set_live(struct program *p, bool weighted, uint32_t cap_milli)
{
	struct turns_share share = {.weight = p->weight,
				    .weighted = weighted,
				    .cap_milli = cap_milli,
				    .class = SHARE_STANDARD};

	turns_set(&p->tenant, &share, m.now);
	pump();
}

static void use_nothing(struct program *p)
{
	p->queued = 0;
	p->done = p->begun;
	p->busy = false;
	p->free_at = UINT64_MAX;
}

static void join_second(struct program *p, bool is_open)
{
	turns_join(&p->second, &p->tenant, &m.second, p, is_open, m.now);
	p->at = &p->second;
	p->open = is_open;
	p->drained = !is_open;
	p->free_at = m.now;
	pump();
}

/* Who was awaited there is on no governed device while the one that awaited it is on another. */
TEST(nobody_is_awaited_on_an_open_device)
{
	struct program *a, *b, *n;

	given(false);
	a = add(MEETS, 100, 100 * US);
	b = add(MEETS, 100, 100 * US);
	n = add(GREEDY, 100, 1 * MS);
	begin();
	run(1000 * MS);
	expect(a->tenant.awaits[0] == &b->tenant && b->tenant.awaits[0] == &a->tenant);
	set_live(a, false, 1000);
	set_live(b, false, 1000);
	expect(m.device.governed);
	use_nothing(n);
	turns_leave(&n->seat, m.now);
	pump();
	expect(!m.device.governed);
	expect(!a->tenant.awaits[0] && !b->tenant.awaits[0]);
	use_nothing(b);
	use_nothing(a);
	a->kind = LONG;
	a->kernel_ns = 150 * MS;
	join_second(a, true);
	n = add(GREEDY, 100, 1 * MS);
	turns_tenant_init(&m.turns, &n->tenant,
			  &(struct turns_share){.weight = 100,
						.weighted = true,
						.cap_milli = 1000,
						.class = SHARE_STANDARD});
	join_second(n, false);
	expect(m.second.governed);
	run(100000 * MS);
	expect(a->done && n->done);
}

/* Their drains take longer than a look at one who waits. */
TEST(who_waits_for_nobody_any_more_may_have_long_kernels)
{
	struct program *a, *b;

	find_pair(&a, &b);
	a->kind = b->kind = EVEN;
	a->kernel_ns = b->kernel_ns = 20 * MS;
	run(100000 * MS);
	expect(!a->tenant.awaits[0] && !b->tenant.awaits[0]);
}

/* It has lowered its own cap, and so would hold up who awaits it. */
TEST(who_is_awaited_does_not_starve_others_by_its_cap)
{
	struct program *a, *b;

	given(false);
	a = add(MEETS, 100, 100 * US);
	b = add(MEETS, 100, 100 * US);
	add(GREEDY, 100, 1 * MS);
	begin();
	run(3000 * MS);
	expect(a->tenant.awaits[0] == &b->tenant);
	set_live(b, true, 10);
	a->kind = b->kind = GREEDY;
	a->ahead = b->ahead = 4;
	forget_what_they_had();
	run(1000 * MS);
	expect(had(a, 1000 * MS) >= 100 / 3.0);
}

/* In a turn, and not for a moment in which another one is to drain. */
static bool comes_along(const struct program *p)
{
	return p->seat.leader && p->seat.gate == TURNS_OPENED &&
	       p->seat.leader->tenant->state == TURNS_RUNNING;
}

/* The turn in which it came along would never end: nobody stands in line. */
TEST(who_is_barred_in_a_turn_without_end_is_waited_for_no_longer_than_others)
{
	struct program *a, *b;

	given(false);
	add(MEETS, 100, 100 * US);
	add(MEETS, 100, 100 * US);
	begin();
	run(3000 * MS);
	a = &m.program[0];
	b = &m.program[1];
	for (unsigned ms = 0; ms < 1000 && !comes_along(a) && !comes_along(b); ms++)
		run(1 * MS);
	if (comes_along(a)) {
		a = &m.program[1];
		b = &m.program[0];
	}
	expect(comes_along(b) && a->tenant.state == TURNS_RUNNING);
	a->kind = GREEDY;
	b->kind = HOLDS;
	b->queued = 1;
	turns_wants(&b->seat, m.now);
	turns_bar(&b->seat, true, m.now);
	run(5000 * MS);
	expect(b->seat.gate != TURNS_CLOSING);
}
