/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/graph_plan.h"

#include "sim/cuda/context.h"
#include "sim/cuda/event.h"
#include "sim/cuda/handle.h"
#include "sim/cuda/op_run.h"

static size_t count_ops(const struct CUgraph_st *graph)
{
	size_t n = graph_conditions_count(graph);

	list_for_each(link, &graph->nodes)
	{
		struct CUgraphNode_st *node = list_entry(link, struct CUgraphNode_st, link);

		n += node->child ? count_ops(node->child) : 1;
	}
	return n;
}

static void add_control(struct graph_plan *plan, struct graph_control *control)
{
	plan->ops[plan->n++] = (struct op){.kind = OP_CONTROL, .control = control};
}

/* Values that are to be set whenever the graph begins. */
static CUresult begin(const struct CUgraph_st *graph, struct graph_plan *plan)
{
	list_for_each(link, &graph->handles)
	{
		const struct graph_handle *handle = list_entry(link, struct graph_handle, link);
		struct graph_control *control;

		if (!handle->assigned)
			continue;
		if (graph_control_of_handle(handle, &control) != CUDA_SUCCESS)
			return CUDA_ERROR_OUT_OF_MEMORY;
		add_control(plan, control);
	}
	return CUDA_SUCCESS;
}

static CUresult flatten(const struct CUgraph_st *graph, struct graph_plan *plan)
{
	struct graph_control *control;
	CUgraphNode *nodes;
	CUresult result = graph_sort(graph, &nodes);

	if (result != CUDA_SUCCESS)
		return result;
	result = begin(graph, plan);
	for (size_t i = 0; i < graph->n_nodes && result == CUDA_SUCCESS; i++) {
		struct CUgraphNode_st *node = nodes[i];

		if (node->child) {
			result = flatten(node->child, plan);
		} else if (node->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
			result = graph_control_of_node(node, &control);
			if (result == CUDA_SUCCESS)
				add_control(plan, control);
		} else if (!node->disabled && node->op.kind != OP_EMPTY) {
			result = op_clone(&node->op, &plan->ops[plan->n]);
			if (result == CUDA_SUCCESS)
				plan->n++;
		}
	}
	free(nodes);
	return result;
}

/* The user objects of the graph and of its children. */
static CUresult keep_users(const struct CUgraph_st *graph, struct CUgraph_st *keep)
{
	CUresult result = graph_users_clone(graph, keep);

	list_for_each(link, &graph->nodes)
	{
		struct graph_parts parts =
			graph_parts(list_entry(link, struct CUgraphNode_st, link));

		for (size_t i = 0; i < parts.n && result == CUDA_SUCCESS; i++)
			result = keep_users(parts.graphs[i], keep);
	}
	return result;
}

CUresult graph_plan_new(const struct CUgraph_st *graph, struct graph_plan **ret_plan)
{
	struct graph_plan *plan = calloc(1, sizeof(*plan));
	size_t n = count_ops(graph);
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

	if (!plan)
		return result;
	atomic_init(&plan->refs, 1);
	plan->ops = calloc(n ? n : 1, sizeof(*plan->ops));
	plan->keep = graph_new();
	if (plan->ops && plan->keep)
		result = flatten(graph, plan);
	if (result == CUDA_SUCCESS)
		result = keep_users(graph, plan->keep);
	if (result == CUDA_SUCCESS)
		result = graph_values_of(graph, &plan->values);
	if (result != CUDA_SUCCESS) {
		graph_plan_unref(plan);
		return result;
	}
	*ret_plan = plan;
	return CUDA_SUCCESS;
}

void graph_plan_unref(struct graph_plan *plan)
{
	if (!plan || atomic_fetch_sub(&plan->refs, 1) != 1)
		return;
	for (size_t i = 0; i < plan->n; i++)
		op_done(&plan->ops[i]);
	free(plan->ops);
	graph_free(plan->keep);
	graph_values_free(&plan->values);
	free(plan);
}

struct graph_launch *graph_launch_new(struct graph_plan *plan)
{
	struct graph_launch *launch = calloc(1, sizeof(*launch));

	if (!launch)
		return NULL;
	launch->plan = plan;
	atomic_fetch_add(&plan->refs, 1);
	launch->records = calloc(plan->n ? plan->n : 1, sizeof(struct event_record *));
	if (!launch->records || graph_values_clone(&plan->values, &launch->values) != CUDA_SUCCESS)
		goto fail;
	for (size_t i = 0; i < plan->n; i++) {
		const struct op *op = &plan->ops[i];

		if (op->kind == OP_WAIT && handle_is(HANDLE_EVENT, op->event.event))
			launch->records[i] = event_last(op->event.event);
		if (op->kind != OP_RECORD)
			continue;
		launch->records[i] = event_record_new();
		if (!launch->records[i])
			goto fail;
	}
	return launch;
fail:
	graph_launch_free(launch);
	return NULL;
}

void graph_launch_free(struct graph_launch *launch)
{
	if (!launch)
		return;
	for (size_t i = 0; launch->records && i < launch->plan->n; i++)
		event_record_unref(launch->records[i]);
	free(launch->records);
	graph_values_free(&launch->values);
	graph_plan_unref(launch->plan);
	stream_mark_drop(&launch->previous);
	free(launch);
}

/* A record is waited for at the launch's stream, at the launch's end at the latest. */
static void publish(struct graph_launch *launch, const struct stream_mark *mark)
{
	for (size_t i = 0; i < launch->plan->n; i++) {
		const struct op *op = &launch->plan->ops[i];

		if (op->kind != OP_RECORD || !launch->records[i] ||
		    !handle_is(HANDLE_EVENT, op->event.event))
			continue;
		launch->records[i]->mark = *mark;
		stream_ref(mark->stream);
		event_publish(op->event.event, launch->records[i]);
	}
}

CUresult graph_launch_submit(struct graph_launch *launch, struct CUstream_st *stream,
			     struct stream_mark *ret_mark)
{
	struct op op = {.kind = OP_GRAPH, .launch = launch};
	struct graph_launch *held = graph_launch_new(launch->plan);
	CUresult result;

	if (!held) {
		op_done(&op);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	/* A copy of the launch: it may be over and freed before its events get their records. */
	for (size_t i = 0; i < launch->plan->n; i++) {
		event_record_unref(held->records[i]);
		held->records[i] = launch->records[i];
		if (held->records[i])
			atomic_fetch_add(&held->records[i]->refs, 1);
	}
	result = stream_enqueue(stream, &op, ret_mark);
	if (result == CUDA_SUCCESS)
		publish(held, ret_mark);
	graph_launch_free(held);
	return result;
}

void graph_launch_drop(struct graph_launch *launch, struct CUstream_st *stream,
		       const uint64_t *time_ns)
{
	for (size_t i = 0; i < launch->plan->n; i++) {
		if (launch->plan->ops[i].kind == OP_RECORD &&
		    !atomic_load(&launch->records[i]->reached))
			event_record_reached(launch->records[i], stream, *time_ns);
	}
}

/* A conditional node's graphs hold neither events nor memory: an op is all that a step needs. */
static CUresult run_body(struct graph_launch *launch, const struct graph_plan *plan,
			 struct CUstream_st *stream, uint64_t *time_ns);

static CUresult run_while(struct graph_launch *launch, const struct graph_control *control,
			  struct CUstream_st *stream, uint64_t *time_ns)
{
	CUresult result = CUDA_SUCCESS;

	while (result == CUDA_SUCCESS && graph_values_get(&launch->values, control->handle)) {
		if (stream_set_ending(stream->set))
			return CUDA_ERROR_CONTEXT_IS_DESTROYED;
		result = run_body(launch, control->bodies[0], stream, time_ns);
	}
	return result;
}

static CUresult run_control(struct graph_launch *launch, const struct graph_control *control,
			    struct CUstream_st *stream, uint64_t *time_ns)
{
	unsigned value = graph_values_get(&launch->values, control->handle);
	size_t body;

	if (control->sets) {
		graph_values_set(&launch->values, control->handle, control->value);
		return CUDA_SUCCESS;
	}
	if (control->type == CU_GRAPH_COND_TYPE_WHILE)
		return run_while(launch, control, stream, time_ns);
	body = control->type == CU_GRAPH_COND_TYPE_SWITCH ? value : !value;
	return body < control->n ? run_body(launch, control->bodies[body], stream, time_ns)
				 : CUDA_SUCCESS;
}

static CUresult run_body(struct graph_launch *launch, const struct graph_plan *plan,
			 struct CUstream_st *stream, uint64_t *time_ns)
{
	CUresult result = CUDA_SUCCESS;

	for (size_t i = 0; i < plan->n && result == CUDA_SUCCESS; i++) {
		if (plan->ops[i].kind == OP_CONTROL)
			result = run_control(launch, plan->ops[i].control, stream, time_ns);
		else
			result = op_execute(&plan->ops[i], stream, time_ns);
	}
	return result;
}

static CUresult run_one(struct graph_launch *launch, size_t i, struct CUstream_st *stream,
			uint64_t *time_ns)
{
	struct op *op = &launch->plan->ops[i];

	if (op->kind == OP_RECORD) {
		event_record_reached(launch->records[i], stream, *time_ns);
		return CUDA_SUCCESS;
	}
	if (op->kind == OP_WAIT) {
		if (launch->records[i])
			event_record_wait(launch->records[i], stream->set, time_ns);
		return CUDA_SUCCESS;
	}
	if (op->kind == OP_CONTROL)
		return run_control(launch, op->control, stream, time_ns);
	return op_execute(op, stream, time_ns);
}

CUresult graph_launch_run(struct graph_launch *launch, struct CUstream_st *stream,
			  uint64_t *time_ns)
{
	CUresult result = CUDA_SUCCESS;

	best_effort(stream_mark_wait(&launch->previous, stream->set));
	graph_values_use(&launch->values);
	for (size_t i = 0; i < launch->plan->n && result == CUDA_SUCCESS; i++)
		result = run_one(launch, i, stream, time_ns);
	graph_values_use(NULL);
	if (result != CUDA_SUCCESS)
		graph_launch_drop(launch, stream, time_ns);
	return result;
}
