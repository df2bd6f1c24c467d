/* SPDX-License-Identifier: Apache-2.0 */
/* A tenant, and what it is on each of its devices. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/list.h"
#include "base/loop.h"
#include "core/residency/residency.h"
#include "core/share/share.h"
#include "core/turns/alike.h"
#include "core/turns/turns.h"
#include "core/turns/turns_kept.h"
#include "node/memory/memory_types.h"
#include "node/move/move_types.h"
#include "node/peers/flow.h"
#include "node/tenants/page.h"
#include "node/time/time_types.h"
#include "wire/page.h"

struct daemon;
struct share_text;
struct store;
struct tenant;
struct user;

/* Of waits.c: what has gone on for long. */
struct long_wait {
	struct list link; /* of the daemon, while it may wait */
	uint32_t kind;	  /* enum host_wait */
	bool changed;	  /* it may be over */
	bool told;	  /* of a pod: the Kubernetes part was told */
	bool before;	  /* ... by a meted before this one */
	uint8_t unheard;  /* ... and is judged after so many looks, when all guests are back */
	uint64_t since_ns, judged_ns;
	uint64_t refusals; /* until it was judged to be long */
	uint64_t last_ns;  /* when its pod was last told that one had begun; 0: never */
};

struct tenant_device {
	struct list link; /* of the device */
	struct tenant *tenant;
	uint32_t index;	 /* of the daemon's devices */
	uint32_t behind; /* the tenant that its memory waits for, by the last check; 0: none */
	struct ledger_account *account;
	uint64_t most_bytes;	 /* what the journal says it may hold; never less than it holds */
	uint64_t highest_limit;	 /* likewise: the highest that it ever had */
	uint64_t may_bytes;	 /* it may be found with as much: host_measured; 0: no look yet */
	uint32_t in_flux;	 /* guests whose residual is being measured, and `remains` */
	uint32_t owed;		 /* guests to which a measurement is owed */
	struct remains *remains; /* owned; NULL: its processes have left no memory behind */
	uint64_t looked_ns;	 /* when all its guests were last measured */
	struct list held;	 /* of the daemon: its asks wait for a measurement, */
	uint64_t held_until;	 /* namely this one */
	struct gate_wait waiting;
	uint64_t closing_ns;	   /* since when the gate is closing, if it is */
	uint64_t longest_drain_ns; /* so long a close took at most, of those that ended */
	struct late late;
	struct long_wait wait;
	enum gate_test test;
	bool logged_beside; /* in the log */
	bool told_parked;   /* by an event */
	bool seated;	    /* it takes part in turns: it has guests */
	bool joined;	    /* it has a place among memory that moves: `member` */
	struct turns_seat seat;
	struct turns_kept *time_owed; /* owned; as the journal has it; NULL: it says nothing */
	struct alike_seat alike;
	struct residency_member member;
	struct list move_due;  /* of the daemon: its guests may have to be told something */
	struct list asks;      /* for movable memory; move_ask.c */
	uint64_t move_refused; /* how many of those were refused */
	uint64_t returned_ns;  /* when an event last told that its memory came back; 0: never */
	uint32_t ask_count;
	bool busy_known; /* drift.c */
	uint32_t busy_milli, busy_charged_milli;
};

struct tenant {
	struct list link;    /* of the daemon */
	struct list same_id; /* the same, of those with the same remainder */
	struct daemon *daemon;
	uint32_t id;
	uid_t owner;
	struct user *user;    /* NULL: nothing bounds the owner */
	struct tenant *outer; /* the tenant that encloses it; NULL: none */
	uint32_t nested;      /* tenants within it */
	pid_t aged_pid;	      /* whose start is the next one, in ticks since the machine started */
	uint64_t aged_started;
	uint64_t made_ns;
	uint64_t launched_ns; /* launches.c: when it was last seen to have submitted work, or first
				 checked; 0: not known */
	char *name;	      /* owned, as is the next one */
	struct share_text *texts; /* the share as it was written: share_text.h */
	struct share share;
	struct page page;
	struct wire_tenant_page *shown; /* page.memory */
	char *socket;			/* owned; its folder: tenant_folder() */
	int listen_fd;
	struct loop_watch listener;
	struct flow_pause pause; /* of the listener, while it is `resting` */
	struct flow flow;
	struct flow_item calls; /* what the listener wants */
	struct list guests, callers;
	struct list processes; /* that keep it, see keeper.h */
	uint32_t guest_count, stranger_count, silent_count, keepers;
	uint32_t expected_count; /* guests from before this daemon that have not stated what they
				    hold */
	bool resting;
	bool pods;	/* made for the Kubernetes part */
	bool observes;	/* it has next to no share, and sees whole devices by NVML */
	bool suspended; /* by `mete suspend`: none of its memory may be on a device */
	uint64_t
		suspended_ns; /* ... since then, of the turns' clock; 0: since before meted began */
	struct move_wait *suspending; /* owned; NULL: nobody waits for that */
	struct store *store;	      /* owned; NULL: nobody has asked for it */
	struct turns_tenant turns;
	uint64_t unknown_functions; /* of guests that have left */
	uint64_t joins;		    /* guests, since this daemon started */
	/* kept: by a connection, since this daemon started, or nobody returns to keep it. */
	bool leaving, kept;
	uint32_t devices;
	struct tenant_device device[]; /* `devices` of them */
};

struct tenants {
	struct list all, by_id[DAEMON_IDS];
	struct list guests[DAEMON_PIDS]; /* of all of them */
	uint32_t count, guest_count;
	uint32_t last_id, last_guest; /* numbers that were given out */
};

/* The index by which the tenant and its guests know the device. */
static inline uint32_t tenant_index(const struct tenant_device *at)
{
	return (uint32_t)(at - at->tenant->device);
}
