/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/view.h"

#include <string.h>

#include "cli/top/view_tree.h"

static const struct {
	const char *name;
	bool greatest;
} sorts[] = {
#define SORT(NAME, name, greatest, value, meaning) {#name, greatest},
#include "cli/top/sorts.def"
#undef SORT
};

const char *view_sort_name(enum view_sort sort)
{
	return sorts[sort].name;
}

int view_sort_find(const char *name, enum view_sort *ret_sort, struct fault *why)
{
	char known[200] = "";
	size_t used = 0;

	for (unsigned i = 0; i < VIEW_SORTS; i++) {
		if (strcmp(name, sorts[i].name) == 0) {
			*ret_sort = i;
			return 0;
		}
		used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s", i ? ", " : "",
					 sorts[i].name);
	}
	return fault_set(why, -EINVAL, "'%.40s': accepted are %s", name, known);
}

static uint64_t sort_value(enum view_sort sort, const struct model_tenant *m)
{
	const struct wire_tenant_row *t = m->row;

	switch (sort) {
#define SORT(NAME, name, greatest, value, meaning)                                                 \
	case VIEW_SORT_##NAME:                                                                     \
		return (uint64_t)(value);
#include "cli/top/sorts.def"
#undef SORT
	case VIEW_SORTS:
		break;
	}
	return 0;
}

/* Of equals, the older one comes first, whatever the direction, so that lines keep their places. */
static int compare(const void *a, const void *b, void *arg)
{
	const struct model_tenant *one = *(const struct model_tenant *const *)a;
	const struct model_tenant *other = *(const struct model_tenant *const *)b;
	const struct view *view = arg;
	uint64_t first = sort_value(view->sort, one), second = sort_value(view->sort, other);

	if (first != second)
		return (first < second) != (sorts[view->sort].greatest != view->reverse) ? -1 : 1;
	return one < other ? -1 : one > other;
}

int view_add(struct view *view, struct view_line line)
{
	size_t room = view->room ? 2 * view->room : 64;
	struct view_line *grown;

	if (view->lines == view->room) {
		grown = reallocarray(view->line, room, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		view->line = grown;
		view->room = room;
	}
	view->line[view->lines++] = line;
	return 0;
}

static int add_sorted(struct view *view, const struct model *model)
{
	owned(free) const struct model_tenant **member =
		calloc(model->tenants + 1, sizeof(*member));
	size_t count = 0;

	if (!member)
		return -ENOMEM;
	for (size_t i = 0; i < model->tenants; i++)
		if (ps_filter_tenant(&view->filter, &model->rows, model->tenant[i].row))
			member[count++] = &model->tenant[i];
	qsort_r(member, count, sizeof(*member), compare, view);
	if (view->tree)
		return view_add_tree(view, model, member, count);
	for (size_t i = 0; i < count; i++)
		if (view_add(view, (struct view_line){.tenant = member[i]}) < 0)
			return -ENOMEM;
	return 0;
}

static struct view_choice choice_of(const struct view_line *line)
{
	return (struct view_choice){line->tenant->row->tenant, line->tenant->row->device,
				    line->process ? line->process->pid : 0};
}

/* The line of the chosen process or tenant; of its tenant, if processes are not shown; or the line
 * that took its place. */
static size_t line_of_choice(const struct view *view)
{
	const struct view_choice *wanted = &view->choice;
	size_t of_tenant = view->lines;

	for (size_t i = 0; i < view->lines; i++) {
		struct view_choice here = choice_of(&view->line[i]);

		if (here.tenant != wanted->tenant || here.device != wanted->device)
			continue;
		if (here.pid == wanted->pid)
			return i;
		if (!here.pid)
			of_tenant = i;
	}
	if (of_tenant < view->lines)
		return of_tenant;
	return view->selected < view->lines ? view->selected : view->lines ? view->lines - 1 : 0;
}

static void select_line(struct view *view, size_t line)
{
	view->selected = line;
	if (line < view->lines)
		view->choice = choice_of(&view->line[line]);
}

/* The selected line is among those that are shown, and no room is left empty while there are more.
 */
static void scroll(struct view *view, size_t height)
{
	size_t last = view->lines > height ? view->lines - height : 0;

	if (view->selected < view->first)
		view->first = view->selected;
	if (height && view->selected >= view->first + height)
		view->first = view->selected - height + 1;
	if (view->first > last)
		view->first = last;
}

int view_make(struct view *view, const struct model *model, size_t height, struct fault *why)
{
	view->lines = 0;
	if (add_sorted(view, model) < 0)
		return fault_set(why, -ENOMEM, "out of memory");
	select_line(view, line_of_choice(view));
	scroll(view, height);
	return 0;
}

void view_step(struct view *view, long lines)
{
	size_t up = lines < 0 ? (size_t)-lines : 0, down = lines > 0 ? (size_t)lines : 0;
	size_t last = view->lines ? view->lines - 1 : 0;
	size_t at = view->selected > up ? view->selected - up : 0;

	select_line(view, last - at > down ? at + down : last);
}

const struct view_line *view_selected(const struct view *view)
{
	return view->selected < view->lines ? &view->line[view->selected] : NULL;
}

void view_free(struct view *view)
{
	free(view->line);
}
