/* SPDX-License-Identifier: Apache-2.0 */
/* Programs of several threads and processes that hand work to each other. */
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "tests/guest/turns_traps.h"

enum { RING = 4, TICKS = 3 };

/* ---- four threads, each in its own default stream: the kernel of one waits for the one before --
 */

static void *turn_in_own_stream(void *place)
{
	uint32_t before = g.round * (RING + 1) + (uint32_t)(uintptr_t)place, after = before + 1;
	CUfunction kernels[] = {g.device[0].wait, g.device[0].set};
	uint32_t values[] = {before, after};

	traps_use_device();
	for (int i = 0; i < 2; i++) {
		void *arguments[] = {&g.address, &values[i]};

		ok(g.cuLaunchKernel_ptsz(kernels[i], 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
	}
	ok(g.cuStreamSynchronize_ptsz(NULL));
	return NULL;
}

void trap_per_thread(void)
{
	pthread_t thread[RING];

	for (uintptr_t i = RING; i-- > 0;)
		if (pthread_create(&thread[i], NULL, turn_in_own_stream, (void *)i) != 0)
			fail("no thread");
	traps_pause();
	atomic_store(g.word, g.round * (RING + 1));
	for (int i = 0; i < RING; i++)
		pthread_join(thread[i], NULL);
}

/* ---- a kernel waits for the handler of an alarm that rings again and again ----------------------
 */

static void on_alarm(int number)
{
	(void)number;
	traps_launch(0, 1, g.device[0].spend, 100000);
	atomic_fetch_add(g.word, 1);
}

static void ring_every(suseconds_t us)
{
	struct itimerval when = {{0, us}, {0, us}};

	setitimer(ITIMER_REAL, &when, NULL);
}

void trap_alarm(void)
{
	struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
	uint32_t seen = atomic_load(g.word);

	sigaction(SIGALRM, &action, NULL);
	traps_launch(0, 0, g.device[0].wait, seen + TICKS);
	ring_every((suseconds_t)(2000 * g.slow));
	ok(g.cuStreamSynchronize(g.device[0].stream[0]));
	ring_every(0);
}

/* ---- a kernel waits for bytes that go through a process without the driver ----------------------
 */

static int to_other, from_other;

static void start_other(void)
{
	char *arguments[] = {(char *)"cat", NULL};
	posix_spawn_file_actions_t actions;
	extern char **environ;
	int there[2], back[2];
	pid_t pid;

	if (pipe2(there, O_CLOEXEC) != 0 || pipe2(back, O_CLOEXEC) != 0)
		fail("no pipe");
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, there[0], STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&actions, back[1], STDOUT_FILENO);
	if (posix_spawn(&pid, "/bin/cat", &actions, NULL, arguments, environ) != 0)
		fail("no other process");
	posix_spawn_file_actions_destroy(&actions);
	close(there[0]);
	close(back[1]);
	to_other = there[1];
	from_other = back[0];
}

static void *consume(void *nothing)
{
	uint32_t got;

	(void)nothing;
	traps_use_device();
	if (read(from_other, &got, sizeof(got)) != sizeof(got))
		fail("nothing came back");
	traps_launch(0, 1, g.device[0].spend, 100000);
	ok(g.cuStreamSynchronize(g.device[0].stream[1]));
	atomic_store(g.word, got);
	return NULL;
}

void trap_pipes(void)
{
	uint32_t sent = g.round;
	pthread_t thread;

	if (!to_other)
		start_other();
	traps_thread(consume, &thread);
	traps_launch(0, 0, g.device[0].wait, g.round);
	traps_pause();
	if (write(to_other, &sent, sizeof(sent)) != sizeof(sent))
		fail("nothing was sent");
	ok(g.cuCtxSynchronize());
	pthread_join(thread, NULL);
}

/* ---- streams of two processes of a tenant wait for each other's values --------------------------
 */

/* Writes an even number once the one before is there. */
static void answer(uint32_t number)
{
	CUstream stream = g.device[0].stream[0];

	ok(g.cuStreamWaitValue32_v2(stream, g.address, number - 1, CU_STREAM_WAIT_VALUE_GEQ));
	traps_launch(0, 0, g.device[0].spend, 100000);
	ok(g.cuStreamWriteValue32_v2(stream, g.address, number, 0));
	ok(g.cuStreamSynchronize(stream));
}

void trap_mate(void)
{
	const char *word = getenv("METE_TRAP_WORD");

	if (!word)
		fail("METE_TRAP_WORD is not set");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	traps_map_page(atoi(word));
	for (uint32_t number = 2;; number += 2)
		answer(number);
}

void trap_mates(void)
{
	CUstream stream = g.device[0].stream[0];
	static bool begun;
	int fd;

	if (!begun) {
		fd = memfd_create("turns_traps", 0);
		if (fd < 0 || ftruncate(fd, 4096) != 0)
			fail("no shared memory");
		traps_map_page(fd);
		traps_start_other("mate", fd);
		begun = true;
	}
	traps_launch(0, 0, g.device[0].spend, 100000);
	ok(g.cuStreamWriteValue32_v2(stream, g.address, 2 * g.round - 1, 0));
	ok(g.cuStreamWaitValue32_v2(stream, g.address, 2 * g.round, CU_STREAM_WAIT_VALUE_GEQ));
	ok(g.cuStreamSynchronize(stream));
}

/* ---- a server that never calls the driver, whose child has the context --------------------------
 */

static int served[2];

static void serve_requests(int fd)
{
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	traps_start(1);
	while (read(fd, &byte, 1) == 1) {
		for (int i = 0; i < RING; i++)
			traps_launch(0, i % STREAMS, g.device[0].spend, 500000);
		ok(g.cuCtxSynchronize());
		if (write(fd, &byte, 1) != 1)
			break;
	}
	_exit(0);
}

void trap_server(void)
{
	char byte = 0;
	pid_t child;

	if (!served[0]) {
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, served) != 0 ||
		    (child = fork()) < 0)
			fail("no child");
		if (child == 0)
			serve_requests(served[1]);
		close(served[1]);
	}
	if (write(served[0], &byte, 1) != 1 || read(served[0], &byte, 1) != 1)
		fail("the child does not serve");
}

/* A child for each round, which begins with the driver and ends. */
void trap_children(void)
{
	int status;
	pid_t child = fork();

	if (child < 0)
		fail("no child");
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		traps_start(1);
		for (int i = 0; i < RING; i++)
			traps_launch(0, 0, g.device[0].spend, 1000000);
		ok(g.cuCtxSynchronize());
		_exit(0);
	}
	if (waitpid(child, &status, 0) != child || status != 0)
		fail("a child failed: %d", status);
}
