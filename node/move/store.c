/* SPDX-License-Identifier: Apache-2.0 */
#include "node/move/store.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/least.h"
#include "node/move/store_file.h"
#include "node/move/store_work.h"
#include "node/move/store_worker.h"

/* ---- segments -------------------------------------------------------------------------------- */

static struct store_segment *insert(struct store *store, struct list *before, uint64_t offset,
				    uint64_t bytes)
{
	struct store_segment *segment = calloc(1, sizeof(*segment));

	if (!segment)
		return NULL;
	segment->store = store;
	segment->offset = offset;
	segment->bytes = bytes;
	list_append(before, &segment->link);
	store->used += bytes;
	return segment;
}

/* Finds the first gap for so many bytes, and the segment behind it. False: none is large enough. */
static bool find_place(struct store *store, uint64_t bytes, uint64_t *ret_offset,
		       struct list **ret_before)
{
	uint64_t offset = 0;

	list_for_each(link, &store->segments)
	{
		const struct store_segment *s = list_entry(link, struct store_segment, link);

		if (s->offset - offset >= bytes) {
			*ret_offset = offset;
			*ret_before = link;
			return true;
		}
		offset = s->offset + s->bytes;
	}
	*ret_offset = offset;
	*ret_before = &store->segments;
	return store->size - offset >= bytes;
}

int store_take(struct store *store, struct store_part *part, uint64_t bytes,
	       void (*ready)(struct store_segment *segment, int error),
	       struct store_segment **ret_segment)
{
	struct stores *s = store->stores;
	struct store_segment *segment;
	struct list *before;
	uint64_t offset;

	if (!bytes || store->closing)
		return -EINVAL;
	if (store_is_held(store))
		return -EBUSY;
	if (bytes > store->size - store->used)
		return STORE_QUOTA;
	bytes = (bytes + STORE_GRAIN - 1) / STORE_GRAIN * STORE_GRAIN;
	if (bytes > store->size - store->used || !find_place(store, bytes, &offset, &before))
		return STORE_QUOTA;
	if (bytes > beyond(s->budget_bytes, s->used_bytes) ||
	    bytes > beyond(part->budget_bytes, part->used_bytes))
		return STORE_BUDGET;
	segment = insert(store, before, offset, bytes);
	if (!segment)
		return -ENOMEM;
	segment->part = part;
	stores_count(s, part, bytes);
	segment->ready = ready;
	list_append(&store->jobs, &segment->job);
	store_become_due(store);
	stores_start(s);
	segment->known = true;
	*ret_segment = segment;
	return 0;
}

void store_give_back(struct store_segment *segment)
{
	store_take_back(segment);
	stores_start(segment->store->stores);
}

static void on_freed(struct store_workers *workers)
{
	stores_start(container_of(workers, struct stores, workers));
}

/* ---- stores ---------------------------------------------------------------------------------- */

int stores_init(struct stores *stores, struct loop *loop, uint64_t budget_bytes, uint64_t late_ns,
		void (*cleared)(struct stores *stores))
{
	*stores = (struct stores){.budget_bytes = budget_bytes, .cleared = cleared};
	list_init(&stores->due);
	list_init(&stores->slow);
	list_init(&stores->held);
	list_init(&stores->all);
	return store_workers_init(&stores->workers, loop, late_ns, store_file_work, on_freed);
}

void stores_close(struct stores *stores)
{
	if (!stores->workers.timer.open)
		return;
	list_for_each(link, &stores->all) store_forget(list_entry(link, struct store, all));
	store_workers_close(&stores->workers);
}

static bool are_too_many(const struct stores *stores, uid_t user)
{
	uint32_t all = 0, own = 0;

	list_for_each(link, (struct list *)&stores->held)
	{
		all++;
		own += list_entry(link, struct store, held)->owner.user == user;
	}
	return own >= STORE_HELD_OF_USER || all >= STORE_HELD_MOST;
}

int store_open(struct stores *stores, uint64_t quota_bytes, const struct store_owner *owner,
	       struct store **ret_store)
{
	uint64_t size = quota_bytes / STORE_GRAIN * STORE_GRAIN;
	struct store *store;

	if (!size)
		return -ENOSPC;
	if (are_too_many(stores, owner->user))
		return -EBUSY;
	if (size > INT64_MAX)
		size = INT64_MAX / STORE_GRAIN * STORE_GRAIN;
	store = calloc(1, sizeof(*store));
	if (!store)
		return -ENOMEM;
	*store = (struct store){.stores = stores, .owner = *owner, .size = size};
	store->fd = store_file_make(size);
	if (store->fd < 0) {
		int r = store->fd;

		free(store);
		return r;
	}
	store_work_of(store);
	list_init(&store->segments);
	list_init(&store->jobs);
	list_append(&stores->all, &store->all);
	*ret_store = store;
	return 0;
}

void store_close(struct store *store)
{
	if (!store || store->closing)
		return;
	store->closing = true;
	list_for_each(link, &store->segments)
	{
		struct store_segment *s = list_entry(link, struct store_segment, link);

		if (!s->given_back)
			store_take_back(s);
	}
	store_become_due(store);
	stores_start(store->stores);
}

void store_forget(struct store *store)
{
	if (!store)
		return;
	list_for_each(link, &store->segments)
	{
		struct store_segment *s = list_entry(link, struct store_segment, link);

		list_remove(&s->owned);
		list_remove(&s->job);
		free(s);
	}
	list_remove(&store->due);
	list_remove(&store->slow);
	list_remove(&store->held);
	list_remove(&store->all);
	store_workers_forget(&store->task);
	if (!store->closed)
		store_workers_leave(&store->stores->workers, store->fd);
	free(store);
}

int store_fd(const struct store *store)
{
	return store->fd;
}

uint64_t store_used(const struct store *store)
{
	return store->used;
}

uint64_t store_quota(const struct store *store)
{
	return store->size;
}

bool store_is_held(const struct store *store)
{
	return list_linked(&store->held);
}
