/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts the user's own meted where none runs. It stays when we end, and ends by itself when its
 * last tenant has left.
 */
#pragma once

#include "cli/admin.h"
#include "cli/driver.h"

/* Connects to this machine's daemon, starting the user's own if there is none. One of the system's
 * that is being restarted is waited for. `program`: a pidfd of the program for which it is wanted;
 * -1: none. When that has ended, nothing is waited for any more: -ECANCELED. */
must_check int daemon_connect(struct admin *admin, const struct driver *driver, int program,
			      struct fault *why);
