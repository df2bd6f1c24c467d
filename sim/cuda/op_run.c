/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/op_run.h"

#include "sim/cuda/context.h"
#include "sim/cuda/stream_core.h"

CUresult op_execute(struct op *op, struct CUstream_st *stream, uint64_t *time_ns)
{
	struct CUctx_st *context = op->context ? op->context : stream->context;
	CUresult result = op_kinds[op->kind].run(op, context, stream, time_ns);

	/* A graph's node may belong to another context than the stream that runs it. */
	if (result != CUDA_SUCCESS && context != stream->context)
		context_fail(context, result);
	return result;
}

void op_run(struct op *op, struct CUstream_st *stream, uint64_t *time_ns)
{
	CUresult result = context_error(stream->context);

	if (result != CUDA_SUCCESS) {
		/* Ops on which others wait are completed even if the context has failed. */
		if (op_kinds[op->kind].drop)
			op_kinds[op->kind].drop(op, result, stream, time_ns);
		return;
	}
	result = op_execute(op, stream, time_ns);
	if (result != CUDA_SUCCESS)
		context_fail(stream->context, result);
}
