/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/op.h"

#include <string.h>

#include "sim/cuda/event.h"
#include "sim/cuda/graph_condition.h"
#include "sim/cuda/graph_memory.h"
#include "sim/cuda/graph_plan.h"

void op_move(struct op *to, struct op *from)
{
	*to = *from;
	memset(from, 0, sizeof(*from));
}

static CUresult clone_memop(const struct op_memop *from, struct op_memop *to)
{
	to->params = calloc(from->count ? from->count : 1, sizeof(*to->params));
	if (!to->params)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(to->params, from->params, from->count * sizeof(*to->params));
	to->count = from->count;
	return CUDA_SUCCESS;
}

CUresult op_clone(const struct op *from, struct op *ret_op)
{
	struct op to = {.kind = from->kind, .context = from->context};
	CUresult result = CUDA_SUCCESS;

	switch (from->kind) {
	case OP_KERNEL:
		result = kernel_clone(&from->kernel, &to.kernel);
		break;
	case OP_COPY:
		result = copy_clone(&from->copy, &to.copy);
		break;
	case OP_MEMOP:
		result = clone_memop(&from->memop, &to.memop);
		break;
	case OP_RECORD:
	case OP_WAIT:
		to.event = from->event;
		to.event.record = NULL;
		break;
	case OP_CALLBACK:
	case OP_GRAPH:
	case OP_CALL:
	case OP_CONTROL:
		return CUDA_ERROR_NOT_SUPPORTED;
	case OP_EMPTY:
	case OP_SET:
	case OP_POOL:
	case OP_HOST:
		to = *from;
		break;
	case OP_ALLOC:
	case OP_FREE:
		to = *from;
		graph_memory_ref(to.alloc.address);
		break;
	}
	if (result == CUDA_SUCCESS)
		*ret_op = to;
	return result;
}

void op_done(struct op *op)
{
	switch (op->kind) {
	case OP_KERNEL:
		kernel_done(&op->kernel);
		break;
	case OP_COPY:
		copy_done(&op->copy);
		break;
	case OP_MEMOP:
		free(op->memop.params);
		break;
	case OP_RECORD:
	case OP_WAIT:
		event_record_unref(op->event.record);
		break;
	case OP_GRAPH:
		graph_launch_free(op->launch);
		break;
	case OP_CALL:
		if (op->call.drop)
			op->call.drop(op->call.data);
		break;
	case OP_CONTROL:
		graph_control_free(op->control);
		break;
	case OP_EMPTY:
	case OP_SET:
	case OP_POOL:
	case OP_HOST:
	case OP_CALLBACK:
		break;
	case OP_ALLOC:
	case OP_FREE:
		graph_memory_unref(op->alloc.address);
		break;
	}
	memset(op, 0, sizeof(*op));
}
