/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/tally.h"

#include "core/doing.h"
#include "view/why.h"

bool tally_is_shown(const struct page *page, size_t row)
{
	const struct model *model = page->model;

	return ps_filter_tenant(&page->view->filter, &model->rows, model->tenant[row].row);
}

static enum tally_state state_of(const struct wire_tenant_row *t)
{
	switch (t->doing) {
	case DOING_SUSPENDED:
		return TALLY_SUSPENDED;
	case DOING_HANGS:
	case DOING_HALTED:
	case DOING_STOPPED:
		return TALLY_TROUBLE;
	default:
		return why_waits(t) ? TALLY_WAITS : TALLY_WELL;
	}
}

/* The model has the rows of one tenant together. */
static size_t next_tenant(const struct model *model, size_t first)
{
	size_t next = first + 1;

	while (next < model->tenants &&
	       model->tenant[next].row->tenant == model->tenant[first].row->tenant)
		next++;
	return next;
}

enum tally_state tally_tenant(const struct page *page, size_t first, size_t *ret_next)
{
	enum tally_state worst = TALLY_WELL;

	*ret_next = next_tenant(page->model, first);
	for (size_t i = first; i < *ret_next; i++) {
		enum tally_state state = state_of(page->model->tenant[i].row);

		if (state > worst && tally_is_shown(page, i))
			worst = state;
	}
	return worst;
}

size_t tally_tenants(const struct model *model)
{
	size_t count = 0;

	for (size_t first = 0; first < model->tenants; first = next_tenant(model, first))
		count++;
	return count;
}
