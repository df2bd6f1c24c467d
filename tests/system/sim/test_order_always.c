/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The law of order, and random programs that try to break it: what a program submits to legacy,
 * per-thread, blocking and non-blocking streams, with events between them, runs in an order that
 * keeps every "comes after" that CUDA promises. Likewise for what is captured and launched.
 */
#include <sched.h>

#include "tests/system/sim/streams.h"

enum {
	OPS = 60, /* bits of a word */
	STREAMS = 6,
	EVENTS = 4,
};

/* Each op notes when it ran; `before` has a bit for each op that must have run by then. */
struct noted {
	struct program *program;
	unsigned yields;
	unsigned place; /* from 1; 0: has not run */
	uint64_t before;
};

struct program {
	struct noted ops[OPS];
	unsigned n;
	_Atomic unsigned clock;
	CUstream streams[STREAMS]; /* 0: legacy, 1: per thread, 2 and 3: blocking, 4 and 5: not */
	CUevent events[EVENTS];
	uint64_t tails[STREAMS]; /* all that the stream's next op comes after */
	uint64_t marks[EVENTS];
	bool recorded[EVENTS];
};

static void note(void *data)
{
	struct noted *op = data;

	for (unsigned i = 0; i < op->yields; i++)
		sched_yield();
	op->place = atomic_fetch_add(&op->program->clock, 1) + 1;
}

/* Adds the rules of the legacy stream to a stream's tail. */
static uint64_t implied(const struct program *program, unsigned stream)
{
	if (stream == 0)
		return program->tails[1] | program->tails[2] | program->tails[3];
	return stream < 4 ? program->tails[0] : 0;
}

static void submit(struct program *program, unsigned stream, bool implicit)
{
	struct noted *op = &program->ops[program->n];

	*op = (struct noted){.program = program, .yields = (unsigned)test_random_below(20)};
	op->before = program->tails[stream] | (implicit ? implied(program, stream) : 0);
	program->tails[stream] = op->before | 1ull << program->n++;
	ok(cuLaunchHostFunc(program->streams[stream], note, op));
}

static void expect_kept(const struct program *program)
{
	for (unsigned i = 0; i < program->n; i++) {
		const struct noted *op = &program->ops[i];

		expect(op->place != 0);
		for (unsigned j = 0; j < program->n; j++) {
			if (op->before >> j & 1 && program->ops[j].place > op->place)
				test_fail(__FILE__, __LINE__, "op %u ran before op %u", i, j);
		}
	}
}

static void make(struct program *program)
{
	memset(program, 0, sizeof(*program));
	program->streams[0] = CU_STREAM_LEGACY;
	program->streams[1] = CU_STREAM_PER_THREAD;
	for (unsigned i = 2; i < STREAMS; i++)
		ok(cuStreamCreate(&program->streams[i], i < 4 ? 0 : CU_STREAM_NON_BLOCKING));
	for (unsigned i = 0; i < EVENTS; i++)
		ok(cuEventCreate(&program->events[i], CU_EVENT_DISABLE_TIMING));
}

static void step(struct program *program, bool implicit, unsigned first, unsigned last)
{
	unsigned stream = first + (unsigned)test_random_below(last - first + 1);
	unsigned event = (unsigned)test_random_below(EVENTS);

	switch (test_random_below(4)) {
	case 0:
		ok(cuEventRecord(program->events[event], program->streams[stream]));
		program->marks[event] = program->tails[stream];
		if (implicit)
			program->marks[event] |= implied(program, stream);
		program->recorded[event] = true;
		break;
	case 1:
		if (!program->recorded[event])
			break;
		ok(cuStreamWaitEvent(program->streams[stream], program->events[event], 0));
		program->tails[stream] |= program->marks[event];
		break;
	default:
		submit(program, stream, implicit);
	}
}

TEST(streams_and_events_keep_their_order)
{
	struct sim sim = sim_begin();
	unsigned rounds = test_rounds(60);

	for (unsigned round = 0; round < rounds; round++) {
		struct program program;
		struct gate gate = gate_new();

		make(&program);
		/* Something for the others to pile up behind. */
		ok(gate_close(&gate, program.streams[test_random_below(STREAMS)]));
		while (program.n < OPS)
			step(&program, true, 0, STREAMS - 1);
		gate_open(&gate);
		ok(cuCtxSynchronize());
		expect_kept(&program);
		for (unsigned i = 2; i < STREAMS; i++)
			ok(cuStreamDestroy_v2(program.streams[i]));
		for (unsigned i = 0; i < EVENTS; i++)
			ok(cuEventDestroy_v2(program.events[i]));
		gate_free(&gate);
	}
	sim_end(&sim);
}

/* Streams 2 to 5 take part from the start, and are joined at the end. */
static CUgraph captured(struct program *program)
{
	CUevent fork, join;
	CUgraph graph;

	ok(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
	ok(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
	ok(cuStreamBeginCapture_v2(program->streams[2], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	ok(cuEventRecord(fork, program->streams[2]));
	for (unsigned i = 3; i < STREAMS; i++)
		ok(cuStreamWaitEvent(program->streams[i], fork, 0));
	while (program->n < OPS)
		step(program, false, 2, STREAMS - 1);
	for (unsigned i = 3; i < STREAMS; i++) {
		ok(cuEventRecord(join, program->streams[i]));
		ok(cuStreamWaitEvent(program->streams[2], join, 0));
	}
	ok(cuStreamEndCapture(program->streams[2], &graph));
	ok(cuEventDestroy_v2(fork));
	ok(cuEventDestroy_v2(join));
	return graph;
}

TEST(captures_keep_their_order)
{
	struct sim sim = sim_begin();
	unsigned rounds = test_rounds(40);

	for (unsigned round = 0; round < rounds; round++) {
		struct program program;
		CUgraphExec exec;
		CUgraph graph;
		size_t n = 0;

		make(&program);
		graph = captured(&program);
		ok(cuGraphGetNodes(graph, NULL, &n));
		expect_eq(n, OPS);
		ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
		ok(cuGraphDestroy(graph));
		for (unsigned launch = 0; launch < 3; launch++) {
			atomic_store(&program.clock, 0);
			ok(cuGraphLaunch(exec, program.streams[test_random_below(STREAMS)]));
			ok(cuCtxSynchronize());
			expect_eq(atomic_load(&program.clock), OPS);
			expect_kept(&program);
		}
		ok(cuGraphExecDestroy(exec));
		for (unsigned i = 2; i < STREAMS; i++)
			ok(cuStreamDestroy_v2(program.streams[i]));
		for (unsigned i = 0; i < EVENTS; i++)
			ok(cuEventDestroy_v2(program.events[i]));
	}
	sim_end(&sim);
}
