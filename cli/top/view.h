/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which lines the table of `mete top` has, in which order, and which of them is selected. Pure.
 */
#pragma once

#include <stdbool.h>

#include "cli/ps_filter.h"
#include "cli/top/model.h"

enum view_sort {
#define SORT(NAME, name, greatest, value, meaning) VIEW_SORT_##NAME,
#include "cli/top/sorts.def"
#undef SORT
	VIEW_SORTS
};

struct view_line {
	const struct model_tenant *tenant;
	const struct wire_guest_row *process; /* NULL: the tenant itself */
	unsigned depth;			      /* in the tree */
};

/* The selected tenant or process, whatever line it is on. pid 0: the tenant. */
struct view_choice {
	uint32_t tenant, device, pid;
};

struct view {
	enum view_sort sort;
	bool reverse;
	bool tree; /* tenants below those that they are within, and each one's processes */
	struct ps_filter filter;
	struct view_choice choice;
	size_t selected, first; /* the choice's line, and the first that is shown */
	struct view_line *line;
	size_t lines, room;
};

const char *view_sort_name(enum view_sort sort);
/* -EINVAL: there is none of that name; the sentence lists them. */
must_check int view_sort_find(const char *name, enum view_sort *ret_sort, struct fault *why);

/* Makes the lines anew. The choice stays while it exists; otherwise the next line is chosen.
 * `height`: how many lines are shown, the selected one among them. The lines point into the model.
 */
must_check int view_make(struct view *view, const struct model *model, size_t height,
			 struct fault *why);
/* Moves the selection that many lines down (negative: up), as far as there are any. */
void view_step(struct view *view, long lines);
/* NULL: there is no line. */
const struct view_line *view_selected(const struct view *view);
void view_free(struct view *view);
