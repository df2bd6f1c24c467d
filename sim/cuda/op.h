/* SPDX-License-Identifier: Apache-2.0 */
/*                                                                   sim/cuda/op.h
 * A piece of work, described as plain data: streams queue ops, captures turn them into graph nodes,
 * and graphs execute them. Nothing here runs anything (sim/cuda/op_run.h does) and nothing checks
 * that the arguments make sense: the builder of an op has done that.
 *
 * An op is moved, never copied by assignment: op_clone() makes a second one, op_done() frees what
 * it owns and leaves OP_EMPTY. An all-zero op is OP_EMPTY. Members marked "owned" are from malloc.
 * Functions, events, pools and contexts are borrowed: their owners keep them while work is pending
 * (cuModuleUnload synchronises first).
 *
 *	struct op op = {.kind = OP_COPY};
 *	copy_plain(&op.copy, ...);
 *	return stream_submit(stream, &op);
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"
#include "cuda/types.h"
#include "sim/cuda/execute.h"

struct event_record;  /* sim/cuda/event.h */
struct graph_control; /* sim/cuda/graph_condition.h */
struct graph_launch;  /* sim/cuda/graph_plan.h */

enum op_kind {
	OP_EMPTY,    /* nothing: an empty graph node, a barrier */
	OP_KERNEL,   /* kernel_execute() */
	OP_COPY,     /* copy_execute() */
	OP_SET,	     /* set_execute() */
	OP_POOL,     /* pool_execute() */
	OP_HOST,     /* cuLaunchHostFunc */
	OP_CALLBACK, /* cuStreamAddCallback; never in a graph */
	OP_RECORD,   /* event record */
	OP_WAIT,     /* event wait */
	OP_MEMOP,    /* wait for, write words of memory */
	OP_ALLOC,    /* a graph's allocation */
	OP_FREE,     /* a graph's free */
	OP_GRAPH,    /* a launch of an executable graph; never in a graph */
	OP_CALL,     /* a function of the simulator itself; never in a graph */
	OP_CONTROL,  /* decides what comes next; in plans only */
};

struct op_host {
	CUhostFn function;
	void *data;
};

struct op_callback {
	CUstreamCallback function;
	CUstream handle; /* as the caller named the stream: may be NULL */
	void *data;
};

struct op_event {
	CUevent event; /* of a graph node; NULL in a stream */
	struct event_record
		*record; /* owned reference: which capture of the event; NULL in a node */
	unsigned flags;
};

struct op_memop {
	CUstreamBatchMemOpParams *params; /* owned */
	unsigned count;
};

/* Holds a reference to the address (sim/cuda/graph_memory.h), from describing it or op_clone(). */
struct op_alloc {
	CUdeviceptr address;
	size_t size_bytes;
};

/* `run` may block; its result other than CUDA_SUCCESS sticks to the context. `drop` frees `data`
 * once, whether it ran or not, and may be NULL. */
struct op_call {
	CUresult (*run)(struct CUctx_st *context, void *data);
	void (*drop)(void *data);
	void *data;
};

struct op {
	enum op_kind kind;
	CUcontext context; /* where it runs; NULL means the stream's */
	union {
		struct kernel_work kernel;
		struct copy_work copy;
		struct set_work set;
		struct pool_work pool;
		struct op_host host;
		struct op_callback callback;
		struct op_event event;
		struct op_memop memop;
		struct op_alloc alloc;	     /* OP_FREE uses its address */
		struct graph_launch *launch; /* owned */
		struct op_call call;
		struct graph_control *control; /* owned */
	};
};

/* The methods of one kind of op. NULL: nothing to do. */
struct op_methods {
	bool never_in_graph; /* it has no clone */

	/* Fills in the content of *to, which has the kind and the context. NULL: all of it is plain
	 * data. */
	CUresult (*clone)(const struct op *from, struct op *to);
	void (*done)(struct op *op); /* frees what the op owns */

	/* On a worker; the time is that of op_run(). */
	CUresult (*run)(struct op *op, struct CUctx_st *context, struct CUstream_st *stream,
			uint64_t *time_ns);

	/* Instead of run(), in a context that has failed with `status`, if others wait for the op.
	 */
	void (*drop)(struct op *op, CUresult status, struct CUstream_st *stream, uint64_t *time_ns);
};

extern const struct op_methods op_kinds[OP_CONTROL + 1]; /* sim/cuda/op_kinds.c */

/* SUCCESS or OUT_OF_MEMORY. NOT_SUPPORTED for kinds that are never in a graph. */
must_check CUresult op_clone(const struct op *from, struct op *ret_op);

/* The first argument, which must be empty, takes over the second's content. */
void op_move(struct op *to, struct op *from);

void op_done(struct op *op); /* afterwards OP_EMPTY */

static inline void op_done_owned(struct op *op)
{
	op_done(op);
}
