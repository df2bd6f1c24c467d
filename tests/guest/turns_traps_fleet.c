/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that hand over work without the driver: ranks, locks of files, producers, workers of a
 * server that forks, and one that somebody stops. */
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/guest/turns_traps.h"

enum { RANKS = 3, TOKENS = 3 };

/* ---- three ranks: the processors meet, and then each kernel waits for the next rank's -----------
 */

static _Atomic(uint32_t) *ranks; /* how many rounds each has begun, ended; what its kernel wrote */

static void begin_rank(void)
{
	void *memory;

	g.address = traps_map_words(&memory);
	ranks = memory;
}

static void meet_ranks(_Atomic(uint32_t) *of, unsigned own)
{
	atomic_store(&of[own], g.round);
	for (unsigned i = 0; i < RANKS; i++)
		while (atomic_load(&of[i]) < g.round)
			traps_rest_us(50);
}

static void compute_as(unsigned own)
{
	if (!ranks)
		begin_rank();
	meet_ranks(ranks, own);
	traps_launch(0, 0, g.device[0].spend, 300000);
	traps_launch_on(g.device[0].set, 2 * RANKS + own, g.round);
	traps_launch_on(g.device[0].wait, 2 * RANKS + (own + 1) % RANKS, g.round);
	ok(g.cuCtxSynchronize());
	meet_ranks(ranks + RANKS, own);
}

void traps_part_ranks(void)
{
	if (ranks)
		for (unsigned i = 0; i < 3 * RANKS; i++)
			atomic_store(&ranks[i], INT32_MAX);
}

void trap_rank_0(void)
{
	compute_as(0);
}

void trap_rank_1(void)
{
	compute_as(1);
}

void trap_rank_2(void)
{
	compute_as(2);
}

/* ---- two programs compute only with the lock of a file -----------------------------------------
 */

static void compute_locked(void)
{
	static int fd = -1;

	if (fd < 0)
		fd = open(traps_meeting_place(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (flock(fd, LOCK_EX) != 0)
		fail("no lock");
	for (int i = 0; i < 2; i++) {
		traps_launch(0, 0, g.device[0].spend, 300000);
		ok(g.cuStreamSynchronize(g.device[0].stream[0]));
	}
	flock(fd, LOCK_UN);
}

void trap_locks_here(void)
{
	compute_locked();
}

void trap_locks_there(void)
{
	compute_locked();
}

/* ---- one kernel for the program's life; a process without the driver feeds it -------------------
 */

/* serve(words): for each number waits until words[0] is at least it, works, and says so. */
static const char ptx[] = ".version 6.5\n.target sm_70\n.address_size 64\n"
			  ".visible .entry serve(.param .u64 p) {\n"
			  ".reg .u64 %a; .reg .u32 %x, %n; .reg .pred %q;\n"
			  "ld.param.u64 %a, [p]; mov.u32 %n, 1;\n"
			  "N: ld.volatile.u32 %x, [%a]; setp.ge.u32 %q, %x, %n; @%q bra W;\n"
			  "nanosleep.u32 20000; bra N;\n"
			  "W: nanosleep.u32 50000; st.volatile.u32 [%a+4], %n;\n"
			  "add.u32 %n, %n, 1; bra N; }\n";

static void noreturn_ produce(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (uint32_t i = 1;; i++) {
		while (atomic_load(&g.word[1]) + 1 < i)
			traps_rest_us(50);
		traps_rest_us(1000);
		atomic_store(g.word, i);
	}
}

static void begin_producer(void)
{
	void *arguments[] = {&g.address};
	CUfunction serve;
	CUmodule module;

	traps_map_page(traps_new_page());
	if (fork() == 0)
		produce();
	ok(g.cuModuleLoadData(&module, ptx));
	ok(g.cuModuleGetFunction(&serve, module, "serve"));
	ok(g.cuLaunchKernel(serve, 1, 1, 1, 1, 1, 1, 0, g.device[0].stream[0], arguments, NULL));
}

void trap_produced(void)
{
	static bool begun;

	if (!begun)
		begin_producer();
	begun = true;
	while (atomic_load(&g.word[1]) < g.round)
		traps_rest_us(100);
}

/* ---- workers of a server that has forked: the kernel of each waits for that of the next one -----
 */

static int relays[2];

static void noreturn_ relay(int fd, unsigned own, int ready)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	traps_start(1);
	traps_map_page(fd);
	for (g.round = 1;; g.round++) {
		char byte = 0;

		if (write(ready, &byte, 1) != 1)
			_exit(0);
		while (atomic_load(&g.word[TOKENS]) < g.round)
			traps_rest_us(50);
		traps_launch_on(g.device[0].set, own, g.round);
		traps_launch_on(g.device[0].wait, (own + 1) % TOKENS, g.round);
		traps_launch(0, 0, g.device[0].spend, 200000);
		ok(g.cuStreamSynchronize(g.device[0].stream[0]));
	}
}

static void start_relays(void)
{
	int fd = traps_new_page();

	if (pipe2(relays, O_CLOEXEC) != 0)
		fail("no pipe");
	for (unsigned i = 0; i < TOKENS; i++)
		if (fork() == 0)
			relay(fd, i, relays[1]);
	traps_share_word(fd);
}

static void hear_relays(void)
{
	char bytes[TOKENS];

	for (size_t n = 0; n < TOKENS;) {
		ssize_t got = read(relays[0], bytes, TOKENS - n);

		if (got <= 0)
			fail("a worker has ended");
		n += (size_t)got;
	}
}

void trap_relay(void)
{
	if (!relays[1]) {
		start_relays();
		hear_relays();
	}
	atomic_store(&g.word[TOKENS], g.round);
	hear_relays();
}

/* ---- of two processes that hand a value to each other one is stopped now and then --------------
 */

static void noreturn_ stop_now_and_then(pid_t other)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		traps_rest_us(50000);
		if (kill(other, SIGSTOP) != 0)
			_exit(0);
		traps_rest_us(30000);
		kill(other, SIGCONT);
	}
}

static void noreturn_ answer_values(int fd)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	traps_start(1);
	traps_map_page(fd);
	for (uint32_t n = 1;; n++) {
		traps_launch_on(g.device[0].wait, 0, n);
		traps_launch(0, 0, g.device[0].spend, 100000);
		traps_launch_on(g.device[0].set, 1, n);
		ok(g.cuStreamSynchronize(g.device[0].stream[0]));
	}
}

static void start_answerer(void)
{
	pid_t other;
	int fd = traps_new_page();

	other = fork();
	if (other == 0)
		answer_values(fd);
	if (fork() == 0)
		stop_now_and_then(other);
	traps_start(1);
	traps_map_page(fd);
}

void trap_halted(void)
{
	static bool begun;

	if (!begun)
		start_answerer();
	begun = true;
	traps_launch_on(g.device[0].set, 0, g.round);
	traps_launch_on(g.device[0].wait, 1, g.round);
	ok(g.cuStreamSynchronize(g.device[0].stream[0]));
}
