/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stand-in for NVIDIA's nvidia-cuda-mps-control, for simulated devices: the commands that its
 * documentation has (docs.nvidia.com/deploy/mps), spoken to simulated clients (sim/machine/mps.h).
 *
 *	nvidia-cuda-mps-control -d      a control daemon, in the background
 *	nvidia-cuda-mps-control -f      likewise, in the foreground
 *	nvidia-cuda-mps-control         reads commands, one a line, and prints the daemon's answers
 *
 * The daemon's folder is $CUDA_MPS_PIPE_DIRECTORY, where it leaves its pid, and its log's is
 * $CUDA_MPS_LOG_DIRECTORY. Like the real one, it goes to the background before it listens. Its
 * server is a process that does nothing: the simulated device divides itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/macros.h"
#include "sim/mps/daemon.h"

static bool address(struct sockaddr_un *ret_address)
{
	*ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
	return snprintf(ret_address->sun_path, sizeof(ret_address->sun_path), "%s/control",
			mps_folder()) < (int)sizeof(ret_address->sun_path);
}

const char *mps_folder(void)
{
	const char *folder = getenv("CUDA_MPS_PIPE_DIRECTORY");

	return folder && *folder ? folder : "/tmp/nvidia-mps";
}

static int fail(const char *what)
{
	fprintf(stderr, "nvidia-cuda-mps-control: %s: %s\n", what, strerror(errno));
	return 1;
}

/* ---- the daemon ---------------------------------------------------------------------------- */

static bool write_pid(void)
{
	char path[512];
	FILE *file;

	snprintf(path, sizeof(path), "%s/nvidia-cuda-mps-control.pid", mps_folder());
	file = fopen(path, "w");
	if (!file)
		return false;
	fprintf(file, "%d\n", (int)getpid());
	return fclose(file) == 0;
}

/* Two daemons would take each other's clients. */
static bool lock_folder(void)
{
	char path[512];
	int fd;

	if (mkdir(mps_folder(), 0777) < 0 && errno != EEXIST)
		return false;
	snprintf(path, sizeof(path), "%s/control_lock", mps_folder());
	fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC,
		  0666); /* kept open as long as the daemon lives */
	return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
}

static int listen_at(void)
{
	struct sockaddr_un at;
	int fd;

	if (!address(&at)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	unlink(at.sun_path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 ||
	    chmod(at.sun_path, 0666) < 0 || listen(fd, 64) < 0)
		return -1;
	return fd;
}

static void write_log(const char *line)
{
	const char *folder = getenv("CUDA_MPS_LOG_DIRECTORY");
	char path[512];
	FILE *file;

	snprintf(path, sizeof(path), "%s/control.log",
		 folder && *folder ? folder : "/var/log/nvidia-mps");
	file = fopen(path, "a");
	if (!file)
		return;
	fprintf(file, "Control %d: %s\n", (int)getpid(), line);
	fclose(file);
}

static int serve(bool background)
{
	int fd;

	if (!lock_folder()) {
		if (errno != EWOULDBLOCK)
			return fail(mps_folder());
		fputs("An instance of this daemon is already running\n", stderr);
		return 1;
	}
	if (background) {
		pid_t child = fork(); /* the child keeps the lock */

		if (child < 0)
			return fail("fork");
		if (child)
			return 0;
		setsid();
		(void)!freopen("/dev/null", "r+", stdin);
		(void)!freopen("/dev/null", "w", stdout);
		(void)!freopen("/dev/null", "w", stderr);
	}
	signal(SIGPIPE, SIG_IGN);
	signal(SIGCHLD, SIG_IGN);
	fd = listen_at();
	if (fd < 0 || !write_pid())
		return fail(mps_folder());
	write_log("Starting");
	mps_serve(fd);
	write_log("Exit");
	return 0;
}

/* ---- a person's side ----------------------------------------------------------------------- */

static int send_command(const char *line)
{
	struct sockaddr_un at;
	char text[4096];
	ssize_t n;
	int fd;

	fd = address(&at) ? socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
	if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof(at)) < 0) {
		puts("Cannot find MPS control daemon process");
		if (fd >= 0)
			close(fd);
		return 1;
	}
	if (send(fd, line, strlen(line), MSG_NOSIGNAL) != (ssize_t)strlen(line)) {
		close(fd);
		return 1;
	}
	while ((n = read(fd, text, sizeof(text))) > 0)
		fwrite(text, 1, (size_t)n, stdout);
	close(fd);
	return 0;
}

static int relay(void)
{
	char line[1024];
	int status = 0;

	while (!status && fgets(line, sizeof(line) - 1, stdin)) {
		if (!strchr(line, '\n'))
			strcat(line, "\n");
		status = send_command(line);
	}
	return fflush(stdout) ? 1 : status;
}

int main(int count, char **words)
{
	if (count == 1)
		return relay();
	if (count == 2 && strcmp(words[1], "-d") == 0)
		return serve(true);
	if (count == 2 && strcmp(words[1], "-f") == 0)
		return serve(false);
	fprintf(stderr,
		"usage: nvidia-cuda-mps-control [-d | -f] (a stand-in, for simulated devices)\n");
	return 1;
}
