/* SPDX-License-Identifier: Apache-2.0 */
/* Several processes of one tenant: collectives with proxy threads, events and values, a group that
 * is stopped; and programs that are stopped for long. */
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "tests/guest/turns_traps.h"

/* ---- three ranks: each chunk's kernel waits for what the rank before has sent by its thread -----
 */

enum { RANKS = 3, CHUNKS = 4 };

static struct {
	unsigned own;
	CUevent computed[CHUNKS];
	atomic_uint recorded, sent;
} rank;

/* Asks the driver whether the chunk is there, and sends it without the driver. */
static void *send_chunks(void *nothing)
{
	(void)nothing;
	traps_use_device();
	for (uint32_t sent = 1;; sent++) {
		while (rank.recorded < sent)
			sched_yield();
		while (g.cuEventQuery(rank.computed[sent % CHUNKS]) == CUDA_ERROR_NOT_READY)
			sched_yield();
		atomic_store(&g.word[(rank.own + 1) % RANKS], sent);
		rank.sent = sent;
	}
	return NULL;
}

static void begin_rank(int fd, unsigned own)
{
	pthread_t thread;

	traps_start(1);
	traps_map_page(fd);
	rank.own = own;
	for (int i = 0; i < CHUNKS; i++)
		rank.computed[i] = traps_event();
	traps_thread(send_chunks, &thread);
}

static void reduce(uint32_t round)
{
	for (uint32_t i = 0; i < CHUNKS; i++) {
		uint32_t chunk = (round - 1) * CHUNKS + i + 1;

		traps_launch(0, 0, g.device[0].spend, 50000);
		ok(g.cuEventRecord(rank.computed[chunk % CHUNKS], g.device[0].stream[0]));
		rank.recorded = chunk;
		traps_launch_on(g.device[0].wait, rank.own, chunk);
	}
	ok(g.cuStreamSynchronize(g.device[0].stream[0]));
	while (rank.sent < round * CHUNKS) /* its events are used again */
		sched_yield();
}

static void start_ranks(void)
{
	int fd = traps_new_page();

	for (unsigned own = 1; own < RANKS; own++) {
		if (fork() != 0)
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		begin_rank(fd, own);
		for (uint32_t round = 1;; round++)
			reduce(round);
	}
	begin_rank(fd, 0);
}

void trap_gang(void)
{
	if (!g.word)
		start_ranks();
	reduce(g.round);
}

/* ---- one process waits for the other's event, and that one for a value of the first one ---------
 */

static int partner;

static void exchange(void *data, const void *own, size_t size)
{
	if (send(partner, own, size, 0) != (ssize_t)size ||
	    recv(partner, data, size, MSG_WAITALL) != (ssize_t)size)
		fail("the other process has ended");
}

static CUevent lend_event(CUevent *ret_own)
{
	CUipcEventHandle_v1 mine, theirs;
	CUevent other;

	ok(g.cuEventCreate(ret_own, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
	ok(g.cuIpcGetEventHandle(&mine, *ret_own));
	exchange(&theirs, &mine, sizeof(mine));
	ok(g.cuIpcOpenEventHandle(&other, theirs));
	return other;
}

static void noreturn_ follow_events(int fd)
{
	CUstream stream;
	CUevent own, other;
	uint32_t round;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	traps_start(1);
	traps_map_page(fd);
	stream = g.device[0].stream[0];
	other = lend_event(&own);
	for (;;) {
		exchange(&round, &round, sizeof(round));
		ok(g.cuStreamWaitEvent(stream, other, 0));
		traps_launch(0, 0, g.device[0].spend, 100000);
		ok(g.cuStreamWriteValue32_v2(stream, g.address, round, 0));
	}
}

static CUevent start_follower(CUevent *ret_own)
{
	int fd = traps_new_page(), ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
		fail("no sockets");
	partner = ends[1];
	if (fork() == 0)
		follow_events(fd);
	partner = ends[0];
	traps_start(1);
	traps_map_page(fd);
	return lend_event(ret_own);
}

void trap_echoes(void)
{
	static CUevent own;
	uint32_t theirs;

	if (!own)
		(void)start_follower(&own);
	traps_launch(0, 0, g.device[0].spend, 100000);
	ok(g.cuEventRecord(own, g.device[0].stream[0]));
	exchange(&theirs, &g.round, sizeof(g.round));
	ok(g.cuStreamWaitValue32_v2(g.device[0].stream[0], g.address, g.round,
				    CU_STREAM_WAIT_VALUE_GEQ));
	traps_launch(0, 0, g.device[0].spend, 100000);
	ok(g.cuStreamSynchronize(g.device[0].stream[0]));
}

/* ---- stopped: a group of two, one for long at a time, and one that hardly runs ------------------
 */

/* For so long each of them runs and is stopped, in turn. */
static void stop_each(const pid_t *processes, unsigned n, uint64_t runs_us, uint64_t stopped_us)
{
	if (fork() != 0)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		traps_rest_us(runs_us);
		for (unsigned i = 0; i < n; i++)
			if (kill(processes[i], SIGSTOP) != 0)
				_exit(0);
		traps_rest_us(stopped_us);
		for (unsigned i = 0; i < n; i++)
			kill(processes[i], SIGCONT);
	}
}

static void compute(void)
{
	for (int i = 0; i < 4; i++)
		traps_launch(0, 0, g.device[0].spend, 500000);
	ok(g.cuCtxSynchronize());
}

void trap_group(void)
{
	static pid_t processes[2];

	if (!processes[0]) {
		processes[0] = getpid();
		processes[1] = fork();
		if (processes[1] == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			traps_start(1);
			for (;;)
				compute();
		}
		stop_each(processes, 2, 80000, 40000);
		traps_start(1);
	}
	compute();
}

static void compute_while_stopped(uint64_t runs_us, uint64_t stopped_us)
{
	static pid_t self;

	if (!self) {
		self = getpid();
		stop_each(&self, 1, runs_us, stopped_us);
	}
	compute();
}

void trap_breakpoints(void)
{
	compute_while_stopped(300000, 300000);
}

void trap_seldom(void)
{
	compute_while_stopped(10000, 70000);
}
