/* SPDX-License-Identifier: Apache-2.0 */
/* A connection of the CLI. */
#pragma once

#include "node/daemon.h"

enum {
	ADMIN_KEEPS = 64,     /* tenants that one connection keeps alive */
	ADMIN_SESSIONS = 512, /* connections, of root or the daemon's own user */
};

struct admin {
	struct peer peer;
	struct list link; /* of the daemon */
	struct daemon *daemon;
	pid_t pid;
	uid_t uid;
	uint64_t started;  /* the process of that number; 0: not known, or it has ended */
	struct user *user; /* NULL: it may do everything */
	uint32_t minor;	   /* of the protocol that it speaks */
	bool greeted;
	bool greeting;	       /* its HELLO is answered when the driver has been asked, */
	bool listing;	       /* and a LIST when its figures have been measured */
	uint64_t hello_look;   /* by which measurement */
	uint32_t *kept, keeps; /* tenants; owned */
	bool awaiting;	       /* an EVENTS_AWAIT must be answered when something happens */
	uint32_t hello_id, list_id, list_tenant, await_id;
	uint64_t await_after;
	unsigned list_rounds; /* the most measurements that it still waits for */
};
