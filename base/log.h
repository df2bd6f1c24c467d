/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes one message per event to stderr, for the operator: the event's name and key=value pairs,
 * as one text line. Only programs log (node/, plugin/, cli/).
 *
 *	log_info("tenant.joined", "tenant=%u limit_bytes=%" PRIu64, id, limit);
 *	2026-11-21T12:00:00.123Z info tenant.joined tenant=3 limit_bytes=4294967296
 *
 * If stderr is systemd's journal, the message begins with its priority instead of time and level. A
 * message is cut at LOG_MESSAGE_MAX. Logging never blocks: a message that cannot be written at once
 * is dropped, and the next one that can be written reports how many were lost.
 *
 * Pass a value that others chose (a program's name) through log_text(). It quotes the value and
 * replaces control characters and quotes in it, so that nobody can forge a message. A sentence for
 * others uses words_show() (base/words.h).
 */
#pragma once

#include "base/macros.h"

enum { LOG_MESSAGE_MAX = 1024 };

enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG };

/* Messages above this level are not written. */
void log_set_level(enum log_level most);

/* "error", "warning", "info", "debug"; 0 or -EINVAL. */
must_check int log_parse_level(const char *name, enum log_level *ret_level);

/* From now on, at most `burst` messages of each event are written at once, and `per_second`
 * afterwards: many short programs must not fill the disk. A message `log.left_out event=...
 * lines=...` reports how many were omitted, before the next message of that event or from
 * log_settle(). */
void log_limit(unsigned burst, unsigned per_second);
void log_settle(void);

/* stderr is this file. When it exceeds `most` bytes, it is renamed to PATH.1 and a new file begins.
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
