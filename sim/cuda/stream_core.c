/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/stream_core.h"

#include <signal.h>
#include <time.h>

#include "sim/machine/clock.h"
#include "sim/cuda/context.h"
#include "sim/cuda/op_run.h"
#include "sim/machine/segment.h"

/* An item of a stream's queue: an op, and the points in other streams after which it comes. */
struct stream_work {
	struct list link;
	struct op op;
	uint64_t sequence;
	uint64_t ready_ns; /* modelled: when it was submitted */
	size_t n_after;
	struct stream_mark after[];
};

static _Atomic uint64_t last_id;

void stream_set_unref(struct stream_set *set)
{
	if (atomic_fetch_sub(&set->refs, 1) != 1)
		return;
	pthread_cond_destroy(&set->ended);
	pthread_mutex_destroy(&set->lock);
	free(set);
}

struct CUstream_st *stream_new(struct stream_set *set, enum stream_kind kind, int priority)
{
	struct CUstream_st *stream = calloc(1, sizeof(*stream));

	if (!stream)
		return NULL;
	stream->kind = kind;
	stream->set = set;
	stream->context = set->context;
	stream->id = atomic_fetch_add(&last_id, 1) + 1;
	stream->priority = priority;
	stream->attributes.policy = CU_SYNC_POLICY_AUTO;
	stream->attributes.domain_map.remote = 1;
	atomic_init(&stream->refs, 2); /* the creator's and the list's */
	pthread_mutex_init(&stream->lock, NULL);
	pthread_cond_init(&stream->work, NULL);
	pthread_cond_init(&stream->done, NULL);
	list_init(&stream->queue);
	atomic_fetch_add(&set->refs, 1);
	pthread_mutex_lock(&set->lock);
	list_append(&set->streams, &stream->link);
	pthread_mutex_unlock(&set->lock);
	return stream;
}

struct CUstream_st *stream_ref(struct CUstream_st *stream)
{
	atomic_fetch_add(&stream->refs, 1);
	return stream;
}

void stream_unref(struct CUstream_st *stream)
{
	if (!stream || atomic_fetch_sub(&stream->refs, 1) != 1)
		return;
	stream_set_unref(stream->set);
	pthread_cond_destroy(&stream->done);
	pthread_cond_destroy(&stream->work);
	pthread_mutex_destroy(&stream->lock);
	free(stream);
}

static void unlist(struct CUstream_st *stream, unsigned workers)
{
	struct stream_set *set = stream->set;

	pthread_mutex_lock(&set->lock);
	list_remove(&stream->link);
	set->workers -= workers;
	pthread_cond_broadcast(&set->ended);
	pthread_mutex_unlock(&set->lock);
	stream_unref(stream);
}

void stream_close(struct CUstream_st *stream)
{
	bool working;

	if (atomic_exchange(&stream->closed, true))
		return;
	pthread_mutex_lock(&stream->lock);
	stream->closing = true;
	working = stream->working;
	pthread_cond_broadcast(&stream->work);
	pthread_mutex_unlock(&stream->lock);
	if (!working)
		unlist(stream, 0);
	stream_unref(stream);
}

/* ---- marks --------------------------------------------------------------------------------- */

static void mark_set(struct stream_mark *mark, struct CUstream_st *stream, uint64_t sequence)
{
	mark->stream = stream_ref(stream);
	mark->sequence = sequence;
}

bool stream_mark_done(const struct stream_mark *mark)
{
	return !mark->stream || atomic_load_explicit(&mark->stream->completed,
						     memory_order_acquire) >= mark->sequence;
}

void stream_mark_drop(struct stream_mark *mark)
{
	stream_unref(take(mark->stream));
}

void stream_end(struct CUstream_st *stream, struct stream_mark *ret_mark)
{
	*ret_mark = (struct stream_mark){0};
	pthread_mutex_lock(&stream->lock);
	if (stream->completed < stream->submitted)
		mark_set(ret_mark, stream, stream->submitted);
	pthread_mutex_unlock(&stream->lock);
}

void stream_wait_done(struct CUstream_st *stream, const struct stream_set *waiter)
{
	struct timespec until;

	if (!waiter || waiter == stream->set) {
		pthread_cond_wait(&stream->done, &stream->lock);
		return;
	}
	/* Nothing wakes this thread when its own context ends, so it checks by itself. */
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += 20 * 1000 * 1000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	pthread_cond_timedwait(&stream->done, &stream->lock, &until);
}

bool stream_mark_wait(const struct stream_mark *mark, const struct stream_set *waiter)
{
	struct CUstream_st *stream = mark->stream;

	if (stream_mark_done(mark))
		return true;
	pthread_mutex_lock(&stream->lock);
	while (stream->completed < mark->sequence) {
		if (waiter && waiter != stream->set && atomic_load(&waiter->ending))
			break;
		stream_wait_done(stream, waiter);
	}
	pthread_mutex_unlock(&stream->lock);
	return stream_mark_done(mark);
}

/* ---- the worker ---------------------------------------------------------------------------- */

static struct stream_work *next_work(struct CUstream_st *stream)
{
	struct stream_work *work = NULL;

	pthread_mutex_lock(&stream->lock);
	while (list_empty(&stream->queue) && !stream->closing)
		pthread_cond_wait(&stream->work, &stream->lock);
	if (!list_empty(&stream->queue)) {
		work = list_entry(stream->queue.next, struct stream_work, link);
		list_remove(&work->link);
	}
	pthread_mutex_unlock(&stream->lock);
	return work;
}

static void free_work(struct stream_work *work)
{
	for (size_t i = 0; i < work->n_after; i++)
		stream_mark_drop(&work->after[i]);
	op_done(&work->op);
	free(work);
}

/* The earliest beginning, in modelled time: when everything that comes before it has ended. */
static uint64_t await_others(struct CUstream_st *stream, struct stream_work *work)
{
	uint64_t time_ns = atomic_load(&stream->time_ns);

	if (time_ns < work->ready_ns)
		time_ns = work->ready_ns;
	for (size_t i = 0; i < work->n_after; i++) {
		uint64_t other_ns;

		best_effort(stream_mark_wait(&work->after[i], stream->set));
		other_ns = atomic_load(&work->after[i].stream->time_ns);
		if (time_ns < other_ns)
			time_ns = other_ns;
	}
	return time_ns;
}

static void *stream_worker(void *argument)
{
	struct CUstream_st *stream = argument;
	struct stream_work *work;

	segment_deaf_thread();
	while ((work = next_work(stream))) {
		uint64_t sequence = work->sequence;
		uint64_t time_ns = await_others(stream, work);

		op_run(&work->op, stream, &time_ns);
		atomic_store(&stream->time_ns, time_ns);
		/* Before anyone can see that it is done: a caller may free what a drop reads. */
		free_work(work);
		pthread_mutex_lock(&stream->lock);
		atomic_store_explicit(&stream->completed, sequence, memory_order_release);
		pthread_cond_broadcast(&stream->done);
		pthread_mutex_unlock(&stream->lock);
	}
	unlist(stream, 1);
	return NULL;
}

/* Under the stream's lock, and the set's. */
static int start_worker(struct CUstream_st *stream)
{
	sigset_t all, before;
	pthread_attr_t attributes;
	pthread_t thread;
	int error;

	if (stream->working)
		return 0;
	/* Signals of the program must not be delivered to this thread. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	error = pthread_create(&thread, &attributes, stream_worker, stream);
	pthread_attr_destroy(&attributes);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error)
		return -error;
	stream->working = true;
	stream->set->workers++;
	return 0;
}

/* ---- submission ---------------------------------------------------------------------------- */

static bool pending(const struct CUstream_st *stream)
{
	return atomic_load_explicit(&stream->completed, memory_order_acquire) < stream->submitted;
}

/* The gates of the set and, for a green context's set, of its context: two at most. A gate's own
 * lock is enough, as each exists until its set ends. */
static size_t gather_gates(const struct stream_set *set, struct stream_mark marks[2])
{
	const struct stream_set *const sets[] = {set, set->green ? set->context->streams : NULL};
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(sets); i++) {
		struct CUstream_st *gate = sets[i] ? atomic_load(&sets[i]->gate) : NULL;

		marks[n].stream = NULL;
		if (gate)
			stream_end(gate, &marks[n]);
		n += marks[n].stream != NULL;
	}
	return n;
}

bool stream_is_gated(const struct stream_set *set)
{
	struct stream_mark marks[2];
	size_t n = gather_gates(set, marks);

	for (size_t i = 0; i < n; i++)
		stream_mark_drop(&marks[i]);
	return n != 0;
}

/* Pending work of the green contexts' streams, which the context's tail stream comes after. Their
 * sets are not locked throughout: so without marks each stream up to the `newest` is counted,
 * whether it has pending work or not. */
static size_t gather_greens(struct stream_set *set, struct stream_mark *marks, size_t n,
			    uint64_t newest)
{
	list_for_each(link, &set->greens)
	{
		struct stream_set *green = list_entry(link, struct stream_set, of_greens);

		pthread_mutex_lock(&green->lock);
		list_for_each(at, &green->streams)
		{
			struct CUstream_st *other = list_entry(at, struct CUstream_st, link);

			if (other->kind == STREAM_GATE || other->id > newest ||
			    (marks && !pending(other)))
				continue;
			if (marks)
				mark_set(&marks[n], other, other->submitted);
			n++;
		}
		pthread_mutex_unlock(&green->lock);
	}
	return n;
}

/* Pending work of other streams of its set that a legacy stream, or the tail stream, comes after.
 */
static size_t gather_set(struct CUstream_st *stream, struct stream_mark *marks, size_t n)
{
	list_for_each(link, &stream->set->streams)
	{
		struct CUstream_st *other = list_entry(link, struct CUstream_st, link);
		bool apart = stream->kind == STREAM_LEGACY ? stream_is_apart(other)
							   : other->kind == STREAM_GATE;

		if (other == stream || apart || !pending(other))
			continue;
		if (marks)
			mark_set(&marks[n], other, other->submitted);
		n++;
	}
	return n;
}

/* The other streams, up to the `newest`, after whose pending work an op of this one comes. Without
 * marks: an upper bound of their number. Under the set's lock, which all submissions to these kinds
 * of stream hold. */
static size_t gather(struct CUstream_st *stream, struct stream_mark *marks, uint64_t newest)
{
	struct stream_set *set = stream->set;
	size_t n = 0;

	if (stream->kind != STREAM_GATE)
		n = marks ? gather_gates(set, marks) : 2;
	switch (stream->kind) {
	case STREAM_GATE:
	case STREAM_NON_BLOCKING:
		return n;
	case STREAM_LEGACY:
		return gather_set(stream, marks, n);
	case STREAM_TAIL:
		n = gather_set(stream, marks, n);
		return gather_greens(set, marks, n, newest);
	case STREAM_THREAD:
	case STREAM_BLOCKING:
		break;
	}
	if (!set->legacy || !pending(set->legacy))
		return n;
	if (marks)
		mark_set(&marks[n], set->legacy, set->legacy->submitted);
	return n + 1;
}

bool stream_blocking_pending(struct stream_set *set)
{
	bool found = false;

	pthread_mutex_lock(&set->lock);
	list_for_each(link, &set->streams)
	{
		struct CUstream_st *stream = list_entry(link, struct CUstream_st, link);

		if (!stream_is_apart(stream) && pending(stream))
			found = true;
	}
	pthread_mutex_unlock(&set->lock);
	return found;
}

static CUresult append(struct CUstream_st *stream, struct stream_work *work,
		       struct stream_mark *ret_mark)
{
	CUresult result = CUDA_SUCCESS;

	pthread_mutex_lock(&stream->lock);
	if (stream->closing) {
		result = CUDA_ERROR_INVALID_HANDLE;
	} else if (start_worker(stream) < 0) {
		result = CUDA_ERROR_OUT_OF_MEMORY;
	} else {
		work->sequence = ++stream->submitted;
		list_append(&stream->queue, &work->link);
		if (ret_mark)
			mark_set(ret_mark, stream, work->sequence);
		pthread_cond_signal(&stream->work);
	}
	pthread_mutex_unlock(&stream->lock);
	return result;
}

CUresult stream_enqueue(struct CUstream_st *stream, struct op *op, struct stream_mark *ret_mark)
{
	struct stream_set *set = stream->set;
	struct stream_work *work = NULL;
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
	uint64_t newest;
	size_t n;

	pthread_mutex_lock(&set->lock);
	newest = atomic_load(&last_id);
	n = gather(stream, NULL, newest);
	work = calloc(1, sizeof(*work) + n * sizeof(work->after[0]));
	if (work) {
		/* The second time streams may be missing that have become idle since. */
		work->n_after = gather(stream, work->after, newest);
		work->ready_ns = clock_now_ns();
		op_move(&work->op, op);
		result = append(stream, work, ret_mark);
	}
	pthread_mutex_unlock(&set->lock);
	if (result != CUDA_SUCCESS) {
		if (work)
			free_work(work);
		op_done(op);
	}
	return result;
}
