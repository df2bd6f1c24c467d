/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The screen of `mete top`: lines of text with marks for styles (cli/grid.h). Pure; terminal.c
 * shows it.
 */
#pragma once

#include "cli/grid.h"
#include "cli/top/model.h"
#include "cli/top/view.h"

struct page {
	FILE *out;
	struct screen screen; /* marked; both sizes are known */
	const struct model *model;
	const struct view *view;
	struct ps_unit unit;
};

/* How the screen's lines are divided. */
struct page_parts {
	unsigned devices; /* lines of them all */
	unsigned each;	  /* lines of one: 3, 1 */
	unsigned table;	  /* lines of tenants, without the heading */
	unsigned detail;  /* 0: there is no room, or it is not wanted */
};

/* `detail`: whether details of the selected tenant are wanted. */
struct page_parts page_divide(const struct page *page, bool detail);

/* Each writes whole lines, as many as its part has at most. */
void page_head(const struct page *page, double seconds);
/* How many wait and need help; and which of the tenants are shown, if not all are (`parts` NULL: it
 * does not matter). */
void page_status(const struct page *page, const struct page_parts *parts);
void page_devices(const struct page *page, const struct page_parts *parts);
/* Returns the line of the selected tenant, counted from the first that it wrote; -1: there is none.
 */
int page_table(const struct page *page, const struct page_parts *parts);
void page_detail(const struct page *page, const struct page_parts *parts);
void page_help(const struct page *page);

/* A bar with its label at its right end, `width` columns in all. */
void page_bar(const struct page *page, unsigned width, double part, const char *label);
/* The last `count` steps of a track, the newest at the right, one column each, `rows` lines high (1
 * to 8); line 0 is the uppermost. */
void page_spark(const struct page *page, const struct history_track *track, unsigned count,
		unsigned rows, unsigned line);
