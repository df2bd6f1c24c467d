/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of meted's books of memory and of its measurements: book.h, measure.h, outside.h,
 * remains.h, watch.h, prices.h.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/list.h"
#include "base/loop.h"
#include "core/ledger/ledger.h"
#include "core/ledger/residual_price.h"
#include "node/devices/nvml.h"
#include "node/bounds.h"

struct daemon;
struct tenant_device;

enum {
	OUTSIDE_SHOWN = 16,
	OUTSIDE_PROGRAM = 32,
};

struct book {
	struct ledger *ledger;	      /* owned */
	struct loop_timer timer;      /* the ledger's next deadline ... */
	uint64_t due_ns;	      /* ... at this time; 0: it is not armed */
	struct loop_timer show_timer; /* while a tenant has not seen a device's latest room */
};

struct measure {
	struct loop_work work;
	struct nvml_process *rows; /* the worker's, DAEMON_GUESTS for each device; owned */
	uint32_t row_count[DAEMON_DEVICES];
	bool measured[DAEMON_DEVICES];
	bool answered[DAEMON_DEVICES];	 /* ever */
	uint64_t nobody[DAEMON_DEVICES]; /* bytes in use, listed for no process */
	uint64_t begun;			 /* how many measurements */
	uint64_t ended;			 /* the number of the last one that has */
	bool of_memory;			 /* the one in progress, or the last one, measures memory */
	uint64_t began_ns;
	struct list wanted, running; /* guests' devices, as in the next three */
	struct list between;	     /* to be measured again after a while */
	struct list open;	     /* and once more before a request is refused */
	struct list answers;
	struct loop_timer timer;       /* while one is under way */
	bool late;		       /* it takes too long: no ask waits for it */
	struct loop_timer again_timer; /* armed while the last measurement of a guest was inexact */
	uint64_t again_ms;
};

struct outside {
	bool wanted;		 /* of all devices, by the next measurement */
	struct loop_timer timer; /* armed while an ask waits for memory outside */
};

/* A process on a device that is not a guest there. */
struct outside_process {
	uint32_t pid, user; /* user: -1 if unknown */
	uint64_t started, used;
	char program[OUTSIDE_PROGRAM];
};

struct watch {
	struct loop_timer timer; /* armed while there is activity on a shared device */
	uint32_t left;		 /* measurements, unless something changes */
	struct list held;	 /* tenants' devices */
};

struct price {
	const char *model; /* NULL: none */
	uint32_t driver_version;
	struct residual_price price;
};

struct prices {
	struct price row[DAEMON_PRICES];
	uint32_t next;
};

/* Of a tenant on a device, or of a user. */
struct remains {
	struct list link; /* of the device, where there are any */
	struct daemon *daemon;
	struct ledger_account *account;
	struct tenant_device *of; /* NULL: the record of ... */
	uid_t user;
	uint32_t index;		      /* of the device */
	struct ledger_holder *holder; /* NULL: nothing is charged */
	uint64_t bytes;
	uint64_t logged; /* `bytes` in the last log message */
	uint64_t nobody; /* bytes of no process on the device, by the last look */
	uint64_t after;	 /* looks are measurements from this one on */
	uint32_t looks;
	bool in_flux; /* more looks are needed */
};
