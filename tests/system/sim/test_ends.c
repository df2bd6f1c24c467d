/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many threads at once, and the ends of processes that have work pending.
 */
#include <pthread.h>
#include <sys/wait.h>

#include "tests/system/sim/streams.h"

enum {
	THREADS = 8,
	ROUNDS = 30,
};

struct worker {
	struct sim *sim;
	CUdeviceptr shared;
	unsigned number;
	atomic_uint *calls;
	pthread_barrier_t *barrier;
};

static void count(void *data)
{
	atomic_fetch_add((atomic_uint *)data, 1);
}

static void one_round(struct worker *worker, CUdeviceptr word, CUstream stream, CUevent event)
{
	struct sim *sim = worker->sim;
	unsigned host = 0;
	CUgraph graph;
	CUgraphExec exec;

	ok(cuMemsetD32Async(word, 1, 1, stream));
	ok(cuEventRecord(event, stream));
	ok(cuStreamWaitEvent(CU_STREAM_PER_THREAD, event, 0));
	ok(sim_launch(sim->add, word, 2, CU_STREAM_PER_THREAD));
	ok(cuEventRecord(event, CU_STREAM_PER_THREAD));
	ok(cuStreamWaitEvent(stream, event, 0));
	ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	ok(sim_launch(sim->times, word, 3, stream));
	ok(cuStreamEndCapture(stream, &graph));
	ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
	ok(cuGraphLaunch(exec, stream));
	ok(cuGraphExecDestroy(exec));
	ok(cuGraphDestroy(graph));
	ok(cuLaunchHostFunc(stream, count, worker->calls));
	ok(cuMemcpyDtoHAsync_v2(&host, word, 4, stream));
	ok(cuStreamSynchronize(stream));
	expect_eq(host, 9);
}

static void *work(void *data)
{
	struct worker *worker = data;
	CUdeviceptr word;
	CUstream stream;
	CUevent event;

	ok(cuCtxSetCurrent(worker->sim->context));
	ok(cuEventCreate(&event, 0));
	for (unsigned i = 0; i < ROUNDS; i++) {
		ok(cuStreamCreate(&stream, worker->number % 2 ? CU_STREAM_NON_BLOCKING : 0));
		ok(cuMemAlloc_v2(&word, 4));
		one_round(worker, word, stream, event);
		ok(cuMemFree_v2(word));
		ok(cuStreamDestroy_v2(stream));
	}
	ok(cuEventDestroy_v2(event));
	return NULL;
}

TEST(eight_threads_share_a_context)
{
	struct sim sim = sim_begin();
	struct worker workers[THREADS];
	pthread_t threads[THREADS];
	atomic_uint calls = 0;

	for (unsigned i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){.sim = &sim, .number = i, .calls = &calls};
		pthread_create(&threads[i], NULL, work, &workers[i]);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	ok(cuCtxSynchronize());
	expect_eq(calls, THREADS * ROUNDS);
	sim_end(&sim);
}

static void *legacy_adds(void *data)
{
	struct worker *worker = data;
	CUstream stream;

	ok(cuCtxSetCurrent(worker->sim->context));
	ok(cuStreamCreate(&stream, 0));
	/* Legacy and blocking streams exclude each other: no addition is lost. */
	for (unsigned i = 0; i < 100; i++)
		ok(sim_launch(worker->sim->add, worker->shared, 1, i % 2 ? NULL : stream));
	ok(cuStreamSynchronize(NULL));
	ok(cuStreamDestroy_v2(stream));
	return NULL;
}

TEST(the_legacy_stream_orders_two_threads)
{
	struct sim sim = sim_begin();
	struct worker worker = {.sim = &sim, .shared = sim_words(1, 0)};
	pthread_t thread;

	pthread_create(&thread, NULL, legacy_adds, &worker);
	pthread_join(thread, NULL);
	expect_eq(sim_word(worker.shared), 100);
	sim_end(&sim);
}

static void *leave_work(void *data)
{
	struct worker *worker = data;

	ok(cuCtxSetCurrent(worker->sim->context));
	ok(cuLaunchHostFunc(CU_STREAM_PER_THREAD, count, worker->calls));
	if (worker->number % 2)
		ok(cuStreamBeginCapture_v2(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_GLOBAL));
	pthread_barrier_wait(worker->barrier);
	return NULL;
}

TEST(threads_and_their_context_may_end_together)
{
	struct worker workers[THREADS];
	pthread_t threads[THREADS];
	pthread_barrier_t barrier;
	atomic_uint calls = 0;

	pthread_barrier_init(&barrier, NULL, THREADS + 1);
	for (unsigned round = 0; round < ROUNDS; round++) {
		struct sim sim = sim_begin();

		for (unsigned i = 0; i < THREADS; i++) {
			workers[i] = (struct worker){
				.sim = &sim, .number = i, .calls = &calls, .barrier = &barrier};
			pthread_create(&threads[i], NULL, leave_work, &workers[i]);
		}
		pthread_barrier_wait(&barrier);
		sim_end(&sim);
		for (unsigned i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
	}
	pthread_barrier_destroy(&barrier);
	expect_eq(calls, THREADS * ROUNDS);
	/* No capture is left behind that would forbid this. */
	{
		struct sim sim = sim_begin();
		CUdeviceptr address;

		ok(cuMemAlloc_v2(&address, 4));
		sim_end(&sim);
	}
}

/* ---- ends ----------------------------------------------------------------------------------- */

/* In a child: leaves work of a kind pending and ends the process. */
static void leave(const char *how)
{
	struct sim sim = sim_begin();
	CUdeviceptr flag = sim_words(2, 0), out = flag + 4;
	void *params[] = {&flag, &out};
	CUstream stream;
	CUevent event;

	ok(cuStreamCreate(&stream, 0));
	ok(cuEventCreate(&event, 0));
	if (!strcmp(how, "wait")) {
		ok(cuStreamWaitValue32_v2(stream, flag, 1, 0));
		ok(cuEventRecord(event, stream));
		ok(sim_launch(sim.add, out, 1, NULL));
	} else if (!strcmp(how, "poll")) {
		ok(cuLaunchKernel(sim.await, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
	} else {
		for (unsigned i = 0; i < 50; i++)
			ok(cuLaunchKernel(sim.slow, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
	}
	exit(0);
}

static void expect_end(const char *how)
{
	int status = -1;
	pid_t child;

	/* The child makes a node of its own: this process has not touched the driver in it. */
	child = fork();
	if (!child) {
		execl("/proc/self/exe", "test_sim_ends", how, NULL);
		_exit(127);
	}
	expect(child > 0);
	expect(waitpid(child, &status, 0) == child);
	expect(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

__attribute__((constructor)) static void be_a_child(int argc, char **argv)
{
	if (argc == 2 &&
	    (!strcmp(argv[1], "wait") || !strcmp(argv[1], "poll") || !strcmp(argv[1], "slow")))
		setenv("METE_TEST_LEAVE", argv[1], 1);
}

TEST(a_process_ends_with_work_pending)
{
	const char *how = getenv("METE_TEST_LEAVE");

	if (how)
		leave(how);
	expect_end("wait");
	expect_end("poll");
	expect_end("slow");
}
