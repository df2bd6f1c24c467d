/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/view_tree.h"

struct tree {
	const struct model *model;
	size_t *child; /* of each place in model->tenant, and of none (the last): its first child's
			  place + 1 */
	size_t *next;  /* the next sibling's place + 1 */
	const struct wire_guest_row **guest; /* by tenant and device */
	size_t guests;
};

static void tree_done_owned(struct tree *tree)
{
	free(tree->child);
	free(tree->next);
	free(tree->guest);
}

static int by_tenant(const void *a, const void *b)
{
	const struct wire_guest_row *one = *(const struct wire_guest_row *const *)a;
	const struct wire_guest_row *other = *(const struct wire_guest_row *const *)b;

	if (one->tenant != other->tenant)
		return one->tenant < other->tenant ? -1 : 1;
	if (one->device != other->device)
		return one->device < other->device ? -1 : 1;
	return (one->pid > other->pid) - (one->pid < other->pid);
}

static void gather_guests(struct tree *tree)
{
	const struct ps_rows *rows = &tree->model->rows;

	for (size_t i = 0; i < rows->count; i++)
		if (rows->row[i].code == WIRE_guest_row)
			tree->guest[tree->guests++] = &rows->row[i].guest_row;
	qsort(tree->guest, tree->guests, sizeof(*tree->guest), by_tenant);
}

static int tree_init(struct tree *tree, const struct model *model)
{
	tree->model = model;
	tree->child = calloc(model->tenants + 1, sizeof(*tree->child));
	tree->next = calloc(model->tenants + 1, sizeof(*tree->next));
	tree->guest = calloc(model->rows.count + 1, sizeof(*tree->guest));
	if (!tree->child || !tree->next || !tree->guest)
		return -ENOMEM;
	gather_guests(tree);
	return 0;
}

static size_t first_guest(const struct tree *tree, const struct wire_tenant_row *tenant)
{
	struct wire_guest_row row = {.tenant = tenant->tenant, .device = tenant->device};
	const struct wire_guest_row *key = &row; /* pid 0: before all of its processes */
	size_t first = 0, end = tree->guests;

	while (first < end) {
		size_t middle = first + (end - first) / 2;

		if (by_tenant(&tree->guest[middle], &key) < 0)
			first = middle + 1;
		else
			end = middle;
	}
	return first;
}

static int add_processes(struct view *view, const struct tree *tree,
			 const struct model_tenant *tenant, unsigned depth)
{
	for (size_t i = first_guest(tree, tenant->row); i < tree->guests; i++) {
		const struct wire_guest_row *guest = tree->guest[i];

		if (guest->tenant != tenant->row->tenant || guest->device != tenant->row->device)
			break;
		if (view_add(view, (struct view_line){tenant, guest, depth}) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int add_below(struct view *view, const struct tree *tree, size_t parent, unsigned depth)
{
	for (size_t at = tree->child[parent]; at; at = tree->next[at - 1]) {
		const struct model_tenant *tenant = &tree->model->tenant[at - 1];

		if (view_add(view, (struct view_line){tenant, NULL, depth}) < 0 ||
		    add_processes(view, tree, tenant, depth + 1) < 0 ||
		    add_below(view, tree, at - 1, depth + 1) < 0)
			return -ENOMEM;
	}
	return 0;
}

int view_add_tree(struct view *view, const struct model *model, const struct model_tenant **member,
		  size_t count)
{
	owned(tree_done) struct tree tree = {0};
	owned(free) bool *shown = calloc(model->tenants + 1, sizeof(*shown));
	size_t none = model->tenants;

	if (!shown || tree_init(&tree, model) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		shown[member[i] - model->tenant] = true;
	/* Backwards: each is put before the siblings that follow it. */
	for (size_t i = count; i-- > 0;) {
		const struct wire_tenant_row *row = member[i]->row;
		const struct model_tenant *outer =
			row->outer ? model_tenant(model, row->outer, row->device) : NULL;
		size_t at = (size_t)(member[i] - model->tenant), parent = none;

		if (outer && outer != member[i] && shown[outer - model->tenant])
			parent = (size_t)(outer - model->tenant);
		tree.next[at] = tree.child[parent];
		tree.child[parent] = at + 1;
	}
	return add_below(view, &tree, none, 0);
}
