/* SPDX-License-Identifier: Apache-2.0 */
#include "base/discard.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum {
	INTERRUPT_NS = 1000000,
	STACK_BYTES = 64 << 10,
};

/* ---- looking --------------------------------------------------------------------------------- */

/* Room for a sender's identity alone. Descriptors that find no room are not lost by looking. */
union identity {
	struct cmsghdr header;
	char room[CMSG_SPACE(sizeof(struct ucred))];
};

/* As recvmsg() of one byte. That the other end closed without having read all (ECONNRESET) is told
 * once, and before the messages that it has sent: whoever takes it for the end does not see those.
 */
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
	} while (n < 0 && (errno == EINTR || errno == ECONNRESET));
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
	while (look(fd, &identity, &header) >= 0) {
		if (!header.msg_controllen)
			return true;
		if (header.msg_flags & MSG_CTRUNC)
			return false;
		best_effort((int)recv(fd, &(char){0}, 1, MSG_DONTWAIT));
	}
	return false;
}

/* ---- closing --------------------------------------------------------------------------------- */

/* Where no process takes it (the kernel makes none, or passes on no sockets that lie in sockets
 * that lie in others). Two threads: one closes, and the other interrupts it meanwhile. A timer that
 * sends the signal would need one of the signals that may wait for the user, which others of the
 * same user can use up (RLIMIT_SIGPENDING); pthread_kill() does not. */
struct closer {
	pthread_t thread; /* the one that closes */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool closing, over;
};

static void on_interrupt(int signal)
{
	(void)signal;
}

static void *interrupt(void *from)
{
	static const struct timespec between = {0, INTERRUPT_NS};
	struct closer *closer = from;

	pthread_mutex_lock(&closer->lock);
	while (!closer->over) {
		if (!closer->closing) {
			pthread_cond_wait(&closer->changed, &closer->lock);
			continue;
		}
		pthread_mutex_unlock(&closer->lock);
		nanosleep(&between, NULL);
		pthread_kill(closer->thread, SIGALRM);
		pthread_mutex_lock(&closer->lock);
	}
	pthread_mutex_unlock(&closer->lock);
	return NULL;
}

static void tell(struct closer *closer, bool closing, bool over)
{
	pthread_mutex_lock(&closer->lock);
	closer->closing = closing;
	closer->over = over;
	pthread_cond_signal(&closer->changed);
	pthread_mutex_unlock(&closer->lock);
}

static bool begin(pthread_t *ret_thread, int detached, void *(*run)(void *), void *with)
{
	pthread_attr_t how;
	int r;

	if (pthread_attr_init(&how) != 0)
		return false;
	pthread_attr_setdetachstate(&how, detached);
	pthread_attr_setstacksize(&how, STACK_BYTES);
	r = pthread_create(ret_thread, &how, run, with);
	pthread_attr_destroy(&how);
	return r == 0;
}

static void be_interrupted(void)
{
	struct sigaction action = {.sa_handler = on_interrupt};
	sigset_t interrupts;

	sigemptyset(&interrupts);
	sigaddset(&interrupts, SIGALRM);
	best_effort(sigaction(SIGALRM, &action, NULL));
	pthread_sigmask(SIG_UNBLOCK, &interrupts, NULL);
}

static void *serve(void *from)
{
	static const struct timespec rest = {1, 0};
	struct closer closer = {.thread = pthread_self(),
				.lock = PTHREAD_MUTEX_INITIALIZER,
				.changed = PTHREAD_COND_INITIALIZER};
	int in = (int)(intptr_t)from, fd;
	pthread_t interrupts;
	ssize_t n;

	/* Nothing is closed without it. */
	while (!begin(&interrupts, PTHREAD_CREATE_JOINABLE, interrupt, &closer))
		nanosleep(&rest, NULL);
	be_interrupted();
	while ((n = read(in, &fd, sizeof(fd))) == sizeof(fd) || (n < 0 && errno == EINTR)) {
		if (n < 0)
			continue;
		tell(&closer, true, false);
		close(fd);
		tell(&closer, false, false);
	}
	tell(&closer, false, true);
	pthread_join(interrupts, NULL);
	close(in);
	return NULL;
}

static bool start(const struct discarder *d)
{
	sigset_t all, before;
	pthread_t thread;
	bool begun;

	/* Signals of the process are for others. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	begun = begin(&thread, PTHREAD_CREATE_DETACHED, serve, (void *)(intptr_t)d->ends[0]);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return begun;
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
	discard_processes_end(d->closers);
	*d = (struct discarder){.ends = {-1, -1}};
}

void discard_close(struct discarder *d, int fd)
{
	if (discard_process_close(d->closers, fd))
		return;
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
