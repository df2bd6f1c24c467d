/* SPDX-License-Identifier: Apache-2.0 */
/* What the books show and when (node/memory/book.c), and what a context is expected to take
 * (prices.c). */
#include "tests/unit/memory_world.h"

enum { AT_ONCE = 8, LATER_MS = 10, GLANCE_MS = 10, REFRESH_MS = 20, RECALL_MS = 1000 };

TEST(a_tenant_sees_its_figures_at_once_and_a_few_others_the_room)
{
	struct guest *g;

	world_begin(2, 1000 * MIB);
	g = world_guest(world_tenant(900 * MIB, 1, 1));
	book_pump(d);
	w.shown[1] = w.shown_room[1] = w.lost_looks = w.moves_looked = 0;
	world_ask(g, 0, 1, 100 * MIB, false);
	expect_eq(w.shown_at_answer, 1);
	expect_eq(w.lost_looks, 1);
	expect_eq(w.moves_looked, 1);
	expect_eq(w.shown[1], 1);
	expect_eq(w.shown_room[1], 1);
	expect_eq(w.shown_credit, 100 * MIB);
	expect(!world_is_armed(&d->book.show_timer));
	book_pump(d);
	expect_eq(w.shown[1], 1);
	expect_eq(w.shown_room[1], 1);
	/* Another tenant is a rival. */
	world_tenant(900 * MIB, 1, 1);
	book_pump(d);
	expect_eq(w.shown_room[1], 3);
	expect_eq(w.shown_room[0] + w.shown[0], 0);
	world_end();
}

TEST(many_tenants_see_the_room_later_all_together)
{
	struct guest *g;

	world_begin(1, 1000 * MIB);
	g = world_guest(world_tenant(900 * MIB, 0, 1));
	for (int i = 0; i < AT_ONCE - 1; i++)
		world_tenant(900 * MIB, 0, 1);
	book_pump(d);
	expect_eq(w.shown_room[0], AT_ONCE);
	world_tenant(900 * MIB, 0, 1);
	book_pump(d);
	expect_eq(w.shown_room[0], AT_ONCE);
	expect_eq(world_due_ms(&d->book.show_timer), LATER_MS);
	world_pass(LATER_MS / 2);
	world_ask(g, 0, 1, 100 * MIB, false);
	expect_eq(world_due_ms(&d->book.show_timer), LATER_MS / 2);
	world_pass(LATER_MS / 2);
	expect_eq(w.shown_room[0], 2 * AT_ONCE + 1);
	expect(!d->device[0].unshown);
	/* The more there are the later. */
	g->tenant->device[0].looked_ns = w.now_ns;
	d->tenants.count = 500;
	world_ask(g, 0, 2, 100 * MIB, false);
	expect_eq(world_due_ms(&d->book.show_timer), 50);
	world_end();
}

/* Granted, and not allocated: what its page says of it is read before anybody is refused. */
TEST(an_ask_is_not_refused_for_memory_that_was_freed)
{
	struct guest *g, *sibling, *other;

	world_begin(1, 1000 * MIB);
	g = world_guest(world_tenant(900 * MIB, 0, 1));
	sibling = world_guest(g->tenant);
	other = world_guest(world_tenant(900 * MIB, 0, 1));
	world_ask(other, 0, 9, 50 * MIB, false);
	expect_said("grant 9 50; ");
	world_ask(sibling, 0, 1, 800 * MIB, false);
	world_allocated(sibling, 0, 800 * MIB);
	book_refresh_all(d);
	expect_eq(world_sums(g->tenant, 0).allocated, 800 * MIB);
	g->tenant->device[0].looked_ns = w.now_ns;
	world_allocated(sibling, 0, 100 * MIB);
	world_allocated(other, 0, 50 * MIB);
	world_ask(g, 0, 2, 500 * MIB, false);
	expect_said("grant 1 800; recall 400; ");
	/* Of its tenant alone. */
	expect_eq(world_sums(other->tenant, 0).allocated, 0);
	expect(d->book.due_ns > w.now_ns && d->book.due_ns <= w.now_ns + RECALL_MS * MS);
	/* It does not answer: the ask waits until the recall is over. */
	world_pass(RECALL_MS - 1);
	expect_said("");
	world_pass(1);
	expect_said("refuse 2 1; ");
	expect(!d->book.due_ns && !world_is_armed(&d->book.timer));
	world_end();
}

TEST(a_recall_that_is_answered_needs_no_timer)
{
	struct guest *g, *sibling;

	world_begin(1, 1000 * MIB);
	g = world_guest(world_tenant(900 * MIB, 0, 1));
	sibling = world_guest(g->tenant);
	world_ask(sibling, 0, 1, 800 * MIB, false);
	g->tenant->device[0].looked_ns = w.now_ns;
	world_ask(g, 0, 2, 500 * MIB, false);
	expect_said("grant 1 800; recall 400; ");
	expect(world_is_armed(&d->book.timer));
	best_effort(ledger_return(d->book.ledger, sibling->device[0].holder, 400 * MIB, 1));
	book_pump(d);
	expect_said("grant 2 500; ");
	expect(!world_is_armed(&d->book.timer) && !d->book.due_ns);
	world_end();
}

TEST(memory_in_the_store_is_allocated_too)
{
	struct guest *g;

	world_begin(2, 1000 * MIB);
	g = world_guest(world_tenant(900 * MIB, 0, 2));
	world_ask(g, 1, 1, 500 * MIB, false);
	world_allocated(g, 1, 300 * MIB);
	world_page(g)->movable[1].out_bytes = 100 * MIB;
	book_refresh_guest(g);
	expect_eq(world_sums(g->tenant, 1).allocated, 400 * MIB);
	expect_eq(book_credit(d, 1), 100 * MIB);
	world_page(g)->movable[1].out_bytes = UINT64_MAX - MIB;
	book_refresh_guest(g);
	expect_eq(world_sums(g->tenant, 1).allocated, 500 * MIB);
	/* Of one that has stated nothing yet the page is not read. */
	world_page(g)->movable[1].out_bytes = 0;
	g->stated = false;
	book_refresh_guest(g);
	book_refresh_all(d);
	expect_eq(world_sums(g->tenant, 1).allocated, 500 * MIB);
	world_end();
}

TEST(a_peak_between_two_reports_is_not_missed_and_counts_once)
{
	struct guest *g;

	world_begin(1, 1000 * MIB);
	g = world_guest(world_tenant(900 * MIB, 0, 1));
	world_ask(g, 0, 1, 500 * MIB, false);
	world_allocated(g, 0, 300 * MIB);
	world_allocated(g, 0, 100 * MIB);
	book_refresh_guest(g);
	expect_eq(world_sums(g->tenant, 0).peak, 300 * MIB);
	expect_eq(world_sums(g->tenant, 0).allocated, 100 * MIB);
	expect_eq(g->device[0].seen_peak, 300 * MIB);
	/* An old peak says nothing of what its sibling has now. */
	world_ask(world_guest(g->tenant), 0, 2, 200 * MIB, false);
	world_driver_settles();
	world_allocated(list_entry(g->tenant->guests.prev, struct guest, link), 0, 200 * MIB);
	book_refresh_all(d);
	book_refresh_all(d);
	expect_eq(world_sums(g->tenant, 0).peak, 300 * MIB);
	world_end();
}

TEST(a_glance_reads_the_reports_of_one_device_at_a_limited_rate)
{
	struct guest *g;

	world_begin(2, 1000 * MIB);
	g = world_guest(world_tenant(900 * MIB, 0, 2));
	world_ask(g, 0, 1, 500 * MIB, false);
	world_ask(g, 1, 2, 500 * MIB, false);
	world_allocated(g, 0, 10 * MIB);
	world_allocated(g, 1, 10 * MIB);
	book_glance(d, 1);
	expect_eq(world_sums(g->tenant, 0).allocated, 0);
	expect_eq(world_sums(g->tenant, 1).allocated, 10 * MIB);
	world_pass(GLANCE_MS - 1);
	world_allocated(g, 1, 20 * MIB);
	book_glance(d, 1);
	expect_eq(world_sums(g->tenant, 1).allocated, 10 * MIB);
	world_pass(1);
	book_glance(d, 1);
	expect_eq(world_sums(g->tenant, 1).allocated, 20 * MIB);
	world_end();
}

TEST(what_processes_held_that_are_expected_is_promised_to_nobody)
{
	struct guest *g, *other;

	world_begin(1, 1000 * MIB);
	g = world_guest(world_tenant(900 * MIB, 0, 1));
	other = world_guest(world_tenant(900 * MIB, 0, 1));
	g->tenant->expected_count = 1;
	g->tenant->device[0].most_bytes = 700 * MIB;
	book_hold(g->tenant);
	world_ask(g, 0, 1, MIB, false);
	world_ask(other, 0, 2, 400 * MIB, false);
	world_driver_settles();
	expect_said("");
	world_ask(other, 0, 3, 300 * MIB, false);
	expect_said("grant 3 300; ");
	book_release(g->tenant);
	book_pump(d);
	expect_said("");
	g->tenant->expected_count = 0;
	book_release(g->tenant);
	book_pump(d);
	expect_said("grant 1 1; grant 2 400; ");
	world_end();
}

/* MIG has made it. */
TEST(a_device_that_comes_later_has_its_room_without_its_reserve)
{
	world_begin(1, 1000 * MIB);
	d->devices = 2;
	d->device[1].reserve_bytes = 100 * MIB;
	book_device(d, 1);
	expect_eq(book_room(d, 1), 900 * MIB);
	expect_eq(book_room(d, 0), 1000 * MIB);
	world_end();
}

/* ---- prices ---------------------------------------------------------------------------------- */

TEST(a_context_has_a_price_of_its_model_and_driver)
{
	struct guest *g[4], *elsewhere;

	world_begin(2, 1000 * MIB);
	elsewhere = world_guest(world_tenant(900 * MIB, 1, 1));
	for (int i = 0; i < 4; i++)
		g[i] = world_guest(world_tenant(900 * MIB, 0, 2));
	expect_eq(prices_context(d, &g[0]->device[0]), 64 * MIB);
	prices_learn(d, &g[0]->device[1], 500 * MIB);
	expect_eq(prices_context(d, &g[0]->device[1]), 500 * MIB);
	expect_eq(prices_context(d, &g[2]->device[1]), 64 * MIB);
	prices_learn(d, &g[1]->device[1], 300 * MIB);
	expect_eq(prices_context(d, &g[2]->device[1]), 300 * MIB);
	expect_eq(prices_context(d, &g[2]->device[0]), 64 * MIB);
	expect_eq(prices_least(d, 1), 300 * MIB);
	expect_eq(prices_context(d, &elsewhere->device[0]), 300 * MIB);
	expect_eq(prices_least(d, 0), 64 * MIB);
	/* Another driver has another one, and the least is the least of them. */
	g[2]->driver_version = g[3]->driver_version = 13000;
	expect_eq(prices_context(d, &g[2]->device[1]), 64 * MIB);
	prices_learn(d, &g[2]->device[1], 200 * MIB);
	prices_learn(d, &g[3]->device[1], 250 * MIB);
	expect_eq(prices_least(d, 1), 200 * MIB);
	expect_eq(prices_context(d, &g[3]->device[1]), 250 * MIB);
	expect_eq(prices_context(d, &g[0]->device[1]), 500 * MIB);
	world_end();
}

TEST(the_oldest_price_makes_room_for_a_new_driver_s)
{
	struct guest *g, *other;

	world_begin(1, 1000 * MIB);
	g = world_guest(world_tenant(900 * MIB, 0, 1));
	other = world_guest(world_tenant(900 * MIB, 0, 1));
	other->driver_version = 1;
	prices_learn(d, &other->device[0], 900 * MIB);
	for (uint32_t i = 0; i <= DAEMON_PRICES; i++) {
		g->driver_version = 1 + i;
		prices_learn(d, &g->device[0], (100 + i) * MIB);
		prices_learn(d, &g->device[0], (200 + i) * MIB);
	}
	expect_eq(prices_context(d, &g->device[0]), (200 + DAEMON_PRICES) * MIB);
	other->driver_version = g->driver_version;
	expect_eq(prices_context(d, &other->device[0]), 64 * MIB);
	g->driver_version = 1;
	expect_eq(prices_context(d, &g->device[0]), 64 * MIB);
	g->driver_version = 2;
	expect_eq(prices_context(d, &g->device[0]), 201 * MIB);
	world_end();
}
