/* SPDX-License-Identifier: Apache-2.0 */
#include "node/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/process_look.h"

/* Fields of /proc/PID/stat, see proc(5). A reader that may not trace the process sees code = 1 and
 * stack = 0. */
enum {
	STAT_STATE = 3,
	STAT_PARENT = 4,
	STAT_FLAGS = 9,
	STAT_STARTED = 22,
	STAT_CODE = 26,
	STAT_STACK = 28
};

/* The kernel's PF_EXITING. A process that ends returns its memory first and its descriptors
 * later. While this flag is set and the pidfd does not report the end, the driver still holds
 * what it held for the process. */
enum { FLAG_EXITING = 0x4, FLAG_KERNELS = 0x200000 };

struct stat_fields {
	uint64_t parent, flags, started, code, stack;
	char state;
	bool unknown; /* whoever looks has to wait */
};

/* The second field, a name in parentheses, may contain anything. */
static struct stat_fields read_stat(struct looks *looks, pid_t pid)
{
	struct stat_fields fields = {0};
	char path[LOOK_PATH], text[LOOK_MOST], *at;
	int r;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	r = look_read(looks, pid, path, text);
	fields.unknown = r == -EBUSY;
	if (r < 0)
		return fields;
	at = strrchr(text, ')');
	for (int field = 2; at && field <= STAT_STACK; field++) {
		if (field == STAT_STATE)
			fields.state = at[1];
		if (field == STAT_PARENT)
			fields.parent = strtoull(at, NULL, 10);
		if (field == STAT_FLAGS)
			fields.flags = strtoull(at, NULL, 10);
		if (field == STAT_STARTED)
			fields.started = strtoull(at, NULL, 10);
		if (field == STAT_CODE)
			fields.code = strtoull(at, NULL, 10);
		if (field == STAT_STACK)
			fields.stack = strtoull(at, NULL, 10);
		at = strchr(at + 1, ' ');
	}
	return fields;
}

/* Each execve() sets both addresses anew, the stack's at random. */
static uint64_t image_of(const struct stat_fields *fields)
{
	return fields->code > 1 && fields->stack > 1 ? fields->code ^ fields->stack : 0;
}

struct process_identity process_identify(struct looks *looks, pid_t pid)
{
	struct stat_fields fields = read_stat(looks, pid);

	return (struct process_identity){pid, fields.started, image_of(&fields)};
}

/* Who is frozen waits in a function of the kernel, and its state is that of many waits: D by the
 * freezer of version 1, S by that of version 2. */
static bool is_frozen(struct looks *looks, pid_t pid, char state)
{
	char path[LOOK_PATH], place[LOOK_MOST];

	snprintf(path, sizeof(path), "/proc/%d/wchan", (int)pid);
	if (look_read(looks, pid, path, place) < 0)
		return false;
	if (state == 'D')
		return strcmp(place, "__refrigerator") == 0;
	/* The latter where the compiler has put the former into it. */
	return state == 'S' &&
	       (strcmp(place, "do_freezer_trap") == 0 || strcmp(place, "get_signal") == 0);
}

bool process_is_stopped(struct looks *looks, pid_t pid)
{
	char state = read_stat(looks, pid).state;

	return state == 'T' || state == 't' || is_frozen(looks, pid, state);
}

uint64_t process_parse_queued(const char *schedstat)
{
	char *end;

	strtoull(schedstat, &end, 10); /* on a processor */
	return end != schedstat && *end == ' ' ? strtoull(end, NULL, 10) : 0;
}

static void add_thread(struct looks *looks, pid_t pid, const char *thread, struct process_load *sum)
{
	owned(free) char *text = NULL;
	char path[300];
	size_t size;

	(void)looks; /* this file lets nobody wait */
	snprintf(path, sizeof(path), "/proc/%d/task/%.20s/schedstat", (int)pid, thread);
	if (file_slurp(path, 256, &text, &size) < 0)
		return;
	sum->ran_ns += strtoull(text, NULL, 10);
	sum->queued_ns += process_parse_queued(text);
}

/* Each thread of at most *threads. */
static void each_thread(struct looks *looks, pid_t pid, unsigned *threads, struct process_load *sum,
			void (*add)(struct looks *looks, pid_t pid, const char *thread,
				    struct process_load *sum))
{
	const struct dirent *each;
	char path[64];
	DIR *folder;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	folder = opendir(path);
	if (!folder)
		return;
	while (*threads && (each = readdir(folder))) {
		if (each->d_name[0] == '.')
			continue;
		add(looks, pid, each->d_name, sum);
		--*threads;
	}
	closedir(folder);
}

uint64_t process_queued_ns(pid_t pid, unsigned *threads)
{
	struct process_load sum = {0};

	each_thread(NULL, pid, threads, &sum, add_thread);
	return sum.queued_ns;
}

static void add_state(struct looks *looks, pid_t pid, const char *thread, struct process_load *sum)
{
	/* The folder of a thread is there by its number as well. */
	sum->runnable |= read_stat(looks, (pid_t)strtol(thread, NULL, 10)).state == 'R';
	add_thread(looks, pid, thread, sum);
}

void process_load(struct looks *looks, pid_t pid, unsigned *threads, struct process_load *ret_load)
{
	*ret_load = (struct process_load){0};
	each_thread(looks, pid, threads, ret_load, add_state);
}

bool process_is_kernels(struct looks *looks, pid_t pid)
{
	return read_stat(looks, pid).flags & FLAG_KERNELS;
}

int process_open_memory(struct looks *looks, pid_t pid)
{
	char path[LOOK_PATH];

	snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)pid);
	return look_open(looks, pid, path);
}

/* An open list of pages stays that of the memory that it was opened for. An odd place in it is
 * refused while anybody uses that memory, and is the end of the list then. Nothing of it is read,
 * because a process can hold the lock of its memory as long as it likes. */
static bool is_gone(int memory_fd)
{
	char odd;

	return memory_fd >= 0 && pread(memory_fd, &odd, sizeof(odd), 0) == 0;
}

bool process_was_replaced(struct looks *looks, const struct process_identity *process,
			  int memory_fd)
{
	struct stat_fields fields;

	if (!is_gone(memory_fd))
		return false;
	/* Read after that: who ends says so before its memory goes. */
	fields = read_stat(looks, process->pid);
	return fields.started == process->started && !(fields.flags & FLAG_EXITING);
}

bool process_runs_it(struct looks *looks, const struct process_identity *process)
{
	struct stat_fields fields = read_stat(looks, process->pid);

	if (fields.unknown)
		return false;
	if (!fields.started)
		return !process->started;
	/* In the middle of execve() there is no code. Nor is there if the first thread has ended
	 * and others live on. */
	return fields.started == process->started && image_of(&fields) == process->image &&
	       (fields.code || fields.flags & FLAG_EXITING);
}

uint64_t process_started(struct looks *looks, pid_t pid)
{
	return read_stat(looks, pid).started;
}

bool process_is_gone(struct looks *looks, pid_t pid, uint64_t started)
{
	struct stat_fields fields = read_stat(looks, pid);

	return !fields.unknown && fields.started != started;
}

pid_t process_parent(struct looks *looks, pid_t pid)
{
	return (pid_t)read_stat(looks, pid).parent;
}

int process_is_over(pid_t pid)
{
	owned(close) int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	return fd < 0 ? errno == ESRCH : process_ended(fd);
}

int64_t process_user(pid_t pid)
{
	owned(free) char *text = NULL;
	char path[64], *at;
	size_t size;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	if (file_slurp(path, 8192, &text, &size) < 0)
		return -1;
	at = strstr(text, "\nUid:");
	return at ? (int64_t)strtoul(at + strlen("\nUid:"), NULL, 10) : -1;
}

void process_name(pid_t pid, char *ret_name, size_t size)
{
	owned(free) char *text = NULL;
	char path[64];
	size_t length;

	ret_name[0] = '\0';
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	if (file_slurp(path, 256, &text, &length) < 0)
		return;
	text[strcspn(text, "\n")] = '\0';
	snprintf(ret_name, size, "%s", text);
}

int process_open(struct looks *looks, pid_t pid, uint64_t started, int *ret_pidfd)
{
	owned(close) int fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;

	/* Checked after the pidfd is open: from then on this pid belongs to
	 * the process of the pidfd. */
	if (fd < 0 || process_is_gone(looks, pid, started))
		return -ESRCH;
	*ret_pidfd = take_fd(&fd);
	return 0;
}

int process_ended(int pidfd)
{
	struct pollfd end = {.fd = pidfd, .events = POLLIN};

	return poll(&end, 1, 0) == 1;
}
