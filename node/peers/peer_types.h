/* SPDX-License-Identifier: Apache-2.0 */
/* Connections: a tenant's socket has callers, the admin socket has admins. */
#pragma once

#include <stdbool.h>

#include "base/list.h"
#include "base/loop.h"
#include "node/bounds.h"
#include "node/peers/flow.h"
#include "node/peers/peer.h"
#include "node/process.h"

struct guest;
struct tenant;

/* A connection to a tenant's socket. It may end, and its process may reconnect. */
struct caller {
	struct peer peer;
	struct list link; /* of the tenant; not linked: it is ending */
	struct tenant *tenant;
	struct guest *guest; /* NULL: it has not sent HELLO, or a later connection replaced it */
	struct process_identity process;
	int pidfd;
	bool silent;	       /* it was accepted, and has not sent HELLO yet */
	const char *unwelcome; /* the refusal that answers HELLO, whatever it contains; NULL:
				  accepted */
	uint32_t unwelcome_code;
};

struct admins {
	struct list all;
	uint32_t count;
	struct flow flow;
	int fd;
	struct loop_watch listener;
	struct loop_timer pause;
};

/* Descriptors, of which there may be too few: door.h. */
struct door {
	int spare_fd;			    /* closed to free a descriptor when there is no other */
	int guest_fds;			    /* guests get no descriptor above this one */
	int told_fd[DAEMON_FILES_KEPT / 4]; /* of the peers that were told so last; 0: none */
	uint32_t told_most, told_next;
};
