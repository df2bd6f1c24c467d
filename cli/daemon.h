/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts the user's own meted if none runs. It outlives us, and ends by itself when its last tenant
 * has left.
 */
#pragma once

#include "cli/admin.h"
#include "cli/driver.h"

/* Connects to this machine's daemon, starting the user's own if there is none. Waits for the
 * system's if it is being restarted. `program`: a pidfd of the program that needs a daemon; -1:
 * none. When that program has ended, the wait ends: -ECANCELED. */
must_check int daemon_connect(struct admin *admin, const struct driver *driver, int program,
			      struct fault *why);
