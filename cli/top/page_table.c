/* SPDX-License-Identifier: Apache-2.0 */
/* The tenants, one on each line. */
#include <stdarg.h>
#include <string.h>

#include "cli/ps_filter.h"
#include "cli/top/page.h"

enum { SPARK_STEPS = 20 };

enum column {
	ID,
	TENANT,
	GPU,
	USER,
	HAD,
	DUE,
	HISTORY,
	USED,
	LIMIT,
	IN_HOST,
	AGE,
	STATE,
	COMMAND,
	COLUMNS
};

static const struct grid_column columns[COLUMNS] = {
	[ID] = {"ID", .right = true, .may_go = true, .rank = 4},
	[TENANT] = {"TENANT", .least = 10, .rank = 5, .soft = 24, .soft_rank = 9},
	[GPU] = {"GPU", .right = true, .may_go = true, .rank = 4},
	[USER] = {"USER", .least = 8, .may_go = true, .rank = 7},
	[HAD] = {"HAD", .right = true},
	[DUE] = {"DUE", .right = true, .may_go = true, .rank = 3},
	[HISTORY] = {"HISTORY", .may_go = true, .rank = 8},
	[USED] = {"USED", .right = true},
	[LIMIT] = {"LIMIT", .right = true, .may_go = true, .rank = 5},
	[IN_HOST] = {"IN HOST", .right = true, .may_go = true, .rank = 3},
	[AGE] = {"AGE", .right = true, .may_go = true, .rank = 9},
	[STATE] = {"STATE", .least = 8, .rank = 6, .soft = 40, .soft_rank = 8},
	[COMMAND] = {"COMMAND", .least = 12, .may_go = true, .rank = 10},
};

/* Fields that are not set stay empty. */
struct row {
	char text[COLUMNS][512];
	enum grid_style style[COLUMNS];
};

static void set(struct row *row, enum column column, enum grid_style style, const char *format, ...)
	printf_like(4, 5);

static void set(struct row *row, enum column column, enum grid_style style, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(row->text[column], sizeof(row->text[column]), format, arguments);
	va_end(arguments);
	row->style[column] = style;
}

static void add(struct grid *grid, const struct row *row)
{
	for (unsigned i = 0; i < COLUMNS; i++)
		grid_add(grid, row->style[i], "%s", row->text[i]);
}

static void set_milli(struct row *row, enum column column, enum grid_style style, uint16_t milli)
{
	if (milli == HISTORY_UNSAID)
		set(row, column, GRID_DIM, "-");
	else
		set(row, column, style, "%u%%", (milli + 5) / 10);
}

static void set_amount(struct row *row, enum column column, const struct page *page, uint64_t steps)
{
	set(row, column, GRID_PLAIN, "%s", ps_amount(page->unit, steps).text);
}

static void set_history(struct row *row, const struct page *page, const struct wire_tenant_row *t)
{
	owned(free) char *text = NULL;
	struct page within = *page;
	size_t size = 0;

	within.out = open_memstream(&text, &size);
	if (!within.out)
		return;
	page_spark(&within, history_find(&page->model->history, t->tenant, t->device), SPARK_STEPS,
		   1, 0);
	if (fclose(within.out) == 0 && text)
		set(row, HISTORY, GRID_GOOD, "%s", text);
}

/* Marks a tenant that had at least 5 points less than it was due. */
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
	struct row row = {0};

	set(&row, ID, GRID_PLAIN, "%u", t->tenant);
	set(&row, TENANT, GRID_PLAIN, "%*s%s", (int)(2 * line->depth), "", t->name.text);
	set(&row, GPU, GRID_PLAIN, "%u", t->device);
	set(&row, USER, GRID_PLAIN, "%s", ps_user_of(rows, t->owner).text);
	set_milli(&row, HAD, style_of(line->tenant), line->tenant->had);
	set_milli(&row, DUE, GRID_PLAIN, line->tenant->due);
	set_history(&row, page, t);
	set_amount(&row, USED, page, ps_held_steps(rows, t));
	set_amount(&row, LIMIT, page, ps_steps(page->unit, t->limit, TEXT_DOWN));
	if (t->out)
		set_amount(&row, IN_HOST, page, ps_steps(page->unit, t->out, TEXT_UP));
	set(&row, AGE, GRID_PLAIN, "%s", ps_duration(t->age).text);
	set(&row, STATE, styles[bad], "%s", state.text);
	set(&row, COMMAND, GRID_PLAIN, "%s", ps_tenant_command(rows, t).text);
	add(grid, &row);
}

static void add_process(struct grid *grid, const struct page *page, const struct view_line *line)
{
	const struct wire_guest_row *guest = line->process;
	struct row row = {0};

	set(&row, TENANT, GRID_PLAIN, "%*s%u", (int)(2 * line->depth), "", guest->pid);
	set_amount(&row, USED, page,
		   ps_steps(page->unit, guest->allocated + guest->residual, TEXT_UP));
	set(&row, STATE, GRID_PLAIN, "%s", guest->program.text);
	set(&row, COMMAND, GRID_PLAIN, "%s", ps_guest_command(&page->model->rows, guest).text);
	add(grid, &row);
}

/* A process that belongs to no tenant: nothing can be done to it here. */
static void add_outside(struct grid *grid, const struct page *page,
			const struct wire_outside_row *outside)
{
	struct row row = {0};

	set(&row, TENANT, GRID_DIM, "(outside)");
	set(&row, GPU, GRID_PLAIN, "%u", outside->device);
	set(&row, USER, GRID_PLAIN, "%s", ps_user_of(&page->model->rows, outside->user).text);
	set_amount(&row, USED, page, ps_steps(page->unit, outside->used, TEXT_UP));
	set(&row, STATE, GRID_DIM, "process %u, no tenant's", outside->pid);
	set(&row, COMMAND, GRID_PLAIN, "%s", ps_outside_command(&page->model->rows, outside).text);
	add(grid, &row);
}

/* Below the tenants, if there is room. */
static void add_others(struct grid *grid, const struct page *page, size_t room)
{
	const struct ps_rows *rows = &page->model->rows;

	for (size_t i = 0; i < rows->count && room; i++) {
		if (rows->row[i].code != WIRE_outside_row || !ps_shows(rows, &rows->row[i]))
			continue;
		add_outside(grid, page, &rows->row[i].outside_row);
		room--;
	}
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
	if (last > view->lines)
		add_others(&grid, page, last - view->lines);
	if (!grid.cells) {
		fputs(view->filter.count ? "no tenant fits the filter\n" : "no tenants\n",
		      page->out);
		return -1;
	}
	grid_print(&grid, page->out, &page->screen);
	return view->lines ? (int)(1 + view->selected - view->first) : -1;
}
