/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a daemon's sockets are: the system's under /run/mete, a user's own under
 * $XDG_RUNTIME_DIR/mete, or where that is not set, mete-UID under the system's temporary folder.
 * Daemon and CLI ask here, so that they agree.
 *
 * Others may have been there first: what lies in such a folder is believed only where the folder is
 * of the right owner and nobody else may put anything into it.
 */
#pragma once

#include <sys/types.h>

#include "base/fault.h"

#define PLACE_SYSTEM "/run/mete"
/* In a user's folder: locked (flock) by the one who starts a daemon, until connected to it. */
#define PLACE_STARTING "start.lock"

enum {
	PLACE_MAX = 80, /* a socket's path has at most 107 bytes: this leaves room for names */
	PLACE_PRIVATE = 0700,
	/* Other users pass through to the one folder below whose name they know. */
	PLACE_PASSAGE = 0711,
	PLACE_READABLE = 0755, /* the most that is believed of a system's */
};

/* Outcomes of place_check(). */
enum {
	PLACE_ABSENT = 1, /* there is nothing of that name */
};

/* The user's own folder; it need not exist. -ENAMETOOLONG with a sentence where it is too long. */
must_check int place_user(char ret_path[PLACE_MAX], struct fault *why);

/* 0: a folder (no link to one) of `owner`, open to others by no bit beyond `mode`. -EPERM with a
 * sentence: it is something else. */
must_check int place_check(const char *path, uid_t owner, unsigned mode, struct fault *why);

/* Makes it with that mode, or checks that it is ours and no more open than that (-EPERM), and opens
 * it as far. */
must_check int place_make(const char *path, unsigned mode, struct fault *why);
