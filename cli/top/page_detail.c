/* SPDX-License-Identifier: Apache-2.0 */
/* Details of the selected tenant: its state and the reason, what it asked for and had, and its last
 * minutes. */
#include <string.h>

#include "cli/top/page.h"
#include "view/why.h"

enum {
	PLOT_LINES = 4,
	PLOT_EDGE = 7, /* columns of its scale */
	OWN_LINES = 4, /* one each of those before it */
};

/* Texts that are longer than a line have more of them, while there are any. */
struct lines {
	const struct page *page;
	unsigned spare;
};

/* A line that is there for it, and spare ones. */
static void put_text(struct lines *lines, enum grid_style style, const char *text)
{
	const struct page *page = lines->page;
	unsigned took = grid_lines(page->out, &page->screen, style, text, 1 + lines->spare);

	lines->spare -= took ? took - 1 : 0;
}

static struct ps_text amount(const struct page *page, uint64_t bytes)
{
	return ps_amount(page->unit, ps_steps(page->unit, bytes, TEXT_UP));
}

static void put_title(const struct page *page, const struct wire_tenant_row *t)
{
	struct lines alone = {page, 0};
	char line[WIRE_TEXT_MAX + 400];

	snprintf(line, sizeof(line), "%s tenant %u %s of %.100s, for %.60s",
		 page->screen.ascii ? "--" : "──", t->tenant, t->name.text,
		 ps_user_of(&page->model->rows, t->owner).text, ps_duration(t->age).text);
	put_text(&alone, GRID_HEAD, line);
}

static void put_time(struct lines *lines, const struct wire_tenant_row *t)
{
	char line[WIRE_TEXT_MAX + 400];

	snprintf(line, sizeof(line), "share: %s; %llu turn%s, longest wait %.40s, mean %.40s",
		 t->share.text[0] ? t->share.text : "all defaults", (unsigned long long)t->turns,
		 t->turns == 1 ? "" : "s", ps_wait((double)t->longest_wait).text,
		 ps_wait(t->waits ? (double)t->waited / (double)t->waits : 0).text);
	put_text(lines, GRID_PLAIN, line);
}

static void put_memory(struct lines *lines, const struct wire_tenant_row *t)
{
	const struct page *page = lines->page;
	char line[600];

	snprintf(line, sizeof(line),
		 "memory in %s: %.40s of programs, %.40s of the driver, %.40s can move, %.40s in "
		 "the host's; so far %.40s left and %.40s came back",
		 page->unit.name, amount(page, t->allocated).text, amount(page, t->residual).text,
		 amount(page, t->movable).text, amount(page, t->out).text,
		 amount(page, t->moved_out).text, amount(page, t->moved_in).text);
	put_text(lines, GRID_PLAIN, line);
}

static void put_plot(const struct page *page, const struct wire_tenant_row *t)
{
	const struct history_track *track =
		history_find(&page->model->history, t->tenant, t->device);
	unsigned count = page->screen.width > PLOT_EDGE ? page->screen.width - PLOT_EDGE : 0;

	for (unsigned line = 0; line < PLOT_LINES; line++) {
		if (line == 0 || line == PLOT_LINES - 1)
			fprintf(page->out, "%*s%% %s", PLOT_EDGE - 3, line ? "0" : "100",
				page->screen.ascii ? "|" : "│");
		else
			fprintf(page->out, "%*s%s", PLOT_EDGE - 1, "",
				page->screen.ascii ? "|" : "│");
		grid_begin(page->out, &page->screen, GRID_GOOD);
		page_spark(page, track, count, PLOT_LINES, line);
		grid_end(page->out, &page->screen, GRID_GOOD);
		fputc('\n', page->out);
	}
}

static void put_reason(void *owner, const char *sentence)
{
	struct lines *lines = owner;

	if (!lines->spare)
		return;
	lines->spare--;
	put_text(lines, GRID_PLAIN, sentence);
}

void page_detail(const struct page *page, const struct page_parts *parts)
{
	static const enum grid_style styles[] = {GRID_PLAIN, GRID_WARM, GRID_BAD};
	const struct view_line *line = view_selected(page->view);
	const struct wire_tenant_row *t;
	struct lines lines = {page, 0};
	struct ps_text state;
	int bad = 0;

	if (!parts->detail || !line)
		return;
	t = line->tenant->row;
	if (parts->detail > OWN_LINES + PLOT_LINES)
		lines.spare = parts->detail - OWN_LINES - PLOT_LINES;
	state = ps_state(&page->model->rows, t, &bad);
	put_title(page, t);
	put_text(&lines, styles[bad], state.text);
	if (why_waits(t))
		why_say(&page->model->rows, t, put_reason, &lines);
	put_time(&lines, t);
	put_memory(&lines, t);
	put_plot(page, t);
}
