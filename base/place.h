/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Defines where a daemon's sockets are: the system's under /run/mete, a user's own under
 * $XDG_RUNTIME_DIR/mete or, if that is not set, under mete-UID in the system's temporary folder.
 * Daemon and CLI both use this, so that they agree.
 *
 * Another user may have created such a folder first. Its contents are trusted only if the folder
 * has the right owner and no other user may write to it.
 */
#pragma once

#include <sys/types.h>

#include "base/fault.h"

#define PLACE_SYSTEM "/run/mete"
/* In a container: its tenant's folder is at PLACE_SYSTEM, our library and the driver's files here.
 */
#define PLACE_GUEST	   "/usr/lib/mete/libmete.so"
#define PLACE_DRIVER	   "/usr/lib/mete/driver"
#define PLACE_GUEST_SOCKET PLACE_SYSTEM "/guest.sock"
/* In a user's folder: locked (flock) by the process that starts a daemon, until it is connected. */
#define PLACE_STARTING "start.lock"

enum {
	PLACE_MAX = 80, /* a socket's path has at most 107 bytes: this leaves room for names */
	PLACE_PRIVATE = 0700,
	/* Other users can only reach folders below it whose names they know. */
	PLACE_PASSAGE = 0711,
	PLACE_READABLE = 0755, /* the most that is believed of a system's */
};

/* Outcomes of place_check(). */
enum {
	PLACE_ABSENT = 1, /* there is nothing of that name */
};

/* The user's own folder; it need not exist. -ENAMETOOLONG with a sentence if it is too long. */
must_check int place_user(char ret_path[PLACE_MAX], struct fault *why);

/* 0: it is a folder (not a link to one) of `owner`, with no permission bits beyond `mode`.
 * -EPERM with a sentence: it is something else. */
must_check int place_check(const char *path, uid_t owner, unsigned mode, struct fault *why);

/* Creates it with that mode, or checks that it is ours and has no further permissions (-EPERM),
 * and gives it exactly that mode. */
must_check int place_make(const char *path, unsigned mode, struct fault *why);
