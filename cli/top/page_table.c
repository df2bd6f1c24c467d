/* SPDX-License-Identifier: Apache-2.0 */
/* The tenants, one on each line. */
#include <string.h>

#include "cli/top/page.h"

enum { SPARK_LOOKS = 20 };

static const struct grid_column columns[] = {
	{"ID", .right = true, .may_go = true, .rank = 4},
	{"TENANT", .least = 10, .rank = 5, .soft = 24, .soft_rank = 9},
	{"GPU", .right = true, .may_go = true, .rank = 4},
	{"USER", .least = 8, .may_go = true, .rank = 7},
	{"HAD", .right = true},
	{"DUE", .right = true, .may_go = true, .rank = 3},
	{"HISTORY", .may_go = true, .rank = 8},
	{"USED", .right = true},
	{"LIMIT", .right = true, .may_go = true, .rank = 5},
	{"IN HOST", .right = true, .may_go = true, .rank = 3},
	{"AGE", .right = true, .may_go = true, .rank = 9},
	{"STATE", .least = 8, .rank = 6, .soft = 40, .soft_rank = 8},
	{"COMMAND", .least = 12, .may_go = true, .rank = 10},
};

static void add_milli(struct grid *grid, enum grid_style style, uint16_t milli)
{
	if (milli == HISTORY_UNSAID)
		grid_add(grid, GRID_DIM, "-");
	else
		grid_add(grid, style, "%u%%", (milli + 5) / 10);
}

static void add_amount(struct grid *grid, const struct page *page, uint64_t steps)
{
	grid_add(grid, GRID_PLAIN, "%s", ps_amount(page->unit, steps).text);
}

static void add_history(struct grid *grid, const struct page *page, const struct wire_tenant_row *t)
{
	owned(free) char *text = NULL;
	struct page within = *page;
	size_t size = 0;

	within.out = open_memstream(&text, &size);
	if (!within.out) {
		grid_add(grid, GRID_PLAIN, "%s", "");
		return;
	}
	page_spark(&within, history_find(&page->model->history, t->tenant, t->device), SPARK_LOOKS,
		   1, 0);
	grid_add(grid, GRID_GOOD, "%s", fclose(within.out) == 0 && text ? text : "");
}

/* Whoever had less than it was due by 5 points or more. */
static enum grid_style style_of(const struct model_tenant *m)
{
	bool lacks = m->due != HISTORY_UNSAID && m->had + 50 <= m->due;

	return lacks ? GRID_WARM : GRID_PLAIN;
}

static void add_tenant(struct grid *grid, const struct page *page, const struct view_line *line)
{
	static const enum grid_style styles[] = {GRID_PLAIN, GRID_WARM, GRID_BAD};
	const struct ps_rows *rows = &page->model->rows;
	const struct wire_tenant_row *t = line->tenant->row;
	int bad = 0;
	struct ps_text state = ps_state(rows, t, &bad);

	grid_add(grid, GRID_PLAIN, "%u", t->tenant);
	grid_add(grid, GRID_PLAIN, "%*s%s", (int)(2 * line->depth), "", t->name.text);
	grid_add(grid, GRID_PLAIN, "%u", t->device);
	grid_add(grid, GRID_PLAIN, "%s", ps_user(t->owner).text);
	add_milli(grid, style_of(line->tenant), line->tenant->had);
	add_milli(grid, GRID_PLAIN, line->tenant->due);
	add_history(grid, page, t);
	add_amount(grid, page, ps_held_steps(rows, t));
	add_amount(grid, page, ps_steps(page->unit, t->limit, TEXT_DOWN));
	if (t->out)
		add_amount(grid, page, ps_steps(page->unit, t->out, TEXT_UP));
	else
		grid_add(grid, GRID_PLAIN, "%s", "");
	grid_add(grid, GRID_PLAIN, "%s", ps_duration(t->age).text);
	grid_add(grid, styles[bad], "%s", state.text);
	grid_add(grid, GRID_PLAIN, "%s", ps_tenant_command(rows, t).text);
}

static void add_process(struct grid *grid, const struct page *page, const struct view_line *line)
{
	const struct wire_guest_row *guest = line->process;

	grid_add(grid, GRID_PLAIN, "%s", "");
	grid_add(grid, GRID_PLAIN, "%*s%u", (int)(2 * line->depth), "", guest->pid);
	for (int i = 0; i < 5; i++)
		grid_add(grid, GRID_PLAIN, "%s", "");
	add_amount(grid, page, ps_steps(page->unit, guest->allocated + guest->residual, TEXT_UP));
	for (int i = 0; i < 3; i++)
		grid_add(grid, GRID_PLAIN, "%s", "");
	grid_add(grid, GRID_PLAIN, "%s", guest->program.text);
	grid_add(grid, GRID_PLAIN, "%s", ps_command(guest->pid).text);
}

int page_table(const struct page *page, const struct page_parts *parts)
{
	const struct view *view = page->view;
	owned(grid_done) struct grid grid;
	size_t last = view->first + parts->table;

	grid_init(&grid, columns, ARRAY_SIZE(columns));
	for (size_t i = view->first; i < view->lines && i < last; i++) {
		if (view->line[i].process)
			add_process(&grid, page, &view->line[i]);
		else
			add_tenant(&grid, page, &view->line[i]);
	}
	if (!grid.cells) {
		fputs(view->filter.count ? "no tenant fits the filter\n" : "no tenants\n",
		      page->out);
		return -1;
	}
	grid_print(&grid, page->out, &page->screen);
	return (int)(1 + view->selected - view->first);
}
