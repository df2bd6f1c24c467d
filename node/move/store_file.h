/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store's files, and the work on them. A guest may hold the lock of its tenant's file for as
 * long as it likes: it writes from a page that never comes (userfaultfd, FUSE), or allocates and
 * punches in many threads. So work that takes that lock is done by store_file_work(), in a process
 * of its own (node/move/store_worker.h), and in no thread of the daemon's: a thread that waits for
 * such a lock cannot be killed, nor can its process.
 */
#pragma once

#include <stdint.h>

#include "base/macros.h"

enum { STORE_GRAIN = 2 << 20 }; /* segments are multiples of it, as huge pages are */

enum store_verb {
	STORE_PREPARE, /* the pages are there, and zero */
	STORE_PUNCH,   /* there are none */
	STORE_CLOSE,   /* if nobody else has the file, its pages are freed, which takes time */
};

struct store_piece {
	enum store_verb verb;
	uint64_t offset, bytes;
};

/* Processes that fault in a piece's pages together. 0: a quarter of the processors, 4 at most. For
 * tests. */
extern uint32_t store_file_parts;

/* A sealed memory file of that size, without pages, in huge pages if enough are free. -errno. */
must_check int store_file_make(uint64_t size);
/* Does the work, however long it takes; -errno. Does nothing but system calls, fork() among them:
 * its caller has no children of its own. */
must_check int store_file_work(int fd, const struct store_piece *piece);
/* The host's available memory; 0: not known. */
uint64_t store_file_available(void);
