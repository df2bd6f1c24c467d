/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/op_run.h"

#include "sim/machine/clock.h"
#include "sim/cuda/context.h"
#include "sim/cuda/driver.h"
#include "sim/cuda/event.h"
#include "sim/cuda/graph_memory.h"
#include "sim/cuda/graph_plan.h"
#include "sim/cuda/memop.h"
#include "sim/cuda/stream_core.h"

/* The program's own code takes as long as it takes. */
static void run_host(const struct op *op, CUresult status, uint64_t *time_ns)
{
	uint64_t now_ns;

	driver_enter_callback();
	if (op->kind == OP_HOST)
		op->host.function(op->host.data);
	else
		op->callback.function(op->callback.handle, status, op->callback.data);
	driver_leave_callback();
	now_ns = clock_now_ns();
	if (*time_ns < now_ns)
		*time_ns = now_ns;
}

/* What only concerns waiting and telling is done whatever has happened to the context. */
static void drop(struct op *op, CUresult status, struct CUstream_st *stream, uint64_t *time_ns)
{
	if (op->kind == OP_RECORD)
		event_record_reached(op->event.record, stream, *time_ns);
	else if (op->kind == OP_CALLBACK)
		run_host(op, status, time_ns);
	else if (op->kind == OP_GRAPH)
		graph_launch_drop(op->launch, stream, time_ns);
}

static CUresult execute(struct op *op, struct CUctx_st *context, struct CUstream_st *stream,
			uint64_t *time_ns)
{
	switch (op->kind) {
	case OP_EMPTY:
		return CUDA_SUCCESS;
	case OP_KERNEL:
		return kernel_execute(&op->kernel, context, time_ns);
	case OP_COPY:
		return copy_execute(&op->copy, context, time_ns);
	case OP_SET:
		return set_execute(&op->set, context, time_ns);
	case OP_POOL:
		return pool_execute(&op->pool, context, time_ns);
	case OP_HOST:
	case OP_CALLBACK:
		run_host(op, CUDA_SUCCESS, time_ns);
		return CUDA_SUCCESS;
	case OP_RECORD:
		event_record_reached(op->event.record, stream, *time_ns);
		return CUDA_SUCCESS;
	case OP_WAIT:
		event_record_wait(op->event.record, stream->set, time_ns);
		return CUDA_SUCCESS;
	case OP_MEMOP:
		return memop_run(&op->memop, context, time_ns);
	case OP_ALLOC:
	case OP_FREE:
		return graph_memory_run(op);
	case OP_GRAPH:
		return graph_launch_run(op->launch, stream, time_ns);
	case OP_CALL:
		return op->call.run(context, op->call.data);
	case OP_CONTROL: /* graph_launch_run() does it */
		break;
	}
	return CUDA_ERROR_UNKNOWN;
}

CUresult op_execute(struct op *op, struct CUstream_st *stream, uint64_t *time_ns)
{
	struct CUctx_st *context = op->context ? op->context : stream->context;
	CUresult result = execute(op, context, stream, time_ns);

	/* A graph's node may belong to another context than the stream that runs it. */
	if (result != CUDA_SUCCESS && context != stream->context)
		context_fail(context, result);
	return result;
}

void op_run(struct op *op, struct CUstream_st *stream, uint64_t *time_ns)
{
	CUresult result = context_error(stream->context);

	if (result != CUDA_SUCCESS) {
		drop(op, result, stream, time_ns);
		return;
	}
	result = op_execute(op, stream, time_ns);
	if (result != CUDA_SUCCESS)
		context_fail(stream->context, result);
}
