/* SPDX-License-Identifier: Apache-2.0 */
/* Asks, and the measurements that they wait for: node/memory/ask.c, measure.c, measured.c. */
#include "tests/unit/memory_world.h"

TEST(an_ask_that_cannot_be_taken_is_refused_with_its_reason)
{
	struct guest *g;
	struct ledger_request none = {.id = 1};

	world_begin(1, 4096 * MIB);
	g = world_guest(world_tenant(1000 * MIB, 0, 1));
	expect(!ask_ledger(&g->device[0], &none));
	expect_said("bad 1 1: 0 bytes were requested; ");
	ledger_hold(d->book.ledger, g->tenant->device[0].account, 1);
	w.user_asks = 0;
	for (uint32_t i = 0; i < DAEMON_ASKS_SURE; i++)
		world_ask(g, 0, 10 + i, MIB, false);
	expect_said("");
	world_ask(g, 0, 20, MIB, false);
	expect_said("bad 20 4: more than 512 requests of this user are waiting; ");
	w.user_asks = 1;
	for (uint32_t i = DAEMON_ASKS_SURE; i < DAEMON_ASKS_OF_GUEST; i++)
		world_ask(g, 0, 100 + i, MIB, false);
	expect_said("");
	world_ask(g, 0, 21, MIB, false);
	expect_said("bad 21 4: more than 64 requests of this process are waiting, or 512 of its "
		    "tenant; ");
	world_end();
}

TEST(an_ask_that_waits_is_told_to_who_watches_long_waits)
{
	struct guest *g, *other;

	world_begin(1, 1000 * MIB);
	g = world_guest(world_tenant(1000 * MIB, 0, 1));
	other = world_guest(world_tenant(1000 * MIB, 0, 1));
	ledger_set_limit(d->book.ledger, other->tenant->device[0].account, 1000 * MIB, 100000 * MS);
	world_ask(g, 0, 1, 900 * MIB, true);
	expect_said("grant 1 900; ");
	expect_eq(w.waits_looked, 0);
	world_allocated(g, 0, 900 * MIB);
	ledger_hold(d->book.ledger, other->tenant->device[0].account, 1);
	world_ask(other, 0, 2, 500 * MIB, false);
	expect_eq(w.waits_looked, 0);
	world_ask(other, 0, 3, 500 * MIB, true);
	expect_eq(w.waits_looked, 1);
	world_end();
}

/* A guest that was not quiet when it was measured may have less by now: it is measured before
 * somebody is refused, and not because of an ask that fits. */
TEST(an_ask_that_does_not_fit_has_open_figures_measured_again)
{
	struct guest *g, *asker;

	world_begin(1, 4096 * MIB);
	g = world_guest(world_tenant(1000 * MIB, 0, 1));
	asker = world_guest(g->tenant);
	world_uses(0, (uint32_t)g->pid, 900 * MIB);
	world_reports(g, 0);
	for (int n = 0; n < RESIDUAL_ROUNDS - 1; n++)
		world_answers_amid_changes(g);
	expect_eq(world_residual(g, 0), 900 * MIB);
	g->tenant->device[0].looked_ns = w.now_ns;
	d->device[0].outside_ns = w.now_ns;
	world_ask(asker, 0, 1, 50 * MIB, false);
	expect_said("grant 1 50; ");
	expect(!world_is_asked());
	world_uses(0, (uint32_t)g->pid, 100 * MIB);
	world_ask(asker, 0, 2, 500 * MIB, false);
	expect(world_is_asked());
	expect_said("");
	world_driver_answers();
	expect_said("grant 2 500; ");
	world_end();
}

/* An ask that came while the last attempt was under way. */
TEST(an_ask_is_not_refused_for_what_the_attempt_before_it_left_open)
{
	struct guest *g, *asker;

	world_begin(1, 4096 * MIB);
	g = world_guest(world_tenant(1000 * MIB, 0, 1));
	asker = world_guest(g->tenant);
	g->tenant->device[0].looked_ns = w.now_ns;
	d->device[0].outside_ns = w.now_ns;
	world_uses(0, (uint32_t)g->pid, 900 * MIB);
	world_reports(g, 0);
	for (int n = 0; n < RESIDUAL_ROUNDS - 2; n++)
		world_answers_amid_changes(g);
	world_driver_looks();
	world_changes(g);
	world_uses(0, (uint32_t)g->pid, 100 * MIB);
	world_ask(asker, 0, 1, 500 * MIB, false);
	world_driver_returns();
	expect_said("");
	expect(world_is_asked());
	world_driver_answers();
	expect_said("grant 1 500; ");
	world_end();
}

/* Of a guest that is never quiet nothing better is to be known soon. */
TEST(an_ask_is_refused_after_three_looks)
{
	struct guest *g, *asker;

	world_begin(1, 4096 * MIB);
	g = world_guest(world_tenant(1000 * MIB, 0, 1));
	asker = world_guest(g->tenant);
	g->tenant->device[0].looked_ns = w.now_ns;
	world_uses(0, (uint32_t)g->pid, 900 * MIB);
	world_reports(g, 0);
	world_answers_amid_changes(g);
	world_ask(asker, 0, 1, 200 * MIB, false);
	for (int looks = 0; looks < LEDGER_LOOKS; looks++) {
		expect_said("");
		world_answers_amid_changes(g);
	}
	expect_said("refuse 1 1; ");
	world_end();
}

/* Samples of how busy a device is are none of these. */
TEST(an_ask_that_came_while_only_samples_were_asked_for_has_three_looks)
{
	struct guest *g, *asker;

	world_begin(1, 4096 * MIB);
	g = world_guest(world_tenant(1000 * MIB, 0, 1));
	asker = world_guest(g->tenant);
	world_uses(0, (uint32_t)g->pid, 900 * MIB);
	world_reports(g, 0);
	for (int n = 0; n < RESIDUAL_ROUNDS - 1; n++)
		world_answers_amid_changes(g);
	g->tenant->device[0].looked_ns = w.now_ns;
	d->device[0].alike.asks = true;
	measure_start(d);
	d->device[0].alike.asks = false;
	world_driver_looks();
	world_ask(asker, 0, 1, 200 * MIB, false);
	world_driver_returns();
	for (int looks = 0; looks < LEDGER_LOOKS; looks++) {
		expect_said("");
		world_answers_amid_changes(g);
	}
	expect_said("refuse 1 1; ");
	world_end();
}

TEST(a_tenant_without_a_limit_is_told_what_helps)
{
	struct tenant *t;

	world_begin(1, 4096 * MIB);
	t = world_tenant(1000 * MIB, 0, 1);
	t->share.memory.bytes = 0;
	t->share.memory.milli = 1000;
	expect(ask_has_no_limit(t));
	expect_str(ask_oversize_hint(t),
		   "; with --oversize managed the driver pages what does not fit");
	t->share.oversize = 1;
	expect_str(ask_oversize_hint(t), "");
	t->share.oversize = 0;
	t->share.memory.milli = 999;
	expect_str(ask_oversize_hint(t), "");
	t->share.memory.milli = 1000;
	t->share.memory.bytes = 1;
	expect(!ask_has_no_limit(t));
	world_end();
}

/* It was there before the daemon, and is never quiet. */
TEST(an_ask_is_refused_for_a_guess_only_after_a_while)
{
	struct guest *g, *asker;
	uint32_t times = 0;

	world_begin(1, 4096 * MIB);
	g = world_guest(world_tenant(1000 * MIB, 0, 1));
	asker = world_guest(g->tenant);
	world_uses(0, (uint32_t)g->pid, 900 * MIB);
	ledger_residual(d->book.ledger, g->device[0].holder, 900 * MIB, 0);
	measure_tell(&g->device[0], RESIDUAL_GUESSED, 900 * MIB);
	measure_start(d);
	for (int n = 0; n < RESIDUAL_ROUNDS - 1; n++)
		world_answers_amid_changes(g);
	world_ask(asker, 0, 1, 200 * MIB, false);
	for (; *world_said() == '\0'; times++) {
		if (world_is_asked())
			world_answers_amid_changes(g);
		world_pass(100);
	}
	/* In 5 s, or as soon as it is no guess any more. */
	expect(times > 20 && times <= 51);
	world_end();
}
