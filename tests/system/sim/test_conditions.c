/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditional nodes: graphs that run according to values that kernels write.
 */
#include "tests/system/sim/streams.h"

/* set(h, v): the condition is v. count(h, p): *p -= 1, and the condition is *p. */
static const char ptx[] =
	".version 6.0\n.target sm_60\n.address_size 64\n"
	".extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);\n"
	".visible .entry set(.param .u64 h, .param .u32 v)\n{\n"
	".reg .u64 %h;\n.reg .u32 %v;\n"
	"ld.param.u64 %h, [h];\nld.param.u32 %v, [v];\n"
	"{\n.param .b64 p0;\n.param .b32 p1;\nst.param.b64 [p0], %h;\nst.param.b32 [p1], %v;\n"
	"call.uni cudaGraphSetConditional, (p0, p1);\n}\nret;\n}\n"
	".visible .entry count(.param .u64 h, .param .u64 p)\n{\n"
	".reg .u64 %h, %p;\n.reg .u32 %v;\n"
	"ld.param.u64 %h, [h];\nld.param.u64 %p, [p];\n"
	"ld.global.u32 %v, [%p];\nsub.u32 %v, %v, 1;\nst.global.u32 [%p], %v;\n"
	"{\n.param .b64 p0;\n.param .b32 p1;\nst.param.b64 [p0], %h;\nst.param.b32 [p1], %v;\n"
	"call.uni cudaGraphSetConditional, (p0, p1);\n}\nret;\n}\n";

struct conditions {
	struct sim sim;
	CUfunction set, count;
};

static struct conditions conditions_begin(void)
{
	struct conditions c = {.sim = sim_begin()};
	CUmodule module;

	ok(cuModuleLoadData(&module, ptx));
	ok(cuModuleGetFunction(&c.set, module, "set"));
	ok(cuModuleGetFunction(&c.count, module, "count"));
	return c;
}

static CUgraph graph_new(void)
{
	CUgraph graph;

	ok(cuGraphCreate(&graph, 0));
	return graph;
}

static CUcontext current(void)
{
	CUcontext context;

	ok(cuCtxGetCurrent(&context));
	return context;
}

static CUgraphConditionalHandle handle_new(CUgraph graph, unsigned value, unsigned flags)
{
	CUgraphConditionalHandle handle = 0;

	ok(cuGraphConditionalHandleCreate(&handle, graph, current(), value, flags));
	expect(handle != 0);
	return handle;
}

static CUgraphNode kernel_node(CUgraph graph, const CUgraphNode *after, CUfunction function,
			       void **arguments)
{
	CUDA_KERNEL_NODE_PARAMS_v1 params = first_form(function, arguments);
	CUgraphNode node;

	ok(cuGraphAddKernelNode(&node, graph, after, after != NULL, &params));
	return node;
}

static CUgraphNode add_node(CUgraph graph, const struct sim *sim, CUdeviceptr word, unsigned k)
{
	unsigned n = 1;
	void *arguments[] = {&word, &n, &k};

	return kernel_node(graph, NULL, sim->add, arguments);
}

static CUgraphNodeParams condition_params(CUgraphConditionalHandle handle,
					  CUgraphConditionalNodeType type, unsigned size)
{
	CUgraphNodeParams params;

	memset(&params, 0, sizeof(params));
	params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
	params.conditional.handle = handle;
	params.conditional.type = type;
	params.conditional.size = size;
	params.conditional.ctx = current();
	return params;
}

static CUresult condition_try(CUgraph graph, const CUgraphNode *after,
			      CUgraphConditionalHandle handle, CUgraphConditionalNodeType type,
			      unsigned size, CUgraph *bodies, CUgraphNode *ret_node)
{
	CUgraphNodeParams params = condition_params(handle, type, size);
	CUresult r;

	r = cuGraphAddNode(ret_node, graph, after, after != NULL, &params);
	if (r == CUDA_SUCCESS)
		memcpy(bodies, params.conditional.phGraph_out, size * sizeof(*bodies));
	return r;
}

static CUgraphNode condition(CUgraph graph, const CUgraphNode *after,
			     CUgraphConditionalHandle handle, CUgraphConditionalNodeType type,
			     unsigned size, CUgraph *bodies)
{
	CUgraphNode node = NULL;

	ok(condition_try(graph, after, handle, type, size, bodies, &node));
	return node;
}

static void run(CUgraphExec exec, unsigned times)
{
	for (unsigned i = 0; i < times; i++)
		ok(cuGraphLaunch(exec, NULL));
	ok(cuCtxSynchronize());
}

TEST(a_while_runs_until_a_kernel_says_no)
{
	struct conditions c = conditions_begin();
	CUdeviceptr left = sim_words(1, 5), sum = sim_words(1, 0);
	CUgraph graph = graph_new(), body;
	CUgraphConditionalHandle handle = handle_new(graph, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
	void *count[] = {&handle, &left};
	CUgraphNodeType type;
	CUgraphNode node;
	CUgraphExec exec;

	node = condition(graph, NULL, handle, CU_GRAPH_COND_TYPE_WHILE, 1, &body);
	ok(cuGraphNodeGetType(node, &type));
	expect_eq(type, CU_GRAPH_NODE_TYPE_CONDITIONAL);
	node = add_node(body, &c.sim, sum, 10);
	kernel_node(body, &node, c.count, count);
	answers(cuGraphDestroy(body), CUDA_ERROR_INVALID_VALUE);
	ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
	ok(cuGraphDestroy(graph));
	run(exec, 1);
	expect_eq(sim_word(sum), 50);
	/* The default holds again at each launch. */
	ok(cuMemsetD32_v2(left, 3, 1));
	run(exec, 1);
	expect_eq(sim_word(sum), 80);
	ok(cuGraphExecDestroy(exec));
	sim_end(&c.sim);
}

/* set(handle, value), and what follows it. */
struct decision {
	CUgraph graph;
	CUgraphNode node;
	CUgraphConditionalHandle handle;
	unsigned value;
};

static struct decision decision(const struct conditions *c, unsigned value)
{
	struct decision d = {.graph = graph_new(), .value = value};
	void *set[] = {&d.handle, &d.value};

	d.handle = handle_new(d.graph, 0, 0);
	d.node = kernel_node(d.graph, NULL, c->set, set);
	return d;
}

static void decision_run(struct decision *d)
{
	CUgraphExec exec;

	ok(cuGraphInstantiateWithFlags(&exec, d->graph, 0));
	run(exec, 1);
	ok(cuGraphExecDestroy(exec));
	ok(cuGraphDestroy(d->graph));
}

TEST(an_if_and_a_switch_choose)
{
	struct conditions c = conditions_begin();
	CUdeviceptr words = sim_words(6, 0);
	CUgraph bodies[3], inner;

	for (unsigned value = 0; value < 4; value++) {
		struct decision d = decision(&c, value);
		unsigned before = sim_word(words + 8);

		condition(d.graph, &d.node, d.handle, CU_GRAPH_COND_TYPE_IF, 2, bodies);
		add_node(bodies[0], &c.sim, words, 1);
		add_node(bodies[1], &c.sim, words + 4, 1);
		condition(d.graph, &d.node, d.handle, CU_GRAPH_COND_TYPE_SWITCH, 3, bodies);
		for (unsigned i = 0; i < 3; i++)
			add_node(bodies[i], &c.sim, words + 8 + 4 * i, 1);
		/* Conditions within conditions, and no else. */
		condition(bodies[0], NULL, d.handle, CU_GRAPH_COND_TYPE_IF, 1, &inner);
		add_node(inner, &c.sim, words + 20, 1);
		decision_run(&d);
		expect_eq(sim_word(words + 8) - before, value == 0);
	}
	expect_eq(sim_word(words), 3);
	expect_eq(sim_word(words + 4), 1);
	expect_eq(sim_word(words + 12), 1);
	expect_eq(sim_word(words + 16), 1);
	expect_eq(sim_word(words + 20), 0);
	sim_end(&c.sim);
}

TEST(a_graph_that_cannot_be_a_condition_is_refused)
{
	struct conditions c = conditions_begin();
	CUdeviceptr word = sim_words(1, 0);
	CUgraph graph = graph_new(), other = graph_new(), bodies[2];
	CUgraphConditionalHandle handle = handle_new(graph, 0, 0),
				 foreign = handle_new(other, 0, 0);
	CUDA_GRAPH_INSTANTIATE_PARAMS how = {0};
	CUDA_HOST_NODE_PARAMS_v1 host = {.fn = free};
	CUcontext second;
	CUgraphNode node;
	CUgraphExec exec;

	answers(cuGraphConditionalHandleCreate(&handle, graph, c.sim.context, 0, 2),
		CUDA_ERROR_INVALID_VALUE);
	answers(condition_try(graph, NULL, handle, CU_GRAPH_COND_TYPE_WHILE, 2, bodies, &node),
		CUDA_ERROR_INVALID_VALUE);
	answers(condition_try(graph, NULL, handle, CU_GRAPH_COND_TYPE_IF, 3, bodies, &node),
		CUDA_ERROR_INVALID_VALUE);
	answers(condition_try(graph, NULL, handle, CU_GRAPH_COND_TYPE_SWITCH, 0, bodies, &node),
		CUDA_ERROR_INVALID_VALUE);
	answers(condition_try(graph, NULL, foreign, CU_GRAPH_COND_TYPE_IF, 1, bodies, &node),
		CUDA_ERROR_INVALID_VALUE);
	ok(cuCtxCreate_v2(&second, 0, 0)); /* from here on, nodes name this one */
	answers(condition_try(graph, NULL, handle, CU_GRAPH_COND_TYPE_IF, 1, bodies, &node),
		CUDA_ERROR_INVALID_VALUE);
	ok(cuCtxDestroy_v2(second));
	/* Nothing of them stays in the graph. */
	answers(cuGraphInstantiateWithParams(&exec, graph, &how), CUDA_ERROR_INVALID_VALUE);
	expect_eq(how.result_out, CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED);
	condition(graph, NULL, handle, CU_GRAPH_COND_TYPE_IF, 1, bodies);
	ok(cuGraphInstantiateWithParams(&exec, graph, &how));
	ok(cuGraphExecDestroy(exec));
	/* The device starts a body: what only the host can do is not for it. */
	add_node(bodies[0], &c.sim, word, 1);
	ok(cuGraphAddHostNode(&node, bodies[0], NULL, 0, &host));
	answers(cuGraphInstantiateWithParams(&exec, graph, &how), CUDA_ERROR_NOT_SUPPORTED);
	expect_eq(how.result_out, CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED);
	ok(cuGraphDestroy(graph));
	ok(cuGraphDestroy(other));
	sim_end(&c.sim);
}

/* The current context is not meant where none is named. What can be seen to be wrong without a
 * context is so first; whose the handle is comes after. */
TEST(a_condition_names_its_context)
{
	struct conditions c = conditions_begin();
	CUgraph graph = graph_new(), other = graph_new();
	CUgraphConditionalHandle handle = handle_new(graph, 0, 0),
				 foreign = handle_new(other, 0, 0), none;
	CUgraphNodeParams params = condition_params(handle, CU_GRAPH_COND_TYPE_IF, 1);
	CUgraphNode node;

	answers(cuGraphConditionalHandleCreate(&none, graph, NULL, 0, 0),
		CUDA_ERROR_INVALID_CONTEXT);
	answers(cuGraphConditionalHandleCreate(&none, graph, NULL, 0, 2), CUDA_ERROR_INVALID_VALUE);
	params.conditional.ctx = NULL;
	answers(cuGraphAddNode(&node, graph, NULL, 0, &params), CUDA_ERROR_INVALID_CONTEXT);
	params.conditional.handle = foreign;
	answers(cuGraphAddNode(&node, graph, NULL, 0, &params), CUDA_ERROR_INVALID_CONTEXT);
	params.conditional.size = 3;
	answers(cuGraphAddNode(&node, graph, NULL, 0, &params), CUDA_ERROR_INVALID_VALUE);
	ok(cuGraphDestroy(graph));
	ok(cuGraphDestroy(other));
	sim_end(&c.sim);
}

/* As cuda-core's graph builder does it. */
TEST(a_condition_is_captured_into)
{
	struct conditions c = conditions_begin();
	CUdeviceptr left = sim_words(1, 4), sum = sim_words(1, 1);
	CUgraphConditionalHandle handle;
	const CUgraphNode *tips;
	CUgraph graph, body, same;
	CUstream stream, inside;
	CUstreamCaptureStatus status;
	CUgraphNode node;
	CUgraphExec exec;
	size_t n;

	ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ok(cuStreamCreate(&inside, CU_STREAM_NON_BLOCKING));
	ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	ok(sim_launch(c.sim.add, sum, 1, stream));
	ok(cuStreamGetCaptureInfo_v2(stream, &status, NULL, &graph, &tips, &n));
	expect_eq(n, 1);
	handle = handle_new(graph, 7, CU_GRAPH_COND_ASSIGN_DEFAULT);
	node = condition(graph, tips, handle, CU_GRAPH_COND_TYPE_WHILE, 1, &body);
	ok(cuStreamUpdateCaptureDependencies(stream, &node, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
	ok(cuStreamBeginCaptureToGraph(inside, body, NULL, NULL, 0,
				       CU_STREAM_CAPTURE_MODE_RELAXED));
	ok(sim_launch(c.sim.times, sum, 3, inside));
	{
		void *arguments[] = {&handle, &left};

		ok(cuLaunchKernel(c.count, 1, 1, 1, 1, 1, 1, 0, inside, arguments, NULL));
	}
	ok(cuStreamEndCapture(inside, &same));
	expect(same == body);
	ok(sim_launch(c.sim.add, sum, 5, stream));
	ok(cuStreamEndCapture(stream, &graph));
	ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
	ok(cuGraphDestroy(graph));
	ok(cuGraphLaunch(exec, stream));
	ok(cuStreamSynchronize(stream));
	expect_eq(sim_word(sum), 2 * 81 + 5);
	ok(cuGraphExecDestroy(exec));
	sim_end(&c.sim);
}

static CUgraph counting_graph(const struct conditions *c, CUdeviceptr left, CUdeviceptr sum,
			      unsigned k)
{
	CUgraph graph = graph_new(), body;
	CUgraphConditionalHandle handle = handle_new(graph, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
	void *count[] = {&handle, &left};
	CUgraphNode node;

	condition(graph, NULL, handle, CU_GRAPH_COND_TYPE_WHILE, 1, &body);
	node = add_node(body, &c->sim, sum, k);
	kernel_node(body, &node, c->count, count);
	return graph;
}

TEST(a_launch_a_clone_and_an_update_have_values_of_their_own)
{
	struct conditions c = conditions_begin();
	CUdeviceptr left = sim_words(2, 400), sum = sim_words(2, 0);
	CUgraph graph = counting_graph(&c, left, sum, 1), clone;
	CUgraphExecUpdateResultInfo info;
	CUgraphExec exec, other;
	CUstream stream;

	ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	/* Of one graph twice at a time, on words of their own: kernels of the clone name the same
	 * handle. */
	ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
	ok(cuGraphClone(&clone, graph));
	ok(cuGraphInstantiateWithFlags(&other, clone, 0));
	ok(cuGraphDestroy(clone));
	clone = counting_graph(&c, left + 4, sum + 4, 2);
	ok(cuGraphExecUpdate_v2(other, clone, &info));
	ok(cuGraphDestroy(clone));
	ok(cuGraphLaunch(exec, NULL));
	ok(cuGraphLaunch(other, stream));
	ok(cuCtxSynchronize());
	expect_eq(sim_word(sum), 400);
	expect_eq(sim_word(sum + 4), 800);
	ok(cuGraphExecDestroy(other));
	ok(cuGraphExecDestroy(exec));
	ok(cuGraphDestroy(graph));
	sim_end(&c.sim);
}

TEST(a_child_that_is_there_twice_has_its_default_each_time)
{
	struct conditions c = conditions_begin();
	CUdeviceptr sum = sim_words(1, 0);
	CUgraph graph = graph_new(), parent = graph_new(), body;
	CUgraphConditionalHandle handle = handle_new(graph, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
	unsigned no = 0;
	void *set[] = {&handle, &no};
	CUgraphNode node, first, second;
	CUgraphExec exec;

	condition(graph, NULL, handle, CU_GRAPH_COND_TYPE_WHILE, 1, &body);
	node = add_node(body, &c.sim, sum, 1);
	kernel_node(body, &node, c.set, set);
	ok(cuGraphAddChildGraphNode(&first, parent, NULL, 0, graph));
	ok(cuGraphAddChildGraphNode(&second, parent, &first, 1, graph));
	ok(cuGraphInstantiateWithFlags(&exec, parent, 0));
	run(exec, 2);
	expect_eq(sim_word(sum), 4);
	ok(cuGraphExecDestroy(exec));
	ok(cuGraphDestroy(parent));
	ok(cuGraphDestroy(graph));
	sim_end(&c.sim);
}

TEST(the_end_of_a_context_ends_a_while)
{
	struct conditions c = conditions_begin();
	CUdeviceptr left = sim_words(1, 0), sum = sim_words(1, 0);
	CUgraph graph = counting_graph(&c, left, sum, 1); /* `left` wraps round */
	CUgraphExec exec;

	ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
	ok(cuGraphLaunch(exec, NULL));
	ok(cuCtxDestroy_v2(c.sim.context));
	ok(cuGraphExecDestroy(exec));
	ok(cuGraphDestroy(graph));
	c.sim = sim_begin();
	sim_end(&c.sim);
}

TEST(an_update_needs_conditions_of_the_same_shape)
{
	struct conditions c = conditions_begin();
	CUdeviceptr left = sim_words(1, 3), sum = sim_words(1, 0);
	CUgraph graph = counting_graph(&c, left, sum, 1), other = graph_new(), bodies[2];
	CUgraphConditionalHandle handle = handle_new(other, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
	CUgraphExecUpdateResultInfo info;
	CUgraphNodeParams params = condition_params(handle, CU_GRAPH_COND_TYPE_IF, 1);
	CUgraphNode node;
	CUgraphExec exec;

	ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
	node = condition(other, NULL, handle, CU_GRAPH_COND_TYPE_IF, 1, bodies);
	answers(cuGraphExecUpdate_v2(exec, other, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
	expect_eq(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED);
	answers(cuGraphNodeSetParams(node, &params), CUDA_ERROR_INVALID_VALUE);
	run(exec, 1);
	expect_eq(sim_word(sum), 3);
	ok(cuGraphExecDestroy(exec));
	ok(cuGraphDestroy(graph));
	ok(cuGraphDestroy(other));
	sim_end(&c.sim);
}

TEST(outside_of_a_graph_a_kernel_sets_nothing)
{
	struct conditions c = conditions_begin();
	CUgraphConditionalHandle handle = 1;
	unsigned value = 1;
	void *set[] = {&handle, &value};

	ok(cuLaunchKernel(c.set, 1, 1, 1, 1, 1, 1, 0, NULL, set, NULL));
	ok(cuCtxSynchronize());
	sim_end(&c.sim);
}
