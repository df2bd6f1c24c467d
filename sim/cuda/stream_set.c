/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A context's streams as a whole: their making and end, the default streams, waiting for all.
 */
#include "sim/cuda/stream_set.h"

#include <sched.h>

#include "sim/cuda/capture.h"
#include "sim/cuda/context.h"
#include "sim/cuda/handle.h"
#include "sim/cuda/stream_core.h"

/* All sets, so that a thread that ends can close its default streams. `thread_key` is there only
 * for its destructor: pthread calls it at the end of each thread that has had such a stream. */
static struct {
	pthread_once_t once;
	pthread_mutex_t lock;
	struct list sets;
	pthread_key_t thread_key;
	uint64_t last_id;
} registry = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER};

/* Its address names the thread; its content remembers the last look-up. */
static __thread struct {
	uint64_t set_id;
	struct CUstream_st *stream;
} my_stream;

/* A thread's default streams end with it; their pending work is done. */
static void close_thread(void *thread)
{
	for (;;) {
		struct CUstream_st *found = NULL;

		pthread_mutex_lock(&registry.lock);
		list_for_each(at, &registry.sets)
		{
			struct stream_set *set = list_entry(at, struct stream_set, link);

			pthread_mutex_lock(&set->lock);
			list_for_each(link, &set->streams)
			{
				struct CUstream_st *stream =
					list_entry(link, struct CUstream_st, link);

				if (stream->thread != thread)
					continue;
				stream->thread = NULL;
				found = stream_ref(stream);
				break;
			}
			pthread_mutex_unlock(&set->lock);
			if (found)
				break;
		}
		pthread_mutex_unlock(&registry.lock);
		if (!found)
			return;
		capture_abandon(found);
		stream_close(found);
		stream_unref(found);
	}
}

static void start_registry(void)
{
	list_init(&registry.sets);
	pthread_key_create(&registry.thread_key, close_thread);
}

struct stream_set *stream_set_new(CUcontext context)
{
	struct stream_set *set = calloc(1, sizeof(*set));

	if (!set)
		return NULL;
	pthread_once(&registry.once, start_registry);
	set->context = context;
	atomic_init(&set->refs, 1);
	pthread_mutex_init(&set->lock, NULL);
	pthread_cond_init(&set->ended, NULL);
	list_init(&set->streams);
	list_init(&set->greens);
	pthread_mutex_lock(&registry.lock);
	set->id = ++registry.last_id;
	list_append(&registry.sets, &set->link);
	pthread_mutex_unlock(&registry.lock);
	return set;
}

/* Any stream that is not closed yet, as a new reference. */
static struct CUstream_st *pick_open(struct stream_set *set)
{
	struct CUstream_st *found = NULL;

	pthread_mutex_lock(&set->lock);
	list_for_each(link, &set->streams)
	{
		struct CUstream_st *stream = list_entry(link, struct CUstream_st, link);

		if (!found && !atomic_load(&stream->closed)) {
			found = stream_ref(stream);
			stream->thread = NULL;
		}
	}
	pthread_mutex_unlock(&set->lock);
	return found;
}

static void close_default(struct CUstream_st *stream)
{
	if (!stream)
		return;
	capture_abandon(stream);
	stream_close(stream);
}

void stream_set_retire(struct stream_set *set)
{
	struct CUstream_st *legacy, *tail;

	pthread_mutex_lock(&set->lock);
	set->retired = true;
	legacy = take(set->legacy);
	tail = take(set->tail);
	pthread_mutex_unlock(&set->lock);
	close_default(legacy);
	close_default(tail);
}

static bool is_left(struct stream_set *set)
{
	bool left;

	pthread_mutex_lock(&set->lock);
	left = set->retired;
	/* The gate does not count: it only holds back new work. */
	list_for_each(link, &set->streams) left &=
		list_entry(link, struct CUstream_st, link) == atomic_load(&set->gate);
	pthread_mutex_unlock(&set->lock);
	return left;
}

/* Takes a green context's set out of the list (with `left_only`: one that is retired and has no
 * streams). NULL: there are none. */
static struct stream_set *pick_green(struct stream_set *set, bool left_only)
{
	struct stream_set *picked = NULL;

	pthread_mutex_lock(&set->lock);
	list_for_each(link, &set->greens)
	{
		struct stream_set *green = list_entry(link, struct stream_set, of_greens);

		if (left_only && !is_left(green))
			continue;
		list_remove(link);
		picked = green;
		break;
	}
	pthread_mutex_unlock(&set->lock);
	return picked;
}

static void end_set(struct stream_set *set)
{
	struct CUstream_st *stream;

	/* Out of the list first: from here on no thread's end closes a stream of this set. */
	pthread_mutex_lock(&registry.lock);
	list_remove(&set->link);
	pthread_mutex_unlock(&registry.lock);
	atomic_store(&set->ending, true);
	while ((stream = pick_open(set))) {
		capture_abandon(stream);
		handle_remove(HANDLE_STREAM, stream);
		stream_close(stream);
		stream_unref(stream);
	}
	pthread_mutex_lock(&set->lock);
	while (set->workers)
		pthread_cond_wait(&set->ended, &set->lock);
	pthread_mutex_unlock(&set->lock);
	stream_set_unref(set);
}

void stream_set_free(struct stream_set *set)
{
	struct stream_set *green;

	if (!set)
		return;
	while ((green = pick_green(set, false)))
		end_set(green);
	end_set(set);
}

struct stream_set *stream_set_new_green(CUcontext context, CUgreenCtx green)
{
	struct stream_set *set = stream_set_new(context), *own = context->streams, *left;

	while ((left = pick_green(own, true)))
		end_set(left);
	if (!set)
		return NULL;
	set->green = green;
	pthread_mutex_lock(&own->lock);
	list_append(&own->greens, &set->of_greens);
	pthread_mutex_unlock(&own->lock);
	return set;
}

/* The set's stream of that kind, at *place; made at first use. */
static struct CUstream_st *fixed_stream(struct stream_set *set, struct CUstream_st **place,
					enum stream_kind kind)
{
	struct CUstream_st *stream, *made;

	pthread_mutex_lock(&set->lock);
	stream = *place;
	pthread_mutex_unlock(&set->lock);
	if (stream)
		return stream;
	made = stream_new(set, kind, 0);
	if (!made)
		return NULL;
	pthread_mutex_lock(&set->lock);
	if (!*place) {
		*place = made;
		made = NULL;
	}
	stream = *place;
	pthread_mutex_unlock(&set->lock);
	if (made)
		stream_close(made);
	return stream;
}

struct CUstream_st *stream_legacy(struct stream_set *set)
{
	return fixed_stream(set, &set->legacy, STREAM_LEGACY);
}

struct CUstream_st *stream_tail(struct stream_set *set)
{
	return fixed_stream(set, &set->tail, STREAM_TAIL);
}

struct CUstream_st *stream_gate(struct stream_set *set)
{
	struct CUstream_st *gate = atomic_load(&set->gate), *made;

	if (gate)
		return gate;
	made = stream_new(set, STREAM_GATE, 0);
	if (!made)
		return NULL;
	if (atomic_compare_exchange_strong(&set->gate, &gate, made))
		return made;
	stream_close(made);
	return gate;
}

struct CUstream_st *stream_of_thread(struct stream_set *set)
{
	struct CUstream_st *stream = NULL;

	if (my_stream.set_id == set->id)
		return my_stream.stream;
	pthread_mutex_lock(&set->lock);
	list_for_each(link, &set->streams)
	{
		struct CUstream_st *other = list_entry(link, struct CUstream_st, link);

		if (other->thread == &my_stream)
			stream = other;
	}
	pthread_mutex_unlock(&set->lock);
	if (!stream) {
		stream = stream_new(set, STREAM_THREAD, 0);
		if (!stream)
			return NULL;
		pthread_mutex_lock(&set->lock);
		stream->thread = &my_stream;
		pthread_mutex_unlock(&set->lock);
		pthread_setspecific(registry.thread_key, &my_stream);
	}
	my_stream.set_id = set->id;
	my_stream.stream = stream;
	return stream;
}

/* The ends of the streams with pending work; owned. NULL: no memory. */
static struct stream_mark *all_ends(struct stream_set *set, bool blocking_only, size_t *ret_n)
{
	struct stream_mark *marks;
	size_t n = 0;

	pthread_mutex_lock(&set->lock);
	list_for_each(link, &set->streams) n++;
	marks = calloc(n ? n : 1, sizeof(*marks));
	n = 0;
	list_for_each(link, &set->streams)
	{
		struct CUstream_st *stream = list_entry(link, struct CUstream_st, link);

		if (marks && stream->kind != STREAM_GATE &&
		    !(blocking_only && stream_is_apart(stream)))
			stream_end(stream, &marks[n++]);
	}
	pthread_mutex_unlock(&set->lock);
	*ret_n = n;
	return marks;
}

static void wait_all(struct stream_set *set, bool blocking_only)
{
	struct stream_mark *marks;
	size_t n;

	while (!(marks = all_ends(set, blocking_only, &n)))
		sched_yield(); /* without memory we can only try again */
	for (size_t i = 0; i < n; i++) {
		best_effort(stream_mark_wait(&marks[i], NULL));
		stream_mark_drop(&marks[i]);
	}
	free(marks);
}

/* The set of a green context that comes after that id, with a reference of its own; NULL: none. */
static struct stream_set *green_after(struct stream_set *set, uint64_t id)
{
	struct stream_set *found = NULL;

	pthread_mutex_lock(&set->lock);
	list_for_each(link, &set->greens)
	{
		struct stream_set *green = list_entry(link, struct stream_set, of_greens);

		if (green->id > id && (!found || green->id < found->id))
			found = green;
	}
	if (found)
		atomic_fetch_add(&found->refs, 1);
	pthread_mutex_unlock(&set->lock);
	return found;
}

void stream_set_drain(struct stream_set *set)
{
	struct stream_set *green;
	uint64_t last = 0;

	if (!set)
		return;
	wait_all(set, false);
	while ((green = green_after(set, last))) {
		wait_all(green, false);
		last = green->id;
		stream_set_unref(green);
	}
}

void stream_wait_blocking(struct stream_set *set)
{
	wait_all(set, true);
}

CUresult stream_set_synchronize(struct stream_set *set)
{
	CUresult result = capture_forbid_set(set);

	if (result != CUDA_SUCCESS)
		return result;
	stream_set_drain(set);
	return context_error(set->context);
}
