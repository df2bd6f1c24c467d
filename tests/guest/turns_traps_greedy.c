/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that want more than their share, by when they work, and as whom. */
#include <spawn.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/guest/turns_traps.h"

enum { CROWD = 20, CONTEXTS = 8, FLOOD = 2000 };

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void rest(uint64_t ns)
{
	struct timespec pause;

	ns *= g.slow;
	pause = (struct timespec){(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
	clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

static void compute(int stream, uint32_t ns)
{
	traps_launch(0, stream, g.device[0].spend, ns);
	ok(g.cuStreamSynchronize(g.device[0].stream[stream]));
}

/* Rests and works, each for as long as a turn is. */
void trap_pulses(void)
{
	for (int i = 0; i < 8; i++)
		traps_launch(0, 0, g.device[0].spend, 1000000);
	ok(g.cuStreamSynchronize(g.device[0].stream[0]));
	rest(8000000);
}

/* Short kernels, and a long one just before its turn ends: it sees by what it waits when one began.
 */
void trap_last_moment(void)
{
	static uint64_t began;
	uint64_t before = now_ns(), after;

	compute(0, 250000);
	after = now_ns();
	if (after - before > 3000000 * g.slow)
		began = after;
	if (after - began < 6000000 * g.slow)
		return;
	compute(0, 150000000);
	began = now_ns();
}

/* More kernels than anybody waits for. */
void trap_flood(void)
{
	for (int i = 0; i < FLOOD; i++)
		traps_launch(0, i % STREAMS, g.device[0].spend, 50000);
	ok(g.cuCtxSynchronize());
}

/* What its thread waits for at the gate is always one more long kernel. */
static void *launch_long(void *nothing)
{
	(void)nothing;
	ok(g.cuCtxSetCurrent(g.device[0].context));
	for (int i = 0; i < 4; i++)
		compute(1, 40000000);
	g.launched = g.round;
	return NULL;
}

static void wait_for_long(void *nothing)
{
	(void)nothing;
	while (g.launched < g.round)
		sched_yield();
}

void trap_excuse(void)
{
	pthread_t thread;

	ok(g.cuLaunchHostFunc(g.device[0].stream[0], wait_for_long, NULL));
	traps_thread(launch_long, &thread);
	ok(g.cuCtxSynchronize());
	pthread_join(thread, NULL);
}

/* One of its streams waits for ever, which no thread ever will. */
void trap_watcher(void)
{
	static bool begun;

	if (!begun)
		ok(g.cuStreamWaitValue32_v2(g.device[0].stream[1], g.address, UINT32_MAX,
					    CU_STREAM_WAIT_VALUE_EQ));
	begun = true;
	for (int i = 0; i < 4; i++)
		traps_launch(0, 0, g.device[0].spend, 1000000);
	ok(g.cuStreamSynchronize(g.device[0].stream[0]));
}

/* ---- many contexts and processes
 * ----------------------------------------------------------------- */

static void *work_in_context(void *nothing)
{
	struct traps_place place;

	(void)nothing;
	traps_open(&place, 0, 0);
	for (;;) {
		for (int i = 0; i < 4; i++)
			traps_launch_at(&place, place.spend, 1000000);
		ok(g.cuStreamSynchronize(place.stream));
	}
	return NULL;
}

void trap_contexts(void)
{
	static pthread_t thread[CONTEXTS];

	for (int i = 0; i < CONTEXTS && !thread[i]; i++)
		traps_thread(work_in_context, &thread[i]);
	compute(0, 1000000);
}

/* Starts itself as another trap, for ever. */
static void start(const char *trap)
{
	char *arguments[] = {(char *)"turns_traps", (char *)trap, (char *)"1000000000", NULL};
	extern char **environ;
	pid_t pid;

	if (posix_spawn(&pid, "/proc/self/exe", NULL, NULL, arguments, environ) != 0)
		fail("no process");
}

void trap_member(void)
{
	static bool begun;

	if (!begun)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	begun = true;
	for (int i = 0; i < 4; i++)
		traps_launch(0, 0, g.device[0].spend, 500000);
	ok(g.cuCtxSynchronize());
}

void trap_crowd(void)
{
	static bool begun;

	for (int i = 1; i < CROWD && !begun; i++)
		start("member");
	begun = true;
	trap_member();
}

/* One of its processes only waits, and is stopped while it does. */
void trap_stuck(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	traps_launch(0, 1, g.device[0].spend, 100000);
	ok(g.cuStreamWaitValue32_v2(g.device[0].stream[0], g.address, UINT32_MAX,
				    CU_STREAM_WAIT_VALUE_EQ));
	raise(SIGSTOP);
}

void trap_two(void)
{
	static bool begun;

	if (!begun)
		start("stuck");
	begun = true;
	trap_member();
}

/* Short processes, four at a time. */
void trap_generations(void)
{
	pid_t child[4];
	int status;

	for (int i = 0; i < 4; i++) {
		child[i] = fork();
		if (child[i] == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			traps_start(1);
			compute(0, 10000000);
			_exit(0);
		}
	}
	for (int i = 0; i < 4; i++)
		if (child[i] < 0 || waitpid(child[i], &status, 0) != child[i] || status != 0)
			fail("a child failed");
}
