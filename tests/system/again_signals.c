/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into meted, where it begins again. Its other threads come to an end with what they do
 * first, as they may on a busy machine. Where there is an AGAIN_SIGNAL, meted gets it once:
 * AGAIN_AT is "stop", when all parts have closed their watches, "end", just before execve(), or
 * "begin", before the new one's main(). The file AGAIN_MARK is there from the end on.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
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

static void *send_unblocked(void *unused)
{
	sigset_t none;

	(void)unused;
	sigemptyset(&none);
	pthread_sigmask(SIG_SETMASK, &none, NULL);
	raise((int)strtol(getenv("AGAIN_SIGNAL"), NULL, 10));
	return NULL;
}

/* As to one of the driver's threads, which block nothing. */
static void send_to_another(void)
{
	pthread_t other;

	if (pthread_create(&other, NULL, send_unblocked, NULL) != 0)
		abort();
	pthread_join(other, NULL);
}

/* libuv's, which meted calls once. */
int uv_loop_close(void *loop);

__attribute__((visibility("default"))) int uv_loop_close(void *loop)
{
	int (*next)(void *);

	if (is_at("stop")) {
		unsetenv("AGAIN_AT");
		send_to_another();
		dprintf(STDERR_FILENO, "again_signals: sent when all was closed\n");
	}
	*(void **)&next = dlsym(RTLD_NEXT, "uv_loop_close");
	return next(loop);
}

__attribute__((constructor)) static void begin(void)
{
	if (!is_at("now"))
		return;
	unsetenv("AGAIN_AT");
	send();
}
