/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that close what they are handed: for as long as that takes, and even if nothing ends it
 * (a page of FUSE that is never written back is waited for in whoever closes the file last, who
 * cannot be killed meanwhile). A process that waits so holds nothing of ours.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

enum { DISCARD_CLOSERS = 8 };

/* {0}: there is none. */
struct discard_closer {
	pid_t pid;
	int fd;		    /* -1: it was killed, and has not quite ended */
	unsigned under_way; /* what it has not closed yet */
};

/* Hands over the descriptor, which is no longer ours then. False: nobody takes it. */
bool discard_process_close(struct discard_closer closers[DISCARD_CLOSERS], int fd);
/* No further ones. What they have is closed all the same. */
void discard_processes_end(struct discard_closer closers[DISCARD_CLOSERS]);
