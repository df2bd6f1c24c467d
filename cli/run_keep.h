/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the tenant of `mete run` as long as its program runs, also when its meted ends. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cli/admin.h"
#include "cli/driver.h"

/* The tenant's meted, and everything that keeps the tenant when that meted ends. */
struct run_kept {
	struct admin *admin;
	const struct driver *driver;
	uint32_t tenant;
	pid_t child;
	int pidfd;	 /* of the program */
	bool system;	 /* it is the system's, which systemd or an administrator restarts */
	unsigned missed; /* how often connecting failed; 0: we are connected */
	unsigned replaced;
};

/* Lets the program keep the tenant, too, in case we are killed. */
must_check int run_keep(struct admin *admin, uint32_t tenant, pid_t child, struct fault *why);

/* Waits for the program, and restarts the daemon if necessary. */
void run_keep_until_end(struct run_kept *it);
