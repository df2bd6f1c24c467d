/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table for people: columns as wide as their content, or, on a terminal that is too narrow for
 * that, as the columns' ranks say. Knows nothing about the content.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/macros.h"

enum { GRID_COLUMNS = 16 };

enum grid_style { GRID_PLAIN, GRID_GOOD, GRID_WARM, GRID_BAD, GRID_DIM, GRID_HEAD };

struct grid_column {
	const char *heading;
	bool right;	/* numbers */
	bool may_go;	/* it can be left out */
	unsigned least; /* it can be cut to this width, marked with an ellipsis; 0: never */
	unsigned rank;	/* if room is missing, the highest rank is cut, and left out, first */
	unsigned soft,
		soft_rank; /* before that it is cut to this width, when it is that rank's turn */
	bool whole;	   /* a text that was cut is shown in full below the line */
	const char *alone; /* its heading where the column before it, which has one for both, is
			      left out */
};

/* Where it is shown. */
struct screen {
	unsigned width, height; /* 0: without bound */
	bool colour;
	bool ascii;  /* it shows no other characters */
	bool marked; /* a style begins with the character GRID_MARK + it, and ends with GRID_MARK;
			no colours */
};

/* No text that is plain (base/text.h) has such characters. */
enum { GRID_MARK = 1 };

struct grid {
	const struct grid_column *columns; /* borrowed */
	size_t count;
	char **cell; /* row by row */
	enum grid_style *style;
	size_t cells, room;
};

/* Standard output as it is now: a terminal's size, whether colour is wanted (NO_COLOR), and whether
 * the locale's characters go beyond ASCII. Where no locale is set, they do. */
struct screen screen_now(void);

void grid_init(struct grid *grid, const struct grid_column *columns, size_t count);
void grid_done(struct grid *grid);

/* The next cell. Without memory it stays empty. */
void grid_add(struct grid *grid, enum grid_style style, const char *format, ...) printf_like(3, 4);

void grid_print(const struct grid *grid, FILE *out, const struct screen *screen);

/* A sentence of its own in that style, on as many lines as it needs. */
void grid_line(FILE *out, const struct screen *screen, enum grid_style style, const char *text);

/* Likewise, on at most so many lines: the last of them is cut. Returns how many it took. */
unsigned grid_lines(FILE *out, const struct screen *screen, enum grid_style style, const char *text,
		    unsigned most);

/* A style begins, and ends, in the midst of a line. */
void grid_begin(FILE *out, const struct screen *screen, enum grid_style style);
void grid_end(FILE *out, const struct screen *screen, enum grid_style style);

/* The text, cut with an ellipsis to that many columns, which are filled up with blanks. */
void grid_field(FILE *out, const struct screen *screen, const char *text, size_t columns);

/* A bar for a part of a whole, `size` characters wide. */
enum { GRID_BAR = 10 };
struct grid_bar {
	char text[4 * GRID_BAR + 1];
};
struct grid_bar grid_bar(const struct screen *screen, double part);

/* How many columns of a terminal a text takes. */
must_check size_t grid_width(const char *text);

static inline void grid_done_owned(struct grid *grid)
{
	grid_done(grid);
}
