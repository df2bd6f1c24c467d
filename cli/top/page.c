/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/page.h"

#include <string.h>

#include "base/least.h"
#include "cli/top/keys.h"
#include "cli/top/tally.h"

enum {
	HEAD_LINES = 2,	  /* the first line, and the one before the table */
	HELP_AROUND = 2,  /* lines around those of the keys */
	HELP_WIDTH = 40,  /* of a column: a narrower one cannot be read */
	KEY_WIDTH = 12,	  /* of the keys, which stand in a third of it at most */
	FOOT_LINES = 1,	  /* the keys, or a question */
	TABLE_LEAST = 5,  /* lines of tenants that go before details of devices */
	DEVICE_LINES = 3, /* of a device where there is room */
	DETAIL_LINES = 9,
	REASON_LINES = 6,  /* ... and the sentences of `mete why`, on a higher screen */
	REASON_LEAST = 2,  /* ... and with many tenants */
	DETAIL_HEIGHT = 24 /* below that many lines there is no detail */
};

/* Tenants that would otherwise not be seen go before long reasons. */
static unsigned reason_lines(unsigned room, size_t tenants)
{
	unsigned spare = (unsigned)beyond(room, tenants);

	return spare < REASON_LEAST ? REASON_LEAST : spare < REASON_LINES ? spare : REASON_LINES;
}

struct page_parts page_divide(const struct page *page, bool detail)
{
	unsigned height = page->screen.height, devices = (unsigned)page->model->devices;
	unsigned room = height > HEAD_LINES + FOOT_LINES ? height - HEAD_LINES - FOOT_LINES - 1 : 0;
	struct page_parts parts = {0};

	parts.each = devices * DEVICE_LINES <= room / 2 ? DEVICE_LINES : 1;
	parts.devices = devices * parts.each;
	if (parts.devices > room / 2)
		parts.devices = room / 2;
	room -= parts.devices;
	if (detail && height >= DETAIL_HEIGHT && room >= DETAIL_LINES + TABLE_LEAST)
		parts.detail = DETAIL_LINES;
	if (parts.detail && room >= DETAIL_LINES + REASON_LINES + TABLE_LEAST)
		parts.detail += reason_lines(room - DETAIL_LINES, page->model->tenants);
	parts.table = room - parts.detail;
	return parts;
}

void page_bar(const struct page *page, unsigned width, double part, const char *label)
{
	enum grid_style style = part >= 0.9 ? GRID_BAD : part >= 0.75 ? GRID_WARM : GRID_GOOD;
	unsigned inner = width > 2 ? width - 2 : 0, said = (unsigned)grid_width(label), full;

	if (said > inner) {
		label = "";
		said = 0;
	}
	part = part < 0 ? 0 : part > 1 ? 1 : part;
	full = (unsigned)(part * inner + 0.5);
	if (!full && part > 0)
		full = 1; /* never an empty bar for a little */
	if (full > inner - said)
		full = inner - said;
	fputc('[', page->out);
	grid_begin(page->out, &page->screen, style);
	for (unsigned i = 0; i < full; i++)
		fputc('|', page->out);
	grid_end(page->out, &page->screen, style);
	fprintf(page->out, "%*s%s]", (int)(inner - said - full), "", label);
}

void page_spark(const struct page *page, const struct history_track *track, unsigned count,
		unsigned rows, unsigned line)
{
	static const char *const fine[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	static const char *const plain[] = {" ", ".", ".", ":", ":", "=", "=", "#", "#"};
	const char *const *steps = page->screen.ascii ? plain : fine;

	for (unsigned back = count; back-- > 0;) {
		uint16_t milli = history_at(track, back);
		/* Eighths of a line that are left for this line: the lines below are full already.
		 */
		unsigned eighths = milli == HISTORY_UNSAID ? 0 : (milli * rows * 8 + 999) / 1000;
		unsigned below = (rows - 1 - line) * 8;

		eighths = eighths > below ? eighths - below : 0;
		fputs(steps[eighths < 8 ? eighths : 8], page->out);
	}
}

void page_head(const struct page *page, double seconds)
{
	const struct ps_rows *rows = &page->model->rows;
	size_t tenants = tally_tenants(page->model);
	char line[WIRE_TEXT_MAX + 200];

	if (page->model->trouble.text[0]) {
		grid_begin(page->out, &page->screen, GRID_BAD);
		grid_field(page->out, &page->screen, page->model->trouble.text, page->screen.width);
		grid_end(page->out, &page->screen, GRID_BAD);
		fputc('\n', page->out);
		return;
	}
	if (rows->absent)
		snprintf(line, sizeof(line), "no meted is running: `mete run` starts one%s%.300s",
			 rows->why.text[0] ? "; " : "", rows->why.text);
	else
		snprintf(line, sizeof(line),
			 "mete top: %zu GPU%s, %zu tenant%s; %s%.80s%severy %g s, by %s%s%s%s; "
			 "memory in %s",
			 page->model->devices, page->model->devices == 1 ? "" : "s", tenants,
			 tenants == 1 ? "" : "s", rows->node ? "node " : "",
			 rows->node ? rows->node : "", rows->node ? "; " : "", seconds,
			 view_sort_name(page->view->sort), page->view->reverse ? ", reversed" : "",
			 page->view->filter.count ? "; only " : "",
			 page->view->filter.count ? page->view->filter.text : "", page->unit.name);
	grid_begin(page->out, &page->screen, GRID_DIM);
	grid_field(page->out, &page->screen, line, page->screen.width);
	grid_end(page->out, &page->screen, GRID_DIM);
	fputc('\n', page->out);
}

/* Tenants that the filter lets through, by tally_tenant(). */
static void count_states(const struct page *page, size_t counts[TALLY_TROUBLE + 1])
{
	for (size_t i = 0; i < page->model->tenants;)
		counts[tally_tenant(page, i, &i)]++;
}

static size_t put_count(char *line, size_t used, size_t size, size_t count, const char *what)
{
	return count ? (size_t)snprintf(line + used, size - used, "%s%zu %s", used ? ", " : "",
					count, what)
		     : 0;
}

void page_status(const struct page *page, const struct page_parts *parts)
{
	const struct view *view = page->view;
	size_t counts[TALLY_TROUBLE + 1] = {0}, used;
	enum grid_style style;
	char line[200] = "";

	count_states(page, counts);
	style = counts[TALLY_TROUBLE] ? GRID_BAD : GRID_DIM;
	used = put_count(line, 0, sizeof(line), counts[TALLY_TROUBLE], "in trouble");
	used += put_count(line, used, sizeof(line), counts[TALLY_WAITS],
			  counts[TALLY_WAITS] == 1 ? "waits" : "wait");
	used += put_count(line, used, sizeof(line), counts[TALLY_SUSPENDED], "suspended");
	if (parts && parts->table && view->lines > parts->table)
		snprintf(line + used, sizeof(line) - used, "%slines %zu to %zu of %zu",
			 used ? "; " : "", view->first + 1, view->first + parts->table,
			 view->lines);
	grid_begin(page->out, &page->screen, style);
	grid_field(page->out, &page->screen, line, page->screen.width);
	grid_end(page->out, &page->screen, style);
	fputc('\n', page->out);
}

/* All of what a key does, or the part that is understood alone. */
static void help_meaning(const struct page *page, const struct keys_row *key, size_t columns)
{
	char whole[100];

	snprintf(whole, sizeof(whole), "%s%s", key->meaning, key->more);
	grid_field(page->out, &page->screen, grid_width(whole) <= columns ? whole : key->meaning,
		   columns);
}

/* The keys one below the other, in as many columns as the screen's height requires and its width
 * allows. */
void page_help(const struct page *page)
{
	unsigned height = page->screen.height > HELP_AROUND ? page->screen.height - HELP_AROUND : 1;
	unsigned count = (unsigned)keys_count;
	unsigned fit = page->screen.width / HELP_WIDTH;
	unsigned across = (unsigned)most(1, least((count + height - 1) / height, fit));
	unsigned down = (count + across - 1) / across;
	unsigned width = page->screen.width / across,
		 name = width / 3 < KEY_WIDTH ? width / 3 : KEY_WIDTH;

	if (down > height) {
		down = height - 1;
		count = across * down;
	}
	grid_field(page->out, &page->screen, "keys; any key closes this list", page->screen.width);
	fputc('\n', page->out);
	for (unsigned line = 0; line < down; line++) {
		for (unsigned i = line; i < count; i += down) {
			grid_begin(page->out, &page->screen, GRID_HEAD);
			grid_field(page->out, &page->screen, keys[i].keys, name);
			grid_end(page->out, &page->screen, GRID_HEAD);
			fputc(' ', page->out);
			help_meaning(page, &keys[i], beyond(width, name + 1));
		}
		fputc('\n', page->out);
	}
	if (count < keys_count)
		fprintf(page->out, "%u more: the terminal is small\n",
			(unsigned)keys_count - count);
}
