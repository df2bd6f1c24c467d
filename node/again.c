/* SPDX-License-Identifier: Apache-2.0 */
#include "node/again.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

static void set(int how, const int *numbers, size_t count)
{
	sigset_t signals;

	sigemptyset(&signals);
	for (size_t i = 0; i < count; i++)
		sigaddset(&signals, numbers[i]);
	pthread_sigmask(how, &signals, NULL);
}

static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};

/* The driver's threads do not block it. What waits for the first thread outlives execve(). */
static void on_elsewhere(int number)
{
	syscall(SYS_tgkill, getpid(), getpid(), number);
}

static void hold(void)
{
	const struct sigaction elsewhere = {.sa_handler = on_elsewhere, .sa_flags = SA_RESTART};

	set(SIG_BLOCK, numbers, ARRAY_SIZE(numbers));
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		best_effort(sigaction(numbers[i], &elsewhere, NULL));
}

static void on_hang_up(struct loop_signal *signal)
{
	(void)signal; /* the next meted reads its files anyway */
}

/* A signal gets its default action back when the loop's last watch of it closes, as one of SIGHUP
 * does with each part: so there is another one. */
static void keep_hang_up(struct daemon *d)
{
	best_effort(loop_signal(&d->loop, &d->hang_up, SIGHUP, on_hang_up));
	loop_signal_keep(&d->hang_up);
}

void again_hold(struct daemon *d)
{
	keep_hang_up(d);
	hold();
	loop_poll(&d->loop);
}

void again_listen_to_ends(void)
{
	static const int ends[] = {SIGTERM, SIGINT};

	set(SIG_UNBLOCK, ends, ARRAY_SIZE(ends));
}

void again_listen(void)
{
	set(SIG_UNBLOCK, numbers, ARRAY_SIZE(numbers));
}

int again_begin(char **argv)
{
	hold(); /* one that could not be kept has its default action */
	execv("/proc/self/exe", argv);
	return -errno;
}
