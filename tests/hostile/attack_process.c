/* SPDX-License-Identifier: Apache-2.0 */
/* Acts of a process on itself: signals, clones, forks, limits, an end at any moment. */
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/hostile/attack.h"

static void on_timer(int signal)
{
	CUdeviceptr address;

	(void)signal;
	if (g.cuMemAlloc_v2(&address, 2 * MIB) == CUDA_SUCCESS)
		g.cuMemFree_v2(address);
}

/* A handler that is inside the driver's lock hangs, as it would on any driver: that is the
 * attacker's own affair, and the alarm's default action ends it. */
void attack_signals_take(void)
{
	struct sigaction action = {.sa_handler = on_timer, .sa_flags = SA_NODEFER | SA_RESTART};
	struct itimerval often = {{0, 3000}, {0, 3000}}, never = {{0, 0}, {0, 0}};

	alarm(5);
	sigaction(SIGVTALRM, &action, NULL);
	setitimer(ITIMER_VIRTUAL, &often, NULL);
	take_and_free();
	setitimer(ITIMER_VIRTUAL, &never, NULL);
	alarm(0);
	take_everything();
}

static void stay(void)
{
	wait_for_the_end();
	_exit(0);
}

void attack_raw_clone(void)
{
	CUdeviceptr address;

	g.cuMemAlloc_v2(&address, 100 * MIB);
	/* No atfork handler runs. */
	if (syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) == 0) {
		g.cuMemAlloc_v2(&address, 100 * MIB);
		start();
		take_everything();
		stay();
	}
	usleep(100000);
	take_everything();
}

/* A process of its own in the same memory: to meted, and to the driver, it is its maker. */
static int in_same_memory(int (*work)(void *))
{
	enum { STACK_BYTES = 1 << 20 };
	static pid_t me;
	char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);

	me = getpid();
	return stack == MAP_FAILED ? -1 : clone(work, stack + STACK_BYTES, CLONE_VM | SIGCHLD, &me);
}

static int take_and_stay(void *nothing)
{
	(void)nothing;
	take_everything();
	stay();
	return 0;
}

void attack_clone_vm(void)
{
	CUdeviceptr address;

	g.cuMemAlloc_v2(&address, 100 * MIB);
	in_same_memory(take_and_stay);
	take_everything();
	usleep(100000);
	take_everything();
}

/* Credit that its maker had not used is in this memory still; a sibling may have it. */
static int take_as_orphan(void *maker)
{
	while (getppid() == *(pid_t *)maker)
		usleep(1000);
	if (vfork() == 0) {
		execl("/proc/self/exe", "attack", "take-linear", (char *)NULL);
		_exit(127);
	}
	usleep(500000);
	take_everything();
	best_effort(write(STDOUT_FILENO, "holds\n", 6));
	stay();
	return 0;
}

void attack_clone_orphan(void)
{
	CUdeviceptr address;

	if (g.cuMemAlloc_v2(&address, 300 * MIB) == CUDA_SUCCESS)
		g.cuMemFree_v2(address);
	if (in_same_memory(take_as_orphan) > 0)
		_exit(0);
}

void attack_fork_takes(void)
{
	for (int i = 0; i < 3; i++)
		child(start_and_take);
	take_everything();
}

static void exec_taker(void)
{
	become("take-linear");
}

static void spawn(unsigned count, void (*work)(void))
{
	while (count-- > 0)
		if (fork() == 0) {
			work();
			_exit(0);
		}
}

void attack_fork_exec(void)
{
	spawn(8, exec_taker);
	take_everything();
	usleep(500000);
	take_everything();
}

void attack_vfork_exec(void)
{
	CUdeviceptr address;
	pid_t pid;

	g.cuMemAlloc_v2(&address, 100 * MIB);
	pid = vfork();
	if (pid == 0) {
		execl("/proc/self/exe", "attack", "take-linear", (char *)NULL);
		_exit(127);
	}
	usleep(300000);
	take_everything();
}

static void daemonise(void)
{
	setsid();
	spawn(1, exec_taker);
	_exit(0);
}

void attack_fork_twice(void)
{
	spawn(2, daemonise);
	while (wait(NULL) > 0)
		;
	usleep(300000);
}

static void join_and_end(void)
{
	alarm(5);
	start();
	_exit(0);
}

void attack_fork_storm(void)
{
	uint64_t t = 0;

	while (until(&t, 1000)) {
		spawn(4, join_and_end);
		for (int i = 0; i < 4; i++)
			wait(NULL);
	}
	take_everything();
}

void attack_stopped(void)
{
	CUdeviceptr address;

	if (g.cuMemAlloc_v2(&address, 300 * MIB) == CUDA_SUCCESS)
		g.cuMemFree_v2(address);
	puts("holds");
	fflush(stdout);
	raise(SIGSTOP);
}

static void take_and_die(void)
{
	alarm(10);
	if (fork() == 0) {
		usleep(150000 + (useconds_t)(rand() % 100000));
		kill(getppid(), SIGKILL);
		_exit(0);
	}
	start();
	for (;;)
		take_and_free();
}

void attack_killed(void)
{
	for (int i = 0; i < 8; i++) {
		srand((unsigned)i);
		spawn(1, take_and_die);
	}
	while (wait(NULL) > 0)
		;
	take_everything();
}

void attack_few_files(void)
{
	struct rlimit few = {8, 8};

	setrlimit(RLIMIT_NOFILE, &few);
	start_and_take();
}

void attack_little_space(void)
{
	struct rlimit space;
	char line[128] = "";
	FILE *size = fopen("/proc/self/statm", "re");

	if (size && fgets(line, sizeof(line), size)) {
		space.rlim_cur = space.rlim_max = strtoul(line, NULL, 10) * 4096 + 300 * MIB;
		setrlimit(RLIMIT_AS, &space);
	}
	if (size)
		fclose(size);
	take_everything();
}

/* The connection is the parent's; the process that holds it now is not. */
void attack_parent_dies(void)
{
	take_everything();
	if (fork() == 0)
		stay();
	if (fork() == 0)
		stay();
	puts("holds");
	fflush(stdout);
	_exit(0);
}

void attack_execs(void)
{
	const char *count = getenv("HOSTILE_EXECS");
	int times = count ? atoi(count) : 0;
	char next[16];

	take_everything();
	if (times >= 8)
		return;
	snprintf(next, sizeof(next), "%d", times + 1);
	setenv("HOSTILE_EXECS", next, 1);
	become("execs");
}
