/* SPDX-License-Identifier: Apache-2.0 */
/* What surrounds the guest in its process: stacks, signals, threads, descriptors. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/hostile/attack.h"

enum {
	WHILE_MS = 1000,
	THREADS = 8,
	ALTERNATE = 8 << 10,
	MANY_THREADS = 1500,
};

/* ---- stacks and signals ---------------------------------------------------------------------- */

static void *take_on_little(void *nothing)
{
	enter();
	take_and_free();
	take_everything();
	return nothing;
}

/* Threads with the least stack that there is. */
void attack_threads_tiny(void)
{
	pthread_t thread[THREADS];
	pthread_attr_t how;
	int made = 0;

	pthread_attr_init(&how);
	pthread_attr_setstacksize(&how, (size_t)sysconf(_SC_THREAD_STACK_MIN));
	while (made < THREADS && pthread_create(&thread[made], &how, take_on_little, NULL) == 0)
		made++;
	while (made > 0)
		pthread_join(thread[--made], NULL);
	pthread_attr_destroy(&how);
}

static void take_in_handler(int signal)
{
	CUdeviceptr address;

	(void)signal;
	if (g.cuMemAlloc_v2(&address, 5 * MIB) == CUDA_SUCCESS)
		g.cuMemFree_v2(address);
}

/* A handler with a stack of 8 KiB that calls the driver. */
void attack_stack_small(void)
{
	static char room[ALTERNATE];
	stack_t stack = {.ss_sp = room, .ss_size = sizeof(room)};
	struct sigaction action = {.sa_handler = take_in_handler, .sa_flags = SA_ONSTACK};

	sigaltstack(&stack, NULL);
	sigaction(SIGUSR1, &action, NULL);
	for (int i = 0; i < 200; i++)
		raise(SIGUSR1);
	take_everything();
}

static void nothing_at_all(int signal)
{
	(void)signal;
}

/* A profiler's signal a thousand times a second, none of whose calls are begun again. */
void attack_profiled(void)
{
	struct sigaction action = {.sa_handler = nothing_at_all};
	struct itimerval each = {{0, 1000}, {0, 1000}};

	sigaction(SIGPROF, &action, NULL);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_PROF, &each, NULL);
	setitimer(ITIMER_REAL, &each, NULL);
	in_threads(THREADS, take_and_free);
	take_everything();
	memset(&each, 0, sizeof(each));
	setitimer(ITIMER_REAL, &each, NULL);
	setitimer(ITIMER_PROF, &each, NULL);
}

static void *sleep_for_ever(void *nothing)
{
	pause();
	return nothing;
}

/* So many threads that looking at each would take long. */
void attack_threads_many(void)
{
	pthread_attr_t how;
	pthread_t thread;

	pthread_attr_init(&how);
	pthread_attr_setstacksize(&how, (size_t)sysconf(_SC_THREAD_STACK_MIN));
	for (int i = 0; i < MANY_THREADS; i++)
		if (pthread_create(&thread, &how, sleep_for_ever, NULL) != 0)
			break;
	in_threads(4, take_and_free);
	take_everything();
}

/* ---- the library's own threads --------------------------------------------------------------- */

static bool stop(pid_t thread)
{
	return ptrace(PTRACE_SEIZE, thread, NULL, NULL) == 0 &&
	       ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) == 0 &&
	       waitpid(thread, NULL, __WALL) == thread;
}

static void noreturn_ end_thread(void)
{
	syscall(SYS_exit, 0);
	__builtin_unreachable();
}

/* It goes on where a thread ends. */
static void lead_to_its_end(pid_t thread)
{
#ifdef __x86_64__
	struct user_regs_struct registers;

	if (!stop(thread) || ptrace(PTRACE_GETREGS, thread, NULL, &registers) != 0)
		return;
	registers.rip = (uintptr_t)end_thread;
	registers.orig_rax = (unsigned long)-1; /* no call is begun again */
	registers.rsp &= ~15ull;
	ptrace(PTRACE_SETREGS, thread, NULL, &registers);
	ptrace(PTRACE_DETACH, thread, NULL, NULL);
#else
	(void)thread;
#endif
}

/* As a debugger that steps. */
static void step(pid_t thread)
{
	if (!stop(thread))
		return;
	for (int i = 0; i < 300; i++)
		if (ptrace(PTRACE_SINGLESTEP, thread, NULL, NULL) != 0 ||
		    waitpid(thread, NULL, __WALL) != thread)
			break;
	ptrace(PTRACE_DETACH, thread, NULL, NULL);
}

/* A child does that to its parent's. */
static void by_a_child(void (*work)(pid_t thread))
{
	pid_t maker = getpid(), pid;

	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	pid = fork();
	if (pid == 0) {
		alarm(2); /* a thread that sleeps in a call steps when that is over */
		attack_each_thread(maker, work);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

void attack_agents_ended(void)
{
	take_everything();
	by_a_child(lead_to_its_end);
	in_threads(4, take_and_free);
	take_everything();
}

void attack_both_agents_ended(void)
{
	CUdeviceptr address;

	g.cuMemAlloc_v2(&address, 200 * MIB);
	usleep(100000);
	by_a_child(lead_to_its_end);
	usleep(WHILE_MS * 1000);
	in_threads(3, take_and_free);
	take_everything();
}

void attack_both_stepped(void)
{
	CUdeviceptr address;

	g.cuMemAlloc_v2(&address, 200 * MIB);
	for (int i = 0; i < 3; i++) {
		by_a_child(step);
		take_and_free();
	}
	take_everything();
}

static void yield_always(pid_t thread)
{
	sched_setscheduler(thread, SCHED_IDLE, &(struct sched_param){0});
}

/* They get the processor when nobody else wants it. */
void attack_both_idle(void)
{
	CUdeviceptr address;

	g.cuMemAlloc_v2(&address, 200 * MIB);
	yield_always(getpid());
	attack_each_thread(getpid(), yield_always);
	in_threads(3, take_and_free);
	take_everything();
}

/* ---- descriptors ----------------------------------------------------------------------------- */

static void take_apart(void)
{
	if (unshare(CLONE_FILES) == 0)
		for (int fd = 3; fd < 256; fd++)
			close(fd);
	take_and_free();
}

/* Threads whose descriptors are their own, and closed. */
void attack_files_unshared(void)
{
	in_threads(THREADS, take_apart);
	take_everything();
}

/* Reads what is meant for the guest, and writes noise in its name. */
static void noreturn_ meddle(int from)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {0};
	char byte, noise[64] = "noise";
	struct iovec part = {&byte, 1};
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control)};
	uint64_t t = 0;
	int fd = -1;

	if (recvmsg(from, &message, 0) == 1)
		memcpy(&fd, CMSG_DATA(&control.header), sizeof(fd));
	while (until(&t, WHILE_MS)) {
		best_effort(recv(fd, noise, sizeof(noise), MSG_DONTWAIT));
		usleep(1000);
	}
	best_effort(send(fd, noise, sizeof(noise), MSG_NOSIGNAL));
	wait_for_the_end();
	_exit(0);
}

/* Its connection is another process's as well. */
void attack_connection_passed(void)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
		return;
	if (fork() == 0)
		meddle(ends[1]);
	for (int fd = 3; fd < 64; fd++)
		if (fd != ends[0] && attack_is_connection(fd))
			attack_send_fd(ends[0], fd);
	in_threads(4, take_and_free);
	take_everything();
}
