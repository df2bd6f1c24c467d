/* SPDX-License-Identifier: Apache-2.0 */
/* A device as meted knows it, and who has reserved it. */
#pragma once

#include "base/loop.h"
#include "core/residency/residency.h"
#include "core/turns/alike.h"
#include "core/turns/turns.h"
#include "node/devices/nvml.h"
#include "node/bounds.h"
#include "node/memory/memory_types.h"
#include "node/time/time_types.h"

struct daemon;

struct device {
	const struct nvml_device *info;
	uint64_t reserve_bytes;
	uint32_t registered;	 /* tenants */
	uint64_t promised_bytes; /* the sum of their limits */
	uint32_t inhabited;	 /* tenants that have guests */
	bool cordoned;		 /* it takes no new tenants */
	struct list remains;	 /* of tenants whose processes have left memory behind */
	struct list tenants;
	bool unshown; /* some of them still see an older room, or number of tenants, than these: */
	uint64_t shown_room;
	uint32_t shown_registered;
	uint64_t glanced_ns; /* when book_glance() read the reports last */
	struct turns_device turns;
	bool shown_governed; /* its tenants' guests know that there are turns */
	struct alike alike;
	bool shown_listens; /* and that `alike` must know when they are idle */
	bool logged_unfair; /* in the log */
	struct residency residency;
	uint32_t members;	  /* of `residency` */
	bool relisten;		  /* which guests must report idleness may have changed */
	bool expecting;		  /* guests of a former daemon have yet to state what they hold */
	uint64_t passed_bytes;	  /* granted by `residency`, but not by the ledger yet */
	uint64_t uncleared_bytes; /* of its part of the store: being cleared */
	uint64_t kept_bytes;	  /* likewise: not given back although it was to be */
	struct list plain;	  /* asks for unmovable memory; room is being made ... */
	uint64_t plain_bytes;	  /* ... of this size */
	struct device_busy busy;
	struct outside_process outside[OUTSIDE_SHOWN]; /* the largest of `outside_count` */
	uint32_t outside_count;
	uint64_t outside_ns;	/* when that was seen */
	uint64_t outside_until; /* an answer waits for this measurement */
};

/* A device that MIG has taken is shown as long as it has tenants. */
static inline bool device_is_shown(const struct device *device)
{
	return !device->info->gone || device->registered;
}

/* A device that `mete pick` reserved, while its connection lives or until a time. A reservation
 * from before this daemon has no connection: it lives as long as the picker's process, which has
 * become its program by then. */
struct reservation {
	const void *owner; /* the connection, or this struct; NULL: none, or timed */
	uint64_t until_ns; /* of a timed one */
	pid_t pid;
	uid_t uid;
	uint64_t started;
	struct daemon *daemon; /* these three only where the owner is this struct */
	struct loop_watch death;
	int pidfd;
};

struct reserve {
	struct reservation device[DAEMON_DEVICES];
	struct loop_timer timer; /* the next timed one is over */
};

static inline bool reserve_holds(const struct reservation *it)
{
	return it->owner || it->until_ns > loop_now_ns();
}
