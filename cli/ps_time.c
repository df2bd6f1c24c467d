/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/ps_time.h"

#include <stdio.h>

#include "base/macros.h"
#include "cli/ps_filter.h"
#include "core/doing.h"

static const uint64_t second_ns = 1000000000;

static bool matters(const struct wire_tenant_row *tenant)
{
	return tenant->governed || tenant->turns || tenant->turn != WIRE_TURN_NONE;
}

/* The part of the last second or minute, or of the tenant's life if that is shorter, which the text
 * then tells. */
static void add_parts(struct grid *grid, const struct wire_tenant_row *t, uint64_t had_ns,
		      uint64_t due_ns, uint64_t window_ns)
{
	bool young = t->age && t->age < window_ns;
	double whole = (double)(young ? t->age : window_ns);
	double had = (double)had_ns / whole, due = (double)due_ns / whole;

	had = had < 1 ? had : 1;
	if (young)
		grid_add(grid, GRID_PLAIN, "%.1f%% of %.*f s", had * 100,
			 whole < (double)second_ns ? 1 : 0, whole / (double)second_ns);
	else
		grid_add(grid, GRID_PLAIN, "%.1f%%", had * 100);
	grid_add(grid, GRID_PLAIN, "%.1f%%", (due < 1 ? due : 1) * 100);
}

static void add_wait(struct grid *grid, double ns)
{
	grid_add(grid, GRID_PLAIN, "%s", ps_wait(ns).text);
}

static void add_drift(struct grid *grid, const struct wire_tenant_row *t)
{
	if (t->busy)
		grid_add(grid, GRID_PLAIN, "%+.1f%%", ((int)t->busy_charged - (int)t->busy) / 10.0);
	else
		grid_add(grid, GRID_PLAIN, "-"); /* the driver has not said */
}

static bool is_bad(const struct wire_tenant_row *t)
{
	return t->doing == DOING_HANGS || t->doing == DOING_HALTED;
}

static void add_line(struct grid *grid, const struct wire_tenant_row *t)
{
	grid_add(grid, GRID_PLAIN, "%u", t->tenant);
	grid_add(grid, GRID_PLAIN, "%s", t->name.text);
	grid_add(grid, GRID_PLAIN, "%u", t->device);
	add_parts(grid, t, t->charged_1s, t->entitled_1s, second_ns);
	add_parts(grid, t, t->charged_60s, t->entitled_60s, 60 * second_ns);
	add_drift(grid, t);
	grid_add(grid, GRID_PLAIN, "%llu", (unsigned long long)t->turns);
	add_wait(grid, t->waits ? (double)t->waited / (double)t->waits : 0);
	add_wait(grid, (double)t->longest_wait);
	grid_add(grid, is_bad(t) ? GRID_BAD : GRID_PLAIN, "%s", doing_now(t->doing));
	grid_add(grid, GRID_PLAIN, "%s", t->share.text);
}

void ps_time_print(const struct ps_rows *rows, FILE *out, const struct screen *screen)
{
	static const struct grid_column columns[] = {
		{"ID", .right = true},
		{"TENANT", .least = 10, .rank = 3, .soft = 24, .soft_rank = 8},
		{"GPU", .right = true, .may_go = true, .rank = 4},
		{"LAST SECOND", .right = true},
		{"DUE", .right = true, .may_go = true, .rank = 1},
		{"LAST MINUTE", .right = true, .may_go = true, .rank = 5},
		{"DUE", .right = true, .may_go = true, .rank = 6},
		{"DRIFT", .right = true, .may_go = true, .rank = 6},
		{"TURNS", .right = true, .may_go = true, .rank = 7},
		{"MEAN WAIT", .right = true, .may_go = true, .rank = 8},
		{"LONGEST", .right = true, .may_go = true, .rank = 8},
		{"NOW", .rank = 2, .may_go = true},
		{"SHARE", .least = 8, .may_go = true, .rank = 9},
	};
	owned(grid_done) struct grid grid;

	grid_init(&grid, columns, ARRAY_SIZE(columns));
	for (size_t i = 0; i < rows->count; i++)
		if (rows->row[i].code == WIRE_tenant_row && matters(&rows->row[i].tenant_row) &&
		    ps_shows(rows, &rows->row[i]))
			add_line(&grid, &rows->row[i].tenant_row);
	if (!grid.cells)
		return;
	fputc('\n', out);
	grid_line(
		out, screen, GRID_DIM,
		"time of the devices that are shared by turns: what each tenant had, and was due");
	grid_print(&grid, out, screen);
}
