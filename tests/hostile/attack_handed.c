/* SPDX-License-Identifier: Apache-2.0 */
/* What gets from process to process, or into one, past meted: descriptors that are fetched or
 * handed to another tenant, memory that the kernel writes in its place, numbers that come again. */
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/hostile/attack.h"

enum { WHILE_MS = 1000, FILES = 64, PAGE = 4096, WORD = 8, WORDS = 64, CHILDREN = 6, LIVES = 20 };

/* ---- its memory, written by the kernel ------------------------------------------------------- */

static int memory = -1;

static void draw_noise(uint64_t noise[static WORDS])
{
	for (int i = 0; i < WORDS; i++)
		noise[i] = ((uint64_t)(unsigned)rand() << 32) ^ (unsigned)rand();
}

/* A word here and there, whatever may be done with the mapping. */
static void write_words(char *from, size_t bytes)
{
	uint64_t noise[WORDS];

	draw_noise(noise);
	for (int i = 0; i < WORDS; i++)
		best_effort(pwrite(memory, &noise[i], WORD,
				   (off_t)(from + noise[i] / 3 % bytes / WORD * WORD)));
}

static void spoil_and_take(void)
{
	CUdeviceptr address;

	start();
	g.cuMemAlloc_v2(&address, 20 * MIB);
	memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	alarm(3); /* what is spoilt may wait for ever */
	attack_each_mapping("/libmete", write_words);
	take_everything();
}

/* Its tables, its locks, its code: each child spoils others, and most die of it. */
void attack_memory_written(void)
{
	const char *seed = getenv("METE_SEED");

	srand(seed ? (unsigned)strtoul(seed, NULL, 10) : 1);
	for (int i = 0; i < CHILDREN; i++) {
		best_effort(rand());
		child(spoil_and_take);
	}
	start_and_take();
}

/* The same, where its memory leaves and comes back. */
void attack_both_memory_written(void)
{
	attack_memory_written();
}

/* A page that it may only read is that to the kernel as well. */
static void raise_limits(char *from, size_t bytes)
{
	uint64_t all[PAGE / WORD];
	struct iovec ours = {all, sizeof(all)}, theirs = {from, bytes};

	memset(all, 0x3f, sizeof(all));
	if (pwrite(memory, all, sizeof(all), (off_t)from) > 0)
		puts("its tenant's page was shown to be written by /proc");
	if (process_vm_writev(getpid(), &ours, 1, &theirs, 1, 0) > 0)
		puts("its tenant's page was shown to be written by process_vm_writev()");
}

void attack_tenant_written(void)
{
	memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	attack_each_mapping("mete-tenant", raise_limits);
	take_everything();
}

/* ---- descriptors that are fetched ------------------------------------------------------------ */

static int fetch(pid_t pid, int number)
{
	owned(close) int process = (int)syscall(SYS_pidfd_open, pid, 0);

	return process < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, process, number, 0);
}

/* Reads what another process is told, and speaks in its name. */
static void fetch_from(pid_t pid)
{
	char room[PAGE];
	uint64_t t = 0;
	int files[FILES];

	for (int n = 3; n < FILES; n++) {
		int fd = fetch(pid, n);

		files[n] = attack_is_shared(fd) ? fd : -1; /* the driver's own files are not */
	}
	while (until(&t, WHILE_MS)) {
		for (int n = 3; n < FILES; n++) {
			best_effort(recv(files[n], room, sizeof(room), MSG_DONTWAIT));
			best_effort(pwrite(files[n], room, sizeof(room), 0));
		}
		usleep(1000);
	}
	for (int n = 3; n < FILES; n++)
		best_effort(send(files[n], room, WORDS, MSG_NOSIGNAL | MSG_DONTWAIT));
}

/* A child fetches its connection and its pages, and joins beside it. */
void attack_descriptors_fetched(void)
{
	pid_t maker = getpid();

	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	if (fork() == 0) {
		fetch_from(maker);
		start_and_take();
		wait_for_the_end();
		_exit(0);
	}
	in_threads(4, take_and_free);
	take_everything();
}

static pid_t meted(void)
{
	struct ucred peer = {0};
	socklen_t size = sizeof(peer);

	for (int fd = 3; fd < FILES; fd++)
		if (attack_is_connection(fd) &&
		    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
		    peer.pid != getpid())
			return peer.pid;
	return 0;
}

/* Nothing of meted's is another user's. */
void attack_meted_fetched(void)
{
	pid_t pid = meted();
	char path[64];

	for (int n = 0; pid && n < 4 * FILES; n++)
		if (fetch(pid, n) >= 0)
			printf("descriptor %d of meted was shown\n", n);
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	if (pid && open(path, O_RDWR | O_CLOEXEC) >= 0)
		puts("meted's memory was shown");
	take_everything();
}

/* ---- descriptors that are handed over -------------------------------------------------------- */

/* The one socket of all who are in its `mete run`'s session. */
static socklen_t meeting(struct sockaddr_un *ret_address)
{
	*ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			   (size_t)snprintf(ret_address->sun_path + 1,
					    sizeof(ret_address->sun_path) - 1, "hostile-%d",
					    (int)getsid(0)));
}

static void hand_over(int listening)
{
	uint64_t t = 0;

	start_and_take();
	while (until(&t, 2 * WHILE_MS)) {
		int other = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		for (int fd = 3; fd < FILES && other >= 0; fd++)
			if (fd != listening && fd != other && attack_is_shared(fd))
				attack_send_fd(other, fd);
		usleep(2000);
	}
}

static int receive_fd(int from)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct iovec part = {&(char){0}, 1};
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control)};
	int fd = -1;

	if (recvmsg(from, &message, MSG_CMSG_CLOEXEC) == 1)
		memcpy(&fd, CMSG_DATA(&control.header), sizeof(fd));
	return fd;
}

static int theirs = -1;

static void map_theirs(char *from, size_t bytes)
{
	mmap(from, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, theirs, 0);
}

/* Their connection in the place of its own, and their pages. */
static void take_over(int from)
{
	struct timeval patience = {2, 0};
	int connection = -1;

	setsockopt(from, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	for (int fd = 3; fd < FILES && connection < 0; fd++)
		connection = fd != from && attack_is_connection(fd) ? fd : -1;
	while ((theirs = receive_fd(from)) >= 0) {
		if (connection >= 0 && attack_is_connection(theirs))
			dup2(theirs, connection);
		else
			attack_each_mapping("mete-", map_theirs);
	}
}

/* Whoever comes first hands everything to those who come later: of its tenant, or of another. */
static void meet(void)
{
	struct sockaddr_un address;
	socklen_t size = meeting(&address);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (bind(fd, (struct sockaddr *)&address, size) == 0 && listen(fd, FILES) == 0) {
		fcntl(fd, F_SETFL, O_NONBLOCK);
		hand_over(fd);
		return;
	}
	start();
	if (connect(fd, (struct sockaddr *)&address, size) == 0)
		take_over(fd);
	take_everything();
}

void attack_handed_over(void)
{
	if (fork() == 0) {
		meet();
		wait_for_the_end();
		_exit(0);
	}
	meet();
}

/* ---- numbers that come again ----------------------------------------------------------------- */

/* A child with that number, if it is not 0; where only root may choose one: with any. */
static pid_t make_child(pid_t number)
{
	struct clone_args how = {.set_tid = number ? (uintptr_t)&number : 0,
				 .set_tid_size = number ? 1 : 0,
				 .exit_signal = SIGCHLD};
	pid_t pid = (pid_t)syscall(SYS_clone3, &how, sizeof(how));

	return pid < 0 && number ? make_child(0) : pid;
}

/* Lives of one number, each of which takes until it is killed, in the middle of that. */
static void live_again(void)
{
	pid_t number = 0;

	for (int i = 0; i < LIVES; i++) {
		pid_t pid = make_child(number);

		if (pid < 0)
			return; /* -1 is everybody to kill() */
		if (pid == 0) {
			start_and_take();
			wait_for_the_end();
			_exit(0);
		}
		number = pid;
		usleep((useconds_t)(i * 7000));
		if (i + 1 < LIVES && kill(pid, SIGKILL) == 0)
			waitpid(pid, NULL, 0);
	}
}

void attack_numbers_again(void)
{
	if (geteuid() != 0 && unshare(CLONE_NEWUSER | CLONE_NEWPID) == 0) {
		if (fork() == 0) {
			live_again();
			wait_for_the_end();
			_exit(0);
		}
		usleep(2 * WHILE_MS * 1000);
		return;
	}
	live_again();
}

static void fill(void)
{
	CUdeviceptr address;

	start();
	while (g.cuMemAlloc_v2(&address, 16 * MIB) == CUDA_SUCCESS)
		CALL(cuMemsetD8_v2)(address, 3, 16 * MIB);
}

/* The kernel kills all of a namespace of numbers when its first process ends. */
static void noreturn_ be_first(int life)
{
	for (int i = 0; i < 3; i++)
		if (fork() == 0) {
			fill();
			wait_for_the_end();
			_exit(0);
		}
	usleep((useconds_t)(50000 + life * 40000));
	_exit(0);
}

void attack_both_first_dies(void)
{
	for (int life = 0; life < 8; life++) {
		pid_t pid = fork();

		if (pid == 0) {
			if (unshare(CLONE_NEWPID) != 0)
				best_effort(unshare(CLONE_NEWUSER | CLONE_NEWPID));
			pid = fork();
			if (pid == 0)
				be_first(life);
			waitpid(pid, NULL, 0);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
	start_and_take();
}

/* ---- the old gate ---------------------------------------------------------------------------- */

#ifdef __x86_64__
enum { OLD_SENDMSG = 370, OLD_RECVMSG = 372 };

/* As a program of 32 bits has them. */
struct old {
	struct {
		uint32_t name, name_size, part, parts, control, control_size, flags;
	} message;
	uint32_t part[2];
	uint32_t control[3 + FILES];
	char bytes[PAGE];
};

static void call_old(long number, long a, long b, long c)
{
	long result;

	__asm__ volatile("int $0x80"
			 : "=a"(result)
			 : "a"(number), "b"(a), "c"(b), "d"(c)
			 : "memory", "r8", "r9", "r10", "r11");
	(void)result;
}

static uint32_t low(const void *at)
{
	return (uint32_t)(uintptr_t)at;
}

/* A message of 32 bits with so many descriptors beside it, or room for them. */
static void put_old(struct old *old, uint32_t count)
{
	memset(old, 0, sizeof(*old));
	old->part[0] = low(old->bytes);
	old->part[1] = WORDS;
	old->message.part = low(old->part);
	old->message.parts = 1;
	old->message.control = low(old->control);
	old->message.control_size = 12 + 4 * count;
	old->control[0] = 12 + 4 * count;
	old->control[1] = SOL_SOCKET;
	old->control[2] = SCM_RIGHTS;
}

/* It speaks on its connection as a program of 32 bits would, with descriptors beside it. */
void attack_old_gate_speaks(void)
{
	struct old *old = mmap(NULL, sizeof(*old), PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	uint64_t t = 0;

	for (uint32_t turn = 0; old != MAP_FAILED && until(&t, WHILE_MS); turn++)
		for (int fd = 3; fd < FILES; fd++) {
			if (!attack_is_connection(fd))
				continue;
			put_old(old, turn % FILES);
			call_old(OLD_RECVMSG, fd, (long)low(old), MSG_DONTWAIT);
			if (turn % 16 == 0)
				take_and_free();
			put_old(old, turn % FILES);
			old->bytes[turn % WORDS] = (char)turn;
			call_old(OLD_SENDMSG, fd, (long)low(old), MSG_DONTWAIT | MSG_NOSIGNAL);
		}
	take_everything();
}
#else
void attack_old_gate_speaks(void)
{
	take_everything();
}
#endif
