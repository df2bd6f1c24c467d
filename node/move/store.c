/* SPDX-License-Identifier: Apache-2.0 */
#include "node/move/store.h"

#include <inttypes.h>
#include <string.h>

#include "base/least.h"
#include "base/log.h"
#include "node/move/store_file.h"
#include "node/move/store_worker.h"

struct store {
	struct stores *stores;
	struct list segments; /* by offset */
	struct list jobs;     /* segments that take turns, one piece at a time */
	struct list due, slow, held, all;
	struct store_task task;
	struct store_segment *at_work; /* NULL: its file is being closed, or nothing */
	uint64_t bytes;		       /* of the piece at work */
	uint64_t size, used;
	struct store_owner owner;
	int fd;
	bool closing, closed, clear, failing;
};

static void start(struct stores *stores);

/* ---- segments -------------------------------------------------------------------------------- */

static void become_due(struct store *store)
{
	bool ends = store->closing && list_empty(&store->segments);

	if (!store->task.worker && !list_linked(&store->due) && (ends || !list_empty(&store->jobs)))
		list_append(&store->stores->due, &store->due);
}

/* Called when the segment has no pages left. */
static void drop(struct store_segment *segment)
{
	struct store *store = segment->store;

	store->used -= segment->bytes;
	segment->part->leaving_bytes -= segment->bytes;
	stores_uncount(store->stores, segment->part, segment->bytes);
	list_remove(&segment->link);
	list_remove(&segment->job);
	free(segment);
}

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
	become_due(store);
	start(s);
	segment->known = true;
	*ret_segment = segment;
	return 0;
}

/* It is to be cleared, whether it was given out or not. */
static void take_back(struct store_segment *segment)
{
	struct store *store = segment->store;

	segment->given_back = true;
	segment->part->leaving_bytes += segment->bytes;
	segment->part->lost_bytes += store_is_held(store) ? segment->bytes : 0;
	list_remove(&segment->owned);
	/* A segment at work is examined when its current piece is done. */
	if (store->at_work != segment && !list_linked(&segment->job))
		list_append(&store->jobs, &segment->job);
	become_due(store);
}

void store_give_back(struct store_segment *segment)
{
	take_back(segment);
	start(segment->store->stores);
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static uint64_t piece(uint64_t left)
{
	return left < STORE_PIECE ? left : STORE_PIECE;
}

static void fail(struct store_segment *segment, int error)
{
	take_back(segment);
	segment->ready(segment, error);
}

/* Who is refused asks again twice a second, until there is memory: it is said once. */
static void say_failed(struct store *store, const char *event, uint64_t bytes, int error)
{
	if (!store->failing)
		log_error(event, "tenant=%u bytes=%" PRIu64 " reason=%s", store->owner.tenant,
			  bytes, log_text(strerror(-error)).text);
	store->failing = true;
}

static void finish_prepare(struct store *store, struct store_segment *segment, int error)
{
	/* A piece that failed may have some pages. */
	segment->done += store->bytes;
	if (segment->given_back || (error == 0 && segment->done < segment->bytes)) {
		list_append(&store->jobs, &segment->job);
		return;
	}
	segment->prepared = true;
	if (error == 0) {
		store->failing = false;
		segment->ready(segment, 0);
		return;
	}
	say_failed(store, "store.failed", segment->bytes, error);
	fail(segment, error);
}

static void finish_clear(struct store *store, struct store_segment *segment, int error)
{
	/* The pages go away with the file, and nobody gets them unpunched. */
	if (error < 0)
		say_failed(store, "store.unpunched", store->bytes, error);
	segment->done -= store->bytes;
	if (segment->done) {
		list_append(&store->jobs, &segment->job);
		return;
	}
	drop(segment);
	store->stores->cleared(store->stores);
}

/* Nobody knows when its worker comes back; false: it has. */
static void set_held(struct store *store, bool held)
{
	if (held)
		list_append(&store->stores->held, &store->held);
	else
		list_remove(&store->held);
	list_for_each(link, &store->segments)
	{
		struct store_segment *s = list_entry(link, struct store_segment, link);
		uint64_t lost = s->given_back ? s->bytes : 0;

		s->part->lost_bytes =
			held ? s->part->lost_bytes + lost : s->part->lost_bytes - lost;
	}
}

static void log_of(const struct store *store, const char *event)
{
	log_warning(event, "tenant=%u user=%u bytes=%" PRIu64, store->owner.tenant,
		    (unsigned)store->owner.user, store->used);
}

static void finished(struct store_task *task, int error)
{
	struct store *store = container_of(task, struct store, task);
	struct store_segment *segment = take(store->at_work);

	list_remove(&store->slow);
	if (list_linked(&store->held)) {
		set_held(store, false);
		log_of(store, "store.released");
	}
	if (store->closed) {
		list_remove(&store->all);
		free(store);
		return;
	}
	if (store->clear)
		finish_clear(store, segment, error);
	else
		finish_prepare(store, segment, error);
	become_due(store);
}

static void slow(struct store_task *task)
{
	struct store *store = container_of(task, struct store, task);

	list_append(&store->stores->slow, &store->slow);
}

/* Asks that wait for it are refused. */
static void late(struct store_task *task)
{
	struct store *store = container_of(task, struct store, task);

	if (store->closed)
		return;
	set_held(store, true);
	log_of(store, "store.held");
	list_for_each(link, &store->segments)
	{
		struct store_segment *s = list_entry(link, struct store_segment, link);

		if (!s->prepared && !s->given_back)
			fail(s, -EBUSY);
	}
}

/* The next piece of the store; false: it has only segments without pages, which are gone now. */
static bool choose(struct store *store, struct store_piece *ret_piece)
{
	struct stores *s = store->stores;

	while (!list_empty(&store->jobs)) {
		struct store_segment *segment =
			list_entry(store->jobs.next, struct store_segment, job);

		if (segment->given_back && !segment->done) {
			drop(segment);
			s->cleared(s);
			continue;
		}
		store->at_work = segment;
		store->clear = segment->given_back;
		/* Clears from the end. */
		store->bytes = piece(store->clear ? segment->done : segment->bytes - segment->done);
		*ret_piece = (struct store_piece){store->clear ? STORE_PUNCH : STORE_PREPARE,
						  segment->offset + segment->done -
							  (store->clear ? store->bytes : 0),
						  store->bytes};
		return true;
	}
	store->closed = store->closing && list_empty(&store->segments);
	*ret_piece = (struct store_piece){.verb = STORE_CLOSE};
	return store->closed;
}

/* False: no worker is free. */
static bool begin(struct store *store)
{
	struct stores *s = store->stores;
	struct store_piece next;
	int r;

	if (!choose(store, &next))
		return true;
	/* Whoever heard that segments were cleared may have asked for more of this store. */
	list_remove(&store->due);
	if (store->at_work)
		list_remove(&store->at_work->job);
	r = store_workers_begin(&s->workers, &store->task, store->fd, &next);
	if (r == 0) {
		/* Its worker is the last that has it. */
		if (store->closed)
			close(store->fd);
		return true;
	}
	/* A caller that is taking it right now hears of the failure at the next try. */
	if (store->at_work && !store->clear && r != -EAGAIN && store->at_work->known) {
		finish_prepare(store, take(store->at_work), r);
		become_due(store);
		return true;
	}
	if (store->at_work)
		list_prepend(&store->jobs, &take(store->at_work)->job);
	store->closed = false;
	list_prepend(&s->due, &store->due);
	return false;
}

/* A slow store takes no place from others, but it takes a process, so a user's are bounded. */
static bool has_many_slow(const struct stores *s, uid_t user)
{
	uint32_t own = 0;

	list_for_each(link, (struct list *)&s->slow)
	{
		const struct store *store = list_entry(link, struct store, slow);

		own += store->owner.user == user && !list_linked(&store->held);
	}
	return own >= STORE_SLOW_OF_USER;
}

/* The first in turn whose user has not too many slow ones. */
static struct store *next_due(struct stores *s)
{
	list_for_each(link, &s->due)
	{
		struct store *store = list_entry(link, struct store, due);

		if (!has_many_slow(s, store->owner.user))
			return store;
	}
	return NULL;
}

static void start(struct stores *s)
{
	struct store *store;
	bool free = true;

	/* A function that is called meanwhile may ask for more. */
	if (s->starting)
		return;
	s->starting = true;
	while (free && (store = next_due(s))) {
		list_remove(&store->due);
		free = begin(store);
	}
	s->starting = false;
}

static void on_freed(struct store_workers *workers)
{
	start(container_of(workers, struct stores, workers));
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
	store->task.finished = finished;
	store->task.slow = slow;
	store->task.late = late;
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
			take_back(s);
	}
	become_due(store);
	start(store->stores);
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
