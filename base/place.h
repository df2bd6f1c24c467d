/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a daemon's sockets are: the system's under /run/mete, a user's own under
 * $XDG_RUNTIME_DIR/mete, or where that is not set, mete-UID under the system's temporary folder.
 * Daemon and CLI ask here, so that they agree.
 */
#pragma once

#include "base/fault.h"

#define PLACE_SYSTEM "/run/mete"

enum { PLACE_MAX = 80 }; /* a socket's path has at most 107 bytes: this leaves room for names */

/* The user's own folder; it need not exist. -ENAMETOOLONG with a sentence where it is too long. */
must_check int place_user(char ret_path[PLACE_MAX], struct fault *why);

/* Makes it, mode 0700, or checks that it is ours alone (an other owner or mode: -EPERM). */
must_check int place_make(const char *path, struct fault *why);
