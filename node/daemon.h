/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What meted consists of. One loop, one thread; everything hangs off struct daemon, which main()
 * owns. The parts know each other's structs: they are one program.
 *
 *	book.c     does what core/ledger.h decides; keeps the tenant pages' figures
 *	measure.c  when core/residual.h's machines measure, and with what
 *	drift.c	   time as it is charged beside time as the driver says
 *	watch.c    guests that say nothing are looked at from time to time
 *	prices.c   what a context is thought to take
 *	tenant.c   tenants: socket, page, life
 *	gate.c     their gates
 *	schedule.c whose turn it is
 *	flow.c     whose connections are heard next, and how much they may want
 *	caller.c   connections to a tenant's socket: who calls, HELLO
 *	guest.c    guests, that is processes: they come, are away, come back, end
 *	words.c    what a guest says, and is answered
 *	admin.c    the CLI's connections
 *	reserve.c  devices that `mete pick` gave out
 *	restore.c  the journal's records of all this, and coming back from them
 *	past.c     what the journal's records come to
 *	record.c   how a record is written
 *	process.c  which process a number means
 */
#pragma once

#include <stdbool.h>

#include "base/list.h"
#include "base/loop.h"
#include "base/place.h"
#include "core/ledger.h"
#include "core/residual.h"
#include "core/residual_price.h"
#include "core/share.h"
#include "core/turns.h"
#include "node/journal.h"
#include "node/nvml.h"
#include "node/options.h"
#include "node/page.h"
#include "node/peer.h"
#include "node/process.h"
#include "wire/page.h"

enum {
	DAEMON_DEVICES = 64,
	DAEMON_TENANTS = 1024,
	DAEMON_IDS = 256, /* lists of tenants by their ids' remainder */
	DAEMON_GUESTS = 2048,
	DAEMON_BUSY =
		256, /* processes on a device of which the time is compared with the driver's */
	DAEMON_GUESTS_OF_TENANT = 512,
	DAEMON_GUESTS_SURE = 4, /* of each tenant, whatever the others do */
	DAEMON_SEATS = DAEMON_GUESTS + DAEMON_TENANTS * DAEMON_GUESTS_SURE,
	DAEMON_SILENT_OF_TENANT = 64,	 /* connections that have not said HELLO */
	DAEMON_FILES_KEPT = 64,		 /* descriptors that guests never get */
	DAEMON_PAUSE_MS = 20,		 /* of a listener that must wait */
	DAEMON_STRANGERS_OF_TENANT = 32, /* connections that are told why they are not welcome */
	DAEMON_ASKS = 2048,		 /* waiting ones, beside those that are sure */
	DAEMON_ASKS_SURE = 4,		 /* of each tenant and device, whatever the others do */
	DAEMON_ASKS_OF_TENANT = 512,	 /* at most, on a device */
	DAEMON_ASKS_OF_GUEST = 64,
	DAEMON_PRICES = 16, /* models of devices, and versions of the driver that guests see */
};

struct daemon;
struct tenant;
struct guest;

/* Who had kernels on a device of late, as the driver says. */
struct device_busy {
	bool wanted; /* by who asks the worker, */
	bool known;  /* and what it found */
	uint32_t count;
	struct nvml_busy rows[DAEMON_BUSY];
};

struct device {
	const struct nvml_device *info;
	uint64_t reserve_bytes;
	uint32_t registered;	 /* tenants */
	uint64_t promised_bytes; /* the sum of their limits */
	uint32_t inhabited;	 /* tenants that have guests */
	struct list tenants;
	bool unshown; /* some of them know an earlier room, or number of tenants, than this one: */
	uint64_t shown_room;
	uint32_t shown_registered;
	uint64_t glanced_ns; /* when book_glance() looked last */
	struct turns_device turns;
	bool shown_governed; /* its tenants' guests were told that there are turns */
	struct device_busy busy;
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
	struct list link; /* of the device */
	struct tenant *tenant;
	uint32_t index; /* of the daemon's devices */
	struct ledger_account *account;
	uint64_t most_bytes;	/* what the journal says it may hold: never less than it holds */
	uint64_t highest_limit; /* likewise: that it ever had */
	uint32_t in_flux;	/* guests whose residual is being measured */
	uint64_t looked_ns;	/* when all its guests were looked at last */
	struct list held;	/* of the daemon: its asks wait for a look ... */
	uint64_t held_until;	/* ... which is over with this measurement */
	struct gate_wait waiting;
	uint64_t closing_ns; /* since when the gate is closing, if it is */
	bool coupled;	     /* it could not be closed, and has not been closed since */
	bool shut;	     /* by the test verb */
	bool barred;	     /* closed, as it is not its turn */
	bool draining;	     /* ... which core/turns waits for */
	bool loose;	     /* open all the same, as it could not be closed */
	bool seated;	     /* it takes part in turns: it has guests */
	struct turns_seat seat;
	bool busy_known; /* drift.c */
	uint32_t busy_milli, busy_charged_milli;
};

struct tenant {
	struct list link;    /* of the daemon */
	struct list same_id; /* likewise: of those with the same remainder */
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
	struct loop_timer pause; /* of the listener, */
	bool resting;		 /* until it is due */
	struct flow flow;
	struct flow_item calls; /* what the listener wants */
	struct list guests, callers;
	struct list processes; /* that keep it, see keeper.h */
	uint32_t guest_count, stranger_count, silent_count, keepers;
	uint32_t
		expected_count; /* guests of before this daemon that have not said what they hold */
	bool suspended;		/* its gates stay closed until its share is set */
	struct turns_tenant turns;
	bool leaving, kept;	    /* kept: by a connection, since this daemon started */
	uint64_t unknown_functions; /* of guests that have left */
	uint64_t joins;		    /* guests, since this daemon started */
	uint32_t devices;
	struct tenant_device device[]; /* so many */
};

struct guest_device {
	struct guest *guest;
	struct ledger_holder *holder;
	struct residual residual;
	struct list measure; /* of the daemon: to be measured, or being measured */
	struct list between, open;
	struct list answer; /* likewise: RESIDUAL_CHECK `check_id` is to be answered ... */
	bool excused;	    /* ... although it could not be measured */
	uint32_t check_id;
	bool in_flux; /* counted in its tenant's */
	bool stated, owes_drain;
	bool idle; /* it said IDLE, and not WANTS since; schedule.c */
	uint64_t seen_peak;
	uint64_t seen_moved; /* when it was measured last */
};

/* A connection to a tenant's socket. It may end, and its process connect again. */
struct caller {
	struct peer peer;
	struct list link; /* of the tenant; not linked: it is ending */
	struct tenant *tenant;
	struct guest *guest; /* NULL: it has not said HELLO, or a later connection took its place */
	struct process_identity process;
	int pidfd;
	bool silent;	       /* it is welcome, and has not said HELLO yet */
	const char *unwelcome; /* the answer to HELLO, whatever it says; NULL: welcome */
	uint32_t unwelcome_code;
};

/* A process, for as long as it lives (or until it has become another program): what it holds on the
 * device does not depend on whether it is connected. A tenant has it once. */
struct guest {
	struct list link; /* of the tenant; not linked: it has left */
	struct tenant *tenant;
	struct caller *caller; /* NULL: it is away */
	uint32_t id;
	pid_t pid;
	struct process_identity process;
	int pidfd;
	struct loop_watch death;
	struct page page;
	const struct wire_own_page *own; /* page.memory: believed within bounds only */
	char program[WIRE_TEXT_MAX + 1];
	uint32_t driver_version; /* as it says */
	uint64_t copy;		 /* likewise: which copy of the library in its process; 0: unsaid */
	bool complained;
	bool stated;   /* it has said what it holds: its page is about that, too */
	bool known;    /* it had done so on an earlier connection: it holds what it was granted */
	bool expected; /* it was there before this daemon, and has not done so yet */
	uint64_t settles; /* RESIDUAL_SETTLE messages that were heard on this connection */
	struct guest_device device[]; /* its tenant's */
};

struct price {
	const char *model; /* NULL: none */
	uint32_t driver_version;
	struct residual_price price;
};

struct daemon {
	struct loop loop;
	struct options options;
	char place[PLACE_MAX];
	char log_path[PLACE_MAX + 16]; /* where our log is, if it is a file of ours */
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
	struct loop_timer show_timer; /* while somebody has not seen a device's room */
	bool showing;		      /* it is armed */

	struct flows flows;
	struct flow admin_flow;
	struct list tenants, by_id[DAEMON_IDS];
	uint32_t tenant_count, guest_count, admin_count;
	uint32_t last_tenant, last_guest;
	int admin_fd;
	struct loop_watch admin_listener;
	struct loop_timer admin_pause;
	int spare_fd;  /* is closed for the one that there is no other descriptor for */
	int guest_fds; /* guests get no descriptor beyond this one */
	struct list admins;

	struct journal journal;
	struct loop_timer grace; /* after a start: who has not come back is not waited for longer */
	bool restoring;		 /* until then */

	struct loop_work measure;
	struct nvml_process *processes; /* the worker's, DAEMON_GUESTS for each device */
	uint32_t process_count[DAEMON_DEVICES];
	bool measured[DAEMON_DEVICES];
	uint64_t measurements; /* that have begun */
	struct list measure_wanted, measure_running;
	struct list measure_between; /* to be measured again after a while */
	struct list measure_open;    /* and once more before somebody is refused */
	struct list measure_answers;
	struct loop_timer measure_timer; /* while one is under way */
	bool measure_late;		 /* it takes too long: nobody waits for it */
	struct loop_timer again_timer;	 /* while the last measurement of a guest was inexact */
	uint64_t again_ms;
	struct loop_timer watch_timer; /* while something stirs on a device that is shared */
	bool watching;		       /* it is armed */
	uint32_t watch_left;	       /* looks, unless something stirs */
	struct list held;	       /* tenants' devices */
	struct price prices[DAEMON_PRICES];
	uint32_t next_price;

	struct turns turns;
	struct loop_alarm turns_alarm;
	bool scheduling;	      /* what is to be done is being asked for */
	struct loop_timer gate_timer; /* while a gate is closing */
	bool gating;		      /* it is armed */

	struct loop_timer watchdog;
	struct loop_signal terminate, interrupt;
	uint64_t complaint_tokens, complaint_ns;
	bool stopping;
};

/* daemon.c */
must_check int daemon_listen(const char *path, unsigned mode, int *ret_fd, struct fault *why);
/* How many descriptors there may be, and the spare one. */
void daemon_open_files(struct daemon *d);
/* A connection whose descriptor is at most `most`; or -EAGAIN; or why there is none. -EMFILE: who
 * called was told, if that was possible; the listener should rest for a while. */
must_check int daemon_accept(struct daemon *d, int listen_fd, int most);
/* Something left: a user's daemon ends with its last tenant. */
void daemon_maybe_end(struct daemon *d);
/* Whether one more line about a peer's misbehaviour may be written: they must not fill the log. */
bool daemon_may_complain(struct daemon *d);
/* The id of one of the daemon's devices by UUID or index; -ENOENT. */
must_check int daemon_find_device(struct daemon *d, const char *name, uint32_t *ret_index);

/* book.c */
must_check int book_open(struct daemon *d, struct fault *why);
void book_close(struct daemon *d);
/* Does what the ledger wants done, and shows the new figures: to those whose own have changed at
 * once, a device's room to all of its tenants soon. After every event. */
void book_pump(struct daemon *d);
/* What a device has free. */
uint64_t book_room(const struct daemon *d, uint32_t device);
/* What its guests were granted and do not use. */
uint64_t book_credit(const struct daemon *d, uint32_t device);
/* For somebody who wants to see it: what all of a device's guests say; not more often than now and
 * then, however many want to. */
void book_glance(struct daemon *d, uint32_t device);
/* What the guests' pages say they allocated. */
void book_refresh_guest(struct guest *g);
void book_refresh_all(struct daemon *d);

/* drift.c: both ends of a measurement, and between them the worker. */
void drift_want(struct daemon *d);
void drift_ask(struct daemon *d);
void drift_seen(struct daemon *d);
void drift_row(const struct tenant_device *at, struct wire_tenant_row *ret_row);

/* measure.c */
must_check int measure_open(struct daemon *d);
void measure_close(struct daemon *d);
/* Tells the machine; measure_start() follows. */
void measure_say(struct guest_device *at, enum residual_verb verb, uint64_t bytes);
/* Its guest leaves. */
void measure_forget(struct guest_device *at);
/* Measures what is wanted, on the worker, unless a measurement is under way: then after it. */
void measure_start(struct daemon *d);
/* Asks for so much: where that would be refused, what the last measurements left open is measured
 * again, as who asks stands still. The answer waits for it, see ledger_unsettled(). */
void measure_asker(struct guest_device *at, uint64_t bytes);
/* Measures it, and then answers RESIDUAL_CHECK `id`: has its tenant more than it may? */
void measure_check(struct guest_device *at, uint32_t id);
/* Measures everybody who has said what it holds. admin_measured() follows, up to RESIDUAL_ROUNDS
 * times. */
void measure_all(struct daemon *d);
/* Whether figures that are being measured are worth waiting for. */
bool measure_under_way(const struct daemon *d);

/* watch.c */
must_check int watch_open(struct daemon *d);
void watch_close(struct daemon *d);
/* Something was heard of one of the tenant's guests, or has changed: they are looked at for a
 * while. */
void watch_stirred(struct tenant *t);
/* Asks for memory: its answer waits for a look, if the last one is too long ago. */
void watch_asker(struct guest_device *at);
/* So many measurements have ended. */
void watch_looked(struct daemon *d, uint64_t measurements);

/* prices.c */
must_check uint64_t prices_context(struct daemon *d, const struct guest_device *at);
void prices_learn(struct daemon *d, const struct guest_device *at, uint64_t bytes);

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
/* The figures of one of its devices; tenant_show_share(): what its share says beside that. */
void tenant_show(struct tenant *t, uint32_t device);
void tenant_show_share(struct tenant *t);

/* gate.c */
must_check int gate_open(struct daemon *d);
void gate_close(struct daemon *d);
/* Opens or closes the gate as `barred`, `shut` and `suspended` say. */
void tenant_gate_apply(struct tenant *t, uint32_t device);
/* The test verb: changes the gate; `wait` is answered DONE when every guest has drained, or refused
 * when one cannot: then the gate is open again, and the tenant coupled. */
void tenant_gate(struct tenant *t, uint32_t device, bool open, const struct gate_wait *wait);
/* A guest drained, joined or left: perhaps that was the last that a close waited for. */
void tenant_gate_check(struct tenant *t, uint32_t device);
/* An admin connection is gone: nobody is to be answered there. */
void tenant_forget_peer(struct tenant *t, const struct peer *peer);

/* schedule.c */
must_check int schedule_open(struct daemon *d);
void schedule_close(struct daemon *d);
/* A new tenant; its share has changed. */
void schedule_tenant(struct tenant *t);
void schedule_set(struct tenant *t);
/* A guest has come or left. */
void schedule_guests(struct tenant *t);
/* It is connected anew: busy, until it says IDLE. */
void schedule_joined(struct guest *g);
/* What a guest says: WANTS and IDLE. */
void schedule_wants(struct guest *g, uint32_t device);
void schedule_idle(struct guest *g, uint32_t device);
/* What `mete ps` shows of its time. */
/* The clock of turns. */
uint64_t schedule_now(const struct daemon *d);
void schedule_row(struct tenant_device *at, struct wire_tenant_row *ret_row);
/* Every guest has acknowledged that the gate is closed. */
void schedule_drained(struct tenant_device *at);

/* caller.c */
/* -EMFILE: see daemon_accept(). */
must_check int caller_accept(struct tenant *t);
/* Answers, and has no more to do with the connection. */
void caller_dismiss(struct caller *c, uint32_t id, uint32_t code, const char *reason);
void caller_close(struct caller *c);

/* guest.c */
/* Who has said a HELLO that is understood: the guest that it is, new or known, is connected by `c`
 * from now on. 0; -ENOSPC, -ENOMEM, ...: there is no room for it. */
must_check int guest_join(struct caller *c, const struct wire_hello *hello,
			  struct guest **ret_guest);
/* Does another copy of the library serve the process that calls? Each would state an inventory of
 * its own, and what the other one was granted would be in no book. */
bool guest_is_another(const struct caller *c, const struct wire_hello *hello);
/* A process that was there before this daemon was: it must say what it holds, or end. `copy` is of
 * the program that it ran then. */
void guest_expect(struct tenant *t, const struct process_identity *was, uint64_t copy);
/* The grace is over: who did not come back is charged what can be measured of it. */
void guest_miss(struct guest *g);
/* It has said what it holds; all that follows is about that. */
void guest_stated(struct guest *g);
/* Its connection has ended. It holds what it held, unless the process has. */
void guest_away(struct guest *g, const char *reason);
/* It has left: everything that it held is given back. */
void guest_leave(struct guest *g, const char *reason);
bool guest_is_known(const struct tenant *t, const struct process_identity *process);
/* To where it is connected; nowhere while it is away: it states what it holds when it is back. */
void guest_send(struct guest *g, const struct wire_message *message);
void guest_done(struct guest *g, uint32_t id, uint64_t value);
void guest_refuse(struct guest *g, uint32_t id, uint32_t code, const char *format, ...)
	printf_like(4, 5);
void guest_tell_gate(struct guest *g, uint32_t device);

/* words.c */
void words_heard(struct guest *g, const struct wire_message *message);
/* The answers to its asks. */
void words_answer(struct guest *g, const struct ledger_action *action);

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
void restore_held(struct tenant *t, uint32_t device, uint64_t held_bytes,
		  const struct ledger_sums *sums);
void restore_guest_gone(struct guest *g);
/* A device was given to a picker, or given back. */
void restore_reserved(struct daemon *d, uint32_t device);
/* Where nobody is expected any more asks are answered from now on. book_pump() follows. */
void restore_release(struct tenant *t);
