/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

/* The arguments of the program, so to say: a level, and what is owed to the reader. */
static struct {
	enum log_level most;
	unsigned long lost;
} arg_log = {LOG_INFO, 0};

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
	size_t n = 0;

	quoted.text[n++] = '"';
	for (; *text && n < sizeof(quoted.text) - 2; text++) {
		unsigned char c = (unsigned char)*text;

		quoted.text[n++] = c < 0x20 || c == 0x7f || c == '"' || c == '\\' ? '?' : (char)c;
	}
	quoted.text[n++] = '"';
	quoted.text[n] = 0;
	return quoted;
}

/* A socket is told not to block; of a pipe, POLLOUT promises PIPE_BUF bytes, more than a line. */
static int write_now(const char *line, size_t size)
{
	struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
	ssize_t n = send(STDERR_FILENO, line, size, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0 && errno == ENOTSOCK) {
		if (poll(&out, 1, 0) != 1 || !(out.revents & POLLOUT))
			return -EAGAIN;
		n = write(STDERR_FILENO, line, size);
	}
	return n == (ssize_t)size ? 0 : -EIO;
}

static size_t prefix(char *line, size_t room, enum log_level level)
{
	static const int priorities[] = {3, 4, 6, 7};
	struct timespec now;
	struct tm utc;
	size_t n;

	if (getenv("JOURNAL_STREAM"))
		return (size_t)snprintf(line, room, "<%d>", priorities[level]);
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &utc);
	n = strftime(line, room, "%Y-%m-%dT%H:%M:%S", &utc);
	return n + (size_t)snprintf(line + n, room - n, ".%03ldZ %s ", now.tv_nsec / 1000000,
				    names[level]);
}

void log_write(enum log_level level, const char *event, const char *format, ...)
{
	char line[LOG_LINE_MAX];
	int saved = errno;
	va_list arguments;
	size_t n;

	if (level > arg_log.most)
		return;
	n = prefix(line, sizeof(line), level);
	if (arg_log.lost)
		n += (size_t)snprintf(line + n, sizeof(line) - n, "log.lost lines=%lu\n",
				      arg_log.lost);
	if (arg_log.lost && write_now(line, n) == 0)
		arg_log.lost = 0;
	n = prefix(line, sizeof(line), level);
	n += (size_t)snprintf(line + n, sizeof(line) - n, "%s ", event);
	va_start(arguments, format);
	n += (size_t)vsnprintf(line + n, sizeof(line) - n, format, arguments);
	va_end(arguments);
	if (n > sizeof(line) - 2)
		n = sizeof(line) - 2;
	line[n++] = '\n';
	if (write_now(line, n) != 0)
		arg_log.lost++;
	errno = saved;
}
