/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors that a peer has sent, which take for ever to close, hold up nobody who closes the
 * connection. Each test would take as long as LINGER_S. */
#include "base/discard.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/test.h"

enum { LINGER_S = 3600, PATIENCE_MS = 60000 };

/* A connection of TCP whose other end reads nothing; closing the first one waits for that. */
struct lingering {
	int fd, other;
};

static struct lingering lingering(void)
{
	static const struct linger linger = {1, LINGER_S};
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(address);
	owned(close) int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct lingering made = {socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), -1};
	static char bytes[65536];

	expect_eq(bind(listener, (struct sockaddr *)&address, size), 0);
	expect_eq(listen(listener, 1), 0);
	expect_eq(getsockname(listener, (struct sockaddr *)&address, &size), 0);
	expect_eq(connect(made.fd, (struct sockaddr *)&address, size), 0);
	made.other = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	expect(made.other >= 0);
	while (send(made.fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0) {
	}
	expect_eq(setsockopt(made.fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
	return made;
}

/* Its end of the connection is closed. */
static void expect_closed(struct lingering made)
{
	static char bytes[1 << 20];
	ssize_t n;

	do {
		struct pollfd ready = {made.other, POLLIN, 0};

		expect(poll(&ready, 1, PATIENCE_MS) > 0);
		n = recv(made.other, bytes, sizeof(bytes), 0);
	} while (n > 0);
	close(made.other);
}

static void post(int to, const char *bytes, size_t size, int fd)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct iovec part = {(void *)(uintptr_t)bytes, size};
	struct msghdr header = {.msg_iov = &part,
				.msg_iovlen = 1,
				.msg_control = &control,
				.msg_controllen = sizeof(control)};

	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(&control.header), &fd, sizeof(int));
	expect_eq(sendmsg(to, &header, MSG_NOSIGNAL), size);
	close(fd);
}

static void connected(int *ret_here, int *ret_there)
{
	int ends[2];

	expect_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	*ret_here = ends[0];
	*ret_there = ends[1];
}

TEST(a_message_is_known_to_have_descriptors_before_it_is_read)
{
	struct lingering made = lingering();
	int here, there;

	connected(&here, &there);
	expect_eq(discard_look(here), -EAGAIN);
	expect_eq(send(there, "plain", 5, 0), 5);
	expect_eq(discard_look(here), 0);
	post(there, "more", 4, made.fd);
	expect_eq(discard_look(here), 0);
	expect_eq(recv(here, (char[8]){0}, 8, 0), 5);
	expect_eq(discard_look(here), DISCARD_BURDENED);
	expect_eq(discard_look(here), DISCARD_BURDENED);
	expect(!discard_rest(here));
	/* A process that ends waits for nothing. */
	shutdown(made.other, SHUT_RDWR);
	close(made.other);
	close(here);
	close(there);
}

TEST(a_connection_with_descriptors_that_linger_is_closed_elsewhere)
{
	struct discarder d;

	expect_eq(discarder_open(&d), 0);
	for (int i = 0; i < 20; i++) {
		struct lingering first = lingering(), second = lingering();
		int here, there;

		connected(&here, &there);
		post(there, "one", 3, first.fd);
		post(there, "two", 3, second.fd);
		discard_connection(&d, here);
		/* Whoever reads from the first ends its wait. */
		expect_closed(second);
		expect_closed(first);
		close(there);
	}
	discarder_close(&d);
}

/* A process in the place of the first one: it was killed, and ends when `ret_end` is closed. */
static pid_t killed(struct discarder *d, int *ret_end)
{
	int ours, theirs, life, held;
	pid_t pid;

	connected(&ours, &theirs);
	connected(&life, &held);
	pid = fork();
	if (pid == 0) {
		close(life);
		best_effort(recv(held, (char[1]){0}, 1, 0));
		_exit(0);
	}
	shutdown(theirs, SHUT_RDWR);
	close(theirs);
	close(held);
	d->closers[0] = (struct discard_closer){.pid = pid, .fd = ours, .under_way = 1};
	*ret_end = life;
	return pid;
}

static void close_one(struct discarder *d)
{
	struct lingering made = lingering();
	int here, there;

	connected(&here, &there);
	post(there, "", 1, made.fd);
	discard_connection(d, here);
	close(there);
	shutdown(made.other, SHUT_RDWR);
	close(made.other);
}

TEST(a_killed_process_that_closes_is_reaped_though_its_end_takes_long)
{
	struct discarder d;
	siginfo_t ended;
	pid_t pid;
	int end;

	expect_eq(discarder_open(&d), 0);
	pid = killed(&d, &end);
	close_one(&d);
	expect_eq(d.closers[0].pid, pid);
	expect_eq(d.closers[0].fd, -1);
	close(end);
	expect_eq(waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOWAIT), 0);
	close_one(&d);
	expect(waitpid(pid, NULL, 0) == -1 && errno == ECHILD);
	expect(d.closers[0].pid != pid);
	discarder_close(&d);
}

TEST(a_message_of_no_bytes_hides_no_descriptors)
{
	struct lingering made = lingering();
	struct discarder d;
	int here, there;

	expect_eq(discarder_open(&d), 0);
	connected(&here, &there);
	for (int i = 0; i < 5; i++)
		expect_eq(send(there, "", 0, 0), 0);
	post(there, "", 0, made.fd);
	discard_connection(&d, here);
	expect_closed(made);
	close(there);
	discarder_close(&d);
}

TEST(a_connection_whose_end_has_not_read_all_hides_no_descriptors)
{
	struct lingering first = lingering(), second = lingering();
	struct discarder d;
	int here, there;

	expect_eq(discarder_open(&d), 0);
	connected(&here, &there);
	expect_eq(send(here, "unread", 6, 0), 6);
	post(there, "one", 3, first.fd);
	close(there);
	expect_eq(discard_look(here), DISCARD_BURDENED);
	discard_connection(&d, here);
	expect_closed(first);
	connected(&here, &there);
	expect_eq(send(here, "unread", 6, 0), 6);
	post(there, "two", 3, second.fd);
	close(there);
	discard_connection(&d, here);
	expect_closed(second);
	discarder_close(&d);
}

TEST(what_lingers_is_closed_where_others_use_up_the_users_signals)
{
	struct lingering first = lingering(), second = lingering();
	struct rlimit before, none;
	struct discarder d;
	int here, there;

	expect_eq(getrlimit(RLIMIT_SIGPENDING, &before), 0);
	none = before;
	none.rlim_cur = 0;
	expect_eq(setrlimit(RLIMIT_SIGPENDING, &none), 0);
	expect_eq(discarder_open(&d), 0);
	connected(&here, &there);
	post(there, "one", 3, first.fd);
	discard_connection(&d, here);
	close(there);
	connected(&here, &there);
	post(there, "two", 3, second.fd);
	discard_connection(&d, here);
	close(there);
	/* Whoever reads from the first ends its wait. */
	expect_closed(second);
	expect_closed(first);
	discarder_close(&d);
	expect_eq(setrlimit(RLIMIT_SIGPENDING, &before), 0);
}

TEST(a_connection_that_nobody_has_accepted_is_closed_likewise)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	socklen_t size = sizeof(address.sun_family);
	struct lingering made = lingering();
	struct discarder d;
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int there = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	expect_eq(discarder_open(&d), 0);
	/* The kernel gives it a name. */
	expect_eq(bind(listener, (struct sockaddr *)&address, size), 0);
	expect_eq(listen(listener, 8), 0);
	size = sizeof(address);
	expect_eq(getsockname(listener, (struct sockaddr *)&address, &size), 0);
	expect_eq(connect(there, (struct sockaddr *)&address, size), 0);
	post(there, "hello", 5, made.fd);
	discard_listener(&d, listener);
	expect_closed(made);
	close(there);
	discarder_close(&d);
}

TEST(the_other_end_reads_what_it_was_sent_last)
{
	struct discarder d;
	int here, there;
	char read[8];

	expect_eq(discarder_open(&d), 0);
	connected(&here, &there);
	expect_eq(send(there, "unread", 6, 0), 6);
	expect_eq(send(there, "", 0, 0), 0);
	expect_eq(send(here, "last", 4, 0), 4);
	discard_connection(&d, here);
	expect_eq(recv(there, read, sizeof(read), 0), 4);
	expect_eq(recv(there, read, sizeof(read), 0), 0);
	close(there);
	discarder_close(&d);
}
