/* SPDX-License-Identifier: Apache-2.0 */
/* Children by every call that makes one, and programs that begin where others were: what of a
 * process is shared, copied, wiped or taken over then. */
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/hostile/attack.h"

enum { ROUNDS = 4, WHILE_US = 1000000, NOBODY = 65534, STACK = 64 << 10 };

extern char **environ;

/* It runs on its parent's stack and memory, and the parent stands still. */
static void take_by_vfork(void)
{
	if (vfork() == 0) {
		take_everything(); /* NOLINT(clang-analyzer-unix.Vfork): as it must not be done */
		_exit(0);
	}
}

void attack_vfork_takes(void)
{
	for (int i = 0; i < ROUNDS; i++)
		take_by_vfork();
	take_everything();
}

void attack_clone3_takes(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		struct clone_args how = {.flags = CLONE_FILES | CLONE_FS | (1ull << 32),
					 .exit_signal = SIGCHLD}; /* CLONE_CLEAR_SIGHAND */

		if (syscall(SYS_clone3, &how, sizeof(how)) == 0) {
			start_and_take();
			wait_for_the_end();
			_exit(0);
		}
	}
	usleep(WHILE_US);
	take_everything();
}

void attack_spawned(void)
{
	static char name[] = "attack", what[] = "take-linear";
	char *arguments[] = {name, what, NULL};

	take_everything();
	for (int i = 0; i < ROUNDS; i++)
		posix_spawn(&(pid_t){0}, "/proc/self/exe", NULL, NULL, arguments, environ);
	usleep(WHILE_US);
	take_everything();
}

/* The 32-bit gate of the kernel: no library sees these calls. */
static long old_gate(long number, long argument)
{
	long result = -1;

#ifdef __x86_64__
	__asm__ volatile("int $0x80"
			 : "=a"(result)
			 : "a"(number), "b"(argument)
			 : "memory", "r8", "r9", "r10", "r11");
#endif
	return result;
}

void attack_old_gate(void)
{
	enum { FORK = 2, CLOSE = 6, DUP = 41 };

	take_everything();
	for (int fd = 3; fd < 64; fd++) {
		old_gate(DUP, fd);
		old_gate(CLOSE, fd);
	}
	for (int i = 0; i < ROUNDS; i++)
		if (old_gate(FORK, 0) == 0) {
			start_and_take();
			wait_for_the_end();
			_exit(0);
		}
	usleep(WHILE_US);
	take_everything();
}

/* ---- a program in the place of another ------------------------------------------------------- */

/* This program again and again, which takes memory each time, and does `before` what follows. */
static void exec_again(const char *name, int usual, void (*before)(void))
{
	const char *left = getenv("HOSTILE_LEFT");
	int rounds = left ? (int)strtol(left, NULL, 10) : usual;
	char text[16];

	start_and_take();
	if (rounds == 0)
		return;
	if (before)
		before();
	snprintf(text, sizeof(text), "%d", rounds - 1);
	setenv("HOSTILE_LEFT", text, 1);
	become(name);
}

/* Each of its programs has its code and its stack where the former one had them. */
void attack_execs_alike(void)
{
	personality(ADDR_NO_RANDOMIZE);
	exec_again("execs_alike", 2 * ROUNDS, NULL);
}

static int stay(void *nothing)
{
	(void)nothing;
	wait_for_the_end();
	_exit(0);
}

/* The former program's memory stays in use: somebody else lives in it. */
static void leave_memory(void)
{
	char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (stack != MAP_FAILED)
		best_effort(clone(stay, stack + STACK, CLONE_VM | SIGCHLD, NULL));
}

void attack_execs_behind(void)
{
	exec_again("execs_behind", ROUNDS, leave_memory);
}

/* Much is mapped, so that the end of this memory takes long. */
static void map_much(void)
{
	int fd = memfd_create("much", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, 128 * MIB) != 0)
		return;
	for (int i = 0; i < 8; i++)
		best_effort(mmap(NULL, 128 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
				 fd, 0) == MAP_FAILED);
}

void attack_execs_of_much(void)
{
	exec_again("execs_of_much", ROUNDS, map_much);
}

/* They say hello and end at once, while they are being looked at. */
void attack_ends_of_much(void)
{
	for (int i = 0; i < 2 * ROUNDS; i++)
		if (fork() == 0) {
			map_much();
			start();
			usleep(300u * (unsigned)i);
			_exit(0);
		}
	while (wait(NULL) > 0)
		;
	start_and_take();
}

/* The lock of its memory is taken again and again, for as long as it can be, while it calls and
 * hangs up by children that become other programs. */
static void *hold_memory(void *over)
{
	while (!__atomic_load_n((bool *)over, __ATOMIC_RELAXED)) {
		char *memory = mmap(NULL, 64 * MIB, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

		if (memory == MAP_FAILED)
			continue;
		mprotect(memory, 64 * MIB, PROT_READ);
		best_effort(mmap(memory, 64 * MIB, PROT_NONE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED);
		munmap(memory, 64 * MIB);
	}
	return NULL;
}

void attack_memory_held(void)
{
	pthread_t thread;
	bool over = false;

	if (pthread_create(&thread, NULL, hold_memory, &over) != 0)
		return;
	for (int i = 0; i < ROUNDS; i++)
		if (fork() == 0)
			become("take-linear");
	usleep(WHILE_US);
	take_everything();
	__atomic_store_n(&over, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
}

/* ---- whose rights are others ----------------------------------------------------------------- */

/* A set-user-ID copy of this program, which nobody executes. */
void attack_setuid_program(void)
{
	const char *folder = getenv("METE_SIM_DIR");
	char path[4096], command[8400];

	snprintf(path, sizeof(path), "%s/../setuid", folder ? folder : "/nonexistent");
	snprintf(command, sizeof(command), "cp /proc/%d/exe %s && chmod 4755 %s", (int)getpid(),
		 path, path);
	if (system(command) != 0 || setgid(NOBODY) != 0 || setuid(NOBODY) != 0)
		return;
	execl(path, "attack", "take-linear", (char *)NULL);
}

/* A namespace of users and one of numbers, within another. */
static void go_deeper(int levels)
{
	if (levels == 0 || unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) {
		start_and_take();
		return;
	}
	if (fork() == 0) {
		go_deeper(levels - 1);
		wait_for_the_end();
		_exit(0);
	}
	usleep(WHILE_US / 2);
}

void attack_users_nested(void)
{
	for (int i = 0; i < 2; i++)
		if (fork() == 0) {
			go_deeper(4);
			wait_for_the_end();
			_exit(0);
		}
	usleep(2 * WHILE_US);
	start_and_take();
}

/* Nobody may look at it, from before its first call. */
void attack_undumpable(void)
{
	prctl(PR_SET_DUMPABLE, 0);
	start_and_take();
	for (int i = 0; i < ROUNDS; i++)
		if (fork() == 0)
			become("take-linear");
	usleep(WHILE_US);
	take_everything();
}
