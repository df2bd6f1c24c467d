/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What meted must remember when it is killed: lines of text, appended to a file, each with a
 * checksum before it. Reading ends at the first line that is not whole; the rest is cut off.
 *
 * It survives meted, not the machine: what is appended is given to the kernel and not synced, since
 * after a crash of the machine there is no guest left to remember. Rewriting syncs and renames, so
 * that an unfinished one is never seen.
 *
 * Where the disk is full, meted goes on without: one line in the log says so; each later record
 * tries to rewrite the whole, and another line says when that worked.
 */
#pragma once

#include <stdbool.h>

#include "base/fault.h"

enum { JOURNAL_LINE_MAX = 8192 };

struct journal {
	int fd; /* -1: not open */
	char path[128];
	uint64_t bytes, bytes_when_rewritten;
	bool broken;
};

/* Calls `record` for each line, in order; then it is ready for appending. -EBUSY etc. */
must_check int journal_open(struct journal *j, const char *path,
			    void (*record)(void *context, const char *line), void *context,
			    struct fault *why);
void journal_close(struct journal *j);

/* -ENOSPC etc.: it was not written, and nothing of it is left in the file. */
must_check int journal_append(struct journal *j, const char *line);

/* Replaces everything by `lines` (each ending in a newline, without checksums). */
must_check int journal_rewrite(struct journal *j, const char *lines);

/* It has grown to several times of what it was when it was rewritten. */
bool journal_is_long(const struct journal *j);

/* For the fuzzer: how many of the bytes are whole lines. */
size_t journal_scan(const char *text, size_t size, void (*record)(void *context, const char *line),
		    void *context);
