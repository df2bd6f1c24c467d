/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of a turn to a process that does only the steps that meted cannot do without: a timer, a
 * word to the holder's agent, its answer, a wake-up at the next one's gate and a word to its agent.
 * Two children stand for the guests. For bench/turn-cost.py.
 *
 *	turn_floor SECONDS TURN_US     prints the process' CPU time for a turn, in microseconds
 */
#include <linux/futex.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/macros.h"

enum { FRAME = 32, DRAIN_US = 250000, OPEN = 0, CLOSE = 1 };

static uint32_t *gate; /* of each child, shared with it */

static int agents[2], timer, loop;

static void noreturn_ fail(const char *what)
{
	perror(what);
	exit(1);
}

static void noreturn_ *stand_at_gate(void *argument)
{
	uint32_t *word = argument;

	for (;;)
		syscall(SYS_futex, word, FUTEX_WAIT, __atomic_load_n(word, __ATOMIC_SEQ_CST), NULL,
			NULL, 0);
}

static void noreturn_ be_guest(int fd, uint32_t *word)
{
	char frame[FRAME];
	pthread_t thread;

	prctl(PR_SET_PDEATHSIG, 9);
	if (pthread_create(&thread, NULL, stand_at_gate, word) != 0)
		fail("pthread_create");
	while (recv(fd, frame, FRAME, 0) == FRAME)
		if (frame[0] == CLOSE && send(fd, frame, FRAME, 0) != FRAME)
			fail("send");
	exit(0);
}

static void watch(int fd, uint32_t who)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u32 = who};

	if (epoll_ctl(loop, EPOLL_CTL_ADD, fd, &event) < 0)
		fail("epoll_ctl");
}

static void begin(void)
{
	gate = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	loop = epoll_create1(0);
	timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
	if (gate == MAP_FAILED || loop < 0 || timer < 0)
		fail("turn_floor");
	watch(timer, 2);
	for (int i = 0; i < 2; i++) {
		int pair[2];

		if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) < 0)
			fail("socketpair");
		if (fork() == 0)
			be_guest(pair[1], &gate[i]);
		close(pair[1]);
		agents[i] = pair[0];
		watch(agents[i], (uint32_t)i);
	}
}

static void arm(uint64_t us)
{
	struct itimerspec when = {
		.it_value = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000}};

	if (timerfd_settime(timer, 0, &when, NULL) < 0)
		fail("timerfd_settime");
}

static void tell(int who, char what)
{
	char frame[FRAME] = {what};

	if (send(agents[who], frame, FRAME, MSG_DONTWAIT) != FRAME)
		fail("send");
}

static void open_gate(int who, uint64_t turn_us)
{
	__atomic_fetch_add(&gate[who], 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &gate[who], FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
	tell(who, OPEN);
	arm(turn_us);
}

static uint64_t clock_us(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

int main(int argc, char **argv)
{
	uint64_t seconds = argc == 3 ? strtoul(argv[1], NULL, 10) : 0, turns = 0, end, spent;
	uint64_t turn_us = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
	char frame[FRAME];
	int holder = 0;
	bool closing = false;

	if (!seconds || !turn_us) {
		fprintf(stderr, "usage: turn_floor SECONDS TURN_US\n");
		return 2;
	}
	begin();
	open_gate(holder, turn_us);
	end = clock_us(CLOCK_MONOTONIC) + seconds * 1000000;
	spent = clock_us(CLOCK_PROCESS_CPUTIME_ID);
	while (clock_us(CLOCK_MONOTONIC) < end) {
		struct epoll_event event;

		if (epoll_wait(loop, &event, 1, -1) != 1)
			continue;
		if (event.data.u32 == 2) {
			/* Not twice: a late answer is still waited for. */
			if (!closing)
				tell(holder, CLOSE);
			closing = true;
			arm(DRAIN_US);
			continue;
		}
		if (recv(agents[holder], frame, FRAME, MSG_DONTWAIT) != FRAME)
			fail("recv");
		closing = false;
		holder = !holder;
		open_gate(holder, turn_us);
		turns++;
	}
	spent = clock_us(CLOCK_PROCESS_CPUTIME_ID) - spent;
	if (!turns)
		return 1;
	printf("%.1f\n", (double)spent / (double)turns);
	return 0;
}
