/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's functions that instantiate, launch and destroy executable graphs.
 */
#include "sim/cuda/graph_exec.h"

#include <string.h>

#include "cuda/prototypes.h"
#include "sim/cuda/capture.h"
#include "sim/cuda/context.h"
#include "sim/cuda/driver.h"
#include "sim/cuda/graph_condition.h"
#include "sim/cuda/graph_device.h"
#include "sim/cuda/graph_memory.h"
#include "sim/cuda/handle.h"
#include "sim/cuda/stream.h"

enum {
	KNOWN_FLAGS = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
		      CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
		      CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH |
		      CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY,
};

bool graph_exec_is(CUgraphExec exec)
{
	return handle_is(HANDLE_GRAPH_EXEC, exec);
}

void graph_exec_changed(CUgraphExec exec)
{
	pthread_mutex_lock(&exec->lock);
	graph_plan_unref(take(exec->plan));
	pthread_mutex_unlock(&exec->lock);
}

static void exec_free(struct CUgraphExec_st *exec)
{
	graph_plan_unref(exec->plan);
	graph_free(exec->graph);
	stream_mark_drop(&exec->last);
	pthread_mutex_destroy(&exec->lock);
	free(exec);
}

static CUgraphInstantiateResult can_run(CUgraph graph, bool for_device)
{
	CUgraphInstantiateResult why = graph_conditions_check(graph);

	if (why == CUDA_GRAPH_INSTANTIATE_SUCCESS && for_device)
		why = graph_device_check(graph);
	return why;
}

static CUresult result_of(CUgraphInstantiateResult why, bool for_device)
{
	switch (why) {
	case CUDA_GRAPH_INSTANTIATE_SUCCESS:
		return CUDA_SUCCESS;
	case CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED:
		return for_device ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
	case CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED:
		return CUDA_ERROR_NOT_SUPPORTED;
	case CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED:
	case CUDA_GRAPH_INSTANTIATE_ERROR:
	case CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE:
		break;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

static CUresult instantiate(CUgraphExec *ret_exec, CUgraph graph, uint64_t flags)
{
	bool for_device = flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;
	struct CUgraphExec_st *exec;
	CUresult result = driver_ready();

	if (result != CUDA_SUCCESS)
		return result;
	if (!ret_exec || !graph_is(graph) || flags & ~(uint64_t)KNOWN_FLAGS)
		return CUDA_ERROR_INVALID_VALUE;
	if (for_device && flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH)
		return CUDA_ERROR_INVALID_VALUE;
	result = result_of(can_run(graph, for_device), for_device);
	if (result != CUDA_SUCCESS)
		return result;
	exec = calloc(1, sizeof(*exec));
	if (!exec)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_init(&exec->lock, NULL);
	exec->flags = flags;
	result = graph_clone(graph, &exec->graph);
	if (result == CUDA_SUCCESS)
		result = graph_plan_new(exec->graph, &exec->plan);
	if (result == CUDA_SUCCESS && handle_add(HANDLE_GRAPH_EXEC, exec) < 0)
		result = CUDA_ERROR_OUT_OF_MEMORY;
	if (result != CUDA_SUCCESS) {
		exec_free(exec);
		return result;
	}
	*ret_exec = exec;
	return CUDA_SUCCESS;
}

exported CUresult cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph,
					      unsigned long long flags)
{
	if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD)
		return CUDA_ERROR_INVALID_VALUE; /* needs a stream: only WithParams has one */
	return instantiate(phGraphExec, hGraph, flags);
}

exported CUresult cuGraphInstantiate_v2(CUgraphExec *phGraphExec, CUgraph hGraph,
					CUgraphNode *phErrorNode, char *logBuffer,
					size_t bufferSize)
{
	if (phErrorNode)
		*phErrorNode = NULL;
	if (logBuffer && bufferSize)
		logBuffer[0] = '\0';
	return instantiate(phGraphExec, hGraph, 0);
}

exported CUresult cuGraphInstantiate(CUgraphExec *phGraphExec, CUgraph hGraph,
				     CUgraphNode *phErrorNode, char *logBuffer, size_t bufferSize)
{
	return cuGraphInstantiate_v2(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize);
}

static CUgraphInstantiateResult reason(CUgraph graph, uint64_t flags, CUresult result)
{
	CUgraphInstantiateResult why;

	if (result == CUDA_SUCCESS)
		return CUDA_GRAPH_INSTANTIATE_SUCCESS;
	if (!graph_is(graph))
		return CUDA_GRAPH_INSTANTIATE_ERROR;
	why = can_run(graph, flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH);
	if (why != CUDA_GRAPH_INSTANTIATE_SUCCESS)
		return why;
	return result == CUDA_ERROR_NOT_SUPPORTED
		       ? CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED
		       : CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
}

exported CUresult cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph,
					       CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
	CUresult result;

	if (!instantiateParams)
		return CUDA_ERROR_INVALID_VALUE;
	instantiateParams->hErrNode_out = NULL;
	result = instantiate(phGraphExec, hGraph, instantiateParams->flags);
	if (result == CUDA_SUCCESS && instantiateParams->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD)
		result = cuGraphUpload(*phGraphExec, instantiateParams->hUploadStream);
	instantiateParams->result_out = reason(hGraph, instantiateParams->flags, result);
	return result;
}

exported CUresult cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t *flags)
{
	if (!graph_exec_is(hGraphExec) || !flags)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = hGraphExec->flags;
	return CUDA_SUCCESS;
}

exported CUresult cuGraphExecDestroy(CUgraphExec hGraphExec)
{
	if (!graph_exec_is(hGraphExec))
		return CUDA_ERROR_INVALID_VALUE;
	handle_remove(HANDLE_GRAPH_EXEC, hGraphExec);
	exec_free(hGraphExec);
	return CUDA_SUCCESS;
}

/* ---- launching ----------------------------------------------------------------------------- */

/* Memory is reserved when a launch is submitted, which may fail. Memory that the graph frees itself
 * may be claimed by the next launch at once, as its ops come after. */
static void unclaim(const struct graph_plan *plan, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (plan->ops[i].kind == OP_ALLOC)
			graph_memory_unclaim(plan->ops[i].alloc.address);
}

static CUresult claim(const struct graph_plan *plan, struct CUctx_st *context, bool again)
{
	for (size_t i = 0; i < plan->n; i++) {
		const struct op *op = &plan->ops[i];
		CUresult result = CUDA_SUCCESS;

		if (op->kind == OP_ALLOC)
			result = graph_memory_claim(op->alloc.address, context, again);
		else if (op->kind == OP_FREE)
			graph_memory_disclaim(op->alloc.address);
		if (result != CUDA_SUCCESS) {
			unclaim(plan, i);
			return result;
		}
	}
	return CUDA_SUCCESS;
}

/* Under the executable's lock. */
static CUresult launch(struct CUgraphExec_st *exec, struct CUstream_st *stream)
{
	bool again = exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
	struct graph_launch *made;
	CUresult result = CUDA_SUCCESS;

	if (!exec->plan)
		result = graph_plan_new(exec->graph, &exec->plan);
	if (result == CUDA_SUCCESS && exec->graph->n_memory)
		result = claim(exec->plan, stream->context, again);
	if (result != CUDA_SUCCESS)
		return result;
	made = graph_launch_new(exec->plan);
	if (made) {
		made->previous = exec->last;
		exec->last = (struct stream_mark){0};
		result = graph_launch_submit(made, stream, &exec->last);
	} else {
		result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (result != CUDA_SUCCESS)
		unclaim(exec->plan, exec->plan->n);
	return result;
}

/* A launch inside a capture is a child graph. */
static CUresult capture_launch(struct CUgraphExec_st *exec, struct CUstream_st *stream)
{
	if (exec->graph->n_memory)
		return CUDA_ERROR_NOT_SUPPORTED;
	return capture_child(stream, exec->graph);
}

exported CUresult cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream)
{
	struct CUstream_st *stream;
	CUresult result = stream_find(hStream, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	if (!graph_exec_is(hGraphExec))
		return CUDA_ERROR_INVALID_VALUE;
	if (stream_capturing(stream))
		return capture_launch(hGraphExec, stream);
	result = capture_check_legacy(stream);
	if (result != CUDA_SUCCESS)
		return result;
	pthread_mutex_lock(&hGraphExec->lock);
	result = launch(hGraphExec, stream);
	pthread_mutex_unlock(&hGraphExec->lock);
	return result;
}

/* Uploading only makes the plan. */
exported CUresult cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream)
{
	struct CUstream_st *stream;
	CUresult result = stream_find(hStream, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	if (!graph_exec_is(hGraphExec))
		return CUDA_ERROR_INVALID_VALUE;
	if (stream_capturing(stream))
		return capture_forbid(stream);
	pthread_mutex_lock(&hGraphExec->lock);
	if (!hGraphExec->plan)
		result = graph_plan_new(hGraphExec->graph, &hGraphExec->plan);
	pthread_mutex_unlock(&hGraphExec->lock);
	return result;
}
