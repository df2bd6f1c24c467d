/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program tells its operator: one line per event on stderr, an event's name and key=value
 * pairs. Only programs log (node/, cluster/, cli/).
 *
 *	log_info("tenant.joined", "tenant=%u limit_bytes=%" PRIu64, id, limit);
 *	2026-11-21T12:00:00.123Z info tenant.joined tenant=3 limit_bytes=4294967296
 *
 * Where stderr is systemd's journal, the line begins with its priority instead of time and level.
 * A line is cut at LOG_LINE_MAX. Logging never blocks: what cannot be written at once is dropped,
 * and the number of lines that were lost is said in the next line that can be.
 *
 * A value that others chose (a program's name) is given through log_text(): quoted, with control
 * characters replaced, so that nobody can forge a line.
 */
#pragma once

#include "base/macros.h"

enum { LOG_LINE_MAX = 1024 };

enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG };

/* Lines above this level are not written. The one thing here that is kept between calls. */
void log_set_level(enum log_level most);

/* "error", "warning", "info", "debug"; 0 or -EINVAL. */
must_check int log_parse_level(const char *name, enum log_level *ret_level);

/* From now on `burst` lines of each event are written at once, and `per_second` afterwards: many
 * programs that come and go must not fill the disk. How many were left out is said in a line
 * `log.left_out event=... lines=...` before the next one of that event, or by log_settle(). */
void log_limit(unsigned burst, unsigned per_second);
void log_settle(void);

/* stderr is this file: when it has more than `most` bytes it becomes PATH.1, and a new one begins.
 */
void log_rotate(const char *path, long most);

void log_write(enum log_level level, const char *event, const char *format, ...) printf_like(3, 4);

#define log_error(event, ...)	log_write(LOG_ERROR, event, __VA_ARGS__)
#define log_warning(event, ...) log_write(LOG_WARNING, event, __VA_ARGS__)
#define log_info(event, ...)	log_write(LOG_INFO, event, __VA_ARGS__)
#define log_debug(event, ...)	log_write(LOG_DEBUG, event, __VA_ARGS__)

struct log_text {
	char text[300];
};
struct log_text log_text(const char *text);
