/* SPDX-License-Identifier: Apache-2.0 */
/* Measurements of guests, whose pages change meanwhile: node/memory/measure.c. */
#include "tests/unit/memory_world.h"

TEST(a_report_is_charged_once_the_driver_has_answered)
{
	struct guest *g;

	world_begin(1, 4096 * MIB);
	g = world_guest(world_tenant(1000 * MIB, 0, 1));
	world_uses(0, (uint32_t)g->pid, 60 * MIB);
	world_uses(0, 9999, 77 * MIB);
	world_reports(g, 0);
	expect(world_is_asked() && measure_under_way(d));
	expect_eq(world_residual(g, 0), 0);
	world_driver_answers();
	expect_eq(world_residual(g, 0), 60 * MIB);
	expect(!world_is_asked() && !measure_under_way(d));
	expect_eq(w.admin_measured, 1);
	expect_eq(w.drifts, 1);
	expect_eq(w.samples, 1);
	expect(w.shown[0] > 0);
	world_end();
}

TEST(a_process_with_several_rows_has_all_of_them)
{
	struct guest *g;

	world_begin(1, 4096 * MIB);
	g = world_guest(world_tenant(1000 * MIB, 0, 1));
	w.row[0] = (struct world_row){.pid = 1, .bytes = 500 * MIB};
	w.row[1] = (struct world_row){.pid = (uint32_t)g->pid, .bytes = 10 * MIB};
	w.row[2] = (struct world_row){.pid = 5000, .bytes = 700 * MIB};
	w.row[3] = (struct world_row){.pid = (uint32_t)g->pid, .bytes = 20 * MIB};
	w.rows = 4;
	world_reports(g, 0);
	world_driver_answers();
	expect_eq(world_residual(g, 0), 30 * MIB);
	world_end();
}

/* Its second device is the daemon's third one. */
TEST(a_device_is_measured_that_was_reported_and_no_other)
{
	struct guest *g, *other;

	world_begin(3, 4096 * MIB);
	g = world_guest(world_tenant(1000 * MIB, 1, 2));
	other = world_guest(world_tenant(1000 * MIB, 0, 3));
	world_uses(1, (uint32_t)g->pid, 11 * MIB);
	world_uses(2, (uint32_t)g->pid, 22 * MIB);
	world_uses(2, (uint32_t)other->pid, 33 * MIB);
	world_reports(g, 1);
	expect_eq(g->tenant->device[0].owed, 0);
	expect_eq(g->tenant->device[1].owed, 1);
	world_driver_answers();
	expect_eq(w.asked[0] + w.asked[1], 0);
	expect_eq(w.used_asked[0] + w.used_asked[1], 0);
	expect_eq(w.asked[2], 1);
	expect_eq(world_residual(g, 1), 22 * MIB);
	expect_eq(world_residual(g, 0) + world_residual(other, 2), 0);
	world_reports(g, 0);
	world_driver_answers();
	expect_eq(world_residual(g, 0), 11 * MIB);
	expect_eq(w.asked[2], 1);
	world_end();
}

TEST(memory_that_was_allocated_and_is_stocked_is_not_charged_again)
{
	struct guest *g;

	world_begin(1, 4096 * MIB);
	g = world_guest(world_tenant(1000 * MIB, 0, 1));
	world_ask(g, 0, 1, 300 * MIB, false);
	expect_said("grant 1 300; ");
	world_allocated(g, 0, 100 * MIB);
	world_page(g)->stocked_bytes[0] = 50 * MIB;
	world_uses(0, (uint32_t)g->pid, 190 * MIB);
	world_reports(g, 0);
	world_driver_answers();
	expect_eq(world_residual(g, 0), 40 * MIB);
	expect_eq(world_sums(g->tenant, 0).allocated, 100 * MIB);
	/* Neither is what it claims beyond all bounds believed. */
	world_page(g)->stocked_bytes[0] = UINT64_MAX - 50 * MIB;
	world_changes(g);
	world_reports(g, 0);
	world_driver_answers();
	expect_eq(world_residual(g, 0), 0);
	world_end();
}

/* An evicted part is granted, and not on the device. */
TEST(memory_that_has_left_hides_nothing)
{
	struct guest *g;

	world_begin(1, 4096 * MIB);
	g = world_guest(world_tenant(1000 * MIB, 0, 1));
	world_ask(g, 0, 1, 300 * MIB, false);
	world_allocated(g, 0, 300 * MIB);
	book_refresh_all(d);
	expect_eq(ledger_evict(d->book.ledger, g->device[0].holder, 200 * MIB), 0);
	world_page(g)->movable[0].out_bytes = 200 * MIB;
	/* It claims that all of it is here still. */
	world_uses(0, (uint32_t)g->pid, 300 * MIB);
	world_reports(g, 0);
	world_driver_answers();
	expect_eq(world_residual(g, 0), 200 * MIB);
	world_end();
}

TEST(a_guest_that_changes_meanwhile_is_measured_again_and_again_less_often)
{
	const uint64_t after_ms[] = {10, 20, 40, 80, 160, 320, 640, 1000, 1000};
	struct guest *g;

	world_begin(1, 4096 * MIB);
	g = world_guest(world_tenant(1000 * MIB, 0, 1));
	world_uses(0, (uint32_t)g->pid, 60 * MIB);
	world_reports(g, 0);
	for (size_t i = 0; i < ARRAY_SIZE(after_ms); i++) {
		for (int n = 0; n < RESIDUAL_ROUNDS - 1; n++)
			world_answers_amid_changes(g);
		expect(!world_is_asked());
		expect_eq(world_due_ms(&d->measure.again_timer), after_ms[i]);
		world_pass(after_ms[i] - 1);
		expect(!world_is_asked());
		world_pass(1);
		expect(world_is_asked());
	}
	world_driver_answers();
	expect_eq(world_residual(g, 0), 60 * MIB);
	expect(!world_is_armed(&d->measure.again_timer));
	/* From the beginning. */
	world_changes(g);
	world_reports(g, 0);
	for (int n = 0; n < RESIDUAL_ROUNDS - 1; n++)
		world_answers_amid_changes(g);
	expect_eq(world_due_ms(&d->measure.again_timer), 10);
	/* It leaves: there is nothing to measure again. */
	measure_forget(&g->device[0]);
	expect(list_empty(&d->measure.between) && list_empty(&d->measure.open));
	world_end();
}

/* Its page is compared with what it was before the driver was asked, and after it had answered. */
TEST(a_change_at_either_end_of_a_measurement_is_not_missed)
{
	struct guest *g;

	world_begin(1, 4096 * MIB);
	g = world_guest(world_tenant(1000 * MIB, 0, 1));
	world_page(g)->changes_begun = 1;
	world_uses(0, (uint32_t)g->pid, 60 * MIB);
	world_reports(g, 0);
	world_page(g)->changes_ended = 1;
	world_driver_answers();
	expect(world_is_asked());
	world_page(g)->changes_begun = 2;
	world_driver_answers();
	expect(world_is_asked());
	world_page(g)->changes_ended = 2;
	world_driver_answers();
	expect(world_is_asked());
	world_driver_answers();
	expect(!world_is_asked() && list_empty(&d->measure.open));
	/* What it has sent and nobody has read is a change, too. */
	world_page(g)->settles = 1;
	world_reports(g, 0);
	world_driver_answers();
	expect(world_is_asked());
	g->settles = 1;
	world_driver_settles();
	expect(list_empty(&d->measure.open));
	world_end();
}

TEST(a_guest_that_has_not_stated_what_it_holds_is_not_compared_with_its_page)
{
	struct guest *g;
	int caller;

	world_begin(1, 4096 * MIB);
	g = world_guest(world_tenant(1000 * MIB, 0, 1));
	g->stated = false;
	g->caller = (struct caller *)(void *)&caller;
	world_reports(g, 0);
	world_driver_settles();
	expect(!list_empty(&d->measure.open));
	/* One that is away has its page of before. */
	g->caller = NULL;
	world_changes(g);
	world_reports(g, 0);
	world_driver_answers();
	expect(list_empty(&d->measure.open));
	g->stated = true;
	g->caller = (struct caller *)(void *)&caller;
	world_changes(g);
	world_reports(g, 0);
	world_driver_answers();
	expect(!world_is_asked() && list_empty(&d->measure.open));
	world_end();
}

TEST(an_ask_waits_for_what_is_owed_and_not_for_another_tenant)
{
	struct guest *g, *other;

	world_begin(1, 4096 * MIB);
	g = world_guest(world_tenant(1000 * MIB, 0, 1));
	other = world_guest(world_tenant(1000 * MIB, 0, 1));
	world_uses(0, (uint32_t)g->pid, 900 * MIB);
	world_reports(g, 0);
	world_ask(g, 0, 1, 200 * MIB, false);
	world_ask(other, 0, 2, 200 * MIB, false);
	expect_said("grant 2 200; ");
	world_driver_answers();
	expect_said("refuse 1 1; ");
	world_ask(g, 0, 3, 100 * MIB, false);
	world_driver_settles();
	expect_said("grant 3 100; ");
	world_end();
}

/* What is reported after the driver was asked, it need not have seen. */
TEST(a_report_during_a_measurement_is_owed_to_the_next_one)
{
	struct guest *g;

	world_begin(1, 4096 * MIB);
	g = world_guest(world_tenant(1000 * MIB, 0, 1));
	world_reports(g, 0);
	world_driver_looks();
	world_uses(0, (uint32_t)g->pid, 950 * MIB);
	world_reports(g, 0);
	world_ask(g, 0, 1, 100 * MIB, false);
	world_driver_returns();
	expect_said("");
	expect(world_is_asked());
	expect_eq(g->tenant->device[0].owed, 1);
	world_driver_answers();
	expect_said("refuse 1 1; ");
	expect_eq(g->tenant->device[0].owed + g->tenant->device[0].in_flux, 0);
	world_end();
}

TEST(two_guests_of_a_tenant_are_counted_apart)
{
	struct guest *one, *two;
	struct tenant *t;

	world_begin(1, 4096 * MIB);
	t = world_tenant(1000 * MIB, 0, 1);
	one = world_guest(t);
	two = world_guest(t);
	world_uses(0, (uint32_t)one->pid, 100 * MIB);
	world_uses(0, (uint32_t)two->pid, 850 * MIB);
	measure_tell(&two->device[0], RESIDUAL_SETTLED, 0);
	world_reports(one, 0);
	expect_eq(t->device[0].owed, 2);
	expect_eq(t->device[0].in_flux, 2);
	world_ask(one, 0, 1, 100 * MIB, false);
	/* One of them leaves while the driver is asked. */
	world_driver_looks();
	measure_forget(&two->device[0]);
	expect_eq(t->device[0].owed, 1);
	expect_said("");
	world_driver_returns();
	expect_said("grant 1 100; ");
	expect_eq(world_residual(one, 0), 100 * MIB);
	expect_eq(t->device[0].owed + t->device[0].in_flux, 0);
	world_end();
}

TEST(a_report_of_a_guest_that_is_measured_already_is_owed)
{
	struct guest *g;

	world_begin(1, 4096 * MIB);
	g = world_guest(world_tenant(1000 * MIB, 0, 1));
	measure_all(d);
	world_driver_looks();
	expect_eq(g->tenant->device[0].in_flux, 1);
	expect_eq(g->tenant->device[0].owed, 0);
	world_uses(0, (uint32_t)g->pid, 950 * MIB);
	world_reports(g, 0);
	expect_eq(g->tenant->device[0].owed, 1);
	world_ask(g, 0, 1, 100 * MIB, false);
	expect_said("");
	world_driver_returns();
	world_driver_answers();
	expect_said("refuse 1 1; ");
	world_end();
}

/* A pool may release it, and the driver may count it for nobody. */
TEST(memory_that_the_driver_may_not_count_hides_nothing_that_was_known)
{
	for (int loose = 0; loose < 2; loose++) {
		struct guest *g;

		world_begin(1, 4096 * MIB);
		g = world_guest(world_tenant(1000 * MIB, 0, 1));
		world_ask(g, 0, 1, 100 * MIB, false);
		world_allocated(g, 0, 100 * MIB);
		world_uses(0, (uint32_t)g->pid, 140 * MIB);
		world_reports(g, 0);
		world_driver_settles();
		expect_eq(world_residual(g, 0), 40 * MIB);
		*(loose ? world_page(g)->loose_bytes : world_page(g)->adrift_bytes) = 50 * MIB;
		world_uses(0, (uint32_t)g->pid, 110 * MIB);
		world_reports(g, 0);
		world_driver_answers();
		expect_eq(world_residual(g, 0), 40 * MIB);
		world_end();
	}
}

TEST(a_price_is_learnt_from_a_guest_that_has_nothing_but_contexts)
{
	struct guest *g;

	world_begin(1, 4096 * MIB);
	g = world_guest(world_tenant(1000 * MIB, 0, 1));
	world_uses(0, (uint32_t)g->pid, 600 * MIB);
	world_page(g)->device[0].contexts = 2;
	for (uint64_t others = 0; others < 3; others += 2) {
		world_page(g)->others[0] = others;
		world_reports(g, 0);
		world_driver_answers();
		expect_eq(prices_context(d, &g->device[0]), 64 * MIB);
	}
	world_page(g)->others[0] = 1;
	world_reports(g, 0);
	world_driver_answers();
	expect_eq(prices_context(d, &g->device[0]), 300 * MIB);
	world_end();
}

TEST(all_guests_are_measured_for_who_lists_them)
{
	struct guest *g, *other, *silent;

	world_begin(2, 4096 * MIB);
	g = world_guest(world_tenant(1000 * MIB, 0, 2));
	other = world_guest(world_tenant(1000 * MIB, 1, 1));
	silent = world_guest(world_tenant(1000 * MIB, 1, 1));
	silent->device[0].stated = false;
	world_uses(0, (uint32_t)g->pid, 1 * MIB);
	world_uses(1, (uint32_t)g->pid, 2 * MIB);
	world_uses(1, (uint32_t)other->pid, 3 * MIB);
	world_uses(1, (uint32_t)silent->pid, 4 * MIB);
	measure_all(d);
	world_driver_answers();
	expect_eq(world_residual(g, 0), 1 * MIB);
	expect_eq(world_residual(g, 1), 2 * MIB);
	expect_eq(world_residual(other, 0), 3 * MIB);
	expect_eq(world_residual(silent, 0), 0);
	world_end();
}

/* Nobody's memory was measured: nobody who waits for that has had a look. */
TEST(samples_alone_are_no_look_at_memory)
{
	struct guest *g;

	world_begin(1, 4096 * MIB);
	g = world_guest(world_tenant(1000 * MIB, 0, 1));
	measure_start(d);
	expect(!world_is_asked());
	d->device[0].alike.asks = true;
	measure_start(d);
	expect(world_is_asked() && !d->measure.of_memory);
	d->device[0].alike.asks = false;
	world_driver_answers();
	expect_eq(w.samples, 1);
	expect_eq(w.asked[0], 0);
	world_reports(g, 0);
	expect(d->measure.of_memory);
	world_driver_answers();
	outside_want(d);
	measure_start(d);
	expect(d->measure.of_memory);
	world_driver_answers();
	expect_eq(w.asked[0], 2);
	world_end();
}

TEST(nobody_is_asked_or_told_at_the_end)
{
	struct guest *g;

	world_begin(1, 4096 * MIB);
	g = world_guest(world_tenant(1000 * MIB, 0, 1));
	world_reports(g, 0);
	d->stopping = true;
	world_driver_answers();
	expect_eq(w.admin_measured, 0);
	expect(!world_is_armed(&d->measure.timer));
	world_reports(world_guest(g->tenant), 0);
	expect(!world_is_asked());
	world_end();
}
