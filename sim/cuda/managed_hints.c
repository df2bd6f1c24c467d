/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/managed_hints.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint64_t page_begin(uint64_t offset)
{
	return offset / MANAGED_HINT_PAGE * MANAGED_HINT_PAGE;
}

static uint64_t page_end(uint64_t offset)
{
	return page_begin(offset + MANAGED_HINT_PAGE - 1);
}

/* The one around an offset. */
static size_t index_of(const struct managed_hints *hints, uint64_t offset)
{
	size_t i = 0;

	while (hints->at[i].end <= offset)
		i++;
	return i;
}

/* Room for two more boundaries. */
static int reserve(struct managed_hints *hints, uint64_t area_bytes)
{
	struct managed_hint *at = realloc(hints->at, (hints->n + 3) * sizeof(*at));

	if (!at)
		return -ENOMEM;
	hints->at = at;
	if (!hints->n) {
		memset(at, 0, sizeof(*at));
		at[0].end = page_end(area_bytes);
		hints->n = 1;
	}
	return 0;
}

/* Makes a boundary; there is room for it. */
static void split(struct managed_hints *hints, uint64_t offset)
{
	struct managed_hint *hint;
	size_t i;

	if (offset == 0 || offset >= hints->at[hints->n - 1].end)
		return;
	i = index_of(hints, offset - 1);
	hint = &hints->at[i];
	if (hint->end == offset)
		return;
	memmove(hint + 1, hint, (hints->n - i) * sizeof(*hint));
	hint->end = offset;
	hints->n++;
}

int managed_hints_span(struct managed_hints *hints, uint64_t area_bytes, uint64_t begin,
		       uint64_t end, struct managed_hint **ret_first, size_t *ret_n)
{
	size_t first;

	if (reserve(hints, area_bytes) < 0)
		return -ENOMEM;
	split(hints, page_begin(begin));
	split(hints, page_end(end));
	first = index_of(hints, begin);
	*ret_first = &hints->at[first];
	*ret_n = index_of(hints, end - 1) - first + 1;
	return 0;
}

static void agree(CUmemLocation *common, const CUmemLocation *other)
{
	if (common->type != other->type || common->id != other->id)
		memset(common, 0, sizeof(*common));
}

struct managed_hint managed_hints_common(const struct managed_hints *hints, uint64_t begin,
					 uint64_t end)
{
	struct managed_hint common;
	size_t i;

	memset(&common, 0, sizeof(common));
	if (!hints->n)
		return common;
	i = index_of(hints, begin);
	common = hints->at[i];
	while (hints->at[i].end < end) {
		const struct managed_hint *next = &hints->at[++i];

		common.read_mostly &= next->read_mostly;
		common.accessed_by &= next->accessed_by;
		agree(&common.preferred, &next->preferred);
		agree(&common.prefetched, &next->prefetched);
	}
	return common;
}

void managed_hints_free(struct managed_hints *hints)
{
	free(hints->at);
	memset(hints, 0, sizeof(*hints));
}
