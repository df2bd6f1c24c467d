/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grpc_resets COUNT: so many calls that are begun and left at once (CVE-2023-44487) at a server of
 * kube/grpc.h, on as many connections as it takes: it hangs up, and the peer comes again. Prints
 * how many were sent, over how many connections, and what the server's memory grew by, after a
 * first flood that it has seen before.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "kube/grpc.h"

enum { HEADER = 64 };

static struct {
	struct loop loop;
	struct grpc_server *server;
	struct loop_watch done;
	unsigned called, gone;
} b;

static void noreturn_ fail(const char *what)
{
	fprintf(stderr, "grpc_resets: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void on_called(struct grpc_call *call, struct grpc_bytes request, void *owner)
{
	(void)call;
	(void)request;
	(void)owner;
	b.called++;
}

static void on_gone(struct grpc_call *call, void *owner)
{
	(void)call;
	(void)owner;
	b.gone++;
}

static long rss_kib(void)
{
	owned(fclose) FILE *file = fopen("/proc/self/statm", "r");
	long pages = 0;

	if (!file || fscanf(file, "%*d %ld", &pages) != 1)
		fail("/proc/self/statm");
	return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static size_t put(uint8_t *at, unsigned type, unsigned flags, uint32_t stream, const void *payload,
		  size_t size)
{
	uint8_t header[9] = {0, 0, (uint8_t)size, (uint8_t)type, (uint8_t)flags};

	for (int i = 0; i < 4; i++)
		header[5 + i] = (uint8_t)(stream >> (24 - 8 * i));
	memcpy(at, header, 9);
	memcpy(at + 9, payload, size);
	return 9 + size;
}

static int dial(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
		fail(path);
	return fd;
}

/* POST, the path and the content type, plain. */
static const uint8_t block[] = "\x83\4\7/t/Wait\x0f\x10\x10"
			       "application/grpc";

/* 0: the server has hung up. */
static int send_all(int fd, const uint8_t *bytes, size_t size)
{
	while (size > 0) {
		ssize_t n = send(fd, bytes, size, MSG_NOSIGNAL);

		if (n <= 0)
			return 0;
		bytes += n;
		size -= (size_t)n;
	}
	return 1;
}

/* As many as the connection takes. */
static unsigned flood(int fd, unsigned most)
{
	uint8_t bytes[256] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
	size_t size = 24 + put(bytes + 24, 4, 0, 0, "", 0);
	unsigned sent = 0;

	while (sent < most) {
		uint32_t stream = 1 + 2 * sent;

		size += put(bytes + size, 1, 4, stream, block, sizeof(block) - 1);
		size += put(bytes + size, 0, 1, stream, "\0\0\0\0\1x", 6);
		size += put(bytes + size, 3, 0, stream, "\0\0\0\10", 4);
		if (!send_all(fd, bytes, size))
			break;
		size = 0;
		sent++;
	}
	return sent;
}

static void wait_for_end(int fd)
{
	uint8_t bytes[4096];

	shutdown(fd, SHUT_WR);
	while (recv(fd, bytes, sizeof(bytes), 0) > 0) {
	}
	close(fd);
}

/* The child: tells how many connections it took, and how many of them the server closed before it
 * had sent all. */
static void noreturn_ attack(const char *path, unsigned count, int told)
{
	unsigned numbers[2] = {0, 0};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (unsigned sent = 0; sent < count; numbers[0]++) {
		int fd = dial(path);
		unsigned n = flood(fd, count - sent);

		numbers[1] += n < count - sent;
		sent += n;
		wait_for_end(fd);
	}
	_exit(write(told, numbers, sizeof(numbers)) != sizeof(numbers));
}

static void on_done(struct loop_watch *watch, int events)
{
	(void)events;
	loop_unwatch(watch, NULL);
	loop_stop(&b.loop);
}

static void serve(const char *path, unsigned count, unsigned numbers[2])
{
	int told[2];
	pid_t child;

	if (pipe(told) != 0)
		fail("pipe");
	child = fork();
	if (child == 0)
		attack(path, count, told[1]);
	close(told[1]);
	if (child < 0 || loop_watch(&b.loop, &b.done, told[0], LOOP_READ, on_done) < 0)
		fail("fork");
	loop_run(&b.loop);
	if (read(told[0], numbers, 2 * sizeof(*numbers)) != 2 * (ssize_t)sizeof(*numbers))
		fail("the other end");
	/* The watch is closed by the loop; then its descriptor may go. */
	uv_run(&b.loop.uv, UV_RUN_NOWAIT);
	close(told[0]);
	waitpid(child, NULL, 0);
}

int main(int argc, char **argv)
{
	static const struct grpc_method methods[] = {{"/t/Wait", on_called, on_gone}};
	unsigned count = argc == 2 ? (unsigned)strtoul(argv[1], NULL, 10) : 50000, numbers[2];
	struct fault why = {""};
	char path[64];
	long before;

	snprintf(path, sizeof(path), "/tmp/mete-resets-%d", (int)getpid());
	if (loop_init(&b.loop) < 0 ||
	    grpc_server_open(&b.loop, path, 0600, methods, 1, &b, &b.server, &why) < 0)
		fail(why.text);
	serve(path, 2000, numbers);
	before = rss_kib();
	b.called = b.gone = 0;
	serve(path, count, numbers);
	printf("calls looked at %u, left %u; connections %u, closed by the server %u\n", b.called,
	       b.gone, numbers[0], numbers[1]);
	if (b.called != b.gone || numbers[1] + 1 < numbers[0])
		fail("not all were closed");
	printf("figure: grpc_rapid_resets %u count\n", count);
	printf("figure: grpc_reset_connections_closed %u count\n", numbers[1]);
	printf("figure: grpc_reset_growth_kib %ld KiB\n", rss_kib() - before);
	grpc_server_close(b.server, NULL);
	loop_done(&b.loop);
	return 0;
}
