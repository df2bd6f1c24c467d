/* SPDX-License-Identifier: Apache-2.0 */
/* Acts of a process on itself or on its own that the kernel allows: a thread that ends or stands
 * still in the middle of a call, a clock and numbers of its own, system calls that are refused. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/hostile/attack.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

enum { WHILE_MS = 1000, THREADS = 6 };

/* The kernel ends the thread; nothing of the C library's or the guest's runs. */
static void end_thread(int signal)
{
	(void)signal;
	syscall(SYS_exit, 0);
}

static void *take_until_ended(void *nothing)
{
	enter();
	for (;;)
		take_and_free();
	return nothing;
}

/* A thread that ends within a call may end with the guest's lock: others of the process then hang,
 * and that is its own affair. So a child does it. */
static void end_threads(void)
{
	struct sigaction action = {.sa_handler = end_thread};
	pthread_t thread[THREADS];

	sigaction(SIGUSR1, &action, NULL);
	start();
	for (int i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, take_until_ended, NULL);
	for (int i = 0; i < THREADS; i++) {
		usleep(30000);
		pthread_kill(thread[i], SIGUSR1);
	}
	take_everything();
}

void attack_threads_end(void)
{
	for (int i = 0; i < 4; i++)
		if (fork() == 0) {
			end_threads();
			wait_for_the_end();
			_exit(0);
		}
	usleep(WHILE_MS * 1000);
	take_everything();
}

/* Cancelled wherever it is, as pthread_cancel() does to a thread that allows it. */
static void *take_until_cancelled(void *nothing)
{
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	return take_until_ended(nothing);
}

static void cancel_threads(void)
{
	uint64_t t = 0;

	start();
	while (until(&t, WHILE_MS)) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, take_until_cancelled, NULL) != 0)
			break;
		usleep(7000);
		pthread_cancel(thread);
	}
	take_everything();
}

void attack_threads_cancelled(void)
{
	if (fork() == 0) {
		cancel_threads();
		wait_for_the_end();
		_exit(0);
	}
	usleep(WHILE_MS * 1000);
	take_everything();
}

static void nothing_at_all(int signal)
{
	(void)signal;
}

static pthread_t interrupted;

static void *interrupt(void *over)
{
	while (!__atomic_load_n((bool *)over, __ATOMIC_RELAXED)) {
		pthread_kill(interrupted, SIGUSR2);
		/* To any thread, the library's own as well. */
		kill(getpid(), SIGUSR2);
		usleep(50);
	}
	return NULL;
}

/* Every wait of it ends early, again and again. */
void attack_interrupted(void)
{
	struct sigaction action = {.sa_handler = nothing_at_all};
	pthread_t thread;
	bool over = false;

	sigaction(SIGUSR2, &action, NULL);
	interrupted = pthread_self();
	if (pthread_create(&thread, NULL, interrupt, &over) != 0)
		return;
	for (int i = 0; i < 3; i++)
		take_and_free();
	take_everything();
	__atomic_store_n(&over, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
}

/* ---- system calls that are refused ----------------------------------------------------------- */

static void refuse_calls(int error)
{
	static const int refused[] = {
		SYS_epoll_wait, SYS_epoll_ctl,	    SYS_ppoll,	  SYS_poll,
		SYS_recvmsg,	SYS_memfd_create,   SYS_eventfd2, SYS_clock_nanosleep,
		SYS_pidfd_open, SYS_timerfd_create, SYS_socket,	  449 /* futex_waitv */};
	struct sock_filter filter[2 * ARRAY_SIZE(refused) + 2] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
	struct sock_fprog program = {.filter = filter};
	unsigned short n = 1;

	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
							   (unsigned)refused[i], 0, 1);
		filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
							   SECCOMP_RET_ERRNO | (unsigned)error);
	}
	filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	program.len = n;
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
}

void attack_calls_refused(void)
{
	CUdeviceptr address;

	g.cuMemAlloc_v2(&address, 64 * MIB);
	refuse_calls(ENOSYS);
	alarm(3);
	in_threads(4, take_and_free);
	take_everything();
	alarm(0);
}

void attack_calls_refused_early(void)
{
	refuse_calls(EPERM);
	alarm(3);
	start_and_take();
	alarm(0);
}

/* ---- limits of its own ----------------------------------------------------------------------- */

static void limit(int which, rlim_t most)
{
	setrlimit((__rlimit_resource_t)which, &(struct rlimit){most, most});
}

/* No file may grow, nothing be locked, no thread have a stack, no process be made. */
void attack_limits_low(void)
{
	signal(SIGXFSZ, SIG_IGN);
	limit(RLIMIT_FSIZE, 0);
	limit(RLIMIT_MEMLOCK, 0);
	limit(RLIMIT_STACK, 64 << 10);
	limit(RLIMIT_NPROC, 0);
	limit(RLIMIT_SIGPENDING, 0);
	limit(RLIMIT_MSGQUEUE, 0);
	start();
	in_threads(4, take_and_free);
	take_everything();
}

/* ---- numbers, names and clocks --------------------------------------------------------------- */

static void take_in_children(void)
{
	for (int i = 0; i < 3; i++)
		if (fork() == 0) {
			start_and_take();
			wait_for_the_end();
			_exit(0);
		}
	start_and_take();
}

/* In a child that has this of its own; where the kernel refuses, without. */
static void apart(int what)
{
	if (unshare(what) != 0)
		best_effort(unshare(CLONE_NEWUSER | what));
	if (fork() == 0) {
		take_in_children();
		wait_for_the_end();
		_exit(0);
	}
	usleep(WHILE_MS * 1000);
	start_and_take();
}

/* The numbers that it states, and its children's, are those of other processes outside. */
void attack_own_numbers(void)
{
	apart(CLONE_NEWPID);
}

void attack_own_network(void)
{
	apart(CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS);
}

/* Its clock is eleven days ahead of meted's. */
void attack_own_clock(void)
{
	static const char ahead[] = "monotonic 1000000 0\nboottime 1000000 0\n";

	if (unshare(CLONE_NEWTIME) == 0) {
		owned(close) int fd = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);

		best_effort(write(fd, ahead, sizeof(ahead) - 1));
	}
	apart(0);
}

/* Its name looks like the end of its line in /proc, stopped and begun at the machine's start. */
void attack_own_name(void)
{
	prctl(PR_SET_NAME, "x) T 1 1 (\n");
	prctl(PR_SET_DUMPABLE, 0);
	take_everything();
	for (int i = 0; i < 4; i++)
		child(start_and_take);
}

/* ---- one that stands still ------------------------------------------------------------------- */

static void hold(pid_t thread)
{
	if (ptrace(PTRACE_SEIZE, thread, NULL, NULL) == 0)
		ptrace(PTRACE_INTERRUPT, thread, NULL, NULL);
}

/* Only the library's own thread stands still, held by a child, while all others go on. */
void attack_both_thread_stopped(void)
{
	pid_t maker = getpid();
	CUdeviceptr address;

	g.cuMemAlloc_v2(&address, 200 * MIB);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		attack_each_thread(maker, hold);
		usleep(2 * WHILE_MS * 1000);
		_exit(0); /* they go on */
	}
	usleep(100000);
	in_threads(3, take_and_free);
	usleep(2 * WHILE_MS * 1000);
	take_everything();
}

/* It is stopped and goes on, hundreds of times a second, while its memory leaves and comes back. */
void attack_both_stop_storm(void)
{
	pid_t maker = getpid(), storm;
	CUdeviceptr address;

	g.cuMemAlloc_v2(&address, 200 * MIB);
	CALL(cuMemsetD8_v2)(address, 5, 200 * MIB);
	storm = fork();
	if (storm == 0) {
		for (int i = 0; i < 400; i++) {
			kill(maker, SIGSTOP);
			usleep(1500);
			kill(maker, SIGCONT);
			usleep(1000);
		}
		_exit(0);
	}
	in_threads(3, take_and_free);
	CALL(cuMemsetD8_v2)(address, 6, 200 * MIB);
	waitpid(storm, NULL, 0);
	take_everything();
}

/* ---- the library's own coming and going ------------------------------------------------------ */

static void reopen(void)
{
	uint64_t t = 0;

	while (until(&t, WHILE_MS)) {
		void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
		api_fn_cuMemAlloc_v2 *allocate =
			library ? (api_fn_cuMemAlloc_v2 *)dlsym(library, "cuMemAlloc_v2") : NULL;
		CUdeviceptr address;

		if (allocate && allocate(&address, 3 * MIB) == CUDA_SUCCESS)
			g.cuMemFree_v2(address);
		if (library)
			dlclose(library);
		if (library)
			dlclose(library); /* once too often: of the thread that opened it at first
					   */
	}
}

void attack_both_reopened(void)
{
	in_threads(8, reopen);
	take_everything();
}
