/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records that meted must remember if it is killed: a file of text, a record and its checksum
 * in each row. Reading ends at the first incomplete record; the rest is cut off.
 *
 * It survives a crash of meted, not of the machine: appended records are written but not synced,
 * because after a crash of the machine no guest is left. Rewriting syncs and renames, so that an
 * unfinished file is never seen.
 *
 * If the disk is full, meted continues without the journal and logs one message. Each later record
 * tries to rewrite the whole journal; another message is logged when that succeeds.
 */
#pragma once

#include <stdbool.h>

#include "base/fault.h"

enum { JOURNAL_RECORD_MAX = 8192 };

struct journal {
	int fd; /* -1: not open */
	char path[128];
	uint64_t bytes, bytes_when_rewritten;
	bool broken;
};

/* Calls `record` for each record, in order; then it is ready for appending. -EBUSY etc. */
must_check int journal_open(struct journal *j, const char *path,
			    void (*record)(void *context, const char *text), void *context,
			    struct fault *why);
void journal_close(struct journal *j);

/* -ENOSPC etc.: it was not written, and the file contains no part of it. */
must_check int journal_append(struct journal *j, const char *record);

/* Replaces everything by `records` (each ending in a newline, without checksums). */
must_check int journal_rewrite(struct journal *j, const char *records);

/* It has grown to several times its size after the last rewrite. */
bool journal_is_long(const struct journal *j);

/* For the fuzzer: how many of the bytes are complete records. */
size_t journal_scan(const char *text, size_t size, void (*record)(void *context, const char *text),
		    void *context);
