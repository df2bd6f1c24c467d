/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Green contexts: how a device is divided, and which streams wait for which. A program of one works
 * as NVIDIA's samples, CUTLASS and PyTorch use them.
 */
#include <dirent.h>
#include <pthread.h>

#include "tests/system/sim/streams.h"

/* Enough to divide. */
static __attribute__((constructor)) void many(void)
{
	setenv("METE_SIM_SMS", "64", 1);
	setenv("METE_SIM_CAPABILITY", "9.0", 1);
}

static CUdevResource whole(CUdevice device)
{
	CUdevResource resource;

	ok(cuDeviceGetDevResource(device, &resource, CU_DEV_RESOURCE_TYPE_SM));
	return resource;
}

/* A green context with a group of at least so many multiprocessors, or of all that are left. */
static CUgreenCtx green_new(CUdevice device, unsigned least, bool rest)
{
	CUdevResource all = whole(device), group, remaining;
	CUdevResourceDesc desc;
	unsigned count = 1;
	CUgreenCtx green;

	ok(cuDevSmResourceSplitByCount(&group, &count, &all, &remaining, 0, least));
	expect_eq(count, 1);
	ok(cuDevResourceGenerateDesc(&desc, rest ? &remaining : &group, 1));
	ok(cuGreenCtxCreate(&green, desc, device, CU_GREEN_CTX_DEFAULT_STREAM));
	return green;
}

static CUcontext named(CUgreenCtx green)
{
	CUcontext context;

	ok(cuCtxFromGreenCtx(&context, green));
	return context;
}

/* The primary context is current, as NVIDIA's documentation advises. */
static struct sim primary_begin(void)
{
	struct sim sim;

	ok(cuInit(0));
	ok(cuDeviceGet(&sim.device, 0));
	ok(cuDevicePrimaryCtxRetain(&sim.context, sim.device));
	ok(cuCtxSetCurrent(sim.context));
	ok(cuModuleLoadData(&sim.module, sim_ptx));
	ok(cuModuleGetFunction(&sim.add, sim.module, "add"));
	return sim;
}

TEST(multiprocessors_are_divided_as_the_device_allows)
{
	struct sim sim = primary_begin();
	CUdevResource all = whole(sim.device), groups[64], remaining;
	unsigned least = all.sm.minSmPartitionSize, count = 0, n = 2;
	int sms;

	ok(cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, sim.device));
	expect_eq(all.sm.smCount, (unsigned)sms);
	expect_eq(least, 8);
	ok(cuDevSmResourceSplitByCount(NULL, &count, &all, NULL, 0, 1));
	expect_eq(count, all.sm.smCount / least);
	ok(cuDevSmResourceSplitByCount(groups, &n, &all, &remaining, 0, least + 1));
	expect_eq(n, 2);
	expect_eq(groups[0].sm.smCount, least + all.sm.smCoscheduledAlignment);
	expect_eq(remaining.sm.smCount, all.sm.smCount - 2 * groups[0].sm.smCount);
	/* All of it, so that nothing remains. */
	n = 1;
	ok(cuDevSmResourceSplitByCount(groups, &n, &all, &remaining,
				       CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING,
				       all.sm.smCount));
	expect_eq(remaining.type, CU_DEV_RESOURCE_TYPE_INVALID);
	answers(cuDevSmResourceSplitByCount(groups, &n, &groups[0], NULL, 0, 1),
		CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
	answers(cuDevSmResourceSplitByCount(groups, &n, &all, NULL, 0, all.sm.smCount + 1),
		CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
	answers(cuDevSmResourceSplitByCount(groups, NULL, &all, NULL, 0, 1),
		CUDA_ERROR_INVALID_VALUE);
	answers(cuDeviceGetDevResource(sim.device, &all, CU_DEV_RESOURCE_TYPE_INVALID),
		CUDA_ERROR_INVALID_RESOURCE_TYPE);
}

TEST(a_descriptor_is_of_one_device_and_has_nothing_twice)
{
	struct sim sim = primary_begin();
	CUdevResource all = whole(sim.device), groups[2], remaining, made_up = all;
	CUdevResourceDesc desc;
	unsigned n = 2;
	CUgreenCtx green;

	ok(cuDevSmResourceSplitByCount(groups, &n, &all, &remaining, 0, 8));
	ok(cuDevResourceGenerateDesc(&desc, groups, 2));
	ok(cuGreenCtxCreate(&green, desc, sim.device, CU_GREEN_CTX_DEFAULT_STREAM));
	ok(cuGreenCtxGetDevResource(green, &remaining, CU_DEV_RESOURCE_TYPE_SM));
	expect_eq(remaining.sm.smCount, 2 * groups[0].sm.smCount);
	ok(cuGreenCtxDestroy(green));
	groups[1] = groups[0];
	answers(cuDevResourceGenerateDesc(&desc, groups, 2),
		CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
	memset(made_up._internal_padding, 0, sizeof(made_up._internal_padding));
	answers(cuDevResourceGenerateDesc(&desc, &made_up, 1),
		CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
	answers(cuDevResourceGenerateDesc(&desc, groups, 0), CUDA_ERROR_INVALID_VALUE);
	answers(cuGreenCtxCreate(&green, desc, sim.device, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST(a_green_context_has_the_memory_and_code_of_the_primary_one)
{
	struct sim sim = primary_begin();
	CUdeviceptr words = sim_words(1, 5);
	CUgreenCtx green = green_new(sim.device, 8, false);
	CUdevResource has;
	unsigned long long id, other;
	CUcontext current, of;
	CUdevice device;
	CUgreenCtx which;
	CUstream stream;
	CUdeviceptr more;

	ok(cuCtxPushCurrent_v2(named(green)));
	ok(cuCtxGetCurrent(&current));
	expect(current == named(green) && current != sim.context);
	ok(cuCtxGetDevice(&device));
	expect_eq(device, sim.device);
	ok(cuCtxGetDevResource(NULL, &has, CU_DEV_RESOURCE_TYPE_SM));
	expect_eq(has.sm.smCount, 8);
	ok(cuCtxGetId(NULL, &id));
	ok(cuGreenCtxGetId(green, &other));
	expect_eq(id, other);
	ok(cuCtxGetId(sim.context, &other));
	expect(id != other);
	/* Its default stream, one of its own, and one that was made while it is current. */
	ok(sim_launch(sim.add, words, 10, NULL));
	ok(cuStreamSynchronize(NULL));
	ok(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
	answers(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_DEFAULT, 0),
		CUDA_ERROR_INVALID_VALUE);
	ok(sim_launch(sim.add, words, 100, stream));
	ok(cuStreamSynchronize(stream));
	ok(cuStreamGetGreenCtx(stream, &which));
	expect(which == green);
	ok(cuStreamGetCtx_v2(stream, &of, &which));
	expect(which == green && of == sim.context);
	ok(cuStreamDestroy_v2(stream));
	ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ok(cuStreamGetGreenCtx(stream, &which));
	expect(which == green);
	ok(cuMemAlloc_v2(&more, 4096));
	answers(cuCtxDestroy_v2(named(green)), CUDA_ERROR_INVALID_CONTEXT);
	ok(cuCtxPopCurrent_v2(&current));
	expect_eq(sim_word(words), 115);
	ok(cuStreamGetGreenCtx(NULL, &which));
	expect(!which);
	ok(cuMemFree_v2(more));
	/* Objects that were made in it go on without it. */
	ok(cuGreenCtxDestroy(green));
	ok(sim_launch(sim.add, words, 1, stream));
	ok(cuStreamSynchronize(stream));
	expect_eq(sim_word(words), 116);
	ok(cuStreamDestroy_v2(stream));
	answers(cuGreenCtxDestroy(green), CUDA_ERROR_INVALID_CONTEXT);
	answers(cuCtxSetCurrent(current), CUDA_ERROR_INVALID_CONTEXT);
}

TEST(default_streams_of_two_green_contexts_do_not_wait_for_each_other)
{
	struct sim sim = primary_begin();
	CUdeviceptr words = sim_words(1, 0);
	CUgreenCtx first = green_new(sim.device, 8, false), rest = green_new(sim.device, 8, true);
	struct gate gate = gate_new();

	ok(cuCtxSetCurrent(named(first)));
	ok(gate_close(&gate, NULL));
	ok(cuCtxSetCurrent(named(rest)));
	ok(sim_launch(sim.add, words, 1, NULL));
	ok(cuCtxSynchronize());
	ok(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	ok(cuCtxSetCurrent(sim.context));
	ok(sim_launch(sim.add, words, 1, NULL));
	ok(cuStreamSynchronize(NULL));
	ok(cuCtxSetCurrent(named(first)));
	answers(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
	gate_open(&gate);
	ok(cuCtxSynchronize());
	ok(cuStreamQuery(NULL));
	expect_eq(sim_word(words), 2);
	ok(cuGreenCtxDestroy(first));
	ok(cuGreenCtxDestroy(rest));
	gate_free(&gate);
}

struct late {
	CUcontext context;
	const struct gate *gate;
	CUresult result;
	bool open; /* the gate was, when the thread had waited */
};

static void *synchronise(void *data)
{
	struct late *late = data;

	late->result = cuCtxSetCurrent(late->context);
	if (late->result == CUDA_SUCCESS)
		late->result = cuCtxSynchronize();
	late->open = atomic_load(late->gate->word) != 0;
	return NULL;
}

TEST(a_wait_for_the_primary_context_includes_its_green_ones)
{
	struct sim sim = primary_begin();
	CUgreenCtx green = green_new(sim.device, 8, false);
	struct gate gate = gate_new();
	struct late late = {.context = sim.context, .gate = &gate};
	pthread_t thread;
	CUevent event;
	CUstream stream;

	ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	ok(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
	ok(gate_close(&gate, stream));
	ok(cuCtxRecordEvent(sim.context, event));
	answers(cuEventQuery(event), CUDA_ERROR_NOT_READY);
	expect_eq(pthread_create(&thread, NULL, synchronise, &late), 0);
	gate_open(&gate);
	pthread_join(thread, NULL);
	ok(late.result);
	expect(late.open);
	ok(cuEventSynchronize(event));
	ok(cuStreamDestroy_v2(stream));
	ok(cuGreenCtxDestroy(green));
	gate_free(&gate);
}

TEST(an_event_of_a_green_context_is_of_all_its_streams_and_of_no_other)
{
	struct sim sim = primary_begin();
	CUgreenCtx green = green_new(sim.device, 8, false);
	struct gate gate = gate_new(), other = gate_new();
	CUstream stream, apart;
	CUevent event;

	ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	ok(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
	ok(cuStreamCreate(&apart, CU_STREAM_NON_BLOCKING));
	ok(gate_close(&other, apart));
	ok(gate_close(&gate, stream));
	ok(cuGreenCtxRecordEvent(green, event));
	answers(cuEventQuery(event), CUDA_ERROR_NOT_READY);
	gate_open(&gate);
	ok(cuEventSynchronize(event));
	answers(cuStreamQuery(apart), CUDA_ERROR_NOT_READY);
	gate_open(&other);
	ok(cuStreamSynchronize(apart));
	ok(cuGreenCtxDestroy(green));
	gate_free(&gate);
	gate_free(&other);
}

/* Those that are there, one that is made afterwards, and no stream of another context. */
static void waits(CUgreenCtx green, struct sim *sim, CUresult (*wait)(CUgreenCtx, CUevent))
{
	CUdeviceptr words = sim_words(1, 0);
	struct gate gate = gate_new();
	CUstream holds, before, after;
	CUevent event;

	ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	ok(cuStreamCreate(&holds, CU_STREAM_NON_BLOCKING));
	ok(cuGreenCtxStreamCreate(&before, green, CU_STREAM_NON_BLOCKING, 0));
	ok(gate_close(&gate, holds));
	ok(cuEventRecord(event, holds));
	ok(wait(green, event));
	ok(cuGreenCtxStreamCreate(&after, green, CU_STREAM_NON_BLOCKING, 0));
	ok(sim_launch(sim->add, words, 1, before));
	ok(sim_launch(sim->add, words, 10, after));
	answers(cuStreamQuery(before), CUDA_ERROR_NOT_READY);
	answers(cuStreamQuery(after), CUDA_ERROR_NOT_READY);
	gate_open(&gate);
	ok(cuStreamSynchronize(before));
	ok(cuStreamSynchronize(after));
	expect_eq(sim_word(words), 11);
	gate_free(&gate);
}

static CUresult wait_as_context(CUgreenCtx green, CUevent event)
{
	return cuCtxWaitEvent(named(green), event);
}

static CUresult wait_as_primary(CUgreenCtx green, CUevent event)
{
	(void)green;
	return cuCtxWaitEvent(NULL, event);
}

TEST(a_context_waits_for_an_event_before_all_that_it_is_given_from_then_on)
{
	struct sim sim = primary_begin();
	CUgreenCtx green = green_new(sim.device, 8, false);

	waits(green, &sim, cuGreenCtxWaitEvent);
	waits(green, &sim, wait_as_context);
	waits(green, &sim, wait_as_primary);
	ok(cuGreenCtxDestroy(green));
}

TEST(a_green_context_keeps_the_primary_one_and_a_reset_ends_both)
{
	struct sim sim = primary_begin();
	CUgreenCtx green = green_new(sim.device, 8, false);
	CUcontext context = named(green);
	unsigned flags;
	CUstream stream;
	int active;

	ok(cuDevicePrimaryCtxRelease_v2(sim.device));
	ok(cuDevicePrimaryCtxGetState(sim.device, &flags, &active));
	expect(active);
	ok(cuCtxSetCurrent(context));
	ok(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
	ok(cuDevicePrimaryCtxReset_v2(sim.device));
	answers(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	answers(cuStreamSynchronize(stream), CUDA_ERROR_INVALID_HANDLE);
	answers(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0),
		CUDA_ERROR_INVALID_CONTEXT);
	/* Retained anew: the green one is of the old life. */
	ok(cuDevicePrimaryCtxRetain(&sim.context, sim.device));
	answers(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	ok(cuGreenCtxDestroy(green));
	ok(cuDevicePrimaryCtxGetState(sim.device, &flags, &active));
	expect(active);
	/* The last one ends it. */
	green = green_new(sim.device, 8, false);
	ok(cuDevicePrimaryCtxRelease_v2(sim.device));
	ok(cuGreenCtxDestroy(green));
	ok(cuDevicePrimaryCtxGetState(sim.device, &flags, &active));
	expect(!active);
}

TEST(a_capture_in_a_green_context_is_its_own)
{
	struct sim sim = primary_begin();
	CUdeviceptr words = sim_words(1, 0);
	CUgreenCtx green = green_new(sim.device, 8, false);
	CUgraphExec exec;
	CUstream stream;
	CUgraph graph;

	ok(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
	ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	ok(sim_launch(sim.add, words, 7, stream));
	/* The primary context's default stream has nothing to do with it. */
	ok(sim_launch(sim.add, words, 1, NULL));
	ok(cuStreamEndCapture(stream, &graph));
	ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
	ok(cuGraphLaunch(exec, stream));
	ok(cuStreamSynchronize(stream));
	ok(cuStreamSynchronize(NULL));
	expect_eq(sim_word(words), 8);
	ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	answers(cuCtxSynchronize(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	answers(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	ok(cuGraphExecDestroy(exec));
	ok(cuStreamDestroy_v2(stream));
	ok(cuGreenCtxDestroy(green));
}

static unsigned threads(void)
{
	DIR *folder = opendir("/proc/self/task");
	unsigned n = 0;

	expect(folder);
	while (readdir(folder))
		n++;
	closedir(folder);
	return n;
}

/* Each of many is made, used and destroyed; none leaves anything that the next one waits for. */
TEST(green_contexts_come_and_go)
{
	struct sim sim = primary_begin();
	CUdeviceptr words = sim_words(1, 0);
	CUevent event;

	ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	for (unsigned i = 0; i < 200; i++) {
		CUgreenCtx green = green_new(sim.device, 8, i % 2);
		struct gate gate = gate_new();
		CUstream stream;

		ok(cuCtxSetCurrent(named(green)));
		ok(gate_close(&gate, NULL));
		ok(cuEventRecord(event, NULL));
		ok(cuGreenCtxWaitEvent(green, event));
		ok(sim_launch(sim.add, words, 1, NULL));
		gate_open(&gate);
		ok(cuStreamSynchronize(NULL));
		ok(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
		ok(sim_launch(sim.add, words, 1, stream));
		ok(cuStreamDestroy_v2(stream));
		ok(cuCtxSetCurrent(sim.context));
		ok(cuGreenCtxDestroy(green));
		ok(cuCtxSynchronize());
		gate_free(&gate);
	}
	expect_eq(sim_word(words), 400);
	/* Those that ended last may still be there. */
	expect(threads() < 40);
}
