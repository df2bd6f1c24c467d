/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of meted. It has one loop and one thread; everything is reachable from struct daemon,
 * which main() owns. Each part has a struct of its own here (x_types.h beside its headers), and a
 * header for each module says what it does. The parts know each other's structs: they are one
 * program. What a part asks of one that is above it is in upcalls.h.
 */
#pragma once

#include "base/loop.h"
#include "base/place.h"
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

struct kubernetes;
struct mark;

/* Waits for a GPU: missing.h. */
struct missing {
	char *why;	/* there are no GPUs, because of this; NULL: there are */
	bool no_driver; /* it could not be opened */
	bool again;	/* GPUs have appeared: meted restarts */
	struct loop_timer timer;
	uint64_t wait_s;
};

/* Of lines about peers' misbehaviour. */
struct complaints {
	uint64_t tokens, filled_ns;
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
	struct loop_signal terminate, interrupt;
	bool stopping;
	struct complaints complaints;
	struct missing missing;

	struct nvml *nvml;
	uint32_t devices;
	struct device device[DAEMON_DEVICES];
	struct reserve reserve;
	struct mark *marks; /* of each device */

	struct flows flows;
	struct admins admins;
	struct door door;

	struct tenants tenants;
	struct users users;
	struct restore restore;

	struct book book;
	struct measure measure;
	struct outside outside;
	struct watch watch;
	struct prices prices;

	struct gates gates;
	struct schedule schedule;
	struct movement move;

	struct kubernetes *kubernetes; /* NULL: not configured */
};

/* missing.c */
/* Replaces everything else that is opened at start. -errno: its file does not ask for this, or
 * cannot be read. */
must_check int missing_open(struct daemon *d, struct fault *why);
void missing_close(struct daemon *d);
/* Executes the same program with the same arguments in our place. -errno: that failed. */
must_check int missing_again(char **argv);

/* daemon.c */
must_check int daemon_listen(const char *path, unsigned mode, uid_t owner, int *ret_fd,
			     struct fault *why);
/* The limit on descriptors, and the spare one. */
void daemon_open_files(struct daemon *d);
/* Accepts a connection whose descriptor is at most `most`; -EAGAIN; or another error. -EMFILE:
 * the caller was told, if possible; the listener should pause for a while. */
must_check int daemon_accept(struct daemon *d, int listen_fd, int most);
/* Something has left: a user's daemon exits with its last tenant. */
void daemon_maybe_end(struct daemon *d);
/* Whether another line about a peer's misbehaviour may be logged; such lines must not fill the
 * log. */
bool daemon_may_complain(struct daemon *d);
/* The id of one of the daemon's devices by UUID, prefix of a UUID, or index; -ENOENT; -ENOTUNIQ:
 * several UUIDs have that prefix. */
must_check int daemon_find_device(struct daemon *d, const char *name, uint32_t *ret_index);

/* book.c */
must_check int book_open(struct daemon *d, struct fault *why);
void book_close(struct daemon *d);
/* Carries out the ledger's actions and publishes the new figures: changed figures of a tenant at
 * once, a device's room to all its tenants soon. Call it after every event. */
void book_pump(struct daemon *d);
/* What a device has free. */
uint64_t book_room(const struct daemon *d, uint32_t device);
/* What its guests were granted but do not use. */
uint64_t book_credit(const struct daemon *d, uint32_t device);
/* Updates the reports of all guests of a device, for display; at a limited rate, however many
 * ask. */
void book_glance(struct daemon *d, uint32_t device);
/* Reads what the guests' pages report as allocated. */
void book_refresh_guest(struct guest *g);
void book_refresh_all(struct daemon *d);

/* leftover.c: removes the folders of tenants that neither live nor are absent. Call it only after
 * all are back. */
void leftover_remove(struct daemon *d);

/* tenant.c */
struct tenant_spec {
	uint32_t id; /* 0: a new one */
	uid_t owner;
	const char *name;
	const char *texts[SHARE_FIELDS]; /* share.def's order; NULL: default */
	struct tenant *outer;		 /* NULL: none */
	uint32_t devices;
	uint32_t device[WIRE_DEVICES];
};
/* The share that its texts describe. -EINVAL: one of them is not accepted. */
must_check int tenant_spec_share(const struct tenant_spec *spec, struct share *ret_share);
must_check int tenant_make(struct daemon *d, const struct tenant_spec *spec,
			   struct tenant **ret_tenant, struct fault *why);
struct tenant *tenant_find(struct daemon *d, uint32_t id);
struct tenant *tenant_find_by_name(struct daemon *d, const char *name);
/* The path of a tenant's folder that a former daemon made; -ENOENT. */
must_check int tenant_find_folder(const struct daemon *d, uint32_t id, char *ret_folder,
				  size_t size);
/* Ends the tenant if nothing keeps it. */
void tenant_maybe_end(struct tenant *t);
void tenant_end(struct tenant *t);
/* The tenant lives until its keeper releases it: keepers-- and tenant_maybe_end(), or
 * tenant_retire(). */
void tenant_keep(struct tenant *t);
/* Its keeper releases it, and no process can join any more: it ends when its processes have
 * ended. */
void tenant_retire(struct tenant *t);
/* Publishes the figures of one of its devices; tenant_show_share() publishes the rest of its
 * share. */
void tenant_show(struct tenant *t, uint32_t device);
/* Of these figures only what the device's other tenants change; `credit`: book_credit(). */
void tenant_show_room(struct tenant_device *at, uint64_t credit);
void tenant_show_share(struct tenant *t);

/* rows.c: the displayed figures of a device, and of a tenant on one of its devices. Call
 * book_refresh_all() first. */
void rows_device(struct daemon *d, uint32_t index, struct wire_device_row *ret_row);
void rows_tenant(struct tenant *t, uint32_t device, struct wire_tenant_row *ret_row);
/* Problems that callers should know of, one per line. */
void rows_trouble(const struct daemon *d, wire_text *ret_text);

/* admin.c */
/* Whether there may be more connections to accept. */
bool admin_accept(struct daemon *d);
/* A measurement has ended, or takes too long. */
void admin_measured(struct daemon *d);
void admin_close_all(struct daemon *d);

/* reserve.c */
#define RESERVE_MOST_NS (86400ull * 1000000000)
must_check int reserve_open(struct daemon *d);
/* -EBUSY: it is taken. `hold_ns` 0: until reserve_drop(). */
struct reserve_asker {
	const void *owner;
	pid_t pid;
	uid_t uid;
};
must_check int reserve_take(struct daemon *d, uint32_t device, const struct reserve_asker *asker,
			    uint64_t hold_ns, struct fault *why);
void reserve_drop(struct daemon *d, const void *owner);
/* Processes that have ended hold nothing, even if what keeps their reservations (the process that
 * `mete pick` leaves behind) has not noticed yet. */
void reserve_release_ended(struct daemon *d);
/* A reservation from the journal: it is valid if the process lives, or the time is not over. */
void reserve_return(struct daemon *d, uint32_t device, const struct reservation *was);
bool reserve_any(const struct daemon *d);
void reserve_close(struct daemon *d);

/* restore.c: each writes one record, or does nothing if there is no journal. */
must_check int restore_open(struct daemon *d, struct fault *why);
void restore_tenant(struct tenant *t);
void restore_tenant_gone(struct daemon *d, uint32_t id);
void restore_guest(struct guest *g);
/* A tenant holds more on a device than the journal says; call it before the grant is sent. */
void restore_held(struct tenant *t, uint32_t device, uint64_t held_bytes,
		  const struct ledger_sums *sums);
/* What the tenant's processes have left behind there has changed. */
void restore_behind(struct tenant *t, uint32_t device);
void restore_guest_gone(struct guest *g);
/* A device was reserved by `mete pick`, or returned. */
void restore_reserved(struct daemon *d, uint32_t device);
/* If no guests are expected any more, asks are answered from now on. book_pump() follows. */
void restore_release(struct tenant *t);
