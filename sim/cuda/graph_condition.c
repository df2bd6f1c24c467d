/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/graph_condition.h"

#include <string.h>

#include "cuda/prototypes.h"
#include "sim/cuda/context.h"
#include "sim/cuda/driver.h"
#include "sim/cuda/graph_plan.h"

static __thread struct graph_values *used;

/* A context must be named: the current one is no substitute. */
static CUresult context_given(CUcontext named, struct CUctx_st **ret_context)
{
	return named ? context_named(named, ret_context) : CUDA_ERROR_INVALID_CONTEXT;
}

/* ---- handles --------------------------------------------------------------------------------- */

static CUgraphConditionalHandle next_handle(void)
{
	static _Atomic CUgraphConditionalHandle last;

	return atomic_fetch_add(&last, 1) + 1;
}

static CUresult add(struct CUgraph_st *graph, const struct graph_handle *from)
{
	struct graph_handle *made = calloc(1, sizeof(*made));

	if (!made)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*made = *from;
	made->link = (struct list){NULL, NULL};
	list_append(&graph->handles, &made->link);
	return CUDA_SUCCESS;
}

void graph_conditions_free(struct CUgraph_st *graph)
{
	list_for_each(link, &graph->handles) free(list_entry(link, struct graph_handle, link));
	list_init(&graph->handles);
}

CUresult graph_conditions_clone(const struct CUgraph_st *from, struct CUgraph_st *to)
{
	CUresult result = CUDA_SUCCESS;

	list_for_each(link, &from->handles)
	{
		if (result == CUDA_SUCCESS)
			result = add(to, list_entry(link, struct graph_handle, link));
	}
	return result;
}

CUresult graph_conditions_replace(const struct CUgraph_st *from, struct CUgraph_st *to)
{
	struct CUgraph_st held;
	CUresult result;

	memset(&held, 0, sizeof(held));
	list_init(&held.handles);
	result = graph_conditions_clone(from, &held);
	if (result != CUDA_SUCCESS) {
		graph_conditions_free(&held);
		return result;
	}
	graph_conditions_free(to);
	list_for_each(link, &held.handles)
	{
		list_remove(link);
		list_append(&to->handles, link);
	}
	return CUDA_SUCCESS;
}

size_t graph_conditions_count(const struct CUgraph_st *graph)
{
	size_t n = 0;

	list_for_each(link, &graph->handles) n++;
	return n;
}

/* Searches the graph's own handles, and those of the graphs around it. NULL: not found. */
static const struct graph_handle *find_handle(const struct CUgraph_st *graph,
					      CUgraphConditionalHandle handle)
{
	for (; graph; graph = graph->parent ? graph->parent->graph : NULL) {
		list_for_each(link, &graph->handles)
		{
			const struct graph_handle *at = list_entry(link, struct graph_handle, link);

			if (at->handle == handle)
				return at;
		}
	}
	return NULL;
}

exported CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle *pHandle_out,
						 CUgraph hGraph, CUcontext ctx,
						 unsigned int defaultLaunchValue,
						 unsigned int flags)
{
	struct graph_handle handle;
	struct CUctx_st *context;
	CUresult result = driver_ready();

	if (result != CUDA_SUCCESS)
		return result;
	if (!pHandle_out || !graph_is(hGraph) || flags & ~(unsigned)CU_GRAPH_COND_ASSIGN_DEFAULT)
		return CUDA_ERROR_INVALID_VALUE;
	result = context_given(ctx, &context);
	if (result != CUDA_SUCCESS)
		return result;
	memset(&handle, 0, sizeof(handle));
	handle.handle = next_handle();
	handle.context = context;
	handle.value = defaultLaunchValue;
	handle.assigned = flags & CU_GRAPH_COND_ASSIGN_DEFAULT;
	result = add(hGraph, &handle);
	if (result == CUDA_SUCCESS)
		*pHandle_out = handle.handle;
	return result;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static bool size_fits(const CUDA_CONDITIONAL_NODE_PARAMS *params)
{
	switch (params->type) {
	case CU_GRAPH_COND_TYPE_IF:
		return params->size == 1 || params->size == 2; /* the second: else */
	case CU_GRAPH_COND_TYPE_WHILE:
		return params->size == 1;
	case CU_GRAPH_COND_TYPE_SWITCH:
		return params->size >= 1;
	}
	return false;
}

CUresult graph_condition_fill(struct CUgraphNode_st *node,
			      const CUDA_CONDITIONAL_NODE_PARAMS *params)
{
	const struct graph_handle *handle = find_handle(node->graph, params->handle);
	struct CUctx_st *context;
	CUresult result;

	if (!size_fits(params))
		return CUDA_ERROR_INVALID_VALUE;
	result = context_given(params->ctx, &context);
	if (result != CUDA_SUCCESS)
		return result;
	if (!handle || handle->context != context)
		return CUDA_ERROR_INVALID_VALUE;
	node->condition = (struct graph_condition){.handle = params->handle, .type = params->type};
	node->bodies = calloc(params->size, sizeof(struct CUgraph_st *));
	if (!node->bodies)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (node->n_bodies = 0; node->n_bodies < params->size; node->n_bodies++) {
		struct CUgraph_st *body = graph_new();

		if (!body)
			return CUDA_ERROR_OUT_OF_MEMORY;
		body->parent = node;
		node->bodies[node->n_bodies] = body;
	}
	return CUDA_SUCCESS;
}

/* ---- whether it can be run ------------------------------------------------------------------- */

/* A conditional node's graphs are started by the device: they cannot have nodes that need the host.
 */
static bool device_can_do(CUgraphNodeType type)
{
	return type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_MEMCPY ||
	       type == CU_GRAPH_NODE_TYPE_MEMSET || type == CU_GRAPH_NODE_TYPE_EMPTY ||
	       type == CU_GRAPH_NODE_TYPE_GRAPH || type == CU_GRAPH_NODE_TYPE_CONDITIONAL;
}

static bool device_can_run(const struct CUgraph_st *graph, bool within)
{
	list_for_each(link, &graph->nodes)
	{
		struct CUgraphNode_st *node = list_entry(link, struct CUgraphNode_st, link);
		bool inner = within || node->type == CU_GRAPH_NODE_TYPE_CONDITIONAL;
		struct graph_parts parts = graph_parts(node);

		if (within && !device_can_do(node->type))
			return false;
		for (size_t i = 0; i < parts.n; i++) {
			if (!device_can_run(parts.graphs[i], inner))
				return false;
		}
	}
	return true;
}

static bool uses(const struct CUgraph_st *graph, CUgraphConditionalHandle handle)
{
	list_for_each(link, &graph->nodes)
	{
		struct CUgraphNode_st *node = list_entry(link, struct CUgraphNode_st, link);
		struct graph_parts parts = graph_parts(node);

		if (node->type == CU_GRAPH_NODE_TYPE_CONDITIONAL &&
		    node->condition.handle == handle)
			return true;
		for (size_t i = 0; i < parts.n; i++) {
			if (uses(parts.graphs[i], handle))
				return true;
		}
	}
	return false;
}

static bool uses_all(const struct CUgraph_st *graph)
{
	list_for_each(link, &graph->handles)
	{
		if (!uses(graph, list_entry(link, struct graph_handle, link)->handle))
			return false;
	}
	list_for_each(link, &graph->nodes)
	{
		struct graph_parts parts =
			graph_parts(list_entry(link, struct CUgraphNode_st, link));

		for (size_t i = 0; i < parts.n; i++) {
			if (!uses_all(parts.graphs[i]))
				return false;
		}
	}
	return true;
}

CUgraphInstantiateResult graph_conditions_check(const struct CUgraph_st *graph)
{
	if (!device_can_run(graph, false))
		return CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED;
	return uses_all(graph) ? CUDA_GRAPH_INSTANTIATE_SUCCESS
			       : CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED;
}

/* ---- plans ----------------------------------------------------------------------------------- */

CUresult graph_control_of_handle(const struct graph_handle *handle,
				 struct graph_control **ret_control)
{
	struct graph_control *control = calloc(1, sizeof(*control));

	if (!control)
		return CUDA_ERROR_OUT_OF_MEMORY;
	control->sets = true;
	control->handle = handle->handle;
	control->value = handle->value;
	*ret_control = control;
	return CUDA_SUCCESS;
}

CUresult graph_control_of_node(const struct CUgraphNode_st *node,
			       struct graph_control **ret_control)
{
	struct graph_control *control = calloc(1, sizeof(*control));
	CUresult result = CUDA_SUCCESS;

	if (!control)
		return CUDA_ERROR_OUT_OF_MEMORY;
	control->handle = node->condition.handle;
	control->type = node->condition.type;
	control->bodies = calloc(node->n_bodies, sizeof(struct graph_plan *));
	if (!control->bodies)
		result = CUDA_ERROR_OUT_OF_MEMORY;
	while (result == CUDA_SUCCESS && control->n < node->n_bodies) {
		result = graph_plan_new(node->bodies[control->n], &control->bodies[control->n]);
		if (result == CUDA_SUCCESS)
			control->n++;
	}
	if (result != CUDA_SUCCESS) {
		graph_control_free(control);
		return result;
	}
	*ret_control = control;
	return CUDA_SUCCESS;
}

void graph_control_free(struct graph_control *control)
{
	if (!control)
		return;
	for (size_t i = 0; i < control->n; i++)
		graph_plan_unref(control->bodies[i]);
	free(control->bodies);
	free(control);
}

/* ---- values ---------------------------------------------------------------------------------- */

static size_t count_handles(const struct CUgraph_st *graph)
{
	size_t n = graph_conditions_count(graph);

	list_for_each(link, &graph->nodes)
	{
		struct graph_parts parts =
			graph_parts(list_entry(link, struct CUgraphNode_st, link));

		for (size_t i = 0; i < parts.n; i++)
			n += count_handles(parts.graphs[i]);
	}
	return n;
}

/* A graph that occurs several times has its handles once, as its clones run one after the other. */
static void collect(const struct CUgraph_st *graph, struct graph_values *values)
{
	list_for_each(link, &graph->handles)
	{
		const struct graph_handle *handle = list_entry(link, struct graph_handle, link);

		values->at[values->n++].handle = handle->handle;
	}
	list_for_each(link, &graph->nodes)
	{
		struct graph_parts parts =
			graph_parts(list_entry(link, struct CUgraphNode_st, link));

		for (size_t i = 0; i < parts.n; i++)
			collect(parts.graphs[i], values);
	}
}

CUresult graph_values_of(const struct CUgraph_st *graph, struct graph_values *ret_values)
{
	size_t n = count_handles(graph);

	*ret_values = (struct graph_values){NULL, 0};
	if (!n)
		return CUDA_SUCCESS;
	ret_values->at = calloc(n, sizeof(*ret_values->at));
	if (!ret_values->at)
		return CUDA_ERROR_OUT_OF_MEMORY;
	collect(graph, ret_values);
	return CUDA_SUCCESS;
}

CUresult graph_values_clone(const struct graph_values *from, struct graph_values *ret_values)
{
	*ret_values = (struct graph_values){NULL, 0};
	if (!from->n)
		return CUDA_SUCCESS;
	ret_values->at = calloc(from->n, sizeof(*ret_values->at));
	if (!ret_values->at)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (; ret_values->n < from->n; ret_values->n++)
		ret_values->at[ret_values->n].handle = from->at[ret_values->n].handle;
	return CUDA_SUCCESS;
}

void graph_values_free(struct graph_values *values)
{
	free(values->at);
	*values = (struct graph_values){NULL, 0};
}

void graph_values_use(struct graph_values *values)
{
	used = values;
}

struct graph_values *graph_values_used(void)
{
	return used;
}

/* The first of its kind stands for all. */
static struct graph_value *find(const struct graph_values *values, CUgraphConditionalHandle handle)
{
	for (size_t i = 0; values && i < values->n; i++)
		if (values->at[i].handle == handle)
			return &values->at[i];
	return NULL;
}

void graph_values_set(struct graph_values *values, CUgraphConditionalHandle handle, unsigned value)
{
	struct graph_value *at = find(values, handle);

	if (at)
		atomic_store(&at->value, value);
}

unsigned graph_values_get(const struct graph_values *values, CUgraphConditionalHandle handle)
{
	struct graph_value *at = find(values, handle);

	return at ? atomic_load(&at->value) : 0;
}
