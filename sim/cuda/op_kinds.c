/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A row for each kind of op: how it is cloned, freed, run, and dropped. The kinds know nothing of
 * each other.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/machine/clock.h"
#include "sim/cuda/driver.h"
#include "sim/cuda/event.h"
#include "sim/cuda/graph_condition.h"
#include "sim/cuda/graph_memory.h"
#include "sim/cuda/graph_plan.h"
#include "sim/cuda/memop.h"
#include "sim/cuda/op.h"
#include "sim/cuda/stream_core.h"

static CUresult empty_run(struct op *op, struct CUctx_st *context, struct CUstream_st *stream,
			  uint64_t *time_ns)
{
	(void)op;
	(void)context;
	(void)stream;
	(void)time_ns;
	return CUDA_SUCCESS;
}

/* ---- what an engine does */

static CUresult kernel_op_clone(const struct op *from, struct op *to)
{
	return kernel_clone(&from->kernel, &to->kernel);
}

static void kernel_op_done(struct op *op)
{
	kernel_done(&op->kernel);
}

static CUresult copy_op_clone(const struct op *from, struct op *to)
{
	return copy_clone(&from->copy, &to->copy);
}

static void copy_op_done(struct op *op)
{
	copy_done(&op->copy);
}

static CUresult kernel_run(struct op *op, struct CUctx_st *context, struct CUstream_st *stream,
			   uint64_t *time_ns)
{
	(void)stream;
	return kernel_execute(&op->kernel, context, time_ns);
}

static CUresult copy_run(struct op *op, struct CUctx_st *context, struct CUstream_st *stream,
			 uint64_t *time_ns)
{
	(void)stream;
	return copy_execute(&op->copy, context, time_ns);
}

static CUresult set_run(struct op *op, struct CUctx_st *context, struct CUstream_st *stream,
			uint64_t *time_ns)
{
	(void)stream;
	return set_execute(&op->set, context, time_ns);
}

static CUresult pool_run(struct op *op, struct CUctx_st *context, struct CUstream_st *stream,
			 uint64_t *time_ns)
{
	(void)stream;
	return pool_execute(&op->pool, context, time_ns);
}

/* ---- the program's own code: it takes as long as it takes */

static void time_passed(uint64_t *time_ns)
{
	uint64_t now_ns = clock_now_ns();

	if (*time_ns < now_ns)
		*time_ns = now_ns;
}

static CUresult host_run(struct op *op, struct CUctx_st *context, struct CUstream_st *stream,
			 uint64_t *time_ns)
{
	(void)context;
	(void)stream;
	driver_enter_callback();
	op->host.function(op->host.data);
	driver_leave_callback();
	time_passed(time_ns);
	return CUDA_SUCCESS;
}

static void callback_drop(struct op *op, CUresult status, struct CUstream_st *stream,
			  uint64_t *time_ns)
{
	(void)stream;
	driver_enter_callback();
	op->callback.function(op->callback.handle, status, op->callback.data);
	driver_leave_callback();
	time_passed(time_ns);
}

static CUresult callback_run(struct op *op, struct CUctx_st *context, struct CUstream_st *stream,
			     uint64_t *time_ns)
{
	(void)context;
	callback_drop(op, CUDA_SUCCESS, stream, time_ns);
	return CUDA_SUCCESS;
}

/* ---- events */

/* A node names the event; its record is found when the graph is launched. */
static CUresult event_op_clone(const struct op *from, struct op *to)
{
	to->event = from->event;
	to->event.record = NULL;
	return CUDA_SUCCESS;
}

static void event_op_done(struct op *op)
{
	event_record_unref(op->event.record);
}

static void record_drop(struct op *op, CUresult status, struct CUstream_st *stream,
			uint64_t *time_ns)
{
	(void)status;
	event_record_reached(op->event.record, stream, *time_ns);
}

static CUresult record_run(struct op *op, struct CUctx_st *context, struct CUstream_st *stream,
			   uint64_t *time_ns)
{
	(void)context;
	record_drop(op, CUDA_SUCCESS, stream, time_ns);
	return CUDA_SUCCESS;
}

static CUresult wait_run(struct op *op, struct CUctx_st *context, struct CUstream_st *stream,
			 uint64_t *time_ns)
{
	(void)context;
	event_record_wait(op->event.record, stream->set, time_ns);
	return CUDA_SUCCESS;
}

/* ---- words of memory */

static CUresult memop_op_clone(const struct op *from, struct op *to)
{
	unsigned count = from->memop.count;

	to->memop.params = calloc(count ? count : 1, sizeof(*to->memop.params));
	if (!to->memop.params)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(to->memop.params, from->memop.params, count * sizeof(*to->memop.params));
	to->memop.count = count;
	return CUDA_SUCCESS;
}

static void memop_op_done(struct op *op)
{
	free(op->memop.params);
}

static CUresult memop_op_run(struct op *op, struct CUctx_st *context, struct CUstream_st *stream,
			     uint64_t *time_ns)
{
	(void)stream;
	return memop_run(&op->memop, context, time_ns);
}

/* ---- graphs */

static CUresult alloc_clone(const struct op *from, struct op *to)
{
	*to = *from;
	graph_memory_ref(to->alloc.address);
	return CUDA_SUCCESS;
}

static void alloc_done(struct op *op)
{
	graph_memory_unref(op->alloc.address);
}

static CUresult alloc_run(struct op *op, struct CUctx_st *context, struct CUstream_st *stream,
			  uint64_t *time_ns)
{
	(void)context;
	(void)stream;
	(void)time_ns;
	return graph_memory_run(op);
}

static void graph_done(struct op *op)
{
	graph_launch_free(op->launch);
}

static CUresult graph_run(struct op *op, struct CUctx_st *context, struct CUstream_st *stream,
			  uint64_t *time_ns)
{
	(void)context;
	return graph_launch_run(op->launch, stream, time_ns);
}

static void graph_drop(struct op *op, CUresult status, struct CUstream_st *stream,
		       uint64_t *time_ns)
{
	(void)status;
	graph_launch_drop(op->launch, stream, time_ns);
}

static void control_done(struct op *op)
{
	graph_control_free(op->control);
}

/* Not used: graph_launch_run() carries out these ops itself. */
static CUresult control_run(struct op *op, struct CUctx_st *context, struct CUstream_st *stream,
			    uint64_t *time_ns)
{
	(void)op;
	(void)context;
	(void)stream;
	(void)time_ns;
	return CUDA_ERROR_UNKNOWN;
}

/* ---- the simulator's own */

static void call_done(struct op *op)
{
	if (op->call.drop)
		op->call.drop(op->call.data);
}

static CUresult call_run(struct op *op, struct CUctx_st *context, struct CUstream_st *stream,
			 uint64_t *time_ns)
{
	(void)stream;
	(void)time_ns;
	return op->call.run(context, op->call.data);
}

const struct op_methods op_kinds[OP_CONTROL + 1] = {
	[OP_EMPTY] = {.run = empty_run},
	[OP_KERNEL] = {.run = kernel_run, .clone = kernel_op_clone, .done = kernel_op_done},
	[OP_COPY] = {.run = copy_run, .clone = copy_op_clone, .done = copy_op_done},
	[OP_SET] = {.run = set_run},
	[OP_POOL] = {.run = pool_run},
	[OP_HOST] = {.run = host_run},
	[OP_CALLBACK] = {.run = callback_run, .drop = callback_drop, .never_in_graph = true},
	[OP_RECORD] = {.run = record_run,
		       .drop = record_drop,
		       .clone = event_op_clone,
		       .done = event_op_done},
	[OP_WAIT] = {.run = wait_run, .clone = event_op_clone, .done = event_op_done},
	[OP_MEMOP] = {.run = memop_op_run, .clone = memop_op_clone, .done = memop_op_done},
	[OP_ALLOC] = {.run = alloc_run, .clone = alloc_clone, .done = alloc_done},
	[OP_FREE] = {.run = alloc_run, .clone = alloc_clone, .done = alloc_done},
	[OP_GRAPH] = {.run = graph_run,
		      .drop = graph_drop,
		      .done = graph_done,
		      .never_in_graph = true},
	[OP_CALL] = {.run = call_run, .done = call_done, .never_in_graph = true},
	[OP_CONTROL] = {.run = control_run, .done = control_done, .never_in_graph = true},
};
