/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/machine/segment_process.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRIES = 1000 }; /* while a process has nothing mapped, which is brief */

/* -ENOENT where there is no such process; other errors say nothing about it. */
static int read_file(const char *path, char *text, size_t size)
{
	owned(close) int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read(fd, text, size - 1);
	if (n < 0)
		return -errno;
	text[n] = 0;
	return 0;
}

struct process_state {
	char state;
	long threads;
	uint64_t start_ticks;
};

static int read_state(const char *who, struct process_state *ret_state)
{
	char path[64], text[1024], *at;
	int r;

	snprintf(path, sizeof(path), "/proc/%s/stat", who);
	r = read_file(path, text, sizeof(text));
	if (r < 0)
		return r;
	/* The name in parentheses may hold anything, parentheses included. */
	at = strrchr(text, ')');
	if (!at || at[1] != ' ')
		return -EPROTO;
	at += 2;
	ret_state->state = *at;
	for (int field = 3; field < 22; field++) {
		at = strchr(at, ' ');
		if (!at)
			return -EPROTO;
		at++;
		if (field == 19)
			ret_state->threads = strtol(at, NULL, 10);
	}
	ret_state->start_ticks = strtoull(at, NULL, 10);
	return 0;
}

int segment_process_self(struct segment_identity *ret_identity)
{
	struct segment_identity identity = {.pid = getpid()};
	struct process_state state;
	struct stat space;
	int r;

	r = read_state("self", &state);
	if (r < 0)
		return r;
	if (stat("/proc/self/ns/pid", &space) < 0)
		return -errno;
	identity.start_ticks = state.start_ticks;
	identity.namespace_id = space.st_ino;
	*ret_identity = identity;
	return 0;
}

/* F_OFD_SETLK and F_OFD_GETLK: not tied to a process, and so not lost when another library in the
 * process opens and closes the file. */
int segment_process_lock(int fd, off_t offset)
{
	struct flock lock = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = offset, .l_len = 1};

	return fcntl(fd, F_OFD_SETLK, &lock) < 0 ? -errno : 0;
}

static bool locked_by_another(int fd, off_t offset)
{
	struct flock lock = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = offset, .l_len = 1};

	return fcntl(fd, F_OFD_GETLK, &lock) < 0 || lock.l_type != F_UNLCK;
}

/* Is the file not mapped there? Compares inodes only. Some file systems show another inode here
 * than by fstat(): then the caller does not find its own mapping either. -EAGAIN: nothing at all is
 * mapped, because of exec() or the process's end. */
static int lost_map(const char *who, int fd)
{
	owned(fclose) FILE *maps = NULL;
	char path[64], *line = NULL;
	size_t room = 0, lines = 0;
	struct stat about;
	bool found = false;

	snprintf(path, sizeof(path), "/proc/%s/maps", who);
	maps = fopen(path, "re");
	if (!maps || fstat(fd, &about) < 0)
		return false;
	while (!found && getline(&line, &room, maps) > 0) {
		unsigned long long inode;

		lines++;
		found = sscanf(line, "%*s %*s %*s %*s %llu", &inode) == 1 && inode == about.st_ino;
	}
	free(line);
	if (ferror(maps))
		return false;
	return lines ? !found : -EAGAIN;
}

bool segment_process_dead(const struct segment_identity *identity, uint64_t own_namespace, int fd,
			  off_t offset)
{
	bool visible = identity->namespace_id == own_namespace;
	struct process_state state;
	char who[16];
	int r, lost = -EAGAIN;

	/* Locked without an owner: by a child that has just been forked, or never ran
	 * our handler. */
	if (locked_by_another(fd, offset))
		return visible && kill(identity->pid, 0) < 0 && errno == ESRCH;
	if (!visible)
		return true;
	/* The lock may be lost: some programs close all descriptors that they do not know. */
	snprintf(who, sizeof(who), "%d", identity->pid);
	for (int tries = 0; lost == -EAGAIN && tries < TRIES; tries++) {
		r = read_state(who, &state);
		if (r == -ENOENT || r == -ESRCH)
			return true;
		if (r < 0)
			return false;
		if (state.start_ticks != identity->start_ticks)
			return true;
		/* A zombie whose first thread has ended may have others that work on. */
		if (state.state == 'Z' || state.state == 'X')
			return state.threads <= 1;
		lost = lost_map(who, fd);
	}
	return lost > 0 && lost_map("self", fd) == 0;
}

/* The 16 random bytes that the kernel gives to every program. */
uint64_t segment_process_image(void)
{
	const void *at = (const void *)getauxval(AT_RANDOM);
	uint64_t image = 0;

	if (at)
		memcpy(&image, at, sizeof(image));
	return image;
}

/* Field NSpid of /proc/PID/status ends with the pid in the innermost namespace. */
static pid_t innermost_pid(const char *who)
{
	char path[64], text[4096], *at, *end;

	snprintf(path, sizeof(path), "/proc/%s/status", who);
	if (read_file(path, text, sizeof(text)) < 0)
		return 0;
	at = strstr(text, "\nNSpid:");
	if (!at)
		return 0;
	at++;
	end = strchr(at, '\n');
	if (end)
		*end = 0;
	at = strrchr(at, '\t');
	return at ? (pid_t)strtol(at + 1, NULL, 10) : 0;
}

static bool is_identity(const char *who, const struct segment_identity *identity)
{
	struct process_state state;
	char path[64];
	struct stat space;

	snprintf(path, sizeof(path), "/proc/%s/ns/pid", who);
	if (stat(path, &space) < 0 || space.st_ino != identity->namespace_id)
		return false;
	return innermost_pid(who) == identity->pid && read_state(who, &state) == 0 &&
	       state.start_ticks == identity->start_ticks;
}

pid_t segment_process_pid(const struct segment_identity *identity, uint64_t own_namespace)
{
	struct dirent *entry;
	pid_t found = 0;
	DIR *folder;

	if (identity->namespace_id == own_namespace)
		return identity->pid;
	folder = opendir("/proc");
	if (!folder)
		return 0;
	while (!found && (entry = readdir(folder)))
		if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
		    strlen(entry->d_name) < 12 && is_identity(entry->d_name, identity))
			found = (pid_t)strtol(entry->d_name, NULL, 10);
	closedir(folder);
	return found;
}
