/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meted says READY=1 the way systemd's services do, to a datagram socket named by NOTIFY_SOCKET:
 * we wait for that or for its end, so that nothing here sleeps or polls.
 */
#include "cli/daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "base/held.h"
#include "base/place.h"
#include "cli/returning.h"

enum {
	START_ATTEMPTS = 20,
	START_TIMEOUT_MS = 30000,
	LEAVE_TIMEOUT_MS = 10000, /* a daemon that leaves has nothing left to do */
	/* Outcomes of start(). */
	START_ENDED = 1, /* its own message gives the reason */
	START_KILLED,	 /* somebody ended it */
	LEFT = 1,	 /* outcome of await_other(): nobody has the lock */
	LOG_KEPT_BYTES = 1 << 20,
	AGAIN_MS = 250,
	TELL_MS = 2000,
};

/* An abstract socket with a name that the kernel chooses: nothing to remove afterwards. */
static int notify_listen(char ret_name[sizeof(struct sockaddr_un)], struct fault *why)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	socklen_t size = sizeof(address);
	owned(close) int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(sa_family_t)) != 0 ||
	    getsockname(fd, (struct sockaddr *)&address, &size) != 0)
		return fault_set(why, -errno, "cannot create a socket for meted's notification: %s",
				 strerror(errno));
	snprintf(ret_name, sizeof(address), "@%.*s",
		 (int)(size - offsetof(struct sockaddr_un, sun_path) - 1), address.sun_path + 1);
	return take_fd(&fd);
}

/* In the child: a daemon of its own session, whose messages go to a file in its folder. */
static void noreturn_ become_daemon(const char *program, const char *place,
				    const struct driver *driver, const char *notify)
{
	char log[PLACE_MAX + 16];
	struct stat there;
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC), out;

	snprintf(log, sizeof(log), "%s/meted.log", place);
	out = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	/* The file grows from run to run, and is in memory if XDG_RUNTIME_DIR is. */
	if (out >= 0 && fstat(out, &there) == 0 && there.st_size > LOG_KEPT_BYTES &&
	    ftruncate(out, 0) != 0)
		_exit(126);
	if (null < 0 || out < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
		_exit(126);
	setsid();
	if (chdir("/") != 0)
		_exit(126);
	/* The daemon must not keep descriptors that the caller left open. */
	syscall(SYS_close_range, 3u, ~0u, 0u);
	setenv("NOTIFY_SOCKET", notify, 1);
	unsetenv("WATCHDOG_USEC");
	execl(program, program, "--user", "--dir", place, "--driver", driver->folder, (char *)NULL);
	_exit(127);
}

/* The last line of its log, without the date: the reason why it ended. Of the simulated driver's
 * settings the driver itself says what is wrong, in the line before. */
static void last_words(const char *place, struct fault *why)
{
	static const char simulator[] = "mete-sim: ";
	char path[PLACE_MAX + 16], line[sizeof(why->text)] = "", before[sizeof(line)] = "", *reason;
	owned(fclose) FILE *log = NULL;

	snprintf(path, sizeof(path), "%s/meted.log", place);
	log = fopen(path, "re");
	for (char next[sizeof(line)]; log && fgets(next, sizeof(next), log);) {
		next[strcspn(next, "\n")] = '\0';
		memcpy(before, line, sizeof(before));
		memcpy(line, next, sizeof(line));
	}
	reason = strstr(line, "reason=");
	best_effort(fault_set(why, -ECHILD, "meted does not start: %s%s%s (%s)",
			      reason ? reason + strlen("reason=") : line,
			      strncmp(before, simulator, strlen(simulator)) == 0 ? "; " : "",
			      strncmp(before, simulator, strlen(simulator)) == 0 ? before : "",
			      path));
}

static bool says_ready(int notify)
{
	static const char ready[] = "READY=1";
	char state[256];
	ssize_t n = recv(notify, state, sizeof(state), MSG_DONTWAIT);

	return n >= (ssize_t)strlen(ready) && memcmp(state, ready, strlen(ready)) == 0;
}

/* 0: it is ready, or one of the outcomes, with a sentence. */
static int wait_ready(int notify, pid_t pid, const char *place, struct fault *why)
{
	owned(close) int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd watched[] = {{.fd = notify, .events = POLLIN},
				   {.fd = pidfd, .events = POLLIN}};
	int r, status = 0;

	if (pidfd < 0)
		return fault_set(why, -errno, "cannot watch meted: %s", strerror(errno));
	do {
		r = poll(watched, ARRAY_SIZE(watched), START_TIMEOUT_MS);
		/* A daemon that exits also reports here, which must be ignored. */
		if (r > 0 && watched[0].revents && says_ready(notify))
			return 0;
	} while ((r < 0 && errno == EINTR) || (r > 0 && !watched[1].revents));
	if (r == 0)
		return fault_set(why, -ETIMEDOUT, "meted did not become ready in %d s",
				 START_TIMEOUT_MS / 1000);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	/* It was asked to exit (an upgrade) or killed: this says nothing about the next one. */
	if (WIFSIGNALED(status) || WEXITSTATUS(status) == 0) {
		best_effort(fault_set(why, -ECHILD,
				      "meted was ended during its start (status %d): see "
				      "%s/meted.log",
				      status, place));
		return START_KILLED;
	}
	last_words(place, why);
	return START_ENDED;
}

static int start(const char *place, const struct driver *driver, struct fault *why)
{
	char program[PATH_MAX], name[sizeof(struct sockaddr_un)];
	int r = driver_program("meted", program, why);
	owned(close) int notify = -1;
	pid_t pid;

	if (r < 0)
		return r;
	notify = notify_listen(name, why);
	if (notify < 0)
		return notify;
	pid = fork();
	if (pid < 0)
		return fault_set(why, -errno, "meted cannot be started: %s", strerror(errno));
	if (pid == 0)
		become_daemon(program, place, driver, name);
	return wait_ready(notify, pid, place, why);
}

/* Waits until the lock's holder releases it, for at most `seconds`. Returns the descriptor that
 * holds it now, or a negative errno. */
static int lock_file(const char *place, const char *name, unsigned seconds, struct fault *why)
{
	char path[PLACE_MAX + 16];
	owned(close) int fd = -1;
	int r;

	snprintf(path, sizeof(path), "%s/%s", place, name);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return fault_set(why, -errno, "%s: %s", path, strerror(errno));
	r = held_await(fd, seconds);
	if (r < 0)
		return fault_set(why, r, "%s: locked for more than %u s", path, seconds);
	return take_fd(&fd);
}

/* True: the program for which a meted is wanted has ended. */
static bool ended(int program)
{
	struct pollfd watched = {.fd = program, .events = POLLIN};

	return poll(&watched, 1, AGAIN_MS) > 0;
}

/* Whether somebody holds that lock; negative: it cannot be told. */
static int is_locked(const char *path, struct fault *why)
{
	owned(close) int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
		return 0;
	return errno == EWOULDBLOCK ? 1 : fault_set(why, -errno, "%s: %s", path, strerror(errno));
}

/* Another meted has the lock. It is about to leave (LEFT), or has just started, and will answer
 * (0). We wait for it as long as the program runs; without a program we report it after a while. */
static int await_other(struct admin *admin, const char *place, int program, struct fault *why)
{
	char path[PLACE_MAX + 16];

	snprintf(path, sizeof(path), "%s/lock", place);
	for (int waited_ms = 0;; waited_ms += AGAIN_MS) {
		int r = admin_connect(admin, place, why);

		if (r != ADMIN_ABSENT && r != -ECONNRESET)
			return r;
		r = is_locked(path, why);
		if (r <= 0)
			return r < 0 ? r : LEFT;
		if (waited_ms == LEAVE_TIMEOUT_MS && program < 0)
			return fault_set(
				why, -ETIMEDOUT,
				"%s: another meted has held it for %d s, and does not answer", path,
				LEAVE_TIMEOUT_MS / 1000);
		if (waited_ms == LEAVE_TIMEOUT_MS)
			fprintf(stderr,
				"mete run: note: another meted has %s, and does not answer: the "
				"program "
				"keeps running, and `mete run` waits for it\n",
				path);
		if (ended(program))
			return fault_set(why, -ECANCELED, "the program has ended");
	}
}

/* Only one process at a time starts a daemon: a process that waited here finds the one that the
 * other has started. */
static int connect_or_start(struct admin *admin, const char *place, const struct driver *driver,
			    int program, struct fault *why)
{
	owned(close) int starting = -1;
	int r = place_make(place, PLACE_PRIVATE, why);

	if (r < 0)
		return r;
	starting = lock_file(place, PLACE_STARTING, 2 * START_TIMEOUT_MS / 1000, why);
	if (starting < 0)
		return starting;
	for (int i = 0; i < START_ATTEMPTS; i++) {
		r = admin_connect(admin, place, why);
		if (r != ADMIN_ABSENT && r != -ECONNRESET)
			return r;
		r = start(place, driver, why);
		if (r == START_ENDED && strstr(why->text, "another meted")) {
			r = await_other(admin, place, program, why);
			if (r <= 0)
				return r;
			continue;
		}
		if (r != 0 && r != START_KILLED)
			return r == START_ENDED ? -ECHILD : r;
	}
	return fault_set(why, -ECHILD, "meted keeps exiting: see %s/meted.log", place);
}

/* The system's meted restarts: we wait as long as a start may take. If it has not come back by
 * then, the user's own is started. */
static int wait_for_system(struct admin *admin, int program, struct fault *why)
{
	char place[PLACE_MAX];

	for (int waited_ms = 0; returning_system_meted(); waited_ms += AGAIN_MS) {
		int r;

		if (waited_ms == TELL_MS)
			fputs("mete: note: the system's meted is being restarted; waiting for it\n",
			      stderr);
		if (waited_ms >= START_TIMEOUT_MS) {
			fputs("mete: note: the system's meted does not come back (see `systemctl "
			      "status meted`); starting one for this user\n",
			      stderr);
			break;
		}
		if (ended(program)) /* nothing tells us when it is back */
			return fault_set(why, -ECANCELED, "the program has ended");
		r = admin_connect_any(admin, place, why);
		if (r != ADMIN_ABSENT && r != -ECONNRESET)
			return r;
	}
	return ADMIN_ABSENT;
}

int daemon_connect(struct admin *admin, const struct driver *driver, int program, struct fault *why)
{
	char place[PLACE_MAX];
	int r = admin_connect_any(admin, place, why);

	if (r == ADMIN_ABSENT || r == -ECONNRESET)
		r = wait_for_system(admin, program, why);
	if (r != ADMIN_ABSENT)
		return r;
	return connect_or_start(admin, place, driver, program, why);
}
