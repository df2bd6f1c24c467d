/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of meted. It has one loop and one thread; everything is reachable from struct daemon,
 * which main() owns. Each part has a struct of its own here (x_types.h beside its headers), and a
 * header for each module says what it does. The parts know each other's structs: they are one
 * program. A part's calls of parts above it are in upcalls.h.
 */
#pragma once

#include "base/loop.h"
#include "base/place.h"
#include "base/board.h"
#include "node/devices/device_types.h"
#include "node/memory/memory_types.h"
#include "node/move/move_types.h"
#include "node/options.h"
#include "node/peers/peer_types.h"
#include "node/state/restore_types.h"
#include "node/tenants/guest_types.h"
#include "node/tenants/tenant_types.h"
#include "node/time/time_types.h"
#include "node/users/user_types.h"

struct host_waiting;
struct kubernetes;
struct looks;
struct mark;
struct native;
struct registration;
struct shown;
struct standby;

/* Waits for a GPU: missing.h. */
struct missing {
	char *why;	/* there are no GPUs, because of this; NULL: there are */
	bool no_driver; /* it could not be opened */
	bool again;	/* GPUs have appeared, or are others: meted restarts */
	struct loop_timer timer;
	uint64_t wait_s;
};

/* Notices that MIG divides GPUs in another way: devices/divided.h. */
struct divided {
	struct loop_timer timer;
	struct loop_work work;
	uint64_t before, now; /* nvml_news() of the last looks */
	bool hurries, sure;   /* we have divided one: before the next look, or this one */
	int r;		      /* nvml_look_again()'s */
	struct fault why;
};

/* What devices' boards say of themselves: devices/boards.h. */
struct boards {
	struct loop_work work;
	struct loop_timer timer; /* while the driver is asked */
	bool late;		 /* it takes too long: nobody waits for it */
	struct gpu_board asked[DAEMON_DEVICES], said[DAEMON_DEVICES]; /* `asked`: the worker's */
	uint32_t devices, known;				      /* so many of each */
	uint64_t since_ns; /* when it was said; 0: it was not */
	void (*told)(void *owner);
	void *owner;
};

/* Bounds the messages about peers' misbehaviour. */
struct complaints {
	uint64_t tokens, filled_ns;
};

/* Who waits for long: waits.h. */
struct waits {
	struct list all; /* those that may wait */
	struct loop_timer timer;
	uint64_t next_ns; /* when all of them are looked at */
	/* Of pods' tenants; NULL: nobody wants to know. */
	bool (*told)(void *owner, const struct host_waiting *news);
	void *owner;
};

/* What has happened: events.h. */
struct event;
struct events_file;
struct events {
	struct event **event; /* in their order; NULL: there are none */
	uint32_t count;
	uint64_t last;		  /* number that was given out */
	uint32_t awaited;	  /* by so many connections of the CLI */
	struct events_file *file; /* NULL: they end with us */
};

struct daemon {
	struct loop loop;
	struct options options;
	char place[PLACE_MAX];
	char log_path[PLACE_MAX + 16]; /* the path of our log, if it is our file */
	int lock_fd;
	uint64_t generation;
	uint32_t clock_dilation;
	struct loop_timer watchdog;
	struct loop_signal terminate, interrupt, hang_up; /* the last: again.c */
	bool stopping;
	struct complaints complaints;
	struct missing missing;
	bool stands_by;		      /* another meted has the lock */
	struct standby *standby;      /* standby.h; NULL: we have not stood by, and nobody does */
	struct registration *carried; /* from the stand-by to the serving meted: plugin/host.h */

	struct nvml *nvml;
	uint32_t devices; /* those that are gone included */
	uint32_t places;  /* bound of `devices`: MIG may make more while we run */
	uint32_t present; /* of the devices: those that are not gone */
	struct device device[DAEMON_DEVICES];
	struct reserve reserve;
	struct mark *marks; /* of each device */
	struct divided divided;
	struct boards boards;

	struct flows flows;
	struct admins admins;
	struct door door;

	struct tenants tenants;
	struct users users;
	struct restore restore;

	struct looks *looks; /* at processes, in /proc: base/process_look.h */

	struct book book;
	struct measure measure;
	struct outside outside;
	struct watch watch;
	struct native *native; /* memory/native.h; NULL: the driver limits nothing */
	struct prices prices;

	struct events events;
	struct waits waits;
	struct gates gates;
	struct schedule schedule;
	struct movement move;

	struct kubernetes *kubernetes; /* NULL: not configured */
	struct shown *shown;	       /* over HTTP; NULL: not configured */
};

/* Whether another message about a peer's misbehaviour may be logged: they must not fill the log. */
bool daemon_may_complain(struct daemon *d);
/* The id of one of the daemon's devices by UUID, prefix of a UUID, or index; -ENOENT; -ENOTUNIQ:
 * several UUIDs have that prefix. */
must_check int daemon_find_device(struct daemon *d, const char *name, uint32_t *ret_index);
