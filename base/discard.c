/* SPDX-License-Identifier: Apache-2.0 */
#include "base/discard.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

enum {
	INTERRUPT_NS = 1000000,
	STACK_BYTES = 64 << 10,
};

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

/* ---- looking --------------------------------------------------------------------------------- */

/* Room for a sender's identity alone. Descriptors that find no room are not lost by looking. */
union identity {
	struct cmsghdr header;
	char room[CMSG_SPACE(sizeof(struct ucred))];
};

/* As recvmsg() of one byte. */
static ssize_t look(int fd, union identity *identity, struct msghdr *ret_header)
{
	char byte;
	struct iovec part = {&byte, 1};
	ssize_t n;

	do {
		*ret_header = (struct msghdr){.msg_iov = &part, .msg_iovlen = 1};
		ret_header->msg_control = identity;
		ret_header->msg_controllen = identity ? sizeof(*identity) : 0;
		n = recvmsg(fd, ret_header, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	ret_header->msg_iov = NULL;
	return n;
}

int discard_look(int fd)
{
	struct msghdr header;
	ssize_t n = look(fd, NULL, &header);

	if (n < 0)
		return -errno;
	if (header.msg_flags & MSG_CTRUNC)
		return DISCARD_BURDENED;
	return n == 0 ? DISCARD_OVER : 0;
}

bool discard_rest(int fd)
{
	static const int on = 1;
	union identity identity;
	struct msghdr header;

	shutdown(fd, SHUT_RDWR);
	/* Only by its sender's identity can an empty message be told from the end. */
	if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) != 0)
		return false;
	while (look(fd, &identity, &header) >= 0 && header.msg_controllen) {
		if (header.msg_flags & MSG_CTRUNC)
			return false;
		best_effort((int)recv(fd, &(char){0}, 1, MSG_DONTWAIT));
	}
	return true;
}

/* ---- closing --------------------------------------------------------------------------------- */

static void on_interrupt(int signal)
{
	(void)signal;
}

/* The timer is this thread's own: no other is interrupted. */
static bool make_timer(timer_t *ret_timer)
{
	struct sigaction action = {.sa_handler = on_interrupt};
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGALRM};
	sigset_t interrupts;

	event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
	sigemptyset(&interrupts);
	sigaddset(&interrupts, SIGALRM);
	return sigaction(SIGALRM, &action, NULL) == 0 &&
	       timer_create(CLOCK_MONOTONIC, &event, ret_timer) == 0 &&
	       pthread_sigmask(SIG_UNBLOCK, &interrupts, NULL) == 0;
}

static void set_timer(timer_t timer, long every_ns)
{
	struct itimerspec when = {{0, every_ns}, {0, every_ns}};

	best_effort(timer_settime(timer, 0, &when, NULL));
}

static void *serve(void *from)
{
	int in = (int)(intptr_t)from, fd;
	timer_t timer;
	bool timed = make_timer(&timer);
	ssize_t n;

	while ((n = read(in, &fd, sizeof(fd))) == sizeof(fd) || (n < 0 && errno == EINTR)) {
		if (n < 0)
			continue;
		if (timed)
			set_timer(timer, INTERRUPT_NS);
		close(fd);
		if (timed)
			set_timer(timer, 0);
	}
	if (timed)
		timer_delete(timer);
	close(in);
	return NULL;
}

static bool start(struct discarder *d)
{
	pthread_attr_t detached;
	sigset_t all, before;
	pthread_t thread;
	int r;

	if (pthread_attr_init(&detached) != 0)
		return false;
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&detached, STACK_BYTES);
	/* Signals of the process are for others. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&thread, &detached, serve, (void *)(intptr_t)d->ends[0]);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&detached);
	return r == 0;
}

int discarder_open(struct discarder *d)
{
	*d = (struct discarder){.ends = {-1, -1}};
	if (pipe2(d->ends, O_CLOEXEC) != 0)
		return -errno;
	if (fcntl(d->ends[1], F_SETFL, O_NONBLOCK) != 0)
		return -errno;
	return 0;
}

void discarder_close(struct discarder *d)
{
	if (!d->runs && d->ends[0] >= 0)
		close(d->ends[0]); /* otherwise its thread does */
	if (d->ends[1] >= 0)
		close(d->ends[1]);
	*d = (struct discarder){.ends = {-1, -1}};
}

void discard_close(struct discarder *d, int fd)
{
	/* It waits in the pipe while no thread can be made. The pipe has room for more
	 * descriptors than wait at any time. */
	if (write(d->ends[1], &fd, sizeof(fd)) != sizeof(fd))
		close(fd);
	if (!d->runs)
		d->runs = start(d);
}

void discard_connection(struct discarder *d, int fd)
{
	if (discard_rest(fd))
		close(fd);
	else
		discard_close(d, fd);
}

void discard_listener(struct discarder *d, int fd)
{
	int each;

	/* Nobody connects any more. */
	shutdown(fd, SHUT_RDWR);
	while ((each = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0 ||
	       errno == EINTR)
		if (each >= 0)
			discard_connection(d, each);
	close(fd);
}
