/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#include "base/text.h"

enum { KINDS = 64 };

/* How much was written of an event. */
struct kind {
	char event[32];
	double tokens;
	struct timespec filled;
	unsigned long left_out;
};

/* Settings of the whole program: the level, how much is written, and what has not been reported
 * yet. */
static struct {
	enum log_level most;
	unsigned long lost;
	unsigned burst, per_second; /* 0: no limit */
	struct kind kinds[KINDS];
	const char *path; /* NULL: stderr is nobody's file */
	long most_bytes, written;
} arg_log = {.most = LOG_INFO};

static const char *const names[] = {"error", "warning", "info", "debug"};

void log_set_level(enum log_level most)
{
	arg_log.most = most;
}

int log_parse_level(const char *name, enum log_level *ret_level)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (strcmp(name, names[i]) == 0) {
			*ret_level = (enum log_level)i;
			return 0;
		}
	}
	return -EINVAL;
}

struct log_text log_text(const char *text)
{
	struct log_text quoted;
	char *said = quoted.text + 1;
	size_t n = text_fit(text, sizeof(quoted.text) - 3);

	memcpy(said, text, n);
	said[n] = '\0';
	text_make_plain(said);
	/* Sentences quote, too, and are to be read. */
	for (char *at = said; *at; at++)
		*at = *at == '"' ? '\'' : *at == '\\' ? '?' : *at;
	n = strlen(said);
	quoted.text[0] = said[n] = '"';
	said[n + 1] = '\0';
	return quoted;
}

/* A socket is told not to block; for a pipe, POLLOUT guarantees PIPE_BUF bytes, which is more
 * than a message. */
static int write_now(const char *message, size_t size)
{
	struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
	ssize_t n = send(STDERR_FILENO, message, size, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0 && errno == ENOTSOCK) {
		if (poll(&out, 1, 0) != 1 || !(out.revents & POLLOUT))
			return -EAGAIN;
		n = write(STDERR_FILENO, message, size);
	}
	return n == (ssize_t)size ? 0 : -EIO;
}

static size_t prefix(char *message, size_t room, enum log_level level)
{
	static const int priorities[] = {3, 4, 6, 7};
	struct timespec now;
	struct tm utc;
	size_t n;

	if (getenv("JOURNAL_STREAM"))
		return (size_t)snprintf(message, room, "<%d>", priorities[level]);
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &utc);
	n = strftime(message, room, "%Y-%m-%dT%H:%M:%S", &utc);
	return n + (size_t)snprintf(message + n, room - n, ".%03ldZ %s ", now.tv_nsec / 1000000,
				    names[level]);
}

void log_limit(unsigned burst, unsigned per_second)
{
	arg_log.burst = burst;
	arg_log.per_second = per_second;
}

void log_rotate(const char *path, long most)
{
	arg_log.path = path;
	arg_log.most_bytes = most;
	arg_log.written = most; /* it may be long already */
}

/* Counts bytes instead of querying the size for each message. */
static void rotate(size_t size)
{
	struct stat ours, named;
	char before[512];
	int fd;

	arg_log.written += (long)size;
	if (!arg_log.path || arg_log.written < arg_log.most_bytes)
		return;
	arg_log.written = 0;
	if (fstat(STDERR_FILENO, &ours) != 0 || stat(arg_log.path, &named) != 0 ||
	    !S_ISREG(ours.st_mode) || ours.st_dev != named.st_dev || ours.st_ino != named.st_ino)
		return;
	arg_log.written = (long)ours.st_size;
	if (ours.st_size < arg_log.most_bytes)
		return;
	snprintf(before, sizeof(before), "%s.1", arg_log.path);
	if (rename(arg_log.path, before) != 0)
		return;
	fd = open(arg_log.path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return;
	dup2(fd, STDERR_FILENO);
	close(fd);
	arg_log.written = 0;
}

/* The place of an event; NULL: there are more events than places. */
static struct kind *kind_of(const char *event)
{
	for (size_t i = 0; i < KINDS; i++) {
		struct kind *kind = &arg_log.kinds[i];

		if (!*kind->event) {
			snprintf(kind->event, sizeof(kind->event), "%s", event);
			kind->tokens = arg_log.burst;
			clock_gettime(CLOCK_MONOTONIC, &kind->filled);
		}
		if (strncmp(kind->event, event, sizeof(kind->event) - 1) == 0)
			return kind;
	}
	return NULL;
}

static void refill(struct kind *kind)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	kind->tokens += ((double)(now.tv_sec - kind->filled.tv_sec) +
			 (double)(now.tv_nsec - kind->filled.tv_nsec) / 1e9) *
			arg_log.per_second;
	if (kind->tokens > arg_log.burst)
		kind->tokens = arg_log.burst;
	kind->filled = now;
}

static void say_left_out(struct kind *kind)
{
	char message[LOG_MESSAGE_MAX];
	size_t n = prefix(message, sizeof(message), LOG_WARNING);

	n += (size_t)snprintf(message + n, sizeof(message) - n, "log.left_out event=%s lines=%lu\n",
			      kind->event, kind->left_out);
	if (write_now(message, n) == 0)
		kind->left_out = 0;
	rotate(n);
}

void log_settle(void)
{
	for (size_t i = 0; i < KINDS; i++) {
		if (arg_log.kinds[i].left_out)
			say_left_out(&arg_log.kinds[i]);
	}
}

static bool may_write(const char *event)
{
	struct kind *kind = arg_log.burst ? kind_of(event) : NULL;

	if (!kind)
		return true;
	refill(kind);
	if (kind->tokens < 1) {
		kind->left_out++;
		return false;
	}
	kind->tokens -= 1;
	if (kind->left_out)
		say_left_out(kind);
	return true;
}

void log_write(enum log_level level, const char *event, const char *format, ...)
{
	char message[LOG_MESSAGE_MAX], *said;
	int saved = errno;
	va_list arguments;
	size_t n;

	if (level > arg_log.most || !may_write(event)) {
		errno = saved;
		return;
	}
	n = prefix(message, sizeof(message), level);
	if (arg_log.lost)
		n += (size_t)snprintf(message + n, sizeof(message) - n, "log.lost lines=%lu\n",
				      arg_log.lost);
	if (arg_log.lost && write_now(message, n) == 0)
		arg_log.lost = 0;
	n = prefix(message, sizeof(message), level);
	said = message + n;
	n += (size_t)snprintf(message + n, sizeof(message) - n, "%s ", event);
	va_start(arguments, format);
	best_effort(vsnprintf(message + n, sizeof(message) - n, format, arguments));
	va_end(arguments);
	said[text_fit(said, sizeof(message) - 2 - (size_t)(said - message))] = '\0';
	/* A path, too, may hold anything. */
	text_make_plain(said);
	n = strlen(message);
	message[n++] = '\n';
	if (write_now(message, n) != 0)
		arg_log.lost++;
	rotate(n);
	errno = saved;
}
