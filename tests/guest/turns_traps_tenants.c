/* SPDX-License-Identifier: Apache-2.0 */
/* Programs of several tenants that wait for each other by sockets and events, and share no memory.
 */
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "tests/guest/turns_traps.h"

enum { AHEAD = 4 };

static struct sockaddr_un address(const char *suffix)
{
	struct sockaddr_un made = {.sun_family = AF_UNIX};

	snprintf(made.sun_path, sizeof(made.sun_path), "%s%s", traps_meeting_place(), suffix);
	return made;
}

static int serve(const char *suffix)
{
	struct sockaddr_un at = address(suffix);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) != 0 || listen(fd, 1) != 0)
		fail("cannot listen at %s", at.sun_path);
	return fd;
}

static int accepted(int listening)
{
	int fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0)
		fail("nobody came");
	close(listening);
	return fd;
}

static int dial(const char *suffix)
{
	const struct timespec pause = {0, 1000000};
	struct sockaddr_un at = address(suffix);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	while (connect(fd, (struct sockaddr *)&at, sizeof(at)) != 0)
		clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
	return fd;
}

static void say(int fd)
{
	best_effort(send(fd, "", 1, MSG_NOSIGNAL));
}

/* false: the other one has ended. */
static bool hear(int fd)
{
	char byte;

	return recv(fd, &byte, 1, 0) == 1;
}

static void compute(uint32_t ns)
{
	traps_launch(0, 0, g.device[0].spend, ns);
	ok(g.cuStreamSynchronize(g.device[0].stream[0]));
}

/* ---- one asks, the other one answers ------------------------------------------------------------
 */

void trap_asks(void)
{
	static int other = -1;

	if (other < 0)
		other = dial("");
	compute(500000);
	say(other);
	(void)hear(other);
}

void trap_answers(void)
{
	static int other = -1;

	if (other < 0)
		other = accepted(serve(""));
	if (!hear(other))
		return;
	compute(500000);
	say(other);
}

/* ---- three stages, four pieces on their way -----------------------------------------------------
 */

void trap_first(void)
{
	static int next = -1, last;

	if (next < 0) {
		int listening = serve(".last");

		next = dial(".second");
		last = accepted(listening);
	}
	if (g.round > AHEAD)
		(void)hear(last);
	compute(500000);
	say(next);
}

static void stage(int before, int after)
{
	if (!hear(before))
		return;
	compute(500000);
	say(after);
}

void trap_second(void)
{
	static int before = -1, after;

	if (before < 0) {
		int listening = serve(".second");

		after = dial(".third");
		before = accepted(listening);
	}
	stage(before, after);
}

void trap_third(void)
{
	static int before = -1, after;

	if (before < 0) {
		int listening = serve(".third");

		after = dial(".last");
		before = accepted(listening);
	}
	stage(before, after);
}

/* ---- streams of two processes that wait for each other's events
 * ---------------------------------- */

struct partner {
	int fd;
	CUevent own, other;
};

static void exchange_events(struct partner *p)
{
	CUipcEventHandle_v1 mine, theirs;

	ok(g.cuEventCreate(&p->own, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
	ok(g.cuIpcGetEventHandle(&mine, p->own));
	if (send(p->fd, &mine, sizeof(mine), 0) != sizeof(mine) ||
	    recv(p->fd, &theirs, sizeof(theirs), MSG_WAITALL) != sizeof(theirs))
		fail("no event");
	ok(g.cuIpcOpenEventHandle(&p->other, theirs));
}

static void after_the_other(struct partner *p)
{
	CUstream stream = g.device[0].stream[0];

	ok(g.cuStreamWaitEvent(stream, p->other, 0));
	traps_launch(0, 0, g.device[0].spend, 300000);
	ok(g.cuEventRecord(p->own, stream));
	if (g.round % AHEAD == 0)
		ok(g.cuStreamSynchronize(stream));
}

void trap_records(void)
{
	static struct partner p = {.fd = -1};

	if (p.fd < 0) {
		p.fd = accepted(serve(""));
		exchange_events(&p);
	}
	after_the_other(&p);
	say(p.fd);
	(void)hear(p.fd);
}

void trap_follows(void)
{
	static struct partner p = {.fd = -1};

	if (p.fd < 0) {
		p.fd = dial("");
		exchange_events(&p);
	}
	if (!hear(p.fd))
		return;
	after_the_other(&p);
	say(p.fd);
}
