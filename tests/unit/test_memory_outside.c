/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of programs that pass mete by: node/memory/outside.c. */
#include "tests/unit/memory_world.h"

enum { AGAIN_MS = 200, FRESH_MS = 1000 };

TEST(a_program_beside_mete_takes_room_and_is_shown)
{
	struct wire_outside_row row;
	struct guest *g;

	world_begin(2, 1000 * MIB);
	g = world_guest(world_tenant(1000 * MIB, 1, 1));
	world_uses(1, (uint32_t)g->pid, 5 * MIB);
	world_uses(1, 7, 300 * MIB);
	w.row[1].name = "python\n";
	world_uses(1, 8, 100 * MIB);
	world_uses(1, 9, 100 * MIB);
	w.row[3].over = true;
	world_uses(1, 10, 0);
	/* The driver lists no more of the one guest than of the other. */
	world_guest(g->tenant);
	world_uses(1, 9999, 50 * MIB);
	expect_str(outside_text(d, 1).text, "");
	world_look();
	world_driver_answers();
	expect_eq(outside_bytes(d, 1), 450 * MIB);
	expect_eq(outside_bytes(d, 0), 0);
	expect_eq(book_room(d, 1), 550 * MIB);
	expect_str(outside_text(d, 1).text,
		   " by tenants, 450MiB outside mete (python?, pid 7, and 2 others)");
	expect(outside_row(d, 1, 0, &row));
	expect_eq(row.device, 1);
	expect_eq(row.pid, 7);
	expect_eq(row.user, 1007);
	expect_eq(row.used, 300 * MIB);
	expect(outside_row(d, 1, 1, &row));
	expect_eq(row.pid, 8);
	expect(outside_row(d, 1, 2, &row));
	expect(!outside_row(d, 1, 3, &row));
	expect(!outside_row(d, 0, 0, &row));
	world_end();
}

/* Its rows are not next to each other when the driver says them. */
TEST(a_process_with_several_rows_counts_once)
{
	world_begin(1, 1000 * MIB);
	w.row[0] = (struct world_row){.pid = 7, .bytes = 10 * MIB};
	w.row[1] = (struct world_row){.pid = 8, .bytes = 25 * MIB};
	w.row[2] = (struct world_row){.pid = 7, .bytes = 20 * MIB};
	w.rows = 3;
	world_look();
	world_driver_answers();
	expect_eq(d->device[0].outside_count, 2);
	expect_eq(d->device[0].outside[0].pid, 7);
	expect_eq(d->device[0].outside[0].used, 30 * MIB);
	expect_eq(outside_bytes(d, 0), 55 * MIB);
	world_end();
}

TEST(the_largest_of_many_are_known_by_name)
{
	world_begin(1, 4000 * MIB);
	for (uint32_t i = 0; i < OUTSIDE_SHOWN + 4; i++)
		world_uses(0, 10 + i, (1 + (i * 7) % (OUTSIDE_SHOWN + 4)) * MIB);
	world_look();
	world_driver_answers();
	expect_eq(d->device[0].outside_count, OUTSIDE_SHOWN + 4);
	for (uint32_t i = 0; i < OUTSIDE_SHOWN; i++)
		expect_eq(d->device[0].outside[i].used, (OUTSIDE_SHOWN + 4 - i) * MIB);
	expect_eq(outside_bytes(d, 0), 210 * MIB);
	expect(strstr(outside_text(d, 0).text, ", and 19 others)"));
	world_end();
}

/* /proc is read once for each. */
TEST(a_process_is_named_again_only_if_it_is_another_one)
{
	world_begin(1, 4000 * MIB);
	world_uses(0, 7, 10 * MIB);
	w.row[0].name = "first";
	for (int i = 0; i < 2; i++) {
		world_look();
		world_driver_answers();
	}
	expect_eq(w.names_asked, 1);
	expect_eq(d->device[0].outside[0].user, 1007);
	w.row[0].name = "second";
	w.row[0].started = 5;
	world_look();
	world_driver_answers();
	expect_eq(w.names_asked, 2);
	expect_str(d->device[0].outside[0].program, "second");
	expect(strstr(outside_text(d, 0).text, "(second, pid 7)"));
	world_uses(0, 8, 1 * MIB);
	world_look();
	world_driver_answers();
	expect(strstr(outside_text(d, 0).text, "pid 7, and 1 other)"));
	world_end();
}

TEST(an_ask_is_not_refused_for_what_a_program_has_freed_since)
{
	struct guest *g;

	world_begin(2, 1000 * MIB);
	g = world_guest(world_tenant(1000 * MIB, 1, 1));
	world_uses(1, 7, 600 * MIB);
	world_look();
	world_driver_answers();
	/* A look that began before is not new enough. */
	world_look();
	world_driver_looks();
	world_ask(g, 0, 1, 700 * MIB, false);
	world_uses(1, 7, 0);
	world_driver_returns();
	expect_said("");
	expect(world_is_asked());
	world_driver_answers();
	expect_said("grant 1 700; ");
	expect_eq(outside_bytes(d, 1), 0);
	world_end();
}

TEST(an_ask_is_refused_for_a_program_that_is_there_still)
{
	struct guest *g;

	world_begin(1, 1000 * MIB);
	g = world_guest(world_tenant(1000 * MIB, 0, 1));
	world_uses(0, 7, 600 * MIB);
	world_look();
	world_driver_answers();
	world_ask(g, 0, 1, 700 * MIB, false);
	expect_said("");
	world_driver_answers();
	expect_said("refuse 1 2; ");
	/* What fits is not waited for. */
	world_ask(g, 0, 2, 300 * MIB, false);
	expect_said("grant 2 300; ");
	expect(!world_is_asked());
	world_end();
}

TEST(an_ask_does_not_wait_for_a_driver_that_is_late)
{
	struct guest *g;

	world_begin(1, 1000 * MIB);
	g = world_guest(world_tenant(1000 * MIB, 0, 1));
	world_uses(0, 7, 600 * MIB);
	world_look();
	world_driver_answers();
	world_ask(g, 0, 1, 700 * MIB, false);
	world_pass(WORLD_LATE_MS);
	expect_said("refuse 1 2; ");
	world_ask(g, 0, 2, 700 * MIB, false);
	expect_said("refuse 2 2; ");
	world_end();
}

/* Nothing says that such a program ends. */
TEST(the_driver_is_asked_repeatedly_while_somebody_waits_for_memory_outside)
{
	struct guest *g;

	world_begin(1, 1000 * MIB);
	g = world_guest(world_tenant(1000 * MIB, 0, 1));
	ledger_set_limit(d->book.ledger, g->tenant->device[0].account, 1000 * MIB, 100000 * MS);
	world_uses(0, 7, 600 * MIB);
	world_look();
	world_driver_answers();
	expect(!world_is_armed(&d->outside.timer));
	world_ask(g, 0, 1, 700 * MIB, true);
	world_driver_settles();
	for (int i = 0; i < 3; i++) {
		expect_eq(world_due_ms(&d->outside.timer), AGAIN_MS);
		world_pass(AGAIN_MS);
		world_driver_answers();
	}
	expect_said("");
	/* Another measurement does not put that off. */
	world_pass(AGAIN_MS / 2);
	world_look();
	world_driver_answers();
	expect_eq(world_due_ms(&d->outside.timer), AGAIN_MS / 2);
	w.rows = 0;
	world_pass(AGAIN_MS / 2);
	world_driver_answers();
	expect_said("grant 1 700; ");
	world_pass(10 * AGAIN_MS);
	expect(!world_is_asked() && !world_is_armed(&d->outside.timer));
	world_end();
}

TEST(the_driver_is_not_asked_while_somebody_waits_for_memory_of_tenants)
{
	struct guest *g, *other;

	world_begin(1, 1000 * MIB);
	g = world_guest(world_tenant(1000 * MIB, 0, 1));
	other = world_guest(world_tenant(1000 * MIB, 0, 1));
	ledger_set_limit(d->book.ledger, g->tenant->device[0].account, 1000 * MIB, 100000 * MS);
	world_ask(other, 0, 1, 900 * MIB, false);
	world_allocated(other, 0, 900 * MIB);
	book_refresh_all(d);
	world_ask(g, 0, 2, 700 * MIB, true);
	world_look();
	world_driver_settles();
	expect_said("grant 1 900; ");
	expect(!world_is_armed(&d->outside.timer));
	world_end();
}

TEST(figures_of_memory_outside_are_fresh_for_a_second)
{
	struct guest *g;

	world_begin(2, 1000 * MIB);
	g = world_guest(world_tenant(1000 * MIB, 0, 1));
	expect_eq(outside_fresh(d), 0);
	world_pass(FRESH_MS - 1);
	world_ask(g, 0, 1, MIB, false);
	expect(!world_is_asked());
	d->device[1].outside_ns = w.now_ns;
	world_pass(1);
	/* One of two devices is old. */
	expect_eq(outside_fresh(d), 1);
	expect(world_is_asked());
	/* That look may have been before. */
	expect_eq(outside_fresh(d), 2);
	world_driver_answers();
	world_driver_answers();
	expect_eq(outside_fresh(d), 0);
	expect_eq(w.asked[0], 2);
	expect_eq(w.asked[1], 2);
	world_pass(FRESH_MS);
	world_ask(g, 0, 2, MIB, false);
	expect(world_is_asked());
	world_driver_settles();
	/* A device that is gone says nothing. */
	((struct nvml_device *)(uintptr_t)d->device[0].info)->gone = true;
	d->device[0].outside_ns = 0;
	expect_eq(outside_fresh(d), 0);
	world_end();
}

TEST(a_device_that_does_not_answer_keeps_its_figures)
{
	world_begin(1, 1000 * MIB);
	world_uses(0, 7, 600 * MIB);
	world_look();
	world_driver_answers();
	w.fails[0] = true;
	world_look();
	world_driver_answers();
	expect_eq(outside_bytes(d, 0), 600 * MIB);
	world_end();
}
