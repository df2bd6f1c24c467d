/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the guest's messages to standard error, only if something is wrong, and at most SAY_LINES
 * lines per process. Each line is one write(2), without stdio and without a lock. A line that a
 * thread writes while it is writing another one is dropped.
 *
 * Formats: %s %d %u %x %lu %lx %zu %%, without flags or widths.
 */
#pragma once

#include "base/macros.h"

enum {
	SAY_LINES = 16,
	SAY_BYTES = 512, /* of a line; the rest is cut */
};

/* Writes "mete: " and the sentence. errno is kept. */
void say(const char *format, ...) printf_like(1, 2);

/* The same for a notice about normal operation, which is not counted as one of those lines. If
 * standard error cannot take it at once, it is dropped. */
void say_aside(const char *format, ...) printf_like(1, 2);

/* Says that the kernel refuses this program a system call, which a filter makes it do. */
void say_lack(const char *call);

/* The formatter alone: returns the length written, NUL excluded; always terminates. */
size_t say_format(char *out, size_t size, const char *format, ...) printf_like(3, 4);
