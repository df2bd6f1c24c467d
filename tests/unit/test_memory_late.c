/* SPDX-License-Identifier: Apache-2.0 */
/* A driver that is late or fails, and checks, which are answered by measurements:
 * node/memory/measured.c. */
#include "tests/unit/memory_world.h"

TEST(a_driver_that_does_not_answer_holds_nobody_up)
{
	struct guest *g;

	world_begin(1, 4096 * MIB);
	g = world_guest(world_tenant(1000 * MIB, 0, 1));
	world_uses(0, (uint32_t)g->pid, 900 * MIB);
	world_reports(g, 0);
	world_ask(g, 0, 1, 200 * MIB, false);
	measure_check(&g->device[0], 2);
	world_pass(WORLD_LATE_MS - 1);
	expect_said("");
	expect_eq(w.late_logged, 0);
	expect(measure_under_way(d));
	world_pass(1);
	/* In any order: each by its own answer. */
	expect_said("done 2 0; grant 1 200; ");
	expect_eq(w.late_logged, 1);
	expect_eq(w.admin_measured, 1);
	expect(!measure_under_way(d));
	/* Nor is who asks later. */
	measure_check(&g->device[0], 3);
	expect_said("done 3 0; ");
	world_reports(g, 0);
	world_ask(g, 0, 4, 100 * MIB, false);
	expect_said("grant 4 100; ");
	expect(!world_is_armed(&d->measure.timer));
	/* It answers in the end: its figures count, and all is as before. */
	world_allocated(g, 0, 300 * MIB);
	world_driver_answers();
	expect_eq(world_residual(g, 0), 600 * MIB);
	expect(world_is_asked() && measure_under_way(d));
	world_ask(g, 0, 5, 200 * MIB, false);
	expect_said("");
	world_driver_settles();
	expect_said("refuse 5 1; ");
	world_end();
}

TEST(a_driver_that_answers_in_time_is_not_called_late)
{
	struct guest *g;

	world_begin(1, 4096 * MIB);
	g = world_guest(world_tenant(1000 * MIB, 0, 1));
	world_reports(g, 0);
	world_pass(WORLD_LATE_MS - 1);
	world_driver_answers();
	expect(!world_is_armed(&d->measure.timer));
	world_pass(10000);
	expect_eq(w.late_logged, 0);
	/* Each measurement has its own time. */
	world_reports(g, 0);
	world_pass(WORLD_LATE_MS - 1);
	expect_eq(w.late_logged, 0);
	world_pass(1);
	expect_eq(w.late_logged, 1);
	world_end();
}

TEST(a_driver_that_fails_is_asked_again_and_charges_nothing)
{
	struct guest *g;

	world_begin(1, 4096 * MIB);
	g = world_guest(world_tenant(1000 * MIB, 0, 1));
	world_uses(0, (uint32_t)g->pid, 900 * MIB);
	w.fails[0] = true;
	world_reports(g, 0);
	measure_check(&g->device[0], 1);
	world_ask(g, 0, 2, 200 * MIB, false);
	world_driver_settles();
	expect_said("grant 2 200; done 1 0; ");
	expect_eq(world_residual(g, 0), 0);
	expect(world_is_armed(&d->measure.again_timer));
	w.fails[0] = false;
	world_pass(world_due_ms(&d->measure.again_timer));
	world_driver_answers();
	expect_eq(world_residual(g, 0), 900 * MIB);
	world_end();
}

/* ---- checks ---------------------------------------------------------------------------------- */

TEST(a_check_is_answered_by_a_measurement_that_began_after_it)
{
	struct guest *g;

	world_begin(1, 4096 * MIB);
	g = world_guest(world_tenant(1000 * MIB, 0, 1));
	world_reports(g, 0);
	world_driver_looks();
	measure_check(&g->device[0], 7);
	world_driver_returns();
	expect_said("");
	world_driver_answers();
	expect_said("done 7 0; ");
	expect(list_empty(&d->measure.answers));
	world_end();
}

TEST(a_check_of_a_tenant_with_too_much_recalls_its_unused_credit)
{
	struct guest *g, *sibling;

	world_begin(1, 4096 * MIB);
	g = world_guest(world_tenant(1000 * MIB, 0, 1));
	sibling = world_guest(g->tenant);
	world_ask(sibling, 0, 1, 300 * MIB, false);
	expect_said("grant 1 300; ");
	world_uses(0, (uint32_t)g->pid, 900 * MIB);
	measure_check(&g->device[0], 2);
	world_driver_answers();
	expect_said("recall 200; ");
	best_effort(ledger_return(d->book.ledger, sibling->device[0].holder, 250 * MIB, 1));
	book_pump(d);
	expect_said("grant 2 0; ");
	expect_eq(world_sums(g->tenant, 0).granted, 50 * MIB);
	world_end();
}

TEST(a_check_of_a_guest_that_hung_up_is_not_answered)
{
	struct guest *g;

	world_begin(1, 4096 * MIB);
	g = world_guest(world_tenant(1000 * MIB, 0, 1));
	measure_check(&g->device[0], 2);
	world_driver_looks();
	measure_tell(&g->device[0], RESIDUAL_HUNG_UP, 0);
	world_driver_returns();
	expect_said("");
	/* Nor of one that has left. */
	measure_check(&g->device[0], 3);
	measure_forget(&g->device[0]);
	expect(list_empty(&d->measure.wanted) && list_empty(&d->measure.running));
	world_driver_settles();
	expect_said("");
	world_end();
}

static void hangs_up(struct guest_device *at)
{
	measure_tell(at, RESIDUAL_HUNG_UP, 0);
}

/* It reads nothing: the answer to its ask is what ends its connection. */
TEST(a_check_is_not_answered_after_an_answer_that_ended_the_connection)
{
	void (*const ends[])(struct guest_device * at) = {hangs_up, measure_forget};
	struct guest *g;

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		world_begin(1, 4096 * MIB);
		g = world_guest(world_tenant(1000 * MIB, 0, 1));
		measure_check(&g->device[0], 1);
		world_ask(g, 0, 2, 100 * MIB, false);
		w.answered = ends[i];
		world_driver_answers();
		expect_said("grant 2 100; ");
		expect(list_empty(&d->measure.answers));
		world_end();
	}
}

TEST(a_check_that_cannot_be_measured_is_excused)
{
	struct guest *g;

	world_begin(1, 4096 * MIB);
	g = world_guest(world_tenant(1000 * MIB, 0, 1));
	world_uses(0, (uint32_t)g->pid, 1100 * MIB);
	measure_check(&g->device[0], 1);
	world_driver_answers();
	expect_said("refuse 1 1; ");
	w.fails[0] = true;
	measure_check(&g->device[0], 2);
	world_driver_answers();
	expect_said("done 2 0; ");
	w.fails[0] = false;
	measure_check(&g->device[0], 3);
	world_pass(WORLD_LATE_MS);
	expect_said("done 3 0; ");
	world_end();
}

TEST(a_check_beyond_the_places_for_asks_is_refused)
{
	struct guest *g;

	world_begin(1, 4096 * MIB);
	g = world_guest(world_tenant(1000 * MIB, 0, 1));
	ledger_hold(d->book.ledger, g->tenant->device[0].account, 1);
	for (uint32_t i = 0; i < DAEMON_ASKS_OF_GUEST; i++)
		world_ask(g, 0, 100 + i, MIB, false);
	expect_said("");
	world_uses(0, (uint32_t)g->pid, 1100 * MIB);
	measure_check(&g->device[0], 2);
	world_driver_answers();
	expect_said("bad 2 4: more than 64 requests of this process are waiting, or 512 of its "
		    "tenant; ");
	world_end();
}
