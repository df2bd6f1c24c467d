/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/graph_content.h"

#include <string.h>

#include "sim/cuda/context.h"
#include "sim/cuda/driver.h"
#include "sim/cuda/event.h"
#include "sim/cuda/graph_condition.h"
#include "sim/cuda/graph_memory.h"
#include "sim/cuda/handle.h"
#include "sim/cuda/memop.h"
#include "sim/cuda/module.h"

/* ---- describing ---------------------------------------------------------------------------- */

static CUresult describe_kernel(CUgraphNodeParams *all, struct graph_content *content)
{
	const CUDA_KERNEL_NODE_PARAMS_v3 *params = &all->kernel;
	struct op *op = &content->op;
	const struct kernel_work shape = {
		.grid = {params->gridDimX, params->gridDimY, params->gridDimZ},
		.block = {params->blockDimX, params->blockDimY, params->blockDimZ},
		.shared_bytes = params->sharedMemBytes,
	};
	CUfunction function = params->func ? params->func : (CUfunction)params->kern;
	CUresult result =
		kernel_prepare(function, &shape, params->kernelParams, params->extra, &op->kernel);

	op->kind = OP_KERNEL;
	op->context = params->ctx;
	/* A function determines its context, regardless of the current one or the parameter: a
	 * graph may span devices. */
	if (result == CUDA_SUCCESS && handle_is(HANDLE_FUNCTION, params->func))
		op->context = op->kernel.function->module->context;
	return result;
}

static CUresult describe_set(CUgraphNodeParams *all, struct graph_content *content)
{
	const CUDA_MEMSET_NODE_PARAMS_v2 *params = &all->memset;
	struct op *op = &content->op;

	if (params->elementSize != 1 && params->elementSize != 2 && params->elementSize != 4)
		return CUDA_ERROR_INVALID_VALUE;
	if (params->dst % params->elementSize || !params->width || !params->height)
		return CUDA_ERROR_INVALID_VALUE;
	if (params->height > 1 && params->pitch < params->width * params->elementSize)
		return CUDA_ERROR_INVALID_VALUE;
	op->kind = OP_SET;
	op->context = params->ctx;
	op->set = (struct set_work){
		.address = params->dst,
		.pitch_bytes = params->height > 1 ? params->pitch : 0,
		.width_elements = params->width,
		.height = params->height,
		.value = params->value,
		.element_bytes = params->elementSize,
	};
	return CUDA_SUCCESS;
}

static CUresult describe_event(enum op_kind kind, CUevent event, struct op *op)
{
	if (!handle_is(HANDLE_EVENT, event))
		return CUDA_ERROR_INVALID_HANDLE;
	if (kind == OP_RECORD && event->share)
		return driver_missing("a graph that records an event of several processes");
	op->kind = kind;
	op->event.event = event;
	return CUDA_SUCCESS;
}

static CUresult describe_wait(CUgraphNodeParams *all, struct graph_content *content)
{
	return describe_event(OP_WAIT, all->eventWait.event, &content->op);
}

static CUresult describe_record(CUgraphNodeParams *all, struct graph_content *content)
{
	return describe_event(OP_RECORD, all->eventRecord.event, &content->op);
}

static CUresult describe_copy(CUgraphNodeParams *all, struct graph_content *content)
{
	content->copy = all->memcpy.copyParams;
	content->op.kind = OP_COPY;
	content->op.context = all->memcpy.copyCtx;
	return copy_from_3d(&content->copy, &content->op.copy);
}

static CUresult describe_host(CUgraphNodeParams *all, struct graph_content *content)
{
	content->op.kind = OP_HOST;
	content->op.host.function = all->host.fn;
	content->op.host.data = all->host.userData;
	return all->host.fn ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult describe_empty(CUgraphNodeParams *all, struct graph_content *content)
{
	(void)all, (void)content;
	return CUDA_SUCCESS;
}

static CUresult describe_semaphore(CUgraphNodeParams *all, struct graph_content *content)
{
	(void)all, (void)content;
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* Its graphs depend on where it is put: graph_condition_fill(). */
static CUresult describe_conditional(CUgraphNodeParams *all, struct graph_content *content)
{
	content->condition = all->conditional;
	return CUDA_SUCCESS;
}

static CUresult describe_memop(CUgraphNodeParams *all, struct graph_content *content)
{
	const CUDA_BATCH_MEM_OP_NODE_PARAMS_v2 *params = &all->memOp;
	struct op *op = &content->op;
	struct CUctx_st *context;
	CUresult result = context_named(params->ctx, &context);

	if (result != CUDA_SUCCESS)
		return result;
	if (params->flags || params->count > 256 || (params->count && !params->paramArray))
		return CUDA_ERROR_INVALID_VALUE;
	result = memop_check(params->paramArray, params->count, context, true);
	if (result == CUDA_SUCCESS)
		result = memop_describe(params->paramArray, params->count, op);
	op->context = params->ctx;
	return result;
}

static CUresult describe_alloc(CUgraphNodeParams *all, struct graph_content *content)
{
	CUDA_MEM_ALLOC_NODE_PARAMS_v2 *params = &all->alloc;
	size_t bytes = params->accessDescCount * sizeof(*params->accessDescs);
	CUmemAccessDesc *descs;
	CUresult result;

	if (params->accessDescCount > 64 || (bytes && !params->accessDescs))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&content->alloc, params, sizeof(content->alloc));
	content->alloc.accessDescs = NULL;
	result = graph_memory_describe(&content->alloc, &content->op);
	if (result != CUDA_SUCCESS)
		return result;
	params->dptr = content->alloc.dptr;
	if (!bytes)
		return CUDA_SUCCESS;
	descs = malloc(bytes);
	if (!descs) {
		op_done(&content->op);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	memcpy(descs, params->accessDescs, bytes);
	content->alloc.accessDescs = descs;
	return CUDA_SUCCESS;
}

static CUresult describe_free(CUgraphNodeParams *all, struct graph_content *content)
{
	CUdeviceptr address = all->free.dptr;

	if (!address)
		return CUDA_ERROR_INVALID_VALUE;
	content->op = (struct op){.kind = OP_FREE, .alloc.address = address};
	graph_memory_ref(address);
	return CUDA_SUCCESS;
}

static CUresult describe_child(CUgraphNodeParams *all, struct graph_content *content)
{
	const CUDA_CHILD_GRAPH_NODE_PARAMS *params = &all->graph;

	if (!graph_is(params->graph) || params->ownership != CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE)
		return CUDA_ERROR_INVALID_VALUE;
	if (params->graph->n_memory) /* allowed from CUDA 13 on, and only for graphs that move */
		return CUDA_ERROR_NOT_SUPPORTED;
	return graph_clone(params->graph, &content->child);
}

CUresult graph_describe(CUgraphNodeParams *params, struct graph_content *ret_content)
{
	static CUresult (*const describe[])(CUgraphNodeParams *, struct graph_content *) = {
		[CU_GRAPH_NODE_TYPE_KERNEL] = describe_kernel,
		[CU_GRAPH_NODE_TYPE_MEMCPY] = describe_copy,
		[CU_GRAPH_NODE_TYPE_MEMSET] = describe_set,
		[CU_GRAPH_NODE_TYPE_HOST] = describe_host,
		[CU_GRAPH_NODE_TYPE_GRAPH] = describe_child,
		[CU_GRAPH_NODE_TYPE_EMPTY] = describe_empty,
		[CU_GRAPH_NODE_TYPE_WAIT_EVENT] = describe_wait,
		[CU_GRAPH_NODE_TYPE_EVENT_RECORD] = describe_record,
		[CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL] = describe_semaphore,
		[CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT] = describe_semaphore,
		[CU_GRAPH_NODE_TYPE_MEM_ALLOC] = describe_alloc,
		[CU_GRAPH_NODE_TYPE_MEM_FREE] = describe_free,
		[CU_GRAPH_NODE_TYPE_BATCH_MEM_OP] = describe_memop,
		[CU_GRAPH_NODE_TYPE_CONDITIONAL] = describe_conditional,
	};
	struct graph_content content;
	CUresult result;

	if ((unsigned)params->type >= ARRAY_SIZE(describe))
		return CUDA_ERROR_INVALID_VALUE;
	memset(&content, 0, sizeof(content));
	content.type = params->type;
	result = describe[params->type](params, &content);
	if (result == CUDA_SUCCESS)
		*ret_content = content;
	return result;
}

/* ---- into nodes ---------------------------------------------------------------------------- */

static void content_free(struct graph_content *content)
{
	op_done(&content->op);
	free((void *)content->alloc.accessDescs);
	graph_free(take(content->child));
	content->alloc.accessDescs = NULL;
}

/* Stores everything but the op, which is stored separately. */
static void put(struct graph_content *content, struct CUgraphNode_st *node)
{
	if (content->type == CU_GRAPH_NODE_TYPE_MEMCPY)
		node->copy = content->copy;
	if (content->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
		node->alloc = content->alloc;
		content->alloc.accessDescs = NULL;
	}
	if (content->child) {
		graph_free(node->child);
		node->child = take(content->child);
		node->child->parent = node;
	}
	free(take(node->parameters));
}

CUresult graph_content_add(struct graph_content *content, struct CUgraph_st *graph,
			   const CUgraphNode *before, const CUgraphEdgeData *data, size_t n,
			   CUgraphNode *ret_node)
{
	CUresult result = graph_add(graph, content->type, &content->op, before, data, n, ret_node);

	if (result == CUDA_SUCCESS)
		put(content, *ret_node);
	if (result == CUDA_SUCCESS && content->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
		(*ret_node)->op.context = content->condition.ctx;
		result = graph_condition_fill(*ret_node, &content->condition);
		if (result != CUDA_SUCCESS)
			graph_remove(*ret_node);
	}
	content_free(content);
	return result;
}

CUresult graph_content_replace(struct graph_content *content, struct CUgraphNode_st *node)
{
	bool fixed = content->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
		     content->type == CU_GRAPH_NODE_TYPE_MEM_FREE ||
		     content->type == CU_GRAPH_NODE_TYPE_EMPTY ||
		     content->type == CU_GRAPH_NODE_TYPE_CONDITIONAL;

	if (content->type != node->type || fixed) {
		content_free(content);
		return CUDA_ERROR_INVALID_VALUE;
	}
	/* Members that the parameters do not have stay. */
	if (content->type == CU_GRAPH_NODE_TYPE_KERNEL)
		content->op.kernel.cooperative = node->op.kernel.cooperative;
	if (!content->op.context)
		content->op.context = node->op.context;
	op_done(&node->op);
	op_move(&node->op, &content->op);
	put(content, node);
	content_free(content);
	return CUDA_SUCCESS;
}

/* ---- and back ------------------------------------------------------------------------------ */

static CUresult tell_kernel(struct CUgraphNode_st *node, CUgraphNodeParams *all)
{
	CUDA_KERNEL_NODE_PARAMS_v3 *params = &all->kernel;
	const struct kernel_work *work = &node->op.kernel;
	size_t n = 0;

	while (kernel_parameter(work, n))
		n++;
	if (!node->parameters && n) {
		node->parameters = calloc(n, sizeof(void *));
		if (!node->parameters)
			return CUDA_ERROR_OUT_OF_MEMORY;
		for (size_t i = 0; i < n; i++)
			node->parameters[i] = kernel_parameter(work, i);
	}
	params->func = work->function;
	params->gridDimX = work->grid[0];
	params->gridDimY = work->grid[1];
	params->gridDimZ = work->grid[2];
	params->blockDimX = work->block[0];
	params->blockDimY = work->block[1];
	params->blockDimZ = work->block[2];
	params->sharedMemBytes = work->shared_bytes;
	params->kernelParams = node->parameters;
	params->ctx = node->op.context;
	return CUDA_SUCCESS;
}

/* The program has not described a captured copy: its description is made from its work. */
static void copy_params(const struct copy_work *work, CUDA_MEMCPY3D *params)
{
	memset(params, 0, sizeof(*params));
	params->srcMemoryType = work->from.host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
	params->srcHost = (const void *)(uintptr_t)work->from.address; /* NOLINT */
	params->srcDevice = work->from.address;
	params->srcPitch = work->from.pitch_bytes;
	if (work->from.pitch_bytes)
		params->srcHeight = work->from.slice_bytes / work->from.pitch_bytes;
	params->dstMemoryType = work->to.host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
	params->dstHost = (void *)(uintptr_t)work->to.address; /* NOLINT */
	params->dstDevice = work->to.address;
	params->dstPitch = work->to.pitch_bytes;
	if (work->to.pitch_bytes)
		params->dstHeight = work->to.slice_bytes / work->to.pitch_bytes;
	params->WidthInBytes = work->width_bytes;
	params->Height = work->height;
	params->Depth = work->depth;
}

static CUresult tell_copy(struct CUgraphNode_st *node, CUgraphNodeParams *all)
{
	all->memcpy.copyParams = node->copy;
	all->memcpy.copyCtx = node->op.context;
	if (!node->copy.WidthInBytes)
		copy_params(&node->op.copy, &all->memcpy.copyParams);
	return CUDA_SUCCESS;
}

static CUresult tell_set(struct CUgraphNode_st *node, CUgraphNodeParams *all)
{
	const struct op *op = &node->op;
	CUDA_MEMSET_NODE_PARAMS_v2 *params = &all->memset;

	params->dst = op->set.address;
	params->pitch = op->set.pitch_bytes;
	params->value = op->set.value;
	params->elementSize = op->set.element_bytes;
	params->width = op->set.width_elements;
	params->height = op->set.height;
	params->ctx = op->context;
	return CUDA_SUCCESS;
}

static CUresult tell_host(struct CUgraphNode_st *node, CUgraphNodeParams *all)
{
	all->host.fn = node->op.host.function;
	all->host.userData = node->op.host.data;
	return CUDA_SUCCESS;
}

static CUresult tell_child(struct CUgraphNode_st *node, CUgraphNodeParams *all)
{
	all->graph.graph = node->child;
	return CUDA_SUCCESS;
}

static CUresult tell_wait(struct CUgraphNode_st *node, CUgraphNodeParams *all)
{
	all->eventWait.event = node->op.event.event;
	return CUDA_SUCCESS;
}

static CUresult tell_record(struct CUgraphNode_st *node, CUgraphNodeParams *all)
{
	all->eventRecord.event = node->op.event.event;
	return CUDA_SUCCESS;
}

static CUresult tell_alloc(struct CUgraphNode_st *node, CUgraphNodeParams *all)
{
	memcpy(&all->alloc, &node->alloc, sizeof(node->alloc));
	return CUDA_SUCCESS;
}

static CUresult tell_free(struct CUgraphNode_st *node, CUgraphNodeParams *all)
{
	all->free.dptr = node->op.alloc.address;
	return CUDA_SUCCESS;
}

static CUresult tell_memop(struct CUgraphNode_st *node, CUgraphNodeParams *all)
{
	all->memOp.ctx = node->op.context;
	all->memOp.count = node->op.memop.count;
	all->memOp.paramArray = node->op.memop.params;
	return CUDA_SUCCESS;
}

static CUresult tell_conditional(struct CUgraphNode_st *node, CUgraphNodeParams *all)
{
	all->conditional = (CUDA_CONDITIONAL_NODE_PARAMS){
		.handle = node->condition.handle,
		.type = node->condition.type,
		.size = (unsigned)node->n_bodies,
		.phGraph_out = node->bodies,
		.ctx = node->op.context,
	};
	return CUDA_SUCCESS;
}

CUresult graph_node_params(struct CUgraphNode_st *node, CUgraphNodeParams *ret_params)
{
	/* Without a function: there is nothing to tell but the type. */
	static CUresult (*const tell[])(struct CUgraphNode_st *, CUgraphNodeParams *) = {
		[CU_GRAPH_NODE_TYPE_KERNEL] = tell_kernel,
		[CU_GRAPH_NODE_TYPE_MEMCPY] = tell_copy,
		[CU_GRAPH_NODE_TYPE_MEMSET] = tell_set,
		[CU_GRAPH_NODE_TYPE_HOST] = tell_host,
		[CU_GRAPH_NODE_TYPE_GRAPH] = tell_child,
		[CU_GRAPH_NODE_TYPE_WAIT_EVENT] = tell_wait,
		[CU_GRAPH_NODE_TYPE_EVENT_RECORD] = tell_record,
		[CU_GRAPH_NODE_TYPE_MEM_ALLOC] = tell_alloc,
		[CU_GRAPH_NODE_TYPE_MEM_FREE] = tell_free,
		[CU_GRAPH_NODE_TYPE_BATCH_MEM_OP] = tell_memop,
		[CU_GRAPH_NODE_TYPE_CONDITIONAL] = tell_conditional,
	};
	CUgraphNodeParams params;
	CUresult result = CUDA_SUCCESS;

	memset(&params, 0, sizeof(params));
	params.type = node->type;
	if ((unsigned)node->type < ARRAY_SIZE(tell) && tell[node->type])
		result = tell[node->type](node, &params);
	if (result == CUDA_SUCCESS)
		*ret_params = params;
	return result;
}

CUgraphExecUpdateResult graph_content_fits(const struct CUgraphNode_st *node,
					   const struct CUgraphNode_st *wanted)
{
	if (node->type != wanted->type)
		return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
	if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || node->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
		return node->op.alloc.address == wanted->op.alloc.address
			       ? CU_GRAPH_EXEC_UPDATE_SUCCESS
			       : CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
	if (node->type == CU_GRAPH_NODE_TYPE_CONDITIONAL &&
	    (node->condition.type != wanted->condition.type || node->n_bodies != wanted->n_bodies))
		return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
	if (node->type == CU_GRAPH_NODE_TYPE_KERNEL &&
	    node->op.kernel.cooperative != wanted->op.kernel.cooperative)
		return CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED;
	return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}
