/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guests that are no programs: for bench/busy-daemon.py and bench/daemon-size.py. Each has a
 *process of its own, which connects and does nothing else, as a process belongs to one tenant.
 *
 *	crowd hold                joins with one guest per socket, and sends nothing more
 *	crowd flood               asks for memory and gives it back, as fast as it can
 *	crowd hello               joins, leaves and joins again, as fast as it can
 *	crowd deaf                asks, and never reads an answer
 *	crowd ask COUNT PAUSE_US  one ask after the other; prints the median, the 99th and the
 *	                          hundredth percentile of the time to the answer, in microseconds
 *
 * The sockets are read from standard input, a line each, and an empty one; "ready" is printed when
 * all have joined; it begins after another line, and ends with its standard input.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "wire/wire.h"

enum { MOST = 2048, LINE = 108 };

static char paths[MOST][LINE];
static int fds[MOST];
static struct guest {
	pid_t pid;
	int asks; /* a byte for each connection that it is to make */
} guests[MOST];
static unsigned count;

static void noreturn_ fail(const char *what)
{
	fprintf(stderr, "crowd: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int dial(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
		fail(path);
	return fd;
}

/* One byte and the descriptor, or room for it. */
struct handed {
	char byte;
	struct iovec data;
	_Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof(int))];
	struct msghdr message;
};

static struct cmsghdr *handed(struct handed *h)
{
	h->data = (struct iovec){&h->byte, 1};
	h->message = (struct msghdr){.msg_iov = &h->data,
				     .msg_iovlen = 1,
				     .msg_control = h->room,
				     .msg_controllen = sizeof(h->room)};
	return CMSG_FIRSTHDR(&h->message);
}

static void noreturn_ connect_when_asked(int asks, const char *path)
{
	struct handed h = {0};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (read(asks, &h.byte, 1) == 1) {
		int fd = dial(path);
		struct cmsghdr *control = handed(&h);

		control->cmsg_level = SOL_SOCKET;
		control->cmsg_type = SCM_RIGHTS;
		control->cmsg_len = CMSG_LEN(sizeof(fd));
		memcpy(CMSG_DATA(control), &fd, sizeof(fd));
		if (sendmsg(asks, &h.message, MSG_NOSIGNAL) != 1)
			break;
		close(fd);
	}
	_exit(0);
}

static void start(struct guest *guest, const char *path)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
		fail("socketpair");
	guest->pid = fork();
	if (guest->pid < 0)
		fail("fork");
	if (guest->pid == 0)
		connect_when_asked(pair[1], path);
	close(pair[1]);
	guest->asks = pair[0];
}

static int connection_of(const struct guest *guest)
{
	struct handed h = {0};
	struct cmsghdr *control = handed(&h);
	int fd;

	if (write(guest->asks, "", 1) != 1 ||
	    recvmsg(guest->asks, &h.message, MSG_CMSG_CLOEXEC) != 1 ||
	    h.message.msg_controllen < CMSG_LEN(sizeof(fd)))
		fail("a guest does not connect");
	memcpy(&fd, CMSG_DATA(control), sizeof(fd));
	return fd;
}

static int say(int fd, const struct wire_message *message, int flags)
{
	uint8_t frame[WIRE_FRAME_MAX];
	size_t size = wire_encode(message, frame);

	return send(fd, frame, size, flags | MSG_NOSIGNAL) > 0;
}

/* 0: it is over. Descriptors that come with it are dropped. */
static int hear(int fd, int flags, struct wire_message *ret)
{
	uint8_t frame[WIRE_FRAME_MAX];
	ssize_t n = recv(fd, frame, sizeof(frame), flags);

	return n > 0 && wire_decode(frame, (size_t)n, ret) == 0;
}

static void greet(int fd, pid_t pid)
{
	struct wire_message hello = {.code = WIRE_hello, .id = 1}, answer;

	hello.hello.major = WIRE_MAJOR;
	hello.hello.pid = (uint32_t)pid;
	wire_set_text(&hello.hello.program, "crowd");
	best_effort(say(fd, &hello, 0));
	if (!hear(fd, 0, &answer) || answer.code != WIRE_welcome)
		fail("not welcome");
}

static void join(unsigned i)
{
	fds[i] = connection_of(&guests[i]);
	greet(fds[i], guests[i].pid);
}

static int ask(int fd, int flags)
{
	struct wire_message message = {.code = WIRE_credit_ask, .id = 2};

	message.credit_ask.bytes = message.credit_ask.want = 4096;
	return say(fd, &message, flags);
}

static int give_back(int fd, int flags)
{
	struct wire_message message = {.code = WIRE_credit_return, .id = 3};

	message.credit_return.bytes = 4096;
	return say(fd, &message, flags);
}

static int over(void)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

	return poll(&input, 1, 0) != 0;
}

/* Until some connection takes something, or has something for us. */
static void wait_for_any(int deaf)
{
	static struct pollfd ready[MOST];

	for (unsigned i = 0; i < count; i++)
		ready[i] = (struct pollfd){fds[i], (short)(POLLOUT | (deaf ? 0 : POLLIN)), 0};
	best_effort(poll(ready, count, 100));
}

/* Fills what the kernel takes, and throws the answers away. */
static void flood(int deaf)
{
	struct wire_message answer;

	while (!over()) {
		int any = 0;

		for (unsigned i = 0; i < count; i++) {
			any |= ask(fds[i], MSG_DONTWAIT);
			any |= give_back(fds[i], MSG_DONTWAIT);
			while (!deaf && hear(fds[i], MSG_DONTWAIT, &answer)) {
			}
		}
		if (!any)
			wait_for_any(deaf);
	}
}

static void storm(void)
{
	while (!over()) {
		for (unsigned i = 0; i < count; i++) {
			close(fds[i]);
			join(i);
		}
	}
}

static int by_size(const void *a, const void *b)
{
	const uint64_t *one = a, *other = b;

	return *one < *other ? -1 : *one > *other;
}

static void measure(unsigned asks, unsigned pause_us)
{
	uint64_t *took = calloc(asks, sizeof(*took));
	size_t median = asks / 2, late = asks - 1 - asks / 100;
	const unsigned connections = count;
	struct wire_message answer;

	if (!took || !asks || !connections)
		fail("memory");
	for (unsigned i = 0; i < asks; i++) {
		uint64_t before = now_ns();

		best_effort(ask(fds[i % connections], 0));
		do {
			if (!hear(fds[i % connections], 0, &answer))
				fail("meted went");
		} while (answer.id != 2);
		took[i] = now_ns() - before;
		best_effort(give_back(fds[i % connections], 0));
		if (pause_us)
			usleep(pause_us);
	}
	qsort(took, asks, sizeof(*took), by_size);
	printf("%.1f %.1f %.1f\n", (double)took[median] / 1e3, (double)took[late] / 1e3,
	       (double)took[asks - 1] / 1e3);
	free(took);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	char line[LINE + 2];

	/* One line at a time: the last one that is read here is an empty one. */
	while (count < MOST && fgets(line, sizeof(line), stdin) && *line != '\n') {
		line[strcspn(line, "\n")] = 0;
		memcpy(paths[count++], line, LINE);
	}
	for (unsigned i = 0; i < count; i++) {
		start(&guests[i], paths[i]);
		join(i);
	}
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 0;
	if (strcmp(what, "flood") == 0)
		flood(0);
	else if (strcmp(what, "deaf") == 0)
		flood(1);
	else if (strcmp(what, "hello") == 0)
		storm();
	else if (strcmp(what, "ask") == 0 && argc == 4)
		measure((unsigned)strtoul(argv[2], NULL, 10), (unsigned)strtoul(argv[3], NULL, 10));
	else
		while (read(STDIN_FILENO, line, 1) > 0) {
		}
	return 0;
}
