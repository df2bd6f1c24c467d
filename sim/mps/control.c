/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stand-in for NVIDIA's nvidia-cuda-mps-control, for simulated devices: the commands that its
 * documentation has (docs.nvidia.com/deploy/mps), spoken to simulated clients (sim/machine/mps.h).
 *
 *	nvidia-cuda-mps-control -d      a control daemon, in the background
 *	nvidia-cuda-mps-control -f      likewise, in the foreground
 *	nvidia-cuda-mps-control         reads commands, one a line, and prints the daemon's answers
 *	nvidia-cuda-mps-control -p 3 [-m] -d|-f     a daemon of protocol 3 (names.h); -m: for all
 *users nvidia-cuda-mps-control MODULE VERB ...     one command of protocol 3; -q: the daemon's end
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

static struct {
	bool background, foreground, quits, multiuser;
	int protocol;
	int words; /* where a command begins; 0: there is none */
} said = {.protocol = 2};

static bool address(const char *folder, struct sockaddr_un *ret_address)
{
	*ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
	return snprintf(ret_address->sun_path, sizeof(ret_address->sun_path), "%s/control",
			folder) < (int)sizeof(ret_address->sun_path);
}

const char *mps_folder(void)
{
	const char *folder = getenv("CUDA_MPS_PIPE_DIRECTORY");

	return folder && *folder ? folder : "/tmp/nvidia-mps";
}

/* The variable goes before the option, as the documents say. */
bool mps_is_newer(void)
{
	const char *protocol = getenv("CUDA_MPS_PROTOCOL_VERSION");

	return (protocol ? atoi(protocol) : said.protocol) == 3;
}

bool mps_is_multiuser(void)
{
	return said.multiuser;
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

int mps_listen(const char *folder)
{
	struct sockaddr_un at;
	int fd;

	if (!address(folder, &at)) {
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
	fd = mps_listen(mps_folder());
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
	bool first = true, failed = false;
	ssize_t n;
	int fd;

	fd = address(mps_folder(), &at) ? socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
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
	/* An answer of protocol 3 that begins so is a failure. */
	while ((n = read(fd, text, sizeof(text))) > 0) {
		bool wrong = first && *text == '!';

		failed |= wrong;
		first = false;
		fwrite(text + wrong, 1, (size_t)(n - wrong), stdout);
	}
	close(fd);
	return failed;
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

static int command(int count, char **words)
{
	char line[1024] = "";

	for (int i = said.words; i < count; i++)
		snprintf(line + strlen(line), sizeof(line) - strlen(line), "%s%s", *line ? " " : "",
			 words[i]);
	snprintf(line + strlen(line), sizeof(line) - strlen(line), "\n");
	return send_command(line);
}

static bool read_words(int count, char **words)
{
	for (int i = 1; i < count && !said.words; i++) {
		const char *word = words[i];

		if (strcmp(word, "-d") == 0)
			said.background = true;
		else if (strcmp(word, "-f") == 0)
			said.foreground = true;
		else if (strcmp(word, "-q") == 0)
			said.quits = true;
		else if (strcmp(word, "-m") == 0)
			said.multiuser = true;
		else if (strcmp(word, "-p") == 0 && i + 1 < count)
			said.protocol = atoi(words[++i]);
		else if (*word != '-')
			said.words = i;
		else
			return false;
	}
	return true;
}

int main(int count, char **words)
{
	if (!read_words(count, words)) {
		fprintf(stderr,
			"usage: nvidia-cuda-mps-control [-p 2|3] [-m] [-d | -f | -q | MODULE "
			"VERB ...] (a stand-in, for simulated devices)\n");
		return 1;
	}
	if (said.background || said.foreground)
		return serve(said.background);
	if (said.quits)
		return send_command("-q\n");
	return said.words ? command(count, words) : relay();
}
