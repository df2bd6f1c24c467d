/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that processes leave behind: node/memory/remains.c. */
#include <stdlib.h>

#include "tests/unit/memory_world.h"

static const struct remains *behind(const struct tenant *t, uint32_t i)
{
	return t->device[i].remains;
}

static uint64_t residual(const struct tenant *t, uint32_t i)
{
	return world_sums(t, i).residual;
}

/* In use on the device, before and after the driver has listed the processes. */
static void in_use(uint32_t device, uint64_t before, uint64_t after)
{
	w.used[device][0] = before;
	w.used[device][1] = after;
	w.used_asked[device] = 0;
}

/* The process of the guest has ended, and has left something behind. */
static void leaves(struct guest *g, uint32_t i, uint64_t bytes)
{
	measure_forget(&g->device[i]);
	ledger_leave(d->book.ledger, g->device[i].holder);
	list_remove(&g->link);
	remains_left(&g->tenant->device[i], bytes);
	measure_start(d);
}

TEST(what_a_process_may_leave_behind_is_its_page_s_claim_within_what_it_has)
{
	struct guest *g;

	world_begin(2, 1000 * MIB);
	g = world_guest(world_tenant(900 * MIB, 0, 2));
	world_ask(g, 1, 1, 500 * MIB, false);
	world_allocated(g, 1, 400 * MIB);
	book_refresh_all(d);
	world_page(g)->adrift_bytes[1] = 30 * MIB;
	world_page(g)->outgoing_bytes[1] = 40 * MIB;
	expect_eq(remains_of(&g->device[0]), 0);
	expect_eq(remains_of(&g->device[1]), 70 * MIB);
	world_page(g)->outgoing_bytes[1] = UINT64_MAX - 5 * MIB;
	expect_eq(remains_of(&g->device[1]), 400 * MIB);
	expect_eq(ledger_evict(d->book.ledger, g->device[1].holder, 100 * MIB), 0);
	expect_eq(remains_of(&g->device[1]), 300 * MIB);
	world_end();
}

/* In the first look somebody was about to free something. */
TEST(two_looks_lower_what_was_left_behind_to_the_larger_one)
{
	struct tenant *t;

	world_begin(2, 1000 * MIB);
	t = world_tenant(900 * MIB, 1, 1);
	world_uses(1, 7, 100 * MIB);
	leaves(world_guest(t), 0, 300 * MIB);
	expect_eq(residual(t, 0), 300 * MIB);
	expect_eq(w.behind, 1);
	in_use(1, 250 * MIB, 350 * MIB);
	world_driver_answers();
	expect_eq(residual(t, 0), 300 * MIB);
	expect(world_is_asked());
	in_use(1, 180 * MIB, 150 * MIB);
	world_driver_answers();
	expect_eq(residual(t, 0), 250 * MIB);
	expect(!world_is_asked());
	expect_eq(w.behind, 2);
	expect_eq(w.behind_logged, 1);
	/* One look alone changes nothing. */
	in_use(1, 0, 0);
	world_look();
	world_driver_answers();
	expect_eq(residual(t, 0), 250 * MIB);
	/* It never rises. */
	in_use(1, 900 * MIB, 900 * MIB);
	expect(remains_look(d, 1));
	measure_start(d);
	world_driver_settles();
	expect_eq(residual(t, 0), 250 * MIB);
	expect_eq(w.behind, 2);
	expect_eq(w.behind_logged, 1);
	/* Nor do the looks of another device say anything. */
	in_use(0, 0, 0);
	expect(!remains_look(d, 0));
	world_end();
}

TEST(the_larger_figure_of_one_look_counts)
{
	for (int i = 0; i < 2; i++) {
		struct tenant *t;

		world_begin(1, 1000 * MIB);
		t = world_tenant(900 * MIB, 0, 1);
		in_use(0, i ? 200 * MIB : 150 * MIB, i ? 150 * MIB : 200 * MIB);
		leaves(world_guest(t), 0, 300 * MIB);
		expect_eq(world_driver_settles(), 2);
		expect_eq(residual(t, 0), 200 * MIB);
		world_end();
	}
}

TEST(a_look_that_began_before_the_process_ended_is_none)
{
	struct tenant *t;

	world_begin(1, 1000 * MIB);
	t = world_tenant(900 * MIB, 0, 1);
	world_look();
	world_driver_looks();
	in_use(0, 300 * MIB, 300 * MIB);
	leaves(world_guest(t), 0, 300 * MIB);
	world_driver_returns();
	expect_eq(behind(t, 0)->looks, 0);
	world_driver_answers();
	expect_eq(behind(t, 0)->looks, 1);
	world_driver_answers();
	expect_eq(residual(t, 0), 300 * MIB);
	world_end();
}

TEST(what_an_idle_device_has_in_use_is_left_by_nobody)
{
	struct tenant *t;

	world_begin(1, 1000 * MIB);
	t = world_tenant(900 * MIB, 0, 1);
	in_use(0, 32 * MIB - 1, 32 * MIB - 1);
	leaves(world_guest(t), 0, 300 * MIB);
	expect_eq(world_driver_settles(), 2);
	expect_eq(residual(t, 0), 0);
	expect(list_empty(&d->device[0].remains));
	expect(!behind(t, 0)->holder);
	/* It is there for the next one. */
	in_use(0, 32 * MIB, 32 * MIB);
	leaves(world_guest(t), 0, 300 * MIB);
	world_driver_settles();
	expect_eq(residual(t, 0), 32 * MIB);
	world_end();
}

/* Nothing could lower it again. */
TEST(a_driver_that_never_answers_leaves_nothing)
{
	struct tenant *t;

	world_begin(1, 1000 * MIB);
	t = world_tenant(900 * MIB, 0, 1);
	w.fails[0] = true;
	leaves(world_guest(t), 0, 300 * MIB);
	expect_eq(world_driver_settles(), 2);
	expect_eq(residual(t, 0), 0);
	world_end();
}

TEST(a_driver_without_a_figure_of_what_is_in_use_leaves_nothing)
{
	struct tenant *t;

	world_begin(1, 1000 * MIB);
	t = world_tenant(900 * MIB, 0, 1);
	world_uses(0, 7, 100 * MIB);
	leaves(world_guest(t), 0, 300 * MIB);
	expect_eq(world_driver_settles(), 2);
	expect_eq(residual(t, 0), 0);
	world_end();
}

TEST(a_driver_that_fails_for_a_moment_says_nothing_of_what_was_left_behind)
{
	struct tenant *t;

	world_begin(2, 1000 * MIB);
	t = world_tenant(900 * MIB, 1, 1);
	in_use(1, 100 * MIB, 100 * MIB);
	world_look();
	world_driver_answers();
	w.fails[1] = true;
	leaves(world_guest(t), 0, 300 * MIB);
	expect_eq(world_driver_settles(), 2);
	expect_eq(residual(t, 0), 300 * MIB);
	/* It is looked at again when it matters. */
	w.fails[1] = false;
	in_use(1, 200 * MIB, 200 * MIB);
	expect(remains_look(d, 1));
	measure_start(d);
	world_driver_settles();
	expect_eq(residual(t, 0), 200 * MIB);
	world_end();
}

TEST(a_tenant_is_charged_for_no_more_than_its_limit_ever_was)
{
	struct tenant *t;

	world_begin(1, 1000 * MIB);
	t = world_tenant(400 * MIB, 0, 1);
	leaves(world_guest(t), 0, 300 * MIB);
	leaves(world_guest(t), 0, 300 * MIB);
	expect_eq(residual(t, 0), 400 * MIB);
	remains_left(&t->device[0], 0);
	expect_eq(residual(t, 0), 400 * MIB);
	expect_eq(w.behind, 2);
	remains_left(&t->device[0], 10 * MIB);
	expect_eq(residual(t, 0), 400 * MIB);
	expect_eq(w.behind, 2);
	world_end();
}

/* Its limit was lowered before: its neighbours have to do without all of it. */
TEST(what_was_left_behind_beyond_the_limit_is_nobody_else_s)
{
	struct tenant *t;

	world_begin(1, 1000 * MIB);
	t = world_tenant(900 * MIB, 0, 1);
	ledger_set_limit(d->book.ledger, t->device[0].account, 100 * MIB, 0);
	leaves(world_guest(t), 0, 300 * MIB);
	expect_eq(book_room(d, 0), 700 * MIB);
	world_end();
}

TEST(an_ask_waits_for_the_looks_at_what_was_left_behind)
{
	struct guest *g;
	struct tenant *t;

	world_begin(1, 1000 * MIB);
	t = world_tenant(900 * MIB, 0, 1);
	g = world_guest(t);
	t->device[0].looked_ns = w.now_ns;
	leaves(world_guest(t), 0, 300 * MIB);
	world_ask(g, 0, 1, 700 * MIB, false);
	world_driver_answers();
	expect_said("");
	world_driver_answers();
	expect_said("grant 1 700; ");
	world_end();
}

TEST(an_ask_waits_for_no_look_that_the_driver_is_late_with)
{
	struct guest *g;
	struct tenant *t;

	world_begin(1, 1000 * MIB);
	t = world_tenant(900 * MIB, 0, 1);
	g = world_guest(t);
	t->device[0].looked_ns = w.now_ns;
	leaves(world_guest(t), 0, 300 * MIB);
	world_ask(g, 0, 1, 700 * MIB, false);
	world_pass(WORLD_LATE_MS - 1);
	expect_said("");
	world_pass(1);
	expect_said("refuse 1 1; ");
	/* Once it answers again, it is waited for. */
	in_use(0, 300 * MIB, 300 * MIB);
	world_driver_answers();
	world_ask(g, 0, 2, 700 * MIB, false);
	expect_said("");
	world_driver_settles();
	expect_said("refuse 2 1; ");
	world_end();
}

/* What was reported while it was late is owed still. */
TEST(what_a_tenant_left_behind_settles_nothing_of_its_guests)
{
	struct guest *g;
	struct tenant *t;

	world_begin(1, 1000 * MIB);
	t = world_tenant(900 * MIB, 0, 1);
	g = world_guest(t);
	in_use(0, 300 * MIB, 300 * MIB);
	leaves(world_guest(t), 0, 300 * MIB);
	world_driver_settles();
	world_look();
	world_driver_looks();
	world_pass(WORLD_LATE_MS);
	/* Nor is it looked at for an ask. */
	t->device[0].looked_ns = w.now_ns;
	world_ask(g, 0, 1, 700 * MIB, false);
	expect_said("refuse 1 1; ");
	expect(!behind(t, 0)->in_flux);
	measure_tell(&g->device[0], RESIDUAL_SETTLED, 0);
	world_driver_returns();
	world_ask(g, 0, 2, 100 * MIB, false);
	expect_said("");
	world_driver_settles();
	expect_said("grant 2 100; ");
	world_end();
}

/* What others had open may be closed by now. */
TEST(what_was_left_behind_is_looked_at_again_before_an_ask_is_refused)
{
	struct guest *g;
	struct tenant *t;

	world_begin(2, 1000 * MIB);
	t = world_tenant(900 * MIB, 1, 1);
	g = world_guest(t);
	in_use(1, 300 * MIB, 300 * MIB);
	leaves(world_guest(t), 0, 300 * MIB);
	world_driver_settles();
	expect_eq(residual(t, 0), 300 * MIB);
	t->device[0].looked_ns = w.now_ns;
	d->device[1].outside_ns = w.now_ns;
	world_ask(g, 0, 1, 100 * MIB, false);
	expect_said("grant 1 100; ");
	expect(!world_is_asked());
	world_allocated(g, 0, 100 * MIB);
	in_use(1, 0, 0);
	world_ask(g, 0, 2, 600 * MIB, false);
	expect_said("");
	world_driver_settles();
	expect_said("grant 2 600; ");
	world_end();
}

TEST(what_a_tenant_leaves_behind_is_its_user_s_or_its_outer_tenant_s)
{
	struct user *u = calloc(1, sizeof(*u) + 2 * sizeof(u->account[0]));
	struct remains of_user[2];
	struct tenant *outer, *inner, *other;

	world_begin(2, 1000 * MIB);
	u->remains = of_user;
	u->uid = 5;
	for (uint32_t i = 0; i < 2; i++) {
		u->account[i] = ledger_open(d->book.ledger, i, 700 * MIB, 0);
		remains_begin(&of_user[i], d, i, u->account[i], u->uid);
	}
	outer = world_tenant(900 * MIB, 0, 2);
	inner = world_tenant(900 * MIB, 1, 1);
	inner->outer = outer;
	other = world_tenant(900 * MIB, 1, 1);
	in_use(1, 800 * MIB, 800 * MIB);
	leaves(world_guest(inner), 0, 200 * MIB);
	leaves(world_guest(other), 0, 300 * MIB);
	world_driver_settles();
	remains_end_of(&inner->device[0], u);
	expect_eq(residual(inner, 0), 0);
	expect_eq(residual(outer, 1), 200 * MIB);
	expect_eq(residual(outer, 0), 0);
	remains_end_of(&other->device[0], u);
	expect_eq(residual(other, 0), 0);
	expect_eq(of_user[1].bytes, 300 * MIB);
	expect_eq(of_user[0].bytes, 0);
	/* It is looked at: of a user, too. */
	expect(world_is_asked() && of_user[1].in_flux);
	in_use(1, 0, 0);
	world_driver_settles();
	expect(!of_user[1].in_flux && !of_user[1].holder);
	expect_eq(of_user[1].bytes, 0);
	world_end();
	free(u);
}

TEST(a_tenant_that_ends_is_waited_for_by_nobody)
{
	struct tenant *outer, *t;

	world_begin(1, 1000 * MIB);
	outer = world_tenant(900 * MIB, 0, 1);
	t = world_tenant(900 * MIB, 0, 1);
	t->outer = outer;
	leaves(world_guest(t), 0, 300 * MIB);
	expect_eq(t->device[0].in_flux, 1);
	/* At our end nobody inherits. */
	d->stopping = true;
	remains_end_of(&t->device[0], NULL);
	expect_eq(t->device[0].in_flux, 0);
	expect(!outer->device[0].remains);
	world_end();
}

/* Within an account of the user's, as where the policy has a part for him. */
TEST(a_user_s_tenants_wait_for_the_looks_at_what_he_has_left)
{
	struct remains of_user;
	struct ledger_account *account;
	struct user *u = calloc(1, sizeof(*u));
	struct tenant *gone, *t;
	struct guest *g;

	world_begin(1, 1000 * MIB);
	account = ledger_open(d->book.ledger, 0, 900 * MIB, 0);
	u->remains = &of_user;
	remains_begin(&of_user, d, 0, account, 5);
	gone = world_tenant(900 * MIB, 0, 1);
	ledger_put_within(gone->device[0].account, account);
	t = world_tenant(900 * MIB, 0, 1);
	ledger_put_within(t->device[0].account, account);
	g = world_guest(t);
	in_use(0, 400 * MIB, 400 * MIB);
	leaves(world_guest(gone), 0, 400 * MIB);
	world_driver_settles();
	remains_end_of(&gone->device[0], u);
	in_use(0, 0, 0);
	t->device[0].looked_ns = w.now_ns;
	world_ask(g, 0, 1, 800 * MIB, false);
	world_driver_answers();
	expect_said("");
	world_driver_settles();
	expect_said("grant 1 800; ");
	best_effort(ledger_return(d->book.ledger, g->device[0].holder, 800 * MIB, 0));
	/* But not for a driver that is late. */
	leaves(world_guest(gone), 0, 400 * MIB);
	in_use(0, 400 * MIB, 400 * MIB);
	world_driver_settles();
	remains_end_of(&gone->device[0], u);
	world_ask(g, 0, 2, 800 * MIB, false);
	expect_said("");
	world_pass(WORLD_LATE_MS);
	expect_said("refuse 2 4; ");
	world_end();
	free(u);
}
