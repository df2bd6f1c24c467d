/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/grid.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { GAP = 2 /* between two columns */ };

enum { INDENT = 4 /* of a sentence below a line */ };

static const char *ellipsis(const struct screen *screen)
{
	return screen->ascii ? "~" : "…";
}

/* East Asian wide characters and emoji, which terminals show in two columns. */
static bool is_wide(uint32_t point)
{
	static const struct {
		uint32_t first, last;
	} ranges[] = {
		{0x1100, 0x115f},   {0x2e80, 0x303e},	{0x3041, 0xa4cf},   {0xac00, 0xd7a3},
		{0xf900, 0xfaff},   {0xfe30, 0xfe6f},	{0xff00, 0xff60},   {0xffe0, 0xffe6},
		{0x1f300, 0x1f64f}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd},
	};

	for (size_t i = 0; i < ARRAY_SIZE(ranges); i++)
		if (point >= ranges[i].first && point <= ranges[i].last)
			return true;
	return false;
}

/* Marks that are put onto the character before them. */
static bool is_combining(uint32_t point)
{
	return (point >= 0x300 && point <= 0x36f) || (point >= 0x1ab0 && point <= 0x1aff) ||
	       (point >= 0x20d0 && point <= 0x20ff);
}

/* The bytes and the columns of the character that begins here. The text is valid UTF-8. */
static size_t step(const char *at, size_t *ret_columns)
{
	const unsigned char *byte = (const unsigned char *)at;
	size_t size = *byte < 0x80 ? 1 : *byte < 0xe0 ? 2 : *byte < 0xf0 ? 3 : 4;
	uint32_t point = size == 1 ? *byte : *byte & (0x7fu >> size);

	for (size_t i = 1; i < size; i++) {
		if (!byte[i]) { /* cut in two: shown as it is */
			*ret_columns = 1;
			return i;
		}
		point = point << 6 | (byte[i] & 0x3fu);
	}
	*ret_columns = is_combining(point) ? 0 : is_wide(point) ? 2 : 1;
	return size;
}

size_t grid_width(const char *text)
{
	size_t width = 0, columns;

	while (*text) {
		text += step(text, &columns);
		width += columns;
	}
	return width;
}

/* By the locales' names only: the locales themselves need not be installed. */
static bool is_ascii(void)
{
	static const char *const variables[] = {"LC_ALL", "LC_CTYPE", "LANG"};

	for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
		const char *locale = getenv(variables[i]);

		if (locale && *locale)
			return !strcasestr(locale, "utf-8") && !strcasestr(locale, "utf8");
	}
	return false;
}

struct screen screen_now(void)
{
	const char *no_colour = getenv("NO_COLOR"), *terminal = getenv("TERM");
	struct winsize size = {0};
	struct screen screen = {.ascii = is_ascii()};

	if (!isatty(STDOUT_FILENO))
		return screen;
	/* A terminal that does not tell its width is taken to have the usual one. */
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || !size.ws_col)
		size = (struct winsize){.ws_col = 80};
	screen.width = size.ws_col;
	screen.height = size.ws_row;
	screen.colour = !(no_colour && *no_colour) && terminal && strcmp(terminal, "dumb") != 0;
	return screen;
}

void grid_init(struct grid *grid, const struct grid_column *columns, size_t count)
{
	*grid = (struct grid){.columns = columns, .count = count};
}

void grid_done(struct grid *grid)
{
	for (size_t i = 0; i < grid->cells; i++)
		free(grid->cell[i]);
	free(grid->cell);
	free(grid->style);
}

static int make_room(struct grid *grid)
{
	size_t room = grid->room ? 2 * grid->room : 256;
	enum grid_style *style;
	char **cell;

	if (grid->cells < grid->room)
		return 0;
	cell = realloc(grid->cell, room * sizeof(*cell));
	if (!cell)
		return -ENOMEM;
	grid->cell = cell;
	style = realloc(grid->style, room * sizeof(*style));
	if (!style)
		return -ENOMEM;
	grid->style = style;
	grid->room = room;
	return 0;
}

void grid_add(struct grid *grid, enum grid_style style, const char *format, ...)
{
	char *text = NULL;
	va_list arguments;

	if (make_room(grid) < 0)
		return;
	va_start(arguments, format);
	if (vasprintf(&text, format, arguments) < 0)
		text = NULL;
	va_end(arguments);
	grid->cell[grid->cells] = text;
	grid->style[grid->cells++] = style;
}

struct layout {
	size_t width[GRID_COLUMNS]; /* 0: left out */
};

static size_t total_width(const struct grid *grid, const struct layout *layout)
{
	size_t total = 0;

	for (size_t i = 0; i < grid->count; i++)
		total += layout->width[i] ? layout->width[i] + (total ? GAP : 0) : 0;
	return total;
}

static void cut_to(size_t *width, unsigned least, size_t over)
{
	if (least && over && *width > least)
		*width = *width - least > over ? *width - over : least;
}

/* Narrows column by column, the highest rank first: each is cut, then left out. */
static void fit(const struct grid *grid, struct layout *layout, size_t room)
{
	for (unsigned rank = 99; rank > 0; rank--) {
		for (size_t i = 0; i < grid->count; i++) {
			const struct grid_column *column = &grid->columns[i];
			size_t total = total_width(grid, layout);
			size_t *width = &layout->width[i];
			size_t over = total > room ? total - room : 0;

			if (!over || !*width)
				continue;
			if (column->soft_rank == rank)
				cut_to(width, column->soft, over);
			if (column->rank != rank)
				continue;
			cut_to(width, column->least, over);
			if (column->may_go && total_width(grid, layout) > room)
				*width = 0;
		}
	}
}

/* Leaving columns out may free more room than was needed: the columns that were cut get it back,
 * the lowest rank first. */
static void widen(const struct grid *grid, struct layout *layout, const struct layout *natural,
		  size_t room)
{
	for (unsigned rank = 1; rank <= 99; rank++) {
		for (size_t i = 0; i < grid->count; i++) {
			size_t total = total_width(grid, layout), *width = &layout->width[i];
			size_t spare = total < room ? room - total : 0;
			size_t lost = natural->width[i] - *width;

			if (*width && grid->columns[i].rank == rank)
				*width += lost < spare ? lost : spare;
		}
	}
}

static void lay_out(const struct grid *grid, const struct screen *screen, struct layout *ret)
{
	struct layout natural;

	for (size_t i = 0; i < grid->count; i++)
		ret->width[i] = 0;
	for (size_t i = 0; i < grid->cells; i++) {
		size_t width = grid->cell[i] ? grid_width(grid->cell[i]) : 0;

		if (width > ret->width[i % grid->count])
			ret->width[i % grid->count] = width;
	}
	/* A column in which every cell is empty is not shown, if it can be left out. */
	for (size_t i = 0; i < grid->count; i++) {
		const char *alone = grid->columns[i].alone;
		size_t heading = grid_width(alone ? alone : grid->columns[i].heading);

		if (ret->width[i] < heading && (ret->width[i] || !grid->columns[i].may_go))
			ret->width[i] = heading;
	}
	natural = *ret;
	if (screen->width) {
		fit(grid, ret, screen->width);
		widen(grid, ret, &natural, screen->width);
	}
}

void grid_begin(FILE *out, const struct screen *screen, enum grid_style style)
{
	static const char *const codes[] = {
		[GRID_PLAIN] = "",	 [GRID_GOOD] = "\033[32m", [GRID_WARM] = "\033[33m",
		[GRID_BAD] = "\033[31m", [GRID_DIM] = "\033[2m",   [GRID_HEAD] = "\033[1m",
	};

	if (screen->marked && style != GRID_PLAIN)
		fputc(GRID_MARK + (int)style, out);
	else if (screen->colour)
		fputs(codes[style], out);
}

void grid_end(FILE *out, const struct screen *screen, enum grid_style style)
{
	if (screen->marked && style != GRID_PLAIN)
		fputc(GRID_MARK, out);
	else if (screen->colour && style != GRID_PLAIN)
		fputs("\033[0m", out);
}

/* Writes as much as there is room for. Returns its width. */
static size_t put_cut(FILE *out, const struct screen *screen, const char *text, size_t room)
{
	bool cut = grid_width(text) > room;
	size_t width = 0, columns;

	while (*text) {
		size_t size = step(text, &columns);

		if (width + columns + (cut ? 1 : 0) > room)
			break;
		fwrite(text, 1, size, out);
		width += columns;
		text += size;
	}
	if (cut && room)
		fputs(ellipsis(screen), out);
	return width + (cut && room ? 1 : 0);
}

void grid_field(FILE *out, const struct screen *screen, const char *text, size_t columns)
{
	size_t width = put_cut(out, screen, text, columns);

	fprintf(out, "%*s", (int)(columns - width), "");
}

struct line {
	FILE *out;
	const struct screen *screen;
	size_t blanks; /* owed: none is left at the end of a line */
};

static void blank(struct line *line, size_t count)
{
	line->blanks += count;
}

static void put_cell(struct line *line, const struct grid_column *column, size_t width,
		     const char *text, enum grid_style style)
{
	size_t wide = grid_width(text);

	if (wide > width)
		wide = width;
	if (column->right)
		blank(line, width - wide);
	if (*text) {
		fprintf(line->out, "%*s", (int)line->blanks, "");
		line->blanks = 0;
		grid_begin(line->out, line->screen, style);
		wide = put_cut(line->out, line->screen, text, width);
		grid_end(line->out, line->screen, style);
	}
	if (!column->right)
		blank(line, width - wide);
}

/* Fills lines with words; a word that is longer than a line is cut. */
static void put_wrapped(FILE *out, const struct screen *screen, enum grid_style style,
			const char *text, size_t indent)
{
	size_t room = screen->width > indent ? screen->width - indent : SIZE_MAX, column = 0;

	fprintf(out, "%*s", (int)indent, "");
	grid_begin(out, screen, style);
	while (*text) {
		size_t size = strcspn(text, " ");
		char word[512];

		snprintf(word, sizeof(word), "%.*s",
			 (int)(size < sizeof(word) ? size : sizeof(word) - 1), text);
		if (column && column + 1 + grid_width(word) > room) {
			grid_end(out, screen, style);
			fprintf(out, "\n%*s", (int)indent, "");
			grid_begin(out, screen, style);
			column = 0;
		}
		column += (size_t)fprintf(out, "%s", column ? " " : "");
		column += put_cut(out, screen, word, room);
		text += size;
		text += strspn(text, " ");
	}
	grid_end(out, screen, style);
	fputc('\n', out);
}

/* The cell at that place; row 0 is the heading. */
static const char *text_at(const struct grid *grid, const struct layout *layout, size_t row,
			   size_t column)
{
	size_t at = (row - 1) * grid->count + column;

	if (!row)
		return column && !layout->width[column - 1] && grid->columns[column].alone
			       ? grid->columns[column].alone
			       : grid->columns[column].heading;
	return at < grid->cells && grid->cell[at] ? grid->cell[at] : "";
}

static enum grid_style style_at(const struct grid *grid, size_t row, size_t column)
{
	size_t at = (row - 1) * grid->count + column;

	return !row ? GRID_HEAD : at < grid->cells ? grid->style[at] : GRID_PLAIN;
}

/* The cells that should be read to their end, and were cut. */
static void put_whole(const struct grid *grid, const struct layout *layout, size_t row, FILE *out,
		      const struct screen *screen)
{
	for (size_t i = 0; i < grid->count; i++) {
		const char *text = text_at(grid, layout, row, i);

		if (row && grid->columns[i].whole && grid_width(text) > layout->width[i])
			put_wrapped(out, screen, style_at(grid, row, i), text, INDENT);
	}
}

void grid_print(const struct grid *grid, FILE *out, const struct screen *screen)
{
	struct line line = {out, screen, 0};
	struct layout layout;

	if (!grid->count)
		return;
	lay_out(grid, screen, &layout);
	for (size_t row = 0; row * grid->count <= grid->cells; row++) {
		bool any = false;

		for (size_t i = 0; i < grid->count; i++) {
			if (!layout.width[i])
				continue;
			if (any)
				blank(&line, GAP);
			any = true;
			put_cell(&line, &grid->columns[i], layout.width[i],
				 text_at(grid, &layout, row, i), style_at(grid, row, i));
		}
		fputc('\n', out);
		line.blanks = 0;
		put_whole(grid, &layout, row, out, screen);
	}
}

void grid_line(FILE *out, const struct screen *screen, enum grid_style style, const char *text)
{
	put_wrapped(out, screen, style, text, 0);
}

/* The bytes that fit on a line, without the blank after them; at least one word, though it does not
 * fit. */
static size_t fit_words(const char *text, size_t room)
{
	size_t column = 0, fits = 0;

	for (size_t at = 0; text[at];) {
		size_t columns, size = step(text + at, &columns);

		if (text[at] == ' ')
			fits = at;
		if ((column += columns) > room)
			return fits ? fits : strcspn(text, " ");
		at += size;
	}
	return strlen(text);
}

unsigned grid_lines(FILE *out, const struct screen *screen, enum grid_style style, const char *text,
		    unsigned most)
{
	unsigned lines = 0;

	while (*text && lines < most) {
		bool last = ++lines == most;
		size_t size = last ? strlen(text) : fit_words(text, screen->width);
		owned(free) char *line = strndup(text, size);

		grid_begin(out, screen, style);
		if (line)
			(void)put_cut(out, screen, line, screen->width);
		grid_end(out, screen, style);
		fputc('\n', out);
		text += size;
		text += strspn(text, " ");
	}
	return lines;
}

struct grid_bar grid_bar(const struct screen *screen, double part)
{
	static const char *const plain[] = {"", "-", "-", "-", "-", "-", "-", "-", "#"};
	static const char *const fine[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"};
	const char *const *eighths = screen->ascii ? plain : fine;
	unsigned left = part <= 0 ? 0 : part >= 1 ? GRID_BAR * 8 : (unsigned)(part * GRID_BAR * 8);
	struct grid_bar bar;
	char *at = bar.text;

	if (!left && part > 0)
		left = 1; /* never an empty bar for a little */
	for (unsigned i = 0; i < GRID_BAR; i++) {
		unsigned here = left > 8 ? 8 : left;

		at = stpcpy(at, here ? eighths[here] : screen->ascii ? "." : "░");
		left -= here;
	}
	return bar;
}
