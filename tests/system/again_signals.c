/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into meted, where it begins again. Its other threads come to an end with what they do
 * first, as they may on a busy machine. Where there is an AGAIN_SIGNAL, meted gets it once:
 * AGAIN_AT is "end", just before execve(), or "begin", before the new one's main(). The file
 * AGAIN_MARK is there from then on.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int is_at(const char *when)
{
	const char *at = getenv("AGAIN_AT");

	return at && strcmp(at, when) == 0;
}

/* Is this the first time? */
static int mark(void)
{
	const char *path = getenv("AGAIN_MARK");
	int fd = path ? open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600) : -1;

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* Does the thread wait for work? "running": it is about to do some. */
static int rests(const char *thread)
{
	char path[300], line[100] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%s/syscall", thread);
	file = fopen(path, "re");
	if (!file)
		return 1;
	if (!fgets(line, sizeof(line), file))
		line[0] = '\0';
	fclose(file);
	return strtol(line, NULL, 10) == SYS_futex;
}

static int all_rest(void)
{
	DIR *threads = opendir("/proc/self/task");
	const struct dirent *at;
	int all = 1;

	while (threads && (at = readdir(threads)))
		all &= at->d_name[0] == '.' || atoi(at->d_name) == getpid() || rests(at->d_name);
	if (threads)
		closedir(threads);
	return all;
}

static void send(void)
{
	kill(getpid(), (int)strtol(getenv("AGAIN_SIGNAL"), NULL, 10));
}

__attribute__((visibility("default"))) int execv(const char *path, char *const words[])
{
	int (*next)(const char *, char *const[]);
	int first = mark();

	while (!all_rest())
		usleep(1000);
	if (first && is_at("end"))
		send();
	if (first && is_at("begin"))
		setenv("AGAIN_AT", "now", 1);
	*(void **)&next = dlsym(RTLD_NEXT, "execv");
	return next(path, words);
}

__attribute__((constructor)) static void begin(void)
{
	if (!is_at("now"))
		return;
	unsetenv("AGAIN_AT");
	send();
}
