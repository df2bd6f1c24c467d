/* SPDX-License-Identifier: Apache-2.0 */
/* A guest, and what it is on each of its tenant's devices. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/list.h"
#include "base/loop.h"
#include "core/ledger/ledger.h"
#include "core/ledger/residual.h"
#include "node/move/move_types.h"
#include "node/peers/flow.h"
#include "node/process.h"
#include "node/tenants/page.h"
#include "wire/page.h"
#include "wire/wire.h"

struct caller;
struct guest;
struct native_member;
struct tenant;

struct guest_device {
	struct guest *guest;
	struct ledger_holder *holder;
	struct residual residual;
	struct move_guest move;
	struct list measure; /* of the daemon: to be measured, or being measured */
	struct list between, open;
	struct list answer; /* likewise: RESIDUAL_CHECK `check_id` must be answered */
	uint32_t check_id;
	uint32_t unsteady;  /* so many looks must find its charge unchanged; node/memory/watch.c */
	bool excused;	    /* although it could not be measured */
	bool in_flux, owed; /* counted in its tenant's */
	bool stated, owes_drain;
	bool idle; /* it sent IDLE, and no WANTS since; schedule.c */
	uint64_t seen_peak;
	uint64_t seen_changes;	/* when it was measured last */
	uint64_t context_bytes; /* what each of its contexts was measured to take; 0: not yet */
};

/* A process, as long as it lives (or until it becomes another program). What it holds on the
 * device does not depend on whether it is connected. A tenant has each process at most once. */
struct guest {
	struct list link;     /* of the tenant; not linked: it has left */
	struct list same_pid; /* of those whose pids have the same remainder */
	struct tenant *tenant;
	struct caller *caller; /* NULL: it is away */
	uint32_t id;
	pid_t pid;
	struct process_identity process;
	int pidfd;
	int memory_fd;		 /* process_open_memory(); -1: it cannot be looked at */
	struct flow_pause again; /* while it is not clear whether it is that program still */
	unsigned asked_again;	 /* so often, since it is away */
	struct loop_watch death;
	struct page page;
	const struct wire_own_page *own; /* page.memory: believed within bounds only */
	char *program;			 /* owned; NULL: not known */
	struct list ungrouped; /* memory/native.h: nobody has looked for its control group yet */
	struct native_member *member; /* of a container's group; NULL: of none, or not known */
	uint32_t user;		      /* -1: not known */
	uint32_t driver_version;      /* as it reports */
	uint64_t came_ns;
	uint64_t copy; /* likewise: which copy of the library in its process; 0: not reported */
	bool complained;
	bool stated;   /* it has stated what it holds, and its page covers that, too */
	bool known;    /* it had done so on an earlier connection, and holds what it was granted */
	bool restored; /* it existed before this daemon */
	bool expected; /* likewise, and has not done so yet */
	bool asked;    /* to count `submitted` again */
	uint64_t settles;	      /* RESIDUAL_SETTLE messages received on this connection */
	uint64_t submitted, counts;   /* of its page, as launches.c saw them last */
	wire_uuid lends;	      /* the name under which it lends memory; zero: it does not */
	struct guest_device device[]; /* its tenant's */
};
