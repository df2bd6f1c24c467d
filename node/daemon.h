/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What meted consists of. One loop, one thread; everything hangs off struct daemon, which main()
 * owns. The parts know each other's structs: they are one program.
 *
 *	book.c     does what core/ledger.h decides; keeps the tenant pages' figures
 *	measure.c  what the driver says that processes hold beyond what their guests track
 *	tenant.c   tenants: socket, page, gates, life
 *	guest.c    a guest's connection: identity, messages, death
 *	admin.c    the CLI's connections
 *	reserve.c  devices that `mete pick` gave out
 *	restore.c  the journal's records of all this, and coming back from them
 *	record.c   how a record is written
 *	process.c  which process a number means
 */
#pragma once

#include <stdbool.h>

#include "base/list.h"
#include "base/loop.h"
#include "base/place.h"
#include "core/ledger.h"
#include "core/share.h"
#include "node/journal.h"
#include "node/nvml.h"
#include "node/options.h"
#include "node/page.h"
#include "node/peer.h"
#include "wire/page.h"

enum {
	DAEMON_DEVICES = 64,
	DAEMON_TENANTS = 1024,
	DAEMON_GUESTS = 2048,
	DAEMON_GUESTS_OF_TENANT = 512,
	DAEMON_STRANGERS_OF_TENANT = 32, /* connections that are told why they are not welcome */
	DAEMON_HOLDERS = 4096,
	DAEMON_ASKS = 2048,
	DAEMON_ASKS_OF_GUEST = 64,
	/* Measurements until a figure is as good as it gets: one that had begun before, and as many
	 * as are tried of a guest that does not stand still. */
	MEASURE_ROUNDS = 6,
};

struct daemon;
struct tenant;
struct guest;

struct device {
	const struct nvml_device *info;
	uint64_t reserve_bytes;
	uint32_t registered;	 /* tenants */
	uint64_t promised_bytes; /* the sum of their limits */
	uint64_t context_bytes;	 /* the least residual per context that was measured; 0: never */
};

/* A device that a picker has: while its connection lives, or until then. One of before this daemon
 * has no connection: it lives as long as the picker's process, which is its program by then. */
struct reservation {
	const void *owner; /* the connection, or this struct; NULL: none, or timed */
	uint64_t until_ns; /* of a timed one */
	pid_t pid;
	uint64_t started;
	struct daemon *daemon; /* these three only where the owner is this struct */
	struct loop_watch death;
	int pidfd;
};

/* A gate's change that somebody waits for. */
struct gate_wait {
	struct peer *peer; /* NULL: nobody */
	uint32_t id;
};

struct tenant_device {
	uint32_t index; /* of the daemon's devices */
	struct ledger_account *account;
	uint64_t most_bytes; /* what the journal says it may hold: never less than it holds */
	struct gate_wait waiting;
};

/* A guest that was there before this daemon was: it must say what it holds, or die. */
struct expected {
	struct list link; /* of the tenant */
	struct tenant *tenant;
	struct loop_watch death;
	pid_t pid;
	uint64_t started;
	int pidfd;
};

struct tenant {
	struct list link; /* of the daemon */
	struct daemon *daemon;
	uint32_t id;
	uid_t owner;
	char name[WIRE_TEXT_MAX + 1];
	char *texts[SHARE_FIELDS]; /* the share as it was written, in share.def's order; NULL:
				      default */
	struct share share;
	struct page page;
	struct wire_tenant_page *shown; /* page.memory */
	char folder[108], socket[108];
	int listen_fd;
	struct loop_watch listener;
	struct list guests, expected;
	struct list processes; /* that keep it, see keeper.h */
	uint32_t guest_count, stranger_count, keepers;
	bool leaving, kept;	    /* kept: by a connection, since this daemon started */
	uint64_t unknown_functions; /* of guests that have left */
	uint64_t joins;		    /* guests, since this daemon started */
	uint32_t devices;
	struct tenant_device device[WIRE_DEVICES];
};

struct guest_device {
	struct guest *guest;
	struct ledger_holder *holder;
	/* Reserved for contexts that are there now: to be measured. More than there is: all. */
	uint64_t settling_bytes;
	uint64_t measuring_bytes; /* of these: when the measurement began */
	uint64_t seen_allocated;  /* likewise */
	uint64_t seen_moved;
	uint64_t seen_peak;
	uint32_t tries;
	bool measure, measuring, stated, owes_drain;
	bool inexact;			  /* it did not stand still when it was measured last */
	uint64_t still_moved, still_used; /* of the measurement before ... */
	uint32_t still;			  /* ... and how often it was the same */
	uint32_t doubts; /* exact measurements in a row that left some bytes in doubt */
	/* RESIDUAL_CHECK `check_id` is to be answered; by the measurement under way; now. */
	bool check, checking, checked;
	uint32_t check_id;
	uint64_t most_granted; /* since the measurement began */
};

struct guest {
	struct peer peer;
	struct list link; /* of the tenant; not linked: it has left */
	struct tenant *tenant;
	uint32_t id;
	pid_t pid;
	uint64_t started; /* the process's start time: pids come back */
	int pidfd;
	struct loop_watch death;
	struct page page;
	const struct wire_own_page *own; /* page.memory: believed within bounds only */
	char program[WIRE_TEXT_MAX + 1];
	bool joined, returning, complained;
	uint64_t settles;      /* RESIDUAL_SETTLE messages that were heard */
	const char *unwelcome; /* the answer to HELLO, whatever it says; NULL: welcome */
	uint32_t unwelcome_code;
	struct guest_device device[WIRE_DEVICES];
};

struct daemon {
	struct loop loop;
	struct options options;
	char place[PLACE_MAX];
	int lock_fd;
	uint64_t generation;
	uint32_t clock_dilation;

	struct nvml *nvml;
	uint32_t devices;
	struct device device[DAEMON_DEVICES];
	struct reservation reserved[DAEMON_DEVICES];
	struct loop_timer reserve_timer;

	struct ledger *ledger;
	struct loop_timer ledger_timer;

	struct list tenants;
	uint32_t tenant_count, guest_count, admin_count;
	uint32_t last_tenant, last_guest;
	int admin_fd;
	struct loop_watch admin_listener;
	struct list admins;

	struct journal journal;
	struct loop_timer grace; /* after a start: who has not come back is not waited for longer */
	bool restoring;		 /* until then */

	struct loop_work measure;
	struct nvml_process *processes; /* the worker's, DAEMON_GUESTS for each device */
	uint32_t process_count[DAEMON_DEVICES];
	bool measured[DAEMON_DEVICES];
	bool measure_again;
	struct loop_timer measure_timer; /* while one is under way */
	bool measure_late;		 /* it takes too long: nobody waits for it */
	struct loop_timer again_timer;	 /* while the last measurement of a guest was inexact */
	uint64_t again_ms;

	struct loop_timer watchdog;
	struct loop_signal terminate, interrupt;
	uint64_t complaint_tokens, complaint_ns;
	bool stopping;
};

/* daemon.c */
must_check int daemon_listen(const char *path, unsigned mode, int *ret_fd, struct fault *why);
/* A connection, or -EAGAIN, or why there is none. */
must_check int daemon_accept(struct daemon *d, int listen_fd);
/* Something left: a user's daemon ends with its last tenant. */
void daemon_maybe_end(struct daemon *d);
/* Whether one more line about a peer's misbehaviour may be written: they must not fill the log. */
bool daemon_may_complain(struct daemon *d);
/* The id of one of the daemon's devices by UUID or index; -ENOENT. */
must_check int daemon_find_device(struct daemon *d, const char *name, uint32_t *ret_index);

/* book.c */
must_check int book_open(struct daemon *d, struct fault *why);
void book_close(struct daemon *d);
/* Does what the ledger wants done, and shows the new figures. After every event. */
void book_pump(struct daemon *d);
/* What the guests' pages say they allocated. */
void book_refresh_guest(struct guest *g);
void book_refresh_all(struct daemon *d);

/* measure.c */
must_check int measure_open(struct daemon *d);
void measure_close(struct daemon *d);
/* Measures the guests that are marked, on the worker. */
void measure_start(struct daemon *d);
/* Asks for so much: where that would be refused, what the last measurements left open is measured
 * again, as who asks stands still. The answer waits for it, see ledger_unsettled(). */
void measure_asker(struct guest_device *at, uint64_t bytes);
/* Measures it, and then answers RESIDUAL_CHECK `id`: has its tenant more than it may? */
void measure_check(struct guest_device *at, uint32_t id);
/* Measures everybody who has said what it holds. admin_measured() follows, up to MEASURE_ROUNDS
 * times. */
void measure_all(struct daemon *d);
/* Whether figures that are being measured are worth waiting for. */
bool measure_under_way(const struct daemon *d);

/* tenant.c */
struct tenant_spec {
	uint32_t id; /* 0: a new one */
	uid_t owner;
	const char *name;
	const char *texts[SHARE_FIELDS]; /* share.def's order; NULL: default */
	uint32_t devices;
	uint32_t device[WIRE_DEVICES];
};
must_check int tenant_make(struct daemon *d, const struct tenant_spec *spec,
			   struct tenant **ret_tenant, struct fault *why);
/* Changes one field of the share, live. */
must_check int tenant_set(struct tenant *t, const char *key, const char *value, struct fault *why);
struct tenant *tenant_find(struct daemon *d, uint32_t id);
struct tenant *tenant_find_by_name(struct daemon *d, const char *name);
/* Ends it if nobody keeps it. */
void tenant_maybe_end(struct tenant *t);
void tenant_end(struct tenant *t);
void tenant_show(struct tenant *t);
/* Changes the gate; `wait` is answered DONE when every guest has drained. */
void tenant_gate(struct tenant *t, uint32_t device, bool open, const struct gate_wait *wait);
/* A guest drained, joined or left: perhaps that was the last that a close waited for. */
void tenant_gate_check(struct tenant *t, uint32_t device);
/* An admin connection is gone: nobody is to be answered there. */
void tenant_forget_peer(struct tenant *t, const struct peer *peer);

/* guest.c */
void guest_accept(struct tenant *t);
/* It has left: everything that it held is given back. */
void guest_leave(struct guest *g, const char *reason);
void guest_tell_gate(struct guest *g, uint32_t device);
/* The answers to its asks. */
void guest_answer(struct guest *g, const struct ledger_action *action);

/* admin.c */
void admin_accept(struct daemon *d);
/* A measurement has ended, or takes too long. */
void admin_measured(struct daemon *d);
void admin_close_all(struct daemon *d);

/* reserve.c */
#define RESERVE_MOST_NS (86400ull * 1000000000)
must_check int reserve_open(struct daemon *d);
/* -EBUSY: somebody has it. `hold_ns` 0: until reserve_drop(). */
must_check int reserve_take(struct daemon *d, uint32_t device, const void *owner, pid_t pid,
			    uint64_t hold_ns, struct fault *why);
void reserve_drop(struct daemon *d, const void *owner);
/* What the journal says: it is believed where the process lives, or the time is not over. */
void reserve_return(struct daemon *d, uint32_t device, const struct reservation *was);
bool reserve_holds(const struct reservation *it);
bool reserve_any(const struct daemon *d);
void reserve_close(struct daemon *d);

/* restore.c: each writes one record, or does nothing where there is no journal. */
must_check int restore_open(struct daemon *d, struct fault *why);
void restore_tenant(struct tenant *t);
void restore_tenant_gone(struct daemon *d, uint32_t id);
void restore_guest(struct guest *g);
/* A tenant holds more on a device than the journal knows: before anybody is told. */
void restore_held(struct tenant *t, uint32_t device, uint64_t held_bytes, uint64_t limit_bytes);
void restore_guest_gone(struct guest *g);
/* A device was given to a picker, or given back. */
void restore_reserved(struct daemon *d, uint32_t device);
/* A guest that was expected is back, with all that it had to say. */
void restore_returned(struct tenant *t, pid_t pid);
/* Is it one that was there before this daemon? */
bool restore_expects(struct tenant *t, pid_t pid);
/* The tenant ends: nobody is expected there any more. */
void restore_forget(struct tenant *t);
/* Where nobody is expected any more asks are answered from now on. */
void restore_release(struct daemon *d);
