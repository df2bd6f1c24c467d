/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/machine/segment_mutex.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

/* No running process holds a mutex for so long. */
#define MUTEX_PATIENCE_NS 50000000

int segment_mutex_init(pthread_mutex_t *mutex)
{
	pthread_mutexattr_t attributes;
	int r;

	r = pthread_mutexattr_init(&attributes);
	if (r)
		return -r;
	r = pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	if (!r)
		r = pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	if (!r)
		r = pthread_mutex_init(mutex, &attributes);
	pthread_mutexattr_destroy(&attributes);
	return -r;
}

/* The thread that holds the mutex: by the kernel's protocol for robust mutexes the word has its
 * number. */
static pid_t holder(const pthread_mutex_t *mutex)
{
	return (pid_t)(__atomic_load_n(&mutex->__data.__lock, __ATOMIC_RELAXED) & FUTEX_TID_MASK);
}

/* The process of a thread, if that is stopped; 0: it runs, or we cannot see it. */
static pid_t stopped_process(pid_t thread)
{
	char path[64], text[1024], *at;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/status", thread);
	owned(close) int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return 0;
	text[n] = 0;
	at = strstr(text, "\nState:\t");
	if (!at || at[8] != 'T')
		return 0;
	at = strstr(text, "\nTgid:\t");
	return at ? (pid_t)strtol(at + 7, NULL, 10) : 0;
}

static int lock_for_a_while(pthread_mutex_t *mutex)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += MUTEX_PATIENCE_NS;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	return pthread_mutex_timedlock(mutex, &until);
}

static int lock_with_patience(pthread_mutex_t *mutex)
{
	pid_t helped = 0;
	int r;

	while ((r = lock_for_a_while(mutex)) == ETIMEDOUT) {
		pid_t stopped = stopped_process(holder(mutex));

		if (!stopped || helped)
			continue;
		if (kill(stopped, SIGCONT) == 0)
			helped = stopped;
	}
	if (helped)
		kill(helped, SIGSTOP);
	return r;
}

/* ---- signals --------------------------------------------------------------------------------- */

static __thread struct {
	bool deaf;
	unsigned held; /* mutexes */
	sigset_t before;
} own;

void segment_mutex_deaf_thread(void)
{
	own.deaf = true;
}

/* All signals but those that the thread itself causes. */
static void block_signals(void)
{
	static const int own_faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT};
	sigset_t others;

	if (own.deaf || own.held++)
		return;
	sigfillset(&others);
	for (size_t i = 0; i < ARRAY_SIZE(own_faults); i++)
		sigdelset(&others, own_faults[i]);
	pthread_sigmask(SIG_BLOCK, &others, &own.before);
}

static void restore_signals(void)
{
	if (!own.deaf && own.held && !--own.held)
		pthread_sigmask(SIG_SETMASK, &own.before, NULL);
}

/* ---------------------------------------------------------------------------------------------- */

bool segment_mutex_lock(pthread_mutex_t *mutex)
{
	int saved = errno, r;

	block_signals();
	r = pthread_mutex_trylock(mutex);

	/* TSan does not know that a timed lock may find its owner dead. */
	if (r == EBUSY)
		r = SEGMENT_MUTEX_TSAN ? pthread_mutex_lock(mutex) : lock_with_patience(mutex);
	errno = saved;
	if (r != EOWNERDEAD)
		return false;
	pthread_mutex_consistent(mutex);
	return true;
}

void segment_mutex_unlock(pthread_mutex_t *mutex)
{
	pthread_mutex_unlock(mutex);
	restore_signals();
}
