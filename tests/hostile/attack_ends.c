/* SPDX-License-Identifier: Apache-2.0 */
/* Calls where programs are about to end, or are not the program any more: a first thread that is
 * gone, destructors, and functions that the driver calls. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/guest/must.h"
#include "tests/hostile/attack.h"

enum { EXECS = 6, LAST_FD = 1024 };

static void hold(void)
{
	puts("holds");
	fflush(stdout);
	wait_for_the_end();
	_exit(0);
}

/* Of the first thread, as /proc shows it. */
static bool first_is_gone(void)
{
	FILE *file = fopen("/proc/self/stat", "re");
	char line[1024] = "";
	const char *end;
	bool gone;

	if (file && !fgets(line, sizeof(line), file))
		line[0] = '\0';
	if (file)
		fclose(file);
	end = strrchr(line, ')');
	gone = end && end[1] == ' ' && end[2] == 'Z';
	return gone;
}

static void *go_on_alone(void *nothing)
{
	while (!first_is_gone())
		usleep(1000);
	enter();
	take_everything();
	for (int fd = 3; fd < LAST_FD; fd++)
		close(fd);
	take_everything();
	for (int i = 0; i < 2; i++)
		child(start_and_take);
	hold();
	return nothing;
}

/* /proc shows an ended process: no code, no memory, no descriptors. */
void attack_first_thread_ends(void)
{
	CUdeviceptr address;
	pthread_t thread;

	g.cuMemAlloc_v2(&address, 100 * MIB);
	if (pthread_create(&thread, NULL, go_on_alone, NULL) == 0)
		syscall(SYS_exit, 0);
}

static void *execute_again(void *nothing)
{
	enter();
	take_everything();
	become("execs_by_thread");
	return nothing;
}

/* The kernel gives the thread the number of the first one, which it ends. */
void attack_execs_by_thread(void)
{
	const char *count = getenv("HOSTILE_EXECS");
	int times = count ? atoi(count) : 0;
	pthread_t thread;
	char next[16];

	take_everything();
	snprintf(next, sizeof(next), "%d", times + 1);
	setenv("HOSTILE_EXECS", next, 1);
	if (times < EXECS && pthread_create(&thread, NULL, execute_again, NULL) == 0)
		pthread_join(thread, NULL);
}

static pthread_key_t key;

static void take_as_it_ends(void *nothing)
{
	(void)nothing;
	enter();
	take_everything();
}

static void leave_something(void)
{
	pthread_setspecific(key, &key);
}

static void take_and_hold(void)
{
	take_everything();
	hold();
}

static void end_with_more(void)
{
	start();
	atexit((void (*)(void))take_everything);
	exit(0);
}

void attack_last_words(void)
{
	pthread_key_create(&key, take_as_it_ends);
	in_threads(4, leave_something);
	for (int i = 0; i < 4; i++)
		if (fork() == 0)
			end_with_more();
	atexit(take_and_hold);
	exit(0);
}

static void take_when_called(void *nothing)
{
	(void)nothing;
	enter();
	take_everything();
}

static void take_when_over(CUstream stream, CUresult result, void *nothing)
{
	(void)stream;
	(void)result;
	take_when_called(nothing);
}

/* The driver calls them, in threads of its own or in the middle of a call. */
void attack_callbacks_take(void)
{
	CUuserObject object;
	CUstream stream;
	CUgraph graph;

	if (CALL(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
		return;
	CALL(cuLaunchHostFunc)(stream, take_when_called, NULL);
	CALL(cuStreamAddCallback)(stream, take_when_over, NULL, 0);
	if (CALL(cuUserObjectCreate)(&object, NULL, take_when_called, 1,
				     CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) == CUDA_SUCCESS)
		CALL(cuUserObjectRelease)(object, 1);
	if (CALL(cuGraphCreate)(&graph, 0) == CUDA_SUCCESS &&
	    CALL(cuUserObjectCreate)(&object, NULL, take_when_called, 1,
				     CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) == CUDA_SUCCESS) {
		CALL(cuGraphRetainUserObject)(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE);
		CALL(cuGraphDestroy)(graph);
	}
	take_everything();
}

/* Nothing interrupts anything: not its threads, and not their children. */
void attack_signals_blocked(void)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	in_threads(4, take_and_free);
	for (int i = 0; i < 3; i++)
		child(start_and_take);
	take_everything();
}
