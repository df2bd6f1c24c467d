/* SPDX-License-Identifier: Apache-2.0 */
/* Work on the device that waits for what comes from outside of the program, for longer than a drain
 * is waited for. */
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "tests/guest/turns_traps.h"

enum {
	FAR_MS = 8000,	      /* long enough to be taken for a hang, ... */
	FAR_COUNTED_MS = 700, /* and short enough for rounds to be counted (bench/coupled.py) */
	NEAR_MS = 300,
	MANY = 8
};

static unsigned far_ms(void)
{
	return getenv("METE_TRAP_SLOW") ? FAR_COUNTED_MS : FAR_MS;
}

static void rest(unsigned ms)
{
	struct timespec pause = {(time_t)(ms * g.slow / 1000),
				 (long)(ms * g.slow % 1000) * 1000000};

	clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

static void *write_word_later(void *ms)
{
	rest((unsigned)(uintptr_t)ms);
	atomic_store(g.word, g.round);
	return NULL;
}

static void await_word(CUstream stream)
{
	ok(g.cuStreamWaitValue32_v2(stream, g.address, g.round, CU_STREAM_WAIT_VALUE_GEQ));
}

void traps_launch_in(CUstream stream, uint32_t ns)
{
	void *only[] = {&ns};

	ok(g.cuLaunchKernel(g.device[0].spend, 1, 1, 1, 1, 1, 1, 0, stream, only, NULL));
}

void traps_finish_after(unsigned ms)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, write_word_later, (void *)(uintptr_t)ms) != 0)
		fail("no thread");
	ok(g.cuCtxSynchronize());
	pthread_join(thread, NULL);
}

/* ---- a value that comes late ----------------------------------------------------------------
 */

void trap_far(void)
{
	await_word(g.device[0].stream[0]);
	traps_launch(0, 0, g.device[0].spend, 500000);
	traps_finish_after(far_ms());
}

/* ---- the same in the default stream, and in one that orders itself with it ----------------------
 */

void trap_far_default(void)
{
	static CUstream blocking;

	if (!blocking)
		ok(g.cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	await_word(g.round % 2 ? blocking : NULL);
	traps_launch_in(blocking, 200000);
	traps_launch_in(NULL, 200000);
	traps_finish_after(far_ms());
}

/* ---- a host function that waits for a process without the driver --------------------------------
 */

static int peer;

/* It answers each byte late. */
static void answer_late(int from)
{
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (read(from, &byte, 1) == 1) {
		rest(far_ms());
		if (write(from, &byte, 1) != 1)
			break;
	}
	_exit(0);
}

static void start_peer(void)
{
	int ends[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
		fail("no sockets");
	pid = fork();
	if (pid < 0)
		fail("no process");
	if (pid == 0) {
		close(ends[0]);
		answer_late(ends[1]);
	}
	close(ends[1]);
	peer = ends[0];
}

static void ask_peer(void *nothing)
{
	char byte = 1;

	(void)nothing;
	if (write(peer, &byte, 1) != 1 || read(peer, &byte, 1) != 1)
		fail("the peer has gone");
}

void trap_told(void)
{
	if (!peer)
		start_peer();
	traps_launch(0, 0, g.device[0].spend, 200000);
	ok(g.cuLaunchHostFunc(g.device[0].stream[0], ask_peer, NULL));
	traps_launch(0, 0, g.device[0].spend, 200000);
	ok(g.cuStreamSynchronize(g.device[0].stream[0]));
}

/* ---- one stream waits for 0.3 s while a thread works in another one -----------------------------
 */

void trap_half(void)
{
	pthread_t thread;

	await_word(g.device[0].stream[0]);
	traps_launch(0, 0, g.device[0].spend, 200000);
	if (pthread_create(&thread, NULL, write_word_later, (void *)(uintptr_t)NEAR_MS) != 0)
		fail("no thread");
	while (atomic_load(g.word) < g.round) {
		traps_launch(0, 1, g.device[0].spend, 300000);
		ok(g.cuStreamSynchronize(g.device[0].stream[1]));
	}
	ok(g.cuCtxSynchronize());
	pthread_join(thread, NULL);
}

/* ---- many streams, each of which waits, and works for long as soon as its gate has closed -------
 */

void trap_released(void)
{
	static CUstream stream[MANY];

	for (int i = 0; i < MANY; i++) {
		if (!stream[i])
			ok(g.cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING));
		await_word(stream[i]);
		traps_launch_in(stream[i], 40000000);
	}
	traps_finish_after(30);
}

/* ---- a stream waits for the event of one that waits --------------------------------------------
 */

void trap_behind(void)
{
	static CUevent event;

	if (!event)
		ok(g.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	await_word(g.device[0].stream[0]);
	ok(g.cuEventRecord(event, g.device[0].stream[0]));
	ok(g.cuStreamWaitEvent(g.device[0].stream[1], event, 0));
	traps_launch(0, 1, g.device[0].spend, 200000);
	traps_finish_after(NEAR_MS);
}

/* ---- a graph whose host node waits for the peer ------------------------------------------------
 */

void trap_graph_told(void)
{
	static CUgraphExec ready;
	CUDA_HOST_NODE_PARAMS node = {.fn = ask_peer};
	CUgraphNode made;
	CUgraph graph;

	if (!peer)
		start_peer();
	if (!ready) {
		ok(g.cuGraphCreate(&graph, 0));
		ok(g.cuGraphAddHostNode(&made, graph, NULL, 0, &node));
		ok(g.cuGraphInstantiateWithFlags(&ready, graph, 0));
	}
	ok(g.cuGraphLaunch(ready, g.device[0].stream[0]));
	ok(g.cuStreamSynchronize(g.device[0].stream[0]));
}

/* ---- a thread that asks for an event again and again, and sleeps never -------------------------
 */

static void *launch_and_say(void *nothing)
{
	(void)nothing;
	traps_use_device();
	traps_launch(0, 1, g.device[0].spend, 100000);
	atomic_store(g.word, g.round);
	return NULL;
}

void trap_busy(void)
{
	static CUevent event;
	pthread_t thread;

	if (!event)
		ok(g.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	traps_launch(0, 0, g.device[0].wait, g.round);
	ok(g.cuEventRecord(event, g.device[0].stream[0]));
	traps_thread(launch_and_say, &thread);
	while (g.cuEventQuery(event) == CUDA_ERROR_NOT_READY)
		sched_yield();
	pthread_join(thread, NULL);
	ok(g.cuCtxSynchronize());
}

/* ---- host functions of two streams that hand a byte to each other -------------------------------
 */

static int between[2];

static void send_byte(void *nothing)
{
	char byte = 1;

	(void)nothing;
	if (write(between[1], &byte, 1) != 1)
		fail("nothing was sent");
}

static void take_byte(void *nothing)
{
	char byte;

	(void)nothing;
	if (read(between[0], &byte, 1) != 1)
		fail("nothing came");
}

void trap_hand_over(void)
{
	if (!between[1] && pipe2(between, O_CLOEXEC) != 0)
		fail("no pipe");
	ok(g.cuLaunchHostFunc(g.device[0].stream[1], send_byte, NULL));
	traps_launch(0, 1, g.device[0].spend, 200000);
	ok(g.cuLaunchHostFunc(g.device[0].stream[0], take_byte, NULL));
	traps_launch(0, 0, g.device[0].spend, 200000);
	ok(g.cuCtxSynchronize());
}
