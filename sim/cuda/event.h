/* SPDX-License-Identifier: Apache-2.0 */
/*                                                                sim/cuda/event.h
 * Events. An event is a name for its last record; a record is one point in one stream, with the
 * modelled time at which it was reached. A wait for an event waits for the record that the
 * event had when the wait was asked for, however often it is recorded again, or destroyed.
 *
 * A record made inside a capture is no point in time but a set of graph nodes (sim/cuda/capture.h);
 * asking such an event for its state is an error.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"
#include "cuda/types.h"
#include "sim/cuda/event_share.h"
#include "sim/cuda/stream_core.h"

struct event_record {
	atomic_uint refs;
	atomic_bool reached;
	_Atomic uint64_t time_ns; /* modelled; set before `reached` */
	struct stream_mark mark;  /* whose lock guards the wait; set before anyone else sees it */
	/* Of an event that processes share, or NULL; owned. Another process's record has this
	 * alone. */
	struct event_share *share;
	uint64_t ticket;
	bool foreign;
};

struct CUevent_st {
	struct stream_set *set;	   /* owned reference: of the context in which it was made */
	unsigned flags;		   /* CU_EVENT_* */
	struct event_share *share; /* owned: CU_EVENT_INTERPROCESS; or NULL */
	pthread_mutex_t lock;
	struct event_record *last; /* owned reference; NULL: never recorded */
	uint64_t capture_id;	   /* not 0: last recorded in that capture, at those nodes */
	CUgraphNode *nodes;	   /* owned */
	size_t n_nodes;
};

/* A new event of the context, in another process's share (taken over on success) or, where that is
 * NULL and the flags want one, its own. OUT_OF_MEMORY. */
must_check CUresult event_new(struct CUctx_st *context, unsigned flags, struct event_share *share,
			      CUevent *ret_event);

/* Its handle has been removed: no other thread knows it. */
void event_free(struct CUevent_st *event);

/* One reference, for the caller. NULL: no memory. */
struct event_record *event_record_new(void);
void event_record_unref(struct event_record *record); /* NULL is fine */

/* The stream's worker has come to the record. */
void event_record_reached(struct event_record *record, struct CUstream_st *stream,
			  uint64_t time_ns);

/* False: not yet. */
bool event_record_is_reached(struct event_record *record);

/* Waits for it, on behalf of a set. False: given up because the set's context is ending. NULL:
 * waits for ever. */
bool event_record_await(struct event_record *record, const struct stream_set *waiter);

/* Records it after all work that was submitted to the set's streams so far. INVALID_HANDLE: the
 * event is another context's; STREAM_CAPTURE_UNSUPPORTED, OUT_OF_MEMORY. */
must_check CUresult event_record_set(struct stream_set *set, CUevent event);

/* Work that is submitted to the set's streams from now on comes after the event. Results as above.
 */
must_check CUresult event_wait_set(struct stream_set *set, CUevent event);

/* A worker waits for a record, on behalf of its set; *time_ns becomes the later of the two. */
void event_record_wait(struct event_record *record, const struct stream_set *waiter,
		       uint64_t *time_ns);

/* Makes `record` the event's last; takes a reference of its own. */
void event_publish(struct CUevent_st *event, struct event_record *record);

/* The event's last record, of this or another process, as a new reference; NULL: it has none. */
struct event_record *event_last(struct CUevent_st *event);

/* The event was recorded in a capture, at these nodes; takes the array over. */
void event_publish_capture(struct CUevent_st *event, uint64_t capture_id, CUgraphNode *nodes,
			   size_t n_nodes);

bool event_is_captured(struct CUevent_st *event);

/* 0: not recorded in a capture. *ret_nodes is a copy, which the caller frees; if there
 * is no memory for it, *ret_n is SIZE_MAX. */
uint64_t event_capture(struct CUevent_st *event, CUgraphNode **ret_nodes, size_t *ret_n);
