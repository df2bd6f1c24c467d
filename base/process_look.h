/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks at another process in /proc, where that may take for ever: while a process executes a
 * program, the kernel lets whoever looks wait until its former memory is freed and its descriptors
 * are closed, and others decide how long that takes (a file of FUSE or NFS). What a process was
 * called with lies in its own memory, whose lock and whose pages are its own business, too.
 *
 * So a process of our own looks. It is waited for while it computes or wants a processor; when it
 * waits for anything else, it is left to that, and nothing is known of the other process meanwhile.
 * Waits that come often are cut short: a user may have hundreds of processes that let others wait.
 */
#pragma once

#include <sys/types.h>

#include "base/macros.h"

enum { LOOK_PATH = 64, LOOK_MOST = 1024 };

/* The processes that look, made when they are needed. */
struct looks;

/* NULL: there is no memory. */
struct looks *looks_new(void);
/* The log is not told if none can be made: the caller is a program that has no log. */
void looks_quiet(struct looks *looks);
/* Ends them, and waits for that. NULL: does nothing. */
void looks_free(struct looks *looks);

/* The file's first bytes, and a NUL. -EBUSY: whoever looks has to wait, or nobody can look. */
must_check int look_read(struct looks *looks, pid_t pid, const char *path,
			 char ret_text[LOOK_MOST]);
/* Likewise, where there may be NULs in it: returns how many bytes there are. */
must_check int look_bytes(struct looks *looks, pid_t pid, const char *path,
			  char ret_bytes[LOOK_MOST]);
/* A descriptor for reading; likewise. -EMFILE: we have none left. */
must_check int look_open(struct looks *looks, pid_t pid, const char *path);
