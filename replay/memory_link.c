/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/memory_link.h"

#include <math.h>

#define FIRST(head) list_entry((head)->next, struct memory_copy, queue)

void memory_link_init(struct memory_link *l, double alone, double both)
{
	*l = (struct memory_link){.alone = alone, .both = both};
	for (int way = 0; way < MEMORY_WAYS; way++)
		list_init(&l->ways[way]);
}

bool memory_link_busy(const struct memory_link *l, enum memory_way way)
{
	return !list_empty(&l->ways[way]);
}

static double rate(const struct memory_link *l)
{
	bool both = memory_link_busy(l, MEMORY_OUT) && memory_link_busy(l, MEMORY_IN);

	return both ? l->both : l->alone;
}

void memory_link_advance(struct memory_link *l, uint64_t now_ns)
{
	double ns = (double)(now_ns - l->now_ns), bytes = ns * rate(l);

	for (int way = 0; way < MEMORY_WAYS; way++) {
		if (!memory_link_busy(l, (enum memory_way)way))
			continue;
		FIRST(&l->ways[way])->left -= bytes;
		l->busy_ns[way] += ns;
	}
	l->now_ns = now_ns;
}

void memory_link_add(struct memory_link *l, enum memory_way way, struct memory_copy *copy,
		     uint64_t bytes)
{
	copy->left = (double)bytes;
	list_append(&l->ways[way], &copy->queue);
}

struct memory_copy *memory_link_done(struct memory_link *l, enum memory_way way)
{
	struct memory_copy *first;

	if (!memory_link_busy(l, way))
		return NULL;
	first = FIRST(&l->ways[way]);
	if (first->left > 0)
		return NULL;
	list_remove(&first->queue);
	return first;
}

uint64_t memory_link_next(const struct memory_link *l)
{
	uint64_t next = UINT64_MAX;

	for (int way = 0; way < MEMORY_WAYS; way++) {
		double left;
		uint64_t at;

		if (!memory_link_busy(l, (enum memory_way)way))
			continue;
		left = FIRST(&l->ways[way])->left;
		at = l->now_ns + (left > 0 ? (uint64_t)ceil(left / rate(l)) : 0);
		next = at < next ? at : next;
	}
	return next;
}
