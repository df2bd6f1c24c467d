/* SPDX-License-Identifier: Apache-2.0 */
#include "node/move/store_work.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

void store_become_due(struct store *store)
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

void store_take_back(struct store_segment *segment)
{
	struct store *store = segment->store;

	segment->given_back = true;
	segment->part->leaving_bytes += segment->bytes;
	segment->part->lost_bytes += list_linked(&store->held) ? segment->bytes : 0;
	list_remove(&segment->owned);
	/* A segment at work is examined when its current piece is done. */
	if (store->at_work != segment && !list_linked(&segment->job))
		list_append(&store->jobs, &segment->job);
	store_become_due(store);
}

static uint64_t piece(uint64_t left)
{
	return left < STORE_PIECE ? left : STORE_PIECE;
}

static void fail(struct store_segment *segment, int error)
{
	store_take_back(segment);
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
	store_become_due(store);
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
		store_become_due(store);
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

void stores_start(struct stores *s)
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

void store_work_of(struct store *store)
{
	store->task.finished = finished;
	store->task.slow = slow;
	store->task.late = late;
}
