/* SPDX-License-Identifier: Apache-2.0 */
/* Servers and their workers; a debugger; and streams that end before their work does. */
#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "tests/guest/turns_traps.h"

static void await_word(CUstream stream, uint32_t value)
{
	ok(g.cuStreamWaitValue32_v2(stream, g.address, value, CU_STREAM_WAIT_VALUE_GEQ));
}

/* ---- clients ask a server, which puts what it has after 2 ms into one batch ---------------------
 */

enum { CLIENTS = 4, ASKS = 4, ASKS_ALL = CLIENTS * ASKS };

static struct {
	pthread_mutex_t lock;
	pthread_cond_t asked, answered;
	unsigned asks, answers;
} server = {.lock = PTHREAD_MUTEX_INITIALIZER,
	    .asked = PTHREAD_COND_INITIALIZER,
	    .answered = PTHREAD_COND_INITIALIZER};

static void *ask(void *nothing)
{
	(void)nothing;
	for (int i = 0; i < ASKS; i++) {
		unsigned own;

		traps_rest_us(500);
		pthread_mutex_lock(&server.lock);
		own = ++server.asks;
		pthread_cond_signal(&server.asked);
		while (server.answers < own)
			pthread_cond_wait(&server.answered, &server.lock);
		pthread_mutex_unlock(&server.lock);
	}
	return NULL;
}

/* With the lock held: how many there are, once there are enough, or some and 2 ms have passed. */
static unsigned next_batch(unsigned answered)
{
	struct timespec until;

	while (server.asks == answered)
		pthread_cond_wait(&server.asked, &server.lock);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += (long)(2000000 * g.slow);
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	while (server.asks - answered < CLIENTS)
		if (pthread_cond_timedwait(&server.asked, &server.lock, &until) == ETIMEDOUT)
			break;
	return server.asks - answered;
}

static void serve_all(void)
{
	unsigned answered = 0;

	while (answered < ASKS_ALL) {
		unsigned batch;

		pthread_mutex_lock(&server.lock);
		batch = next_batch(answered);
		pthread_mutex_unlock(&server.lock);
		traps_launch(0, 0, g.device[0].spend, 200000 + 100000 * batch);
		ok(g.cuStreamSynchronize(g.device[0].stream[0]));
		answered += batch;
		pthread_mutex_lock(&server.lock);
		server.answers = answered;
		pthread_cond_broadcast(&server.answered);
		pthread_mutex_unlock(&server.lock);
	}
}

void trap_batching(void)
{
	pthread_t thread[CLIENTS];

	server.asks = server.answers = 0;
	for (int i = 0; i < CLIENTS; i++)
		traps_thread(ask, &thread[i]);
	serve_all();
	for (int i = 0; i < CLIENTS; i++)
		pthread_join(thread[i], NULL);
}

/* ---- two workers, programs of their own, compute for a stream that waits for them ---------------
 */

enum { WORKERS = 2 };

/* Words 1 and 2 ask, and word 0 is what the parent's stream waits for. */
void trap_worker(void)
{
	static bool begun;
	unsigned own = (unsigned)atoi(getenv("METE_TRAP_OWN"));
	uint32_t seen = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!begun)
		traps_share_word(atoi(getenv("METE_TRAP_WORD")));
	begun = true;
	for (;;) {
		while (atomic_load(&g.word[own]) == seen)
			traps_rest_us(100);
		seen = atomic_load(&g.word[own]);
		traps_launch_in(g.device[0].stream[0], 300000);
		ok(g.cuStreamSynchronize(g.device[0].stream[0]));
		atomic_fetch_add(&g.word[0], 1);
	}
}

static void start_workers(void)
{
	int fd = traps_new_page();

	traps_map_page(fd);
	setenv("METE_TRAP_OWN", "1", 1);
	traps_start_other("worker", fd);
	setenv("METE_TRAP_OWN", "2", 1);
	traps_start_other("worker", fd);
}

void trap_workers(void)
{
	static bool begun;

	if (!begun)
		start_workers();
	begun = true;
	await_word(g.device[0].stream[0], WORKERS * g.round);
	traps_launch_in(g.device[0].stream[0], 300000);
	for (int i = 1; i <= WORKERS; i++)
		atomic_store(&g.word[i], g.round);
	ok(g.cuStreamSynchronize(g.device[0].stream[0]));
}

/* ---- a debugger stops one thread after the other, those of libraries too -----------------------
 */

static void hold_one(pid_t thread)
{
	int status;

	if (ptrace(PTRACE_SEIZE, thread, NULL, NULL) != 0)
		return;
	if (ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) == 0 &&
	    waitpid(thread, &status, __WALL) == thread && WIFSTOPPED(status))
		traps_rest_us(10000);
	ptrace(PTRACE_DETACH, thread, NULL, NULL);
}

static void noreturn_ debug(pid_t parent)
{
	char path[64];
	struct dirent *entry;
	DIR *threads;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(path, sizeof(path), "/proc/%d/task", parent);
	for (;;) {
		threads = opendir(path);
		if (!threads)
			_exit(0);
		while ((entry = readdir(threads))) {
			if (entry->d_name[0] != '.')
				hold_one(atoi(entry->d_name));
			traps_rest_us(10000);
		}
		closedir(threads);
	}
}

void trap_debugged(void)
{
	static bool begun;
	pid_t self = getpid(), child;

	if (!begun) {
		child = fork();
		if (child == 0)
			debug(self);
		prctl(PR_SET_PTRACER, child);
	}
	begun = true;
	traps_launch(0, 0, g.device[0].wait, g.round);
	traps_finish(traps_launch_and_say);
}

/* ---- a stream for each request, which is destroyed as soon as all is submitted ------------------
 */

void trap_discarded(void)
{
	CUstream stream;

	ok(g.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	await_word(stream, g.round);
	traps_launch_in(stream, 200000);
	ok(g.cuStreamDestroy_v2(stream));
	traps_finish_after(300);
}

/* While one stream waits, kernels of 40 ms run in streams that are destroyed at once. */
void trap_shield(void)
{
	CUstream stream;

	await_word(g.device[0].stream[0], g.round);
	for (int i = 0; i < 4; i++) {
		ok(g.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
		traps_launch_in(stream, 40000000);
		ok(g.cuStreamDestroy_v2(stream));
	}
	traps_finish_after(200);
}

/* ---- threads' own default streams: one waits for a host function, and others are at rest --------
 */

enum { OTHERS = 3 };

static void rest_on_host(void *nothing)
{
	(void)nothing;
	traps_rest_us(300000);
}

static void *tell_in_own_stream(void *nothing)
{
	uint32_t ns = 100000;
	void *only[] = {&ns};

	(void)nothing;
	traps_use_device();
	ok(g.cuLaunchKernel_ptsz(g.device[0].spend, 1, 1, 1, 1, 1, 1, 0, NULL, only, NULL));
	ok(g.cuLaunchHostFunc_ptsz(NULL, rest_on_host, NULL));
	ok(g.cuStreamSynchronize_ptsz(NULL));
	return NULL;
}

void trap_own_told(void)
{
	pthread_t thread[OTHERS];

	for (int i = 0; i < OTHERS; i++)
		traps_thread(tell_in_own_stream, &thread[i]);
	for (int i = 0; i < OTHERS; i++)
		pthread_join(thread[i], NULL);
}
