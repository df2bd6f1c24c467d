/* SPDX-License-Identifier: Apache-2.0 */
/* When guests are measured that report nothing: node/memory/watch.c. */
#include "tests/unit/memory_world.h"

enum { WATCH_MS = 1000, LOOKS = 3, STALE_MS = 1000 };

static struct guest *one, *two, *alone;

/* Each of two tenants has something on a device, the last one; a third one is alone on the first.
 */
static void given_two(void)
{
	world_begin(2, 4096 * MIB);
	one = world_guest(world_tenant(1000 * MIB, 1, 1));
	two = world_guest(world_tenant(1000 * MIB, 1, 1));
	world_ask(one, 0, 1, 100 * MIB, false);
	world_ask(two, 0, 2, 100 * MIB, false);
	alone = world_guest(world_tenant(1000 * MIB, 0, 1));
	world_ask(alone, 0, 9, 100 * MIB, false);
	expect_said("grant 1 100; grant 2 100; grant 9 100; ");
	expect(!world_is_asked());
}

TEST(guests_of_a_shared_device_are_measured_until_nothing_changes)
{
	given_two();
	watch_stirred(one->tenant);
	for (int i = 0; i < LOOKS; i++) {
		expect_eq(world_due_ms(&d->watch.timer), WATCH_MS);
		expect_eq(w.gave_back, 0);
		world_pass(WATCH_MS);
		expect(world_is_asked());
		world_driver_answers();
		expect_eq(w.asked[1], i + 1);
	}
	expect(!world_is_armed(&d->watch.timer));
	expect_eq(w.gave_back, 1);
	expect_eq(w.asked[0], 0);
	world_end();
}

TEST(a_change_does_not_put_the_next_look_off)
{
	given_two();
	watch_stirred(one->tenant);
	world_pass(WATCH_MS / 2);
	watch_stirred(two->tenant);
	expect_eq(world_due_ms(&d->watch.timer), WATCH_MS / 2);
	world_end();
}

/* It is found by one of the looks, which begin anew. */
TEST(memory_that_passed_a_guest_by_is_found_and_watched)
{
	given_two();
	watch_stirred(one->tenant);
	world_pass(WATCH_MS);
	world_driver_answers();
	world_pass(WATCH_MS);
	world_uses(1, (uint32_t)two->pid, 50 * MIB);
	world_driver_answers();
	expect_eq(world_sums(two->tenant, 0).residual, 50 * MIB);
	for (int i = 0; i < LOOKS; i++) {
		expect(world_is_armed(&d->watch.timer));
		world_pass(WATCH_MS);
		world_driver_answers();
	}
	expect(!world_is_armed(&d->watch.timer));
	/* What it allocates and says is a change, too. */
	watch_stirred(one->tenant);
	world_pass(WATCH_MS);
	world_driver_answers();
	world_pass(WATCH_MS);
	world_page(two)->changes_begun = world_page(two)->changes_ended = 9;
	world_driver_answers();
	for (int i = 0; i < LOOKS; i++) {
		expect(world_is_armed(&d->watch.timer));
		world_pass(WATCH_MS);
		world_driver_answers();
	}
	expect(!world_is_armed(&d->watch.timer));
	world_end();
}

/* All looks at it but the last one have found its charge unchanged. */
static void given_one_look_is_left(void)
{
	given_two();
	watch_stirred(one->tenant);
	world_pass(WATCH_MS);
	world_uses(1, (uint32_t)two->pid, 50 * MIB);
	world_driver_answers();
	for (int i = 1; i < LOOKS; i++) {
		world_pass(WATCH_MS);
		world_driver_answers();
	}
	expect_eq(two->device[0].unsteady, 1);
}

static void last_look_is_made(void)
{
	expect(world_is_armed(&d->watch.timer));
	world_pass(WATCH_MS);
	world_driver_answers();
	expect_eq(two->device[0].unsteady, 0);
	expect(!world_is_armed(&d->watch.timer));
}

TEST(a_last_look_that_fails_is_made_again)
{
	given_one_look_is_left();
	w.fails[1] = true;
	world_pass(WATCH_MS);
	world_driver_answers();
	w.fails[1] = false;
	last_look_is_made();
	world_end();
}

TEST(a_last_look_that_is_part_of_another_measurement_is_made_again)
{
	given_one_look_is_left();
	measure_tell(&two->device[0], RESIDUAL_SETTLED, 0);
	world_pass(WATCH_MS);
	world_driver_answers();
	last_look_is_made();
	world_end();
}

TEST(a_tenant_that_is_alone_is_not_watched)
{
	world_begin(2, 4096 * MIB);
	one = world_guest(world_tenant(1000 * MIB, 0, 2));
	two = world_guest(world_tenant(1000 * MIB, 0, 1));
	d->device[0].inhabited = 1;
	watch_stirred(one->tenant);
	expect(!world_is_armed(&d->watch.timer));
	/* One of its devices is shared. */
	d->device[1].inhabited = 2;
	watch_stirred(two->tenant);
	expect(!world_is_armed(&d->watch.timer));
	watch_stirred(one->tenant);
	expect(world_is_armed(&d->watch.timer));
	/* Nobody holds anything. */
	world_pass(WATCH_MS);
	expect(!world_is_asked() && !world_is_armed(&d->watch.timer));
	expect_eq(w.gave_back, 1);
	world_end();
}

TEST(a_guest_that_is_expected_is_not_measured)
{
	given_two();
	two->expected = true;
	world_uses(1, (uint32_t)one->pid, 150 * MIB);
	world_uses(1, (uint32_t)two->pid, 150 * MIB);
	watch_stirred(one->tenant);
	world_pass(WATCH_MS);
	world_driver_answers();
	expect_eq(world_sums(one->tenant, 0).residual, 150 * MIB);
	expect_eq(world_sums(two->tenant, 0).residual, 0);
	world_end();
}

/* Memory passed the guest by, and nobody has looked for a second. */
TEST(an_ask_is_answered_from_figures_that_are_not_old)
{
	given_two();
	world_allocated(one, 0, 100 * MIB);
	world_pass(STALE_MS);
	d->device[1].outside_ns = w.now_ns;
	world_uses(1, (uint32_t)one->pid, 1000 * MIB);
	world_ask(one, 0, 3, 100 * MIB, false);
	expect(world_is_asked());
	world_ask(two, 0, 4, 5000 * MIB, false);
	expect_said("");
	world_driver_settles();
	expect(strstr(world_said(), "refuse 3 1; "));
	expect_eq(world_sums(one->tenant, 0).residual, 900 * MIB);
	world_end();
}

TEST(figures_are_old_after_a_second_and_not_before)
{
	given_two();
	world_ask(one, 0, 3, MIB, false);
	expect(world_is_asked());
	expect_said("");
	world_driver_answers();
	expect_said("grant 3 1; ");
	world_pass(STALE_MS - 1);
	d->device[1].outside_ns = w.now_ns;
	world_ask(one, 0, 4, MIB, false);
	expect_said("grant 4 1; ");
	expect(!world_is_asked());
	world_pass(1);
	world_ask(one, 0, 5, MIB, false);
	expect_said("");
	world_driver_answers();
	expect_said("grant 5 1; ");
	world_end();
}

/* The measurement that was under way when it asked is not new enough. */
TEST(an_ask_with_old_figures_waits_for_the_next_measurement)
{
	given_two();
	world_look();
	world_driver_looks();
	world_uses(1, (uint32_t)one->pid, 1100 * MIB);
	world_ask(one, 0, 3, MIB, false);
	world_driver_returns();
	expect_said("");
	expect(world_is_asked());
	world_driver_answers();
	expect_said("recall 100; refuse 3 1; ");
	world_end();
}

/* The driver needs more than a second, and is not late yet. */
TEST(asks_that_come_meanwhile_wait_for_the_same_measurement)
{
	given_two();
	world_ask(one, 0, 3, MIB, false);
	world_driver_looks();
	world_pass(STALE_MS);
	d->device[1].outside_ns = w.now_ns;
	world_ask(two, 0, 4, MIB, false);
	world_ask(one, 0, 5, MIB, false);
	world_driver_returns();
	expect_said("grant 3 1; grant 5 1; ");
	world_driver_answers();
	expect_said("grant 4 1; ");
	expect(list_empty(&d->watch.held));
	world_end();
}

TEST(figures_that_there_never_were_are_old_from_the_first_second_on)
{
	world_begin(1, 4096 * MIB);
	w.now_ns = 10 * MS;
	one = world_guest(world_tenant(1000 * MIB, 0, 1));
	d->device[0].outside_ns = 0;
	expect_eq(outside_fresh(d), 1);
	world_driver_answers();
	world_ask(one, 0, 1, MIB, false);
	expect_said("grant 1 1; ");
	world_ask(one, 0, 2, MIB, false);
	expect_said("");
	world_driver_answers();
	expect_said("grant 2 1; ");
	world_end();
}

TEST(an_ask_does_not_wait_for_a_measurement_that_is_late)
{
	given_two();
	world_ask(one, 0, 3, MIB, false);
	world_ask(two, 0, 4, MIB, false);
	world_pass(WORLD_LATE_MS - 1);
	expect_said("");
	world_pass(1);
	expect_said("grant 3 1; grant 4 1; ");
	expect(list_empty(&d->watch.held));
	world_pass(STALE_MS);
	world_ask(one, 0, 5, MIB, false);
	expect_said("grant 5 1; ");
	world_end();
}

TEST(a_tenant_that_has_nothing_yet_is_not_measured_first)
{
	world_begin(1, 4096 * MIB);
	one = world_guest(world_tenant(1000 * MIB, 0, 1));
	world_ask(one, 0, 1, MIB, false);
	expect_said("grant 1 1; ");
	expect(!world_is_asked());
	world_end();
}
