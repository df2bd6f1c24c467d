/* SPDX-License-Identifier: Apache-2.0 */
/*                                                               sim/cuda/stream_core.h
 * The structure of streams; for the files of streams, events, captures and graphs only.
 *
 * A mark is a point in a stream: everything that was submitted up to its sequence number. It holds
 * a reference, so that it can be waited for when the stream's handle has long been destroyed.
 *
 * Locks, outermost first: the set's (which orders submissions to the legacy stream against those
 * to blocking streams), a green context's set's, then one stream's. Nothing else is called under
 * them.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/macros.h"
#include "cuda/types.h"
#include "sim/cuda/op.h"

enum stream_kind {
	STREAM_LEGACY,
	STREAM_THREAD, /* a thread's default stream */
	STREAM_BLOCKING,
	STREAM_NON_BLOCKING,
	STREAM_TAIL, /* the context's own: its ops come after all present work of the others */
	STREAM_GATE, /* likewise: new work of the others comes after all its present work */
};

struct capture_member; /* of sim/cuda/capture.c */

struct stream_mark {
	struct CUstream_st *stream; /* owned reference; NULL: no point at all */
	uint64_t sequence;
};

/* Attributes that a program may set; without effect here. */
struct stream_attributes {
	CUaccessPolicyWindow window;
	CUsynchronizationPolicy policy;
	CUlaunchMemSyncDomain domain;
	CUlaunchMemSyncDomainMap domain_map;
};

struct CUstream_st {
	enum stream_kind kind;
	struct stream_set *set; /* owned reference */
	struct CUctx_st *context;
	uint64_t id;
	int priority;
	atomic_uint refs;
	atomic_bool closed; /* stream_close() has been called */

	/* Under the set's lock. */
	struct list link;   /* in the set, until the worker has ended */
	const void *thread; /* STREAM_THREAD: whose */
	struct stream_attributes attributes;

	pthread_mutex_t lock; /* of all below */
	pthread_cond_t work;  /* there is work, or no more will come */
	pthread_cond_t done;  /* something has completed, or an event was recorded */
	struct list queue;
	uint64_t submitted;
	_Atomic uint64_t completed; /* written under the lock */
	_Atomic uint64_t time_ns;   /* modelled end of what has completed; the worker's */
	bool working;		    /* the worker is there */
	bool closing;		    /* takes no more work; ends when the queue is empty */

	struct capture_member
		*_Atomic capture; /* its part in a capture; changed under capture.c's lock */
};

struct stream_set {
	struct CUctx_st *context;
	struct CUgreenCtx_st *green; /* whose streams these are; NULL: the context's own */
	uint64_t id;
	atomic_uint refs;
	atomic_bool ending;
	atomic_uint captures; /* blocking streams of this set that capture */
	struct list link;     /* in the list of all sets */

	pthread_mutex_t lock; /* of all below */
	pthread_cond_t ended; /* a worker has */
	struct list streams;
	unsigned workers;
	struct CUstream_st *legacy, *tail;
	struct CUstream_st *_Atomic gate;
	struct list greens;    /* of the context's own: the sets of its green contexts */
	struct list of_greens; /* in that */
	bool retired;	       /* its green context is gone */
};

void stream_set_unref(struct stream_set *set);

/* The context is ending: waits and polls on its behalf should give up. */
static inline bool stream_set_ending(const struct stream_set *set)
{
	return atomic_load(&set->ending);
}

/* NULL: no memory. The handle is not registered; only programs' streams are. */
struct CUstream_st *stream_new(struct stream_set *set, enum stream_kind kind, int priority);

/* One for a program: its handle is registered. INVALID_VALUE, OUT_OF_MEMORY. */
must_check CUresult stream_make(struct stream_set *set, unsigned flags, int priority,
				CUstream *ret_stream);
struct CUstream_st *stream_ref(struct CUstream_st *stream);
void stream_unref(struct CUstream_st *stream);

/* No more submissions; what is pending is still done. The creator's reference is dropped. Only the
 * first call counts: a thread may end while its context does. */
void stream_close(struct CUstream_st *stream);

/* Queues without asking about captures or errors. ret_mark may be NULL; it is owned. */
must_check CUresult stream_enqueue(struct CUstream_st *stream, struct op *op,
				   struct stream_mark *ret_mark);

/* The stream's present end; owned. No point if all its work is done. */
void stream_end(struct CUstream_st *stream, struct stream_mark *ret_mark);

bool stream_mark_done(const struct stream_mark *mark);
void stream_mark_drop(struct stream_mark *mark);

/* Waits. `waiter` is the set on whose behalf: NULL, or false is returned once it is ending while
 * the mark belongs to another context. */
bool stream_mark_wait(const struct stream_mark *mark, const struct stream_set *waiter);

/* One sleep under the stream's lock until something in it is done; see stream_mark_wait(). */
void stream_wait_done(struct CUstream_st *stream, const struct stream_set *waiter);

/* The set's legacy stream; made at first use. NULL: no memory. */
struct CUstream_st *stream_legacy(struct stream_set *set);

/* The set's stream of kind STREAM_TAIL, likewise. */
struct CUstream_st *stream_tail(struct stream_set *set);

/* Of kind STREAM_GATE, likewise. */
struct CUstream_st *stream_gate(struct stream_set *set);

/* Would work that is submitted to a stream of the set now wait at a gate? */
bool stream_is_gated(const struct stream_set *set);

/* Neither waits for the legacy stream nor is waited for by it. */
static inline bool stream_is_apart(const struct CUstream_st *stream)
{
	return stream->kind == STREAM_NON_BLOCKING || stream->kind == STREAM_TAIL ||
	       stream->kind == STREAM_GATE;
}

/* Whether blocking streams have pending work: the legacy stream is ready when they are. */
bool stream_blocking_pending(struct stream_set *set);

/* Waits for the legacy stream and all blocking ones, without an op in any of them, so that work
 * that others submit meanwhile is not held up. */
void stream_wait_blocking(struct stream_set *set);

/* The calling thread's default stream in the context; made at first use. NULL: no memory. */
struct CUstream_st *stream_of_thread(struct stream_set *set);
