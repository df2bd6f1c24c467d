/* SPDX-License-Identifier: Apache-2.0 */
/* Programs whose work waits for one of their own threads. */
#include "tests/guest/turns_traps.h"

/* A kernel waits for a word that another thread writes after it has launched something. */
static void *launch_then_write(void *nothing)
{
	(void)nothing;
	ok(g.cuCtxSetCurrent(g.device[0].context));
	traps_launch(0, 1, g.device[0].spend, 100000);
	atomic_store(g.word, g.round);
	return NULL;
}

void trap_flag(void)
{
	pthread_t thread;

	traps_launch(0, 0, g.device[0].wait, g.round);
	traps_pause();
	traps_thread(launch_then_write, &thread);
	ok(g.cuCtxSynchronize());
	pthread_join(thread, NULL);
}

/* A stream waits for a value that a thread writes after it has launched something. */
void trap_wait_value(void)
{
	pthread_t thread;

	ok(g.cuStreamWaitValue32_v2(g.device[0].stream[0], g.address, g.round,
				    CU_STREAM_WAIT_VALUE_GEQ));
	traps_launch(0, 0, g.device[0].spend, 100000);
	traps_pause();
	traps_thread(launch_then_write, &thread);
	ok(g.cuCtxSynchronize());
	pthread_join(thread, NULL);
}

/* A kernel waits for a word that the same thread's signal handler writes after its launch. */
static void on_signal(int number)
{
	(void)number;
	traps_launch(0, 1, g.device[0].spend, 100000);
	atomic_store(g.word, g.round);
}

static void *send_signal(void *target)
{
	traps_pause();
	pthread_kill(*(pthread_t *)target, SIGUSR1);
	return NULL;
}

void trap_signal(void)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	pthread_t self = pthread_self(), thread;

	sigaction(SIGUSR1, &action, NULL);
	traps_launch(0, 0, g.device[0].wait, g.round);
	pthread_create(&thread, NULL, send_signal, &self);
	ok(g.cuCtxSynchronize());
	pthread_join(thread, NULL);
}

/* A host function waits until another thread's launch has returned. */
static void *launch_and_say(void *nothing)
{
	(void)nothing;
	ok(g.cuCtxSetCurrent(g.device[0].context));
	traps_launch(0, 1, g.device[0].spend, 100000);
	g.launched = g.round;
	return NULL;
}

static void wait_for_launch(void *nothing)
{
	(void)nothing;
	while (g.launched < g.round)
		sched_yield();
}

void trap_host_function(void)
{
	pthread_t thread;

	ok(g.cuLaunchHostFunc(g.device[0].stream[0], wait_for_launch, NULL));
	traps_pause();
	traps_thread(launch_and_say, &thread);
	ok(g.cuCtxSynchronize());
	pthread_join(thread, NULL);
}

/* A host function needs a lock that another thread holds across its launches. */
static void *launch_under_lock(void *nothing)
{
	(void)nothing;
	ok(g.cuCtxSetCurrent(g.device[0].context));
	pthread_mutex_lock(&g.lock);
	for (int i = 0; i < 8; i++)
		traps_launch(0, 1, g.device[0].spend, 500000);
	pthread_mutex_unlock(&g.lock);
	return NULL;
}

static void take_lock(void *nothing)
{
	(void)nothing;
	pthread_mutex_lock(&g.lock);
	pthread_mutex_unlock(&g.lock);
}

void trap_lock(void)
{
	pthread_t thread;

	traps_thread(launch_under_lock, &thread);
	ok(g.cuLaunchHostFunc(g.device[0].stream[0], take_lock, NULL));
	traps_pause();
	ok(g.cuCtxSynchronize());
	pthread_join(thread, NULL);
}

/* A kernel on each device waits for one on the other. */
void trap_devices(void)
{
	uint32_t step = 2 * g.round;

	ok(g.cuCtxSetCurrent(g.device[0].context));
	traps_launch(0, 0, g.device[0].wait, step);
	ok(g.cuCtxSetCurrent(g.device[1].context));
	traps_pause();
	traps_launch(1, 0, g.device[1].set, step);
	traps_launch(1, 0, g.device[1].wait, step + 1);
	ok(g.cuCtxSetCurrent(g.device[0].context));
	traps_launch(0, 0, g.device[0].set, step + 1);
	ok(g.cuCtxSynchronize());
	ok(g.cuCtxSetCurrent(g.device[1].context));
	ok(g.cuCtxSynchronize());
}

/* A capture that stays open for longer than any drain may take. */
void trap_capture(void)
{
	struct timespec pause = {g.round == 1 ? 3 : 0, 0};
	CUgraph graph;

	ok(g.cuStreamBeginCapture_v2(g.device[0].stream[0], CU_STREAM_CAPTURE_MODE_RELAXED));
	traps_launch(0, 0, g.device[0].spend, 100000);
	traps_launch(0, 1, g.device[0].spend, 1000000);
	clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
	ok(g.cuStreamEndCapture(g.device[0].stream[0], &graph));
	ok(g.cuGraphDestroy(graph));
	ok(g.cuStreamSynchronize(g.device[0].stream[1]));
}
